// Test aids, published in `headrace/testkit`: an actor system on a manual clock, probes in the place of actors, and hold
// gates. Only a failing test waits for real time: for the timeout of a probe.

import { isDeepStrictEqual } from 'node:util';
import { createManualClock, createSeededRandom, systemClock } from './clock.ts';
import type { ManualClock } from './clock.ts';
import type { SystemEvent } from './kernel.ts';
import type { Ref } from './ref.ts';
import { createSystem } from './system.ts';
import type { System } from './system.ts';

export { createManualClock, createSeededRandom } from './clock.ts';
export type { ManualClock } from './clock.ts';

/** Waits until every actor of the system has handled what it has. Real I/O under way is not waited for. */
export async function settle(system: System): Promise<void> {
  do await new Promise<void>((resolve) => void setImmediate(resolve));
  while (system.stats().runnable > 0);
}

export interface TestSystem {
  readonly system: System;
  readonly clock: ManualClock;
  /** All events of the system, in order. */
  readonly events: SystemEvent[];
  /** Errors of top-level actors that failed past their supervision. */
  readonly failures: { readonly error: unknown; readonly path: string }[];
  /** Waits until every actor has handled what it has. */
  readonly settle: () => Promise<void>;
  /** Moves the clock from timer to timer and lets the actors settle after each, as in real time. */
  readonly advance: (ms: number) => Promise<void>;
}

/** A system with a manual clock and a seeded random source. `seed` defaults to 1. */
export function createTestSystem(options: { name?: string; seed?: number } = {}): TestSystem {
  const clock = createManualClock();
  const events: SystemEvent[] = [];
  const failures: TestSystem['failures'] = [];
  const system = createSystem({
    name: options.name ?? 'test',
    clock,
    random: createSeededRandom(options.seed ?? 1),
    onEvent: (event) => void events.push(event),
    onFailure: (error, path) => void failures.push({ error, path }),
  });
  return {
    system,
    clock,
    events,
    failures,
    settle: () => settle(system),
    async advance(ms) {
      const targetMs = clock.now() + ms;
      await settle(system);
      while (clock.nextDueMs <= targetMs) {
        clock.advance(Math.max(0, clock.nextDueMs - clock.now()));
        await settle(system);
      }
      clock.advance(targetMs - clock.now());
    },
  };
}

/** An actor that records its messages and hands them out in order. */
export interface Probe<M> {
  readonly ref: Ref<M>;
  /** Every message so far, read or not. */
  readonly received: readonly M[];
  /** Refs whose `Terminated` has arrived; see `watch`. */
  readonly terminated: readonly Ref<never>[];
  watch(ref: Ref<never>): void;
  /** The next message not yet read. Rejects after `timeoutMs` of real time, default 1000. */
  next(options?: { timeoutMs?: number }): Promise<M>;
  /** The next message, which must equal `expected` deeply. */
  expect(expected: M, options?: { timeoutMs?: number }): Promise<M>;
  /** Lets the system settle; fails when there is a message not yet read. */
  expectNone(): Promise<void>;
  /** The next `Terminated`, as a ref. Rejects as `next` does. */
  nextTerminated(options?: { timeoutMs?: number }): Promise<Ref<never>>;
}

const PROBE_TIMEOUT_MS = 1000;

export function createProbe<M>(system: System, name?: string): Probe<M> {
  const messages = new Feed<M>();
  const ends = new Feed<Ref<never>>();
  const watched = new Set<Ref<never>>();
  let watch = (ref: Ref<never>): void => void watched.add(ref);
  const ref = system.spawn<M>(
    (context) => {
      for (const early of watched) context.watch(early);
      watch = (late) => context.watch(late);
      return {
        receive: (message) => messages.push(message),
        signal: (signal) => void (signal.type === 'Terminated' && ends.push(signal.ref)),
      };
    },
    { mailbox: { capacity: Infinity, overflow: 'fail' }, ...(name === undefined ? {} : { name }) },
  );
  const next: Probe<M>['next'] = (options) => messages.next(options?.timeoutMs ?? PROBE_TIMEOUT_MS);
  return {
    ref,
    received: messages.all,
    terminated: ends.all,
    watch: (target) => watch(target),
    next,
    async expect(expected, options) {
      const message = await next(options);
      if (!isDeepStrictEqual(message, expected))
        throw new ProbeError('a different message came', { message, expected });
      return message;
    },
    async expectNone() {
      await settle(system);
      if (messages.unread > 0) throw new ProbeError('an unexpected message came', { messages: messages.all });
    },
    nextTerminated: (options) => ends.next(options?.timeoutMs ?? PROBE_TIMEOUT_MS),
  };
}

/** A probe received something else than the test expects; `cause` shows it. */
export class ProbeError extends Error {
  override readonly name = 'ProbeError';

  constructor(message: string, seen?: unknown) {
    super(message, { cause: seen });
  }
}

/** A list that is read in order and waited on. */
class Feed<T> {
  readonly all: T[] = [];
  #read = 0;
  readonly #waiting: ((item: T) => void)[] = [];

  get unread(): number {
    return this.all.length - this.#read;
  }

  push(item: T): void {
    this.all.push(item);
    const reader = this.#waiting.shift();
    if (reader === undefined) return;
    this.#read++;
    reader(item);
  }

  next(timeoutMs: number): Promise<T> {
    return this.unread > 0 ? Promise.resolve(this.all[this.#read++] as T) : this.#arrival(timeoutMs);
  }

  #arrival(timeoutMs: number): Promise<T> {
    return new Promise((resolve, reject) => {
      const arrived = (item: T): void => {
        systemClock.clearTimeout(timer);
        resolve(item);
      };
      const timer = systemClock.setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(arrived), 1);
        reject(new ProbeError(`nothing came within ${timeoutMs} ms`));
      }, timeoutMs);
      this.#waiting.push(arrived);
    });
  }
}

/** Holds the code under test at a known place. */
export interface HoldGate {
  /** For the code under test: waits for `release`. */
  wait(): Promise<void>;
  /** Resolves when `wait` has been called. */
  readonly arrived: Promise<void>;
  /** Ends all waits, also later ones. */
  release(): void;
}

export function holdGate(): HoldGate {
  const arrival = Promise.withResolvers<void>();
  const opening = Promise.withResolvers<void>();
  return {
    arrived: arrival.promise,
    wait() {
      arrival.resolve();
      return opening.promise;
    },
    release: () => opening.resolve(),
  };
}
