// From text, environment and flags to `Settings`. The command line, `createGateway` and the reload on a file change all
// go through here. Either everything is right, or every mistake is reported at once and nothing is used.

import { readFile } from 'node:fs/promises';
import { LineCounter, parseDocument, type ErrorCode } from 'yaml';
import { collectOverrides, type Texts } from './override.ts';
import { entryPath, isPlain, Reader, type Mistake } from './reader.ts';
import type { Settings } from './settings.ts';
import { TABLE } from './table.ts';
import type { Address } from './units.ts';

export type { Mistake } from './reader.ts';

/** Settings that can be used, or everything that is wrong with them. */
export type Resolution = { readonly settings: Settings } | { readonly mistakes: readonly Mistake[] };

/** The content of a configuration text, or its syntax errors. */
export type Parsed = { readonly input: unknown } | { readonly mistakes: readonly Mistake[] };

/**
 * Resolves a configuration. Precedence: flag, environment, file, default.
 * `input` has the shape of the file (`SettingsInput`) and is checked here; `flags` has the paths of settings as names,
 * without dashes (`timeouts.connect`).
 * `${NAME}` in strings of `input` is replaced from `env`. Never throws for anything a user wrote.
 */
export function resolveSettings(input: unknown, env: Texts = {}, flags: Texts = {}): Resolution {
  const overrides = collectOverrides(env, flags);
  const reader = new Reader(env, overrides.byPath);
  const resolved = reader.readRoot(TABLE, input);
  const mistakes = [...reader.mistakes, ...overrides.mistakes];
  if (mistakes.length > 0) return { mistakes };
  // The table and the type are kept equal by a test.
  const settings = resolved as unknown as Settings;
  const conflicts = findConflicts(settings);
  return conflicts.length > 0 ? { mistakes: conflicts } : { settings: freeze(settings) };
}

/** Reads YAML or JSON. An empty text is an empty configuration. Syntax errors come as `FILE:LINE:COLUMN`. */
export function parseConfigText(text: string, filename: string): Parsed {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines });
  // The messages of the parser quote the line, which may hold a key: only code and position are used.
  const mistakes = document.errors.map(({ code, pos }): Mistake => {
    const { line, col } = lines.linePos(pos[0]);
    return { path: `${filename}:${line}:${col}`, message: SYNTAX[code] ?? 'is not valid YAML or JSON here' };
  });
  if (mistakes.length > 0) return { mistakes };
  if (filename.endsWith('.json') && text.trim() !== '') mistakes.push(...refuseLooseJson(text, filename));
  if (mistakes.length > 0) return { mistakes };
  try {
    return { input: document.toJS() ?? {} };
  } catch {
    return {
      mistakes: [
        { path: filename, message: 'holds an alias (*name) that no anchor (&name) defines, or too many of them' },
      ],
    };
  }
}

/** Parses and resolves a text that has been read already. */
export function loadConfigText(text: string, filename: string, env: Texts = {}, flags: Texts = {}): Resolution {
  const parsed = parseConfigText(text, filename);
  return 'mistakes' in parsed ? parsed : resolveSettings(parsed.input, env, flags);
}

/** Reads, parses and resolves a file. A file that cannot be read is a mistake like any other. */
export async function loadConfigFile(path: string, env: Texts = {}, flags: Texts = {}): Promise<Resolution> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code ?? 'unknown reason'})`;
    return { mistakes: [{ path, message: reason }] };
  }
  return loadConfigText(text, path, env, flags);
}

/** YAML takes more than JSON does: a value left out, a comma too many. The message of the parser may quote a key. */
function refuseLooseJson(text: string, filename: string): Mistake[] {
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    const [, line, column] = /line (\d+) column (\d+)/.exec(String(error)) ?? [];
    const where = line === undefined ? filename : `${filename}:${line}:${column}`;
    return [{ path: where, message: 'is not valid JSON' }];
  }
}

const SYNTAX: Partial<Record<ErrorCode, string>> = {
  BAD_INDENT: 'is not indented like its neighbours, or a bracket before it is not closed',
  DUPLICATE_KEY: 'repeats a name of the same section',
  MISSING_CHAR: 'lacks a character, such as a closing quote or bracket',
  MULTILINE_IMPLICIT_KEY: 'has a name that goes over several lines, or lacks a closing quote',
  MULTIPLE_DOCS: 'begins a second document; a configuration is one document',
  TAB_AS_INDENT: 'is indented with a tab; use spaces',
  UNEXPECTED_TOKEN: 'is not expected here',
};

/** What is right alone and wrong together. */
function findConflicts(settings: Settings): Mistake[] {
  const { admin, listen, ejection, limits } = settings;
  const conflicts: Mistake[] = [];
  const refuse = (path: string, message: string): void => void conflicts.push({ path, message });
  if (admin !== null && collide(admin, listen)) refuse('admin', 'must not take the port of listen');
  if (settings.servicePrefix === settings.listingPrefix) refuse('listingPrefix', 'must differ from servicePrefix');
  for (const name of ['servicePrefix', 'listingPrefix'] as const) {
    if (settings[name] === 'v1') refuse(name, 'must not be v1, which holds the compatible interfaces');
  }
  if (ejection.backoffMs > ejection.backoffMaxMs) refuse('ejection.backoff', 'must not exceed ejection.backoffMax');
  if (limits.bodyBytes > limits.bufferedBytes) refuse('limits.bodyBytes', 'must not exceed limits.bufferedBytes');
  if (limits.heldEventBytes > limits.bufferedBytes) {
    refuse('limits.heldEventBytes', 'must not exceed limits.bufferedBytes');
  }
  return [...conflicts, ...findPaymentConflicts(settings), ...findRepeats(settings)];
}

function findPaymentConflicts({ payments, store }: Settings): Mistake[] {
  if (payments.facilitator === null) {
    return payments.payTo === null ? [] : [{ path: 'payments.facilitator', message: 'is required to be paid' }];
  }
  const mistakes: Mistake[] = [];
  if (payments.payTo === null) mistakes.push({ path: 'payments.payTo', message: 'is required with a facilitator' });
  if (store === null) mistakes.push({ path: 'store', message: 'must not be null where payments are taken' });
  return mistakes;
}

/** A wildcard host takes the port of every other host. */
function collide(a: Address, b: Address): boolean {
  const isWild = [a.host, b.host].some((host) => host === '0.0.0.0' || host === '::');
  return a.port !== 0 && a.port === b.port && (isWild || a.host === b.host);
}

function findRepeats({ models, keys }: Settings): Mistake[] {
  const mistakes: Mistake[] = [];
  const ids = Object.keys(models);
  for (const id of repeated(ids.map((each) => each.toLowerCase()))) {
    mistakes.push({ path: 'models', message: `holds ${ids[id]} twice; upper and lower case are the same` });
  }
  for (const [id, { servers }] of Object.entries(models)) {
    if (id.trim() === '') mistakes.push({ path: 'models', message: 'holds a model without an id' });
    for (const index of repeated(servers)) {
      mistakes.push({ path: `${entryPath('models', id)}.servers[${index}]`, message: 'is listed before' });
    }
  }
  for (const index of repeated(keys.static.map(({ key }) => key))) {
    mistakes.push({ path: `keys.static[${index}].key`, message: 'is listed before' });
  }
  return mistakes;
}

/** Indexes of the values that stand earlier in the list too. */
function repeated(values: readonly string[]): number[] {
  return values.flatMap((value, index) => (values.indexOf(value) < index ? [index] : []));
}

/** Freezes data all the way down. What is no data, a plug-in, is not ours to freeze. */
function freeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) if (isData(inner)) freeze(inner);
  return Object.freeze(value);
}

function isData(value: unknown): value is object {
  return Array.isArray(value) || isPlain(value);
}
