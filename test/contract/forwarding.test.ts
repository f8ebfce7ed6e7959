// What a proxied request looks like when it reaches a CRN: its path, its headers and its credential, over all four server adapters.

import t, { type Test } from 'tap';
import { type Opened, CHAT, GOOD, KEY, MODEL, open, SERVER_ADAPTERS, SOCKETS } from '../support/server-adapter.ts';
import type { ServerAdapterName } from '../support/server-adapter.ts';
import { loadable } from '../support/uws.ts';
import { freePort } from '../support/free-port.ts';
import { head } from '../support/server-adapter-wire.ts';
import { answer, type RawCrn, rawCrn } from '../support/upstream-crn.ts';
import type { SettingsInput } from '../../src/config/settings.ts';

/** The credentials in a head. */
function credentials(text: string): string[] {
  return [...text.matchAll(/^(?:authorization|x-api-key): .*(?=\r$)/gm)].map(([line]) => line);
}

const PATH = '/v1/chat/completions';

/** A CRN that answers everything, and a gateway with a credential for it; the CRN's base URL has a path. */
async function start(
  t: Test,
  adapter: ServerAdapterName,
  settings: SettingsInput = {},
  apiKey: string | null = 'gateway-secret',
): Promise<Opened & { readonly crn: RawCrn; readonly posts: () => string[] }> {
  const crn = await rawCrn(t, ({ socket }) => {
    socket.write(answer('200 OK', '{"choices":[{"finish_reason":"stop"}]}', 'content-type: application/json'));
  });
  const models: SettingsInput['models'] = {
    [MODEL]: { servers: [`${crn.url}/tenant-a/vllm`], ...(apiKey !== null && { apiKey }) },
  };
  const opened = await open(t, adapter, { models, ...settings });
  const posts = (): string[] => crn.requests.map(({ head }) => head).filter((head) => head.startsWith('POST '));
  return { ...opened, crn, posts };
}

for (const adapter of SERVER_ADAPTERS) {
  t.test(`${adapter}: a path that may lead out of the base URL is 400 and reaches no CRN`, async (t) => {
    const { ask, posts } = await start(t, adapter);
    const paths = [
      ...['/../../secret', '/v1/../../secret', '/%2e%2e/%2E%2E/secret', '/.%2e/secret', '/..%2fsecret', '/..;/secret'],
      ...['/v1/./x', '//secret', '/v1//x', '/..\\secret', '/%5c..%5csecret', '/v1/%00', '/v1/%0d%0ax', '/v1/%zz'],
    ];
    for (const path of paths) {
      const refused = await ask({ path, headers: GOOD, body: CHAT });
      t.match(refused, { status: 400, headers: { 'x-headrace-error': 'HR_REQUEST_MALFORMED' } }, path);
      t.match(refused.json(), { detail: /^Malformed request: the path has an? / }, path);
    }
    t.same(posts(), []);
    // Other characters stay as they were sent.
    const target = '/v1/a%2Fb/..c/%C3%A9/x;y=1/?q=../..//%2e%2e\\&r=%20%zz';
    t.equal((await ask({ path: target, headers: GOOD, body: CHAT })).status, 200);
    t.match(posts(), [
      /^POST \/tenant-a\/vllm\/v1\/a%2Fb\/\.\.c\/%C3%A9\/x;y=1\/\?q=\.\.\/\.\.\/\/%2e%2e\\&r=%20%zz HTTP\/1\.1\r\n/,
    ]);
  });
}

for (const adapter of SERVER_ADAPTERS) {
  t.test(
    `${adapter}: a CRN gets the headers of the client, and of proxies and credentials what the gateway says`,
    async (t) => {
      const { ask, posts } = await start(t, adapter);
      const headers = {
        ...GOOD,
        'x-api-key': 'other',
        cookie: 'preferred_instances={}; session=1',
        'x-payment': 'p',
        forwarded: 'for=203.0.113.9',
        via: '1.1 cdn',
        'x-forwarded-for': '203.0.113.9',
        'x-forwarded-proto': 'gopher',
        'x-real-ip': '203.0.113.9',
        'x-request-id': 'mine',
        'x-title': 'kept',
        host: 'api.example:81',
      };
      await ask({ path: PATH, headers, body: CHAT, remoteAddress: '::ffff:127.0.0.1' });
      const [head = ''] = posts();
      t.match(head, /^x-forwarded-for: 127\.0\.0\.1\r?$/m);
      t.match(head, /^x-forwarded-proto: http\r?$/m);
      t.match(head, /^x-forwarded-host: api\.example:81\r?$/m);
      t.match(head, /^via: 1\.1 headrace-[\da-f]{16}\r?$/m);
      t.match(head, /^x-request-id: mine\r?$/m);
      t.match(head, /^x-title: kept\r?$/m);
      t.match(head, /^authorization: Bearer gateway-secret\r?$/m);
      t.notMatch(head, /203\.0\.113\.9|^(?:cookie|x-payment|forwarded|x-real-ip|x-api-key):|hr_contract|cdn|gopher/m);
    },
  );

  t.test(`${adapter}: a trusted proxy is believed`, async (t) => {
    const { ask, posts } = await start(t, adapter, { trustedProxies: ['127.0.0.0/8'] });
    const headers = { ...GOOD, via: '1.1 cdn', 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' };
    await ask({ path: PATH, headers, body: CHAT, remoteAddress: '127.0.0.1' });
    const [head = ''] = posts();
    t.match(head, /^x-forwarded-for: 203\.0\.113\.9, 127\.0\.0\.1\r?$/m);
    t.match(head, /^x-forwarded-proto: https\r?$/m);
    t.match(head, /^via: 1\.1 cdn, 1\.1 headrace-[\da-f]{16}\r?$/m);
  });

  t.test(`${adapter}: of two credentials the one that was checked is passed on`, async (t) => {
    const { ask, posts } = await start(t, adapter, {}, null);
    await ask({ path: PATH, headers: { ...GOOD, 'x-api-key': 'other' }, body: CHAT });
    await ask({ path: PATH, headers: { 'x-api-key': KEY }, body: CHAT });
    t.same(posts().map(credentials), [
      [`authorization: Bearer ${KEY}`],
      [`x-api-key: ${KEY}`, `authorization: Bearer ${KEY}`],
    ]);
  });

  t.test(`${adapter}: a CRN does not speak for the gateway`, async (t) => {
    const crn = await rawCrn(t, ({ socket }) => {
      const fields = [
        'set-cookie: preferred_instances={}; Path=/',
        'set-cookie: own=1',
        'server: uvicorn',
        'via: 1.1 inner',
      ];
      socket.write(answer('200 OK', '{"choices":[]}', 'content-type: application/json', 'alt-svc: h3=":1"', ...fields));
    });
    const { ask } = await open(t, adapter, {
      models: { [MODEL]: { servers: [crn.url] } },
      routing: { affinity: false },
    });
    const { headers } = await ask({ path: PATH, headers: GOOD, body: CHAT });
    t.equal(headers['set-cookie'], 'own=1');
    for (const name of ['server', 'via', 'alt-svc']) t.notOk(name in headers, name);
  });
}

for (const adapter of SOCKETS) {
  t.test(`${adapter}: of two Authorization headers the first is checked and passed on; other bytes stay`, async (t) => {
    const { dial, posts } = await start(t, adapter, {}, null);
    const body = JSON.stringify(CHAT);
    const fields = [
      'host: x',
      `authorization: Bearer ${KEY}`,
      'authorization: Bearer smuggled',
      'x-title: caf\xc3\xa9 au lait',
    ];
    const wire = dial();
    const text = head('POST', PATH, [...fields, 'content-type: application/json', `content-length: ${body.length}`]);
    await wire.send(Buffer.from(text + body, 'latin1'));
    t.equal((await wire.answer()).status, 200);
    const [sent = ''] = posts();
    t.same(credentials(sent), [`authorization: Bearer ${KEY}`]);
    t.match(sent, 'x-title: caf\xc3\xa9 au lait\r\n');
  });
}

// uWebSockets.js decodes paths as UTF-8.
for (const adapter of ['node', 'inject'] as const) {
  t.test(`${adapter}: bytes of a path that are no UTF-8 stay`, async (t) => {
    const { ask, posts } = await start(t, adapter);
    const path = '/v1/caf\xe9/\xff?q=\xc3\x28';
    t.equal((await ask({ path, headers: GOOD, body: CHAT })).status, 200);
    t.match(posts()[0], `POST /tenant-a/vllm${path} HTTP/1.1\r\n`);
  });
}

for (const adapter of loadable(['uws', 'node'] as const)) {
  t.test(`${adapter}: a request that comes back is 508, and a loop ends`, async (t) => {
    const { ask, posts } = await start(t, adapter);
    await ask({ path: PATH, headers: GOOD, body: CHAT });
    const via =
      posts()[0]
        ?.match(/^via: (.*)$/m)?.[1]
        ?.trim() ?? '';
    const refused = await ask({ path: PATH, headers: { ...GOOD, via: `1.1 proxy, ${via}` }, body: CHAT });
    t.match(refused, { status: 508, headers: { 'x-headrace-error': 'HR_ROUTE_LOOP' } });
    t.equal(posts().length, 1);

    // Two gateways, each of which is the only CRN of the other.
    const ports = await Promise.all([freePort(), freePort()]);
    const [one, two] = await Promise.all(
      ports.map((port, index) => {
        const models = { [MODEL]: { servers: [`http://127.0.0.1:${ports[1 - index]}`] } };
        return open(t, adapter, { listen: `127.0.0.1:${port}`, models });
      }),
    );
    for (const { ask } of [one!, two!]) {
      const failed = await ask({ path: PATH, headers: GOOD, body: CHAT });
      t.match(failed, { status: 503, headers: { 'x-headrace-error': 'HR_ROUTE_ALL_FAILED' } });
    }
  });
}

t.test('inject refuses what no header or path may hold', async (t) => {
  const { ask, posts } = await start(t, 'inject');
  const rows: [Record<string, string>, string][] = [
    [{ 'x-title': '日本' }, PATH],
    [{ 'x-title': 'a\r\nx-real-ip: 1' }, PATH],
    [{ 'x-title': 'a\0' }, PATH],
    [{ 'x title': 'a' }, PATH],
    [{ '': 'a' }, PATH],
    [{}, `${PATH}?q=\r\nx-real-ip: 1`],
    [{}, `${PATH}?q=日本`],
    [{}, '/v1/日本'],
  ];
  for (const [headers, path] of rows) {
    const refused = await ask({ path, headers: { ...GOOD, ...headers }, body: CHAT });
    t.match(
      refused,
      { status: 400, headers: { 'x-headrace-error': 'HR_REQUEST_MALFORMED' } },
      JSON.stringify([headers, path]),
    );
  }
  t.same(posts(), []);
});
