import t from 'tap';
import { runCli } from '../support/cli.ts';
import { ledgerOf, run, storeFor } from './accounts.ts';

t.test('copies a store that is in use, and the copy is whole', async (t) => {
  const { folder, url, where } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  await ledger.grant({ id: 'g', account: 'acme', amount: 10n ** 12n });
  const file = `${folder}/copy.db`;
  t.match((await run(t, 'backup', file, ...where)).stdout, /copy\.db: 1 movement, sound/);
  const copy = ['--store', `sqlite:${file}`];
  t.match((await run(t, 'audit', '--full', ...copy)).stdout, /^sound: /);
  t.match((await run(t, 'credits', 'balance', 'acme', ...copy)).stdout, /^acme +1\.00 /m);
});

t.test('refuses a file that exists or whose folder does not, and a store that is away', async (t) => {
  const { folder, url, where } = storeFor(t, { 'taken.db': 'something else' });
  await ledgerOf(t, url);
  const taken = await runCli(t, ['backup', `${folder}/taken.db`, ...where]);
  t.equal(taken.exit.code, 1);
  t.match(taken.stderr, /^headrace: /);
  const nowhere = await runCli(t, ['backup', `${folder}/none/copy.db`, ...where]);
  t.equal(nowhere.exit.code, 1);
  t.match(nowhere.stderr, /^headrace: there is no folder .*\/none$/m);
  const away = await runCli(t, ['backup', `${folder}/other.db`, '--store', 'postgres://127.0.0.1:1/none']);
  t.equal(away.exit.code, 1);
  t.match(away.stderr, /^headrace: /);
});
