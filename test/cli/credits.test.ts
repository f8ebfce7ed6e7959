import t from 'tap';
import { systemClock } from '../../src/actor/index.ts';
import { debit } from '../billing/ledger/stores.ts';
import { runCli } from '../support/cli.ts';
import { site } from '../support/site.ts';
import { ledgerOf, run, startAdminService, storeFor } from './accounts.ts';

const USAGE = { key: null, model: 'atlas', inputTokens: 7, cachedTokens: 2, outputTokens: 5, measured: true };

t.test('grant gives credit once by its id and shows it in USD and credits', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  const args = ['credits', 'grant', 'acme', '25.0000375', '--id', 'invoice-17', '--memo', 'first, paid', ...where];
  t.equal(
    (await run(t, ...args)).stdout,
    'granted 25.0000375 USD (25000037.5 credits) to acme\n' +
      'balance 25.0000375 USD (25000037.5 credits), grant id invoice-17\n',
  );
  t.match(
    (await run(t, ...args)).stdout,
    /^grant invoice-17 had been made before: nothing moved\nbalance 25\.0000375 /,
  );
  const json = await run(t, 'credits', 'grant', 'acme', '1', '--format', 'json', ...where);
  t.match(JSON.parse(json.stdout), { amount_usd: '1.00', balance_usd: '26.0000375', repeated: false });
  t.equal((await ledger.account('acme'))?.balance, 26_000_037_500_000n);
});

t.test('balance of one account or all', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  for (const id of ['acme', 'b']) await ledger.createAccount({ id });
  await ledger.grant({ id: 'g', account: 'acme', amount: 12_500_000_000_000n });
  await debit(ledger, 'b', 'd', 40_000n, USAGE);
  t.equal(
    (await run(t, 'credits', 'balance', ...where)).stdout,
    [
      'id    label  balance_usd  balance_credits  held_usd',
      'acme         12.50            12500000         0.00',
      'b            -0.00000004            -0.04      0.00',
      '',
    ].join('\n'),
  );
  const json = await run(t, 'credits', 'balance', 'b', '--format', 'json', ...where);
  t.match(JSON.parse(json.stdout), { id: 'b', balance_usd: '-0.00000004', balance_credits: '-0.04' });
});

t.test('history pages backwards', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  await ledger.grant({ id: 'g', account: 'acme', amount: 10n ** 12n, memo: 'hello' });
  await debit(ledger, 'acme', 'd', 40_000_000n, USAGE, Math.floor(systemClock.now()));
  const page = await run(t, 'credits', 'history', 'acme', '--limit', '1', ...where);
  const [head, charge, , hint = ''] = page.stdout.split('\n');
  t.match(head, /^seq +date +kind +id +amount_usd +amount_credits +memo +model$/);
  t.match(charge, / -0\.00004 +-40 +atlas$/);
  const [, before = ''] = /^next page: --cursor (\S+)$/.exec(hint) ?? [];
  const rest = await run(t, 'credits', 'history', 'acme', '--before', before, '--format', 'csv', ...where);
  t.match(
    rest.stdout,
    /^seq,date,kind,id,account,.*measured\r\n\d+-m-grant:g,[^,]+,grant,grant:g,acme,1\.00,1000000,hello,(,*)\r\n$/,
  );
  const cursor = await run(t, 'credits', 'history', 'acme', '--cursor', before, '--format', 'csv', ...where);
  t.equal(cursor.stdout, rest.stdout);
  t.notMatch((await run(t, 'credits', 'history', 'acme', ...where)).stdout, /next/);
});

t.test('history is whole without a limit', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  const ids = Array.from({ length: 1001 }, (_, at) => `${at}`);
  await Promise.all(ids.map((id) => ledger.grant({ id, account: 'acme', amount: 1n })));
  for (const format of ['csv', 'jsonl', 'table']) {
    const { stdout } = await run(t, 'credits', 'history', 'acme', '--format', format, ...where);
    const shown = new Set(stdout.match(/grant:\d+/g));
    t.equal(shown.size, 1001, format);
  }
});

t.test('refuses amounts that are no plain decimals above zero, and accounts that are not there', async (t) => {
  const { where, url } = storeFor(t);
  await (await ledgerOf(t, url)).createAccount({ id: 'acme' });
  for (const amount of ['-5', '0', '1e3', '1,000', '0.1234567890123', '0x10', '1152922']) {
    const { exit, stderr } = await runCli(t, ['credits', 'grant', 'acme', amount, ...where]);
    t.equal(exit.code, 1);
    t.match(stderr, /^headrace: amount must be USD above 0, at most 1152921\.504606846976, as a decimal/, amount);
  }
  for (const [args, sentence] of [
    [['grant', 'nobody', '1'], /^headrace: No account 'nobody'\n$/],
    [['balance', 'nobody'], /^headrace: No account 'nobody'\n$/],
    [['history', 'nobody'], /^headrace: No account 'nobody'\n$/],
    [['grant', 'acme'], /missing required argument 'amount_usd'/],
    [['take', 'acme', '1'], /unknown command 'take'/],
    [['balance', '--memo', 'x'], /unknown option '--memo'/],
  ] as const) {
    const { exit, stderr } = await runCli(t, ['credits', ...args, ...where]);
    t.equal(exit.code, 1);
    t.match(stderr, sentence);
  }
});

t.test('the same over a running gateway', async (t) => {
  const { where, env, ledger } = await startAdminService(t);
  await ledger.createAccount({ id: 'acme/1' });
  const args = ['credits', 'grant', 'acme/1', '2.50', '--id', 'g', ...where];
  t.match((await runCli(t, args, { env })).stdout, /^granted 2\.50 USD/);
  t.match((await runCli(t, args, { env })).stdout, /nothing moved/);
  t.match((await runCli(t, ['credits', 'balance', ...where], { env })).stdout, /\nacme\/1 .* 2500000 /);
  t.match((await runCli(t, ['credits', 'balance', 'acme/1', ...where], { env })).stdout, /\nacme\/1 .* 2500000 /);
  const history = await runCli(t, ['credits', 'history', 'acme/1', '--limit', '5', ...where], { env });
  t.match(history.stdout, /grant:g/);
});

t.test('who gets no answer over a running gateway is told the id by which a repeat moves credit once', async (t) => {
  const asked: unknown[] = [];
  const { origin } = await site(t, {
    '/accounts/acme/grants': (request, response) => {
      request.on('data', (body: Buffer) => asked.push(JSON.parse(body.toString())));
      request.on('end', () => response.destroy());
    },
    '/accounts/acme/adjustments': (_, response) => response.writeHead(504).end('<html>'),
    '/accounts/acme/refunds': (_, response) => response.destroy(),
  });
  const lose = async (...args: readonly string[]): Promise<string> =>
    (await runCli(t, ['credits', ...args, '--admin', origin, '--token', 'x'])).stderr;
  const [, id] =
    /^headrace: \S+ does not answer \(.+\); credit may have moved: repeat it with the id (\w{18}), /.exec(
      await lose('grant', 'acme', '1.00'),
    ) ?? [];
  t.same(asked, [{ id, amount: '1.00' }]);
  t.match(await lose('adjust', 'acme', '-1.00', '--id', 'mine'), /answers 504 .*repeat it with the id mine,/);
  t.match(await lose('refund', 'acme', '1.00'), /repeat it with the id \w{18},/);
  // All of a charge is given back once without an id.
  t.notMatch(await lose('refund', 'acme', '--charge', 'c'), /may have moved/);
});

t.test('a memo may begin with a dash and a letter of an option', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await ledger.createAccount({ id: 'acme' });
  await run(t, ...where, 'credits', 'grant', 'acme', '25', '--memo', '-v2 invoice');
  t.match((await run(t, 'credits', 'history', 'acme', ...where)).stdout, '-v2 invoice');
});
