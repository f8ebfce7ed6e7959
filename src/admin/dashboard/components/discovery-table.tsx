// The sources that find servers, with their state. Nothing for a gateway that has none.

import type { VNode } from 'preact';
import type { SourceStatus } from '../../../discovery/index.ts';
import { countText, durationText, plural } from '../format.ts';
import { Section } from './page.tsx';
import { Standing } from './standing.tsx';
import { type Column, figure, Table } from './table.tsx';

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
  figure('Servers', ({ servers }) => servers, countText),
  figure('Models', ({ models }) => models, countText),
  figure('Changes', ({ changes }) => changes, countText, 'Answers that differed from the one before, since the start'),
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
