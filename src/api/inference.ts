// Every proxied POST: the four dialects, llama-style completions, and anything else whose JSON body names a model. Body
// bytes pass untouched; one scan reads what routing and prices need. Failover then picks a CRN and relays its answer.

import {
  blockBytes,
  type BodyEdit,
  choicesOf,
  type Dialect,
  dialectLimit,
  dialectOf,
  edited,
  formBounds,
  formWithModel,
  isForm,
  contentOf,
  isNativePath,
  limitEdits,
  named,
  type NativeRequest,
  nativeRequest,
  promptEstimate,
  type PromptBlocks,
  renamedForm,
  responseIdOf,
  scanBody,
  scanForm,
  type ScannedBody,
  type ScannedForm,
  type TokenBounds,
  tokenBounds,
  type Translation,
  translationOf,
  upstreamPath,
  usageEdit,
  UsageWatch,
} from '../dialect/index.ts';
import { costOf, exactUsdText, picoPerCall, type Spending } from '../billing/index.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import {
  type CookieSending,
  type Exchange,
  readCookie,
  setCookie,
  type TokenSource,
  type TrailerSource,
} from '../ingress/exchange.ts';
import {
  type Admission,
  AFFINITY_COOKIE,
  AFFINITY_MAX_AGE_S,
  type AffinityHint,
  Candidates,
  type Model,
  readAffinity,
  type RetryBudget,
  writeAffinity,
} from '../routing/index.ts';
import type { RequestTokens } from '../telemetry/access-log.ts';
import type { RequestCells } from '../telemetry/metrics.ts';
import {
  type Approval,
  type Attempt,
  credentialLines,
  Failover,
  type RequestForm,
  type RequestLines,
  requestLines,
  translatedForm,
  type UpstreamListener,
  type UpstreamRequest,
} from '../upstream/index.ts';
import { type BackgroundResponse, backgroundOf, type ResponseOrigin } from '../responses/index.ts';
import type { HostedRequest } from '../web-search/index.ts';
import { recorded, withState } from './response-state.ts';
import { continuedResponse, heldName, promptOf, sessionOf } from './affinity-hint.ts';
import { AttemptTrace } from './attempt-trace.ts';
import type { ApiDeps, Billing, Endpoint } from './deps.ts';
import { hostedSearchOf, runHostedSearch } from './hosted-search.ts';
import { callerOf, type HeldActions, HeldExchange } from './held-exchange.ts';
import {
  COST_HEADER,
  type Meter,
  paid,
  type PaidEndpoint,
  type PaidRequest,
  type RequestSettlement,
  unmeteredRange,
} from './pipeline.ts';
import { refuse } from './refuse.ts';
import { scannedBody } from './scanned-body.ts';
import { wrongType } from './schema.ts';
import { TextRecorder } from './text-recorder.ts';
import { clampTokens, TokenBudget } from './token-budget.ts';

const NO_HEADERS: readonly string[] = [];
const NO_EDITS: readonly BodyEdit[] = [];

/** Most characters of a name that are kept for logs. */
const MAX_ALIAS = 128;
/** Most failed attempts of a request that are kept for logs. */
const MAX_FAILURES = 8;

/** A proxied request whose model is known. */
interface InferenceInput {
  /** The body for CRNs, in which an alias is replaced by the id of the model, without a line that changes with every request. */
  readonly body: Buffer;
  readonly scan: ScannedBody;
  readonly model: Model;
  /** Of a multipart body. */
  readonly form: ScannedForm | null;
  /** Known once the request is to be paid. */
  budget: TokenBudget | null;
  /** Of a request without a dialect that is to be paid. */
  native: NativeRequest | null;
  /** What the response is stored with; null: it is not stored. */
  readonly origin: ResponseOrigin | null;
  /** Of a request with a web search that the gateway runs: its rounds and searches are requests of their own. */
  readonly hosted: HostedRequest | null;
}

type InferenceRequest = PaidRequest<InferenceInput>;

/** The model that a request names. Throws 404 when there is none of that name, and 503 while it may still come. */
export function findModel(exchange: Exchange, { table }: ApiDeps, name: string): Model {
  const model = table.find(name);
  if (model?.id !== name) exchange.alias = name.slice(0, MAX_ALIAS);
  if (model === undefined && !table.isComplete) throw new HeadraceError('HR_STARTING');
  if (model === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: name.slice(0, 128) });
  exchange.model = model.id;
  return model;
}

const inference: PaidEndpoint<InferenceInput> = {
  read(exchange, deps, received) {
    const { contentType, fields, path } = exchange;
    const isTyped = contentType !== undefined && received.byteLength > 0;
    const isPlain = dialectOf(path) === undefined;
    const formType = isTyped && isPlain && isForm(contentType) ? contentType : null;
    if (isTyped && formType === null && !fields.isJson) throw notJson(path, contentType);
    const deployed = exchange.deployment === '' ? null : findModel(exchange, deps, exchange.deployment);
    const sent = deployed === null ? received : withModel(received, deployed, formType, deps.settings);
    if (sent !== received) exchange.adoptBody(sent);
    const form = formType === null ? null : scanForm(sent, formType);
    if (form?.ok === false) throw new HeadraceError('HR_REQUEST_INVALID', { validation: form.errors });
    const { body, scan } = form === null ? scannedBody(path, deps.settings, sent) : { body: sent, scan: form.scan };
    const model = deployed ?? findModel(exchange, deps, scan.model);
    const read = form === null ? named(body, scan, model.id) : { body: renamedForm(body, form, model.id), scan };
    if (read.body !== body) exchange.adoptBody(read.body);
    return { ...read, model, form, budget: null, native: null, origin: null, hosted: null };
  },
  prepares: ({ path }, { settings }) => settings.webSearchTool || dialectOf(path)?.name === 'responses',
  prepare(request, proceed) {
    const { deps, exchange, input } = request;
    const { body } = input;
    const next = deps.settings.webSearchTool ? withHostedSearch(proceed) : proceed;
    if (dialectOf(exchange.path)?.name !== 'responses') {
      next(request);
      return;
    }
    withState({ exchange, deps, body, scan: input.scan, model: input.model.id }, (whole, origin) => {
      if (whole === body && origin === null) next(request);
      else if (whole === body) next({ ...request, input: { ...input, origin } });
      else next({ ...request, body: whole, input: { ...inference.read(exchange, deps, whole), origin } });
    });
  },
  price(request, billing) {
    if (request.input.hosted !== null) return unmeteredRange(0);
    return budgetOf(request, billing, billing.assumedTokens);
  },
  quote(request, billing) {
    const { deps, input } = request;
    const { id } = input.model;
    // What all rounds may cost at most, an exact payment would take before the first one: mostly many times what they do cost.
    if (input.hosted !== null) throw new HeadraceError('HR_AUTH_HOSTED_SEARCH');
    if (!billing.modelPrices.has(id)) return null;
    const { assumedTokens, minimum } = deps.settings.payments;
    const budget = budgetOf(request, billing, assumedTokens);
    const { completionTokens, promptTokens } = budget.longest;
    const price = Math.max(budget.costOf(budget.longest), picoPerCall(minimum));
    const usage = { key: null, model: id, inputTokens: promptTokens, cachedTokens: 0 };
    return {
      price: BigInt(price),
      usage: {
        ...{ ...usage, outputTokens: completionTokens, measured: false },
        ...(budget.priceVersion !== undefined && { price: budget.priceVersion }),
      },
      description: `A request to ${id}`,
    };
  },
  run(request, settlement) {
    const { origin } = request.input;
    const background = origin === null ? undefined : backgroundOf(request.exchange);
    if (origin === null || background === undefined) begin(request, settlement);
    else beginBackground(request, settlement, background, origin);
  },
};

type Proceed = (prepared: InferenceRequest) => void;

/** Reads what a request says of a web search that the gateway runs, and goes on. */
function withHostedSearch(proceed: Proceed): Proceed {
  return (request) => {
    const { deps, exchange, input } = request;
    const hosted = hostedSearchOf(exchange, deps, input.model, input);
    proceed(hosted === null ? request : { ...request, input: { ...input, hosted } });
  };
}

function begin(request: InferenceRequest, settlement: RequestSettlement): void {
  const { deps, exchange, input } = request;
  const { admission } = deps;
  if (input.hosted !== null) {
    exchange.bytesIn = input.body.byteLength;
    runHostedSearch(exchange, deps, input.hosted, recorded(exchange, deps, input.origin));
    return;
  }
  if (admission === null) start(request, settlement);
  else admit(request, settlement, admission);
}

/** Begins the request when its response is in the store. Apart from `run`, whose variables would else be allocated for the closures. */
function beginBackground(
  request: InferenceRequest,
  settlement: RequestSettlement,
  background: BackgroundResponse,
  origin: ResponseOrigin,
): void {
  const { deps, exchange } = request;
  background.begin(
    origin,
    () => begin(request, settlement),
    (thrown) => refuse(exchange, deps, thrown),
  );
}

function start(request: InferenceRequest, settlement: RequestSettlement): void {
  const { deps, exchange, input } = request;
  const { promptLength, prompts, size } = deps.settings.requestLog;
  let downstream = recorded(exchange, deps, input.origin);
  if (prompts && size > 0) downstream = new TextRecorder(exchange, downstream, input.body, promptLength);
  exchange.bodyIsRead = input.origin !== null || downstream !== exchange;
  new Failover(deps.failover, new Forwarding(request, settlement), downstream).start();
}

/** Starts the request when a CRN of its model has a short backlog. Throws 429 when too many requests wait for that. */
function admit(request: InferenceRequest, settlement: RequestSettlement, admission: Admission): void {
  const { deps, exchange, input } = request;
  const { body } = input;
  const { affinity } = deps.settings.routing;
  const continued = affinity ? continuedBy(request) : undefined;
  const holder = continued === undefined ? 0 : deps.responseHolders.find(continued);
  if (admission.admits(input.model, holder)) {
    start(request, settlement);
    return;
  }
  const bytes = body.byteLength;
  const held = { account: callerOf(exchange, deps.headerRules.peers), bytes, holder, work: workOf(request) };
  const actions: HeldActions = {
    // The table may have changed meanwhile.
    start: (model) => start({ ...request, input: { ...input, model } }, settlement),
    refuse: (thrown) => refuse(exchange, deps, thrown),
  };
  exchange.bytesIn = bytes;
  new HeldExchange(exchange, held, actions).wait(admission, input.model);
}

/** The response that a request continues, by its name among those that CRNs have; also where the conversation stands in its body by now. */
function continuedBy({ exchange, input }: InferenceRequest): string | undefined {
  const id = input.origin?.previous ?? continuedResponse(dialectOf(exchange.path), input.body, input.scan);
  return id === undefined ? undefined : heldName(id, exchange.account);
}

/** What the request adds to the backlog of the CRN that holds most of its prompt, in bytes. */
function workOf({ deps, exchange, input }: InferenceRequest): number {
  const { body, model, scan } = input;
  const { affinity, requestBytes } = deps.settings.routing;
  if (!affinity) return body.byteLength + requestBytes;
  const dialect = dialectOf(exchange.path);
  const { bytes, count, hashes } = promptOf(deps.settings, model.id, exchange.account, body, scan, dialect);
  let held = 0;
  for (const { member } of model.members) held = Math.max(held, deps.blockIndex.matched(member, hashes, count));
  return Math.max((bytes || body.byteLength) - blockBytes(held), 0) + requestBytes;
}

/** Serves a proxied request. Throws 401 for a bad key; every later refusal is answered. */
export const forward: Endpoint = paid(inference);

/** What the request may take and cost. `assumed`: tokens of an answer without a limit. */
function budgetOf({ deps, exchange, input }: InferenceRequest, billing: Billing, assumed: number): TokenBudget {
  const { body, form, model, scan } = input;
  const dialect = dialectOf(exchange.path);
  if (dialect === undefined && form === null) input.native = nativeRequest(exchange.path, body, scan);
  const bounds = boundsOf(dialect, input, deps.contextLengths.get(model.id));
  const unsaid = dialectLimit(dialect, scan) ?? assumed;
  input.budget = new TokenBudget(bounds, unsaid, billing.modelPrices.get(model.id));
  return input.budget;
}

function boundsOf(
  dialect: Dialect | undefined,
  { body, form, native, scan }: InferenceInput,
  context: number | undefined,
): TokenBounds {
  return form === null ? tokenBounds(dialect, body, scan, context, native) : formBounds(body, form, context);
}

/** The body with the model that its path names, where the body names none. */
function withModel(body: Buffer, { id }: Model, formType: string | null, { limits }: ApiDeps['settings']): Buffer {
  const scan =
    formType === null
      ? scanBody(body, { maxDepth: limits.jsonDepth, maxValues: limits.jsonValues })
      : scanForm(body, formType);
  if (scan.ok || !scan.errors.some(({ loc, type }) => type === 'missing' && loc[1] === 'model')) return body;
  if (formType !== null) return formWithModel(body, formType, id);
  const open = body.indexOf('{');
  const isEmpty = /^\{\s*\}/.test(body.toString('latin1', open));
  const model = Buffer.from(`{"model":${JSON.stringify(id)}${isEmpty ? '' : ','}`);
  return Buffer.concat([model, body.subarray(open + 1)]);
}

function notJson(path: string, contentType: string): HeadraceError {
  if (dialectOf(path) !== undefined)
    return new HeadraceError('HR_REQUEST_INVALID', { validation: [wrongType(contentType)] });
  const msg = `Content-Type should be application/json or multipart/form-data, not ${contentType.slice(0, 100)}`;
  return invalidRequest(['body'], msg, 'content_type');
}

/** One request on its way to a CRN: makes what is sent, and counts, traces and meters what happens to it. */
class Forwarding implements AffinityHint, UpstreamRequest, UpstreamListener, Meter, TokenSource, TrailerSource {
  readonly model: string;
  readonly account: string;
  readonly path: string;
  readonly lines: RequestLines;
  readonly body: Buffer;
  readonly stream: boolean;
  readonly dialect: Dialect | undefined;
  readonly choices: number;
  readonly unknownPath: RequestForm['unknownPath'];
  readonly translator = null;
  readonly dialectBit: number;
  readonly translatedBit: number;
  untranslatable: HeadraceError | null = null;
  readonly usage: UsageWatch;
  readonly candidates: Candidates;
  readonly budget: RetryBudget;
  readonly approval: Approval | null;
  readonly keyChecked: boolean;
  readonly url: string | undefined;
  readonly session: number;
  readonly holder: number;
  readonly bytes: number;
  readonly #exchange: Exchange;
  readonly #modelCell: number;
  readonly #input: InferenceInput;
  /** Nothing but the text of the request is in its prompt: no attachment, and no earlier response. */
  readonly #isWholePrompt: boolean;
  readonly #settlement: RequestSettlement;
  readonly #deps: ApiDeps;
  readonly #cells: RequestCells;
  readonly #budget: TokenBudget | null;
  /** The limit of an answer that stands in the request that CRNs get; undefined when it has none, or none was needed. */
  readonly #limit: number | undefined;
  /** The client asked for no limit, or for a higher one. */
  readonly #lowered: boolean;
  readonly #preferred: ReadonlyMap<string, string>;
  readonly #trace: AttemptTrace | null;
  readonly #translation: Translation | undefined;
  #translated: RequestForm | null = null;
  /** Nothing of the answer is to come, so that what it took stands. */
  #isComplete = false;
  #spent: Spending | null = null;
  /** What `spending` has counted last. */
  #counted: RequestTokens | null = null;
  /** Whether what the answer says of the cache is compared with what was predicted. */
  readonly #teaches: boolean;
  /** How the last attempt ended. */
  #cause = '';

  constructor(request: InferenceRequest, settlement: RequestSettlement) {
    const { exchange, deps, access, input } = request;
    const { body, form, scan, model } = input;
    const { apiKey, authorization, query, span } = exchange;
    const dialect = dialectOf(exchange.path);
    const path = upstreamPath(exchange.path);
    const charged = settlement?.kind === 'account';
    const paid = settlement?.kind === 'payment';
    // Free models are counted as far as their answers say; only what costs money or is limited is asked to say it.
    const isCounted = charged && (settlement.maxTokens < Infinity || deps.billing?.modelPrices.has(model.id) === true);
    const asking = isCounted ? usageEdit(dialect, body, scan) : undefined;
    const budget = settlement === null ? null : input.budget;
    const limit = budget === null || settlement === null ? undefined : outputLimit(budget, settlement);
    const edits =
      limit === undefined ? NO_EDITS : (input.native?.edits(limit) ?? limitEdits(dialect, body, scan, limit));
    this.body = edited(body, asking === undefined ? edits : [asking, ...edits]);
    // Before anybody refers to this request: there may be no memory for it.
    if (this.body !== body) exchange.adoptBody(this.body);
    this.#settlement = settlement;
    this.#budget = budget;
    this.#limit = limit;
    this.#lowered = edits.length > 0 && limit !== budget?.bounds.limit;
    this.dialect = dialect;
    this.#exchange = exchange;
    this.#modelCell = model.budget;
    this.#input = input;
    // Of a file nobody knows what it is in bytes of prompt.
    this.bytes = form?.textBytes ?? body.byteLength;
    this.#deps = deps;
    this.#cells = deps.metrics.of(exchange.endpoint, model.id);
    this.stream = scan.stream;
    this.#preferred = readAffinity(readCookie(exchange.cookie, AFFINITY_COOKIE));
    this.#trace = span === null ? null : new AttemptTrace(span, dialect, path, model.id);
    if (charged) settlement.meter = this;
    exchange.tokenSource = this;
    exchange.bytesIn = body.byteLength;
    const isContinued = continuedResponse(dialect, body, scan) !== undefined;
    const continued = continuedBy(request);
    this.dialectBit = dialect?.bit ?? 0;
    this.#translation = translationOf(dialect);
    this.translatedBit = this.#translation?.to.bit ?? 0;
    this.unknownPath = isContinued ? 'passed' : meaningOf(dialect, path, this.#translation);
    this.url = this.#preferred.get(model.id.toLowerCase());
    this.session = sessionOf(exchange, scan);
    this.holder = continued === undefined ? 0 : deps.responseHolders.find(continued);
    this.#isWholePrompt = !isContinued && !scan.hasAddress;
    this.lines = requestLines(deps.headerRules, {
      headers: this.#trace?.cleaned(exchange.headers) ?? exchange.headers,
      remoteAddress: exchange.remoteAddress,
      requestId: exchange.requestId,
      credential:
        access.credential.kind === 'none' ? '' : credentialLines({ authorization, apiKey, bearer: access.bearer }),
      // What is judged or counted must be readable.
      readable: scan.stream || charged || dialect !== undefined,
      // Model hosts keep what the llama-style API sets for all slots apart by account.
      account: dialect?.name === 'llama' ? exchange.account : '',
      kept: this.#trace === null ? exchange.fields.lines : undefined,
    });
    this.model = model.id;
    this.account = exchange.account;
    this.path = query === '' ? path : `${path}?${query}`;
    if (dialect === undefined && form === null && isNativePath(path)) input.native ??= nativeRequest(path, body, scan);
    this.choices = choicesOf(body, scan) * (input.native?.answers ?? 1);
    this.candidates = new Candidates(model, deps.picker, deps.pickerSettings, this);
    this.budget = deps.budget(model);
    this.approval = paid ? settlement : null;
    this.#teaches = charged || (dialect !== undefined && deps.pickerSettings.affinity && deps.feedback.isDue());
    this.usage = new UsageWatch({
      strip: asking !== undefined,
      bytesPerToken: deps.tokenSizes.of(model.id),
      native: input.native?.api,
      content: dialect === undefined ? contentOf(path) : 'text',
      readsEveryEvent: charged,
    });
    this.keyChecked = deps.settings.keys.required;
  }

  get listener(): UpstreamListener {
    return this;
  }

  blocks(): PromptBlocks {
    const { account } = this.#exchange;
    const { body, scan } = this.#input;
    return promptOf(this.#deps.settings, this.model, account, body, scan, this.dialect);
  }

  get isUntranslatable(): boolean {
    return this.untranslatable !== null;
  }

  translated(): RequestForm | null {
    const translation = this.#translation;
    if (translation === undefined || this.#translated !== null || this.isUntranslatable) return this.#translated;
    try {
      const translated = translatedForm(this, translation, this.#exchange.continues);
      this.#exchange.reserveBody(translated.body.byteLength);
      this.#translated = translated;
    } catch (thrown) {
      this.untranslatable =
        thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
    }
    return this.#translated;
  }

  get gaps(): RequestCells['gaps'] {
    return this.#cells.gaps;
  }

  onAttempt(attempt: Attempt): readonly string[] {
    const { charged, form, isHedge, matched, number } = attempt;
    const { url } = attempt.member;
    const exchange = this.#exchange;
    const translation = form.translator?.name ?? '';
    const { metrics, pickerSettings, recent } = this.#deps;
    if (pickerSettings.affinity) {
      const predicted = blockBytes(matched);
      metrics.prompt(url, this.model, predicted, charged);
      exchange.predictedHit = shareOf(predicted, charged);
    }
    if (number === 1) {
      const { affinity } = this.candidates;
      metrics.pick(affinity);
      exchange.affinity = affinity;
    } else if (!isHedge) {
      metrics.failover(this.model, this.#cause);
      recent.failover(exchange.crn);
    }
    if (translation !== '') metrics.translated(translation, this.model);
    exchange.crn = url;
    exchange.translation = translation;
    exchange.attempts = number;
    exchange.attempt = attempt;
    return this.#trace?.begin(url, number, translation) ?? NO_HEADERS;
  }

  onOutcome(attempt: Attempt): void {
    const { failure, member, verdict } = attempt;
    if (verdict === null) return;
    this.#cause = failure ?? verdict;
    this.#trace?.end(attempt.number, failure, this.usage);
    if (verdict === 'ok') this.#learn(attempt);
    if (failure !== null) this.#recordFailure(attempt, failure);
    this.#deps.metrics.attempt(member.url, verdict, failure ?? '');
    if (verdict === 'ok') this.#deps.reporter.report(attempt, verdict, failure);
    else this.#deps.reporter.report(attempt, verdict, failure, this.#noteReason(attempt));
  }

  /** The reason of a failure or refusal, for the overview; undefined where it says nothing about the CRN. */
  #noteReason(attempt: Attempt): string | undefined {
    const { reason } = attempt;
    if (reason === null) return undefined;
    const { requestId } = this.#exchange;
    this.#deps.recent.attemptFailed(attempt.member.url, { reason, model: this.model, requestId });
    return reason;
  }

  #recordFailure({ member, reason, sentMs }: Attempt, failure: string): void {
    const exchange = this.#exchange;
    const { receivedMs } = exchange;
    const failures = (exchange.failures ??= []);
    if (failures.length === MAX_FAILURES) return;
    const endMs = this.#deps.clock.now() - receivedMs;
    failures.push({ crn: member.url, failure, reason, sentMs: sentMs > 0 ? sentMs - receivedMs : null, endMs });
  }

  /** Compares the cached tokens that the CRN reports with what was predicted when it was chosen. */
  #learn({ charged, judge, matched, member }: Attempt): void {
    const counted = this.#teaches && this.#isWholePrompt ? this.usage.counted(judge) : undefined;
    if (counted === undefined || counted.promptTokens === 0) return;
    const { feedback, metrics } = this.#deps;
    const { promptTokens } = counted;
    const predictedBytes = blockBytes(matched);
    const promptBytes = predictedBytes + charged;
    const cachedTokens = counted.saysCached ? Math.min(counted.cachedTokens, promptTokens) : null;
    feedback.answered(this.#modelCell, member.member, { cachedTokens, predictedBytes, promptBytes, promptTokens });
    if (cachedTokens === null) return;
    const predictedTokens = Math.round(promptTokens * shareOf(predictedBytes, charged));
    metrics.cached(member.url, this.model, promptTokens, predictedTokens, cachedTokens);
  }

  onAnswer(attempt: Attempt, headers: string[]): void {
    const { board, clock, reporter, settings, table } = this.#deps;
    const { charged, form, matched, member, number, sentMs } = attempt;
    const begunMs = attempt.begunMs || clock.now();
    const waitedMs = begunMs - sentMs;
    this.#exchange.crn = member.url;
    this.#exchange.translation = form.translator?.name ?? '';
    this.#exchange.attempt = attempt;
    reporter.begun(attempt);
    // The begin of a stream shows how busy a CRN is; that of a whole answer shows how long the answer was.
    if (this.stream || this.dialect === undefined) {
      board.noteFirstByte(member.member, waitedMs, begunMs);
      this.#cells.firstByte.observe(waitedMs / 1000);
    }
    if (settings.serverTiming) {
      // `Server-Timing` (W3C): what the gateway took until the request left, and the CRN until its answer began.
      const { heldMs, receivedMs } = this.#exchange;
      const gateway = (sentMs - receivedMs - heldMs).toFixed(3);
      const held = heldMs > 0 ? `held;dur=${heldMs.toFixed(3)}, ` : '';
      headers.push(
        'server-timing',
        `gateway;dur=${gateway}, ${held}upstream;dur=${waitedMs.toFixed(3)}, attempts;desc="${number}"`,
        'x-headrace-affinity',
        `hit=${shareOf(blockBytes(matched), charged).toFixed(2)} crn=${member.url}`,
      );
    }
    if (this.#lowered) headers.push('x-headrace-output-limit', String(this.#limit));
    this.#tellCost(attempt, headers);
    this.#noteResponse(attempt);
    // A CRN that is merely busy gets its conversations back.
    if (!settings.routing.affinity || this.candidates.preferredFit) return;
    const updated = writeAffinity(this.#preferred, table, this.model, member.url);
    if (updated === undefined) return;
    headers.push(
      'set-cookie',
      setCookie(AFFINITY_COOKIE, updated, AFFINITY_MAX_AGE_S, sendingOf(this.#exchange, settings)),
    );
  }

  /** The cost of a whole answer is known by now; that of others follows them, if the client reads trailers. */
  #tellCost({ head, judge, whole }: Attempt, headers: string[]): void {
    const settlement = this.#settlement;
    if (settlement === null) return;
    if (settlement.kind === 'payment' || (whole && !judge.streams)) {
      this.#isComplete = true;
      headers.push(COST_HEADER, exactUsdText(settlement.dueCost));
    } else if ((judge.streams || (head?.contentLength ?? 0) < 0) && this.#exchange.acceptsTrailers) {
      headers.push('trailer', COST_HEADER);
      this.#exchange.trailerSource = this;
    }
  }

  trailers(): readonly string[] {
    this.#isComplete = true;
    return this.#settlement === null ? NO_HEADERS : [COST_HEADER, exactUsdText(this.#settlement.dueCost)];
  }

  #noteResponse({ held, judge, member }: Attempt): void {
    if (judge.dialect?.name !== 'responses') return;
    for (const piece of held) {
      const id = responseIdOf(piece, judge.streams);
      if (id === undefined) continue;
      this.#deps.responseHolders.note(heldName(id, this.#exchange.account), member);
      return;
    }
  }

  onFirstPiece(nowMs: number): void {
    this.#exchange.firstPieceMs = nowMs;
    this.#cells.firstPiece.observe((nowMs - this.#exchange.receivedMs) / 1000);
  }

  onFailed(error: HeadraceError): void {
    refuse(this.#exchange, this.#deps, error);
  }

  spending(): Spending | null {
    if (this.#spent !== null) return this.#spent;
    const { model } = this;
    const budget = this.#budget as TokenBudget;
    const tokens = this.#countWithin(budget.bounds);
    this.#counted = tokens;
    if (tokens === null) return null;
    const { cachedTokens, completionTokens, measured, promptTokens } = tokens;
    const price = budget.priceVersion;
    const spent = { model, cost: budget.costOf(tokens), promptTokens, cachedTokens, completionTokens, measured, price };
    if (this.#isComplete) this.#spent = spent;
    return spent;
  }

  tokens(): RequestTokens | null {
    if (this.#settlement?.kind === 'account') return this.#settlement.isReleased ? null : this.#counted;
    const { usage } = this;
    if (!usage.delivered || !usage.isCountable) return null;
    const { body, form, scan } = this.#input;
    const { contextLengths, tokenSizes } = this.#deps;
    const context = contextLengths.get(this.model);
    const estimate = usage.isReported || form !== null ? 0 : promptEstimate(this.dialect, body, scan, context);
    const counted = usage.result(estimate);
    const { completionTokens, measured, promptTokens } = counted;
    // No token is shorter than a byte: counts within these are within the bounds of the request too, which are expensive to know.
    if (promptTokens > 0 && promptTokens <= body.byteLength && completionTokens <= usage.bytes) {
      if (measured) tokenSizes.note(this.model, usage.streamedBytes, completionTokens);
      return counted;
    }
    return this.#countWithin(boundsOf(this.dialect, this.#input, context));
  }

  priceOf(tokens: RequestTokens): number {
    const price = this.#deps.modelPrices.get(this.model);
    return price === undefined ? 0 : costOf(price, tokens);
  }

  /** The tokens of what has passed, estimated where they are not counted, as far as they can be right. Null: nothing has passed. */
  #countWithin(bounds: TokenBounds): RequestTokens | null {
    const { usage } = this;
    if (!usage.delivered) return null;
    const counted = usage.result(bounds.promptTokens);
    const tokens = clampTokens(counted, bounds, this.#limit ?? bounds.limit);
    if (counted.measured && tokens === counted) {
      this.#deps.tokenSizes.note(this.model, usage.streamedBytes, tokens.completionTokens);
    }
    return tokens;
  }
}

/** What it means when a CRN does not know the path of a request that continues no response: that may be what it does not find. */
function meaningOf(
  dialect: Dialect | undefined,
  path: string,
  translation: Translation | undefined,
): RequestForm['unknownPath'] {
  if (dialect === undefined) return 'passed';
  // Servers have some of these paths and lack others.
  if (dialect.name === 'llama') return 'believed';
  // Servers that speak the dialect may not know its other spellings.
  if (path === dialect.paths[0]) return 'taught';
  return translation === undefined ? 'passed' : 'believed';
}

/** Pages of a listed origin may send cookies (`Cors`), also from another site where https allows that. */
function sendingOf({ origin }: Exchange, { cors, publicScheme }: ApiDeps['settings']): CookieSending {
  if (publicScheme !== 'https') return 'plain';
  return origin !== undefined && !cors.origins.includes('*') && cors.origins.includes(origin) ? 'cross-site' : 'secure';
}

/** Share of a prompt that is expected to come from a cache, from 0 to 1. */
function shareOf(cachedBytes: number, missedBytes: number): number {
  return cachedBytes === 0 ? 0 : cachedBytes / (cachedBytes + missedBytes);
}

/** The limit of each answer that must stand in the request; undefined when it may stay as it is. */
function outputLimit(budget: TokenBudget, settlement: NonNullable<RequestSettlement>): number | undefined {
  if (settlement.kind === 'payment') return budget.longestAnswer;
  const { maxCost, maxTokens } = settlement;
  const isBounded = (maxCost < Infinity && budget.most > 0) || maxTokens < Infinity;
  return isBounded ? budget.limitFor(maxCost, maxTokens) : undefined;
}
