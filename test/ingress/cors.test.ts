// CORS headers of responses and preflights.
import t from 'tap';
import { Cors } from '../../src/ingress/cors.ts';
import { readDocument } from '../docs/markdown.ts';
import { StubExchange } from './stub-exchange.ts';

/** The headers that CORS adds for a request with this origin. */
function added(cors: Cors, origin?: string): Record<string, string> {
  const exchange = new StubExchange('GET', origin === undefined ? [] : ['origin', origin]);
  cors.admit(exchange);
  exchange.respond(200, [], Buffer.alloc(0));
  const { 'x-request-id': _, 'request-id': __, ...rest } = exchange.answered;
  return rest;
}

t.test('with * every origin is allowed, without credentials and without vary', async (t) => {
  const cors = new Cors(['*']);
  t.same(Object.keys(added(cors, 'https://a')), ['access-control-allow-origin', 'access-control-expose-headers']);
  t.equal(added(cors, 'https://a')['access-control-allow-origin'], '*');
  t.same(added(cors), {});
});

t.test('pages may read what the gateway says in headers', async (t) => {
  const exposed = added(new Cors(['*']), 'https://a')['access-control-expose-headers']?.split(', ') ?? [];
  const [, documented = ''] = readDocument('docs/api-reference.md').split('## Headers of answers');
  for (const name of exposed)
    t.ok(documented.includes(`\`${name.replace(/ratelimit-.*/, 'ratelimit-…')}`), `${name} is documented`);
  const limits = ['requests', 'tokens'].flatMap((kind) =>
    ['limit', 'remaining', 'reset'].flatMap((part) => [
      `x-ratelimit-${part}-${kind}`,
      `anthropic-ratelimit-${kind}-${part}`,
    ]),
  );
  const said = [
    ...['error', 'hint', 'cache', 'cost', 'output-limit', 'stored', 'translated', 'estimate', 'affinity'].map(
      (name) => `x-headrace-${name}`,
    ),
    ...limits,
    ...['mcp-session-id', 'server-timing', 'retry-after', 'retry-after-ms', 'x-should-retry'],
  ];
  t.same(
    said.filter((name) => !exposed.includes(name)),
    [],
  );
});

t.test('a listed origin is named; every response varies by origin', async (t) => {
  const cors = new Cors(['https://a']);
  t.match(added(cors, 'https://a'), {
    vary: 'origin',
    'access-control-allow-origin': 'https://a',
    'access-control-allow-credentials': 'true',
  });
  for (const origin of ['https://A', 'https://a.b', 'http://a', 'null', undefined]) {
    t.same(added(cors, origin), { vary: 'origin' }, `${origin}`);
  }
});

t.test('an empty list allows no origin', async (t) => {
  t.same(added(new Cors([]), 'https://a'), { vary: 'origin' });
});

t.test('a preflight allows the headers that it asks for', async (t) => {
  const cors = new Cors(['*']);
  const asking = new StubExchange('OPTIONS', ['access-control-request-headers', 'x-a, x-b']);
  t.same(cors.preflight(asking), [
    ...['access-control-allow-methods', 'GET, HEAD, POST, DELETE, OPTIONS'],
    ...['access-control-max-age', '7200'],
    ...['access-control-allow-headers', 'x-a, x-b'],
  ]);
  t.notOk(cors.preflight(new StubExchange('OPTIONS')).includes('access-control-allow-headers'));
});
