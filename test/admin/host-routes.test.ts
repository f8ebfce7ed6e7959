// Routes of model hosts on the admin listener: the key snapshot for hosts that ask.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import t, { type Test } from 'tap';
import type { Clock } from '../../src/actor/index.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import { HostRoutes } from '../../src/admin/host-routes.ts';
import { readTrustedKeys, verifySnapshot } from '../../src/billing/main-thread.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { createLog } from '../../src/telemetry/log.ts';
import type { BufferedClient } from '../../src/net/buffered-client.ts';

const resolved = resolveSettings({ trust: { token: 'secret-of-the-hosts' } });
if ('mistakes' in resolved) throw new Error(JSON.stringify(resolved.mistakes));
const { settings } = resolved;

function routesOf(t: Test, clock: Clock, nowMs: number): HostRoutes {
  const routes = new HostRoutes({
    settings,
    client: {} as BufferedClient,
    clock,
    epochMs: () => nowMs,
    random: () => 0.5,
    log: createLog('silent'),
    onChange: () => undefined,
  });
  t.teardown(() => routes.close());
  return routes;
}

t.test('a snapshot has the date of the wall clock, however far the clock of the process is from it', (t) => {
  const [clock, nowMs] = [createManualClock(Date.UTC(2026, 10, 22)), Date.UTC(2026, 10, 23)];
  const routes = routesOf(t, clock, nowMs);
  let body: Buffer = Buffer.alloc(0);
  const res = { writeHead: () => res, end: (bytes: Buffer) => (body = bytes) } as unknown as ServerResponse;
  const req = { method: 'GET', headers: { authorization: 'Bearer secret-of-the-hosts' } } as IncomingMessage;
  routes.configure(settings, [], []);
  t.ok(routes.answer(req, res, '/keys/snapshot', new URLSearchParams()));
  const trusted = readTrustedKeys(routes.status().publicKey ?? '');
  t.equal(verifySnapshot(body, { trusted, nowMs, held: 0 }).issuedAtMs, nowMs);
  t.end();
});

t.test('a gateway whose settings get a token serves hosts from then on', async (t) => {
  const without = resolveSettings({});
  if ('mistakes' in without) throw new Error(JSON.stringify(without.mistakes));
  const clock = createManualClock(Date.UTC(2026, 10, 22));
  const routes = new HostRoutes({
    ...{ settings: without.settings, client: {} as BufferedClient, clock, epochMs: () => clock.now() },
    ...{ random: () => 0.5, log: createLog('silent'), onChange: () => undefined },
  });
  t.teardown(() => routes.close());
  routes.configure(without.settings, [], []);
  t.equal(routes.status().publicKey, null);
  routes.configure(settings, [], []);
  const { publicKey } = routes.status();
  t.ok(publicKey, 'hosts can be told whom to trust');
  let status = 0;
  const res = { writeHead: (code: number) => ((status = code), res), end: () => res } as unknown as ServerResponse;
  const req = { method: 'GET', headers: { authorization: 'Bearer secret-of-the-hosts' } } as IncomingMessage;
  routes.answer(req, res, '/keys/snapshot', new URLSearchParams());
  t.equal(status, 200);
  routes.configure(settings, [], []);
  t.equal(routes.status().publicKey, publicKey);
});

t.test('an announcement that is nested deeply is refused before it is parsed', async (t) => {
  const routes = routesOf(t, createManualClock(), 0);
  const deep = `{"name":"a","more":${'['.repeat(2000)}${']'.repeat(2000)}}`;
  const headers = { authorization: 'Bearer secret-of-the-hosts' };
  const req = Object.assign(new PassThrough(), { method: 'POST', headers });
  const answer = new Promise<string>((resolve) => {
    const res = { writeHead: () => res, end: (text: string) => resolve(String(text)) };
    const isOurs = routes.answer(
      req as unknown as IncomingMessage,
      res as unknown as ServerResponse,
      '/hosts',
      new URLSearchParams(),
    );
    t.ok(isOurs);
  });
  req.end(deep);
  t.match(await answer, 'the body must be a JSON object');
});
