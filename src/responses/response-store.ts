// Responses between the threads that serve requests and the store: one actor of the control plane. Changes are written in batches and
// no request waits for them; what waits is found by reads as if it were written. Queue and answers are bounded in bytes. A response
// that runs in the background is renewed here by a lease, ends once, and can be followed from any thread and any gateway.

import { setImmediate } from 'node:timers/promises';
import type { Behavior, Clock, Context, Ref } from '../actor/index.ts';
import type {
  ConversationLink,
  Ledger,
  ResponseChange,
  ResponseEnd,
  ResponseEvents,
  ResponseKey,
  ResponseRecord,
  ResponseRecords,
  ResponseSize,
  ResponseState,
  StoredResponse,
} from '../billing/index.ts';
import { joinedResponse, withMembers } from '../dialect/index.ts';
import type { ResponseMetrics } from '../telemetry/response-metrics.ts';
import { RecurringProblem } from '../telemetry/recurring-problem.ts';
import { numberedEvent } from './numbered-event.ts';

/** One response of a conversation: JSON arrays of its input items and of its output items. */
export interface ConversationPart {
  readonly input: string;
  readonly output: string;
}

/** What became of the question for earlier items. */
export type Resolved =
  | {
      readonly kind: 'found';
      /** The conversation, oldest first. */
      readonly parts: readonly ResponseSize[];
      /** Responses whose outputs have items that were asked for. */
      readonly holders: readonly ResponseSize[];
    }
  /** `broken`: a link of the conversation is gone. `running`: it has not ended. `long`: beyond the bound. `away`: no answer. */
  | { readonly kind: 'unknown' | 'broken' | 'running' | 'long' | 'away' };

/** Null: there is none. `away`: the store does not answer. */
export type Found = StoredResponse | null | 'away';

/** Its input items as a JSON array. */
export interface FoundInput {
  readonly input: string;
}

export type Begun = 'begun' | 'account' | 'gateway' | 'away';

/**
 * What a follower of events gets. `kept`: they are in the store; others may yet be refused. `ended`: nothing will come behind them, and the
 * last one, if there is any, is the end that is kept, not behind `after`.
 */
export type Followed =
  | {
      readonly kind: 'events';
      readonly batches: readonly ResponseEvents[];
      readonly kept: boolean;
      readonly ended: boolean;
    }
  | { readonly kind: 'unknown' | 'away' };

/** What the thread of a background response is told. */
export type RunnerCommand =
  | { readonly type: 'Cancel'; readonly key: ResponseKey }
  /** `counts`: the response has ended as the thread has said; not when it was ended before, or is gone, or could not be written. */
  | { readonly type: 'Ended'; readonly key: ResponseKey; readonly counts: boolean };

export type ResponseStoreCommand =
  /** A finished response that is about to be delivered. */
  | { readonly type: 'Put'; readonly record: ResponseRecord }
  /** It was not delivered after all. Another one with its id, of a server that gives ids twice, stays. */
  | { readonly type: 'Forget'; readonly key: ResponseKey; readonly createdMs: number }
  /** Asks where the conversation that ends with `previous`, and single items are. They are read some at a time. */
  | {
      readonly type: 'Resolve';
      readonly account: string;
      readonly previous: string | null;
      readonly items: readonly string[];
      /** Most bytes of all items. */
      readonly bytes: number;
      readonly replyTo: Ref<Resolved>;
    }
  /** At most `READ_RESPONSES` and about `READ_BYTES`. Answered in their order; null: it is gone. */
  | {
      readonly type: 'Read';
      readonly account: string;
      readonly ids: readonly string[];
      readonly wantsInput: boolean;
      readonly replyTo: Ref<readonly (ConversationPart | null)[] | 'away'>;
    }
  /** `again`: it was not there a moment ago, and is waited for; else it is looked for once. */
  | { readonly type: 'Find'; readonly key: ResponseKey; readonly again: boolean; readonly replyTo: Ref<Found> }
  | {
      readonly type: 'FindInput';
      readonly key: ResponseKey;
      readonly again: boolean;
      readonly replyTo: Ref<FoundInput | null | 'away'>;
    }
  | { readonly type: 'Delete'; readonly key: ResponseKey; readonly replyTo: Ref<'deleted' | 'unknown' | 'away'> }
  | {
      readonly type: 'Begin';
      readonly record: ResponseRecord;
      readonly hasEvents: boolean;
      readonly thread: number;
      readonly runner: Ref<RunnerCommand>;
      readonly replyTo: Ref<Begun>;
    }
  | { readonly type: 'Progress'; readonly key: ResponseKey; readonly response: string }
  | { readonly type: 'Events'; readonly events: ResponseEvents }
  | { readonly type: 'End'; readonly end: ResponseEnd; readonly runner: Ref<RunnerCommand> }
  | { readonly type: 'Cancel'; readonly key: ResponseKey; readonly replyTo: Ref<Found> }
  /** `waits`: for events, where there are none; else it is answered at once. */
  | {
      readonly type: 'Follow';
      readonly key: ResponseKey;
      readonly after: number;
      readonly waits: boolean;
      readonly replyTo: Ref<Followed>;
    }
  | { readonly type: 'ThreadGone'; readonly thread: number }
  | { readonly type: 'Configure'; readonly settings: ResponseStoreSettings }
  /** Answered when what has arrived is written or given up. */
  | { readonly type: 'Flush'; readonly replyTo: Ref<'flushed'> }
  | { readonly type: 'Write' }
  | { readonly type: 'Renew' }
  | { readonly type: 'Sweep' };

export interface ResponseStoreSettings {
  readonly ttlMs: number;
  readonly accountBytes: number;
  readonly background: number;
  readonly backgroundPerAccount: number;
}

export interface ResponseStoreDeps {
  /** Null while it is opening. */
  readonly ledger: () => Pick<Ledger, 'responses' | 'dateMs'> | null;
  /** From `createResponseMemory`. */
  readonly memory: SharedArrayBuffer;
  /** Names this gateway among those that share the store. */
  readonly holder: string;
  readonly settings: ResponseStoreSettings;
  /** Other gateways may have the store too. */
  readonly isShared: boolean;
  readonly metrics: ResponseMetrics;
  readonly onProblem: (error: unknown, what: string) => void;
  /** A problem that has come again and again is over. */
  readonly onOver?: (what: string) => void;
}

/** Changes that wait for the store, in bytes. Beyond this, responses are answered and not stored. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;

/** What is read of a conversation at a time: some milliseconds of this thread. A longer response is read alone. */
export const READ_BYTES: number = 1024 * 1024;
export const READ_RESPONSES = 500;

/** A transaction: commits of the ledger on the same database wait no longer than some tens of milliseconds. */
const BATCH_CHANGES = 200;
const BATCH_BYTES = 8 * 1024 * 1024;

/** Shortest time between the starts of two transactions. */
const LINGER_MS = 20;

const RETRY_MS = 1000;

/** Most responses of a conversation: a request with so many turns is beyond every context window. */
const MAX_LINKS = 4096;

/** The same where no other gateway has the store: only messages may be on their way. */
const AGAIN_ALONE_MS = [10, 40];

/**
 * Pauses after which a response that is not found, or has not ended, is looked for again: it may have been delivered a moment ago, by
 * another thread whose message is on its way, or by another gateway whose transaction is. A client of an id that nobody knows waits for
 * their sum.
 */
const AGAIN_MS = [10, 40, 150, 400];

/** A background response whose gateway has been silent for so long is failed by others. */
const LEASE_MS = 20_000;
const RENEW_MS = 3000;

/** Interval at which expired and lost responses are looked for. */
const SWEEP_MS = 15_000;

/**
 * While the store is away nobody can renew. A gateway notices that within an interval of its sweep, and for so long takes nobody for
 * gone: others renew soon after the store is back.
 */
const SETTLED_MS: number = SWEEP_MS + 2 * RENEW_MS;
const LOST_ROWS = 100;

/** A follower is answered after so long at the latest, and asks again. */
const FOLLOW_MS = 10_000;

/** Interval at which a follower of another gateway's response looks for events. */
const POLL_MS = 100;

/** Rows of events of one answer to a follower. */
const FOLLOW_ROWS = 64;

/** The expiry of a conversation is moved when it is older than this part of the time to live: one write a day, not one a turn. */
const TOUCH_PART = 1 / 30;

/** An account is measured again when it has grown by this part of its bound; evictions leave as much room. */
const GROWTH_PART = 1 / 32;

/** Accounts whose growth is remembered; then the memory begins anew. */
const MAX_MEASURED = 10_000;

/** Memory that tells all threads whether responses are stored at present. */
export function createResponseMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
}

/** A change on its way into the store. */
interface Waiting {
  readonly change: ResponseChange;
  readonly bytes: number;
  readonly done: ((changed: boolean | null) => void) | null;
}

/** A response of this gateway that runs in the background. */
interface Run {
  readonly key: ResponseKey;
  readonly thread: number;
  readonly runner: Ref<RunnerCommand>;
  /** Of its input, and of its events so far. */
  bytes: number;
}

/** Somebody who waits for events. */
interface Follower {
  readonly wake: () => void;
}

/** Events of a response behind a number, and how it is. */
interface Seen {
  readonly pending: readonly ResponseEvents[];
  readonly state: ResponseState | null;
  readonly stored: readonly ResponseEvents[];
}

interface Look {
  readonly seen: Promise<Seen>;
  /** There may be more since. */
  isOld: boolean;
}

export function responseStore(deps: ResponseStoreDeps): Behavior<ResponseStoreCommand> {
  return (context) => new ResponseStore(deps, context);
}

/** One text for each response; accounts may hold any character but a line feed, which no id holds. */
function nameOf({ account, id }: ResponseKey): string {
  return `${id}\n${account}`;
}

class ResponseStore {
  readonly #deps: ResponseStoreDeps;
  readonly #context: Context<ResponseStoreCommand>;
  readonly #clock: Clock;
  readonly #full: Int32Array;
  readonly #againMs: readonly number[];
  #settings: ResponseStoreSettings;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #writing: Promise<void> | null = null;
  #lastMs = -Infinity;
  /** Responses that are to be added and are not written yet, by `nameOf`. */
  readonly #pending = new Map<string, ResponseRecord>();
  /** Events that are not written yet, by `nameOf`. */
  readonly #pendingEvents = new Map<string, ResponseEvents[]>();
  readonly #runs = new Map<string, Run>();
  readonly #followers = new Map<string, Set<Follower>>();
  /** Looks under way, by `nameOf` and the number behind which events are wanted. */
  readonly #looks = new Map<string, Map<number, Look>>();
  /** Responses of other gateways that are looked at soon, by `nameOf`. */
  readonly #polled = new Set<string>();
  /** Settled when the end of a response, which its clients may have by then, is written or given up; by `nameOf`. */
  readonly #ending = new Map<string, Promise<void>>();
  /** Responses whose newest events were dropped, by `nameOf`. */
  readonly #cut = new Set<string>();
  /** Responses whose expiry is about to be moved, by `nameOf`. */
  readonly #touching = new Set<string>();
  /** Bytes that accounts have added since they were measured. */
  readonly #grown = new Map<string, number>();
  readonly #writes: RecurringProblem;
  readonly #renewals: RecurringProblem;

  constructor(deps: ResponseStoreDeps, context: Context<ResponseStoreCommand>) {
    this.#deps = deps;
    this.#context = context;
    this.#clock = context.clock;
    this.#settings = deps.settings;
    this.#full = new Int32Array(deps.memory);
    const { onOver, onProblem } = deps;
    const recurring = (what: string): RecurringProblem =>
      new RecurringProblem(what, { clock: () => this.#clock, onProblem, onOver });
    this.#writes = recurring('responses could not be stored; it is tried again');
    this.#renewals = recurring('background responses could not be renewed; it is tried again');
    this.#againMs = deps.isShared ? AGAIN_MS : AGAIN_ALONE_MS;
    context.timers.every('sweep', SWEEP_MS, { type: 'Sweep' });
    context.timers.every('renew', RENEW_MS, { type: 'Renew' });
  }

  receive(command: ResponseStoreCommand): void {
    switch (command.type) {
      case 'Put':
        this.#put(command.record);
        break;
      case 'Forget':
        this.#forget(command.key, command.createdMs);
        break;
      case 'Resolve':
        this.#answer(command.replyTo, this.#resolve(command), { kind: 'away' });
        break;
      case 'Read':
        this.#answer(command.replyTo, this.#read(command), 'away');
        break;
      case 'Find': {
        const look = (): Promise<StoredResponse | null> => this.#find(command.key);
        this.#answer<Found>(command.replyTo, command.again ? this.#again(look) : look(), 'away');
        break;
      }
      case 'FindInput': {
        const look = (): Promise<FoundInput | null> => this.#findInput(command.key);
        this.#answer<FoundInput | null | 'away'>(command.replyTo, command.again ? this.#again(look) : look(), 'away');
        break;
      }
      case 'Delete':
        this.#answer(command.replyTo, this.#delete(command.key), 'away');
        break;
      case 'Begin':
        this.#begin(command);
        break;
      case 'Progress': {
        const { key, response } = command;
        const bytes = bytesOf(response);
        // The end has what matters, and servers may send any number of them.
        if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) break;
        this.#add({ type: 'progress', key, holder: this.#deps.holder, response }, bytes);
        break;
      }
      case 'Events':
        this.#events(command.events);
        break;
      case 'End': {
        const { account, id, status } = command.end;
        const event = this.#cut.has(nameOf(command.end)) ? endEvent(command.end, `response.${status}`) : null;
        this.#end(command.end, this.#deps.holder, event, (ended) => {
          command.runner.tell({ type: 'Ended', key: { account, id }, counts: ended === true });
        });
        break;
      }
      case 'Cancel':
        this.#answer(command.replyTo, this.#cancel(command.key), 'away');
        break;
      case 'Follow':
        this.#answer(command.replyTo, this.#follow(command), { kind: 'away' });
        break;
      case 'ThreadGone':
        this.#failThread(command.thread);
        break;
      case 'Configure':
        this.#settings = command.settings;
        break;
      case 'Flush':
        void this.#flush().then(() => command.replyTo.tell('flushed'));
        break;
      case 'Write':
        this.#write();
        break;
      case 'Renew':
        this.#renew();
        break;
      case 'Sweep':
        this.#sweep();
        break;
    }
  }

  /** Ends what a thread ran that has ended. */
  #failThread(thread: number): void {
    for (const run of this.#runs.values()) {
      if (run.thread === thread) this.#failRun(run.key, THREAD_GONE);
    }
  }

  #failRun(key: ResponseKey, reason: string): void {
    this.#fail(key, this.#deps.holder, reason).catch((error: unknown) =>
      this.#deps.onProblem(error, 'a background response could not be ended'),
    );
  }

  /** Answers with what `work` resolves with; with `away` when it is rejected. */
  #answer<Answer>(replyTo: Ref<Answer>, work: Promise<Answer>, away: Answer): void {
    work.then(
      (answer) => replyTo.tell(answer),
      (error: unknown) => {
        const ledger = this.#deps.ledger();
        // What is wrong in the question alone says nothing about the store.
        if (ledger === null || ledger.responses.isAway(error)) this.#noteAway();
        this.#deps.onProblem(error, 'responses could not be read');
        replyTo.tell(away);
      },
    );
  }

  get #ledger(): Pick<Ledger, 'responses' | 'dateMs'> {
    const ledger = this.#deps.ledger();
    if (ledger === null) throw new Error('the store is not open yet');
    return ledger;
  }

  get #records(): ResponseRecords {
    return this.#ledger.responses;
  }

  #put(record: ResponseRecord): void {
    const bytes = sizeOf(record);
    const name = nameOf(record);
    if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      this.#deps.metrics.notStored('overflow');
      return;
    }
    if (this.#pending.has(name)) {
      this.#deps.metrics.notStored('taken');
      return;
    }
    this.#pending.set(name, record);
    this.#add({ type: 'add', record, ttlMs: this.#settings.ttlMs }, bytes, (added) => {
      if (this.#pending.get(name) === record) this.#pending.delete(name);
      if (added !== true) {
        this.#deps.metrics.notStored(added === null ? 'refused' : 'taken');
        return;
      }
      this.#deps.metrics.stored(bytes);
      this.#grow(record.account, bytes);
    });
  }

  #forget(key: ResponseKey, createdMs: number): void {
    const name = nameOf(key);
    if (this.#pending.get(name)?.createdMs === createdMs) this.#pending.delete(name);
    this.#add({ type: 'delete', key, createdMs }, 0);
  }

  /** Adds a change to the queue. `done` gets null when the store refused it for good. */
  #add(change: ResponseChange, bytes: number, done: Waiting['done'] = null): void {
    this.#waiting.push({ change, bytes, done });
    this.#waitingBytes += bytes;
    this.#noteFull();
    this.#write();
  }

  #noteFull(): void {
    Atomics.store(this.#full, 0, this.#waitingBytes > MAX_WAITING_BYTES / 2 ? 1 : 0);
    this.#deps.metrics.waiting(this.#waitingBytes);
  }

  #write(): void {
    if (this.#writing !== null || this.#waiting.length === 0 || this.#context.timers.has('write')) return;
    const restMs = this.#lastMs + LINGER_MS - this.#clock.now();
    if (restMs > 0) {
      this.#context.timers.once('write', Math.ceil(restMs), { type: 'Write' });
      return;
    }
    this.#commit(this.#batch());
  }

  #batch(): Waiting[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#waiting.length && count < BATCH_CHANGES && bytes < BATCH_BYTES) {
      bytes += (this.#waiting[count++] as Waiting).bytes;
    }
    return this.#waiting.slice(0, count);
  }

  #commit(batch: readonly Waiting[]): void {
    const ledger = this.#deps.ledger();
    if (ledger === null) {
      this.#context.timers.once('write', RETRY_MS, { type: 'Write' });
      return;
    }
    this.#lastMs = this.#clock.now();
    this.#writing = ledger.responses
      .apply(batch.map(({ change }) => change))
      .then(
        (changed) => {
          this.#tries = 0;
          this.#writes.succeeded();
          this.#written(batch, changed);
        },
        () => this.#unwritten(ledger.responses, batch),
      )
      .finally(() => {
        this.#writing = null;
        this.#context.self.tell({ type: 'Write' });
      });
  }

  #written(batch: readonly Waiting[], changed: readonly (boolean | null)[]): void {
    this.#waiting = this.#waiting.slice(batch.length);
    for (const [at, { bytes, change, done }] of batch.entries()) {
      this.#waitingBytes -= bytes;
      if (change.type === 'events') this.#dropPendingEvents(change.events);
      done?.(changed[at] ?? null);
    }
    this.#noteFull();
  }

  /** One change that the store refuses does not keep the others from it; a store that is away gets again what it did not take. */
  async #unwritten(records: ResponseRecords, batch: readonly Waiting[]): Promise<void> {
    const changed: (boolean | null)[] = [];
    let error: unknown;
    /** Changes at the end of those so far that were refused by a store that may be away. */
    let away = 0;
    for (const { change } of batch) {
      if (away === AWAY_CHANGES) break;
      try {
        changed.push(...(await records.apply([change])));
        away = 0;
      } catch (thrown) {
        changed.push(null);
        error = thrown;
        away = records.isAway(thrown) ? away + 1 : 0;
      }
    }
    if (changed.length > away) this.#tries = 0;
    if (away > 0) this.#noteAway();
    if (away > 0 && ++this.#tries < MAX_TRIES) {
      this.#writes.failed(error);
      this.#context.timers.once('write', RETRY_MS, { type: 'Write' });
    } else {
      this.#tries = 0;
      away = 0;
    }
    const judged = changed.length - away;
    this.#written(batch.slice(0, judged), changed.slice(0, judged));
  }

  /** Since the store took something. */
  #tries = 0;

  /** When the store did not answer last. */
  #awayMs = -Infinity;

  #noteAway(): void {
    this.#awayMs = this.#clock.now();
  }

  /** Whether gateways that are there would have renewed their leases by now. */
  get #isSettled(): boolean {
    return this.#clock.now() - this.#awayMs >= SETTLED_MS;
  }

  #grow(account: string, bytes: number): void {
    const { accountBytes } = this.#settings;
    const room = accountBytes * GROWTH_PART;
    const grown = (this.#grown.get(account) ?? Infinity) + bytes;
    if (this.#grown.size >= MAX_MEASURED) this.#grown.clear();
    this.#grown.set(account, grown);
    if (grown <= room) return;
    this.#grown.set(account, 0);
    this.#records.evict(account, accountBytes - room).then(
      ({ removed }) => this.#deps.metrics.removed('evicted', removed),
      (error: unknown) => {
        this.#grown.delete(account);
        this.#deps.onProblem(error, 'the responses of an account could not be bounded; it is tried again');
      },
    );
  }

  async #resolve({
    account,
    bytes,
    items,
    previous,
  }: Extract<ResponseStoreCommand, { type: 'Resolve' }>): Promise<Resolved> {
    let parts: ResponseSize[] = [];
    if (previous !== null) {
      let found = await this.#conversation(account, previous, bytes);
      for (const pauseMs of this.#againMs) {
        if (found !== 'unknown' && found !== 'running') break;
        await this.#pause(pauseMs);
        found = await this.#conversation(account, previous, bytes);
      }
      if (typeof found === 'string') return { kind: found };
      parts = found;
    }
    const holders: ResponseSize[] = [];
    if (items.length > 0) {
      holders.push(...(await this.#records.holders(account, items)));
      const wanted = new Set(items);
      for (const { account: owner, id, items: own, output } of this.#pending.values()) {
        if (owner === account && own.some((item) => wanted.has(item))) holders.push({ id, bytes: bytesOf(output) });
      }
    }
    return sizeOfAll(holders) > bytes ? { kind: 'long' } : { kind: 'found', parts, holders };
  }

  async #read({
    account,
    ids,
    wantsInput,
  }: Extract<ResponseStoreCommand, { type: 'Read' }>): Promise<(ConversationPart | null)[]> {
    const found = new Map<string, ConversationPart>();
    const written: string[] = [];
    for (const id of ids) {
      const record = this.#pending.get(nameOf({ account, id }));
      if (record === undefined) written.push(id);
      else found.set(id, { input: wantsInput ? record.input : '', output: record.output });
    }
    const rows = written.length === 0 ? [] : await this.#records.items(account, written, wantsInput);
    for (const { id, input, output } of rows) found.set(id, { input, output });
    return ids.map((id) => found.get(id) ?? null);
  }

  /** The conversation that ends with a response, oldest part first. */
  async #conversation(
    account: string,
    newest: string,
    mostBytes: number,
  ): Promise<ResponseSize[] | Exclude<Resolved['kind'], 'found'>> {
    await this.#ended({ account, id: newest });
    const newestFirst: ResponseSize[] = [];
    const written: ConversationLink[] = [];
    let bytes = 0;
    for (let id: string | null = newest; id !== null;) {
      const record = this.#pending.get(nameOf({ account, id }));
      let links: readonly (ResponseSize & { readonly previous: string | null })[];
      if (record === undefined) {
        // Other requests have their turn between.
        if (written.length > 0) await setImmediate();
        const read = await this.#records.conversation({ account, id }, READ_RESPONSES);
        written.push(...read);
        links = read;
      } else {
        links = [{ id, previous: record.previous, bytes: bytesOf(record.input, record.output) }];
      }
      const oldest = links.at(-1);
      if (oldest === undefined) return newestFirst.length === 0 ? 'unknown' : 'broken';
      for (const link of links) newestFirst.push({ id: link.id, bytes: link.bytes });
      bytes += sizeOfAll(links);
      if (bytes > mostBytes || newestFirst.length > MAX_LINKS) return 'long';
      id = oldest.previous;
    }
    if (written.some(isRunning)) return 'running';
    this.#touch(account, written);
    return newestFirst.reverse();
  }

  /** Keeps a conversation that goes on. */
  #touch(account: string, links: readonly ConversationLink[]): void {
    const { ttlMs } = this.#settings;
    const dueMs = this.#ledger.dateMs() + ttlMs * (1 - TOUCH_PART);
    const isDue = ({ expiresMs, id }: ConversationLink): boolean =>
      expiresMs < dueMs && !this.#touching.has(nameOf({ account, id }));
    const due = links.filter(isDue).map(({ id }) => id);
    for (let from = 0; from < due.length; from += BATCH_CHANGES) {
      const ids = due.slice(from, from + BATCH_CHANGES);
      const names = ids.map((id) => nameOf({ account, id }));
      const bytes = names.reduce((sum, name) => sum + name.length, 0);
      if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) return;
      for (const name of names) this.#touching.add(name);
      this.#add({ type: 'touch', account, ids, ttlMs }, bytes, () => {
        for (const name of names) this.#touching.delete(name);
      });
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.setTimeout(resolve, ms));
  }

  /** Waits for the end of a response that waits to be written, unless the store has not taken what came before. */
  async #ended(key: ResponseKey): Promise<void> {
    if (this.#tries === 0) await this.#ending.get(nameOf(key));
  }

  async #find(key: ResponseKey): Promise<StoredResponse | null> {
    await this.#ended(key);
    return await this.#look(key);
  }

  async #findInput(key: ResponseKey): Promise<FoundInput | null> {
    const input = this.#pending.get(nameOf(key))?.input ?? (await this.#records.input(key));
    return input === undefined ? null : { input };
  }

  /** Waits for what was not found: it may have been delivered a moment ago. */
  async #again<T>(look: () => Promise<T | null>): Promise<T | null> {
    for (const pauseMs of this.#againMs) {
      await this.#pause(pauseMs);
      const found = await look();
      if (found !== null) return found;
    }
    return null;
  }

  /** Followers ask for it with each batch of events. */
  async #state(key: ResponseKey): Promise<ResponseState | null> {
    const state = this.#pending.has(nameOf(key)) ? undefined : await this.#records.state(key);
    return state?.isLost === false ? state : await this.#look(key);
  }

  /** Looks once. A background response whose gateway is gone is failed on the way. */
  async #look(key: ResponseKey): Promise<StoredResponse | null> {
    const pending = this.#pending.get(nameOf(key));
    if (pending !== undefined) {
      const { input: _, items: __, ...record } = pending;
      return { ...record, isBackground: false, hasEvents: false, isLost: false };
    }
    const found = await this.#records.find(key);
    // A lease of one's own that has run out, as while the store was away, is renewed.
    if (found?.isLost !== true || this.#runs.has(nameOf(key)) || !this.#isSettled) return found ?? null;
    await this.#fail(key, null, GATEWAY_GONE);
    return (await this.#records.find(key)) ?? null;
  }

  async #delete(key: ResponseKey): Promise<'deleted' | 'unknown'> {
    await this.#ended(key);
    const state = (await this.#state(key)) ?? (await this.#again(() => this.#state(key)));
    if (state === null) return 'unknown';
    const name = nameOf(key);
    this.#pending.delete(name);
    // False: somebody else was first, or this is a repeat, where the answer to the commit was lost.
    if (await this.#change({ type: 'delete', key, createdMs: null })) this.#deps.metrics.removed('deleted', 1);
    this.#runs.get(name)?.runner.tell({ type: 'Cancel', key });
    this.#over(name);
    this.#wake(name);
    return 'deleted';
  }

  /** Resolves when the change is made. */
  #change(change: ResponseChange, bytes = 0): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.#add(change, bytes, (changed) => {
        if (changed === null) reject(new Error('the store has refused a change'));
        else resolve(changed);
      });
    });
  }

  #begin({ hasEvents, record, replyTo, runner, thread }: Extract<ResponseStoreCommand, { type: 'Begin' }>): void {
    const { background, backgroundPerAccount, ttlMs } = this.#settings;
    const { account, id } = record;
    let own = 0;
    for (const run of this.#runs.values()) if (run.key.account === account) own++;
    const isFull = Atomics.load(this.#full, 0) === 1 || this.#deps.ledger() === null || this.#tries > BRIEF_TRIES;
    if (isFull || own >= backgroundPerAccount || this.#runs.size >= background) {
      replyTo.tell(isFull ? 'away' : own >= backgroundPerAccount ? 'account' : 'gateway');
      return;
    }
    const name = nameOf(record);
    const bytes = sizeOf(record);
    this.#runs.set(name, { key: { account, id }, thread, runner, bytes });
    this.#deps.metrics.running(this.#runs.size);
    const { holder } = this.#deps;
    this.#change({ type: 'begin', record, ttlMs, holder, leaseMs: LEASE_MS, hasEvents }, bytes).then(
      (begun) => {
        if (!begun) this.#over(name);
        replyTo.tell(begun ? 'begun' : 'away');
      },
      () => {
        this.#over(name);
        replyTo.tell('away');
      },
    );
  }

  #events(events: ResponseEvents): void {
    const name = nameOf(events);
    const bytes = bytesOf(events.data);
    // The last event has the whole response: it is written with its end then.
    if (this.#waitingBytes + bytes > MAX_WAITING_BYTES) {
      this.#cut.add(name);
      return;
    }
    this.#cut.delete(name);
    const pending = this.#pendingEvents.get(name);
    if (pending === undefined) this.#pendingEvents.set(name, [events]);
    else pending.push(events);
    const run = this.#runs.get(name);
    if (run !== undefined) run.bytes += bytes;
    this.#add({ type: 'events', events }, bytes);
    this.#wake(name);
  }

  #dropPendingEvents(events: ResponseEvents): void {
    const name = nameOf(events);
    const left = this.#pendingEvents.get(name)?.filter((each) => each !== events) ?? [];
    if (left.length === 0) this.#pendingEvents.delete(name);
    else this.#pendingEvents.set(name, left);
  }

  /** `done` hears whether this was the end of it. */
  #end(
    end: ResponseEnd,
    holder: string | null,
    event: ((number: number) => string) | null,
    done: (ended: boolean | null) => void,
  ): void {
    const name = nameOf(end);
    const bytes = bytesOf(end.output, end.response);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#ending.set(name, promise);
    this.#add({ type: 'end', end, holder, event }, bytes, (ended) => {
      if (this.#ending.get(name) === promise) this.#ending.delete(name);
      resolve();
      if (ended === true) {
        this.#deps.metrics.ended(end.status);
        // What another gateway ran is not known here.
        this.#grow(end.account, bytes + (this.#runs.get(name)?.bytes ?? Infinity));
      }
      this.#over(name);
      this.#wake(name);
      done(ended);
    });
  }

  #over(name: string): void {
    this.#runs.delete(name);
    this.#cut.delete(name);
    this.#deps.metrics.running(this.#runs.size);
  }

  /** Ends a response that does not run any more. `holder`: only while that one has it. */
  async #fail(key: ResponseKey, holder: string | null, reason: string): Promise<void> {
    const found = await this.#records.find(key);
    if (found === undefined || !isRunning(found)) return;
    const error = JSON.stringify({ code: 'server_error', message: reason });
    const end = endOf(found, 'failed', { status: '"failed"', error });
    await this.#stop(found, end, holder, 'response.failed');
  }

  /** The event is behind those that the response has: else its stream would end as if all had come. */
  async #stop({ hasEvents }: StoredResponse, end: ResponseEnd, holder: string | null, type: string): Promise<void> {
    await new Promise((resolve) => this.#end(end, holder, hasEvents ? endEvent(end, type) : null, resolve));
  }

  async #cancel(key: ResponseKey): Promise<StoredResponse | null> {
    const found = await this.#find(key);
    if (found === null || !isRunning(found)) return found;
    const end = endOf(found, 'cancelled', { status: '"cancelled"' });
    const run = this.#runs.get(nameOf(key));
    // Official clients know of three events that end a response, and none of them is for this.
    await this.#stop(found, end, null, 'response.incomplete');
    run?.runner.tell({ type: 'Cancel', key });
    return await this.#look(key);
  }

  async #follow({ after, key, waits }: Extract<ResponseStoreCommand, { type: 'Follow' }>): Promise<Followed> {
    const untilMs = this.#clock.now() + (waits ? FOLLOW_MS : 0);
    const name = nameOf(key);
    for (;;) {
      const look = this.#lookBehind(key, after);
      const { pending, state: found, stored } = await look.seen;
      if (found === null) return { kind: 'unknown' };
      if (stored.length > 0) return { kind: 'events', batches: stored, kept: true, ended: false };
      // What still waits of a response that others have ended will be refused.
      if (!isRunning(found)) {
        return { kind: 'events', batches: await this.#stoppedBefore(key, found, after), kept: true, ended: true };
      }
      if (pending.length > 0) return { kind: 'events', batches: pending, kept: false, ended: false };
      if (this.#clock.now() >= untilMs) return { kind: 'events', batches: [], kept: true, ended: false };
      // What came during the look has woken nobody.
      const [newest] = (this.#pendingEvents.get(name) ?? []).slice(-1);
      if (!look.isOld && (newest?.last ?? -1) <= after) await this.#next(name, untilMs);
    }
  }

  /** Looks for events. Followers of a response mostly have the same ones: they are woken together, and one look is for all of them. */
  #lookBehind(key: ResponseKey, after: number): Look {
    const name = nameOf(key);
    const looks = this.#looks.get(name) ?? new Map<number, Look>();
    const known = looks.get(after);
    if (known !== undefined) return known;
    const see = async (): Promise<Seen> => {
      // Before the store is read: what is written meanwhile is in one of the two.
      const pending = (this.#pendingEvents.get(name) ?? []).filter(({ last }) => last > after);
      const state = await this.#state(key);
      const stored = state === null ? [] : await this.#records.eventsAfter(key, after, FOLLOW_ROWS);
      return { pending, state, stored };
    };
    const seen = see().finally(() => {
      if (looks.get(after) === look) looks.delete(after);
      if (looks.size === 0 && this.#looks.get(name) === looks) this.#looks.delete(name);
    });
    const look: Look = { seen, isOld: false };
    looks.set(after, look);
    this.#looks.set(name, looks);
    return look;
  }

  /**
   * The last events of a response that others have ended while its gateway had events that were not written: a client that has got those
   * has the number of the end that is kept, or a later one.
   */
  async #stoppedBefore(key: ResponseKey, { status }: ResponseState, after: number): Promise<readonly ResponseEvents[]> {
    if (status !== 'failed' && status !== 'cancelled') return [];
    const last = await this.#records.lastEvent(key);
    return last >= 0 && last <= after ? await this.#records.eventsAfter(key, last - 1, 1) : [];
  }

  /** Resolves when a response of this gateway has more events; one of another gateway is looked at again after a pause, for all followers. */
  #next(name: string, untilMs: number): Promise<void> {
    if (!this.#runs.has(name) && !this.#polled.has(name)) {
      this.#polled.add(name);
      this.#clock.setTimeout(() => {
        this.#polled.delete(name);
        this.#wake(name);
      }, POLL_MS);
    }
    return new Promise((resolve) => {
      const followers = this.#followers.get(name) ?? new Set();
      this.#followers.set(name, followers);
      const follower: Follower = {
        wake: () => {
          this.#clock.clearTimeout(timer);
          followers.delete(follower);
          if (followers.size === 0 && this.#followers.get(name) === followers) this.#followers.delete(name);
          resolve();
        },
      };
      const timer = this.#clock.setTimeout(follower.wake, Math.max(untilMs - this.#clock.now(), 1));
      followers.add(follower);
    });
  }

  #wake(name: string): void {
    for (const look of this.#looks.get(name)?.values() ?? []) look.isOld = true;
    this.#looks.delete(name);
    for (const follower of [...(this.#followers.get(name) ?? [])]) follower.wake();
  }

  /** Keeps what runs here; what was ended elsewhere is stopped, and what has ended here without the store is failed. */
  #renew(): void {
    const ledger = this.#deps.ledger();
    if (ledger === null) this.#noteAway();
    if (this.#runs.size === 0 || ledger === null) return;
    const before = new Map(this.#runs);
    // A run whose row is not written yet is not one that was ended.
    const begun = new Set(
      this.#waiting.flatMap(({ change }) => (change.type === 'begin' ? [nameOf(change.record)] : [])),
    );
    ledger.responses.renew(this.#deps.holder, LEASE_MS, this.#settings.ttlMs).then(
      (running) => {
        this.#renewals.succeeded();
        const left = new Set(running.map(nameOf));
        for (const [name, { key, runner }] of before) {
          if (left.has(name) || begun.has(name) || this.#runs.get(name) !== before.get(name)) continue;
          runner.tell({ type: 'Cancel', key });
          this.#over(name);
          this.#wake(name);
        }
        for (const key of running) {
          if (!before.has(nameOf(key)) && !this.#runs.has(nameOf(key))) this.#failRun(key, END_REFUSED);
        }
      },
      (error: unknown) => {
        this.#noteAway();
        this.#renewals.failed(error);
      },
    );
  }

  #sweep(): void {
    const ledger = this.#deps.ledger();
    if (ledger === null) {
      this.#noteAway();
      return;
    }
    const swept = async (): Promise<void> => {
      this.#deps.metrics.removed('expired', await ledger.responses.prune());
      if (!this.#isSettled) return;
      for (const key of await ledger.responses.lost(LOST_ROWS)) {
        if (!this.#runs.has(nameOf(key))) await this.#fail(key, null, GATEWAY_GONE);
      }
    };
    swept().catch((error: unknown) => {
      this.#noteAway();
      this.#deps.onProblem(error, 'old responses could not be removed');
    });
  }

  /** Ends when nothing waits, or when the store takes nothing more. */
  async #flush(): Promise<void> {
    for (let before = Infinity; this.#waiting.length > 0 && this.#waiting.length < before;) {
      before = this.#waiting.length;
      if (this.#writing === null) this.#commit(this.#batch());
      await this.#writing;
    }
    if (this.#waiting.length > 0) {
      this.#deps.onProblem(new Error(`${this.#waiting.length} changes`), 'responses are not stored');
    }
  }
}

const GATEWAY_GONE = 'The gateway that ran this response has ended';
const END_REFUSED = 'The end of this response could not be stored';
const THREAD_GONE = 'The thread that ran this response has ended';

/** Changes that a store refuses one after the other before it is taken for away. */
const AWAY_CHANGES = 2;

/** After more tries background responses are refused at once: they could not begin before the store is back. */
const BRIEF_TRIES = 3;

/**
 * Tries of a store that is away, one a second at most: what waits is bounded. There is an end because a store may also refuse for ever
 * what comes alone and is wrong in itself.
 */
const MAX_TRIES = 600;

export function isRunning({ status }: Pick<StoredResponse, 'status'>): boolean {
  return status === 'queued' || status === 'in_progress';
}

function sizeOf({ input, output, response }: ResponseRecord): number {
  return bytesOf(input, output, response);
}

/** As the store counts them. */
function bytesOf(...texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

export function sizeOfAll(responses: readonly ResponseSize[]): number {
  return responses.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** The end of a response that did not end by itself. */
function endOf(
  { account, id, output, response }: StoredResponse,
  status: ResponseEnd['status'],
  members: Readonly<Record<string, string>>,
): ResponseEnd {
  return { account, id, status, output, response: withMembers(Buffer.from(response), members).toString(), items: [] };
}

/** Makes the event with which a response ends, by its number. */
function endEvent(end: ResponseEnd, type: string): (number: number) => string {
  return (number) => numberedEvent(type, null, number, responseOf(end).toString());
}

/** The response object as clients get it. */
export function responseOf({ output, response }: Pick<StoredResponse, 'output' | 'response'>): Buffer {
  return joinedResponse(response, output);
}
