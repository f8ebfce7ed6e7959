// The threads of the gateway: load, delays of the event loop, heap.

import type { VNode } from 'preact';
import type { ThreadOverview } from '../../overview.ts';
import { Live } from '../components/live.tsx';
import { Page } from '../components/page.tsx';
import { Bar } from '../components/sparkline.tsx';
import { type Column, figure, Table } from '../components/table.tsx';
import { bytesText, countText, latencyText, shareText } from '../format.ts';

interface Row extends ThreadOverview {
  /** Share of the last second; null before it is known. */
  readonly busy: number | null;
}

const COLUMNS: readonly Column<Row>[] = [
  {
    name: 'Thread',
    cell: ({ thread }) => (
      <>
        {thread} <small>{thread === 0 ? 'control' : 'ingress'}</small>
      </>
    ),
    sort: ({ thread }) => thread,
  },
  {
    name: 'Busy',
    numeric: true,
    cell: ({ busy }) => (
      <>
        {shareText(busy)}
        <Bar share={busy ?? 0} tone={(busy ?? 0) > 0.9 ? 'bad' : 'line-1'} />
      </>
    ),
    sort: ({ busy }) => busy,
  },
  figure('In flight', ({ inFlight }) => inFlight, countText),
  figure('Delay, median', ({ delayMs }) => delayMs[0], latencyText, 'Delay of the event loop since the reading before'),
  figure('Delay, p99', ({ delayMs }) => delayMs[1], latencyText),
  figure('Longest delay', ({ delayMs }) => delayMs[2], latencyText),
  figure('Heap', ({ heapBytes }) => heapBytes, bytesText),
];

export function ThreadsView(): VNode {
  return (
    <Page
      title="Threads"
      lead="Thread 0 is the control thread: it runs the admin listener, probes and the ledger. The others serve clients."
    >
      <Live>
        {({ threads }, rates) => (
          <Table
            id="threads"
            caption="Threads. Delays of the event loop are since the reading before."
            showCaption
            columns={COLUMNS}
            rows={threads.map((thread, index) => ({ ...thread, busy: rates?.busy[index] ?? null }))}
            keyOf={({ thread }) => String(thread)}
          />
        )}
      </Live>
    </Page>
  );
}
