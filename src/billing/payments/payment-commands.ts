// What the payment processor is asked and answers, which every thread knows.

import type { Ref } from '../../actor/index.ts';
import type { ErrorCode } from '../../errors.ts';
import type { Pico, Usage } from '../ledger/ledger.ts';
import type { Offer } from './offer.ts';
import type { RecoveryRound } from './settlement.ts';

/** For a `HeadraceError`. */
export interface Refused {
  readonly kind: 'refused';
  readonly code: ErrorCode;
  readonly subject: string;
  /** When a repeat may help; absent: at once. */
  readonly retryAfterS?: number;
}

export interface Offered {
  readonly kind: 'offer';
  readonly offer: Offer;
}

export interface PurchaseRequest {
  /** An EVM address, or the id of an account. */
  readonly address: string;
  /** USD. Rounded to six digits. */
  readonly amount: number;
  /** URL of the request. */
  readonly resource: string;
  /** The payment header, if any. */
  readonly payment: string | undefined;
}

/** The body of the answer to a paid purchase. */
export interface Purchased {
  readonly status: 'success';
  readonly credits_transferred: number;
  readonly recipient: string;
  /** The transaction of the chain. */
  readonly item_hash: string;
}

export type PurchaseAnswer =
  | Offered
  | Refused
  | { readonly kind: 'sold'; readonly body: Purchased; readonly headers: readonly string[] };

export interface CallRequest {
  readonly price: Pico;
  readonly resource: string;
  /** One sentence, shown by wallets. */
  readonly description: string;
  /** Digest of method, path and body: a payment serves one request. */
  readonly digest: string;
  /** Recorded with the payment, which settles before the real usage is known. */
  readonly usage: Usage;
  readonly payment: string | undefined;
}

/** `ticket` names the paid request: `Settle` and then `Deliver`, or `Cancel`, must follow. */
export type BeginAnswer = Offered | Refused | { readonly kind: 'ticket'; readonly ticket: string };

/** `paid`: receipt headers for the answer. Anything else is the answer instead. */
export type SettleAnswer = Offered | Refused | { readonly kind: 'paid'; readonly headers: readonly string[] };

export type PaymentCommand =
  | { readonly type: 'Purchase'; readonly request: PurchaseRequest; readonly replyTo: Ref<PurchaseAnswer> }
  | {
      readonly type: 'Begin';
      /** Names the question, for `Leave`; unique among the threads. */
      readonly call: string;
      /** Lives as long as the thread that asks. */
      readonly owner: Ref<never>;
      readonly request: CallRequest;
      readonly replyTo: Ref<BeginAnswer>;
    }
  /** The answer to a `Begin` is not wanted any more. */
  | { readonly type: 'Leave'; readonly call: string }
  /** Takes the money: with the first useful event of the answer, and before it is sent on. */
  | { readonly type: 'Settle'; readonly ticket: string; readonly replyTo: Ref<SettleAnswer> }
  /**
   * Useful output of a request whose `Settle` was answered with `paid` has been handed over: the money is earned. `amount`: part of it
   * is; null: the price. The rest becomes credit of the payer.
   */
  | { readonly type: 'Deliver'; readonly ticket: string; readonly amount: Pico | null }
  /**
   * Nothing comes of the request. What it has paid becomes credit of the payer, and the same request with the same payment is served
   * from it, once.
   */
  | { readonly type: 'Cancel'; readonly ticket: string }
  | { readonly type: 'Expired'; readonly ticket: string }
  /** One recovery round; further ones follow regularly. Answered with null when the ledger could not be read. */
  | { readonly type: 'Recover'; readonly replyTo: Ref<RecoveryRound | null> | null }
  /** Answered once nothing is under way. No further recovery round starts by itself. */
  | { readonly type: 'Drain'; readonly replyTo: Ref<null> };

export function refused(code: ErrorCode, subject = '', retryAfterS?: number): Refused {
  return { kind: 'refused', code, subject, ...(retryAfterS !== undefined && { retryAfterS }) };
}

/** Where a payment was sent along, money may have moved. */
export function unknownOutcome(payment: string | undefined): ErrorCode {
  return payment === undefined ? 'HR_PAYMENT_UNAVAILABLE' : 'HR_PAYMENT_PENDING';
}
