// One HTTP request of a data plane, as it reports it over one gRPC stream: reads the request, picks the CRN, passes bodies through
// unchanged, and tells routing what became of it. The protocol is the Endpoint Picker Protocol of the Gateway API Inference Extension
// (version 1.0.0) over Envoy's external processing.
//
// Every pick leaves the board once and has one outcome, whatever order the messages come in and however the stream ends.

import { heldName, continuedResponse, promptOf, sessionOf } from '../api/affinity-hint.ts';
import type { ApiDeps } from '../api/deps.ts';
import { scannedAsSent } from '../api/scanned-body.ts';
import {
  blockBytes,
  type Dialect,
  dialectOf,
  isForm,
  responseIdOf,
  type ScannedBody,
  scanForm,
  usageIn,
} from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import type { BodyBudget } from '../ingress/body.ts';
import type { Deadline, Expirable } from '../net/deadline.ts';
import { SESSION_HEADERS } from '../ingress/head-fields.ts';
import {
  type AffinityHint,
  type Candidate,
  Candidates,
  type Failure,
  failureOf,
  hashText,
  type Member,
  type Model,
  type PromptHashes,
  RANK,
  type Verdict,
  verdictOf,
} from '../routing/index.ts';
import {
  BODY_MODE,
  type CommonResponse,
  headerIn,
  type HeaderMap,
  type HeaderMutation,
  type ProcessingRequest,
  type ProcessingResponse,
  setHeaders,
  type Struct,
} from './protocol.ts';

/** Name of the header, and of the metadata, that tell the data plane where the request goes. */
const DESTINATION = 'x-gateway-destination-endpoint';
/** Namespaces of metadata, and their members. */
const LOAD_BALANCING = 'envoy.lb';
const SERVED = 'x-gateway-destination-endpoint-served';
const SUBSET_HINT = 'envoy.lb.subset_hint';
const SUBSET = 'x-gateway-destination-endpoint-subset';

/** A body is passed back in pieces of less than the 64 KiB that Envoy takes in one message. */
const PIECE_BYTES = 62 * 1024;

/** End of an answer that is kept for its token counts; its beginning has the id of a response. */
const TAIL_BYTES = 16 * 1024;

/** The answer to an upgrade. */
const SWITCHING = 101;

const EVENT_STREAM = /^text\/event-stream[ \t]*(?:;|$)/i;

/** Seconds that a client is asked to wait when no CRN can be picked. */
const RETRY_AFTER_S = '2';

/** Endpoint of requests without a dialect in metrics. */
const OTHER_PATHS = 'other';

/**
 * A client may send the header itself. A body that is buffered has the destination, but none comes where trailers follow the head at once:
 * Envoy forwards the request then, and would send it wherever the client says.
 */
const UNADDRESSED: CommonResponse = { header_mutation: { remove_headers: [DESTINATION] } };

const NO_PROMPT: PromptHashes = { hashes: new Int32Array(0), count: 0, bytes: 0 };
const NO_BYTES = Buffer.alloc(0);

/** What the requests of a picker share. */
export interface PickerDependencies {
  /** The present snapshot. */
  readonly deps: () => ApiDeps;
  readonly budget: BodyBudget;
  readonly maxBodyBytes: () => number;
  /** `ip:port` of a CRN; undefined for one whose base URL has a name, which a data plane cannot be sent to. */
  readonly endpointOf: (member: Member) => string | undefined;
  /** CRNs that are named behind the picked one. More than 0 only for data planes that understand lists, and that retry. */
  readonly fallbacks: number;
}

/** The stream of a request. */
export interface ProcessingStream {
  write(response: ProcessingResponse): void;
}

/** What is known of a request when a CRN is picked. */
interface Picked {
  readonly model: Model;
  readonly dialect: Dialect | undefined;
  readonly candidates: Candidates;
  /** The choice that is charged. */
  choice: Candidate;
  readonly hint: AffinityHint;
  /** The prompt is all that the CRN computes: no attachment, no earlier response. */
  readonly isWhole: boolean;
}

export class PickedRequest implements Expirable {
  readonly #shared: PickerDependencies;
  readonly #stream: ProcessingStream;
  readonly #startedMs: number;
  /** Of a body that is awaited: of its next piece. */
  readonly #deadline: Deadline;
  #headers: HeaderMap | undefined;
  #path = '';
  #subset: ReadonlySet<string> | null = null;
  /** Undefined until the first message has come. */
  #bodyMode: number | undefined;
  #answerMode: number = BODY_MODE.duplex;
  #pieces: Buffer[] = [];
  /** Sizes of the pieces of the body, as they were taken from the budget. */
  #taken: number[] = [];
  #bytes = 0;
  /** The whole body, until the answer has begun: its prompt is read once more if the CRN refuses it. */
  #body: Buffer | null = null;
  #picked: Picked | null = null;
  /** The request was refused, or there was nothing to pick. */
  #isOver = false;
  /** The stream has ended. */
  #isEnded = false;
  #pickedMs = 0;
  #status = 0;
  /** The answer is a stream of events that can be read. */
  #isEventStream = false;
  #isPrefilled = false;
  /** The id of the response is known, or will not be. */
  #isNoted = false;
  #tail: Buffer[] = [];
  #tailBytes = 0;

  constructor(shared: PickerDependencies, stream: ProcessingStream) {
    this.#shared = shared;
    this.#stream = stream;
    const { clock, failover } = shared.deps();
    this.#startedMs = clock.now();
    this.#deadline = failover.deadlines.deadline(this);
  }

  /** @internal The client is silent in the middle of its body. */
  expire(): void {
    this.#refuse(new HeadraceError('HR_REQUEST_TIMEOUT'));
  }

  /** A message of the data plane. Never throws. */
  receive(message: ProcessingRequest): void {
    try {
      this.#receive(message);
    } catch (thrown) {
      this.#refuse(thrown);
    }
  }

  /** The stream has ended, in order or not. May be called more than once. */
  end(): void {
    if (this.#picked !== null) {
      // Without its body, the end of an answer is that of the stream. Otherwise it was cut: by the client, or by the CRN.
      const isServed = this.#answerMode === BODY_MODE.none && this.#status >= 200 && this.#status < 300;
      this.#settle(isServed ? 'ok' : 'neutral', isServed ? null : 'client gone', false);
    }
    this.#giveBytes();
    this.#isOver = true;
    this.#isEnded = true;
  }

  #receive(message: ProcessingRequest): void {
    // Nobody hears an answer, and where the request goes is not known.
    if (message.observability_mode === true || this.#isEnded) return;
    this.#noteMetadata(message);
    const { request_body, request_headers, response_body, response_headers } = message;
    if (request_headers !== undefined) this.#onRequestHeaders(request_headers, message);
    else if (request_body !== undefined) this.#onRequestBody(request_body.body, request_body.end_of_stream === true);
    else if (message.request_trailers !== undefined) this.#onRequestTrailers();
    else if (response_headers !== undefined) {
      this.#onResponseHeaders(response_headers.headers, response_headers.end_of_stream === true);
      this.#stream.write({ response_headers: {} });
    } else if (response_body !== undefined) {
      const isEnd = response_body.end_of_stream === true;
      const body = response_body.body ?? NO_BYTES;
      this.#stream.write({ response_body: { response: this.#passed(body, isEnd, this.#answerMode) } });
      this.#onResponseBody(body, isEnd);
    } else if (message.response_trailers !== undefined) {
      this.#stream.write({ response_trailers: {} });
      this.#onAnswered();
    }
  }

  /** A piece of a body as it is passed back. In modes other than full duplex the data plane keeps its own. */
  #passed(body: Buffer, isEnd: boolean, mode: number): CommonResponse {
    if (mode !== BODY_MODE.duplex) return {};
    return { body_mutation: { streamed_response: { body, end_of_stream: isEnd } } };
  }

  #noteMetadata({ metadata_context }: ProcessingRequest): void {
    const metadata = metadata_context?.filter_metadata;
    if (metadata === undefined) return;
    const subset = metadata[SUBSET_HINT]?.fields?.[SUBSET];
    if (subset !== undefined && this.#picked === null) {
      const { list_value, string_value } = subset;
      const listed = list_value?.values?.map((value) => value.string_value ?? '') ?? string_value?.split(',') ?? [];
      this.#subset = new Set(listed.map((endpoint) => endpoint.trim()));
    }
    const served = metadata[LOAD_BALANCING]?.fields?.[SERVED]?.string_value;
    if (served !== undefined && this.#picked !== null) this.#noteServed(served);
  }

  #onRequestHeaders(part: NonNullable<ProcessingRequest['request_headers']>, message: ProcessingRequest): void {
    if (this.#bodyMode !== undefined) throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: 'a second head' });
    const { protocol_config } = message;
    this.#headers = part.headers;
    const target = headerIn(part.headers, ':path') ?? '/';
    this.#path = target.split('?', 1)[0] as string;
    // Data planes that do not say how they send bodies follow the picker protocol, which requires full duplex.
    this.#bodyMode = protocol_config === undefined ? BODY_MODE.duplex : (protocol_config.request_body_mode ?? 0);
    this.#answerMode = protocol_config === undefined ? BODY_MODE.duplex : (protocol_config.response_body_mode ?? 0);
    const isReadable = this.#bodyMode === BODY_MODE.duplex || this.#bodyMode === BODY_MODE.buffered;
    // What follows the head of an upgrade is no body, and follows the answer. Clients that would speak HTTP/2 have one too, and a body.
    const isWebSocket = headerIn(part.headers, 'upgrade')?.toLowerCase() === 'websocket';
    const isUpgrade = isWebSocket || headerIn(part.headers, ':method') === 'CONNECT';
    if (part.end_of_stream === true || isUpgrade || !isReadable) {
      const { metadata, mutation } = this.#pick(null);
      const response = { header_mutation: mutation, clear_route_cache: true };
      this.#stream.write({ request_headers: { response }, dynamic_metadata: metadata });
      return;
    }
    const declared = Number(headerIn(part.headers, 'content-length') ?? 0);
    if (declared > this.#shared.maxBodyBytes()) throw tooLarge(this.#shared.maxBodyBytes());
    // Full duplex: the answer to the headers waits until the body has told the model.
    if (this.#bodyMode === BODY_MODE.buffered) this.#stream.write({ request_headers: { response: UNADDRESSED } });
    else this.#await();
  }

  #onRequestBody(body: Buffer = NO_BYTES, isEnd: boolean): void {
    if (this.#isOver || this.#picked !== null) {
      const response = this.#passed(body, isEnd, this.#bodyMode ?? BODY_MODE.duplex);
      this.#stream.write({ request_body: { response } });
      return;
    }
    if (this.#bodyMode === undefined)
      throw new HeadraceError('HR_REQUEST_MALFORMED', { subject: 'a body without a head' });
    if (this.#bytes + body.byteLength > this.#shared.maxBodyBytes()) throw tooLarge(this.#shared.maxBodyBytes());
    if (!this.#shared.budget.take(body.byteLength, false))
      throw new HeadraceError('HR_OVERLOADED', { subject: 'memory for request bodies' });
    this.#taken.push(body.byteLength);
    this.#pieces.push(isEnd ? body : ownCopy(body));
    this.#bytes += body.byteLength;
    // A buffered body comes in one message, which is not the end of the request when trailers follow.
    if (isEnd || this.#bodyMode === BODY_MODE.buffered) this.#onWholeBody(isEnd);
    else this.#await();
  }

  #await(): void {
    this.#deadline.set(this.#shared.deps().settings.timeouts.bodyMs);
  }

  /** The body has ended before, without saying so. */
  #onRequestTrailers(): void {
    const isUnpicked = this.#picked === null && !this.#isOver && this.#bodyMode !== undefined;
    if (isUnpicked && this.#bodyMode === BODY_MODE.buffered) {
      // There was no body, and headers cannot be changed any more.
      this.#stream.write({ request_trailers: {}, dynamic_metadata: this.#pick(null).metadata });
      return;
    }
    if (isUnpicked) this.#onWholeBody(false);
    this.#stream.write({ request_trailers: {} });
  }

  #onWholeBody(isEnd: boolean): void {
    const body = this.#pieces.length === 1 ? (this.#pieces[0] as Buffer) : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#deadline.clear();
    const { metadata, mutation } = this.#pick(body);
    const response = { header_mutation: mutation, clear_route_cache: true };
    if (this.#bodyMode === BODY_MODE.buffered) {
      this.#stream.write({ request_body: { response }, dynamic_metadata: metadata });
    } else {
      this.#stream.write({ request_headers: { response }, dynamic_metadata: metadata });
      for (let at = 0; at === 0 || at < body.byteLength; at += PIECE_BYTES) {
        const isLast = at + PIECE_BYTES >= body.byteLength;
        const passed = this.#passed(body.subarray(at, at + PIECE_BYTES), isLast && isEnd, BODY_MODE.duplex);
        this.#stream.write({ request_body: { response: passed } });
      }
    }
  }

  /** Picks a CRN for a body; null: it was not sent, and load decides. */
  #pick(body: Buffer | null): { readonly metadata: Struct; readonly mutation: HeaderMutation } {
    const deps = this.#shared.deps();
    const encoding = headerIn(this.#headers, 'content-encoding') ?? 'identity';
    const isReadable = body !== null && body.byteLength > 0 && encoding === 'identity';
    const picked = isReadable ? this.#pickByPrompt(deps, body) : this.#pickByLoad(deps, body?.byteLength ?? 0);
    this.#picked = picked;
    this.#pickedMs = deps.clock.now();
    const { candidates, choice, model } = picked;
    const { url } = choice.member;
    deps.metrics.pick(candidates.affinity);
    deps.metrics.prompt(url, model.id, blockBytes(choice.matched), choice.charged);
    const endpoints = [choice.member, ...this.#fallbacks(picked)].map(this.#shared.endpointOf).join(',');
    const fields = { [DESTINATION]: { string_value: endpoints } };
    return {
      metadata: { fields: { [LOAD_BALANCING]: { struct_value: { fields } } } },
      mutation: setHeaders(DESTINATION, endpoints),
    };
  }

  #pickByPrompt(deps: ApiDeps, body: Buffer): Picked {
    const { responseHolders, settings, table } = deps;
    const dialect = dialectOf(this.#path);
    const contentType = headerIn(this.#headers, 'content-type') ?? '';
    const isFormBody = dialect === undefined && isForm(contentType);
    const scan = isFormBody ? scannedForm(body, contentType) : scannedAsSent(body, settings.limits);
    const model = table.find(scan.model);
    if (model === undefined && !table.isComplete) throw new HeadraceError('HR_STARTING');
    if (model === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: scan.model.slice(0, 128) });
    const continued = continuedResponse(dialect, body, scan);
    this.#body = body;
    const hint: AffinityHint = {
      ...this.#hintOf(scan, dialect, body.byteLength),
      holder: continued === undefined ? 0 : responseHolders.find(heldName(continued, '')),
      blocks: () => (this.#body === null ? NO_PROMPT : promptOf(settings, model.id, '', this.#body, scan, dialect)),
    };
    const picked = this.#take(deps, model, hint, dialect, continued === undefined && !scan.hasAddress);
    if (picked === null) throw new HeadraceError('HR_ROUTE_ALL_FAILED', { subject: model.id });
    return picked;
  }

  /** Of a request that names no model that can be read: the first model with a CRN that is up, else the first one with any. */
  #pickByLoad(deps: ApiDeps, bytes: number): Picked {
    const hint = { ...this.#hintOf(null, undefined, bytes), holder: 0, blocks: () => NO_PROMPT };
    if (deps.table.version === 0) throw new HeadraceError('HR_STARTING');
    for (const next of ['nextFit', 'next'] as const) {
      for (const model of deps.table.models) {
        const picked = this.#take(deps, model, hint, undefined, false, next);
        if (picked !== null) return picked;
      }
    }
    throw new HeadraceError('HR_ROUTE_ALL_FAILED', { subject: 'any model' });
  }

  #hintOf(
    scan: ScannedBody | null,
    dialect: Dialect | undefined,
    bytes: number,
  ): Omit<AffinityHint, 'blocks' | 'holder'> {
    const session = SESSION_HEADERS.map((name) => headerIn(this.#headers, name)).find((value) => value);
    return {
      url: undefined,
      session: scan === null ? (session === undefined ? 0 : hashText(session) || 1) : sessionOf({ session }, scan),
      stream: scan?.stream ?? false,
      bytes,
      dialectBit: dialect?.bit ?? 0,
      // The data plane sends the body as it is.
      translatedBit: 0,
      isUntranslatable: false,
    };
  }

  /** Null when no CRN of the model may be picked. */
  #take(
    deps: ApiDeps,
    whole: Model,
    hint: AffinityHint,
    dialect: Dialect | undefined,
    isWhole: boolean,
    next: 'next' | 'nextFit' = 'next',
  ): Picked | null {
    const members = whole.members.filter((member) => {
      const endpoint = this.#shared.endpointOf(member);
      return endpoint !== undefined && (this.#subset === null || this.#subset.has(endpoint));
    });
    const model = members.length === whole.members.length ? whole : { ...whole, members };
    const candidates = new Candidates(model, deps.picker, deps.pickerSettings, hint);
    if (candidates[next]() === undefined) return null;
    return { model, dialect, candidates, choice: choiceOf(candidates), hint, isWhole };
  }

  /** CRNs for a retry, of those that are not known to lack the dialect: those with the fewest requests in flight. */
  #fallbacks({ candidates, choice, model: { members } }: Picked): Member[] {
    const { fallbacks } = this.#shared;
    if (fallbacks === 0) return [];
    const { board, clock } = this.#shared.deps();
    const nowMs = clock.now();
    const isFit = (member: Member): boolean =>
      board.rank(member.member) === RANK.up && candidates.formOf(member, nowMs) === 'own';
    return members
      .filter((member) => member !== choice.member && isFit(member))
      .sort((one, other) => board.inFlight(one.server) - board.inFlight(other.server))
      .slice(0, fallbacks);
  }

  /** The data plane has sent the request to another CRN than the picked one, which it could not reach. */
  #noteServed(endpoint: string): void {
    const picked = this.#picked as Picked;
    const { candidates, choice, model } = picked;
    if (this.#isPrefilled || this.#shared.endpointOf(choice.member) === endpoint) return;
    const member = model.members.find((each) => this.#shared.endpointOf(each) === endpoint);
    if (member === undefined) return;
    const deps = this.#shared.deps();
    this.#leave(deps, picked, 'failed', 'connect', true);
    candidates.again({ member, epoch: deps.board.epoch(member.member), trial: false });
    picked.choice = choiceOf(candidates);
  }

  #onResponseHeaders(headers: HeaderMap | undefined, isEnd: boolean): void {
    const picked = this.#picked;
    if (picked === null) return;
    const status = Number(headerIn(headers, ':status') ?? 0);
    this.#status = status;
    const isPlain = (headerIn(headers, 'content-encoding') ?? 'identity') === 'identity';
    this.#isEventStream = isPlain && EVENT_STREAM.test(headerIn(headers, 'content-type') ?? '');
    const isClients = isClientsMatter(status);
    const verdict = isClients ? 'neutral' : status === SWITCHING ? 'ok' : verdictOf(status);
    if (verdict === 'ok') {
      this.#shared.deps().reporter.begun(picked.choice);
      // Without its body, the head is all that tells when an answer has begun.
      if (isEnd || this.#answerMode === BODY_MODE.none) this.#onBegun(picked);
      if (isEnd) this.#onAnswered();
    } else {
      this.#settle(verdict, isClients ? null : failureOf(status), verdict === 'neutral');
    }
  }

  #onResponseBody(body: Buffer, isEnd: boolean): void {
    const picked = this.#picked;
    if (picked !== null && body.byteLength > 0) {
      this.#keepTail(body);
      if (!this.#isPrefilled || !this.#isNoted) this.#readBeginning(picked);
    }
    if (isEnd) this.#onAnswered();
  }

  /** Comments keep a stream alive before its first event, and a piece may end anywhere. */
  #readBeginning(picked: Picked): void {
    const beginning = Buffer.concat(this.#tail);
    this.#noteResponse(picked, beginning);
    if (!this.#isEventStream || beginning.includes('data:')) this.#onBegun(picked);
  }

  /** Model servers send the first event of a stream when the prompt is prefilled. */
  #onBegun({ candidates, choice, hint, model }: Picked): void {
    if (this.#isPrefilled) return;
    this.#isPrefilled = true;
    const { board, clock, metrics } = this.#shared.deps();
    const nowMs = clock.now();
    const waitedMs = nowMs - this.#pickedMs;
    candidates.prefilled(choice, waitedMs);
    this.#giveBytes();
    if (!hint.stream) return;
    board.noteFirstByte(choice.member.member, waitedMs, nowMs);
    metrics.of(this.#endpoint, model.id).firstByte.observe(waitedMs / 1000);
  }

  #noteResponse({ choice, dialect, hint }: Picked, beginning: Buffer): void {
    const id = dialect?.name === 'responses' ? responseIdOf(beginning, hint.stream) : undefined;
    this.#isNoted = dialect?.name !== 'responses' || id !== undefined || beginning.byteLength >= TAIL_BYTES;
    if (id !== undefined) this.#shared.deps().responseHolders.note(heldName(id, ''), choice.member);
  }

  #keepTail(body: Buffer): void {
    this.#tail.push(body);
    this.#tailBytes += body.byteLength;
    while (this.#tailBytes - (this.#tail[0] as Buffer).byteLength >= TAIL_BYTES)
      this.#tailBytes -= (this.#tail.shift() as Buffer).byteLength;
  }

  #onAnswered(): void {
    const picked = this.#picked;
    if (picked === null) return;
    this.#learn(picked);
    this.#settle('ok', null, false);
  }

  /** Compares the cached tokens that the CRN reports with what was predicted. */
  #learn({ choice, dialect, isWhole, model }: Picked): void {
    if (dialect === undefined || !isWhole) return;
    const usage = usageIn(dialect, Buffer.concat(this.#tail));
    if (usage === undefined || usage.promptTokens === 0) return;
    const { feedback, metrics } = this.#shared.deps();
    const { promptTokens } = usage;
    const predictedBytes = blockBytes(choice.matched);
    const promptBytes = predictedBytes + choice.charged;
    const cachedTokens = usage.saysCached ? Math.min(usage.cachedTokens, promptTokens) : null;
    feedback.answered(model.budget, choice.member.member, { cachedTokens, predictedBytes, promptBytes, promptTokens });
    if (cachedTokens === null) return;
    const predicted = promptBytes === 0 ? 0 : Math.round((promptTokens * predictedBytes) / promptBytes);
    metrics.cached(choice.member.url, model.id, promptTokens, predicted, cachedTokens);
  }

  /** The pick has its outcome. `isRefused`: the CRN has computed nothing. */
  #settle(verdict: Verdict, failure: Failure | null, isRefused: boolean): void {
    const picked = this.#picked as Picked;
    const deps = this.#shared.deps();
    this.#picked = null;
    this.#isOver = true;
    this.#tail = [];
    this.#leave(deps, picked, verdict, failure, isRefused);
    this.#giveBytes();
    const cells = deps.metrics.of(this.#endpoint, picked.model.id);
    cells.count(this.#status === 0 ? 499 : this.#status, '');
    cells.duration.observe((deps.clock.now() - this.#startedMs) / 1000);
  }

  #leave(deps: ApiDeps, picked: Picked, verdict: Verdict, failure: Failure | null, isRefused: boolean): void {
    const { candidates, choice, model } = picked;
    const { url, server } = choice.member;
    deps.board.leave(server);
    if (!this.#isPrefilled && verdict === 'ok') candidates.prefilled(choice, null);
    else if (!this.#isPrefilled) candidates.abandoned(choice, isRefused);
    deps.metrics.attempt(url, verdict, failure ?? '');
    const reason = failure === null || verdict !== 'failed' ? undefined : `${failure} by the data plane's account`;
    deps.reporter.report(choice, verdict, failure, reason);
    if (reason === undefined) return;
    const requestId = headerIn(this.#headers, 'x-request-id') ?? '';
    deps.recent.attemptFailed(url, { reason, model: model.id, requestId: requestId.slice(0, 128) });
  }

  #refuse(thrown: unknown): void {
    const error = thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
    if (this.#picked !== null) this.#settle('neutral', 'internal', false);
    else if (!this.#isOver) this.#shared.deps().metrics.of(this.#endpoint, '').count(error.status, error.code);
    this.#giveBytes();
    this.#isOver = true;
    const headers = ['content-type', 'application/json', 'x-headrace-error', error.code, ...error.headers];
    if (error.status === 503) headers.push('retry-after', RETRY_AFTER_S);
    this.#stream.write({
      immediate_response: {
        status: { code: error.status },
        headers: setHeaders(...headers),
        body: Buffer.from(JSON.stringify({ detail: error.detail })),
        details: error.code,
      },
    });
  }

  get #endpoint(): string {
    return dialectOf(this.#path)?.paths[0] ?? OTHER_PATHS;
  }

  #giveBytes(): void {
    this.#deadline.clear();
    for (const bytes of this.#taken) this.#shared.budget.give(bytes, false);
    this.#taken = [];
    this.#pieces = [];
    this.#body = null;
  }
}

/** A piece is a view of all that was read from the connection at once, and so would be a copy in the pool of small buffers. */
function ownCopy(piece: Buffer): Buffer {
  const copy = Buffer.allocUnsafeSlow(piece.byteLength);
  copy.set(piece);
  return copy;
}

function scannedForm(body: Buffer, contentType: string): ScannedBody {
  const form = scanForm(body, contentType);
  if (!form.ok) throw new HeadraceError('HR_REQUEST_INVALID', { validation: form.errors });
  return form.scan;
}

/**
 * Whether an answer follows from what the client has sent. Requests of all methods and paths are picked for, and servers redirect
 * some; a key that is refused is that of the client, since a picker adds none.
 */
function isClientsMatter(status: number): boolean {
  return (status < 200 && status !== SWITCHING) || (status >= 300 && status < 400) || status === 401 || status === 403;
}

function choiceOf({ aged, charged, enteredAt, epoch, matched, member, trial, work }: Candidates): Candidate {
  return { aged, charged, enteredAt, epoch, matched, member, trial, work };
}

function tooLarge(bytes: number): HeadraceError {
  return new HeadraceError('HR_REQUEST_TOO_LARGE', { subject: String(bytes) });
}
