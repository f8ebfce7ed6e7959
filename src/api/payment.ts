// x402 payments over HTTP: the headers that carry them, the 402 answer with its offer, and the settlement of a request that
// pays for itself. A payment is held before the work, taken before the first byte of the answer, and otherwise given back.

import { createHash } from 'node:crypto';
import type { CallRequest, Offered, Payments, Refused } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError } from '../ingress/respond.ts';
import type { Approval } from '../upstream/index.ts';
import type { Settlement } from './deps.ts';
import { type ErrorSettings, refuse } from './refuse.ts';

/** What one request costs a client without a key. */
export type Quote = Pick<CallRequest, 'price' | 'description' | 'usage'>;

export interface PaymentDeps {
  readonly paymentProcessor: Payments;
  readonly settings: ErrorSettings & { readonly publicScheme: string };
}

/**
 * Holds the payment of a request whose body has been read, then calls `run`. Everything else (402 with the offer, an error,
 * what `run` throws) is answered here; nothing is called when the client has left meanwhile.
 */
export function holdPayment(
  exchange: Exchange,
  { paymentProcessor, settings }: PaymentDeps,
  request: Quote & { readonly digest: string },
  run: (settlement: PaymentSettlement) => void,
): void {
  const resource = resourceOf(exchange, settings.publicScheme);
  paymentProcessor
    .begin({ ...request, resource, payment: presentedPayment(exchange) })
    .then((answer) => {
      if (answer.kind !== 'ticket') {
        respondUnpaid(exchange, settings, answer);
        return;
      }
      const settlement = new PaymentSettlement(exchange, { paymentProcessor, settings }, answer.ticket, request);
      if (exchange.handedOver) {
        settlement.close();
        return;
      }
      exchange.settlement = settlement;
      run(settlement);
    })
    .catch((thrown: unknown) => refuse(exchange, { settings }, thrown));
}

/** A held payment. Its price is fixed, unless less was delivered: then the rest becomes credit of the payer. */
export class PaymentSettlement implements Settlement, Approval {
  readonly kind = 'payment';
  /** Pico-USD that were taken and earned. */
  cost = 0;
  /** Tokens are not counted: the price was that of an estimate. */
  readonly promptTokens = 0;
  readonly cachedTokens = 0;
  readonly completionTokens = 0;
  readonly measured = false;
  /** Pico-USD that are earned with the answer: the price, or less. */
  dueCost: number;
  readonly #price: number;
  readonly #exchange: Exchange;
  readonly #payments: Payments;
  readonly #settings: ErrorSettings;
  readonly #ticket: string;
  /** `ended`: delivered, given back, or not paid. */
  #state: 'held' | 'settling' | 'settled' | 'ended' = 'held';
  #closed = false;

  constructor(
    exchange: Exchange,
    { paymentProcessor, settings }: PaymentDeps,
    ticket: string,
    { price }: Pick<Quote, 'price'>,
  ) {
    this.#price = Number(price);
    this.dueCost = this.#price;
    this.#exchange = exchange;
    this.#payments = paymentProcessor;
    this.#settings = settings;
    this.#ticket = ticket;
  }

  add(): void {}

  /** Says what the answer costs, if it is less than the price. Before `deliver`. */
  lower(cost: number): void {
    this.dueCost = Math.min(cost, this.#price);
  }

  /**
   * Takes the money; to be called once, when a good answer has begun and nothing of it has been sent. Resolves with the
   * receipt headers, or with null when the client was answered instead or has left. Rejects only for defects.
   */
  async approve(): Promise<readonly string[] | null> {
    if (this.#closed) return null;
    this.#state = 'settling';
    const answer = await this.#payments.settle(this.#ticket).catch((thrown: unknown) => {
      this.#state = 'ended';
      throw thrown;
    });
    if (answer.kind !== 'paid') {
      this.#state = 'ended';
      respondUnpaid(this.#exchange, this.#settings, answer);
      return null;
    }
    this.#state = 'settled';
    if (!this.#closed) return answer.headers;
    this.#giveBack();
    return null;
  }

  /** Useful output has been handed over: the money is earned. */
  delivered(): void {
    if (this.#state !== 'settled') return;
    this.#state = 'ended';
    this.cost = this.dueCost;
    this.#payments.deliver(this.#ticket, this.dueCost < this.#price ? BigInt(this.dueCost) : null);
  }

  /** Takes the money for a whole answer, then calls `respond` with the receipt headers, unless the client has left. */
  deliver(respond: (receipts: readonly string[]) => void): void {
    this.approve()
      .then((receipts) => {
        if (receipts === null || this.#exchange.handedOver) return;
        // First: the exchange may be over when `respond` returns.
        this.delivered();
        respond(receipts);
      })
      .catch((thrown: unknown) => refuse(this.#exchange, { settings: this.#settings }, thrown));
  }

  /** Unless useful output was delivered, a held payment is free again and a settled one becomes credit. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#state === 'held' || this.#state === 'settled') this.#giveBack();
  }

  #giveBack(): void {
    this.#state = 'ended';
    this.#payments.cancel(this.#ticket);
  }
}

/** The signed payment of a request, whichever version of x402 named the header. */
export function presentedPayment(exchange: Exchange): string | undefined {
  return exchange.header('payment-signature') ?? exchange.header('x-payment');
}

/** The URL of a request as the client wrote it, without the query. */
export function resourceOf(exchange: Exchange, publicScheme: string): string {
  return `${publicScheme}://${exchange.header('host') ?? 'localhost'}${exchange.path}`;
}

/** Answers 402 with the offer of both x402 versions, or with the error. */
export function respondUnpaid(exchange: Exchange, settings: ErrorSettings, answer: Offered | Refused): void {
  if (answer.kind === 'refused') {
    const { code, retryAfterS, subject } = answer;
    const headers = retryAfterS === undefined ? [] : ['retry-after', String(retryAfterS)];
    refuse(exchange, { settings }, new HeadraceError(code, { subject, headers }));
    return;
  }
  const { document, headers } = answer.offer;
  const error = new HeadraceError('HR_PAYMENT_REQUIRED', { subject: document.error, headers: [...headers] });
  respondError(exchange, error, () => document);
}

/** Ledger usage of a call that is not counted in tokens. */
export function unmeteredUsage(model: string): Quote['usage'] {
  return { key: null, model, inputTokens: 0, cachedTokens: 0, outputTokens: 0, measured: true };
}

/** Identifies a request: a payment serves one request and its repeats only. */
export function requestDigest({ method, path, query }: Exchange, body: Uint8Array): string {
  return createHash('sha256').update(`${method} ${path}?${query}\n`).update(body).digest('hex');
}
