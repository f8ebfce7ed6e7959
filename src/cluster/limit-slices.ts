// The store of limits that gateways share: one hash for each key and each period of a budget, with a field for each gateway, and one
// Lua script that answers many claims in one call. What is claimed and when it lapses is said in `billing/limits/slice-manager.ts`.
//
// A call has at most 128 keys and arguments of 0.4 KiB each; its time is that of the keys, times the gateways that share each. Numbers
// are 64-bit floats (little endian), dates milliseconds of the engine's TIME.

import type { SliceClaim, SliceGrant, SliceStore } from '../billing/index.ts';
import { SLICE_LEASE_MS } from '../billing/main-thread.ts';
import { defineScript } from './cluster-service.ts';
import type { ClusterLink, Script } from './link.ts';

/** Requests and tokens count for so long in their window, at most. */
const WINDOW_MS = 62_000;

/** What a gateway has spent since its last reading of the ledger counts so long after its lease: others have read it then. */
const BUDGET_GRACE_MS = 15_000;

/**
 * The largest sum of the ledger that a gateway has read counts so long: by then all have read it, also where they have 65,536 budgets and
 * read 6,000 a minute of those without traffic.
 */
const LEDGER_MS = 900_000;

const TTL_MS: number = SLICE_LEASE_MS + WINDOW_MS + 3000;

/** Gateways that have left stay in a hash until their slices lapse; one with more fields is none that gateways have written. */
const MOST_FIELDS = 1024;

/** Stands for no limit. */
const UNLIMITED: number = 2 ** 53;

/**
 * KEYS: one for each claim. ARGV: the gateway, then a claim for each key. Answers with TIME in ms and a string for each claim.
 *
 * Field of a key: sequence, end of the lease, quota of running, requests, tokens; running; then parts of the window: when they leave it,
 * requests, tokens. Field of a budget: sequence, end of the lease, quota, ledger, used. The field `ledger` of a budget is that of a gateway
 * which has nothing but a sum of the ledger.
 *
 * While the lease holds, the quota counts. Afterwards parts of the window count until they leave it, and the slice as if it had been used
 * at the end of the lease: for a gateway that is connected, which may stand still and come back. The engine closes the connection of a process
 * that has ended: the slice of such a one ends with its lease, whatever it admitted since its last claim.
 */
export const LIMIT_SLICES: Script = defineScript(`
local LEASE, WINDOW, GRACE, TTL, UNLIMITED = ${SLICE_LEASE_MS}, ${WINDOW_MS}, ${BUDGET_GRACE_MS}, ${TTL_MS}, ${UNLIMITED}
local LEDGER, MOST_FIELDS = ${LEDGER_MS}, ${MOST_FIELDS}
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local holder = ARGV[1]
local formats = {}

local function numbers(text)
  local count = math.floor(#text / 8)
  local format = formats[count]
  if not format then
    format = '<' .. string.rep('d', count)
    formats[count] = format
  end
  local list = { struct.unpack(format, text) }
  -- The last one is a position in the text.
  list[#list] = nil
  return list
end

local function pack(list)
  local format = formats[#list]
  if not format then
    format = '<' .. string.rep('d', #list)
    formats[#list] = format
  end
  return struct.pack(format, unpack(list))
end

-- The fields of a hash that are records of this form, as a list of holder and record. Whatever else is there is removed: one key that
-- somebody has overwritten must not fail the claims of all others.
local function records(name, least, step)
  local count = redis.pcall('HLEN', name)
  if type(count) ~= 'number' or count > MOST_FIELDS then
    redis.call('DEL', name)
    return {}
  end
  local fields, list = redis.call('HGETALL', name), {}
  for at = 1, #fields, 2 do
    local text = fields[at + 1]
    local record = #text % 8 == 0 and #text >= 8 * least and #text <= 8 * 64 and (#text / 8 - least) % step == 0 and numbers(text)
    for each = 1, record and #record or 0 do
      -- NaN is neither.
      if not (record[each] >= 0 and record[each] < math.huge) then record = false break end
    end
    if record then
      list[#list + 1] = fields[at]
      list[#list + 1] = record
    else
      redis.call('HDEL', name, fields[at])
    end
  end
  return list
end

local function grant(limit, others, base, need, want)
  if limit < 0 then return UNLIMITED end
  local free = math.max(limit - others - base, 0)
  local given = math.min(free, need)
  return base + given + math.min(want, math.floor((free - given) / 4))
end

-- Whether a gateway subscribes to its channel. Where the engine does not say, it may.
local connected = {}
local function isConnected(name, gateway)
  if connected[gateway] == nil then
    local channel = string.match(name, '^(.*)limit:[^:]*$') .. 'to:' .. gateway
    local answer = redis.pcall('PUBSUB', 'NUMSUB', channel)
    connected[gateway] = type(answer) ~= 'table' or answer[2] ~= 0
  end
  return connected[gateway]
end

local function add(parts, leaves, requests, tokens)
  if requests > 0 or tokens > 0 then parts[#parts + 1] = { leaves, requests, tokens } end
end

local function key(name, claim)
  local fields = records(name, 6, 3)
  local others, spare, parts, isLeased = { 0, 0, 0 }, { 0, 0, 0 }, {}, false
  for at = 1, #fields, 2 do
    local field = fields[at + 1]
    local till = field[2]
    if fields[at] == holder then
      if field[1] >= claim[2] then return '' end
      isLeased = now < till
    else
      local requests, tokens, counts = 0, 0, false
      for part = 7, #field, 3 do
        requests = requests + field[part + 1]
        tokens = tokens + field[part + 2]
        if field[part] > now then
          counts = true
          add(parts, field[part], field[part + 1], field[part + 2])
          if now >= till then
            others[2] = others[2] + field[part + 1]
            others[3] = others[3] + field[part + 2]
          end
        end
      end
      local slack = { math.max(field[4] - requests, 0), math.max(field[5] - tokens, 0) }
      if now < till then
        counts = true
        others[1] = others[1] + field[3]
        others[2] = others[2] + field[4]
        others[3] = others[3] + field[5]
        spare[1] = spare[1] + math.max(field[3] - field[6], 0)
        spare[2] = spare[2] + slack[1]
        spare[3] = spare[3] + slack[2]
      elseif now < till + WINDOW and (slack[1] > 0 or slack[2] > 0) and isConnected(name, fields[at]) then
        counts = true
        others[2] = others[2] + slack[1]
        others[3] = others[3] + slack[2]
        add(parts, till + WINDOW, slack[1], slack[2])
      end
      if not counts then redis.call('HDEL', name, fields[at]) end
    end
  end
  local quota, missing = {}, { 0, 0, 0 }
  for resource = 1, 3 do
    local from = 4 + (resource - 1) * 6
    local limit, used, keep, need, want, first = unpack(claim, from, from + 5)
    local base = isLeased and math.max(keep, used) or used
    if limit < 0 then base = used end
    quota[resource] = grant(limit, others[resource], base, need, want)
    if limit >= 0 then missing[resource] = used + first + others[resource] - limit end
  end
  local record = {
    claim[2], claim[3] == 1 and now or now + LEASE,
    math.min(quota[1], UNLIMITED), quota[2], quota[3], claim[5],
  }
  -- What no limit counts has no slice.
  if claim[4] < 0 then record[3] = claim[5] end
  if claim[10] < 0 then record[4] = claim[11] end
  if claim[16] < 0 then record[5] = claim[17] end
  for part = 22, #claim, 3 do
    record[#record + 1] = now + claim[part]
    record[#record + 1] = claim[part + 1]
    record[#record + 1] = claim[part + 2]
    add(parts, now + claim[part], claim[part + 1], claim[part + 2])
  end
  if claim[3] == 1 and #record == 6 then
    redis.call('HDEL', name, holder)
  else
    redis.call('HSET', name, holder, pack(record))
    redis.call('PEXPIRE', name, TTL)
  end
  local retry, reset = 0, 0
  if missing[2] > 0 or missing[3] > 0 then
    table.sort(parts, function(a, b) return a[1] < b[1] end)
    for _, part in ipairs(parts) do
      if missing[2] > 0 or missing[3] > 0 then retry = part[1] - now end
      missing[2] = missing[2] - part[2]
      missing[3] = missing[3] - part[3]
      reset = part[1] - now
    end
  end
  return pack({
    quota[1], quota[2], quota[3], others[1], others[2], others[3], spare[1], spare[2], spare[3], retry, reset,
  })
end

local function budget(name, claim)
  local fields = records(name, 5, 1)
  local others, spare, ledger, read, isLeased = 0, 0, claim[10], 0, false
  for at = 1, #fields, 2 do
    local field = fields[at + 1]
    if fields[at] == holder then
      if field[1] >= claim[2] then return '' end
      isLeased = now < field[2]
    elseif now < field[2] + GRACE then
      others = others + field[3]
      ledger = math.max(ledger, field[4])
      if fields[at] == 'ledger' then read = field[4] end
      if now < field[2] then spare = spare + math.max(field[3] - field[5], 0) end
    else
      redis.call('HDEL', name, fields[at])
    end
  end
  local limit, used, keep, need, want = unpack(claim, 4, 8)
  used = math.max(used, 0)
  local base = isLeased and math.max(keep, used) or used
  local quota = grant(limit, others + ledger, base, need, want)
  -- What has been spent is in the sum of the ledger that this gateway has read: it stays until others have read it too.
  redis.call('HSET', name, holder, pack({ claim[2], claim[3] == 1 and now or now + LEASE, quota, claim[10], used }))
  if claim[10] > 0 and claim[10] >= read then
    redis.call('HSET', name, 'ledger', pack({ 0, now + LEDGER - GRACE, 0, claim[10], 0 }))
  end
  redis.call('PEXPIRE', name, LEDGER)
  return pack({ quota, others, spare, 0, 0 })
end

local answers = { string.format('%.0f', now) }
for at = 1, #KEYS do
  local claim = numbers(ARGV[at + 1])
  if claim[1] == 0 then answers[at + 1] = key(KEYS[at], claim) else answers[at + 1] = budget(KEYS[at], claim) end
end
return answers
`);

/** A claim as the script reads it. */
export function encodeClaim({ isQuiet, kind, ledger, parts, resources, sequence }: SliceClaim): Buffer {
  const numbers = [kind === 'key' ? 0 : 1, sequence, isQuiet ? 1 : 0];
  for (const { first, keep, limit, need, used, want } of resources) numbers.push(limit, used, keep, need, want, first);
  if (kind === 'budget') numbers.push(ledger);
  for (const { leavesMs, requests, tokens } of parts) numbers.push(leavesMs, requests, tokens);
  const bytes = Buffer.allocUnsafe(numbers.length * 8);
  for (let at = 0; at < numbers.length; at++) bytes.writeDoubleLE(numbers[at] as number, at * 8);
  return bytes;
}

/** An answer of the script. Null: a later claim was there first. Throws for anything else than an answer to this claim. */
export function decodeGrant(answer: unknown, { resources }: SliceClaim): SliceGrant | null {
  if (!Buffer.isBuffer(answer)) throw new TypeError('the engine answers a claim with something else than a string');
  if (answer.length === 0) return null;
  const count = resources.length;
  if (answer.length !== (3 * count + 2) * 8) throw new TypeError('the engine answers a claim with a wrong length');
  const numbers = Array.from({ length: 3 * count + 2 }, (_, at) => answer.readDoubleLE(at * 8));
  if (numbers.some((each) => !Number.isFinite(each) || each < 0)) throw new TypeError('the engine grants no number');
  return {
    quota: numbers.slice(0, count),
    others: numbers.slice(count, 2 * count),
    spare: numbers.slice(2 * count, 3 * count),
    retryMs: numbers[3 * count] as number,
    resetMs: numbers[3 * count + 1] as number,
  };
}

const ID_BYTES = 16;

/** The store behind a link. */
export function limitSlices(link: ClusterLink): SliceStore {
  return {
    async exchange(claims, timeoutMs) {
      // An engine that is full or read-only answers scripts that write nothing.
      if (claims.length === 0) await link.command(['SET', link.key('limit', 'probe'), '', 'PX', '1000'], timeoutMs);
      const keys = claims.map(({ id }) => link.key('limit', id));
      const answer = await link.script(LIMIT_SLICES, keys, [link.instance, ...claims.map(encodeClaim)], timeoutMs);
      if (!Array.isArray(answer) || answer.length !== claims.length + 1) {
        throw new TypeError('the engine does not answer all claims');
      }
      return claims.map((claim, at) => decodeGrant(answer[at + 1], claim));
    },
    recall(ids) {
      link.publish('limits', Buffer.from(ids.join(''), 'hex'));
    },
  };
}

/** What limits need of a link: called for recalls of siblings, and when the engine is lost or found. */
export interface SharedLimits {
  share(store: SliceStore | null): void;
  lose(reason: string): void;
  recall(ids: readonly string[]): void;
}

/** Shares limits through a link while it is enabled. */
export function shareLimits(link: ClusterLink, limits: SharedLimits): void {
  const store = limitSlices(link);
  link.on('limits', (body) => {
    if (body.length === 0 || body.length % ID_BYTES !== 0) throw new TypeError('a recall of limits has a wrong length');
    const ids: string[] = [];
    for (let at = 0; at < body.length; at += ID_BYTES) ids.push(body.toString('hex', at, at + ID_BYTES));
    limits.recall(ids);
  });
  link.onChange((event) => {
    if (event.type === 'connected') limits.share(store);
    else if (event.type === 'lost') limits.lose(event.reason);
    else if (event.type === 'disabled') limits.share(null);
  });
  if (link.connected) limits.share(store);
}
