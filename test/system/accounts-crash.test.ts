// Kills a gateway with SIGKILL while it charges, repeatedly: no credit that was granted is lost, and no request is charged twice.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { bearer, endow, openTestLedger, PRICING, USD } from '../support/ledger-fixture.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { chat, MODEL, startHosts, until } from '../support/system.ts';
import { startCli } from '../support/system-cli.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const CREDIT = USD / 100n;
const ROUNDS = 3;
const LEASE_TTL_MS = 1500;

for (const kind of ['sqlite', 'postgres'] as const) {
  t.test(`${kind}: kill -9 under load loses no credit and charges nothing twice`, async (t) => {
    const folder = temporaryFolder(t);
    const store = kind === 'sqlite' ? `sqlite:${join(folder, 'ledger.db')}` : await postgresDatabase();
    const ledger = await openTestLedger(t, store);
    await endow(ledger, CREDIT);
    const hosts = await startHosts(t, [{ interTokenMs: 0 }]);
    const file = join(folder, 'headrace.json');
    await writeFile(
      file,
      JSON.stringify({
        ...{ listen: '127.0.0.1:0', admin: null, threads: 2, store, log: { level: 'error' } },
        models: { [MODEL]: { servers: hosts.map(({ url }) => url), pricing: PRICING } },
        credit: { flush: '20ms', leaseTtl: `${LEASE_TTL_MS}ms`, lease: '0.002' },
        health: { interval: '50ms' },
      }),
    );
    let answered = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const cli = startCli(t, ['serve', '--config', file], { env: { HEADRACE_STORE: store } });
      const [, url = ''] = await cli.shows(/^headrace listening on (\S+)$/m);
      let isDown = false;
      const client = async (): Promise<void> => {
        while (!isDown) {
          const response = await chat(url, { tokens: 2, headers: bearer() }).catch(() => undefined);
          await response?.text().catch(() => undefined);
          if (response?.status === 200) answered++;
        }
      };
      const clients = [client(), client(), client(), client()];
      const before = answered;
      await until('some answers', () => answered > before + 40 + 17 * round);
      isDown = true;
      cli.signal('SIGKILL');
      await Promise.all(clients);
    }
    t.match(await ledger.audit(), { sound: true });
    // The next gateway on the store releases the leases of the killed ones.
    const cli = startCli(t, ['serve', '--config', file], { env: { HEADRACE_STORE: store } });
    await cli.shows(/^headrace listening on/m);
    await until('leases of the killed gateways have ended', async () => (await ledger.account('acme'))?.held === 0n);
    const [total] = await ledger.usage({ account: 'acme', by: [] });
    const account = await ledger.account('acme');
    t.equal((account?.balance ?? 0n) + (total?.amount ?? 0n), CREDIT, 'every pico-USD is spent or there');
    t.ok((total?.requests ?? 0n) <= BigInt(answered), `${total?.requests} charged of ${answered} answered`);
    t.ok((total?.requests ?? 0n) > 0n);
    t.match(await ledger.audit(), { sound: true });
  });
}
