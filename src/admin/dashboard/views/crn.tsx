// One CRN: standing and why, last probe and last failure, its models, charts, and the actions of operators.

import type { VNode } from 'preact';
import { CRN_CHARTS } from '../charts.ts';
import { ErrorTable } from '../components/error-table.tsx';
import { HistoryCharts, RangePicker } from '../components/history-charts.tsx';
import { Live } from '../components/live.tsx';
import { Page, Section } from '../components/page.tsx';
import { Standing } from '../components/standing.tsx';
import { Empty } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { Facts } from '../components/tile.tsx';
import { CrnButtons, useActionNote } from '../crn-actions.tsx';
import { standingOf } from '../crns.ts';
import type { CrnOverview, Overview } from '../../overview.ts';
import { agoText, bytesText, countText, latencyText, NONE, shareText } from '../format.ts';
import { href } from '../router.ts';
import type { ViewProps } from './index.ts';

export function CrnView({ params }: ViewProps): VNode {
  const url = params['url'] ?? '';
  return (
    <Page title={url} parent={{ href: href('/crns'), name: 'CRNs' }} actions={<RangePicker />}>
      <Live>
        {(overview) => {
          const crn = overview.crns.find((each) => each.url === url);
          if (crn === undefined) return <Empty>The gateway has no CRN at this URL.</Empty>;
          return <OneCrn crn={crn} overview={overview} />;
        }}
      </Live>
    </Page>
  );
}

type MemberModel = CrnOverview['models'][number];

const MODEL_COLUMNS: readonly Column<MemberModel>[] = [
  {
    name: 'Model',
    class: 'name',
    cell: ({ model }) => <a href={href(`/models/${encodeURIComponent(model)}`)}>{model}</a>,
  },
  { name: 'Standing', cell: ({ standing }) => <Standing word={standing} /> },
  { name: 'First byte', numeric: true, cell: ({ firstByteMs }) => (firstByteMs > 0 ? latencyText(firstByteMs) : NONE) },
  {
    name: 'Prefill',
    numeric: true,
    cell: ({ bytesPerS }) => (bytesPerS === null ? NONE : `${bytesText(bytesPerS)}/s`),
  },
  { name: 'Cache size', numeric: true, cell: ({ capacityBytes }) => bytesText(capacityBytes) },
  { name: 'Dialects', cell: ({ dialects }) => dialects?.join(', ') ?? 'found out' },
];

function OneCrn({ crn, overview }: { readonly crn: CrnOverview; readonly overview: Overview }): VNode {
  const { dateMs: nowMs, orders } = overview;
  const note = useActionNote(orders);
  const { reason, word } = standingOf(crn, nowMs);
  const { kvEvents, lacks, lastFailure, lastProbe } = crn;
  return (
    <>
      {note !== null && <p class="note">{note}</p>}
      <Facts
        of={[
          [
            'Standing',
            <>
              <Standing word={word} />
              {reason !== '' && <span class="quiet"> {reason}</span>}
            </>,
          ],
          ['Actions', <CrnButtons url={crn.url} word={word} enabled={orders} />],
          [
            'Last probe',
            lastProbe === null ? (
              NONE
            ) : (
              <>
                <span class={lastProbe.ok ? 'good' : 'bad'}>
                  {lastProbe.ok ? 'good' : (lastProbe.reason ?? 'failed')}
                </span>
                {`, ${latencyText(lastProbe.latencyMs)}, ${agoText(lastProbe.dateMs, nowMs)}`}
              </>
            ),
          ],
          [
            'Last failure',
            lastFailure === null ? (
              'none since the start'
            ) : (
              <>
                <span class="bad">{lastFailure.reason}</span>
                {`, ${lastFailure.model === '' ? '' : `${lastFailure.model}, `}${agoText(lastFailure.dateMs, nowMs)}`}
                {lastFailure.requestId !== '' && (
                  <>
                    {', request '}
                    <code>{lastFailure.requestId}</code>
                  </>
                )}
              </>
            ),
          ],
          ['In flight', countText(crn.inFlight)],
          [
            'Attempts',
            `${countText(crn.attempts)}, ${countText(crn.failures)} failed, ${countText(crn.failovers)} failed over`,
          ],
          ['Cache hits', `${shareText(crn.reportedHit)} reported, ${shareText(crn.predictedHit)} predicted`],
          ['Backlog', bytesText(crn.backlogBytes)],
          [
            'KV events',
            kvEvents === null
              ? 'none'
              : `${kvEvents.connected ? 'connected' : 'not connected'}, ${countText(kvEvents.residentTokens)} of ${
                  kvEvents.capacityTokens === 0 ? 'unknown' : countText(kvEvents.capacityTokens)
                } tokens, ${countText(kvEvents.lost)} batches lost`,
          ],
          ['Dialects it lacks', lacks.length === 0 ? 'none' : lacks.join(', ')],
        ]}
      />
      <HistoryCharts charts={CRN_CHARTS} of={`&crn=${encodeURIComponent(crn.url)}`} />
      <Section title="Models">
        <Table
          caption={`Models of ${crn.url}`}
          columns={MODEL_COLUMNS}
          rows={crn.models}
          keyOf={({ model }) => model}
        />
      </Section>
      <Section title="Last errors">
        <ErrorTable isPart errors={overview.errors.filter((error) => error.crn === crn.url)} />
      </Section>
    </>
  );
}
