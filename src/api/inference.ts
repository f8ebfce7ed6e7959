// Every proxied POST: the four dialects, llama-style completions, and anything else whose JSON body names a model. Body
// bytes pass untouched; one scan reads what routing and prices need. Failover then picks a CRN and relays its answer.

import {
  type Dialect,
  askingForUsage,
  choicesOf,
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
import { type Exchange, readCookie, setCookie } from '../ingress/exchange.ts';
import {
  AFFINITY_COOKIE,
  AFFINITY_MAX_AGE_S,
  Candidates,
  hashText,
  type Model,
  readAffinity,
  writeAffinity,
} from '../routing/index.ts';
import type { RequestCells } from '../telemetry/metrics.ts';
import {
  credentialLines,
  Failover,
  requestLines,
  type UpstreamEvent,
  type UpstreamListener,
  type UpstreamRequest,
} from '../upstream/index.ts';
import { AttemptTrace } from './attempt-trace.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { tokenPrice } from './payment.ts';
import { type Meter, paid, type PaidEndpoint, type PaidRequest, refuse, type RequestSettlement } from './pipeline.ts';

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
    const { contentType } = exchange;
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
    new Failover(deps.failover, new Forwarding(request, settlement).upstream, exchange).start();
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

/** One request on its way to a CRN: makes what is sent, and counts, traces and meters what happens to it. */
class Forwarding implements UpstreamListener, Meter {
  readonly upstream: UpstreamRequest;
  readonly #exchange: Exchange;
  readonly #deps: ApiDeps;
  readonly #cells: RequestCells;
  readonly #stream: boolean;
  readonly #promptTokens: number;
  readonly #preferred: ReadonlyMap<string, string>;
  readonly #trace: AttemptTrace | null;
  /** How the last attempt ended. */
  #cause = '';

  constructor({ exchange, deps, access, body, input }: InferenceRequest, settlement: RequestSettlement) {
    const { scan, model } = input;
    const { apiKey, authorization, query, span } = exchange;
    const dialect = dialectOf(exchange.path);
    const path = upstreamPath(exchange.path);
    const charged = settlement?.kind === 'account';
    const paid = settlement?.kind === 'payment';
    // Free models are counted as far as their answers say; only what costs money is asked to say it.
    const asking =
      charged && deps.billing?.modelPrices.has(model.id) === true ? askingForUsage(dialect, body, scan) : undefined;
    this.#exchange = exchange;
    this.#deps = deps;
    this.#cells = deps.metrics.of(exchange.endpoint, model.id);
    this.#stream = scan.stream;
    this.#promptTokens = input.promptTokens;
    this.#preferred = readAffinity(readCookie(exchange.cookie, AFFINITY_COOKIE));
    this.#trace = span === null ? null : new AttemptTrace(span, dialect, path, model.id);
    if (charged) settlement.meter = this;
    exchange.bytesIn = body.byteLength;
    const hint = {
      url: this.#preferred.get(model.id.toLowerCase()),
      key: affinityKey(exchange, body, scan, dialect),
    };
    this.upstream = {
      model: model.id,
      path: query === '' ? path : `${path}?${query}`,
      lines: requestLines(deps.headerRules, {
        headers: this.#trace?.cleaned(exchange.headers) ?? exchange.headers,
        remoteAddress: exchange.remoteAddress,
        requestId: exchange.requestId,
        credential:
          access.credential.kind === 'none' ? '' : credentialLines({ authorization, apiKey, bearer: access.bearer }),
        // What is counted must be readable.
        readable: scan.stream || charged,
      }),
      body: asking ?? body,
      dialect,
      choices: choicesOf(body, scan),
      candidates: new Candidates(model, deps.board, deps.picker, hint, deps.clock.now(), deps.random),
      budget: deps.budget(model),
      approval: paid ? settlement : null,
      // A trace shows what the CRN counted, also where nobody is charged.
      usage: charged || span !== null ? new UsageWatch(dialect, asking !== undefined) : null,
      gaps: this.#cells.gaps,
      listener: this,
    };
  }

  onEvent(event: UpstreamEvent): void {
    const { metrics, recent, reporter } = this.#deps;
    const exchange = this.#exchange;
    switch (event.type) {
      case 'attempt': {
        const { attempt, headers, member } = event;
        if (attempt === 1) {
          metrics.pick(this.upstream.candidates.affinity);
        } else {
          metrics.failover(this.upstream.model, this.#cause);
          recent.failover(exchange.crn);
        }
        exchange.crn = member.url;
        exchange.attempts = attempt;
        if (this.#trace !== null) headers.push(...this.#trace.begin(member.url));
        break;
      }
      case 'outcome': {
        const { choice, failure, verdict } = event;
        this.#cause = failure ?? verdict;
        this.#trace?.end(failure, this.upstream.usage);
        metrics.attempt(choice.member.url, verdict, failure ?? '');
        reporter.report(choice, verdict, failure);
        break;
      }
      case 'answer':
        this.#answer(event);
        break;
      case 'stream':
        exchange.firstPieceMs = event.nowMs;
        metrics.streamStarted();
        this.#cells.firstPiece.observe((event.nowMs - exchange.receivedMs) / 1000);
        break;
      case 'failed':
        refuse(exchange, this.#deps, event.error);
    }
  }

  spending(): Spending | null {
    const { model, usage } = this.upstream;
    if (usage?.delivered !== true) return null;
    const metered = usage.result(this.#promptTokens);
    const modelPrice = this.#deps.billing?.modelPrices.get(model);
    return { ...metered, model, cost: modelPrice === undefined ? 0 : costOf(modelPrice, metered) };
  }

  #answer({ attempts, choice, firstByteMs, headers, sentMs }: Extract<UpstreamEvent, { type: 'answer' }>): void {
    const { board, reporter, settings, table } = this.#deps;
    const { member } = choice;
    reporter.begun(choice);
    const waitedMs = firstByteMs - sentMs;
    // The first byte of a stream shows how busy a CRN is; of a whole answer it shows how long the answer was.
    if (this.#stream || this.upstream.dialect === undefined) {
      board.noteFirstByte(member.member, waitedMs, firstByteMs);
      this.#cells.firstByte.observe(waitedMs / 1000);
    }
    if (settings.serverTiming) {
      // `Server-Timing` (W3C): what the gateway took until the request left, and the CRN until its first byte.
      const gateway = (sentMs - this.#exchange.receivedMs).toFixed(3);
      const timing = `gateway;dur=${gateway}, upstream;dur=${waitedMs.toFixed(3)}, attempts;desc="${attempts}"`;
      headers.push('server-timing', timing);
    }
    // A CRN that is merely busy gets its conversations back.
    if (!settings.routing.affinity || this.upstream.candidates.preferredFit) return;
    const updated = writeAffinity(this.#preferred, table, this.upstream.model, member.url);
    if (updated === undefined) return;
    const secure = settings.publicScheme === 'https';
    headers.push('set-cookie', setCookie(AFFINITY_COOKIE, updated, AFFINITY_MAX_AGE_S, secure));
  }
}

function affinityKey(exchange: Exchange, body: Buffer, scan: ScannedBody, dialect: Dialect | undefined): number {
  const session = exchange.session ?? scan.session;
  return session === undefined ? prefixHash(body, scan, dialect) : hashText(session) || 1;
}
