// Discovery over a real gateway.
import t, { type Test } from 'tap';
import { once } from 'node:events';
import { renameSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createManualClock } from '../../src/actor/testkit.ts';
import type { Overview } from '../../src/admin/overview.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { Host } from '../../src/host/index.ts';
import { zoneServer } from '../support/dns.ts';
import { FakeKubernetes, sliceOf } from '../support/kubernetes.ts';
import { chat, KEY, readStream, settingsFor, startHosts, until } from '../support/system.ts';

t.test('models of the directory are served beside configured ones, and a failed poll keeps them', async (t) => {
  const [host] = await startHosts(t, [{ models: ['found-1b', 'atlas-27b'] }]);
  let answer: string | null = JSON.stringify({ 'found-1b': { servers: [host?.url] } });
  let polls = 0;
  const directory = createServer((_req, res) => {
    polls++;
    res.writeHead(answer === null ? 500 : 200).end(answer ?? '');
  });
  await new Promise<void>((resolve) => directory.listen(0, '127.0.0.1', resolve));
  t.teardown(() => directory.close());
  const url = `http://127.0.0.1:${(directory.address() as AddressInfo).port}/svc/models`;
  const gateway = createGateway(
    settingsFor(host === undefined ? [] : [host], { discovery: url, discoveryInterval: '20ms' }),
  );
  t.teardown(() => gateway.close());
  const base = (await gateway.listen()).url;
  await gateway.ready();
  await until('found', async () => (await chat(base, { model: 'found-1b' })).status === 200);
  t.equal((await chat(base)).status, 200);
  answer = null;
  const before = polls;
  await until('polled again', () => polls > before + 2);
  t.equal((await chat(base, { model: 'found-1b' })).status, 200, 'losing the directory does not lose the servers');
  answer = '{}';
  await until('gone', async () => (await chat(base, { model: 'found-1b' })).status === 404);
});

const MODEL = 'found-1b';

async function start(
  t: Test,
  discovery: NonNullable<SettingsInput['discovery']> | null,
  extra: SettingsInput = {},
): Promise<{ gateway: Gateway; url: string; admin: string }> {
  const gateway = createGateway(settingsFor([], { admin: '127.0.0.1:0', models: {}, discovery, ...extra }));
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  return { gateway, url, admin: adminUrl ?? '' };
}

async function overviewOf(admin: string): Promise<Overview> {
  return (await (await fetch(`${admin}/overview`)).json()) as Overview;
}

async function crnsOf(admin: string): Promise<readonly string[]> {
  const { crns } = (await (await fetch(`${admin}/status`)).json()) as { crns: readonly { url: string }[] };
  return crns.map(({ url }) => url).sort();
}

/** Number of the last chat of a host among its requests; 0 without one. */
function lastChat({ requests }: Host): number {
  return requests.findLast(({ method }) => method === 'POST')?.id ?? 0;
}

/** A discovery file that is replaced atomically. */
class ServerFile {
  readonly path: string;

  constructor(t: Test) {
    this.path = `${t.testdir({})}/servers.json`;
    this.write([]);
  }

  write(hosts: readonly Host[]): void {
    const map = hosts.length === 0 ? {} : { [MODEL]: { servers: hosts.map(({ url }) => url) } };
    writeFileSync(`${this.path}.tmp`, JSON.stringify(map));
    renameSync(`${this.path}.tmp`, this.path);
  }
}

t.test('members come and go without a failed request', async (t) => {
  const clock = createManualClock();
  const hosts = await startHosts(
    t,
    Array.from({ length: 4 }, () => ({ models: [MODEL], interTokenMs: 10, clock })),
  );
  const [a, b, c, d] = hosts as [Host, Host, Host, Host];
  const file = new ServerFile(t);
  file.write([a, b]);
  const source = [{ kind: 'file', path: file.path }] as const;
  const { admin, gateway, url } = await start(t, source, { threads: 2 });
  await gateway.ready();
  const become = async (members: readonly Host[]): Promise<void> => {
    file.write(members);
    const urls = members.map((host) => host.url).sort();
    await until('the new members', async () => String(await crnsOf(admin)) === String(urls));
  };
  const stream = async (tokens: number): Promise<boolean> =>
    (await readStream(await chat(url, { model: MODEL, stream: true, tokens, text: `${tokens} words` }))).complete;
  let isOver = false;
  const failed: string[] = [];
  let answered = 0;
  let asked = 0;
  const asking = Array.from({ length: 4 }, async () => {
    while (!isOver) {
      const { complete, error, status } = await readStream(
        await chat(url, { model: MODEL, stream: true, tokens: 3, text: `question ${asked++}` }),
      );
      if (status === 200 && complete) answered++;
      else failed.push(`${status} ${error?.code ?? ''}`);
    }
  });
  let isPaused = false;
  const pace = setInterval(() => isPaused || clock.advance(10), 10);
  t.teardown(() => clearInterval(pace));
  // Streams that outlive their server in the table: nothing ends before it has left.
  const long = Array.from({ length: 8 }, (_, n) => stream(60 + n));
  await until('streams everywhere', () => a.live > 0 && b.live > 0);
  isPaused = true;
  await become([b]);
  t.ok(a.live > 0, 'what runs at the one that has left goes on');
  isPaused = false;
  await until('its streams end', () => a.live === 0);
  const before = lastChat(a);
  const sure = answered;
  await until('more requests', () => answered > sure + 20);
  t.equal(lastChat(a), before, 'it gets no new ones');
  await become([a, b]);
  await until('it is back', () => lastChat(a) > before);
  await become([c, d]);
  t.same(await crnsOf(admin), [c.url, d.url].sort(), 'all replaced at once');
  const swapped = answered;
  await until('requests at the new ones', () => answered > swapped + 20 && c.live + d.live > 0);
  isOver = true;
  await Promise.all(asking);
  t.same(
    await Promise.all(long),
    Array.from({ length: 8 }, () => true),
    'streams of members that left are complete',
  );
  t.same(failed, []);
});

t.test('several sources at once, each with its own state', async (t) => {
  const [byDns, byApi, byFile] = (await startHosts(
    t,
    ['dns-1b', 'api-1b', MODEL].map((model) => ({ models: [model] })),
  )) as [Host, Host, Host];
  const portOf = (host: Host): number => Number(new URL(host.url).port);
  const zone = await zoneServer(t);
  zone.zone.set('vllm.example', [{ type: 'A', data: '127.0.0.1', ttl: 1 }]);
  const api = await new FakeKubernetes(t).listen();
  const ports = [{ name: 'http', port: portOf(byApi), protocol: 'TCP' }];
  api.put(sliceOf('api-a', 'api', [{ name: 'api-1', address: '127.0.0.1' }], { ports, labels: { model: 'api-1b' } }));
  const file = new ServerFile(t);
  file.write([byFile]);
  const dns = { kind: 'dns', name: 'vllm.example', port: portOf(byDns), model: 'dns-1b' } as const;
  const { admin, gateway, url } = await start(t, [
    { ...dns, nameServers: [zone.address] },
    { kind: 'kubernetes', service: 'api', modelLabel: 'model', server: api.url, account: api.account },
    { kind: 'file', path: file.path },
    { kind: 'url', url: 'http://127.0.0.1:1/map?token=secret' },
  ]);
  await gateway.ready();
  const statuses = async (): Promise<number[]> =>
    Promise.all(['dns-1b', 'api-1b', MODEL].map(async (model) => (await chat(url, { model })).status));
  t.same(await statuses(), [200, 200, 200]);
  const { discovery } = await overviewOf(admin);
  t.match(discovery, [
    { kind: 'dns', source: `dns vllm.example:${portOf(byDns)}`, state: 'ok', models: 1, servers: 1, changes: 1 },
    { kind: 'kubernetes', source: 'kubernetes api', state: 'ok', servers: 1 },
    { kind: 'file', source: `file ${file.path}`, state: 'ok', servers: 1 },
    {
      kind: 'url',
      source: 'http://127.0.0.1:1/map?…',
      state: 'failing',
      ageMs: null,
      servers: 0,
      problem: 'connection refused',
    },
  ]);
  t.notMatch(JSON.stringify(discovery), /secret/);
  // Faults of all: each keeps its answer.
  zone.zone.set('vllm.example', 'SERVFAIL');
  api.refusals.push(...Array.from({ length: 50 }, () => ({ watch: true, status: 500 })));
  api.cut();
  writeFileSync(file.path, 'nonsense');
  const metric = async (name: string, source: string): Promise<number> => {
    const text = await (await fetch(`${admin}/metrics`)).text();
    const line = text.split('\n').find((each) => each.startsWith(`${name}{`) && each.includes(`source="${source}`));
    return Number(line?.split(' ').at(-1));
  };
  await until('all fail', async () => {
    const ups = ['dns', 'kubernetes', 'file', 'http'].map((source) => metric('headrace_discovery_up', source));
    return (await Promise.all(ups)).every((up) => up === 0);
  });
  t.same(await statuses(), [200, 200, 200]);
  t.equal(await metric('headrace_discovery_servers', 'dns'), 1);
  t.ok((await metric('headrace_discovery_failures_total', 'kubernetes')) > 0);
  t.equal(await metric('headrace_discovery_changes_total', 'file'), 1);
  t.ok((await metric('headrace_discovery_age_seconds', 'file')) >= 0);
});

t.test('servers of two names at one address are asked by the name and with the key of their model', async (t) => {
  const seen: { readonly host: string; readonly authorization: string; readonly model: string }[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const { authorization = '', host = '' } = request.headers;
      const { model = '' } = (pieces.length === 0 ? {} : JSON.parse(String(Buffer.concat(pieces)))) as {
        model?: string;
      };
      seen.push({ host, authorization, model });
      const isCount = request.url === '/v1/messages/count_tokens';
      const answer = isCount ? { input_tokens: 3 } : { object: 'chat.completion', choices: [{ message: {} }] };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const zone = await zoneServer(t);
  const names = ['a.example', 'b.example'];
  for (const name of names) zone.zone.set(name, [{ type: 'A', data: '127.0.0.1', ttl: 60 }]);
  const { gateway, url } = await start(
    t,
    names.map((name) => ({
      ...{ kind: 'dns', name, host: name, port, model: name, apiKey: `key-${name}`, nameServers: [zone.address] },
    })),
  );
  await gateway.ready();
  for (let n = 0; n < 3; n++) {
    for (const model of names) {
      t.equal((await chat(url, { model })).status, 200);
      const headers = { 'x-api-key': KEY, 'content-type': 'application/json' };
      const body = JSON.stringify({ model, messages: [{ role: 'user', content: `hello ${n}` }] });
      const counted = await fetch(`${url}/v1/messages/count_tokens`, { method: 'POST', headers, body });
      t.same(await counted.json(), { input_tokens: 3 });
    }
  }
  t.equal(seen.filter(({ model }) => model !== '').length, 12);
  for (const { authorization, host, model } of seen) {
    const [name] = host.split(':');
    if (model !== '') t.equal(name, model);
    if (authorization !== '') t.equal(authorization, `Bearer key-${name}`);
  }
});

t.test('a gateway is ready when each source has answered or failed once', async (t) => {
  const answers: (() => void)[] = [];
  const probed = Promise.withResolvers<void>();
  const judge = Promise.withResolvers<void>();
  // The map, and the server that it names.
  const directory = createServer((request, response) => {
    if (request.url === '/') {
      answers.push(() => response.end(JSON.stringify({ [MODEL]: { servers: [url.replace(/\/$/, '')] } })));
      return;
    }
    const isHealth = request.url === '/health';
    if (isHealth) probed.resolve();
    void judge.promise.then(() => response.writeHead(isHealth ? 200 : 404).end());
  });
  directory.listen(0, '127.0.0.1');
  await once(directory, 'listening');
  t.teardown(() => {
    directory.close();
    directory.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(directory.address() as AddressInfo).port}/`;
  const gateway = await start(t, [
    { kind: 'url', url },
    { kind: 'file', path: '/does/not/exist.yaml' },
  ]);
  await until('the file has failed', async () => (await overviewOf(gateway.admin)).discovery[1]?.state === 'failing');
  t.equal((await overviewOf(gateway.admin)).discovery[0]?.state, 'waiting');
  const health = async (): Promise<number> => (await fetch(`${gateway.url}/health`)).status;
  t.equal(await health(), 503);
  const headers = { authorization: `Bearer ${KEY}` };
  for (const early of [
    await chat(gateway.url, { model: MODEL }),
    await fetch(`${gateway.url}/v1/models/${MODEL}`, { headers }),
  ]) {
    t.equal(early.status, 503, 'a model may still be found');
    t.equal(early.headers.get('x-headrace-error'), 'HR_STARTING');
  }
  answers[0]?.();
  await probed.promise;
  t.equal(await health(), 503, 'a server that was found is judged first');
  judge.resolve();
  await gateway.gateway.ready();
  t.equal(await health(), 200);
  t.equal((await chat(gateway.url, { model: MODEL })).status, 404, 'its server says so');
  const unknown = await chat(gateway.url, { model: 'other' });
  t.equal(unknown.headers.get('x-headrace-error'), 'HR_ROUTE_UNKNOWN_MODEL');
});

t.test('a reload that changes a source keeps its servers until the new one has answered', async (t) => {
  const [host] = (await startHosts(t, [{ models: [MODEL] }])) as [Host];
  const file = new ServerFile(t);
  file.write([host]);
  const { gateway, url } = await start(t, [{ kind: 'file', path: file.path }]);
  await gateway.ready();
  t.equal((await chat(url, { model: MODEL })).status, 200);
  const reload = (discovery: NonNullable<SettingsInput['discovery']> | null): unknown =>
    gateway.reload(settingsFor([], { admin: '127.0.0.1:0', models: {}, discovery }));
  reload([{ kind: 'file', path: file.path, apiKey: 'new' }]);
  t.equal((await chat(url, { model: MODEL })).status, 200);
  reload([{ kind: 'file', path: `${file.path}.none` }]);
  t.equal((await chat(url, { model: MODEL })).status, 200, 'the new one has failed');
  const emptied = new ServerFile(t);
  reload([{ kind: 'file', path: emptied.path }]);
  await until('gone', async () => (await chat(url, { model: MODEL })).status === 404);
  emptied.write([host]);
  await until('back', async () => (await chat(url, { model: MODEL })).status === 200);
  reload(null);
  await until('gone', async () => (await chat(url, { model: MODEL })).status === 404);
});
