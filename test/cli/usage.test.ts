import t from 'tap';
import { debit } from '../billing/ledger/stores.ts';
import { runCli } from '../support/cli.ts';
import { dateMs, ledgerOf, run, startAdminService, storeFor } from './accounts.ts';

const USAGE = { key: 'key_1', model: 'atlas', inputTokens: 1000, cachedTokens: 2, outputTokens: 5, measured: true };

t.test('sums by account, key, model and day, as table, CSV and JSON', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await debit(ledger, 'acme', 'd1', 40_000_000n, USAGE, dateMs());
  await debit(ledger, 'acme', 'd2', 1_500_000_000_000n, { ...USAGE, model: 'finch', measured: false }, dateMs());
  await debit(ledger, 'b', 'd3', 0n, { ...USAGE, key: null }, dateMs());
  const day = new Date(dateMs()).toISOString().slice(0, 10);
  const all = await run(t, 'usage', ...where);
  t.match(
    all.stdout,
    new RegExp(`^account +key +model +day .*\\nacme +key_1 +atlas +${day} +1 +0 +1000 +2 +5 +0\\.00004 `),
  );
  t.equal(
    (await run(t, 'usage', '--by', 'model', '--account', 'acme', ...where)).stdout,
    [
      'model  requests  estimated  input_tokens  cached_tokens  output_tokens  amount_usd  amount_credits',
      'atlas         1          0          1000              2              5     0.00004              40',
      'finch         1          1          1000              2              5     1.50            1500000',
      '',
    ].join('\n'),
  );
  t.equal(
    (await run(t, 'usage', '--by', 'account,model', '--model', 'atlas', '--format', 'csv', ...where)).stdout,
    [
      'account,model,requests,estimated,input_tokens,cached_tokens,output_tokens,amount_usd,amount_credits',
      'acme,atlas,1,0,1000,2,5,0.00004,40',
      'b,atlas,1,0,1000,2,5,0.00,0',
      '',
    ].join('\r\n'),
  );
  const total = await run(t, 'usage', '--by=', '--key', 'key_1', '--format', 'json', ...where);
  t.match(JSON.parse(total.stdout), [{ requests: 2, amount_usd: '1.50004', amount_credits: '1500040' }]);
  const later = await run(t, 'usage', '--from', '2999-01-01', '--by', 'day', '--format', 'json', ...where);
  t.strictSame(JSON.parse(later.stdout), []);
});

t.test('refuses unknown days and dimensions', async (t) => {
  const { where } = storeFor(t);
  for (const [args, sentence] of [
    [['--by', 'hour'], /^headrace: by must be each at most once of account, key, model, day/],
    [['--from', '2030-02-30'], /^headrace: from must be a day/],
    [['--from', '2030-01-02', '--to', '2030-01-01'], /^headrace: to must not be before from/],
    [['--since', '1d'], /unknown option '--since'/],
    [['acme'], /too many arguments.* acme/],
  ] as const) {
    const { exit, stderr } = await runCli(t, ['usage', ...args, ...where]);
    t.equal(exit.code, 1);
    t.match(stderr, sentence);
  }
});

t.test('the same over a running gateway', async (t) => {
  const { where, env, ledger } = await startAdminService(t);
  await debit(ledger, 'acme', 'd1', 40_000_000n, USAGE, dateMs());
  const args = ['usage', '--by', 'model', '--from', '2000-01-01', '--format', 'csv', ...where];
  t.match((await runCli(t, args, { env })).stdout, /\r\natlas,1,0,1000,2,5,0\.00004,40\r\n$/);
  t.match((await runCli(t, ['usage', '--by=', ...where], { env })).stdout, /^requests /);
});
