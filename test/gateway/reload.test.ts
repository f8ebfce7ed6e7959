// Settings that data planes took when they began, and must take over at a reload too.

import t from 'tap';
import { type ConfigError, createGateway } from '../../src/gateway/gateway.ts';
import { bearer, endow, PRICING, startLedgerFixture, USD, usageOf } from '../support/ledger-fixture.ts';
import { chat, MODEL, settingsFor, until } from '../support/system.ts';

t.test('a reload changes the interval at which charges are written', async (t) => {
  const { gateway, hosts, ledger, store, url } = await startLedgerFixture(t, {
    settings: { credit: { flush: '1h' } },
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
