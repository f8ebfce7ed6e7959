// Spans of one thread: one per request, and below it one per attempt, with the attributes of OpenTelemetry's semantic
// conventions for HTTP and generative AI. Nothing is allocated for a request that is not sampled.

import { randomId, readTraceParent, type TraceContext } from './trace-context.ts';

/** OpenTelemetry's numbers. */
export const SPAN_KIND = { server: 2, client: 3 } as const;
export type SpanKind = (typeof SPAN_KIND)[keyof typeof SPAN_KIND];

export type AttributeValue = string | number | boolean;

/** What a tracer needs from outside. */
export interface TracerOptions {
  /** Monotonic milliseconds, as those of exchanges. */
  readonly now: () => number;
  readonly random: () => number;
  /** Share of the requests without a valid `traceparent` that are traced, 0 to 1. */
  readonly sample: number;
  /** Gets every span once, at its end. */
  readonly sink: (span: Span) => void;
}

/** Tokens as a CRN counts them. */
interface CountedTokens {
  /** Of the whole prompt, its cached part included. */
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Whether the CRN says how many came from its cache. */
  readonly saysCached: boolean;
}

export class Span implements TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty at the root of a trace. */
  readonly parentId: string;
  readonly sampled = true;
  readonly kind: SpanKind;
  readonly attributes: Map<string, AttributeValue> = new Map();
  name: string;
  /** Milliseconds of the tracer's clock; `endMs` is 0 until the end. */
  readonly startMs: number;
  endMs = 0;
  /** Type of the error, of a small set; empty without an error. */
  errorType = '';
  readonly #options: TracerOptions;

  constructor(
    options: TracerOptions,
    parent: { traceId: string; spanId: string },
    name: string,
    kind: SpanKind,
    startMs: number,
  ) {
    this.#options = options;
    this.traceId = parent.traceId;
    this.parentId = parent.spanId;
    this.spanId = randomId(8, options.random);
    this.name = name;
    this.kind = kind;
    this.startMs = startMs;
  }

  /** Begins a span below this one, now. */
  child(name: string, kind: SpanKind): Span {
    return new Span(this.#options, this, name, kind, this.#options.now());
  }

  /** Sets an attribute; an empty string sets nothing. */
  set(key: string, value: AttributeValue): this {
    if (value !== '') this.attributes.set(key, value);
    return this;
  }

  /** Token counts as the CRN gave them. */
  usage({ cachedTokens, completionTokens, promptTokens, saysCached }: CountedTokens): void {
    this.set('gen_ai.usage.input_tokens', promptTokens).set('gen_ai.usage.output_tokens', completionTokens);
    if (saysCached) this.set('gen_ai.usage.cache_read.input_tokens', cachedTokens);
  }

  /** Ends the span, once. `errorType` is empty without an error. */
  end(errorType = ''): void {
    if (this.endMs !== 0) return;
    this.endMs = this.#options.now();
    this.errorType = errorType;
    this.set('error.type', errorType);
    this.#options.sink(this);
  }
}

export class Tracer {
  readonly #options: TracerOptions;

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  /** Begins the span of a request; null when it is not sampled. A valid `traceparent` decides, otherwise the share. */
  begin(traceparent: string | undefined, startMs: number): Span | null {
    const { random, sample } = this.#options;
    const parent = readTraceParent(traceparent);
    if (parent === null ? random() >= sample : !parent.sampled) return null;
    const above = parent ?? { traceId: randomId(16, random), spanId: '' };
    return new Span(this.#options, above, '', SPAN_KIND.server, startMs);
  }
}
