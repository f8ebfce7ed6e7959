// Spans as the JSON of an OTLP/HTTP export request (opentelemetry-proto, `ExportTraceServiceRequest`): ids in hex, 64-bit
// numbers as decimal strings. Pure; called by span-exporter.ts.

import type { AttributeValue, Span } from './span.ts';

/** Status code of a span that failed. */
const STATUS_ERROR = 2;

/** Who the spans come from. */
export interface Resource {
  readonly serviceName: string;
  /** Number of the thread. */
  readonly thread: number;
  /** What the clock of the spans shows plus this is milliseconds since 1970. */
  readonly epochOffsetMs: number;
}

/** The body of one export. */
export function encodeSpans(spans: readonly Span[], { serviceName, thread, epochOffsetMs }: Resource): string {
  const resource = { attributes: [pair('service.name', serviceName), pair('headrace.thread', thread)] };
  const encoded = spans.map((span) => encodeSpan(span, epochOffsetMs));
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
