// The admin service over both stores.

import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { hashKey } from '../../src/billing/keys.ts';
import type { LedgerRefusal } from '../../src/billing/ledger/ledger.ts';
import { createAdminService, type AdminService } from '../../src/admin/admin-service.ts';
import { debit, openStore, START_MS, STORES, type TestStore, USAGE } from '../billing/ledger/stores.ts';

/** What a ledger's refusal looks like to a matcher. */
function refusal(name: LedgerRefusal): { refusal: LedgerRefusal; name: string } {
  return { name: 'LedgerError', refusal: name };
}

const HOUR_MS = 3_600_000;

interface Opened extends Pick<TestStore, 'ledger'> {
  readonly adminService: AdminService;
  readonly pass: (ms: number) => void;
}

async function open(t: Test, name: (typeof STORES)[number]): Promise<Opened> {
  const store = await openStore(t, name);
  let nowMs = START_MS;
  const adminService = createAdminService(store.ledger, { dateMs: () => nowMs, randomBytes });
  const pass = (ms: number): void => {
    nowMs += ms;
    store.pass(ms);
  };
  return { ledger: store.ledger, adminService, pass };
}

for (const name of STORES) {
  t.test(`${name}: a key is 256 random bits shown once; the store has its hash and prefix`, async (t) => {
    const { adminService, ledger } = await open(t, name);
    const made = await adminService.createKey({
      account: 'acme',
      label: 'ci',
      expires: '1d',
      rpm: 5,
      monthly: '25.00',
    });
    t.match(made.key, /^hr_[\w-]{43}$/);
    t.match(made, { account: 'acme', label: 'ci', state: 'active', rpm: 5, tpm: null, monthly_usd: '25.00' });
    t.equal(made.prefix, made.key.slice(0, 9));
    t.match(await ledger.findKey(hashKey(made.key)), {
      id: made.id,
      limits: { requestsPerMinute: 5, monthlySpend: '25000000000000' },
    });
    const { key, ...rest } = made;
    t.strictSame(await adminService.listKeys({ account: 'acme' }), [rest]);
    t.strictSame(await adminService.listKeys({ account: 'other' }), []);
    t.notMatch(JSON.stringify(await ledger.listKeys()), key);
    const second = await adminService.createKey({ account: 'acme' });
    t.not(second.key, key);
    t.match(await adminService.listAccounts(), [{ id: 'acme', balance_usd: '0.00' }], 'the account was made once');
  });

  t.test(
    `${name}: a rotated key stays valid for its grace period, its successor expires when it would have`,
    async (t) => {
      const { adminService, pass } = await open(t, name);
      const old = await adminService.createKey({ account: 'acme', label: 'ci', tpm: 9, expires: '3h' });
      const made = await adminService.rotateKey(old.id, { grace: '1h' });
      t.match(made, { account: 'acme', label: 'ci', tpm: 9, expires_at: old.expires_at, replaces: old.id });
      t.equal(made.replaced_until, new Date(START_MS + HOUR_MS).toISOString());
      t.not(made.key, old.key);
      pass(HOUR_MS);
      t.match(
        new Map((await adminService.listKeys({})).map(({ id, state }) => [id, state])),
        new Map([
          [old.id, 'expired'],
          [made.id, 'active'],
        ]),
      );
      await t.rejects(
        adminService.rotateKey(old.id, {}),
        { code: 'HR_REQUEST_INVALID' },
        'expired: when should it end?',
      );
      const { expires_at: end } = await adminService.rotateKey(old.id, { expires: '1h' });
      t.equal(end, new Date(START_MS + 2 * HOUR_MS).toISOString());
    },
  );

  t.test(
    `${name}: another successor of a key expires when the first one does, not with the grace period`,
    async (t) => {
      const { adminService, pass } = await open(t, name);
      const { id } = await adminService.createKey({ account: 'acme' });
      await adminService.rotateKey(id, { grace: '2h' });
      pass(HOUR_MS);
      t.match(await adminService.rotateKey(id, { grace: '2h' }), { expires_at: null });
      pass(1000);
      const end = new Date(START_MS + 9 * HOUR_MS + 1000).toISOString();
      t.match(await adminService.rotateKey(id, { expires: '8h' }), { expires_at: end });
      pass(1000);
      t.match(await adminService.rotateKey(id, {}), { expires_at: end }, 'the newest one');
      const young = await adminService.createKey({ account: 'acme' });
      pass(1000);
      const next = await adminService.rotateKey(young.id, { grace: '48h', expires: '1h' });
      pass(2 * HOUR_MS);
      t.match(await adminService.key(next.id), { state: 'expired' });
      await t.rejects(adminService.rotateKey(young.id, {}), refusal('date-invalid'), 'it would have expired at once');
    },
  );

  t.test(`${name}: a change of an account that is refused changes nothing`, async (t) => {
    const { adminService } = await open(t, name);
    await adminService.createAccount({ id: 'acme' });
    await adminService.createAccount({ id: 'org' });
    const change = { credit_limit: '5', organisation: 'acme', low_balance: '1' };
    await t.rejects(adminService.changeAccount('acme', change), refusal('account-nested'));
    t.match(await adminService.account('acme'), { credit_limit_usd: '0', organisation: null, low_balance_usd: null });
    await adminService.changeAccount('acme', { ...change, organisation: 'org' });
    t.match(await adminService.account('acme'), { credit_limit_usd: '5', organisation: 'org', low_balance_usd: '1' });
    for (const nothing of [null, 'none']) {
      await adminService.changeAccount('acme', { ...change, organisation: 'org' });
      const none = { credit_limit: nothing, organisation: nothing, low_balance: nothing };
      await adminService.changeAccount('acme', none);
      t.match(await adminService.account('acme'), { credit_limit_usd: '0', organisation: null, low_balance_usd: null });
    }
  });

  t.test(`${name}: a disabled key stays so and has no successor`, async (t) => {
    const { adminService } = await open(t, name);
    const { id } = await adminService.createKey({ account: 'acme' });
    t.match(await adminService.disableKey(id), {
      id,
      state: 'disabled',
      disabled_at: new Date(START_MS).toISOString(),
    });
    t.match(await adminService.disableKey(id), { state: 'disabled' });
    await t.rejects(adminService.rotateKey(id, {}), refusal('key-disabled'));
    t.equal((await adminService.listKeys({})).length, 1);
    await t.rejects(adminService.disableKey('key_none'), refusal('key-unknown'));
    await t.rejects(adminService.rotateKey('key_none', {}), refusal('key-unknown'));
  });

  t.test(`${name}: a grant counts once by its id, and only for an account that exists`, async (t) => {
    const { adminService } = await open(t, name);
    await t.rejects(adminService.grant('acme', { amount: '1' }), refusal('account-unknown'));
    await t.rejects(adminService.account('acme'), refusal('account-unknown'));
    await t.rejects(adminService.history('acme', {}), refusal('account-unknown'));
    t.match(await adminService.createAccount({ id: 'acme', label: 'Acme Ltd' }), { id: 'acme', label: 'Acme Ltd' });
    const fields = { amount: '25.0000375', id: 'invoice-1', memo: 'paid' };
    const all = await Promise.all([1, 2, 3].map(() => adminService.grant('acme', fields)));
    t.equal(all.filter(({ repeated }) => repeated).length, 2);
    t.match(all[0], { amount_usd: '25.0000375', amount_credits: '25000037.5' });
    await t.rejects(adminService.grant('acme', { ...fields, amount: '26' }), {
      ...refusal('id-reused'),
      message:
        "'grant:invoice-1' names a movement of 25.0000375 USD on account 'acme'; for another one take another id",
    });
    const first = await adminService.grant('acme', { amount: '1' });
    const second = await adminService.grant('acme', { amount: '1' });
    t.not(first.id, second.id, 'without an id each is another');
    t.match(await adminService.account('acme'), { balance_usd: '27.0000375', balance_credits: '27000037.5' });
  });

  t.test(
    `${name}: credit that has moved is answered with what its commit left, whatever comes behind it`,
    async (t) => {
      const { adminService, ledger } = await open(t, name);
      for (const id of ['acme', 'org']) await adminService.createAccount({ id });
      await adminService.changeAccount('acme', { organisation: 'org' });
      const account = (): Promise<never> => Promise.reject(new Error('the store is away'));
      const away = createAdminService({ ...ledger, account }, { dateMs: () => START_MS, randomBytes });
      t.match(await away.grant('acme', { amount: '3.00' }), { repeated: false, balance_usd: '3.00' });
      t.match(await away.adjust('acme', { amount: '-1.00', id: 'a' }), { repeated: false, balance_usd: '2.00' });
      t.match(await away.adjust('acme', { amount: '-1.00', id: 'a' }), { repeated: true, balance_usd: '2.00' });
      t.match(await away.refund('acme', { amount: '0.50' }), { repeated: false, balance_usd: '2.50' });
    },
  );

  t.test(`${name}: history pages backwards; usage sums; the audit is sound`, async (t) => {
    const { adminService, ledger, pass } = await open(t, name);
    const { id: key } = await adminService.createKey({ account: 'acme' });
    await adminService.grant('acme', { amount: '1', id: 'g' });
    await debit(ledger, 'acme', 'd1', 40_000_000n, { ...USAGE, key });
    pass(HOUR_MS);
    await debit(ledger, 'acme', 'd2', 2_000_000n, { ...USAGE, key, measured: false }, START_MS + HOUR_MS);
    const [newest, ...others] = await adminService.history('acme', { limit: 2 });
    t.match(newest, { amount_usd: '-0.000002', amount_credits: '-2', usage: { key, model: 'm', measured: false } });
    t.strictSame(
      (await adminService.history('acme', { before: others[0]?.seq })).map(({ kind }) => kind),
      ['grant'],
    );
    const rows = await adminService.usage({});
    t.match(rows, [
      { account: 'acme', key, model: 'm', day: '2026-03-31', requests: 1, estimated: 0, amount_usd: '0.00004' },
      { account: 'acme', key, model: 'm', day: '2026-04-01', requests: 1, estimated: 1, amount_usd: '0.000002' },
    ]);
    t.strictSame(await adminService.usage({ by: '', from: '2026-04-01' }), [
      {
        requests: 1,
        estimated: 1,
        input_tokens: 7,
        cached_tokens: 2,
        output_tokens: 5,
        amount_usd: '0.000002',
        amount_credits: '2',
      },
    ]);
    t.match(await adminService.audit(), { sound: true, sum_usd: '0.00', movements: 3, accounts: 1, problems: [] });
  });
}
