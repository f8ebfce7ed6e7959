// Token counts of an answer: asked for in streams of the OpenAI dialects, and read from what passes to the client. Bytes pass unchanged, but for the option and the event that the gateway itself asked for.

import { parseEvents, splitEvents } from '../net/sse.ts';
import { membersOf, parsedJson } from '../net/json-object.ts';
import type { AnswerJudge } from './answer.ts';
import type { Dialect, Usage } from './dialect.ts';
import { type AnswerContent, LineTextCounter, type NativeApi, nativeTextBytes } from './native.ts';
import { chatCompletions, responses } from './openai.ts';
import { type ScannedBody, SPAN } from './body-scan.ts';
import { parsedValue, skipSpace, skipValue } from './json-scan.ts';
import type { BodyEdit } from './output-limit.ts';

const OPTION = '{"include_usage":true}';
const MEMBER = `"stream_options":${OPTION},`;

/** Longer options are no options of a client, and take 300 ms to be parsed and written where they have a megabyte: they are replaced. */
const MOST_OPTION_BYTES = 4096;

/**
 * The change that adds `stream_options.include_usage` to a body, without which streams of completions and chat completions have no
 * counts. Undefined when the body asks already, when its dialect need not be asked, and when only the CRN can judge the option.
 */
export function usageEdit(dialect: Dialect | undefined, body: Buffer, scan: ScannedBody): BodyEdit | undefined {
  if (dialect?.name !== 'chat-completions' && dialect?.name !== 'completions') return undefined;
  if (!scan.stream && !isLooselyTrue(body, scan.spans)) return undefined;
  const start = scan.spans[SPAN.stream_options] as number;
  if (start < 0) {
    const first = body.indexOf(OPEN_OBJECT) + 1;
    return { start: first, end: first, text: MEMBER };
  }
  const end = scan.spans[SPAN.stream_options + 1] as number;
  const text = end - start > MOST_OPTION_BYTES ? OPTION : withUsage(parsedValue(body, start, end));
  return text === undefined ? undefined : { start, end, text };
}

/** Values other than booleans that servers written in Python take for them. */
const LOOSE_TRUE = /^(?:1|"(?:1|t|y|on|yes|true)")$/i;
const LOOSE_FALSE = /^(?:0|"(?:0|f|n|no|off|false)")$/i;

/** Whether some servers stream although the body does not say plainly so: a client must not get streams without counts by it. */
function isLooselyTrue(body: Buffer, spans: readonly number[]): boolean {
  const start = spans[SPAN.stream] as number;
  const end = spans[SPAN.stream + 1] as number;
  // In its longest spelling each letter is an escape.
  if (start < 0 || end - start > 26 || body[start] === 0x66) return false;
  return LOOSE_TRUE.test(JSON.stringify(parsedValue(body, start, end)) ?? '');
}

/** The options as text with counts asked for; undefined when they ask already or are no options. */
function withUsage(options: unknown): string | undefined {
  if (options === null) return OPTION;
  if (typeof options !== 'object' || Array.isArray(options)) return undefined;
  const { include_usage: asked } = options as { readonly include_usage?: unknown };
  // Neither true nor false: the CRN has an error message for it.
  const isUnasked = asked === undefined || asked === null || asked === false || LOOSE_FALSE.test(JSON.stringify(asked));
  if (!isUnasked) return undefined;
  return JSON.stringify({ ...options, include_usage: true });
}

/** Usage objects are flat but for one level of details. */
const USAGE_MAX_DEPTH = 8;

const SPACE = 0x20;
const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
/** Without its first quote, which every member has: the native search is faster. */
const USAGE = Buffer.from('usage"');

/** How a dialect, or a server without one, writes counts. */
type CountForm = Pick<Dialect, 'usage' | 'usageMembers'>;

/** Whether the counts are members with names of their own, not of an object `usage`. */
function hasNamedCounts({ usageMembers }: CountForm): boolean {
  return usageMembers[0] !== 'usage';
}

/** Usage in a part of an answer. Counts in several events are running totals: the largest of each is the answer's. */
export function usageIn(form: CountForm, bytes: Buffer): Usage | undefined {
  if (hasNamedCounts(form)) {
    const members: Record<string, unknown> = {};
    for (const name of form.usageMembers) members[name] = lastValue(bytes, name);
    return form.usage(members);
  }
  let total: Usage | undefined;
  for (let at = nextUsage(bytes, 0); at >= 0; at = nextUsage(bytes, at + 1)) {
    const end = skipValue(bytes, at, bytes.length, 0, USAGE_MAX_DEPTH);
    if (end > 0) total = larger(total, form.usage({ usage: parsedValue(bytes, at, end) }));
  }
  return total;
}

/**
 * Where the value of the next member `usage` begins that is an object, at any level; -1 when there is none. Quotes inside
 * JSON strings are escaped, so generated text cannot match.
 */
function nextUsage(bytes: Buffer, from: number): number {
  for (let at = bytes.indexOf(USAGE, from); at >= 0; at = bytes.indexOf(USAGE, at + USAGE.length)) {
    if (bytes[at - 1] !== QUOTE) continue;
    let pos = at + USAGE.length;
    while ((bytes[pos] as number) <= SPACE) pos++;
    if (bytes[pos] !== COLON) continue;
    pos++;
    while ((bytes[pos] as number) <= SPACE) pos++;
    if (bytes[pos] === OPEN_OBJECT) return pos;
  }
  return -1;
}

/** The last value of a member called `name`, at any level. */
function lastValue(bytes: Buffer, name: string): unknown {
  const quoted = `"${name}"`;
  for (let at = bytes.lastIndexOf(quoted); at >= 0; at = at === 0 ? -1 : bytes.lastIndexOf(quoted, at - 1)) {
    const colon = skipSpace(bytes, at + quoted.length, bytes.length);
    if (bytes[colon] !== COLON) continue;
    const start = skipSpace(bytes, colon + 1, bytes.length);
    const end = skipValue(bytes, start, bytes.length, 0, USAGE_MAX_DEPTH);
    if (end > 0) return parsedValue(bytes, start, end);
  }
  return undefined;
}

function larger(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return {
    promptTokens: Math.max(one.promptTokens, other.promptTokens),
    completionTokens: Math.max(one.completionTokens, other.completionTokens),
    cachedTokens: Math.max(one.cachedTokens, other.cachedTokens),
    saysCached: one.saysCached || other.saysCached,
  };
}

/** Bytes around a cut inside an answer that are read once more: no usage object is longer. */
const CUT_BYTES = 4096;

const NOTHING: Buffer = Buffer.alloc(0);
const UNCOUNTED: Usage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, saysCached: false };

/** Tokens of a response, and whether the CRN counted them (or they are an estimate). */
export interface Metered extends Usage {
  readonly measured: boolean;
}

/** How an answer is watched. */
export interface WatchOptions {
  /** Removes events that hold usage only: the gateway asked for them, the client did not. Default false. */
  readonly strip?: boolean;
  /** Bytes of text that are one token on average, for what the CRN does not count. */
  readonly bytesPerToken: number;
  /** How its server counts, for a request without a dialect. */
  readonly native?: NativeApi | undefined;
  /** Other than `text`: nothing in the answer was generated, as in one with embeddings. Default: `text`. */
  readonly content?: AnswerContent;
  /**
   * False: counts in the middle of a stream are read only if its first piece has some, so that its pieces cost next to nothing. A
   * stream with all its events is counted the same. Default true.
   */
  readonly readsEveryEvent?: boolean;
}

/** Answers of paths without a dialect: embeddings and rankings count like chat completions, images and speech like responses. */
const OTHER: CountForm = {
  usageMembers: ['usage'],
  usage: (members) => chatCompletions.usage(members) ?? responses.usage(members),
};

/** Dialects whose events have names: those in the middle of a stream have no counts. */
const ENDS_WITH_COUNTS: ReadonlySet<string> = new Set(['messages', 'responses']);

/** Counts the tokens of what passes to the client: `begin`, then `data` or `events` for each piece; `result` has the sum. */
export class UsageWatch {
  // Of the answer that passes: what its CRN was asked in.
  #dialect: Dialect = chatCompletions;
  #isDialect = false;
  #form: CountForm;
  /** Undefined with a dialect, and on paths of which nothing is known. */
  readonly #native: NativeApi | undefined;
  readonly #strip: boolean;
  readonly #bytesPerToken: number;
  readonly #content: AnswerContent;
  readonly #readsEveryEvent: boolean;
  /**
   * Whether the next piece of a stream must be given to `events`. Others need not be, unless they end inside an event or the judge
   * says that counts are due. A field, since it is asked for every piece.
   */
  isDue = true;
  /** Of the answer that passes; null before the first. */
  judge: AnswerJudge | null = null;
  #passed = false;
  #bytes = 0;
  /** Tokens of the answers that this one continues. */
  #before = 0;
  #usage: Usage | undefined;
  /** Counts the text of an answer without a dialect that is no stream; null for others. */
  #lines: LineTextCounter | null = null;
  /** Last bytes of an answer that was cut by the network where a usage object may be. */
  #beforeCut: Buffer = NOTHING;

  constructor({ bytesPerToken, content = 'text', native, readsEveryEvent = true, strip = false }: WatchOptions) {
    this.#native = native;
    this.#form = native ?? OTHER;
    this.#strip = strip;
    this.#bytesPerToken = bytesPerToken;
    this.#content = content;
    this.#readsEveryEvent = readsEveryEvent;
  }

  /** Bytes of text in a stream of a dialect; 0 when another CRN has continued it. */
  get streamedBytes(): number {
    return this.#isDialect && this.judge?.streams === true && this.#before === 0 ? this.judge.textBytes : 0;
  }

  /** Bytes of the answer so far. */
  get bytes(): number {
    return this.judge?.bytes ?? 0;
  }

  /** Whether the answer has reported counts, of its prompt or of its output. */
  get isReported(): boolean {
    return (this.judge?.usage ?? this.#usage) !== undefined;
  }

  /** Whether the tokens of the answer are known or can be estimated: it has a dialect, an API that is known, or counts of its own. */
  get isCountable(): boolean {
    return this.#isDialect || this.#native !== undefined || this.#content === 'input' || this.#usage !== undefined;
  }

  /** Whether output has passed. An answer without any is not charged. */
  get delivered(): boolean {
    return this.#passed && (this.#before > 0 || this.judge?.useful === true);
  }

  /** An answer begins to pass; an earlier one is forgotten. Each piece is given to its judge first. */
  begin(judge: AnswerJudge): void {
    this.#before = 0;
    this.#passed = false;
    this.isDue = true;
    this.#start(judge);
  }

  /** The answer goes on with that of another CRN, whose prompt includes what has passed. */
  resume(judge: AnswerJudge): void {
    this.#before = this.result(0).completionTokens;
    this.#start(judge);
  }

  #start(judge: AnswerJudge): void {
    const { dialect } = judge;
    this.judge = judge;
    this.#isDialect = dialect !== undefined;
    // Without a dialect the answer is read like one of chat completions.
    this.#dialect = dialect ?? chatCompletions;
    this.#form = this.#native ?? dialect ?? OTHER;
    this.#bytes = 0;
    this.#usage = undefined;
    this.#beforeCut = NOTHING;
    const hasLines = !this.#isDialect && !judge.streams && this.#content === 'text';
    this.#lines =
      hasLines && (this.#native !== undefined || this.#readsEveryEvent) ? new LineTextCounter(nativeTextBytes) : null;
  }

  /** A piece of a whole answer. */
  data(piece: Buffer): void {
    this.#passed = true;
    const isFirst = this.#bytes === 0;
    this.#bytes += piece.byteLength;
    this.#lines?.add(piece);
    // The judge has read the counts of an answer that was held to its end.
    if (this.judge?.countsRead !== true) this.#read(piece, isFirst, true);
  }

  /**
   * Whole events of a stream.
   * @param midEvent whether the piece ends inside an event that is too long to be held
   * @returns the bytes for the client: the same or fewer; undefined when none are left
   */
  events(piece: Buffer, midEvent = false): Buffer | undefined {
    const isLlama = this.#dialect.name === 'llama';
    const at = isLlama || this.judge?.hasNoUsage(piece) === true ? -1 : nextUsage(piece, 0);
    // Servers that count in every event begin with the first one. In the messages dialect all but that stand at the end.
    if (!this.#readsEveryEvent && !this.#passed) this.isDue = at >= 0 && !ENDS_WITH_COUNTS.has(this.#dialect.name);
    const isCut = this.#beforeCut.byteLength > 0;
    // All frames of the llama-style dialect have counts: the first one's prompt and the last one's answer are enough.
    const isEnd = this.#native !== undefined || (isLlama && (!this.#passed || this.judge?.finished === true));
    // Earlier events of a response repeat parts of its request, such as tools, in which a client could write counts of its own.
    const isEarly = this.#dialect.name === 'responses' && this.judge?.finished !== true;
    // The judge has read the counts of a last event that was held whole.
    const isRead = isEarly || this.judge?.countsRead === true;
    if (!isRead && (at >= 0 || isEnd || isCut || midEvent)) this.#read(piece, !isCut, midEvent);
    if (midEvent || this.#beforeCut.byteLength > 0) this.isDue = true;
    const passed = this.#strip && at >= 0 ? withoutUsageEvent(piece) : piece;
    if (passed !== undefined) this.#passed = true;
    return passed;
  }

  /** What the CRN has counted in a whole answer; undefined where it has not, or its counts are not those of the request. */
  counted(judge: AnswerJudge): Usage | undefined {
    if (judge !== this.judge || this.#before > 0 || !judge.finished || this.#isOneOfSeveral) return undefined;
    return this.judge.usage ?? this.#usage;
  }

  /** The tokens of what has passed. `promptTokens` is the estimate for a prompt that was not counted. */
  result(promptTokens: number): Metered {
    const metered = this.#resultOfLast(promptTokens);
    if (this.#before === 0) return metered;
    const prompt = Math.max(metered.promptTokens - this.#before, 0);
    const completionTokens = metered.completionTokens + this.#before;
    const cachedTokens = Math.min(metered.cachedTokens, prompt);
    const { saysCached } = metered;
    return { promptTokens: prompt || promptTokens, completionTokens, cachedTokens, saysCached, measured: false };
  }

  #resultOfLast(promptTokens: number): Metered {
    const bytes = this.#content === 'text' ? (this.#lines?.bytes ?? this.judge?.textBytes ?? 0) : 0;
    // A whole answer may repeat parts of its request too, and its counts come at its end.
    const isPart = this.#isDialect && this.judge?.streams === false && !this.judge.finished;
    const usage = this.judge?.usage ?? (isPart ? undefined : this.#usage);
    const isFinal = usage !== undefined && this.#isFinal(usage);
    const { cachedTokens, promptTokens: prompt, completionTokens: reported, saysCached } = usage ?? UNCOUNTED;
    const isKnown = this.#isDialect || this.#native !== undefined;
    // Of a path of which nothing is known no more is believed than was delivered: no token is shorter than a byte.
    const completionTokens = isKnown ? reported : Math.min(reported, this.judge?.bytes ?? 0);
    // Text is output: a count of 0 beside it is none. What other paths answer, such as embeddings, is not.
    const isCounted = completionTokens > 0 || bytes === 0 || !(isKnown || this.judge?.streams === true);
    if (isFinal && isCounted && prompt > 0) {
      return { promptTokens: prompt, completionTokens, cachedTokens, saysCached, measured: true };
    }
    const estimate = isFinal && isCounted ? 0 : Math.ceil(bytes / this.#bytesPerToken);
    return {
      promptTokens: this.#isOneOfSeveral ? Math.max(prompt, promptTokens) : prompt || promptTokens,
      completionTokens: Math.max(estimate, completionTokens),
      cachedTokens,
      saysCached,
      measured: false,
    };
  }

  /** Where counts have names of their own each of several answers has its own counts. */
  get #isOneOfSeveral(): boolean {
    return hasNamedCounts(this.#form) && (this.judge?.choices ?? 1) > 1;
  }

  #read(piece: Buffer, isFirst: boolean, cut: boolean): void {
    this.#add(piece);
    const joined = isFirst ? piece : Buffer.concat([this.#beforeCut, piece.subarray(0, CUT_BYTES)]);
    if (!isFirst) this.#add(joined);
    const last = piece.byteLength < CUT_BYTES ? joined : piece;
    this.#beforeCut = cut ? Buffer.from(last.subarray(Math.max(last.byteLength - CUT_BYTES, 0))) : NOTHING;
  }

  #add(bytes: Buffer): void {
    const usage = usageIn(this.#form, bytes);
    if (usage !== undefined) this.#usage = larger(this.#usage, usage);
  }

  /** The messages dialect counts the prompt in its first event, and of the llama-style frames the last one is read. */
  #isFinal({ completionTokens }: Usage): boolean {
    const { name } = this.#dialect;
    if (this.#isOneOfSeveral) return false;
    if (this.judge?.finished === true) return true;
    return name === 'messages' ? completionTokens > 1 : name !== 'llama';
  }
}

/** The piece without the event whose `choices` are empty and which has `usage`. */
function withoutUsageEvent(piece: Buffer): Buffer | undefined {
  const events = splitEvents(piece);
  const kept = events.filter((event) => !holdsUsageOnly(event));
  if (kept.length === events.length) return piece;
  return kept.length === 0 ? undefined : Buffer.concat(kept);
}

function holdsUsageOnly(event: Buffer): boolean {
  if (nextUsage(event, 0) < 0) return false;
  // The blank line behind the last event may be missing.
  const [{ data } = { data: '' }] = parseEvents(`${event.toString()}\n\n`);
  const { choices, usage } = membersOf(parsedJson(data));
  return Array.isArray(choices) && choices.length === 0 && typeof usage === 'object' && usage !== null;
}
