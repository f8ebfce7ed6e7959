// Reads an answer that another gateway has shared. What it says is checked field by field, as the answer of an engine is: it may name
// no engine that was not asked, and no address that is not of the web.

import { parseJson } from '../config/json-text.ts';
import { membersOf } from '../net/json-object.ts';
import { isLasting } from './engine.ts';
import { createDomainFilter } from './filter-plan.ts';
import { isWebUrl } from './hit.ts';
import type { SearchAnswer, SearchQuery, SearchResult } from './query.ts';

/** The largest number that a duration or a rank of an answer can be. */
const MOST = 1_000_000;

/** Longest reason of `meta.engine_errors`. */
const MOST_REASON = 200;

type Fields = Readonly<Record<string, unknown>>;

/** The answer, which is whole: no engine has failed that might answer now. Null for what no gateway writes for this query; throws for what is no JSON. */
export function readAnswer(bytes: Buffer, query: SearchQuery): SearchAnswer | null {
  const { meta, results } = membersOf(parseJson(bytes.toString()));
  const { duration_ms, engine_errors, engines_failed, engines_used } = membersOf(meta);
  const used = enginesOf(engines_used, query);
  const failed = enginesOf(engines_failed, query);
  if (used === null || used.length === 0 || failed === null || !isCount(duration_ms)) return null;
  if (!Array.isArray(engine_errors) || engine_errors.length > query.engines.length) return null;
  const isAllowed = createDomainFilter(query.filters);
  const notes = engine_errors.map((error) => noteOf(membersOf(error), query));
  if (!Array.isArray(results) || results.length > query.engines.length * query.maxResults) return null;
  const read = results.map((result) => resultOf(membersOf(result), query));
  if (isAllowed !== null && read.some((result) => result !== null && !isAllowed(result.url))) return null;
  if (notes.includes(null) || read.includes(null)) return null;
  const lasting = notes.flatMap((note) => (note !== null && isLasting(note.reason) ? [note.engine] : []));
  if (!failed.every((engine) => lasting.includes(engine) && !used.includes(engine))) return null;
  return {
    results: read as SearchResult[],
    meta: {
      duration_ms,
      engines_used: used,
      engines_failed: failed,
      engine_errors: notes as { engine: string; reason: string }[],
    },
  };
}

/** Optional texts of a result. */
const TEXTS = ['published_at', 'source', 'thumbnail_url', 'image_url', 'doi', 'venue', 'open_access_url'] as const;
const COUNTS = ['width', 'height', 'year', 'citations'] as const;

function resultOf(fields: Fields, query: SearchQuery): SearchResult | null {
  const { engine, found_in, rank, search_type, snippet, title, url } = fields;
  const foundIn = enginesOf(found_in, query);
  if (foundIn === null || typeof engine !== 'string' || !foundIn.includes(engine)) return null;
  if (typeof title !== 'string' || typeof snippet !== 'string' || !isWebUrl(url)) return null;
  if (!isCount(rank) || rank < 1 || search_type !== query.type) return null;
  const more: Record<string, unknown> = {};
  for (const name of TEXTS) {
    const value = fields[name];
    if (value === undefined) continue;
    if (typeof value !== 'string' || (name.endsWith('_url') && !isWebUrl(value))) return null;
    more[name] = value;
  }
  for (const name of COUNTS) {
    const value = fields[name];
    if (value === undefined) continue;
    if (!isCount(value)) return null;
    more[name] = value;
  }
  const { authors } = fields;
  if (authors !== undefined) {
    if (!Array.isArray(authors) || !authors.every((name) => typeof name === 'string')) return null;
    more['authors'] = authors;
  }
  return { title, url, snippet, engine, rank, found_in: foundIn, search_type, ...more } as SearchResult;
}

function noteOf({ engine, reason }: Fields, query: SearchQuery): { engine: string; reason: string } | null {
  const isNote = typeof engine === 'string' && typeof reason === 'string' && reason.length <= MOST_REASON;
  return isNote && query.engines.includes(engine) ? { engine, reason } : null;
}

/** Engines of the query, each once. */
function enginesOf(value: unknown, { engines }: SearchQuery): string[] | null {
  if (!Array.isArray(value) || value.length > engines.length) return null;
  const named = value as unknown[];
  const isKnown = named.every((engine) => typeof engine === 'string' && engines.includes(engine));
  return isKnown && new Set(named).size === named.length ? (named as string[]) : null;
}

function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MOST;
}
