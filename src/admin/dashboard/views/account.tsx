// One account: figures, spending by model and balance by day, keys, budgets, credit that expires, usage, movements and requests.

import type { VNode } from 'preact';
import type {
  AccountView as AccountDocument,
  BudgetView,
  KeyView,
  MovementView,
  OpenGrantView,
  RequestView,
  UsageView,
} from '../../views.ts';
import {
  adjustCredit,
  changeAccount,
  createKey,
  grantCredit,
  refundCharge,
  refundCredit,
  setBudget,
} from '../accounts/actions.ts';
import {
  accountPath,
  lastDays,
  monthStart,
  numberOf,
  orDash,
  pathOf,
  picoOf,
  readAgain,
  readAll,
  SPENDING_DAYS,
  spendingOf,
  usePages,
  useReading,
  whenText,
} from '../accounts/ledger.ts';
import { AccountLink, actionColumn, Actions, ListTable, RefreshButton } from '../accounts/parts.tsx';
import { spendingByKey, keyColumns } from '../accounts/keys.tsx';
import { stackedSeries } from '../accounts/usage.ts';
import { read } from '../api.ts';
import { Chart } from '../components/chart.tsx';
import { Page, Section } from '../components/page.tsx';
import { StackedBars } from '../components/stacked-bars.tsx';
import { Loading, Problem } from '../components/states.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { Facts } from '../components/tile.tsx';
import { countText, nowMs, plural, usdText } from '../format.ts';
import { href } from '../router.ts';
import { BUDGET_COLUMNS, RecordTable } from './accounts.tsx';
import type { ViewProps } from './index.ts';

const PARENT = { href: href('/accounts'), name: 'Accounts' };

export function AccountView({ params }: ViewProps): VNode {
  const id = params['account'] ?? '';
  const { data, problem } = useReading(id, (signal) => readAccount(id, signal));
  const title = data === null ? id : data.account.id;
  return (
    <Page
      title={title}
      parent={PARENT}
      lead={data === null || data.account.label === '' ? undefined : data.account.label}
      actions={
        <>
          {data !== null && <AccountActions account={data.account} />}
          <RefreshButton />
        </>
      }
    >
      {problem !== null && <Problem text={problem} retry={readAgain} />}
      {data === null && problem === null && <Loading what="the account" />}
      {data !== null && <Sections id={id} read={data} />}
    </Page>
  );
}

interface AccountReading {
  readonly account: AccountDocument;
  readonly usage: readonly UsageView[];
  readonly keys: readonly KeyView[];
  readonly keyUsage: readonly UsageView[];
}

async function readAccount(id: string, signal: AbortSignal): Promise<AccountReading> {
  const [from = ''] = lastDays(SPENDING_DAYS);
  const [account, usage, keys, keyUsage] = await Promise.all([
    read<AccountDocument>(accountPath(id), signal),
    readAll<UsageView>('/usage', { account: id, by: 'day,model', from }, signal),
    readAll<KeyView>('/keys', { account: id }, signal),
    readAll<UsageView>('/usage', { account: id, by: 'key', from: monthStart() }, signal),
  ]);
  return { account, usage, keys, keyUsage };
}

function AccountActions({ account }: { readonly account: AccountDocument }): VNode {
  return (
    <Actions
      row={account}
      name=""
      of={[
        { name: 'Grant credit', role: 'owner', action: grantCredit },
        { name: 'Adjust', role: 'owner', action: adjustCredit },
        { name: 'Refund', role: 'owner', action: refundCredit },
        { name: 'Change', role: 'owner', action: changeAccount },
        { name: 'Create key', role: 'operator', action: ({ id }) => createKey(id) },
        { name: 'Set budget', role: 'operator', action: ({ id }) => setBudget(id) },
      ]}
    />
  );
}

function Sections({
  id,
  read: { account, keyUsage, keys, usage },
}: {
  readonly id: string;
  readonly read: AccountReading;
}): VNode {
  const budgets = usePages<BudgetView>('/budgets', { account: id });
  const grants = usePages<OpenGrantView>(`${accountPath(id)}/grants`);
  const movements = usePages<MovementView>(`${accountPath(id)}/history`);
  const requests = usePages<RequestView>('/requests', { account: id });
  const { month, today } = spendingOf(usage);
  const days = lastDays(SPENDING_DAYS);
  return (
    <div id="view-account">
      <div id="account-figures">
        <Facts
          of={[
            ['Balance, USD', account.balance_usd],
            ['In use', account.held_usd],
            ['Credit limit', account.credit_limit_usd],
            ['Expires some day', account.expiring_usd],
            ['Spent today', today],
            ['Spent this month', month],
            ['Alert below', orDash(account.low_balance_usd)],
            ['Organisation', <AccountLink key="organisation" id={account.organisation} />],
          ]}
        />
      </div>
      <div class="charts wide">
        <StackedBars
          title="USD by day and model"
          note="UTC"
          days={days}
          series={stackedSeries(usage, days, 'model', 'USD')}
          print={usdText}
        />
        <Balance account={account} />
      </div>
      <Section title="Keys">
        <Table
          id="keys"
          caption="Keys of the account. Limits of requests and tokens a minute hold for each gateway; a rotated key and its successors share the month."
          columns={keyColumns(spendingByKey(keys, keyUsage))}
          rows={keys}
          keyOf={(key) => key.id}
        />
      </Section>
      <Section title="Budgets">
        <ListTable
          list={budgets}
          what="budgets"
          id="budgets"
          caption="Budgets. The bar shows spending in the present period, the mark in it the alert."
          columns={BUDGET_COLUMNS}
          keyOf={(budget) => budget.id}
        />
      </Section>
      <Section title="Credit that expires">
        <ListTable
          list={grants}
          what="grants"
          id="open-grants"
          caption="Credit that expires. The first to expire is spent first."
          columns={GRANT_COLUMNS}
          keyOf={(grant) => grant.id}
        />
      </Section>
      <Section title="Usage" actions={<a href={href('/spend', { account: id })}>Spend of this account</a>}>
        <Table
          id="usage"
          caption={`Usage by day and model in the last ${SPENDING_DAYS} days, newest first`}
          columns={USAGE_COLUMNS}
          rows={usage.toReversed()}
          keyOf={({ day, model }) => `${day} ${model}`}
        />
      </Section>
      <Section title="History">
        <ListTable
          list={movements}
          what="movements"
          id="movements"
          caption="Movements of credit, newest first, in UTC"
          columns={MOVEMENT_COLUMNS}
          keyOf={(movement) => movement.seq}
        />
      </Section>
      <Section title="Requests">
        <RecordTable list={requests} id="requests" />
      </Section>
    </div>
  );
}

/** Movements that a balance is computed back from; older ones make the chart shorter. */
const MOST_MOVEMENTS = 1000;

interface BalancePoint {
  readonly dateMs: number;
  readonly usd: number;
}

/** The balance after each movement, computed back from the present one: exact as far as the movements go. */
function Balance({ account }: { readonly account: AccountDocument }): VNode | null {
  const { id, organisation } = account;
  const { data, problem } = useReading(
    pathOf('/balance', { id, balance: account.balance_usd, held: account.held_usd }),
    async (signal) => {
      const { data: rows } = await read<{ readonly data: readonly MovementView[] }>(
        pathOf(`${accountPath(id)}/history`, { limit: String(MOST_MOVEMENTS) }),
        signal,
      );
      return balancePoints(account, rows);
    },
  );
  if (organisation !== null) return null;
  if (problem !== null) return <Problem text={problem} retry={readAgain} />;
  if (data === null) return <Loading what="the balance" />;
  return (
    <Chart
      title="Balance"
      note={`USD with what is in use, over the last ${plural((data.length - 1) / 2, 'movement')}`}
      datesMs={data.map(({ dateMs }) => dateMs)}
      lines={[{ name: 'balance', color: 1, filled: true, values: data.map(({ usd }) => usd) }]}
      print={usdText}
      empty="No credit has moved."
    />
  );
}

function balancePoints(account: AccountDocument, rows: readonly MovementView[]): BalancePoint[] {
  const from = Date.parse(`${lastDays(SPENDING_DAYS)[0] ?? ''}T00:00:00Z`);
  let left = picoOf(account.balance_usd) + picoOf(account.held_usd);
  const points: BalancePoint[] = [{ dateMs: nowMs(), usd: numberOf(left) }];
  for (const { amount_usd: amount, date } of rows) {
    const dateMs = Date.parse(date);
    if (dateMs < from) break;
    points.push({ dateMs, usd: numberOf(left) });
    left -= picoOf(amount);
    points.push({ dateMs, usd: numberOf(left) });
  }
  return points.toReversed();
}

const GRANT_COLUMNS: readonly Column<OpenGrantView>[] = [
  { name: 'Grant', class: 'name', cell: ({ id }) => id },
  { name: 'USD', numeric: true, cell: (grant) => grant.amount_usd },
  { name: 'Left', numeric: true, cell: (grant) => grant.remaining_usd },
  { name: 'Expires', cell: (grant) => whenText(grant.expires_at) },
];

const USAGE_COLUMNS: readonly Column<UsageView>[] = [
  { name: 'Day', cell: ({ day }) => day, sort: ({ day }) => day ?? null },
  { name: 'Model', cell: ({ model }) => model, sort: ({ model }) => model ?? null },
  figure('Requests', (row) => row.requests, countText),
  figure('Estimated', (row) => row.estimated, countText),
  figure('Input', (row) => row.input_tokens, countText),
  figure('Cached', (row) => row.cached_tokens, countText),
  figure('Output', (row) => row.output_tokens, countText),
  { name: 'USD', numeric: true, cell: (row) => row.amount_usd, sort: (row) => Number(row.amount_usd) },
];

function usedText({ usage }: MovementView): string {
  if (usage === null) return '–';
  const tokens = `${countText(usage.input_tokens)} + ${countText(usage.output_tokens)} tokens`;
  return [usage.model, usage.key, plural(usage.requests, 'request'), tokens].filter(Boolean).join(', ');
}

const MOVEMENT_COLUMNS: readonly Column<MovementView>[] = [
  { name: 'Movement', class: 'name', cell: ({ id }) => id },
  { name: 'Date', cell: ({ date }) => whenText(date) },
  { name: 'Kind', cell: ({ kind }) => kind },
  { name: 'USD', numeric: true, cell: (movement) => movement.amount_usd },
  { name: 'Memo', cell: ({ memo }) => orDash(memo) },
  { name: 'Used', cell: usedText },
  actionColumn(
    ({ id }) => id,
    [
      {
        name: 'Refund',
        role: 'owner',
        action: refundCharge,
        applies: ({ amount_usd: usd, kind }) => kind === 'charge' && usd.startsWith('-'),
      },
    ],
  ),
];
