// The last errors, each with the request id that the client was sent.

import type { VNode } from 'preact';
import type { RecentError } from '../../../telemetry/recent.ts';
import { dateText, momentText, NONE } from '../format.ts';
import { href } from '../router.ts';
import { CopyButton } from './copy-button.tsx';
import { type Column, Table } from './table.tsx';

const COLUMNS: readonly Column<RecentError>[] = [
  {
    name: 'Request',
    class: 'name',
    cell: ({ requestId }) => (
      <>
        <a href={href(`/requests/${encodeURIComponent(requestId)}`)}>
          <code>{requestId}</code>
        </a>{' '}
        <CopyButton text={requestId} what="request id" />
      </>
    ),
  },
  {
    name: 'Time',
    cell: ({ dateMs }) => <time title={dateText(dateMs)}>{momentText(dateMs)}</time>,
    sort: ({ dateMs }) => dateMs,
  },
  {
    name: 'Status',
    cell: ({ status }) => <span class={status >= 500 ? 'bad' : ''}>{status}</span>,
    sort: ({ status }) => status,
  },
  { name: 'Code', cell: ({ code }) => (code === '' ? NONE : <code>{code}</code>), sort: ({ code }) => code },
  { name: 'Endpoint', cell: ({ endpoint }) => endpoint, sort: ({ endpoint }) => endpoint },
  { name: 'Model', cell: ({ model }) => model || NONE, sort: ({ model }) => model },
  {
    name: 'CRN',
    class: 'name',
    cell: ({ crn }) => (crn === '' ? NONE : <a href={href(`/crns/${encodeURIComponent(crn)}`)}>{crn}</a>),
    sort: ({ crn }) => crn,
  },
];

export interface ErrorTableProps {
  readonly errors: readonly RecentError[];
  /** Those of one model or CRN, of all that the gateway remembers. */
  readonly isPart?: boolean;
}

export function ErrorTable({ errors, isPart = false }: ErrorTableProps): VNode {
  return (
    <Table
      id="errors"
      caption="Last errors, newest first"
      columns={COLUMNS}
      rows={errors}
      keyOf={({ dateMs, requestId }) => `${requestId} ${dateMs}`}
      filterText={({ code, crn, endpoint, model, requestId, status }) =>
        `${requestId} ${status} ${code} ${endpoint} ${model} ${crn}`
      }
      empty={isPart ? 'None among the last errors of the gateway.' : 'No errors since the gateway started.'}
    />
  );
}
