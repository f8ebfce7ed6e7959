// Client of an x402 facilitator, which checks payments against the chain (`/verify`) and moves the money (`/settle`). `/verify`
// changes nothing and is asked twice at most. `/settle` is asked again only when nothing was sent: the outcome of a lost
// answer is left to the recovery (`settlement.ts`).

import type { Clock } from '../../actor/index.ts';
import { BufferedClient, type BufferedResponse } from '../../net/buffered-client.ts';
import { DispatchError, type DispatchFault } from '../../net/client.ts';

export interface FacilitatorSettings {
  /** Base URL; `/verify` and `/settle` are added. */
  readonly url: string;
  /** For both calls, such as credentials. Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** For each request. Default 10,000 ms. */
  readonly verifyTimeoutMs?: number;
  /** For each request: a chain takes seconds. Default 30,000 ms. */
  readonly settleTimeoutMs?: number;
}

/** `unavailable`: no answer, or none that is valid. */
export type Verified =
  { readonly kind: 'valid' } | { readonly kind: 'invalid'; readonly reason: string } | { readonly kind: 'unavailable' };

/**
 * `refused`: no money has moved and none will. `unsent`: the facilitator was not reached. `unknown`: money may have
 * moved.
 */
export type Settled =
  | { readonly kind: 'settled'; readonly transaction: string }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unsent' }
  | { readonly kind: 'unknown' };

const VERIFY_TIMEOUT_MS = 10_000;
const SETTLE_TIMEOUT_MS = 30_000;
const RETRY_DELAY_MS = 250;
const MAX_ANSWER_BYTES = 64 * 1024;
const MAX_REASON_LENGTH = 100;
const CONNECTIONS = 32;

/** Faults of a request that was not sent. */
const UNSENT: ReadonlySet<string> = new Set<DispatchFault>(['unsendable', 'no connection free', 'connect']);

/** Of a transaction's name: more is cut off, since it goes on into headers. */
const MAX_TRANSACTION_LENGTH = 256;

/**
 * Reasons that are found before anything is sent to the chain. All others leave it open: a nonce may have been used by
 * this very payment, and a transaction may still be mined after a timeout.
 */
const CERTAIN = /^(?:insufficient_funds|unsupported_scheme|invalid_(?!transaction_state)(?!.*nonce)\w+)$/;

const REASON = /^[\w.:-]+$/;

type Answer = { readonly status: number; readonly fields: Readonly<Record<string, unknown>> };

/** No answer: `sent` tells whether the request can have reached the facilitator. */
class NoAnswer extends Error {
  readonly sent: boolean;

  constructor(sent: boolean, cause: unknown) {
    super('The facilitator has not answered', { cause });
    this.sent = sent;
  }
}

export class Facilitator {
  readonly #settings: FacilitatorSettings;
  readonly #clock: Clock;
  readonly #client = new BufferedClient(CONNECTIONS);

  constructor(settings: FacilitatorSettings, clock: Clock) {
    this.#settings = settings;
    this.#clock = clock;
  }

  async verify(body: string): Promise<Verified> {
    const { verifyTimeoutMs = VERIFY_TIMEOUT_MS } = this.#settings;
    for (let left = 1; ; left--) {
      const answer = await this.#ask(this.#client, '/verify', body, verifyTimeoutMs).catch(() => undefined);
      const valid = answer?.fields['isValid'];
      if (valid === true && answer?.status === 200) return { kind: 'valid' };
      if (valid === false) return { kind: 'invalid', reason: reasonOf(answer?.fields['invalidReason']) };
      if (left === 0) return { kind: 'unavailable' };
      await this.#pause();
    }
  }

  async settle(body: string): Promise<Settled> {
    for (let left = 1; ; left--) {
      try {
        return judge(await this.#settleOnce(body));
      } catch (error) {
        if (!(error instanceof NoAnswer)) throw error;
        if (error.sent) return { kind: 'unknown' };
        if (left === 0) return { kind: 'unsent' };
        await this.#pause();
      }
    }
  }

  close(): void {
    this.#client.close();
  }

  async #settleOnce(body: string): Promise<Answer> {
    // A connection of its own: on a kept one the client may send a request twice.
    const client = new BufferedClient(1);
    try {
      return await this.#ask(client, '/settle', body, this.#settings.settleTimeoutMs ?? SETTLE_TIMEOUT_MS);
    } finally {
      client.close();
    }
  }

  async #ask(client: BufferedClient, path: string, body: string, timeoutMs: number): Promise<Answer> {
    const { headers, url } = this.#settings;
    const abort = new AbortController();
    const timer = this.#clock.setTimeout(() => abort.abort(new Error('timeout')), timeoutMs);
    const request = {
      method: 'POST',
      url: url.replace(/\/+$/, '') + path,
      headers: { accept: 'application/json', 'user-agent': 'headrace', ...headers, 'content-type': 'application/json' },
      body,
    } as const;
    try {
      return parse(await client.send(request, abort.signal, MAX_ANSWER_BYTES));
    } catch (error) {
      throw new NoAnswer(isSent(error), error);
    } finally {
      this.#clock.clearTimeout(timer);
    }
  }

  #pause(): Promise<void> {
    return new Promise((resolve) => void this.#clock.setTimeout(resolve, RETRY_DELAY_MS));
  }
}

function isSent(error: unknown): boolean {
  return !(error instanceof DispatchError && UNSENT.has(error.fault));
}

function parse({ body, status }: BufferedResponse): Answer {
  let value: unknown = null;
  try {
    value = JSON.parse(body.toString());
  } catch {
    // The answer has no fields; the caller treats it as invalid.
  }
  return { status, fields: typeof value === 'object' && value !== null ? (value as Answer['fields']) : {} };
}

function judge({ fields, status }: Answer): Settled {
  const { success, transaction } = fields;
  if (success === true && status < 300 && typeof transaction === 'string') {
    return { kind: 'settled', transaction: transaction.slice(0, MAX_TRANSACTION_LENGTH) };
  }
  const reason = reasonOf(fields['errorReason']);
  return success === false && CERTAIN.test(reason) ? { kind: 'refused', reason } : { kind: 'unknown' };
}

/** A reason is passed on to clients and into headers: only word characters. */
function reasonOf(value: unknown): string {
  return typeof value === 'string' && value.length <= MAX_REASON_LENGTH && REASON.test(value)
    ? value
    : 'payment_refused';
}
