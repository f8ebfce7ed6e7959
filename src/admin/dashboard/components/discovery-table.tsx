// The sources that find servers, with their state. Nothing for a gateway that has none.

import type { VNode } from 'preact';
import type { SourceStatus } from '../../../discovery/index.ts';
import { countText, durationText, plural } from '../format.ts';
import { Section } from './page.tsx';
import { Standing } from './standing.tsx';
import { type Column, Table } from './table.tsx';

const COLUMNS: readonly Column<SourceStatus>[] = [
  {
    name: 'Source',
    class: 'name',
    cell: ({ kind, source }) => (
      <>
        {source}
        <small>{kind}</small>
      </>
    ),
    sort: ({ source }) => source,
  },
  {
    name: 'State',
    class: 'reason',
    cell: ({ notes, problem, state }) => (
      <>
        <Standing word={state} />
        {problem !== null && <small>{problem}</small>}
        {notes.map((note) => (
          <small key={note}>{note}</small>
        ))}
      </>
    ),
    sort: ({ state }) => state,
  },
  { name: 'Servers', numeric: true, cell: ({ servers }) => countText(servers), sort: ({ servers }) => servers },
  { name: 'Models', numeric: true, cell: ({ models }) => countText(models), sort: ({ models }) => models },
  {
    name: 'Changes',
    title: 'Answers that differed from the one before, since the start',
    numeric: true,
    cell: ({ changes }) => countText(changes),
    sort: ({ changes }) => changes,
  },
  {
    name: 'Failures',
    title: 'Tries that failed since the start; what was found before stays',
    numeric: true,
    cell: ({ failures }) => <span class={failures > 0 ? 'warn' : ''}>{countText(failures)}</span>,
    sort: ({ failures }) => failures,
  },
  {
    name: 'Last answer',
    numeric: true,
    cell: ({ ageMs }) => (ageMs === null ? '–' : `${durationText(ageMs)} ago`),
    sort: ({ ageMs }) => ageMs,
  },
];

export function DiscoveryTable({ sources }: { readonly sources: readonly SourceStatus[] }): VNode | null {
  if (sources.length === 0) return null;
  return (
    <Section title="Discovery">
      <Table
        id="discovery"
        caption={`${plural(sources.length, 'source')} of servers`}
        columns={COLUMNS}
        rows={sources}
        keyOf={({ source }) => source}
      />
    </Section>
  );
}
