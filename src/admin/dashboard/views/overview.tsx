// The state of the gateway at a glance: figures of the last minute, charts of the range, CRNs and models in short, last errors.

import type { VNode } from 'preact';
import { TRAFFIC_CHARTS } from '../charts.ts';
import { ErrorTable } from '../components/error-table.tsx';
import { GatewayTable } from '../components/gateway-table.tsx';
import { HistoryCharts, RangePicker } from '../components/history-charts.tsx';
import { Live } from '../components/live.tsx';
import { Page, Section } from '../components/page.tsx';
import { Standing } from '../components/standing.tsx';
import { Empty } from '../components/states.tsx';
import { Pairs, Tile, Tiles } from '../components/tile.tsx';
import { standingOf } from '../crns.ts';
import type { Quantiles } from '../../history.ts';
import type { Overview } from '../../overview.ts';
import { agoText, compactText, countText, latencyText, NONE, plural, rateText, shareText, usdText } from '../format.ts';
import { href } from '../router.ts';
import { ModelTable } from './models.tsx';

export function OverviewView(): VNode {
  return (
    <Page title="Overview" actions={<RangePicker />}>
      <Live>
        {(overview) => (
          <>
            <Figures overview={overview} />
            <CrnSummary overview={overview} />
            <GatewayTable cluster={overview.cluster} />
            <Section title="History" isHeadingHidden>
              <HistoryCharts charts={TRAFFIC_CHARTS} />
            </Section>
            <Section title="Models" actions={<a href={href('/models')}>All models</a>}>
              <ModelTable models={overview.models} crns={overview.crns} />
            </Section>
            <Section title="Last errors" id="last-errors">
              <ErrorTable errors={overview.errors} />
            </Section>
          </>
        )}
      </Live>
    </Page>
  );
}

const tail = (of: Quantiles): readonly (readonly [string, string])[] => [
  ['p95', latencyText(of.p95)],
  ['p99', latencyText(of.p99)],
];

function Figures({ overview }: { readonly overview: Overview }): VNode {
  const { dateMs, errors, ledger, models, recent, streams, threads } = overview;
  const inFlight = threads.reduce((sum, thread) => sum + thread.inFlight, 0);
  const waiting = models.reduce((sum, model) => sum + model.waiting, 0);
  // The last errors have those of clients too, which do not count here.
  const last = errors.find(({ status }) => status >= 500 || status < 400);
  const total = models.reduce((sum, model) => sum + model.errors, 0);
  const failing = recent.errorsPerS > 0;
  return (
    <Tiles label="Last minute">
      <Tile name="Requests per second" value={rateText(recent.requestsPerS)}>
        <Pairs of={[['in the last', `${Math.round(recent.seconds)} s`]]} />
      </Tile>
      <Tile name="Errors per second" value={rateText(recent.errorsPerS)} bad={failing}>
        {failing && <>{shareText(recent.errorsPerS / recent.requestsPerS)} of requests, </>}
        {last === undefined ? (
          `${total === 0 ? 'none' : countText(total)} since the start`
        ) : (
          <a
            href={href('/')}
            onClick={(event) => {
              event.preventDefault();
              const target = document.getElementById('last-errors');
              target?.scrollIntoView();
              target?.querySelector<HTMLElement>('h2')?.focus({ preventScroll: true });
            }}
          >
            last {agoText(last.dateMs, dateMs)}
          </a>
        )}
      </Tile>
      <Tile name="Latency, median" value={latencyText(recent.latencyMs.p50)}>
        <Pairs of={tail(recent.latencyMs)} />
      </Tile>
      <Tile name="First byte, median" value={latencyText(recent.firstByteMs.p50)}>
        <Pairs of={tail(recent.firstByteMs)} />
      </Tile>
      <Tile name="Output tokens per second" value={compactText(recent.outputTokensPerS)}>
        <Pairs of={[['input', compactText(recent.inputTokensPerS)]]} />
      </Tile>
      <Tile name="Prompt tokens from cache" value={shareText(recent.cachedShare)}>
        <Pairs of={[['predicted', shareText(recent.predictedShare)]]} />
      </Tile>
      <Tile name="Cost per hour" value={usdText(recent.usdPerHour)}>
        {ledger === null ? (
          'no ledger'
        ) : (
          <Pairs of={[['today (UTC)', ledger.spentTodayUsd === null ? NONE : usdText(Number(ledger.spentTodayUsd))]]} />
        )}
      </Tile>
      <Tile name="In flight" value={countText(inFlight)}>
        <Pairs
          of={[
            ['waiting', countText(waiting)],
            ['streams', countText(streams)],
          ]}
        />
      </Tile>
    </Tiles>
  );
}

/** How many CRNs have which standing, and those that are not up. */
function CrnSummary({ overview }: { readonly overview: Overview }): VNode {
  const { crns, dateMs } = overview;
  const all = crns.map((crn) => ({ crn, ...standingOf(crn, dateMs) }));
  const counts = new Map<string, number>();
  for (const { word } of all) counts.set(word, (counts.get(word) ?? 0) + 1);
  const others = all.filter(({ word }) => word !== 'up');
  if (crns.length === 0) return <Empty>No CRNs are configured.</Empty>;
  return (
    <div class="sheet crn-summary">
      <p>
        <a href={href('/crns')}>{plural(crns.length, 'CRN')}</a>
        {[...counts].map(([word, count]) => (
          <a key={word} href={href('/crns', { standing: word })}>
            <Standing word={word}> {countText(count)}</Standing>
          </a>
        ))}
      </p>
      {others.length > 0 && (
        <ul>
          {others.slice(0, 6).map(({ crn, reason, word }) => (
            <li key={crn.url}>
              <Standing word={word} /> <a href={href(`/crns/${encodeURIComponent(crn.url)}`)}>{crn.url}</a>{' '}
              <span class="quiet">{reason}</span>
            </li>
          ))}
          {others.length > 6 && (
            <li>
              <a href={href('/crns')}>{plural(others.length - 6, 'other')}</a>
            </li>
          )}
        </ul>
      )}
    </div>
  );
}
