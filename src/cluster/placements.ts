// Placements, backlogs and snapshots of the block index between this gateway and its siblings, over the link: publishes what threads have
// noted, applies what arrives, and asks for a snapshot after a start or a cut, or when a CRN comes that siblings know already. Lives in the
// control thread, which sleeps while nothing is noted and nothing runs. What sharing costs is that this thread is woken: while there is
// something to tell in every message no thread signals that it has noted something, and gateways that are about to tell something do so
// when they hear of a sibling.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { type BlockIndex, mix, type PlacementRing } from '../routing/index.ts';
import { Alarm } from '../net/alarm.ts';
import type { ClusterLink, Sibling } from './link.ts';
import type { PlacementExchange } from './placement-exchange.ts';
import { applySnapshot, SnapshotReader } from './placement-snapshot.ts';
import { LEAST_PAUSE_MS, TellingPace } from './telling-pace.ts';

/** From the first note after a pause to its message, in milliseconds: the loads that belong to it are written after it. */
const SETTLE_MS = 2;

/** While anything runs, loads are looked at so often, in milliseconds: answers end without a note. */
const LOADS_MS = 100;

/** A gateway that hears of a sibling tells what it has too, when this part of its own pause is over: all of them are woken once for both. */
const JOIN_PART = 3 / 4;

/** Messages in a row at most: threads that note more than these hold are read further after other work. */
const MOST_MESSAGES = 4;

/** A gateway that was cut off for longer wants a snapshot, in milliseconds: it has missed what rings and siblings do not keep. */
const CUT_OFF_MS = 2000;

/** Siblings reconnect within this after the engine is back, in milliseconds: what is told before is lost to those that have not. */
const BACK_MS = 2500;

/** Siblings answer the roll call within this after the connection opened, in milliseconds. */
const ANSWERED_MS = 150;

/** A snapshot whose next chunk does not come within this is asked of another sibling, in milliseconds. */
const CHUNK_TIMEOUT_MS = 1000;

/** Siblings that are asked one after the other. */
const MOST_ASKED = 3;

/** Pause between two chunks, in milliseconds: the loop serves others, and the engine is not flooded. */
const CHUNK_PAUSE_MS = 2;

/** Snapshots that are sent at the same time; further siblings ask others. */
const MOST_SENT = 4;

/** First byte of a message of the topic `snapshot`. */
const ASK = 1;
const CHUNK = 2;

export interface PlacementsDeps {
  readonly link: ClusterLink;
  readonly clock: Clock;
  readonly exchange: PlacementExchange;
  /** Without a ring. */
  readonly index: BlockIndex;
  readonly ring: PlacementRing;
  /** A snapshot has been taken over, from this sibling. */
  readonly onSnapshot: (from: string, bytes: number, elapsedMs: number) => void;
}

interface Asked {
  readonly from: string;
  readonly sinceMs: number;
  bytes: number;
  timer: TimerHandle;
}

export class Placements {
  readonly #deps: PlacementsDeps;
  readonly #unsubscribe: readonly (() => void)[];
  /** Ids of the siblings that are sent a snapshot. */
  readonly #sending = new Map<string, TimerHandle>();
  readonly #pace = new TellingPace();
  readonly #alarm: Alarm;
  /** From when on what a sibling says is an occasion to tell what is noted here; Infinity while threads wake this one. */
  #joinMs = Infinity;
  /** Choices until the last message, modulo 2^32. */
  #toldChoices = 0;
  /** When the connection opened, while siblings may not have theirs yet; else null. */
  #connectedMs: number | null = null;
  /** A snapshot is wanted, and of how many siblings it may still be asked. */
  #wanted = 0;
  readonly #refused = new Set<string>();
  #asked: Asked | null = null;
  #asking: TimerHandle | null = null;
  /** The snapshot that is being taken over has begun too early. */
  #again = false;

  constructor(deps: PlacementsDeps) {
    this.#deps = deps;
    this.#alarm = new Alarm(deps.clock, () => this.#look());
    const { clock, exchange, link } = deps;
    this.#unsubscribe = [
      link.on('placements', (body, from) => {
        exchange.apply(body, from.index, clock.now());
        if (clock.now() >= this.#joinMs) this.#look();
      }),
      link.on('snapshot', (body, from) => this.#received(body, from)),
      link.onChange((event) => {
        if (event.type === 'connected') {
          this.#connectedMs = clock.now();
          exchange.renew();
          this.#lookAt(clock.now());
        }
        if (event.type === 'connected' && event.awayMs > CUT_OFF_MS) this.#want();
        if (event.type === 'joined' && this.#wanted > 0) this.#askLater();
        if (event.type === 'left') {
          exchange.remove(event.sibling.index, clock.now());
          this.#stopSending(event.sibling.instance);
        }
        this.#switch();
      }),
    ];
    this.#switch();
  }

  /** Ends everything; nothing is published any more. */
  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    const { clock, ring } = this.#deps;
    ring.on = false;
    ring.noted.stop();
    this.#alarm.clear();
    this.#joinMs = Infinity;
    for (const timer of [this.#asking, this.#asked?.timer]) if (timer != null) clock.clearTimeout(timer);
    for (const instance of this.#sending.keys()) this.#stopSending(instance);
  }

  /** Threads note what they do while there is anybody to tell. */
  #switch(): void {
    const { exchange, link, ring } = this.#deps;
    const isOn = link.enabled && link.siblings().length > 1;
    if (isOn === ring.on) return;
    ring.on = isOn;
    if (isOn) {
      this.#look();
      return;
    }
    this.#alarm.clear();
    this.#joinMs = Infinity;
    ring.noted.stop();
    exchange.skip();
  }

  /** Looks for something to tell at this time, or before. */
  #lookAt(dueMs: number): void {
    if (this.#deps.ring.on) this.#alarm.setBy(dueMs);
  }

  readonly #lookSoon = (): void => this.#lookAt(Math.max(this.#deps.clock.now() + SETTLE_MS, this.#dueMs()));

  /** When the next message may be sent. */
  #dueMs(): number {
    const { exchange, link } = this.#deps;
    return this.#pace.dueMs(exchange.choicesTogether(link.siblings().length - 1));
  }

  readonly #look = (): void => {
    const { clock, exchange, link, ring } = this.#deps;
    this.#alarm.clear();
    this.#joinMs = Infinity;
    const nowMs = clock.now();
    // While the engine or a sibling is away, rings keep what they have room for.
    if (!link.connected || !this.#areAllBack()) {
      this.#lookAt(nowMs + LOADS_MS);
      return;
    }
    let messages = 0;
    while (messages < MOST_MESSAGES) {
      const body = exchange.take(nowMs);
      if (body === null || !link.publish('placements', body)) break;
      messages++;
    }
    // Threads note more meanwhile: those count for the next message.
    const noted = exchange.choices;
    const choices = (noted - this.#toldChoices) >>> 0;
    if (messages > 0) {
      this.#toldChoices = noted;
      this.#pace.sent(choices, nowMs);
    }
    if (messages === MOST_MESSAGES) this.#lookAt(nowMs + LEAST_PAUSE_MS);
    if (!exchange.isQuiet) this.#lookAt(nowMs + LOADS_MS);
    if (messages > 0 && choices > 0) {
      // There will be more: it is looked for when the pause is over, without a signal.
      const dueMs = this.#dueMs();
      this.#joinMs = nowMs + JOIN_PART * (dueMs - nowMs);
      this.#lookAt(dueMs);
      return;
    }
    ring.noted.wait(this.#lookSoon);
    if (exchange.isNoted) this.#lookSoon();
  };

  #areAllBack(): boolean {
    if (this.#connectedMs === null) return true;
    const sinceMs = this.#deps.clock.now() - this.#connectedMs;
    const { link } = this.#deps;
    if (sinceMs < BACK_MS && link.siblings().some(({ ageMs, self }) => !self && ageMs >= sinceMs)) return false;
    this.#connectedMs = null;
    return true;
  }

  /** Takes a snapshot over once more: siblings know of CRNs what this gateway has not taken over when it came. */
  renew(): void {
    if (this.#asked !== null) this.#again = true;
    else this.#want();
  }

  #want(): void {
    this.#again = false;
    this.#wanted = MOST_ASKED;
    this.#refused.clear();
    this.#askLater();
  }

  #askLater(): void {
    const { clock } = this.#deps;
    if (this.#asking !== null || this.#asked !== null) return;
    this.#asking = clock.setTimeout(() => {
      this.#asking = null;
      this.#ask();
    }, ANSWERED_MS);
  }

  /** Asks the sibling with the lowest score, so that several that start do not all ask the same one. */
  #ask(): void {
    const { clock, link } = this.#deps;
    const own = Number.parseInt(link.instance.slice(-8), 16);
    const scoreOf = ({ instance }: Sibling): number => mix(own ^ Number.parseInt(instance.slice(-8), 16));
    const [best] = link
      .siblings()
      .filter(({ instance, self, stage }) => !self && stage !== 'starting' && !this.#refused.has(instance))
      .toSorted((a, b) => scoreOf(a) - scoreOf(b));
    // Whoever joins later is asked then.
    if (best === undefined || this.#wanted === 0) return;
    this.#wanted--;
    this.#refused.add(best.instance);
    if (!link.publish('snapshot', Buffer.of(ASK), best.instance)) return;
    const sinceMs = clock.now();
    this.#asked = { from: best.instance, sinceMs, bytes: 0, timer: this.#chunkTimer() };
  }

  #chunkTimer(): TimerHandle {
    return this.#deps.clock.setTimeout(() => {
      this.#asked = null;
      this.#ask();
    }, CHUNK_TIMEOUT_MS);
  }

  #received(body: Buffer, { instance }: Sibling): void {
    const { clock, exchange, index, onSnapshot } = this.#deps;
    const kind = body[0];
    if (kind === ASK) {
      this.#send(instance);
      return;
    }
    if (kind !== CHUNK) throw new Error(`a message of a snapshot begins with ${kind}`);
    const asked = this.#asked;
    // Of one that was given up.
    if (asked?.from !== instance) return;
    clock.clearTimeout(asked.timer);
    asked.timer = this.#chunkTimer();
    asked.bytes += body.length;
    if (!applySnapshot(body.subarray(1), index, (id) => exchange.cellOf(id))) return;
    clock.clearTimeout(asked.timer);
    this.#asked = null;
    this.#wanted = 0;
    onSnapshot(instance, asked.bytes, clock.now() - asked.sinceMs);
    if (this.#again) this.#want();
  }

  #send(to: string): void {
    const { clock, exchange, index, link } = this.#deps;
    if (this.#sending.has(to) || this.#sending.size >= MOST_SENT) return;
    const reader = new SnapshotReader(index, (cell) => exchange.idOf(cell));
    const step = (): void => {
      const chunk = reader.next();
      if (chunk === null || !link.publish('snapshot', Buffer.concat([Buffer.of(CHUNK), chunk]), to)) {
        this.#sending.delete(to);
        return;
      }
      this.#sending.set(to, clock.setTimeout(step, CHUNK_PAUSE_MS));
    };
    step();
  }

  #stopSending(instance: string): void {
    const timer = this.#sending.get(instance);
    if (timer === undefined) return;
    this.#deps.clock.clearTimeout(timer);
    this.#sending.delete(instance);
  }
}
