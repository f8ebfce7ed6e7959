// The request log in memory: the last finished requests of one thread, in a ring of columns. Its memory is fixed when the first
// request ends; a further request makes no garbage unless it failed over, was traced or has a name of its own. Holds names, numbers and
// configured words; texts of prompts and answers only where they are given.

import { setImmediate as nextTurn } from 'node:timers/promises';
import { type FinishedRequest, speedOf, usdDecimal } from './access-log.ts';

/** An attempt that failed. Milliseconds from the arrival of the request; `sentMs` is null where nothing was sent. */
export interface FailedAttempt {
  readonly crn: string;
  /** A word of the metrics, such as `connect` or `status 503`. */
  readonly failure: string;
  /** The same for people, such as `connection refused`; null where it says nothing about the CRN. */
  readonly reason: string | null;
  readonly sentMs: number | null;
  readonly endMs: number;
}

/** What was asked and answered, as text. */
export interface RequestTexts {
  readonly prompt: string;
  readonly answer: string;
}

/** A request that is over, with what the access log does not have. Times in milliseconds of the clock of the thread. */
export interface EndedRequest extends FinishedRequest {
  readonly credential: string | null;
  readonly attempt: { readonly sentMs: number; readonly begunMs: number } | null;
  readonly failures: readonly FailedAttempt[] | null;
  readonly affinity: string;
  readonly remoteAddress: string;
  readonly texts: { texts(): RequestTexts } | null;
}

/** A row of the request log. Null: not known, or there was none. Milliseconds count from the arrival, but for `dateMs`. */
export interface LoggedRequest {
  /** Names the row, and its place in the order: a page goes on before or after it. */
  readonly cursor: string;
  /** As in `x-request-id`; clients may choose it, and then several requests may have it. */
  readonly requestId: string;
  /** When it ended, in milliseconds since 1970. */
  readonly dateMs: number;
  readonly method: string;
  /** Route of the table; `other` for a path that has none. */
  readonly endpoint: string;
  /** As it was sent, without the query; null where it is the endpoint. */
  readonly path: string | null;
  readonly dialect: string | null;
  readonly model: string | null;
  /** The name by which the client asked for the model, where that is not its id; also of a model that is not known. */
  readonly alias: string | null;
  /** By which tool or compatible interface a search or a page was asked for, such as `mcp` or `tavily`. */
  readonly tool: string | null;
  readonly account: string | null;
  /** Id of the key. */
  readonly key: string | null;
  /** Of the last attempt. */
  readonly crn: string | null;
  readonly attempts: number;
  /** The first eight, oldest first. */
  readonly failures: readonly FailedAttempt[];
  /** Why the first CRN was chosen. */
  readonly affinity: string | null;
  /** 499 where the client left before there was one. */
  readonly status: number;
  readonly code: string | null;
  readonly streamed: boolean;
  /** The client left before it had the whole answer. */
  readonly aborted: boolean;
  readonly durationMs: number;
  /** Time that it waited for a CRN with a short backlog. */
  readonly heldMs: number;
  /** When the last attempt was sent, and when its answer began. */
  readonly sentMs: number | null;
  readonly begunMs: number | null;
  /** When the first piece of a stream left for the client; of an answer that is no stream, when it began. */
  readonly firstByteMs: number | null;
  readonly inputTokens: number | null;
  readonly cachedTokens: number | null;
  readonly outputTokens: number | null;
  /** The CRN did not count the tokens. */
  readonly estimated: boolean;
  /** Output tokens: of a stream from its first piece on, of a whole answer over the whole time. */
  readonly tokensPerSecond: number | null;
  /** Exact, as text. */
  readonly costUsd: string | null;
  readonly bytesIn: number;
  readonly bytesOut: number;
  readonly translation: string | null;
  /** Share of the prompt that the CRN was expected to have in its cache, 0 to 1. */
  readonly predictedHit: number | null;
  readonly traceId: string | null;
  /** Address of the client, where the setting `requestLog.clientAddress` allows it. */
  readonly client: string | null;
}

/** A row with what is shown of it alone. */
export interface LogEntry extends LoggedRequest {
  readonly texts: RequestTexts | null;
}

/** A place in the order of the log: of the end, in microseconds, then of the thread, then of the row in it. */
export interface LogPlace {
  readonly endUs: number;
  readonly thread: number;
  readonly seq: number;
}

/** Which rows are wanted. Empty texts and zeros match all rows. Can be posted to another thread. */
export interface LogQuery {
  readonly limit: number;
  /** Rows before this place, newest first; null: from the newest. */
  readonly before: LogPlace | null;
  /** Rows behind this place, oldest first; null: see `before`. */
  readonly after: LogPlace | null;
  /**
   * Only rows that ended before, in microseconds of the clock of all threads: a page behind a place must not leave out rows of a thread
   * that was asked before they ended.
   */
  readonly upToUs: number;
  readonly model: string;
  readonly account: string;
  readonly crn: string;
  readonly endpoint: string;
  readonly tool: string;
  readonly code: string;
  /** Of status, both included. */
  readonly minStatus: number;
  readonly maxStatus: number;
  /** Only what failed, was broken off or was aborted. */
  readonly failed: boolean;
  readonly slowerThanMs: number;
  /** Part of an id, a name or a code; case does not matter. */
  readonly text: string;
}

/** What one thread has of a page. */
export interface LogPart {
  /** One more than wanted where there are more. */
  readonly rows: readonly LoggedRequest[];
  /** When the oldest row of a ring that has forgotten older ones ended, in milliseconds since 1970; null: it has all. */
  readonly sinceMs: number | null;
}

export interface RequestRingOptions {
  /** Rows that are kept. */
  readonly size: number;
  readonly thread: number;
  readonly clientAddress: boolean;
  /** Monotonic milliseconds, which count from one zero in all threads. */
  readonly now: () => number;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  /** The dialect of an endpoint. */
  readonly dialectOf: (endpoint: string) => string | null;
}

/** Fits a UUID; longer ids are kept apart. */
const ID_BYTES = 40;
const MAX_TEXT = 200;
/** Characters of all prompts and answers of a thread; the oldest go first. */
const TEXT_CHARS = 16 * 1024 * 1024;

/** A search of many rows takes longer: after this time others have their turn, in milliseconds. */
const TURN_MS = 5;
/** Rows between two looks at the clock. */
const ROWS_AT_ONCE = 256;

const ABORTED = 1;
const STREAMED = 2;
const ESTIMATED = 4;

/** What few requests have. */
interface Extra {
  readonly id: string;
  readonly path: string;
  readonly alias: string;
  readonly failures: readonly FailedAttempt[];
  readonly traceId: string;
  readonly client: string;
}

/** Columns of numbers and of words that are held elsewhere too. */
class Columns {
  readonly ids: Buffer;
  readonly idLengths: Uint8Array;
  readonly endUs: Float64Array;
  readonly cost: Float64Array;
  readonly bytesIn: Float64Array;
  readonly bytesOut: Float64Array;
  readonly durationMs: Float32Array;
  readonly heldMs: Float32Array;
  readonly sentMs: Float32Array;
  readonly begunMs: Float32Array;
  readonly firstByteMs: Float32Array;
  readonly predictedHit: Float32Array;
  readonly inputTokens: Int32Array;
  readonly cachedTokens: Int32Array;
  readonly outputTokens: Int32Array;
  readonly status: Uint16Array;
  readonly attempts: Uint16Array;
  readonly flags: Uint8Array;
  readonly method: string[];
  readonly endpoint: string[];
  readonly model: string[];
  readonly tool: string[];
  readonly account: string[];
  readonly key: string[];
  readonly crn: string[];
  readonly code: string[];
  readonly translation: string[];
  readonly affinity: string[];
  readonly extra: (Extra | null)[];

  constructor(size: number) {
    const words = (): string[] => new Array<string>(size).fill('');
    this.ids = Buffer.alloc(size * ID_BYTES);
    this.idLengths = new Uint8Array(size);
    this.endUs = new Float64Array(size);
    this.cost = new Float64Array(size);
    this.bytesIn = new Float64Array(size);
    this.bytesOut = new Float64Array(size);
    this.durationMs = new Float32Array(size);
    this.heldMs = new Float32Array(size);
    this.sentMs = new Float32Array(size);
    this.begunMs = new Float32Array(size);
    this.firstByteMs = new Float32Array(size);
    this.predictedHit = new Float32Array(size);
    this.inputTokens = new Int32Array(size);
    this.cachedTokens = new Int32Array(size);
    this.outputTokens = new Int32Array(size);
    this.status = new Uint16Array(size);
    this.attempts = new Uint16Array(size);
    this.flags = new Uint8Array(size);
    this.method = words();
    this.endpoint = words();
    this.model = words();
    this.tool = words();
    this.account = words();
    this.key = words();
    this.crn = words();
    this.code = words();
    this.translation = words();
    this.affinity = words();
    this.extra = new Array<Extra | null>(size).fill(null);
  }
}

/** A text that is looked for in others, whatever its case. */
class Needle {
  readonly #text: string;
  /** Words are those of many rows. */
  readonly #words = new Map<string, boolean>();

  constructor(text: string) {
    this.#text = text.toLowerCase();
  }

  isIn(text: string): boolean {
    return text.toLowerCase().includes(this.#text);
  }

  isInWord(word: string): boolean {
    let isIn = this.#words.get(word);
    if (isIn === undefined) this.#words.set(word, (isIn = this.isIn(word)));
    return isIn;
  }
}

export class RequestLog {
  readonly #options: RequestRingOptions;
  readonly #size: number;
  #columns: Columns | null = null;
  /** Rows so far: the place of the next one. */
  #count = 0;
  /** By the number of the row, oldest first. */
  readonly #texts = new Map<number, RequestTexts>();
  #textChars = 0;

  constructor(options: RequestRingOptions) {
    this.#options = options;
    this.#size = options.size;
  }

  /** A request of `elapsedMs` is written down at `nowMs`. `status` is 499 where the client left first. */
  add(request: EndedRequest, status: number, nowMs: number, elapsedMs: number = nowMs - request.receivedMs): void {
    const columns = (this.#columns ??= new Columns(this.#size));
    const { attempt, endpoint, firstPieceMs, path, receivedMs, requestId, settlement, tokens } = request;
    const seq = this.#count++;
    const row = seq % this.#size;
    const idLength = requestId.length <= ID_BYTES ? requestId.length : 0;
    if (idLength > 0) columns.ids.write(requestId, row * ID_BYTES, 'latin1');
    columns.idLengths[row] = idLength;
    columns.endUs[row] = Math.floor(nowMs * 1000);
    columns.durationMs[row] = elapsedMs;
    columns.heldMs[row] = request.heldMs;
    const begunMs = attempt === null || attempt.begunMs === 0 ? 0 : attempt.begunMs - receivedMs;
    columns.sentMs[row] = attempt === null || attempt.sentMs === 0 ? 0 : attempt.sentMs - receivedMs;
    columns.begunMs[row] = begunMs;
    columns.firstByteMs[row] = firstPieceMs > 0 ? firstPieceMs - receivedMs : begunMs;
    columns.predictedHit[row] = request.predictedHit;
    columns.cost[row] = settlement === null && request.cost === 0 ? -1 : request.cost;
    columns.inputTokens[row] = tokens === null ? -1 : tokens.promptTokens;
    columns.cachedTokens[row] = tokens === null || !tokens.saysCached ? -1 : tokens.cachedTokens;
    columns.outputTokens[row] = tokens === null ? -1 : tokens.completionTokens;
    columns.bytesIn[row] = request.bytesIn;
    columns.bytesOut[row] = request.bytesOut;
    columns.status[row] = status;
    columns.attempts[row] = request.attempts;
    const estimated = tokens !== null && !tokens.measured ? ESTIMATED : 0;
    columns.flags[row] = estimated | (request.aborted ? ABORTED : 0) | (firstPieceMs > 0 ? STREAMED : 0);
    columns.method[row] = request.method;
    columns.endpoint[row] = endpoint;
    columns.model[row] = request.model;
    columns.tool[row] = request.tool;
    columns.account[row] = request.account;
    columns.key[row] = request.credential ?? '';
    columns.crn[row] = request.crn;
    columns.code[row] = request.errorCode;
    columns.translation[row] = request.translation;
    columns.affinity[row] = request.affinity;
    const isPlain = idLength > 0 && path === endpoint && request.alias === '' && request.failures === null;
    columns.extra[row] =
      isPlain && request.span === null && !this.#options.clientAddress ? null : this.#extra(request, idLength);
    if (request.texts !== null || this.#texts.size > 0) this.#keepTexts(seq, request.texts);
  }

  /** The rows that are asked for. Requests may end meanwhile. */
  async page(query: LogQuery): Promise<LogPart> {
    const { epochMs, now } = this.#options;
    const nowMs = now();
    const offsetMs = epochMs() - nowMs;
    const columns = this.#columns;
    if (columns === null) return { rows: [], sinceMs: null };
    const rows: LoggedRequest[] = [];
    const { after, before, limit } = query;
    const needle = query.text === '' ? null : new Needle(query.text);
    const take = (seq: number): boolean => {
      if (this.#matches(columns, seq % this.#size, query, needle)) rows.push(this.#row(columns, seq, offsetMs));
      return rows.length <= limit;
    };
    if (after === null) {
      const isBefore = (seq: number): boolean => before === null || this.#compare(columns, seq, before) < 0;
      await this.#visit(this.#count - 1, -1, (seq) => !isBefore(seq) || take(seq));
    } else {
      await this.#visit(this.#oldest, 1, (seq) => this.#compare(columns, seq, after) <= 0 || take(seq));
    }
    const oldest = this.#oldest;
    const oldestUs = columns.endUs[oldest % this.#size] as number;
    return { rows, sinceMs: oldest === 0 ? null : Math.round(oldestUs / 1000 + offsetMs) };
  }

  /** Rows of a request id, or the row of a cursor; the newest first, with their texts. */
  async find(id: string, limit: number): Promise<LogEntry[]> {
    const { epochMs, now, thread } = this.#options;
    const columns = this.#columns;
    if (columns === null) return [];
    const offsetMs = epochMs() - now();
    const place = readPlace(id);
    const found: LogEntry[] = [];
    await this.#visit(this.#count - 1, -1, (seq) => {
      const isPlace = place?.seq === seq && place.thread === thread && this.#compare(columns, seq, place) === 0;
      if (isPlace || this.#id(columns, seq % this.#size) === id)
        found.push({ ...this.#row(columns, seq, offsetMs), texts: this.#texts.get(seq) ?? null });
      return found.length < limit;
    });
    return found;
  }

  /** Bytes of the columns; words and texts come on top. */
  static bytesOf(size: number): number {
    return Object.values(new Columns(size)).reduce<number>(
      (sum, column) => sum + (Array.isArray(column) ? column.length * 8 : (column as Uint8Array).byteLength),
      0,
    );
  }

  /** The number of the oldest row that is kept. */
  get #oldest(): number {
    return Math.max(this.#count - this.#size, 0);
  }

  /** Calls `visit` with the numbers of rows until it returns false. Those that are overwritten meanwhile are left out. */
  async #visit(from: number, step: 1 | -1, visit: (seq: number) => boolean): Promise<void> {
    const { now } = this.#options;
    for (let seq = from; ; await nextTurn()) {
      const endMs = now() + TURN_MS;
      if (step === 1) seq = Math.max(seq, this.#oldest);
      do {
        for (let row = 0; row < ROWS_AT_ONCE; row++, seq += step)
          if (seq < this.#oldest || seq >= this.#count || !visit(seq)) return;
      } while (now() < endMs);
    }
  }

  #extra(request: EndedRequest, idLength: number): Extra {
    const { alias, endpoint, failures, path, remoteAddress, requestId, span } = request;
    return {
      id: idLength > 0 ? '' : copy(requestId),
      path: path === endpoint ? '' : copy(path),
      alias: copy(alias),
      failures: failures ?? [],
      traceId: span === null ? '' : copy(span.traceId),
      client: this.#options.clientAddress ? copy(remoteAddress) : '',
    };
  }

  #keepTexts(seq: number, source: EndedRequest['texts']): void {
    if (source !== null) {
      const texts = source.texts();
      this.#texts.set(seq, texts);
      this.#textChars += charsOf(texts);
    }
    for (const [old, texts] of this.#texts) {
      if (this.#textChars <= TEXT_CHARS && old > seq - this.#size) break;
      this.#texts.delete(old);
      this.#textChars -= charsOf(texts);
    }
  }

  #compare(columns: Columns, seq: number, place: LogPlace): number {
    const endUs = columns.endUs[seq % this.#size] as number;
    return endUs - place.endUs || this.#options.thread - place.thread || seq - place.seq;
  }

  #matches(columns: Columns, row: number, query: LogQuery, needle: Needle | null): boolean {
    const status = columns.status[row] as number;
    const { account, code, crn, endpoint, model, tool } = query;
    if ((columns.endUs[row] as number) >= query.upToUs) return false;
    if (status < query.minStatus || status > query.maxStatus) return false;
    if (query.slowerThanMs > 0 && (columns.durationMs[row] as number) <= query.slowerThanMs) return false;
    if (query.failed && status < 400 && columns.code[row] === '' && ((columns.flags[row] as number) & ABORTED) === 0)
      return false;
    if (model !== '' && columns.model[row] !== model && columns.extra[row]?.alias !== model) return false;
    if (account !== '' && columns.account[row] !== account) return false;
    if (tool !== '' && columns.tool[row] !== tool) return false;
    if (code !== '' && columns.code[row] !== code) return false;
    if (endpoint !== '' && columns.endpoint[row] !== endpoint) return false;
    if (
      crn !== '' &&
      columns.crn[row] !== crn &&
      columns.extra[row]?.failures.some((each) => each.crn === crn) !== true
    )
      return false;
    return needle === null || this.#contains(columns, row, needle);
  }

  #contains(columns: Columns, row: number, needle: Needle): boolean {
    const { account, affinity, code, crn, endpoint, key, model, tool, translation } = columns;
    for (const words of [model, account, key, crn, code, endpoint, tool, translation, affinity]) {
      if (needle.isInWord(words[row] as string)) return true;
    }
    if (needle.isIn(this.#id(columns, row))) return true;
    const extra = columns.extra[row] ?? null;
    if (extra === null) return false;
    const { alias, client, failures, path, traceId } = extra;
    const reasons = failures.map(({ failure, reason }) => `${failure} ${reason ?? ''}`);
    return [alias, path, traceId, client, ...reasons].some((text) => needle.isIn(text));
  }

  #id(columns: Columns, row: number): string {
    const length = columns.idLengths[row] as number;
    if (length === 0) return columns.extra[row]?.id ?? '';
    return columns.ids.toString('latin1', row * ID_BYTES, row * ID_BYTES + length);
  }

  #row(columns: Columns, seq: number, offsetMs: number): LoggedRequest {
    const { dialectOf, thread } = this.#options;
    const row = seq % this.#size;
    const extra = columns.extra[row] ?? null;
    const flags = columns.flags[row] as number;
    const endUs = columns.endUs[row] as number;
    const cost = columns.cost[row] as number;
    const durationMs = columns.durationMs[row] as number;
    const firstByteMs = columns.firstByteMs[row] as number;
    const predictedHit = columns.predictedHit[row] as number;
    const outputTokens = columns.outputTokens[row] as number;
    const endpoint = columns.endpoint[row] as string;
    return {
      cursor: printPlace({ endUs, thread, seq }),
      requestId: this.#id(columns, row),
      dateMs: Math.round(endUs / 1000 + offsetMs),
      method: columns.method[row] as string,
      endpoint,
      path: extra?.path || null,
      dialect: dialectOf(endpoint),
      model: columns.model[row] || null,
      alias: extra?.alias || null,
      tool: columns.tool[row] || null,
      account: columns.account[row] || null,
      key: columns.key[row] || null,
      crn: columns.crn[row] || null,
      attempts: columns.attempts[row] as number,
      failures: (extra?.failures ?? []).map((failure) => ({
        ...failure,
        sentMs: failure.sentMs === null ? null : tenths(failure.sentMs),
        endMs: tenths(failure.endMs),
      })),
      affinity: columns.affinity[row] || null,
      status: columns.status[row] as number,
      code: columns.code[row] || null,
      streamed: (flags & STREAMED) !== 0,
      aborted: (flags & ABORTED) !== 0,
      durationMs: tenths(durationMs),
      heldMs: tenths(columns.heldMs[row] as number),
      sentMs: timeOrNull(columns.sentMs[row] as number),
      begunMs: timeOrNull(columns.begunMs[row] as number),
      firstByteMs: timeOrNull(firstByteMs),
      inputTokens: countOrNull(columns.inputTokens[row] as number),
      cachedTokens: countOrNull(columns.cachedTokens[row] as number),
      outputTokens: countOrNull(outputTokens),
      estimated: (flags & ESTIMATED) !== 0,
      tokensPerSecond: speedOf(outputTokens, (flags & STREAMED) === 0 ? 0 : firstByteMs, durationMs) ?? null,
      costUsd: cost < 0 ? null : usdDecimal(cost),
      bytesIn: columns.bytesIn[row] as number,
      bytesOut: columns.bytesOut[row] as number,
      translation: columns.translation[row] || null,
      predictedHit: predictedHit < 0 ? null : Math.round(predictedHit * 100) / 100,
      traceId: extra?.traceId || null,
      client: extra?.client || null,
    };
  }
}

export function printPlace({ endUs, thread, seq }: LogPlace): string {
  return `${endUs}-${thread}-${seq}`;
}

/** The place that a cursor names; null when it is none. */
export function readPlace(cursor: string): LogPlace | null {
  const [, endUs, thread, seq] = /^(\d{1,16})-(\d{1,4})-(\d{1,15})$/.exec(cursor) ?? [];
  if (endUs === undefined) return null;
  return { endUs: Number(endUs), thread: Number(thread), seq: Number(seq) };
}

/** Negative when `one` is before `other`. */
export function comparePlaces(one: LogPlace, other: LogPlace): number {
  return one.endUs - other.endUs || one.thread - other.thread || one.seq - other.seq;
}

/** A part of a request's head would keep all of it in memory. */
function copy(text: string): string {
  return text === '' ? '' : Buffer.from(text.slice(0, MAX_TEXT)).toString();
}

function charsOf({ answer, prompt }: RequestTexts): number {
  return answer.length + prompt.length;
}

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}

function timeOrNull(ms: number): number | null {
  return ms > 0 ? tenths(ms) : null;
}

function countOrNull(count: number): number | null {
  return count < 0 ? null : count;
}
