// What a request with a key costs, from the hold before the work to the charge after it. Endpoints open a bill once a
// request is known to be valid; the data plane closes it when the exchange is over, however that came about. Without a
// ledger there are no bills.

import type {
  Exceeded,
  GoodCredential,
  KeyLimiter,
  LeaseCache,
  Reserved,
  Spending,
  ModelPrice,
} from '../billing/index.ts';
import { usdText } from '../billing/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';

/** What endpoints need to charge; part of a data plane. */
export interface Billing {
  readonly leases: LeaseCache;
  readonly limits: KeyLimiter;
  /** Prices by configured model id; what is not in here is free. */
  readonly modelPrices: ReadonlyMap<string, ModelPrice>;
  /** Pico-USD for a successful call, by engine id. */
  readonly enginePrices: ReadonlyMap<string, number>;
  /** Pico-USD for a page. */
  readonly pagePrice: number;
  /** Tokens of an answer without a limit. */
  readonly assumedTokens: number;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
}

/** What a finished exchange came to; nothing when nothing was delivered. */
export type Account = () => readonly Spending[];

/** Of what is not counted in tokens. */
export const NO_TOKENS: Pick<Spending, 'cachedTokens' | 'completionTokens' | 'measured' | 'promptTokens'> = {
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens: 0,
  measured: true,
};

/** One request that may cost something. */
class Bill {
  readonly #billing: Billing;
  readonly #payer: GoodCredential;
  readonly #reserved: number;
  #account: Account | null;

  /** @param account called once, when the exchange is over: what was delivered, none for nothing */
  constructor(billing: Billing, payer: GoodCredential, reserved: number, account: Account) {
    this.#billing = billing;
    this.#payer = payer;
    this.#reserved = reserved;
    this.#account = account;
  }

  /** Charges what the account says and gives the rest of the hold back. Further calls do nothing. */
  close(): void {
    const account = this.#account;
    if (account === null) return;
    this.#account = null;
    const { epochMs, limits, leases } = this.#billing;
    const { allowance } = this.#payer;
    const spendings = account();
    if (spendings.length === 0) leases.cancel(this.#payer, this.#reserved);
    for (const [at, spending] of spendings.entries()) {
      leases.settle(this.#payer, at === 0 ? this.#reserved : 0, spending);
      if (allowance === null) continue;
      const tokens = spending.promptTokens + spending.completionTokens;
      limits.settle(allowance, tokens, spending.cost, epochMs());
    }
  }
}

/** Counts a request of this key. Throws 429 or 402 when a limit of the key forbids it. */
export function checkLimits({ epochMs, limits }: Billing, { allowance }: GoodCredential): void {
  const exceeded = allowance === null ? null : limits.admit(allowance, epochMs());
  if (exceeded !== null) throw limitError(exceeded);
}

/**
 * Holds `most` pico-USD, then calls `run` with the bill; `refuse` with 402 when the credit does not reach, with 503 when
 * nobody can say. Neither is called when the client leaves meanwhile. Mostly `run` comes before this returns; what it
 * throws later is given to `refuse`.
 */
export function openBill(
  exchange: Exchange,
  billing: Billing,
  payer: GoodCredential,
  most: number,
  account: Account,
  run: () => void,
  refuse: (error: unknown) => void,
): void {
  const open = (): void => {
    exchange.bill = new Bill(billing, payer, most, account);
    run();
  };
  if (most === 0 || billing.leases.reserve(payer, most)) {
    open();
    return;
  }
  billing.leases.fund(payer, most, (reserved) => {
    if (reserved.kind !== 'reserved') {
      if (!exchange.finished) refuse(creditError(reserved, most));
    } else if (exchange.finished) {
      billing.leases.cancel(payer, most);
    } else {
      try {
        open();
      } catch (thrown) {
        // Others wait for the same credit, and would not hear of it.
        refuse(thrown);
      }
    }
  });
}

function creditError(reserved: Exclude<Reserved, { kind: 'reserved' }>, most: number): HeadraceError {
  if (reserved.kind === 'away') return new HeadraceError('HR_CREDIT_UNKNOWN', { headers: ['retry-after', '2'] });
  const subject = `${usdText(most)} USD, ${usdText(Math.max(reserved.balance, 0))} USD are left`;
  return new HeadraceError('HR_CREDIT_SHORT', { subject });
}

function limitError(exceeded: Exceeded): HeadraceError {
  if (exceeded.kind === 'spend') {
    return new HeadraceError('HR_KEY_SPENT', { subject: `${usdText(exceeded.limit)} USD` });
  }
  const headers = ['retry-after', String(exceeded.retryAfterS)];
  return new HeadraceError('HR_KEY_RATE', { subject: `${exceeded.limit} ${exceeded.kind}`, headers });
}
