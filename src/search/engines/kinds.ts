// The engine kinds of the gateway: name, settings and factory of each. The reference tables are generated from these rows.

import { hintFor, readValue } from '../../config/mistake.ts';
import {
  bytes,
  choice,
  duration,
  type Fields,
  integer,
  list,
  map,
  open,
  optional,
  type Pattern,
  required,
  resolvedName,
  type SectionOutput,
  string,
  url,
} from '../../config/value-types.ts';
import { SEARCH_TYPES, type Engine } from '../engine.ts';
import { arxiv } from './arxiv.ts';
import { brave } from './brave.ts';
import { crossref } from './crossref.ts';
import { duckduckgo } from './duckduckgo.ts';
import { exa } from './exa.ts';
import { local, type LocalDeps } from './local.ts';
import { marginalia } from './marginalia.ts';
import { type CheckedModule, moduleEngine } from './module.ts';
import { mojeek } from './mojeek.ts';
import { openalex } from './openalex.ts';
import { pubmed } from './pubmed.ts';
import { searxng } from './searxng.ts';
import { semanticScholar } from './semantic-scholar.ts';
import { serper } from './serper.ts';
import { tavily } from './tavily.ts';
import { wikipedia } from './wikipedia.ts';
import { worker } from './worker.ts';

/** Collaborators of engines. */
export interface EngineDeps extends LocalDeps {
  /** What is known of the module of an engine of kind `module` that has been checked. */
  readonly checkedModule?: CheckedModule;
}

/** One kind of engine. */
export interface EngineKind {
  /** By name as written in the configuration; `kind` is not among them. */
  readonly settings: Fields;
  /** Takes settings by their resolved names: durations end in `Ms`. */
  readonly create: (settings: Readonly<Record<string, unknown>>, deps: EngineDeps) => Engine;
}

const VISIBLE: Pattern = { pattern: /^[\x21-\x7e]+$/, hint: 'visible ASCII characters without spaces' };
const LANGUAGE: Pattern = { pattern: /^[A-Za-z]{2,3}(?:-[A-Za-z0-9]+)*$/, hint: 'a language code, such as en' };
const REGION: Pattern = { pattern: /^[A-Za-z]{2}-[A-Za-z]{2}$/, hint: 'a region, such as us-en' };
const COUNTRY: Pattern = { pattern: /^(?:[A-Za-z]{2}|ALL)$/, hint: 'a country of two letters, such as us' };
const USER_AGENT: Pattern = { pattern: /^[\x20-\x7e]+$/, hint: 'visible ASCII characters and spaces' };

const SECRET = { secret: true } as const;

const BASE = { base: true } as const;
const baseUrl = optional(url(BASE), 'Base URL of the service, for proxies and mirrors.');
const instanceUrl = required(url(BASE), 'Base URL of the instance.');
const key = required(string(VISIBLE), 'Key of the service.', SECRET);
const optionalKey = optional(string(VISIBLE), 'Key of the service; limits are lower without.', SECRET);
const language = optional(string(LANGUAGE), 'Language of the results.');
const country = optional(string(COUNTRY), 'Country of the search.');
const contact = optional(string(VISIBLE), 'Mail address or URL at which the service can reach you.');

function engineKind<F extends Fields>(
  settings: F,
  factory: (settings: SectionOutput<F>, deps: EngineDeps) => Engine,
): EngineKind {
  // `createEngine` reads the settings by `settings`, which makes the type true.
  return { settings, create: (read, deps) => factory(read as SectionOutput<F>, deps) };
}

/** Every kind by its name in the configuration. */
export const ENGINE_KINDS: Readonly<Record<string, EngineKind>> = {
  worker: engineKind(
    {
      url: instanceUrl,
      engine: optional(string(), 'Name of the engine in requests to the worker.'),
      secret: optional(string(VISIBLE), 'Sent to the worker as bearer token.', SECRET),
      types: optional(list(choice(SEARCH_TYPES)), 'Kinds of search it serves.'),
    },
    worker,
  ),
  local: engineKind(
    {
      path: required(
        string(),
        'Folder with Markdown, HTML, plain text and JSONL files, from the folder of the configuration file.',
      ),
      baseUrl: optional(url(BASE), 'URL under which the files of the folder can be reached.'),
      maxFiles: optional(integer({ min: 1 }), 'Largest number of files read.'),
      maxBytes: optional(bytes(), 'Largest size of all files together.'),
      rescan: optional(duration(), 'Shortest time between two scans for changes.'),
    },
    local,
  ),
  brave: engineKind(
    {
      apiKey: key,
      url: baseUrl,
      country,
      language,
      safeSearch: optional(choice(['off', 'moderate', 'strict']), 'What is kept out of the results.'),
    },
    brave,
  ),
  searxng: engineKind(
    {
      url: instanceUrl,
      apiKey: optionalKey,
      engines: optional(list(string()), 'Engines of the instance to ask.'),
      language,
    },
    searxng,
  ),
  serper: engineKind({ apiKey: key, url: baseUrl, country, language }, serper),
  tavily: engineKind(
    {
      apiKey: key,
      url: baseUrl,
      depth: optional(choice(['basic', 'advanced']), 'Depth of the search: one or two credits.'),
    },
    tavily,
  ),
  exa: engineKind(
    { apiKey: key, url: baseUrl, mode: optional(choice(['auto', 'fast', 'instant', 'deep']), 'Search mode of Exa.') },
    exa,
  ),
  mojeek: engineKind({ apiKey: key, url: baseUrl, language }, mojeek),
  marginalia: engineKind({ apiKey: key, url: baseUrl }, marginalia),
  wikipedia: engineKind(
    { language, contact, url: baseUrl, imagesUrl: optional(url(BASE), 'Base URL of the wiki with the images.') },
    wikipedia,
  ),
  duckduckgo: engineKind(
    {
      region: optional(string(REGION), 'Region of the search.'),
      userAgent: optional(string(USER_AGENT), 'User agent sent in place of the default.'),
      url: baseUrl,
    },
    duckduckgo,
  ),
  arxiv: engineKind({ url: baseUrl }, arxiv),
  openalex: engineKind({ apiKey: optionalKey, url: baseUrl }, openalex),
  crossref: engineKind({ contact, url: baseUrl }, crossref),
  'semantic-scholar': engineKind({ apiKey: optionalKey, url: baseUrl }, semanticScholar),
  module: engineKind(
    {
      path: required(string(), 'File of the module, from the folder of the configuration file.'),
      options: optional(map(open()), 'Options of the module, as it declares them.', SECRET),
    },
    (settings, { checkedModule }) => moduleEngine(settings, checkedModule),
  ),
  pubmed: engineKind({ apiKey: optionalKey, contact, url: baseUrl }, pubmed),
};

/**
 * The engine of a kind with settings as the configuration holds them, without `kind`. Throws an `Error` that names the
 * setting and what it must be, never its value: unknown kinds and settings, missing and malformed ones.
 */
export function createEngine(
  kind: string,
  settings: Readonly<Record<string, unknown>> = {},
  deps: EngineDeps = {},
): Engine {
  const known = Object.hasOwn(ENGINE_KINDS, kind) ? ENGINE_KINDS[kind] : undefined;
  if (known === undefined) {
    throw new Error(`is of an unknown kind; the kinds are ${Object.keys(ENGINE_KINDS).join(', ')}`);
  }
  const stray = Object.keys(settings).find((name) => !Object.hasOwn(known.settings, name));
  if (stray !== undefined)
    throw new Error(`${stray} is no setting of ${kind}; ${hintFor(stray, Object.keys(known.settings))}`);
  const read: Record<string, unknown> = {};
  for (const [name, setting] of Object.entries(known.settings)) {
    const written = settings[name];
    if (written !== undefined) read[resolvedName(name, setting)] = readValue(setting, name, written);
    else if (setting.presence === 'required') throw new Error(`${kind} needs ${name}`);
  }
  return known.create(read, deps);
}
