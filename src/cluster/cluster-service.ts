// The link of this gateway to the engine and, through it, to its siblings: connects and reconnects, bounds what is unanswered, sends
// heartbeats and deals out messages. It lives in the control thread. Nothing here throws into others or makes a request wait.

import { createHash, randomBytes } from 'node:crypto';
import type { Clock, TimerHandle } from '../actor/index.ts';
import { messageOf } from '../errors.ts';
import { connectEngine, type EngineConnection, type EngineConnector } from './connection.ts';
import { envelopeHead, readEnvelope } from './envelope.ts';
import {
  ClusterError,
  type ClusterEvent,
  type ClusterLink,
  type CommandArgument,
  MAX_BODY_BYTES,
  type MessageHandler,
  type Script,
  type Sibling,
  type Topic,
} from './link.ts';
import { type Heartbeat, readHeartbeat, RollCall, type SelfReport, writeHeartbeat } from './roll-call.ts';

/** Time between two heartbeats, which are also what proves that the engine answers. */
const HEARTBEAT_MS = 500;
/** A heartbeat goes along with another message that is sent so short before it: whoever is woken for one is woken for both. */
const EARLY_MS = 150;
/** Siblings that connect at once ask at once: they get one answer of each, after a random part of this. */
const ASKED_MS = 50;
/** The connection is given up when the engine owes an answer for so long: seen at a heartbeat, so within 1.5 s. */
const ANSWER_MS = 900;
/** A timer that is so late says that this thread stood still, not the engine. */
const STALL_MS = 400;
const CONNECT_TIMEOUT_MS = 2000;
const BACKOFF_MIN_MS = 100;
/** The engine is back in use within so long after it answers again. */
const BACKOFF_MAX_MS = 2000;
/** An engine that is read-only is connected to again, at most so often: after a failover its address leads to the new primary. */
const READ_ONLY_MS = 10_000;
/** Most commands and bytes that have no answer yet. Beyond them something stands still, and memory is bounded. */
const MAX_UNANSWERED = 8192;
const MAX_UNANSWERED_BYTES: number = 32 * 1024 * 1024;
/** How long the farewell may take. */
const LEAVE_TIMEOUT_MS = 250;

export interface ClusterSettings {
  /** Null: alone. */
  readonly url: string | null;
  readonly name: string;
}

export interface ClusterServiceDeps {
  readonly clock: Clock;
  readonly random: () => number;
  /** What siblings are told of this gateway. */
  readonly report: () => SelfReport;
  readonly observer: ClusterObserver;
  /** Default: a connection to the engine. */
  readonly connect?: EngineConnector;
  /** Default: random. */
  readonly instance?: string;
}

/** Topic of a message, or `other` for what is none of ours. */
export type MessageTopic = Topic | 'other';

/**
 * Out: `ok`, `away` and `full` (dropped), `too_large`. In: `ok`, `stranger` (sender not in the roll call), `version`, `topic`, `too_large`,
 * `crowded` (more than `MAX_GATEWAYS`), `invalid`.
 */
export type MessageResult =
  | 'ok'
  | 'away'
  | 'full'
  | 'too_large'
  | 'stranger'
  | 'version'
  | 'topic'
  | 'crowded'
  | 'invalid';

/** Told of everything that is counted or logged. */
export interface ClusterObserver {
  message(topic: MessageTopic, direction: 'in' | 'out', result: MessageResult, bytes: number): void;
  command(result: 'ok' | ClusterError['reason']): void;
  /** The engine has answered a command or taken a message. */
  answered(durationMs: number): void;
  /** A message was not of the expected form, or its handler failed. */
  badMessage(topic: Topic, from: string, error: unknown): void;
  event(event: ClusterEvent): void;
  /** A connection could not be opened; another attempt follows. */
  notConnected(reason: string): void;
}

export function defineScript(source: string): Script {
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}

export class ClusterService implements ClusterLink {
  readonly instance: string;
  readonly #deps: ClusterServiceDeps;
  readonly #connect: EngineConnector;
  readonly #rollCall: RollCall;
  readonly #handlers = new Map<Topic, MessageHandler[]>();
  readonly #listeners: ((event: ClusterEvent) => void)[] = [];
  readonly #heads = new Map<Topic, Buffer>();
  #settings: ClusterSettings = { url: null, name: '' };
  #connection: EngineConnection | null = null;
  /** Counts attempts to connect: what an older one says does not count. */
  #attempt = 0;
  #backoffMs = BACKOFF_MIN_MS;
  #timer: TimerHandle | null = null;
  #askedTimer: TimerHandle | null = null;
  #tickDueMs = 0;
  /** When the last connection was lost; null since `enabled`. */
  #lostMs: number | null = null;
  #unanswered = 0;
  #unansweredBytes = 0;
  /** Since when the engine owes answers and has given none. One that is slow and answers is kept. */
  #waitingSinceMs = 0;
  /** When a connection was last given up because the engine was read-only. */
  #readOnlyMs = -Infinity;

  constructor(deps: ClusterServiceDeps) {
    this.#deps = deps;
    this.#connect = deps.connect ?? connectEngine;
    this.instance = deps.instance ?? randomBytes(8).toString('hex');
    this.#rollCall = new RollCall(() => deps.clock.now());
  }

  get enabled(): boolean {
    return this.#settings.url !== null;
  }

  get connected(): boolean {
    return this.#connection !== null;
  }

  /** Commands and bytes that have no answer yet. */
  get queue(): { readonly commands: number; readonly bytes: number } {
    // The answers to those of a connection that has ended do not come any more.
    if (this.#connection === null) return { commands: 0, bytes: 0 };
    return { commands: this.#unanswered, bytes: this.#unansweredBytes };
  }

  /** Takes over settings, the first ones too. Another URL or name ends the connection and opens another one. */
  configure(settings: ClusterSettings): void {
    const { name, url } = this.#settings;
    if (settings.url === url && (settings.name === name || url === null)) return;
    if (url !== null) {
      void this.#leave('cluster has been changed');
      if (settings.url === null) this.#emit({ type: 'disabled' });
    }
    this.#settings = settings;
    if (settings.url === null) return;
    this.#lostMs = null;
    this.#backoffMs = BACKOFF_MIN_MS;
    this.#emit({ type: 'enabled' });
    this.#tickDueMs = this.#deps.clock.now();
    this.#schedule();
    void this.#open();
  }

  /** Tells the siblings that this gateway ends, and closes the connection. */
  async close(): Promise<void> {
    if (!this.enabled) return;
    const left = this.#leave('the gateway ends');
    this.#settings = { ...this.#settings, url: null };
    await left;
  }

  siblings(): readonly Sibling[] {
    return [this.#self(), ...this.#rollCall.siblings()];
  }

  sibling(instance: string): Sibling | undefined {
    return instance === this.instance ? this.#self() : this.#rollCall.sibling(instance);
  }

  publish(topic: Topic, body: Buffer, to?: string): boolean {
    const result = this.#publishable(body.length);
    this.#deps.observer.message(topic, 'out', result, body.length);
    if (result !== 'ok') return false;
    const channel = to === undefined ? this.#channel('all') : this.#channel('to', to);
    // What becomes of it shows in the connection itself.
    this.#send(['PUBLISH', channel, Buffer.concat([this.#head(topic), body])], body.length).catch(() => undefined);
    if (topic !== 'roll-call') this.#beatAlong();
    return true;
  }

  on(topic: Topic, handler: MessageHandler): () => void {
    const handlers = this.#handlers.get(topic) ?? [];
    this.#handlers.set(topic, [...handlers, handler]);
    return () => {
      this.#handlers.set(topic, this.#handlers.get(topic)?.filter((each) => each !== handler) ?? []);
    };
  }

  async command(args: readonly CommandArgument[], timeoutMs: number): Promise<unknown> {
    const { observer } = this.#deps;
    try {
      const answer = await this.#answer(args, timeoutMs);
      observer.command('ok');
      return answer;
    } catch (error) {
      observer.command(error instanceof ClusterError ? error.reason : 'refused');
      if (error instanceof ClusterError && error.code === 'READONLY') this.#refusesWrites();
      throw error;
    }
  }

  async script(
    { sha1, source }: Script,
    keys: readonly string[],
    args: readonly CommandArgument[],
    timeoutMs: number,
  ): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args];
    try {
      return await this.command(['EVALSHA', sha1, ...rest], timeoutMs);
    } catch (error) {
      if (!(error instanceof ClusterError) || error.code !== 'NOSCRIPT') throw error;
      return this.command(['EVAL', source, ...rest], timeoutMs);
    }
  }

  key(...parts: readonly string[]): string {
    return [`{${this.#settings.name}}`, ...parts].join(':');
  }

  onChange(handler: (event: ClusterEvent) => void): () => void {
    this.#listeners.push(handler);
    return () => {
      const index = this.#listeners.indexOf(handler);
      if (index !== -1) this.#listeners.splice(index, 1);
    };
  }

  // Connection

  async #open(): Promise<void> {
    const { url } = this.#settings;
    if (url === null) return;
    const attempt = ++this.#attempt;
    const isCurrent = (): boolean => attempt === this.#attempt;
    try {
      const connection = await this.#connect({
        url,
        channels: [this.#channel('all'), this.#channel('to', this.instance)],
        clientName: `headrace-${this.instance}`,
        timeoutMs: CONNECT_TIMEOUT_MS,
        onMessage: (message) => {
          if (isCurrent()) this.#receive(message);
        },
        onLost: (reason) => {
          if (isCurrent()) this.#lost(reason);
        },
      });
      if (!isCurrent()) connection.close();
      else this.#opened(connection);
    } catch (error) {
      if (!isCurrent()) return;
      this.#deps.observer.notConnected(messageOf(error));
      this.#openLater();
    }
  }

  #opened(connection: EngineConnection): void {
    this.#connection = connection;
    this.#unanswered = 0;
    this.#unansweredBytes = 0;
    this.#backoffMs = BACKOFF_MIN_MS;
    const awayMs = this.#lostMs === null ? Infinity : this.#deps.clock.now() - this.#lostMs;
    this.#beat({ ask: true });
    this.#emit({ type: 'connected', awayMs });
  }

  #openLater(): void {
    const { clock, random } = this.#deps;
    const delayMs = this.#backoffMs * (0.5 + random() / 2);
    this.#backoffMs = Math.min(this.#backoffMs * 2, BACKOFF_MAX_MS);
    const attempt = ++this.#attempt;
    clock.setTimeout(() => {
      if (attempt === this.#attempt) void this.#open();
    }, delayMs);
  }

  #lost(reason: string): void {
    const connection = this.#connection;
    if (connection === null) return;
    this.#connection = null;
    this.#lostMs = this.#deps.clock.now();
    connection.close();
    this.#emit({ type: 'lost', reason });
    this.#openLater();
  }

  #refusesWrites(): void {
    const nowMs = this.#deps.clock.now();
    if (nowMs - this.#readOnlyMs < READ_ONLY_MS) return;
    this.#readOnlyMs = nowMs;
    this.#lost('the engine is read-only');
  }

  // Heartbeats

  #schedule(): void {
    const { clock } = this.#deps;
    this.#tickDueMs += HEARTBEAT_MS;
    this.#timer = clock.setTimeout(() => this.#tick(), this.#tickDueMs - clock.now());
  }

  #tick(): void {
    const nowMs = this.#deps.clock.now();
    if (nowMs - this.#tickDueMs > STALL_MS) {
      // Engine and siblings on the same machine may have stood still too: everybody gets the time again.
      this.#tickDueMs = nowMs;
      this.#waitingSinceMs = nowMs;
    } else {
      for (const sibling of this.#rollCall.removeSilent()) this.#emit({ type: 'left', sibling, reason: 'silent' });
    }
    this.#schedule();
    if (this.#connection === null) return;
    if (this.#unanswered > 0 && nowMs - this.#waitingSinceMs >= ANSWER_MS) this.#lost('the engine does not answer');
    else this.#beat();
  }

  #beatAlong(): void {
    const { clock } = this.#deps;
    const nowMs = clock.now();
    if (this.#timer === null || this.#tickDueMs - nowMs > EARLY_MS || nowMs >= this.#tickDueMs) return;
    clock.clearTimeout(this.#timer);
    this.#tickDueMs = nowMs;
    this.#tick();
  }

  #beat(how: Pick<Heartbeat, 'ask'> = {}): void {
    this.publish('roll-call', writeHeartbeat({ ...this.#deps.report(), ...how }));
  }

  #beatSoon(): void {
    const { clock, random } = this.#deps;
    this.#askedTimer ??= clock.setTimeout(() => {
      this.#askedTimer = null;
      if (this.#connection !== null) this.#beat();
    }, random() * ASKED_MS);
  }

  /** Ends the connection after a farewell, for which only `close` waits. */
  async #leave(reason: string): Promise<void> {
    const connection = this.#connection;
    const channel = this.#channel('all');
    this.#attempt++;
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#askedTimer !== null) this.#deps.clock.clearTimeout(this.#askedTimer);
    this.#askedTimer = null;
    this.#connection = null;
    if (connection !== null) this.#emit({ type: 'lost', reason, isOwn: true });
    for (const { instance } of this.#rollCall.siblings()) this.#remove(instance, 'leaving');
    if (connection === null) return;
    const body = writeHeartbeat({ ...this.#deps.report(), leaving: true });
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#deps.clock.setTimeout(resolve, LEAVE_TIMEOUT_MS);
    connection.send(['PUBLISH', channel, Buffer.concat([this.#head('roll-call'), body])]).then(
      () => resolve(),
      () => resolve(),
    );
    await promise;
    this.#deps.clock.clearTimeout(timer);
    connection.close();
  }

  #self(): Sibling {
    return { ...this.#deps.report(), instance: this.instance, index: 0, self: true, ageMs: 0 };
  }

  // Messages

  #receive(message: Buffer): void {
    const { observer } = this.#deps;
    const envelope = readEnvelope(message);
    if (typeof envelope === 'string') {
      observer.message('other', 'in', envelope, message.length);
      return;
    }
    const { body, from, topic } = envelope;
    if (from === this.instance) return;
    const result = topic === 'roll-call' ? this.#noteHeartbeat(from, body) : this.#deliver(topic, from, body);
    observer.message(topic, 'in', result, body.length);
  }

  #noteHeartbeat(from: string, body: Buffer): MessageResult {
    try {
      const { ask, leaving, ...report } = readHeartbeat(body);
      if (leaving === true) {
        this.#remove(from, 'leaving');
        return 'ok';
      }
      const noted = this.#rollCall.note(from, report);
      if (noted === null) return 'crowded';
      const sibling = this.#rollCall.sibling(from);
      if (noted === 'joined' && sibling !== undefined) this.#emit({ type: 'joined', sibling });
      if (ask === true) this.#beatSoon();
      return 'ok';
    } catch (error) {
      this.#deps.observer.badMessage('roll-call', from, error);
      return 'invalid';
    }
  }

  #deliver(topic: Topic, from: string, body: Buffer): MessageResult {
    const sibling = this.#rollCall.heard(from);
    if (sibling === undefined) return 'stranger';
    let result: MessageResult = 'ok';
    for (const handler of this.#handlers.get(topic) ?? []) {
      try {
        handler(body, sibling);
      } catch (error) {
        result = 'invalid';
        this.#deps.observer.badMessage(topic, from, error);
      }
    }
    return result;
  }

  #remove(instance: string, reason: 'silent' | 'leaving'): void {
    const sibling = this.#rollCall.remove(instance);
    if (sibling !== undefined) this.#emit({ type: 'left', sibling, reason });
  }

  #emit(event: ClusterEvent): void {
    this.#deps.observer.event(event);
    for (const listener of [...this.#listeners]) listener(event);
  }

  #publishable(bytes: number): MessageResult {
    if (bytes > MAX_BODY_BYTES) return 'too_large';
    if (this.#connection === null) return 'away';
    return this.#isFull(bytes) ? 'full' : 'ok';
  }

  #channel(...parts: readonly string[]): string {
    return this.key(...parts);
  }

  #head(topic: Topic): Buffer {
    let head = this.#heads.get(topic);
    if (head === undefined) this.#heads.set(topic, (head = envelopeHead(this.instance, topic)));
    return head;
  }

  // Commands

  #isFull(bytes: number): boolean {
    return this.#unanswered >= MAX_UNANSWERED || this.#unansweredBytes + bytes > MAX_UNANSWERED_BYTES;
  }

  #answer(args: readonly CommandArgument[], timeoutMs: number): Promise<unknown> {
    const bytes = args.reduce((sum, { length }) => sum + length, 0);
    if (this.#connection === null) return Promise.reject(new ClusterError('away', 'the engine is away'));
    if (this.#isFull(bytes)) return Promise.reject(new ClusterError('full', 'too many commands have no answer yet'));
    const { clock } = this.#deps;
    const { promise, reject, resolve } = Promise.withResolvers<unknown>();
    const timer = clock.setTimeout(() => reject(new ClusterError('timeout', 'no answer in time')), timeoutMs);
    this.#send(args, bytes)
      .finally(() => clock.clearTimeout(timer))
      .then(resolve, reject);
    return promise;
  }

  async #send(args: readonly CommandArgument[], bytes: number): Promise<unknown> {
    const connection = this.#connection;
    if (connection === null) throw new ClusterError('away', 'the engine is away');
    const { clock, observer } = this.#deps;
    const sentMs = clock.now();
    if (this.#unanswered++ === 0) this.#waitingSinceMs = sentMs;
    this.#unansweredBytes += bytes;
    try {
      return await connection.send(args);
    } finally {
      // Counts begin anew with each connection.
      if (connection === this.#connection) {
        this.#unanswered--;
        this.#unansweredBytes -= bytes;
        this.#waitingSinceMs = clock.now();
        observer.answered(this.#waitingSinceMs - sentMs);
      }
    }
  }
}
