// Every model with its figures of the last minute and its counts.

import type { VNode } from 'preact';
import { Bar } from '../components/sparkline.tsx';
import { Live } from '../components/live.tsx';
import { Page } from '../components/page.tsx';
import { type Column, Table } from '../components/table.tsx';
import type { CrnDocument, ModelDocument } from '../documents.ts';
import { compactText, countText, latencyText, NONE, rateText, shareText, usdText } from '../format.ts';
import { href } from '../router.ts';

/** What searches, lists and health count under. */
const NO_MODEL = 'no model';

interface Row {
  readonly model: ModelDocument;
  readonly up: number;
  readonly crns: number;
}

/** Share of the prompt tokens of the last minute that came from caches. */
function cachedOf({ model: { recent } }: Row): number | null {
  return recent?.inputTokensPerS ? (recent.cachedTokensPerS ?? 0) / recent.inputTokensPerS : null;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    name: 'Model',
    class: 'name',
    cell: ({ model: { model } }) =>
      model === '' ? (
        <span class="quiet">{NO_MODEL}</span>
      ) : (
        <a href={href(`/models/${encodeURIComponent(model)}`)}>{model}</a>
      ),
    sort: ({ model: { model } }) => model,
  },
  {
    name: 'CRNs up',
    numeric: true,
    cell: ({ crns, model: { model }, up }) =>
      model === '' ? NONE : <span class={up < crns ? (up === 0 ? 'bad' : 'warn') : ''}>{`${up} of ${crns}`}</span>,
    sort: ({ crns, up }) => (crns === 0 ? null : up / crns),
  },
  {
    name: 'Requests/s',
    numeric: true,
    cell: ({ model: { recent } }) => rateText(recent?.requestsPerS),
    sort: ({ model: { recent } }) => recent?.requestsPerS ?? null,
  },
  {
    name: 'Errors/s',
    numeric: true,
    cell: ({ model: { recent } }) => (
      <span class={(recent?.errorsPerS ?? 0) > 0 ? 'bad' : ''}>{rateText(recent?.errorsPerS)}</span>
    ),
    sort: ({ model: { recent } }) => recent?.errorsPerS ?? null,
  },
  {
    name: 'p50',
    title: 'Latency, median of the last minute',
    numeric: true,
    cell: ({ model: { recent } }) => latencyText(recent?.latencyMs.p50),
    sort: ({ model: { recent } }) => recent?.latencyMs.p50 ?? null,
  },
  {
    name: 'p99',
    title: 'Latency, 99th percentile of the last minute',
    numeric: true,
    cell: ({ model: { recent } }) => latencyText(recent?.latencyMs.p99),
    sort: ({ model: { recent } }) => recent?.latencyMs.p99 ?? null,
  },
  {
    name: 'First byte',
    title: 'Median of the last minute, of streams',
    numeric: true,
    cell: ({ model: { recent } }) => latencyText(recent?.firstByteMs.p50),
    sort: ({ model: { recent } }) => recent?.firstByteMs.p50 ?? null,
  },
  {
    name: 'Input/s',
    title: 'Tokens of prompts a second',
    numeric: true,
    cell: ({ model: { recent } }) => compactText(recent?.inputTokensPerS),
    sort: ({ model: { recent } }) => recent?.inputTokensPerS ?? null,
  },
  {
    name: 'Output/s',
    title: 'Tokens of answers a second',
    numeric: true,
    cell: ({ model: { recent } }) => compactText(recent?.outputTokensPerS),
    sort: ({ model: { recent } }) => recent?.outputTokensPerS ?? null,
  },
  {
    name: 'Cached',
    title: 'Share of prompt tokens that came from caches',
    numeric: true,
    cell: (row) => {
      const cached = cachedOf(row);
      return (
        <>
          {shareText(cached)}
          {cached !== null && <Bar share={cached} tone="line-6" />}
        </>
      );
    },
    sort: cachedOf,
  },
  {
    name: 'USD/h',
    numeric: true,
    cell: ({ model: { recent } }) => usdText(recent?.usdPerHour),
    sort: ({ model: { recent } }) => recent?.usdPerHour ?? null,
  },
  { name: 'Waiting', numeric: true, cell: ({ model }) => countText(model.waiting), sort: ({ model }) => model.waiting },
  {
    name: 'Requests',
    numeric: true,
    cell: ({ model }) => countText(model.requests),
    sort: ({ model }) => model.requests,
  },
  { name: 'Errors', numeric: true, cell: ({ model }) => countText(model.errors), sort: ({ model }) => model.errors },
  {
    name: 'Failovers',
    numeric: true,
    cell: ({ model }) => countText(model.failovers),
    sort: ({ model }) => model.failovers,
  },
];

export interface ModelTableProps {
  readonly models: readonly ModelDocument[];
  readonly crns: readonly CrnDocument[];
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
