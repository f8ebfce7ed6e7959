// An x402 facilitator for tests, with a token of its own: it keeps balances, checks real signatures over HTTP and accepts a nonce
// once. A test can make it fail before or after the money has moved.

import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestChain } from './chain.ts';
import { type Authorization, SEPOLIA_USDC, signerOf } from './payer.ts';

/**
 * What goes wrong with one request. Nothing happens: `lost`, broken off; `rejected`, a transaction that is said to have failed.
 * The money has moved: `cut`, broken off; `silent`, no answer at all; `error`, 500; `garbled`, no JSON; `failed`, a transaction that is
 * said to have failed. `pending`: the transaction waits, and is named, until `mine` is called.
 */
export type Fault =
  | 'lost'
  | 'rejected'
  | 'cut'
  | 'silent'
  | 'error'
  | 'garbled'
  | 'failed'
  | 'pending'
  | Promise<unknown>;

export interface Transfer {
  readonly from: string;
  readonly to: string;
  readonly value: bigint;
  readonly nonce: string;
  readonly transaction: string;
}

export interface FacilitatorOptions {
  /** Seconds since 1970. */
  readonly nowS: () => number;
  /** Whether a repeat of a settled authorization is told of its success or refused as a used nonce. Default `answered`. */
  readonly repeats?: 'answered' | 'refused';
  /** Where transfers are mined too. */
  readonly chain?: TestChain;
  /** Called before the money of an authorization moves, and before the answer leaves. */
  readonly onSettle?: (moment: 'before' | 'after', authorization: Authorization) => void;
}

interface Request {
  readonly paymentPayload: {
    readonly network?: string;
    readonly accepted?: { readonly network: string };
    readonly payload: { readonly signature: string; readonly authorization: Authorization };
  };
  readonly paymentRequirements: {
    readonly payTo: string;
    readonly amount?: string;
    readonly maxAmountRequired?: string;
    readonly network: string;
    readonly asset: string;
  };
}

/** What the reference facilitator says of a nonce that is used, and of a broadcast that it knows nothing of. */
const USED = 'invalid_exact_evm_nonce_already_used';
const FAILED = { success: false, errorReason: 'invalid_exact_evm_transaction_failed', transaction: '' };

/** A transaction is named after what it moves: each authorization has one. */
function hashOf({ from, nonce }: Authorization): string {
  return `0x${createHash('sha256').update(`${from}${nonce}`.toLowerCase()).digest('hex')}`;
}

const NETWORKS = ['base-sepolia', 'eip155:84532'];

export class TestFacilitator {
  url = '';
  readonly transfers: Transfer[] = [];
  readonly requests: string[] = [];
  /** Faults of the next requests to a path, first come first served. */
  readonly faults: { readonly path: '/verify' | '/settle'; readonly fault: Fault }[] = [];
  readonly #options: FacilitatorOptions;
  readonly #waiting: Authorization[] = [];
  readonly #balances = new Map<string, bigint>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  constructor(options: FacilitatorOptions) {
    this.#options = options;
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  fund(address: string, units: bigint): void {
    this.#balances.set(address.toLowerCase(), this.balance(address) + units);
  }

  balance(address: string): bigint {
    return this.#balances.get(address.toLowerCase()) ?? 0n;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    this.requests.push(path);
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const at = this.faults.findIndex((entry) => entry.path === path);
    const fault = at === -1 ? undefined : this.faults.splice(at, 1)[0]?.fault;
    if (fault instanceof Promise) await fault;
    if (fault === 'lost') {
      request.socket.destroy();
      return;
    }
    const body = JSON.parse(Buffer.concat(pieces).toString()) as Request;
    if (fault === 'rejected' || fault === 'pending') {
      response.end(JSON.stringify(this.#refuse(body, fault)));
      return;
    }
    const answer = this.#answer(path, body);
    if (fault === 'silent') return;
    if (fault === 'cut') request.socket.destroy();
    else if (fault === 'error') response.writeHead(500).end('{"error":"internal"}');
    else if (fault === 'failed') response.end(JSON.stringify({ ...answer, ...FAILED }));
    else if (fault === 'garbled') response.writeHead(200).end('<html>');
    else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }

  /** Mines the transactions that wait. */
  mine(): void {
    for (const authorization of this.#waiting.splice(0)) {
      if (this.#transferOf(authorization) === undefined) this.#move(authorization);
    }
  }

  #refuse({ paymentPayload }: Request, fault: 'rejected' | 'pending'): object {
    if (fault === 'rejected') return FAILED;
    const { authorization } = paymentPayload.payload;
    this.#waiting.push(authorization);
    return { success: false, errorReason: 'settlement_pending', transaction: hashOf(authorization) };
  }

  #answer(path: string, request: Request): object {
    const { authorization } = request.paymentPayload.payload;
    const base = { network: request.paymentRequirements.network, payer: authorization.from };
    if (path === '/verify') {
      // As the reference facilitator: the terms, then the state of the nonce, then the funds.
      const reason =
        this.#against(request) ?? (this.#isUsed(authorization) ? USED : undefined) ?? this.#unfunded(request);
      return reason === undefined ? { isValid: true, ...base } : { isValid: false, invalidReason: reason, ...base };
    }
    const known = this.#transferOf(authorization);
    if (known !== undefined) {
      return this.#options.repeats === 'refused'
        ? { success: false, errorReason: USED, transaction: '', ...base }
        : { success: true, transaction: known.transaction, ...base };
    }
    const used = this.#isUsed(authorization) ? USED : undefined;
    const reason = this.#against(request) ?? used ?? this.#unfunded(request);
    if (reason !== undefined) return { success: false, errorReason: reason, transaction: '', ...base };
    this.#options.onSettle?.('before', authorization);
    const transaction = this.#move(authorization);
    this.#options.onSettle?.('after', authorization);
    return { success: true, transaction, ...base };
  }

  #against({ paymentPayload, paymentRequirements }: Request): string | undefined {
    const { payTo, network } = paymentRequirements;
    const { authorization, signature } = paymentPayload.payload;
    const required = BigInt(paymentRequirements.amount ?? paymentRequirements.maxAmountRequired ?? -1);
    if (!NETWORKS.includes(network) || (paymentPayload.accepted ?? paymentPayload).network !== network) {
      return 'invalid_network';
    }
    if (paymentRequirements.asset.toLowerCase() !== SEPOLIA_USDC.address.toLowerCase()) {
      return 'invalid_payment_requirements';
    }
    if (signerOf(SEPOLIA_USDC, authorization, signature) !== authorization.from.toLowerCase()) {
      return 'invalid_exact_evm_payload_signature';
    }
    if (authorization.to.toLowerCase() !== payTo.toLowerCase()) return 'invalid_exact_evm_payload_recipient_mismatch';
    const nowS = this.#options.nowS();
    if (Number(authorization.validBefore) < nowS + 6) return 'invalid_exact_evm_payload_authorization_valid_before';
    if (Number(authorization.validAfter) > nowS) return 'invalid_exact_evm_payload_authorization_valid_after';
    if (BigInt(authorization.value) < required) return 'invalid_exact_evm_payload_authorization_value';
    return undefined;
  }

  #unfunded({ paymentPayload }: Request): string | undefined {
    const { from, value } = paymentPayload.payload.authorization;
    return this.balance(from) < BigInt(value) ? 'insufficient_funds' : undefined;
  }

  #isUsed(authorization: Authorization): boolean {
    const { from, nonce } = authorization;
    return this.#transferOf(authorization) !== undefined || this.#options.chain?.isUsed(from, nonce) === true;
  }

  #transferOf(authorization: Authorization): Transfer | undefined {
    return this.transfers.find(
      ({ from, nonce }) => from === authorization.from.toLowerCase() && nonce === authorization.nonce.toLowerCase(),
    );
  }

  #move(authorization: Authorization): string {
    const [from, to, value] = [
      authorization.from.toLowerCase(),
      authorization.to.toLowerCase(),
      BigInt(authorization.value),
    ];
    const transaction = hashOf(authorization);
    this.fund(from, -value);
    this.fund(to, value);
    const nonce = authorization.nonce.toLowerCase();
    this.transfers.push({ from, to, value, nonce, transaction });
    this.#options.chain?.mine(transaction, [{ kind: 'authorized', from, to, value, nonce }]);
    return transaction;
  }
}
