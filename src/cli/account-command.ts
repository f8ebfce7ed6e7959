// What the commands on accounts (`keys`, `credits`, `usage`, `audit`) share: where the accounts are (a store, the store of
// a configuration, or a running gateway), words and flags of an action, and how its answer is printed.

import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import {
  type Column,
  createAdminService,
  type Fields,
  type AdminService,
  printCsv,
  printTable,
  createAdminClient,
  AdminClientError,
} from '../admin/index.ts';
import { LedgerError, openLedger } from '../billing/index.ts';
import { systemClock } from '../actor/index.ts';
import { environment } from '../config/env.ts';
import { type Mistake, parseConfigText, resolveSetting } from '../config/load.ts';
import { HeadraceError } from '../errors.ts';
import { BufferedClient } from '../net/buffered-client.ts';
import { takeFlags, UsageError } from './args.ts';

type Flags = Readonly<Record<string, string>>;
type Environment = Readonly<Record<string, string | undefined>>;

/** Flags of every action. */
const WHERE = ['store', 'config', 'admin', 'token', 'format'] as const;

const TOKEN_VARIABLE = 'HEADRACE_ADMIN_TOKEN';

const REMOTE_TIMEOUT_MS = 60_000;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** One thing that a command does. */
export interface Action {
  /** Flags of its own: the fields of the order, by the same names. */
  readonly flags: readonly string[];
  /** Names of the words it needs, then those it may have. */
  readonly words?: readonly string[];
  readonly optionalWords?: readonly string[];
  readonly run: (adminService: AdminService, call: Call) => Promise<Answer>;
}

export interface Call {
  readonly words: readonly string[];
  readonly fields: Readonly<Partial<Record<string, string>>>;
}

/** What an action says: rows for `csv` and `json`, and a text or the rows as a table for people. */
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
}

/** An answer whose columns fit its rows. */
export function answer<Row extends object>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  more: Partial<Pick<Answer, 'value' | 'text' | 'note' | 'exitCode'>> = {},
): Answer {
  return { value: rows, rows, columns, ...more };
}

/** Runs an action and prints its answer. Refusals are a sentence on standard error and exit code 1. */
export async function runAction(name: string, action: Action, flags: Flags, words: readonly string[]): Promise<number> {
  const { own: where, rest } = takeFlags(flags, WHERE);
  const unknown = Object.keys(rest).find((flag) => !action.flags.includes(flag));
  if (unknown !== undefined) throw new UsageError(`headrace ${name} has no flag --${unknown}`);
  const { words: needed = [], optionalWords = [] } = action;
  const missing = needed[words.length];
  if (missing !== undefined) throw new UsageError(`headrace ${name}: ${missing} is missing`);
  const tooMany = words[needed.length + optionalWords.length];
  if (tooMany !== undefined) throw new UsageError(`"${tooMany}" is one word too many`);
  const { format = 'table' } = where;
  if (!['table', 'csv', 'json'].includes(format)) throw new UsageError('--format takes table, csv or json');
  try {
    const adminService = await openAdminService(where, environment());
    try {
      const said = await action.run(adminService.adminService, { words, fields: rest });
      process.stdout.write(printed(said, format));
      return said.exitCode ?? 0;
    } finally {
      await adminService.close();
    }
  } catch (error) {
    if (error instanceof UsageError) throw error;
    process.stderr.write(`headrace: ${sentenceOf(error)}\n`);
    return 1;
  }
}

/** Fields that were given, of these names. */
export function pick({ fields }: Call, ...names: readonly string[]): Fields {
  return Object.fromEntries(names.flatMap((name) => (fields[name] === undefined ? [] : [[name, fields[name]]])));
}

function printed({ value, rows, columns, text, note = '' }: Answer, format: string): string {
  if (format === 'json') return `${JSON.stringify(value, null, 2)}\n`;
  const columnsOfRows = columns as readonly Column<object>[];
  if (format === 'csv') return printCsv(columnsOfRows, rows);
  return text ?? printTable(columnsOfRows, rows) + note;
}

function sentenceOf(error: unknown): string {
  if (error instanceof HeadraceError && error.validation !== undefined)
    return error.validation.map(({ loc, msg }) => `${loc.slice(1).join('.')} ${msg}`).join('; ');
  if (error instanceof LedgerError || error instanceof AdminClientError) return error.message;
  return `the store failed: ${error instanceof Error ? error.message : String(error)}`;
}

interface OpenOffice {
  readonly adminService: AdminService;
  close(): Promise<void>;
}

async function openAdminService(
  where: Partial<Record<(typeof WHERE)[number], string>>,
  env: Environment,
): Promise<OpenOffice> {
  const { admin, config, store, token = env[TOKEN_VARIABLE] } = where;
  if (admin === undefined) {
    if (where.token !== undefined) throw new UsageError('--token belongs to --admin URL');
    const dateMs = (): number => Math.floor(systemClock.now());
    const ledger = await openLedger(await storeUrl(store, config, env), { clock: systemClock, dateMs });
    return { adminService: createAdminService(ledger, { dateMs, randomBytes }), close: () => ledger.close() };
  }
  if (store !== undefined || config !== undefined) throw new UsageError('--admin stands without --store and --config');
  if (token === undefined || token === '') throw new UsageError(`--admin needs --token or ${TOKEN_VARIABLE}`);
  const url = URL.parse(admin);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError('--admin takes the URL of an admin listener');
  const client = new BufferedClient(1);
  const adminService = createAdminClient({
    url: admin.replace(/\/+$/, ''),
    token,
    send: (request) => client.send(request, AbortSignal.timeout(REMOTE_TIMEOUT_MS), MAX_ANSWER_BYTES),
  });
  return { adminService, close: () => Promise.resolve(client.close()) };
}

/** Of a file only the store is read: an operator need not have the variables that the rest of it names. */
async function storeUrl(store: string | undefined, file: string | undefined, env: Environment): Promise<string> {
  const input = file === undefined ? {} : await readInput(file);
  const resolution = resolveSetting('store', input, env, { store });
  if ('mistakes' in resolution) throw new UsageError(sentences(resolution.mistakes));
  if (typeof resolution.value === 'string') return resolution.value;
  throw new UsageError('the configuration keeps no accounts: its store is null');
}

async function readInput(file: string): Promise<unknown> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read (${error.code ?? 'unknown reason'})`);
  });
  const parsed = parseConfigText(text, file);
  if ('mistakes' in parsed) throw new UsageError(sentences(parsed.mistakes));
  const { input } = parsed;
  if (typeof input === 'object' && input !== null && !Array.isArray(input)) return input;
  throw new UsageError(`${file} must be a mapping of names to values`);
}

function sentences(mistakes: readonly Mistake[]): string {
  return mistakes.map(({ path, message }) => `${path} ${message}`).join('; ');
}
