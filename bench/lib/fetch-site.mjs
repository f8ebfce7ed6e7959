// Web site on loopback for the fetch benchmark. `node fetch-site.mjs [FOLDER]` serves every `source.html.gz` below FOLDER, or
// generated articles without one, as `/0`, `/1` and so on. Prints `ready PORT PAGES` and serves until SIGTERM.

import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { article } from './article.mjs';

const folder = process.argv[2] ?? '';
const GENERATED_PAGES = 100;

const pages = folder === '' ? Array.from({ length: GENERATED_PAGES }, (_, index) => article(index)) : readPages();

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
