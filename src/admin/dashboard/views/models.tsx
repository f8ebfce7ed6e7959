// Every model with its figures of the last minute and its counts.

import type { VNode } from 'preact';
import { Bar } from '../components/sparkline.tsx';
import { Live } from '../components/live.tsx';
import { Page } from '../components/page.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import type { CrnOverview, ModelOverview } from '../../overview.ts';
import { compactText, countText, latencyText, plural, rateText, shareText, usdText } from '../format.ts';
import { href } from '../router.ts';

/** What searches, lists and health count under. */
const NO_MODEL = 'no model';

interface Row {
  readonly model: ModelOverview;
  readonly up: number;
  readonly crns: number;
}

function times(
  name: string,
  title: string,
  of: (model: ModelOverview) => ModelOverview['recent']['latencyMs'],
): Column<Row> {
  return {
    name,
    title,
    numeric: true,
    cell: ({ model }) => (
      <>
        {latencyText(of(model).p50)}
        <small>p99 {latencyText(of(model).p99)}</small>
      </>
    ),
    sort: ({ model }) => of(model).p50,
  };
}

const COLUMNS: readonly Column<Row>[] = [
  {
    name: 'Model',
    class: 'name',
    cell: ({ crns, model: { model }, up }) =>
      model === '' ? (
        <span class="quiet">{NO_MODEL}</span>
      ) : (
        <>
          <a href={href(`/models/${encodeURIComponent(model)}`)}>{model}</a>
          <small class={up < crns ? (up === 0 ? 'bad' : 'warn') : ''}>{`${up} of ${plural(crns, 'CRN')} up`}</small>
        </>
      ),
    sort: ({ model: { model } }) => model,
  },
  figure('Requests/s', ({ model: { recent } }) => recent.requestsPerS, rateText),
  {
    name: 'Errors/s',
    numeric: true,
    cell: ({ model: { recent } }) => (
      <span class={recent.errorsPerS > 0 ? 'bad' : ''}>{rateText(recent.errorsPerS)}</span>
    ),
    sort: ({ model: { recent } }) => recent.errorsPerS,
  },
  times('Latency', 'Median and 99th percentile', ({ recent }) => recent.latencyMs),
  times('First byte', 'Of streams: median and 99th percentile', ({ recent }) => recent.firstByteMs),
  {
    name: 'Tokens/s',
    title: 'Of answers, and of prompts',
    numeric: true,
    cell: ({ model: { recent } }) => (
      <>
        {compactText(recent.outputTokensPerS)}
        <small>input {compactText(recent.inputTokensPerS)}</small>
      </>
    ),
    sort: ({ model: { recent } }) => recent.outputTokensPerS,
  },
  {
    name: 'Cached',
    title: 'Share of prompt tokens that came from caches',
    numeric: true,
    cell: ({ model: { recent } }) => (
      <>
        {shareText(recent.cachedShare)}
        {recent.cachedShare !== null && <Bar share={recent.cachedShare} tone="line-6" />}
      </>
    ),
    sort: ({ model: { recent } }) => recent.cachedShare,
  },
  figure('USD/h', ({ model: { recent } }) => recent.usdPerHour, usdText),
  figure('Waiting', ({ model }) => model.waiting, countText, 'Requests that wait for a CRN with a short backlog'),
  {
    name: 'Requests',
    title: 'Since the start, with errors and failovers',
    numeric: true,
    cell: ({ model: { errors, failovers, requests } }) => (
      <>
        {countText(requests)}
        <small>
          <span class={errors > 0 ? 'warn' : ''}>{plural(errors, 'error')}</span>, {plural(failovers, 'failover')}
        </small>
      </>
    ),
    sort: ({ model }) => model.requests,
  },
];

export interface ModelTableProps {
  readonly models: readonly ModelOverview[];
  readonly crns: readonly CrnOverview[];
  /** With a filter. */
  readonly isWhole?: boolean;
}

export function ModelTable({ crns, isWhole = false, models }: ModelTableProps): VNode {
  const members = new Map<string, { up: number; crns: number }>();
  for (const { model, standing } of crns.flatMap((crn) => crn.models)) {
    const count = members.get(model) ?? { up: 0, crns: 0 };
    count.crns++;
    if (standing === 'up') count.up++;
    members.set(model, count);
  }
  const rows = models.map((model) => ({ model, ...(members.get(model.model) ?? { up: 0, crns: 0 }) }));
  return (
    <Table
      id="models"
      caption="Models. Rates, times and shares are of the last minute, counts since the start."
      showCaption
      columns={COLUMNS}
      rows={rows}
      keyOf={({ model }) => model.model}
      {...(isWhole && { filterText: ({ model }: Row) => model.model || NO_MODEL })}
    />
  );
}

export function ModelsView(): VNode {
  return (
    <Page title="Models">
      <Live>{(overview) => <ModelTable models={overview.models} crns={overview.crns} isWhole />}</Live>
    </Page>
  );
}
