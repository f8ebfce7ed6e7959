import { DatabaseSync } from 'node:sqlite';
import t from 'tap';
import { runCli } from '../support/cli.ts';
import { site } from '../support/site.ts';
import { ledgerOf, run, startAdminService, storeFor } from './accounts.ts';

t.test('a sound ledger is reported with its counts', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  await ledger.grant({ id: 'g', account: 'acme', amount: 10n ** 12n });
  t.equal(
    (await run(t, 'audit', ...where)).stdout,
    'sound: all accounts add up to 0.00 USD; 1 movement, 1 account, 0 open holds\n',
  );
  t.equal(
    (await run(t, 'audit', '--format', 'csv', ...where)).stdout,
    'sound,sum_usd,movements,accounts,open_holds,problems\r\ntrue,0.00,1,1,0,\r\n',
  );
});

t.test('exits with 1 and a line for each thing that does not add up', async (t) => {
  const { where, url, folder } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  await ledger.grant({ id: 'g', account: 'acme', amount: 10n ** 12n });
  await ledger.close();
  const database = new DatabaseSync(`${folder}/accounts.db`);
  database.exec("update accounts set balance = balance + 1000000000 where id = 'acme'");
  database.close();
  const told = await runCli(t, ['audit', ...where]);
  t.equal(told.exit.code, 1);
  t.match(
    told.stdout,
    /^NOT SOUND: all accounts add up to 0\.001 USD;.*\n {2}All accounts add up to 0\.001 USD, not to zero\n/,
  );
  const json = await runCli(t, ['audit', '--format', 'json', ...where]);
  t.equal(json.exit.code, 1);
  t.match(JSON.parse(json.stdout), { sound: false, sum_usd: '0.001' });
  const csv = await runCli(t, ['audit', '--format', 'csv', ...where]);
  t.match(
    csv.stdout,
    /\r\nfalse,0\.001,1,1,0,"All accounts add up to 0\.001 USD, not to zero; Account 'acme' has .*"\r\n$/,
  );
});

t.test('the same over a running gateway; other answers than its own are refused', async (t) => {
  const { where, env } = await startAdminService(t);
  t.match((await runCli(t, ['audit', ...where], { env })).stdout, /^sound: /);
  const nowhere = await runCli(t, ['audit', '--admin', `${where[1]}nothing`], { env });
  t.match(nowhere, { exit: { code: 1 }, stderr: /^headrace: \S+ answers 404: Not Found\n$/ });
  const { origin } = await site(t, {
    '/audit': (_, response) => response.end('<html>'),
    '/keys': (_, response) => response.end('{}'),
  });
  const page = await runCli(t, ['audit', '--admin', origin], { env });
  t.match(page.stderr, /^headrace: \S+ answers 200 without JSON: is it the admin listener of a gateway\?\n$/);
  const list = await runCli(t, ['keys', 'list', '--admin', origin], { env });
  t.match(list.stderr, /^headrace: \S+ answers no list: is it the admin listener of a gateway\?\n$/);
  const query = await runCli(t, ['audit', '--admin', `${origin}/?a=b`], { env });
  t.match(query.stderr, /^headrace: --admin takes the URL of an admin listener, such as http:/);
});
