// Reads the documents of a file: one for each line of JSONL, one for any other file. Never throws: malformed parts become
// plain text or are left out.

import { asText } from '../../engine-response.ts';
import { isoDate } from '../../dates.ts';
import type { EngineHit } from '../../engine.ts';
import { encodePath, hit } from '../../hit.ts';
import { plainText } from '../../text.ts';
import { membersOf, parsedJson } from '../../../net/json-object.ts';
import type { FileFormat, FolderFile } from './folder.ts';
import { htmlText } from './html.ts';
import { markdownText } from './markdown.ts';

/** The rest of a longer text is not searched: a text is indexed without yielding, a million characters in about 100 ms. */
const MAX_TEXT_LENGTH = 1_000_000;

/** The rest of a longer file or text is not read: a million characters of markup take about 100 ms, too. */
const MAX_SOURCE_LENGTH = 4 * MAX_TEXT_LENGTH;

export interface LocalDocument {
  /** The hit without its snippet. */
  readonly hit: EngineHit;
  readonly text: string;
}

/** The documents of a file, one at a time; undefined for a line that holds none. `baseUrl` ends with a slash. */
export function* documents(
  file: FolderFile,
  content: string,
  baseUrl: string,
): Generator<LocalDocument | undefined, void, undefined> {
  const url = new URL(encodePath(file.path), baseUrl).href;
  if (file.format !== 'jsonl') {
    yield toDocument(file, { ...READERS[file.format](content.slice(0, MAX_SOURCE_LENGTH)), url });
    return;
  }
  for (const record of records(content, url)) yield record === undefined ? undefined : toDocument(file, record);
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

/** The record of each line, undefined where there is none; the URL of one without its own ends with its line number. */
function* records(content: string, url: string): Generator<(Reading & { readonly url: string }) | undefined> {
  for (let start = 0, line = 1; start < content.length; line++) {
    const newline = content.indexOf('\n', start);
    const end = newline < 0 ? content.length : newline;
    const fields = membersOf(parsedJson(content.slice(start, end)));
    start = end + 1;
    const text = asText(fields['text']) || asText(fields['content']) || asText(fields['snippet']);
    const isEmpty = text === '' && asText(fields['title']) === '';
    const plain = plainText(text.slice(0, MAX_SOURCE_LENGTH), MAX_SOURCE_LENGTH);
    yield isEmpty ? undefined : { fields, title: '', text: plain, url: `${url}#L${line}` };
  }
}

/** Fields take precedence over title and URL of the file; fields of the wrong type count as absent. */
function toDocument(
  file: FolderFile,
  { fields, text, title, url }: Reading & { readonly url: string },
): LocalDocument | undefined {
  const fileName = file.path.slice(file.path.lastIndexOf('/') + 1);
  const found = hit({
    title: asText(fields['title']) || title || fileName,
    url: asText(fields['url']) || url,
    publishedAt: isoDate(fields['published_at'] ?? fields['date'], file.modifiedMs),
    source: fields['source'],
    thumbnailUrl: fields['thumbnail_url'],
    imageUrl: fields['image_url'] ?? fields['image'],
    width: fields['width'],
    height: fields['height'],
  });
  return found === undefined ? undefined : { hit: found, text: text.slice(0, MAX_TEXT_LENGTH) };
}
