// What web pages of others may not do on the admin listener, on every path of it, and who is not hindered.

import { request } from 'node:http';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { PageGuard } from '../../src/admin/page-guard.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { settingsFor, startHosts } from '../support/system.ts';

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** `fetch` sets Host, Origin and Sec-Fetch-Site itself. */
function send(url: string, method: string, headers: Record<string, string>, body = ''): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const req = request(url, { method, headers, agent: false }, (res) => {
      let text = '';
      res.on('data', (piece: Buffer) => (text += piece.toString()));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, text }));
    });
    req.on('error', reject);
    req.end(body);
  });
}

async function startAdmin(t: Test, settings: SettingsInput = {}): Promise<string> {
  const gateway = createGateway(settingsFor(await startHosts(t), { admin: '127.0.0.1:0', ...settings }));
  t.teardown(() => gateway.close());
  return (await gateway.listen()).adminUrl ?? '';
}

/** One of each group of paths; the first ones are open where no token is set. */
const PATHS = [
  ...['GET /', 'GET /app.js', 'GET /overview', 'GET /status', 'GET /metrics', 'GET /health', 'GET /history'],
  ...['GET /requests/live', 'GET /requests/log', 'GET /requests/log/x', 'GET /configuration', 'GET /whoami'],
  ...[
    'GET /accounts',
    'GET /keys',
    'GET /requests',
    'GET /keys/snapshot',
    'POST /hosts',
    'POST /explain',
    'POST /reload',
  ],
  ...[
    'POST /crns/drain',
    'POST /accounts',
    'POST /playground/v1/chat/completions',
    'POST /playground/search',
    'GET /none',
  ],
].map((each) => each.split(' ') as [method: string, path: string]);

const REFUSED_HOST = /"the name in Host is not known here/;
const REFUSED_ORIGIN = /"pages of another origin may not use the admin interface/;

t.test('a name that anybody could point at this address is refused on every path', async (t) => {
  const url = await startAdmin(t);
  const { port } = new URL(url);
  for (const [method, path] of PATHS) {
    const { status, text } = await send(url + path, method, { host: `rebound.example:${port}` });
    t.equal(status, 403, path);
    t.match(text, REFUSED_HOST, path);
    const own = await send(url + path, method, { host: `localhost:${port}` });
    t.notMatch(own.text, REFUSED_HOST, `${path} by localhost`);
  }
});

t.test('a page of another origin is refused on every path, whatever it sends', async (t) => {
  const url = await startAdmin(t);
  const { host, port } = new URL(url);
  for (const [method, path] of PATHS) {
    const body = method === 'POST' ? '{}' : '';
    for (const headers of [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: `http://localhost:${port}` },
      { origin: 'http://127.0.0.1:3000' },
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors' },
      { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' },
    ]) {
      const { status, text } = await send(url + path, method, { host, 'content-type': 'text/plain', ...headers }, body);
      t.equal(status, 403, `${path} ${JSON.stringify(headers)}`);
      t.match(text, REFUSED_ORIGIN);
    }
    const own = { host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' };
    t.notMatch((await send(url + path, method, own, body)).text, REFUSED_ORIGIN, `${path} by the dashboard`);
  }
  const link = { host, 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
  t.notMatch((await send(`${url}/`, 'GET', link)).text, REFUSED_ORIGIN, 'a link to the dashboard');
  t.equal((await send(`${url}/reload`, 'POST', { ...link, origin: 'https://evil.example' })).status, 403, 'a form');
});

t.test('a valid token is exempt, and names of the setting are known at once', async (t) => {
  const hosts = await startHosts(t);
  const settings = (more: SettingsInput = {}): SettingsInput =>
    settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: 'sesame', trust: { token: 'hosts' }, ...more });
  const gateway = createGateway(settings());
  t.teardown(() => gateway.close());
  const url = (await gateway.listen()).adminUrl ?? '';
  const ask = async (path: string, headers: Record<string, string>): Promise<number> =>
    (await send(url + path, 'GET', headers)).status;
  const outside = { host: 'gateway.example', origin: 'https://gateway.example' };
  t.equal(await ask('/overview', outside), 403);
  t.equal(await ask('/overview', { ...outside, authorization: 'Bearer wrong' }), 403);
  t.equal(await ask('/overview', { ...outside, authorization: 'Bearer sesame' }), 200);
  t.equal(
    await ask('/keys/snapshot', { ...outside, authorization: 'Bearer hosts' }),
    200,
    'a host that knows the gateway by name',
  );
  gateway.reload(settings({ adminHosts: ['Gateway.example'] }));
  t.equal(await ask('/overview', outside), 200);
  t.equal(
    await ask('/overview', { host: new URL(url).host, origin: 'https://gateway.example' }),
    200,
    'a proxy replaced Host',
  );
  t.equal(await ask('/overview', { ...outside, origin: 'https://other.example' }), 403);
});

t.test('names that are known', async (t) => {
  const refusal = (host: string | undefined, path: string, listenHost: string, hosts: string[] = []): boolean => {
    const guard = new PageGuard({ listenHost, hosts: () => hosts, isTrusted: () => false });
    return guard.refusal({ method: 'GET', headers: { host } } as never, path) !== null;
  };
  const known = [
    ...[
      '127.0.0.1',
      '127.0.0.1:9090',
      '[::1]:9090',
      '[::1]',
      '192.0.2.7:9090',
      '[2001:db8::1]',
      'localhost',
      'LOCALHOST:1',
    ],
    ...[
      'localhost.',
      'app.localhost',
      'headrace',
      'headrace:9090',
      'headrace.default.svc',
      'a.default.svc.cluster.local:9090',
    ],
    ...['gw.internal', 'gw.lan', 'gw.home.arpa', undefined],
  ];
  for (const host of known) t.notOk(refusal(host, '/overview', '127.0.0.1'), String(host));
  for (const host of [
    'rebound.example',
    'localhost.example',
    '127.0.0.1.nip.example',
    'a.svc.example',
    '',
    ':9090',
    '[::1',
    'a b',
    'x@127.0.0.1',
  ])
    t.ok(refusal(host, '/overview', '127.0.0.1'), host);
  t.notOk(refusal('gw.example:1', '/overview', 'gw.example'), 'the host that it listens on');
  t.notOk(refusal('gw.example', '/overview', '127.0.0.1', ['gw.example']));
  t.notOk(refusal('any.example', '/overview', '127.0.0.1', ['*']));
  for (const path of ['/metrics', '/health']) {
    t.notOk(refusal('scraped.example', path, '0.0.0.0'), `${path} of a listener for other machines has any name`);
    t.ok(refusal('scraped.example', path, '127.0.0.1'), path);
  }
  t.ok(refusal('scraped.example', '/overview', '0.0.0.0'));
});
