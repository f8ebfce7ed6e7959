// Search engines, which of them are suspended and why, and the threads that turn pages into text.

import type { VNode } from 'preact';
import type { EngineOverview } from '../../overview.ts';
import { Live } from '../components/live.tsx';
import { Page, Section } from '../components/page.tsx';
import { Bar } from '../components/sparkline.tsx';
import { Standing } from '../components/standing.tsx';
import { type Column, Table } from '../components/table.tsx';
import { Pairs, Tile, Tiles } from '../components/tile.tsx';
import { countText, durationText, NONE, shareText } from '../format.ts';

interface Row extends EngineOverview {
  readonly nowMs: number;
}

function answeredShare({ answered, failed }: EngineOverview): number | null {
  return answered + failed === 0 ? null : answered / (answered + failed);
}

const COLUMNS: readonly Column<Row>[] = [
  { name: 'Engine', class: 'name', cell: ({ engine }) => engine, sort: ({ engine }) => engine },
  {
    name: 'Standing',
    class: 'reason',
    cell: ({ nowMs, reason, standing, suspendedUntilMs }) => (
      <>
        <Standing word={standing} />
        {standing === 'suspended' && (
          <small>{`${durationText(suspendedUntilMs - nowMs)} left, ${reason || 'suspended elsewhere'}`}</small>
        )}
        {standing === 'trial' && <small>the next search tries it</small>}
      </>
    ),
    sort: ({ standing }) => standing,
  },
  { name: 'Answered', numeric: true, cell: ({ answered }) => countText(answered), sort: ({ answered }) => answered },
  { name: 'Failed', numeric: true, cell: ({ failed }) => countText(failed), sort: ({ failed }) => failed },
  {
    name: 'Success',
    numeric: true,
    cell: (row) => {
      const share = answeredShare(row);
      return (
        <>
          {shareText(share)}
          {share !== null && <Bar share={share} />}
        </>
      );
    },
    sort: answeredShare,
  },
  { name: 'Last failure', class: 'reason', cell: ({ reason }) => reason || NONE, sort: ({ reason }) => reason || null },
];

export function SearchView(): VNode {
  return (
    <Page title="Search and fetch">
      <Live>
        {({ dateMs, engines, fetch }) => (
          <>
            <Tiles label="Cleaning pool">
              <Tile name="Pages fetched" value={countText(fetch.pages)} />
              <Tile name="Cleaning threads" value={countText(fetch.threads)}>
                <Pairs of={[['running', countText(fetch.running)]]} />
              </Tile>
              <Tile name="Pages that wait" value={countText(fetch.queued)} />
              <Tile name="Threads replaced" value={countText(fetch.replaced)} bad={fetch.replaced > 0}>
                {fetch.replaced > 0 ? 'stuck or out of memory' : 'none stuck'}
              </Tile>
            </Tiles>
            <Section title="Search engines">
              <Table
                id="engines"
                caption="Search engines. Counts since the start."
                showCaption
                columns={COLUMNS}
                rows={engines.map((engine) => ({ ...engine, nowMs: dateMs }))}
                keyOf={({ engine }) => engine}
                empty="No search engines are configured."
              />
            </Section>
          </>
        )}
      </Live>
    </Page>
  );
}
