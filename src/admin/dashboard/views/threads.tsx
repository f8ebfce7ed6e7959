// The threads of the gateway: load, delays of the event loop, heap.

import type { VNode } from 'preact';
import type { ThreadOverview } from '../../overview.ts';
import { Live } from '../components/live.tsx';
import { Page } from '../components/page.tsx';
import { Bar } from '../components/sparkline.tsx';
import { type Column, Table } from '../components/table.tsx';
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
  { name: 'In flight', numeric: true, cell: ({ inFlight }) => countText(inFlight), sort: ({ inFlight }) => inFlight },
  {
    name: 'Delay, median',
    title: 'Delay of the event loop since the reading before',
    numeric: true,
    cell: ({ delayMs }) => latencyText(delayMs[0]),
    sort: ({ delayMs }) => delayMs[0],
  },
  {
    name: 'Delay, p99',
    numeric: true,
    cell: ({ delayMs }) => latencyText(delayMs[1]),
    sort: ({ delayMs }) => delayMs[1],
  },
  {
    name: 'Longest delay',
    numeric: true,
    cell: ({ delayMs }) => latencyText(delayMs[2]),
    sort: ({ delayMs }) => delayMs[2],
  },
  { name: 'Heap', numeric: true, cell: ({ heapBytes }) => bytesText(heapBytes), sort: ({ heapBytes }) => heapBytes },
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
