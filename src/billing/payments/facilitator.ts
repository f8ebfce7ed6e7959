// Client of an x402 facilitator, which checks payments against the chain (`/verify`) and moves the money (`/settle`). `/verify`
// changes nothing and is asked twice at most. `/settle` is asked again here only when nothing was sent. An answer counts as a
// refusal only if it proves that no transaction was broadcast; everything else is an unknown outcome.

import type { Clock } from '../../actor/index.ts';
import { BufferedClient, type BufferedResponse } from '../../net/buffered-client.ts';
import { DispatchError, type DispatchFault } from '../../net/client.ts';
import { membersOf, parsedJson } from '../../net/json-object.ts';

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

/**
 * `nonce`: what the refusal says about it; `used` by this payment or another one. `unavailable`: no answer, or none that is valid.
 */
export type Verified =
  | { readonly kind: 'valid' }
  | { readonly kind: 'invalid'; readonly reason: string; readonly nonce: 'used' | 'unused' | 'unknown' }
  | { readonly kind: 'unavailable' };

/**
 * `refused`: this request has broadcast nothing. `unsent`: the facilitator has not taken the request. `unknown`: money may have
 * moved, by `transaction` if the facilitator named one.
 */
export type Settled =
  | { readonly kind: 'settled'; readonly transaction: string }
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unsent' }
  | { readonly kind: 'unknown'; readonly transaction: string | null };

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
 * Reasons that are found before anything is broadcast, of the x402 specification and of the reference facilitator. Not among them:
 * `invalid_exact_evm_transaction_failed`, which also stands for a broadcast whose answer was lost;
 * `invalid_exact_evm_nonce_already_used` and `invalid_transaction_state`, since this very payment may have used the nonce;
 * `settlement_pending` and `invalid_exact_evm_transfer_event_mismatch`, which follow a broadcast; and texts of errors, which
 * version 1 of the reference facilitator sends in place of a reason.
 */
const CERTAIN: ReadonlySet<string> = new Set([
  'asset_not_deployed_contract',
  'eip6492_factory_not_allowed',
  'insufficient_funds',
  'invalid_exact_evm_authorization_value',
  'invalid_exact_evm_eip3009_not_supported',
  'invalid_exact_evm_failed_to_parse_signature',
  'invalid_exact_evm_insufficient_balance',
  'invalid_exact_evm_missing_eip712_domain',
  'invalid_exact_evm_network_mismatch',
  'invalid_exact_evm_payload_authorization_valid_after',
  'invalid_exact_evm_payload_authorization_valid_before',
  'invalid_exact_evm_payload_authorization_value',
  'invalid_exact_evm_payload_authorization_value_mismatch',
  'invalid_exact_evm_payload_recipient_mismatch',
  'invalid_exact_evm_payload_signature',
  'invalid_exact_evm_recipient_mismatch',
  'invalid_exact_evm_scheme',
  'invalid_exact_evm_signature',
  'invalid_exact_evm_token_name_mismatch',
  'invalid_exact_evm_token_version_mismatch',
  'invalid_network',
  'invalid_payload',
  'invalid_payment_requirements',
  'invalid_scheme',
  'invalid_x402_version',
  'unsupported_payload_type',
  'unsupported_scheme',
]);

/** Reasons of a verification that say that the nonce is used. */
const USED: ReadonlySet<string> = new Set(['invalid_exact_evm_nonce_already_used', 'invalid_transaction_state']);

/** The reference facilitator says so after it has found the nonce unused; for `insufficient_funds` the order is not known. */
const UNUSED = 'invalid_exact_evm_insufficient_balance';

/** Statuses with which a facilitator, or a proxy before it, declines a request without reading it (RFC 9110). */
const DECLINED: ReadonlySet<number> = new Set([401, 403, 429]);

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
      if (valid === false) {
        const reason = reasonOf(answer?.fields['invalidReason']);
        const nonce = USED.has(reason) ? 'used' : reason === UNUSED ? 'unused' : 'unknown';
        return { kind: 'invalid', reason, nonce };
      }
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
        if (error.sent) return { kind: 'unknown', transaction: null };
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

/** An answer without fields counts as invalid. */
function parse({ body, status }: BufferedResponse): Answer {
  return { status, fields: membersOf(parsedJson(body.toString())) };
}

function judge({ fields, status }: Answer): Settled {
  const { success } = fields;
  const named = fields['transaction'];
  const transaction = typeof named === 'string' && named !== '' ? named.slice(0, MAX_TRANSACTION_LENGTH) : null;
  if (success === true && status < 300 && transaction !== null) return { kind: 'settled', transaction };
  if (success === undefined && DECLINED.has(status)) return { kind: 'unsent' };
  const reason = reasonOf(fields['errorReason']);
  const isCertain = success === false && transaction === null && CERTAIN.has(reason);
  return isCertain ? { kind: 'refused', reason } : { kind: 'unknown', transaction };
}

/** A reason is passed on to clients and into headers: only word characters. */
function reasonOf(value: unknown): string {
  return typeof value === 'string' && value.length <= MAX_REASON_LENGTH && REASON.test(value)
    ? value
    : 'payment_refused';
}
