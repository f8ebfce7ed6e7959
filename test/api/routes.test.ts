// The route table and its dispatcher: prefixes, metric labels of unknown paths, and handlers that throw.
import t from 'tap';
import { ROUTES, Router } from '../../src/api/routes.ts';
import type { ApiDeps } from '../../src/api/deps.ts';
import { Cors } from '../../src/ingress/cors.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

const DEPS = { settings: { errorBodies: 'contract' } } as unknown as ApiDeps;

/** An exchange that only notes which route it was given to. */
function routed(
  method: string,
  path: string,
  prefixes = { servicePrefix: 'svc', listingPrefix: 'aggregator' },
): string {
  const exchange = new StubExchange(method);
  Object.defineProperty(exchange, 'path', { value: path, writable: true });
  new Router(prefixes).serve(exchange, DEPS, new Cors(['*']));
  return exchange.endpoint;
}

t.test('every route of the table answers at its path', async (t) => {
  for (const { method, path } of ROUTES) {
    const concrete = path.replace('{full_path}', 'any/path').replace('{model}', 'm').replace('{id}', 'x');
    t.equal(routed(method, concrete), path);
    if (method === 'GET') t.equal(routed('HEAD', concrete), path);
  }
});

t.test('prefix settings move their routes', async (t) => {
  const prefixes = { servicePrefix: 'gw', listingPrefix: 'market' };
  t.equal(routed('GET', '/gw/auth/check', prefixes), '/svc/auth/check');
  t.equal(routed('GET', '/market/models', prefixes), '/aggregator/models');
  t.equal(routed('GET', '/svc/auth/check', prefixes), 'other');
});

t.test('unknown paths and methods share one metric label', async (t) => {
  for (const [method, path] of [
    ['GET', '/nope'],
    ['POST', 'nope'],
    ['DELETE', '/health'],
    ['OPTIONS', '/health'],
  ] as const) {
    t.equal(routed(method, path), 'other');
  }
});

t.test('the longest paths that a head may hold cost little', async (t) => {
  for (const [method, path] of [
    ['GET', `/v1/files${'/'.repeat(15_000)}`],
    ['GET', `${'/v1'.repeat(5000)}/nope`],
    ['POST', `/v1${'/a'.repeat(8000)}`],
    ['POST', '/a'.repeat(8000)],
  ] as const) {
    const tookMs = cpuMsOf(() => {
      for (let i = 0; i < 100; i++) routed(method, path);
    });
    t.ok(tookMs < 500, `${method} ${path.slice(0, 12)}: ${Math.round(tookMs)} ms for 100`);
  }
});

t.test('an exception that is not an error of the table is a 500', async (t) => {
  const exchange = new StubExchange('GET');
  Object.defineProperty(exchange, 'path', { value: '/svc/models' });
  new Router({ servicePrefix: 'svc', listingPrefix: 'aggregator' }).serve(exchange, DEPS, new Cors([]));
  t.equal(exchange.status, 500);
  t.equal(exchange.body, '{"detail":"Internal error"}');
});
