// The affinity cookie (docs/interface.md, section 6): a JSON object from model id to base URL. Clients can change it, so an
// entry counts only if its URL is in the model's pool.

import type { ModelTable } from './model-table.ts';
import { parseJson } from '../config/json-text.ts';

export const AFFINITY_COOKIE = 'preferred_instances';

/** `Max-Age` of the cookie in seconds. */
export const AFFINITY_MAX_AGE_S = 1800;

/** A longer cookie is ignored: browsers keep 4 KiB. */
const MAX_COOKIE_CHARS = 4096;

const NO_ENTRIES: ReadonlyMap<string, string> = new Map();

/** Cookie values that were read; a client sends the same one until its CRN changes, and most clients have one of few. */
const READ = new Map<string, ReadonlyMap<string, string>>();
const MAX_READ = 256;

/** Reads a cookie value, raw or percent-encoded, into base URLs by model id in lower case. Skips what is no string. */
export function readAffinity(value: string | undefined): ReadonlyMap<string, string> {
  if (value === undefined || value.length > MAX_COOKIE_CHARS) return NO_ENTRIES;
  const known = READ.get(value);
  if (known !== undefined) return known;
  const entries = parseAffinity(value);
  if (READ.size >= MAX_READ) READ.clear();
  READ.set(value, entries);
  return entries;
}

function parseAffinity(value: string): ReadonlyMap<string, string> {
  const entries = new Map<string, string>();
  try {
    // A raw value may have percent signs in its URLs.
    const parsed: unknown = parseJson(value.startsWith('{') ? value : decodeURIComponent(value));
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return entries;
    for (const [model, url] of Object.entries(parsed))
      if (typeof url === 'string') entries.set(model.toLowerCase(), url);
  } catch {
    // A broken cookie counts as none.
  }
  return entries;
}

/**
 * The cookie value after `url` has served `modelId`; undefined when the client's cookie says so already. Entries of other
 * models stay while their URL is in the model's pool.
 */
export function writeAffinity(
  known: ReadonlyMap<string, string>,
  table: ModelTable,
  modelId: string,
  url: string,
): string | undefined {
  // Most clients keep no cookies and get the same text every time.
  if (known.size === 0) return table.remember(url, modelId, () => encodeOne(modelId, url));
  if (known.get(modelId.toLowerCase()) === url) return undefined;
  const entries = emptyRecord();
  for (const [id, preferred] of known) {
    const model = table.find(id);
    if (model !== undefined && model.members.some((member) => member.url === preferred)) entries[model.id] = preferred;
  }
  entries[modelId] = url;
  const text = encode(entries);
  return text.length <= MAX_COOKIE_CHARS ? text : encodeOne(modelId, url);
}

function encodeOne(modelId: string, url: string): string {
  return encode(Object.assign(emptyRecord(), { [modelId]: url }));
}

/** An object without a prototype, so that any model id is an ordinary member. */
function emptyRecord(): Record<string, string> {
  return Object.create(null) as Record<string, string>;
}

/** JSON in which characters that a cookie value may not contain are escaped. */
function encode(entries: Record<string, string>): string {
  return JSON.stringify(entries).replace(
    /[;\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
