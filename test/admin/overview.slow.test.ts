// The overview document and the admin actions, on the admin listener of a whole gateway.

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { Overview, CrnOverview } from '../../src/admin/overview.ts';
import type { Host } from '../../src/host/index.ts';
import { chat, KEY, MODEL, readStream, settingsFor, startHosts, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

const TOKEN = 'sesame';

interface Running {
  readonly url: string;
  readonly adminUrl: string;
  readonly hosts: readonly Host[];
  readonly reload: (settings: SettingsInput) => void;
  /** A document that is newer than all that has happened. */
  readonly overview: () => Promise<Overview>;
  readonly crn: (host: Host | undefined) => Promise<CrnOverview>;
  readonly act: (path: string, body: unknown, authorization?: string) => Promise<Response>;
}

async function start(t: Test, hostCount: number, settings: SettingsInput = {}): Promise<Running> {
  const hosts = await startHosts(
    t,
    Array.from({ length: hostCount }, () => ({})),
  );
  const all = (more: SettingsInput = {}): SettingsInput =>
    settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: TOKEN, ...settings, ...more });
  const gateway = createGateway(all());
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  const overview = (): Promise<Overview> => freshOverview(adminUrl ?? '');
  return {
    url,
    adminUrl: adminUrl ?? '',
    hosts,
    reload: (more) => void gateway.reload(all(more)),
    overview,
    crn: async (host) => (await overview()).crns.find((crn) => crn.url === host?.url) as CrnOverview,
    act: (path, body, authorization = `Bearer ${TOKEN}`) =>
      fetch(adminUrl + path, { method: 'POST', headers: { authorization }, body: JSON.stringify(body) }),
  };
}

async function readOverview(adminUrl: string): Promise<Overview> {
  return (await (await fetch(`${adminUrl}/overview`)).json()) as Overview;
}

/** Documents are kept for a moment: the next one is awaited. */
async function freshOverview(adminUrl: string): Promise<Overview> {
  const { dateMs } = await readOverview(adminUrl);
  let overview: Overview | null = null;
  await until('a new document', async () => (overview = await readOverview(adminUrl)).dateMs > dateMs);
  return overview as unknown as Overview;
}

t.test('the document shows CRNs, models, threads, streams and the last errors', async (t) => {
  const { url, overview, hosts } = await start(t, 2);
  await (await chat(url)).text();
  const leave = new AbortController();
  const headers = { 'x-headrace-fault': 'stall-after=3' };
  const stalled = await chat(url, { stream: true, headers, signal: leave.signal });
  await stalled.body?.getReader().read();
  const lost = await chat(url, { model: 'gone', headers: { 'x-request-id': 'lost-1' } });
  t.equal(lost.status, 404);
  const now = await overview();
  t.match(now, { stage: 'ready', version: /^\d+\.\d+/, orders: true, reloadable: false, streams: 1, ledger: null });
  t.ok(Math.abs(now.dateMs - Date.now()) < 60_000);
  t.same(
    now.crns.map(({ url: crn, models }) => [crn, models.map(({ model, standing }) => [model, standing])]),
    hosts.map((host) => [host.url, [[MODEL, 'up']]]),
  );
  t.equal(
    now.crns.reduce((sum, { attempts }) => sum + attempts, 0),
    1,
    'the stream is not over',
  );
  t.equal(
    now.crns.reduce((sum, { inFlight }) => sum + inFlight, 0),
    1,
  );
  const atlas = now.models.find(({ model }) => model === MODEL);
  t.match(atlas, { requests: 1, errors: 0 });
  const { recent } = now;
  t.ok(recent.seconds > 0 && recent.seconds < 60, String(recent.seconds));
  t.match(atlas?.recent, { seconds: recent.seconds, errorsPerS: 0, requestsPerS: 1 / recent.seconds });
  t.equal(recent.requestsPerS, 2 / recent.seconds, 'the lost one names no model');
  t.same(recent.latencyMs, atlas?.recent.latencyMs);
  t.ok((recent.latencyMs.p50 ?? 0) > 0 && (recent.firstByteMs.p99 ?? 0) > 0 && (recent.gapMs.p50 ?? 0) > 0);
  t.match(now.threads, [{ thread: 0, inFlight: 1 }]);
  t.ok((now.threads[0]?.heapBytes ?? 0) > 0);
  t.match(now.errors, [{ requestId: 'lost-1', status: 404, code: 'HR_ROUTE_UNKNOWN_MODEL', crn: '' }]);
  leave.abort();
});

t.test('a failover counts for the CRN that failed; an ejection shows its end', async (t) => {
  const settings = { ejection: { consecutive: 1, backoff: '60s', backoffMax: '60s' }, routing: { affinity: false } };
  const { url, crn, hosts } = await start(t, 2, settings);
  await hosts[0]?.setFault([{ fault: { status: 500 } }]);
  await until('a failover', async () => {
    t.equal((await chat(url)).status, 200);
    return (await crn(hosts[0])).failovers === 1;
  });
  const left = await crn(hosts[0]);
  t.match(left, { failures: 1, models: [{ standing: 'down' }] });
  t.ok((left.ejectedUntilMs ?? 0) > Date.now() + 30_000);
  t.match(await crn(hosts[1]), { failures: 0, failovers: 0, ejectedUntilMs: null });
});

t.test('an engine shows that it is suspended, until when and why', async (t) => {
  const engine = createServer((_req, res) => res.writeHead(402).end());
  await new Promise<void>((resolve) => engine.listen(0, '127.0.0.1', resolve));
  t.teardown(() => engine.close());
  const engineUrl = `http://127.0.0.1:${(engine.address() as AddressInfo).port}`;
  const { url, overview } = await start(t, 1, {
    search: { engines: { engine_a: { kind: 'searxng', url: engineUrl } } },
  });
  t.match((await overview()).engines, [{ engine: 'engine_a', standing: 'ready', suspendedUntilMs: 0, reason: '' }]);
  const search = (): Promise<Response> =>
    fetch(`${url}/search`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'water', engines: ['engine_a'] }),
    });
  await search();
  t.match((await overview()).engines, [{ reason: /\w/ }]);
  await search();
  const [shown] = (await overview()).engines;
  t.match(shown, { standing: 'suspended', answered: 0, failed: 1, reason: /^(?!suspended).+/ }, 'it was asked once');
  t.ok((shown?.suspendedUntilMs ?? 0) > Date.now());
});

t.test('what was spent today is the sum of the ledger', async (t) => {
  const { overview } = await start(t, 1, { store: 'sqlite::memory:' });
  await until('an open ledger', async () => (await overview()).ledger?.spentTodayUsd !== null);
  t.match((await overview()).ledger, { spentTodayUsd: '0', waiting: 0 });
});

t.test('concurrent readers share one document: threads are asked once', async (t) => {
  const { adminUrl } = await start(t, 1);
  const documents = await Promise.all(Array.from({ length: 8 }, () => readOverview(adminUrl)));
  t.equal(new Set(documents.map(({ dateMs }) => dateMs)).size, 1);
});

t.test(
  'a drained CRN finishes what it has and gets nothing more, through a reload, until it is returned',
  async (t) => {
    const { url, hosts, crn, act, reload } = await start(t, 2);
    const [first, second] = hosts as [Host, Host];
    const streams = await Promise.all(
      Array.from({ length: 8 }, (_, at) => chat(url, { stream: true, tokens: 200, text: `${at}` })),
    );
    const answer = await act('/crns/drain', { url: first.url });
    t.same([answer.status, await answer.json()], [200, { crn: first.url, action: 'drain' }]);
    t.match(await crn(first), { models: [{ standing: 'drained' }] });
    for (const stream of streams) t.ok((await readStream(stream)).complete);
    await until('all are over', async () => (await crn(first)).inFlight === 0);
    const before = (await crn(first)).attempts;
    reload({ health: { interval: '40ms', timeout: '1s' } });
    const headers = { cookie: `preferred_instances=${encodeURIComponent(JSON.stringify({ [MODEL]: first.url }))}` };
    for (let at = 0; at < 10; at++) {
      const moved = await chat(url, { text: `${at}`, headers });
      t.match(decodeURIComponent(moved.headers.get('set-cookie') ?? ''), second.url, 'the cookie yields');
      await moved.text();
    }
    const drained = await crn(first);
    t.equal(drained.attempts, before);
    t.match(drained, { models: [{ standing: 'drained' }] });
    t.equal((await act('/crns/drain', { url: `${second.url}/` })).status, 200);
    t.equal((await chat(url)).status, 503, 'nobody is left, and nobody is tried');
    t.equal((await act('/crns/return', { url: first.url })).status, 200);
    t.match(await crn(first), { models: [{ standing: 'up' }] });
    t.equal((await chat(url)).status, 200);
  },
);

t.test('the action eject takes a CRN out for a time', async (t) => {
  const { hosts, crn, act } = await start(t, 1);
  t.equal((await act('/crns/eject', { url: hosts[0]?.url, for: '5m' })).status, 200);
  const out = await crn(hosts[0]);
  t.match(out, { models: [{ standing: 'down' }] });
  const leftMs = (out.ejectedUntilMs ?? 0) - Date.now();
  t.ok(leftMs > 200_000 && leftMs <= 300_000, String(leftMs));
  t.equal((await act('/crns/return', { url: hosts[0]?.url })).status, 200);
  t.match(await crn(hosts[0]), { ejectedUntilMs: null, models: [{ standing: 'up' }] });
});

t.test('the former path of the document answers too, marked as deprecated', async (t) => {
  const { adminUrl } = await start(t, 1);
  const [former, present] = [await fetch(`${adminUrl}/house`), await fetch(`${adminUrl}/overview`)];
  t.equal(former.status, 200);
  t.equal(former.headers.get('deprecation'), '@1795305600');
  t.equal(former.headers.get('link'), '</overview>; rel="successor-version"');
  t.same(Object.keys((await former.json()) as object), Object.keys((await present.json()) as object));
  t.equal(present.headers.get('deprecation'), null);
  t.equal(present.headers.get('link'), null);
});

t.test('invalid actions are refused with a message', async (t) => {
  const { hosts, act, adminUrl } = await start(t, 1);
  const url = hosts[0]?.url;
  for (const [path, body, status, sentence] of [
    ['/crns/drain', { url: 'http://nowhere' }, 404, /there is no CRN http:\/\/nowhere/],
    ['/crns/drain', {}, 422, /url: .* missing/],
    ['/crns/drain', null, 422, /url: .* missing/],
    ['/crns/drain', { url, for: '5m' }, 422, /for: belongs to an ejection/],
    ['/crns/drain', { url, now: true }, 422, /now: there is no such field/],
    ['/crns/eject', { url, for: 'soon' }, 422, /for: a duration/],
    ['/crns/eject', { url, for: '25h' }, 422, /for: a duration/],
    ['/crns/return', { url: 'x'.repeat(5000) }, 413, /at most 4096 bytes/],
    ['/reload', {}, 409, /no configuration file/],
  ] as const) {
    const answer = await act(path, body);
    t.equal(answer.status, status, `${path} ${JSON.stringify(body).slice(0, 40)}`);
    t.match(((await answer.json()) as { detail: string }).detail, sentence);
  }
  const garbled = await fetch(`${adminUrl}/crns/drain`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}` },
    body: '{',
  });
  t.equal(garbled.status, 422);
  for (const [path, method, allow] of [
    ['/crns/drain', 'GET', 'POST'],
    ['/reload', 'GET', 'POST'],
    ['/overview', 'POST', 'GET, HEAD'],
    ['/house', 'POST', 'GET, HEAD'],
    ['/', 'DELETE', 'GET, HEAD'],
  ] as const) {
    const answer = await fetch(adminUrl + path, { method });
    t.same([answer.status, answer.headers.get('allow')], [405, allow], `${method} ${path}`);
  }
});

t.test('actions need the admin token; without one in the settings they are disabled', async (t) => {
  const { hosts, act, crn, reload } = await start(t, 1);
  const body = { url: hosts[0]?.url };
  for (const authorization of ['', 'Bearer', 'Bearer sesam', 'Basic sesame']) {
    const answer = await act('/crns/drain', body, authorization);
    t.same([answer.status, answer.headers.get('www-authenticate')], [401, 'Bearer'], authorization);
  }
  reload({ adminToken: null });
  for (const path of ['/crns/drain', '/crns/eject', '/crns/return', '/reload']) {
    const answer = await act(path, body);
    t.equal(answer.status, 403, path);
    t.match(await answer.json(), { detail: /adminToken is not set/ });
  }
  t.match(await crn(hosts[0]), { models: [{ standing: 'up' }] });
});

t.test('every thread is in the document, and the action reload reads the file again', async (t) => {
  const hosts = await startHosts(t);
  const { adminUrl, url, rewrite } = await startServe(t, hosts, { threads: 2, adminToken: TOKEN });
  await (await chat(url)).text();
  await chat(url, { model: 'gone' });
  const overview = await freshOverview(adminUrl);
  t.same(
    overview.threads.map(({ thread }) => thread),
    [0, 1, 2],
  );
  t.equal(overview.reloadable, true);
  t.equal(overview.models.find(({ model }) => model === MODEL)?.requests, 1);
  t.match(overview.errors, [{ code: 'HR_ROUTE_UNKNOWN_MODEL' }]);
  const act = (): Promise<Response> =>
    fetch(`${adminUrl}/reload`, { method: 'POST', headers: { authorization: `Bearer ${TOKEN}` } });
  t.same(await (await act()).json(), { applied: [], needRestart: [] });
  rewrite('{"nothing": 1}');
  const wrong = await act();
  t.equal(wrong.status, 422);
  t.match(await wrong.json(), { detail: /nothing/, mistakes: [{ path: 'nothing' }] });
});
