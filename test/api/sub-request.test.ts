// Requests that a request makes: their credentials, their end with the request that made them, tool and progress.

import t from 'tap';
import type { Test } from 'tap';
import { type SubRequest, subRequest, type SubRequestDone } from '../../src/api/sub-request.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import type { DataPlane } from '../../src/gateway/data-plane.ts';
import { serveGateway } from '../../src/gateway/gateway.ts';
import { type DetachedExchange, startDetached } from '../../src/ingress/detached-exchange.ts';
import type { Exchange } from '../../src/ingress/exchange.ts';
import type { InProcessEngine } from '../../src/search/index.ts';

const KEY = 'hr_sub_request';

/** An engine whose searches wait until the test answers them. */
class Held {
  readonly queries: string[] = [];
  readonly aborted: string[] = [];
  readonly #answers: (() => void)[] = [];
  readonly #waiting: (() => void)[] = [];

  readonly engine: InProcessEngine = {
    kind: 'held',
    documentation: 'https://example.com/',
    types: ['web'],
    search: ({ query }, signal) =>
      new Promise((resolve) => {
        this.queries.push(query);
        this.#answers.push(() => resolve([{ title: query, url: 'https://example.com/', snippet: '' }]));
        signal.addEventListener('abort', () => {
          this.aborted.push(query);
          for (const wake of this.#waiting.splice(0)) wake();
        });
        for (const wake of this.#waiting.splice(0)) wake();
      }),
  };

  answer(): void {
    this.#answers.shift()?.();
  }

  async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}

function open(t: Test, engine: InProcessEngine, more: SettingsInput = {}): DataPlane {
  const resolution = resolveSettings({
    ...{ admin: null, store: null, threads: 0, log: { level: 'silent' } },
    keys: { static: [{ key: KEY, account: 'tests' }] },
    search: { engines: { mine: engine } },
    ...more,
  });
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  const gateway = serveGateway(resolution.settings);
  t.teardown(() => gateway.close());
  return gateway.plane as DataPlane;
}

const SEARCH: SubRequest = { path: '/search', body: { query: 'water', engines: ['mine'] }, tool: 'test' };

/** A request of a client to an endpoint that does what the test says. */
function begin(
  t: Test,
  plane: DataPlane,
  headers: readonly string[],
  serve: (exchange: Exchange) => void,
): DetachedExchange {
  let parent!: DetachedExchange;
  const sink = { piece: () => true, end: () => undefined, broken: () => undefined };
  const head = { method: 'POST', path: '/anything', query: '', headers, remoteAddress: '192.0.2.7' };
  const handler = (exchange: Exchange): void => {
    plane.refused(exchange);
    serve(exchange);
  };
  startDetached({ ...plane.deps.detached, handler }, head, new Uint8Array(0), sink, (exchange) => {
    parent = exchange;
  });
  t.teardown(() => parent.leave());
  return parent;
}

const ignore: SubRequestDone = () => undefined;

t.test('it asks with the credentials and the request id of the request that makes it', async (t) => {
  const held = new Held();
  const plane = open(t, held.engine);
  const seen: Exchange[] = [];
  const { handler } = plane.deps.detached;
  const detached = {
    ...plane.deps.detached,
    handler: (exchange: Exchange) => {
      seen.push(exchange);
      handler(exchange);
    },
  };
  const answer = new Promise<Parameters<SubRequestDone>>((resolve) => {
    const headers = ['x-api-key', KEY, 'x-request-id', 'abc', 'cookie', 'a=b', 'x-forwarded-for', '198.51.100.3'];
    begin(t, plane, headers, (exchange) => {
      subRequest({ ...plane.deps, detached }, exchange, SEARCH, (...parts) => resolve(parts));
      subRequest({ ...plane.deps, detached }, exchange, SEARCH, ignore);
    });
  });
  await held.until(() => held.queries.length > 0);
  held.answer();
  const [status, headers, json] = await answer;
  t.equal(status, 200);
  t.match(json, { results: [{ title: 'water' }] });
  t.equal(headers[headers.indexOf('x-request-id') + 1], 'abc/1');
  t.match(seen, [
    { account: 'tests', cookie: undefined, remoteAddress: '192.0.2.7', requestId: 'abc/1', tool: 'test' },
    { requestId: 'abc/2' },
  ]);
  t.equal(seen[0]?.header('x-forwarded-for'), '198.51.100.3');
});

t.test('its answer is the value itself, not text that is parsed again', async (t) => {
  const found = [{ title: 'water', url: 'https://example.com/', snippet: 'wet' }];
  const plane = open(t, { ...new Held().engine, search: () => Promise.resolve(found) });
  const { handler } = plane.deps.detached;
  let asked: Exchange | null = null;
  const detached = {
    ...plane.deps.detached,
    handler: (exchange: Exchange) => {
      asked = exchange;
      handler(exchange);
    },
  };
  const json = await new Promise((resolve) => {
    begin(t, plane, ['x-api-key', KEY], (exchange) => {
      subRequest({ ...plane.deps, detached }, exchange, SEARCH, (_status, _headers, value) => resolve(value));
    });
  });
  const text = await new Promise<string>((resolve) => {
    const bytes = Buffer.from(JSON.stringify(SEARCH.body));
    const headers = ['x-api-key', KEY, 'content-type', 'application/json', 'content-length', String(bytes.byteLength)];
    const pieces: Buffer[] = [];
    const sink = {
      piece: (chunk: Uint8Array) => pieces.push(Buffer.from(chunk)) > 0,
      end: () => resolve(Buffer.concat(pieces).toString()),
      broken: () => resolve('broken'),
    };
    const head = { method: 'POST', path: '/search', query: '', headers, remoteAddress: '192.0.2.7' };
    startDetached(plane.deps.detached, head, bytes, sink, () => undefined);
  });
  const { results } = JSON.parse(text) as { results: unknown };
  t.same((json as { results: unknown }).results, results);
  t.match(asked, { bytesOut: 0, endCause: 'delivered', status: 200 });
});

t.test('it gets no more than the client itself would', (t) => {
  const plane = open(t, new Held().engine, { limits: { bodyBytes: 2000 } });
  const statuses: number[] = [];
  const ask = (headers: string[], request: SubRequest = SEARCH): void => {
    begin(t, plane, headers, (exchange) => {
      subRequest(plane.deps, exchange, request, (status) => statuses.push(status));
    });
  };
  ask([]);
  ask(['authorization', 'Bearer wrong']);
  ask(['authorization', `Bearer ${KEY}`], { ...SEARCH, body: {} });
  ask(['authorization', `Bearer ${KEY}`], { ...SEARCH, body: { query: 'a'.repeat(2000) } });
  t.same(statuses, [401, 401, 422, 413]);
  t.equal(plane.budget.usedBytes, 0, 'no memory for bodies is kept');
  t.end();
});

t.test('it leaves with the request that makes it', async (t) => {
  const held = new Held();
  const plane = open(t, held.engine);
  const parent = begin(t, plane, ['x-api-key', KEY], (exchange) => {
    subRequest(plane.deps, exchange, SEARCH, () => t.fail('nobody hears the answer'));
  });
  await held.until(() => held.queries.length > 0);
  t.equal(plane.inFlight, 2);
  parent.leave();
  await held.until(() => held.aborted.length > 0);
  t.equal(plane.inFlight, 0);
  subRequest(plane.deps, parent, SEARCH, () => t.fail('the client has gone'));
  t.equal(plane.inFlight, 0, 'none begins after the end');
});

t.test('it can be aborted alone', async (t) => {
  const held = new Held();
  const plane = open(t, held.engine);
  await new Promise<void>((resolve) => {
    begin(t, plane, ['x-api-key', KEY], (exchange) => {
      const pending = subRequest(plane.deps, exchange, SEARCH, () => t.fail('nobody hears the answer'));
      void held
        .until(() => held.queries.length > 0)
        .then(() => pending.abort())
        .then(() => held.until(() => held.aborted.length > 0))
        .then(resolve);
    });
  });
  t.equal(plane.inFlight, 1, 'the other goes on');
});

t.test('a shutdown answers it', async (t) => {
  const held = new Held();
  const plane = open(t, held.engine);
  const answer = new Promise<Parameters<SubRequestDone>>((resolve) => {
    begin(t, plane, ['x-api-key', KEY], (exchange) => {
      exchange.listener = { onWritable: () => undefined, onCut: () => undefined, onEnded: () => undefined };
      subRequest(plane.deps, exchange, SEARCH, (...parts) => resolve(parts));
    });
  });
  await held.until(() => held.queries.length > 0);
  plane.cutOff();
  const [status, headers] = await answer;
  t.equal(status, 503);
  t.equal(headers[headers.indexOf('x-headrace-error') + 1], 'HR_DRAINING');
});
