// What `headrace top` shows: a document of the house and its rates as lines of text. Pure. What the gateway was told by
// others (model ids, request ids) cannot move the cursor: the tables print no control characters.

import {
  type Column,
  printTable,
  type Overview,
  type CrnOverview,
  type EngineOverview,
  durationText,
  numberText,
  type Rates,
  timeText,
} from '../admin/index.ts';

/** Errors on a screen. */
const ERRORS = 8;

type Cell<Row> = readonly [head: string, cell: (row: Row) => string | number];

/** The screen, a line an element. `rates` is null before the second document. */
export function screenLines(overview: Overview, rates: Rates | null): string[] {
  const now = rates?.total;
  const spent = overview.ledger === null ? 'no ledger' : `${overview.ledger.spentTodayUsd ?? 'unknown'} USD`;
  const inFlight = overview.threads.reduce((sum, thread) => sum + thread.inFlight, 0);
  const { fetch } = overview;
  return [
    `headrace ${overview.version}, ${overview.stage}, up ${durationText(overview.uptimeMs)}`,
    `requests ${rateText(now?.requestsPerS)}  errors ${rateText(now?.errorsPerS)}  in flight ${inFlight}` +
      `  streams ${overview.streams}  spent today ${spent}`,
    `latency ${timeText(now?.p50Ms ?? null)} median, ${timeText(now?.p99Ms ?? null)} 99th` +
      `  first byte ${timeText(now?.firstByteP50Ms ?? null)} median, ${timeText(now?.firstByteP99Ms ?? null)} 99th`,
    ...tableOf(crnCells(overview, rates), overview.crns),
    ...tableOf(modelCells(rates), overview.models),
    ...tableOf(engineCells(overview), overview.engines),
    ...tableOf(threadCells(overview, rates), overview.threads),
    '',
    `fetch pool: ${fetch.threads} threads, ${fetch.running} reading, ${fetch.queued} waiting, ${fetch.pages} pages so far`,
    ...tableOf(ERROR_CELLS, overview.errors.slice(0, ERRORS)),
  ];
}

function rateText(perS: number | undefined): string {
  return perS === undefined ? '–' : `${numberText(perS)}/s`;
}

/** A table below a blank line; nothing without rows. */
function tableOf<Row>(cells: readonly Cell<Row>[], rows: readonly Row[]): string[] {
  if (rows.length === 0) return [];
  const columns = cells.map(([head, cell]): Column<Row> => ({ head, cell, isNumber: false, csvOnly: false }));
  return ['', ...printTable(columns, rows).trimEnd().split('\n')];
}

function crnCells(overview: Overview, rates: Rates | null): Cell<CrnOverview>[] {
  return [
    ['CRN', ({ url }) => url],
    ['STANDING', (crn) => standingOf(crn, overview.dateMs)],
    ['IN FLIGHT', ({ inFlight }) => inFlight],
    ['FIRST BYTE', ({ models }) => timeText(Math.max(...models.map(({ firstByteMs }) => firstByteMs)))],
    ['ATTEMPTS', ({ url }) => rateText(rates?.crns[url])],
    ['FAILURES', ({ failures }) => failures],
    ['FAILOVERS', ({ failovers }) => failovers],
  ];
}

function standingOf({ models, ejectedUntilMs }: CrnOverview, dateMs: number): string {
  const words = [...new Set(models.map(({ standing }) => standing))].join(', ');
  if (ejectedUntilMs === null || ejectedUntilMs <= dateMs) return words;
  return `${words}, ejected for ${durationText(ejectedUntilMs - dateMs)}`;
}

function modelCells(rates: Rates | null): Cell<Overview['models'][number]>[] {
  const of = (model: string): Rates['models'][number] | undefined => rates?.models.find((one) => one.model === model);
  return [
    ['MODEL', ({ model }) => model || '(no model)'],
    ['REQUESTS', ({ model }) => rateText(of(model)?.requestsPerS)],
    ['MEDIAN', ({ model }) => timeText(of(model)?.p50Ms ?? null)],
    ['99TH', ({ model }) => timeText(of(model)?.p99Ms ?? null)],
    ['SO FAR', ({ requests }) => requests],
    ['ERRORS', ({ errors }) => errors],
    ['FAILOVERS', ({ failovers }) => failovers],
  ];
}

function engineCells({ dateMs }: Overview): Cell<EngineOverview>[] {
  return [
    ['ENGINE', ({ engine }) => engine],
    [
      'STANDING',
      ({ standing, suspendedUntilMs }) =>
        standing === 'suspended' ? `suspended for ${durationText(suspendedUntilMs - dateMs)}` : standing,
    ],
    ['ANSWERED', ({ answered }) => answered],
    ['FAILED', ({ failed }) => failed],
    ['LAST FAILURE', ({ reason }) => reason || '–'],
  ];
}

function threadCells({ threads }: Overview, rates: Rates | null): Cell<Overview['threads'][number]>[] {
  return [
    ['THREAD', ({ thread }) => thread],
    ['IN FLIGHT', ({ inFlight }) => inFlight],
    ['BUSY', (thread) => (rates === null ? '–' : `${Math.round((rates.busy[threads.indexOf(thread)] ?? 0) * 100)} %`)],
    ['DELAY 99TH', ({ delayMs }) => timeText(delayMs[1])],
    ['LONGEST', ({ delayMs }) => timeText(delayMs[2])],
    ['HEAP', ({ heapBytes }) => `${Math.round(heapBytes / 1_048_576)} MiB`],
  ];
}

const ERROR_CELLS: readonly Cell<Overview['errors'][number]>[] = [
  ['LAST ERRORS', ({ dateMs }) => new Date(dateMs).toISOString().slice(11, 19)],
  ['STATUS', ({ status }) => status],
  ['CODE', ({ code }) => code || '–'],
  ['ENDPOINT', ({ endpoint }) => endpoint],
  ['MODEL', ({ model }) => model || '–'],
  ['REQUEST', ({ requestId }) => requestId],
];
