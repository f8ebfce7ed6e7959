// Which ingress threads answer, and what they have counted. A function that does not return, such as one of an engine module, blocks
// its thread with all connections on it. What a thread has counted stays in the sums while it does not answer and behind its end:
// Prometheus takes a sum that falls for a restart, and all of the next one for new.

import { summed } from '../telemetry/exposition.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { AnswerMetrics } from '../telemetry/runtime-metrics.ts';

export class ThreadWatch {
  readonly #metrics = new AnswerMetrics();
  /** When a thread that does not answer was asked, by the clock of the gateway. */
  readonly #silentSinceMs = new Map<number, number>();
  /** Counts by the last reading of each thread that runs. */
  readonly #counts = new Map<number, MetricsSnapshot>();
  #ended: MetricsSnapshot = [];

  /** A thread was asked at `askedMs` and has not answered for too long; null: it answers. */
  note(thread: number, askedMs: number | null): void {
    if (askedMs === null) this.#silentSinceMs.delete(thread);
    else this.#silentSinceMs.set(thread, askedMs);
  }

  /** Whether a question to the thread would be in vain. */
  isSilent(thread: number): boolean {
    return this.#silentSinceMs.has(thread);
  }

  ended(thread: number): void {
    this.#silentSinceMs.delete(thread);
    this.#ended = summed([this.#ended, this.#counts.get(thread) ?? []]);
    this.#counts.delete(thread);
  }

  /** The metrics of a thread; of one that does not answer, which is null, what it had counted by its last reading. */
  async read(thread: number, ask: () => Promise<MetricsSnapshot | null>): Promise<MetricsSnapshot> {
    const metrics = this.isSilent(thread) ? null : await ask();
    if (metrics === null) return this.#counts.get(thread) ?? [];
    this.#counts.set(
      thread,
      metrics.filter(({ type }) => type !== 'gauge'),
    );
    return metrics;
  }

  /** How long each of so many threads has been silent, and what ended ones have counted. */
  metrics(threads: number, nowMs: number): MetricsSnapshot {
    const silentMs = Array.from({ length: threads }, (_, at) => nowMs - (this.#silentSinceMs.get(at + 1) ?? nowMs));
    return [...this.#metrics.snapshot(silentMs), ...this.#ended];
  }
}
