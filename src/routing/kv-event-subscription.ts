// Subscription to the KV events of one server over ZeroMQ. A message is [topic, sequence number (8 bytes, big endian), payload].
// Batches are applied in the order of their numbers; lost ones are asked for again where the server replays, and else what is
// known of its cache is forgotten. A number that falls back is a restart of the server. Nothing is read while a replay goes on.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { connectZmtp, type ZmtpConnection } from '../net/zmtp.ts';
import { readKvEvents, readSequence, SEQUENCE_BYTES, writeSequence } from './kv-event-batch.ts';
import { KvResidency } from './kv-residency.ts';
import type { KvEventSource } from './model-table.ts';

export interface KvEventSubscriptionDeps {
  readonly clock: Clock;
  /** The cache has been cleared, or the server was restarted. */
  readonly onCleared: (reason: 'cleared' | 'restarted') => void;
  /** A batch has been applied. */
  readonly onApplied: (residency: KvResidency) => void;
  /** A message that is no batch of events. */
  readonly onRejected: (error: Error) => void;
  /** The connection is there, or is not there any more; also when the first attempt fails. */
  readonly onConnection: (connected: boolean, error: Error | null) => void;
  /** A replay has failed; of those that fail in a row, the first one. */
  readonly onReplayFailed: (error: Error) => void;
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

const FIRST_RETRY_MS = 100;
const MAX_RETRY_MS = 30_000;
/** A connection that has brought a batch and lasted so long is a good one: the next one is tried as soon as the first was. */
const GOOD_MS = 10_000;
/** Longest time of a replay, after which the batches count as lost. */
const REPLAY_TIMEOUT_MS = 10_000;

/** Largest share of the thread's time that the events of one server may take; bursts of `BURST_MS` may take more. */
const MAX_SHARE = 1 / 4;
const BURST_MS = 50;

export class KvEventSubscription {
  readonly residency: KvResidency = new KvResidency();
  readonly counts: KvEventCounts = {
    ...{ connected: false, events: 0, lost: 0, replayed: 0, rejected: 0, restarts: 0, lastMs: null },
  };
  readonly #source: KvEventSource;
  readonly #deps: KvEventSubscriptionDeps;
  #connection: ZmtpConnection | null = null;
  #replay: ZmtpConnection | null = null;
  #retry: TimerHandle | null = null;
  #retryMs = FIRST_RETRY_MS;
  /** Of the present connection. */
  #readyMs = 0;
  #hasApplied = false;
  #isReported = false;
  #hasReplayFailed = false;
  #isClosed = false;
  /** Messages that have arrived during a replay: those of one read of the socket at most. */
  #waiting: (readonly Buffer[])[] = [];
  #isTaking = false;
  /** Time that messages have taken beyond the share, in milliseconds, as of `#busyAtMs`. */
  #busyMs = 0;
  #busyAtMs = 0;
  /** While nothing is read, since messages have taken too long. */
  #rest: TimerHandle | null = null;
  /** Number of the next batch; null before the first one. */
  #next: number | null = null;

  /** Connects at once, and again whenever the connection is lost. */
  constructor(source: KvEventSource, deps: KvEventSubscriptionDeps) {
    this.#source = source;
    this.#deps = deps;
    this.#connect();
  }

  close(): void {
    this.#isClosed = true;
    for (const timer of [this.#retry, this.#rest]) if (timer !== null) this.#deps.clock.clearTimeout(timer);
    this.#connection?.close();
    this.#replay?.close();
  }

  #connect(): void {
    const { endpoint, topic = '' } = this.#source;
    const connection = connectZmtp(endpoint, 'SUB', {
      onReady: () => {
        connection.send([Buffer.from(`\x01${topic}`)]);
        this.#readyMs = this.#deps.clock.now();
        this.#hasApplied = false;
        this.#report(true, null);
      },
      onMessage: (frames) => this.#receive(frames),
      onClosed: (error) => this.#disconnected(error),
    });
    this.#connection = connection;
  }

  #disconnected(error: Error | null): void {
    this.#connection = null;
    if (this.#isClosed) return;
    this.#report(false, error);
    const { clock } = this.#deps;
    // Not at the handshake, nor at the first batch: what follows may end the connection each time.
    if (this.#hasApplied && clock.now() - this.#readyMs >= GOOD_MS) this.#retryMs = FIRST_RETRY_MS;
    this.#hasApplied = false;
    this.#retry = clock.setTimeout(() => this.#connect(), this.#retryMs);
    this.#retryMs = Math.min(this.#retryMs * 2, MAX_RETRY_MS);
  }

  /** Of attempts that fail in a row, the first one is reported. */
  #report(connected: boolean, error: Error | null): void {
    if (this.#isReported && connected === this.counts.connected) return;
    this.#isReported = true;
    this.counts.connected = connected;
    this.#deps.onConnection(connected, error);
  }

  #receive(frames: readonly Buffer[]): void {
    this.#waiting.push(frames);
    if (this.#isTaking) this.#connection?.pause();
    else void this.#takeWaiting();
  }

  async #takeWaiting(): Promise<void> {
    this.#isTaking = true;
    for (let frames = this.#waiting.shift(); frames !== undefined && !this.#isClosed; frames = this.#waiting.shift()) {
      try {
        const replay = this.#timed(() => this.#take(frames));
        if (replay !== null) await replay;
      } catch (error) {
        this.#reject(error as Error);
      }
    }
    this.#isTaking = false;
    if (this.#rest === null) this.#connection?.resume();
  }

  /** Does work for a message. A server whose messages take too much time is not read for a while: the thread has more to do. */
  #timed<T>(work: () => T): T {
    const { clock } = this.#deps;
    const sinceMs = clock.now();
    try {
      return work();
    } finally {
      const nowMs = clock.now();
      const restedMs = (sinceMs - this.#busyAtMs) * MAX_SHARE;
      this.#busyMs = Math.max(this.#busyMs - restedMs, 0) + nowMs - sinceMs;
      this.#busyAtMs = nowMs;
      if (this.#busyMs > BURST_MS && !this.#isClosed) this.#pauseFor(this.#busyMs / MAX_SHARE);
    }
  }

  #pauseFor(restMs: number): void {
    this.#connection?.pause();
    this.#replay?.pause();
    this.#rest ??= this.#deps.clock.setTimeout(() => {
      this.#rest = null;
      this.#replay?.resume();
      if (!this.#isTaking) this.#connection?.resume();
    }, restMs);
  }

  /** Applies a message, behind the promise where batches before it must be asked for. */
  #take([topic, number, payload, ...more]: readonly Buffer[]): Promise<void> | null {
    if (topic === undefined || number?.length !== SEQUENCE_BYTES || payload === undefined || more.length > 0) {
      throw new Error('not a message of KV events: three frames are expected, the second one of 8 bytes');
    }
    // A subscription is to a prefix.
    if (this.#source.topic !== undefined && topic.toString() !== this.#source.topic) return null;
    const sequence = readSequence(number);
    const isFirst = this.#next === null;
    const isRestart = this.#next !== null && sequence < this.#next;
    if (isRestart) this.#restart();
    const from = isRestart ? 0 : (this.#next ?? 0);
    this.#next = sequence + 1;
    if (sequence > from) {
      return this.#recover(from, sequence, isFirst).then(() => this.#timed(() => this.#apply(payload)));
    }
    if (sequence === 0) this.residency.clear();
    this.#apply(payload);
    return null;
  }

  #restart(): void {
    this.counts.restarts++;
    this.residency.clear();
    this.#deps.onCleared('restarted');
  }

  /** Applies the batches from `from` on, up to `until`, which has arrived; forgets what is known where one is missing. */
  async #recover(from: number, until: number, isFirst: boolean): Promise<void> {
    const { counts } = this;
    const replayedBefore = counts.replayed;
    const { replay } = this.#source;
    const reached = replay === undefined ? from : await this.#replayed(replay, from, until);
    if (reached < until) this.residency.forget();
    // Batches from before the first connection were not lost by it.
    if (!isFirst) counts.lost += until - from - (counts.replayed - replayedBefore);
  }

  /** Asks for batches again. Resolves with the number behind the last one. */
  #replayed(endpoint: string, from: number, until: number): Promise<number> {
    return new Promise((resolve) => {
      const { clock } = this.#deps;
      let next = from;
      let failure: Error | null = new Error('closed by the CRN');
      const timer = clock.setTimeout(() => {
        failure = new Error(`no whole answer within ${REPLAY_TIMEOUT_MS} ms`);
        connection.close();
      }, REPLAY_TIMEOUT_MS);
      const connection = connectZmtp(endpoint, 'DEALER', {
        // The server reads requests of REQ sockets, which begin with an empty frame.
        onReady: () => connection.send([Buffer.alloc(0), writeSequence(from)]),
        onMessage: (frames) => {
          let taken: number | null = next;
          try {
            taken = this.#timed(() => this.#takeReplayed(frames, next, until));
          } catch (error) {
            this.#reject(error as Error);
          }
          next = taken ?? next;
          if (taken !== null && taken < until) return;
          failure = null;
          connection.close();
        },
        onClosed: (error) => {
          clock.clearTimeout(timer);
          this.#replay = null;
          this.#reportReplay(error ?? failure);
          resolve(next);
        },
      });
      this.#replay = connection;
    });
  }

  #reportReplay(failure: Error | null): void {
    if (this.#isClosed) return;
    if (failure !== null && !this.#hasReplayFailed) this.#deps.onReplayFailed(failure);
    this.#hasReplayFailed = failure !== null;
  }

  /** Applies one answer of a replay. Returns the number of the next batch; null when this was the last answer that is wanted. */
  #takeReplayed(frames: readonly Buffer[], next: number, until: number): number | null {
    const [number, payload] = frames.slice(-2);
    if (number?.length !== SEQUENCE_BYTES || payload === undefined)
      throw new Error('not an answer of a replay of KV events');
    // An empty one is the end.
    if (payload.length === 0) return null;
    const sequence = readSequence(number);
    if (sequence >= until) return null;
    if (sequence < next) return next;
    if (sequence === 0) this.residency.clear();
    // The server does not keep all: what it still has is better than nothing.
    if (sequence > next) this.residency.forget();
    this.#apply(payload);
    this.counts.replayed++;
    return sequence + 1;
  }

  #apply(payload: Uint8Array): void {
    // What waited for a replay comes after the end: the cells of the server may be those of another one by then.
    if (this.#isClosed) return;
    const events = readKvEvents(payload);
    this.counts.events += events.length;
    this.counts.lastMs = this.#deps.clock.now();
    this.#hasApplied = true;
    for (const event of events) this.residency.apply(event);
    if (events.some(({ type }) => type === 'cleared')) this.#deps.onCleared('cleared');
    this.#deps.onApplied(this.residency);
  }

  /** What a batch that cannot be read says is missing from what is known. */
  #reject(error: Error): void {
    this.counts.rejected++;
    this.residency.forget();
    this.#deps.onRejected(error);
  }
}
