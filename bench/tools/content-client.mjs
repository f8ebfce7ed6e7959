// Client of the benchmark of searches with content: `node content-client.mjs JSON` searches and gets the text of the best pages in one of
// several ways, and prints one line of JSON: the time of each search until all texts are there, and what they were.
//
// JSON: { way, who, port, first, count, atOnce, pages }
// way: `content` (one request), `batch` (a search, then its pages in one request), `loop` (a search, then each page fetched and cleaned
// here, one after the other), `loop at once` (the same, pages at once). `first` is the number of the first query.

import { Readability } from '@mozilla/readability';
import { parseHTML } from 'linkedom';
import { Agent, request } from 'undici';
import { KEY } from '../lib/traffic.mjs';

const { atOnce, count, first, pages, port, way, who } = JSON.parse(process.argv[2]);
const dispatcher = new Agent({ connections: 256, pipelining: 1 });
const headers = { 'content-type': 'application/json', authorization: `Bearer ${KEY}` };

async function post(path, body) {
  const answer = await request(`http://127.0.0.1:${port}${path}`, {
    ...{ method: 'POST', dispatcher, headers },
    body: JSON.stringify(body),
  });
  const text = await answer.body.text();
  if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}: ${text.slice(0, 200)}`);
  return JSON.parse(text).results;
}

/** What a script does with a page. */
async function readPage(url) {
  const answer = await request(url, { dispatcher });
  const html = await answer.body.text();
  if (answer.statusCode !== 200) return '';
  return new Readability(parseHTML(html).document).parse()?.textContent ?? '';
}

async function oneAfterTheOther(results) {
  const texts = [];
  for (const { url } of results) texts.push(await readPage(url));
  return texts;
}

const WAYS = {
  content: async (query) => {
    const results = await post('/search', { query, content: { results: pages } });
    return results.slice(0, pages).map(({ content }) => content ?? '');
  },
  batch: async (query) => {
    const results = await post('/search', { query });
    const urls = results.slice(0, pages).map(({ url }) => url);
    return (await post('/search/fetch', { urls })).map(({ content }) => content ?? '');
  },
  loop: async (query) => oneAfterTheOther((await post('/search', { query })).slice(0, pages)),
  'loop at once': async (query) => {
    const results = await post('/search', { query });
    return Promise.all(results.slice(0, pages).map(({ url }) => readPage(url)));
  },
};

const times = [];
let errors = 0;
let lastError = '';
let texts = 0;
let characters = 0;
let next = first;

async function searchOn() {
  while (next < first + count) {
    const query = `${who} ${next++}`;
    const startedMs = performance.now();
    try {
      const found = await WAYS[way](query);
      times.push(performance.now() - startedMs);
      texts += found.filter((text) => text !== '').length;
      characters += found.reduce((sum, text) => sum + text.length, 0);
    } catch (error) {
      errors++;
      lastError = error.message;
    }
  }
}

await Promise.all(Array.from({ length: atOnce }, searchOn));
process.stdout.write(`${JSON.stringify({ times, errors, lastError, texts, characters })}\n`, () => process.exit(0));
