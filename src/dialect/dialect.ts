// What a dialect is: the shape shared by the five files that each describe one way to call a model, and the words
// they have in common. Wire names stay inside this folder. Callers: api/ and upstream/, through table.ts.
// A stream that was cut must never look complete to an official SDK: errorEvent and endsWell exist for that.

/** The ways to call a model that the gateway understands. */
export type DialectName = 'completions' | 'chat-completions' | 'responses' | 'messages' | 'llama';

/** A failure to put into words. */
export interface Failure {
  /** Stable code, `HR_...`. */
  readonly code: string;
  /** One sentence for a person. */
  readonly message: string;
  /** The HTTP status the failure has, or would have had before the first byte. */
  readonly status: number;
  /** Number of the next event of a numbered stream (responses dialect). Default 0. */
  readonly sequence?: number;
}

/** Tokens of one request as the CRN counted them. */
export interface Usage {
  /** Whole prompt, cached part included. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens that came from a cache; 0 when the CRN does not say. */
  readonly cachedTokens: number;
}

export interface Dialect {
  readonly name: DialectName;
  /** Request paths that speak it, below the base URL, without query. */
  readonly paths: readonly string[];
  /** The body member that carries the conversation; its beginning is what a KV cache can reuse. */
  readonly conversation: 'messages' | 'input' | 'prompt';
  /** The whole error event(s) for a stream that broke, blank line included; the official SDKs throw on it. */
  errorEvent(failure: Failure): string;
  /** Members to put beside `detail` in an error body, so that SDKs show the message (`errorBodies: dialect`). */
  errorMember(failure: Failure): Record<string, unknown>;
  /**
   * Whether a stream that ended had come to its end: its last event says so, or the CRN reported its own error.
   * @param tail the last bytes relayed, whole events at its end; 4 KiB are enough
   */
  endsWell(tail: Buffer): boolean;
  /**
   * Events at the beginning of a stream that carry no token: for estimates when the counts never came.
   * @param first the first piece relayed
   */
  openingEvents(first: Buffer): number;
  /**
   * Token counts out of an answer.
   * @param read gives the parsed member of that name, undefined when absent
   */
  usage(read: (member: string) => unknown): Usage | undefined;
}

/** One server-sent event. `data` is serialised on one line, so no text in it can end the event. */
export function sseEvent(event: string | undefined, data: unknown): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** More than any answer can take: a server that counts so has lost count, and nobody shall pay for it. */
const MAX_TOKENS = 100_000_000;

/** The token count at `path` inside a parsed value, undefined when it is not a whole number of tokens, or absurd. */
export function tokenCount(value: unknown, ...path: readonly string[]): number | undefined {
  let at: unknown = value;
  for (const name of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Record<string, unknown>)[name];
  }
  return typeof at === 'number' && Number.isSafeInteger(at) && at >= 0 && at <= MAX_TOKENS ? at : undefined;
}
