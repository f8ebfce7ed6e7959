// Metrics of the runtime: event loop, heap and actors of one thread, CPU and memory of the process. The event loop is
// monitored from the first reading until none has come for a while, so that a gateway without a reader pays nothing.

import { type IntervalHistogram, monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { type Clock, type System, systemClock, type TimerHandle } from '../actor/index.ts';
import type { MetricsSnapshot } from './metrics.ts';
import { Families } from './series.ts';

/** Sampling interval of the event loop in milliseconds; a delay shorter than a quarter of it is not seen. */
const RESOLUTION_MS = 10;

/** The monitor wakes the thread at every sample. It is stopped after so many milliseconds without a reading: two slow scrapes. */
const UNREAD_MS = 120_000;

const PERCENTILES: readonly (readonly [word: string, percentile: number])[] = [
  ['50', 50],
  ['99', 99],
  ['100', 100],
];

/** One thread; thread 0 is the control thread. */
export class ThreadMetrics {
  readonly #families = new Families();
  readonly #delays = this.#families.gauge(
    'headrace_event_loop_delay_seconds',
    'Delay of the event loop of a thread since the last reading: median, 99th percentile and longest (percentile 100)',
    ['thread', 'percentile'],
  );
  readonly #busy = this.#families.counter(
    'headrace_thread_busy_seconds_total',
    'Time in which the event loop of a thread was not waiting for events',
    ['thread'],
  );
  readonly #heap = this.#families.gauge('headrace_thread_heap_bytes', 'JavaScript heap in use by a thread', ['thread']);
  readonly #depth = this.#families.gauge(
    'headrace_mailbox_depth',
    'Messages waiting for a named actor and its children',
    ['thread', 'actor'],
  );
  readonly #deadLetters = this.#families.counter(
    'headrace_dead_letters_total',
    'Messages between actors that were not delivered',
    ['thread'],
  );
  readonly #restarts = this.#families.counter('headrace_actor_restarts_total', 'Actors restarted after a failure', [
    'thread',
  ]);
  readonly #system: Pick<System, 'stats' | 'mailboxes'>;
  readonly #thread: string;
  readonly #clock: Clock;
  #monitor: IntervalHistogram | null = null;
  #timer: TimerHandle | null = null;
  #readMs = 0;
  #closed = false;

  /** `thread`: number of the thread. `system`: its actors. */
  constructor(thread: number, system: Pick<System, 'stats' | 'mailboxes'>, clock: Clock = systemClock) {
    this.#thread = String(thread);
    this.#system = system;
    this.#clock = clock;
  }

  /** Whether the event loop is monitored at present. */
  get monitors(): boolean {
    return this.#monitor !== null;
  }

  /** The present values. Begins the next interval of delays. */
  snapshot(): MetricsSnapshot {
    const thread = this.#thread;
    this.#readDelays();
    this.#busy.at(thread).value = performance.eventLoopUtilization().active / 1000;
    this.#heap.at(thread).value = process.memoryUsage().heapUsed;
    const { deadLetters, restarts } = this.#system.stats();
    this.#deadLetters.at(thread).value = deadLetters;
    this.#restarts.at(thread).value = restarts;
    this.#depth.clear();
    for (const [actor, waiting] of this.#system.mailboxes()) this.#depth.at(thread, actor).value = waiting;
    return this.declared();
  }

  /** The families as they stand. */
  declared(): MetricsSnapshot {
    return this.#families.json();
  }

  /** Ends the monitoring; later readings show no delays. */
  close(): void {
    this.#closed = true;
    this.#stop();
  }

  #readDelays(): void {
    if (this.#closed) return;
    if (this.#monitor === null) {
      this.#monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      this.#monitor.enable();
    }
    this.#readMs = this.#clock.now();
    this.#timer ??= this.#clock.setTimeout(() => this.#stopUnread(), UNREAD_MS);
    const monitor = this.#monitor;
    for (const [word, percentile] of PERCENTILES) {
      // The monitor measures the whole time between two samples: the interval is taken off.
      const lateMs = monitor.count === 0 ? 0 : Math.max(monitor.percentile(percentile) / 1e6 - RESOLUTION_MS, 0);
      this.#delays.at(this.#thread, word).value = lateMs / 1000;
    }
    monitor.reset();
  }

  #stopUnread(): void {
    this.#timer = null;
    const leftMs = this.#readMs + UNREAD_MS - this.#clock.now();
    if (leftMs <= 0) this.#stop();
    else this.#timer = this.#clock.setTimeout(() => this.#stopUnread(), leftMs);
  }

  #stop(): void {
    this.#monitor?.disable();
    this.#monitor = null;
    if (this.#timer !== null) this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}

/** Whether ingress threads answer the control thread. */
export class AnswerMetrics {
  readonly #families = new Families();
  readonly #silent = this.#families.gauge(
    'headrace_thread_unresponsive_seconds',
    'Time since an ingress thread was asked whether it answers, where it has not for three seconds; 0 where it answers',
    ['thread'],
  );

  /** `silentMs`: of each thread, the first of which is thread 1. */
  snapshot(silentMs: readonly number[]): MetricsSnapshot {
    for (const [at, ms] of silentMs.entries()) this.#silent.at(String(at + 1)).value = ms / 1000;
    return this.#families.json();
  }
}

/** The whole process, under the names that Prometheus client libraries use. Read once per process: threads share the values. */
export class ProcessMetrics {
  readonly #families = new Families();
  readonly #cpu = this.#families.counter('process_cpu_seconds_total', 'CPU time of the process, user and system');
  readonly #memory = this.#families.gauge('process_resident_memory_bytes', 'Resident memory of the process');
  readonly #start = this.#families.gauge('process_start_time_seconds', 'Start of the process in seconds since 1970');

  snapshot(): MetricsSnapshot {
    const { user, system } = process.cpuUsage();
    this.#cpu.at().value = (user + system) / 1e6;
    this.#memory.at().value = process.memoryUsage.rss();
    this.#start.at().value = performance.timeOrigin / 1000;
    return this.declared();
  }

  /** The families as they stand. */
  declared(): MetricsSnapshot {
    return this.#families.json();
  }
}
