// The dialect interface, and what its implementations share: server-sent events, token counts and the ends of streams. A stream
// that was cut must never look complete to an official SDK: `errorEvent` and `endMark` exist for that.

export type DialectName = 'completions' | 'chat-completions' | 'responses' | 'messages' | 'llama';

/** A failure to report to a client. */
export interface Failure {
  /** Stable code, `HR_...`. */
  readonly code: string;
  /** One sentence for a person. */
  readonly message: string;
  /** The HTTP status of the failure, also where it is too late to send one. */
  readonly status: number;
  /** The member of the request that is at fault, where one is known. */
  readonly member?: string;
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
  /** Whether the CRN says how many came from a cache. */
  readonly saysCached: boolean;
}

/** One way to call a model: the paths that speak it, and what it looks like on the wire. */
export interface Dialect {
  readonly name: DialectName;
  /** Its bit in the dialects of a server: see `DIALECT_BITS`. */
  readonly bit: number;
  /** Request paths that speak it, below the base URL, without query. */
  readonly paths: readonly string[];
  /** The body member with the conversation; a KV cache can reuse its beginning. */
  readonly conversation: 'messages' | 'input' | 'prompt';
  /** The error event or events, blank lines included, that end a broken stream; the official SDKs throw on them. */
  errorEvent(failure: Failure): string;
  /** Members beside `detail` in an error body, from which SDKs read the message (`errorBodies: dialect`). */
  errorMember(failure: Failure): Record<string, unknown>;
  /** Whether a stream ends with the end of its last choice; in others `[DONE]` or an event of its own follows. */
  readonly endsWithChoices: boolean;
  /**
   * The member whose value ends a choice, from its second byte to its closing quote: events without it and without an error are
   * not parsed once an answer has begun. Null where events have names.
   */
  readonly endMark: Buffer | null;
  /** The event that may follow an error event; null: none may. */
  readonly failedEvent: string | null;
  /** Whether an event with the name at `[start, end)` is neither an end nor an error. */
  isQuietName(piece: Buffer, start: number, end: number): boolean;
  /**
   * Says what a data event means.
   * @param event its name; '' when it has none
   * @param data its parsed data
   * @param into all false and empty before
   */
  readEvent(event: string, data: Readonly<Record<string, unknown>>, into: EventReading): void;
  /** Members with the generated text: of the events of a stream, and of a whole answer. See `textMembers`. */
  readonly deltaTexts: readonly Buffer[];
  readonly answerTexts: readonly Buffer[];
  /** Members of a response that hold token counts. */
  readonly usageMembers: readonly string[];
  /** The token counts in the parsed values of those members, as far as they are there. */
  readonly usage: (members: Readonly<Record<string, unknown>>) => Usage | undefined;
}

/** One server-sent event. `data` is serialised on one line, so no text in it can end the event. */
export function sseEvent(event: string | undefined, data: unknown): string {
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${JSON.stringify(data)}\n\n`;
}

/** No response takes more; a larger count is a mistake of the CRN and must not be charged. */
const MAX_TOKENS = 100_000_000;

/** A parsed value as a token count; undefined when it is no whole number up to 10^8. */
export function tokenCount(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MAX_TOKENS
    ? value
    : undefined;
}

/** Meaning of one event of a stream. */
export interface EventReading {
  /** The event is worth a commitment to the client, though it holds no output, such as progress that the client asked for. */
  begins: boolean;
  /** It holds output or is a proper end. */
  useful: boolean;
  /** The CRN reports an error. */
  error: boolean;
  /** It does so in a form that clients of the dialect do not see. */
  foreign: boolean;
  /** Nothing follows it. */
  last: boolean;
  /** It has token counts, though more output or an end may follow. */
  counts: boolean;
  /** What it says of the token counts, if it is the last event of a dialect that says them there; else undefined. */
  usage: unknown;
  /** Indexes of the choices that it ends. */
  readonly ended: number[];
}

/** Whether a value holds output: text or an array or an object that is not empty, a number, or true. */
export function isFilled(value: unknown): boolean {
  if (typeof value === 'string') return value !== '';
  if (typeof value !== 'object') return value === true || typeof value === 'number';
  if (value === null) return false;
  return Array.isArray(value) ? value.length > 0 : Object.keys(value).length > 0;
}

/** Whether an object has a filled member beside `name`. */
export function isFilledBeside(value: unknown, name: string): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const members = value as Readonly<Record<string, unknown>>;
  for (const key of Object.keys(members)) if (key !== name && isFilled(members[key])) return true;
  return false;
}
