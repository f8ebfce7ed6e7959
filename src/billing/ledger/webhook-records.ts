// Webhooks in the store: events, which are written in the transaction of what they tell, and their deliveries, one per endpoint,
// until each is accepted or given up. One process of the store sends at a time: the one that holds the lease.

import { randomUUID } from 'node:crypto';
import { type Database, fewRows, type Lookup, readKind, type Row, type Session } from './database.ts';
import { pageRows, QueryFilter } from './query-filter.ts';
import { inRounds } from './rounds.ts';
import { insertion, integer, text } from './tables.ts';
import { parseJson } from '../../config/json-text.ts';

/** What happened. Names are public: receivers match on them. */
export type WebhookEventType = 'credit.low' | 'budget.reached' | 'payment.open' | 'key.created' | 'key.disabled';

export interface NewWebhookEvent {
  readonly type: WebhookEventType;
  readonly account: string;
  /** Names the event for ever: one that is written again is dropped. Default: a new id. */
  readonly id?: string;
  /** Members of `data` in the message, beside `account`. JSON without secrets. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** A message that is due to an endpoint. */
export interface WebhookDelivery {
  /** `webhook-id` of the message: the same for every endpoint and every attempt. */
  readonly message: string;
  readonly endpoint: string;
  readonly type: string;
  readonly account: string;
  /** When it happened, in milliseconds since 1970. */
  readonly dateMs: number;
  readonly data: Readonly<Record<string, unknown>>;
  readonly state: 'pending' | 'delivered' | 'failed';
  /** Attempts so far. */
  readonly attempts: number;
  /** When the next attempt is due; when the last was, once it is not pending. */
  readonly dueMs: number;
  /** Status or reason of the last attempt; empty before the first. */
  readonly result: string;
}

export interface WebhookDeliveryQuery {
  readonly endpoint?: string;
  readonly state?: WebhookDelivery['state'];
  /** Only those before this cursor: `message` and `endpoint` of the last one, with a blank between them. */
  readonly before?: string;
  /** Default 50, at most 1,000. */
  readonly limit?: number;
}

export interface WebhookRecords {
  emit(event: NewWebhookEvent): Promise<void>;
  /** Takes or keeps the lease on sending for so long; false while another process has it. */
  lead(holder: string, ttlMs: number): Promise<boolean>;
  /** Gives the lease up. */
  resign(holder: string): Promise<void>;
  /** Makes a delivery for every endpoint that wants an event, of every new event. */
  fanOut(endpointsOf: (type: string) => readonly string[]): Promise<void>;
  /** Deliveries to these endpoints that are due, the oldest first. */
  due(endpoints: readonly string[], limit: number): Promise<WebhookDelivery[]>;
  /**
   * Makes deliveries to these endpoints due now that were put off by a clock that was ahead. `longestPausesMs`: after the first, second …
   * attempt. Reads all that are pending.
   */
  recall(endpoints: readonly string[], longestPausesMs: readonly number[]): Promise<void>;
  /** Records an attempt. */
  attempted(delivery: Pick<WebhookDelivery, 'message' | 'endpoint'>, outcome: WebhookOutcome): Promise<void>;
  /** Makes a delivery due now. False when there is none. */
  redeliver(message: string, endpoint: string): Promise<boolean>;
  /** The newest first. */
  list(query: WebhookDeliveryQuery): Promise<WebhookDelivery[]>;
  /**
   * Removes events older than this that are not due to any of these endpoints any more, with their deliveries. New ones stay, and those
   * of payments that are open: without them these would be told anew.
   */
  prune(retentionMs: number, endpoints: readonly string[]): Promise<void>;
}

/** What came of an attempt: accepted, to be tried again after a pause, or given up. */
export interface WebhookOutcome {
  readonly state: WebhookDelivery['state'];
  readonly pauseMs: number;
  /** Status or reason. */
  readonly result: string;
}

const FAN_OUT = 500;

/** Events removed in one transaction: a writer waits no longer than some milliseconds. */
const PRUNE_ROWS = 500;

const LEASE = 'webhooks';

/** Begins the name of the event of a payment that stays open; its id follows. */
export const OPEN_PAYMENT = 'payment-open-';

/** By how much a date may be in the future for other reasons than a clock that was ahead. */
const CLOCK_MARGIN_MS = 60_000;

const INSERT_EVENTS = insertion(
  {
    name: 'webhook_events',
    columns: { id: 'text', type: 'text', account: 'text', date_ms: 'bigint', data: 'text', state: 'text' },
    key: ['id'],
  },
  { ignore: true },
);

const INSERT_DELIVERIES = insertion(
  {
    name: 'webhook_deliveries',
    columns: {
      message: 'text',
      endpoint: 'text',
      state: 'text',
      attempts: 'bigint',
      due_ms: 'bigint',
      result: 'text',
    },
    key: ['message', 'endpoint'],
  },
  { ignore: true },
);

/** Writes events in the transaction of what they tell. */
export async function noteEvents(session: Session, events: readonly NewWebhookEvent[], dateMs: number): Promise<void> {
  const rows = events.map(({ account, data, id, type }) => ({
    id: `msg_${id ?? randomUUID()}`,
    type,
    account,
    date_ms: BigInt(dateMs),
    data: JSON.stringify(data),
    state: 'new',
  }));
  await session.write(INSERT_EVENTS, rows);
}

async function lead(database: Database, holder: string, nowMs: number, ttlMs: number): Promise<boolean> {
  const untilMs = nowMs + ttlMs;
  return await database.transaction(async (session) => {
    const rows = await session.all(
      `insert into process_leases (name, holder, until_ms) values ($1, $2, $3)
       on conflict (name) do update set holder = excluded.holder, until_ms = excluded.until_ms
       where process_leases.holder = $2 or process_leases.until_ms <= $4 or process_leases.until_ms > $5 returning holder`,
      [LEASE, holder, BigInt(untilMs), BigInt(nowMs), BigInt(untilMs + CLOCK_MARGIN_MS)],
    );
    return rows.length > 0;
  });
}

async function fanOut(
  database: Database,
  nowMs: number,
  endpointsOf: (type: string) => readonly string[],
): Promise<void> {
  const next = `select id, type from webhook_events where state = 'new' order by date_ms, id limit ${FAN_OUT}`;
  await inRounds(FAN_OUT, async () => {
    const found = await database.snapshot((session) => session.all(next));
    if (found.length === 0) return 0;
    await database.transaction(async (session) => {
      const deliveries = found.flatMap((row) =>
        endpointsOf(text(row, 'type')).map((endpoint) => ({
          message: text(row, 'id'),
          endpoint,
          state: 'pending',
          attempts: 0n,
          due_ms: BigInt(nowMs),
          result: '',
        })),
      );
      if (deliveries.length > 0) await session.write(INSERT_DELIVERIES, deliveries);
      for (const row of found) {
        await session.all("update webhook_events set state = 'sent' where id = $1", [text(row, 'id')]);
      }
    });
    return found.length;
  });
}

const DELIVERIES = `select d.message as message, d.endpoint as endpoint, d.state as state, d.attempts as attempts,
  d.due_ms as due_ms, d.result as result, e.type as type, e.account as account, e.date_ms as date_ms, e.data as data
  from webhook_deliveries d join webhook_events e on e.id = d.message`;

function deliveryOf(row: Row): WebhookDelivery {
  return {
    message: text(row, 'message'),
    endpoint: text(row, 'endpoint'),
    type: text(row, 'type'),
    account: text(row, 'account'),
    dateMs: Number(integer(row, 'date_ms')),
    data: parseJson(text(row, 'data')) as WebhookDelivery['data'],
    state: text(row, 'state') as WebhookDelivery['state'],
    attempts: Number(integer(row, 'attempts')),
    dueMs: Number(integer(row, 'due_ms')),
    result: text(row, 'result'),
  };
}

async function due(
  database: Database,
  nowMs: number,
  endpoints: readonly string[],
  limit: number,
): Promise<WebhookDelivery[]> {
  // Each endpoint by itself: one that has failed for long must not fill the list.
  return await database.snapshot(async (session) => {
    const found: WebhookDelivery[] = [];
    for (const endpoint of endpoints) {
      const sql = `${DELIVERIES} where d.state = 'pending' and d.endpoint = $1 and d.due_ms <= $2
        order by d.due_ms limit $3`;
      found.push(...(await session.all(sql, [endpoint, BigInt(nowMs), BigInt(limit)])).map(deliveryOf));
    }
    return found;
  });
}

async function recall(
  database: Database,
  nowMs: number,
  endpoints: readonly string[],
  longestPausesMs: readonly number[],
): Promise<void> {
  const pauses = longestPausesMs.map((ms, at) => `when ${at + 1} then ${Math.ceil(ms)}`);
  const longest = `case attempts ${['when 0 then 0', ...pauses].join(' ')} else 0 end`;
  const sql = `update webhook_deliveries set due_ms = $1 where state = 'pending' and endpoint = $2
    and due_ms > $3 and due_ms - ${longest} > $3`;
  const latestMs = BigInt(nowMs + CLOCK_MARGIN_MS);
  await database.transaction(async (session) => {
    for (const endpoint of endpoints) await session.all(sql, [BigInt(nowMs), endpoint, latestMs]);
  });
}

async function list(database: Database, query: WebhookDeliveryQuery): Promise<WebhookDelivery[]> {
  const filter = new QueryFilter();
  filter.compare('d.endpoint =', query.endpoint);
  filter.compare('d.state =', query.state);
  if (query.before !== undefined) {
    // Names of endpoints may hold blanks.
    const [, message = '', endpoint = ''] = /^(\S*) ?(.*)$/s.exec(query.before) ?? [];
    const cursor = filter.param(message);
    filter.add(
      `(e.date_ms, e.id, d.endpoint) < ((select date_ms from webhook_events where id = ${cursor}), ${cursor}, ${filter.param(endpoint)})`,
    );
  }
  const sql = `${DELIVERIES} ${filter.where}
    order by e.date_ms desc, e.id desc, d.endpoint desc ${filter.limit(pageRows(query.limit))}`;
  // No index has the order.
  const kind = await readKind(database, 'report', (session) => session.all(fewRows('webhook_deliveries')));
  return (await database.snapshot((session) => session.all(sql, filter.params), kind)).map(deliveryOf);
}

function removal(table: string, column: string): Lookup {
  return {
    sqlite: `delete from ${table} where ${column} in (select value from json_each(?1))`,
    postgres: `delete from ${table} where ${column} = any($1::text[])`,
  };
}

const REMOVE_DELIVERIES = removal('webhook_deliveries', 'message');
const REMOVE_EVENTS = removal('webhook_events', 'id');

async function prune(database: Database, beforeMs: number, endpoints: readonly string[]): Promise<void> {
  const params = [BigInt(beforeMs), ...endpoints];
  // An empty list is no valid SQL.
  const isKept =
    endpoints.length === 0 ? '1 = 0' : `d.endpoint in (${endpoints.map((_, at) => `$${at + 2}`).join(', ')})`;
  const old = `select id from webhook_events e where date_ms < $1 and state = 'sent' and not exists
    (select 1 from webhook_deliveries d where d.message = e.id and d.state = 'pending' and ${isKept})
    and (type <> 'payment.open' or not exists
      (select 1 from payments p where p.state = 'submitted' and e.id = 'msg_${OPEN_PAYMENT}' || p.id))
    order by date_ms, id limit ${PRUNE_ROWS}`;
  await inRounds(PRUNE_ROWS, () =>
    database.transaction(async (session) => {
      const ids = (await session.all(old, params)).map((row) => text(row, 'id'));
      if (ids.length > 0) await session.find(REMOVE_DELIVERIES, ids);
      if (ids.length > 0) await session.find(REMOVE_EVENTS, ids);
      return ids.length;
    }),
  );
}

export function webhookRecords(database: Database, dateMs: () => number): WebhookRecords {
  return {
    emit: (event) => database.transaction((session) => noteEvents(session, [event], dateMs())),
    lead: (holder, ttlMs) => lead(database, holder, dateMs(), ttlMs),
    async resign(holder) {
      const sql = 'delete from process_leases where name = $1 and holder = $2';
      await database.transaction((session) => session.all(sql, [LEASE, holder]));
    },
    fanOut: (endpointsOf) => fanOut(database, dateMs(), endpointsOf),
    due: (endpoints, limit) => due(database, dateMs(), endpoints, limit),
    recall: (endpoints, longestPausesMs) => recall(database, dateMs(), endpoints, longestPausesMs),
    async attempted({ endpoint, message }, { pauseMs, result, state }) {
      const sql = `update webhook_deliveries set state = $1, due_ms = $2, result = $3, attempts = attempts + 1
        where message = $4 and endpoint = $5`;
      const params = [state, BigInt(dateMs() + Math.floor(pauseMs)), result, message, endpoint];
      await database.transaction((session) => session.all(sql, params));
    },
    async redeliver(message, endpoint) {
      const sql = `update webhook_deliveries set state = 'pending', due_ms = $1, attempts = 0
        where message = $2 and endpoint = $3 returning message`;
      const params = [BigInt(dateMs()), message, endpoint];
      return (await database.transaction((session) => session.all(sql, params))).length > 0;
    },
    list: (query) => list(database, query),
    prune: (retentionMs, endpoints) => prune(database, dateMs() - retentionMs, endpoints),
  };
}
