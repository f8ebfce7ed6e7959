// Pool of threads that extract clean text from downloads, with a bounded queue. A page that hangs, exhausts memory or
// crashes its reader costs one thread, which is replaced at once, and never another page.
//
// Piscina runs the threads; the queue is here, since Piscina neither bounds nor orders tasks that can be aborted. Even the
// smallest page goes to a thread: the round trip takes 0.03 ms of the caller's thread, and only a thread can be stopped.

import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { type Clock, systemClock, type TimerHandle } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { CleanJob, CleanPage } from '../extract/index.ts';

/** Nice value of the threads, of at most 19. Needs Linux and an optional dependency of Piscina. */
const NICE = 10;

/** Threads but the last end after this idle time. */
const IDLE_MS = 60_000;

/** Interval of memory checks. V8's heap limit does not cover array buffers. */
const WATCH_MS = 250;

/** Bytes that queued pages may hold. */
const QUEUE_BYTES = 128 * 1024 * 1024;

const MIB = 1024 * 1024;

/** How a job ended in its thread. Errors lose their class between threads. */
export type CleanResult =
  | { readonly page: CleanPage }
  | {
      readonly code: ErrorCode;
      readonly subject: string;
      /** Stack trace, when the error is a defect of the reader. */
      readonly cause?: string;
    };

export interface CleaningStats {
  /** Running threads, starting ones included. */
  readonly threads: number;
  /** Pages in a thread, including those whose client has left. */
  readonly running: number;
  readonly queued: number;
  /** Threads that ended because a page exceeded a limit or crashed them. */
  readonly replaced: number;
}

export interface CleaningPool {
  /**
   * Clean text of a page. Fails with `HR_FETCH_BUSY` when the queue is full, `HR_FETCH_UNREADABLE` when the page takes
   * more time or memory than allowed or crashes its reader, with the reader's own error, or with the reason of `signal`: a
   * queued page is dropped then; one in a thread runs to its end, which costs less than a new thread.
   */
  read(job: CleanJob, signal: AbortSignal): Promise<CleanPage>;
  /** Applies to later pages. Where the threads change, new ones take over once they have started. */
  configure(settings: Settings['fetch']): void;
  stats(): CleaningStats;
  /** Fails all pages with `HR_DRAINING`. Resolves when the threads have ended. */
  close(): Promise<void>;
}

export interface CleaningPoolOptions {
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Default: the cores of the machine. */
  readonly cores?: number;
  /** Module that the threads run. Exports `readPage(job): Promise<CleanResult>` and `ready(): void`. */
  readonly script?: URL;
}

interface Task {
  readonly job: CleanJob;
  readonly resolve: (page: CleanPage) => void;
  readonly reject: (error: unknown) => void;
}

/** Threads that are recycled together, and the pages they have been given. */
interface WorkerGeneration {
  readonly piscina: Piscina<CleanJob, CleanResult>;
  readonly threads: number;
  pages: number;
  running: number;
}

/** Creates a pool and starts its first thread. */
export function createCleaningPool(settings: Settings['fetch'], options: CleaningPoolOptions = {}): CleaningPool {
  return new Pool(settings, options);
}

class Pool implements CleaningPool {
  readonly #clock: Clock;
  readonly #cores: number;
  readonly #script: URL;
  readonly #queue = new Set<Task>();
  readonly #generations = new Set<WorkerGeneration>();
  /** Threads with a memory check under way. A sleeping thread answers with its next page. */
  readonly #checking = new WeakSet<Worker>();
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
    const abort = (): void => {
      this.#unqueue(task);
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    if (isFree) {
      void this.#start(task);
    } else {
      this.#queue.add(task);
      this.#queuedBytes += job.bytes.byteLength;
    }
    return promise.finally(() => signal.removeEventListener('abort', abort));
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

  /** A single page may always wait, whatever its size. */
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

  /** The time limit starts here. After a replacement it includes the start of the new thread. */
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
      // Errors of readers are results, so this one means that the thread has ended.
      this.#replaced++;
      reject(this.#closed ? new HeadraceError('HR_DRAINING') : unreadable(error, limit.signal.aborted));
    }
    release();
    this.#running--;
    generation.running--;
    this.#retire(generation);
    if (!this.#closed) this.#startMore();
  }

  /** Enforces the limits of a running page until the returned function is called. */
  #guard(generation: WorkerGeneration, limit: AbortController): () => void {
    const { cleanTimeoutMs, cleanMemoryBytes } = this.#settings;
    const dueMs = this.#clock.now() + cleanTimeoutMs;
    let timer: TimerHandle;
    const wait = (): void => {
      timer = this.#clock.setTimeout(check, Math.max(0, Math.min(WATCH_MS, dueMs - this.#clock.now())));
    };
    const check = (): void => {
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

  /** V8 limits the heap; this limits what lies outside of it, such as the decompressed streams of a PDF. */
  async #checkMemory(thread: Worker, maxBytes: number): Promise<void> {
    if (this.#checking.has(thread)) return;
    this.#checking.add(thread);
    try {
      const { external_memory: outside } = await thread.getHeapStatistics();
      if (outside > maxBytes) await thread.terminate();
    } catch {
      // The thread has ended.
    }
    this.#checking.delete(thread);
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
      // On busy cores, proxied requests take precedence over pages.
      niceIncrement: NICE,
      // Readers of untrusted pages get no secrets of the process,
      env: {},
      // nor its preloaded modules: loaders, instrumentation.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: Math.ceil(this.#settings.cleanMemoryBytes / MIB) },
    });
    const generation = { piscina, threads, pages: 0, running: 0 };
    this.#generations.add(generation);
    // An error in a thread after its page: the thread is replaced, and no page is affected.
    piscina.on('error', () => void this.#replaced++);
    return generation;
  }

  /** New threads take over once the first of them is ready. Old ones finish their pages first. */
  #renew(): void {
    const next = this.#spawn();
    const superseded = this.#next;
    this.#next = next;
    if (superseded !== null) this.#retire(superseded);
    next.piscina.run({} as CleanJob, { name: 'ready' }).then(
      () => {
        if (this.#next !== next) return;
        const old = this.#generation;
        this.#generation = next;
        this.#next = null;
        this.#retire(old);
        this.#startMore();
      },
      // The new threads cannot start: keep the old ones.
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

/** The error of a page whose thread has ended. */
function unreadable(cause: unknown, isLate: boolean): HeadraceError {
  return new HeadraceError('HR_FETCH_UNREADABLE', { subject: isLate ? 'took too long' : failureOf(cause), cause });
}

/** A thread is terminated for its memory only, which Piscina reports as an exit. */
function failureOf(cause: unknown): string {
  const { code, message } = cause as NodeJS.ErrnoException;
  const isOutOfMemory = code === 'ERR_WORKER_OUT_OF_MEMORY' || message.startsWith('worker exited');
  return isOutOfMemory ? 'needed too much memory' : 'its reader failed';
}
