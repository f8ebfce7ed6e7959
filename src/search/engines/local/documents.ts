// Reads the documents of a file: one for each line of JSONL, one for any other file. Never throws: malformed parts become
// plain text or are left out.

import { asRecord, asText } from '../../engine-response.ts';
import { isoDate } from '../../dates.ts';
import type { EngineHit } from '../../engine.ts';
import { encodePath, hit } from '../../hit.ts';
import { plainText } from '../../text.ts';
import type { FileFormat, FolderFile } from './folder.ts';
import { htmlText } from './html.ts';
import { markdownText } from './markdown.ts';

/** The rest of a longer text is not searched: a text is indexed without yielding, a million characters in about 100 ms. */
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
  /** Metadata of the document, under the names that JSONL records use. */
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

/** The records of a file; the URL of one without its own ends with its line number. Malformed lines are left out. */
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

/** Fields take precedence over title and URL of the file; fields of the wrong type count as absent. */
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
