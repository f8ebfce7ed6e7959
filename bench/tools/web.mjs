// Simulated engines and sites on loopback: `node web.mjs SCALE` answers `/engine/NAME/search` as SearXNG does, and `/page/ID` with
// articles, after log-normal latencies times SCALE. Each site has an address of its own (127.1.x.y). `/script/ID` is a page whose script
// asks for `/data/ID` and shows it. Prints `ready PORT`.

import { createServer } from 'node:http';
import { article } from '../lib/article.mjs';
import { chanceOf, ENGINE_LATENCY, latencyMs, rankingOf, SITE_LATENCY } from './delays.mjs';

const scale = Number(process.argv[2] ?? 1);

/** Results of an engine's answer. */
const RESULTS = 10;
/** Of all pages, those that are gone. */
const GONE = 0.03;

const PARAGRAPHS = Array.from(
  { length: 40 },
  (_, at) =>
    `Paragraph ${at}: the headrace brings water from the weir to the turbine, and what it cannot take is spilled.`,
);

const articles = Array.from({ length: 50 }, (_, index) => article(index));
/** Pages that were asked for, by the part of the query before the first space. */
const asked = new Map();

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://web');
  const [, kind, name = ''] = pathname.split('/');
  if (kind === 'asked') response.end(JSON.stringify(Object.fromEntries(asked)));
  else if (kind === 'script') response.writeHead(200, { 'content-type': 'text/html' }).end(scriptPage(name));
  else if (kind === 'data') response.end(JSON.stringify(PARAGRAPHS));
  else if (kind === 'engine') search(name, searchParams.get('q') ?? '', response);
  else if (kind === 'page') visit(name, searchParams.get('q') ?? '', response);
  else response.writeHead(404).end();
});

/** An application: its text comes by its script. */
function scriptPage(id) {
  return `<!doctype html><html lang="en"><head><title>Page ${id}</title></head><body><div id="app"></div><script>
${'window.state=(window.state??0)+1;'.repeat(500)}
fetch('/data/${id}').then((answer) => answer.json()).then((paragraphs) => {
  document.getElementById('app').innerHTML = '<main>' + paragraphs.map((text) => '<p>' + text + '</p>').join('') + '</main>';
});
</script></body></html>`;
}

/** `text`: who asks, a space, the number of the query. */
function search(engine, text, response) {
  const query = text.split(' ')[1];
  const results = rankingOf(query, engine, RESULTS).map((page) => {
    const url = `http://${hostOf(query, page)}:${server.address().port}/page/${query}-${page}?q=${encodeURIComponent(text)}`;
    return { title: `Page ${page}`, url, content: 'The headrace brings water from the weir to the turbine.' };
  });
  const body = JSON.stringify({ results });
  setTimeout(() => response.end(body), scale * latencyMs(`${query} of ${engine}`, ENGINE_LATENCY));
}

function visit(id, text, response) {
  const [who] = text.split(' ');
  asked.set(who, (asked.get(who) ?? 0) + 1);
  const page = articles[Math.floor(chanceOf(id) * articles.length)];
  const isGone = chanceOf(`gone ${id}`) < GONE;
  const answer = () =>
    response.writeHead(isGone ? 410 : 200, { 'content-type': 'text/html' }).end(isGone ? 'gone' : page);
  setTimeout(answer, scale * latencyMs(`visit ${id}`, SITE_LATENCY));
}

function hostOf(query, page) {
  return `127.1.${page}.${1 + Math.floor(chanceOf(query) * 250)}`;
}

server.keepAliveTimeout = 60_000;
server.listen(0, '0.0.0.0', () => process.stdout.write(`ready ${server.address().port}\n`));
process.on('SIGTERM', () => process.exit(0));
