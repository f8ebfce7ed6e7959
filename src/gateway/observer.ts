// Request log and traces of one data plane. Both are off by default: a request then asks `active` and nothing else.

import type { Clock } from '../actor/index.ts';
import { atMost } from '../net/abortable.ts';
import type { Settings } from '../config/settings.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { AccessLog } from '../telemetry/access-log.ts';
import { type Span, Tracer } from '../telemetry/span.ts';
import { type CollectorAnswer, SpanExporter, SpanMetrics } from '../telemetry/span-exporter.ts';

/** Longest wait for a collector's answer, in milliseconds. */
const EXPORT_TIMEOUT_MS = 5000;
/** Longest wait for a collector while a gateway ends. */
const FLUSH_MS = 2000;
/** Most bytes of that answer that are read. */
const EXPORT_ANSWER_BYTES = 64 * 1024;

export interface ObserverOptions {
  readonly clock: Clock;
  readonly random: () => number;
  /** Number of the thread. */
  readonly thread: number;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** Where lines of the access log go; default: standard error. */
  readonly write?: (line: string) => void;
}

export class Observer {
  /** Whether anything is written of requests that begin now; the end of one that has a span is told in any case. */
  active = false;
  readonly #options: ObserverOptions;
  readonly #spans = new SpanMetrics();
  readonly #client = new BufferedClient(1);
  #key = '';
  #log: AccessLog | null = null;
  #tracer: Tracer | null = null;
  #exporter: SpanExporter | null = null;

  constructor(options: ObserverOptions) {
    this.#options = options;
  }

  /** Takes over settings. Spans of requests that have begun go to the exporter they began with. */
  configure({ log, telemetry: { otlp } }: Pick<Settings, 'log' | 'telemetry'>): void {
    const key = JSON.stringify([log, otlp]);
    if (key === this.#key) return;
    this.#key = key;
    const { random, write } = this.#options;
    this.#log?.close();
    this.#log = log.requests === 'off' ? null : new AccessLog({ ...log, requests: log.requests, random, write });
    void this.#exporter?.flush();
    this.#exporter = otlp.endpoint === null ? null : this.#makeExporter(otlp.endpoint, otlp);
    this.#tracer = this.#exporter === null ? null : this.#makeTracer(otlp.sample, this.#exporter);
    this.active = this.#log !== null || this.#tracer !== null;
  }

  /** A request has arrived: begins its span when it is sampled. One that another request makes is sampled with that. */
  begin(exchange: Exchange): void {
    if (this.#tracer === null || exchange.parent?.span === null) return;
    exchange.span = this.#tracer.begin(exchange.header('traceparent'), exchange.receivedMs);
  }

  /** Writes a request down that has ended; `status` is 499 where the client left first. */
  log(exchange: Exchange, status: number, elapsedMs: number): void {
    this.#log?.finished(exchange, status, elapsedMs);
  }

  metrics(): MetricsSnapshot {
    return this.#spans.snapshot();
  }

  /** Writes buffered log lines and sends waiting spans; resolves after two seconds at the latest. */
  async flush(): Promise<void> {
    this.#log?.flush();
    if (this.#exporter !== null) await atMost(this.#options.clock, FLUSH_MS, this.#exporter.flush());
  }

  close(): void {
    this.#log?.close();
    this.#client.close();
  }

  #makeTracer(sample: number, exporter: SpanExporter): Tracer {
    const { clock, random } = this.#options;
    return new Tracer({ now: () => clock.now(), random, sample, sink: (span) => exporter.add(span) });
  }

  #makeExporter(url: string, { headers, serviceName }: Settings['telemetry']['otlp']): SpanExporter {
    const { clock, thread, epochMs } = this.#options;
    const lowerCase = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const);
    const sent = { 'content-type': 'application/json', 'user-agent': 'headrace', ...Object.fromEntries(lowerCase) };
    const post = (body: string): Promise<CollectorAnswer> => {
      const request = { method: 'POST', url, headers: sent, body } as const;
      return this.#client.send(request, AbortSignal.timeout(EXPORT_TIMEOUT_MS), EXPORT_ANSWER_BYTES);
    };
    return new SpanExporter({ clock, epochMs, resource: { serviceName, thread }, post }, this.#spans);
  }
}

/**
 * Ends the span of a request. HTTP semantic conventions: a status of 4xx is not an error of the server. A stream that broke has status
 * 200 and a code.
 */
export function endSpan(exchange: Exchange, span: Span, status: number): void {
  const { method, endpoint, errorCode, requestId } = exchange;
  span.name = `${method} ${endpoint}`;
  span
    .set('http.request.method', method)
    .set('http.route', endpoint)
    .set('http.response.status_code', status)
    .set('headrace.request_id', requestId)
    .set('headrace.attempts', exchange.attempts);
  if (exchange.tool !== '') span.set('headrace.tool', exchange.tool);
  if (exchange.heldMs > 0) span.set('headrace.held_ms', Math.round(exchange.heldMs));
  if (exchange.aborted) span.end('client gone');
  else span.end(status >= 500 ? errorCode || String(status) : status < 400 ? errorCode : '');
}
