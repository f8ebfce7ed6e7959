// The admin listener of an embedded gateway.

import t, { type Test } from 'tap';
import { hashKey } from '../../src/billing/index.ts';
import { readTrustedKeys, verifySnapshot } from '../../src/billing/main-thread.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { openAdmin } from '../../src/admin/admin.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { Host } from '../../src/host/index.ts';
import type { MetricsSnapshot } from '../../src/telemetry/metrics.ts';
import { KEY, MODEL, settingsFor, startHosts, until } from '../support/system.ts';

async function startAdmin(
  t: Test,
  settings: SettingsInput = {},
): Promise<{ adminUrl: string; host: Host; close: () => Promise<void> }> {
  const hosts = await startHosts(t);
  const gateway = createGateway(settingsFor(hosts, { admin: '127.0.0.1:0', ...settings }));
  t.teardown(() => gateway.close());
  const { adminUrl } = await gateway.listen();
  await gateway.ready();
  return { adminUrl: adminUrl ?? '', host: hosts[0] as Host, close: () => gateway.close() };
}

t.test('shows stage and CRNs', async (t) => {
  const { adminUrl, host } = await startAdmin(t);
  const answer = await fetch(`${adminUrl}/status`);
  t.equal(answer.headers.get('content-type'), 'application/json');
  t.match(await answer.json(), {
    stage: 'ready',
    crns: [
      { model: MODEL, url: host.url, standing: 'up', inFlight: 0, firstByteMs: Number, dialects: null, lacks: [] },
    ],
  });
});

t.test('answers GET on its three paths and nothing else', async (t) => {
  const { adminUrl } = await startAdmin(t);
  for (const path of ['/health', '/status', '/metrics', '/health?x=1']) {
    t.equal((await fetch(adminUrl + path)).status, 200, path);
  }
  t.equal((await fetch(`${adminUrl}/v1/models`)).status, 404);
  const refused = await fetch(`${adminUrl}/status`, { method: 'POST' });
  t.same([refused.status, refused.headers.get('allow')], [405, 'GET, HEAD']);
});

t.test('of many readers of metrics that do not end, the oldest is cut off for a further one', async (t) => {
  const held = Promise.withResolvers<MetricsSnapshot[]>();
  let asked = 0;
  const metrics = (): Promise<MetricsSnapshot[]> => {
    asked++;
    return held.promise;
  };
  const admin = await openAdmin({ host: '127.0.0.1', port: 0 }, { status: () => ({}), metrics });
  t.teardown(() => admin.close());
  const answers: Promise<number>[] = [];
  for (let at = 0; at < 18; at++) {
    const answer = fetch(`http://127.0.0.1:${admin.address.port}/metrics`).then(({ status }) => status);
    answer.catch(() => undefined);
    answers.push(answer);
    await until('the question', () => asked > at);
  }
  for (const oldest of answers.splice(0, 2)) await t.rejects(oldest);
  held.resolve([]);
  t.same(await Promise.all(answers), new Array<number>(16).fill(200));
});

t.test('a question mark in a query belongs to it', async (t) => {
  const { adminUrl } = await startAdmin(t);
  const { status } = await fetch(`${adminUrl}/history?range=1h?`);
  t.equal(status, 422, 'the range is 1h?, which there is not');
});

t.test('is gone once the gateway is closed', async (t) => {
  const { adminUrl, close } = await startAdmin(t);
  await close();
  await t.rejects(fetch(adminUrl));
});

/** Asks the admin listener; the token is that of `HOSTS` unless said otherwise. */
function ask(url: string, method: string, body?: unknown, authorization = 'Bearer sesame'): Promise<Response> {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return fetch(url, { method, headers: { authorization }, ...(body === undefined ? {} : { body: text }) });
}

const HOSTS = { trust: { token: 'sesame', maxHosts: 1, ttl: '20s' } };

t.test('without a token in the settings hosts are refused with the reason', async (t) => {
  const { adminUrl } = await startAdmin(t);
  for (const [method, path] of HOST_PATHS) {
    const answer = await ask(adminUrl + path, method, method === 'POST' ? {} : undefined);
    t.equal(answer.status, 403, path);
    t.match(await answer.json(), { detail: /trust\.token is not set/ });
  }
  t.match(await (await fetch(`${adminUrl}/status`)).json(), { hosts: { publicKey: null, keys: [], registered: [] } });
});

const HOST_PATHS = [
  ['GET', '/keys/snapshot'],
  ['POST', '/hosts'],
  ['DELETE', '/hosts/one'],
] as const;

t.test('serves only hosts with the token', async (t) => {
  const { adminUrl } = await startAdmin(t, HOSTS);
  for (const [method, path] of HOST_PATHS) {
    for (const authorization of ['', 'Bearer', 'Bearer sesam', 'Bearer sesame2', 'Basic sesame', 'sesame']) {
      const answer = await ask(adminUrl + path, method, method === 'POST' ? {} : undefined, authorization);
      t.equal(answer.status, 401, `${method} ${path} ${authorization}`);
      t.equal(answer.headers.get('www-authenticate'), 'Bearer');
    }
    const wrong = await ask(adminUrl + path, 'PUT');
    t.equal(wrong.status, 405);
    t.equal(wrong.headers.get('allow'), method);
  }
});

t.test('gives a snapshot that its public key verifies', async (t) => {
  const { adminUrl } = await startAdmin(t, HOSTS);
  const { hosts } = (await (await fetch(`${adminUrl}/status`)).json()) as { hosts: { publicKey: string } };
  const answer = await ask(`${adminUrl}/keys/snapshot`, 'GET');
  t.equal(answer.headers.get('content-type'), 'application/vnd.headrace.keys');
  const trusted = readTrustedKeys(hosts.publicKey);
  const { keys } = verifySnapshot(new Uint8Array(await answer.arrayBuffer()), { trusted, nowMs: Date.now(), held: 0 });
  t.same(keys, [{ hash: hashKey(KEY), account: 'tests' }]);
});

t.test('takes announcements within their limits', async (t) => {
  const { adminUrl, host } = await startAdmin(t, HOSTS);
  const url = `${adminUrl}/hosts`;
  const good = { name: 'one', url: host.url, models: [MODEL], load: 3 };
  const first = await ask(url, 'POST', good);
  t.equal(first.status, 201);
  t.same(await first.json(), { status: 'new', ttl_ms: 20_000 });
  t.equal((await ask(url, 'POST', good)).status, 200);
  for (const [body, status] of [
    [{ ...good, name: 'two' }, 409],
    [{ ...good, url: 'http://127.0.0.1:9' }, 409],
    [{ ...good, name: 'two', url: 'http://127.0.0.1:9' }, 429],
    [{ ...good, models: [] }, 422],
    ['{', 422],
    ['', 422],
    [`"${'x'.repeat(70_000)}"`, 413],
  ] as const) {
    const answer = await ask(url, 'POST', body);
    t.equal(answer.status, status);
    t.type(((await answer.json()) as { detail: unknown }).detail, 'string');
    if (status === 409 || status === 429) t.equal(answer.headers.get('retry-after'), '20');
  }
  t.match(await (await fetch(`${adminUrl}/status`)).json(), { hosts: { registered: [{ ...good, silentMs: Number }] } });
  t.equal((await ask(`${url}/one?url=http://elsewhere`, 'DELETE')).status, 404);
  t.equal((await ask(`${url}/one?url=${encodeURIComponent(host.url)}`, 'DELETE')).status, 200);
  t.equal((await ask(`${url}/one`, 'DELETE')).status, 404);
});

t.test('a body without a length is bounded too', async (t) => {
  const { adminUrl } = await startAdmin(t, HOSTS);
  const body = new Blob(['x'.repeat(70_000)]).stream();
  const init: RequestInit & { duplex: 'half' } = {
    method: 'POST',
    body,
    duplex: 'half',
    headers: { authorization: 'Bearer sesame' },
  };
  const status = await fetch(`${adminUrl}/hosts`, init).then((answer) => answer.status);
  t.equal(status, 413);
});

t.test('the former address of the dashboard serves the page of the root', async (t) => {
  const { adminUrl } = await startAdmin(t);
  const pages = await Promise.all(['/', '/dashboard'].map((path) => fetch(adminUrl + path)));
  t.same(
    pages.map(({ headers, redirected, status }) => [status, redirected, headers.get('content-type')]),
    pages.map(() => [200, false, 'text/html; charset=utf-8']),
  );
  t.equal(await pages[1]?.text(), await pages[0]?.text());
});
