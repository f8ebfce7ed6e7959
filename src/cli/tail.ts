// `headrace tail`: the request log of a running gateway, one line for each request as it ends.

import type { Command } from 'commander';
import { numberText, timeText, visible } from '../admin/index.ts';
import { messageOf } from '../errors.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { membersOf } from '../net/json-object.ts';
import type { LoggedRequest } from '../telemetry/request-log.ts';
import { adminOption, adminUrl, tokenOf, tokenOption } from './admin-address.ts';
import { adminJson, askAdmin, refusalOf } from './admin-request.ts';
import { type CliIo, UsageError } from './io.ts';
import { startWatch } from './watch.ts';

const ASKING = { timeoutMs: 10_000, maxBytes: 16 * 1024 * 1024 };
/** Most rows of one answer. */
const MOST = 500;

const DESCRIPTION = `Prints the requests that a running gateway has served, from its request log in memory: the last ones, and then each
as it ends, until Ctrl-C. The filters add up. Records that are kept in the store are another list: see headrace
requests.
Exit code 0: done, 1: the gateway does not answer or refuses, with a sentence on standard error.`;

const EXAMPLE = `
For example
  headrace tail --errors
  headrace tail --model atlas-27b --slower-than 5s
  headrace tail --json --lines 500 --once > requests.jsonl`;

interface TailOptions {
  readonly admin: string;
  readonly token?: string;
  readonly lines: string;
  readonly once?: boolean;
  readonly json?: boolean;
  readonly errors?: boolean;
  readonly status?: string;
  readonly model?: string;
  readonly account?: string;
  readonly crn?: string;
  readonly code?: string;
  readonly endpoint?: string;
  readonly tool?: string;
  readonly slowerThan?: string;
  readonly search?: string;
}

export function configureTail(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .option('--lines <n>', 'requests that ended before, 0 to 500', '10')
    .option('--once', 'prints those and ends')
    .option('--json', 'prints each request as a line of JSON')
    .option('--errors', 'only what failed, broke off or was aborted')
    .option('--status <status>', 'only this status, such as 404 or 5xx')
    .option('--model <name>', 'only this model')
    .option('--account <name>', 'only this account')
    .option('--crn <url>', 'only requests that asked this CRN')
    .option('--code <code>', 'only this error code')
    .option('--endpoint <path>', 'only this endpoint')
    .option('--tool <name>', 'only searches and pages asked by this tool, such as mcp or tavily')
    .option('--slower-than <duration>', 'only what took longer, such as 2s')
    .option('--search <text>', 'only what has this text in an id, a name or a code')
    .addOption(adminOption())
    .addOption(tokenOption())
    .addHelpText('after', EXAMPLE)
    .action(async (options: TailOptions) => tail(options, io));
}

async function tail(options: TailOptions, io: CliIo): Promise<void> {
  const { errors = false, json = false, lines, once = false, status } = options;
  if (!/^\d{1,3}$/.test(lines) || Number(lines) > MOST)
    throw new UsageError(`--lines takes a number from 0 to ${MOST}`);
  if (errors && status !== undefined) throw new UsageError('--errors and --status exclude each other');
  const filters = filtersOf(options);
  const token = tokenOf(options.token, io);
  const log = adminUrl(options.admin, '/requests/log');
  const client = new BufferedClient(1);
  const watch = startWatch(io, () => client.close());
  const print = (rows: readonly LoggedRequest[]): void => {
    for (const row of rows) io.stdout.write(`${json ? JSON.stringify(row) : lineOf(row)}\n`);
  };
  const read = (query: Readonly<Record<string, string>>): Promise<LogPage> =>
    readPage(client, `${log}?${new URLSearchParams({ ...filters, ...query }).toString()}`, {
      ...(token !== '' && { authorization: `Bearer ${token}` }),
    });
  try {
    const { data } = await read({ limit: String(Math.max(Number(lines), 1)) });
    print(Number(lines) === 0 ? [] : data.toReversed());
    // Without a row to go on from, all that is new is behind the beginning of time.
    let place = data[0]?.cursor ?? '0-0-0';
    while (!once && !watch.isOver) {
      await watch.pause();
      let next: string | null = place;
      while (next !== null && !watch.isOver) {
        const page: LogPage = await read({ limit: String(MOST), after: next });
        print(page.data);
        place = page.data.at(-1)?.cursor ?? place;
        next = page.next;
      }
    }
  } catch (error) {
    if (watch.isOver) return;
    io.stderr.write(`headrace: ${options.admin}: ${messageOf(error)}\n`);
    io.exitCode = 1;
  } finally {
    watch.close();
    client.close();
  }
}

function filtersOf({
  account,
  code,
  crn,
  endpoint,
  errors,
  model,
  search,
  slowerThan,
  status,
  tool,
}: TailOptions): Record<string, string> {
  const filters = {
    account,
    code,
    crn,
    endpoint,
    model,
    slowerThan,
    tool,
    q: search,
    status: errors === true ? 'error' : status,
  };
  return Object.fromEntries(
    Object.entries(filters).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

interface LogPage {
  readonly data: readonly LoggedRequest[];
  readonly next: string | null;
}

async function readPage(
  client: BufferedClient,
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<LogPage> {
  const request = { method: 'GET', url, headers } as const;
  const response = await askAdmin(client, request, ASKING);
  const { status } = response;
  const value = adminJson(response);
  if (status === 200 && Array.isArray(membersOf(value)['data'])) return value as LogPage;
  throw refusalOf(status, value);
}

/** A request on one line: when, what came of it, how long it took, for whom, where, and its id. */
export function lineOf(row: LoggedRequest): string {
  const { aborted, account, alias, attempts, code, crn, durationMs, endpoint, failures, firstByteMs, inputTokens } =
    row;
  const { method, model, outputTokens, path, requestId, status, tokensPerSecond } = row;
  const tokens =
    inputTokens === null && outputTokens === null ? [] : [`${inputTokens ?? 0}→${outputTokens ?? 0} tokens`];
  const parts = [
    new Date(row.dateMs).toISOString(),
    `${status}${aborted ? ' client left' : ''}`,
    timeText(durationMs),
    ...(firstByteMs === null ? [] : [`first byte ${timeText(firstByteMs)}`]),
    ...tokens,
    ...(tokensPerSecond === null ? [] : [`${numberText(tokensPerSecond)}/s`]),
    method === 'POST' ? (path ?? endpoint) : `${method} ${path ?? endpoint}`,
    model ?? (alias === null ? '–' : `unknown model ${alias}`),
    account ?? '–',
    crn ?? '–',
    ...(attempts > 1
      ? [`${attempts} attempts (${failures.map(({ failure, reason }) => reason ?? failure).join(', ')})`]
      : []),
    ...(code === null ? [] : [code]),
    requestId,
  ];
  return visible(parts.join('  '));
}
