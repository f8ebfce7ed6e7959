// Several gateways in virtual time, as a policy of `../locality/fleet.mjs`: each has the gateway's own picker, block index, loads and feedback in memory of
// its own, and hears of the choices and backlogs of the others after a while, as through the engine of a cluster. Lag, loss, a cut, starts and
// deaths are given; what the engine would carry is counted. `../../dist` must be built. The same requests and options give the same figures, but
// for CPU times.

import { createSeededRandom } from '../../dist/src/actor/index.js';
import { BatchDecoder } from '../../dist/src/cluster/placement-batch.js';
import { PlacementExchange } from '../../dist/src/cluster/placement-exchange.js';
import { LEAST_PAUSE_MS, TellingPace } from '../../dist/src/cluster/telling-pace.js';
import * as routing from '../../dist/src/routing/index.js';
import { createPlanes } from '../lib/picker-planes.mjs';
import { DEFAULTS } from '../locality/simulation.mjs';
import { HEARTBEAT_BYTES, wireBytes } from './wire.mjs';

/** Bytes of text of a block of tokens, at 4 a token. */
const BLOCK_BYTES = 2048;

/** Lag of news unless another one is given, and shortest pause between two messages of a gateway, in milliseconds. */
export const BATCH_MS = LEAST_PAUSE_MS;

/** From a choice after a pause to its message, and from the end of an answer to the message that tells it at last, in milliseconds. */
const SETTLE_MS = 2;
const LOADS_MS = 100;

/** A gateway that hears of a sibling tells what it has too, when this part of its own pause is over. */
const JOIN_PART = 3 / 4;

/** A gateway tells that it lives so often; one that was silent for so long is gone. In milliseconds. */
const HEARTBEAT_MS = 500;
const SILENT_MS = 3000;

/** A gateway that was cut off for longer asks for a snapshot. In milliseconds. */
const SNAPSHOT_AFTER_MS = 2000;

/** Bytes of a snapshot at most, of a block in it, and of an entry in the memory of an index. */
const SNAPSHOT_MOST_BYTES = 16 * 1024 * 1024;
const SNAPSHOT_BLOCK_BYTES = 6;
const INDEX_ENTRY_BYTES = 8;

/** Without a lag, more may be published so much later, in milliseconds. */
const LEAST_MS = 0.01;

/** One in so many choices and messages is timed. */
const TIMED = 8;

/** A gateway: its memory, and what it tells and hears. */
class Gateway {
  constructor({ at, clock, count, cacheBlocks, indexBytes, isShared, nowMs, random }) {
    const ringOf = (memory) => new routing.PlacementRing(memory.placements, 0);
    const makeIndex = (memory) => new routing.BlockIndex(memory.blocks, ringOf(memory));
    const { memory, model, planes } = createPlanes(routing, { count, clock, random, indexBytes, makeIndex });
    this.at = at;
    this.model = model;
    this.plane = planes[0];
    this.alive = true;
    this.memory = memory;
    for (let server = 0; server < count; server++) this.plane.index.setCapacity(server, cacheBlocks * BLOCK_BYTES);
    this.ring = ringOf(memory);
    this.ring.on = isShared;
    this.exchange = new PlacementExchange({
      ...{ members: count, servers: count, board: this.plane.board, rings: [this.ring] },
      index: new routing.BlockIndex(memory.blocks),
      holders: new routing.ResponseHolders(memory),
    });
    this.exchange.configure({ version: 1, models: [model] }, nowMs);
    this.pace = new TellingPace();
    /** When something may have to be published next. */
    this.dueMs = isShared ? nowMs + random() * LOADS_MS : Infinity;
    /** From when on it tells what it has when it hears of a sibling. */
    this.joinMs = Infinity;
    /** Choices since the last message. */
    this.choices = 0;
    /** Next message of the log that this gateway has not had. */
    this.cursor = 0;
  }

  /** Requests that it has in flight. */
  get inFlight() {
    return this.model.members.reduce((sum, { server }) => sum + this.plane.board.ownInFlight(server), 0);
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
  /** Messages in the order in which they were published. */
  #log = [];
  /** What could not be published during a cut. */
  #missed = [];
  #counts = {
    messages: 0,
    deliveries: 0,
    inBytes: 0,
    outBytes: 0,
    blocks: 0,
    lost: 0,
    snapshotBytes: 0,
    requests: 0,
  };
  #cpu = { choices: 0, choiceUs: 0, applied: 0, applyUs: 0, entries: 0 };
  #picks = {};
  #started = null;
  #isShared;
  #decoder = new BatchDecoder();
  #isCutOver;
  #isDead = false;
  #isForgotten = false;
  #atDeath = 0;
  #turn = 0;
  state = null;

  constructor(options) {
    const { count, cut, seed, shared } = options;
    this.#options = options;
    this.#isShared = shared && count > 1;
    this.#random = createSeededRandom(seed);
    this.#lossRandom = createSeededRandom(seed + 7919);
    this.#isCutOver = cut === null;
    this.#gateways = Array.from({ length: count }, (_, at) => this.#create(at, 0));
  }

  #create(at, nowMs) {
    const { cacheBlocks, indexBytes, servers } = this.#options;
    const own = { at, nowMs, clock: this.#clock, count: servers.length, cacheBlocks, indexBytes };
    return new Gateway({ ...own, isShared: this.#isShared, random: this.#random });
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
    gateway.choices++;
    this.#note(
      gateway,
      nowMs,
      Math.max(nowMs + SETTLE_MS, gateway.pace.dueMs(gateway.exchange.choicesTogether(this.#gateways.length - 1))),
    );
    return server;
  }

  onFirst({ cachedTokens, request, server, state }, nowMs) {
    const { candidates, gateway } = state;
    const { inputTokens, prompt } = request;
    const { start } = this.#options;
    if (this.#started !== null && request.atMs >= start.atMs && request.atMs < start.atMs + start.forMs) {
      const of = gateway === this.#gateways[0] ? this.#started.own : this.#started.others;
      of.inputTokens += inputTokens;
      of.cachedTokens += cachedTokens;
    }
    if (!gateway.alive) return;
    this.#advance(nowMs);
    this.#deliver(gateway, nowMs);
    candidates.prefilled(candidates, nowMs - request.atMs);
    gateway.plane.feedback.answered(gateway.model.budget, server, {
      ...{ cachedTokens, promptBytes: prompt.bytes, promptTokens: inputTokens },
      predictedBytes: prompt.bytes - candidates.charged,
    });
    this.#note(gateway, nowMs, nowMs + LOADS_MS);
  }

  onEnd({ server, state: { gateway } }, nowMs) {
    if (!gateway.alive) return;
    this.#advance(nowMs);
    gateway.plane.board.leave(server);
    this.#note(gateway, nowMs, nowMs + LOADS_MS);
  }

  /** Something has changed at a gateway, which will look for it at this time at last. */
  #note(gateway, nowMs, dueMs) {
    if (!this.#isShared) return;
    gateway.dueMs = Math.min(gateway.dueMs, this.#options.lagMs === 0 ? nowMs : dueMs);
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
      this.#atDeath = dead.inFlight;
      dead.dueMs = Infinity;
    }
    if (this.#isDead && !this.#isForgotten && nowMs >= death.atMs + SILENT_MS) {
      this.#isForgotten = true;
      for (const gateway of this.#gateways) {
        this.#deliver(gateway, nowMs);
        gateway.exchange.remove(this.#gateways.length - 1, nowMs);
      }
    }
    // Without an end of the cut gateways note nothing for others; what they noted before an end stands for what a snapshot says.
    if (cut !== null && cut.toMs === Infinity && nowMs >= cut.fromMs)
      for (const { ring } of this.#gateways) ring.on = false;
    if (this.#isCutOver || nowMs < cut.fromMs + SILENT_MS) return;
    if (nowMs < cut.toMs) {
      // Everybody has been silent for too long.
      for (const { exchange } of this.#gateways) for (const { at } of this.#gateways) exchange.remove(at, nowMs);
      return;
    }
    this.#isCutOver = true;
    this.#reconnect(nowMs);
  }

  /** Publishes the batches that are due, in their order. */
  #publish(nowMs) {
    if (!this.#isShared) return;
    for (;;) {
      let gateway = this.#gateways[0];
      for (const each of this.#gateways) if (each.dueMs < gateway.dueMs) gateway = each;
      if (gateway.dueMs > nowMs) return;
      this.#take(gateway, gateway.dueMs);
    }
  }

  /** Publishes what a gateway has to tell at this time, if anything. */
  #take(gateway, nowMs) {
    const { cut, lagMs, loss } = this.#options;
    const body = gateway.exchange.take(nowMs);
    if (body === null) {
      gateway.dueMs = gateway.exchange.isQuiet ? Infinity : nowMs + LOADS_MS;
      return;
    }
    gateway.pace.sent(gateway.choices, nowMs);
    const pausedMs = gateway.pace.dueMs(gateway.exchange.choicesTogether(this.#gateways.length - 1));
    gateway.joinMs = gateway.choices > 0 ? nowMs + JOIN_PART * (pausedMs - nowMs) : Infinity;
    const message = {
      from: gateway.at,
      atMs: nowMs + lagMs,
      body: Buffer.from(body),
      choices: gateway.choices,
      lostAt: null,
    };
    gateway.choices = 0;
    // More may be left, when it was too much for one message.
    const isLeft = lagMs === 0 || gateway.exchange.isNoted;
    gateway.dueMs = nowMs + (lagMs === 0 ? LEAST_MS : isLeft ? BATCH_MS : LOADS_MS);
    if (cut !== null && nowMs >= cut.fromMs && nowMs < cut.toMs) {
      this.#counts.lost++;
      this.#missed.push(message);
      return;
    }
    const { inBytes, outBytes } = wireBytes(body.length);
    // The publisher is a subscriber, too.
    const receivers = this.#isDead ? this.#gateways.length - 1 : this.#gateways.length;
    this.#counts.messages++;
    this.#counts.inBytes += inBytes;
    this.#counts.deliveries += receivers;
    this.#counts.outBytes += receivers * outBytes;
    this.#decoder.read(message.body, this.#counting);
    if (loss > 0) message.lostAt = this.#gateways.map(() => this.#lossRandom() < loss);
    this.#log.push(message);
    for (const other of this.#gateways) {
      if (other !== gateway && other.alive && message.atMs >= other.joinMs)
        other.dueMs = Math.min(other.dueMs, message.atMs);
    }
  }

  #counting = {
    entered: (member, advance, first, hashes, count) => void (this.#counts.blocks += count),
    withdrawn: () => undefined,
    load: () => undefined,
    response: () => undefined,
    end: () => undefined,
  };

  /** Applies what has reached a gateway. */
  #deliver(gateway, nowMs) {
    const log = this.#log;
    while (gateway.cursor < log.length && log[gateway.cursor].atMs <= nowMs) {
      const { atMs, body, choices, from, lostAt } = log[gateway.cursor++];
      if (from === gateway.at || lostAt?.[gateway.at] === true) continue;
      if (this.#isForgotten && from === this.#gateways.length - 1) continue;
      const isTimed = this.#options.timed && this.#turn++ % TIMED === 0;
      const before = isTimed ? process.cpuUsage() : null;
      gateway.exchange.apply(body, from, atMs);
      if (before === null) continue;
      this.#cpu.applyUs += usSince(before);
      this.#cpu.applied++;
      this.#cpu.entries += choices;
    }
  }

  /** An empty gateway takes the place of the first one. */
  #replace(nowMs) {
    const { shared, start } = this.#options;
    const [old] = this.#gateways;
    const made = this.#create(0, nowMs);
    old.alive = false;
    this.#gateways[0] = made;
    made.cursor = this.#log.findLastIndex(({ atMs }) => atMs <= nowMs) + 1;
    this.#started = { own: tokens(), others: tokens() };
    for (const { exchange } of this.#gateways) if (exchange !== made.exchange) exchange.remove(0, nowMs);
    if (shared && start.snapshot && this.#gateways.length > 1) this.#copy(this.#gateways[1], made);
  }

  /** After a cut that was long each gateway takes what the next one has chosen meanwhile. */
  #reconnect(nowMs) {
    const { cut } = this.#options;
    const count = this.#gateways.length;
    for (const gateway of this.#gateways) {
      this.#deliver(gateway, nowMs);
      if (cut.toMs - cut.fromMs <= SNAPSHOT_AFTER_MS || !this.#isShared) continue;
      const sibling = this.#gateways[(gateway.at + 1) % count];
      for (const { body, from } of this.#missed) if (from === sibling.at) gateway.exchange.apply(body, from, nowMs);
      this.#countSnapshot(sibling);
    }
    this.#missed = [];
  }

  /** A gateway takes the snapshot of another one. */
  #copy(from, to) {
    for (const memory of ['lines', 'clocks']) {
      new Int32Array(to.memory.blocks[memory]).set(new Int32Array(from.memory.blocks[memory]));
    }
    this.#countSnapshot(from);
  }

  #countSnapshot({ plane }) {
    const bytes = (plane.index.use().held / INDEX_ENTRY_BYTES) * SNAPSHOT_BLOCK_BYTES;
    this.#counts.snapshotBytes += Math.min(bytes, SNAPSHOT_MOST_BYTES);
  }

  /** Figures besides those of the fleet. */
  report() {
    const seconds = this.#clock.nowMs / 1000;
    const { blocks, deliveries, inBytes, lost, messages, outBytes, requests, snapshotBytes } = this.#counts;
    const living = this.#gateways.filter(({ alive }) => alive);
    const beats = this.#isShared ? (seconds * 1000 * living.length) / HEARTBEAT_MS : 0;
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
        blocksPerRequest: blocks / requests,
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

const tokens = () => ({ inputTokens: 0, cachedTokens: 0 });
const rate = ({ cachedTokens, inputTokens }) => (inputTokens === 0 ? 0 : cachedTokens / inputTokens);
const hitRates = ({ others, own }) => ({ own: rate(own), others: rate(others) });

function usSince(before) {
  const { system, user } = process.cpuUsage(before);
  return system + user;
}
