// `headrace explain FILE`: asks a running gateway which CRN a request with this body would go to, and prints each term of the cost.

import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { type Column, numberText, printTable, textColumn } from '../admin/index.ts';
import type { RequestExplanation } from '../api/explain.ts';
import { messageOf } from '../errors.ts';
import { BufferedClient, type BufferedResponse } from '../net/buffered-client.ts';
import { adminOption, adminUrl, TOKEN_VARIABLE, tokenOf, tokenOption } from './admin-address.ts';
import { adminJson, askAdmin, refusalOf } from './admin-request.ts';
import { type CliIo, UsageError } from './io.ts';

const ASKING = { timeoutMs: 30_000, maxBytes: 16 * 1024 * 1024 };
const MAX_BODY_BYTES = 1024 * 1024 * 1024;

const DESCRIPTION = `Explains which model server (CRN) a running gateway would send a request to. FILE holds the body of the request; -
is standard input. For every CRN of its model it prints what it holds of the prompt, what waits there, and each term
of the cost in bytes of prompt; the least cost is chosen. Nothing is sent to a CRN, charged or remembered. Other
requests change all of it at any time.
Exit code 0: done, 1: refused, with a sentence on standard error.`;

const EXAMPLE = `
For example
  headrace explain request.json --session 7f3a
  curl -s … | headrace explain - --path /v1/messages --json`;

interface ExplainOptions {
  readonly admin: string;
  readonly token?: string;
  readonly path: string;
  readonly header: readonly string[];
  readonly session?: string;
  readonly cookie?: string;
  readonly account?: string;
  readonly json?: boolean;
}

export function configureExplain(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .argument('<file>', 'the body of the request; - for standard input')
    .option('--path <path>', 'path of the request', '/v1/chat/completions')
    .option('--header <line>', 'a header, as `name: value`; may be repeated', collected, [])
    .option('--session <id>', 'the same as --header "x-session-id: ID"')
    .option('--cookie <text>', 'the same as --header "cookie: TEXT"')
    .option('--account <name>', 'as which account, where routing.isolate is account')
    .option('--json', 'prints the explanation as JSON')
    .addOption(adminOption())
    .addOption(tokenOption())
    .addHelpText('after', EXAMPLE)
    .action(async (file: string, options: ExplainOptions) => explain(file, options, io));
}

function collected(value: string, before: readonly string[]): readonly string[] {
  return [...before, value];
}

async function explain(file: string, options: ExplainOptions, io: CliIo): Promise<void> {
  const query = new URLSearchParams({ path: options.path, account: options.account ?? '' });
  const url = adminUrl(options.admin, `/explain?${query.toString()}`);
  const token = tokenOf(options.token, io);
  if (token === '') throw new UsageError(`--token or ${TOKEN_VARIABLE} is missing`);
  const headers = { ...headersOf(options), authorization: `Bearer ${token}` };
  const body = file === '-' ? await wholeInput(io) : await fileContent(file);
  const client = new BufferedClient(1);
  try {
    const request = { method: 'POST', url, headers, body } as const;
    const explanation = explanationIn(await askAdmin(client, request, ASKING));
    if (options.json === true) io.stdout.write(`${JSON.stringify(explanation, null, 2)}\n`);
    else if ('crns' in explanation) io.stdout.write(explanationText(explanation));
    else throw new Error(`${options.path} goes to no CRN; --json prints what it did`);
  } catch (error) {
    io.stderr.write(`headrace: ${options.admin}: ${messageOf(error)}\n`);
    io.exitCode = 1;
  } finally {
    client.close();
  }
}

function headersOf({ cookie, header, session }: ExplainOptions): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  for (const line of header) {
    const [, name, value] = /^([\w!#$%&'*+.^`|~-]+):\s*([\t\x20-\x7e]*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) throw new UsageError('--header takes "name: value"');
    headers[name.toLowerCase()] = value;
  }
  if (session !== undefined) headers['x-session-id'] = session;
  if (cookie !== undefined) headers['cookie'] = cookie;
  return headers;
}

async function fileContent(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`cannot read ${file}: ${(error as Error).message}`);
  }
}

async function wholeInput({ stdin }: CliIo): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const piece of stdin) {
    const chunk = Buffer.from(piece as Buffer | string);
    bytes += chunk.byteLength;
    if (bytes > MAX_BODY_BYTES) throw new UsageError('standard input is longer than 1 GiB');
    pieces.push(chunk);
  }
  return Buffer.concat(pieces);
}

/** Requests to other paths than those of CRNs, such as searches, are explained otherwise. */
function explanationIn(response: BufferedResponse): RequestExplanation | object {
  const { status } = response;
  const value = adminJson(response);
  if (status === 200) return value as object;
  throw refusalOf(status, value);
}

const REASONS: Readonly<Record<RequestExplanation['reason'], string>> = {
  response: 'it has the response that the request continues',
  cookie: 'the affinity cookie names it, and it costs not much more than the best one',
  cache: 'it costs least, and holds the beginning of the prompt',
  prior: 'it costs least; where nothing is known, its rendezvous score for this prompt is the highest',
  moved: 'it costs least; the one of the affinity cookie is unfit or costs too much more',
  spilled: 'it costs least; another one holds more of the prompt, and is busier',
  none: 'it costs least; no other one differs in more than its load',
  trial: 'it was ejected, and the next request is its trial',
  'last resort': 'every CRN is down; this one is tried rather than none',
};

type ExplainedCrn = RequestExplanation['crns'][number];

/** The explanation for people: the prompt, a table with a line for each CRN, and the choice. */
export function explanationText(explanation: RequestExplanation): string {
  const { chosen, commonBytes, cookie, crns, dialect, model, promptBytes, reason, session, untranslatable } =
    explanation;
  const hints = [session ? 'a session' : '', cookie === null ? '' : `the cookie of ${cookie}`].filter(Boolean);
  return [
    `model ${model}, ${dialect ?? 'no known'} dialect, ${bytesText(promptBytes)} of prompt`,
    ...(commonBytes > 0
      ? [`${bytesText(commonBytes)} at its beginning are common: they count as held by every CRN`]
      : []),
    ...(untranslatable === null ? [] : [`it cannot be translated: ${untranslatable}`]),
    ...(hints.length > 0 ? [`the request names ${hints.join(' and ')}`] : []),
    '',
    printTable(columnsOf(explanation), crns).trimEnd(),
    '',
    'COST = (BACKLOG + IN FLIGHT + MISS) x SLOWNESS x FAILURES x SLOW START, in bytes of prompt',
    ...(crns.some(({ siblings }) => siblings > 0)
      ? ['SIBLINGS: what other gateways have of BACKLOG and IN FLIGHT']
      : []),
    ...(crns.some(({ weight }) => weight !== 1) ? ['BACKLOG and what was IN FLIGHT before are divided by WEIGHT'] : []),
    chosen === null ? 'no CRN can be tried' : `chosen: ${chosen}: ${REASONS[reason]}`,
    '',
  ].join('\n');
}

function columnsOf({ chosen, crns, promptBytes }: RequestExplanation): readonly Column<ExplainedCrn>[] {
  const isWeighted = crns.some(({ weight }) => weight !== 1);
  const hasSiblings = crns.some(({ siblings }) => siblings > 0);
  const share = ({ hitFactor, matchedBytes }: ExplainedCrn): string =>
    promptBytes === 0 ? '0 %' : `${Math.round((100 * matchedBytes * hitFactor) / promptBytes)} %`;
  const cells: readonly (readonly [string, (crn: ExplainedCrn) => string | number])[] = [
    ['', ({ crn }) => (crn === chosen ? '>' : ' ')],
    ['CRN', ({ crn }) => crn],
    ['STANDING', ({ standing }) => standing],
    ['FORM', ({ form }) => form],
    ['BLOCKS', ({ matchedBlocks }) => matchedBlocks],
    ['HELD', ({ matchedBytes }) => bytesText(matchedBytes)],
    ['HIT', share],
    ['RATE', ({ bytesPerS }) => (bytesPerS === null ? '–' : `${bytesText(bytesPerS)}/s`)],
    ['WEIGHT', ({ weight }) => weight],
    ['BACKLOG', ({ backlog }) => numberText(Math.round(backlog))],
    ['IN FLIGHT', ({ inFlight }) => numberText(Math.round(inFlight))],
    ['SIBLINGS', ({ siblings }) => numberText(Math.round(siblings))],
    ['MISS', ({ favourite, miss }) => `${numberText(Math.round(miss))}${favourite ? '*' : ''}`],
    ['SLOWNESS', ({ slowness }) => slowness.toFixed(2)],
    ['FAILURES', ({ failures }) => failures.toFixed(2)],
    ['SLOW START', ({ slowStart }) => slowStart.toFixed(2)],
    ['COST', ({ cost, eligible }) => (eligible ? numberText(Math.round(cost)) : '–')],
  ];
  return cells
    .filter(([head]) => (head !== 'WEIGHT' || isWeighted) && (head !== 'SIBLINGS' || hasSiblings))
    .map(([head, cell]) => textColumn(head, cell));
}

function bytesText(bytes: number): string {
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  return bytes < 1024 ** 2 ? `${(bytes / 1024).toFixed(1)} KiB` : `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
}
