// Pool of threads that extract clean text from downloads, with a bounded queue that accounts take turns in. A page that hangs, exhausts
// memory or crashes its reader costs one thread, which is replaced at once, and never another page. Pages that may take long have
// threads of their own, so that no page waits longer than others of its kind take.
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
import { FairQueue, RememberedTime } from '../routing/index.ts';
import type { CleanerNumbers } from '../telemetry/page-metrics.ts';

/** Pages from this size are heavy, and PDFs of any size. Below it the most hostile markup known takes about a tenth of a second. */
export const HEAVY_BYTES: number = 256 * 1024;

/** Threads for heavy pages at least. They start with the first one, and one account never has all of them. */
const MIN_HEAVY_THREADS = 2;

/** Share of `QUEUE_BYTES` that one account may fill. */
const ACCOUNT_SHARE = 1 / 2;

/** Work of a page beside that of its bytes, in bytes: what a thread reads in the time that the smallest page takes. */
const BASE_COST = 16 * 1024;

/** Threads but the last end after this idle time. */
const IDLE_MS = 60_000;

/** A thread that has not begun with its page after this, or `cleanTimeoutMs` where that is longer, is replaced: some take seconds to start. */
const BEGIN_MS = 30_000;

/** Interval of checks of time and memory. */
const WATCH_MS = 50;

/**
 * V8's own limit of a thread's heap, which must never be reached: beyond it a single large allocation ends the process, not the thread.
 * Between two checks a thread cannot get here.
 */
const HEAP_LIMIT_MB = 8192;

/** Bytes that queued pages of a lane may hold. */
const QUEUE_BYTES = 128 * 1024 * 1024;

/** A page with the version of its content. */
export interface CleanedPage extends CleanPage {
  /** Equal for equal contents. */
  readonly version: string;
}

/** What a thread is given. */
export interface CleanTask extends CleanJob {
  /** The thread puts 1 here when it begins: the time limit of a page does not include the start of its thread. */
  readonly begun: Int32Array<SharedArrayBuffer>;
}

/** How a job ended in its thread. Errors lose their class between threads. */
export type CleanResult =
  | { readonly page: CleanedPage }
  | {
      readonly code: ErrorCode;
      readonly subject: string;
      /** Stack trace, when the error is a defect of the reader. */
      readonly cause?: string;
    };

export interface CleaningPool {
  /**
   * Clean text of a page, in turns of `account`. Fails with `HR_FETCH_BUSY` when the queue is full, `HR_FETCH_LIMIT` when the account
   * alone has filled its share of it, `HR_FETCH_UNREADABLE` when the page takes
   * more time or memory than allowed or crashes its reader, with the reader's own error, or with the reason of `signal`: a
   * queued page is dropped then; one in a thread runs to its end, which costs less than a new thread.
   */
  read(job: CleanJob, account: string, signal: AbortSignal): Promise<CleanedPage>;
  /** Applies to later pages. Where the threads change, new ones take over once they have started. */
  configure(settings: Settings['fetch']): void;
  stats(): CleanerNumbers;
  /** Fails all pages with `HR_DRAINING`. Resolves when the threads have ended. */
  close(): Promise<void>;
}

export interface CleaningPoolOptions {
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Default: the cores of the machine. */
  readonly cores?: number;
  /** Module that the threads run. Exports `readPage(task): Promise<CleanResult>` and `ready(): void`. */
  readonly script?: URL;
}

/** Threads for one kind of page. */
interface LaneOptions {
  readonly clock: Clock;
  readonly script: URL;
  readonly threads: (settings: Settings['fetch']) => number;
  /** Threads that are started before the first page. */
  readonly least: 0 | 1;
  /** Whether one account leaves a thread to others. */
  readonly shared: boolean;
}

interface Task {
  readonly job: CleanJob;
  readonly account: string;
  readonly resolve: (page: CleanedPage) => void;
  readonly reject: (error: unknown) => void;
}

/** Threads that are recycled together, and the pages they have been given. */
interface WorkerGeneration {
  readonly piscina: Piscina<CleanTask, CleanResult>;
  readonly threads: number;
  pages: number;
  running: number;
}

/** Creates a pool and starts its first thread. */
export function createCleaningPool(settings: Settings['fetch'], options: CleaningPoolOptions = {}): CleaningPool {
  return new LanePool(settings, options);
}

class LanePool implements CleaningPool {
  readonly #light: Lane;
  readonly #heavy: Lane;

  constructor(settings: Settings['fetch'], options: CleaningPoolOptions) {
    const { clock = systemClock, cores = availableParallelism() } = options;
    const script = options.script ?? new URL('../../workers/clean.cjs', import.meta.url);
    const threads = ({ cleaners }: Settings['fetch']): number =>
      cleaners === 'auto' ? Math.max(1, cores >> 1) : cleaners;
    this.#light = new Lane(settings, { clock, script, threads, least: 1, shared: false });
    const heavyThreads = (current: Settings['fetch']): number => Math.max(MIN_HEAVY_THREADS, threads(current));
    this.#heavy = new Lane(settings, { clock, script, threads: heavyThreads, least: 0, shared: true });
  }

  read(job: CleanJob, account: string, signal: AbortSignal): Promise<CleanedPage> {
    const isHeavy = job.bytes.byteLength >= HEAVY_BYTES || job.mediaType === 'application/pdf';
    return (isHeavy ? this.#heavy : this.#light).read(job, account, signal);
  }

  configure(settings: Settings['fetch']): void {
    this.#light.configure(settings);
    this.#heavy.configure(settings);
  }

  stats(): CleanerNumbers {
    const light = this.#light.stats();
    const heavy = this.#heavy.stats();
    return {
      threads: light.threads + heavy.threads,
      running: light.running + heavy.running,
      queued: light.queued + heavy.queued,
      replaced: light.replaced + heavy.replaced,
      refused: light.refused + heavy.refused,
    };
  }

  async close(): Promise<void> {
    await Promise.all([this.#light.close(), this.#heavy.close()]);
  }
}

class Lane implements CleaningPool {
  readonly #clock: Clock;
  readonly #options: LaneOptions;
  readonly #time = new RememberedTime();
  readonly #queue = new FairQueue<Task>(this.#time);
  readonly #fits = ({ account }: Task): boolean => this.#admits(account);
  /** Pages in a thread, by account. */
  readonly #accounts = new Map<string, number>();
  readonly #generations = new Set<WorkerGeneration>();
  /** Threads with a memory check under way. A sleeping thread answers with its next page. */
  readonly #checking = new WeakSet<Worker>();
  #settings: Settings['fetch'];
  #generation: WorkerGeneration;
  #next: WorkerGeneration | null = null;
  #running = 0;
  #replaced = 0;
  #refused = 0;
  #closed = false;

  constructor(settings: Settings['fetch'], options: LaneOptions) {
    this.#settings = settings;
    this.#clock = options.clock;
    this.#options = options;
    this.#generation = this.#spawn();
  }

  read(job: CleanJob, account: string, signal: AbortSignal): Promise<CleanedPage> {
    if (this.#closed) return Promise.reject(new HeadraceError('HR_DRAINING'));
    if (signal.aborted) return Promise.reject(signal.reason);
    const bytes = job.bytes.byteLength;
    const isFree = this.#admits(account);
    const refusal = isFree ? null : this.#refusal(account, bytes);
    if (refusal !== null) {
      this.#refused++;
      return Promise.reject(refusal);
    }
    const { promise, resolve, reject } = Promise.withResolvers<CleanedPage>();
    const task = { job, account, resolve, reject };
    const entry = isFree ? null : this.#queue.add(account, task, BASE_COST + bytes, bytes);
    const abort = (): void => {
      if (entry !== null) this.#queue.remove(entry);
      reject(signal.reason);
    };
    signal.addEventListener('abort', abort, { once: true });
    if (isFree) {
      if (this.#queue.size === 0) this.#time.forget();
      void this.#start(task);
    }
    return promise.finally(() => signal.removeEventListener('abort', abort));
  }

  configure(settings: Settings['fetch']): void {
    const { cleaners, cleanMemoryBytes } = this.#settings;
    this.#settings = settings;
    if (settings.cleaners === cleaners && settings.cleanMemoryBytes === cleanMemoryBytes) return;
    if (!this.#closed) this.#renew();
  }

  stats(): CleanerNumbers {
    let threads = 0;
    for (const { piscina } of this.#generations) threads += piscina.threads.length;
    return {
      threads,
      running: this.#running,
      queued: this.#queue.size,
      replaced: this.#replaced,
      refused: this.#refused,
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (let next = this.#queue.peek(); next !== null; next = this.#queue.peek())
      this.#queue.take(next).reject(new HeadraceError('HR_DRAINING'));
    await Promise.all(Array.from(this.#generations, (generation) => this.#drain(generation)));
  }

  /** Whether a thread is free for a page of `account`. */
  #admits(account: string): boolean {
    const { threads } = this.#generation;
    const most = this.#options.shared ? Math.max(1, threads - 1) : threads;
    return this.#running < threads && (this.#accounts.get(account) ?? 0) < most;
  }

  /** Why a page may not wait; null: it may. A single page of an account may, whatever its size, while there is room for its bytes. */
  #refusal(account: string, bytes: number): HeadraceError | null {
    const { perAccount, queue } = this.#settings;
    const headers = ['retry-after', '1'];
    const own = this.#queue.of(account);
    if (own.count > 0 && own.bytes + bytes > QUEUE_BYTES * ACCOUNT_SHARE)
      return new HeadraceError('HR_FETCH_LIMIT', { subject: String(perAccount), headers });
    const isFull = this.#queue.size >= queue || (this.#queue.size > 0 && this.#queue.bytes + bytes > QUEUE_BYTES);
    return isFull ? new HeadraceError('HR_FETCH_BUSY', { headers }) : null;
  }

  #startMore(): void {
    for (;;) {
      const next = this.#queue.peek(this.#fits);
      if (next === null) return;
      void this.#start(this.#queue.take(next));
    }
  }

  #count(account: string, change: 1 | -1): void {
    const count = (this.#accounts.get(account) ?? 0) + change;
    if (count > 0) this.#accounts.set(account, count);
    else this.#accounts.delete(account);
    this.#running += change;
  }

  async #start({ account, job, resolve, reject }: Task): Promise<void> {
    const generation = this.#generation;
    const limit = new AbortController();
    const begun = new Int32Array(new SharedArrayBuffer(4));
    const release = this.#guard(generation, begun, limit);
    this.#count(account, 1);
    generation.running++;
    generation.pages++;
    if (generation.pages >= this.#settings.pagesPerCleaner * generation.threads && this.#next === null) this.#renew();
    try {
      const task = { ...job, begun, timeoutMs: this.#settings.cleanTimeoutMs };
      const result = await generation.piscina.run(task, { signal: limit.signal, transferList: [job.bytes.buffer] });
      if ('page' in result) resolve(result.page);
      else reject(new HeadraceError(result.code, result));
    } catch (error) {
      // Errors of readers are results, so this one means that the thread has ended.
      this.#replaced++;
      reject(this.#closed ? new HeadraceError('HR_DRAINING') : unreadable(error, limit.signal.aborted));
    }
    release();
    this.#count(account, -1);
    generation.running--;
    this.#retire(generation);
    if (!this.#closed) this.#startMore();
  }

  /** Enforces the limits of a page until the returned function is called. Its time counts from the first check after it has begun. */
  #guard(generation: WorkerGeneration, begun: CleanTask['begun'], limit: AbortController): () => void {
    const { cleanTimeoutMs, cleanMemoryBytes } = this.#settings;
    const beginMs = this.#clock.now() + Math.max(BEGIN_MS, cleanTimeoutMs);
    let dueMs = beginMs;
    let timer: TimerHandle;
    const wait = (): void => {
      timer = this.#clock.setTimeout(check, Math.max(0, Math.min(WATCH_MS, dueMs - this.#clock.now())));
    };
    const check = (): void => {
      const nowMs = this.#clock.now();
      if (dueMs === beginMs && Atomics.load(begun, 0) === 1) dueMs = nowMs + cleanTimeoutMs;
      if (nowMs >= dueMs) {
        limit.abort();
        return;
      }
      for (const thread of generation.piscina.threads) void this.#checkMemory(thread, cleanMemoryBytes);
      wait();
    };
    wait();
    return () => this.#clock.clearTimeout(timer);
  }

  /** What lies outside of the heap, such as the decompressed streams of a PDF, is all in use; up to half of a heap is not. */
  async #checkMemory(thread: Worker, maxBytes: number): Promise<void> {
    if (this.#checking.has(thread)) return;
    this.#checking.add(thread);
    try {
      const { external_memory: outside, used_heap_size: heap } = await thread.getHeapStatistics();
      if (outside > maxBytes || outside + heap > 2 * maxBytes) await thread.terminate();
    } catch {
      // The thread has ended.
    }
    this.#checking.delete(thread);
  }

  #spawn(): WorkerGeneration {
    const { least, script } = this.#options;
    const threads = this.#options.threads(this.#settings);
    const piscina = new Piscina<CleanTask, CleanResult>({
      filename: script.href,
      name: 'readPage',
      minThreads: least,
      maxThreads: threads,
      idleTimeout: IDLE_MS,
      recordTiming: false,
      // Readers of untrusted pages get no secrets of the process,
      env: {},
      // nor its preloaded modules: loaders, instrumentation.
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_LIMIT_MB },
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
    next.piscina.run({} as CleanTask, { name: 'ready' }).then(
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
