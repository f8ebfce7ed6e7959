// Answers customers about their own account: balance, terms, expiring credit, usage and single requests. One actor in the control
// plane. Questions of one account are bounded in rate, so that nobody slows the ledger down by asking.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import type { RequestRecord } from './ledger/request-records.ts';
import type { Ledger, UsageRow } from './ledger/ledger.ts';
import { printUsd } from './money.ts';

/** Whose question it is: an answer never shows more than the account of the key, nor requests of other keys. */
export interface AccountCaller {
  readonly account: string;
  /** Id of the key; null for a key that has none. */
  readonly key: string | null;
}

export type AccountQuestion =
  | {
      readonly kind: 'account';
      /** First and last day of the usage, `YYYY-MM-DD` in UTC. */
      readonly fromDay: string;
      readonly toDay: string;
      /** Whose usage: that of the key, or that of all keys of the account. */
      readonly scope: 'key' | 'account';
    }
  | {
      readonly kind: 'requests';
      readonly fromMs?: number;
      readonly toMs?: number;
      readonly model?: string;
      readonly before?: string;
      readonly limit: number;
    }
  | { readonly kind: 'request'; readonly id: string };

/** `rate`: too many questions of this account. `away`: the ledger does not answer. Values are ready for JSON. */
export type AccountAnswer =
  | { readonly kind: 'found'; readonly value: object }
  | { readonly kind: 'unknown' }
  | { readonly kind: 'rate' }
  | { readonly kind: 'away' };

export interface AccountReaderCommand {
  readonly type: 'Ask';
  readonly caller: AccountCaller;
  readonly question: AccountQuestion;
  readonly replyTo: Ref<AccountAnswer>;
}

export interface AccountReaderDeps {
  /** Null while it is opening. */
  readonly ledger: () => Ledger | null;
  readonly onProblem: (error: unknown, what: string) => void;
}

/** Questions of one account: so many at once, and then so many a second. */
const BURST = 10;
const PER_SECOND = 2;

/** Accounts whose rate is remembered; then the memory begins anew. */
const MAX_REMEMBERED = 10_000;

export function accountReader(deps: AccountReaderDeps): Behavior<AccountReaderCommand> {
  return (context) => new AccountReader(deps, context);
}

class AccountReader {
  readonly #deps: AccountReaderDeps;
  readonly #context: Context<AccountReaderCommand>;
  /** What is left of each account's burst, and when that was. */
  readonly #rates = new Map<string, { left: number; atMs: number }>();

  constructor(deps: AccountReaderDeps, context: Context<AccountReaderCommand>) {
    this.#deps = deps;
    this.#context = context;
  }

  receive({ caller, question, replyTo }: AccountReaderCommand): void {
    const ledger = this.#deps.ledger();
    if (ledger === null) {
      replyTo.tell({ kind: 'away' });
    } else if (!this.#admit(caller.account)) {
      replyTo.tell({ kind: 'rate' });
    } else {
      read(ledger, caller, question).then(
        (answer) => replyTo.tell(answer),
        (error: unknown) => {
          this.#deps.onProblem(error, 'a question about an account could not be answered');
          replyTo.tell({ kind: 'away' });
        },
      );
    }
  }

  #admit(account: string): boolean {
    const nowMs = this.#context.clock.now();
    let rate = this.#rates.get(account);
    if (rate === undefined) {
      if (this.#rates.size >= MAX_REMEMBERED) this.#rates.clear();
      this.#rates.set(account, (rate = { left: BURST, atMs: nowMs }));
    }
    rate.left = Math.min(BURST, rate.left + ((nowMs - rate.atMs) / 1000) * PER_SECOND);
    rate.atMs = nowMs;
    if (rate.left < 1) return false;
    rate.left--;
    return true;
  }
}

async function read(ledger: Ledger, caller: AccountCaller, question: AccountQuestion): Promise<AccountAnswer> {
  const { account, key } = caller;
  switch (question.kind) {
    case 'account':
      return { kind: 'found', value: await accountDocument(ledger, caller, question) };
    case 'requests': {
      const { kind: _, ...query } = question;
      const records = await ledger.requests.list({ ...query, account, key });
      const last = records.at(-1);
      const next = last === undefined || records.length < question.limit ? null : last.id;
      return { kind: 'found', value: { data: records.map(requestDocument), next } };
    }
    case 'request': {
      const record = await ledger.requests.find(question.id, account);
      if (record === undefined || record.key !== key) return { kind: 'unknown' };
      return { kind: 'found', value: requestDocument(record) };
    }
  }
}

async function accountDocument(
  ledger: Ledger,
  { account: id, key }: AccountCaller,
  { fromDay, scope, toDay }: Extract<AccountQuestion, { kind: 'account' }>,
): Promise<object> {
  const account = await ledger.account(id);
  const payer = account?.organisation == null ? account : await ledger.account(account.organisation);
  const [balance, held, limit] = [payer?.balance ?? 0n, payer?.held ?? 0n, payer?.creditLimit ?? 0n];
  const grants = payer === undefined ? [] : await ledger.openGrants(payer.id);
  const own = scope === 'key' && key !== null ? { key } : {};
  const rows = await ledger.usage({ account: id, ...own, fromDay, toDay, by: ['day', 'model'] });
  return {
    account: id,
    organisation: account?.organisation ?? null,
    credit: {
      balance_usd: printUsd(balance + held),
      in_use_usd: printUsd(held),
      credit_limit_usd: printUsd(limit),
      available_usd: printUsd(balance + limit),
      expiring: grants.map(({ expiresMs, remaining }) => ({
        amount_usd: printUsd(remaining),
        expires_at: new Date(expiresMs).toISOString(),
      })),
    },
    usage: { from: fromDay, to: toDay, scope, total: total(rows), data: rows.map(usageDocument) },
  };
}

function total(rows: readonly UsageRow[]): object {
  const sums = { requests: 0n, inputTokens: 0n, cachedTokens: 0n, outputTokens: 0n, amount: 0n };
  for (const row of rows) {
    for (const name of Object.keys(sums) as (keyof typeof sums)[]) sums[name] += row[name];
  }
  return countsOf(sums);
}

function countsOf(
  row: Pick<UsageRow, 'requests' | 'inputTokens' | 'cachedTokens' | 'outputTokens' | 'amount'>,
): object {
  return {
    requests: Number(row.requests),
    input_tokens: Number(row.inputTokens),
    cached_tokens: Number(row.cachedTokens),
    output_tokens: Number(row.outputTokens),
    cost_usd: printUsd(row.amount),
  };
}

function usageDocument(row: UsageRow): object {
  return { day: row.day, model: row.model, ...countsOf(row) };
}

/** One request as its customer sees it. */
export interface RequestDocument {
  readonly id: string;
  readonly request_id: string;
  readonly date: string;
  readonly endpoint: string;
  readonly model: string;
  readonly status: number;
  readonly code: string;
  readonly input_tokens: number;
  readonly cached_tokens: number;
  readonly output_tokens: number;
  readonly measured: boolean;
  readonly cost_usd: string;
  readonly duration_ms: number;
  readonly first_byte_ms: number | null;
}

export function requestDocument(record: RequestRecord): RequestDocument {
  return {
    id: record.id,
    request_id: record.requestId,
    date: new Date(record.dateMs).toISOString(),
    endpoint: record.endpoint,
    model: record.model,
    status: record.status,
    code: record.code,
    input_tokens: record.inputTokens,
    cached_tokens: record.cachedTokens,
    output_tokens: record.outputTokens,
    measured: record.measured,
    cost_usd: printUsd(record.amount),
    duration_ms: record.durationMs,
    first_byte_ms: record.firstByteMs,
  };
}
