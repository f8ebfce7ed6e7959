// Settings that data planes took when they began, and must take over at a reload too.

import t from 'tap';
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
