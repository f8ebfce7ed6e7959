// Upstreams of ../path.mjs besides the model host: a search worker that returns three hits for every engine, and a web site
// whose every page is one short article. Prints `ready PORT` and serves until SIGTERM.

import { createServer } from 'node:http';

const SENTENCE = 'The headrace brings water from the weir to the turbine, and its fall should be slight and even. ';
const PAGE = `<!doctype html><html lang="en"><head><title>Headraces</title></head><body><article><h1>Headraces</h1>${`<p>${SENTENCE.repeat(3)}</p>`.repeat(5)}</article></body></html>`;

/** One page that both engines return, and two of this engine alone. */
function hits({ engine, query }) {
  const urls = ['https://site.example/both/page', ...[1, 2].map((n) => `https://site.example/${engine}/${n}`)];
  return urls.map((url) => ({ title: `About ${query}`, url, snippet: SENTENCE }));
}

const server = createServer((request, response) => {
  if (request.method === 'GET') {
    response.writeHead(200, { 'content-type': 'text/html', 'content-length': Buffer.byteLength(PAGE) }).end(PAGE);
    return;
  }
  const pieces = [];
  request.on('data', (piece) => pieces.push(piece));
  request.on('end', () => {
    const body = JSON.stringify({ results: hits(JSON.parse(Buffer.concat(pieces).toString())) });
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
      .end(body);
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.stdout.write(`ready ${server.address().port}\n`));
process.on('SIGTERM', () => process.exit(0));
