// Deliveries of webhooks, which can be sent again.

import type { VNode } from 'preact';
import type { DeliveryView } from '../../views.ts';
import { redeliver } from '../accounts/actions.ts';
import { orDash, usePages, whenText } from '../accounts/ledger.ts';
import { AccountLink, actionColumn, ListTable, RefreshButton } from '../accounts/parts.tsx';
import { Page } from '../components/page.tsx';
import { Standing } from '../components/standing.tsx';
import { type Column, figure } from '../components/table.tsx';
import { countText } from '../format.ts';
import { route, setQuery } from '../router.ts';
import { useStore } from '../store.ts';

const STATES = ['pending', 'delivered', 'failed'];

const COLUMNS: readonly Column<DeliveryView>[] = [
  { name: 'Message', class: 'name', cell: ({ message }) => message },
  { name: 'Date', cell: ({ date }) => whenText(date), sort: ({ date }) => date },
  { name: 'Event', cell: ({ type }) => type, sort: ({ type }) => type },
  { name: 'Account', class: 'name', cell: ({ account }) => <AccountLink id={account} /> },
  { name: 'Endpoint', cell: ({ endpoint }) => endpoint, sort: ({ endpoint }) => endpoint },
  { name: 'State', cell: ({ state }) => <Standing word={state} />, sort: ({ state }) => state },
  figure('Attempts', ({ attempts }) => attempts, countText),
  { name: 'Result', class: 'name', cell: ({ result }) => orDash(result) },
  { name: 'Due', cell: (one) => whenText(one.due_at), sort: (one) => one.due_at },
  actionColumn(
    ({ message }) => message,
    [{ name: 'Send again', role: 'operator', action: redeliver, applies: ({ state }) => state !== 'pending' }],
  ),
];

export function WebhooksView(): VNode {
  const { query } = useStore(route);
  const state = STATES.find((each) => each === query.get('state')) ?? '';
  const deliveries = usePages<DeliveryView>('/webhooks/deliveries', { state });
  return (
    <Page title="Webhooks" lead="Deliveries of events, newest first. Times in UTC." actions={<RefreshButton />}>
      <ListTable
        list={deliveries}
        what="deliveries"
        id="deliveries"
        caption="Deliveries of webhooks"
        columns={COLUMNS}
        keyOf={({ endpoint, message }) => `${message} ${endpoint}`}
        controls={
          <label>
            State{' '}
            <select value={state} onChange={(event) => setQuery('state', event.currentTarget.value)}>
              <option value="">all</option>
              {STATES.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
        }
      />
    </Page>
  );
}
