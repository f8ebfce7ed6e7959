// How answers of the cashier reach a client: 402 with the offer of both x402 versions, errors of the table, and the
// header that carries a payment. Called by the endpoints that take payments.

import type { Offer } from '../billing/index.ts';
import { type ErrorCode, HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondError } from '../ingress/respond.ts';

/** The signed payment of a request, whichever version of x402 named the header. */
export function presentedPayment(exchange: Exchange): string | undefined {
  return exchange.header('payment-signature') ?? exchange.header('x-payment');
}

/** Where the request was sent, as the client wrote it. */
export function resourceOf(exchange: Exchange, publicScheme: string): string {
  return `${publicScheme}://${exchange.header('host') ?? 'localhost'}${exchange.path}`;
}

/** Answers instead of the work: 402 with an offer, or the error. */
export function respondUnpaid(
  exchange: Exchange,
  answer:
    | { readonly kind: 'offer'; readonly offer: Offer }
    | { readonly kind: 'refused'; readonly code: ErrorCode; readonly subject: string },
): void {
  if (answer.kind === 'refused') {
    respondError(exchange, new HeadraceError(answer.code, { subject: answer.subject }));
    return;
  }
  const { document, headers } = answer.offer;
  const error = new HeadraceError('HR_PAYMENT_REQUIRED', { subject: document.error, headers: [...headers] });
  respondError(exchange, error, () => document);
}
