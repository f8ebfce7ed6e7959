// The indexes of folders for all threads of a gateway: the actor before the index thread, and the client that threads ask it by.

import { ask, type Behavior, MailboxFullError, type Ref, type System, TerminatedError } from '../../../actor/index.ts';
import { EngineError, type EngineFailure, type EngineHit, type EngineQuery, ReasonedError } from '../../engine.ts';
import type { IndexedFolderSettings, LocalIndexes } from '../local.ts';
import { IndexThread, MAX_QUERIES } from './index-thread.ts';

/** How a query ended. Plain data: errors lose their class between threads. */
type IndexReply =
  | { readonly hits: readonly EngineHit[] }
  | { readonly failure: EngineFailure; readonly reason: string };

export type IndexesCommand =
  | {
      readonly type: 'Find';
      /** Unique among all threads. */
      readonly id: string;
      readonly folder: IndexedFolderSettings;
      readonly query: EngineQuery;
      readonly replyTo: Ref<IndexReply>;
    }
  /** The client of query `id` has left. */
  | { readonly type: 'Abort'; readonly id: string }
  | { readonly type: 'Keep'; readonly folders: readonly IndexedFolderSettings[] };

const MAILBOX = { capacity: 4 * MAX_QUERIES, overflow: 'drop-new' } as const;

/** Longer than any search. */
const TIMEOUT_MS = 120_000;

function indexes(thread: IndexThread): Behavior<IndexesCommand> {
  return () => {
    const queries = new Map<string, AbortController>();
    const find = async ({ folder, id, query, replyTo }: Extract<IndexesCommand, { type: 'Find' }>): Promise<void> => {
      const controller = new AbortController();
      queries.set(id, controller);
      try {
        replyTo.tell({ hits: await thread.find(folder, query, controller.signal) });
      } catch (error) {
        const { failure, reason } = error instanceof EngineError ? error : new EngineError('invalid');
        replyTo.tell({ failure, reason });
      }
      queries.delete(id);
    };
    return {
      receive(command) {
        if (command.type === 'Find') void find(command);
        else if (command.type === 'Abort') queries.get(command.id)?.abort();
        else thread.keep(command.folders);
      },
    };
  };
}

/** The index thread of a gateway, with its actor. */
export class IndexService {
  readonly ref: Ref<IndexesCommand>;
  readonly #thread: IndexThread;

  constructor(system: System, onNotice: (sentence: string) => void) {
    this.#thread = new IndexThread({ onNotice });
    this.ref = system.spawn(indexes(this.#thread), { name: 'indexes', mailbox: MAILBOX });
  }

  /** Reads these folders and forgets all others. */
  keep(folders: readonly IndexedFolderSettings[]): void {
    this.ref.tell({ type: 'Keep', folders });
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

/** Asks the actor, which may be in another thread. */
export class IndexClient implements LocalIndexes {
  readonly #indexes: Ref<IndexesCommand>;
  readonly #name: string;
  #count = 0;

  /** `name` is unique among the threads. */
  constructor(ref: Ref<IndexesCommand>, name: string) {
    this.#indexes = ref;
    this.#name = name;
  }

  async find(folder: IndexedFolderSettings, query: EngineQuery, signal: AbortSignal): Promise<readonly EngineHit[]> {
    signal.throwIfAborted();
    const id = `${this.#name}/${++this.#count}`;
    const leave = (): void => this.#indexes.tell({ type: 'Abort', id });
    signal.addEventListener('abort', leave, { once: true });
    try {
      const message = (replyTo: Ref<IndexReply>): IndexesCommand => ({ type: 'Find', id, folder, query, replyTo });
      const reply = await ask<IndexesCommand, IndexReply>(this.#indexes, message, { timeoutMs: TIMEOUT_MS });
      signal.throwIfAborted();
      if ('hits' in reply) return reply.hits;
      throw new ReasonedError(reply.failure, reply.reason);
    } catch (error) {
      if (error instanceof MailboxFullError) throw new ReasonedError('rejected', 'index busy');
      if (error instanceof TerminatedError) throw new ReasonedError('rejected', 'cancelled');
      throw error;
    } finally {
      signal.removeEventListener('abort', leave);
    }
  }
}
