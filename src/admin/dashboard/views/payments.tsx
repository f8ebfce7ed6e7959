// Payments by x402: those without a known outcome, which owners decide, and the others by state.

import type { VNode } from 'preact';
import type { PaymentView } from '../../views.ts';
import { closePayment, settlePayment } from '../accounts/actions.ts';
import { orDash, usePages, whenText } from '../accounts/ledger.ts';
import { AccountLink, actionColumn, ListTable, RefreshButton } from '../accounts/parts.tsx';
import { Page, Section } from '../components/page.tsx';
import type { Column } from '../components/table.tsx';
import { route, setQuery } from '../router.ts';
import { useStore } from '../store.ts';

const STATES = ['settled', 'failed', 'reserved'];

const COLUMNS: readonly Column<PaymentView>[] = [
  { name: 'Payment', class: 'name', cell: ({ id }) => id },
  { name: 'Kind', cell: ({ kind }) => kind },
  { name: 'Account', class: 'name', cell: ({ account }) => <AccountLink id={account} /> },
  { name: 'Payer', class: 'name', cell: ({ payer }) => payer },
  { name: 'USD', numeric: true, cell: (payment) => payment.amount_usd, sort: (payment) => Number(payment.amount_usd) },
  { name: 'Network', cell: ({ network }) => network },
  { name: 'Transaction', class: 'name', cell: ({ transaction }) => orDash(transaction) },
  { name: 'Changed', cell: (payment) => whenText(payment.changed_at), sort: (payment) => payment.changed_at },
];

const OPEN_COLUMNS: readonly Column<PaymentView>[] = [
  ...COLUMNS,
  { name: 'Valid until', cell: (payment) => whenText(payment.valid_until), sort: (payment) => payment.valid_until },
  actionColumn(
    ({ id }) => id,
    [
      { name: 'Settled…', role: 'owner', action: settlePayment },
      { name: 'Not settled…', role: 'owner', action: closePayment },
    ],
  ),
];

const CLOSED_COLUMNS: readonly Column<PaymentView>[] = [
  ...COLUMNS,
  {
    name: 'Came to',
    cell: ({ credited, reason }) => (credited === null ? orDash(reason) : credited ? 'credit' : 'a charge'),
  },
];

export function PaymentsView(): VNode {
  const { query } = useStore(route);
  const state = STATES.find((each) => each === query.get('state')) ?? 'settled';
  const open = usePages<PaymentView>('/payments');
  const closed = usePages<PaymentView>('/payments', { state });
  return (
    <Page title="Payments" lead="Payments by x402. Times in UTC." actions={<RefreshButton />}>
      <Section title="Open">
        <p class="note">
          The outcome is not known yet. The gateway goes on asking; look at a block explorer before you decide.
        </p>
        <ListTable
          list={open}
          what="open payments"
          id="open-payments"
          caption="Payments without a known outcome"
          columns={OPEN_COLUMNS}
          keyOf={({ id }) => id}
        />
      </Section>
      <Section
        title="Others"
        actions={
          <label>
            State{' '}
            <select value={state} onChange={(event) => setQuery('state', event.currentTarget.value)}>
              {STATES.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        }
      >
        <ListTable
          list={closed}
          what="payments"
          id="payments"
          caption="Those that changed last come first"
          columns={CLOSED_COLUMNS}
          keyOf={({ id }) => id}
        />
      </Section>
    </Page>
  );
}
