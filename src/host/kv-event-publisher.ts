// Publishes the changes of a KV cache over ZeroMQ, in the wire format of vLLM (arrays) and with its replay. Changes of one turn of the
// event loop are one batch. Batches that nobody reads are dropped: sequence numbers show it, and the last ones can be asked
// for again.

import { Packr } from 'msgpackr';
import { systemEpochMs } from '../actor/index.ts';
import { ListenError } from '../ingress/server.ts';
import { endpointAddress, type ZmtpConnection, ZmtpListener } from '../net/zmtp.ts';
import { SEQUENCE_BYTES, writeSequence } from '../routing/main-thread.ts';
import type { BlockObserver } from './engine/block-cache.ts';

/** Where KV events are published. */
export interface KvEventSettings {
  /** Address to bind the PUB socket to, such as `tcp://*:5557`; `tcp://127.0.0.1:*` takes any port. */
  readonly endpoint: string;
  /** Address to bind the ROUTER socket to that sends batches again. Default: none. */
  readonly replay?: string | undefined;
  /** Default: empty. */
  readonly topic?: string | undefined;
}

/** A change as it is written: the tag and its fields. */
type WrittenEvent = readonly [tag: 'BlockStored' | 'BlockRemoved' | 'AllBlocksCleared', ...fields: unknown[]];

/** Batches that can be sent again, as in vLLM, and their bytes. */
const KEPT_BATCHES = 10_000;
const KEPT_BYTES = 64 * 1024 * 1024;
/** Subscriptions of one subscriber. */
const MAX_TOPICS = 64;
/** Blocks after which a batch is closed before the turn ends. */
const BATCH_BLOCKS = 4096;
const MEDIUM = 'GPU';
const RANK = 0;
/** The number that ends a replay. */
const END = Buffer.alloc(SEQUENCE_BYTES, 0xff);

const packr = new Packr({ useRecords: false });

export class KvEventPublisher implements BlockObserver {
  readonly #settings: KvEventSettings;
  readonly #topic: Buffer;
  #events: WrittenEvent[] = [];
  #blocks = 0;
  #sequence = 0;
  /** Hashes and tokens of the last stored event, to which the next block of the same chain is added. */
  #chain: { readonly hashes: bigint[]; readonly tokens: number[]; last: number } | null = null;
  #removed: bigint[] | null = null;
  #isFlushing = false;
  readonly #kept = new Map<number, Buffer>();
  #keptBytes = 0;
  #publisher: ZmtpListener | null = null;
  #router: ZmtpListener | null = null;
  /** Beginnings of topics, by subscriber. */
  readonly #subscriptions = new WeakMap<ZmtpConnection, readonly Buffer[]>();

  /** Throws a `RangeError` for what is not an endpoint. */
  constructor(settings: KvEventSettings) {
    const { endpoint, replay = endpoint } = settings;
    for (const each of [endpoint, replay]) endpointAddress(each);
    this.#settings = settings;
    this.#topic = Buffer.from(settings.topic ?? '');
  }

  /** The address that is bound; null before `open`. */
  get endpoint(): string | null {
    return this.#publisher?.endpoint ?? null;
  }

  /** The address of the replay; null before `open`, and without one. */
  get replayEndpoint(): string | null {
    return this.#router?.endpoint ?? null;
  }

  /** Binds the addresses. Rejects with a `ListenError` when one of them cannot be bound. */
  async open(): Promise<void> {
    const { endpoint, replay } = this.#settings;
    const subscribed = (from: ZmtpConnection, [frame]: readonly Buffer[]): void => this.#subscribed(from, frame);
    this.#publisher = await bind(endpoint, 'PUB', subscribed);
    if (replay === undefined) return;
    try {
      const asked = (from: ZmtpConnection, frames: readonly Buffer[]): void => this.#replay(from, frames);
      this.#router = await bind(replay, 'ROUTER', asked);
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** Frees the addresses. What follows is another run: numbers begin at 0, and nothing from before can be asked for. */
  async close(): Promise<void> {
    this.#events = [];
    this.#blocks = 0;
    this.#chain = null;
    this.#removed = null;
    this.#sequence = 0;
    this.#kept.clear();
    this.#keptBytes = 0;
    const listeners = [this.#publisher, this.#router].filter((listener) => listener !== null);
    this.#publisher = null;
    this.#router = null;
    await Promise.all(listeners.map((listener) => listener.close()));
  }

  stored(hash: number, parent: number, tokens: Int32Array, start: number, end: number): void {
    this.#removed = null;
    if (this.#chain === null || this.#chain.last !== parent || start === 0) {
      const chain = { hashes: [], tokens: [], last: hash };
      const before = start === 0 ? null : BigInt(parent);
      this.#chain = chain;
      this.#add(['BlockStored', chain.hashes, before, chain.tokens, end - start, null, MEDIUM, null]);
    }
    const { hashes, tokens: written } = this.#chain;
    hashes.push(BigInt(hash));
    for (let at = start; at < end; at++) written.push(tokens[at] as number);
    this.#chain.last = hash;
    this.#count();
  }

  removed(hash: number): void {
    this.#chain = null;
    if (this.#removed === null) {
      this.#removed = [];
      this.#add(['BlockRemoved', this.#removed, MEDIUM]);
    }
    this.#removed.push(BigInt(hash));
    this.#count();
  }

  cleared(): void {
    this.#add(['AllBlocksCleared']);
    this.#chain = null;
    this.#removed = null;
  }

  #add(event: WrittenEvent): void {
    this.#events.push(event);
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => this.#flush());
  }

  #count(): void {
    if (++this.#blocks >= BATCH_BLOCKS) this.#flush();
  }

  /** Closes the batch and sends it. */
  #flush(): void {
    this.#isFlushing = false;
    if (this.#events.length === 0) return;
    const payload = packr.pack([systemEpochMs() / 1000, this.#events, RANK]);
    this.#events = [];
    this.#blocks = 0;
    this.#chain = null;
    this.#removed = null;
    const sequence = this.#sequence++;
    this.#keep(sequence, payload);
    const frames = [this.#topic, writeSequence(sequence), payload];
    for (const connection of this.#publisher?.connections ?? []) {
      const isWanted = this.#subscriptions.get(connection)?.some((prefix) => startsWith(this.#topic, prefix));
      // What a slow subscriber does not take is lost.
      if (isWanted === true) connection.send(frames);
    }
  }

  #subscribed(from: ZmtpConnection, frame: Buffer | undefined): void {
    const topics = this.#subscriptions.get(from) ?? [];
    const topic = frame?.subarray(1) ?? Buffer.alloc(0);
    if (frame?.[0] === 1 && topics.length < MAX_TOPICS) this.#subscriptions.set(from, [...topics, Buffer.from(topic)]);
    // One of several equal ones.
    const at = topics.findIndex((each) => each.equals(topic));
    if (frame?.[0] === 0 && at >= 0) this.#subscriptions.set(from, topics.toSpliced(at, 1));
  }

  #keep(sequence: number, payload: Buffer): void {
    if (this.#settings.replay === undefined) return;
    this.#kept.set(sequence, payload);
    this.#keptBytes += payload.length;
    for (const [oldest, { length }] of this.#kept) {
      if (this.#kept.size <= KEPT_BATCHES && this.#keptBytes <= KEPT_BYTES) return;
      this.#kept.delete(oldest);
      this.#keptBytes -= length;
    }
  }

  /**
   * A request is [empty, number]: every batch from this number on is sent as [empty, number, payload], and an end. One that comes before
   * the subscriber has taken the answer to another one is left out.
   */
  #replay(to: ZmtpConnection, [delimiter, from, ...more]: readonly Buffer[]): void {
    if (delimiter?.length !== 0 || from?.length !== SEQUENCE_BYTES || more.length > 0) return;
    if (to.unsentBytes > 0) return;
    const start = Math.max(Number(from.readBigUInt64BE()), this.#sequence - this.#kept.size);
    for (let sequence = start; sequence < this.#sequence; sequence++) {
      if (!to.send([delimiter, writeSequence(sequence), this.#kept.get(sequence) as Buffer])) return;
    }
    to.send([delimiter, END, delimiter]);
  }
}

async function bind(...[endpoint, type, onMessage]: Parameters<typeof ZmtpListener.listen>): Promise<ZmtpListener> {
  try {
    return await ZmtpListener.listen(endpoint, type, onMessage);
  } catch (error) {
    throw new ListenError(endpointAddress(endpoint), error as Error);
  }
}

function startsWith(text: Buffer, prefix: Buffer): boolean {
  return text.subarray(0, prefix.length).equals(prefix);
}
