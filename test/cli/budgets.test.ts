import t from 'tap';
import { runCli } from '../support/cli.ts';
import { dateMs, ledgerOf, run, startAdminService, storeFor } from './accounts.ts';
import { charge } from '../billing/ledger/stores.ts';

t.test('budgets are set, listed with what is spent of them, changed and removed', async (t) => {
  const { url, where } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  const set = await run(t, 'budgets', 'set', '--account', 'acme', '--period', 'month', '--limit', '25', ...where);
  t.match(
    set.stdout,
    /^id +account +key +model +period +limit_usd +alert_usd +spent_usd +ends_at\nbudget_\w+ +acme +- +- /,
  );
  await ledger.grant({ id: 'g', account: 'acme', amount: 10n ** 12n });
  await ledger.lease({ id: 'l', account: 'acme', amount: 10n ** 12n, holder: 'h', ttlMs: 60_000 });
  const usage = { key: null, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
  await charge(ledger, 'l', 'c', 10n ** 11n, usage, { account: 'acme', dateMs: dateMs() });
  const flags = ['--model', 'm', '--period', 'day', '--limit', '5', '--alert', '50%', '--format', 'json', ...where];
  const daily = JSON.parse((await run(t, 'budgets', 'set', ...flags)).stdout) as Record<string, string>;
  t.match(daily, { account: null, model: 'm', alert_usd: '2.50', spent_usd: '0.10' });
  const listed = await run(t, 'budgets', 'list', '--account', 'acme', '--format', 'csv', ...where);
  t.match(listed.stdout, /\r\nbudget_\w+,acme,,,month,25\.00,,0\.10,/);
  const removed = await run(t, 'budgets', 'remove', daily['id'] ?? '', ...where);
  t.equal(removed.stdout, `${daily['id']} is removed\n`);
  t.equal((await run(t, 'budgets', 'list', '--format', 'csv', ...where)).stdout.split('\r\n').length, 3);
  const unknown = await runCli(t, [
    'budgets',
    'set',
    '--account',
    'nobody',
    '--period',
    'day',
    '--limit',
    '1',
    ...where,
  ]);
  t.equal(unknown.stderr, "headrace: No account 'nobody'\n");
});

t.test('the same over a running gateway', async (t) => {
  const { env, ledger, where } = await startAdminService(t);
  await ledger.createAccount({ id: 'acme' });
  const args = [
    'budgets',
    'set',
    '--account',
    'acme',
    '--period',
    'week',
    '--limit',
    '3',
    '--format',
    'json',
    ...where,
  ];
  const made = JSON.parse((await runCli(t, args, { env })).stdout) as { id: string };
  t.match(await ledger.budgets.list(), [{ id: made.id, period: 'week', limit: 3n * 10n ** 12n }]);
  t.match((await runCli(t, ['budgets', 'list', ...where], { env })).stdout, made.id);
  t.match((await runCli(t, ['budgets', 'remove', made.id, ...where], { env })).stdout, 'is removed');
  t.strictSame(await ledger.budgets.list(), []);
});
