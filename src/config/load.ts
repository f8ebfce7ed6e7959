// From text, environment and flags to `Settings`. Either everything is right, or every mistake is reported at once and
// nothing is used.

import { readFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Document, LineCounter, isCollection, isScalar, parse, parseDocument, visit, type ErrorCode } from 'yaml';
import { findConflicts } from './conflicts.ts';
import { withValue } from './diff.ts';
import { expandInput, type Environment, type Problems } from './expansion.ts';
import { jsonMistakeOffset } from './json-syntax.ts';
import { mistakesOf, unknownMessage, type Mistake } from './mistake.ts';
import { SCHEMA, SETTINGS, type SettingRow, type Settings } from './settings.ts';
import { nearest } from './spelling.ts';
import { absoluteStore, misplacedStore, storeFile } from './store-url.ts';
import { printBytes } from './units.ts';
import { isPlain, open, type AnyType } from './value-types.ts';
import { parseJson } from './json-text.ts';

export type { Mistake } from './mistake.ts';

/** Where a value comes from. `program`: from the object that `createGateway` was given. */
export type SettingSource = 'default' | 'file' | 'program' | 'environment' | 'flag';

/** By the path of the setting; those that are not named have their defaults. */
export type SettingSources = Readonly<Record<string, SettingSource>>;

/** Settings that can be used. */
export interface ResolvedSettings {
  readonly settings: Settings;
  readonly sources: SettingSources;
}

/** Settings that can be used, or everything that is wrong with them. */
export type Resolution = ResolvedSettings | Refused;

interface Refused {
  readonly mistakes: readonly Mistake[];
  /** Entries of `search.engines` that nothing is wrong with so far: what each kind takes is checked elsewhere. Default: none. */
  readonly engines?: Settings['search']['engines'];
}

/** The content of a configuration text, or its syntax errors. */
export type Parsed = { readonly input: unknown } | { readonly mistakes: readonly Mistake[] };

type Checked<Value> = { readonly value: Value } | { readonly mistakes: readonly Mistake[] };

/** Values by the paths of settings, without dashes: what the command line says. */
type Flags = Readonly<Record<string, string | undefined>>;

/**
 * Resolves a configuration. Precedence: flag, environment, file, default. A value is checked even where another one takes
 * precedence.
 * `input` has the shape of the file (`SettingsInput`) and is checked here; `flags` has the paths of settings as names,
 * without dashes (`timeouts.connect`).
 * `${NAME}` in strings of `input` is replaced from `variables`. `filename`: of the file that `input` comes from, at whose folder its
 * relative paths begin; those of flags and variables begin at the working folder. Never throws for anything a user wrote.
 */
export function resolveSettings(
  input: unknown,
  env: Environment = {},
  flags: Flags = {},
  variables: Environment = env,
  filename?: string,
): Resolution {
  const problems: Problems = new Map();
  const file = expandInput(input ?? {}, variables, problems);
  const checked = check<Settings>(SCHEMA, file, '', problems);
  const overrides = SETTINGS.flatMap((row) => overridesOf(row, env, flags));
  const mistakes = [
    ...('mistakes' in checked ? checked.mistakes : []),
    ...overrides.flatMap((override) => override.mistakes),
    ...unknownFlags(flags),
    ...unknownVariables(env),
  ];
  if (mistakes.length > 0) {
    const engines = resolveSetting('search.engines', input ?? {}, env, flags, variables);
    const isEmpty = !('value' in engines) || Object.keys(engines.value as object).length === 0;
    mistakes.push(...conflictsOfRest(file, overrides));
    if (isEmpty) return { mistakes };
    const entries = engines.value as Settings['search']['engines'];
    return {
      mistakes,
      engines: filename === undefined ? entries : enginesFrom(storeFolder('file', filename), entries),
    };
  }
  const merged = overrides.reduce((whole, { row, raw }) => withValue(whole, row.path.split('.'), raw), file);
  const written =
    overrides.length === 0 && 'value' in checked ? checked.value : (SCHEMA.schema.parse(merged) as Settings);
  const sources = sourcesOf(file, env, flags);
  const settings = filename === undefined ? written : withPaths(written, sources, filename);
  const conflicts = findConflicts(settings);
  if (conflicts.length > 0) return { mistakes: conflicts, engines: settings.search.engines };
  return { settings: freeze(settings), sources };
}

/** The conflicts between settings that are right alone where others are not, so that all mistakes are told at once. */
function conflictsOfRest(file: unknown, overrides: readonly Override[]): Mistake[] {
  const refused = new Set<string>();
  const rest = SETTINGS.reduce<unknown>((whole, { path, setting }) => {
    const given = overrides.filter(({ row }) => row.path === path);
    const raw = given.length > 0 ? given.at(-1)!.raw : writtenAt(file, path);
    const { success } = setting.schema.safeParse(raw);
    if (success && given.every(({ mistakes }) => mistakes.length === 0)) return withValue(whole, path.split('.'), raw);
    if (setting.kind === 'map') return withValue(whole, path.split('.'), rightEntries(setting, raw));
    refused.add(path);
    return whole;
  }, {});
  return findConflicts(SCHEMA.schema.parse(rest) as Settings, refused);
}

/** What of a mapping is right alone. */
function rightEntries({ schema }: AnyType, raw: unknown): Record<string, unknown> {
  const entries = isPlain(raw) ? Object.entries(raw) : [];
  return Object.fromEntries(entries.filter(([id, entry]) => schema.safeParse({ [id]: entry }).success));
}

/** An empty variable counts as not set, and a section that is null as one that is absent. */
function sourcesOf(file: unknown, env: Environment, flags: Flags): SettingSources {
  const sources: Record<string, SettingSource> = {};
  for (const row of SETTINGS) {
    const { path, setting } = row;
    const variable = env[row.env];
    const written = writtenAt(file, path);
    if (flags[path] !== undefined) sources[path] = 'flag';
    else if (variable !== undefined && variable !== '') sources[path] = 'environment';
    else if (written !== undefined && (written !== null || setting.nullable === true)) sources[path] = 'file';
  }
  return sources;
}

/** What stands at a path of a configuration; undefined where nothing does. */
function writtenAt(input: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((section, name) => (isPlain(section) ? section[name] : undefined), input);
}

/** Resolves one setting by its path, as `resolveSettings` does, whatever is wrong with the others. */
export function resolveSetting(
  path: string,
  input: unknown,
  env: Environment,
  flags: Flags,
  variables: Environment = env,
): Checked<unknown> {
  const row = SETTINGS.find((each) => each.path === path);
  if (row === undefined) throw new Error(`there is no setting ${path}`);
  const problems: Problems = new Map();
  const written = writtenAt(input, path);
  const checked = check(row.setting, expandInput(written, variables, problems), path, problems);
  const overrides = overridesOf(row, env, flags);
  const mistakes = [...('mistakes' in checked ? checked.mistakes : []), ...overrides.flatMap((each) => each.mistakes)];
  if (mistakes.length > 0) return { mistakes };
  const strongest = overrides.at(-1);
  return strongest === undefined ? checked : { value: row.setting.schema.parse(strongest.raw) };
}

/** Replaces `${NAME}` in every string of a file of which the settings are checked elsewhere. */
export function expandVariables(input: unknown, env: Environment): Checked<unknown> {
  const problems: Problems = new Map();
  return check(open(), expandInput(input, env, problems), '', problems);
}

/** Checks one value. `name` stands before the path of its mistakes. */
function check<Value>(type: AnyType, raw: unknown, name: string, problems: Problems): Checked<Value> {
  const result = type.schema.safeParse(raw, { reportInput: true });
  if (result.success) return { value: result.data as Value };
  return { mistakes: mistakesOf({ issues: result.error.issues, type, name, problems }) };
}

/** A value from the environment or the command line. */
interface Override {
  readonly row: SettingRow;
  readonly raw: unknown;
  readonly mistakes: readonly Mistake[];
}

/** The variable and the flag of a setting, the stronger one last. An empty variable counts as not set. */
function overridesOf(row: SettingRow, env: Environment, flags: Flags): Override[] {
  const variable = env[row.env] === '' ? undefined : env[row.env];
  const given = [
    [row.env, variable],
    [row.flag, flags[row.path]],
  ] as const;
  return given.flatMap(([label, text]): Override[] => {
    if (text === undefined) return [];
    const raw = readText(text, row);
    if (raw === undefined) return [{ row, raw, mistakes: [{ path: label, message: 'must be JSON' }] }];
    // In a file, null is a section whose entries are commented out; here it is a mistake, such as a shell variable that is
    // not set, and would remove what the file says.
    if (raw === null && row.setting.nullable !== true) {
      const message = row.setting.kind === 'list' ? 'must be a list' : 'must be a mapping of names to values';
      return [{ row, raw, mistakes: [{ path: label, message }] }];
    }
    const checked = check(row.setting, raw, label, new Map());
    return [{ row, raw, mistakes: 'mistakes' in checked ? checked.mistakes : [] }];
  });
}

/** Text of a list is JSON or comma-separated; of a map or a list of records it is JSON; undefined when it is not. */
function readText(text: string, { setting }: SettingRow): unknown {
  if (setting.nullable === true && text === 'null') return null;
  if (setting.text !== undefined && !/^\s*\[/.test(text)) return text;
  if (setting.kind !== 'map' && setting.kind !== 'list') return text;
  const isJson = setting.kind === 'map' || setting.items?.kind === 'record' || /^\s*\[/.test(text);
  if (!isJson) return text.split(',').map((item) => item.trim());
  try {
    // A warning of the parser would quote the text on standard error.
    return parse(text, { logLevel: 'error', maxAliasCount: 0 }) as unknown;
  } catch {
    return undefined;
  }
}

function unknownFlags(flags: Flags): Mistake[] {
  const paths = SETTINGS.map(({ path }) => path);
  const unknown = Object.keys(flags).filter((name) => !paths.includes(name));
  return unknown.map((name) => {
    const near = nearest(name, paths) ?? paths.find((path) => path.endsWith(`.${name}`));
    return { path: `--${name}`, message: unknownMessage(near && `--${near}`) };
  });
}

const ENV_PREFIX = 'HEADRACE_';
/** What an orchestrator sets for services that are called headrace, or headrace-admin. */
const SERVICE_LINK = /^HEADRACE_(?:SERVICE_HOST|(?:SERVICE_)?PORT(?:_\w+)?)$/;
const SERVICE_ADDRESS = /^(?:tcp|udp|sctp):\/\//;

/** An unknown variable is a mistake only when it looks like a misspelt setting, since other programs may use the prefix. */
function unknownVariables(env: Environment): Mistake[] {
  const known = SETTINGS.map((row) => row.env.slice(ENV_PREFIX.length));
  return Object.entries(env).flatMap(([name, value = '']) => {
    const bare = name.slice(ENV_PREFIX.length);
    const isLink = SERVICE_LINK.test(name) || SERVICE_ADDRESS.test(value);
    if (!name.startsWith(ENV_PREFIX) || isLink || known.includes(bare)) return [];
    const near = nearest(bare, known);
    return near === undefined ? [] : [{ path: name, message: unknownMessage(ENV_PREFIX + near) }];
  });
}

/** In a file of another kind each line may have one. */
const MOST_SYNTAX_MISTAKES = 100;

/** Reads YAML or JSON. An empty text is an empty configuration. Syntax errors come as `FILE:LINE:COLUMN`. */
export function parseConfigText(content: string, filename: string): Parsed {
  // Stands for each byte that is no UTF-8: text in Latin-1, or in UTF-16, as some editors write.
  const foreignAt = content.indexOf('\uFFFD');
  if (foreignAt >= 0)
    return { mistakes: [{ path: placeOf(filename, content.slice(0, foreignAt)), message: 'is not text in UTF-8' }] };
  const text = content.replace(/^\uFEFF/, '');
  const lines = new LineCounter();
  // Names are compared below: the parser takes as many steps as there are pairs of them.
  // A warning would quote the text on standard error.
  const document = parseDocument(text, { lineCounter: lines, uniqueKeys: false, logLevel: 'error' });
  const found = document.errors.map(({ code, pos }): SyntaxMistake => ({ code, at: pos[0] }));
  // The messages of the parser quote the line, which may hold a key: only code and position are used.
  const mistakes = [...found, ...wrongNames(document)]
    .toSorted((a, b) => a.at - b.at)
    .filter(({ at }, i, sorted) => at !== sorted[i - 1]?.at)
    .slice(0, MOST_SYNTAX_MISTAKES)
    .map(({ code, at }): Mistake => {
      const { line, col } = lines.linePos(at);
      return { path: `${filename}:${line}:${col}`, message: SYNTAX[code] ?? 'is not valid YAML or JSON here' };
    });
  if (mistakes.length > 0) return { mistakes };
  const looseJson = filename.endsWith('.json') && text.trim() !== '' ? refuseLooseJson(text, filename) : [];
  if (looseJson.length > 0) return { mistakes: looseJson };
  keepAddresses(document);
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

/** What the parser found, and where. */
interface SyntaxMistake {
  readonly code: ErrorCode | 'COLLECTION_AS_NAME';
  readonly at: number;
}

/** Where a name stands again in the same section, or is no text. */
function wrongNames(document: Document): SyntaxMistake[] {
  const mistakes: SyntaxMistake[] = [];
  visit(document, {
    Map: (_, { items }) => {
      const known = new Set<string>();
      for (const { key } of items) {
        if (isCollection(key)) mistakes.push({ code: 'COLLECTION_AS_NAME', at: key.range?.[0] ?? 0 });
        if (!isScalar<string | number | boolean | null>(key)) continue;
        // As in the object that is made of the section: 7 and "7" are one name.
        const name = String(key.value ?? '');
        if (known.has(name)) mistakes.push({ code: 'DUPLICATE_KEY', at: key.range?.[0] ?? 0 });
        known.add(name);
      }
    },
  });
  return mistakes;
}

const WALLET = /^0x[\da-f]{40}$/i;

/** To YAML the address of a wallet without quotes is a number, of which most digits would be lost. */
function keepAddresses(document: Document): void {
  visit(document, {
    Scalar: (_, node) => {
      if (typeof node.value === 'number' && node.source !== undefined && WALLET.test(node.source)) {
        node.value = node.source;
      }
    },
  });
}

/** Parses and resolves a text that has been read already. */
export function loadConfigText(text: string, filename: string, env: Environment = {}, flags: Flags = {}): Resolution {
  const parsed = parseConfigText(text, filename);
  return 'mistakes' in parsed ? parsed : resolveSettings(withoutSchema(parsed.input), env, flags, env, filename);
}

/** Editors read it: in JSON there is no comment that could name the schema. */
function withoutSchema(input: unknown): unknown {
  if (!isPlain(input) || typeof input['$schema'] !== 'string') return input;
  const { $schema: _, ...settings } = input;
  return settings;
}

/** With the paths of the store, of engines, of discovery files and of files of keys from where they begin. */
function withPaths(settings: Settings, sources: SettingSources, filename: string): Settings {
  const { discovery, search, store, trust } = settings;
  const { file, signingKey } = trust;
  const folderOf = (path: string): string => storeFolder(sources[path], filename);
  const start = folderOf('discovery');
  return {
    ...settings,
    search: { ...search, engines: enginesFrom(folderOf('search.engines'), search.engines) },
    trust: {
      ...trust,
      file: file === null ? null : pathFrom(folderOf('trust.file'), file),
      signingKey: signingKey === null ? null : keyFrom(folderOf('trust.signingKey'), signingKey),
    },
    discovery:
      discovery === null || typeof discovery === 'string'
        ? discovery
        : discovery.map((source) =>
            source.kind === 'file' ? { ...source, path: resolve(start, source.path) } : source,
          ),
    store: store === null || folderOf('store') === resolve() ? store : absoluteStore(store, folderOf('store')),
  };
}

function enginesFrom(folder: string, engines: Settings['search']['engines']): Settings['search']['engines'] {
  return Object.fromEntries(
    Object.entries(engines).map(([id, entry]) => [id, isPlain(entry) ? engineFrom(folder, entry) : entry]),
  );
}

/** As it is written where it begins at the working folder anyway. */
function pathFrom(folder: string, path: string): string {
  return folder === resolve() ? path : resolve(folder, path);
}

/** Begins a signing key that is in a file. */
export const KEY_FILE = 'file:';

/** `file:PATH` with a path that begins at the folder; a key itself as it is. */
function keyFrom(folder: string, key: string): string {
  return key.startsWith(KEY_FILE) ? KEY_FILE + pathFrom(folder, key.slice(KEY_FILE.length)) : key;
}

/** An entry of an engine whose `path`, if it has one, begins at the folder. */
export function engineFrom(folder: string, entry: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { path } = entry;
  return typeof path === 'string' ? { ...entry, path: resolve(folder, path) } : { ...entry };
}

/** Where a relative path of a store begins. */
export function storeFolder(source: SettingSource | undefined, filename: string): string {
  return source === 'flag' || source === 'environment' ? resolve() : dirname(resolve(filename));
}

/** A larger file is another one than is meant. One of this size takes half a minute and 2 GB to parse. */
export const MAX_CONFIG_BYTES: number = 16 * 1024 * 1024;

/** Reads, parses and resolves a file. A file that cannot be read is a mistake like any other. */
export async function loadConfigFile(path: string, env: Environment = {}, flags: Flags = {}): Promise<Resolution> {
  let text: string;
  try {
    if ((await stat(path)).size > MAX_CONFIG_BYTES)
      return { mistakes: [{ path, message: `is larger than ${printBytes(MAX_CONFIG_BYTES)}` }] };
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reason = code === 'ENOENT' ? 'does not exist' : `cannot be read (${code ?? 'unknown reason'})`;
    return { mistakes: [{ path, message: reason }] };
  }
  const resolution = loadConfigText(text, path, env, flags);
  if ('mistakes' in resolution || resolution.settings.store === null) return resolution;
  const { store } = resolution.settings;
  const other = misplacedStore(store, storeFolder(resolution.sources['store'], path));
  if (other === null) return resolution;
  const message = `is ${storeFile(store)}, from the folder of the configuration, which does not exist; if ${other} is meant, write its full path`;
  return { mistakes: [{ path: 'store', message }], engines: resolution.settings.search.engines };
}

/** YAML takes more than JSON does: a value left out, a comma too many. The message of the parser may quote a key. */
function refuseLooseJson(text: string, filename: string): Mistake[] {
  try {
    parseJson(text);
    return [];
  } catch {
    const before = Array.from(text).slice(0, jsonMistakeOffset(text)).join('');
    return [{ path: placeOf(filename, before), message: 'is not valid JSON here' }];
  }
}

/** The place behind the text `before` of a file. */
function placeOf(filename: string, before: string): string {
  const lines = before.split('\n');
  return `${filename}:${lines.length}:${lines.at(-1)!.length + 1}`;
}

const SYNTAX: Partial<Record<SyntaxMistake['code'], string>> = {
  BAD_INDENT: 'is not indented like its neighbours, or a bracket before it is not closed',
  BLOCK_AS_IMPLICIT_KEY:
    'has a second name or a colon in its value: put quotes around the value, or the name on a line of its own',
  BLOCK_IN_FLOW:
    'has a colon in a value or an item with a dash within brackets: put quotes around the value, or leave the dash out',
  COLLECTION_AS_NAME: 'is a mapping or list in the place of a name, as of a template that was not filled in',
  DUPLICATE_KEY: 'repeats a name of the same section',
  MISSING_CHAR: 'lacks a character, such as a closing quote or bracket',
  MULTILINE_IMPLICIT_KEY: 'has a name that goes over several lines, or lacks a closing quote',
  MULTIPLE_DOCS: 'begins a second document; a configuration is one document',
  TAB_AS_INDENT: 'is indented with a tab; use spaces',
  UNEXPECTED_TOKEN: 'is not expected here',
};

/** Freezes data all the way down. Plug-ins belong to the embedder and are not frozen. */
function freeze<T extends object>(value: T): T {
  for (const inner of Object.values(value)) if (isData(inner)) freeze(inner);
  return Object.freeze(value);
}

function isData(value: unknown): value is object {
  return Array.isArray(value) || isPlain(value);
}
