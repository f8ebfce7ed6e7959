// Requests with a hosted web search, for models whose servers do not have that tool (setting `webSearchTool`): each round of the model,
// and each search, is a request of its own through the whole pipeline, made with the client's credentials. The request of the client
// itself holds its place in the limits of its key, and no credit; what its parts cost is held until the client has got what they led to.

import { randomBytes } from 'node:crypto';
import type { TimerHandle } from '../actor/index.ts';
import { exactUsdText } from '../billing/index.ts';
import { dialectOf, DIALECTS, type NamedBody, type ServerError } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import { type DetachedExchange, type ResponseSink, startDetached } from '../ingress/detached-exchange.ts';
import { type Exchange, isEventStream, type PartCharges, type TrailerSource } from '../ingress/exchange.ts';
import { chosenHeaders, headerOf } from '../net/flat-headers.ts';
import type { Model } from '../routing/index.ts';
import { parsedJson } from '../net/json-object.ts';
import { EventSplitter } from '../net/sse.ts';
import { tracedHeaders } from '../telemetry/trace-context.ts';
import { type Downstream, type DownstreamListener, KEEP_ALIVE, unreadError } from '../upstream/index.ts';
import {
  type AnswerWriter,
  type HostedRequest,
  hostedRequestOf,
  type LoopIo,
  mayHost,
  type Members,
  type Output,
  SearchLoop,
  wholeAnswer,
} from '../web-search/index.ts';
import type { ApiDeps } from './deps.ts';
import { HeldCharges } from './held-charges.ts';
import { COST_HEADER, type Pending } from './pipeline.ts';
import { refuse, refusedBody } from './refuse.ts';
import { subRequest } from './sub-request.ts';

/** Where each round is asked. */
export const ROUND_PATH = '/v1/chat/completions';
const SEARCH_PATH = '/search';
const PAGE_PATH = '/search/fetch';
const TOOL = 'web_search';

/** Headers of the client that mean nothing in a round, or are given anew. */
const OF_CLIENT =
  /^(?:connection|keep-alive|content-length|content-encoding|content-type|content-digest|content-md5|digest|repr-digest|idempotency-key|transfer-encoding|accept|accept-encoding|expect|te|upgrade|origin|cookie|x-request-id|x-client-request-id|x-payment|payment-signature|anthropic-version|anthropic-beta|openai-beta)$/;
/** Headers of the first round that the client's answer has too. */
const OF_ROUND = /^(?:set-cookie|server-timing|retry-after|x-should-retry|x-headrace-(?:affinity|error|output-limit))$/;

/** Request ids have at most 128 characters. */
const MAX_ID_LENGTH = 120;
const ID_BYTES = 16;
/** A longer whole answer, or error, is not passed on. */
const MAX_WHOLE_BYTES = 16 * 1024 * 1024;

/** Whether the gateway runs the web search of requests to this model: not where its servers have the tool themselves. */
export function hostsSearch({ models, webSearchTool }: ApiDeps['settings'], model: string): boolean {
  return webSearchTool && models[model]?.webSearchTool !== false;
}

/**
 * The request as the search loop runs it; null where it goes to a CRN as it is. Throws 422 for a tool that is not valid, or for what chat
 * servers cannot do.
 */
export function hostedSearchOf(
  exchange: Exchange,
  { board, clock, settings }: ApiDeps,
  { id, members }: Model,
  { body, scan }: NamedBody,
): HostedRequest | null {
  if (exchange.parent !== null || !hostsSearch(settings, id) || !mayHost(body)) return null;
  // Servers that are declared without chat are asked as they can be.
  const nowMs = clock.now();
  const { bit } = DIALECTS['chat-completions'];
  if (members.length > 0 && !members.some((member) => board.speaks(member, bit, nowMs))) return null;
  return hostedRequestOf(dialectOf(exchange.path)?.name, body, scan.values, exchange.continues);
}

/** Serves the request: `downstream` is the client's side of the exchange. */
export function runHostedSearch(
  exchange: Exchange,
  deps: ApiDeps,
  request: HostedRequest,
  downstream: Downstream,
): void {
  new HostedSearchRun(exchange, deps, request, downstream).start();
}

class HostedSearchRun implements DownstreamListener, LoopIo, TrailerSource {
  readonly #exchange: Exchange;
  readonly #deps: ApiDeps;
  readonly #request: HostedRequest;
  readonly #downstream: Downstream;
  readonly #loop: SearchLoop;
  readonly output: Output;
  #round: Round | null = null;
  /** Searches and pages under way. */
  readonly #searches = new Set<Pending>();
  /** Until the next comment in a silent stream. */
  #commentTimer: TimerHandle | null = null;
  /** Events of an answer that is to be whole. */
  readonly #whole: Buffer[] = [];
  #wholeBytes = 0;
  /** Of the first round that was answered; null before. */
  #headers: string[] | null = null;
  readonly #charges: PartCharges;
  /** Whether what leaves is what the client gets: not where it gets but the end of what is written. */
  readonly #delivers: boolean;
  /** The affinity cookie: further rounds go where the first one went. */
  #cookie: string | undefined;
  #full = false;
  #isOver = false;

  constructor(exchange: Exchange, deps: ApiDeps, request: HostedRequest, downstream: Downstream) {
    this.#exchange = exchange;
    this.#deps = deps;
    this.#request = request;
    this.#downstream = downstream;
    this.#cookie = exchange.cookie;
    this.#delivers = exchange.heldBy === null;
    this.#charges = exchange.partCharges = exchange.heldBy ?? new HeldCharges();
    const write: Output = (events, isUseful) => this.#write(events, isUseful);
    this.output = write;
    this.#loop = new SearchLoop(request, this);
  }

  start(): void {
    this.#downstream.listener = this;
    this.#loop.start();
  }

  get isFull(): boolean {
    return this.#full;
  }

  onWritable(): void {
    this.#full = false;
    this.#round?.resume();
  }

  onCut(): void {
    if (this.#isOver) return;
    this.#leave();
    if (this.#downstream.committed) this.#break('HR_DRAINING');
    else refuse(this.#exchange, this.#deps, new HeadraceError('HR_DRAINING'));
  }

  onEnded(): void {
    this.#leave();
    this.#loop.leave();
  }

  nowMs(): number {
    return this.#deps.clock.now();
  }

  uniqueId(): string {
    return randomBytes(ID_BYTES).toString('hex');
  }

  ask(body: Buffer): void {
    const exchange = this.#exchange;
    const { remoteAddress, requestId, span } = exchange;
    exchange.subRequestCount++;
    const id = `${requestId.slice(0, MAX_ID_LENGTH)}/${exchange.subRequestCount}`;
    const headers = ['content-type', 'application/json', 'content-length', String(body.byteLength), 'x-request-id', id];
    if (this.#cookie !== undefined) headers.push('cookie', this.#cookie);
    headers.push(...chosenHeaders(tracedHeaders(exchange.headers, span), (name) => !OF_CLIENT.test(name)));
    const head = { method: 'POST', path: ROUND_PATH, query: '', headers, remoteAddress };
    const round = new Round(this);
    this.#round = round;
    startDetached(this.#deps.detached, head, body, round, (inner) => {
      inner.parent = exchange;
      round.exchange = inner;
    });
  }

  epochMs(): number {
    return this.#deps.epochMs();
  }

  search(body: Members, done: (status: number, json: unknown) => void): void {
    this.#call(SEARCH_PATH, body, done);
  }

  open(body: Members, done: (status: number, json: unknown) => void): void {
    this.#call(PAGE_PATH, body, done);
  }

  #call(path: string, body: Members, done: (status: number, json: unknown) => void): void {
    let isDone = false;
    let pending: Pending | null = null;
    pending = subRequest(this.#deps, this.#exchange, { path, body, tool: TOOL }, (status, _, json) => {
      isDone = true;
      if (pending !== null) this.#searches.delete(pending);
      if (this.#searches.size === 0) this.#stopComments();
      done(status, json);
    });
    if (isDone) return;
    this.#searches.add(pending);
    if (this.#commentTimer === null) this.#scheduleComment();
  }

  /** While searches run nothing comes of a round, whose own silence is filled where it is relayed. */
  #scheduleComment(): void {
    const { clock, settings } = this.#deps;
    const { streamKeepAliveMs } = settings;
    if (streamKeepAliveMs === null || !this.#request.streams) return;
    this.#commentTimer = clock.setTimeout(() => {
      this.#commentTimer = null;
      if (this.#isOver || this.#searches.size === 0) return;
      this.#start();
      if (!this.#full && !this.#downstream.write(KEEP_ALIVE)) this.#full = true;
      this.#scheduleComment();
    }, streamKeepAliveMs);
  }

  #stopComments(): void {
    if (this.#commentTimer !== null) this.#deps.clock.clearTimeout(this.#commentTimer);
    this.#commentTimer = null;
  }

  finished(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (this.#delivers) this.#charges.deliver();
    if (this.#request.streams) {
      this.#start();
      this.#downstream.end();
      return;
    }
    const { dialect } = this.#request;
    const whole = Buffer.from(wholeAnswer(dialect, Buffer.concat(this.#whole)));
    const headers = this.#answerHeaders('application/json');
    if (this.#exchange.settlement !== null) headers.push(COST_HEADER, this.#costText());
    this.#downstream.start(200, headers, whole.byteLength);
    this.#downstream.end(whole);
  }

  failed(error: ServerError, writer: AnswerWriter): void {
    if (this.#isOver) return;
    const { errorCode = '' } = this.#round?.exchange ?? {};
    this.#leave();
    if (errorCode !== '') this.#downstream.errorCode = errorCode;
    if (this.#downstream.committed) {
      writer.fail(error);
      this.#downstream.end();
      return;
    }
    if (errorCode !== '') {
      refuse(this.#exchange, this.#deps, new HeadraceError(errorCode as ErrorCode));
      return;
    }
    const { code, message, param, type } = error;
    const body = { error: { message, type: type || 'server_error', code: code || null, param: param || null } };
    const status = error.status || 502;
    this.#refuse(status, [], this.#translated(status, Buffer.from(JSON.stringify(body))));
  }

  tooLong(): void {
    // Another try would end as this one.
    this.broken('HR_ANSWER_UNTRANSLATABLE');
  }

  /** Whole events of the round. False: the client has to read first. */
  events(piece: Buffer): boolean {
    this.#noteHead();
    this.#loop.events(piece);
    return !this.#full;
  }

  /** A round has ended as a stream should. */
  roundEnded(): void {
    this.#noteHead();
    this.#loop.roundEnded();
  }

  /** A round was answered with an error, whole. */
  refused({ answerHeaders, errorCode, status }: DetachedExchange, body: Buffer): void {
    if (this.#isOver) return;
    if (errorCode !== '') this.#downstream.errorCode = errorCode;
    if (this.#downstream.committed) {
      const event = [Buffer.from('event: error\ndata: '), oneLine(errorIn(status, body)), Buffer.from('\n\n')];
      this.#loop.events(Buffer.concat(event));
      return;
    }
    this.#leave();
    const passed =
      errorCode === ''
        ? this.#translated(status, errorIn(status, body))
        : refusedBody(this.#exchange, this.#deps, errorCode as ErrorCode, body);
    this.#refuse(status, answerHeaders, passed);
  }

  /** An error of a server in the dialect of the client. */
  #translated(status: number, body: Buffer): Buffer {
    return Buffer.from(this.#request.translated?.answer().error(status, body) ?? body);
  }

  /** A round broke off. */
  broken(code: ErrorCode): void {
    if (this.#isOver) return;
    this.#leave();
    if (this.#downstream.committed) this.#break(code);
    else refuse(this.#exchange, this.#deps, new HeadraceError(code));
  }

  #refuse(status: number, headers: readonly string[], answer: Buffer): void {
    this.#loop.leave();
    this.#isOver = true;
    this.#downstream.start(status, kept(headers, 'application/json'), answer.byteLength);
    this.#downstream.end(answer);
  }

  /** Ends what the client has a part of. */
  #break(code: ErrorCode): void {
    const { message, status } = new HeadraceError(code);
    this.#downstream.errorCode = code;
    this.#isOver = false;
    this.#loop.break({ message, type: '', code, param: '', status, requestId: '' });
    this.#isOver = true;
    this.#downstream.end();
  }

  #write(events: Buffer, isUseful: boolean): void {
    if (this.#request.streams) {
      this.#start();
      if (isUseful && this.#delivers) this.#charges.deliver();
      this.#downstream.bytesOut += events.byteLength;
      if (!this.#downstream.write(events)) this.#full = true;
      return;
    }
    this.#wholeBytes += events.byteLength;
    if (this.#wholeBytes <= MAX_WHOLE_BYTES) this.#whole.push(Buffer.from(events));
    else this.tooLong();
  }

  #start(): void {
    if (this.#downstream.committed) return;
    const exchange = this.#exchange;
    const headers = this.#answerHeaders('text/event-stream');
    exchange.firstPieceMs = this.#deps.clock.now();
    const { firstPiece } = this.#deps.metrics.of(exchange.endpoint, exchange.model);
    firstPiece.observe((exchange.firstPieceMs - exchange.receivedMs) / 1000);
    if (exchange.settlement !== null && exchange.acceptsTrailers) {
      headers.push('trailer', COST_HEADER);
      exchange.trailerSource = this;
    }
    this.#downstream.start(200, headers, -1);
  }

  trailers(): readonly string[] {
    return [COST_HEADER, this.#costText()];
  }

  #costText(): string {
    return exactUsdText(this.#charges.dueCost);
  }

  #answerHeaders(type: string): string[] {
    const headers = kept(this.#headers ?? [], type);
    const { dialect } = this.#request;
    if (dialect !== 'chat-completions') headers.push('x-headrace-translated', `${dialect}-chat`);
    if (type === 'text/event-stream') headers.push('cache-control', 'no-cache');
    return headers;
  }

  #noteHead(): void {
    const inner = this.#round?.exchange;
    if (inner === null || inner === undefined || this.#headers !== null) return;
    this.#headers = [...inner.answerHeaders];
    this.#exchange.crn = inner.crn;
    this.#exchange.affinity = inner.affinity;
    const { dialect } = this.#request;
    if (dialect !== 'chat-completions') this.#exchange.translation = `${dialect}-chat`;
    const [cookie] = headerOf(this.#headers, 'set-cookie')?.split(';') ?? [];
    // Of two cookies of one name the first counts.
    if (cookie !== undefined) this.#cookie = this.#cookie === undefined ? cookie : `${cookie}; ${this.#cookie}`;
  }

  /** Aborts what is under way. */
  #leave(): void {
    this.#isOver = true;
    this.#stopComments();
    const round = this.#round;
    this.#round = null;
    round?.leave();
    for (const search of this.#searches) search.abort();
    this.#searches.clear();
  }
}

/** The answer of a model in one round. */
class Round implements ResponseSink {
  exchange: DetachedExchange | null = null;
  readonly #run: HostedSearchRun;
  readonly #splitter = new EventSplitter();
  /** Of an answer that is no stream. */
  #parts: Buffer[] = [];
  #bytes = 0;
  #isGone = false;

  constructor(run: HostedSearchRun) {
    this.#run = run;
  }

  piece(chunk: Uint8Array): boolean {
    if (this.#isGone) return true;
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    if (!this.#streams) {
      this.#bytes += bytes.byteLength;
      if (this.#bytes <= MAX_WHOLE_BYTES) this.#parts.push(Buffer.from(bytes));
      else this.#run.tooLong();
      return true;
    }
    const whole = this.#splitter.push(bytes);
    if (this.#splitter.midEvent) {
      this.#run.tooLong();
      return true;
    }
    return whole === undefined || this.#run.events(whole);
  }

  end(): void {
    if (this.#isGone) return;
    const exchange = this.exchange as DetachedExchange;
    const body = Buffer.concat(this.#parts);
    if (exchange.status >= 300) {
      this.#run.refused(exchange, body);
      return;
    }
    // A server that knows no streams answers with the whole message.
    if (!this.#streams && body.byteLength > 0) {
      this.#run.events(Buffer.concat([Buffer.from('data: '), oneLine(body), Buffer.from('\n\n')]));
    }
    this.#run.roundEnded();
  }

  broken(): void {
    if (!this.#isGone) this.#run.broken('HR_STREAM_BROKEN');
  }

  resume(): void {
    this.exchange?.resume();
  }

  leave(): void {
    this.#isGone = true;
    this.exchange?.leave();
  }

  get #streams(): boolean {
    const { answerHeaders = [], status = 0 } = this.exchange ?? {};
    return status < 300 && isEventStream(answerHeaders);
  }
}

function kept(headers: readonly string[], type: string): string[] {
  return ['content-type', type, ...chosenHeaders(headers, (name) => OF_ROUND.test(name))];
}

/** An error of a server as JSON, whatever its body is: an event without data would be none. */
function errorIn(status: number, body: Buffer): Buffer {
  const text = body.toString();
  if (parsedJson(text) !== undefined) return body;
  return Buffer.from(JSON.stringify({ error: { message: text.trim() || unreadError(status) } }));
}

/** JSON without line ends, which would end a field of an event. */
function oneLine(json: Buffer): Buffer {
  return Buffer.from(json.toString().replaceAll(/[\r\n]+/g, ' '));
}
