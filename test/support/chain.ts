// A chain for tests, as a JSON-RPC node shows it over HTTP: blocks with times, and one EIP-3009 token with its authorization states,
// logs and receipts. Its encoding is written independently of the gateway's. A test can make the node silent, wrong or limited.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { keccak_256 } from '@noble/hashes/sha3.js';
import { SEPOLIA_USDC } from './payer.ts';

/** What goes wrong with one request: no answer, a broken connection, 500, an error of JSON-RPC, or this result. */
export type NodeFault = 'silent' | 'cut' | 'error' | 'refused' | { readonly result: unknown } | Promise<unknown>;

/** What a transaction holds, in order: an authorization's transfer, its cancellation, or a transfer of another kind. */
export interface Operation {
  readonly kind: 'authorized' | 'cancelled' | 'plain';
  readonly from: string;
  readonly to: string;
  readonly value: bigint;
  readonly nonce: string;
}

interface Log {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly blockNumber: string;
  readonly transactionHash: string;
  readonly logIndex: string;
  readonly removed: boolean;
}

interface Receipt {
  readonly status: '0x1' | '0x0';
  readonly transactionHash: string;
  readonly blockNumber: string;
  readonly logs: readonly Log[];
}

interface Filter {
  readonly address: string;
  readonly topics: readonly (string | readonly string[])[];
  readonly fromBlock: string;
  readonly toBlock: string;
}

const BLOCK_S = 2;

function hash(text: string): string {
  return `0x${Buffer.from(keccak_256(Buffer.from(text))).toString('hex')}`;
}

const padded = (hex: string): string => `0x${hex.slice(2).toLowerCase().padStart(64, '0')}`;
const hex = (value: number | bigint): string => `0x${value.toString(16)}`;

export class TestChain {
  url = '';
  readonly requests: { readonly method: string; readonly params: readonly unknown[] }[] = [];
  /** Faults of the next requests, by method. */
  readonly faults: { readonly method: string; readonly fault: NodeFault }[] = [];
  /** Most blocks that one search for logs may span. */
  maxRange = Infinity;
  chainId: bigint = SEPOLIA_USDC.chainId;
  /** Seconds by which the newest block is behind. */
  lagS = 0;
  readonly #nowS: () => number;
  readonly #startS: number;
  readonly #states = new Map<string, number>();
  readonly #logs: Log[] = [];
  readonly #receipts = new Map<string, Receipt>();
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  constructor(nowS: () => number) {
    this.#nowS = nowS;
    this.#startS = nowS() - 10_000 * BLOCK_S;
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

  isUsed(from: string, nonce: string): boolean {
    return this.#states.has(`${from}${nonce}`.toLowerCase());
  }

  /** Mines a transaction in the newest block. */
  mine(transaction: string, operations: readonly Operation[], status: '0x1' | '0x0' = '0x1'): void {
    const block = this.#newest();
    const logs: Log[] = [];
    const log = (topics: readonly string[], data: string): void => {
      logs.push({
        address: SEPOLIA_USDC.address.toLowerCase(),
        topics,
        data,
        blockNumber: hex(block),
        transactionHash: transaction,
        logIndex: hex(this.#logs.length + logs.length),
        removed: false,
      });
    };
    for (const { from, kind, nonce, to, value } of operations) {
      if (kind !== 'plain' && status === '0x1') this.#states.set(`${from}${nonce}`.toLowerCase(), block);
      if (kind === 'cancelled') {
        log([hash('AuthorizationCanceled(address,bytes32)'), padded(from), nonce.toLowerCase()], '0x');
        continue;
      }
      if (kind === 'authorized')
        log([hash('AuthorizationUsed(address,bytes32)'), padded(from), nonce.toLowerCase()], '0x');
      log([hash('Transfer(address,address,uint256)'), padded(from), padded(to)], padded(hex(value)));
    }
    if (status === '0x1') this.#logs.push(...logs);
    this.#receipts.set(transaction, {
      status,
      transactionHash: transaction,
      blockNumber: hex(block),
      logs: status === '0x1' ? logs : [],
    });
  }

  #newest(): number {
    return Math.floor((this.#nowS() - this.lagS - this.#startS) / BLOCK_S);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const { id, method, params } = JSON.parse(Buffer.concat(pieces).toString()) as {
      id: number;
      method: string;
      params: readonly unknown[];
    };
    this.requests.push({ method, params });
    const at = this.faults.findIndex((entry) => entry.method === method);
    const fault = at === -1 ? undefined : this.faults.splice(at, 1)[0]?.fault;
    if (fault instanceof Promise) await fault;
    const reply = (more: object): void =>
      void response
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify({ jsonrpc: '2.0', id, ...more }));
    if (fault === 'silent') return;
    if (fault === 'cut') request.socket.destroy();
    else if (fault === 'error') response.writeHead(500).end('oops');
    else if (fault === 'refused') reply({ error: { code: -32_000, message: 'not now' } });
    else if (typeof fault === 'object' && 'result' in fault) reply({ result: fault.result });
    else reply(this.#answer(method, params));
  }

  #answer(method: string, params: readonly unknown[]): object {
    switch (method) {
      case 'eth_chainId':
        return { result: hex(this.chainId) };
      case 'eth_getBlockByNumber': {
        const [tag] = params as [string];
        const number = tag === 'latest' ? this.#newest() : Number(tag);
        return { result: { number: hex(number), timestamp: hex(this.#startS + number * BLOCK_S) } };
      }
      case 'eth_call': {
        const [{ data, to }, block] = params as [{ to: string; data: string }, string];
        const known =
          to === SEPOLIA_USDC.address.toLowerCase() &&
          data.startsWith(hash('authorizationState(address,bytes32)').slice(0, 10));
        if (!known) return { result: '0x' };
        const used = this.#states.get(`0x${data.slice(34, 74)}0x${data.slice(74)}`);
        return { result: padded(used !== undefined && used <= Number(block) ? '0x1' : '0x0') };
      }
      case 'eth_getTransactionReceipt':
        return { result: this.#receipts.get((params as [string])[0]) ?? null };
      case 'eth_getLogs':
        return this.#search((params as [Filter])[0]);
      default:
        return { error: { code: -32_601, message: 'unknown method' } };
    }
  }

  #search({ address, fromBlock, toBlock, topics }: Filter): object {
    if (Number(toBlock) - Number(fromBlock) >= this.maxRange) {
      return { error: { code: -32_005, message: 'block range is too wide' } };
    }
    const isFit = (log: Log): boolean =>
      log.address === address &&
      Number(log.blockNumber) >= Number(fromBlock) &&
      Number(log.blockNumber) <= Number(toBlock) &&
      topics.every((wanted, at) => [wanted].flat().includes(log.topics[at] ?? ''));
    return { result: this.#logs.filter(isFit) };
  }
}
