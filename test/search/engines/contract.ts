// The contract of engines behind HTTP as one suite, which each engine's test runs with its fixtures and a small simulated
// service; and readers of fixtures.

import fc from 'fast-check';
import { readFileSync } from 'node:fs';
import t from 'tap';
import {
  EngineError,
  type EngineFailure,
  type EngineHit,
  type EnginePage,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
  SEARCH_TYPES,
  type SearchType,
} from '../../../src/search/engine.ts';

/** Give engines this key: the suite looks for it where it must be and where it must not. */
export const KEY = 'k3y-0f-the-test';

/** 21 November 2026, 10:00 UTC. */
export const NOW: number = Date.UTC(2026, 10, 21, 10);

/** A result of the simulated service. */
export interface Supply {
  readonly title: string;
  readonly url: string;
}

export interface EngineCase {
  readonly engine: HttpEngine;
  /** Whether the engine was made with `KEY`. */
  readonly keyed: boolean;
  /** Fixtures that are answers, and how many hits each gives. */
  readonly pages: readonly { readonly fixture: string; readonly type: SearchType; readonly hits: number }[];
  /** Fixtures that are failures, sent with this status. */
  readonly failures: readonly {
    readonly fixture: string;
    readonly status: number;
    readonly failure: EngineFailure;
    readonly headers?: Readonly<Record<string, string>>;
  }[];
  /** The service: the answer to `request` (an object is sent as JSON) when these are all its results, best first. */
  readonly serve: (request: EngineRequest, supply: readonly Supply[], type: SearchType) => object | string | Buffer;
  /** Most hits the service can be brought to give, where that is less than 100. */
  readonly reach?: Partial<Record<SearchType, number>>;
  /** Bodies with status 200 that are no answer, beside the common ones. */
  readonly garbage?: readonly string[];
  /** The engine does not send the words of the query as they are. */
  readonly rewritesQuery?: boolean;
}

/** Bytes of `test/search/fixtures/<path>`. */
export function fixture(path: string): Buffer {
  return readFileSync(new URL(`../../../../test/search/fixtures/${path}`, import.meta.url));
}

/** An answer; objects are sent as JSON. */
export function answer(
  body: object | string | Buffer,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): EngineResponse {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
  return { status, headers, body: bytes };
}

/** Parses the answer to a first request. */
export function parse(engine: HttpEngine, type: SearchType, response: EngineResponse, maxResults = 10): EnginePage {
  const query = { query: 'danube', type, maxResults };
  return engine.parse(response, { query, state: undefined, collected: 0, nowMs: NOW });
}

export interface Collected {
  readonly hits: readonly EngineHit[];
  readonly requests: readonly EngineRequest[];
  /** Hits there were before the last request. */
  readonly beforeLast: number;
}

/** Asks the pretended service until the engine wants no more. */
export function collect(
  engine: HttpEngine,
  serve: (request: EngineRequest) => object | string | Buffer,
  type: SearchType,
  maxResults: number,
): Collected {
  const query = { query: 'danube', type, maxResults };
  const hits: EngineHit[] = [];
  const requests: EngineRequest[] = [];
  for (let state: unknown; ;) {
    const beforeLast = hits.length;
    const request = engine.request(query, state);
    requests.push(request);
    const page = engine.parse(answer(serve(request)), { query, state, collected: hits.length, nowMs: NOW });
    hits.push(...page.hits);
    state = page.next;
    if (state === undefined || requests.length === MOST_REQUESTS) return { hits, requests, beforeLast };
  }
}

/** No engine needs as many requests for 100 hits, and none may go on for ever. */
const MOST_REQUESTS = 25;

const ISO = /^\d{4}(?:-\d\d(?:-\d\d(?:T\d\d:\d\d:\d\dZ)?)?)?$/;
const TEXTS = [
  ...(['title', 'url', 'snippet', 'publishedAt', 'source', 'thumbnailUrl', 'imageUrl'] as const),
  ...(['doi', 'venue', 'openAccessUrl'] as const),
] as const;
const SIZES = ['width', 'height'] as const;

/** What is wrong with a hit; empty when it satisfies `EngineHit`. */
function faults(hit: EngineHit): string[] {
  const found: string[] = [];
  const entries = Object.entries(hit);
  for (const [name, value] of entries) {
    if (![...TEXTS, ...SIZES, 'authors', 'year', 'citations'].some((known) => known === name))
      found.push(`${name} is unknown`);
    if (value === undefined) found.push(`${name} is undefined`);
  }
  for (const name of TEXTS) {
    const text = hit[name] ?? '';
    if (typeof text !== 'string' || !text.isWellFormed() || /\p{Cc}/u.test(text))
      found.push(`${name} is no plain text`);
  }
  for (const name of SIZES) {
    if (hit[name] !== undefined && !(Number.isSafeInteger(hit[name]) && hit[name] > 0))
      found.push(`${name} is no size`);
  }
  for (const name of ['url', 'thumbnailUrl', 'imageUrl', 'openAccessUrl'] as const) {
    if (hit[name] !== undefined && !/^https?:$/.test(URL.parse(hit[name])?.protocol ?? ''))
      found.push(`${name} is no URL`);
  }
  const { authors = [], citations = 0, doi = '10.1000/x', year = 2000 } = hit;
  if (!/^10\.\d{4,9}\/\S+$/.test(doi)) found.push('doi is none');
  if (authors.length > 50 || !authors.every((name) => typeof name === 'string' && name !== ''))
    found.push('authors are no names');
  if (!Number.isSafeInteger(citations) || citations < 0) found.push('citations is no count');
  if (!Number.isSafeInteger(year) || year < 1400 || year > 2200) found.push('year is none');
  if (hit.title === '') found.push('title is empty');
  if (typeof hit.snippet !== 'string') found.push('snippet is missing');
  if (hit.publishedAt !== undefined && !ISO.test(hit.publishedAt)) found.push('publishedAt is no ISO 8601');
  return found;
}

/** What an engine throws for a response; undefined when it reads it. Anything but an `EngineError` goes through. */
export function failure(engine: HttpEngine, type: SearchType, response: EngineResponse): EngineError | undefined {
  try {
    parse(engine, type, response);
    return undefined;
  } catch (error) {
    if (error instanceof EngineError) return error;
    throw error;
  }
}

const supplyOf = (count: number): readonly Supply[] =>
  Array.from({ length: count }, (_, index) => ({ title: `Result ${index}`, url: `https://result.example/${index}` }));

const LEAK = 'UPSTREAM-TEXT';
const HOSTILE = [
  'a&b=c#d?e=f',
  '"quoted" \'single\' \\ /../ %2e%zz +plus',
  'line\nbreak\u0000null\ttab',
  '😀 donau größe 東京',
  '<script>alert(1)</script>',
  '{"query":"x"}, [1]',
  'lone \ud800 surrogate',
];

/** Parameters and members of a request by name, whichever way it carries them. */
function carried({ url, body, headers }: EngineRequest): Map<string, unknown> {
  const members = new Map<string, unknown>(new URL(url).searchParams);
  const text = typeof body === 'string' ? body : '';
  if (headers['content-type']?.includes('urlencoded'))
    for (const [name, value] of new URLSearchParams(text)) members.set(name, value);
  else if (text !== '')
    for (const [name, value] of Object.entries(JSON.parse(text) as object)) members.set(name, value);
  return members;
}

function requestTests(name: string, { engine, keyed, rewritesQuery = false }: EngineCase): void {
  t.test(`${name} asks with an absolute URL, lower-case headers and its key`, async (t) => {
    for (const type of engine.types) {
      const query = { query: 'danube', type, maxResults: 10 };
      const request = engine.request(query, undefined);
      t.match(request.url, /^https?:\/\/[^/]+\//);
      t.same(engine.request(query, undefined), request, 'the same request each time');
      for (const [header, value] of Object.entries(request.headers)) {
        t.match(header, /^[a-z0-9-]+$/);
        t.match(value, /^[\x20-\x7e]+$/);
      }
      t.equal(JSON.stringify(request).includes(KEY), keyed, 'carries the key');
      t.equal(request.body === undefined, request.method === 'GET', 'only a POST has a body');
    }
  });

  t.test(`${name} lets no query out of its parameter`, async (t) => {
    for (const type of engine.types) {
      const ask = (query: string): EngineRequest => engine.request({ query, type, maxResults: 10 }, undefined);
      const plain = ask('danube');
      for (const query of HOSTILE) {
        const request = ask(query);
        t.equal(request.url.split('?')[0], plain.url.split('?')[0]);
        t.match(request.url, /^[\x21-\x7e]+$/);
        t.same([...carried(request).keys()], [...carried(plain).keys()]);
        const values = [...carried(request).values()].map(String);
        if (!rewritesQuery)
          t.ok(
            values.some((value) => value.toWellFormed() === query.toWellFormed()),
            JSON.stringify(query),
          );
        t.same({ ...request.headers }, { ...plain.headers, ...lengthOf(request) });
      }
    }
  });
}

function lengthOf({ headers }: EngineRequest): Record<string, string> {
  return headers['content-length'] === undefined ? {} : { 'content-length': headers['content-length'] };
}

function answerTests(name: string, { engine, pages, failures, garbage = [] }: EngineCase): void {
  for (const { fixture: file, type, hits } of pages) {
    t.test(`${name} reads ${file}`, async (t) => {
      const page = parse(engine, type, answer(fixture(file)));
      t.equal(page.hits.length, hits);
      for (const hit of page.hits) t.same(faults(hit), [], JSON.stringify(hit));
      t.same(parse(engine, type, answer(fixture(file))), page, 'the same hits each time');
    });
  }

  for (const { fixture: file, status, failure: expected, headers } of failures) {
    t.test(`${name} recognises ${file} as ${expected}`, async (t) => {
      for (const type of engine.types) {
        const error = failure(engine, type, answer(fixture(file), status, headers));
        t.equal(error?.failure, expected);
        t.notMatch(error?.reason, /[A-Z]{5}|k3y|example/);
      }
    });
  }

  t.test(`${name} takes garbage for an invalid response`, async (t) => {
    for (const body of ['', 'no answer', '{', '[]', 'null', '42', '"text"', '<p>hello</p>', ...garbage]) {
      for (const type of engine.types) t.equal(failure(engine, type, answer(body))?.failure, 'invalid', body);
    }
  });

  t.test(`${name} has a failure for every bad status, without the text or the key`, async (t) => {
    const statuses: Readonly<Record<number, RegExp>> = {
      401: /^access denied$/,
      403: /^access denied$/,
      429: /^rate limited$|^quota exceeded$/,
      500: /^engine returned HTTP 500$/,
      502: /^engine returned HTTP 502$/,
      503: /^engine returned HTTP 503$/,
    };
    const bodies = [`${LEAK} ${KEY}`, `<html>${LEAK} ${KEY}</html>`, JSON.stringify({ error: LEAK, message: KEY }), ''];
    for (const [status, reason] of Object.entries(statuses)) {
      for (const body of bodies) {
        for (const type of engine.types) {
          const error = failure(engine, type, answer(body, Number(status)));
          t.match(error?.reason, reason);
          t.notOk(`${error?.stack}${error?.cause}`.includes(LEAK));
        }
      }
    }
  });

  t.test(`${name} recognises a challenge page`, async (t) => {
    const page = '<!doctype html><html><title>Just a moment...</title><script>window._cf_chl_opt={}</script></html>';
    for (const status of [200, 403, 503]) {
      const response = answer(page, status, { 'content-type': 'text/html; charset=UTF-8' });
      t.equal(failure(engine, engine.types[0] ?? 'web', response)?.failure, 'challenge');
    }
  });
}

function pagingTests(name: string, { engine, serve, reach = {} }: EngineCase): void {
  for (const type of engine.types) {
    t.test(`${name} asks for pages of ${type} until there are enough hits`, async (t) => {
      for (const maxResults of [1, 7, 10, 30, 100]) {
        const { hits, requests, beforeLast } = collect(
          engine,
          (request) => serve(request, supplyOf(5000), type),
          type,
          maxResults,
        );
        t.ok(beforeLast < maxResults, `${beforeLast} hits and one more request`);
        t.ok(hits.length >= Math.min(maxResults, reach[type] ?? 100), `${hits.length} hits of ${maxResults}`);
        t.ok(requests.length < MOST_REQUESTS, `${requests.length} requests`);
        t.equal(new Set(hits.map(({ url }) => url)).size, hits.length, 'no hit comes twice');
        t.equal(
          new Set(requests.map((request) => JSON.stringify(request))).size,
          requests.length,
          'nothing is asked twice',
        );
      }
    });

    t.test(`${name} stops where the results for ${type} end`, async (t) => {
      for (const count of [0, 1, 3]) {
        const { hits, requests } = collect(engine, (request) => serve(request, supplyOf(count), type), type, 100);
        t.equal(hits.length, count);
        t.ok(requests.length <= 2, `${requests.length} requests`);
      }
    });

    t.test(`${name} gives up on pages for ${type} without a usable result`, async (t) => {
      const junk = supplyOf(5000).map(({ title }) => ({ title, url: 'nowhere' }));
      const { requests } = collect(engine, (request) => serve(request, junk, type), type, 100);
      t.ok(requests.length < MOST_REQUESTS, `${requests.length} requests`);
    });
  }
}

/** `value` with the node at `index`, counted depth first, replaced. */
function replaced(value: unknown, index: number, by: unknown): unknown {
  let left = index;
  const walk = (node: unknown): unknown => {
    if (left-- === 0) return by;
    if (Array.isArray(node)) return node.map(walk);
    if (typeof node !== 'object' || node === null) return node;
    return Object.fromEntries(Object.entries(node).map(([key, member]) => [key, walk(member)]));
  };
  return walk(value);
}

function hostileTests(name: string, { engine, pages }: EngineCase): void {
  const survives = (type: SearchType, response: EngineResponse): boolean => {
    try {
      return parse(engine, type, response).hits.every((hit) => faults(hit).length === 0);
    } catch (error) {
      return error instanceof EngineError;
    }
  };
  const types = fc.constantFrom(...engine.types);
  const statuses = fc.oneof({ arbitrary: fc.constant(200), weight: 3 }, fc.integer({ min: 100, max: 599 }));

  t.test(`${name} throws nothing but an EngineError for any bytes`, async (t) => {
    const bytes = fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array));
    const texts = fc.oneof(fc.json(), fc.string({ unit: 'binary' }));
    const bodies = fc.oneof(
      bytes,
      texts.map((text) => Buffer.from(text)),
    );
    const property = fc.property(types, statuses, bodies, (type, status, body) => survives(type, answer(body, status)));
    t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
  });

  const json = pages.filter(({ fixture: file }) => file.endsWith('.json'));
  if (json.length === 0) return;
  t.test(`${name} survives any value anywhere in its answers`, async (t) => {
    const values = fc.oneof(fc.constantFrom<unknown[]>(null, '', 0, -1, 1e300, {}, [], [null], true), fc.jsonValue());
    const parsed = json.map(({ fixture: file, type }) => ({
      type,
      value: JSON.parse(fixture(file).toString()) as unknown,
    }));
    const property = fc.property(fc.constantFrom(...parsed), fc.nat(120), values, ({ type, value }, index, by) =>
      survives(type, answer(JSON.stringify(replaced(value, index, by)))),
    );
    t.doesNotThrow(() => fc.assert(property, { numRuns: 1000 }));
  });
}

/** Runs the suite for one engine. */
export function contract(name: string, subject: EngineCase): void {
  t.test(`${name} describes itself`, async (t) => {
    const { kind, documentation, types, rates = [], concurrency = 1 } = subject.engine;
    t.match(kind, /^[a-z]+(?:-[a-z]+)*$/);
    t.match(documentation, /^https:\/\/|^docs\/search-engines\.md$/);
    t.ok(types.length > 0 && types.every((type) => SEARCH_TYPES.includes(type)));
    t.ok(concurrency >= 1 && rates.every(({ requests, perMs }) => requests >= 1 && perMs >= 1));
    t.same(
      types.filter((type) => !subject.pages.some((page) => page.type === type)),
      [],
      'every type has a fixture',
    );
  });
  requestTests(name, subject);
  answerTests(name, subject);
  pagingTests(name, subject);
  hostileTests(name, subject);
}
