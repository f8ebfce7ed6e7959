// Spans of a traced request's attempts, one per CRN, with the attributes of OpenTelemetry's semantic conventions for generative
// AI. The CRN is sent the context of its span. Exists for sampled requests only.

import type { Dialect, UsageWatch } from '../dialect/index.ts';
import { SPAN_KIND, type Span } from '../telemetry/span.ts';
import { withoutTraceContext, writeTraceParent } from '../telemetry/trace-context.ts';

/** `gen_ai.operation.name` where it is not `chat`. */
const TEXT_DIALECTS: ReadonlySet<string> = new Set(['completions', 'llama']);

/** The software of a CRN is not known. */
const PROVIDER = 'headrace';

function operationOf(dialect: Dialect | undefined, endpoint: string): string {
  if (dialect !== undefined) return TEXT_DIALECTS.has(dialect.name) ? 'text_completion' : 'chat';
  return endpoint.endsWith('/embeddings') ? 'embeddings' : 'generate_content';
}

export class AttemptTrace {
  readonly #request: Span;
  readonly #operation: string;
  readonly #model: string;
  /** Spans of attempts under way, by their number: two of a hedged request. */
  readonly #attempts = new Map<number, Span>();

  /** `request`: the span of the request. `path`: as it was sent. */
  constructor(request: Span, dialect: Dialect | undefined, path: string, model: string) {
    this.#request = request;
    this.#operation = operationOf(dialect, path);
    this.#model = model;
    this.#describe(request);
  }

  /** An attempt begins: returns its headers. `translation`: of what it sends; '' where that is as the client wrote it. */
  begin(url: string, number: number, translation: string): readonly string[] {
    const { hostname, port, protocol } = new URL(url);
    const attempt = this.#request.child(`${this.#operation} ${this.#model}`, SPAN_KIND.client);
    this.#describe(attempt);
    this.#attempts.set(number, attempt);
    attempt.set('server.address', hostname).set('server.port', Number(port) || (protocol === 'https:' ? 443 : 80));
    if (translation !== '') attempt.set('headrace.translation', translation);
    return ['traceparent', writeTraceParent(attempt)];
  }

  /** The attempt has ended; `failure` is null when it succeeded. Estimated tokens are not recorded. */
  end(number: number, failure: string | null, usage: UsageWatch | null): void {
    const attempt = this.#attempts.get(number);
    if (attempt === undefined) return;
    this.#attempts.delete(number);
    if (usage?.delivered === true) {
      const metered = usage.result(0);
      if (metered.measured) for (const span of [this.#request, attempt]) span.usage(metered);
    }
    attempt.end(failure ?? '');
  }

  /** The client's headers without its trace context, which the gateway's spans continue. */
  cleaned(headers: readonly string[]): string[] {
    return withoutTraceContext(headers, this.#request.parentId === '');
  }

  #describe(span: Span): void {
    span
      .set('gen_ai.operation.name', this.#operation)
      .set('gen_ai.provider.name', PROVIDER)
      .set('gen_ai.request.model', this.#model);
  }
}
