// Responses of the responses dialect in the store: each with the input items that it was the first to have, so that a chain of them is
// a conversation. Owned by an account ('' without keys): no read finds those of another one. A response that runs in the background has
// a holder and a lease by the clock of the database; exactly one change ends it.

import type { Cell, Database, Match, Reads, Row, Session } from './database.ts';
import { accountId } from './ledger.ts';
import { inRounds } from './rounds.ts';
import { insertion, integer, text } from './tables.ts';

/** `queued` and `in_progress`: it runs in the background. */
export type ResponseStatus = 'queued' | 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled';

/** Names one response. */
export interface ResponseKey {
  readonly account: string;
  readonly id: string;
}

/** A response. All JSON is as its writer wrote it. */
export interface ResponseRecord extends ResponseKey {
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  readonly status: ResponseStatus;
  readonly model: string;
  /** Id of the response that it continues. */
  readonly previous: string | null;
  /** JSON array of the new input items. */
  readonly input: string;
  /** JSON array of the output items. */
  readonly output: string;
  /** The response object, with `null` in the place of its output. */
  readonly response: string;
  /** Ids of items that later requests may name by an `item_reference`. */
  readonly items: readonly string[];
}

/** How a response is at the moment. */
export interface ResponseState {
  readonly status: ResponseStatus;
  /** It runs in the background, and its gateway has not renewed its lease in time. */
  readonly isLost: boolean;
}

/** A response as it is found. */
export interface StoredResponse extends Omit<ResponseRecord, 'items' | 'input'>, ResponseState {
  /** It was made to run in the background. */
  readonly isBackground: boolean;
  /** Its events are kept. */
  readonly hasEvents: boolean;
}

/** Events of a response that runs in the background, in the order of their numbers. */
export interface ResponseEvents extends ResponseKey {
  /** Number of the first and of the last one. */
  readonly first: number;
  readonly last: number;
  /** The events as they are sent. */
  readonly data: string;
}

/** How a response ends. */
export interface ResponseEnd extends ResponseKey {
  readonly status: Exclude<ResponseStatus, 'queued' | 'in_progress'>;
  readonly output: string;
  readonly response: string;
  readonly items: readonly string[];
}

export type ResponseChange =
  /** A finished response. One that has this id already stays. */
  | { readonly type: 'add'; readonly record: ResponseRecord; readonly ttlMs: number }
  /** A response that is to run in the background. */
  | {
      readonly type: 'begin';
      readonly record: ResponseRecord;
      readonly ttlMs: number;
      readonly holder: string;
      readonly leaseMs: number;
      readonly hasEvents: boolean;
    }
  | { readonly type: 'events'; readonly events: ResponseEvents }
  | { readonly type: 'progress'; readonly key: ResponseKey; readonly holder: string; readonly response: string }
  /**
   * Done only while it runs. `holder`: and only by its holder, whose repeat of a change that was made counts as made. `event`: the last
   * event, where it has not been written before, with the number that it is given.
   */
  | {
      readonly type: 'end';
      readonly end: ResponseEnd;
      readonly holder: string | null;
      readonly event: ((number: number) => string) | null;
    }
  /** Keeps the responses of a conversation for `ttlMs` from now on. */
  | { readonly type: 'touch'; readonly account: string; readonly ids: readonly string[]; readonly ttlMs: number }
  /** `createdMs`: only the one of that moment; null: whichever has the id. */
  | { readonly type: 'delete'; readonly key: ResponseKey; readonly createdMs: number | null };

/** A response with the bytes that are read of it. */
export interface ResponseSize {
  readonly id: string;
  readonly bytes: number;
}

/** One response of a conversation. `bytes`: of its input and its output. */
export interface ConversationLink extends ResponseSize {
  readonly status: ResponseStatus;
  readonly previous: string | null;
  /** When it is removed unless the conversation goes on, in milliseconds since 1970. */
  readonly expiresMs: number;
}

/** The items of a response: JSON arrays. */
export interface ResponseItems {
  readonly id: string;
  readonly input: string;
  readonly output: string;
}

export interface ResponseCounts {
  readonly responses: number;
  readonly bytes: number;
  /** Those that run in the background. */
  readonly running: number;
}

export interface ResponseRecords {
  /** Makes all changes in one transaction. Answers for each with whether it changed anything. */
  apply(changes: readonly ResponseChange[]): Promise<readonly boolean[]>;
  /** Without its input, which may have many times the length of the rest. */
  find(key: ResponseKey): Promise<StoredResponse | undefined>;
  /** Reads nothing of what the response holds. */
  state(key: ResponseKey): Promise<ResponseState | undefined>;
  /** JSON array of the new input items. */
  input(key: ResponseKey): Promise<string | undefined>;
  /** The response and those before it, the newest first, without their items; at most so many. None: it is not there. */
  conversation(key: ResponseKey, most: number): Promise<ConversationLink[]>;
  /** Responses whose output has one of these items. `bytes`: of their output. */
  holders(account: string, items: readonly string[]): Promise<ResponseSize[]>;
  /** Those of these responses that are there; at most 500. `wantsInput` false: the input is an empty text. */
  items(account: string, ids: readonly string[], wantsInput: boolean): Promise<ResponseItems[]>;
  /** Events with a higher number, in order; at most so many rows. */
  eventsAfter(key: ResponseKey, after: number, rows: number): Promise<ResponseEvents[]>;
  /** Number of the last event; -1: there is none. */
  lastEvent(key: ResponseKey): Promise<number>;
  /** Renews the leases of a holder, and keeps its responses for `ttlMs` from now on; answers with those that still run. */
  renew(holder: string, leaseMs: number, ttlMs: number): Promise<ResponseKey[]>;
  /** Responses whose lease has run out. */
  lost(limit: number): Promise<ResponseKey[]>;
  /** Removes responses that have expired; answers with how many. */
  prune(): Promise<number>;
  /** Removes the oldest ended responses of an account beyond so many bytes; answers with how many, and the bytes that are left. */
  evict(account: string, mostBytes: number): Promise<{ readonly removed: number; readonly bytes: number }>;
  /** Removes all responses of an account; answers with how many. */
  deleteAccount(account: string): Promise<number>;
  /** Whether an error of `apply` says nothing about the changes: the store would refuse every other one, or the same one only now. */
  isAway(error: unknown): boolean;
  /** Of all accounts, or of one. */
  counts(account?: string): Promise<ResponseCounts>;
}

const RUNS = "status in ('queued', 'in_progress')";

/** Others have ended it: its last event is theirs. */
const STOPPED = "status in ('failed', 'cancelled')";

/** PostgreSQL has no text with it. A name that holds it is of nothing that is stored. */
const NUL = '\0';

/** Rows removed in one transaction: a writer waits no longer than some milliseconds. */
const PRUNE_ROWS = 500;

const INSERT = insertion(
  {
    name: 'responses',
    columns: {
      account: 'text',
      id: 'text',
      created_ms: 'bigint',
      expires_ms: 'bigint',
      status: 'text',
      model: 'text',
      previous: 'text',
      input: 'text',
      output: 'text',
      response: 'text',
      bytes: 'bigint',
      holder: 'text',
      lease_ms: 'bigint',
      has_events: 'bigint',
    },
    key: ['account', 'id'],
  },
  { ignore: true },
);

const INSERT_ITEMS = insertion(
  {
    name: 'response_items',
    columns: { account: 'text', item: 'text', response: 'text' },
    key: ['account', 'item'],
  },
  { ignore: true },
);

const INSERT_EVENTS = insertion(
  {
    name: 'response_events',
    columns: { account: 'text', response: 'text', first: 'bigint', last: 'bigint', data: 'text' },
    key: ['account', 'response', 'first'],
  },
  { ignore: true },
);

/** `$1, $2, …` for so many parameters from this one on. */
function params(from: number, count: number): string {
  return Array.from({ length: count }, (_, at) => `$${from + at}`).join(', ');
}

function bytesOf({ input, output, response }: Pick<ResponseRecord, 'input' | 'output' | 'response'>): number {
  return Buffer.byteLength(input) + Buffer.byteLength(output) + Buffer.byteLength(response);
}

/** Finds the responses whose ids are taken. */
const MATCH: Match = {
  columns: ['account', 'id'],
  sqlite: 'select account, id from responses where account = ? and id = ?',
  postgres: `select r.account, r.id from unnest($1::text[], $2::text[]) as k (account, id)
    join responses r using (account, id)`,
};

/** Locks responses that are there, in one order: gateways that lock the same ones in two orders would wait for each other. */
const LOCK: Match = {
  columns: ['account', 'id'],
  sqlite: 'select account, id from responses where account = ? and id = ?',
  postgres: `select account, id from responses where (account, id) in (select * from unnest($1::text[], $2::text[]))
    order by account, id for update`,
};

/** Leaves out what is locked: who removes old responses, in their order, waits for nobody. Later there is another round. */
const SKIPPING = 'for update skip locked';

/** Responses that a change expects to be there. */
function keysOf(change: ResponseChange): readonly ResponseKey[] {
  switch (change.type) {
    case 'add':
    case 'begin':
      return [];
    case 'events':
      return [change.events];
    case 'end':
      return [change.end];
    case 'touch':
      return change.ids.map((id) => ({ account: change.account, id }));
    case 'progress':
    case 'delete':
      return [change.key];
  }
}

/** A response to add. */
interface NewRow {
  readonly record: ResponseRecord;
  readonly ttlMs: number;
  readonly holder: string | null;
  /** Until then, by the clock of the database. */
  readonly leaseMs: number | null;
  readonly hasEvents: boolean;
}

function keyRow({ account, id }: ResponseKey): Row {
  return { account, id };
}

function nameOf(row: Row): string {
  return `${text(row, 'id')}\n${text(row, 'account')}`;
}

function isStorable(name: string): boolean {
  return !name.includes(NUL);
}

function itemRows({ account, id }: ResponseKey, items: readonly string[]): Row[] {
  return items.filter(isStorable).map((item) => ({ account, item, response: id }));
}

function eventRow({ account, data, first, id, last }: ResponseEvents): Row {
  return { account, response: id, first: BigInt(first), last: BigInt(last), data };
}

/** Rows by their account, and this column. */
function inOrder(rows: readonly Row[], column: string): Row[] {
  const nameIn = (row: Row): string => `${text(row, 'account')}\n${text(row, column)}`;
  return [...rows].sort((one, other) => (nameIn(one) < nameIn(other) ? -1 : 1));
}

class StoredResponses implements ResponseRecords {
  readonly #database: Database;
  readonly #dateMs: () => number;

  constructor(database: Database, dateMs: () => number) {
    this.#database = database;
    this.#dateMs = dateMs;
  }

  async apply(changes: readonly ResponseChange[]): Promise<readonly boolean[]> {
    if (changes.length === 0) return [];
    return await this.#database.transaction(async (session) => {
      const keys = session.holdsWriteLock ? [] : changes.flatMap(keysOf).filter(({ id }) => isStorable(id));
      if (keys.length > 1) await session.match(LOCK, keys.map(keyRow));
      const done: boolean[] = [];
      let added: NewRow[] = [];
      // Responses that follow each other are added together: a few statements, however many they are.
      for (const change of changes) {
        if (change.type === 'add') {
          added.push({ record: change.record, ttlMs: change.ttlMs, holder: null, leaseMs: null, hasEvents: false });
          continue;
        }
        if (added.length > 0) done.push(...(await this.#insert(session, added)));
        added = [];
        done.push(await this.#change(session, change));
      }
      if (added.length > 0) done.push(...(await this.#insert(session, added)));
      return done;
    });
  }

  async #change(session: Session, change: Exclude<ResponseChange, { readonly type: 'add' }>): Promise<boolean> {
    switch (change.type) {
      case 'begin': {
        const { hasEvents, holder, record, ttlMs } = change;
        const { account, id } = record;
        const leaseMs = (await session.clockMs()) + change.leaseMs;
        const [isNew] = await this.#insert(session, [{ record, ttlMs, holder, leaseMs, hasEvents }]);
        if (isNew === true) return true;
        // A repeat, where the answer to the commit was lost.
        const own = `select id from responses where account = $1 and id = $2 and holder = $3 and ${RUNS}`;
        return (await session.all(own, [account, id, holder])).length > 0;
      }
      case 'events': {
        // Nothing is kept of a response that was deleted meanwhile, and nothing behind the event with which others have ended it.
        const { account, id } = change.events;
        // Locked: the number of a last event is the next one until its transaction ends. Not changed: SQLite would write the whole row, with
        // its input, for each batch of events.
        const lock = session.holdsWriteLock ? '' : 'for update';
        const sql = `select id from responses where account = $1 and id = $2 and not ${STOPPED} ${lock}`;
        if ((await session.all(sql, [account, id])).length === 0) return false;
        await session.write(INSERT_EVENTS, [eventRow(change.events)]);
        return true;
      }
      case 'progress': {
        const { holder, key, response } = change;
        const sql = `update responses set status = 'in_progress', response = $3
          where account = $1 and id = $2 and holder = $4 and ${RUNS} returning id`;
        return (await session.all(sql, [key.account, key.id, response, holder])).length > 0;
      }
      case 'end': {
        const { account, id, items, output, response, status } = change.end;
        const values: Cell[] = [account, id, status, output, response];
        const bytes = BigInt(Buffer.byteLength(output) + Buffer.byteLength(response));
        const ofHolder = change.holder === null ? '' : ` and holder = $7`;
        const events = `select coalesce(sum(octet_length(data)), 0) from response_events where account = $1 and response = $2`;
        const sql = `update responses
          set status = $3, output = $4, response = $5, bytes = bytes + $6 + (${events}), lease_ms = null
          where account = $1 and id = $2 and ${RUNS}${ofHolder} returning id`;
        const rows = await session.all(sql, [...values, bytes, ...(change.holder === null ? [] : [change.holder])]);
        if (rows.length === 0) {
          if (change.holder === null) return false;
          // A repeat, where the answer to the commit was lost.
          const same = `select id from responses where account = $1 and id = $2 and status = $3 and output = $4 and response = $5
            and holder = $6`;
          return (await session.all(same, [...values, change.holder])).length > 0;
        }
        const added = itemRows(change.end, items);
        if (added.length > 0) await session.write(INSERT_ITEMS, inOrder(added, 'item'));
        if (change.event !== null) {
          const number = (await this.#lastEvent(session, change.end)) + 1;
          const data = change.event(number);
          const longer = 'update responses set bytes = bytes + $3 where account = $1 and id = $2';
          await session.all(longer, [account, id, BigInt(Buffer.byteLength(data))]);
          await session.write(INSERT_EVENTS, [eventRow({ account, id, first: number, last: number, data })]);
        }
        return true;
      }
      case 'touch': {
        const { account, ids, ttlMs } = change;
        const sql = `update responses set expires_ms = $2 where account = $1 and id in (${params(3, ids.length)})`;
        await session.all(sql, [account, BigInt(this.#dateMs() + ttlMs), ...ids]);
        return true;
      }
      case 'delete': {
        const { account, id } = change.key;
        if (!isStorable(id)) return false;
        const { createdMs } = change;
        const ofMoment = createdMs === null ? '' : ' and created_ms = $3';
        const sql = `delete from responses where account = $1 and id = $2${ofMoment} returning id`;
        const values = [account, id, ...(createdMs === null ? [] : [BigInt(createdMs)])];
        return (await session.all(sql, values)).length > 0;
      }
    }
  }

  /** Adds responses; answers for each with whether its id was free and can be stored. */
  async #insert(session: Session, added: readonly NewRow[]): Promise<boolean[]> {
    const taken = new Set(
      (
        await session.match(
          MATCH,
          added.filter(({ record }) => isStorable(record.id)).map(({ record }) => keyRow(record)),
        )
      ).map(nameOf),
    );
    const isNew = added.map(({ record }) => {
      const name = nameOf(keyRow(record));
      if (!isStorable(record.id) || taken.has(name)) return false;
      taken.add(name);
      return true;
    });
    const fresh = added.filter((_, at) => isNew[at]);
    if (fresh.length === 0) return isNew;
    // In one order too: another gateway may add the same ids, of a server that gives them twice.
    await session.write(
      INSERT,
      inOrder(
        fresh.map((row) => this.#rowOf(row)),
        'id',
      ),
    );
    const items = fresh.flatMap(({ record }) => itemRows(record, record.items));
    if (items.length > 0) await session.write(INSERT_ITEMS, inOrder(items, 'item'));
    return isNew;
  }

  #rowOf({ hasEvents, holder, leaseMs, record, ttlMs }: NewRow): Row {
    const { account, createdMs, id, input, model, output, previous, response, status } = record;
    return {
      ...{ account, id, status, model: model.replaceAll(NUL, ''), previous, input, output, response, holder },
      created_ms: BigInt(createdMs),
      expires_ms: BigInt(this.#dateMs() + ttlMs),
      bytes: BigInt(bytesOf(record)),
      lease_ms: leaseMs === null ? null : BigInt(leaseMs),
      has_events: hasEvents ? 1n : 0n,
    };
  }

  get #nowMs(): string {
    return this.#database.dialect.nowMs;
  }

  async find({ account, id }: ResponseKey): Promise<StoredResponse | undefined> {
    const columns = 'created_ms, status, model, previous, output, response, holder, has_events';
    const row = await this.#read(
      { account, id },
      `${columns}, case when ${RUNS} and lease_ms < ${this.#nowMs} then 1 else 0 end as is_lost`,
    );
    if (row === undefined) return undefined;
    return {
      account,
      id,
      createdMs: Number(integer(row, 'created_ms')),
      status: text(row, 'status') as ResponseStatus,
      model: text(row, 'model'),
      previous: (row['previous'] as string | null | undefined) ?? null,
      output: text(row, 'output'),
      response: text(row, 'response'),
      isBackground: row['holder'] !== null,
      hasEvents: BigInt(row['has_events'] ?? 0) === 1n,
      isLost: BigInt(row['is_lost'] ?? 0) === 1n,
    };
  }

  async state(key: ResponseKey): Promise<ResponseState | undefined> {
    // SQLite passes the whole input on its way to a column behind it: leases that have run out are found by their index.
    const lost = `select account, id from responses where ${RUNS} and lease_ms < ${this.#nowMs}`;
    const row = await this.#read(
      key,
      `status, case when ${RUNS} and (account, id) in (${lost}) then 1 else 0 end as is_lost`,
    );
    if (row === undefined) return undefined;
    return { status: text(row, 'status') as ResponseStatus, isLost: BigInt(row['is_lost'] ?? 0) === 1n };
  }

  async input(key: ResponseKey): Promise<string | undefined> {
    const row = await this.#read(key, 'input');
    return row === undefined ? undefined : text(row, 'input');
  }

  async #read({ account, id }: ResponseKey, columns: string): Promise<Row | undefined> {
    if (!isStorable(id)) return undefined;
    const sql = `select ${columns} from responses where account = $1 and id = $2 and expires_ms > $3`;
    const values = [account, id, BigInt(this.#dateMs())];
    const [row] = await this.#database.snapshot((session) => session.all(sql, values));
    return row;
  }

  async conversation({ account, id }: ResponseKey, most: number): Promise<ConversationLink[]> {
    if (!isStorable(id)) return [];
    const { integer: wide } = this.#database.dialect;
    // `octet_length` reads no text.
    const columns = 'r.id, r.previous, r.status, r.expires_ms, octet_length(r.input) + octet_length(r.output)';
    const walk = `with recursive chain (id, previous, status, expires_ms, bytes, depth) as (
        select ${columns}, cast(1 as ${wide}) from responses r where r.account = $1 and r.id = $2 and r.expires_ms > $3
      union all
        select ${columns}, c.depth + 1
        from chain c join responses r on r.account = $1 and r.id = c.previous and r.expires_ms > $3
        where c.depth < $4
      ) select * from chain order by depth`;
    const values = [account, id, BigInt(this.#dateMs()), BigInt(most)];
    return (await this.#database.snapshot((session) => session.all(walk, values))).map(linkOf);
  }

  async holders(account: string, names: readonly string[]): Promise<ResponseSize[]> {
    const items = names.filter(isStorable);
    if (items.length === 0) return [];
    const sql = `select r.id, octet_length(r.output) as bytes from responses r
      where r.account = $1 and r.expires_ms > $2 and r.id in
      (select i.response from response_items i where i.account = $1 and i.item in (${params(3, items.length)}))`;
    const values = [account, BigInt(this.#dateMs()), ...items];
    const rows = await this.#database.snapshot((session) => session.all(sql, values));
    return rows.map((row) => ({ id: text(row, 'id'), bytes: Number(row['bytes']) }));
  }

  async items(account: string, ids: readonly string[], wantsInput: boolean): Promise<ResponseItems[]> {
    const sql = `select id, ${wantsInput ? 'input' : "'' as input"}, output from responses
      where account = $1 and id in (${params(2, ids.length)})`;
    const rows = await this.#database.snapshot((session) => session.all(sql, [account, ...ids]));
    return rows.map((row) => ({ id: text(row, 'id'), input: text(row, 'input'), output: text(row, 'output') }));
  }

  async eventsAfter({ account, id }: ResponseKey, after: number, rows: number): Promise<ResponseEvents[]> {
    const sql = `select first, last, data from response_events
      where account = $1 and response = $2 and last > $3 order by first limit $4`;
    const values = [account, id, BigInt(after), BigInt(rows)];
    return (await this.#database.snapshot((session) => session.all(sql, values))).map((row) => ({
      account,
      id,
      first: Number(integer(row, 'first')),
      last: Number(integer(row, 'last')),
      data: text(row, 'data'),
    }));
  }

  async lastEvent(key: ResponseKey): Promise<number> {
    return await this.#database.snapshot((session) => this.#lastEvent(session, key));
  }

  async #lastEvent(session: Reads, { account, id }: ResponseKey): Promise<number> {
    const sql = 'select max(last) as last from response_events where account = $1 and response = $2';
    const [row] = await session.all(sql, [account, id]);
    return Number(row?.['last'] ?? -1);
  }

  async renew(holder: string, leaseMs: number, ttlMs: number): Promise<ResponseKey[]> {
    const sql = `update responses set lease_ms = ${this.#nowMs} + $1, expires_ms = $3
      where holder = $2 and ${RUNS} returning account, id`;
    const lock = `select id from responses where holder = $1 and ${RUNS} order by account, id for update`;
    const rows = await this.#database.transaction(async (session) => {
      if (!session.holdsWriteLock) await session.all(lock, [holder]);
      return await session.all(sql, [BigInt(leaseMs), holder, BigInt(this.#dateMs() + ttlMs)]);
    });
    return rows.map(keyOf);
  }

  async lost(limit: number): Promise<ResponseKey[]> {
    const sql = `select account, id from responses where ${RUNS} and lease_ms < ${this.#nowMs} order by lease_ms limit $1`;
    return (await this.#database.snapshot((session) => session.all(sql, [BigInt(limit)]))).map(keyOf);
  }

  async prune(): Promise<number> {
    return await this.#deleteRounds('where expires_ms <= $1 order by expires_ms', [BigInt(this.#dateMs())], SKIPPING);
  }

  async evict(account: string, mostBytes: number): Promise<{ removed: number; bytes: number }> {
    const sum = 'select coalesce(sum(bytes), 0) as bytes from responses where account = $1';
    const [all] = await this.#database.snapshot((session) => session.all(sum, [account]));
    let bytes = Number(all?.['bytes'] ?? 0);
    // What is too much is counted in each statement: another gateway that removes the same rows meanwhile makes no others too much.
    const sql = (session: Session): string => `with oldest as materialized
        (select id, created_ms, bytes from responses where account = $1 and not ${RUNS}
          order by created_ms, id limit ${PRUNE_ROWS}),
        sums as (select id, sum(bytes) over (order by created_ms, id) - bytes as older from oldest),
        old as materialized (select id from responses where account = $1
          and id in (select id from sums where older < (${sum}) - $2) ${session.holdsWriteLock ? '' : SKIPPING})
      delete from responses where account = $1 and id in (select id from old) returning bytes`;
    const values = [account, BigInt(mostBytes)];
    const removed = await inRounds(PRUNE_ROWS, async () => {
      if (bytes <= mostBytes) return 0;
      const rows = await this.#database.transaction((session) => session.all(sql(session), values));
      for (const row of rows) bytes -= Number(row['bytes']);
      return rows.length;
    });
    return { removed, bytes };
  }

  deleteAccount(account: string): Promise<number> {
    return this.#deleteRounds('where account = $1 order by account, id', [accountId(account)], 'for update');
  }

  #deleteRounds(where: string, values: readonly Cell[], lock: string): Promise<number> {
    const sql = (session: Session): string => `with old as materialized
        (select account, id from responses ${where} limit ${PRUNE_ROWS} ${session.holdsWriteLock ? '' : lock})
      delete from responses where (account, id) in (select account, id from old) returning id`;
    return inRounds(PRUNE_ROWS, async () => {
      return (await this.#database.transaction((session) => session.all(sql(session), values))).length;
    });
  }

  isAway(error: unknown): boolean {
    return this.#database.blame(error) !== 'command';
  }

  async counts(account?: string): Promise<ResponseCounts> {
    const sql = `select count(*) as responses, coalesce(sum(bytes), 0) as bytes,
      coalesce(sum(case when ${RUNS} then 1 else 0 end), 0) as running from responses where expires_ms > $1${account === undefined ? '' : ' and account = $2'}`;
    const values = [BigInt(this.#dateMs()), ...(account === undefined ? [] : [accountId(account)])];
    const [row] = await this.#database.snapshot((session) => session.all(sql, values), 'report');
    return {
      responses: Number(row?.['responses'] ?? 0),
      bytes: Number(row?.['bytes'] ?? 0),
      running: Number(row?.['running'] ?? 0),
    };
  }
}

function keyOf(row: Row): ResponseKey {
  return { account: text(row, 'account'), id: text(row, 'id') };
}

function linkOf(row: Row): ConversationLink {
  return {
    id: text(row, 'id'),
    status: text(row, 'status') as ResponseStatus,
    previous: (row['previous'] as string | null | undefined) ?? null,
    bytes: Number(row['bytes']),
    expiresMs: Number(integer(row, 'expires_ms')),
  };
}

export function responseRecords(database: Database, dateMs: () => number): ResponseRecords {
  return new StoredResponses(database, dateMs);
}
