// Reload and shutdown of `headrace serve` with ingress threads, by file changes and signals: no stream breaks.

import { Agent, get } from 'node:http';
import t, { type Test } from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import type { Host } from '../../src/host/index.ts';
import type { ModelInput, SettingsInput } from '../../src/config/settings.ts';
import {
  chat,
  MODEL,
  readStream,
  SERVERS,
  settingsFor,
  startHosts,
  type StreamRead,
  until,
  within,
} from '../support/system.ts';
import { type Served, startServe, statusOf } from '../support/system-cli.ts';

const STREAMS = 100;

/** Streams that run for as long as the pace of the host lets them. */
function startStreams(url: string, count: number, tokens: number): Promise<StreamRead>[] {
  return Array.from({ length: count }, async (_, index) =>
    readStream(await chat(url, { stream: true, tokens, text: `stream ${index}` })),
  );
}

function withModels(hosts: readonly Host[], models: Record<string, ModelInput>): SettingsInput {
  return settingsFor(hosts, { admin: '127.0.0.1:0', log: { level: 'info' }, models });
}

function streaming(hosts: readonly Host[]): number {
  return hosts.reduce((sum, host) => sum + host.live, 0);
}

/** A GET on a connection that was opened before, whatever has happened to the port since. */
function getOn(agent: Agent, url: string): Promise<{ status: number; body: string; connection: string | undefined }> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent }, (response) => {
      let body = '';
      response.on('data', (piece: Buffer) => (body += piece.toString()));
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body, connection: response.headers.connection }),
      );
    });
    request.on('error', reject);
  });
}

function keptAlive(t: Test): Agent {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  t.teardown(() => agent.destroy());
  return agent;
}

function reloads(served: Served): number {
  return served.cli.log.filter(({ msg }) => String(msg).startsWith('reloaded')).length;
}

for (const how of ['a changed file', 'SIGHUP'] as const) {
  t.test(`${how} reloads while ${STREAMS} streams run, and none of them breaks`, async (t) => {
    // The streams go on when the test says so.
    const clock = createManualClock();
    const hosts = await startHosts(t, [{ clock, models: [MODEL, 'finch-3b'] }, { models: [MODEL, 'finch-3b'] }]);
    const [first, second] = hosts as [Host, Host];
    const old = { [MODEL]: { servers: [first.url] }, 'finch-3b': { servers: [first.url] } };
    const served = await startServe(t, [first], { threads: 2, models: old });
    const known = chat(served.url, { model: 'finch-3b' });
    await first.nextRequest();
    clock.advance(10);
    t.equal((await known).status, 200);
    const streams = startStreams(served.url, STREAMS, 100);
    await until('all stream', () => streaming(hosts) === STREAMS);
    clock.advance(10);
    // The first CRN is taken out under its streams, and a model with it.
    served.rewrite(withModels(hosts, { [MODEL]: { servers: [second.url] } }));
    if (how === 'SIGHUP') served.cli.signal('SIGHUP');
    await until('reloaded', () => reloads(served) > 0);
    t.match(
      served.cli.log.find(({ msg }) => String(msg).startsWith('reloaded')),
      { applied: ['models'] },
    );
    // Answered at once, also by the first.
    const headers = { 'x-headrace-fault': 'status=400' };
    await until('the model is gone', async () => {
      return (await chat(served.url, { headers, model: 'finch-3b' })).status === 404;
    });
    await until('the new CRN takes traffic', async () => {
      await chat(served.url, { headers });
      return second.requests.some(({ method }) => method === 'POST');
    });
    t.equal(first.live, STREAMS, 'the streams go on where they began');
    clock.advance(1000);
    for (const stream of await within('streams', Promise.all(streams))) t.ok(stream.complete);
  });
}

t.test('an invalid file is logged and keeps the running configuration', async (t) => {
  const hosts = await startHosts(t);
  const served = await startServe(t, hosts, { threads: 1 });
  served.rewrite('{ "models": { "atlas-27b": { "servers": ["not a url"] } }, "thread": 2 }');
  await served.cli.complains(/the configuration is wrong: the running one stays/);
  const line = served.cli.log.find(({ level }) => level === 50);
  t.same(((line?.['mistakes'] ?? []) as { path: string }[]).map(({ path }) => path).sort(), [
    'models.atlas-27b.servers[0]',
    'thread',
  ]);
  t.equal((await chat(served.url)).status, 200);
  served.rewrite('{ "models": ');
  await until('the second mistake', () => served.cli.log.filter(({ level }) => level === 50).length === 2);
  t.equal((await chat(served.url)).status, 200);
  // As a full disk leaves it.
  served.rewrite('');
  await served.cli.complains(/holds no setting any more; for no models write models: \{\}/);
  t.equal((await chat(served.url)).status, 200);
  served.rewrite(withModels(hosts, { renamed: { servers: [hosts[0]?.url ?? ''] } }));
  await until('the repaired file is in force', async () => (await chat(served.url)).status === 404);
});

t.test('the log level follows a reload', async (t) => {
  const hosts = await startHosts(t);
  const served = await startServe(t, hosts, { threads: 1, log: { level: 'error' } });
  served.rewrite(settingsFor(hosts, { admin: '127.0.0.1:0', threads: 1, log: { level: 'info' } }));
  await served.cli.complains(/"reloaded"/);
  await hosts[0]?.kill();
  await served.cli.complains(/CRN standing changed/);
});

t.test('a changed setting that needs a restart is logged and not applied', async (t) => {
  const hosts = await startHosts(t);
  const served = await startServe(t, hosts, { threads: 1 });
  served.rewrite(
    settingsFor(hosts, { admin: '127.0.0.1:0', log: { level: 'info' }, servicePrefix: 'other', threads: 1 }),
  );
  await served.cli.complains(/some changes need a restart/);
  t.match(served.cli.log.at(-1), { needRestart: ['servicePrefix'] });
  t.equal((await fetch(`${served.url}/svc/models`)).status, 200);
  const document = (await (await fetch(`${served.url}/openapi.json`)).json()) as { paths: object };
  t.ok(Object.hasOwn(document.paths, '/svc/models'), 'the interface document says what is served');
  served.cli.signal('SIGHUP');
  await until('reloaded again', () => reloads(served) === 2);
  t.match(served.cli.log.at(-1), { needRestart: ['servicePrefix'] }, 'it is still named');
});

const SHUTDOWNS = [
  { server: 'uws', threads: 0 },
  { server: 'uws', threads: 2 },
  { server: 'node', threads: 1 },
] as const;

for (const settings of SHUTDOWNS.filter(({ server }) => SERVERS.includes(server))) {
  t.test(
    `SIGTERM with ${settings.server} and ${settings.threads} threads: streams finish, others hear of it, exit 0`,
    async (t) => {
      const clock = createManualClock();
      const hosts = await startHosts(t, [{ clock }]);
      const served = await startServe(t, hosts, settings);
      const agent = keptAlive(t);
      t.equal((await getOn(agent, `${served.url}/health`)).status, 200);
      const streams = startStreams(served.url, 20, 60);
      await until('all stream', () => streaming(hosts) === 20);
      served.cli.signal('SIGTERM');
      await until('draining', async () => (await statusOf(served)).stage === 'draining');
      // The own server has closed the idle connection.
      if (settings.server === 'uws') {
        let health = await getOn(agent, `${served.url}/health`);
        await until('the connection is told of it', async () => {
          if (health.connection !== 'close') health = await getOn(agent, `${served.url}/health`);
          return health.connection === 'close';
        });
        t.match(health, { status: 503, body: '{"status":"draining"}' });
      }
      await until('the port takes no other', () =>
        getOn(keptAlive(t), `${served.url}/health`).then(
          () => false,
          ({ code }: NodeJS.ErrnoException) => code === 'ECONNREFUSED',
        ),
      );
      t.equal(streaming(hosts), 20, 'nobody has been cut');
      clock.advance(1000);
      for (const stream of await within('streams', Promise.all(streams))) t.ok(stream.complete);
      t.strictSame(await served.cli.ends(), { code: 0, signal: null });
    },
  );
}

for (const threads of [0, 2]) {
  t.test(
    `streams that outlive the drain time are cut, never ended as if complete, with ${threads} threads`,
    async (t) => {
      const hosts = await startHosts(t, [{ interTokenMs: 50 }]);
      const served = await startServe(t, hosts, { threads, timeouts: { drain: '300ms' } });
      const streams = startStreams(served.url, 10, 2000).map((stream) =>
        stream.then(
          ({ complete, error }) => (complete ? 'complete' : (error?.code ?? 'ended')),
          () => 'cut',
        ),
      );
      await until('all stream', () => streaming(hosts) === 10);
      served.cli.signal('SIGTERM');
      t.strictSame(await served.cli.ends(), { code: 0, signal: null });
      for (const end of await Promise.all(streams)) t.equal(end, 'HR_DRAINING');
      await until('the CRN is left alone', () => streaming(hosts) === 0);
    },
  );
}
