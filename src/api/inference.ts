// Every proxied POST: the four dialects, llama-style completions, and anything else whose JSON body names a model. Body
// bytes pass untouched; what routing must know is read by one scan. The path of a request: admit, body, scan, find the
// model, pick, fail over and relay.

import {
  type Dialect,
  askingForUsage,
  dialectOf,
  endsWell,
  errorEvent,
  estimateTokens,
  prefixHash,
  scanBody,
  type ScannedBody,
  upstreamPath,
  UsageWatch,
} from '../dialect/index.ts';
import { costOf, type Spending, type ModelPrice, type Tokens } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import { readCookie, setCookie } from '../ingress/cookies.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError, type ErrorDecorator } from '../ingress/respond.ts';
import {
  type Affinity,
  AFFINITY_COOKIE,
  AFFINITY_MAX_AGE_S,
  Candidates,
  type Failure,
  hashText,
  type Member,
  type Model,
  readAffinity,
  type Verdict,
  writeAffinity,
} from '../routing/index.ts';
import {
  type Approval,
  Failover,
  type Job,
  type Progress,
  requestHeaders,
  type RetryBudget,
} from '../upstream/index.ts';
import { admit, type Admission, requireKey } from './admit.ts';
import { AttemptTrace } from './attempt-trace.ts';
import { checkLimits, openBill } from './bill.ts';
import { requirePayment, requestDigest, tokenPrice, withoutPayment } from './payment-hold.ts';
import type { ApiDeps, Counters } from './deps.ts';

/** The dialect functions a relay calls. */
export const DIALECT_RULES: { endsWell: typeof endsWell; errorEvent: typeof errorEvent } = { endsWell, errorEvent };

/** Headers by which clients name their conversation, in order of preference. */
const SESSION_HEADERS = [
  'session_id',
  'x-session-id',
  'x-claude-code-session-id',
  'x-conversation-id',
  'x-openwebui-chat-id',
];

const NO_HEADERS: readonly string[] = [];

const JSON_TYPE = /^application\/(?:[^;\s]+\+)?json\s*(?:;|$)/i;

/** With `errorBodies: dialect`: the members that the official SDKs of this path's dialect read. */
const decorateError: ErrorDecorator = (exchange, { code, message, status, validation }) => {
  const text =
    validation === undefined ? message : validation.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ');
  return dialectOf(exchange.path)?.errorMember({ code, message: text, status });
};

/** What the setting `errorBodies` adds to error bodies. */
export function decorator(deps: ApiDeps): ErrorDecorator | undefined {
  return deps.settings.errorBodies === 'dialect' ? decorateError : undefined;
}

/** Serves a proxied request. Throws 401 for a bad key; every later refusal is answered here. */
export function forward(exchange: Exchange, deps: ApiDeps): void {
  const admission = admit(exchange, deps);
  exchange.readBody((error, body) => {
    try {
      if (error !== null) throw error;
      route(exchange, deps, admission, body);
    } catch (thrown) {
      respondError(exchange, thrown, decorator(deps));
    }
  });
}

function route(exchange: Exchange, deps: ApiDeps, admission: Admission, body: Buffer): void {
  const contentType = exchange.header('content-type');
  if (contentType !== undefined && body.byteLength > 0 && !JSON_TYPE.test(contentType)) throw notJson();
  const scan = scanBody(body, { maxDepth: deps.settings.limits.jsonDepth });
  if (!scan.ok) throw new HeadraceError('HR_REQUEST_INVALID', { validation: scan.errors });
  const model = deps.table.find(scan.model);
  if (model === undefined && deps.table.version === 0) throw new HeadraceError('HR_STARTING');
  if (model === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: scan.model.slice(0, 128) });
  exchange.model = model.id;
  const ask = { exchange, deps, admission, body, scan, model };
  const { billing } = deps;
  const { credential } = admission;
  if (credential.kind === 'none' && sell(ask)) return;
  requireKey(admission, deps);
  if (billing === null || credential.kind !== 'good') {
    new Failover(deps.failover, new ProxiedRequest(ask, body, null), exchange).start();
    return;
  }
  checkLimits(billing, credential);
  const dialect = dialectOf(exchange.path);
  const modelPrice = billing.modelPrices.get(model.id);
  // Free models are counted as far as their answers say; only what costs money is asked to say it.
  const counting = modelPrice === undefined ? undefined : askingForUsage(dialect, body, scan);
  const usage = new UsageWatch(dialect, counting !== undefined);
  const estimate = boundedEstimate(body, scan, deps, model.id);
  openBill(
    exchange,
    billing,
    credential,
    modelPrice === undefined ? 0 : costOf(modelPrice, estimate),
    () => (usage.delivered ? [spendingOf(model.id, modelPrice, usage, estimate.promptTokens)] : []),
    () => {
      const job = new ProxiedRequest(ask, counting ?? body, usage);
      new Failover(deps.failover, job, exchange).start();
    },
    (error) => respondError(exchange, error, decorator(deps)),
  );
}

/** Asks a request without a key for a payment. False where it needs none, or where none can be taken. */
function sell({ exchange, deps, admission, body, scan, model }: Ask): boolean {
  const { billing, paymentProcessor, settings } = deps;
  const modelPrice = billing?.modelPrices.get(model.id);
  if (paymentProcessor === null || modelPrice === undefined || !settings.keys.required) return false;
  const estimate = estimateTokens(body, scan);
  const price = tokenPrice(settings.payments, modelPrice, estimate, deps.contextLengths.get(model.id));
  const usage = {
    ...{ key: null, model: model.id, inputTokens: estimate.promptTokens, cachedTokens: 0 },
    outputTokens: estimate.maxTokens ?? settings.payments.assumedTokens * estimate.choices,
    measured: false,
  };
  const charge = { price, usage, description: `A request to ${model.id}`, digest: requestDigest(exchange, body) };
  requirePayment(exchange, { paymentProcessor, settings }, charge, (paymentHold) => {
    const job = new ProxiedRequest({ exchange, deps, admission, body, scan, model }, body, null, paymentHold);
    new Failover(deps.failover, job, exchange).start();
  });
  return true;
}

/** What a request may come to at most, as far as its body and the model say. */
function boundedEstimate(body: Buffer, scan: ScannedBody, deps: ApiDeps, model: string): Tokens {
  const { choices, maxTokens, prompts, promptTokens } = estimateTokens(body, scan);
  const contextLength = deps.contextLengths.get(model) ?? Infinity;
  const prompt = Math.min(promptTokens / prompts, contextLength);
  const wished = maxTokens ?? (deps.billing?.assumedTokens ?? 0) * choices;
  // A prompt that seems to leave no room is counted wrongly, or costs nothing since the CRN refuses it.
  const room = prompt < contextLength ? contextLength - prompt : contextLength;
  const promptTotal = Math.ceil(prompt * prompts);
  return { promptTokens: promptTotal, completionTokens: Math.min(wished, Math.ceil(room * choices)), cachedTokens: 0 };
}

function spendingOf(
  model: string,
  modelPrice: ModelPrice | undefined,
  usage: UsageWatch,
  promptTokens: number,
): Spending {
  const metered = usage.result(promptTokens);
  return { ...metered, model, cost: modelPrice === undefined ? 0 : costOf(modelPrice, metered) };
}

function notJson(): HeadraceError {
  const msg = 'Input should be a valid dictionary or object to extract fields from';
  return new HeadraceError('HR_REQUEST_INVALID', {
    validation: [{ loc: ['body'], msg, type: 'model_attributes_type' }],
  });
}

/** A valid request. */
interface Ask {
  readonly exchange: Exchange;
  readonly deps: ApiDeps;
  readonly admission: Admission;
  readonly body: Buffer;
  readonly scan: ScannedBody;
  readonly model: Model;
}

/** The same, as failover sees it. */
class ProxiedRequest implements Job {
  readonly model: string;
  readonly path: string;
  readonly headers: string[];
  readonly body: Buffer;
  readonly dialect: Dialect | undefined;
  readonly candidates: Candidates;
  readonly budget: RetryBudget;
  readonly usage: UsageWatch | null;
  readonly approval: Approval | undefined;
  readonly #exchange: Exchange;
  readonly #deps: ApiDeps;
  readonly #streaming: boolean;
  readonly #preferred: ReadonlyMap<string, string>;
  readonly #trace: AttemptTrace | null;
  /** What the last try came to. */
  #cause = '';
  /** Of a stream: where the times between its pieces are noted, and when the last one passed. */
  #gaps: ReturnType<Counters['gaps']> | null = null;
  #lastPieceMs = 0;

  /** @param sent the body as the CRN gets it */
  constructor(ask: Ask, sent: Buffer, usage: UsageWatch | null, approval?: Approval) {
    const { exchange, deps, admission, body, scan, model } = ask;
    const dialect = dialectOf(exchange.path);
    const path = upstreamPath(exchange.path);
    this.#exchange = exchange;
    this.#deps = deps;
    this.#streaming = scan.stream;
    this.#preferred = readAffinity(readCookie(exchange.header('cookie'), AFFINITY_COOKIE));
    this.model = model.id;
    this.path = exchange.query === '' ? path : `${path}?${exchange.query}`;
    this.body = sent;
    this.approval = approval;
    this.dialect = dialect;
    const { span } = exchange;
    this.#trace = span === null ? null : new AttemptTrace(span, dialect, path, model.id);
    // A trace shows what the CRN counted, also where nobody is billed.
    this.usage = usage ?? (span === null ? null : new UsageWatch(dialect, false));
    exchange.bytesIn = body.byteLength;
    const headers = approval === undefined ? exchange.headers : withoutPayment(exchange.headers);
    this.headers = requestHeaders({
      headers: this.#trace?.cleaned(headers) ?? headers,
      requestId: exchange.requestId,
      bearer: admission.bearer,
      // What is counted must be readable.
      readable: scan.stream || usage !== null,
    });
    this.budget = deps.budget(model.id);
    const wishes = {
      favourite: this.#preferred.get(model.id.toLowerCase()),
      key: affinityKey(exchange, body, scan, dialect),
    };
    this.candidates = new Candidates(model, deps.board, deps.picker, wishes, deps.clock.now(), deps.random);
  }

  extraHeaders(member: Member, progress: Progress): string[] {
    const { settings, table } = this.#deps;
    // The first byte of a stream shows how busy a CRN is; of a whole answer it shows how long the answer was.
    if (this.#streaming || this.dialect === undefined) this.#noteFirstByte(member, progress);
    const headers = settings.serverTiming ? timing(this.#exchange, progress) : [];
    const updated = settings.routing.affinity
      ? writeAffinity(this.#preferred, table, this.model, member.url)
      : undefined;
    if (updated !== undefined) {
      const secure = settings.publicScheme === 'https';
      headers.push('set-cookie', setCookie(AFFINITY_COOKIE, updated, AFFINITY_MAX_AGE_S, secure));
    }
    return headers;
  }

  fail(error: HeadraceError): void {
    respondError(this.#exchange, error, decorator(this.#deps));
  }

  onPick(affinity: Affinity): void {
    this.#deps.counters.pick(affinity);
  }

  onTry(member: Member, attempt: number): readonly string[] {
    const { counters } = this.#deps;
    if (attempt > 1) counters.failover(this.model, this.#cause, this.#exchange.crn);
    this.#exchange.crn = member.url;
    this.#exchange.attempts = attempt;
    return this.#trace?.begin(member.url) ?? NO_HEADERS;
  }

  onPiece(nowMs: number, bytes: number): void {
    const exchange = this.#exchange;
    exchange.bytesOut += bytes;
    if (this.#gaps !== null) {
      this.#gaps.observe((nowMs - this.#lastPieceMs) / 1000);
    } else if (!exchange.finished) {
      this.#gaps = this.#deps.counters.gaps(this.model);
      exchange.firstPieceMs = nowMs;
      this.#deps.counters.streamBegun(exchange.endpoint, this.model, nowMs - exchange.receivedMs);
    }
    this.#lastPieceMs = nowMs;
  }

  onAttempt(member: Member, verdict: Verdict, failure: Failure | null): void {
    this.#cause = failure ?? verdict;
    this.#trace?.end(failure, this.usage);
    this.#deps.counters.attempt(member, verdict, failure);
    this.#deps.reporter.report(member.member, verdict, failure);
  }

  #noteFirstByte(member: Member, { sentMs, firstByteMs }: Progress): void {
    this.#deps.board.noteFirstByte(member.member, firstByteMs - sentMs, firstByteMs);
    this.#deps.counters.firstByte(this.model, firstByteMs - sentMs);
  }
}

function affinityKey(exchange: Exchange, body: Buffer, scan: ScannedBody, dialect: Dialect | undefined): number {
  for (const name of SESSION_HEADERS) {
    const session = exchange.header(name);
    if (session !== undefined && session !== '') return hashText(session) || 1;
  }
  if (scan.session !== undefined) return hashText(scan.session) || 1;
  return prefixHash(body, scan, dialect);
}

/** `Server-Timing` (W3C): what the gateway took until the request left, and the CRN until its first byte. */
function timing({ receivedMs }: Exchange, { sentMs, firstByteMs, attempts }: Progress): string[] {
  const gateway = (sentMs - receivedMs).toFixed(3);
  const upstream = (firstByteMs - sentMs).toFixed(3);
  return ['server-timing', `gateway;dur=${gateway}, upstream;dur=${upstream}, attempts;desc="${attempts}"`];
}
