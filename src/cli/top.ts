// `headrace top`: the overview of a running gateway in the terminal, renewed every second. A terminal shows it on its
// alternate screen, which is left at the end; any other output gets plain text.

import type { Command } from 'commander';
import {
  type ClusterOverview,
  type CrnOverview,
  durationText,
  type EngineOverview,
  numberText,
  type Overview,
  printTable,
  type Rates,
  ratesBetween,
  textColumn,
  timeText,
} from '../admin/index.ts';
import { counted } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { adminOption, adminUrl } from './admin-address.ts';
import { adminJson, askAdmin } from './admin-request.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { type CliIo, redraws } from './io.ts';
import { startWatch, type Watch } from './watch.ts';

const ASKING = { timeoutMs: 5000, maxBytes: 64 * 1024 * 1024 };

/** Errors on a screen. */
const MAX_ERRORS = 8;

/** In raw mode Ctrl-C and Ctrl-D are characters. */
const LAST_KEYS: ReadonlySet<string> = new Set(['q', 'Q', '\u0003', '\u0004']);

/** Alternate screen without a cursor, and back. */
const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
const HOME = '\u001b[H';
const CLEAR_LINE = '\u001b[K';
const CLEAR_BELOW = '\u001b[J';

const DESCRIPTION = `Shows a running gateway as its dashboard does: requests a second, latency, CRNs, models, engines, threads and the
last errors, renewed every second. q ends it. Into a file or a pipe, and where TERM is dumb, it writes plain text, one
screen a second, until Ctrl-C.
Exit code 0: done, 1: the gateway does not answer, with a sentence on standard error.`;

export function configureTop(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .addOption(adminOption())
    .option('--once', 'prints one screen, measured over a second, and ends')
    .action(async ({ admin, once = false }: { admin: string; once?: boolean }) => top(admin, once, io));
}

async function top(address: string, once: boolean, io: CliIo): Promise<void> {
  const url = adminUrl(address, '/overview');
  const client = new BufferedClient(1);
  const watch = startWatch(io, () => client.close());
  const view = redraws(io.stdout, io) && !once ? new TerminalView(io, () => watch.end()) : new PlainView(io);
  try {
    await renew(() => readOverview(client, url), view, watch, once);
    view.close();
  } catch (error) {
    view.close();
    if (watch.isOver) return;
    io.stderr.write(`headrace: ${url} ${messageOf(error)}\n`);
    io.exitCode = 1;
  } finally {
    watch.close();
    client.close();
  }
}

interface View {
  show(lines: readonly string[]): void;
  close(): void;
}

async function renew(read: () => Promise<Overview>, view: View, watch: Watch, once: boolean): Promise<void> {
  let before = await read();
  if (!once) view.show(screenLines(before, null));
  for (;;) {
    await watch.pause();
    if (watch.isOver) return;
    const overview = await read();
    view.show(screenLines(overview, ratesBetween(before, overview)));
    if (once) return;
    before = overview;
  }
}

async function readOverview(client: BufferedClient, url: string): Promise<Overview> {
  const response = await askAdmin(client, { method: 'GET', url, headers: {} }, ASKING);
  const { status } = response;
  if (status !== 200) throw new Error(`answers ${status}: is it the admin listener of a gateway?`);
  const overview = (adminJson(response) ?? {}) as Overview;
  if (!Array.isArray(overview.crns)) throw new Error('answers no overview: is it the admin listener of a gateway?');
  return overview;
}

class PlainView implements View {
  readonly #io: CliIo;

  constructor(io: CliIo) {
    this.#io = io;
  }

  show(lines: readonly string[]): void {
    this.#io.stdout.write(`${lines.join('\n')}\n\n`);
  }

  close(): void {}
}

class TerminalView implements View {
  readonly #io: CliIo;
  readonly #onQuit: () => void;
  #lines: readonly string[] = [];

  constructor(io: CliIo, onQuit: () => void) {
    this.#io = io;
    this.#onQuit = onQuit;
    io.stdout.write(ENTER);
    io.stdout.on('resize', this.#draw);
    if (io.stdin.isTTY !== true) return;
    io.stdin.setRawMode?.(true);
    io.stdin.on('data', this.#onKeys);
  }

  show(lines: readonly string[]): void {
    this.#lines = lines;
    this.#draw();
  }

  close(): void {
    const { stdin, stdout } = this.#io;
    stdout.off('resize', this.#draw);
    stdout.write(LEAVE);
    if (stdin.isTTY !== true) return;
    stdin.off('data', this.#onKeys);
    stdin.setRawMode?.(false);
    stdin.pause();
  }

  readonly #onKeys = (keys: Buffer | string): void => {
    if (Array.from(keys.toString()).some((key) => LAST_KEYS.has(key))) this.#onQuit();
  };

  readonly #draw = (): void => {
    const { columns, rows } = this.#io.stdout;
    // A terminal that does not know its size says 0.
    const shown = this.#lines.slice(0, (rows || 24) - 1).map((line) =>
      Array.from(line)
        .slice(0, columns || 80)
        .join(''),
    );
    this.#io.stdout.write(HOME + shown.map((line) => `${line}${CLEAR_LINE}\r\n`).join('') + CLEAR_BELOW);
  };
}

type Cell<Row> = readonly [head: string, cell: (row: Row) => string | number];

/**
 * The screen, one element per line. `rates` is null before the second overview. Names that come from outside (model ids,
 * request ids) cannot move the cursor: tables print no control characters.
 */
export function screenLines(overview: Overview, rates: Rates | null): string[] {
  const { recent } = overview;
  const spent = overview.ledger === null ? 'no ledger' : `${overview.ledger.spentTodayUsd ?? 'unknown'} USD`;
  const inFlight = overview.threads.reduce((sum, thread) => sum + thread.inFlight, 0);
  const { fetch } = overview;
  return [
    `headrace ${overview.version}, ${overview.stage}, up ${durationText(overview.uptimeMs)}`,
    `requests ${rateText(recent.requestsPerS)}  errors ${rateText(recent.errorsPerS)}  in flight ${inFlight}` +
      `  streams ${overview.streams}  spent today ${spent}`,
    `latency ${timeText(recent.latencyMs.p50)} median, ${timeText(recent.latencyMs.p99)} 99th` +
      `  first byte ${timeText(recent.firstByteMs.p50)} median, ${timeText(recent.firstByteMs.p99)} 99th`,
    tokensLine(recent),
    ...tableOf(crnCells(overview, rates), overview.crns),
    ...tableOf(MODEL_CELLS, overview.models),
    ...tableOf(engineCells(overview), overview.engines),
    ...tableOf(threadCells(overview, rates), overview.threads),
    ...clusterLines(overview),
    '',
    `fetch pool: ${counted(fetch.threads, 'thread')}, ${fetch.running} reading, ${fetch.queued} waiting, ${counted(fetch.pages, 'page')} so far`,
    ...tableOf(ERROR_CELLS, overview.errors.slice(0, MAX_ERRORS)),
  ];
}

/** The roll call; nothing for a gateway that is alone by its settings. */
function clusterLines({ cluster }: Overview): string[] {
  if (cluster === null) return [];
  const alone = ['', 'cluster: Redis or Valkey does not answer, this gateway goes on alone'];
  return [...(cluster.connected ? [] : alone), ...tableOf(GATEWAY_CELLS, cluster.gateways)];
}

const GATEWAY_CELLS: readonly Cell<ClusterOverview['gateways'][number]>[] = [
  ['GATEWAY', ({ name }) => name],
  ['ADDRESS', ({ address }) => address ?? '–'],
  ['STAGE', ({ stage }) => stage],
  ['VERSION', ({ version }) => version],
  ['IN FLIGHT', ({ inFlight }) => inFlight],
  ['REQUESTS', ({ requestsPerS }) => rateText(requestsPerS)],
  ['UP', ({ uptimeMs }) => durationText(uptimeMs)],
  ['LAST HEARD', ({ ageMs, self }) => (self ? '–' : timeText(ageMs))],
];

function tokensLine({ cachedTokensPerS, inputTokensPerS, outputTokensPerS, usdPerHour }: Overview['recent']): string {
  const share = inputTokensPerS ? (cachedTokensPerS ?? 0) / inputTokensPerS : null;
  const cached = share === null ? '' : ` (${shareText(share)} of it cached)`;
  return (
    `tokens ${perSText(inputTokensPerS)} in${cached}, ${perSText(outputTokensPerS)} out` +
    `  cost ${usdPerHour === null ? '–' : usdText(usdPerHour)} USD/h`
  );
}

function perSText(perS: number | null): string {
  return rateText(perS ?? undefined);
}

/** USD with three digits where it is small. */
function usdText(usd: number): string {
  return usd < 100 ? String(Number(usd.toPrecision(3))) : numberText(usd);
}

function rateText(perS: number | undefined): string {
  return perS === undefined ? '–' : `${numberText(perS)}/s`;
}

/** A table below a blank line; nothing without rows. */
function tableOf<Row>(cells: readonly Cell<Row>[], rows: readonly Row[]): string[] {
  if (rows.length === 0) return [];
  const columns = cells.map(([head, cell]) => textColumn(head, cell));
  return ['', ...printTable(columns, rows).trimEnd().split('\n')];
}

function crnCells(overview: Overview, rates: Rates | null): Cell<CrnOverview>[] {
  return [
    ['CRN', ({ url }) => url],
    ['STANDING', (crn) => standingOf(crn, overview.dateMs)],
    ...lackCells(overview),
    ['IN FLIGHT', ({ inFlight }) => inFlight],
    ['FIRST BYTE', ({ models }) => timeText(Math.max(...models.map(({ firstByteMs }) => firstByteMs)))],
    ['HIT', ({ predictedHit }) => shareText(predictedHit)],
    ['REPORTED', ({ reportedHit }) => shareText(reportedHit)],
    ['BACKLOG', ({ backlogBytes }) => `${numberText(Math.round(backlogBytes / 1024))} KiB`],
    ['RATE', ({ models }) => perSecondText(models.map(({ bytesPerS }) => bytesPerS))],
    ['CACHE', ({ models }) => `${numberText(sizeOf(models))} MiB`],
    ['ATTEMPTS', ({ url }) => rateText(rates?.crns[url])],
    ['FAILURES', ({ failures }) => failures],
    ['FAILOVERS', ({ failovers }) => failovers],
    ...reasonCells(overview),
  ];
}

/** Why CRNs do not answer, where any does not. */
function reasonCells({ crns, dateMs }: Overview): Cell<CrnOverview>[] {
  const cells: Cell<CrnOverview>[] = [];
  if (crns.some(({ lastProbe }) => lastProbe !== null && lastProbe.reason !== null))
    cells.push(['LAST PROBE', ({ lastProbe }) => lastProbe?.reason ?? 'ok']);
  if (crns.some(({ lastFailure }) => lastFailure !== null)) {
    cells.push([
      'LAST FAILURE',
      ({ lastFailure }) =>
        lastFailure === null ? '–' : `${lastFailure.reason}, ${durationText(dateMs - lastFailure.dateMs)} ago`,
    ]);
  }
  return cells;
}

/** What was found to be translated, where anything was. */
function lackCells({ crns }: Overview): Cell<CrnOverview>[] {
  return crns.some(({ lacks }) => lacks.length > 0) ? [['LACKS', ({ lacks }) => lacks.join(',') || '–']] : [];
}

function shareText(share: number | null): string {
  return share === null ? '–' : `${Math.round(share * 100)} %`;
}

/** The lowest of the known rates: that of the largest model. */
function perSecondText(rates: readonly (number | null)[]): string {
  const known = rates.filter((rate) => rate !== null);
  return known.length === 0 ? '–' : `${numberText(Math.round(Math.min(...known) / 1024))} KiB/s`;
}

/** Expected capacity for prompts in MiB, of the model with the largest one. */
function sizeOf(models: CrnOverview['models']): number {
  return Math.round(Math.max(0, ...models.map(({ capacityBytes }) => capacityBytes)) / 1_048_576);
}

function standingOf({ models, ejectedUntilMs }: CrnOverview, dateMs: number): string {
  const words = [...new Set(models.map(({ standing }) => standing))].join(', ');
  if (ejectedUntilMs === null || ejectedUntilMs <= dateMs) return words;
  return `${words}, ejected for ${durationText(ejectedUntilMs - dateMs)}`;
}

const MODEL_CELLS: readonly Cell<Overview['models'][number]>[] = [
  ['MODEL', ({ model }) => model || '(no model)'],
  ['REQUESTS', ({ recent }) => rateText(recent.requestsPerS)],
  ['MEDIAN', ({ recent }) => timeText(recent.latencyMs.p50)],
  ['99TH', ({ recent }) => timeText(recent.latencyMs.p99)],
  ['TOKENS IN', ({ recent }) => perSText(recent.inputTokensPerS)],
  ['OUT', ({ recent }) => perSText(recent.outputTokensPerS)],
  ['CACHED', ({ tokens }) => shareText(tokens.input === 0 ? null : tokens.cached / tokens.input)],
  [
    'PREDICTED',
    ({ predictedBytes, promptBytes }) => shareText(promptBytes === 0 ? null : predictedBytes / promptBytes),
  ],
  ['USD', ({ costUsd }) => usdText(costUsd)],
  ['SO FAR', ({ requests }) => requests],
  ['ERRORS', ({ errors }) => errors],
  ['FAILOVERS', ({ failovers }) => failovers],
  ['WAITING', ({ waiting }) => waiting],
];

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
