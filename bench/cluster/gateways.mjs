// Several gateways in virtual time, as a policy of `../locality/fleet.mjs`: each has the gateway's own picker, block index, loads and feedback in memory of
// its own, and hears of the choices and backlogs of the others after a while, as through the engine of a cluster. Lag, loss, a cut, starts and
// deaths are given; what the engine would carry is counted. `../../dist` must be built. The same requests and options give the same figures, but
// for CPU times.

import { createSeededRandom } from '../../dist/src/actor/index.js';
import * as routing from '../../dist/src/routing/index.js';
import { createPlanes } from '../lib/picker-planes.mjs';
import { DEFAULTS } from '../locality/simulation.mjs';
import { BACKLOG_BYTES, ENTRY_BYTES, GROUP_BYTES, HASH_BYTES, HEARTBEAT_BYTES, wireBytes } from './wire.mjs';

/** Bytes of text of a block of tokens, at 4 a token. */
const BLOCK_BYTES = 2048;

/** What gateways have collected is published so often, in milliseconds. */
export const BATCH_MS = 20;

/** A gateway tells that it lives so often; one that was silent for so long is gone. In milliseconds. */
const HEARTBEAT_MS = 500;
const SILENT_MS = 3000;

/** A gateway that was cut off for longer asks for a snapshot. In milliseconds. */
const SNAPSHOT_AFTER_MS = 2000;

/** Bytes of a snapshot at most. */
const SNAPSHOT_MOST_BYTES = 16 * 1024 * 1024;

/** Rows of the shared memory: this gateway's own, and that of its siblings. */
const SIBLINGS = 1;
const ROWS = 2;

/** Words of a member and row in the charges of `loads.ts`. */
const CHARGE_WORDS = 3;

/** One in so many choices and messages is timed. */
const TIMED = 8;

/** A gateway: its memory, and what siblings have said. */
class Gateway {
  constructor({ at, clock, count, cacheBlocks, gateways, indexBytes, phaseMs, random }) {
    const { memory, model, planes } = createPlanes(routing, { count, threads: ROWS, clock, random, indexBytes });
    this.at = at;
    this.model = model;
    this.plane = planes[0];
    this.alive = true;
    this.phaseMs = phaseMs;
    this.memory = memory;
    this.charges = new Int32Array(memory.loads.charges);
    this.loadTimes = new Float64Array(memory.loads.times);
    this.inFlight = new Int32Array(memory.words);
    for (let server = 0; server < count; server++) this.plane.index.setCapacity(server, cacheBlocks * BLOCK_BYTES);
    /** Backlog, streams and requests in flight of each member at each sibling, as last heard. */
    this.heard = Array.from({ length: gateways }, () => new Int32Array(count * CHARGE_WORDS));
    /** Own values, as last published. */
    this.dirty = new Set();
    this.entries = [];
    /** When what was collected will be published; Infinity: nothing was. */
    this.dueMs = Infinity;
    /** Next message of the log that this gateway has not had. */
    this.cursor = 0;
    this.cachedTokens = 0;
    this.inputTokens = 0;
  }

  /** Own backlog in bytes, streams and requests in flight of a member. */
  own(member) {
    const word = member * ROWS * CHARGE_WORDS;
    return [this.charges[word], this.charges[word + 1], this.inFlight[member * ROWS]];
  }

  /** Takes what a sibling says of a member into the row of all siblings. */
  hear(sibling, member, [bytes, streams, requests], nowMs) {
    const heard = this.heard[sibling];
    const word = (member * ROWS + SIBLINGS) * CHARGE_WORDS;
    const from = member * CHARGE_WORDS;
    const before = this.charges[word + 1] + this.charges[member * ROWS * CHARGE_WORDS + 1];
    this.charges[word] = Math.max(0, this.charges[word] + bytes - heard[from]);
    this.charges[word + 1] = Math.max(0, this.charges[word + 1] + streams - heard[from + 1]);
    this.inFlight[member * ROWS + SIBLINGS] += requests - heard[from + 2];
    // The first prompt of a member's backlog is under way since it came.
    if (before === 0 && streams > 0) this.loadTimes[member] = nowMs;
    heard[from] = bytes;
    heard[from + 1] = streams;
    heard[from + 2] = requests;
  }

  /** A sibling is gone: what it had in flight does not count any more. */
  forget(sibling, nowMs) {
    const heard = this.heard[sibling];
    for (let member = 0; member < heard.length / CHARGE_WORDS; member++) {
      if (heard[member * CHARGE_WORDS] !== 0 || heard[member * CHARGE_WORDS + 2] !== 0)
        this.hear(sibling, member, [0, 0, 0], nowMs);
    }
  }
}

/**
 * A policy of `gateways` gateways. Requests go to one of those that live, at random. `shared`: they hear of each other. `lagMs`: from the
 * publication at one to the application at the others; 0: at once, without batches. `loss`: share of the messages that a receiver does not get. `cut`: `{ fromMs,
 * toMs }` without the engine. `start`: `{ atMs, snapshot, forMs }`, when the first gateway is replaced by an empty one, and how long its hits
 * are counted apart. `death`: `{ atMs }` of the last gateway. `timed`: CPU times are measured.
 */
export function cluster({
  gateways: count,
  shared = true,
  cacheBlocks,
  lagMs = BATCH_MS,
  loss = 0,
  cut = null,
  start = null,
  death = null,
  indexBytes,
  settings = {},
  timed = false,
  seed = 1,
}) {
  return (servers) =>
    new Cluster({
      ...{ servers, count, shared, cacheBlocks, lagMs, loss, cut, start, death, indexBytes, timed, seed },
      settings: { ...DEFAULTS, ...settings },
    });
}

class Cluster {
  #options;
  #random;
  #lossRandom;
  #clock = { nowMs: 0, now: () => this.#clock.nowMs };
  #gateways;
  /** Gateways with something to publish. */
  #open = new Set();
  /** Messages in the order in which they were published. */
  #log = [];
  /** What could not be published during a cut. */
  #missed = [];
  #counts = {
    messages: 0,
    deliveries: 0,
    inBytes: 0,
    outBytes: 0,
    entries: 0,
    blocks: 0,
    lost: 0,
    snapshotBytes: 0,
    requests: 0,
  };
  #cpu = { choices: 0, choiceUs: 0, applied: 0, applyUs: 0, entries: 0 };
  #picks = {};
  #started = null;
  #isCutOver;
  #isDead = false;
  #isForgotten = false;
  #atDeath = 0;
  #turn = 0;
  state = null;

  constructor(options) {
    const { count, cut, seed } = options;
    this.#options = options;
    this.#random = createSeededRandom(seed);
    this.#lossRandom = createSeededRandom(seed + 7919);
    this.#isCutOver = cut === null;
    this.#gateways = Array.from({ length: count }, (_, at) => this.#create(at));
  }

  #create(at) {
    const { cacheBlocks, count, indexBytes, servers } = this.#options;
    const phaseMs = this.#random() * BATCH_MS;
    const own = { at, clock: this.#clock, count: servers.length, cacheBlocks, gateways: count, indexBytes, phaseMs };
    return new Gateway({ ...own, random: this.#random });
  }

  choose(request, nowMs) {
    this.#advance(nowMs);
    const alive = this.#isDead ? this.#gateways.length - 1 : this.#gateways.length;
    const gateway = this.#gateways[Math.floor(this.#random() * alive)];
    this.#deliver(gateway, nowMs);
    const { key, prompt } = request;
    const hint = {
      ...{ url: undefined, session: 0, holder: 0, dialectBit: 0, translatedBit: 0, isUntranslatable: false },
      ...{ stream: true, bytes: prompt.bytes, key, blocks: () => prompt },
    };
    const isTimed = this.#options.timed && this.#turn++ % TIMED === 0;
    const before = isTimed ? process.cpuUsage() : null;
    const candidates = new routing.Candidates(gateway.model, gateway.plane, this.#options.settings, hint);
    const { server } = candidates.next();
    if (before !== null) {
      this.#cpu.choiceUs += usSince(before);
      this.#cpu.choices++;
    }
    this.#counts.requests++;
    this.#picks[candidates.affinity] = (this.#picks[candidates.affinity] ?? 0) + 1;
    this.state = { candidates, gateway };
    this.#note(gateway, server, nowMs);
    gateway.entries.push({ member: server, prompt, blocks: Math.max(prompt.count - candidates.matched, 0) });
    return server;
  }

  onFirst({ cachedTokens, request, server, state }, nowMs) {
    const { candidates, gateway } = state;
    const { inputTokens, prompt } = request;
    gateway.inputTokens += inputTokens;
    gateway.cachedTokens += cachedTokens;
    const { start } = this.#options;
    if (this.#started !== null && request.atMs >= start.atMs && request.atMs < start.atMs + start.forMs) {
      const of = gateway === this.#gateways[0] ? this.#started.own : this.#started.others;
      of.inputTokens += inputTokens;
      of.cachedTokens += cachedTokens;
    }
    if (!gateway.alive) return;
    this.#advance(nowMs);
    candidates.prefilled(candidates, nowMs - request.atMs);
    gateway.plane.feedback.answered(gateway.model.budget, server, {
      ...{ cachedTokens, promptBytes: prompt.bytes, promptTokens: inputTokens },
      predictedBytes: prompt.bytes - candidates.charged,
    });
    this.#note(gateway, server, nowMs);
  }

  onEnd({ server, state: { gateway } }, nowMs) {
    if (!gateway.alive) return;
    this.#advance(nowMs);
    gateway.plane.board.leave(server);
    this.#note(gateway, server, nowMs);
  }

  /** A member's load has changed at a gateway, which will publish it. */
  #note(gateway, member, nowMs) {
    if (!this.#options.shared || this.#gateways.length === 1) return;
    gateway.dirty.add(member);
    if (gateway.dueMs !== Infinity) return;
    const isAtOnce = this.#options.lagMs === 0;
    const ticks = Math.floor((nowMs - gateway.phaseMs) / BATCH_MS) + 1;
    gateway.dueMs = isAtOnce ? nowMs : gateway.phaseMs + ticks * BATCH_MS;
    this.#open.add(gateway);
  }

  /** Everything up to this time happens that no request causes. */
  #advance(nowMs) {
    this.#clock.nowMs = nowMs;
    const { cut, death, start } = this.#options;
    this.#publish(nowMs);
    if (start !== null && this.#started === null && nowMs >= start.atMs) this.#replace(nowMs);
    if (death !== null && !this.#isDead && nowMs >= death.atMs) {
      const dead = this.#gateways.at(-1);
      this.#isDead = true;
      dead.alive = false;
      for (let member = 0; member < this.#options.servers.length; member++) this.#atDeath += dead.own(member)[2];
      dead.dueMs = Infinity;
      this.#open.delete(dead);
    }
    if (this.#isDead && !this.#isForgotten && nowMs >= death.atMs + SILENT_MS) {
      this.#isForgotten = true;
      for (const gateway of this.#gateways) {
        this.#deliver(gateway, nowMs);
        gateway.forget(this.#gateways.length - 1, nowMs);
      }
    }
    if (this.#isCutOver || nowMs < cut.fromMs + SILENT_MS) return;
    if (nowMs < cut.toMs) {
      // Everybody has been silent for too long.
      for (const gateway of this.#gateways) for (const other of this.#gateways) gateway.forget(other.at, nowMs);
      return;
    }
    this.#isCutOver = true;
    this.#reconnect(nowMs);
  }

  /** Publishes the batches that are due, in their order. */
  #publish(nowMs) {
    const due = [...this.#open].filter(({ dueMs }) => dueMs <= nowMs);
    if (due.length === 0) return;
    due.sort((a, b) => a.dueMs - b.dueMs || a.at - b.at);
    const { cut, lagMs, loss } = this.#options;
    for (const gateway of due) {
      const { dirty, dueMs, entries } = gateway;
      const loads = [...dirty].map((member) => ({ member, values: gateway.own(member) }));
      const groups = new Set(entries.map(({ member }) => member)).size;
      const blocks = entries.reduce((sum, entry) => sum + entry.blocks, 0);
      const body =
        groups * GROUP_BYTES + entries.length * ENTRY_BYTES + blocks * HASH_BYTES + loads.length * BACKLOG_BYTES;
      gateway.dirty = new Set();
      gateway.entries = [];
      gateway.dueMs = Infinity;
      this.#open.delete(gateway);
      if (cut !== null && dueMs >= cut.fromMs && dueMs < cut.toMs) {
        this.#counts.lost++;
        this.#missed.push({ from: gateway.at, entries });
        continue;
      }
      const { inBytes, outBytes } = wireBytes(body);
      this.#counts.messages++;
      this.#counts.entries += entries.length;
      this.#counts.blocks += blocks;
      this.#counts.inBytes += inBytes;
      // The publisher is a subscriber, too.
      const receivers = this.#isDead ? this.#gateways.length - 1 : this.#gateways.length;
      this.#counts.deliveries += receivers;
      this.#counts.outBytes += receivers * outBytes;
      const lostAt = loss === 0 ? null : this.#gateways.map(() => this.#lossRandom() < loss);
      this.#log.push({ from: gateway.at, atMs: dueMs + lagMs, entries, loads, lostAt });
    }
  }

  /** Applies what has reached a gateway. */
  #deliver(gateway, nowMs) {
    const log = this.#log;
    const { index } = gateway.plane;
    while (gateway.cursor < log.length && log[gateway.cursor].atMs <= nowMs) {
      const { atMs, entries, from, loads, lostAt } = log[gateway.cursor++];
      if (from === gateway.at || lostAt?.[gateway.at] === true) continue;
      const isTimed = this.#options.timed && this.#turn++ % TIMED === 0;
      const before = isTimed ? process.cpuUsage() : null;
      for (const { member, prompt } of entries) index.enter(member, prompt.hashes, prompt.count);
      if (!this.#isForgotten || from !== this.#gateways.length - 1) {
        for (const { member, values } of loads) gateway.hear(from, member, values, atMs);
      }
      if (before === null) continue;
      this.#cpu.applyUs += usSince(before);
      this.#cpu.applied++;
      this.#cpu.entries += entries.length;
    }
  }

  /** An empty gateway takes the place of the first one. */
  #replace(nowMs) {
    const { shared, start } = this.#options;
    const old = this.#gateways[0];
    const made = this.#create(0);
    old.alive = false;
    old.dueMs = Infinity;
    this.#open.delete(old);
    this.#gateways[0] = made;
    made.cursor = this.#log.findLastIndex(({ atMs }) => atMs <= nowMs) + 1;
    this.#started = { own: tokens(), others: tokens() };
    for (const gateway of this.#gateways) if (gateway !== made) gateway.forget(0, nowMs);
    if (shared && start.snapshot && this.#gateways.length > 1) this.#copy(this.#gateways[1], made, nowMs);
  }

  /** After a cut that was long each gateway takes the snapshot of the next one, and all hear of each other's backlogs. */
  #reconnect(nowMs) {
    const { cut, servers } = this.#options;
    const count = this.#gateways.length;
    for (const gateway of this.#gateways) {
      this.#deliver(gateway, nowMs);
      for (let member = 0; member < servers.length; member++) this.#note(gateway, member, nowMs);
      if (cut.toMs - cut.fromMs <= SNAPSHOT_AFTER_MS || count === 1) continue;
      const sibling = this.#gateways[(gateway.at + 1) % count];
      for (const { entries, from } of this.#missed) {
        if (from !== sibling.at) continue;
        for (const { member, prompt } of entries) gateway.plane.index.enter(member, prompt.hashes, prompt.count);
      }
      this.#countSnapshot(sibling);
    }
    this.#missed = [];
  }

  /** A gateway takes the snapshot of another one. */
  #copy(from, to, nowMs) {
    for (const memory of ['lines', 'clocks']) {
      new Int32Array(to.memory.blocks[memory]).set(new Int32Array(from.memory.blocks[memory]));
    }
    this.#countSnapshot(from);
    for (const other of this.#gateways) {
      if (other === to) continue;
      for (let member = 0; member < this.#options.servers.length; member++) {
        to.hear(other.at, member, other.own(member), nowMs);
      }
    }
  }

  #countSnapshot({ plane }) {
    const bytes = (plane.index.use().held / INDEX_ENTRY_BYTES) * HASH_BYTES;
    this.#counts.snapshotBytes += Math.min(bytes, SNAPSHOT_MOST_BYTES);
  }

  /** Figures besides those of the fleet. */
  report() {
    const seconds = this.#clock.nowMs / 1000;
    const { blocks, deliveries, entries, inBytes, lost, messages, outBytes, requests, snapshotBytes } = this.#counts;
    const living = this.#gateways.filter(({ alive }) => alive);
    const isShared = this.#options.shared && this.#gateways.length > 1;
    const beats = isShared ? (seconds * 1000 * living.length) / HEARTBEAT_MS : 0;
    const beat = wireBytes(HEARTBEAT_BYTES);
    const held = living.map(({ plane }) => plane.index.use().held);
    return {
      picks: this.#picks,
      engine: {
        messages: messages + beats,
        deliveries: deliveries + beats * living.length,
        inBytes: inBytes + beats * beat.inBytes,
        outBytes: outBytes + beats * living.length * beat.outBytes,
        inPerS: (inBytes + beats * beat.inBytes) / seconds,
        outPerS: (outBytes + beats * living.length * beat.outBytes) / seconds,
        messagesPerS: (messages + beats) / seconds,
        deliveriesPerS: (deliveries + beats * living.length) / seconds,
        bytesPerRequest: inBytes / requests,
        blocksPerRequest: blocks / Math.max(entries, 1),
        lost,
        snapshotBytes,
      },
      requestsPerS: requests / seconds,
      indexBytes: Math.max(...held),
      ...(this.#started !== null && { started: hitRates(this.#started) }),
      ...(this.#isDead && { inFlightAtDeath: this.#atDeath }),
      ...(this.#options.timed && { cpu: this.#cpuFigures() }),
    };
  }

  #cpuFigures() {
    const { applied, applyUs, choiceUs, choices, entries } = this.#cpu;
    return {
      choiceUs: choiceUs / Math.max(choices, 1),
      applyUs: applyUs / Math.max(applied, 1),
      applyUsPerEntry: applyUs / Math.max(entries, 1),
    };
  }
}

/** Bytes of memory of an entry of the index. */
const INDEX_ENTRY_BYTES = 8;

const tokens = () => ({ inputTokens: 0, cachedTokens: 0 });
const rate = ({ cachedTokens, inputTokens }) => (inputTokens === 0 ? 0 : cachedTokens / inputTokens);
const hitRates = ({ others, own }) => ({ own: rate(own), others: rate(others) });

function usSince(before) {
  const { system, user } = process.cpuUsage(before);
  return system + user;
}
