// Subscription to the KV events of one server over ZeroMQ. A message is [topic, sequence number (8 bytes, big endian), payload].
// Batches are applied in the order of their numbers; lost ones are asked for again where the server replays, and else what is
// known of its cache is forgotten. A number that falls back is a restart of the server. Queues are bounded: what does not fit is lost.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { Frames, SubscriberSocket, ZeroMq } from '../net/zeromq.ts';
import { readKvEvents } from './kv-event-batch.ts';
import { KvResidency } from './kv-residency.ts';
import type { KvEventSource } from './model-table.ts';

export interface KvEventSubscriptionDeps {
  readonly zeromq: ZeroMq;
  readonly clock: Clock;
  /** The cache has been cleared, or the server was restarted. */
  readonly onCleared: (reason: 'cleared' | 'restarted') => void;
  /** A batch has been applied. */
  readonly onApplied: (residency: KvResidency) => void;
  /** A message that is no batch of events. */
  readonly onRejected: (error: Error) => void;
  readonly onConnection: (connected: boolean) => void;
}

/** What a subscription has seen since it began. */
export interface KvEventCounts {
  connected: boolean;
  /** Events in batches that were applied. */
  events: number;
  /** Batches that were lost and not replayed. */
  lost: number;
  replayed: number;
  /** Messages that are no batch of events. */
  rejected: number;
  restarts: number;
  /** When the last batch was applied; null before. */
  lastMs: number | null;
}

/** A step of a large server stores 65,536 tokens: half a megabyte. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;
/** Messages that wait while others are read; together with the size this bounds memory. */
const QUEUED_MESSAGES = 512;
const RECONNECT_MS = 100;
const MAX_RECONNECT_MS = 30_000;
/** libzmq does not connect again to a peer that broke the protocol, such as by a frame above the limit. */
const FIRST_CHECK_MS = 2000;
/** A peer that answers no heartbeat is gone, although its connection is not closed. */
const HEARTBEAT_MS = 10_000;
const HEARTBEAT_TIMEOUT_MS = 30_000;
/** Silence of a replay after which the batches count as lost. */
const REPLAY_TIMEOUT_MS = 2000;
/** Batches that one replay may send; servers keep 10,000. */
const MAX_REPLAYED = 10_000;
/** Messages after which other work of the thread gets its turn. */
const TURN_MESSAGES = 64;

const SEQUENCE_BYTES = 8;
/** What has this number or a higher one cannot be counted further; the end of a replay has the highest. */
const MAX_SEQUENCE = Number.MAX_SAFE_INTEGER;

export class KvEventSubscription {
  readonly residency: KvResidency = new KvResidency();
  readonly counts: KvEventCounts = {
    ...{ connected: false, events: 0, lost: 0, replayed: 0, rejected: 0, restarts: 0, lastMs: null },
  };
  readonly #source: KvEventSource;
  readonly #deps: KvEventSubscriptionDeps;
  readonly #socket: SubscriberSocket;
  #replay: { close(): void } | null = null;
  /** Number of the next batch; null before the first one. */
  #next: number | null = null;
  #check: TimerHandle | null = null;
  #checkMs = FIRST_CHECK_MS;

  /** Connects at once, and again whenever the connection is lost. */
  constructor(source: KvEventSource, deps: KvEventSubscriptionDeps) {
    this.#source = source;
    this.#deps = deps;
    this.#socket = new deps.zeromq.Subscriber({
      linger: 0,
      receiveHighWaterMark: QUEUED_MESSAGES,
      maxMessageSize: MAX_MESSAGE_BYTES,
      reconnectInterval: RECONNECT_MS,
      reconnectMaxInterval: MAX_RECONNECT_MS,
      heartbeatInterval: HEARTBEAT_MS,
      heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    });
    const { events } = this.#socket;
    const connected = (): void => this.#setConnected(true);
    const disconnected = (): void => this.#setConnected(false);
    events.on('handshake', connected);
    events.on('disconnect', disconnected);
    this.#socket.subscribe(source.topic ?? '');
    this.#socket.connect(source.endpoint);
    this.#checkLater();
    void this.#receive();
  }

  #setConnected(connected: boolean): void {
    if (this.#socket.closed || connected === this.counts.connected) return;
    this.counts.connected = connected;
    this.#deps.onConnection(connected);
    this.#checkMs = FIRST_CHECK_MS;
    this.#checkLater();
  }

  /** Connects anew when there is still no connection after a while. */
  #checkLater(): void {
    const { clock } = this.#deps;
    if (this.#check !== null) clock.clearTimeout(this.#check);
    this.#check = this.counts.connected ? null : clock.setTimeout(() => this.#reconnect(), this.#checkMs);
  }

  #reconnect(): void {
    const { endpoint } = this.#source;
    try {
      this.#socket.disconnect(endpoint);
    } catch (error) {
      // libzmq has given up the endpoint.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') this.#reject(error as Error);
    }
    this.#socket.connect(endpoint);
    this.#checkMs = Math.min(this.#checkMs * 2, MAX_RECONNECT_MS);
    this.#checkLater();
  }

  close(): void {
    if (this.#check !== null) this.#deps.clock.clearTimeout(this.#check);
    this.#socket.close();
    this.#replay?.close();
  }

  async #receive(): Promise<void> {
    for (let count = 1; !this.#socket.closed; count++) {
      const frames = await this.#socket.receive().catch((error: Error) => error);
      if (this.#socket.closed) return;
      // A socket that cannot be read will not be readable later.
      if (frames instanceof Error) return this.#reject(frames);
      try {
        await this.#take(frames);
      } catch (error) {
        this.#reject(error as Error);
      }
      if (count % TURN_MESSAGES === 0) await new Promise((resolve) => void setImmediate(resolve));
    }
  }

  async #take([topic, number, payload, ...more]: Frames): Promise<void> {
    if (topic === undefined || number?.length !== SEQUENCE_BYTES || payload === undefined || more.length > 0) {
      throw new Error('not a message of KV events: three frames are expected, the second one of 8 bytes');
    }
    // A subscription is to a prefix.
    if (this.#source.topic !== undefined && Buffer.from(topic).toString() !== this.#source.topic) return;
    const sequence = readSequence(number);
    const isRestart = this.#next !== null && sequence < this.#next;
    if (isRestart) this.#restart();
    const from = isRestart ? 0 : (this.#next ?? 0);
    if (sequence > from) await this.#recover(from, sequence);
    else if (sequence === 0) this.residency.clear();
    this.#next = sequence + 1;
    this.#apply(payload);
  }

  #restart(): void {
    this.counts.restarts++;
    this.residency.clear();
    this.#deps.onCleared('restarted');
  }

  /** Applies the batches from `from` on, up to `until`, which has arrived; forgets what is known where one is missing. */
  async #recover(from: number, until: number): Promise<void> {
    const isFirst = this.#next === null;
    const { counts } = this;
    const replayedBefore = counts.replayed;
    const { replay } = this.#source;
    const reached = replay === undefined ? from : await this.#replayed(replay, from, until);
    if (reached < until) this.residency.forget();
    // Batches from before the first connection were not lost by it.
    if (!isFirst) counts.lost += until - from - (counts.replayed - replayedBefore);
  }

  /** Asks for batches again. Resolves with the number behind the last one. */
  async #replayed(endpoint: string, from: number, until: number): Promise<number> {
    const socket = new this.#deps.zeromq.Dealer({
      linger: 0,
      receiveTimeout: REPLAY_TIMEOUT_MS,
      receiveHighWaterMark: QUEUED_MESSAGES,
      maxMessageSize: MAX_MESSAGE_BYTES,
    });
    this.#replay = socket;
    let next = from;
    try {
      socket.connect(endpoint);
      await socket.send(['', writeSequence(from)]);
      for (let count = 0; next < until && count < MAX_REPLAYED; count++) {
        const [number, payload] = (await socket.receive()).slice(-2);
        if (number?.length !== SEQUENCE_BYTES || payload === undefined || payload.length === 0) break;
        const sequence = readSequence(number);
        if (sequence < next) continue;
        if (sequence >= until) break;
        if (sequence === 0) this.residency.clear();
        // The server does not keep all: what it still has is better than nothing.
        if (sequence > next) this.residency.forget();
        this.#apply(payload);
        this.counts.replayed++;
        next = sequence + 1;
      }
    } catch (error) {
      // Silence is what a server without replay, or one that is gone, answers.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' && !this.#socket.closed) this.#reject(error as Error);
    } finally {
      this.#replay = null;
      socket.close();
    }
    return next;
  }

  #apply(payload: Uint8Array): void {
    const events = readKvEvents(payload);
    this.counts.events += events.length;
    this.counts.lastMs = this.#deps.clock.now();
    for (const event of events) {
      this.residency.apply(event);
      if (event.type === 'cleared') this.#deps.onCleared('cleared');
    }
    this.#deps.onApplied(this.residency);
  }

  /** What a batch that cannot be read says is missing from what is known. */
  #reject(error: Error): void {
    this.counts.rejected++;
    this.residency.forget();
    this.#deps.onRejected(error);
  }
}

function readSequence(frame: Uint8Array): number {
  const sequence = Buffer.from(frame.buffer, frame.byteOffset, SEQUENCE_BYTES).readBigUInt64BE();
  if (sequence >= MAX_SEQUENCE) throw new Error('not a message of KV events: its sequence number is too large');
  return Number(sequence);
}

function writeSequence(sequence: number): Buffer {
  const frame = Buffer.alloc(SEQUENCE_BYTES);
  frame.writeBigUInt64BE(BigInt(sequence));
  return frame;
}
