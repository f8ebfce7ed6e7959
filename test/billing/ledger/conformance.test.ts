// The suite that every store passes: what `Ledger` promises, one case at a time.

import t from 'tap';
import { paymentId } from '../../../src/billing/ledger/commands.ts';
import { chargeId, chargeNumber } from '../../../src/billing/ledger/charges.ts';
import {
  type HoldRequest,
  type LedgerError,
  MAX_AMOUNT,
  type Movement,
  type UsageRow,
  type NewKey,
} from '../../../src/billing/ledger/ledger.ts';
import { charge, openStore, requestRecord, START_MS, STORES, USAGE } from './stores.ts';

const hold = (id: string, amount: bigint, more: Partial<HoldRequest> = {}): HoldRequest => ({
  id,
  account: 'a',
  amount,
  holder: 'thread-1',
  ttlMs: 60_000,
  ...more,
});

const PAYMENT = {
  network: 'base',
  asset: '0xAA',
  payer: '0xBB',
  nonce: '0xCC',
  purpose: 'credits for a',
  amount: 500n,
  validUntilMs: START_MS + 600_000,
};

const key = (id: string, more: Partial<NewKey> = {}): NewKey => ({
  id,
  hash: `hash-of-${id}`,
  prefix: 'hr_ab',
  account: 'a',
  ...more,
});

const refusal = (name: LedgerError['refusal']): { name: string; refusal: string } => ({
  name: 'LedgerError',
  refusal: name,
});

for (const name of STORES) {
  t.test(`${name}: an account is created once and starts empty`, async (t) => {
    const { ledger } = await openStore(t, name);
    const money = { balance: 0n, held: 0n, organisation: null, creditLimit: 0n, lowBalance: null, expiring: 0n };
    const made = { id: 'a', label: 'first', createdMs: START_MS, ...money };
    t.same(await ledger.createAccount({ id: 'a', label: 'first' }), made);
    t.same(await ledger.createAccount({ id: 'a', label: 'second' }), made, 'stays as it is');
    t.same(await ledger.account('a'), made);
    t.equal(await ledger.account('b'), undefined);
    await ledger.createAccount({ id: "b'; drop table accounts; --" });
    t.same(
      (await ledger.listAccounts()).map(({ id }) => id),
      ['a', "b'; drop table accounts; --"],
    );
  });

  t.test(`${name}: an address names its account in any case, in whatever is kept of it`, async (t) => {
    const { ledger } = await openStore(t, name);
    const { requests, responses } = ledger;
    const [account, written] = [`0x${'ab'.repeat(20)}`, `0x${'aB'.repeat(20)}`];
    await ledger.createAccount({ id: written });
    await ledger.createAccount({ id: 'member' });
    await ledger.configureAccount('member', { organisation: written });
    t.match(await ledger.listAccounts({ organisation: written }), [{ id: 'member', organisation: account }]);
    await requests.add([requestRecord(1, { account })]);
    t.match(await requests.list({ account: written }), [{ account }]);
    t.match(await requests.find(requestRecord(1).id, written), { account });
    const record = { account, id: 'r', createdMs: START_MS, status: 'completed', model: 'm', previous: null } as const;
    const texts = { input: '[]', output: '[]', response: '{}', items: [] };
    await responses.apply([{ type: 'add', record: { ...record, ...texts }, ttlMs: 60_000 }]);
    t.match(await responses.counts(written), { responses: 1 });
    t.equal(await responses.deleteAccount(written), 1);
    t.match(await responses.counts(), { responses: 0 });
  });

  t.test(`${name}: a grant counts once, and its id is not reused`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.createAccount({ id: 'b' });
    t.same(await ledger.grant({ id: '1', account: 'a', amount: 10n }), { repeated: false, balance: 10n });
    t.same(await ledger.grant({ id: '1', account: 'a', amount: 10n }), { repeated: true, balance: 10n });
    await t.rejects(ledger.grant({ id: '1', account: 'a', amount: 11n }), refusal('id-reused'));
    await t.rejects(ledger.grant({ id: '1', account: 'b', amount: 10n }), refusal('id-reused'));
    await t.rejects(ledger.grant({ id: '2', account: 'nobody', amount: 10n }), refusal('account-unknown'));
    await t.rejects(ledger.grant({ id: '3', account: 'a', amount: 0n }), refusal('amount-invalid'));
    await t.rejects(ledger.grant({ id: '3', account: 'a', amount: MAX_AMOUNT + 1n }), refusal('amount-invalid'));
    t.match(await ledger.account('a'), { balance: 10n, held: 0n });
    const both = await Promise.all([1, 2].map(() => ledger.grant({ id: '4', account: 'a', amount: 5n })));
    const moved = [
      { repeated: false, balance: 15n },
      { repeated: true, balance: 15n },
    ];
    t.same(both, moved, 'also within one commit');
    t.match(await ledger.account('a'), { balance: 15n });
  });

  t.test(`${name}: amounts beyond what a double holds stay exact`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    const odd = MAX_AMOUNT - 1n;
    for (let i = 0; i < 7; i++) await ledger.grant({ id: `${i}`, account: 'a', amount: odd });
    t.match(await ledger.account('a'), { balance: odd * 7n });
    await ledger.grant({ id: '7', account: 'a', amount: 8n });
    await t.rejects(ledger.grant({ id: '8', account: 'a', amount: odd }), refusal('balance-overflow'));
    for (const id of ['b', 'c']) {
      await ledger.createAccount({ id });
      for (let i = 0; i < 7; i++) {
        await ledger.grant({ id: `${id}${i}`, account: id, amount: odd });
        await ledger.hold(hold(`${id}${i}`, odd, { account: id }));
        await ledger.settle(`${id}${i}`, odd, USAGE);
      }
    }
    t.match(await ledger.usage({ by: [] }), [{ amount: odd * 14n }], 'a total of more than 64 bits');
    t.match(await ledger.audit(), { sound: true, sum: 0n });
  });

  t.test(`${name}: a hold reserves credit, and settling charges what was used`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: '1', account: 'a', amount: 100n });
    t.same(await ledger.hold(hold('h', 60n)), { kind: 'held', amount: 60n, repeated: false });
    t.same(await ledger.hold(hold('h', 60n)), { kind: 'held', amount: 60n, repeated: true });
    t.match(await ledger.account('a'), { balance: 40n, held: 60n });
    t.same(await ledger.hold(hold('i', 41n)), { kind: 'short', balance: 40n });
    await t.rejects(ledger.hold(hold('h', 61n)), refusal('id-reused'));
    t.same(await ledger.settle('h', 25n, USAGE), { late: false, repeated: false });
    t.match(await ledger.account('a'), { balance: 75n, held: 0n });
    t.same(await ledger.settle('h', 25n, USAGE), { late: false, repeated: true }, 'nothing moves again');
    await t.rejects(ledger.settle('h', 26n, USAGE), refusal('id-reused'));
    await t.rejects(ledger.hold(hold('h', 60n)), refusal('hold-closed'));
    await t.rejects(ledger.settle('unknown', 1n, USAGE), refusal('hold-unknown'));
    t.match(await ledger.findHold('h'), { state: 'closed', amount: 60n, charged: 25n });
    t.equal(await ledger.findHold('unknown'), undefined);
    t.match(await ledger.account('a'), { balance: 75n, held: 0n });
    t.match(await ledger.audit(), { sound: true, sum: 0n, openHolds: 0n });
  });

  t.test(`${name}: work that cost more than was held is charged whole`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: '1', account: 'a', amount: 100n });
    await ledger.hold(hold('h', 90n));
    await ledger.settle('h', 130n, USAGE);
    t.match(await ledger.account('a'), { balance: -30n, held: 0n });
    t.same(await ledger.hold(hold('i', 0n)), { kind: 'short', balance: -30n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: a hold is released once, and work that ends later still pays`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: '1', account: 'a', amount: 100n });
    await ledger.hold(hold('h', 60n));
    t.equal(await ledger.release('h'), true);
    t.equal(await ledger.release('h'), false);
    t.match(await ledger.account('a'), { balance: 100n, held: 0n });
    t.same(await ledger.settle('h', 10n, USAGE), { late: true, repeated: false });
    t.same(await ledger.settle('h', 10n, USAGE), { late: false, repeated: true });
    t.match(await ledger.account('a'), { balance: 90n, held: 0n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: a lease takes many charges, overflows into the balance and gives the rest back`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    t.same(await ledger.lease(hold('l', 50n)), { kind: 'short', balance: 0n });
    await ledger.grant({ id: '1', account: 'a', amount: 100n });
    t.same(await ledger.lease(hold('l', 70n)), { kind: 'held', amount: 70n, repeated: false });
    t.same(await ledger.lease(hold('m', 70n)), { kind: 'held', amount: 30n, repeated: false }, 'what there is');
    t.same(await ledger.lease(hold('m', 70n)), { kind: 'held', amount: 30n, repeated: true });
    const charges = ['c1', 'c2', 'c1'].map((id) => charge(ledger, 'l', id, 20n, USAGE));
    t.same(
      (await Promise.all(charges)).map(({ repeated }) => repeated),
      [false, false, true],
    );
    t.match(await ledger.account('a'), { balance: 0n, held: 60n });
    await charge(ledger, 'l', 'c3', 45n, USAGE);
    t.match(await ledger.account('a'), { balance: -15n, held: 30n }, 'beyond the lease the balance pays');
    await ledger.release('m');
    t.match(await ledger.account('a'), { balance: 15n, held: 0n });
    await t.rejects(ledger.settle('l', 1n, USAGE), refusal('hold-unknown'), 'a lease is not settled');
    t.match(await ledger.audit(), { sound: true, openHolds: 1n });
  });

  t.test(`${name}: holds of a dead holder expire, those that a live one renews stay`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: '1', account: 'a', amount: 100n });
    await ledger.lease(hold('dead', 40n));
    await charge(ledger, 'dead', 'c1', 15n, USAGE);
    await ledger.lease(hold('live', 40n, { holder: 'thread-2', ttlMs: 0 }));
    t.same(await ledger.renew('thread-2', 60_000), [{ id: 'live', left: 40n }]);
    t.equal(await ledger.expire(), 0);
    t.same(await ledger.renew('thread-1', 0), [{ id: 'dead', left: 25n }]);
    t.equal(await ledger.expire(), 1);
    t.equal(await ledger.expire(), 0);
    t.match(await ledger.account('a'), { balance: 45n, held: 40n });
    t.same(await ledger.renew('thread-1', 60_000), [], 'a holder is told that it lost its lease');
    t.same(await charge(ledger, 'dead', 'c2', 5n, USAGE), { late: true, repeated: false });
    t.match(await ledger.account('a'), { balance: 40n, held: 40n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: one bad movement fails alone`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    const outcomes = await Promise.allSettled([
      ledger.grant({ id: '1', account: 'a', amount: 10n }),
      ledger.grant({ id: '2', account: 'nobody', amount: 10n }),
      // A text with NUL is one that PostgreSQL refuses and SQLite keeps.
      ledger.grant({ id: '3', account: 'a', amount: 1n, memo: 'a\0b' }),
      ledger.settle('unknown', 1n, USAGE),
      ledger.grant({ id: '4', account: 'a', amount: 10n }),
    ]);
    const nul = name === 'postgres' ? 'rejected' : 'fulfilled';
    t.same(
      outcomes.map(({ status }) => status),
      ['fulfilled', 'rejected', nul, 'rejected', 'fulfilled'],
    );
    t.match(await ledger.account('a'), { balance: name === 'postgres' ? 20n : 21n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: invalid counts and dates are refused`, async (t) => {
    const { ledger } = await openStore(t, name);
    for (const inputTokens of [-1, 0.5, NaN, Infinity, 2 ** 53]) {
      await t.rejects(charge(ledger, 'l', 'c', 1n, { ...USAGE, inputTokens }), refusal('amount-invalid'));
    }
    await t.rejects(charge(ledger, 'l', 'c', -1n, USAGE), refusal('amount-invalid'));
    for (const date of [NaN, Infinity, 0.5]) {
      await t.rejects(ledger.hold(hold('h', 1n, { ttlMs: date })), refusal('date-invalid'));
      await t.rejects(charge(ledger, 'l', 'c', 1n, USAGE, { dateMs: date }), refusal('date-invalid'));
      await t.rejects(ledger.reservePayment({ ...PAYMENT, validUntilMs: date }), refusal('date-invalid'));
    }
  });

  t.test(`${name}: a nonce is taken once, whatever the case of its digits`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const id = paymentId(PAYMENT);
    const other = await again();
    const answers = await Promise.all([ledger, other].map((each) => each.reservePayment(PAYMENT)));
    t.same(answers.map(({ kind }) => kind).sort(), ['reserved', 'taken']);
    const taken = await other.reservePayment({ ...PAYMENT, payer: '0xbb', nonce: '0xcc', purpose: 'more' });
    t.match(taken, { kind: 'taken', payment: { id, state: 'reserved', purpose: 'credits for a', answer: null } });
    t.match(await ledger.reservePayment({ ...PAYMENT, nonce: '0xCD' }), { kind: 'reserved' });
    t.match(await ledger.reservePayment({ ...PAYMENT, network: 'base-sepolia' }), { kind: 'reserved' });
  });

  t.test(`${name}: a settled payment is posted once and its answer kept`, async (t) => {
    const { ledger } = await openStore(t, name);
    const id = paymentId(PAYMENT);
    const target = { kind: 'credit', account: 'new' } as const;
    await t.rejects(ledger.settlePayment(id, target, 'ok'), refusal('payment-unknown'));
    await ledger.reservePayment(PAYMENT);
    await ledger.submitPayment(id, '{"v":1}');
    t.match(await ledger.paymentsIn('submitted'), [{ id, request: '{"v":1}' }]);
    t.same(await ledger.settlePayment(id, target, 'ok'), { repeated: false });
    t.same(await ledger.settlePayment(id, target, 'other'), { repeated: true });
    t.match(await ledger.account('new'), { balance: 500n }, 'the account was made');
    t.match(await ledger.findPayment(id), { state: 'settled', answer: 'ok', amount: 500n });
    await t.rejects(ledger.failPayment(id, 'no'), refusal('payment-settled'));
    await t.rejects(ledger.submitPayment(id, 'x'), refusal('payment-settled'));
    t.match(await ledger.reservePayment(PAYMENT), { kind: 'taken', payment: { state: 'settled', answer: 'ok' } });
    t.same(await ledger.paymentsIn('submitted'), []);
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: a failed payment posts nothing, unless it turns out paid`, async (t) => {
    const { ledger } = await openStore(t, name);
    const id = paymentId(PAYMENT);
    await ledger.reservePayment(PAYMENT);
    await ledger.failPayment(id, 'all hosts failed');
    t.match(await ledger.reservePayment(PAYMENT), { kind: 'taken', payment: { state: 'failed' } });
    await t.rejects(ledger.submitPayment(id, 'x'), refusal('payment-settled'));
    t.match(await ledger.audit(), { movements: 0n });
    await ledger.settlePayment(id, { kind: 'charge', account: 'x402', usage: { ...USAGE, key: null } }, 'receipt');
    t.match(await ledger.usage({ by: ['account', 'key'] }), [{ account: 'x402', key: '', amount: 500n }]);
    t.match(await ledger.account('x402'), { balance: 0n });
    t.match(await ledger.history({ account: 'x402' }), [
      { kind: 'charge', amount: -500n, usage: { model: 'm', key: null } },
      { kind: 'payment', amount: 500n, memo: 'credits for a' },
    ]);
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(`${name}: of a payment part is charged, and the rest is credit, once`, async (t) => {
    const { ledger } = await openStore(t, name);
    const id = paymentId(PAYMENT);
    await ledger.reservePayment(PAYMENT);
    const target = { kind: 'charge', account: 'x402', usage: { ...USAGE, key: null }, amount: 200n } as const;
    t.same(await ledger.settlePayment(id, target, 'receipt'), { repeated: false });
    t.same(await ledger.settlePayment(id, target, 'receipt'), { repeated: true });
    t.match(await ledger.usage({ by: ['account'] }), [{ account: 'x402', amount: 200n }]);
    t.match(await ledger.account('x402'), { balance: 300n });
    t.match(await ledger.audit(), { sound: true });
  });

  t.test(
    `${name}: a request that is paid takes nothing of other credit, and its rest is credit of who pays`,
    async (t) => {
      const { again, pass } = await openStore(t, name);
      const ledger = await again({ lowBalance: 300n });
      for (const id of ['org', 'x402']) await ledger.createAccount({ id });
      await ledger.grant({ id: 'g', account: 'x402', amount: 100n, expiresMs: START_MS + 1000 });
      const pay = async (nonce: string, amount: bigint): Promise<void> => {
        const payment = { ...PAYMENT, nonce };
        await ledger.reservePayment(payment);
        const target = { kind: 'charge', account: 'x402', usage: { ...USAGE, key: null }, amount } as const;
        for (const repeated of [false, true])
          t.same(await ledger.settlePayment(paymentId(payment), target, nonce), { repeated });
      };
      await pay('1', 500n);
      t.match(await ledger.account('x402'), { balance: 100n, expiring: 100n });
      await ledger.webhooks.fanOut(() => ['hook']);
      t.same(await ledger.webhooks.list({}), [], 'it has not fallen below the threshold');
      pass(1000);
      await ledger.expire();
      t.match(await ledger.account('x402'), { balance: 0n, expiring: 0n });
      await ledger.configureAccount('x402', { organisation: 'org' });
      await pay('2', 200n);
      t.match(await ledger.account('x402'), { balance: 0n });
      t.match(await ledger.account('org'), { balance: 300n }, 'as all that its members buy');
      t.match(await ledger.usage({ by: ['account'] }), [{ account: 'x402', amount: 700n }]);
      t.match(await ledger.audit(), { sound: true });
    },
  );

  t.test(`${name}: no more than the payment is charged`, async (t) => {
    const { ledger } = await openStore(t, name);
    const id = paymentId(PAYMENT);
    await ledger.reservePayment(PAYMENT);
    const usage = { ...USAGE, key: null };
    await ledger.settlePayment(id, { kind: 'charge', account: 'x402', usage, amount: 700n }, 'receipt');
    t.match(await ledger.account('x402'), { balance: 0n });
  });

  t.test(`${name}: history is paged from the newest, over the end of a month, and leaves holds out`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: '1', account: 'a', amount: 100n, memo: 'welcome' });
    const usage = { ...USAGE, price: '0.25/1.50', requests: 3 };
    for (const id of ['h1', 'h2', 'h3']) {
      pass(30_000);
      await ledger.hold(hold(id, 10n));
      await ledger.settle(id, 4n, usage);
      await ledger.grant({ id, account: 'a', amount: 1n });
    }
    const all = await ledger.history({ account: 'a' });
    t.match(all, [
      {
        id: chargeId(START_MS + 90_000, chargeNumber('settle:h3')),
        kind: 'charge',
        amount: -4n,
        usage,
        dateMs: START_MS + 90_000,
      },
      { id: 'grant:h3' },
      { id: chargeId(START_MS + 60_000, chargeNumber('settle:h2')), dateMs: START_MS + 60_000 },
      { id: 'grant:h2' },
      { id: chargeId(START_MS + 30_000, chargeNumber('settle:h1')), dateMs: START_MS + 30_000 },
      { id: 'grant:h1' },
      { id: 'grant:1', kind: 'grant', amount: 100n, memo: 'welcome', usage: null },
    ]);
    t.equal(all.length, 7);
    for (const limit of [1, 2, 3, 6]) {
      const paged: Movement[] = [];
      for (let page = await ledger.history({ account: 'a', limit }); page.length > 0;) {
        paged.push(...page);
        page = await ledger.history({ account: 'a', limit, before: page.at(-1)?.seq ?? '' });
      }
      t.same(paged, all, `in pages of ${limit}`);
    }
    t.same(await ledger.history({ account: 'b' }), []);
    await t.rejects(ledger.history({ account: 'a', before: 'nonsense' }), refusal('cursor-invalid'));
  });

  t.test(`${name}: usage is summed by account, key, model and day`, async (t) => {
    const store = await openStore(t, name);
    const { ledger } = store;
    for (const account of ['a', 'b']) {
      await ledger.createAccount({ id: account });
      await ledger.grant({ id: account, account, amount: 1000n });
      await ledger.lease(hold(account, 1000n, { account }));
    }
    await Promise.all([1, 2, 3].map((at) => charge(ledger, 'a', `a${at}`, 10n, USAGE)));
    const other = { ...USAGE, key: 'key-2', model: 'n', measured: false };
    await charge(ledger, 'b', 'b1', 7n, other, { account: 'b' });
    await charge(ledger, 'a', 'a4', 5n, { ...USAGE, key: null }, { dateMs: START_MS + 120_000 });
    t.match(await ledger.usage({ by: ['day'] }), [
      { day: '2026-03-31', requests: 4n, estimated: 1n, amount: 37n, inputTokens: 28n, outputTokens: 20n },
      { day: '2026-04-01', requests: 1n, estimated: 0n, amount: 5n, cachedTokens: 2n },
    ]);
    t.match(await ledger.usage({ by: ['account', 'key', 'model'] }), [
      { account: 'a', key: '', model: 'm', amount: 5n },
      { account: 'a', key: 'key-1', model: 'm', amount: 30n },
      { account: 'b', key: 'key-2', model: 'n', amount: 7n },
    ]);
    t.match(await ledger.usage({ key: 'key-1', fromDay: '2026-03-01', toDay: '2026-03-31', by: [] }), [
      { requests: 3n, amount: 30n },
    ]);
    t.match(await ledger.usage({ account: 'nobody', model: 'm', by: [] }), [{ requests: 0n, amount: 0n }]);
  });

  t.test(`${name}: usage by day comes in pages of any size, in any range of days`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'a', account: 'a', amount: 1000n });
    await ledger.lease(hold('a', 1000n, { account: 'a' }));
    for (let at = 0; at < 60; at++) {
      const key = `key-${at % (at < 30 ? 2 : 7)}`;
      await charge(ledger, 'a', `a${at}`, 1n, { ...USAGE, key }, { dateMs: START_MS + (at % 20) * 36 * 3_600_000 });
    }
    for (const days of [{}, { fromDay: '2026-04-03' }, { fromDay: '2026-04-02', toDay: '2026-04-20' }]) {
      const all = await ledger.usage({ by: ['day', 'key'], ...days });
      t.ok(all.length > 20);
      for (const limit of [1, 2, 5, all.length]) {
        const paged: UsageRow[] = [];
        for (let page = await ledger.usage({ by: ['day', 'key'], ...days, limit }); page.length > 0;) {
          t.ok(page.length <= limit);
          paged.push(...page);
          const { day = '', key = '' } = page.at(-1) ?? {};
          page = await ledger.usage({ by: ['day', 'key'], ...days, limit, after: [day, key] });
        }
        t.same(paged, all, `in pages of ${limit} of ${all.length}`);
      }
    }
    const [row] = await ledger.usage({ by: ['day', 'key'], key: 'key-6', limit: 1 });
    t.match(row, { key: 'key-6' }, 'also where the first days have none');
  });

  t.test(`${name}: a key is stored by its hash, found, listed and disabled`, async (t) => {
    const store = await openStore(t, name);
    const { ledger } = store;
    await t.rejects(ledger.createKey(key('k1')), refusal('account-unknown'));
    await ledger.createAccount({ id: 'a' });
    const limits = { requestsPerMinute: 60, monthlySpend: '9000000000000000001' };
    const made = await ledger.createKey(key('k1', { label: 'laptop', limits, expiresMs: START_MS + 5 }));
    t.same(made, {
      ...key('k1'),
      label: 'laptop',
      limits,
      createdMs: START_MS,
      expiresMs: START_MS + 5,
      disabledMs: null,
      lineage: 'k1',
    });
    t.same(await ledger.findKey('hash-of-k1'), made);
    t.equal(await ledger.findKey('hash-of-k2'), undefined);
    t.same(await ledger.findKeyById('k1'), made);
    t.equal(await ledger.findKeyById('hash-of-k1'), undefined);
    await t.rejects(ledger.createKey(key('k1', { hash: 'other' })), refusal('key-taken'));
    await t.rejects(ledger.createKey(key('k2', { hash: 'hash-of-k1' })), refusal('key-taken'));
    store.pass(10);
    const stopped = await ledger.disableKey('k1');
    t.same(stopped, { ...made, disabledMs: START_MS + 10 });
    store.pass(10);
    t.same(await ledger.disableKey('k1'), stopped, 'stays stopped since then');
    await t.rejects(ledger.disableKey('k9'), refusal('key-unknown'));
    t.same(await ledger.listKeys(), [stopped]);
    t.same(await ledger.listKeys('b'), []);
  });

  t.test(`${name}: a rotated key passes its limits on and expires after the grace period`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.createKey(key('k1', { label: 'laptop', limits: { tokensPerMinute: 9 } }));
    const { created: next } = await ledger.rotateKey('k1', { id: 'k2', hash: 'h2', prefix: 'hr_cd' }, 1000);
    t.match(next, {
      id: 'k2',
      account: 'a',
      label: 'laptop',
      limits: { tokensPerMinute: 9 },
      expiresMs: null,
      lineage: 'k1',
    });
    t.match(await ledger.findKey('hash-of-k1'), { expiresMs: START_MS + 1000, disabledMs: null });
    t.match(await ledger.rotateKey('k2', { id: 'k3', hash: 'h3', prefix: '' }, 1000), { created: { lineage: 'k1' } });
    await t.rejects(ledger.rotateKey('k1', { id: 'k2', hash: 'h3', prefix: '' }, 0), refusal('key-taken'));
    await t.rejects(ledger.rotateKey('k9', { id: 'k4', hash: 'h4', prefix: '' }, 0), refusal('key-unknown'));
    await ledger.disableKey('k3');
    await t.rejects(ledger.rotateKey('k3', { id: 'k4', hash: 'h4', prefix: '' }, 0), refusal('key-disabled'));
    await ledger.rotateKey('k1', { id: 'k5', hash: 'h5', prefix: '' }, 5000);
    t.match(await ledger.findKey('hash-of-k1'), { expiresMs: START_MS + 1000 }, 'a later grace gives no more time');
  });

  t.test(`${name}: everything is there after closing and opening again`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    const waiting = ledger.grant({ id: '1', account: 'a', amount: 10n });
    await ledger.close();
    t.same(await waiting, { repeated: false, balance: 10n }, 'what waited was committed');
    await t.rejects(ledger.grant({ id: '2', account: 'a', amount: 10n }), refusal('closed'));
    const second = await again();
    t.same(await second.grant({ id: '1', account: 'a', amount: 10n }), { repeated: true, balance: 10n });
    t.match(await second.account('a'), { balance: 10n });
    t.match(await second.audit(), { sound: true, movements: 1n });
  });
}
