// Which ingress threads answer, and what they have counted. A function that does not return, such as one of an engine module, blocks
// its thread with all connections on it. What a thread has counted stays in the sums while it does not answer and behind its end:
// Prometheus takes a sum that falls for a restart, and all of the next one for new.

import type { KeptReport, PlaneReport } from '../admin/index.ts';
import { summed } from '../telemetry/exposition.ts';
import { LeftNames, type PresentNames } from '../telemetry/left-names.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { mergedRecent, NO_FAILURES } from '../telemetry/recent.ts';
import { AnswerMetrics } from '../telemetry/runtime-metrics.ts';
import type { FamilyJson, Labels } from '../telemetry/series.ts';

/** What was counted by the last reading of each thread that runs, and of all that have ended. */
class KeptCounts {
  readonly #ofThreads = new Map<number, KeptReport>();
  #ended: KeptReport = { metrics: [], recent: NO_FAILURES };

  get ended(): KeptReport {
    return this.#ended;
  }

  of(thread: number): KeptReport | undefined {
    return this.#ofThreads.get(thread);
  }

  note(thread: number, { metrics, recent }: KeptReport): void {
    this.#ofThreads.set(thread, { metrics: metrics.filter(({ type }) => type !== 'gauge'), recent });
  }

  end(thread: number): void {
    const last = this.#ofThreads.get(thread);
    if (last === undefined) return;
    this.#ofThreads.delete(thread);
    this.#ended = {
      metrics: summed([this.#ended.metrics, last.metrics]),
      recent: mergedRecent([this.#ended.recent, last.recent]),
    };
  }

  /** Values of a label that ended threads have counted. */
  names(label: string): string[] {
    return this.#ended.metrics.flatMap(({ values }) => values.flatMap(({ labels }) => labels[label] ?? []));
  }

  drop(label: string, names: ReadonlySet<string>): void {
    const metrics = this.#ended.metrics.map((family) => without(family, label, names));
    this.#ended = { ...this.#ended, metrics };
  }
}

export class ThreadWatch {
  readonly #metrics = new AnswerMetrics();
  /** When a thread that does not answer was asked, by the clock of the gateway. */
  readonly #silentSinceMs = new Map<number, number>();
  readonly #ofMetrics = new KeptCounts();
  readonly #ofReports = new KeptCounts();
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
    this.#ofMetrics.end(thread);
    this.#ofReports.end(thread);
    this.#ends.set(thread, this.#endsOf(thread) + 1);
  }

  /** Drops what ended threads have counted of CRNs and models that have left a while ago, as threads do that run. */
  keep({ crns, models }: PresentNames, nowMs: number): void {
    for (const [label, present] of [
      ['crn', crns],
      ['model', models],
    ] as const) {
      const kept = [this.#ofMetrics, this.#ofReports];
      const known = kept.flatMap((each) => each.names(label));
      const left = new Set(this.#left[label].due(known, present, nowMs));
      if (left.size > 0) for (const each of kept) each.drop(label, left);
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
    const { answers, kept } = await this.#read(threads, this.#ofMetrics, async (thread) => {
      const metrics = await ask(thread);
      return metrics === null ? null : { metrics, recent: NO_FAILURES };
    });
    const nowMs = now();
    const silentMs = Array.from({ length: threads }, (_, at) => nowMs - (this.#silentSinceMs.get(at + 1) ?? nowMs));
    return [this.#metrics.snapshot(silentMs), ...[...kept, ...answers].map(({ metrics }) => metrics)];
  }

  /** The same of reports: `answers` of the threads that answer, and what the others have counted. */
  async reports(
    threads: number,
    ask: (thread: number) => Promise<PlaneReport | null>,
  ): Promise<{ readonly answers: readonly PlaneReport[]; readonly kept: readonly KeptReport[] }> {
    return await this.#read(threads, this.#ofReports, ask);
  }

  async #read<Report extends KeptReport>(
    threads: number,
    counts: KeptCounts,
    ask: (thread: number) => Promise<Report | null>,
  ): Promise<{ readonly answers: readonly Report[]; readonly kept: readonly KeptReport[] }> {
    const numbers = Array.from({ length: threads }, (_, at) => at + 1);
    const ends = numbers.map((thread) => this.#endsOf(thread));
    const given = await Promise.all(
      numbers.map(async (thread, at) => {
        const answer = this.isSilent(thread) ? null : await ask(thread);
        if (answer === null || this.#endsOf(thread) !== ends[at]) return null;
        counts.note(thread, answer);
        return answer;
      }),
    );
    // A thread that has ended meanwhile is among the ended ones, and must not count twice.
    const current = numbers.map((thread, at) => (this.#endsOf(thread) === ends[at] ? (given[at] ?? null) : null));
    const others = numbers.map((thread, at) => (current[at] === null ? counts.of(thread) : undefined));
    return {
      answers: current.filter((answer) => answer !== null),
      kept: [counts.ended, ...others.filter((report) => report !== undefined)],
    };
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
