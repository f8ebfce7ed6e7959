// The gateways of the cluster as this one heard the roll call. Nothing for a gateway that is alone by its settings.

import type { VNode } from 'preact';
import type { ClusterOverview, GatewayOverview } from '../../overview.ts';
import { countText, durationText, plural, rateText } from '../format.ts';
import { Section } from './page.tsx';
import { Standing } from './standing.tsx';
import { type Column, figure, Table } from './table.tsx';

const COLUMNS: readonly Column<GatewayOverview>[] = [
  {
    name: 'Gateway',
    cell: ({ name, self }) => (
      <>
        {name} {self && <small>this one</small>}
      </>
    ),
    sort: ({ name }) => name,
  },
  { name: 'Address', cell: ({ address }) => address ?? '–', sort: ({ address }) => address },
  {
    name: 'Stage',
    cell: ({ stage }) => <Standing word={stage} />,
    sort: ({ stage }) => stage,
  },
  { name: 'Version', cell: ({ version }) => version, sort: ({ version }) => version },
  figure('In flight', ({ inFlight }) => inFlight, countText),
  figure('Requests per second', ({ requestsPerS }) => requestsPerS, rateText),
  figure('Up for', ({ uptimeMs }) => uptimeMs, durationText),
  {
    name: 'Last heard',
    title: 'Time since the last message of the gateway',
    numeric: true,
    cell: ({ ageMs, self }) => (self ? '–' : `${(ageMs / 1000).toFixed(1)} s ago`),
    sort: ({ ageMs }) => ageMs,
  },
];

export function GatewayTable({ cluster }: { readonly cluster: ClusterOverview | null }): VNode | null {
  if (cluster === null) return null;
  const { connected, gateways } = cluster;
  return (
    <Section title="Gateways">
      {!connected && (
        <p class="bad" role="status">
          Redis or Valkey does not answer: this gateway goes on alone.
        </p>
      )}
      <Table
        id="gateways"
        caption={plural(gateways.length, 'gateway')}
        columns={COLUMNS}
        rows={gateways}
        keyOf={({ instance }) => instance}
      />
    </Section>
  );
}
