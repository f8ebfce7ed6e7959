// Drains, ejections and returns of CRNs by operators, for all gateways and for those that start later: a hash in the engine, where the
// last act on a CRN wins by the engine's time. While the engine is away an act holds here, and is told when it is back.

import * as z from 'zod/mini';
import type { Clock, TimerHandle } from '../actor/index.ts';
import type { CrnOverride, OverrideResult } from '../routing/index.ts';
import type { Log } from '../telemetry/log.ts';
import { messageOf } from '../errors.ts';
import { defineScript } from './cluster-service.ts';
import type { ClusterLink } from './link.ts';
import { parseJson } from '../config/json-text.ts';

/** The hash is read again at this interval, which also keeps it from expiring: a lost message is repaired, not noticed. */
const SYNC_MS = 30_000;
/** How long acts outlive the last gateway. */
const TTL_MS: number = 7 * 86_400_000;
/** Most CRNs with an act: four times as many as a gateway has cells for. */
const MOST_ACTS = 4096;
/** Longest URL of an act, and longest record of one, in characters. */
const MAX_URL = 2048;
const MAX_RECORD = 512;
const ANSWER_MS = 1000;
/** An ejection without an end lasts as long as the next one of the CRN would: it is not taken over later than this. */
const OPEN_EJECTION_MS = 10_000;
/** The time of the engine is known from its last answer, to within the time that this took. */
const SKEW_MS = 2000;
/** Returns and ended ejections are kept so long: a gateway that was cut off for longer may repeat an older act. */
const KEPT_MS: number = 86_400_000;

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
`;

/**
 * KEYS: hash. ARGV: URL, record, its time in us or '', its age in us, TTL in ms, most entries. Answers: now, the entry that holds. An engine that
 * was replaced may have an earlier time: nothing is dated in its future.
 */
const WRITE = defineScript(`${NOW}
local stamp = math.min(tonumber(ARGV[3]) or (now - tonumber(ARGV[4])), now)
local known = redis.call('HGET', KEYS[1], ARGV[1])
if known then
  local at = tonumber(string.match(known, '^(%d+) '))
  if at and at > stamp and at <= now then return { now, known } end
elseif redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[6]) then
  return redis.error_reply('FULL too many acts')
end
local entry = string.format('%.0f', stamp) .. ' ' .. ARGV[2]
redis.call('HSET', KEYS[1], ARGV[1], entry)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return { now, entry }
`);

/** KEYS: hash. ARGV: TTL in ms. Answers: now, URLs and entries. */
const READ = defineScript(`${NOW}
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return { now, redis.call('HGETALL', KEYS[1]) }
`);

/** KEYS: hash. ARGV: URLs and the entries to remove, where they are still the same. */
const PRUNE = defineScript(`
for at = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then redis.call('HDEL', KEYS[1], ARGV[at]) end
end
return 1
`);

const RECORD = z.object({
  action: z.enum(['drain', 'eject', 'return']),
  forMs: z.nullable(z.number().check(z.minimum(1), z.maximum(86_400_000))),
  by: z.string().check(z.regex(/^[\x21-\x7e]{1,255}$/)),
});

const MESSAGE = z.object({
  url: z.string().check(z.minLength(1), z.maxLength(MAX_URL)),
  entry: z.string(),
});

/** The last act on a CRN. */
interface Act {
  readonly override: CrnOverride;
  /** Name of the operator. */
  readonly by: string;
  /** Time of the engine in microseconds; null while the engine does not know of it. */
  readonly stampUs: number | null;
  /** When it was carried out or heard of, by the local clock. */
  readonly notedMs: number;
}

export interface OperatorActsDeps {
  readonly link: ClusterLink;
  readonly clock: Clock;
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** Carries an act out in this gateway. */
  readonly apply: (url: string, override: CrnOverride) => Promise<OverrideResult>;
}

/** What became of an operator's act. */
export interface ActResult {
  readonly result: OverrideResult;
  /** Whether the other gateways have been told; false: they are when the engine is back. Null: there are none by the settings. */
  readonly told: boolean | null;
}

export class OperatorActs {
  readonly #deps: OperatorActsDeps;
  readonly #acts = new Map<string, Act>();
  #crns: ReadonlySet<string> = new Set();
  #timer: TimerHandle | null = null;
  #syncing: Promise<void> | null = null;
  /** The hash may have changed since it is being read. */
  #isStale = false;
  /** Time of the engine, in microseconds, when the local clock was 0; null before it has answered. */
  #engineOriginUs: number | null = null;
  readonly #settled = Promise.withResolvers<void>();

  constructor(deps: OperatorActsDeps) {
    this.#deps = deps;
    deps.link.on('acts', (body) => this.#heard(body));
    deps.link.onChange(({ type }) => {
      // Messages of a sibling that came before its first heartbeat were dropped: what they said is read.
      if (type === 'connected' || type === 'joined') this.#syncAgain();
      if (type === 'lost' || type === 'disabled') this.#stop();
    });
  }

  /** Resolves when the acts of other gateways hold here, or cannot be had now. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** The engine cannot be reached: a gateway that starts goes on without the acts of others. */
  giveUp(): void {
    this.#settled.resolve();
  }

  /** Carries an act of an operator out, here and everywhere. Rejects when the CRN's actor does not answer. */
  async act(url: string, override: CrnOverride, by: string): Promise<ActResult> {
    const { clock, link } = this.#deps;
    const result = await this.#deps.apply(url, override);
    if (result !== 'done') return { result, told: null };
    this.#note(url, { override, by, stampUs: null, notedMs: clock.now() });
    if (!link.enabled) return { result, told: null };
    return { result, told: await this.#tell(url).catch(() => false) };
  }

  /** The CRNs of this gateway have changed: acts hold for those that are new. */
  crnsChanged(urls: ReadonlySet<string>): void {
    const before = this.#crns;
    this.#crns = urls;
    for (const url of urls) {
      const act = this.#acts.get(url);
      if (act === undefined || before.has(url) || act.override.action === 'return') continue;
      const { override } = act;
      if (override.action === 'drain') void this.#apply(url, act, override);
      else if (override.action === 'eject' && override.forMs !== null) {
        const leftMs = override.forMs - (this.#deps.clock.now() - act.notedMs);
        if (leftMs >= 1) void this.#apply(url, act, { action: 'eject', forMs: leftMs });
      }
    }
  }

  close(): void {
    this.#stop();
    this.#settled.resolve();
  }

  #stop(): void {
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  #key(): string {
    return this.#deps.link.key('acts');
  }

  #note(url: string, act: Act): void {
    this.#acts.delete(url);
    if (this.#acts.size >= MOST_ACTS) {
      const [oldest] = this.#acts.keys();
      if (oldest !== undefined) this.#acts.delete(oldest);
    }
    this.#acts.set(url, act);
  }

  /** Writes the act on a CRN to the engine and tells the siblings; false when a later one of a sibling holds. */
  async #tell(url: string): Promise<boolean> {
    const { clock, link } = this.#deps;
    const act = this.#acts.get(url);
    if (act === undefined) return false;
    const { by, notedMs, override, stampUs } = act;
    const record = JSON.stringify({
      action: override.action,
      forMs: override.action === 'eject' ? override.forMs : null,
      by,
    });
    const ageUs = Math.max(0, Math.round((clock.now() - notedMs) * 1000));
    const args = [url, record, stampUs === null ? '' : String(stampUs), String(ageUs), String(TTL_MS)];
    const answer = await link.script(WRITE, [this.#key()], [...args, String(MOST_ACTS)], ANSWER_MS);
    const [nowUs, entry] = answer as [number, Buffer];
    const held = readEntry(String(entry));
    if (this.#acts.get(url) === act) this.#acts.set(url, { ...act, stampUs: held.stampUs });
    link.publish('acts', Buffer.from(JSON.stringify({ url, entry: String(entry) })));
    if (JSON.stringify(held.record) === record) return true;
    this.#take(url, held, nowUs, true);
    return false;
  }

  #heard(body: Buffer): void {
    if (body.length > 2 * MAX_URL + MAX_RECORD) throw new Error('the message is too large');
    const { entry, url } = MESSAGE.parse(parseJson(body.toString('utf8')));
    const act = readEntry(entry);
    // Before the engine has answered, the hash is still to be read, and has this act.
    if (this.#engineOriginUs === null) return;
    const nowUs = this.#engineOriginUs + this.#deps.clock.now() * 1000;
    if (act.stampUs > nowUs + SKEW_MS * 1000) throw new Error('the act is dated in the future of the engine');
    if (this.#acts.get(url)?.stampUs === null) this.#syncAgain();
    else this.#take(url, act, nowUs, false);
  }

  /**
   * Takes an act over that is later than the one that is known. Which one is, of those that the engine does not know of, it says when it
   * is told.
   */
  #take(url: string, { record, stampUs }: Entry, nowUs: number, isForced: boolean): void {
    const { clock } = this.#deps;
    const known = this.#acts.get(url);
    const ageMs = Math.max(0, (nowUs - stampUs) / 1000);
    if (!isForced && known !== undefined && (known.stampUs === null || known.stampUs >= stampUs)) return;
    const override = overrideOf(record);
    const act: Act = { override, by: record.by, stampUs, notedMs: clock.now() - ageMs };
    this.#note(url, act);
    if (!this.#crns.has(url)) return;
    if (override.action === 'eject') {
      const leftMs = (override.forMs ?? OPEN_EJECTION_MS) - ageMs;
      if (leftMs < 1) return;
      void this.#apply(url, act, { action: 'eject', forMs: override.forMs === null ? null : leftMs });
    } else if (override.action === 'drain' || known !== undefined || ageMs < OPEN_EJECTION_MS) {
      void this.#apply(url, act, override);
    }
  }

  async #apply(url: string, { by }: Act, override: CrnOverride): Promise<void> {
    const { apply, log } = this.#deps;
    log.info({ crn: url, action: override.action, actor: by }, 'act of an operator taken over from a sibling');
    try {
      await apply(url, override);
    } catch (error) {
      const problem = messageOf(error);
      log.warn({ crn: url, action: override.action, problem }, 'an act of an operator could not be taken over');
    }
  }

  /** Reads the hash after what is being read now. */
  #syncAgain(): void {
    if (this.#syncing !== null) this.#isStale = true;
    else if (this.#deps.link.connected) void this.#sync();
  }

  #sync(): Promise<void> {
    this.#isStale = false;
    this.#syncing ??= this.#readAll()
      .catch((error: unknown) => {
        const problem = messageOf(error);
        if (this.#deps.link.connected) this.#deps.log.warn({ problem }, 'acts of operators could not be read or told');
      })
      .finally(() => {
        this.#syncing = null;
        this.#settled.resolve();
        this.#stop();
        if (!this.#deps.link.connected) return;
        if (this.#isStale) void this.#sync();
        else this.#timer = this.#deps.clock.setTimeout(() => void this.#sync(), SYNC_MS);
      });
    return this.#syncing;
  }

  async #readAll(): Promise<void> {
    const { link } = this.#deps;
    const answer = await link.script(READ, [this.#key()], [String(TTL_MS)], ANSWER_MS);
    const [nowUs, flat] = answer as [number, Buffer[]];
    this.#engineOriginUs = nowUs - this.#deps.clock.now() * 1000;
    const there = new Map<string, number>();
    const ended: string[] = [];
    for (let at = 0; at + 1 < flat.length && at < 2 * MOST_ACTS; at += 2) {
      const [url, text] = [String(flat[at]), String(flat[at + 1])];
      try {
        const entry = readEntry(text);
        if (url.length > MAX_URL || entry.stampUs > nowUs) throw new Error('is none of ours');
        there.set(url, entry.stampUs);
        if (isEnded(entry.record.action, entry.stampUs, nowUs)) ended.push(url, text);
        this.#take(url, entry, nowUs, false);
      } catch {
        ended.push(url, text);
      }
    }
    if (ended.length > 0) await link.script(PRUNE, [this.#key()], ended, ANSWER_MS);
    for (const [url, { override, stampUs }] of [...this.#acts]) {
      // A sibling may have removed it first: told again, it would stay for good.
      if (stampUs !== null && isEnded(override.action, stampUs, nowUs)) this.#acts.delete(url);
      else if (stampUs === null || stampUs > (there.get(url) ?? -1)) await this.#tell(url);
    }
  }
}

interface Entry {
  readonly stampUs: number;
  readonly record: z.infer<typeof RECORD>;
}

function isEnded(action: CrnOverride['action'], stampUs: number, nowUs: number): boolean {
  return action !== 'drain' && nowUs - stampUs > KEPT_MS * 1000;
}

/** Throws when it is no entry. */
function readEntry(text: string): Entry {
  const [, stamp = '', json = ''] = text.length > MAX_RECORD ? [] : (/^(\d{1,16}) (\{.*\})$/.exec(text) ?? []);
  const stampUs = Number(stamp);
  if (json === '' || !Number.isSafeInteger(stampUs)) throw new Error('is no act');
  return { stampUs, record: RECORD.parse(parseJson(json)) };
}

function overrideOf({ action, forMs }: Entry['record']): CrnOverride {
  return action === 'eject' ? { action, forMs } : { action };
}
