// Tells the other gateways how many places each busy account and host has here, and counts what they say for as long as it is fresh. All
// counters have one secret seed, which is in the engine: a message has numbers of counters, no names.

import { randomInt } from 'node:crypto';
import type { Clock } from '../actor/index.ts';
import type { SharedSignal } from '../net/shared-signal.ts';
import { PLACE_CELLS, PlaceTotals } from '../routing/index.ts';
import { Alarm } from '../net/alarm.ts';
import type { ClusterEvent, ClusterLink } from './link.ts';

export interface PlaceSharesDeps {
  readonly link: ClusterLink;
  readonly clock: Clock;
  /** Memories of places, made by `createPlaceMemory`; their order is part of the messages. */
  readonly memories: readonly SharedArrayBuffer[];
}

/** Counts of one memory, by counter. */
type Counts = ReadonlyMap<number, number>;

/** What a sibling said last. */
interface SiblingCounts {
  readonly counts: Counts[];
  heardMs: number;
}

/** Time between two messages; before the first one after a pause, and before another try. */
const TELL_MS = 20;
const SETTLE_MS = 2;
const RETRY_MS = 100;

/** Counts that say something are told again after this long; what was not told again counts no more. */
const REPEAT_MS = 500;
const FRESH_MS = 2000;

/** The key of the seed is written again long before it ends. */
const SEED_TTL_MS = 86_400_000;
const SEED_REPEAT_MS = 3_600_000;
const SEED_RETRY_MS = 5000;
const SEED_TIMEOUT_MS = 1000;
const SEED_FORM = /^[0-9a-f]{8}$/;

/** Seed, then for each counter memory, counter and count. */
const HEAD_BYTES = 4;
const ENTRY_BYTES = 5;

const NONE: Counts = new Map();

export class PlaceShares {
  readonly #deps: PlaceSharesDeps;
  readonly #totals: readonly PlaceTotals[];
  readonly #siblings = new Map<string, SiblingCounts>();
  #told: number[];
  #saysSomething = false;
  #repeatMs = 0;
  #toldMs = -Infinity;
  #seedMs = 0;
  readonly #alarm: Alarm;

  constructor(deps: PlaceSharesDeps) {
    this.#deps = deps;
    this.#alarm = new Alarm(deps.clock, () => this.#turn());
    this.#totals = deps.memories.map((memory) => new PlaceTotals(memory));
    this.#told = this.#totals.map(() => 0);
    const seed = randomInt(2 ** 32);
    for (const totals of this.#totals) totals.seed = seed;
    deps.link.on('shares', (body, { instance }) => this.#receive(body, instance));
    deps.link.onChange((event) => this.#onChange(event));
    if (deps.link.enabled) this.#start();
  }

  close(): void {
    this.#alarm.clear();
    for (const { changed } of this.#totals) changed.stop();
  }

  #onChange(event: ClusterEvent): void {
    if (event.type === 'enabled') this.#start();
    if (event.type === 'connected') this.#seedMs = 0;
    if (event.type === 'joined') this.#repeatMs = 0;
    if (event.type === 'left') this.#forget(event.sibling.instance);
    if (event.type === 'disabled') {
      this.close();
      for (const instance of [...this.#siblings.keys()]) this.#forget(instance);
      for (const totals of this.#totals) totals.gateways = 1;
    } else if (event.type !== 'lost') this.#alarm.setBy(this.#deps.clock.now());
  }

  #start(): void {
    for (const { changed } of this.#totals) changed.wait(() => this.#onChanged(changed));
    this.#alarm.setBy(this.#deps.clock.now());
  }

  /** Places have changed in a memory. */
  #onChanged(changed: SharedSignal): void {
    changed.wait(() => this.#onChanged(changed));
    this.#alarm.setBy(Math.max(this.#deps.clock.now() + SETTLE_MS, this.#toldMs + TELL_MS));
  }

  #turn(): void {
    const { clock, link } = this.#deps;
    const nowMs = clock.now();
    for (const [instance, { heardMs }] of this.#siblings) {
      if (nowMs - heardMs > FRESH_MS) this.#forget(instance);
      else this.#alarm.setBy(heardMs + FRESH_MS + 1);
    }
    const { length: gateways } = link.siblings();
    for (const totals of this.#totals) totals.gateways = gateways;
    if (!link.connected) return;
    if (nowMs >= this.#seedMs) void this.#agreeOnSeed(nowMs);
    this.#alarm.setBy(this.#seedMs);
    if (gateways === 1) return;
    this.#tell(nowMs);
    if (this.#saysSomething) this.#alarm.setBy(Math.max(this.#repeatMs, nowMs + 1));
  }

  #tell(nowMs: number): void {
    const changes = this.#totals.map((totals) => totals.changes);
    const isChanged = changes.some((count, index) => count !== this.#told[index]);
    if (!isChanged && !(this.#saysSomething && nowMs >= this.#repeatMs)) return;
    const entries = this.#totals.flatMap((totals, memory) =>
      Array.from(totals.counts(), ([cell, count]) => [memory, cell, count] as const),
    );
    const body = Buffer.alloc(HEAD_BYTES + entries.length * ENTRY_BYTES);
    body.writeUInt32LE(this.#totals[0]?.seed ?? 0);
    for (const [index, [memory, cell, count]] of entries.entries()) {
      const at = HEAD_BYTES + index * ENTRY_BYTES;
      body.writeUInt8(memory, at);
      body.writeUInt16LE(cell, at + 1);
      body.writeUInt16LE(Math.min(count, 0xffff), at + 3);
    }
    if (!this.#deps.link.publish('shares', body)) {
      this.#alarm.setBy(nowMs + RETRY_MS);
      return;
    }
    this.#told = changes;
    this.#toldMs = nowMs;
    this.#saysSomething = entries.length > 0;
    this.#repeatMs = nowMs + REPEAT_MS;
  }

  #receive(body: Buffer, instance: string): void {
    const count = (body.length - HEAD_BYTES) / ENTRY_BYTES;
    if (!Number.isInteger(count) || count < 0 || count > this.#totals.length * PLACE_CELLS)
      throw new RangeError(`${body.length} bytes of places`);
    if (body.readUInt32LE() !== this.#totals[0]?.seed) {
      // One of the two has not heard of the seed, or has given the engine another one after it had lost it.
      this.#seedMs = Math.min(this.#seedMs, this.#deps.clock.now() + SEED_RETRY_MS);
      this.#alarm.setBy(this.#seedMs);
      return;
    }
    const counts = this.#totals.map(() => new Map<number, number>());
    for (let at = HEAD_BYTES; at < body.length; at += ENTRY_BYTES) {
      const cell = body.readUInt16LE(at + 1);
      const ofMemory = counts[body.readUInt8(at)];
      if (ofMemory === undefined || cell >= PLACE_CELLS || ofMemory.has(cell)) throw new RangeError('no counter');
      ofMemory.set(cell, body.readUInt16LE(at + 3));
    }
    const before = this.#siblings.get(instance)?.counts;
    const heardMs = this.#deps.clock.now();
    // One who has said last that nothing runs need not be forgotten.
    if (counts.every(({ size }) => size === 0)) this.#siblings.delete(instance);
    else this.#siblings.set(instance, { counts, heardMs });
    this.#alarm.setBy(heardMs + FRESH_MS + 1);
    this.#replace(before, counts);
  }

  #forget(instance: string): void {
    const known = this.#siblings.get(instance);
    if (known === undefined) return;
    this.#siblings.delete(instance);
    this.#replace(known.counts, []);
  }

  #replace(before: readonly Counts[] = [], after: readonly Counts[]): void {
    for (const [index, totals] of this.#totals.entries()) {
      const old = before[index] ?? NONE;
      const now = after[index] ?? NONE;
      for (const [cell, count] of now) {
        const change = count - (old.get(cell) ?? 0);
        if (change !== 0) totals.addSiblings(cell, change);
      }
      for (const [cell, count] of old) if (!now.has(cell)) totals.addSiblings(cell, -count);
    }
  }

  /** Takes the seed that the engine has, or gives it its own: after the engine has lost it, that is the one that all have. */
  async #agreeOnSeed(nowMs: number): Promise<void> {
    const { link } = this.#deps;
    this.#seedMs = nowMs + SEED_RETRY_MS;
    const own = (this.#totals[0]?.seed ?? 0).toString(16).padStart(8, '0');
    const key = link.key('places', 'seed');
    try {
      await link.command(['SET', key, own, 'NX', 'PX', String(SEED_TTL_MS)], SEED_TIMEOUT_MS);
      const text = String(await link.command(['GETEX', key, 'PX', String(SEED_TTL_MS)], SEED_TIMEOUT_MS));
      if (!SEED_FORM.test(text)) {
        await link.command(['DEL', key], SEED_TIMEOUT_MS);
        return;
      }
      this.#seedMs = nowMs + SEED_REPEAT_MS;
      if (text === own) return;
      for (const instance of [...this.#siblings.keys()]) this.#forget(instance);
      for (const totals of this.#totals) totals.seed = Number.parseInt(text, 16);
    } catch {
      // Until the next try the counts of others are not understood.
    }
  }
}
