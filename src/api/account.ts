// `GET /svc/account`, `GET /svc/account/requests` and `GET /svc/account/requests/ID`: what the caller's own key may know of its
// account. They cost nothing, count for no limit, and wait for the control plane.

import { ask } from '../actor/index.ts';
import {
  type AccountAnswer,
  type AccountQuestion,
  type AccountReaderCommand,
  DAY_MS,
  dayOf,
  type GoodCredential,
  startOfDay,
} from '../billing/index.ts';
import { HeadraceError, invalidRequest } from '../errors.ts';
import type { Exchange } from '../ingress/exchange.ts';
import { respondJson } from '../ingress/respond.ts';
import { percentDecoded } from '../net/percent-decoding.ts';
import type { ApiDeps, Endpoint } from './deps.ts';
import { type ParameterDoc, parametersOf } from './openapi.ts';
import { requireKey } from './pipeline.ts';
import { refuse } from './refuse.ts';
import { type ObjectSchema, readQuery, type Schema } from './schema.ts';

/** Longer than a report takes over many days; the ledger goes on without us. */
const ASK_MS = 10_000;

/** Longest range of days in one answer. */
const MAX_DAYS = 366;

const REQUESTS = 50;
const MOST_REQUESTS = 1000;

const DAY = { type: 'format', format: 'date' } as const;

/** The id of a recorded request. */
const CURSOR = '^req_[0-9a-z]{21}$';

/** PostgreSQL takes NUL in no text. */
const NO_NUL = '^[^\\u0000]*$';

const PRIVATE: readonly string[] = ['cache-control', 'no-store'];

interface AccountQuery {
  readonly from?: string;
  readonly to?: string;
  readonly scope: 'key' | 'account';
}

const accountQuery: ObjectSchema<AccountQuery> = {
  type: 'object',
  fields: {
    from: {
      ...DAY,
      description: `First day of the usage, in UTC; default the first of this month.`,
      example: '2030-01-01',
    },
    to: {
      ...DAY,
      description: `Last day, included; default today. At most ${MAX_DAYS} days.`,
      example: '2030-01-31',
    },
    scope: {
      type: 'enum',
      values: ['key', 'account'],
      default: 'key',
      description: 'Whose usage: that of this key, or that of all keys of the account.',
    },
  },
};

interface RequestsQuery {
  readonly from?: string;
  readonly to?: string;
  readonly model?: string;
  readonly cursor?: string;
  readonly limit: number;
}

const requestsQuery: ObjectSchema<RequestsQuery> = {
  type: 'object',
  fields: {
    from: { ...DAY, description: 'First day, in UTC.', example: '2030-01-01' },
    to: { ...DAY, description: 'Last day, included.', example: '2030-01-31' },
    model: { type: 'string', pattern: NO_NUL, description: 'Only this model.' },
    cursor: { type: 'string', pattern: CURSOR, description: 'The value of `next` from the page before.' },
    limit: { type: 'integer', minimum: 1, maximum: MOST_REQUESTS, default: REQUESTS, description: 'Most entries.' },
  },
};

export const ACCOUNT_PARAMETERS: readonly ParameterDoc[] = parametersOf(accountQuery);
export const REQUESTS_PARAMETERS: readonly ParameterDoc[] = parametersOf(requestsQuery);

const USD: Schema = { type: 'string', required: true, description: 'USD, exact, as a decimal', example: '12.50' };
const COUNT: Schema = { type: 'integer', required: true };
const TEXT: Schema = { type: 'string', required: true };
const DATE: Schema = { type: 'string', required: true, description: 'ISO 8601, UTC' };

const COUNTS = {
  requests: COUNT,
  input_tokens: COUNT,
  cached_tokens: COUNT,
  output_tokens: COUNT,
  cost_usd: USD,
};

/** The answer of `GET /svc/account`. */
export const ACCOUNT: Schema = {
  type: 'object',
  name: 'Account',
  fields: {
    account: { type: 'string', required: true, description: 'The account of the key' },
    organisation: { type: 'any', description: 'The account whose credit is spent; null: its own' },
    credit: {
      type: 'object',
      required: true,
      fields: {
        balance_usd: {
          ...USD,
          description: 'What the account has, what is in use included; below zero: it pays later',
        },
        in_use_usd: { ...USD, description: 'What running requests hold' },
        credit_limit_usd: { ...USD, description: 'How far below zero the balance may go' },
        available_usd: { ...USD, description: 'What further requests may spend' },
        expiring: {
          type: 'array',
          required: true,
          description: 'Credit that expires, the next first; it is spent first',
          items: { type: 'object', fields: { amount_usd: USD, expires_at: DATE } },
        },
      },
    },
    key: {
      type: 'object',
      required: true,
      fields: {
        id: { type: 'any', description: 'Id of the key; null for one that has none' },
        prepaid: { type: 'boolean', required: true, description: 'Whether it spends only credit that the account has' },
        expires_at: { type: 'any', description: 'When it ends; null: it does not' },
      },
    },
    limits: {
      type: 'array',
      required: true,
      description: 'Limits that apply to this key, with what is left of each at this gateway',
      items: {
        type: 'object',
        fields: {
          kind: { type: 'enum', required: true, values: ['running', 'requests', 'tokens', 'budget'] },
          per: { type: 'any', description: '`minute`, `day`, `week` or `month`; null for running requests' },
          model: { type: 'any', description: 'Model of a budget; null: all' },
          limit: { type: 'any', required: true, description: 'A count; of a budget USD as a decimal' },
          remaining: { type: 'any', required: true, description: 'In the same unit' },
          resets_at: { type: 'any', description: 'End of the period of a budget; null: the window slides' },
        },
      },
    },
    usage: {
      type: 'object',
      required: true,
      fields: {
        from: TEXT,
        to: TEXT,
        scope: TEXT,
        total: { type: 'object', required: true, fields: COUNTS },
        data: {
          type: 'array',
          required: true,
          description: 'By day and model',
          items: { type: 'object', fields: { day: TEXT, model: TEXT, ...COUNTS } },
        },
      },
    },
    links: { type: 'map', required: true, values: { type: 'string' }, description: 'Paths of related answers' },
  },
};

/** One request. */
export const ACCOUNT_REQUEST: Schema = {
  type: 'object',
  name: 'AccountRequest',
  fields: {
    id: TEXT,
    request_id: { type: 'string', required: true, description: 'The `x-request-id` of its answer' },
    date: DATE,
    endpoint: TEXT,
    model: TEXT,
    status: COUNT,
    code: { type: 'string', required: true, description: 'Stable code of an error; empty without one' },
    input_tokens: COUNT,
    cached_tokens: COUNT,
    output_tokens: COUNT,
    measured: { type: 'boolean', required: true, description: 'False when the tokens are estimates' },
    cost_usd: USD,
    duration_ms: COUNT,
    first_byte_ms: { type: 'any', description: 'Of a stream; null for other answers' },
  },
};

export const ACCOUNT_REQUESTS: Schema = {
  type: 'object',
  name: 'AccountRequests',
  fields: {
    recorded: {
      type: 'enum',
      required: true,
      values: ['off', 'charged', 'all'],
      description: 'Which requests this gateway records',
    },
    data: { type: 'array', required: true, description: 'The newest first', items: ACCOUNT_REQUEST },
    next: { type: 'any', description: '`cursor` of the next page; null at the end' },
  },
};

/** Answers a question about the account of the caller's key. `show` makes the body of the answer. */
function answering(
  read: (exchange: Exchange, deps: ApiDeps) => AccountQuestion,
  show: (value: object, deps: ApiDeps, credential: GoodCredential) => object,
): Endpoint {
  return (exchange, deps) => {
    const credential = requireKey(exchange, deps);
    const { accountReader } = deps;
    if (accountReader === null) throw new HeadraceError('HR_ROUTE_NOT_FOUND');
    const question = read(exchange, deps);
    const { account, key } = credential;
    ask<AccountReaderCommand, AccountAnswer>(
      accountReader,
      (replyTo) => ({ type: 'Ask', caller: { account, key }, question, replyTo }),
      { timeoutMs: ASK_MS },
    ).then(
      (answer) => {
        if (answer.kind === 'found') respondJson(exchange, 200, show(answer.value, deps, credential), PRIVATE);
        else refuse(exchange, deps, errorOf(answer.kind));
      },
      () => refuse(exchange, deps, errorOf('away')),
    );
  };
}

function errorOf(kind: 'unknown' | 'rate' | 'away'): HeadraceError {
  switch (kind) {
    case 'unknown':
      return new HeadraceError('HR_ACCOUNT_REQUEST');
    case 'rate':
      return new HeadraceError('HR_ACCOUNT_RATE', { headers: ['retry-after', '1'] });
    case 'away':
      return new HeadraceError('HR_ACCOUNT_UNAVAILABLE', { headers: ['retry-after', '2'] });
  }
}

function nowOf({ billing }: ApiDeps): number {
  return billing?.epochMs() ?? 0;
}

/** Milliseconds since 1970 of a day that the schema has checked. */
function startMsOf(day: string): number {
  return startOfDay(day) as number;
}

/** `GET /svc/account`. */
export const account: Endpoint = answering(
  (exchange, deps) => {
    const today = dayOf(nowOf(deps));
    const { from = `${today.slice(0, 8)}01`, to = today, scope } = readQuery(accountQuery, exchange.query);
    const days = (startMsOf(to) - startMsOf(from)) / DAY_MS + 1;
    if (days < 1) throw invalidRequest(['query', 'to'], 'must not be before from');
    if (days > MAX_DAYS) throw invalidRequest(['query', 'to'], `must be at most ${MAX_DAYS} days behind from`);
    return { kind: 'account', fromDay: from, toDay: to, scope };
  },
  (value, deps, credential) => {
    const { expiresMs, key, prepaid } = credential;
    const base = `/${deps.settings.servicePrefix}/account`;
    return {
      ...value,
      key: { id: key, prepaid, expires_at: Number.isFinite(expiresMs) ? new Date(expiresMs).toISOString() : null },
      limits: deps.billing?.limits.stateOf(credential, nowOf(deps)) ?? [],
      links: { self: base, requests: `${base}/requests`, description: '/openapi.json' },
    };
  },
);

/** `GET /svc/account/requests`. */
export const accountRequests: Endpoint = answering(
  (exchange) => {
    const { cursor, from, limit, model, to } = readQuery(requestsQuery, exchange.query);
    return {
      kind: 'requests',
      limit,
      ...(from !== undefined && { fromMs: startMsOf(from) }),
      ...(to !== undefined && { toMs: startMsOf(to) + DAY_MS }),
      ...(model !== undefined && { model }),
      ...(cursor !== undefined && { before: cursor }),
    };
  },
  (value, { settings }) => ({ recorded: settings.costLog.requests, ...value }),
);

/** `GET /svc/account/requests/ID`: by the id of the record, or by the request id of the answer. */
export const accountRequest: Endpoint = answering(
  ({ path }) => {
    const id = percentDecoded(path.slice(path.lastIndexOf('/') + 1));
    if (id.includes('\0')) throw new HeadraceError('HR_ACCOUNT_REQUEST');
    return { kind: 'request', id };
  },
  (value) => value,
);
