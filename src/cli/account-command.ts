// What the commands on accounts (`keys`, `credits`, `usage`, `audit`) share: options that say where the accounts are (a store,
// the store of a configuration, or a running gateway), and how an answer is printed.

import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { userInfo } from 'node:os';
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import {
  type Column,
  createAdminService,
  type Fields,
  type AdminService,
  type List,
  nextCursor,
  printCsv,
  printJsonLines,
  printTable,
  recordedService,
  createAdminClient,
  AdminClientError,
  MovementUnknown,
} from '../admin/index.ts';
import type { Ledger } from '../billing/index.ts';
import { inspectStore, LedgerError, openLedger } from '../billing/main-thread.ts';
import { systemClock, systemEpochMs } from '../actor/index.ts';
import { resolveSetting, storeFolder } from '../config/load.ts';
import { absoluteStore, misplacedStore, storeFile, storeName } from '../config/store-url.ts';
import { HeadraceError, messageOf } from '../errors.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { adminUrl, TOKEN_VARIABLE, tokenOf } from './admin-address.ts';
import { mistakesText } from './admin-request.ts';
import { readMapping } from './input-file.ts';
import { type CliIo, UsageError } from './io.ts';
import { sentenceOf } from './options.ts';

type Environment = CliIo['env'];

const FORMATS = ['table', 'csv', 'json', 'jsonl'] as const;

/** Options of every action. */
interface AccountOptions {
  readonly store?: string;
  readonly create?: boolean;
  readonly config?: string;
  readonly admin?: string;
  readonly token?: string;
  readonly format: (typeof FORMATS)[number];
}

const REMOTE_TIMEOUT_MS = 60_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Answer of an action: rows for `csv` and `json`; for people a text, or the rows as a table. */
export interface Answer {
  /** What `--format json` prints. */
  readonly value: object;
  readonly rows: readonly object[];
  readonly columns: readonly Column<never>[];
  /** In place of the table. */
  readonly text?: string;
  /** Below the table. */
  readonly note?: string;
  readonly exitCode?: number;
  /** Everything has been written. */
  readonly silent?: true;
}

/** An answer whose columns fit its rows. */
export function answer<Row extends object>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  more: Partial<Pick<Answer, 'value' | 'text' | 'note' | 'exitCode'>> = {},
): Answer {
  return { value: rows, rows, columns, ...more };
}

/** Adds the options of every action. Subcommands take them, too. */
export function addAccountOptions(command: Command): void {
  command
    .configureHelp({ showGlobalOptions: true })
    .optionsGroup('Where the accounts are:')
    .option('--store <url>', 'sqlite:FILE or postgres://USER@HOST/DATABASE; default HEADRACE_STORE')
    .option('-c, --config <file>', 'a configuration, of which only `store` is read; default sqlite:./headrace.db')
    .option('--create', 'makes the store if there is none; a gateway does so when it starts')
    .option('--admin <url>', 'the admin listener of a running gateway, instead of a store')
    .option('--token <token>', `its adminToken; better in ${TOKEN_VARIABLE}, which no list of processes shows`)
    .optionsGroup('Output:')
    .addOption(
      new Option('--format <format>', 'CSV by RFC 4180, JSON, or one JSON value per line; amounts in JSON are strings')
        .choices(FORMATS)
        .default('table'),
    )
    .addHelpText('after', '\nExit code 0: done, 1: refused, with a sentence on standard error.');
}

/**
 * Runs an action on the accounts that the options of `command` name, and prints its answer. Refusals are a sentence on
 * standard error and exit code 1.
 */
export async function runAction(
  command: Command,
  io: CliIo,
  action: (adminService: AdminService) => Promise<Answer>,
): Promise<void> {
  const options = command.optsWithGlobals<AccountOptions>();
  await explainingRefusals(io, async () => {
    const opened = await openAdminService(options, io);
    try {
      const answered = await action(opened.adminService);
      if (answered.silent !== true) io.stdout.write(printed(answered, options.format, opened.store));
      io.stderr.write(`store: ${opened.store}\n`);
      io.exitCode = answered.exitCode ?? 0;
    } finally {
      await opened.close();
    }
  });
}

async function explainingRefusals(io: CliIo, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    io.stderr.write(`headrace: ${reasonOf(error)}\n`);
    io.exitCode = 1;
  }
}

/** Options of a list. */
export function addPageOptions(command: Command): void {
  command
    .option('--limit <n>', 'one page with so many rows, at most 1000; default all rows')
    .option('--cursor <cursor>', 'behind the last page');
}

/**
 * Prints a list: all of its pages, or one with `--limit`. CSV and JSON lines are written page by page, so that an export needs no
 * more memory than a page.
 */
export async function runList<Row extends object>(
  command: Command,
  io: CliIo,
  list: List<Row>,
  fields: Fields,
  ask: (adminService: AdminService, fields: Fields) => Promise<readonly Row[]>,
): Promise<void> {
  const { format } = command.optsWithGlobals<AccountOptions>();
  await runAction(command, io, async (adminService) => {
    const streams = format === 'csv' || format === 'jsonl';
    const columns = list.columns(fields);
    const gathered: Row[] = [];
    let cursor = fields['cursor'];
    let note = '';
    for (let page = 0; ; page++) {
      const asked = cursor === undefined ? fields : { ...fields, cursor };
      const rows = await ask(adminService, asked);
      if (!streams) gathered.push(...rows);
      else if (format === 'jsonl') io.stdout.write(printJsonLines(rows));
      else io.stdout.write(page === 0 ? printCsv(columns, rows) : printCsv(columns, rows, 'no heads'));
      const next = nextCursor(list, rows, fields);
      if (next === null) break;
      if (fields['limit'] !== undefined) {
        note = `\nnext page: --cursor ${next}\n`;
        break;
      }
      cursor = next;
    }
    return streams ? { ...answer([], []), text: '', silent: true } : answer(gathered, columns, { note });
  });
}

/** The options of these names that were given. Texts, as the admin interface reads them. */
export function pick(command: Command, ...names: readonly string[]): Fields {
  const options = command.opts<Record<string, string | undefined>>();
  return Object.fromEntries(
    names.flatMap((name) => {
      // `credit_limit` is --credit-limit, which commander calls creditLimit.
      const value = options[name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}

/** JSON that is a mapping names the store; a list stays one. */
function printed({ value, rows, columns, text, note = '' }: Answer, format: string, store: string): string {
  if (format === 'json') return `${JSON.stringify(Array.isArray(value) ? value : { ...value, store }, null, 2)}\n`;
  if (format === 'jsonl') return printJsonLines(rows);
  const columnsOfRows = columns as readonly Column<object>[];
  if (format === 'csv') return printCsv(columnsOfRows, rows);
  return text ?? printTable(columnsOfRows, rows) + note;
}

function reasonOf(error: unknown): string {
  if (error instanceof HeadraceError && error.validation !== undefined) return mistakesText(error.validation);
  if (error instanceof LedgerError || error instanceof AdminClientError) return error.message;
  if (error instanceof MovementUnknown) return `${reasonOf(error.cause)}; ${error.message}`;
  return `the store failed: ${messageOf(error)}`;
}

/**
 * Runs an action on the store that the options of `command` name, or on that of `url`. Refusals are a sentence on standard error
 * and exit code 1.
 */
export async function runOnLedger(
  command: Command,
  io: CliIo,
  action: (ledger: Ledger) => Promise<void>,
  url?: string,
): Promise<void> {
  const { config, store } = command.opts<Pick<AccountOptions, 'config' | 'store'>>();
  await explainingRefusals(io, async () => {
    const ledger = await openStore(url ?? (await storeUrl(store, config, io.env)), false);
    try {
      await action(ledger);
    } finally {
      await ledger.close();
    }
  });
}

/** Opens a store that exists, unless it may be made: one that is made by mistake would hide that the right one was not found. */
async function openStore(url: string, mayCreate: boolean): Promise<Ledger> {
  const name = storeFile(url) ?? storeName(url);
  const isNew = name === 'sqlite::memory:' || statSync(name, { throwIfNoEntry: false })?.size === 0;
  try {
    // A file or database that another program has made is left alone.
    if (!mayCreate && !isNew && (await inspectStore(url, systemClock)).version === 0)
      throw new UsageError(
        `there is no store at ${name}: name it with --config or --store; a gateway makes it when it starts, --create makes it now`,
      );
    return await openLedger(url, { clock: systemClock, dateMs: systemEpochMs });
  } catch (error) {
    if (error instanceof UsageError || error instanceof LedgerError) throw error;
    throw new Error(`${storeName(url)}: ${messageOf(error)}`, { cause: error });
  }
}

interface OpenAdminService {
  readonly adminService: AdminService;
  /** What the answers are about, as people and scripts read it. */
  readonly store: string;
  close(): Promise<void>;
}

async function openAdminService(options: AccountOptions, io: CliIo): Promise<OpenAdminService> {
  const { env, stderr } = io;
  const { admin, config, store } = options;
  if (admin === undefined) {
    if (options.token !== undefined) throw new UsageError('--token needs --admin URL');
    const storeAt = await storeUrl(store, config, env);
    const ledger = await openStore(storeAt, options.create === true);
    const service = createAdminService(ledger, { dateMs: systemEpochMs, randomBytes });
    // Who has the store needs no token.
    const actor = { name: userName(), role: 'owner', via: 'cli' };
    const onLost = (error: unknown): void =>
      void stderr.write(`headrace: it was carried out, and the log of acts has no outcome of it: ${reasonOf(error)}\n`);
    return {
      adminService: recordedService(service, { acts: ledger.adminActs, onLost }, actor),
      store: storeName(storeAt),
      close: () => ledger.close(),
    };
  }
  if (options.create === true) throw new UsageError('--create cannot be combined with --admin');
  if (store !== undefined || config !== undefined)
    throw new UsageError('--admin cannot be combined with --store or --config');
  const token = tokenOf(options.token, io);
  if (token === '') throw new UsageError(`--admin needs --token or ${TOKEN_VARIABLE}`);
  const url = adminUrl(admin, '');
  const client = new BufferedClient(1);
  const adminService = createAdminClient({
    url,
    token,
    randomBytes,
    timeoutMs: REMOTE_TIMEOUT_MS,
    send: (request) => client.send(request, AbortSignal.timeout(REMOTE_TIMEOUT_MS), MAX_ANSWER_BYTES),
  });
  return {
    adminService,
    store: `of the gateway at ${new URL(url).origin}`,
    close: () => Promise.resolve(client.close()),
  };
}

/** The name of the user of the operating system; its number where it has none, as that of a container that runs as any user. */
function userName(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid-${process.geteuid?.()}`;
  }
}

/** Only the store is read of a file: an operator need not have the variables that the rest of it names. */
async function storeUrl(store: string | undefined, file: string | undefined, env: Environment): Promise<string> {
  const input = file === undefined ? {} : await readMapping(file);
  const resolution = resolveSetting('store', input, env, { store });
  if ('mistakes' in resolution) throw new UsageError(sentenceOf(resolution.mistakes));
  if (typeof resolution.value === 'string') {
    const isGiven = store !== undefined || (env['HEADRACE_STORE'] ?? '') !== '';
    const folder = file === undefined || isGiven ? resolve() : storeFolder(undefined, file);
    const url = absoluteStore(resolution.value, folder);
    // As a gateway refuses to start: a second store would hide the first one from it.
    const other = misplacedStore(url, folder);
    if (other !== null)
      throw new UsageError(
        `there is no store at ${storeFile(url)}; if ${other} is meant, move it there, or write its full path in ${file}`,
      );
    return url;
  }
  throw new UsageError('the configuration keeps no accounts: its store is null');
}
