// The log of admin acts: who did what to whom, with the state before and after. An act is written before it is carried out and its
// outcome afterwards, so that no change happens without a record. Both tables refuse changes and deletions.

import { randomUUID } from 'node:crypto';
import type { Database, Row } from './database.ts';
import { pageRows, QueryFilter } from './query-filter.ts';
import { insertion, integer, text } from './tables.ts';
import { parseJson } from '../../config/json-text.ts';

/** Who acts: name and role of the token, and the interface it came through. */
export interface AdminActor {
  readonly name: string;
  readonly role: string;
  /** `http` with the address of the peer, or `cli`. */
  readonly via: string;
}

export interface NewAdminAct {
  readonly actor: AdminActor;
  /** Such as `key.disable`. */
  readonly action: string;
  /** Id of what is changed; empty where there is none yet. */
  readonly subject: string;
  /** What was asked for. JSON without secrets. */
  readonly request: object;
  /** The subject before the act; null when it is new or has no state. */
  readonly before: object | null;
}

/** `unknown`: no outcome was recorded; the process ended or the store failed meanwhile, or it is still under way. */
export type AdminOutcome = 'done' | 'refused' | 'unknown';

export interface AdminAct extends NewAdminAct {
  /** Position in the log; the cursor of `list`. */
  readonly seq: bigint;
  readonly id: string;
  readonly dateMs: number;
  readonly outcome: AdminOutcome;
  /** The subject after the act, or why it was refused. */
  readonly after: object | null;
}

export interface AdminActQuery {
  readonly actor?: string;
  readonly action?: string;
  readonly subject?: string;
  /** Milliseconds since 1970: from the first, included, to the second, not included. */
  readonly fromMs?: number;
  readonly toMs?: number;
  /** Only acts before this one. */
  readonly before?: bigint;
  /** Default 50, at most 1,000. */
  readonly limit?: number;
}

export interface AdminActs {
  /** Records an act that is about to be carried out; answers with its id. */
  begin(act: NewAdminAct): Promise<string>;
  /** Records how it ended. The first outcome of an act stands. */
  end(id: string, outcome: 'done' | 'refused', after: object | null): Promise<void>;
  /** The newest first. */
  list(query: AdminActQuery): Promise<AdminAct[]>;
}

const ACT_COLUMNS = {
  seq: 'bigint',
  id: 'text',
  date_ms: 'bigint',
  actor: 'text',
  role: 'text',
  via: 'text',
  action: 'text',
  subject: 'text',
  request: 'text',
  before: 'text',
} as const;

const INSERT_ACT = insertion({ name: 'admin_acts', columns: ACT_COLUMNS, key: ['seq'] });
const INSERT_OUTCOME = insertion(
  {
    name: 'admin_outcomes',
    columns: { act: 'text', date_ms: 'bigint', outcome: 'text', after: 'text' },
    key: ['act'],
  },
  { ignore: true },
);

const COUNT = `update admin_act_count set value = value + 1 returning value`;

async function begin(database: Database, act: NewAdminAct, dateMs: number): Promise<string> {
  const id = `act_${randomUUID()}`;
  const { actor, action, subject, request, before } = act;
  await database.transaction(async (session) => {
    // Under the lock of the counter, so that numbers appear in the order of commits and a cursor misses nothing.
    const [row] = await session.all(COUNT);
    await session.write(INSERT_ACT, [
      {
        seq: row === undefined ? 1n : integer(row, 'value'),
        id,
        date_ms: BigInt(dateMs),
        actor: actor.name,
        role: actor.role,
        via: actor.via,
        action,
        subject,
        request: JSON.stringify(request),
        before: before === null ? null : JSON.stringify(before),
      },
    ]);
  });
  return id;
}

async function list(database: Database, query: AdminActQuery): Promise<AdminAct[]> {
  const filter = new QueryFilter();
  filter.compare('a.actor =', query.actor);
  filter.compare('a.action =', query.action);
  filter.compare('a.subject =', query.subject);
  filter.compare('a.date_ms >=', query.fromMs === undefined ? undefined : BigInt(query.fromMs));
  filter.compare('a.date_ms <', query.toMs === undefined ? undefined : BigInt(query.toMs));
  filter.compare('a.seq <', query.before);
  const sql = `select a.*, o.outcome as outcome, o.after as after from admin_acts a
    left join admin_outcomes o on o.act = a.id ${filter.where}
    order by a.seq desc ${filter.limit(pageRows(query.limit))}`;
  const rows = await database.snapshot((session) => session.all(sql, filter.params));
  return rows.map(actOf);
}

function actOf(row: Row): AdminAct {
  const json = (column: string): object | null => {
    const cell = row[column] ?? null;
    return cell === null ? null : (parseJson(String(cell)) as object);
  };
  return {
    seq: integer(row, 'seq'),
    id: text(row, 'id'),
    dateMs: Number(integer(row, 'date_ms')),
    actor: { name: text(row, 'actor'), role: text(row, 'role'), via: text(row, 'via') },
    action: text(row, 'action'),
    subject: text(row, 'subject'),
    request: json('request') ?? {},
    before: json('before'),
    outcome: row['outcome'] === null ? 'unknown' : (text(row, 'outcome') as AdminOutcome),
    after: json('after'),
  };
}

export function adminActs(database: Database, dateMs: () => number): AdminActs {
  return {
    begin: async (act) => await begin(database, act, dateMs()),
    async end(id, outcome, after) {
      const row = {
        act: id,
        date_ms: BigInt(dateMs()),
        outcome,
        after: after === null ? null : JSON.stringify(after),
      };
      await database.transaction((session) => session.write(INSERT_OUTCOME, [row]));
    },
    list: (query) => list(database, query),
  };
}
