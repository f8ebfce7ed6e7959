// Text about settings: the reference table, the help text, and the explanation that `headrace check` prints for one
// configuration. Nothing printed here holds a key or a credential.

import { isDeepStrictEqual } from 'node:util';
import { valueOf } from './diff.ts';
import { resolveSettings } from './load.ts';
import type { DialectsSetting } from './dialect-bits.ts';
import {
  type DiscoverySourceSettings,
  discoverySourceName,
  discoverySources,
  SETTINGS,
  type ModelSettings,
  type ServerSettings,
  type SettingRow,
  type Settings,
} from './settings.ts';
import { storeName } from './store-url.ts';
import { type Address, counted, printAddress, printBytes, printDuration } from './units.ts';
import type { AnyType, Fields, Kind, Setting } from './value-types.ts';
import { findWarnings } from './warning.ts';

/** Width that the help text is wrapped to, in characters. */
const HELP_WIDTH = 100;
/** Column at which the descriptions of the help text begin. */
const HELP_COLUMN = 36;

/** The settings as a Markdown table, fields of models and keys included. */
export function settingsTable(): string {
  const rows = SETTINGS.flatMap(({ path, setting }) => [[path, setting] as const, ...fieldsOf(path, setting)]);
  const lines = rows.map(([path, setting]) => {
    const effect = setting.reload === false ? 'restart' : 'at once';
    return `| \`${path}\` | ${typeOf(setting)} | ${defaultOf(setting)} | ${effect} | ${cell(setting.sentence)} |`;
  });
  return ['| Setting | Type | Default | A change takes effect | Meaning |', '|---|---|---|---|---|', ...lines].join(
    '\n',
  );
}

/** The settings for `--help`: grouped by section, aligned, each with its default. */
export function helpText(): string {
  const out = [
    'Every setting can be given in the configuration file, in the environment and on the command line.',
    'A flag wins over the environment, the environment over the file. `timeouts.connect` in the file is',
    '--timeouts.connect as a flag and HEADRACE_TIMEOUTS_CONNECT in the environment. Durations are written',
    '250ms, 5s, 2m, 1h; sizes 64KiB, 10MB, 1GiB. A * marks what takes effect only at the next start.',
  ];
  let section = '';
  for (const row of SETTINGS) {
    if (row.section !== section) out.push('', row.section);
    section = row.section;
    out.push(...helpLines(row));
  }
  return `${out.join('\n')}\n`;
}

/**
 * What a start with these settings would run: addresses, models, keys, what differs from the defaults, warnings.
 * `source` names where they come from, such as the path of the file.
 */
export function explain(settings: Settings, source?: string): string {
  const { listen, admin, keys, health, threads, server } = settings;
  const accounts = new Set(keys.static.map(({ account }) => account)).size;
  const parts: [string, string][] = [
    ['public', `http://${printAddress(listen)}, reached by clients over ${settings.publicScheme}`],
    ['admin', admin === null ? 'off' : `http://${printAddress(admin)}`],
    ['threads', `${threads === 'auto' ? 'one per core' : threads}, HTTP server ${server}`],
    [
      'keys',
      `${keys.required ? 'required' : 'not required'}, ${counted(keys.static.length, 'static key')} of ${counted(accounts, 'account')}`,
    ],
    [
      'probes',
      `GET ${health.path} every ${printDuration(health.intervalMs)}, up after ${health.rise} good, down after ${health.fall} bad`,
    ],
  ];
  for (const source of discoverySources(settings)) {
    parts.push(['discovery', sourceText(source, settings.discoveryIntervalMs)]);
  }
  parts.push(['store', settings.store === null ? 'none: no accounts, no credit' : storeName(settings.store)]);
  const engines = Object.entries(settings.search.engines);
  parts.push(['search', engines.length === 0 ? 'no engines' : engines.map(engineText).join(', ')]);
  if (settings.payments.facilitator !== null)
    parts.push(['payments', `${settings.payments.network} by ${settings.payments.facilitator}`]);
  const out = [`headrace with ${source ?? 'these settings'}`, ...align(parts), '', ...explainModels(settings.models)];
  const differences = align(differencesOf(settings));
  out.push(
    '',
    ...(differences.length === 0 ? ['Every setting has its default.'] : ['Not the default', ...differences]),
  );
  const warnings = findWarnings(settings);
  if (warnings.length > 0) out.push('', 'Warnings', ...warnings.map((warning) => `  ${warning}`));
  return `${out.join('\n')}\n`;
}

function sourceText(source: DiscoverySourceSettings, intervalMs: number): string {
  const name = discoverySourceName(source);
  if (source.kind === 'url') return `${name} every ${printDuration(source.intervalMs ?? intervalMs)}`;
  return source.kind === 'dns' ? `${name} for ${source.model}` : name;
}

/** An engine with its kind and where it is; never more of it, since it may be a secret. */
function engineText([id, entry]: readonly [string, unknown]): string {
  const { kind, url: target } = (entry ?? {}) as { readonly kind?: unknown; readonly url?: unknown };
  const address = typeof target === 'string' ? URL.parse(target) : null;
  return `${id} (${typeof kind === 'string' ? kind : 'unknown kind'}${address === null ? '' : ` at ${address.host}`})`;
}

function explainModels(models: Readonly<Record<string, ModelSettings>>): string[] {
  const entries = Object.entries(models);
  const servers = new Set(entries.flatMap(([, model]) => model.servers.map(({ url }) => url))).size;
  const rows = entries.map(([id, model]): [string, string] => {
    const traits = [...(model.capabilities ?? []), ...(model.tee === true ? ['tee'] : [])];
    if (model.apiKey !== undefined) traits.push('own credential');
    if (model.dialects !== undefined) traits.push(dialectsText(model.dialects));
    if (model.aliases !== undefined && model.aliases.length > 0) traits.push(`also ${model.aliases.join(', ')}`);
    const notes = traits.length > 0 ? ` (${traits.join(', ')})` : '';
    const listed = model.servers.map(serverText);
    return [id, `${listed.length === 0 ? 'no server' : listed.join(', ')}${notes}`];
  });
  return [`${counted(entries.length, 'model')} on ${counted(servers, 'server')}`, ...align(rows)];
}

function serverText({ apiKey, dialects, events, url, weight }: ServerSettings): string {
  const traits = [
    ...(events === undefined ? [] : ['KV events']),
    ...(apiKey === undefined ? [] : ['own credential']),
    ...(weight === undefined ? [] : [`weight ${weight}`]),
    ...(dialects === undefined ? [] : [dialectsText(dialects)]),
  ];
  return traits.length === 0 ? url : `${url} with ${traits.join(' and ')}`;
}

function dialectsText(dialects: DialectsSetting): string {
  return dialects === 'auto' ? 'dialects found out' : `dialects ${dialects.join('/')}`;
}

/** What `explain` lists in full. */
const LISTED: ReadonlySet<string> = new Set(['models', 'keys.static', 'search.engines', 'store']);

/** Settings that differ from their default, without those in `LISTED`. Of a secret it is only said that it is set, of a mapping what it names. */
function differencesOf(settings: Settings): [string, string][] {
  const defaults = resolveSettings({});
  if ('mistakes' in defaults) return [];
  return SETTINGS.flatMap((row): [string, string][] => {
    const value = valueOf(settings, row);
    if (LISTED.has(row.path) || isDeepStrictEqual(value, valueOf(defaults.settings, row))) return [];
    // Explained in full, and may hold credentials.
    if (row.path === 'discovery' && typeof value !== 'string') return [];
    return [[row.path, `${printValue(value, row.setting)} (default ${printWritten(row.setting.fallback)})`]];
  });
}

function printValue(value: unknown, { kind, secret, text }: Setting): string {
  if (value === null) return 'null';
  if (kind === 'map') return Object.keys(value as object).join(', ');
  if (secret === true) return 'set';
  if (text?.kind === 'url' && typeof value === 'string') return bareUrl(value);
  if (kind === 'duration') return printDuration(value as number);
  if (kind === 'bytes') return printBytes(value as number);
  if (kind === 'address') return printAddress(value as Address);
  if (kind === 'url') return bareUrl(value as string);
  return printWritten(value);
}

/** A query may hold a token. */
function bareUrl(target: string): string {
  return target.replace(/\?.*$/, '?…');
}

function printWritten(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function briefly(fallback: unknown): string {
  if (Array.isArray(fallback)) return fallback.join(',') || 'none';
  return typeof fallback === 'object' && fallback !== null ? 'none' : printWritten(fallback);
}

/** The fields of the entries of a list or map, and of the records inside them. */
function fieldsOf(path: string, { kind, items }: Setting): (readonly [string, Setting])[] {
  if (items?.variants !== undefined) {
    return Object.entries(items.variants).flatMap(([word, { fields }]) => {
      const { kind: _, ...others } = fields;
      return recordFieldsOf(`${path}[${word}]`, others);
    });
  }
  return recordFieldsOf(kind === 'map' ? `${path}.ID` : `${path}[]`, items?.fields ?? {});
}

function recordFieldsOf(prefix: string, fields: Fields): (readonly [string, Setting])[] {
  return Object.entries(fields).flatMap(([name, field]) => {
    const path = `${prefix}.${name}`;
    if (field.kind === 'record') return recordFieldsOf(path, field.fields ?? {});
    return [[path, field] as const, ...recordFieldsOf(`${path}[]`, field.items?.fields ?? {})];
  });
}

/** What may be written for a value, in words. */
export function typeOf({ kind, words = [], items, nullable, text: instead }: AnyType): string {
  const { text } = items ?? {};
  const entry = KINDS[items?.kind ?? 'string'].name;
  const entries =
    items?.kind === 'enum' ? 'words' : text === undefined ? entry : `${KINDS[text.kind].name} or ${entry}`;
  const name = kind === 'list' ? `list of ${entries}` : KINDS[kind].name;
  const types = kind === 'enum' ? [...words] : [...words, name];
  if (kind === 'list' && instead !== undefined) types.unshift(KINDS[instead.kind].name);
  if (nullable === true) types.push('null');
  return types.join(', ');
}

/** What a value is called in the table, and what stands for it in the help text. */
const KINDS: Readonly<Record<Kind, { readonly name: string; readonly placeholder: string }>> = {
  string: { name: 'string', placeholder: 'TEXT' },
  boolean: { name: 'true, false', placeholder: 'true|false' },
  integer: { name: 'whole number', placeholder: 'N' },
  number: { name: 'number', placeholder: 'NUMBER' },
  duration: { name: 'duration', placeholder: 'DURATION' },
  bytes: { name: 'size', placeholder: 'SIZE' },
  decimal: { name: 'decimal string', placeholder: 'DECIMAL' },
  address: { name: 'HOST:PORT', placeholder: 'HOST:PORT' },
  block: { name: 'CIDR blocks', placeholder: 'BLOCK' },
  url: { name: 'URL', placeholder: 'URL' },
  enum: { name: 'word', placeholder: 'WORD' },
  list: { name: 'list', placeholder: 'JSON' },
  map: { name: 'mapping', placeholder: 'JSON' },
  open: { name: 'mapping', placeholder: 'JSON' },
  record: { name: 'mapping', placeholder: 'JSON' },
};

function defaultOf({ fallback, presence }: Setting): string {
  if (presence === 'required') return 'required';
  return fallback === undefined ? '' : `\`${printWritten(fallback)}\``;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}

function helpLines({ flag, setting }: SettingRow): string[] {
  const mark = setting.reload === false ? '*' : ' ';
  const head = ` ${mark}${flag} ${placeholderOf(setting)}`;
  const choices = setting.kind === 'enum' ? ` (${(setting.words ?? []).join(', ')})` : '';
  const words = `${setting.sentence}${choices} [${briefly(setting.fallback)}]`.split(' ');
  const lines = [''];
  for (const word of words) {
    const line = lines.at(-1) ?? '';
    if (line !== '' && HELP_COLUMN + line.length + 1 + word.length > HELP_WIDTH) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  const fits = head.length < HELP_COLUMN;
  const indented = lines.map((line, index) => (fits && index === 0 ? head : '').padEnd(HELP_COLUMN) + line);
  return fits ? indented : [head, ...indented];
}

function placeholderOf({ kind, items }: Setting): string {
  return kind === 'list' && items?.kind !== 'record' ? 'A,B,…' : KINDS[kind].placeholder;
}

function align(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`);
}
