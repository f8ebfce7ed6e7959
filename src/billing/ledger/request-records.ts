// Records of single requests in the store: what each one was, used and cost. Written in batches, read by cursor from the newest,
// pruned by age and number. Ids sort by the date of the request, so that one index serves the cursor and the pruning.

import { setImmediate } from 'node:timers/promises';
import type { Database, Reads, Row } from './database.ts';
import { pageRows, QueryFilter } from './query-filter.ts';
import { accountId, type Pico } from './ledger.ts';
import { inRounds } from './rounds.ts';
import { insertion, integer, text } from './tables.ts';

/** One finished request. */
export interface RequestRecord {
  /** See `requestRecordId`. */
  readonly id: string;
  /** When it ended, in milliseconds since 1970. */
  readonly dateMs: number;
  /** The id in `x-request-id` of its answer; clients choose it, so it may name several requests. */
  readonly requestId: string;
  readonly account: string;
  readonly key: string | null;
  readonly endpoint: string;
  /** Empty where no model was asked for. */
  readonly model: string;
  readonly status: number;
  /** Code of the error table; empty without an error. */
  readonly code: string;
  readonly inputTokens: number;
  readonly cachedTokens: number;
  readonly outputTokens: number;
  /** False when the tokens are estimates. */
  readonly measured: boolean;
  readonly amount: Pico;
  readonly durationMs: number;
  /** Of a stream; null for other answers. */
  readonly firstByteMs: number | null;
}

export interface RequestRecordQuery {
  readonly account?: string;
  /** Null: only requests of keys without an id. */
  readonly key?: string | null;
  readonly model?: string;
  /** Date of the request: from the first, included, to the second, not included. Milliseconds since 1970. */
  readonly fromMs?: number;
  readonly toMs?: number;
  /** Only requests before this one, by its id. */
  readonly before?: string;
  /** Default 50, at most 1,000. */
  readonly limit?: number;
}

export interface RequestRecords {
  /** Adds records; those that are there already stay as they are. */
  add(records: readonly RequestRecord[]): Promise<void>;
  /** The newest first. */
  list(query: RequestRecordQuery): Promise<RequestRecord[]>;
  /** By its id, or the newest with this request id; of one account where it is given. */
  find(id: string, account?: string): Promise<RequestRecord | undefined>;
  /** Removes records from before the date, and the oldest of more than `most`; null: any number. Answers with how many. */
  prune(beforeMs: number, most: number | null): Promise<number>;
}

/** Rows removed in one transaction, with what stands of them in three indexes: a writer waits no longer than some milliseconds. */
const PRUNE_ROWS = 500;

/** Records that one round of a list looks at: few of millions may be of the key and model that are asked for. */
const LOOK_ROWS = 10_000;

const DATE_LENGTH = 9;
const TAG_LENGTH = 6;
const COUNT_LENGTH = 6;
const COUNT_MOST = 36 ** COUNT_LENGTH;

function digits(number: number, length: number): string {
  return Math.floor(number).toString(36).padStart(length, '0');
}

/**
 * `req_` and 21 characters in the order of dates: the date, six characters that tell the writing processes apart, a count.
 * All of one length and in lower case, so that every collation sorts them alike.
 */
export function requestRecordId(dateMs: number, tag: string, count: number): string {
  return `req_${digits(dateMs, DATE_LENGTH)}${tag.slice(0, TAG_LENGTH).padStart(TAG_LENGTH, '0')}${digits(count % COUNT_MOST, COUNT_LENGTH)}`;
}

/** Sorts before every id of that date or later. */
function idFrom(dateMs: number): string {
  return `req_${digits(Math.max(dateMs, 0), DATE_LENGTH)}`;
}

const INSERT = insertion(
  {
    name: 'requests',
    columns: {
      id: 'text',
      date_ms: 'bigint',
      request_id: 'text',
      account: 'text',
      key_id: 'text',
      endpoint: 'text',
      model: 'text',
      status: 'bigint',
      code: 'text',
      input_tokens: 'bigint',
      cached_tokens: 'bigint',
      output_tokens: 'bigint',
      measured: 'bigint',
      amount: 'bigint',
      duration_ms: 'bigint',
      first_byte_ms: 'bigint',
    },
    key: ['id'],
  },
  { ignore: true },
);

function rowOf(record: RequestRecord): Row {
  return {
    id: record.id,
    date_ms: BigInt(record.dateMs),
    request_id: record.requestId,
    account: record.account,
    key_id: record.key,
    endpoint: record.endpoint,
    model: record.model,
    status: BigInt(record.status),
    code: record.code,
    input_tokens: BigInt(record.inputTokens),
    cached_tokens: BigInt(record.cachedTokens),
    output_tokens: BigInt(record.outputTokens),
    measured: record.measured ? 1n : 0n,
    amount: record.amount,
    duration_ms: BigInt(record.durationMs),
    first_byte_ms: record.firstByteMs === null ? null : BigInt(record.firstByteMs),
  };
}

function recordOf(row: Row): RequestRecord {
  const firstByte = row['first_byte_ms'] ?? null;
  const number = (column: string): number => Number(integer(row, column));
  return {
    id: text(row, 'id'),
    dateMs: number('date_ms'),
    requestId: text(row, 'request_id'),
    account: text(row, 'account'),
    key: row['key_id'] === null ? null : text(row, 'key_id'),
    endpoint: text(row, 'endpoint'),
    model: text(row, 'model'),
    status: number('status'),
    code: text(row, 'code'),
    inputTokens: number('input_tokens'),
    cachedTokens: number('cached_tokens'),
    outputTokens: number('output_tokens'),
    measured: integer(row, 'measured') === 1n,
    amount: integer(row, 'amount'),
    durationMs: number('duration_ms'),
    firstByteMs: firstByte === null ? null : Number(firstByte),
  };
}

async function list(database: Database, query: RequestRecordQuery): Promise<RequestRecord[]> {
  const limit = pageRows(query.limit);
  const records: RequestRecord[] = [];
  for (let before = query.before; ;) {
    const most = limit - records.length;
    const { last, rows } = await database.snapshot((session) => look(session, { ...query, before }, most));
    records.push(...rows.map(recordOf));
    if (last === undefined || records.length === limit) return records;
    before = last;
    // SQLite answers within this turn: what else the thread has to do goes on between the rounds.
    await setImmediate();
  }
}

/** Looks at the next records, at most LOOK_ROWS; `last` is the last one where there may be more. */
async function look(
  session: Reads,
  query: Omit<RequestRecordQuery, 'before'> & { readonly before: string | undefined },
  limit: number,
): Promise<{ readonly rows: Row[]; readonly last: string | undefined }> {
  const filter = new QueryFilter();
  filter.compare('account =', query.account === undefined ? undefined : accountId(query.account));
  filter.compare('id >=', query.fromMs === undefined ? undefined : idFrom(query.fromMs));
  filter.compare('id <', query.toMs === undefined ? undefined : idFrom(query.toMs));
  filter.compare('id <', query.before);
  const end = `select id from requests ${filter.where} order by id desc limit 1 offset ${LOOK_ROWS - 1}`;
  const [row] = await session.all(end, filter.params);
  const last = row === undefined ? undefined : text(row, 'id');
  filter.compare('id >=', last);
  if (query.key === null) filter.add('key_id is null');
  else filter.compare('key_id =', query.key);
  filter.compare('model =', query.model);
  const sql = `select * from requests ${filter.where} order by id desc ${filter.limit(limit)}`;
  return { rows: await session.all(sql, filter.params), last };
}

async function find(database: Database, id: string, account?: string): Promise<RequestRecord | undefined> {
  const [condition, params] = account === undefined ? ['', [id]] : ['and account = $2', [id, accountId(account)]];
  return await database.snapshot(async (session) => {
    for (const column of ['id', 'request_id']) {
      const sql = `select * from requests where ${column} = $1 ${condition} order by id desc limit 1`;
      const [row] = await session.all(sql, params);
      if (row !== undefined) return recordOf(row);
    }
    return undefined;
  });
}

async function prune(database: Database, beforeMs: number, most: number | null): Promise<number> {
  const sql = 'select id from requests order by id desc limit 1 offset $1';
  const [newest] = most === null ? [] : await database.snapshot((session) => session.all(sql, [BigInt(most)]), 'scan');
  const byDate = idFrom(beforeMs);
  const kept = newest === undefined ? '' : text(newest, 'id');
  const last = byDate > kept ? byDate : kept;
  return await inRounds(PRUNE_ROWS, async () => {
    const rows = await database.transaction((session) =>
      session.all(
        `delete from requests where id in
         (select id from requests where id <= $1 order by id limit $2) returning id`,
        [last, BigInt(PRUNE_ROWS)],
      ),
    );
    return rows.length;
  });
}

export function requestRecords(database: Database): RequestRecords {
  return {
    async add(records) {
      if (records.length > 0) await database.transaction((session) => session.write(INSERT, records.map(rowOf)));
    },
    list: (query) => list(database, query),
    find: (id, account) => find(database, id, account),
    prune: (beforeMs, most) => prune(database, beforeMs, most),
  };
}
