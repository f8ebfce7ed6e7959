// Reads folders of pages in the layout of the development data: FOLDER/SET/PAGE/ with `source.html.gz` or
// `source.bytes.gz`, and `expected.txt` with `meta.json`, or `segments.json`.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { decode } from '../../dist/src/extract/charset.js';

/** Names of sets by how their folders begin, and the score that each is judged by. */
export const SETS = {
  wcxb: { prefix: 'wcxb', score: 'words' },
  trafilatura: { prefix: 'trafilatura', score: 'segments' },
  mozilla: { prefix: 'mozilla', score: 'shingles' },
};

/** Pages of the sets named, in order: `{ set, id, type, url, html, expected, meta, segments }`. */
export function readPages(folder, sets = Object.keys(SETS)) {
  return sets.flatMap((set) => {
    const name = readdirSync(folder).find((entry) => entry.startsWith(SETS[set].prefix));
    if (name === undefined) return [];
    const ids = readdirSync(join(folder, name), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    return ids.map(({ name: id }) => readPage(set, id, join(folder, name, id)));
  });
}

function readPage(set, id, path) {
  const json = (name) =>
    existsSync(join(path, name)) ? JSON.parse(readFileSync(join(path, name), 'utf8')) : undefined;
  const meta = json('meta.json') ?? {};
  const segments = json('segments.json');
  const expected = existsSync(join(path, 'expected.txt'))
    ? readFileSync(join(path, 'expected.txt'), 'utf8')
    : undefined;
  const bytes = existsSync(join(path, 'source.bytes.gz'));
  const source = gunzipSync(readFileSync(join(path, bytes ? 'source.bytes.gz' : 'source.html.gz')));
  const html = bytes ? decode(source, null) : source.toString('utf8');
  const url = (meta.url ?? segments?.url ?? '').trim();
  return { set, id, type: meta.page_type ?? 'all', url, html, expected, meta, segments };
}
