// A site of pages on loopback, for the fetch benchmark: those below a folder (every `source.html.gz`, as they are), or, without
// a folder, articles made up here. Run as `node fetch-site.mjs [FOLDER]`; prints `ready PORT PAGES` and serves page
// `n` as `/n` until it is told to end.

import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const folder = process.argv[2] ?? '';
const PAGES_MADE = 100;

const pages = folder === '' ? Array.from({ length: PAGES_MADE }, (_, index) => article(index)) : readPages();

function readPages() {
  const files = globSync(join(folder, '**/source.{html,bytes}.gz')).sort();
  if (files.length === 0) throw new Error(`no source.html.gz below ${folder}`);
  return files.map((file) => gunzipSync(readFileSync(file)));
}

/** An article of 20 to 120 kB between the furniture of a news site. */
function article(index) {
  const links = (from) =>
    Array.from(
      { length: 40 },
      (_, at) => `<li class="menu-item"><a href="/${from + at}">Section ${from + at}</a></li>`,
    );
  const paragraphs = Array.from(
    { length: 20 + (index % 10) * 12 },
    (_, at) =>
      `<p>Paragraph ${at} of article ${index}: the <b>headrace</b> brings water from the weir to the turbine, and what the ` +
      'turbine cannot take is spilled at the side, where a <a href="/weir">weir of 3 to 5 m</a> keeps the level within a ' +
      'hand&#39;s breadth when the gate shuts. Records of forty years show the lowest flow in September.</p>',
  );
  return Buffer.from(`<!doctype html><html lang="en"><head><title>Article ${index} | The Millrace</title>
<meta property="og:title" content="Article ${index}"><style>${'.a{color:red}'.repeat(200)}</style>
<script>${'window.x=1;'.repeat(400)}</script></head><body><nav><ul>${links(0).join('')}</ul></nav>
<main><article><h1>Article ${index}</h1>${paragraphs.join('\n')}</article></main>
<aside><h2>Related</h2><ul>${links(100).join('')}</ul></aside><footer>${links(200).join('')}</footer></body></html>`);
}

const server = createServer((request, response) => {
  const page = pages[Number.parseInt(request.url.slice(1), 10) % pages.length];
  response.writeHead(200, { 'content-type': 'text/html', 'content-length': page.length }).end(page);
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.stdout.write(`ready ${server.address().port} ${pages.length}\n`));
process.on('SIGTERM', () => process.exit(0));
