// The affinity cookie `preferred_instances` (docs/interface.md, section 6): a JSON object text from model id to base
// URL. It is the client's to change, so nothing in it is believed: a URL counts only if it is in the model's pool.

import type { ModelTable } from './model-table.ts';

export const AFFINITY_COOKIE = 'preferred_instances';

/** Life of the cookie in seconds. */
export const AFFINITY_MAX_AGE_S = 1800;

/** A cookie longer than this is ignored: browsers keep 4 KiB. */
const MAX_LENGTH = 4096;

const NO_ENTRIES: ReadonlyMap<string, string> = new Map();

/** Reads a cookie value, raw or percent-encoded. Anything that is no object of strings reads as empty. */
export function readAffinity(value: string | undefined): ReadonlyMap<string, string> {
  if (value === undefined || value.length > MAX_LENGTH) return NO_ENTRIES;
  const entries = new Map<string, string>();
  try {
    // A raw value may hold percent signs of its own, in a URL.
    const parsed: unknown = JSON.parse(value.startsWith('{') ? value : decodeURIComponent(value));
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return entries;
    for (const [model, url] of Object.entries(parsed))
      if (typeof url === 'string') entries.set(model.toLowerCase(), url);
  } catch {
    // A broken cookie is an absent one.
  }
  return entries;
}

/**
 * The cookie value after `model` was served by `url`, or undefined when the client's is right already.
 * Entries of other models stay while they name a CRN of their pool.
 */
export function writeAffinity(
  known: ReadonlyMap<string, string>,
  table: ModelTable,
  modelId: string,
  url: string,
): string | undefined {
  // Clients without a cookie jar, most of them, get the same cookie every time.
  if (known.size === 0) return table.remember(url, modelId, () => encodeOne(modelId, url));
  if (known.get(modelId.toLowerCase()) === url) return undefined;
  const entries = emptyRecord();
  for (const [id, preferred] of known) {
    const model = table.find(id);
    if (model !== undefined && model.members.some((member) => member.url === preferred)) entries[model.id] = preferred;
  }
  entries[modelId] = url;
  const text = encode(entries);
  return text.length <= MAX_LENGTH ? text : encodeOne(modelId, url);
}

function encodeOne(modelId: string, url: string): string {
  return encode(Object.assign(emptyRecord(), { [modelId]: url }));
}

/** Without a prototype, so that any model id is a plain member. */
function emptyRecord(): Record<string, string> {
  return Object.create(null) as Record<string, string>;
}

/** JSON in which everything a cookie value may not hold at all is an escape. */
function encode(entries: Record<string, string>): string {
  return JSON.stringify(entries).replace(
    /[;\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
