// Messages to `/mcp` that are nearly right, or nothing like it: every one is answered, none with 5xx.

import t from 'tap';
import { createGateway } from '../../src/index.ts';
import { Random } from '../support/random.ts';

const ROUNDS = 400;

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

const WORDS: readonly unknown[] = [
  ...['2.0', '1.0', '', 'tools/call', 'tools/list', 'initialize', 'ping', 'server/discover', 'subscriptions/listen'],
  ...['notifications/cancelled', 'notifications/initialized', 'logging/setLevel', 'resources/list', 'debug', 'search'],
  ...['fetch', '2025-11-25', '2026-07-28', '2025-03-26', '1999-01-01', '__proto__', 'constructor', '\0', '\u{1f600}'],
  ...[null, true, 0, -1, 1.5, 1e308, 2 ** 53, [], {}, [[]], { a: { b: {} } }, 'http://10.0.0.1/', 'x'.repeat(5000)],
];

const NAMES = [
  ...['jsonrpc', 'id', 'method', 'params', 'result', 'error', 'name', 'arguments', '_meta', 'progressToken', 'query'],
  ...['url', 'requestId', 'protocolVersion', 'capabilities', 'clientInfo', 'level', VERSION, CAPABILITIES, '__proto__'],
];

function anyValue(random: Random, depth: number): unknown {
  const kind = random.next();
  if (depth === 0 || kind < 0.5) return random.pick(WORDS);
  if (kind < 0.6) return Array.from({ length: Math.floor(random.next() * 4) }, () => anyValue(random, depth - 1));
  const entries = Array.from({ length: Math.floor(random.next() * 5) }, () => [
    random.pick(NAMES),
    anyValue(random, depth - 1),
  ]);
  return Object.fromEntries(entries) as unknown;
}

/** A message in which some members are right. */
function message(random: Random): unknown {
  const isRight = (): boolean => random.next() < 0.8;
  const params = {
    ...(isRight() && { name: random.pick(['search', 'fetch']) }),
    ...(isRight() && { arguments: anyValue(random, 2) }),
    ...(random.next() < 0.4 && {
      _meta: { [VERSION]: '2026-07-28', [CAPABILITIES]: {}, progressToken: anyValue(random, 1) },
    }),
    ...(random.next() < 0.3 && { [random.pick(NAMES)]: anyValue(random, 2) }),
  };
  return {
    jsonrpc: isRight() ? '2.0' : anyValue(random, 1),
    ...(isRight() && { id: random.next() < 0.7 ? 1 : anyValue(random, 1) }),
    method: isRight() ? random.pick(WORDS.slice(3, 15)) : anyValue(random, 1),
    ...(isRight() && { params: isRight() ? params : anyValue(random, 3) }),
  };
}

t.test('random messages are answered, and never with 5xx', async (t) => {
  const gateway = createGateway({
    ...{ keys: { required: false }, log: { level: 'silent' } },
    search: {
      engines: { mine: { kind: 'mine', documentation: 'x', types: ['web'], search: () => Promise.resolve([]) } },
    },
  });
  t.teardown(() => gateway.close());
  const random = new Random(20_261_123);
  for (let round = 0; round < ROUNDS; round++) {
    const kind = random.next();
    const body =
      kind < 0.7
        ? message(random)
        : kind < 0.8
          ? Array.from({ length: Math.floor(random.next() * 5) }, () => message(random))
          : anyValue(random, 4);
    const text = JSON.stringify(body) ?? '';
    const cut = random.next() < 0.1 ? Math.floor(random.next() * text.length) : text.length;
    const headers: Record<string, string> = {
      'content-type': random.pick(['application/json', 'application/json', 'text/plain']),
    };
    if (random.next() < 0.9) headers['accept'] = 'application/json, text/event-stream';
    if (random.next() < 0.4) headers['mcp-protocol-version'] = random.pick(['2026-07-28', '2025-11-25', 'x']);
    if (random.next() < 0.3) headers['mcp-method'] = random.pick(['tools/call', 'tools/list', 'x']);
    if (random.next() < 0.3) headers['mcp-name'] = random.pick(['search', 'fetch', '=?base64?x?=']);
    if (random.next() < 0.3) headers['mcp-session-id'] = random.pick(['a', '', '\u00ff']);
    const sent = text.slice(0, cut);
    const { status } = await gateway.inject({ method: 'POST', path: '/mcp', headers, body: sent });
    if (status >= 500 || status < 200) t.fail(`${status} for ${sent} ${JSON.stringify(headers)}`);
  }
  t.pass(`${ROUNDS} messages`);
});
