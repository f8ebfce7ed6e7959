// Accounts with their balance and spending, all budgets, and recorded requests of all accounts.

import type { VNode } from 'preact';
import { useRef } from 'preact/hooks';
import type { AccountView, BudgetView, RequestView, UsageView } from '../../views.ts';
import { changeBudget, createAccount, budgetName, refundRequest, removeBudget } from '../accounts/actions.ts';
import {
  accountPath,
  lastDays,
  orDash,
  type PagedList,
  picoOf,
  readAgain,
  readAll,
  type Spending,
  SPENDING_DAYS,
  spendingOf,
  useEach,
  usePages,
  whenText,
} from '../accounts/ledger.ts';
import { AccountLink, actionColumn, Actions, LimitShare, ListTable, RefreshButton } from '../accounts/parts.tsx';
import { Page, Section } from '../components/page.tsx';
import { Problem } from '../components/states.tsx';
import { Sparkline } from '../components/sparkline.tsx';
import { type Column, figure } from '../components/table.tsx';
import { countText, latencyText } from '../format.ts';
import { RequestId } from '../requests.tsx';
import { navigate } from '../router.ts';

export function AccountsView(): VNode {
  const accounts = usePages<AccountView>('/accounts');
  const budgets = usePages<BudgetView>('/budgets');
  const requests = usePages<RequestView>('/requests');
  const ids = (accounts.data ?? []).map((account) => account.id);
  const { data: spending, problem } = useEach(ids, readSpending);
  const id = useRef<HTMLInputElement>(null);
  return (
    <Page
      title="Accounts"
      lead="Money in USD, days in UTC. Members of an organisation spend its credit."
      actions={
        <>
          <form
            class="find"
            onSubmit={(event) => {
              event.preventDefault();
              const given = id.current?.value.trim() ?? '';
              if (given !== '') navigate(accountPath(given));
            }}
          >
            <label>
              Account id <input ref={id} autocomplete="off" spellcheck={false} required />
            </label>
            <button type="submit">Open</button>
          </form>
          <Actions row={null} name="" of={[{ name: 'Create account', role: 'operator', action: createAccount }]} />
          <RefreshButton />
        </>
      }
    >
      {problem !== null && <Problem text={`Spending could not be read: ${problem}`} retry={readAgain} />}
      <ListTable
        list={accounts}
        what="accounts"
        id="accounts"
        caption="Accounts"
        columns={accountColumns(spending)}
        keyOf={(account) => account.id}
        filterText={(account) => `${account.id} ${account.label} ${account.organisation ?? ''}`}
      />
      <Section title="Budgets of all accounts, keys and models">
        <ListTable
          list={budgets}
          what="budgets"
          id="all-budgets"
          caption="Spending in the present period, as far as it is in the ledger"
          columns={BUDGET_COLUMNS}
          keyOf={(budget) => budget.id}
        />
      </Section>
      <Section title="Requests of all accounts">
        <RecordTable list={requests} id="all-requests" />
      </Section>
    </Page>
  );
}

/** Requests that the ledger has recorded. */
export function RecordTable({ id, list }: { readonly id: string; readonly list: PagedList<RequestView> }): VNode {
  return (
    <ListTable
      list={list}
      what="requests"
      id={id}
      caption="Recorded requests, newest first, in UTC"
      empty="None. They are recorded where the setting costLog.requests says so."
      columns={REQUEST_COLUMNS}
      keyOf={(request) => request.id}
    />
  );
}

async function readSpending(account: string, signal: AbortSignal): Promise<Spending> {
  const [from = ''] = lastDays(SPENDING_DAYS);
  return spendingOf(await readAll<UsageView>('/usage', { account, by: 'day', from }, signal));
}

function accountColumns(spending: ReadonlyMap<string, Spending>): readonly Column<AccountView>[] {
  const usd = (name: string, of: (account: AccountView) => string | undefined): Column<AccountView> => ({
    name,
    numeric: true,
    cell: (account) => of(account) ?? '…',
    sort: (account) => Number(of(account) ?? 0),
  });
  return [
    { name: 'Account', class: 'name', cell: ({ id }) => <AccountLink id={id} />, sort: ({ id }) => id },
    { name: 'Label', class: 'name', cell: ({ label }) => orDash(label), sort: ({ label }) => label },
    usd('Balance', (account) => account.balance_usd),
    usd('In use', (account) => account.held_usd),
    usd('Credit limit', (account) => account.credit_limit_usd),
    {
      name: 'Organisation',
      cell: ({ organisation }) => <AccountLink id={organisation} />,
      sort: ({ organisation }) => organisation,
    },
    usd('Today', ({ id }) => spending.get(id)?.today),
    usd('Month', ({ id }) => spending.get(id)?.month),
    {
      name: `${SPENDING_DAYS} days`,
      cell: ({ id }) => {
        const known = spending.get(id);
        return known === undefined ? '' : <Sparkline values={known.days} places={SPENDING_DAYS} />;
      },
    },
  ];
}

export const BUDGET_COLUMNS: readonly Column<BudgetView>[] = [
  { name: 'Budget', class: 'name', cell: budgetName, sort: budgetName },
  { name: 'Period', cell: ({ period }) => period, sort: ({ period }) => period },
  {
    name: 'USD',
    cell: (budget) => (
      <LimitShare spentUsd={budget.spent_usd} limitUsd={budget.limit_usd} alertUsd={budget.alert_usd} />
    ),
    sort: ({ limit_usd: limit, spent_usd: spent }) => Number(spent) / (Number(limit) || 1),
  },
  { name: 'Ends', cell: (budget) => whenText(budget.ends_at), sort: (budget) => budget.ends_at },
  actionColumn(budgetName, [
    { name: 'Change', role: 'operator', action: changeBudget },
    { name: 'Remove', role: 'operator', action: removeBudget },
  ]),
];

/** The day, and the time below it. */
function When({ date }: { readonly date: string }): VNode {
  const [day, time] = whenText(date).split(' ');
  return (
    <>
      {day} <small>{time}</small>
    </>
  );
}

const REQUEST_COLUMNS: readonly Column<RequestView>[] = [
  { name: 'Request', cell: (request) => <RequestId id={request.request_id} short /> },
  { name: 'Date', class: 'one-line', cell: ({ date }) => <When date={date} />, sort: ({ date }) => date },
  {
    name: 'Account',
    class: 'one-line',
    cell: ({ account }) => <AccountLink id={account} />,
    sort: ({ account }) => account,
  },
  {
    name: 'Status',
    cell: ({ code, status }) => `${status}${code === '' ? '' : ` ${code}`}`,
    sort: ({ status }) => status,
  },
  { name: 'Endpoint', class: 'one-line', cell: ({ endpoint }) => endpoint, sort: ({ endpoint }) => endpoint },
  { name: 'Model', class: 'one-line', cell: ({ model }) => orDash(model), sort: ({ model }) => model },
  { name: 'Key', class: 'one-line', cell: ({ key }) => orDash(key), sort: ({ key }) => key },
  {
    name: 'Tokens',
    numeric: true,
    cell: (one) =>
      `${countText(one.input_tokens)} + ${countText(one.output_tokens)}${one.measured ? '' : ', estimated'}`,
    sort: (one) => one.input_tokens + one.output_tokens,
  },
  { name: 'USD', numeric: true, cell: (one) => one.cost_usd, sort: (one) => Number(one.cost_usd) },
  figure('Duration', (one) => one.duration_ms, latencyText),
  figure('First byte', (one) => one.first_byte_ms, latencyText),
  actionColumn(
    (one) => one.request_id,
    [{ name: 'Refund', role: 'owner', action: refundRequest, applies: (one) => picoOf(one.cost_usd) > 0n }],
  ),
];
