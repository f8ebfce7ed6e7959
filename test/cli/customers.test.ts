// The commands on accounts, credit, requests, operators and webhooks: over a store, and over the admin listener of a gateway.

import { createHash } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import { userInfo } from 'node:os';
import t from 'tap';
import { requestRecordId } from '../../src/billing/ledger/request-records.ts';
import { runCli } from '../support/cli.ts';
import { dateMs, ledgerOf, run, startAdminService, storeFor } from './accounts.ts';

t.test('accounts are created, changed and listed', async (t) => {
  const { where } = storeFor(t);
  await run(t, 'accounts', 'create', 'acme', '--label', 'Acme', ...where);
  await run(t, 'accounts', 'create', 'acme-research', ...where);
  const set = await run(t, 'accounts', 'set', 'acme', '--credit-limit', '50.00', '--low-balance', '5.00', ...where);
  t.match(
    set.stdout,
    /^id +label +balance_usd +held_usd +credit_limit_usd .*\nacme +Acme +0\.00 +0\.00 +50\.00 +0\.00 +5\.00 +-\n$/,
  );
  await run(t, 'accounts', 'set', 'acme-research', '--organisation', 'acme', ...where);
  const members = await run(t, 'accounts', 'list', '--organisation', 'acme', '--format', 'json', ...where);
  t.match(JSON.parse(members.stdout), [{ id: 'acme-research', organisation: 'acme' }]);
  const page = await run(t, 'accounts', 'list', '--limit', '1', ...where);
  t.match(page.stdout, /\nnext page: --cursor acme\n$/);
  const rest = await run(t, 'accounts', 'list', '--cursor', 'acme', '--format', 'jsonl', ...where);
  t.equal((JSON.parse(rest.stdout) as { id: string }).id, 'acme-research');
  const forgotten = await run(t, 'accounts', 'forget', 'acme', '--format', 'json', ...where);
  t.match(forgotten.stdout, /"responses": 0/);
  const nested = await runCli(t, ['accounts', 'set', 'acme', '--organisation', 'acme-research', ...where]);
  t.match(nested, { exit: { code: 1 }, stderr: /'acme' cannot join 'acme-research'/ });
});

t.test('credit is adjusted, refunded, and granted with an end', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await run(t, 'accounts', 'create', 'acme', ...where);
  await run(t, 'credits', 'grant', 'acme', '10.00', '--id', 'g', '--expires', '30d', ...where);
  const grants = await run(t, 'credits', 'grants', 'acme', ...where);
  t.match(grants.stdout, /^id +account +amount_usd +remaining_usd +expires_at\ng +acme +10\.00 +10\.00 +\d{4}-/);
  const adjusted = await run(t, 'credits', 'adjust', 'acme', '-2.50', '--id', 'a', '--memo', '-v2', ...where);
  t.equal(
    adjusted.stdout,
    'adjusted acme by -2.50 USD (-2500000 credits)\nbalance 7.50 USD (7500000 credits), adjustment id a\n',
  );
  t.match(
    (await run(t, 'credits', 'adjust', 'acme', '-2.50', '--id', 'a', ...where)).stdout,
    /^adjustment a had been made/,
  );
  const short = await runCli(t, ['credits', 'adjust', 'acme', '-8', ...where]);
  t.match(short, {
    exit: { code: 1 },
    stderr: /: 8\.00 USD cannot be taken from account 'acme': 7\.50 USD are free, 0\.00 USD are on hold\n/,
  });
  const refunded = await run(t, 'credits', 'refund', 'acme', '0.50', '--id', 'r', ...where);
  t.match(refunded.stdout, /^refunded 0\.50 USD .* to acme\nbalance 8\.00 USD/);
  const atMs = dateMs();
  await ledger.requests.add([{ ...RECORD, id: requestRecordId(atMs, 'x', 1), dateMs: atMs }]);
  const unposted = await runCli(t, ['credits', 'refund', 'acme', '--request', 'client-1', ...where]);
  t.match(unposted, { exit: { code: 1 }, stderr: /The charge of request 'req_\w+' is not posted yet, or was removed/ });
  // Two requests of the same key and model, summed up in one charge.
  const usage = { key: 'key-1', model: 'atlas', inputTokens: 14, cachedTokens: 4, outputTokens: 10, measured: true };
  const charge = { id: 'c', account: 'acme', amount: 400_000_000_000n, usage: { ...usage, requests: 2 } };
  await ledger.charge([{ ...charge, dateMs: dateMs() }]);
  const whole = await run(t, 'credits', 'refund', 'acme', '--request', 'client-1', ...where);
  t.match(whole.stdout, /^refunded 0\.25 USD/);
  t.match((await run(t, 'credits', 'refund', 'acme', '--request', 'client-1', ...where)).stdout, /nothing moved/);
  t.match(await ledger.account('acme'), { balance: 7_850_000_000_000n });
  // What was given back of a request is not given back with its charge again, nor the other way round.
  const [charged] = await ledger
    .history({ account: 'acme', limit: 50 })
    .then((all) => all.filter(({ kind }) => kind === 'charge'));
  const rest = await run(t, 'credits', 'refund', 'acme', '--charge', charged?.id ?? '', ...where);
  t.match(rest.stdout, /^refunded 0\.15 USD/);
  await ledger.requests.add([{ ...RECORD, id: requestRecordId(atMs, 'x', 2), requestId: 'client-2', dateMs: atMs }]);
  const twice = await runCli(t, ['credits', 'refund', 'acme', '--request', 'client-2', ...where]);
  t.match(twice, { exit: { code: 1 }, stderr: / 0\.00 USD of charge .* can be given back/ });
  t.match(await ledger.account('acme'), { balance: 8_000_000_000_000n });
});

const RECORD = {
  requestId: 'client-1',
  account: 'acme',
  key: 'key-1',
  endpoint: '/v1/chat/completions',
  model: 'atlas',
  status: 200,
  code: '',
  inputTokens: 7,
  cachedTokens: 2,
  outputTokens: 5,
  measured: true,
  amount: 250_000_000_000n,
  durationMs: 12,
  firstByteMs: null,
};

t.test('requests are exported whole, over more than one page, as CSV and JSON lines', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  const now = dateMs();
  const records = Array.from({ length: 2345 }, (_, at) => ({
    ...RECORD,
    id: requestRecordId(now + at, 'x', at),
    dateMs: now + at,
    requestId: `client-${at}`,
  }));
  await ledger.requests.add(records);
  const csv = (await run(t, 'requests', '--format', 'csv', ...where)).stdout.trimEnd().split('\r\n');
  t.equal(csv.length, 2346, 'one line of heads');
  t.match(csv[0], /^id,date,request_id,account,key,endpoint,model,status,/);
  const lines = (await run(t, 'requests', '--format', 'jsonl', '--account', 'acme', ...where)).stdout
    .trimEnd()
    .split('\n');
  t.same(
    lines.map((line) => (JSON.parse(line) as { request_id: string }).request_id),
    records.map(({ requestId }) => requestId).reverse(),
  );
  const page = await run(t, 'requests', '--limit', '2', ...where);
  t.match(page.stdout, /\nnext page: --cursor req_\w{21}\n$/);
});

t.test('a token and the lines that accept it; the log names who acted', async (t) => {
  const { where } = storeFor(t);
  const made = await runCli(t, ['admins', 'token', 'anna', '--role', 'operator']);
  t.equal(made.exit.code, 0);
  t.match(made.stdout, /^hra_[\w-]{43}\n$/);
  const sha256 = createHash('sha256').update(made.stdout.trim()).digest('hex');
  t.match(made.stderr, `adminTokens:\n  - name: "anna"\n    role: operator\n    sha256: ${sha256}\n`);
  t.equal((await runCli(t, ['admins', 'token', 'anna smith'])).exit.code, 1);
  await run(t, 'accounts', 'create', 'acme', ...where);
  await runCli(t, ['credits', 'grant', 'nobody', '1', ...where]);
  const log = await run(t, 'admins', 'log', '--format', 'json', ...where);
  t.match(JSON.parse(log.stdout), [
    { action: 'credit.grant', subject: 'nobody', outcome: 'refused', actor: userInfo().username, via: 'cli' },
    { action: 'account.create', subject: 'acme', outcome: 'done', after: { id: 'acme' } },
  ]);
  t.match((await run(t, 'admins', 'log', '--subject', 'acme', ...where)).stdout, /account\.create +acme +done/);
});

t.test('a user whom the operating system has no name for, as in a container, acts by number', async (t) => {
  const { where } = storeFor(t);
  const os = process.getBuiltinModule('node:os');
  const { userInfo: known } = os;
  const replace = (by: typeof known): void => {
    os.userInfo = by;
    syncBuiltinESMExports();
  };
  replace((() => {
    throw new Error('uv_os_get_passwd returned ENOENT');
  }) as never);
  t.teardown(() => replace(known));
  await run(t, 'accounts', 'create', 'acme', ...where);
  const log = await run(t, 'admins', 'log', '--format', 'json', ...where);
  t.match(JSON.parse(log.stdout), [{ action: 'account.create', actor: `uid-${process.geteuid?.()}` }]);
});

t.test('webhooks are listed and sent again; a secret is of the form that receivers know', async (t) => {
  const { ledger, where, env } = await startAdminService(t);
  t.match((await runCli(t, ['webhooks', 'secret'])).stdout, /^whsec_[A-Za-z0-9+/]{43}=\n$/);
  await ledger.webhooks.emit({ type: 'payment.open', account: 'acme', id: 'x', data: {} });
  await ledger.webhooks.fanOut(() => ['billing']);
  const list = await runCli(t, ['webhooks', 'list', '--state', 'pending', ...where], { env });
  t.match(list.stdout, /payment\.open +acme +billing +pending +0 /);
  const again = await runCli(t, ['webhooks', 'redeliver', 'msg_x', '--endpoint', 'billing', ...where], { env });
  t.equal(again.stdout, 'msg_x is sent to billing again\n');
  const csv = ['webhooks', 'redeliver', 'msg_x', '--endpoint', 'billing', '--format', 'csv', ...where];
  t.equal((await runCli(t, csv, { env })).stdout, 'message,endpoint\r\nmsg_x,billing\r\n');
  const unknown = await runCli(t, ['webhooks', 'redeliver', 'msg_y', '--endpoint', 'billing', ...where], { env });
  t.match(unknown, { exit: { code: 1 }, stderr: /404: No delivery of 'msg_y'/ });
});

t.test('the same over a running gateway', async (t) => {
  const { where, env, log } = await startAdminService(t);
  const cli = (...args: string[]): ReturnType<typeof runCli> => runCli(t, [...args, ...where], { env });
  t.equal((await cli('accounts', 'create', 'acme')).exit.code, 0);
  t.match((await cli('accounts', 'set', 'acme', '--credit-limit', '5')).stdout, /5\.00/);
  t.match((await cli('credits', 'adjust', 'acme', '-5.00')).stdout, /balance -5\.00 USD/);
  t.match((await cli('credits', 'refund', 'acme', '1.00')).stdout, /balance -4\.00 USD/);
  t.match((await cli('requests')).stdout, /^date/);
  t.match((await cli('admins', 'log')).stdout, /adminToken +owner +credit\.refund +acme +done/);
  t.equal(log.length, 4);
});
