// Every proxied POST: the four dialects, llama-style completions, and anything else whose JSON body names a model. Body
// bytes pass untouched; one scan reads what routing and prices need. Failover then picks a CRN and relays its answer.

import {
  type Dialect,
  askingForUsage,
  dialectOf,
  estimateTokens,
  prefixHash,
  scanBody,
  type ScannedBody,
  upstreamPath,
  UsageWatch,
} from '../dialect/index.ts';
import { costOf, type Spending, type Tokens } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import { readCookie, setCookie } from '../ingress/cookies.ts';
import type { Exchange } from '../ingress/exchange.ts';
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
import { AttemptTrace } from './attempt-trace.ts';
import type { ApiDeps, Counters, Endpoint } from './deps.ts';
import { tokenPrice, withoutPayment } from './payment.ts';
import { type Meter, paid, type PaidEndpoint, type PaidRequest, refuse, type RequestSettlement } from './pipeline.ts';

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

/** A proxied request whose model is known. */
interface InferenceInput {
  readonly scan: ScannedBody;
  readonly model: Model;
  /** Estimate, for CRNs that do not count; known once an account is charged. */
  promptTokens: number;
}

type InferenceRequest = PaidRequest<InferenceInput>;

const inference: PaidEndpoint<InferenceInput> = {
  read(exchange, { settings, table }, body) {
    const contentType = exchange.header('content-type');
    if (contentType !== undefined && body.byteLength > 0 && !JSON_TYPE.test(contentType)) throw notJson();
    const scan = scanBody(body, { maxDepth: settings.limits.jsonDepth });
    if (!scan.ok) throw new HeadraceError('HR_REQUEST_INVALID', { validation: scan.errors });
    const model = table.find(scan.model);
    if (model === undefined && table.version === 0) throw new HeadraceError('HR_STARTING');
    if (model === undefined) throw new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: scan.model.slice(0, 128) });
    exchange.model = model.id;
    return { scan, model, promptTokens: 0 };
  },
  price(request, { modelPrices }) {
    const { input } = request;
    const estimate = boundedEstimate(request);
    input.promptTokens = estimate.promptTokens;
    const modelPrice = modelPrices.get(input.model.id);
    return modelPrice === undefined ? 0 : costOf(modelPrice, estimate);
  },
  quote({ body, deps, input: { model, scan } }, { modelPrices }) {
    const modelPrice = modelPrices.get(model.id);
    if (modelPrice === undefined) return null;
    const { payments } = deps.settings;
    const estimate = estimateTokens(body, scan);
    const usage = {
      ...{ key: null, model: model.id, inputTokens: estimate.promptTokens, cachedTokens: 0 },
      outputTokens: estimate.maxTokens ?? payments.assumedTokens * estimate.choices,
      measured: false,
    };
    const price = tokenPrice(payments, modelPrice, estimate, deps.contextLengths.get(model.id));
    return { price, usage, description: `A request to ${model.id}` };
  },
  run(request, settlement) {
    const { deps, exchange } = request;
    new Failover(deps.failover, new ProxiedRequest(request, settlement), exchange).start();
  },
};

/** Serves a proxied request. Throws 401 for a bad key; every later refusal is answered. */
export const forward: Endpoint = paid(inference);

/** The most that a request may take, as far as its body and the model say. */
function boundedEstimate({ body, deps, input: { model, scan } }: InferenceRequest): Tokens {
  const { choices, maxTokens, prompts, promptTokens } = estimateTokens(body, scan);
  const contextLength = deps.contextLengths.get(model.id) ?? Infinity;
  const prompt = Math.min(promptTokens / prompts, contextLength);
  const wished = maxTokens ?? (deps.billing?.assumedTokens ?? 0) * choices;
  // A prompt that seems to fill the context is counted wrongly, or costs nothing since the CRN refuses it.
  const free = prompt < contextLength ? contextLength - prompt : contextLength;
  const promptTotal = Math.ceil(prompt * prompts);
  return { promptTokens: promptTotal, completionTokens: Math.min(wished, Math.ceil(free * choices)), cachedTokens: 0 };
}

function notJson(): HeadraceError {
  const msg = 'Input should be a valid dictionary or object to extract fields from';
  return new HeadraceError('HR_REQUEST_INVALID', {
    validation: [{ loc: ['body'], msg, type: 'model_attributes_type' }],
  });
}

/** A valid request, as failover sees it. */
class ProxiedRequest implements Job, Meter {
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
  readonly #promptTokens: number;
  readonly #preferred: ReadonlyMap<string, string>;
  readonly #trace: AttemptTrace | null;
  /** What the last try came to. */
  #cause = '';
  /** Of a stream: where the times between its pieces are noted, and when the last one passed. */
  #gaps: ReturnType<Counters['gaps']> | null = null;
  #lastPieceMs = 0;

  constructor({ exchange, deps, access, body, input }: InferenceRequest, settlement: RequestSettlement) {
    const { scan, model } = input;
    const dialect = dialectOf(exchange.path);
    const path = upstreamPath(exchange.path);
    const { span } = exchange;
    const charged = settlement?.kind === 'account';
    // Free models are counted as far as their answers say; only what costs money is asked to say it.
    const asking =
      charged && deps.billing?.modelPrices.has(model.id) === true ? askingForUsage(dialect, body, scan) : undefined;
    this.#exchange = exchange;
    this.#deps = deps;
    this.#streaming = scan.stream;
    this.#promptTokens = input.promptTokens;
    this.#preferred = readAffinity(readCookie(exchange.header('cookie'), AFFINITY_COOKIE));
    this.#trace = span === null ? null : new AttemptTrace(span, dialect, path, model.id);
    this.model = model.id;
    this.path = exchange.query === '' ? path : `${path}?${exchange.query}`;
    this.body = asking ?? body;
    this.approval = settlement?.kind === 'payment' ? settlement : undefined;
    this.dialect = dialect;
    // A trace shows what the CRN counted, also where nobody is charged.
    this.usage = charged || span !== null ? new UsageWatch(dialect, asking !== undefined) : null;
    if (charged) settlement.meter = this;
    exchange.bytesIn = body.byteLength;
    const headers = this.approval === undefined ? exchange.headers : withoutPayment(exchange.headers);
    this.headers = requestHeaders({
      headers: this.#trace?.cleaned(headers) ?? headers,
      requestId: exchange.requestId,
      bearer: access.bearer,
      // What is counted must be readable.
      readable: scan.stream || charged,
    });
    this.budget = deps.budget(model.id);
    const hint = {
      url: this.#preferred.get(model.id.toLowerCase()),
      key: affinityKey(exchange, body, scan, dialect),
    };
    this.candidates = new Candidates(model, deps.board, deps.picker, hint, deps.clock.now(), deps.random);
  }

  spending(): Spending | null {
    const { usage } = this;
    if (usage?.delivered !== true) return null;
    const metered = usage.result(this.#promptTokens);
    const modelPrice = this.#deps.billing?.modelPrices.get(this.model);
    return { ...metered, model: this.model, cost: modelPrice === undefined ? 0 : costOf(modelPrice, metered) };
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
    refuse(this.#exchange, this.#deps, error);
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
