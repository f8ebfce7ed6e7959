// What operators did, with the state before and after.

import type { VNode } from 'preact';
import type { ActView } from '../../views.ts';
import { orDash, usePages, whenText } from '../accounts/ledger.ts';
import { ListTable, RefreshButton } from '../accounts/parts.tsx';
import { Page } from '../components/page.tsx';
import type { Column } from '../components/table.tsx';
import { href, route } from '../router.ts';
import { useStore } from '../store.ts';

const FILTERS = ['actor', 'action', 'subject'] as const;

const COLUMNS: readonly Column<ActView>[] = [
  { name: 'Act', cell: ({ seq }) => seq },
  { name: 'Date', cell: ({ date }) => whenText(date) },
  { name: 'Actor', cell: ({ actor, role }) => `${actor}, ${role}` },
  { name: 'From', cell: ({ via }) => via },
  { name: 'Action', cell: ({ action }) => action },
  { name: 'Subject', class: 'name', cell: ({ subject }) => orDash(subject) },
  { name: 'Outcome', cell: ({ outcome }) => outcome },
  {
    name: 'Details',
    cell: ({ after, before, request, seq }) => (
      <details>
        <summary aria-label={`Show act ${seq}`}>Show</summary>
        <pre tabIndex={0}>{JSON.stringify({ request, before, after }, null, 2)}</pre>
      </details>
    ),
  },
];

export function ActsView(): VNode {
  const { query } = useStore(route);
  const filters = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? undefined]));
  const acts = usePages<ActView>('/acts', filters);
  return (
    <Page title="Acts" lead="What operators did, newest first. Times in UTC." actions={<RefreshButton />}>
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          const given = [...new FormData(event.currentTarget)].map(([name, value]) => [name, (value as string).trim()]);
          location.hash = href(
            '/acts',
            Object.fromEntries(given.filter(([, value]) => value !== '')) as Record<string, string>,
          );
        }}
      >
        {FILTERS.map((name) => (
          <label key={name}>
            {name}{' '}
            <input
              key={query.get(name) ?? ''}
              name={name}
              defaultValue={query.get(name) ?? ''}
              autocomplete="off"
              spellcheck={false}
            />
          </label>
        ))}
        <button type="submit">Filter</button>
      </form>
      <ListTable
        list={acts}
        what="acts"
        id="acts"
        caption="Acts of operators"
        columns={COLUMNS}
        keyOf={({ seq }) => seq}
      />
    </Page>
  );
}
