// W3C Trace Context, level 1: reads and writes the header `traceparent`. `tracestate` is passed on unchanged.

import { chosenHeaders } from '../net/flat-headers.ts';

/** Position of a request in its trace. Ids in lower-case hex. */
export interface TraceContext {
  /** 32 digits. */
  readonly traceId: string;
  /** 16 digits. */
  readonly spanId: string;
  readonly sampled: boolean;
}

/** Version, trace id, id of the caller's span, flags, and what later versions may add. */
const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Reads `traceparent`; null when it is absent or not valid, which calls for a new trace. */
export function readTraceParent(header: string | undefined): TraceContext | null {
  const match = header === undefined ? null : TRACEPARENT.exec(header);
  if (match === null) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = match;
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function writeTraceParent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`;
}

/** Random bytes as hex, never all zero. */
export function randomId(bytes: number, random: () => number): string {
  let id = '';
  for (let byte = 0; byte < bytes; byte++)
    id += Math.floor(random() * 256)
      .toString(16)
      .padStart(2, '0');
  return ZEROS.test(id) ? `${id.slice(1)}1` : id;
}

/** A flat list of headers without the trace context; with `stateToo` false `tracestate` stays. */
export function withoutTraceContext(headers: readonly string[], stateToo: boolean): string[] {
  return chosenHeaders(headers, (name) => name !== 'traceparent' && !(stateToo && name === 'tracestate'));
}

/** Headers for what a request has the gateway do: those of the request, with its span, where it is traced, in place of the context of its client. */
export function tracedHeaders(
  headers: readonly string[],
  span: (TraceContext & { readonly parentId: string }) | null,
): readonly string[] {
  if (span === null) return headers;
  return ['traceparent', writeTraceParent(span), ...withoutTraceContext(headers, span.parentId === '')];
}
