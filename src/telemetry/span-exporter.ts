// Sends spans to an OpenTelemetry collector as OTLP/HTTP JSON: a bounded queue, batches, one request at a time. A slow or
// unreachable collector costs spans, which are counted, and never delays a request.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { parseJson } from '../config/json-text.ts';
import type { MetricsSnapshot } from './metrics.ts';
import { Counters } from './series.ts';
import type { AttributeValue, Span } from './span.ts';

/** Spans that may wait; more are dropped. */
const MOST_WAITING = 4096;
/** Spans of one post. */
const BATCH = 512;
/** Longest time that a span waits for a batch, in milliseconds. */
const INTERVAL_MS = 2000;

/** Status code of a span that failed. */
const STATUS_ERROR = 2;

/** Where the spans come from. */
interface Resource {
  readonly serviceName: string;
  /** Number of the thread. */
  readonly thread: number;
}

/** What a collector has answered. */
export interface CollectorAnswer {
  readonly status: number;
  readonly body: Buffer;
}

export interface SpanExporterOptions {
  /** The clock of the spans. */
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly resource: Resource;
  /** Posts a body; resolves with the answer, rejects when there is none. */
  readonly post: (body: string) => Promise<CollectorAnswer>;
}

const OUTCOMES = ['exported', 'dropped', 'failed'] as const;

export class SpanMetrics {
  readonly #spans = new Counters(
    'headrace_trace_spans_total',
    'Spans by what became of them: exported, dropped (queue full), failed (not taken by the collector)',
    ['outcome'],
  );

  constructor() {
    // From 0 on: Prometheus sees no increase in the first value of a series, and an alert waits for one.
    for (const outcome of OUTCOMES) this.#spans.at(outcome);
  }

  count(outcome: (typeof OUTCOMES)[number], spans: number): void {
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

  /** Sends all waiting spans; resolves when each has been exported or has failed. */
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
      const taken = await this.#taken(batch);
      this.#metrics.count('exported', taken);
      this.#metrics.count('failed', batch.length - taken);
    }
    this.#sending = null;
  }

  /** How many spans the collector has taken. */
  async #taken(batch: readonly Span[]): Promise<number> {
    try {
      const { clock, epochMs, post, resource } = this.#options;
      const { body, status } = await post(encodeSpans(batch, resource, epochMs() - clock.now()));
      if (status < 200 || status >= 300) return 0;
      return batch.length - Math.min(rejectedIn(body), batch.length);
    } catch {
      // Counted as failed; a log line for each would repeat the metric.
      return 0;
    }
  }
}

/** Spans that a collector has rejected beside others that it took (`ExportTracePartialSuccess`): a number, or one as a string. */
function rejectedIn(body: Buffer): number {
  if (!body.includes('rejectedSpans')) return 0;
  try {
    const { partialSuccess } = parseJson(body.toString()) as { partialSuccess?: { rejectedSpans?: unknown } | null };
    return Math.max(Number(partialSuccess?.rejectedSpans ?? 0) || 0, 0);
  } catch {
    return 0;
  }
}

/**
 * The body of an OTLP/HTTP export request (opentelemetry-proto, `ExportTraceServiceRequest`): ids in hex, 64-bit numbers as
 * decimal strings.
 */
function encodeSpans(spans: readonly Span[], { serviceName, thread }: Resource, offsetMs: number): string {
  const resource = { attributes: [pair('service.name', serviceName), pair('headrace.thread', thread)] };
  const encoded = spans.map((span) => encodeSpan(span, offsetMs));
  return JSON.stringify({
    resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'headrace' }, spans: encoded }] }],
  });
}

function encodeSpan(span: Span, offsetMs: number): object {
  const { traceId, spanId, parentId, name, kind, startMs, endMs, attributes, errorType } = span;
  return {
    traceId,
    spanId,
    ...(parentId === '' ? {} : { parentSpanId: parentId }),
    name,
    kind,
    startTimeUnixNano: nanos(startMs + offsetMs),
    endTimeUnixNano: nanos(endMs + offsetMs),
    attributes: [...attributes].map(([key, value]) => pair(key, value)),
    ...(errorType === '' ? {} : { status: { code: STATUS_ERROR, message: errorType } }),
  };
}

function pair(key: string, value: AttributeValue): object {
  if (typeof value === 'string') return { key, value: { stringValue: value } };
  if (typeof value === 'boolean') return { key, value: { boolValue: value } };
  return { key, value: Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value } };
}

/** A double holds milliseconds since 1970 to a quarter of a microsecond, so the digits below are dropped. */
function nanos(ms: number): string {
  const whole = Math.floor(ms);
  const micros = Math.floor((ms - whole) * 1000);
  return `${whole}${String(micros).padStart(3, '0')}000`;
}
