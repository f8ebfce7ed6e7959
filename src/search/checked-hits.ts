// Whether an engine gave hits: it may be the embedder's own.

import { EngineError, type EngineHit, type SearchType } from './engine.ts';
import { isWebUrl } from './hit.ts';

/** The hits, if they have what merging needs: engines may be of the embedder's own. */
export function checkedHits(hits: unknown, type: SearchType): readonly EngineHit[] {
  if (!Array.isArray(hits)) throw invalid();
  for (const hit of hits as readonly unknown[]) {
    const fields = (hit ?? {}) as Readonly<Record<string, unknown>>;
    const { title, url, snippet } = fields;
    const hasTexts = typeof title === 'string' && typeof snippet === 'string';
    if (!hasTexts || !hasOptionalFields(fields) || !isWebUrl(url)) throw invalid();
    if (type === 'academic' && !isWork(fields)) throw invalid();
  }
  return hits as readonly EngineHit[];
}

/** With a cause, so that the log says what is wrong. */
function invalid(): EngineError {
  return new EngineError('invalid', { cause: new TypeError('no hits') });
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
