// Tests the engine without a network: what it asks for, and what it reads from an answer that the service once gave.
// `node --test catalogue.test.js`

import { deepEqual, equal, throws } from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createEngine } from './catalogue.js';

class EngineError extends Error {
  constructor(failure) {
    super(failure);
    this.failure = failure;
  }
}

const engine = createEngine({ url: 'https://catalogue.example', pageSize: 2 }, { EngineError });
const query = { query: 'weir', type: 'web', maxResults: 10 };
const context = { query, state: undefined, collected: 0, nowMs: 0 };
const answer = (status) => ({
  status,
  headers: {},
  body: readFileSync(new URL('catalogue.fixture.json', import.meta.url)),
});

void test('asks for a page', () => {
  equal(engine.request(query, undefined).url, 'https://catalogue.example/find?q=weir&limit=2&from=0');
  equal(engine.request(query, 2).url, 'https://catalogue.example/find?q=weir&limit=2&from=2');
});

void test('reads hits, and asks for the next page while pages are full', () => {
  const { hits, next } = engine.parse(answer(200), context);
  deepEqual(
    hits.map(({ url }) => url),
    ['https://millrace.example/weirs', 'https://millrace.example/sluices'],
  );
  equal(next, 2);
  equal(engine.parse(answer(200), { ...context, collected: 8 }).next, undefined);
});

void test('names failures', () => {
  throws(() => engine.parse(answer(429), context), { failure: 'rate limited' });
  throws(() => engine.parse(answer(500), context), { failure: 'http' });
});
