// The way of spans out of a thread: a bounded queue, batches, one post at a time. A collector that is slow or gone costs
// spans, which are counted, and never a request. Owned by gateway/observer.ts.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { MetricsSnapshot } from './metrics.ts';
import { encodeSpans, type Resource } from './otlp.ts';
import { Counters } from './series.ts';
import type { Span } from './span.ts';

/** Spans that may wait; more are dropped. */
const MOST_WAITING = 4096;
/** Spans of one post. */
const BATCH = 512;
/** Time until a span that waits alone is sent, in milliseconds. */
const INTERVAL_MS = 2000;

export interface SpanExporterOptions {
  readonly clock: Clock;
  readonly resource: Resource;
  /** Posts a body; resolves with the status of the answer, rejects when there is none. */
  readonly post: (body: string) => Promise<number>;
}

export class SpanMetrics {
  readonly #spans = new Counters(
    'headrace_trace_spans_total',
    'Spans by what became of them: exported, dropped (queue full), failed (not taken by the collector)',
    ['outcome'],
  );

  count(outcome: 'exported' | 'dropped' | 'failed', spans: number): void {
    this.#spans.at(outcome).value += spans;
  }

  snapshot(): MetricsSnapshot {
    return [this.#spans.json()];
  }
}

export class SpanExporter {
  readonly #options: SpanExporterOptions;
  readonly #metrics: SpanMetrics;
  #waiting: Span[] = [];
  #timer: TimerHandle | null = null;
  /** The post under way and what follows it. */
  #sending: Promise<void> | null = null;

  constructor(options: SpanExporterOptions, metrics: SpanMetrics) {
    this.#options = options;
    this.#metrics = metrics;
  }

  /** Takes an ended span. */
  add(span: Span): void {
    if (this.#waiting.length >= MOST_WAITING) {
      this.#metrics.count('dropped', 1);
      return;
    }
    this.#waiting.push(span);
    if (this.#waiting.length >= BATCH) this.#send();
    else this.#timer ??= this.#options.clock.setTimeout(() => this.#send(), INTERVAL_MS);
  }

  /** Sends what waits; resolves when all of it has been taken or given up. */
  async flush(): Promise<void> {
    this.#send();
    await this.#sending;
  }

  #send(): void {
    if (this.#timer !== null) this.#options.clock.clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#waiting.length > 0) this.#sending ??= this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      this.#metrics.count((await this.#taken(batch)) ? 'exported' : 'failed', batch.length);
    }
    this.#sending = null;
  }

  async #taken(batch: readonly Span[]): Promise<boolean> {
    try {
      const status = await this.#options.post(encodeSpans(batch, this.#options.resource));
      return status >= 200 && status < 300;
    } catch {
      // Counted as failed: a log line for each would repeat what the metric says.
      return false;
    }
  }
}
