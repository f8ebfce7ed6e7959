// A thread that reads a SQLite file: one snapshot at a time, whose rows come some at a time. The thread starts when it is made and keeps the
// process alive while it reads.

import { Worker } from 'node:worker_threads';
import type { Cell, Lookup, Reads, Row } from './database.ts';
import { LedgerError } from './ledger.ts';

/** Rows of one message: the thread that receives them takes about a millisecond for it. */
export const READER_ROWS = 500;

/** `more`: the next rows of the statement. `close`: ends the thread. */
export type ReaderRequest = { readonly sql: string; readonly params: readonly Cell[] } | 'more' | 'close';

export type ReaderReply =
  | { readonly kind: 'rows'; readonly rows: readonly Row[]; readonly isLast: boolean }
  | { readonly kind: 'failed'; readonly error: unknown };

export class SqliteReader implements Reads {
  readonly #worker: Worker;
  readonly #exited: Promise<void>;
  /** The one request that is under way. */
  #waiting: PromiseWithResolvers<ReaderReply> | null = null;
  #ended: Error | null = null;

  constructor(file: string) {
    this.#worker = new Worker(new URL('../../../workers/sqlite-reader.js', import.meta.url), { workerData: file });
    this.#worker.unref();
    this.#worker.on('message', (reply: ReaderReply) => {
      const waiting = this.#waiting;
      this.#waiting = null;
      waiting?.resolve(reply);
    });
    this.#worker.on('error', (error: Error) => this.#end(error));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#exited = promise;
    this.#worker.once('exit', (code) => {
      this.#end(new Error(`The thread that reads the ledger ended with ${code}`));
      resolve();
    });
  }

  /** False: it answers no more. */
  get isOpen(): boolean {
    return this.#ended === null;
  }

  /** Reads that all see the same moment; the caller begins another snapshot after it. */
  async snapshot<T>(work: (session: Reads) => Promise<T>): Promise<T> {
    this.#worker.ref();
    try {
      await this.all('begin');
      return await work(this);
    } finally {
      if (this.isOpen) {
        await this.all('rollback');
        this.#worker.unref();
      }
    }
  }

  async all(sql: string, params: readonly Cell[] = []): Promise<Row[]> {
    const rows: Row[] = [];
    for (let request: ReaderRequest = { sql, params }; ; request = 'more') {
      const reply = await this.#ask(request);
      if (reply.kind === 'failed') throw reply.error;
      rows.push(...reply.rows);
      if (reply.isLast) return rows;
    }
  }

  find({ sqlite }: Lookup, keys: readonly string[]): Promise<Row[]> {
    return this.all(sqlite, [JSON.stringify(keys)]);
  }

  /** Fails what is under way. A statement that runs ends first. */
  async close(): Promise<void> {
    this.#end(new LedgerError('closed', 'The ledger is closed'));
    this.#worker.postMessage('close' satisfies ReaderRequest);
    this.#worker.ref();
    await this.#exited;
  }

  #ask(request: ReaderRequest): Promise<ReaderReply> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    this.#waiting = Promise.withResolvers();
    this.#worker.postMessage(request);
    return this.#waiting.promise;
  }

  #end(error: Error): void {
    this.#ended ??= error;
    this.#waiting?.reject(this.#ended);
    this.#waiting = null;
  }
}
