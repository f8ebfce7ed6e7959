// Reads from the chain what became of a signed transfer (EIP-3009), by JSON-RPC. `authorizationState` alone proves nothing: the
// payer can cancel the authorization, or use its nonce for another transfer. Money has moved only where the receipt of a successful
// transaction has the log `AuthorizationUsed` of the nonce and, next to it, the log `Transfer` to the merchant.

import { parseJson } from '../../config/json-text.ts';
import { keccak_256 } from '@noble/hashes/sha3.js';
import pLimit from 'p-limit';
import type { Clock } from '../../actor/index.ts';
import { BufferedClient } from '../../net/buffered-client.ts';
import type { MerchantConfig } from './merchant-config.ts';

export interface ChainSettings {
  /** URL of a JSON-RPC node. It may hold a credential. */
  readonly url: string;
  /** For each request. Default 5,000 ms. */
  readonly timeoutMs?: number;
}

/** A transfer to the merchant that a payer has signed. Addresses and hashes in lower case, dates in seconds since 1970. */
export interface SignedTransfer {
  /** Address of the token. */
  readonly asset: string;
  readonly payer: string;
  readonly payTo: string;
  readonly nonce: string;
  /** In units of the token. */
  readonly value: bigint;
  /** When it was first sent to a facilitator, or earlier. */
  readonly sentS: number;
  readonly validBeforeS: number;
  /** The transaction that is said to hold it; null: none was named. */
  readonly transaction: string | null;
}

/**
 * `moved`: the money is with the merchant. `void`: the nonce was cancelled or used for another transfer, so this one can never
 * happen. `unused`: it has not happened; with `expired` it can never happen. `unknown`: the node has not answered, or makes no sense.
 */
export type TransferState =
  | { readonly kind: 'moved'; readonly transaction: string }
  | { readonly kind: 'void' }
  | { readonly kind: 'unused'; readonly expired: boolean }
  | { readonly kind: 'unknown'; readonly problem: string };

const TIMEOUT_MS = 5000;
const CONNECTIONS = 8;
const LOOKUPS_AT_ONCE = 8;
const MAX_ANSWER_BYTES = 1024 * 1024;

/** Requests of one look-up: nodes limit the range of a search for logs, which is then searched in parts. */
const MAX_REQUESTS = 64;

/** No request of a look-up begins later than this after the first. */
const LOOKUP_MS = 15_000;

/**
 * By how much the time of a block must have passed the end of an authorization before a transfer is ruled out: a block may still be
 * replaced by an earlier one.
 */
const EXPIRY_MARGIN_S = 60;

/** By how much a search for logs begins before the first request to the facilitator: clocks differ. */
const SEARCH_MARGIN_S = 120;

/** Seconds between two blocks, as a first guess; the search measures them. */
const BLOCK_S = 2;

const AUTHORIZATION_STATE = selector('authorizationState(address,bytes32)');
const AUTHORIZATION_USED = topic('AuthorizationUsed(address,bytes32)');
const AUTHORIZATION_CANCELED = topic('AuthorizationCanceled(address,bytes32)');
const TRANSFER = topic('Transfer(address,address,uint256)');

const HASH = /^0x[0-9a-f]{64}$/;
const QUANTITY = /^0x[0-9a-f]{1,16}$/;
const DATA = /^0x(?:[0-9a-f]{2})*$/;

const FALSE_WORD = `0x${'0'.repeat(64)}`;
const TRUE_WORD = `0x${'0'.repeat(63)}1`;

/** The node refuses, does not answer, or answers what makes no sense. */
class ChainError extends Error {
  override readonly name = 'ChainError';
  /** The node has answered with an error of JSON-RPC. */
  readonly refused: boolean;

  constructor(message: string, refused = false, options?: ErrorOptions) {
    super(message, options);
    this.refused = refused;
  }
}

interface Block {
  readonly number: number;
  readonly timeS: number;
}

interface LogEntry {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly index: number;
  readonly transaction: string;
}

type Call = (method: string, params: readonly unknown[]) => Promise<unknown>;

export class Chain {
  readonly #settings: ChainSettings;
  readonly #network: MerchantConfig['chain'];
  readonly #clock: Clock;
  readonly #client = new BufferedClient(CONNECTIONS);
  readonly #limit = pLimit(LOOKUPS_AT_ONCE);
  #isChecked = false;
  #requests = 0;

  constructor(settings: ChainSettings, network: MerchantConfig['chain'], clock: Clock) {
    this.#settings = settings;
    this.#network = network;
    this.#clock = clock;
  }

  /** What the chain says of a transfer. Never rejects. */
  find(transfer: SignedTransfer): Promise<TransferState> {
    return this.#limit(async () => {
      let left = MAX_REQUESTS;
      const endMs = this.#clock.now() + LOOKUP_MS;
      const call: Call = async (method, params) => {
        if (this.#clock.now() >= endMs) throw new ChainError(`a look-up takes more than ${LOOKUP_MS / 1000} s`);
        if (left-- === 0) throw new ChainError(`a look-up takes more than ${MAX_REQUESTS} requests`);
        return await this.#ask(method, params);
      };
      try {
        return await this.#find(call, transfer);
      } catch (error) {
        if (!(error instanceof ChainError)) throw error;
        return { kind: 'unknown', problem: error.message };
      }
    });
  }

  close(): void {
    this.#client.close();
  }

  async #find(call: Call, transfer: SignedTransfer): Promise<TransferState> {
    await this.#checkNetwork(call);
    const { asset: to, nonce, payer, transaction, validBeforeS } = transfer;
    if (transaction !== null && HASH.test(transaction)) {
      if ((await this.#moneyIn(call, transaction, transfer)) === 'merchant') return { kind: 'moved', transaction };
    }
    const latest = blockOf(await call('eth_getBlockByNumber', ['latest', false]));
    const data = `${AUTHORIZATION_STATE}${word(payer)}${nonce.slice(2)}`;
    // Of the same block: an older state beside a newer time could rule out a transfer that has happened.
    const state = await call('eth_call', [{ to, data }, quantity(latest.number)]);
    if (state === FALSE_WORD) return { kind: 'unused', expired: latest.timeS >= validBeforeS + EXPIRY_MARGIN_S };
    if (state !== TRUE_WORD) throw new ChainError(`authorizationState of ${to} is not a boolean`);
    const first = await this.#firstBlock(call, latest, transfer.sentS - SEARCH_MARGIN_S);
    const used = await this.#usedIn(call, transfer, first, latest.number);
    if (used === undefined) throw new ChainError('the nonce is used, and the node has no log of it');
    if (used.topics[0] === AUTHORIZATION_CANCELED) return { kind: 'void' };
    const went = await this.#moneyIn(call, used.transaction, transfer);
    if (went === 'nowhere') throw new ChainError('the nonce is used, and the node has no receipt of it');
    return went === 'merchant' ? { kind: 'moved', transaction: used.transaction } : { kind: 'void' };
  }

  /** A node of another chain would rule every transfer out. */
  async #checkNetwork(call: Call): Promise<void> {
    if (this.#isChecked) return;
    const { chainId, name } = this.#network;
    const answer = await call('eth_chainId', []);
    if (numberOf(answer) !== Number(chainId)) throw new ChainError(`payments.rpc is not a node of ${name}`);
    this.#isChecked = true;
  }

  /** Where a transaction has moved the money of exactly this authorization: nowhere when it is not known, has failed or is another. */
  async #moneyIn(
    call: Call,
    transaction: string,
    { asset, nonce, payer, payTo, value }: SignedTransfer,
  ): Promise<'merchant' | 'elsewhere' | 'nowhere'> {
    const receipt = await call('eth_getTransactionReceipt', [transaction]);
    if (receipt === null) return 'nowhere';
    const { logs, status } = fieldsOf(receipt);
    if (status !== '0x1' || !Array.isArray(logs)) return 'nowhere';
    const own = logs.map(logOf).filter(({ address }) => address === asset);
    own.sort((a, b) => a.index - b.index);
    const at = own.findIndex(({ topics }) => isSame(topics, [AUTHORIZATION_USED, `0x${word(payer)}`, nonce]));
    if (at === -1) return 'nowhere';
    // The next transfer, and not any: one transaction may hold several authorizations of the payer.
    const next = own.slice(at + 1).find(({ topics }) => topics[0] === TRANSFER || topics[0] === AUTHORIZATION_USED);
    const expected = [TRANSFER, `0x${word(payer)}`, `0x${word(payTo)}`];
    const isPaid = next !== undefined && isSame(next.topics, expected) && next.data === `0x${hex32(value)}`;
    return isPaid ? 'merchant' : 'elsewhere';
  }

  /** A block that is older than `timeS`, and not much older. */
  async #firstBlock(call: Call, latest: Block, timeS: number): Promise<number> {
    let block = latest;
    for (let blockS = BLOCK_S; block.timeS > timeS && block.number > 0;) {
      const back = Math.ceil(Math.max(block.timeS - timeS, 1) / blockS);
      const number = Math.max(0, block.number - back);
      const earlier = blockOf(await call('eth_getBlockByNumber', [quantity(number), false]));
      blockS = Math.max((block.timeS - earlier.timeS) / Math.max(block.number - earlier.number, 1), 0.01);
      block = earlier;
    }
    return block.number;
  }

  /** The log of the nonce's use or cancellation. A range that the node refuses is searched by halves. */
  async #usedIn(call: Call, transfer: SignedTransfer, first: number, last: number): Promise<LogEntry | undefined> {
    const topics = [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], `0x${word(transfer.payer)}`, transfer.nonce];
    const filter = {
      address: transfer.asset,
      topics,
      fromBlock: quantity(first),
      toBlock: quantity(last),
    };
    try {
      const logs = await call('eth_getLogs', [filter]);
      if (!Array.isArray(logs)) throw new ChainError('eth_getLogs has answered no list');
      return logs.map(logOf).find((log) => log.topics[1] === topics[1] && log.topics[2] === topics[2]);
    } catch (error) {
      if (!(error instanceof ChainError && error.refused) || first === last) throw error;
      const middle = Math.floor((first + last) / 2);
      return (
        (await this.#usedIn(call, transfer, first, middle)) ?? (await this.#usedIn(call, transfer, middle + 1, last))
      );
    }
  }

  async #ask(method: string, params: readonly unknown[]): Promise<unknown> {
    const id = ++this.#requests;
    const { timeoutMs = TIMEOUT_MS, url } = this.#settings;
    const abort = new AbortController();
    const timer = this.#clock.setTimeout(() => abort.abort(new Error('timeout')), timeoutMs);
    const request = {
      method: 'POST',
      url,
      headers: { accept: 'application/json', 'user-agent': 'headrace', 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
    } as const;
    let value;
    try {
      const { body } = await this.#client.send(request, abort.signal, MAX_ANSWER_BYTES);
      value = parseJson(body.toString()) as unknown;
    } catch (cause) {
      throw new ChainError(`the node of payments.rpc has not answered ${method}`, false, { cause });
    } finally {
      this.#clock.clearTimeout(timer);
    }
    const answer = fieldsOf(value);
    if (answer['error'] !== undefined && answer['error'] !== null) {
      throw new ChainError(`the node of payments.rpc refuses ${method}`, true);
    }
    if (answer['id'] !== id || answer['result'] === undefined) {
      throw new ChainError(`the node of payments.rpc has not answered ${method}`);
    }
    return answer['result'];
  }
}

function selector(signature: string): string {
  return topic(signature).slice(0, 10);
}

function topic(signature: string): string {
  return `0x${Buffer.from(keccak_256(Buffer.from(signature))).toString('hex')}`;
}

/** An address as the 32 bytes of an argument, without `0x`. */
function word(address: string): string {
  return address.slice(2).toLowerCase().padStart(64, '0');
}

function hex32(value: bigint): string {
  return value.toString(16).padStart(64, '0');
}

function quantity(number: number): string {
  return `0x${number.toString(16)}`;
}

function isSame(topics: readonly string[], expected: readonly string[]): boolean {
  return topics.length === expected.length && expected.every((each, at) => topics[at] === each);
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) throw new ChainError('the node of payments.rpc makes no sense');
  return value as Readonly<Record<string, unknown>>;
}

function textOf(value: unknown, form: RegExp): string {
  const text = typeof value === 'string' ? value.toLowerCase() : '';
  if (!form.test(text)) throw new ChainError('the node of payments.rpc makes no sense');
  return text;
}

function numberOf(value: unknown): number {
  return Number(textOf(value, QUANTITY));
}

function blockOf(value: unknown): Block {
  const { number, timestamp } = fieldsOf(value);
  return { number: numberOf(number), timeS: numberOf(timestamp) };
}

function logOf(value: unknown): LogEntry {
  const { address, data, logIndex, topics, transactionHash } = fieldsOf(value);
  if (!Array.isArray(topics)) throw new ChainError('the node of payments.rpc makes no sense');
  return {
    address: textOf(address, DATA),
    topics: topics.map((each) => textOf(each, HASH)),
    data: textOf(data, DATA),
    index: numberOf(logIndex),
    transaction: textOf(transactionHash, HASH),
  };
}
