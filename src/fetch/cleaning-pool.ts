// The threads that turn downloads into clean text, and the queue before them. Asked by the actor of pages.ts. A page may
// loop for ever, fill the memory or crash its reader: that costs one thread, replaced at once, and never another page.
// Piscina keeps the threads; the queue is kept here, since piscina neither bounds nor orders tasks that can be aborted.
//
// Every page goes to a thread, however small: the way there and back takes 0.03 ms of the caller's thread, less than
// the smallest page takes to clean, and only a thread can be stopped.

import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { type Clock, systemClock, type TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { CleanJob, CleanPage } from '../extract/index.ts';

/** Steps of niceness, of 19; needs Linux and the optional package that piscina asks for. */
const NICE = 10;

/** A thread that has had nothing to do for so long ends, but for the last one. */
const IDLE_MS = 60_000;

/** How often the memory of threads at work is looked at. What arrays hold is not part of the heap that V8 limits. */
const WATCH_MS = 250;

/** Pages that wait hold their bytes. */
const QUEUE_BYTES = 128 * 1024 * 1024;

const MIB = 1024 * 1024;

/** How a job ended in its thread; errors that cross threads lose their class. */
export type CleanResult =
  | { readonly page: CleanPage }
  | {
      readonly code: ErrorCode;
      readonly subject: string;
      /** The trace of an error that is a defect of the reader. */
      readonly cause?: string;
    };

export interface CleaningStats {
  /** Alive now, those that are starting included. */
  readonly threads: number;
  /** Pages in a thread, those whose client has left included. */
  readonly running: number;
  readonly queued: number;
  /** Threads ended so far because a page broke their limits or them. */
  readonly replaced: number;
}

export interface CleaningPool {
  /**
   * Clean text of a page. Fails with `HR_FETCH_BUSY` when the queue is full, `HR_FETCH_UNREADABLE` when the page takes
   * more time or memory than it may or breaks its reader, with the reader's own error, and with the reason of `signal`:
   * a page that waits is dropped then, one in a thread is read to its end for nobody, which costs less than a thread.
   */
  read(job: CleanJob, signal: AbortSignal): Promise<CleanPage>;
  /** Takes effect for the next page; other threads than before take over once they have started. */
  configure(settings: Settings['fetch']): void;
  stats(): CleaningStats;
  /** Whoever waits gets `HR_DRAINING`. Resolves when the threads have ended. */
  close(): Promise<void>;
}

export interface CleaningPoolOptions {
  /** Default the system's. */
  readonly clock?: Clock;
  /** Default those of the machine. */
  readonly cores?: number;
  /** What the threads run; exports `readPage(job): Promise<CleanResult>` and `ready(): void`. */
  readonly script?: URL;
}

interface Task {
  readonly job: CleanJob;
  /** Called once; harmless after that. */
  readonly resolve: (page: CleanPage) => void;
  readonly reject: (error: unknown) => void;
}

/** A set of threads that are recycled together, and the pages they have been given. */
interface WorkerGeneration {
  readonly piscina: Piscina<CleanJob, CleanResult>;
  readonly threads: number;
  pages: number;
  running: number;
}

/** Makes a pool and starts its first thread. */
export function createCleaningPool(settings: Settings['fetch'], options: CleaningPoolOptions = {}): CleaningPool {
  return new Pool(settings, options);
}

class Pool implements CleaningPool {
  readonly #clock: Clock;
  readonly #cores: number;
  readonly #script: URL;
  readonly #queue = new Set<Task>();
  readonly #generations = new Set<WorkerGeneration>();
  /** Threads whose memory is being asked for; one that sleeps answers with its next page. */
  readonly #asked = new WeakSet<Worker>();
  #settings: Settings['fetch'];
  #generation: WorkerGeneration;
  #next: WorkerGeneration | null = null;
  #running = 0;
  #queuedBytes = 0;
  #replaced = 0;
  #closed = false;

  constructor(settings: Settings['fetch'], options: CleaningPoolOptions) {
    this.#settings = settings;
    this.#clock = options.clock ?? systemClock;
    this.#cores = options.cores ?? availableParallelism();
    this.#script = options.script ?? new URL('../../workers/clean.js', import.meta.url);
    this.#generation = this.#spawn();
  }

  read(job: CleanJob, signal: AbortSignal): Promise<CleanPage> {
    if (this.#closed) return Promise.reject(new HeadraceError('HR_DRAINING'));
    if (signal.aborted) return Promise.reject(signal.reason);
    const isFree = this.#running < this.#generation.threads;
    if (!isFree && this.#isFull(job.bytes.byteLength))
      return Promise.reject(new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'] }));
    const { promise, resolve, reject } = Promise.withResolvers<CleanPage>();
    const task = { job, resolve, reject };
    const leave = (): void => {
      this.#unqueue(task);
      reject(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    if (isFree) {
      void this.#start(task);
    } else {
      this.#queue.add(task);
      this.#queuedBytes += job.bytes.byteLength;
    }
    return promise.finally(() => signal.removeEventListener('abort', leave));
  }

  configure(settings: Settings['fetch']): void {
    const { cleaners, cleanMemoryBytes } = this.#settings;
    this.#settings = settings;
    if (settings.cleaners === cleaners && settings.cleanMemoryBytes === cleanMemoryBytes) return;
    if (!this.#closed) this.#renew();
  }

  stats(): CleaningStats {
    let threads = 0;
    for (const { piscina } of this.#generations) threads += piscina.threads.length;
    return { threads, running: this.#running, queued: this.#queue.size, replaced: this.#replaced };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const task of this.#queue) task.reject(new HeadraceError('HR_DRAINING'));
    this.#queue.clear();
    this.#queuedBytes = 0;
    await Promise.all(Array.from(this.#generations, (generation) => this.#drain(generation)));
  }

  get #threads(): number {
    const { cleaners } = this.#settings;
    return cleaners === 'auto' ? Math.max(1, this.#cores >> 1) : cleaners;
  }

  /** One page may always wait, whatever its size. */
  #isFull(bytes: number): boolean {
    if (this.#queue.size >= this.#settings.queue) return true;
    return this.#queue.size > 0 && this.#queuedBytes + bytes > QUEUE_BYTES;
  }

  #unqueue(task: Task): void {
    if (this.#queue.delete(task)) this.#queuedBytes -= task.job.bytes.byteLength;
  }

  #startMore(): void {
    for (const task of this.#queue) {
      if (this.#running >= this.#generation.threads) return;
      this.#unqueue(task);
      void this.#start(task);
    }
  }

  /** The time of a page counts from here; after a replacement, the start of the new thread is part of it. */
  async #start({ job, resolve, reject }: Task): Promise<void> {
    const generation = this.#generation;
    const limit = new AbortController();
    const release = this.#guard(generation, limit);
    this.#running++;
    generation.running++;
    generation.pages++;
    if (generation.pages >= this.#settings.pagesPerCleaner * generation.threads && this.#next === null) this.#renew();
    try {
      const result = await generation.piscina.run(job, { signal: limit.signal, transferList: [job.bytes.buffer] });
      if ('page' in result) resolve(result.page);
      else reject(new HeadraceError(result.code, result));
    } catch (error) {
      // Readers' own errors are results: the thread is gone.
      this.#replaced++;
      reject(this.#closed ? new HeadraceError('HR_DRAINING') : unreadable(error, limit.signal.aborted));
    }
    release();
    this.#running--;
    generation.running--;
    this.#retire(generation);
    if (!this.#closed) this.#startMore();
  }

  /** Holds a running page to its limits; the returned function ends that. */
  #guard(generation: WorkerGeneration, limit: AbortController): () => void {
    const { cleanTimeoutMs, cleanMemoryBytes } = this.#settings;
    const dueMs = this.#clock.now() + cleanTimeoutMs;
    let timer: TimerHandle;
    const wait = (): void => {
      timer = this.#clock.setTimeout(look, Math.max(0, Math.min(WATCH_MS, dueMs - this.#clock.now())));
    };
    const look = (): void => {
      if (this.#clock.now() >= dueMs) {
        limit.abort();
        return;
      }
      for (const thread of generation.piscina.threads) void this.#checkMemory(thread, cleanMemoryBytes);
      wait();
    };
    wait();
    return () => this.#clock.clearTimeout(timer);
  }

  /** V8 holds the heap to the limit, and this what lies outside of it: the arrays of a PDF, decompressed. */
  async #checkMemory(thread: Worker, maxBytes: number): Promise<void> {
    if (this.#asked.has(thread)) return;
    this.#asked.add(thread);
    try {
      const { external_memory: outside } = await thread.getHeapStatistics();
      if (outside > maxBytes) await thread.terminate();
    } catch {
      // It has ended meanwhile.
    }
    this.#asked.delete(thread);
  }

  #spawn(): WorkerGeneration {
    const threads = this.#threads;
    const piscina = new Piscina<CleanJob, CleanResult>({
      filename: this.#script.href,
      name: 'readPage',
      minThreads: 1,
      maxThreads: threads,
      idleTimeout: IDLE_MS,
      recordTiming: false,
      // Where the cores are busy, requests that pass through come before pages.
      niceIncrement: NICE,
      // Pages have no business with the secrets of the process.
      env: {},
      // Nor with what is preloaded there: loaders, instrumentation.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(this.#settings.cleanMemoryBytes / MIB) },
    });
    const generation = { piscina, threads, pages: 0, running: 0 };
    this.#generations.add(generation);
    // Thrown by a thread after its page: it is replaced, and nobody waits.
    piscina.on('error', () => void this.#replaced++);
    return generation;
  }

  /** Other threads take over as soon as the first of them is warm; those at work finish first. */
  #renew(): void {
    const next = this.#spawn();
    const abandoned = this.#next;
    this.#next = next;
    if (abandoned !== null) this.#retire(abandoned);
    next.piscina.run({} as CleanJob, { name: 'ready' }).then(
      () => {
        if (this.#next !== next) return;
        const old = this.#generation;
        this.#generation = next;
        this.#next = null;
        this.#retire(old);
        this.#startMore();
      },
      // They cannot start: the old ones go on.
      () => {
        if (this.#next === next) {
          this.#next = null;
          this.#generation.pages = 0;
        }
        this.#retire(next);
      },
    );
  }

  #retire(generation: WorkerGeneration): void {
    if (generation !== this.#generation && generation !== this.#next && generation.running === 0)
      void this.#drain(generation);
  }

  #drain(generation: WorkerGeneration): Promise<void> {
    if (!this.#generations.delete(generation)) return Promise.resolve();
    return generation.piscina.destroy();
  }
}

/** What became of a page whose thread is gone. */
function unreadable(cause: unknown, isLate: boolean): HeadraceError {
  return new HeadraceError('HR_FETCH_UNREADABLE', { subject: isLate ? 'took too long' : failureOf(cause), cause });
}

/** Threads are ended from outside, which piscina reports as an exit, for their memory only. */
function failureOf(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  const isStarved = code === 'ERR_WORKER_OUT_OF_MEMORY' || message.startsWith('worker exited');
  return isStarved ? 'needed too much memory' : 'its reader failed';
}
