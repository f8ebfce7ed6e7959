// Which headers cross the gateway, in both directions.
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import {
  credentialLines,
  endToEndHeaders,
  KeptLines,
  linesFor,
  requestLines,
  responseHead,
  viaName,
} from '../../src/upstream/headers.ts';
import { Peers } from '../../src/upstream/peers.ts';

const rules = { peers: new Peers(['10.0.0.0/8', 'fd00::/8']), scheme: 'https', via: viaName() };
const STRANGER = '192.0.2.7';
const PROXY = '10.1.2.3';

/** What a CRN gets of these headers, as a list. */
function sent(headers: readonly string[], extra: { remoteAddress?: string; readable?: boolean } = {}): string[] {
  const input = { headers, remoteAddress: STRANGER, requestId: 'id', credential: '', readable: false, ...extra };
  const { common } = requestLines(rules, input);
  t.match(common, /^(?:[\w-]+: [^\r\n]*\r\n)*$/);
  t.ok(common.startsWith('x-request-id: id\r\n'));
  return common
    .split('\r\n')
    .slice(1, -1)
    .flatMap((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]);
}

/** The headers that every request of a stranger has in the end. */
const always = [...['x-forwarded-for', STRANGER, 'x-forwarded-proto', 'https', 'via', `1.1 ${rules.via}`]];
const identity = ['accept-encoding', 'identity'];

t.test('requests lose hop-by-hop and framing headers and those named by Connection', async (t) => {
  const headers = [
    ...['connection', 'keep-alive, X-Mine', 'connection', 'close', 'connection', 'x-more, accept-encoding'],
    ...['x-mine', '1', 'x-more', '2', 'x-kept', '3', 'keep-alive', '5', 'te', 'trailers', 'trailer', 'x'],
    ...['transfer-encoding', 'chunked', 'upgrade', 'h2c', 'proxy-authorization', 'p', 'proxy-connection', 'q'],
    ...['content-length', '7', 'expect', '100-continue', 'x-request-id', 'theirs', 'request-id', 'theirs'],
    ...['content-type', 'application/json', 'accept-encoding', 'gzip', 'x-kept', 'caf\xe9'],
  ];
  const kept = ['x-kept', '3', 'content-type', 'application/json', 'x-kept', 'caf\xe9'];
  t.same(sent(headers), [...kept, ...identity, ...always]);
  t.same(endToEndHeaders(headers), kept);
});

t.test('what is true of the body as it was sent is not passed on: it may be decoded or edited', (t) => {
  const names = ['content-encoding', 'content-digest', 'content-md5', 'digest', 'repr-digest'];
  t.same(sent(names.flatMap((name) => [name, 'x'])), [...identity, ...always]);
  t.end();
});

t.test('what is for the gateway alone is not passed on', async (t) => {
  const headers = [
    ...['cookie', 'preferred_instances={}; a=1', 'cookie', 'b=2', 'authorization', 'Bearer k', 'x-api-key', 'k'],
    ...['x-payment', 'p', 'payment-signature', 'p', 'payment-required', 'p', 'x-payment-response', 'p'],
    ...['payment-response', 'p'],
  ];
  t.same(sent(headers), [...identity, ...always]);
  t.same(sent(headers, { remoteAddress: PROXY }).length, sent(headers).length, 'from a trusted proxy too');
});

t.test('what strangers say about the client is replaced, what trusted proxies say is continued', async (t) => {
  const headers = [
    ...['host', 'api.example:8443', 'x-forwarded-for', '203.0.113.9', 'x-forwarded-for', '10.9.9.9'],
    ...['x-forwarded-proto', 'http', 'x-forwarded-host', 'public.example', 'x-forwarded-port', '80'],
    ...['forwarded', 'for=203.0.113.9', 'via', '1.1 cdn', 'x-real-ip', '203.0.113.9', 'true-client-ip', '203.0.113.9'],
    ...['x-original-url', '/admin', 'x-kept', '1'],
  ];
  t.same(sent(headers), [
    ...['x-kept', '1', ...identity, 'x-forwarded-for', STRANGER, 'x-forwarded-host', 'api.example:8443'],
    ...['x-forwarded-proto', 'https', 'via', `1.1 ${rules.via}`],
  ]);
  t.same(sent(headers, { remoteAddress: `::ffff:${PROXY}` }), [
    ...['x-forwarded-proto', 'http', 'x-forwarded-host', 'public.example', 'x-forwarded-port', '80'],
    ...['x-real-ip', '203.0.113.9', 'true-client-ip', '203.0.113.9', 'x-original-url', '/admin', 'x-kept', '1'],
    ...[...identity, 'x-forwarded-for', `203.0.113.9, 10.9.9.9, ${PROXY}`],
    ...['forwarded', `for=203.0.113.9, for=${PROXY}`, 'via', `1.1 cdn, 1.1 ${rules.via}`],
  ]);
  t.same(sent(['host', 'api.example', 'forwarded', 'for=a'], { remoteAddress: 'fd00::1' }), [
    ...[...identity, 'x-forwarded-for', 'fd00::1', 'x-forwarded-host', 'api.example', 'x-forwarded-proto', 'https'],
    ...['forwarded', 'for=a, for="[fd00::1]"', 'via', `1.1 ${rules.via}`],
  ]);
  t.notOk(sent(headers, { remoteAddress: '' }).includes('x-forwarded-for'), 'an unknown peer is not written');
  t.same(
    sent(['connection', 'x-forwarded-host', 'host', 'h', 'x-forwarded-host', 'p'], { remoteAddress: PROXY }).slice(
      4,
      6,
    ),
    ['x-forwarded-host', 'h'],
    'a header for one connection is not passed on, and so it does not replace ours',
  );
});

t.test('a request that has passed this gateway is 508, whoever sends it', async (t) => {
  const other = viaName();
  t.not(other, rules.via);
  const loops = [`1.1 ${rules.via}`, `1.0 nginx, 1.1 ${other},1.1 ${rules.via}, 1.1 cdn`];
  for (const remoteAddress of [STRANGER, PROXY, '']) {
    for (const via of loops) {
      t.throws(() => sent(['via', '1.1 x', 'via', via], { remoteAddress }), { code: 'HR_ROUTE_LOOP', status: 508 });
    }
  }
  const value = (via: string): string | undefined => {
    const list = sent(['via', via]);
    return list[list.indexOf('via') + 1];
  };
  // A loop over several gateways needs the names of all of them.
  t.equal(value(`1.1 cdn (x), 1.1 ${other}, 1.0 headrace-1`), `1.1 ${other}, 1.1 ${rules.via}`);
  t.equal(value('1.1 cdn'), `1.1 ${rules.via}`);
  t.ok(new HeadraceError('HR_ROUTE_LOOP').message.includes('passed this gateway before'));
});

t.test('lines that mean something in one dialect only are apart', (t) => {
  const headers = ['anthropic-version', 'v', 'x-own', '1', 'anthropic-beta', 'a,b', 'openai-beta', 'c'];
  const input = { headers, remoteAddress: STRANGER, requestId: 'id', credential: '', readable: true };
  const { common, dialect } = requestLines(rules, input);
  t.equal(dialect, 'anthropic-version: v\r\nanthropic-beta: a,b\r\nopenai-beta: c\r\n');
  t.match(common, /x-own: 1/);
  t.notMatch(common, /beta|anthropic/);
  t.end();
});

t.test('whole answers may be compressed, streams may not', async (t) => {
  const headers = ['accept-encoding', 'gzip, br'];
  t.same(sent(headers), ['accept-encoding', 'gzip, br', ...always]);
  t.same(sent(headers, { readable: true }), ['accept-encoding', 'identity', ...always]);
});

t.test(
  'kept lines serve the same headers again, with another id, until the rules or the readability change',
  async (t) => {
    const kept = new KeptLines();
    const input = { headers: ['x-a', '1'], remoteAddress: STRANGER, credential: 'c', readable: false, kept };
    const first = requestLines(rules, { ...input, requestId: 'one' });
    const second = requestLines(rules, { ...input, headers: ['not', 'read'], requestId: 'two' });
    t.equal(second.common, first.common.replace('x-request-id: one', 'x-request-id: two'));
    t.match(requestLines(rules, { ...input, requestId: 'id', readable: true }).common, /\r\nx-a: 1\r\n/);
    const readable = requestLines(rules, { ...input, headers: ['x-b', '2'], requestId: 'id', readable: true });
    t.match(readable.common, /\r\nx-a: 1\r\n/);
    const others = { ...rules, scheme: 'http' };
    t.match(
      requestLines(others, { ...input, headers: ['x-b', '2'], requestId: 'id' }).common,
      /x-b: 2.*proto: http\r/s,
    );
  },
);

t.test('the credential that was checked is passed on, and none beside it', async (t) => {
  const bearer = { authorization: undefined, apiKey: 'k', bearer: 'k' };
  t.equal(credentialLines(bearer), 'x-api-key: k\r\nauthorization: Bearer k\r\n');
  t.equal(credentialLines({ ...bearer, authorization: '' }), 'x-api-key: k\r\nauthorization: Bearer k\r\n');
  const authorized = { authorization: 'bearer a', apiKey: 'k', bearer: undefined };
  t.equal(credentialLines(authorized), 'authorization: bearer a\r\n');
  t.equal(credentialLines({ authorization: undefined, apiKey: undefined, bearer: undefined }), '');
  const lines = { common: 'a: b\r\n', dialect: 'c: d\r\n', credential: credentialLines(authorized), account: '' };
  t.equal(linesFor(lines, undefined), 'a: b\r\nc: d\r\nauthorization: bearer a\r\n');
  t.equal(linesFor(lines, 'own'), 'a: b\r\nc: d\r\nauthorization: Bearer own\r\n', "the gateway's own replaces it");
  const marked = (account: string, apiKey: string): string =>
    /^x-headrace-account: (\S{22})\r$/m.exec(linesFor({ ...lines, account }, apiKey))![1]!;
  t.equal(marked('a', 'own'), marked('a', 'own'), 'an account is told apart from others of the same credential');
  t.not(marked('a', 'own'), marked('b', 'own'));
  t.not(marked('a', 'own'), marked('a', 'other'), 'and by nobody without it');
  t.notMatch(linesFor({ ...lines, account: 'a' }, undefined), /x-headrace-account/);
});

t.test('answers keep repeated fields and lose hop-by-hop ones', async (t) => {
  const head = responseHead(200, [
    ...['set-cookie', 'a=1', 'set-cookie', 'b=2; Path=/', 'content-type', 'Text/Event-Stream; charset=UTF-8'],
    ...['connection', 'X-Hop, keep-alive', 'connection', 'X-Hop-2', 'connection', 'close', 'x-hop', '1'],
    ...['x-hop-2', '2', 'keep-alive', 'timeout=5', 'transfer-encoding', 'chunked', 'trailer', 'x', 'date', 'now'],
    ...['x-request-id', 'crn', 'access-control-allow-origin', 'https://crn', 'x-kept', 'caf\xe9'],
  ]);
  t.same(head.headers, [
    ...['set-cookie', 'a=1', 'set-cookie', 'b=2; Path=/', 'content-type', 'Text/Event-Stream; charset=UTF-8'],
    ...['x-kept', 'caf\xe9'],
  ]);
  t.match(head, { status: 200, contentLength: -1, contentType: 'text/event-stream; charset=utf-8', encoded: false });
});

t.test('answers lose what tells of the CRN, what leads to it, and an affinity cookie of its own', async (t) => {
  const { headers } = responseHead(200, [
    ...[
      'server',
      'uvicorn',
      'via',
      '1.1 inner',
      'alt-svc',
      'h3=":443"',
      'set-cookie',
      'preferred_instances={}; Path=/',
    ],
    ...[
      'set-cookie',
      ' preferred_instances =x',
      'set-cookie',
      'preferred_instances2=x',
      'set-cookie',
      'a=preferred_instances=1',
    ],
  ]);
  t.same(headers, ['set-cookie', 'preferred_instances2=x', 'set-cookie', 'a=preferred_instances=1']);
});

t.test('the length is kept apart, and so is whether the body is encoded', async (t) => {
  t.match(responseHead(200, ['content-length', '12', 'content-encoding', 'GZIP', 'connection', 'Close']), {
    headers: ['content-encoding', 'GZIP'],
    contentLength: 12,
    encoded: true,
  });
  t.match(responseHead(200, ['content-encoding', 'identity']), { encoded: false });
});

t.test('what a CRN says of its own rate limits is not passed on; when to come again is', async (t) => {
  const fields = [
    'x-ratelimit-remaining-requests',
    '5',
    'anthropic-ratelimit-tokens-reset',
    'soon',
    'retry-after',
    '7',
  ];
  t.same(responseHead(429, fields).headers, ['retry-after', '7']);
});

t.test('what a CRN that is a gateway says for itself is not passed on; why it refused is', async (t) => {
  const names = [
    ...['affinity', 'cost', 'output-limit', 'stored', 'translated'].map((name) => `x-headrace-${name}`),
    ...['payment-required', 'payment-response', 'x-payment-response'],
  ];
  const fields = [...names.flatMap((name) => [name, '1']), 'x-headrace-error', 'HR_ROUTE_UNKNOWN_MODEL'];
  t.same(responseHead(404, fields).headers, ['x-headrace-error', 'HR_ROUTE_UNKNOWN_MODEL']);
});
