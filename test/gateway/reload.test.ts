// Settings that data planes took when they began, and must take over at a reload too.

import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { type ConfigError, createGateway } from '../../src/gateway/gateway.ts';
import { bearer, endow, PRICING, startLedgerFixture, USD, usageOf } from '../support/ledger-fixture.ts';
import { serving } from '../support/serving.ts';
import { chat, MODEL, settingsFor, until } from '../support/system.ts';

t.test('a reload changes the interval at which charges are written', async (t) => {
  const { gateway, hosts, ledger, store, url } = await startLedgerFixture(t, {
    settings: { credit: { flush: '1m' } },
  });
  await endow(ledger, 5n * USD);
  await until('the key is known', async () => (await chat(url, { headers: bearer() })).status === 200);
  const reloaded = gateway.reload({
    ...settingsFor(hosts),
    models: { [MODEL]: { servers: hosts.map((host) => host.url), pricing: PRICING } },
    store,
    credit: { flush: '5ms' },
  });
  t.same(reloaded, { applied: ['credit.flush'], needRestart: [] });
  t.equal((await usageOf(ledger, 1)).requests, 1n);
  await (await chat(url, { headers: bearer() })).text();
  t.equal((await usageOf(ledger, 2)).requests, 2n);
});

t.test('strings of a program name variables of the environment as those of a file do', async (t) => {
  process.env['TEST_CLIENT_KEY'] = 'hr_program';
  t.teardown(() => delete process.env['TEST_CLIENT_KEY']);
  const keyed = (key: string): SettingsInput => ({ keys: { static: [{ key, account: 'acme' }] } });
  const gateway = createGateway(keyed('${TEST_CLIENT_KEY}'));
  t.teardown(() => gateway.close());
  const check = async (key: string): Promise<number> =>
    (await gateway.inject({ path: '/svc/auth/check', headers: { authorization: `Bearer ${key}` } })).status;
  t.equal(await check('hr_program'), 200);
  gateway.reload(keyed('$${TEST_CLIENT_KEY}'));
  t.equal(await check('${TEST_CLIENT_KEY}'), 200, 'a literal');
  t.throws(
    () => gateway.reload(keyed('${TEST_NO_KEY}')),
    /names the environment variable TEST_NO_KEY, which is not set/,
  );
});

t.test('settings of a program that are undefined are not said', async (t) => {
  const gateway = createGateway({ models: {} });
  t.teardown(() => gateway.close());
  // As of variables that are not set: the defaults of the command line would open an admin port and make a ledger.
  const unsaid = { admin: undefined, threads: undefined, store: undefined, log: undefined } as unknown as SettingsInput;
  t.same(gateway.reload({ models: {}, ...unsaid }), { applied: [], needRestart: [] });
});

t.test('settings that are in conflict with what waits for a restart are refused', async (t) => {
  const gateway = createGateway({ store: null });
  t.teardown(() => gateway.close());
  const limited = { static: [{ key: 'k', account: 'a', monthly: '5' }] };
  const refused = {
    name: 'ConfigError',
    mistakes: [{ path: 'keys.static[0]', message: /need a store; .*store take effect/ }],
  };
  t.throws(() => gateway.reload({ store: 'sqlite::memory:', keys: limited }), refused as unknown as ConfigError);
  t.same(gateway.reload({ store: 'sqlite::memory:' }), { applied: [], needRestart: ['store'] });
});

t.test('a reload of the retry budget holds for later requests, whatever began before it', async (t) => {
  let asked = 0;
  const failing = (): Promise<string> =>
    serving(t, (req, res) => {
      if (req.method === 'POST') asked++;
      res.writeHead(req.method === 'POST' ? 503 : 200).end();
    });
  const settings = { keys: { required: false }, models: { m: { servers: [await failing(), await failing()] } } };
  const gateway = createGateway({ ...settings, listen: '127.0.0.1:0' });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  await gateway.ready();
  const body = JSON.stringify({ model: 'm', messages: [] });
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  const head = ['POST /v1/chat/completions HTTP/1.1', 'host: a', `content-length: ${body.length}`];
  socket.write([...head, 'expect: 100-continue', '', ''].join('\r\n'));
  t.match(String((await once(socket, 'data'))[0]), '100 Continue');
  t.match(gateway.reload({ ...settings, listen: '127.0.0.1:0', routing: { retryBurst: 0 } }), {
    applied: ['routing.retryBurst'],
  });
  socket.write(body);
  t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1.1 503/);
  socket.destroy();
  asked = 0;
  const headers = { 'content-type': 'application/json' };
  t.equal((await fetch(`${url}/v1/chat/completions`, { method: 'POST', headers, body })).status, 503);
  t.equal(asked, 1, 'nothing is tried again without a budget');
});
