// Keys of all accounts: search, state, those that were not used for long, limits, and what is left of the month.

import type { VNode } from 'preact';
import type { KeyView, UsageView } from '../../views.ts';
import { createKey } from '../accounts/actions.ts';
import { keyColumns, spendingByKey } from '../accounts/keys.tsx';
import { lastDays, monthStart, readAgain, readAll, useReading } from '../accounts/ledger.ts';
import { Actions, RefreshButton } from '../accounts/parts.tsx';
import { Page } from '../components/page.tsx';
import { Loading, Problem } from '../components/states.tsx';
import { Table } from '../components/table.tsx';
import { nowMs, plural } from '../format.ts';
import { route, setQuery } from '../router.ts';
import { useStore } from '../store.ts';

/** A key that is older and was not used for so long may be one that nobody needs. */
const UNUSED_DAYS = 30;
/** Time to replace a key before it ends. */
const SOON_DAYS = 14;

interface KeysReading {
  readonly keys: readonly KeyView[];
  readonly spending: ReadonlyMap<string, bigint>;
  /** Last day of use, among the last 30. */
  readonly lastUsed: ReadonlyMap<string, string>;
}

async function readKeys(signal: AbortSignal): Promise<KeysReading> {
  const [unusedFrom = ''] = lastDays(UNUSED_DAYS);
  const monthFrom = monthStart();
  const from = monthFrom < unusedFrom ? monthFrom : unusedFrom;
  const [keys, days] = await Promise.all([
    readAll<KeyView>('/keys', {}, signal),
    readAll<UsageView>('/usage', { by: 'day,key', from }, signal),
  ]);
  const month = days.filter(({ day = '' }) => day >= monthFrom);
  // The last day of a key comes last.
  const used = days.filter(({ day = '' }) => day >= unusedFrom);
  const lastUsed = new Map(used.map(({ day = '', key = '' }) => [key, day]));
  return { keys, spending: spendingByKey(keys, month), lastUsed };
}

const FILTERS: readonly (readonly [
  value: string,
  name: string,
  holds: (key: KeyView, reading: KeysReading) => boolean,
])[] = [
  ['', 'All', () => true],
  ['active', 'Active', ({ state }) => state === 'active'],
  [
    'unused',
    `Not used for ${UNUSED_DAYS} days`,
    ({ created_at: created, id, state }, { lastUsed }) => {
      return state === 'active' && !lastUsed.has(id) && created.slice(0, 10) < (lastDays(UNUSED_DAYS)[0] ?? '');
    },
  ],
  [
    'soon',
    `Ends within ${SOON_DAYS} days`,
    ({ expires_at: expires, state }) => {
      return state === 'active' && expires !== null && Date.parse(expires) < nowMs() + SOON_DAYS * 86_400_000;
    },
  ],
  [
    'unlimited',
    'Without any limit',
    ({ monthly_usd: monthly, rpm, running, state, tpm }) => {
      return state === 'active' && [monthly, rpm, running, tpm].every((limit) => limit === null);
    },
  ],
  ['expired', 'Expired', ({ state }) => state === 'expired'],
  ['disabled', 'Disabled', ({ state }) => state === 'disabled'],
];

export function KeysView(): VNode {
  const { data, problem } = useReading('keys', readKeys);
  return (
    <Page
      title="Keys"
      lead="Limits of requests and tokens a minute hold for each gateway. A rotated key and its successors share the month. Days in UTC."
      actions={
        <>
          <Actions row={null} name="" of={[{ name: 'Create key', role: 'operator', action: () => createKey(null) }]} />
          <RefreshButton />
        </>
      }
    >
      {problem !== null && <Problem text={problem} retry={readAgain} />}
      {data === null && problem === null && <Loading what="keys" />}
      {data !== null && <KeyTable reading={data} />}
    </Page>
  );
}

function KeyTable({ reading }: { readonly reading: KeysReading }): VNode {
  const { query } = useStore(route);
  const chosen = query.get('show') ?? '';
  const { keys, lastUsed, spending } = reading;
  const [, name = '', holds = () => true] = FILTERS.find(([value]) => value === chosen) ?? [];
  const rows = keys.filter((key) => holds(key, reading));
  return (
    <Table
      id="all-keys"
      caption={`Keys of all accounts: ${name === '' ? 'all' : name}, ${plural(rows.length, 'key')}`}
      columns={keyColumns(spending, { owners: true, lastUsed })}
      rows={rows}
      keyOf={(key) => key.id}
      filterText={({ account, id, label, prefix }) => `${id} ${account} ${prefix} ${label}`}
      controls={
        <label>
          Show{' '}
          <select value={chosen} onChange={(event) => setQuery('show', event.currentTarget.value)}>
            {FILTERS.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        </label>
      }
      empty={chosen === '' ? 'There are no keys in the store.' : 'No key is like that.'}
    />
  );
}
