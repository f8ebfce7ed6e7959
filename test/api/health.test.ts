// `GET /health` through start, service and drain, and the key check `GET /svc/auth/check`.

import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import t from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { CHAT, GOOD, MODEL, open, settingsFor, startHost } from '../support/server-adapter.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

t.test('health is starting until every CRN has been probed, then ok, then draining', async (t) => {
  const host = await startHost(t);
  await host.setFault([{ match: { path: '/health' }, fault: { hang: true } }]);
  const gateway = createGateway(settingsFor(host, { health: { timeout: '100ms', interval: '1h', fall: 1 } }));
  t.teardown(() => gateway.close());
  const starting = await gateway.inject({ path: '/health' });
  t.match(starting, { status: 503, headers: { 'retry-after': '1' } });
  t.same(starting.json(), { status: 'starting' });

  await gateway.ready();
  const ready = await gateway.inject({ path: '/health' });
  t.equal(ready.status, 200);
  t.same(ready.json(), {
    status: 'ok',
    keys_loaded: true,
    healthy_models: 0,
    prices_loaded: false,
    degraded_models: [{ model: MODEL, servers: 1, up: 0, reasons: ['timeout after 100 ms'] }],
  });

  const closed = gateway.close();
  const draining = await gateway.inject({ path: '/health' });
  t.equal(draining.status, 503);
  t.same(draining.json(), { status: 'draining' });
  await closed;
});

t.test('a gateway without models is ready and reports zero models', async (t) => {
  const host = await startHost(t);
  const { ask } = await open(t, 'inject', { models: {}, keys: { required: false } }, host);
  t.same((await ask({ path: '/health' })).json(), {
    status: 'ok',
    keys_loaded: false,
    healthy_models: 0,
    prices_loaded: false,
  });
});

t.test('health counts the models that have a usable CRN, and reports whether prices are loaded', async (t) => {
  const host = await startHost(t);
  const pricing = { prompt: '1', completion: '2' };
  const models = { [MODEL]: { servers: [host.url], pricing }, other: { servers: ['http://127.0.0.1:1'] } };
  const { ask } = await open(t, 'inject', { models, health: { fall: 1 } }, host);
  t.match((await ask({ path: '/health' })).json(), {
    healthy_models: 1,
    prices_loaded: true,
    degraded_models: [{ model: 'other', servers: 1, up: 0, reasons: ['connection refused'] }],
  });
});

t.test('health stays ok while work on the store fails, and says so', async (t) => {
  const host = await startHost(t);
  const file = join(temporaryFolder(t), 'ledger.db');
  const { ask } = await open(t, 'inject', { store: `sqlite:${file}`, credit: { leaseTtl: '1s' } }, host);
  t.notOk('ledger' in ((await ask({ path: '/health' })).json() as object));
  renameSync(file, `${file}.moved`);
  let answer = await ask({ path: '/health' });
  for (let tries = 0; tries < 100 && !('ledger' in (answer.json() as object)); tries++) {
    await setTimeout(50);
    answer = await ask({ path: '/health' });
  }
  t.equal(answer.status, 200);
  t.match(answer.json(), { status: 'ok', ledger: { failing: true } });
  renameSync(`${file}.moved`, file);
});

t.test('the key check accepts x-api-key and is free of charge', async (t) => {
  const { ask, host } = await open(t, 'inject');
  t.equal((await ask({ path: '/svc/auth/check', headers: { 'x-api-key': 'hr_contract' } })).status, 200);
  t.equal((await ask({ path: '/svc/auth/check', headers: { 'x-api-key': 'no' } })).status, 401);
  t.equal(host.requests.filter(({ path }) => path !== '/health').length, 0);
});

t.test('requests are served before every CRN has been probed', async (t) => {
  const host = await startHost(t);
  await host.setFault([{ match: { path: '/health' }, fault: { hang: true } }]);
  const gateway = createGateway(settingsFor(host));
  t.teardown(() => gateway.close());
  await new Promise(setImmediate);
  t.same((await gateway.inject({ path: '/health' })).json(), { status: 'starting' });
  const answer = await gateway.inject({ path: '/v1/chat/completions', headers: GOOD, body: CHAT });
  t.equal(answer.status, 200);
});
