// Memory of stored responses that clients have not read yet. Whoever has stored a response of some megabytes may ask for it again and again,
// free of charge, and read nothing: each of these answers waits in memory. It is counted with request bodies, of which it takes half at most,
// and an account has a part of that.

import { HeadraceError } from '../errors.ts';
import type { BodyBudget } from '../ingress/body.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { JSON_HEADERS } from '../ingress/respond.ts';

/** Answers from this size count; a smaller one mostly fits into the socket's own memory. */
const COUNTED_BYTES = 64 * 1024;

/** Part of all memory for bodies that the answers of one account take in this thread; one answer may be larger. */
const ACCOUNT_SHARE = 1 / 16;

export class UnreadResponses {
  readonly #budget: BodyBudget;
  /** By account. */
  readonly #bytes = new Map<string, number>();

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /** Answers with JSON and counts it until the exchange is over. Throws 503 when there is not so much memory left. */
  respond(exchange: Exchange, body: Buffer): void {
    if (body.byteLength >= COUNTED_BYTES && !exchange.handedOver) this.#hold(exchange, body.byteLength);
    exchange.respond(200, JSON_HEADERS, body);
  }

  #hold(exchange: Exchange, bytes: number): void {
    const { account } = exchange;
    const held = this.#bytes.get(account) ?? 0;
    const fits = held === 0 || held + bytes <= this.#budget.limitBytes * ACCOUNT_SHARE;
    if (!fits || !this.#budget.takeSpare(bytes)) {
      throw new HeadraceError('HR_OVERLOADED', { subject: 'memory for responses' });
    }
    this.#bytes.set(account, held + bytes);
    exchange.listener = {
      onWritable: () => undefined,
      onCut: () => undefined,
      onEnded: () => this.#free(account, bytes),
    };
  }

  #free(account: string, bytes: number): void {
    this.#budget.give(bytes, false);
    const left = (this.#bytes.get(account) ?? 0) - bytes;
    if (left > 0) this.#bytes.set(account, left);
    else this.#bytes.delete(account);
  }
}
