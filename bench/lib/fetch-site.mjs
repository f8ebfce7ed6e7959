// A site of pages on loopback, for the fetch benchmark: those below a folder (every `source.html.gz`, as they are), or, without
// a folder, articles made up here. Run as `node fetch-site.mjs [FOLDER]`; prints `ready PORT PAGES` and serves page
// `n` as `/n` until it is told to end.

import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { article } from './articles.mjs';

const folder = process.argv[2] ?? '';
const PAGES_MADE = 100;

const pages = folder === '' ? Array.from({ length: PAGES_MADE }, (_, index) => article(index)) : readPages();

function readPages() {
  const files = globSync(join(folder, '**/source.{html,bytes}.gz')).sort();
  if (files.length === 0) throw new Error(`no source.html.gz below ${folder}`);
  return files.map((file) => gunzipSync(readFileSync(file)));
}

const server = createServer((request, response) => {
  const page = pages[Number.parseInt(request.url.slice(1), 10) % pages.length];
  response.writeHead(200, { 'content-type': 'text/html', 'content-length': page.length }).end(page);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.stdout.write(`ready ${server.address().port} ${pages.length}\n`));
process.on('SIGTERM', () => process.exit(0));
