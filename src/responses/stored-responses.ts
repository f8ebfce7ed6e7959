// Stored responses as one thread that serves requests sees them: puts without an answer, and questions with a deadline. It also tells
// background responses of this thread that somebody has cancelled them.

import { setImmediate } from 'node:timers/promises';
import { ask, type Ref, type System } from '../actor/index.ts';
import type {
  ResponseEnd,
  ResponseEvents,
  ResponseKey,
  ResponseRecord,
  ResponseSize,
  StoredResponse,
} from '../billing/index.ts';
import { arrayItemsOf, itemNameOf } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import { TurnQueue } from '../routing/index.ts';
import {
  type Begun,
  type ConversationPart,
  type Followed,
  type Found,
  type FoundInput,
  isRunning,
  READ_BYTES,
  READ_RESPONSES,
  type Resolved,
  type ResponseStoreCommand,
  type RunnerCommand,
  sizeOfAll,
} from './response-store.ts';

/** A response that is not found is looked for again for 600 ms; the rest is for the store. */
const READ_MS = 5000;

/** A follower is answered after 10 s at the latest. */
const FOLLOW_MS = 15_000;

/**
 * What is read at a time in this thread. A read may bring megabytes, which take this thread and that of the store some milliseconds each:
 * another account waits for so many of one account at most.
 */
const READING = { places: 64, placesOf: () => 2, waiting: 10_000, waitingOfKey: 1000, waitMs: 30_000 };

export interface StoredResponsesDeps {
  readonly system: System;
  readonly ref: Ref<ResponseStoreCommand>;
  readonly memory: SharedArrayBuffer;
  readonly thread: number;
}

/** Earlier items of a request, or why there are none; see `Resolved`. */
export type Earlier =
  | {
      readonly kind: 'found';
      /** Oldest first. */
      readonly parts: readonly ConversationPart[];
      /** JSON texts of the items that were asked for and are there, by their ids. */
      readonly items: Readonly<Record<string, string>>;
    }
  | Exclude<Resolved, { readonly kind: 'found' }>;

/** Who reads earlier items. */
export interface ItemReader {
  /** Takes memory for so many bytes of items, before they are read. May throw. */
  reserve(bytes: number): void;
  /** Nobody wants them any more. */
  readonly isGone: boolean;
}

export class StoredResponses {
  readonly #store: Ref<ResponseStoreCommand>;
  readonly #full: Int32Array;
  readonly #thread: number;
  readonly #runner: Ref<RunnerCommand>;
  readonly #turns: TurnQueue;
  /** What is called when a background response of this thread is cancelled, by id and account. */
  readonly #cancels = new Map<string, () => void>();
  /** What is called when the store has the end of one, or does not take it, by id and account. */
  readonly #ends = new Map<string, (counts: boolean) => void>();

  constructor({ memory, ref, system, thread }: StoredResponsesDeps) {
    this.#store = ref;
    this.#full = new Int32Array(memory);
    this.#thread = thread;
    this.#turns = new TurnQueue(READING, system.clock);
    const runner = (): ((command: RunnerCommand) => void) => (command) => this.#run(command);
    this.#runner = system.spawn<RunnerCommand>(runner, { name: `responses-${thread}` });
  }

  #run(command: RunnerCommand): void {
    const name = nameOf(command.key);
    if (command.type === 'Cancel') {
      this.#cancels.get(name)?.();
      return;
    }
    const told = this.#ends.get(name);
    this.#ends.delete(name);
    told?.(command.counts);
  }

  /** The thread ends, and hears no more of the store: what has ended here is taken as written. */
  close(): void {
    for (const told of this.#ends.values()) told(true);
    this.#ends.clear();
  }

  /** Whether the store takes responses; false while too much waits for it. */
  get isOpen(): boolean {
    return Atomics.load(this.#full, 0) === 0;
  }

  /** Stores a finished response. To be called before its last bytes leave: then the next request finds it. */
  put(record: ResponseRecord): void {
    this.#store.tell({ type: 'Put', record });
  }

  /** The response was not delivered after all, or does not run. */
  forget({ account, createdMs, id }: Pick<ResponseRecord, 'account' | 'createdMs' | 'id'>): void {
    this.#store.tell({ type: 'Forget', key: { account, id }, createdMs });
  }

  /**
   * The items of a conversation and single ones; null when the reader is gone. They are read some at a time: the control plane does other
   * work between, and holds none of them. Rejects with 503 when the store does not answer.
   */
  async resolve(
    question: {
      readonly account: string;
      readonly previous: string | null;
      readonly items: readonly string[];
      readonly bytes: number;
    },
    reader: ItemReader,
  ): Promise<Earlier | null> {
    const answer = await this.#ask<Resolved>((replyTo) => ({ type: 'Resolve', ...question, replyTo }));
    if (answer.kind === 'away') throw new HeadraceError('HR_RESPONSE_UNAVAILABLE');
    if (answer.kind !== 'found' || reader.isGone) return answer.kind === 'found' ? null : answer;
    const { account } = question;
    reader.reserve(sizeOfAll(answer.parts) + sizeOfAll(answer.holders));
    const parts: ConversationPart[] = [];
    for (const ids of pieces(answer.parts)) {
      const read = await this.#read(account, ids, true);
      if (reader.isGone) return null;
      for (const part of read) {
        // Deleted meanwhile.
        if (part === null) return { kind: 'broken' };
        parts.push(part);
      }
    }
    const items: Record<string, string> = {};
    const wanted = new Set(question.items);
    for (const ids of pieces(answer.holders)) {
      const read = await this.#read(account, ids, false);
      if (reader.isGone) return null;
      for (const item of read.flatMap((part) => arrayItemsOf(Buffer.from(part?.output ?? '[]')))) {
        const { id } = itemNameOf(item);
        if (wanted.has(id)) items[id] = item;
      }
    }
    return { kind: 'found', parts, items };
  }

  async #read(
    account: string,
    ids: readonly string[],
    wantsInput: boolean,
  ): Promise<readonly (ConversationPart | null)[]> {
    const read = await this.#inTurn(account, () =>
      this.#ask<readonly (ConversationPart | null)[] | 'away'>((replyTo) => ({
        ...{ type: 'Read', account, ids, wantsInput, replyTo },
      })),
    );
    if (read === 'away') throw new HeadraceError('HR_RESPONSE_UNAVAILABLE');
    // Where both planes are in one thread, other requests have their turn.
    await setImmediate();
    return read;
  }

  /** Rejects with 404 or 503. */
  async find(key: ResponseKey): Promise<StoredResponse> {
    return await this.#look<StoredResponse>(key, (again, replyTo) => ({ type: 'Find', key, again, replyTo }));
  }

  /** JSON array of the input items of a response. Rejects with 404 or 503. */
  async inputOf(key: ResponseKey): Promise<string> {
    const { input } = await this.#look<FoundInput>(key, (again, replyTo) => ({
      ...{ type: 'FindInput', key, again, replyTo },
    }));
    return input;
  }

  /** Cancels a background response that runs, on whatever gateway; answers with how it is then. Rejects with 404 or 503. */
  async cancel(key: ResponseKey): Promise<StoredResponse> {
    const found = await this.find(key);
    if (!isRunning(found)) return found;
    return present(key, await this.#ask<Found>((replyTo) => ({ type: 'Cancel', key, replyTo })));
  }

  /** Rejects with 404 or 503. */
  async remove(key: ResponseKey): Promise<void> {
    const answer = await this.#ask<'deleted' | 'unknown' | 'away'>((replyTo) => ({ type: 'Delete', key, replyTo }));
    if (answer === 'away') throw new HeadraceError('HR_RESPONSE_UNAVAILABLE');
    if (answer === 'unknown') throw unknownResponse(key.id);
  }

  /**
   * Events with higher numbers: those that are there, by the turn of the account; or with `waits`, as soon as there are some, and none after
   * a while. Rejects with 404 or 503.
   */
  async follow(
    key: ResponseKey,
    after: number,
    waits: boolean,
  ): Promise<Extract<Followed, { readonly kind: 'events' }>> {
    const look = (): Promise<Followed> =>
      this.#ask<Followed>((replyTo) => ({ type: 'Follow', key, after, waits, replyTo }), FOLLOW_MS);
    const answer = await (waits ? look() : this.#inTurn(key.account, look));
    if (answer.kind === 'events') return answer;
    throw answer.kind === 'unknown' ? unknownResponse(key.id) : new HeadraceError('HR_RESPONSE_UNAVAILABLE');
  }

  /** Begins a background response; `onCancel` is called when it is to stop. Rejects with 429 or 503. */
  async begin(record: ResponseRecord, hasEvents: boolean, onCancel: () => void): Promise<void> {
    const name = nameOf(record);
    this.#cancels.set(name, onCancel);
    const thread = this.#thread;
    const runner = this.#runner;
    const begin = (replyTo: Ref<Begun>): ResponseStoreCommand => ({
      ...{ type: 'Begin', record, hasEvents, thread, runner, replyTo },
    });
    const answer = await this.#ask(begin).catch((error: unknown) => {
      this.#cancels.delete(name);
      // It may yet be begun, and nobody would run it.
      this.forget(record);
      throw error;
    });
    if (answer === 'begun') return;
    this.#cancels.delete(name);
    if (answer === 'away') throw new HeadraceError('HR_RESPONSE_UNAVAILABLE');
    const subject = answer === 'account' ? 'those of this account' : 'those of all accounts together';
    throw new HeadraceError('HR_RESPONSE_BACKGROUND', { subject });
  }

  progress(key: ResponseKey, response: string): void {
    this.#store.tell({ type: 'Progress', key, response });
  }

  events(events: ResponseEvents): void {
    this.#store.tell({ type: 'Events', events });
  }

  /**
   * A background response has ended. `told` is called once: with false when this end does not count, since somebody has cancelled or
   * deleted the response before, or since the store did not take it.
   */
  end(end: ResponseEnd, told: (counts: boolean) => void): void {
    const name = nameOf(end);
    this.#cancels.delete(name);
    this.#ends.set(name, told);
    this.#store.tell({ type: 'End', end, runner: this.#runner });
  }

  /** A background response was cancelled and has stopped. */
  stopped(key: ResponseKey): void {
    this.#cancels.delete(nameOf(key));
  }

  /** What is not there at once may be on its way: it is waited for outside of the account's turn. */
  async #look<Answer extends object>(
    key: ResponseKey,
    message: (again: boolean, replyTo: Ref<Answer | null | 'away'>) => ResponseStoreCommand,
  ): Promise<Answer> {
    const look = (again: boolean): Promise<Answer | null | 'away'> =>
      this.#ask<Answer | null | 'away'>((replyTo) => message(again, replyTo));
    const found = await this.#inTurn(key.account, () => look(false));
    return present(key, found ?? (await look(true)));
  }

  /** Rejects with 503 when too much is waiting. */
  async #inTurn<Answer>(account: string, read: () => Promise<Answer>): Promise<Answer> {
    const turn = await this.#turns.enter(account);
    if (turn !== 'place') throw new HeadraceError('HR_OVERLOADED', { subject: 'reads of stored responses' });
    try {
      return await read();
    } finally {
      this.#turns.leave(account);
    }
  }

  async #ask<Answer>(
    message: (replyTo: Ref<Answer>) => ResponseStoreCommand,
    timeoutMs: number = READ_MS,
  ): Promise<Answer> {
    try {
      return await ask<ResponseStoreCommand, Answer>(this.#store, message, { timeoutMs });
    } catch (cause) {
      throw new HeadraceError('HR_RESPONSE_UNAVAILABLE', { cause });
    }
  }
}

/** What is asked for at a time. */
function* pieces(responses: readonly ResponseSize[]): Generator<string[]> {
  let ids: string[] = [];
  let sum = 0;
  for (const { bytes, id } of responses) {
    if (ids.length === READ_RESPONSES || (ids.length > 0 && sum + bytes > READ_BYTES)) {
      yield ids;
      ids = [];
      sum = 0;
    }
    ids.push(id);
    sum += bytes;
  }
  if (ids.length > 0) yield ids;
}

/** 404 for a response that is not there, or not of this account. */
export function unknownResponse(id: string): HeadraceError {
  return new HeadraceError('HR_RESPONSE_UNKNOWN', { subject: `'${id.slice(0, 128)}'` });
}

function present<T extends object>({ id }: ResponseKey, found: T | null | 'away'): T {
  if (found === 'away') throw new HeadraceError('HR_RESPONSE_UNAVAILABLE');
  if (found === null) throw unknownResponse(id);
  return found;
}

function nameOf({ account, id }: ResponseKey): string {
  return `${id}\n${account}`;
}
