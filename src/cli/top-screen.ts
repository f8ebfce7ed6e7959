// What `headrace top` shows: a document of the house and its rates as lines of text. Pure. What the gateway was told by
// others (model ids, request ids) cannot move the cursor: the tables print no control characters.

import { type Column, printTable } from '../account/index.ts';
import type { House, HouseCrn, HouseEngine } from '../gateway/house.ts';
import { durationText, numberText, type Rates, timeText } from '../gateway/house-rates.ts';

/** Errors on a screen. */
const ERRORS = 8;

type Cell<Row> = readonly [head: string, cell: (row: Row) => string | number];

/** The screen, a line an element. `rates` is null before the second document. */
export function screenLines(house: House, rates: Rates | null): string[] {
  const now = rates?.total;
  const spent = house.ledger === null ? 'no ledger' : `${house.ledger.spentTodayUsd ?? 'unknown'} USD`;
  const inFlight = house.threads.reduce((sum, thread) => sum + thread.inFlight, 0);
  const { fetch } = house;
  return [
    `headrace ${house.version}, ${house.stage}, up ${durationText(house.uptimeMs)}`,
    `requests ${rateText(now?.requestsPerS)}  errors ${rateText(now?.errorsPerS)}  in flight ${inFlight}` +
      `  streams ${house.streams}  spent today ${spent}`,
    `latency ${timeText(now?.p50Ms ?? null)} median, ${timeText(now?.p99Ms ?? null)} 99th` +
      `  first byte ${timeText(now?.firstByteP50Ms ?? null)} median, ${timeText(now?.firstByteP99Ms ?? null)} 99th`,
    ...tableOf(crnCells(house, rates), house.crns),
    ...tableOf(modelCells(rates), house.models),
    ...tableOf(engineCells(house), house.engines),
    ...tableOf(threadCells(house, rates), house.threads),
    '',
    `fetch pool: ${fetch.threads} threads, ${fetch.running} reading, ${fetch.queued} waiting, ${fetch.pages} pages so far`,
    ...tableOf(ERROR_CELLS, house.errors.slice(0, ERRORS)),
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

function crnCells(house: House, rates: Rates | null): Cell<HouseCrn>[] {
  return [
    ['CRN', ({ url }) => url],
    ['STANDING', (crn) => standingOf(crn, house.dateMs)],
    ['IN FLIGHT', ({ inFlight }) => inFlight],
    ['FIRST BYTE', ({ models }) => timeText(Math.max(...models.map(({ firstByteMs }) => firstByteMs)))],
    ['ATTEMPTS', ({ url }) => rateText(rates?.crns[url])],
    ['FAILURES', ({ failures }) => failures],
    ['FAILOVERS', ({ failovers }) => failovers],
  ];
}

function standingOf({ models, ejectedUntilMs }: HouseCrn, dateMs: number): string {
  const words = [...new Set(models.map(({ standing }) => standing))].join(', ');
  if (ejectedUntilMs === null || ejectedUntilMs <= dateMs) return words;
  return `${words}, ejected for ${durationText(ejectedUntilMs - dateMs)}`;
}

function modelCells(rates: Rates | null): Cell<House['models'][number]>[] {
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

function engineCells({ dateMs }: House): Cell<HouseEngine>[] {
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

function threadCells({ threads }: House, rates: Rates | null): Cell<House['threads'][number]>[] {
  return [
    ['THREAD', ({ thread }) => thread],
    ['IN FLIGHT', ({ inFlight }) => inFlight],
    ['BUSY', (thread) => (rates === null ? '–' : `${Math.round((rates.busy[threads.indexOf(thread)] ?? 0) * 100)} %`)],
    ['DELAY 99TH', ({ delayMs }) => timeText(delayMs[1])],
    ['LONGEST', ({ delayMs }) => timeText(delayMs[2])],
    ['HEAP', ({ heapBytes }) => `${Math.round(heapBytes / 1_048_576)} MiB`],
  ];
}

const ERROR_CELLS: readonly Cell<House['errors'][number]>[] = [
  ['LAST ERRORS', ({ dateMs }) => new Date(dateMs).toISOString().slice(11, 19)],
  ['STATUS', ({ status }) => status],
  ['CODE', ({ code }) => code || '–'],
  ['ENDPOINT', ({ endpoint }) => endpoint],
  ['MODEL', ({ model }) => model || '–'],
  ['REQUEST', ({ requestId }) => requestId],
];
