// A scripted publisher of KV events: writes msgpack by the specification, in the forms of vLLM and SGLang, and sends messages over
// a real socket only after a subscriber is there.

import type { Test } from 'tap';
import { type ZmtpConnection, ZmtpListener } from '../../src/net/zmtp.ts';

/** A value with its exact encoding: a 64-bit integer, bytes, or anything that JSON has. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly Value[]
  | { readonly [name: string]: Value };

/** Encodes a value in msgpack. A bigint is written as uint64, a number with a fraction as float64. */
export function msgpack(value: Value): Buffer {
  if (value === null) return Buffer.of(0xc0);
  if (typeof value === 'boolean') return Buffer.of(value ? 0xc3 : 0xc2);
  if (typeof value === 'bigint') {
    const bytes = Buffer.alloc(9, value < 0n ? 0xd3 : 0xcf);
    bytes.writeBigUInt64BE(BigInt.asUintN(64, value), 1);
    return bytes;
  }
  if (typeof value === 'number') {
    if (Number.isInteger(value) && value >= 0 && value < 128) return Buffer.of(value);
    const bytes = Buffer.alloc(Number.isInteger(value) ? 5 : 9);
    if (Number.isInteger(value)) bytes.writeUInt32BE(value, 1);
    else bytes.writeDoubleBE(value, 1);
    bytes[0] = Number.isInteger(value) ? 0xce : 0xcb;
    return bytes;
  }
  if (typeof value === 'string') return Buffer.concat([head(0xda, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(0xc5, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(0xdc, value.length), ...value.map(msgpack)]);
  const entries = Object.entries(value);
  return Buffer.concat([head(0xde, entries.length), ...entries.flatMap((entry) => entry.map(msgpack))]);
}

function head(marker: number, length: number): Buffer {
  return Buffer.of(marker, length >> 8, length & 0xff);
}

type Hashes = readonly (bigint | Uint8Array)[];

/** A batch as vLLM wrote it up to 0.22 and as SGLang writes it: arrays. */
export function batch(...events: readonly Value[]): Buffer {
  return msgpack([1_763_800_000.25, events, 0]);
}

/** Tokens of the blocks are numbers from 1 on. */
export function stored(hashes: Hashes, blockSize: number, medium: string | null = 'GPU'): Value {
  const tokens = Array.from({ length: hashes.length * blockSize }, (_, at) => at + 1);
  return ['BlockStored', hashes, null, tokens, blockSize, null, medium];
}

export function removed(hashes: Hashes, medium: string | null = 'GPU'): Value {
  return ['BlockRemoved', hashes, medium];
}

export const CLEARED: Value = ['AllBlocksCleared'];

/** Hashes that differ in all bits, numbered. */
export function hashes(from: number, count: number): bigint[] {
  return Array.from({ length: count }, (_, at) => BigInt.asUintN(64, 0x9e37_79b9_7f4a_7c15n * BigInt(from + at + 1)));
}

export function sequence(number: number | bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt.asUintN(64, BigInt(number)));
  return bytes;
}

/** The end of a replay. */
const END = sequence(-1n);

export class ScriptedPublisher {
  readonly endpoint: string;
  readonly replayEndpoint: string;
  /** Numbers that replays were asked to begin with. */
  readonly asked: number[] = [];
  /** What a replay sends: batches by their numbers. */
  readonly kept = new Map<number, Buffer>();
  readonly #publisher: ZmtpListener;
  readonly #router: ZmtpListener;
  #subscriptions: string[] = [];
  #arrived: PromiseWithResolvers<void> = Promise.withResolvers();
  #held: PromiseWithResolvers<number> | null = null;

  private constructor(publisher: ZmtpListener, router: ZmtpListener) {
    this.#publisher = publisher;
    this.#router = router;
    this.endpoint = publisher.endpoint;
    this.replayEndpoint = router.endpoint;
  }

  /** Binds its addresses; closed with the test. */
  static async open(t: Test, endpoint = 'tcp://127.0.0.1:*'): Promise<ScriptedPublisher> {
    const publisher: ScriptedPublisher = new ScriptedPublisher(
      await ZmtpListener.listen(endpoint, 'PUB', (_, [frame]) => publisher.#subscribed(frame)),
      await ZmtpListener.listen('tcp://127.0.0.1:*', 'ROUTER', (from, [, start]) => publisher.#replay(from, start)),
    );
    t.teardown(() => publisher.close());
    return publisher;
  }

  /** Resolves when a subscription arrives that no earlier call returned; with its topic. */
  async subscription(): Promise<string> {
    while (this.#subscriptions.length === 0) {
      await this.#arrived.promise;
      this.#arrived = Promise.withResolvers();
    }
    return this.#subscriptions.shift() as string;
  }

  send(number: number, payload: Uint8Array, topic = ''): void {
    this.sendFrames([topic, sequence(number), payload]);
  }

  /** False when the message was dropped. */
  sendFrames(frames: (string | Uint8Array)[]): boolean {
    const bytes = frames.map((frame) => Buffer.from(frame));
    return [...this.#publisher.connections].every((connection) => connection.send(bytes));
  }

  /** Replays are not answered from now on. Resolves with the number that the next one asks for. */
  holdReplays(): Promise<number> {
    this.#held = Promise.withResolvers();
    return this.#held.promise;
  }

  /** Replays cannot be asked for from now on. */
  async closeReplays(): Promise<void> {
    await this.#router.close();
  }

  /** Resolves when its addresses can be bound again. */
  async close(): Promise<void> {
    await Promise.all([this.#publisher.close(), this.#router.close()]);
  }

  #subscribed(frame: Buffer | undefined): void {
    if (frame?.[0] !== 1) return;
    this.#subscriptions.push(frame.subarray(1).toString());
    this.#arrived.resolve();
  }

  #replay(to: ZmtpConnection, start: Buffer | undefined): void {
    const from = Number(start?.readBigUInt64BE());
    this.asked.push(from);
    if (this.#held !== null) {
      this.#held.resolve(from);
      return;
    }
    const empty = Buffer.alloc(0);
    for (const [number, payload] of this.kept) if (number >= from) to.send([empty, sequence(number), payload]);
    to.send([empty, END, empty]);
  }
}
