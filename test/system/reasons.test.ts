// Why servers do not answer, as operators read it: in the log, on `/health`, in the overview and in the status.

import { once } from 'node:events';
import { createServer as createSecureServer } from 'node:https';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { CrnOverview, Overview } from '../../src/admin/overview.ts';
import { CERTIFICATE, KEY } from '../support/certificate.ts';
import { serving } from '../support/serving.ts';
import { chat, startHosts, until } from '../support/system.ts';
import { startServe } from '../support/system-cli.ts';

async function listening(t: Test, server: ReturnType<typeof createServer>): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => sockets.add(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test('every way in which a server can be wrong has its reason', async (t) => {
  const [host] = await startHosts(t);
  const hole = await listening(t, createServer());
  const secure = await listening(t, createSecureServer({ cert: CERTIFICATE, key: KEY }));
  const failing = await serving(t, (_, res) => res.writeHead(500).end());
  const expected: Readonly<Record<string, readonly [server: string, reason: string]>> = {
    refused: ['http://127.0.0.1:1', 'connection refused'],
    hole: [`http://${hole}`, 'timeout after 5 s'],
    path: [`${host?.url}/v1`, '404 at /v1/health'],
    tls: [`https://${secure}`, 'TLS certificate is self-signed'],
    name: ['http://nowhere.invalid', 'name not found'],
    failing: [failing, '500 at /health'],
  };
  const models = Object.fromEntries(Object.entries(expected).map(([id, [server]]) => [id, { servers: [server] }]));
  const served = await startServe(t, [], {
    threads: 1,
    models: { ...models, 'atlas-27b': { servers: [host?.url ?? ''] } },
    health: { interval: '1h', timeout: '5s' },
  });

  // One probe of each has been enough.
  for (const [model, [crn, reason]] of Object.entries(expected)) {
    const line = served.cli.log.find((each) => each['model'] === model && each['msg'] === 'CRN standing changed');
    t.match(line, { level: 40, crn, standing: 'down', reason }, `log: ${model}`);
  }
  const health = (await (await fetch(`${served.url}/health`)).json()) as { degraded_models: object[] };
  t.match(health, { status: 'ok', healthy_models: 1 });
  t.same(
    health.degraded_models,
    Object.entries(expected).map(([model, [, reason]]) => ({ model, servers: 1, up: 0, reasons: [reason] })),
  );
  const { crns } = (await (await fetch(`${served.adminUrl}/overview`)).json()) as Overview;
  for (const [model, [url, reason]] of Object.entries(expected)) {
    const { lastFailure, lastProbe } = crns.find((crn) => crn.url === url) as CrnOverview;
    t.match(lastProbe, { ok: false, reason }, `overview: ${model}`);
    t.ok(Math.abs((lastProbe?.dateMs ?? 0) - Date.now()) < 60_000);
    t.equal(lastFailure, null);
  }
  t.match(crns.find(({ url }) => url === host?.url)?.lastProbe, { ok: true, reason: null });
  const status = (await (await fetch(`${served.adminUrl}/status`)).json()) as { crns: CrnOverview[] };
  t.match(status.crns[0], { lastProbe: { ok: false, reason: 'connection refused' } });
});

t.test('the last failure of a request, with its model and its id, without anything that a client sent', async (t) => {
  const hosts = await startHosts(t, [{}]);
  const served = await startServe(t, hosts, { threads: 1, health: { interval: '1h' } });
  const headers = { 'x-headrace-fault': 'status=500', 'x-request-id': 'lost-1' };
  const answer = await chat(served.url, { headers });
  t.ok(answer.status >= 500);
  await answer.text();
  let crn: CrnOverview | undefined;
  await until('the failure is in the overview', async () => {
    const { crns } = (await (await fetch(`${served.adminUrl}/overview`)).json()) as Overview;
    [crn] = crns;
    return crn?.lastFailure != null;
  });
  const failure = { reason: '500 at /v1/chat/completions', model: 'atlas-27b', requestId: 'lost-1' };
  t.match(crn, { lastProbe: { ok: true }, lastFailure: failure });
});

t.test('a server that comes up is logged at info, and leaves the details of health', async (t) => {
  let status = 503;
  const url = await serving(t, (_, res) => res.writeHead(status).end('{"status":"loading model"}'));
  const served = await startServe(t, [], {
    threads: 1,
    models: { m: { servers: [url] } },
    health: { interval: '20ms', timeout: '1s' },
  });
  t.match(await (await fetch(`${served.url}/health`)).json(), {
    degraded_models: [{ model: 'm', reasons: ['503 at /health: loading its model'] }],
  });
  status = 200;
  await served.cli.complains(/"standing":"up"/);
  t.match(
    served.cli.log.filter(({ msg }) => msg === 'CRN standing changed'),
    [
      { level: 40, standing: 'down', reason: '503 at /health: loading its model' },
      { level: 30, standing: 'up' },
    ],
  );
  await until('health has no details', async () => !('degraded_models' in (await health(served.url))));
});

async function health(url: string): Promise<object> {
  return (await (await fetch(`${url}/health`)).json()) as object;
}
