// Search engines, which of them are suspended and why, and the threads that turn pages into text.

import type { VNode } from 'preact';
import type { EngineOverview, ToolOverview } from '../../overview.ts';
import { Live } from '../components/live.tsx';
import { Page, Section } from '../components/page.tsx';
import { Bar } from '../components/sparkline.tsx';
import { Standing } from '../components/standing.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { Pairs, Tile, Tiles } from '../components/tile.tsx';
import { countText, durationText, NONE, shareText } from '../format.ts';
import { href } from '../router.ts';

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
  figure('Answered', ({ answered }) => answered, countText),
  figure('Failed', ({ failed }) => failed, countText),
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

const TOOL_COLUMNS: readonly Column<ToolOverview>[] = [
  {
    name: 'Tool',
    class: 'name',
    cell: ({ tool }) => (tool === 'direct' ? 'its own endpoint' : <a href={href('/requests', { tool })}>{tool}</a>),
    sort: ({ tool }) => tool,
  },
  {
    name: 'Endpoint',
    cell: ({ endpoint }) => <a href={href('/requests', { endpoint })}>{endpoint}</a>,
    sort: ({ endpoint }) => endpoint,
  },
  figure('Answered', ({ answered }) => answered, countText),
  figure('Failed', ({ failed }) => failed, countText),
  figure('Client left', ({ aborted }) => aborted, countText),
  {
    name: 'Success',
    numeric: true,
    cell: ({ answered, failed }) => {
      const share = answered + failed === 0 ? null : answered / (answered + failed);
      return (
        <>
          {shareText(share)}
          {share !== null && <Bar share={share} />}
        </>
      );
    },
    sort: ({ answered, failed }) => answered / (answered + failed || 1),
  },
];

export function SearchView(): VNode {
  return (
    <Page
      title="Search and fetch"
      lead={
        <>
          Try a <a href={href('/playground/search')}>search</a> or a <a href={href('/playground/fetch')}>page</a>, and
          see how its answer comes about.
        </>
      }
    >
      <Live>
        {({ dateMs, engines, fetch, tools }) => (
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
            <Section title="Who asks">
              <Table
                id="tools"
                caption="Searches and pages by tool or compatible interface and endpoint. Counts since the start."
                showCaption
                columns={TOOL_COLUMNS}
                rows={tools}
                keyOf={({ endpoint, tool }) => `${tool} ${endpoint}`}
                empty="No search and no page has been asked for since the start."
              />
            </Section>
          </>
        )}
      </Live>
    </Page>
  );
}
