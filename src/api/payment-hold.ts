// The toll of a priced request without a key: its payment is judged and reserved before any work, taken when the work has
// begun well, and given up or given back when nothing comes of it. Called by the endpoints that can be paid for.

import { createHash } from 'node:crypto';
import {
  type CallRequest,
  type CallSize,
  type Payments,
  picoPerCall,
  quoteCall,
  type ModelPrice,
} from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Settings } from '../config/settings.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError } from '../ingress/respond.ts';
import type { Approval } from '../upstream/index.ts';
import { presentedPayment, resourceOf, respondUnpaid } from './payment.ts';

/** What is asked for a request: a `CallRequest` without what the exchange knows. */
export type Charge = Pick<CallRequest, 'price' | 'description' | 'usage' | 'digest'>;

export interface PaymentHoldDeps {
  readonly paymentProcessor: Payments;
  readonly settings: { readonly publicScheme: string };
}

/**
 * Asks for the payment of a request whose body has been read. `serve` is called with the toll once the payment is
 * reserved; everything else (402 with the offer, an error) is answered here. What `serve` throws is answered too. It
 * must see to it that the toll ends in `approve` or `withdraw`; until then it has the callbacks of the exchange.
 */
export function requirePayment(
  exchange: Exchange,
  deps: PaymentHoldDeps,
  charge: Charge,
  serve: (paymentHold: PaymentHold) => void,
): void {
  const { paymentProcessor, settings } = deps;
  const resource = resourceOf(exchange, settings.publicScheme);
  paymentProcessor.begin({ ...charge, resource, payment: presentedPayment(exchange) }).then(
    (answer) => {
      if (answer.kind !== 'ticket') {
        respondUnpaid(exchange, answer);
        return;
      }
      const paymentHold = new PaymentHold(exchange, paymentProcessor, answer.ticket);
      if (exchange.finished) {
        paymentHold.withdraw();
        return;
      }
      try {
        serve(paymentHold);
      } catch (thrown) {
        paymentHold.withdraw();
        respondError(exchange, thrown);
      }
    },
    (thrown: unknown) => respondError(exchange, thrown),
  );
}

/** A reserved payment. An `Approval`, for requests that are proxied. */
export class PaymentHold implements Approval {
  readonly #exchange: Exchange;
  readonly #service: Payments;
  readonly #ticket: string;
  #state: 'reserved' | 'settling' | 'paid' | 'over' = 'reserved';
  #withdrawn = false;

  constructor(exchange: Exchange, service: Payments, ticket: string) {
    this.#exchange = exchange;
    this.#service = service;
    this.#ticket = ticket;
  }

  /**
   * Takes the money; to be called once, when the work has succeeded and nothing has been sent. Resolves with the receipt
   * headers, or with null when the client was answered instead. Never rejects for a payment's sake.
   */
  async approve(): Promise<readonly string[] | null> {
    if (this.#withdrawn) return null;
    this.#state = 'settling';
    const answer = await this.#service.settle(this.#ticket).catch((thrown: unknown) => {
      this.#state = 'over';
      throw thrown;
    });
    this.#state = answer.kind === 'paid' ? 'paid' : 'over';
    if (answer.kind === 'paid') {
      if (this.#withdrawn) this.#giveBack();
      return answer.headers;
    }
    respondUnpaid(this.#exchange, answer);
    return null;
  }

  /** Nothing was delivered: what was reserved is free again, what was paid becomes credit. May be called more than once. */
  withdraw(): void {
    if (this.#withdrawn) return;
    this.#withdrawn = true;
    if (this.#state === 'reserved') this.#quietly(this.#service.cancel(this.#ticket));
    else if (this.#state === 'paid') this.#giveBack();
  }

  /**
   * Ends a request whose whole answer is there: settles, then calls `respond` with the receipt headers. A client that
   * has left meanwhile gets its money back.
   */
  deliver(respond: (receipts: readonly string[]) => void): void {
    this.approve()
      .then((receipts) => {
        if (receipts === null) return;
        if (this.#exchange.finished) this.withdraw();
        else respond(receipts);
      })
      .catch((thrown: unknown) => respondError(this.#exchange, thrown));
  }

  #giveBack(): void {
    this.#quietly(this.#service.refund(this.#ticket));
  }

  /** Nobody waits for it; the cashier's own records bring a lost one to its end. */
  #quietly(work: Promise<void>): void {
    work.catch(() => undefined);
  }
}

/** Price of an answer in tokens, in pico-USD: that of the longest one allowed, since it cannot be corrected later. */
export function tokenPrice(
  { assumedTokens, minimum }: Settings['payments'],
  { completion, prompt }: ModelPrice,
  size: CallSize,
  contextTokens: number | undefined,
): bigint {
  const prices = { prompt: BigInt(prompt), completion: BigInt(completion) };
  return quoteCall(size, prices, { defaultTokens: assumedTokens, contextTokens, floor: BigInt(picoPerCall(minimum)) });
}

/** What the ledger writes down for a call that is not counted in tokens. */
export function unmetered(model: string): Charge['usage'] {
  return { key: null, model, inputTokens: 0, cachedTokens: 0, outputTokens: 0, measured: true };
}

/** Sees to it that work which ends early gives its payment up: the client leaves, or the gateway ends. */
export function withdrawn(exchange: Exchange, paymentHold: PaymentHold, pending: { abort(): void }): void {
  const leave = (): void => {
    pending.abort();
    paymentHold.withdraw();
  };
  const cut = (): void => {
    leave();
    respondError(exchange, new HeadraceError('HR_DRAINING'));
  };
  exchange.onAbort = leave;
  exchange.onCut = cut;
}

/** Headers for the CRN of a paid request: what pays for it is nobody else's business. */
export function withoutPayment(headers: readonly string[]): string[] {
  const out: string[] = [];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    if (name !== 'x-payment' && name !== 'payment-signature') out.push(name, headers[i + 1] as string);
  }
  return out;
}

/** Tells requests apart: a payment serves one request and its repeats only. */
export function requestDigest({ method, path, query }: Exchange, body: Uint8Array): string {
  return createHash('sha256').update(`${method} ${path}?${query}\n`).update(body).digest('hex');
}
