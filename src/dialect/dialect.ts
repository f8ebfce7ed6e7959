// The dialect interface, and what its implementations share: server-sent events, token counts and the ends of streams. A stream
// that was cut must never look complete to an official SDK: `errorEvent` and `endsWell` exist for that.

export type DialectName = 'completions' | 'chat-completions' | 'responses' | 'messages' | 'llama';

/** A failure to report to a client. */
export interface Failure {
  /** Stable code, `HR_...`. */
  readonly code: string;
  /** One sentence for a person. */
  readonly message: string;
  /** The HTTP status of the failure, also where it is too late to send one. */
  readonly status: number;
  /** Number of the next event of a numbered stream (responses dialect). Default 0. */
  readonly sequence?: number;
}

/** Tokens of one request as the CRN counted them. */
export interface Usage {
  /** The whole prompt, its cached part included. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Prompt tokens that came from a cache; 0 when the CRN does not say. */
  readonly cachedTokens: number;
}

/** One way to call a model: the paths that speak it, and what it looks like on the wire. */
export interface Dialect {
  readonly name: DialectName;
  /** Request paths that speak it, below the base URL, without query. */
  readonly paths: readonly string[];
  /** The body member with the conversation; a KV cache can reuse its beginning. */
  readonly conversation: 'messages' | 'input' | 'prompt';
  /** The error event or events, blank lines included, that end a broken stream; the official SDKs throw on them. */
  errorEvent(failure: Failure): string;
  /** Members beside `detail` in an error body, from which SDKs read the message (`errorBodies: dialect`). */
  errorMember(failure: Failure): Record<string, unknown>;
  /**
   * Whether a stream is complete: its last event says so, or the CRN reported an error of its own.
   * @param tail the last bytes relayed, which end with a whole event; 4 KiB are enough
   */
  endsWell(tail: Buffer): boolean;
  /**
   * Events at the beginning of a stream that carry no token; for estimates of streams without counts.
   * @param first the first piece relayed
   */
  openingEvents(first: Buffer): number;
  /** Members of a response that hold token counts. */
  readonly usageMembers: readonly string[];
  /** The token counts in the parsed values of those members, as far as they are there. */
  usage(members: Readonly<Record<string, unknown>>): Usage | undefined;
}

/** One server-sent event. `data` is serialised on one line, so no text in it can end the event. */
export function sseEvent(event: string | undefined, data: unknown): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** No response takes more; a larger count is a mistake of the CRN and must not be charged. */
const MAX_TOKENS = 100_000_000;

/** The token count at `path` inside a parsed value; undefined when it is absent or no whole number up to 10^8. */
export function tokenCount(value: unknown, ...path: readonly string[]): number | undefined {
  let at: unknown = value;
  for (const name of path) {
    if (typeof at !== 'object' || at === null) return undefined;
    at = (at as Record<string, unknown>)[name];
  }
  return typeof at === 'number' && Number.isSafeInteger(at) && at >= 0 && at <= MAX_TOKENS ? at : undefined;
}

// Ends of streams. Patterns run over one character per byte. Quotes inside JSON strings are escaped, so generated text can
// look neither like a member name nor like a line of its own.

/** An error event of the CRN: the client has been told, nothing may follow. */
const REPORTED_ERROR = /^event:[ \t]*error[ \t]*$|^data:[ \t]*\{\s*(?:"type"\s*:\s*"error"|"error"\s*:\s*[{"])/m;

/** The tail begins where an event begins, so no event is cut. */
const STARTS_AT_FIELD = /^(?:event|data|id|retry)?:/;
const BLANK_LINE = /\n\r?\n|\r\r/;
const LINE_END = /[\r\n]$/;

/**
 * Whether `tail` contains a match of `complete` or an error event.
 * @param complete pattern of a complete stream; it must allow white space between JSON tokens
 */
export function showsEnd(tail: Buffer, complete: RegExp): boolean {
  const text = tail.toString('latin1');
  return complete.test(text) || REPORTED_ERROR.test(text);
}

/** Whether the first event of a stream is an error. Comments before it do not count. */
export function beginsInError(first: Buffer): boolean {
  const text = first.toString('latin1');
  const at = text.search(REPORTED_ERROR);
  return at >= 0 && !/^data:/m.test(text.slice(0, at));
}

/**
 * Whether the last event is longer than `tail`, so that its type cannot be seen. In dialects whose last event repeats the
 * prompt or the whole response, and whose other events are small, this is the last event.
 */
export function endsInLongEvent(tail: Buffer): boolean {
  const text = tail.toString('latin1');
  return LINE_END.test(text) && !STARTS_AT_FIELD.test(text) && !BLANK_LINE.test(text.trimEnd());
}
