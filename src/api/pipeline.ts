// The order in which every endpoint that costs money serves a request: authenticate, read, price, hold, run, settle.
// Checks answer in this order: 401 bad key, 408, 413, 422, 404, 401 no key or 402 with an offer, 429, 402, 503.
// Every hold ends in exactly one settlement or release, when the exchange is over, however it ends.

import {
  addRateLimitHeaders,
  type Budget,
  type Credential,
  type Exceeded,
  type GoodCredential,
  type LimitReservation,
  presentedKey,
  type RequestBound,
  exactUsdText,
  refusalHeaders,
  type Reserved,
  retryHeaders,
  type SliceUse,
  type Spending,
  usdText,
} from '../billing/index.ts';
import { dialectOf, tooDeep, tooManyValues } from '../dialect/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { Exchange, ExchangeListener, PartCharge } from '../ingress/exchange.ts';
import { respondJson } from '../ingress/respond.ts';
import type { ApiDeps, Billing, Endpoint, Settlement } from './deps.ts';
import { hasMoreValues, tooDeepAt } from '../config/json-syntax.ts';
import { counted } from '../config/units.ts';
import { holdPayment, type PaymentSettlement, type Quote, requestDigest } from './payment.ts';
import { refuse } from './refuse.ts';

/** Who sends a request. */
export interface Access {
  readonly credential: Credential;
  /** The key of a client that sent it as `x-api-key` only; CRNs get it as a bearer token. */
  readonly bearer: string | undefined;
}

/** A request whose body is valid. */
export interface PaidRequest<Input> {
  readonly exchange: Exchange;
  readonly deps: ApiDeps;
  readonly access: Access;
  readonly body: Buffer;
  readonly input: Input;
}

/** Settlement of one request: a hold on an account or on a payment; null when the request is free. */
export type RequestSettlement = AccountSettlement | PaymentSettlement | null;

/** What differs between the endpoints that cost money. */
export interface PaidEndpoint<Input> {
  /** Largest body in bytes, where it is smaller than `limits.bodyBytes`; a larger one is refused with 413 before it is read. */
  readonly maxBodyBytes?: number;
  /** A key that clients of this endpoint send in a header of their own form, as in `Authorization: Basic`. */
  keyInHead?(exchange: Exchange): string | undefined;
  /** A key that clients of this endpoint send in the body. Asked where the headers have none. */
  keyInBody?(body: Buffer): string | undefined;
  /** Validates the body. Throws 422, or 404 for an unknown model. */
  read(exchange: Exchange, deps: ApiDeps, body: Buffer): Input;
  /** Whether requests of this kind may have to be prepared. */
  prepares?(exchange: Exchange, deps: ApiDeps): boolean;
  /**
   * Looks up what the request refers to, and calls `proceed` with what is priced and run: at once, or later unless the exchange is over.
   * Answers errors that come later itself.
   */
  prepare?(request: PaidRequest<Input>, proceed: (prepared: PaidRequest<Input>) => void): void;
  /** What the request may cost an account. What it gets of it is in the settlement that `run` is given. */
  price(request: PaidRequest<Input>, billing: Billing): RequestBound;
  /** What the request costs a client without a key; null when it is free. */
  quote(request: PaidRequest<Input>, billing: Billing): Quote | null;
  /** Does the work and answers. */
  run(request: PaidRequest<Input>, settlement: RequestSettlement): void;
}

/** Largest body of a search, of pages, and of a call of a tool: arguments, not documents. */
export const TOOL_BODY_BYTES = 1024 * 1024;

/** Most values and keys of such a body: a parser, or a schema that goes over the values, takes 100 ms for a megabyte of small ones. */
export const TOOL_BODY_VALUES = 20_000;

/** Throws 422 for JSON that is nested deeper than `limits.jsonDepth`, or has too many values, before it is parsed. */
export function refuseDeep(body: Buffer, { settings }: Pick<ApiDeps, 'settings'>): void {
  const at = tooDeepAt(body, settings.limits.jsonDepth);
  if (at >= 0) {
    const validation = [tooDeep(at, settings.limits.jsonDepth)];
    throw new HeadraceError('HR_REQUEST_INVALID', { validation });
  }
  if (hasMoreValues(body, TOOL_BODY_VALUES))
    throw new HeadraceError('HR_REQUEST_INVALID', { validation: tooManyValues(TOOL_BODY_VALUES).errors });
}

/** A client without a key is not made to upload more than this where no body can make up for it. */
export const KEYLESS_UPLOAD_BYTES = 64 * 1024;

/** The endpoint as the router calls it. It throws 401 before the body is read; every later refusal is answered. */
export function paid<Input>(endpoint: PaidEndpoint<Input>): Endpoint {
  return (exchange, deps) => {
    const access = authenticate(exchange, deps, endpoint.keyInHead?.(exchange));
    const { contentEncoding, declaredBytes, keyless } = exchange;
    const isShort = contentEncoding === undefined && declaredBytes >= 0 && declaredBytes <= KEYLESS_UPLOAD_BYTES;
    if (keyless && !isShort && (deps.paymentProcessor === null || deps.billing === null)) {
      throw new HeadraceError('HR_AUTH_MISSING');
    }
    exchange.readBody((error, body) => {
      try {
        if (error !== null) throw error;
        // Others are scanned where they are read.
        if (endpoint.maxBodyBytes !== undefined) refuseDeep(body, deps);
        const known = endpoint.keyInBody === undefined ? access : accessOf(endpoint, exchange, deps, access, body);
        const request = { exchange, deps, access: known, body, input: endpoint.read(exchange, deps, body) };
        if (endpoint.prepares?.(exchange, deps) === true) prepare(endpoint, request);
        else hold(endpoint, request);
      } catch (thrown) {
        refuse(exchange, deps, thrown);
      }
    }, endpoint.maxBodyBytes);
  };
}

/** Apart from `paid`, whose variables would else be allocated for the closure. */
function prepare<Input>(endpoint: PaidEndpoint<Input>, request: PaidRequest<Input>): void {
  endpoint.prepare?.(request, (prepared) => hold(endpoint, prepared));
}

/** The access of a request whose key may be in its body. Throws 401 for a bad one. */
function accessOf<Input>(
  endpoint: PaidEndpoint<Input>,
  exchange: Exchange,
  deps: ApiDeps,
  access: Access,
  body: Buffer,
): Access {
  const key = access.credential.kind === 'none' ? endpoint.keyInBody?.(body) : undefined;
  return key === undefined ? access : authenticate(exchange, deps, key);
}

/**
 * Checks the key of a request: `key`, else that in its usual headers. Throws 401 for a bad one, and 503 for one that may be a key of the
 * store while its keys are not known.
 */
export function authenticate(exchange: Exchange, { keys, settings }: ApiDeps, key?: string): Access {
  const presented =
    key === undefined ? presentedKey(exchange.authorization, exchange.apiKey) : { key, bearer: undefined };
  const credential = keys.check(presented.key);
  if (credential.kind === 'bad' && settings.keys.required) throw badKey(keys);
  if (credential.kind === 'good') {
    exchange.account = credential.account;
    exchange.credential = credential.key;
  }
  exchange.keyless = credential.kind === 'none' && settings.keys.required;
  return { credential, bearer: presented.bearer };
}

/** The key of a request that needs a good one, whether or not the gateway asks for keys. Throws as `authenticate` does, and 401 without a key. */
export function requireKey(exchange: Exchange, deps: ApiDeps): GoodCredential {
  const { credential } = authenticate(exchange, deps);
  if (credential.kind === 'bad') throw badKey(deps.keys);
  if (credential.kind === 'none') throw new HeadraceError('HR_AUTH_MISSING');
  return credential;
}

/** The error of a key that is not in the table. */
function badKey({ isComplete }: ApiDeps['keys']): HeadraceError {
  return new HeadraceError(isComplete ? 'HR_AUTH_INVALID' : 'HR_STARTING');
}

/** Tokens are counted in the messages dialect, though it is no path of its requests. */
const COUNT_PATH = '/v1/messages/count_tokens';

/** Holds what the request may cost, on the account or the payment, and runs it. */
function hold<Input>(endpoint: PaidEndpoint<Input>, request: PaidRequest<Input>): void {
  const { exchange, deps, access, body } = request;
  const { billing, paymentProcessor, settings } = deps;
  const { credential } = access;
  if (credential.kind === 'none' && settings.keys.required) {
    const quote = paymentProcessor === null || billing === null ? null : endpoint.quote(request, billing);
    if (quote === null) throw new HeadraceError('HR_AUTH_MISSING');
    const paymentDeps = { paymentProcessor: paymentProcessor as NonNullable<typeof paymentProcessor>, settings };
    holdPayment(exchange, paymentDeps, { ...quote, digest: requestDigest(exchange, body) }, (settlement) =>
      endpoint.run(request, settlement),
    );
  } else if (credential.kind === 'good' && billing !== null) {
    holdCredit(endpoint, request, billing, credential);
  } else {
    endpoint.run(request, null);
  }
}

/** Holds credit of the account. Mostly the lease reaches; else it is extended, and the request runs later or is refused. */
function holdCredit<Input>(
  endpoint: PaidEndpoint<Input>,
  request: PaidRequest<Input>,
  billing: Billing,
  payer: GoodCredential,
): void {
  const range = endpoint.price(request, billing);
  const settlement = admitRequest(request.exchange, billing, payer, range, 'direct');
  if (settlement === null) awaitSlices(endpoint, request, billing, payer, range);
  else holdAdmitted(endpoint, request, billing, settlement, range);
}

/** Waits for slices of limits that gateways share. Apart from `holdCredit`, as `fundCredit` is. */
function awaitSlices<Input>(
  endpoint: PaidEndpoint<Input>,
  request: PaidRequest<Input>,
  billing: Billing,
  payer: GoodCredential,
  range: RequestBound,
): void {
  const { deps, exchange } = request;
  const need = billing.limits.needOf(payer, exchange.model, range, billing.epochMs());
  const listener = new PendingListener(exchange, deps);
  exchange.listener = listener;
  listener.pending = billing.slices.wait(need, (use) => {
    listener.pending = null;
    exchange.listener = null;
    try {
      const settlement = admitRequest(exchange, billing, payer, range, use);
      if (settlement === null) throw new HeadraceError('HR_LIMITS_FULL');
      holdAdmitted(endpoint, request, billing, settlement, range);
    } catch (thrown) {
      refuse(exchange, deps, thrown);
    }
  });
}

function holdAdmitted<Input>(
  endpoint: PaidEndpoint<Input>,
  request: PaidRequest<Input>,
  billing: Billing,
  settlement: AccountSettlement,
  range: RequestBound,
): void {
  const most = Math.min(range.most, settlement.limits.amount);
  const amount = most === 0 ? 0 : billing.leases.reserve(settlement.payer, most);
  if (amount === 0 && most > 0) {
    fundCredit(endpoint, request, billing, settlement, range.least, most);
    return;
  }
  settlement.hold(amount);
  endpoint.run(request, settlement);
}

/** Holds credit that the lease does not cover. Apart from `holdCredit`, whose variables would else be allocated for the closure. */
function fundCredit<Input>(
  endpoint: PaidEndpoint<Input>,
  request: PaidRequest<Input>,
  billing: Billing,
  settlement: AccountSettlement,
  least: number,
  most: number,
): void {
  const { deps, exchange } = request;
  const proceed = (reserved: Reserved): void => {
    // The lease cache calls others that wait for the same credit, and must not see errors.
    try {
      if (reserved.kind === 'reserved') {
        settlement.hold(reserved.amount);
        if (!exchange.handedOver) endpoint.run(request, settlement);
      } else {
        settlement.close();
        refuse(exchange, deps, creditError(reserved, least));
      }
    } catch (thrown) {
      refuse(exchange, deps, thrown);
    }
  };
  billing.leases.fund(settlement.payer, least, most, proceed, exchange.parent?.partCharges?.waitingCost);
}

/** Reads off what an answer has taken that is metered while it passes. */
export interface Meter {
  /** Null when nothing was delivered. */
  spending(): Spending | null;
}

/**
 * Reserves what the limits of a key and the budgets allow, before credit is held. The settlement is the exchange's at once: whatever is
 * thrown from here on, it ends with the exchange. Throws the error of the limit that is reached. Null: the slices of limits that
 * gateways share do not reach, and nothing is reserved.
 */
function admitRequest(
  exchange: Exchange,
  billing: Billing,
  payer: GoodCredential,
  range: RequestBound,
  use: SliceUse,
): AccountSettlement | null {
  const nowMs = billing.epochMs();
  const limited = exchange.parent === null ? payer : withinParent(exchange, payer);
  const admitted = billing.limits.admit(limited, exchange.model, range, nowMs, use);
  if (admitted.kind === 'slice') return null;
  if (admitted.kind !== 'reserved') throw limitError(admitted, rateLimitFamily(exchange), nowMs);
  const charges = exchange.heldBy ?? exchange.parent?.partCharges ?? null;
  const settlement = new AccountSettlement(billing, payer, exchange.model, admitted, charges !== null);
  exchange.settlement = settlement;
  charges?.add(settlement);
  if (payer.allowance !== null) {
    addRateLimitHeaders(exchange.commonHeaders, admitted, rateLimitFamily(exchange), nowMs);
  }
  return settlement;
}

/**
 * A request that a running request of the same key makes is a part of that one: a place of its own would wait for the one that waits for
 * it, and it is no request more in the minute. Its tokens count.
 */
function withinParent(exchange: Exchange, payer: GoodCredential): GoodCredential {
  const { allowance, lineage } = payer;
  if (allowance === null) return payer;
  for (let { parent } = exchange; parent !== null; { parent } = parent) {
    const { settlement } = parent;
    // Not the cell: each message of the control thread has a copy of its own.
    const isCounted = settlement instanceof AccountSettlement && settlement.payer.allowance !== null;
    if (isCounted && settlement.payer.lineage === lineage) {
      const unbounded = { runningRequests: undefined, requestsPerMinute: undefined, isPart: true };
      return { ...payer, allowance: { ...allowance, ...unbounded } };
    }
  }
  return payer;
}

/** Clients of the Messages API read other headers than all others. */
function rateLimitFamily({ path }: Exchange): 'openai' | 'anthropic' {
  return path === COUNT_PATH || dialectOf(path)?.name === 'messages' ? 'anthropic' : 'openai';
}

/**
 * What is held of an account for one request: of the limits of its key, of budgets, and credit. A prepaid request never costs more
 * than its credit, and none more than was reserved of its budgets. A part of another request is held from its end on, with what it
 * costs, until that request says whether it is charged.
 */
class AccountSettlement implements Settlement, PartCharge {
  readonly kind = 'account';
  cost = 0;
  promptTokens = 0;
  cachedTokens = 0;
  completionTokens = 0;
  measured = true;
  /** Asked once, at the close. */
  meter: Meter | null = null;
  /** Pico-USD that are held. */
  held = 0;
  readonly payer: GoodCredential;
  /** What was reserved of the limits of the key and of budgets. */
  readonly limits: LimitReservation;
  readonly #billing: Billing;
  readonly #model: string;
  /** Null while nothing was added. */
  #spendings: Spending[] | null = null;
  #closed = false;
  /** Whether what was delivered is charged. */
  #verdict: 'charged' | 'open' | 'released';
  /** What it comes to, while it is closed and the verdict is open. */
  #waiting: Spending[] | null = null;
  onDecided: (() => void) | null = null;

  constructor(billing: Billing, payer: GoodCredential, model: string, limits: LimitReservation, isPart: boolean) {
    this.#billing = billing;
    this.payer = payer;
    this.#model = model;
    this.limits = limits;
    this.#verdict = isPart ? 'open' : 'charged';
  }

  get isWaiting(): boolean {
    return this.#waiting !== null;
  }

  /** Nothing of the request is charged, whatever was delivered to the request that makes it. */
  get isReleased(): boolean {
    return this.#verdict === 'released';
  }

  get dueCost(): number {
    if (this.#waiting !== null) return Math.min(costOfAll(this.#waiting), this.maxCost);
    if (this.#closed) return this.cost;
    let cost = this.meter?.spending()?.cost ?? 0;
    if (this.#spendings !== null) for (const spending of this.#spendings) cost += spending.cost;
    return Math.min(cost, this.maxCost);
  }

  /** The most that the request may cost, in pico-USD. Infinity: the account pays later, whatever it is. */
  get maxCost(): number {
    return this.payer.prepaid ? this.held : this.limits.amount;
  }

  /** The most tokens that the request may take, prompt and output together. */
  get maxTokens(): number {
    return this.limits.tokens;
  }

  /** Notes the credit that is held. What is reserved of budgets beyond it is given back. After the end nothing is held. */
  hold(amount: number): void {
    if (this.#closed) {
      if (amount > 0) this.#billing.leases.cancel(this.payer, amount);
      return;
    }
    this.held = amount;
    this.#billing.limits.lower(this.limits, amount);
  }

  add(spending: Spending): void {
    if (this.#spendings === null) this.#spendings = [spending];
    else this.#spendings.push(spending);
  }

  close(): void {
    if (this.#closed) return;
    const most = this.maxCost;
    this.#closed = true;
    try {
      if (this.#verdict === 'open') this.#wait(most);
      if (this.#verdict !== 'charged') return;
      if (this.#spendings !== null) for (const spending of this.#spendings) this.#charge(spending, most);
      const metered = this.meter?.spending() ?? null;
      if (metered !== null) this.#charge(metered, most);
    } finally {
      if (this.#waiting === null) this.#end();
    }
  }

  commit(): void {
    if (this.#verdict !== 'open') return;
    this.#verdict = 'charged';
    this.#decide(this.#waiting);
  }

  release(): void {
    if (this.#verdict !== 'open') return;
    this.#verdict = 'released';
    this.#decide(this.#waiting === null ? null : []);
  }

  /** Keeps what is due of the hold and of the limits; where nothing is, nothing has to wait. */
  #wait(most: number): void {
    const metered = this.meter?.spending() ?? null;
    const due = [...(this.#spendings ?? []), ...(metered === null ? [] : [metered])];
    if (due.length === 0) return;
    const { leases, limits } = this.#billing;
    const cost = Math.min(costOfAll(due), most);
    const rest = this.held - Math.min(this.held, cost);
    this.held -= rest;
    this.#waiting = due;
    if (rest > 0) leases.cancel(this.payer, rest);
    limits.leave(this.limits);
    limits.lower(this.limits, cost);
    const tokens = due.reduce((sum, { completionTokens, promptTokens }) => sum + promptTokens + completionTokens, 0);
    limits.lowerTokens(this.limits, tokens);
  }

  /** Ends the wait of a closed settlement. */
  #decide(due: readonly Spending[] | null): void {
    if (due === null) return;
    this.#waiting = null;
    const most = this.maxCost;
    try {
      for (const spending of due) this.#charge(spending, most);
    } finally {
      this.#end();
      this.onDecided?.();
    }
  }

  /** Gives back what is held and was not charged. */
  #end(): void {
    const { epochMs, leases, limits } = this.#billing;
    if (this.held > 0) leases.cancel(this.payer, this.held);
    this.held = 0;
    const tokens = this.promptTokens + this.completionTokens;
    limits.settle(this.limits, this.payer, this.#model, tokens, this.cost, epochMs());
  }

  /** Charges what was delivered, as far as `most` allows. What is held beyond it stays, for what is charged next. */
  #charge(spending: Spending, most: number): void {
    const cost = Math.min(spending.cost, most - this.cost);
    const held = Math.min(this.held, cost);
    this.held -= held;
    this.#billing.leases.settle(this.payer, held, cost === spending.cost ? spending : { ...spending, cost });
    this.cost += cost;
    this.promptTokens += spending.promptTokens;
    this.cachedTokens += spending.cachedTokens;
    this.completionTokens += spending.completionTokens;
    this.measured &&= spending.measured;
  }
}

function costOfAll(spendings: readonly Spending[]): number {
  return spendings.reduce((sum, { cost }) => sum + cost, 0);
}

/** What a call costs that is not counted in tokens: `amount` or nothing, in pico-USD. */
export function unmeteredRange(amount: number): RequestBound {
  return { least: amount, most: amount, leastTokens: 0, mostTokens: 0 };
}

/** What a call costs that is not counted in tokens. `cost` in pico-USD. */
export function unmeteredSpending(model: string, cost: number): Spending {
  return { model, cost, promptTokens: 0, cachedTokens: 0, completionTokens: 0, measured: true };
}

function creditError(reserved: Exclude<Reserved, { kind: 'reserved' }>, amount: number): HeadraceError {
  if (reserved.kind === 'busy') return new HeadraceError('HR_CREDIT_BUSY', { headers: ['retry-after', '1'] });
  if (reserved.kind === 'away') return new HeadraceError('HR_CREDIT_UNKNOWN', { headers: ['retry-after', '2'] });
  const subject = `${usdText(amount)} USD, ${usdText(Math.max(reserved.balance, 0))} USD are left`;
  return new HeadraceError('HR_CREDIT_SHORT', { subject });
}

/** The error of each limit of a key, and what is limited. */
const LIMIT_ERRORS = {
  running: ['HR_KEY_RUNNING', 'request'],
  requests: ['HR_KEY_RATE', 'request'],
  tokens: ['HR_KEY_TOKENS', 'token'],
  size: ['HR_KEY_TOO_LARGE', 'token'],
} as const satisfies Record<string, readonly [code: ErrorCode, noun: string]>;

function limitError(exceeded: Exceeded, family: 'openai' | 'anthropic', nowMs: number): HeadraceError {
  switch (exceeded.kind) {
    case 'capacity':
      return new HeadraceError('HR_LIMITS_FULL');
    case 'spent':
      return new HeadraceError('HR_KEY_SPENT', { subject: budgetText(exceeded.budget, exceeded.endsMs) });
    case 'held': {
      const subject = budgetText(exceeded.budget, exceeded.endsMs);
      return new HeadraceError('HR_BUDGET_HELD', { subject, headers: retryHeaders(0) });
    }
    default: {
      const headers = refusalHeaders(exceeded, family, nowMs);
      const [code, noun] = LIMIT_ERRORS[exceeded.kind];
      return new HeadraceError(code, { subject: counted(exceeded.limit, noun), headers });
    }
  }
}

/** Says no id of a key: whoever reads it knows which one it has sent. */
function budgetText({ account, key, limit, model, period }: Budget, endsMs: number): string {
  const spender = key !== null ? 'this key' : account !== null ? 'this account' : 'all accounts together';
  const subject = model === null ? `${spender} may spend` : `${spender} may spend on model ${model}`;
  return `${subject} ${usdText(limit)} USD a ${period}; the ${period} ends at ${new Date(endsMs).toISOString()}`;
}

/** Work under way whose answer comes in one piece. */
export interface Pending {
  /** Nothing is called any more. */
  abort(): void;
}

/** Hears an answer, and whether it was kept from an earlier request; or why there is none. */
export type WholeDone<Answer> = (error: HeadraceError | null, answer: Answer | null, cached: boolean) => void;

/** What a request cost, in USD as a decimal: a header of answers that are whole, a trailer of streams. */
export const COST_HEADER = 'x-headrace-cost';

const NO_HEADERS: readonly string[] = [];
const CACHE_HIT: readonly string[] = ['x-headrace-cache', 'hit'];

/** Writes a good answer; `headers` are to go with it. */
export type WholeResponse<Answer> = (exchange: Exchange, answer: Answer, headers: readonly string[]) => void;

/**
 * Runs work whose answer comes in one piece, and answers with it. `spendingsOf` says what the answer costs; one that costs
 * nothing is answered without taking a held payment.
 */
export function respondWhole<Answer>(
  { exchange, deps }: PaidRequest<unknown>,
  settlement: RequestSettlement,
  spendingsOf: (answer: Answer, cached: boolean) => readonly Spending[],
  start: (done: WholeDone<Answer>) => Pending,
  respond: WholeResponse<Answer> = respondWithJson,
): void {
  const listener = new PendingListener(exchange, deps);
  exchange.listener = listener;
  const pending = start((error, answer, cached) => {
    listener.pending = null;
    if (answer === null) {
      refuse(exchange, deps, error);
      return;
    }
    const spendings = settlement === null ? [] : spendingsOf(answer, cached);
    for (const spending of spendings) settlement?.add(spending);
    if (settlement?.kind === 'payment') settlement.lower(spendings.reduce((sum, { cost }) => sum + cost, 0));
    const cost = settlement === null ? NO_HEADERS : [COST_HEADER, exactUsdText(settlement.dueCost)];
    if (settlement?.kind === 'payment' && spendings.length > 0) {
      settlement.deliver((receipts) => respond(exchange, answer, [...receipts, ...cost]));
    } else {
      respond(exchange, answer, cached ? [...CACHE_HIT, ...cost] : cost);
    }
  });
  listener.pending = pending;
}

function respondWithJson(exchange: Exchange, answer: unknown, headers: readonly string[]): void {
  respondJson(exchange, 200, answer, headers);
}

/** Aborts pending work when its client goes or the gateway shuts down. */
export class PendingListener implements ExchangeListener {
  /** Null before the work has begun, and when it has ended. */
  pending: Pending | null = null;
  readonly #exchange: Exchange;
  readonly #deps: ApiDeps;

  constructor(exchange: Exchange, deps: ApiDeps) {
    this.#exchange = exchange;
    this.#deps = deps;
  }

  onWritable(): void {
    // The whole answer has been handed over.
  }

  onCut(): void {
    this.pending?.abort();
    this.pending = null;
    refuse(this.#exchange, this.#deps, new HeadraceError('HR_DRAINING'));
  }

  onEnded(): void {
    this.pending?.abort();
    this.pending = null;
  }
}

/** The same for the library: resolves with a copy of the answer. Rejects with the reason of `signal` when it fires. */
export function callWhole<Answer>(
  signal: AbortSignal | undefined,
  start: (done: WholeDone<Answer>) => Pending,
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const pending = start((error, answer) => {
      signal?.removeEventListener('abort', leave);
      // The caller may change what it gets; the answer may also be in the cache, or on its way to others.
      if (answer === null) reject(error as HeadraceError);
      else resolve(structuredClone(answer));
    });
    const leave = (): void => {
      pending.abort();
      reject(signal?.reason as Error);
    };
    signal?.addEventListener('abort', leave, { once: true });
  });
}
