// Small pages of one account while another fetches a hostile page again and again: how long they take, how long the event loop that
// also serves chats was blocked, and how the hostile page ended.
//
//   node bench/hostile.mjs [--seconds N] [--only NAME] [--at ONCE] [--dist FOLDER] [--json]     default 4 s a kind, 8 hostile pages at once
//
// Gateway and sites run in one process, sites in a thread of their own. `--dist` measures another build, for a figure before and after.
// Needs a quiet machine: every page costs CPU time.

import { pathToFileURL, fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { createServer } from 'node:http';
import { availableParallelism } from 'node:os';
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { parseArgs } from 'node:util';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { quantile } from './lib/statistics.mjs';

const SIZE = 9_900_000;
const PROSE = 'A weir holds the river back in a dry month, and the race runs on. ';
const SMALL = `<!doctype html><title>On weirs</title><main>${`<p>${PROSE}</p>`.repeat(60)}</main>`;
const JUST_BELOW = 250_000;
const TABLES = 5_000_000;

const fill = (piece, size = SIZE) => piece.repeat(Math.floor(size / piece.length));
const html = (body) => ({ type: 'text/html', body: Buffer.from(body) });
const coded = (coding, body) => ({ type: 'text/html', coding, body });
const brotli = (body) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } });

/** Pages by kind. */
const KINDS = {
  'no hostile page': null,
  'plain text': () => ({ type: 'text/plain', body: Buffer.from(fill(PROSE)) }),
  prose: () => html(`<main>${fill(`<p>${PROSE}</p>`)}</main>`),
  nesting: () => html(fill('<div>')),
  'nested marks': () => html(fill('<b>x')),
  'misnested links': () => html(fill('<a href=x><b><p>x')),
  'one giant attribute': () => html(`<div class="${fill('nav-Bar ')}">x</div>`),
  'many attributes': () => html(`<a ${fill('a=b ')}>x</a>`),
  'a giant table': () => html(`<table>${fill(`<tr><td>x<td>${PROSE}`)}</table>`),
  'nested tables': () => html(fill('<table><tr><td>x<td>y')),
  entities: () => html(fill('&eacute;')),
  'tiny elements': () => html(fill('<i>x</i>')),
  'tiny paragraphs': () => html(fill('<p>x</p>')),
  'unknown elements': () => html(Array.from({ length: SIZE / 10 }, (_, at) => `<x${at}>`).join('')),
  'giant JSON-LD': () => html(`<script type="application/ld+json">[${fill('{"@type":"Article"},')}{}]</script><p>x`),
  'nested JSON-LD': () => html(`<script type="application/ld+json">${fill('[')}</script><p>x`),
  'giant page state': () =>
    html(
      `<script id="__NEXT_DATA__" type="application/json">{"props":[${fill(`{"body":"${PROSE}"},`)}{}]}</script><p>x`,
    ),
  'pushed page state': () => html(fill(`<script>self.__next_f.push([1,"${PROSE}"])</script>`)),
  'gzip bomb': () => coded('gzip', gzipSync(Buffer.alloc(SIZE, '<p>x'))),
  'brotli bomb of 1 GB': () => coded('br', brotli(Buffer.alloc(1_000_000_000, '<p>x'))),
  'gzip in gzip': () => coded('gzip, gzip', gzipSync(gzipSync(Buffer.alloc(100_000_000)))),
  'PDF bomb': () => ({ type: 'application/pdf', body: pdfBomb() }),
  [`many pages of ${JUST_BELOW / 1000} kB`]: () => html(fill('<b>x', JUST_BELOW)),
  [`many tables of ${TABLES / 1e6} MB`]: () => html(`<table>${fill(`<tr><td>x<td>${PROSE}`, TABLES)}</table>`),
};

/** A PDF whose one page is half a gigabyte of spaces. */
function pdfBomb() {
  const stream = deflateSync(Buffer.alloc(512 * 1024 * 1024, ' '));
  const parts = [Buffer.from('%PDF-1.4\n')];
  const offsets = [];
  const add = (...pieces) => {
    offsets.push(parts.reduce((sum, part) => sum + part.length, 0));
    parts.push(...pieces.map((piece) => Buffer.from(piece)));
  };
  add('1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n');
  add('2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n');
  add('3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R>>endobj\n');
  add(`4 0 obj<</Length ${stream.length}/Filter/FlateDecode>>stream\n`, stream, '\nendstream endobj\n');
  const start = parts.reduce((sum, part) => sum + part.length, 0);
  const rows = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('');
  parts.push(
    Buffer.from(`xref\n0 5\n0000000000 65535 f \n${rows}trailer<</Size 5/Root 1 0 R>>\nstartxref\n${start}\n%%EOF`),
  );
  return Buffer.concat(parts);
}

/** The sites: `/small` on one port, `/hostile` on another. */
async function serveSites() {
  let page = null;
  const answer = (request, response) => {
    const { body, coding, type } = request.url.startsWith('/small') ? html(SMALL) : page;
    response.writeHead(200, { 'content-type': type, ...(coding === undefined ? {} : { 'content-encoding': coding }) });
    response.end(body);
  };
  const servers = await Promise.all(
    [0, 1].map(
      (_, at) =>
        new Promise((resolve) => {
          const server = createServer(answer).listen(0, `127.0.0.${at + 1}`, () => resolve(server));
        }),
    ),
  );
  parentPort.on('message', (name) => {
    if (name === null) return servers.forEach((server) => server.close().closeAllConnections());
    page = KINDS[name]?.() ?? null;
    return parentPort.postMessage({ bytes: page?.body.length ?? 0 });
  });
  parentPort.postMessage({ ports: servers.map((server) => server.address().port) });
}

const next = (worker) => new Promise((resolve) => void worker.once('message', resolve));

async function measure() {
  const { values } = parseArgs({
    options: {
      seconds: { type: 'string', default: '4' },
      only: { type: 'string', default: '' },
      at: { type: 'string', default: '8' },
      dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
      json: { type: 'boolean', default: false },
    },
  });
  const { createGateway } = await import(pathToFileURL(`${values.dist}/src/index.js`).href);
  const sites = new Worker(new URL(import.meta.url));
  const { ports } = await next(sites);
  const gateway = createGateway({
    keys: { static: ['hostile', 'other'].map((account) => ({ key: `hr_${account}`, account })) },
    log: { level: 'silent' },
    fetch: { allow: ['127.0.0.0/8'], ports, cacheTtl: null },
  });
  const ask = async (account, url) => {
    const startMs = performance.now();
    const headers = { authorization: `Bearer hr_${account}` };
    const answer = await gateway.inject({ path: '/search/fetch', headers, body: { url } });
    return { ms: performance.now() - startMs, word: answer.headers['x-headrace-error'] ?? String(answer.status) };
  };
  const small = (at) => ask('other', `http://127.0.0.1:${ports[0]}/small?${at}`);
  for (let at = 0; at < 50; at++) await small(at);
  const rows = [];
  for (const kind of Object.keys(KINDS).filter((name) => name.includes(values.only))) {
    sites.postMessage(kind);
    const { bytes } = await next(sites);
    const endMs = performance.now() + Number(values.seconds) * 1000;
    const ends = {};
    const hostile = Array.from({ length: KINDS[kind] === null ? 0 : Number(values.at) }, async (_, lane) => {
      for (let at = 0; performance.now() < endMs; at++) {
        const { word } = await ask('hostile', `http://127.0.0.2:${ports[1]}/hostile?${lane}-${at}`);
        ends[word] = (ends[word] ?? 0) + 1;
      }
    });
    const loop = monitorEventLoopDelay({ resolution: 1 });
    loop.enable();
    const times = [];
    const ended = {};
    for (let at = 0; performance.now() < endMs; at++) {
      const { ms, word } = await small(`${kind}-${at}`);
      times.push(ms);
      ended[word] = (ended[word] ?? 0) + 1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    loop.disable();
    await Promise.all(hostile);
    times.sort((one, other) => one - other);
    rows.push({
      ...{ kind, bytes, pages: times.length, ended: JSON.stringify(ended), hostile: JSON.stringify(ends) },
      ...{ p50: quantile(times, 0.5), p95: quantile(times, 0.95), max: times.at(-1) },
      ...{ loopP99: loop.percentile(99) / 1e6, loopMax: loop.max / 1e6 },
    });
    if (!values.json) print(rows.at(-1));
  }
  if (values.json) console.log(JSON.stringify({ node: process.version, cores: availableParallelism(), rows }, null, 2));
  sites.postMessage(null);
  await sites.terminate();
  await gateway.close();
}

function print({ ended, hostile, kind, loopMax, loopP99, max, p50, p95, pages }) {
  const ms = (value) => value.toFixed(0).padStart(6);
  console.log(
    `${kind.padEnd(24)} p50${ms(p50)}  p95${ms(p95)}  max${ms(max)} ms  loop p99${ms(loopP99)} max${ms(loopMax)} ms  ${pages} small: ${ended}  hostile: ${hostile}`,
  );
}

await (isMainThread ? measure() : serveSites());
