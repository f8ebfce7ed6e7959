// Distribution of keys to hosts and registration of hosts, on real sockets: the same keys work on the gateway and its hosts, and hosts
// join and leave by themselves. The hosts are small servers made of the parts of the model host.
import { mkdirSync } from 'node:fs';
import { type IncomingMessage, type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { systemClock } from '../../src/actor/index.ts';
import { hashKey, presentedKey } from '../../src/billing/index.ts';
import { createSigningKey, readTrustedKeys, signSnapshot } from '../../src/billing/main-thread.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { type Gateway, createGateway } from '../../src/gateway/gateway.ts';
import { HostTrust, MAX_PUSH_BYTES } from '../../src/host/host-trust.ts';
import { Registration } from '../../src/host/registration.ts';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import { freePort } from '../support/free-port.ts';
import { startServe } from '../support/system-cli.ts';
import { KEY, MODEL, settingsFor, until } from '../support/system.ts';
import t, { type Test } from 'tap';
import { temporaryFolder } from '../support/temporary-folder.ts';

const SIGNING = createSigningKey();
const SEED = SIGNING.privateKey.export({ format: 'jwk' }).d ?? '';
const TOKEN = 'sesame';
const SECOND = 'hr_second';

/** How long a revocation may take, in milliseconds. */
const REVOKED_MS = 2000;

interface SmallHost {
  readonly url: string;
  readonly trust: HostTrust;
  readonly registration: Registration;
  /** Stops serving, keeps its port. */
  readonly stop: () => Promise<void>;
  readonly start: () => Promise<void>;
}

interface HostOptions {
  readonly gateway?: string | null;
  readonly publicKey?: string;
  readonly intervalMs?: number;
  readonly name?: string;
}

async function startHost(t: Test, options: HostOptions = {}): Promise<SmallHost> {
  const { gateway = null, publicKey = SIGNING.publicKey, intervalMs = 30_000, name = 'small' } = options;
  const client = new BufferedClient(4);
  const deps = {
    clock: systemClock,
    random: () => 0.5,
    wallMs: () => systemClock.now(),
    store: null,
    log: { info: () => {}, warn: () => {} } as never,
    load: () => 0,
    send: (request: Parameters<BufferedClient['send']>[0], timeoutMs: number, maxBytes: number) =>
      client.send(request, AbortSignal.timeout(timeoutMs), maxBytes),
  };
  const trust = new HostTrust(
    { trusted: readTrustedKeys(publicKey), gateway, token: TOKEN, intervalMs, own: [] },
    deps,
  );
  const server = createServer((req, res) => {
    void respond(req, trust).then(([status, body]) => {
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    });
  });
  const port = await freePort();
  await listen(server, port);
  const url = `http://127.0.0.1:${port}`;
  const registration = new Registration(
    { gateway: gateway ?? 'http://127.0.0.1:9', token: TOKEN, name, url, models: [MODEL] },
    deps,
  );
  const stop = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  };
  t.teardown(async () => {
    await registration.leave();
    await trust.close();
    client.close();
    await stop();
  });
  return { url, trust, registration, stop, start: () => listen(server, port) };
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
}

/** What the server of a host does with its parts. */
async function respond(req: IncomingMessage, trust: HostTrust): Promise<[number, object]> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of req as AsyncIterable<Buffer>) {
    length += piece.length;
    if (length <= MAX_PUSH_BYTES + 1) pieces.push(piece);
  }
  if (req.url === '/svc/keys') {
    const { status, body } = trust.answer(req.method ?? 'GET', Buffer.concat(pieces));
    return [status, body];
  }
  if (req.url === '/health') return [trust.ready ? 200 : 503, { keys: trust.health() }];
  const { key } = presentedKey(req.headers.authorization, undefined);
  if (trust.check(key).kind !== 'good') return [401, { detail: 'invalid key' }];
  return [200, { model: MODEL, choices: [] }];
}

function settings(hosts: readonly SmallHost[], keys: readonly string[], extra: SettingsInput = {}): SettingsInput {
  return settingsFor([], {
    admin: '127.0.0.1:0',
    models: { [MODEL]: { servers: hosts.map(({ url }) => url) } },
    keys: { static: keys.map((key) => ({ key, account: 'tests' })) },
    trust: { signingKey: SEED, token: TOKEN },
    ...extra,
  });
}

async function startGateway(
  t: Test,
  input: SettingsInput,
): Promise<{ gateway: Gateway; url: string; adminUrl: string }> {
  const gateway = createGateway(input);
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  return { gateway, url, adminUrl: adminUrl ?? '' };
}

async function ask(base: string, key: string): Promise<number> {
  const response = await fetch(`${base}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [] }),
  });
  await response.arrayBuffer();
  return response.status;
}

async function healthOf(host: SmallHost): Promise<{ version: number; ageS: number; stale: boolean; gateway: string }> {
  return ((await (await fetch(`${host.url}/health`)).json()) as { keys: never }).keys;
}

function push(host: SmallHost, body: Uint8Array<ArrayBuffer>): Promise<Response> {
  return fetch(`${host.url}/svc/keys`, { method: 'POST', body });
}

t.test('a key works on the gateway and its hosts, and stops on every host once revoked', async (t) => {
  const hosts = await Promise.all([startHost(t), startHost(t)]);
  const { gateway, url } = await startGateway(t, settings(hosts, [KEY, SECOND]));
  await gateway.ready();
  for (const base of [url, ...hosts.map((host) => host.url)]) {
    await until('keys are there', async () => (await ask(base, KEY)) === 200 && (await ask(base, SECOND)) === 200);
    t.equal(await ask(base, 'hr_unknown'), 401);
  }
  const sinceMs = performance.now();
  gateway.reload(settings(hosts, [KEY]));
  for (const base of [url, ...hosts.map((host) => host.url)]) {
    await until('revoked', async () => (await ask(base, SECOND)) === 401);
    t.equal(await ask(base, KEY), 200, 'the other key works on');
  }
  const tookMs = performance.now() - sinceMs;
  t.ok(tookMs < REVOKED_MS, `took ${Math.round(tookMs)} ms`);
});

t.test(
  'headrace serve: a key removed from the file stops on the hosts in time, also with unreachable hosts',
  async (t) => {
    const hosts = await Promise.all([startHost(t), startHost(t)]);
    const dead = await startHost(t);
    await dead.stop();
    const all = [dead, ...hosts];
    const served = await startServe(t, [], { ...settings(all, [KEY, SECOND]), threads: 1, log: { level: 'info' } });
    for (const { url } of hosts) await until('keys are there', async () => (await ask(url, SECOND)) === 200);
    const sinceMs = performance.now();
    served.rewrite({ ...settings(all, [KEY]), threads: 1, log: { level: 'info' } });
    served.cli.signal('SIGHUP');
    for (const { url } of hosts) await until('revoked', async () => (await ask(url, SECOND)) === 401);
    const tookMs = performance.now() - sinceMs;
    t.ok(tookMs < REVOKED_MS, `took ${Math.round(tookMs)} ms`);
    t.comment(`revoked on every host ${Math.round(tookMs)} ms after the file was written`);
    t.notMatch(served.cli.stderr, SEED, 'the signing key is not logged');
  },
);

t.test('a host that starts before its gateway retries until the gateway answers', async (t) => {
  const { gateway: early, adminUrl } = await startGateway(
    t,
    settings([], [KEY], { admin: `127.0.0.1:${await freePort()}` }),
  );
  await early.close();
  const host = await startHost(t, { gateway: adminUrl });
  await host.trust.start();
  t.equal((await fetch(`${host.url}/health`)).status, 503);
  t.match(await healthOf(host), { version: null, gateway: 'lost' });
  // The gateway knows nothing of the host: it must ask.
  await startGateway(t, settings([], [KEY], { admin: new URL(adminUrl).host }));
  await until('asked', async () => (await ask(host.url, KEY)) === 200);
  t.match(await healthOf(host), { gateway: 'reachable', stale: false });
});

t.test('a host without its gateway keeps serving and reports it; a new gateway takes over', async (t) => {
  const host = await startHost(t);
  const first = await startGateway(t, settings([host], [KEY]));
  await until('keys are there', async () => (await ask(host.url, KEY)) === 200);
  const lonely = await startHost(t, { gateway: first.adminUrl, intervalMs: 50 });
  await lonely.trust.start();
  t.equal(await ask(lonely.url, KEY), 200);
  const { version } = await healthOf(host);
  await first.gateway.close();
  await until('found lost', async () => (await healthOf(lonely)).gateway === 'lost');
  await until('stale', async () => (await healthOf(lonely)).stale);
  t.equal(await ask(lonely.url, KEY), 200);
  t.equal(await ask(host.url, KEY), 200);
  await startGateway(t, settings([host], [SECOND]));
  await until('the keys of the new gateway', async () => (await ask(host.url, SECOND)) === 200);
  t.equal(await ask(host.url, KEY), 401);
  t.ok((await healthOf(host)).version > version, 'versions grow over a restart');
});

t.test('hosts keep their keys while a gateway has not read those of its store', async (t) => {
  const host = await startHost(t);
  const keys = [KEY, SECOND].map((key) => ({ hash: hashKey(key), account: 'tests' }));
  await push(host, new Uint8Array(signSnapshot({ version: 1, issuedAtMs: Date.now(), keys }, SIGNING)));
  const folder = join(temporaryFolder(t), 'later');
  const store = `sqlite:${join(folder, 'headrace.db')}`;
  const { adminUrl } = await startGateway(t, settings([host], [KEY], { store }));
  const state = async (): Promise<string | undefined> => {
    const { hosts } = (await (await fetch(`${adminUrl}/status`)).json()) as { hosts: { keys: { state: string }[] } };
    return hosts.keys[0]?.state;
  };
  await until('asked', async () => (await state()) !== 'unknown');
  t.equal(await state(), 'behind');
  t.equal(await ask(host.url, SECOND), 200, 'it may be a key of the store');
  const headers = { authorization: `Bearer ${TOKEN}` };
  t.equal((await fetch(`${adminUrl}/keys/snapshot`, { headers })).status, 503);
  mkdirSync(folder);
  await until('read', async () => (await ask(host.url, SECOND)) === 401);
  t.equal(await ask(host.url, KEY), 200);
  t.equal(await state(), 'current');
});

t.test('a host that was unreachable during a revocation learns of it when it is back', async (t) => {
  const host = await startHost(t);
  const { gateway } = await startGateway(t, settings([host], [KEY, SECOND]));
  await until('keys are there', async () => (await ask(host.url, SECOND)) === 200);
  await host.stop();
  gateway.reload(settings([host], [KEY]));
  await host.start();
  const sinceMs = performance.now();
  await until('revoked', async () => (await ask(host.url, SECOND)) === 401);
  t.ok(performance.now() - sinceMs < REVOKED_MS);
});

t.test('forged, replayed, truncated, older and oversize snapshots change nothing', async (t) => {
  const host = await startHost(t);
  const nowMs = Date.now();
  const content = (version: number, key: string) => ({
    version,
    issuedAtMs: nowMs,
    keys: [{ hash: hashKey(key), account: 'tests' }],
  });
  const good = signSnapshot(content(nowMs, KEY), SIGNING);
  t.equal((await push(host, new Uint8Array(good))).status, 200);
  const next = signSnapshot(content(nowMs + 1, SECOND), SIGNING);
  const bent = new Uint8Array(next);
  bent.set([bent[200] === 48 ? 49 : 48], 200);
  for (const [body, status, problem] of [
    [new Uint8Array(good), 409, 'replayed'],
    [new Uint8Array(signSnapshot(content(nowMs - 1, SECOND), SIGNING)), 409, 'replayed'],
    [new Uint8Array(signSnapshot(content(nowMs + 1, SECOND), createSigningKey())), 403, 'untrusted'],
    [bent, 403, 'forged'],
    [new Uint8Array(next.subarray(0, -2)), 403, 'forged'],
    [new Uint8Array(next.subarray(0, 60)), 400, 'malformed'],
    [new Uint8Array(MAX_PUSH_BYTES + 1), 413, 'oversize'],
  ] as const) {
    const answer = await push(host, body);
    t.equal(answer.status, status, problem);
    t.match(await answer.json(), { problem });
  }
  t.equal(await ask(host.url, KEY), 200);
  t.equal(await ask(host.url, SECOND), 401);
});

t.test(
  'a registered host serves after its first good probe, and is removed on drain or when it stops renewing',
  async (t) => {
    const trusting = (ttl: string): SettingsInput =>
      settings([], [KEY], { models: {}, trust: { signingKey: SEED, token: TOKEN, ttl } });
    const { gateway, url, adminUrl } = await startGateway(t, trusting('300ms'));
    // Behind the start no host is to fall silent before the test says so.
    gateway.reload(trusting('1h'));
    const listed = async (): Promise<string[]> => {
      const map = (await (await fetch(`${url}/svc/models`)).json()) as Record<string, { servers: string[] }>;
      return map[MODEL]?.servers ?? [];
    };
    const host = await startHost(t, { gateway: adminUrl });
    host.registration.start();
    await until('announced', () => host.registration.registered);
    t.same(await listed(), [], 'without keys its health is bad');
    await host.trust.start();
    await until('listed', async () => (await listed()).length === 1);
    t.same(await listed(), [host.url]);
    await until('served', async () => (await ask(url, KEY)) === 200);
    const other = await startHost(t, { gateway: adminUrl, name: 'other' });
    await other.trust.start();
    other.registration.start();
    await until('both listed', async () => (await listed()).length === 2);
    await host.registration.leave();
    t.same(await listed(), [other.url], 'it leaves at once');
    await other.registration.leave();
    await until('the model goes with its last host', async () => (await ask(url, KEY)) === 404);
    gateway.reload(trusting('300ms'));
    const body = JSON.stringify({ name: 'silent', url: host.url, models: [MODEL] });
    const headers = { authorization: `Bearer ${TOKEN}` };
    await until('listed again', async () => {
      await fetch(`${adminUrl}/hosts`, { method: 'POST', headers, body });
      return (await listed()).length === 1;
    });
    await until('fallen silent', async () => (await listed()).length === 0);
  },
);

t.test('after a start a model that hosts may bring is not unknown yet', async (t) => {
  const trust = { signingKey: SEED, token: TOKEN, ttl: '1500ms' };
  const { gateway, url, adminUrl } = await startGateway(t, settings([], [KEY], { models: {}, trust }));
  await gateway.ready();
  const early = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, messages: [] }),
  });
  t.equal(early.status, 503, 'clients try again');
  t.ok(early.headers.get('retry-after'));
  await early.arrayBuffer();
  const host = await startHost(t, { gateway: adminUrl });
  await host.trust.start();
  host.registration.start();
  await until('served', async () => (await ask(url, KEY)) === 200);
  await host.registration.leave();
  await until('unknown', async () => (await ask(url, KEY)) === 404);
  const other = await startGateway(t, settings([], [KEY], { models: {}, trust: { signingKey: SEED } }));
  await other.gateway.ready();
  t.equal(await ask(other.url, KEY), 404, 'without a token no host registers');
});

t.test('announcements of deep JSON do not end the process', async (t) => {
  const served = await startServe(t, [], { ...settings([], [KEY]), threads: 1 });
  const body = `${'[1,'.repeat(20_000)}{x`;
  const headers = { authorization: `Bearer ${TOKEN}` };
  for (let round = 0; round < 200; round++) {
    const answer = await fetch(`${served.adminUrl}/hosts`, { method: 'POST', headers, body });
    if (answer.status !== 422) t.fail(`answered ${answer.status}`);
    await answer.arrayBuffer();
  }
  t.equal((await fetch(`${served.adminUrl}/health`)).status, 200);
});

t.test('hosts that do not trust the gateway receive no accounts', async (t) => {
  const seen: string[] = [];
  const server = createServer((req, res) => {
    seen.push(`${req.method} ${req.url}`);
    res.writeHead(req.url === '/health' ? 200 : 404).end('{}');
  });
  await listen(server, 0);
  t.teardown(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ours = await startHost(t);
  const foreign = await startHost(t, { publicKey: createSigningKey().publicKey });
  const servers = [url, ours.url, foreign.url];
  const { gateway, adminUrl } = await startGateway(t, settings([], [KEY], { models: { [MODEL]: { servers } } }));
  const states = async (): Promise<string[]> => {
    const { hosts } = (await (await fetch(`${adminUrl}/status`)).json()) as { hosts: { keys: { state: string }[] } };
    return hosts.keys.map(({ state }) => state);
  };
  await until('judged', async () => !(await states()).includes('unknown'));
  t.same(await states(), ['unsupported', 'current', 'unsupported']);
  t.same(
    seen.filter((line) => line.includes('/svc/')),
    ['GET /svc/keys'],
  );
  gateway.reload(settings([], [SECOND], { models: { [MODEL]: { servers } } }));
  await until('told', async () => (await ask(ours.url, SECOND)) === 200);
  t.same(
    seen.filter((line) => line.includes('/svc/')),
    ['GET /svc/keys'],
  );
});
