// The actor system of one thread: run queue, root of the tree of actors, counters, events. It yields to the event loop after
// a bounded number of messages, so that a busy actor cannot keep sockets and timers waiting.

import type { Behavior, SpawnOptions } from './behavior.ts';
import { Cell, spawnCell, stopChildren, UNNAMED } from './cell.ts';
import type { Child, Parent } from './cell.ts';
import { systemClock, systemRandom } from './clock.ts';
import type { Clock } from './clock.ts';
import { Deadlines } from './deadlines.ts';
import type { DeadLetterReason, Kernel, Runnable, SystemEvent } from './kernel.ts';
import { Mailbox } from './mailbox.ts';
import type { Ref } from './ref.ts';

export interface SystemOptions {
  /** First part of every path. Default `system`. */
  readonly name?: string;
  /** Default: the clock of the process. */
  readonly clock?: Clock;
  /** Uniform in [0, 1), used for the jitter of back-offs and handed to actors. Default: the process's source. */
  readonly random?: () => number;
  /** Called for every event of the system, synchronously: count or log, do not call back. */
  readonly onEvent?: (event: SystemEvent) => void;
  /**
   * A top-level actor failed past its supervision and has stopped. Default: the error is thrown as an uncaught
   * exception, which ends the process.
   */
  readonly onFailure?: (error: unknown, path: string) => void;
}

export interface SystemStats {
  /** Actors that have not stopped. */
  readonly actors: number;
  /** Since the start. */
  readonly deadLetters: number;
  readonly restarts: number;
  /** Messages waiting now in the fullest mailbox. */
  readonly deepestMailbox: number;
  /** Actors that have work and wait for their turn. */
  readonly runnable: number;
}

export interface System {
  readonly name: string;
  readonly clock: Clock;
  readonly random: () => number;
  /** Starts a top-level actor. Throws when the name is taken by a living one or the system was terminated. */
  spawn<M>(behavior: Behavior<M>, options?: SpawnOptions): Ref<M>;
  /** Stops an actor of this system after its current message. Throws for refs of other systems. */
  stop(ref: Ref<never>): void;
  stats(): SystemStats;
  /** Messages waiting now for each top-level actor that was given a name, those for its children included. */
  mailboxes(): ReadonlyMap<string, number>;
  /** Stops everything, last started first; resolves when all have stopped. Nothing can be spawned afterwards. */
  terminate(): Promise<void>;
}

/** Messages that one actor handles in one turn. */
const MESSAGES_PER_TURN = 64;
/** Messages that all actors handle before the system yields to the event loop: a few milliseconds of ordinary handlers. */
const MESSAGES_PER_LOOP = 1024;

const READY: Promise<void> = Promise.resolve();

/** A system with the kernel that its parts use. */
export class ActorSystem implements System, Kernel, Parent {
  readonly name: string;
  readonly path: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly deadlines: Deadlines;
  readonly children: Map<string, Child> = new Map();
  readonly kernel: Kernel = this;
  readonly #onEvent: ((event: SystemEvent) => void) | undefined;
  readonly #onFailure: (error: unknown, path: string) => void;
  readonly #queue = new Mailbox<Runnable>(Infinity);
  readonly #ended: PromiseWithResolvers<void> = Promise.withResolvers();
  #awake = false;
  #spent = 0;
  #terminating = false;
  #actors = 0;
  #spawned = 0;
  #deadLetters = 0;
  #restarts = 0;

  constructor(options: SystemOptions) {
    this.name = options.name ?? 'system';
    this.path = this.name;
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? systemRandom;
    this.#onEvent = options.onEvent;
    this.#onFailure = options.onFailure ?? throwLater;
    this.deadlines = new Deadlines(this.clock);
  }

  spawn<M>(behavior: Behavior<M>, options?: SpawnOptions): Ref<M> {
    return spawnCell(this, behavior, options);
  }

  stop(ref: Ref<never>): void {
    if (!(ref instanceof Cell) || ref.kernel !== this) throw new Error(`${ref.path} is not an actor of ${this.name}`);
    ref.stop();
  }

  stats(): SystemStats {
    return {
      actors: this.#actors,
      deadLetters: this.#deadLetters,
      restarts: this.#restarts,
      deepestMailbox: deepest(this.children),
      runnable: this.#queue.size,
    };
  }

  mailboxes(): ReadonlyMap<string, number> {
    const named = [...this.children.values()].filter(({ name }) => !name.startsWith(UNNAMED));
    return new Map(named.map((child) => [child.name, waitingAt(child)]));
  }

  terminate(): Promise<void> {
    this.#terminating = true;
    stopChildren(this);
    if (this.#actors === 0) this.#ended.resolve();
    return this.#ended.promise;
  }

  // The kernel, for cells, refs and links

  schedule(runnable: Runnable): void {
    runnable.scheduled = true;
    this.#queue.push(runnable);
    if (this.#awake) return;
    this.#awake = true;
    if (this.#spent < MESSAGES_PER_LOOP) void READY.then(this.#run);
    else setImmediate(this.#nextLoop);
  }

  deadLetter(path: string, message: unknown, reason: DeadLetterReason): void {
    this.#deadLetters++;
    if (this.#onEvent !== undefined) this.emit({ type: 'dead-letter', path, message, reason });
  }

  emit(event: SystemEvent): void {
    try {
      this.#onEvent?.(event);
    } catch (error) {
      throwLater(error);
    }
  }

  cellStarted(): number {
    if (this.#terminating) throw new Error(`${this.name} has been terminated`);
    this.#actors++;
    return ++this.#spawned;
  }

  cellRestarted(): void {
    this.#restarts++;
  }

  cellStopped(): void {
    this.#actors--;
  }

  childStopped(child: Child): void {
    this.children.delete(child.name);
    if (this.#terminating && this.#actors === 0) this.#ended.resolve();
  }

  childFailed(child: Child, error: unknown): void {
    try {
      this.#onFailure(error, child.path);
    } catch (thrown) {
      throwLater(thrown);
    }
  }

  readonly #nextLoop = (): void => {
    this.#spent = 0;
    this.#run();
  };

  // The budget spent carries over to the next microtask: promises that keep waking actors do not starve the event loop.
  readonly #run = (): void => {
    const queue = this.#queue;
    while (queue.size > 0 && this.#spent < MESSAGES_PER_LOOP) {
      const runnable = queue.shift();
      this.#spent += runnable.run(MESSAGES_PER_TURN);
      if (runnable.ready) queue.push(runnable);
      else runnable.scheduled = false;
    }
    if (queue.size > 0) setImmediate(this.#nextLoop);
    else this.#awake = false;
  };
}

export function createSystem(options: SystemOptions = {}): System {
  return new ActorSystem(options);
}

/** The kernel behind a system. */
export function kernelOf(system: System): Kernel {
  if (system instanceof ActorSystem) return system;
  throw new TypeError('not a system of this actor kernel');
}

function deepest(children: ReadonlyMap<string, Child>): number {
  let depth = 0;
  for (const child of children.values()) depth = Math.max(depth, child.waiting, deepest(child.children));
  return depth;
}

function waitingAt(child: Child): number {
  let waiting = child.waiting;
  for (const below of child.children.values()) waiting += waitingAt(below);
  return waiting;
}

/** Throws an error as an uncaught exception, outside of the current call. */
function throwLater(error: unknown): void {
  setImmediate(() => {
    throw error;
  });
}
