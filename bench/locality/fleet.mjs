// A fleet of model servers in virtual time, for comparing policies of choice. Each server has a prefix cache of token blocks with the semantics
// of vLLM: a prompt hits the whole leading blocks that are there when its prefill begins, blocks in use are never evicted, and those of
// an answer that has ended are freed tail first. Prefill is first come, first served, in chunks, and shares its steps with decoding. The
// same requests and the same policy give the same figures: there is no clock, and nothing is random.

import { BLOCK_TOKENS } from './traces.mjs';

export { BLOCK_TOKENS };

/** A server like one accelerator with a model of about 30 billion parameters. Times in milliseconds. */
export const SERVER = {
  /** Prefill of one token. */
  prefillMs: 0.1,
  /** What a step takes whatever is in it. */
  stepMs: 6,
  /** Decoding of one sequence by one token. */
  decodeMs: 0.25,
  /** Tokens of prefill in one step at most. */
  chunkTokens: 2048,
};

/** Blocks in the order in which they will be evicted: an LRU list of those that nobody uses, and the number of users of the others. */
class BlockCache {
  #capacity;
  #users = new Map();
  #free = new Set();
  /** Blocks without an id: partial ones, and answers. */
  #unnamed = 0;

  constructor(capacity) {
    this.#capacity = capacity;
  }

  has(id) {
    return this.#users.has(id) || this.#free.has(id);
  }

  /** Leading blocks of `ids` that are there. */
  matched(ids, count) {
    let matched = 0;
    while (matched < count && this.has(ids[matched])) matched++;
    return matched;
  }

  /** Takes `count` named blocks and `unnamed` others into use, when they fit; returns how many were there, or -1. */
  take(ids, count, unnamed) {
    const matched = this.matched(ids, count);
    let reused = 0;
    for (let i = 0; i < matched; i++) if (this.#free.has(ids[i])) reused++;
    const wanted = count - matched + unnamed;
    const inUse = this.#users.size + this.#unnamed + reused;
    if (inUse > 0 && inUse + wanted > this.#capacity) return -1;
    for (let i = 0; i < matched; i++) this.#use(ids[i]);
    const spare = this.#capacity - this.#users.size - this.#unnamed - this.#free.size;
    for (let left = wanted - spare; left > 0 && this.#free.size > 0; left--) {
      const [oldest] = this.#free;
      this.#free.delete(oldest);
    }
    for (let i = matched; i < count; i++) this.#use(ids[i]);
    this.#unnamed += unnamed;
    return matched;
  }

  release(ids, count, unnamed) {
    this.#unnamed -= unnamed;
    for (let i = count - 1; i >= 0; i--) {
      const id = ids[i];
      const users = this.#users.get(id) - 1;
      if (users > 0) {
        this.#users.set(id, users);
      } else {
        this.#users.delete(id);
        this.#free.add(id);
      }
    }
  }

  #use(id) {
    this.#free.delete(id);
    this.#users.set(id, (this.#users.get(id) ?? 0) + 1);
  }
}

/** One server. `work` of a request that waits or runs: what is left of its prefill and of its answer. */
export class Server {
  #queue = [];
  #decoding = [];
  /** The prefill at the head: its request has its blocks. */
  #head = null;
  #stepAtMs = 0;
  #stepMs = 0;
  #steps = 0;
  #chunk = 0;
  #finishing = [];
  #speed;
  cache;
  running = false;
  /** Milliseconds in which it computed something. */
  busyMs = 0;

  constructor(cacheBlocks, speed = SERVER) {
    this.cache = new BlockCache(cacheBlocks);
    this.#speed = speed;
  }

  /** Tokens that are to be prefilled before a new prompt is, by the true cache. */
  get backlogTokens() {
    let tokens = this.#head?.left ?? 0;
    for (const { request } of this.#queue)
      tokens += request.inputTokens - this.cache.matched(request.ids, request.whole) * BLOCK_TOKENS;
    return tokens;
  }

  get decoding() {
    return this.#decoding.length;
  }

  get requests() {
    return this.#queue.length + this.#decoding.length + (this.#head === null ? 0 : 1);
  }

  /** When the step ends that is under way. */
  get dueMs() {
    return this.#stepAtMs + this.#steps * this.#stepMs;
  }

  add(work, nowMs) {
    this.#queue.push(work);
    if (!this.running) {
      this.#begin(nowMs);
    } else if (this.#steps > 1) {
      // Only decoding: the new prompt joins at the next step.
      this.#steps = Math.max(1, Math.ceil((nowMs - this.#stepAtMs) / this.#stepMs));
    }
  }

  /** Ends the step that is due. Calls `onFirst` and `onEnd` with what has its first token, and what is complete. */
  finish(onFirst, onEnd) {
    const nowMs = this.dueMs;
    this.busyMs += this.#steps * this.#stepMs;
    const ended = [];
    for (const work of this.#decoding) {
      work.toDecode -= this.#steps;
      if (work.toDecode <= 0) ended.push(work);
    }
    if (ended.length > 0) this.#decoding = this.#decoding.filter((work) => work.toDecode > 0);
    for (const work of this.#finishing) {
      onFirst(work, nowMs);
      work.toDecode = work.request.outputTokens - 1;
      if (work.toDecode > 0) this.#decoding.push(work);
      else ended.push(work);
    }
    for (const work of ended) {
      this.cache.release(work.request.ids, work.request.whole, work.unnamed);
      onEnd(work, nowMs);
    }
    this.#begin(nowMs);
  }

  #begin(nowMs) {
    const { chunkTokens, decodeMs, prefillMs, stepMs } = this.#speed;
    let budget = chunkTokens;
    this.#finishing = [];
    while (budget > 0) {
      this.#head ??= this.#admit();
      const head = this.#head;
      if (head === null) break;
      const tokens = Math.min(budget, head.left);
      budget -= tokens;
      head.left -= tokens;
      if (head.left > 0) break;
      this.#finishing.push(head);
      this.#head = null;
    }
    this.#chunk = chunkTokens - budget;
    this.running = this.#chunk > 0 || this.#decoding.length > 0;
    if (!this.running) return;
    this.#stepAtMs = nowMs;
    this.#stepMs = stepMs + this.#chunk * prefillMs + this.#decoding.length * decodeMs;
    // Steps of nothing but decoding are all alike until one of the answers ends, or a prompt comes.
    this.#steps = this.#chunk > 0 ? 1 : Math.max(1, Math.min(...this.#decoding.map(({ toDecode }) => toDecode)));
    if (this.#chunk === 0 && this.#queue.length > 0) this.#steps = 1;
  }

  /** The next prompt, when its blocks fit. */
  #admit() {
    const work = this.#queue[0];
    if (work === undefined) return null;
    const { ids, inputTokens, outputTokens, whole } = work.request;
    const unnamed = Math.ceil((inputTokens + outputTokens) / BLOCK_TOKENS) - whole;
    const matched = this.cache.take(ids, whole, unnamed);
    if (matched < 0) return null;
    this.#queue.shift();
    work.unnamed = unnamed;
    // The last token is always computed, for the first one of the answer.
    work.cachedTokens = Math.min(matched * BLOCK_TOKENS, inputTokens - 1);
    work.left = inputTokens - work.cachedTokens;
    return work;
  }
}

/** A binary heap of ends of steps, of which a server may have several that do not count any more. Equal ones by the number of the server. */
class StepHeap {
  #entries = [];

  get size() {
    return this.#entries.length;
  }

  /** The earliest end. */
  get dueMs() {
    return this.#entries[0].dueMs;
  }

  push(dueMs, at) {
    const entries = this.#entries;
    let place = entries.length;
    const entry = { dueMs, at };
    while (place > 0) {
      const above = (place - 1) >> 1;
      if (!isEarlier(entry, entries[above])) break;
      entries[place] = entries[above];
      place = above;
    }
    entries[place] = entry;
  }

  pop() {
    const entries = this.#entries;
    const first = entries[0];
    const last = entries.pop();
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= entries.length) break;
      if (below + 1 < entries.length && isEarlier(entries[below + 1], entries[below])) below++;
      if (!isEarlier(entries[below], last)) break;
      entries[place] = entries[below];
      place = below;
    }
    if (entries.length > 0) entries[place] = last;
    return first;
  }
}

function isEarlier(one, other) {
  return one.dueMs < other.dueMs || (one.dueMs === other.dueMs && one.at < other.at);
}

/**
 * Sends requests (`{atMs, ids, inputTokens, outputTokens}`, in the order of their times) to a fleet, each where `policy` chooses. Returns shares of prompt tokens that
 * came from a cache, times to first token in milliseconds, and how evenly the servers worked.
 */
export function simulate(requests, { servers: count, cacheBlocks, speed = SERVER }, makePolicy) {
  const servers = Array.from({ length: count }, () => new Server(cacheBlocks, speed));
  const policy = makePolicy(servers, speed);
  const waits = [];
  let input = 0;
  let cached = 0;
  let lastMs = 0;
  const onFirst = (work, nowMs) => {
    waits.push(nowMs - work.request.atMs);
    input += work.request.inputTokens;
    cached += work.cachedTokens;
    policy.onFirst?.(work, nowMs);
  };
  const onEnd = (work, nowMs) => {
    lastMs = nowMs;
    policy.onEnd?.(work, nowMs);
  };
  // Steps by their ends, the earliest first. An entry whose server has changed its mind since is passed over.
  const steps = new StepHeap();
  const expect = (at) => {
    if (servers[at].running) steps.push(servers[at].dueMs, at);
  };
  const finishUntil = (untilMs) => {
    while (steps.size > 0 && steps.dueMs <= untilMs) {
      const { dueMs, at } = steps.pop();
      const server = servers[at];
      if (!server.running || server.dueMs !== dueMs) continue;
      server.finish(onFirst, onEnd);
      expect(at);
    }
  };
  for (const request of requests) {
    finishUntil(request.atMs);
    const server = policy.choose(request, request.atMs);
    const work = { request, server, left: 0, toDecode: 0, cachedTokens: 0, unnamed: 0, state: policy.state };
    servers[server].add(work, request.atMs);
    expect(server);
  }
  finishUntil(Infinity);
  waits.sort((a, b) => a - b);
  const at = (share) => waits[Math.min(waits.length - 1, Math.floor(waits.length * share))];
  const busy = servers.map(({ busyMs }) => busyMs);
  const mean = busy.reduce((a, b) => a + b, 0) / count;
  return {
    hitRate: cached / input,
    p50: at(0.5),
    p90: at(0.9),
    p99: at(0.99),
    mean: waits.reduce((a, b) => a + b, 0) / waits.length,
    imbalance: Math.max(...busy) / mean,
    utilisation: mean / lastMs,
    seconds: lastMs / 1000,
    picks: policy.picks,
    ...policy.report?.(),
  };
}
