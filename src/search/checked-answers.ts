// Whether an engine gave a request that can be sent, and hits: it may be the embedder's own, or a module.

import { httpUrl } from '../config/units.ts';
import { EngineError, type EngineHit, type EngineRequest, type SearchType } from './engine.ts';
import { isWebUrl } from './hit.ts';

/** The request, if it can be sent, with names of headers in lower case. */
export function checkedRequest(request: unknown): EngineRequest {
  const { body, headers, method, url } = (request ?? {}) as Readonly<Record<string, unknown>>;
  if ((method !== 'GET' && method !== 'POST') || typeof url !== 'string' || httpUrl(url) === null)
    throw invalid('no request that can be sent');
  const fields = Object.entries(headers ?? {}).map(([name, value]): [string, string] => {
    if (typeof value !== 'string' || !/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(value))
      throw invalid('no request that can be sent');
    return [name.toLowerCase(), value];
  });
  if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array))
    throw invalid('no request that can be sent');
  return { method, url, headers: Object.fromEntries(fields), ...(body !== undefined && { body }) };
}

/** The hits, if they have what merging needs. */
export function checkedHits(hits: unknown, type: SearchType): readonly EngineHit[] {
  if (!Array.isArray(hits)) throw invalid('no hits');
  for (const hit of hits as readonly unknown[]) {
    const fields = (hit ?? {}) as Readonly<Record<string, unknown>>;
    const { title, url, snippet } = fields;
    const hasTexts = typeof title === 'string' && typeof snippet === 'string';
    if (!hasTexts || !hasOptionalFields(fields) || !isWebUrl(url)) throw invalid('no hits');
    if (type === 'academic' && !isWork(fields)) throw invalid('no hits');
  }
  return hits as readonly EngineHit[];
}

/** With a cause, so that the log says what is wrong. */
function invalid(problem: string): EngineError {
  return new EngineError('invalid', { cause: new TypeError(problem) });
}

/** Whether the fields that a hit may lack are of their types, as far as they are there. */
function hasOptionalFields(hit: Readonly<Record<string, unknown>>): boolean {
  const { height, imageUrl, publishedAt, source, thumbnailUrl, width } = hit;
  const areTexts = isOptionalText(publishedAt) && isOptionalText(source);
  const areUrls = isOptionalText(imageUrl) && isOptionalText(thumbnailUrl);
  return areTexts && areUrls && isOptionalSize(width) && isOptionalSize(height);
}

function isOptionalText(value: unknown): boolean {
  return value === undefined || typeof value === 'string';
}

/** In pixels. */
function isOptionalSize(value: unknown): boolean {
  return value === undefined || (Number.isSafeInteger(value) && (value as number) >= 0);
}

/** Whether the fields of a scholarly work are of their types, as far as they are there. */
function isWork({ authors, citations, doi, openAccessUrl, venue, year }: Readonly<Record<string, unknown>>): boolean {
  const areTexts = [doi, openAccessUrl, venue].every(isOptionalText);
  const areNumbers = [citations, year].every((number) => number === undefined || Number.isSafeInteger(number));
  const areNames =
    authors === undefined || (Array.isArray(authors) && authors.every((name) => typeof name === 'string'));
  return areTexts && areNumbers && areNames;
}
