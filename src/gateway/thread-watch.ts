// Which ingress threads answer, and what they have counted. A function that does not return, such as one of an engine module, blocks
// its thread with all connections on it. What a thread has counted stays in the sums while it does not answer and behind its end:
// Prometheus takes a sum that falls for a restart, and all of the next one for new.

import { summed } from '../telemetry/exposition.ts';
import { LeftNames, type PresentNames } from '../telemetry/left-names.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { AnswerMetrics } from '../telemetry/runtime-metrics.ts';
import type { FamilyJson, Labels } from '../telemetry/series.ts';

export class ThreadWatch {
  readonly #metrics = new AnswerMetrics();
  /** When a thread that does not answer was asked, by the clock of the gateway. */
  readonly #silentSinceMs = new Map<number, number>();
  /** Counts by the last reading of each thread that runs. */
  readonly #counts = new Map<number, MetricsSnapshot>();
  #ended: MetricsSnapshot = [];
  readonly #left = { crn: new LeftNames(), model: new LeftNames() };
  /** How often each thread has ended. */
  readonly #ends = new Map<number, number>();

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
    this.#ends.set(thread, this.#endsOf(thread) + 1);
  }

  /** Drops what ended threads have counted of CRNs and models that have left a while ago, as threads do that run. */
  keep({ crns, models }: PresentNames, nowMs: number): void {
    for (const [label, present] of [
      ['crn', crns],
      ['model', models],
    ] as const) {
      const known = this.#ended.flatMap(({ values }) => values.flatMap(({ labels }) => labels[label] ?? []));
      const left = new Set(this.#left[label].due(known, present, nowMs));
      if (left.size > 0) this.#ended = this.#ended.map((family) => without(family, label, left));
    }
  }

  /**
   * The metrics of so many threads, of which `ask` resolves with null where one does not answer: then with what it had counted by its last
   * reading. With them, how long each has been silent, and what ended ones have counted.
   */
  async read(
    threads: number,
    ask: (thread: number) => Promise<MetricsSnapshot | null>,
    now: () => number,
  ): Promise<MetricsSnapshot[]> {
    const numbers = Array.from({ length: threads }, (_, at) => at + 1);
    const ends = numbers.map((thread) => this.#endsOf(thread));
    const answers = await Promise.all(
      numbers.map(async (thread, at) => {
        const answer = this.isSilent(thread) ? null : await ask(thread);
        if (answer === null || this.#endsOf(thread) !== ends[at]) return null;
        const counts = answer.filter(({ type }) => type !== 'gauge');
        this.#counts.set(thread, counts);
        return answer;
      }),
    );
    // A thread that has ended meanwhile is among the ended ones, and must not count twice.
    const ofThreads = numbers.map((thread, at) => {
      const answer = this.#endsOf(thread) === ends[at] ? answers[at] : null;
      return answer ?? this.#counts.get(thread) ?? [];
    });
    const nowMs = now();
    const silentMs = numbers.map((thread) => nowMs - (this.#silentSinceMs.get(thread) ?? nowMs));
    return [this.#metrics.snapshot(silentMs), this.#ended, ...ofThreads];
  }

  #endsOf(thread: number): number {
    return this.#ends.get(thread) ?? 0;
  }
}

function without(family: FamilyJson, label: string, words: ReadonlySet<string>): FamilyJson {
  const isKept = ({ labels }: { readonly labels: Labels }): boolean => !words.has(labels[label] ?? '');
  return family.type === 'histogram'
    ? { ...family, values: family.values.filter(isKept) }
    : { ...family, values: family.values.filter(isKept) };
}
