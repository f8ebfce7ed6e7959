// `headrace payments` over a store and over an admin listener: open payments are listed, shown, and decided once.

import t from 'tap';
import type { Ledger } from '../../src/billing/index.ts';
import { runCli } from '../support/cli.ts';
import { dateMs, ledgerOf, run, startAdminService, storeFor } from './accounts.ts';

const PAYER = `0x${'ab'.repeat(20)}`;
const TRANSACTION = `0x${'77'.repeat(32)}`;

function nonceOf(number: number): string {
  return `0x${number.toString(16).padStart(64, '0')}`;
}

/** A submitted payment of 0.02 USD; resolves with its id. */
async function submitted(ledger: Ledger, number: number, validMs = -1000, purpose = 'call:d'): Promise<string> {
  const key = { network: 'eip155:8453', asset: `0x${'cd'.repeat(20)}`, payer: PAYER, nonce: nonceOf(number) };
  const amount = 20_000_000_000n;
  const answer = await ledger.reservePayment({ ...key, purpose, amount, validUntilMs: dateMs() + validMs });
  if (answer.kind !== 'reserved') throw new Error(answer.kind);
  await ledger.submitPayment(
    answer.id,
    JSON.stringify({ account: PAYER, signature: '0x', body: '{}', sentMs: dateMs() }),
  );
  return answer.id;
}

t.test('open payments are listed in pages, by state and payer, in every format', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  for (let number = 1; number <= 5; number++) await submitted(ledger, number);
  const { stdout } = await run(t, 'payments', 'list', ...where);
  const [head, ...rows] = stdout.trimEnd().split('\n');
  t.match(head, /^state +kind +account +nonce +amount_usd +reason +sent_at +valid_until$/);
  t.equal(rows.length, 5);
  t.match(rows[0], /^submitted +request +0xabab\S+ +0x0\S+5 +0\.02 +- +20/);
  const page = await run(
    t,
    'payments',
    'list',
    '--limit',
    '3',
    '--payer',
    PAYER.toUpperCase().replace('X', 'x'),
    ...where,
  );
  const [, cursor = ''] = /next page: --cursor (.+)\n/.exec(page.stdout) ?? [];
  const rest = await run(t, 'payments', 'list', '--limit', '3', '--cursor', cursor, '--format', 'json', ...where);
  t.match(
    (JSON.parse(rest.stdout) as { nonce: string }[]).map(({ nonce }) => nonce),
    [nonceOf(2), nonceOf(1)],
  );
  t.equal(
    (await run(t, 'payments', 'list', '--state', 'settled', '--format', 'csv', ...where)).stdout.split('\r\n').length,
    2,
  );
  t.equal(
    (await run(t, 'payments', 'list', '--payer', `0x${'00'.repeat(20)}`, '--format', 'json', ...where)).stdout,
    '[]\n',
  );
  t.match((await runCli(t, ['payments', 'list', '--payer', 'me', ...where])).stderr, /payer must be an address/);
});

t.test('a payment that has moved becomes credit, once', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  const id = await submitted(ledger, 7);
  t.match((await run(t, 'payments', 'show', nonceOf(7), ...where)).stdout, /^id +eip155:8453\|.*\nstate +submitted\n/);
  const decide = ['payments', 'decide', id, '--transaction', TRANSACTION, ...where];
  t.equal((await run(t, ...decide)).stdout, `0.02 USD are credit of ${PAYER}\n`);
  const shown = await run(t, 'payments', 'show', id, '--format', 'json', ...where);
  t.match(JSON.parse(shown.stdout), { state: 'settled', credited: true, transaction: TRANSACTION, reason: null });
  t.equal((await ledger.account(PAYER))?.balance, 20_000_000_000n);
  const again = await runCli(t, decide);
  t.match([again.exit.code, again.stderr], [1, /is not open: it is settled/]);
  t.match(await ledger.audit(), { sound: true });
});

t.test('a payment whose request is being served is not decided: its work would be paid and credited', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  const id = await submitted(ledger, 7, 600_000);
  const kept = { account: PAYER, signature: '0x', body: '{}', sentMs: dateMs(), transaction: TRANSACTION, moved: true };
  await ledger.submitPayment(id, JSON.stringify(kept));
  for (const decision of [
    ['--transaction', TRANSACTION],
    ['--not-settled', '--force'],
  ]) {
    const refused = await runCli(t, ['payments', 'decide', id, ...decision, ...where]);
    t.match([refused.exit.code, refused.stderr], [1, /is decided by the gateway that serves its request/]);
  }
  t.match(await ledger.findPayment(id), { state: 'submitted' });
  t.equal(await ledger.account(PAYER), undefined);
});

t.test('a payment that has not moved is closed, but not while it still can move', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  const [over, valid] = [await submitted(ledger, 8), await submitted(ledger, 9, 600_000)];
  t.equal((await run(t, 'payments', 'decide', over, '--not-settled', ...where)).stdout, 'closed: no money has moved\n');
  t.match(await ledger.findPayment(over), { state: 'failed', answer: 'not_settled' });
  const early = await runCli(t, ['payments', 'decide', valid, '--not-settled', ...where]);
  t.match([early.exit.code, early.stderr], [1, /not_settled is refused until 20\S+Z, when the signature ends/]);
  await run(t, 'payments', 'decide', nonceOf(9), '--not-settled', '--force', ...where);
  t.match(await ledger.findPayment(valid), { state: 'failed' });
  for (const [args, reason] of [
    [['decide', valid], /transaction is required, or else not_settled/],
    [['decide', valid, '--transaction', TRANSACTION, '--not-settled'], /not_settled excludes transaction: one of them/],
    [['decide', valid, '--transaction', '0x1'], /^headrace: transaction must be the hash [^;]*\n/],
    [['decide', valid, '--transaction', 'mine'], /transaction must be the hash/],
    [['show', nonceOf(1)], /No payment '0x0/],
    [['show', 'nothing'], /No payment 'nothing'/],
  ] as const) {
    const refused = await runCli(t, ['payments', ...args, ...where]);
    t.match([refused.exit.code, refused.stderr], [1, reason]);
  }
});

t.test('a nonce of two payers names none of them', async (t) => {
  const { where, url } = storeFor(t);
  const ledger = await ledgerOf(t, url);
  await submitted(ledger, 3);
  const key = {
    network: 'eip155:8453',
    asset: `0x${'cd'.repeat(20)}`,
    payer: `0x${'ef'.repeat(20)}`,
    nonce: nonceOf(3),
  };
  await ledger.reservePayment({ ...key, purpose: 'credits:acme', amount: 1n, validUntilMs: dateMs() });
  t.match((await runCli(t, ['payments', 'show', nonceOf(3), ...where])).stderr, /id is the nonce of several payments/);
  const other = `eip155:8453|${key.asset}|${key.payer}|${key.nonce}`;
  const shown = await run(t, 'payments', 'show', other, '--format', 'json', ...where);
  t.match(JSON.parse(shown.stdout), { kind: 'purchase', account: 'acme', state: 'reserved', sent_at: null });
});

t.test('the same over an admin listener, where the decision is recorded', async (t) => {
  const { env, ledger, where } = await startAdminService(t);
  const id = await submitted(ledger, 1);
  const remote = async (...args: readonly string[]) => await runCli(t, [...args, ...where], { env });
  t.match((await remote('payments', 'list')).stdout, /submitted +request/);
  t.match((await remote('payments', 'show', nonceOf(1))).stdout, /state +submitted/);
  t.match((await remote('payments', 'decide', id, '--transaction', TRANSACTION)).stdout, /are credit of/);
  t.match((await remote('payments', 'decide', id, '--not-settled')).stderr, /answers 409: Payment '.*' is not open/);
  t.match((await remote('payments', 'show', 'nothing')).stderr, /answers 404/);
  t.match(await ledger.adminActs.list({ limit: 10 }), [
    { action: 'payment.decide', outcome: 'refused' },
    { action: 'payment.decide', outcome: 'done', subject: id },
  ]);
});
