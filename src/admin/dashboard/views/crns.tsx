// Every CRN with standing and reason, load and cache, and the actions of operators.

import type { VNode } from 'preact';
import { DiscoveryTable } from '../components/discovery-table.tsx';
import { Live } from '../components/live.tsx';
import { Page } from '../components/page.tsx';
import { Bar, Sparkline } from '../components/sparkline.tsx';
import { Standing } from '../components/standing.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { CrnButtons, useActionNote } from '../crn-actions.tsx';
import { capacityOf, firstByteOf, modelsOf, prefillOf, standingOf } from '../crns.ts';
import type { CrnOverview, Overview } from '../../overview.ts';
import { bytesText, compactText, countText, latencyText, plural, rateText, shareText } from '../format.ts';
import { attemptsOf, PLACES } from '../overview-poll.ts';
import { href, route, setQuery } from '../router.ts';
import { useStore } from '../store.ts';

interface Row {
  readonly crn: CrnOverview;
  readonly word: string;
  readonly reason: string;
  readonly nowMs: number;
  readonly enabled: boolean;
}

const lastAttempts = ({ crn }: Row): number => attemptsOf(crn.url).at(-1) ?? 0;

const COLUMNS: readonly Column<Row>[] = [
  {
    name: 'CRN',
    class: 'name',
    cell: ({ crn }) => (
      <>
        <a href={href(`/crns/${encodeURIComponent(crn.url)}`)} title={crn.url}>
          {crn.url}
        </a>
        <small>{modelsOf(crn)}</small>
      </>
    ),
    sort: ({ crn }) => crn.url,
  },
  {
    name: 'Standing',
    class: 'reason',
    cell: ({ reason, word }) => (
      <>
        <Standing word={word} />
        {reason !== '' && <small>{reason}</small>}
      </>
    ),
    sort: ({ word }) => word,
  },
  figure('In flight', ({ crn }) => crn.inFlight, countText),
  {
    name: 'Attempts/s',
    numeric: true,
    cell: (row) => (
      <>
        {rateText(lastAttempts(row))}
        <Sparkline values={attemptsOf(row.crn.url)} places={PLACES} />
      </>
    ),
    sort: lastAttempts,
  },
  figure('First byte', ({ crn }) => firstByteOf(crn), latencyText, 'Moving average by which CRNs are picked'),
  {
    name: 'Failures',
    title: 'Failed attempts since the start, and the requests that left it for another CRN',
    numeric: true,
    cell: ({ crn }) => (
      <>
        <span class={crn.failures > 0 ? 'warn' : ''}>{countText(crn.failures)}</span>
        <small>{crn.failures === 0 ? `of ${compactText(crn.attempts)}` : plural(crn.failovers, 'failover')}</small>
      </>
    ),
    sort: ({ crn }) => crn.failures,
  },
  {
    name: 'Cache hits',
    title: 'Share of prompts that was in its cache: as it reports, and as the gateway predicted',
    numeric: true,
    cell: ({ crn }) => (
      <>
        {shareText(crn.reportedHit)}
        {crn.reportedHit !== null && <Bar share={crn.reportedHit} tone="line-6" />}
        <small>predicted {shareText(crn.predictedHit)}</small>
      </>
    ),
    sort: ({ crn }) => crn.reportedHit,
  },
  figure('Cache size', ({ crn }) => capacityOf(crn), bytesText, 'Bytes of prompts that its cache is expected to hold'),
  {
    name: 'Backlog',
    title: 'Bytes of prompts that wait for prefill, and how many it prefills in a second',
    numeric: true,
    cell: ({ crn }) => {
      const prefill = prefillOf(crn);
      return (
        <>
          {bytesText(crn.backlogBytes)}
          {prefill !== null && <small>{bytesText(prefill)}/s</small>}
        </>
      );
    },
    sort: ({ crn }) => crn.backlogBytes,
  },
  { name: 'Actions', cell: ({ crn, enabled, word }) => <CrnButtons url={crn.url} word={word} enabled={enabled} /> },
];

export interface CrnTableProps {
  readonly overview: Overview;
  readonly crns: readonly CrnOverview[];
  /** With a filter. */
  readonly isWhole?: boolean;
}

export function CrnTable({ crns, isWhole = false, overview }: CrnTableProps): VNode {
  const { dateMs: nowMs, orders: enabled } = overview;
  const { query } = useStore(route);
  const all = crns.map((crn): Row => ({ crn, nowMs, enabled, ...standingOf(crn, nowMs) }));
  const words = [...new Set(all.map(({ word }) => word))].toSorted();
  const wanted = isWhole ? (query.get('standing') ?? '') : '';
  const rows = wanted === '' ? all : all.filter(({ word }) => word === wanted);
  return (
    <Table
      id="crns"
      caption="Compute resource nodes"
      columns={COLUMNS}
      rows={rows}
      keyOf={({ crn }) => crn.url}
      empty={wanted === '' ? 'No CRNs are configured.' : `No CRN is ${wanted}.`}
      {...(isWhole && {
        filterText: ({ crn, reason, word }: Row) => `${crn.url} ${modelsOf(crn)} ${word} ${reason}`,
        controls: (
          <label>
            Standing{' '}
            <select value={wanted} onChange={(event) => setQuery('standing', event.currentTarget.value)}>
              <option value="">all</option>
              {[...new Set([...words, ...(wanted === '' ? [] : [wanted])])].map((word) => (
                <option key={word}>{word}</option>
              ))}
            </select>
          </label>
        ),
      })}
    />
  );
}

export function CrnsView(): VNode {
  return (
    <Page title="CRNs">
      <Live>{(overview) => <AllCrns overview={overview} />}</Live>
    </Page>
  );
}

function AllCrns({ overview }: { readonly overview: Overview }): VNode {
  const note = useActionNote(overview.orders);
  return (
    <>
      {note !== null && <p class="note">{note}</p>}
      <CrnTable overview={overview} crns={overview.crns} isWhole />
      <DiscoveryTable sources={overview.discovery} />
    </>
  );
}
