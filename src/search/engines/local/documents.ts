// Turns a file of the local engine's folder into the documents to be found: one a file, one a line of JSONL. The
// collection indexes them. Nothing here throws: what cannot be read as promised becomes plain text or is left out.

import { asRecord, asText } from '../../engine-response.ts';
import { isoDate } from '../../dates.ts';
import type { EngineHit } from '../../engine.ts';
import { encodePath, hit } from '../../hit.ts';
import { plainText } from '../../text.ts';
import type { FileFormat, FolderFile } from './folder.ts';
import { htmlText } from './html.ts';
import { markdownText } from './markdown.ts';

/** What follows is not searched: a text is indexed in one go, and a million characters take about a tenth of a second. */
const MAX_TEXT_LENGTH = 1_000_000;

export interface LocalDocument {
  /** The hit without its snippet. */
  readonly hit: EngineHit;
  readonly text: string;
}

/** The documents of a file, one at a time. `baseUrl` ends with a slash. */
export function* documents(file: FolderFile, content: string, baseUrl: string): Generator<LocalDocument> {
  const url = new URL(encodePath(file.path), baseUrl).href;
  const readings = file.format === 'jsonl' ? records(content, url) : [{ ...READERS[file.format](content), url }];
  for (const reading of readings) {
    const found = toHit(file, reading);
    if (found !== undefined) yield { hit: found, text: reading.text.slice(0, MAX_TEXT_LENGTH) };
  }
}

interface Reading {
  /** What the file says about itself, with the names that records have. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly title: string;
  readonly text: string;
}

const READERS: Readonly<Record<Exclude<FileFormat, 'jsonl'>, (content: string) => Reading>> = {
  markdown: (content) => {
    const { meta, heading, text } = markdownText(content);
    return { fields: meta, title: heading, text };
  },
  html: (content) => ({ fields: {}, ...htmlText(content) }),
  text: (content) => ({ fields: {}, title: '', text: content.replace(/[\s\p{Cc}]+/gu, ' ').trim() }),
};

/** The records of a file, each under its line number where it has no URL; broken lines are left out. */
function* records(content: string, url: string): Generator<Reading & { readonly url: string }> {
  for (const [index, line] of content.split('\n').entries()) {
    const fields = parseRecord(line);
    if (fields === undefined) continue;
    const text = asText(fields['text']) || asText(fields['content']) || asText(fields['snippet']);
    yield { fields, title: '', text: plainText(text, text.length), url: `${url}#L${index + 1}` };
  }
}

function parseRecord(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? asRecord(value) : undefined;
  } catch {
    return undefined;
  }
}

/** What the fields say wins over what the file gives; fields of the wrong type are as good as absent. */
function toHit(file: FolderFile, { fields, title, url }: Reading & { readonly url: string }): EngineHit | undefined {
  const fileName = file.path.slice(file.path.lastIndexOf('/') + 1);
  return hit({
    title: asText(fields['title']) || title || fileName,
    url: asText(fields['url']) || url,
    publishedAt: isoDate(fields['published_at'] ?? fields['date'], file.modifiedMs),
    source: fields['source'],
    thumbnailUrl: fields['thumbnail_url'],
    imageUrl: fields['image_url'] ?? fields['image'],
    width: fields['width'],
    height: fields['height'],
  });
}
