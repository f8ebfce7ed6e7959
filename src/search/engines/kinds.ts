// The engines that come with the gateway: name of the kind, settings, factory. Whoever reads the configuration makes
// engines of its entries here; tables for people are made of the same rows.

import {
  bytes,
  choice,
  duration,
  integer,
  list,
  resolvedName,
  string,
  url,
  type Setting,
  type SettingTraits,
} from '../../config/row.ts';
import { nearest } from '../../config/spelling.ts';
import { Problem, readScalar, type ScalarKind } from '../../config/value.ts';
import { SEARCH_TYPES, type Engine } from '../engine.ts';
import { arxiv } from './arxiv.ts';
import { brave } from './brave.ts';
import { crossref } from './crossref.ts';
import { duckduckgo } from './duckduckgo.ts';
import { exa } from './exa.ts';
import { local, type LocalSurroundings } from './local.ts';
import { marginalia } from './marginalia.ts';
import { mojeek } from './mojeek.ts';
import { openalex } from './openalex.ts';
import { pubmed } from './pubmed.ts';
import { searxng } from './searxng.ts';
import { semanticScholar } from './semantic-scholar.ts';
import { serper } from './serper.ts';
import { tavily } from './tavily.ts';
import { wikipedia } from './wikipedia.ts';
import { worker } from './worker.ts';

/** What engines may be given beside their settings. */
export type EngineSurroundings = LocalSurroundings;

/** One kind of engine. */
export interface EngineKind {
  /** By name as written in the configuration; `kind` is not among them. */
  readonly settings: Readonly<Record<string, Setting>>;
  /** Takes settings by their resolved names: durations end in `Ms`. */
  readonly create: (settings: Readonly<Record<string, unknown>>, surroundings: EngineSurroundings) => Engine;
}

const OPTIONAL: SettingTraits = { required: false };
const REQUIRED: SettingTraits = { required: true };
const VISIBLE: SettingTraits = { pattern: /^[\x21-\x7e]+$/, hint: 'visible ASCII characters without spaces' };
const SECRET: SettingTraits = { ...VISIBLE, secret: true };
const LANGUAGE: SettingTraits = { pattern: /^[A-Za-z]{2,3}(?:-[A-Za-z0-9]+)*$/, hint: 'a language code, such as en' };
const REGION: SettingTraits = { pattern: /^[A-Za-z]{2}-[A-Za-z]{2}$/, hint: 'a region, such as us-en' };
const COUNTRY: SettingTraits = { pattern: /^(?:[A-Za-z]{2}|ALL)$/, hint: 'a country of two letters, such as us' };

const baseUrl = url(undefined, 'Base URL of the service, for proxies and mirrors.', OPTIONAL);
const instanceUrl = url(undefined, 'Base URL of the instance.', REQUIRED);
const key = string(undefined, 'Key of the service.', { ...REQUIRED, ...SECRET });
const optionalKey = string(undefined, 'Key of the service; it works with less without.', { ...OPTIONAL, ...SECRET });
const language = string(undefined, 'Language of the results.', { ...OPTIONAL, ...LANGUAGE });
const country = string(undefined, 'Country of the search.', { ...OPTIONAL, ...COUNTRY });
const contact = string(undefined, 'Mail address or URL the service can reach you at.', { ...OPTIONAL, ...VISIBLE });

/** The settings are read along `settings` before `factory` gets them, which makes the types true. */
function engineKind<Settings>(
  settings: Readonly<Record<string, Setting>>,
  factory: (settings: Settings, surroundings: EngineSurroundings) => Engine,
): EngineKind {
  return { settings, create: (read, surroundings) => factory(read as Settings, surroundings) };
}

/** Every kind by its name in the configuration. */
export const ENGINE_KINDS: Readonly<Record<string, EngineKind>> = {
  worker: engineKind(
    {
      url: instanceUrl,
      engine: string(undefined, 'Name the worker is asked for.', OPTIONAL),
      secret: string(undefined, 'Sent to the worker as bearer token.', { ...OPTIONAL, ...SECRET }),
      types: list(choice(SEARCH_TYPES, '', 'A kind of search.'), undefined, 'Kinds of search it serves.', OPTIONAL),
    },
    worker,
  ),
  local: engineKind(
    {
      path: string(undefined, 'Folder with Markdown, HTML, plain text and JSONL files.', REQUIRED),
      baseUrl: url(undefined, 'URL under which the files of the folder can be reached.', OPTIONAL),
      maxFiles: integer(undefined, 'Most files read.', { ...OPTIONAL, min: 1 }),
      maxBytes: bytes(undefined, 'Most bytes read, all files together.', OPTIONAL),
      rescan: duration(undefined, 'Shortest time between two looks for changes.', OPTIONAL),
    },
    local,
  ),
  brave: engineKind(
    {
      apiKey: key,
      url: baseUrl,
      country,
      language,
      safeSearch: choice(['off', 'moderate', 'strict'], '', 'What is kept out of the results.', OPTIONAL),
    },
    brave,
  ),
  searxng: engineKind(
    {
      url: instanceUrl,
      apiKey: optionalKey,
      engines: list(string(undefined, 'Name of an engine.'), undefined, 'Engines of the instance to ask.', OPTIONAL),
      language,
    },
    searxng,
  ),
  serper: engineKind({ apiKey: key, url: baseUrl, country, language }, serper),
  tavily: engineKind(
    {
      apiKey: key,
      url: baseUrl,
      depth: choice(['basic', 'advanced'], '', 'Depth of the search: one or two credits.', OPTIONAL),
    },
    tavily,
  ),
  exa: engineKind(
    { apiKey: key, url: baseUrl, mode: choice(['auto', 'fast', 'instant', 'deep'], '', 'How Exa searches.', OPTIONAL) },
    exa,
  ),
  mojeek: engineKind({ apiKey: key, url: baseUrl, language }, mojeek),
  marginalia: engineKind({ apiKey: key, url: baseUrl }, marginalia),
  wikipedia: engineKind(
    {
      language,
      contact,
      url: baseUrl,
      imagesUrl: url(undefined, 'Base URL of the wiki with the images.', OPTIONAL),
    },
    wikipedia,
  ),
  duckduckgo: engineKind(
    {
      region: string(undefined, 'Region of the search.', { ...OPTIONAL, ...REGION }),
      userAgent: string(undefined, 'User agent sent instead of our own.', {
        ...OPTIONAL,
        pattern: /^[\x20-\x7e]+$/,
        hint: 'visible ASCII characters and spaces',
      }),
      url: baseUrl,
    },
    duckduckgo,
  ),
  arxiv: engineKind({ url: baseUrl }, arxiv),
  openalex: engineKind({ apiKey: optionalKey, url: baseUrl }, openalex),
  crossref: engineKind({ contact, url: baseUrl }, crossref),
  'semantic-scholar': engineKind({ apiKey: optionalKey, url: baseUrl }, semanticScholar),
  pubmed: engineKind({ apiKey: optionalKey, contact, url: baseUrl }, pubmed),
};

/**
 * The engine of a kind with settings as the configuration holds them, without `kind`. Throws an `Error` that names the
 * setting and what it must be, never its value: unknown kinds and settings, missing and malformed ones.
 */
export function createEngine(
  kind: string,
  settings: Readonly<Record<string, unknown>> = {},
  surroundings: EngineSurroundings = {},
): Engine {
  const known = Object.hasOwn(ENGINE_KINDS, kind) ? ENGINE_KINDS[kind] : undefined;
  if (known === undefined) {
    throw new Error(`is of an unknown kind; the kinds are ${Object.keys(ENGINE_KINDS).join(', ')}`);
  }
  const stray = Object.keys(settings).find((name) => !Object.hasOwn(known.settings, name));
  if (stray !== undefined) {
    const near = nearest(stray, Object.keys(known.settings));
    const hint = near === undefined ? `it takes ${Object.keys(known.settings).join(', ')}` : `did you mean ${near}?`;
    throw new Error(`${stray} is no setting of ${kind}; ${hint}`);
  }
  const read: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(known.settings)) {
    const written = settings[name];
    if (written !== undefined) read[resolvedName(name, setting)] = readSetting(name, setting, written);
    else if (setting.required === true) throw new Error(`${kind} needs ${name}`);
  }
  return known.create(read, surroundings);
}

function readSetting(name: string, setting: Setting, written: unknown): unknown {
  if (setting.kind === 'list' && setting.items !== undefined) {
    if (!Array.isArray(written)) throw new Error(`${name} must be a list`);
    const { items } = setting;
    return written.map((item, index) => readSetting(`${name}[${index}]`, items, item));
  }
  const value = readScalar(written, setting.kind as ScalarKind, setting);
  if (value instanceof Problem) throw new Error(`${name} ${value.message}`);
  return value;
}
