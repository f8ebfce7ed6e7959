// Grants that expire, adjustments, refunds, credit limits and organisations: one case at a time, and random sequences against a
// model that keeps every grant by itself.

import fc from 'fast-check';
import t from 'tap';
import { chargeId, chargeNumber } from '../../../src/billing/ledger/charges.ts';
import { type Ledger, type LedgerError, MAX_AMOUNT } from '../../../src/billing/ledger/ledger.ts';
import { charge, debit, openStore, START_MS, STORES, type TestStore, USAGE } from './stores.ts';
import { LONG } from '../../support/long.ts';

const HOUR_MS = 3_600_000;

const refusal = (name: LedgerError['refusal']): { name: string; refusal: string } => ({
  name: 'LedgerError',
  refusal: name,
});

const lease = (ledger: Ledger, id: string, account: string, amount: bigint): ReturnType<Ledger['lease']> =>
  ledger.lease({ id, account, amount, holder: 'x', ttlMs: 1000 * HOUR_MS });

/** The id of the movement of a charge. */
const chargeOf = (id: string): string => chargeId(START_MS, chargeNumber(id));

for (const name of STORES) {
  t.test(`${name}: an adjustment gives or takes credit once, never below the credit limit`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    const first = { id: '1', account: 'a', amount: 10n };
    t.same(await ledger.adjust({ ...first, memo: 'goodwill' }), { repeated: false, balance: 10n });
    t.same(await ledger.adjust(first), { repeated: true, balance: 10n });
    await t.rejects(ledger.adjust({ id: '1', account: 'a', amount: -10n }), refusal('id-reused'));
    await t.rejects(ledger.adjust({ id: '2', account: 'a', amount: -11n }), refusal('credit-short'));
    await t.rejects(ledger.adjust({ id: '2', account: 'a', amount: 0n }), refusal('amount-invalid'));
    await t.rejects(ledger.adjust({ id: '2', account: 'b', amount: 1n }), refusal('account-unknown'));
    await lease(ledger, 'l', 'a', 4n);
    await t.rejects(
      ledger.adjust({ id: '2', account: 'a', amount: -7n }),
      refusal('credit-short'),
      'credit on hold stays',
    );
    t.same(await ledger.adjust({ id: '2', account: 'a', amount: -6n }), { repeated: false, balance: 0n });
    t.match(await ledger.account('a'), { balance: 0n, held: 4n });
    await ledger.configureAccount('a', { creditLimit: 5n });
    await t.rejects(ledger.adjust({ id: '3', account: 'a', amount: -6n }), refusal('credit-short'));
    await ledger.adjust({ id: '3', account: 'a', amount: -5n });
    t.match(await ledger.account('a'), { balance: -5n, held: 4n, creditLimit: 5n });
    const both = await Promise.allSettled(
      [1, 2].map((at) => ledger.adjust({ id: `r${at}`, account: 'a', amount: -1n })),
    );
    t.same(
      both.map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    t.match(await ledger.history({ account: 'a' }), [{ kind: 'adjustment', amount: -5n }, {}, { memo: 'goodwill' }]);
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: two ledgers that take the last credit at once take it once`, async (t) => {
    const { ledger, again } = await openStore(t, name);
    const other = await again();
    await ledger.createAccount({ id: 'a' });
    await ledger.grant({ id: 'g', account: 'a', amount: 10n });
    const taken = await Promise.allSettled(
      Array.from({ length: 20 }, (_, at) =>
        (at % 2 === 0 ? ledger : other).adjust({ id: `${at}`, account: 'a', amount: -1n }),
      ),
    );
    t.equal(taken.filter(({ status }) => status === 'fulfilled').length, 10);
    t.match(await ledger.account('a'), { balance: 0n });
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: a charge is given back once, in parts up to what it was`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.createAccount({ id: 'b' });
    await ledger.grant({ id: 'g', account: 'a', amount: 100n });
    await lease(ledger, 'l', 'a', 50n);
    await charge(ledger, 'l', 'c', 30n, USAGE);
    const part = { id: '1', account: 'a', charges: [chargeOf('c')], amount: 10n };
    t.same(await ledger.refund(part), { repeated: false, amount: 10n, balance: 60n });
    t.same(await ledger.refund(part), { repeated: true, amount: 10n, balance: 60n });
    await t.rejects(
      ledger.refund({ id: '1', account: 'a', amount: 10n, charges: [chargeOf('d')] }),
      refusal('id-reused'),
    );
    await t.rejects(
      ledger.refund({ id: '2', account: 'a', charges: [chargeOf('c')], amount: 21n }),
      refusal('amount-invalid'),
    );
    await t.rejects(ledger.refund({ id: '2', account: 'b', charges: [chargeOf('c')] }), refusal('charge-unknown'));
    await t.rejects(ledger.refund({ id: '2', account: 'a', charges: ['grant:g'] }), refusal('charge-unknown'));
    const rest = { id: '2', account: 'a', charges: [chargeOf('c')] };
    t.same(await ledger.refund(rest), { repeated: false, amount: 20n, balance: 80n });
    t.same(await ledger.refund(rest), { repeated: true, amount: 20n, balance: 80n });
    await t.rejects(
      ledger.refund({ id: '3', account: 'a', charges: [chargeOf('c')] }),
      refusal('amount-invalid'),
      'nothing left',
    );
    await charge(ledger, 'l', 'e', 3n, USAGE);
    await charge(ledger, 'l', 'f', 4n, USAGE);
    const several = { account: 'a', charges: [chargeOf('c'), chargeOf('e'), chargeOf('f')] };
    await t.rejects(ledger.refund({ id: '4', ...several, amount: 8n }), refusal('amount-invalid'));
    t.same(await ledger.refund({ id: '4', ...several, amount: 5n }), { repeated: false, amount: 5n, balance: 85n });
    t.same(await ledger.refund({ id: '4', ...several, amount: 5n }), { repeated: true, amount: 5n, balance: 85n });
    const left = { repeated: false, amount: 2n, balance: 87n };
    t.same(await ledger.refund({ id: '5', ...several }), left, 'what is left of the last');
    await t.rejects(ledger.refund({ id: '6', account: 'a', charges: [chargeOf('e')] }), refusal('amount-invalid'));
    t.same(await ledger.refund({ id: 'sum', account: 'a', amount: 5n, memo: 'outage' }), {
      repeated: false,
      amount: 5n,
      balance: 92n,
    });
    t.match(await ledger.account('a'), { balance: 92n, held: 13n });
    t.match(await ledger.usage({ by: [] }), [{ amount: 37n }], 'usage stays what was used');
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: the unspent rest of a grant expires, what expires first is spent first`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    const grant = (id: string, amount: bigint, hours?: number): Promise<unknown> =>
      ledger.grant({ id, account: 'a', amount, ...(hours !== undefined && { expiresMs: START_MS + hours * HOUR_MS }) });
    await grant('bought', 100n);
    await grant('late', 30n, 2);
    await grant('soon', 20n, 1);
    await t.rejects(grant('past', 1n, 0), refusal('date-invalid'));
    await debit(ledger, 'a', 'c1', 25n, USAGE);
    t.match(await ledger.openGrants('a'), [{ id: 'late', amount: 30n, remaining: 25n }], 'the soon one is spent');
    await grant('sooner', 7n, 1);
    await debit(ledger, 'a', 'c2', 3n, USAGE);
    t.match(await ledger.openGrants('a'), [
      { id: 'sooner', remaining: 4n },
      { id: 'late', remaining: 25n },
    ]);
    await ledger.expire();
    t.match(await ledger.account('a'), { balance: 129n, expiring: 29n }, 'nothing has expired yet');
    pass(HOUR_MS);
    await ledger.expire();
    t.match(await ledger.account('a'), { balance: 125n, expiring: 25n });
    await lease(ledger, 'l', 'a', 120n);
    pass(HOUR_MS);
    await ledger.expire();
    t.match(
      await ledger.account('a'),
      { balance: 0n, held: 120n, expiring: 20n },
      'what is on hold may be spent still',
    );
    await charge(ledger, 'l', 'c3', 8n, USAGE);
    await ledger.release('l');
    await ledger.expire();
    t.match(await ledger.account('a'), { balance: 100n, held: 0n, expiring: 0n }, 'what was bought is left');
    await ledger.expire();
    t.match(await ledger.account('a'), { balance: 100n });
    t.same(await ledger.openGrants('a'), []);
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: an expiring grant pays the debt of its account first`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    await debit(ledger, 'a', 'c', 30n, USAGE);
    await ledger.grant({ id: 'g', account: 'a', amount: 50n, expiresMs: START_MS + HOUR_MS });
    t.match(await ledger.openGrants('a'), [{ remaining: 20n }]);
    await ledger.grant({ id: 'h', account: 'a', amount: 5n, expiresMs: START_MS + HOUR_MS });
    pass(HOUR_MS);
    await ledger.expire();
    t.match(await ledger.account('a'), { balance: 0n, expiring: 0n });
  });

  t.test(`${name}: holds and leases go below zero down to the credit limit`, async (t) => {
    const { ledger } = await openStore(t, name);
    await ledger.createAccount({ id: 'a' });
    await ledger.configureAccount('a', { creditLimit: 100n });
    await ledger.grant({ id: 'g', account: 'a', amount: 10n });
    t.match(await lease(ledger, 'l', 'a', 60n), { kind: 'held', amount: 60n });
    t.match(await ledger.extend('l', 1, 20n), { kind: 'held', amount: 20n });
    t.match(await lease(ledger, 'm', 'a', 60n), { kind: 'held', amount: 30n }, 'what is left of the limit');
    t.match(await lease(ledger, 'n', 'a', 1n), { kind: 'short', balance: 0n });
    t.match(await ledger.account('a'), { balance: -100n, held: 110n });
    await ledger.configureAccount('a', { creditLimit: 0n });
    t.match(await lease(ledger, 'n', 'a', 1n), { kind: 'short', balance: -100n }, 'what is out stays out');
    await t.rejects(ledger.configureAccount('a', { creditLimit: -1n }), refusal('amount-invalid'));
    await t.rejects(ledger.configureAccount('nobody', { creditLimit: 1n }), refusal('account-unknown'));
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: an account takes no more than fits with what is on hold, which comes back to it`, async (t) => {
    const { ledger, pass } = await openStore(t, name);
    for (const id of ['a', 'b']) await ledger.createAccount({ id });
    const grant = (id: string): Promise<unknown> => ledger.grant({ id, account: 'a', amount: MAX_AMOUNT });
    for (let at = 0; at < 7; at++) await grant(`${at}`);
    await ledger.grant({ id: 'b', account: 'b', amount: 10n });
    for (const [account, amount] of [
      ['a', MAX_AMOUNT],
      ['b', 10n],
    ] as const)
      await ledger.lease({ id: account, account, amount, holder: 'x', ttlMs: 0 });
    await t.rejects(grant('7'), refusal('balance-overflow'));
    pass(1);
    t.equal(await ledger.expire(), 2);
    t.match(await ledger.account('a'), { balance: 7n * MAX_AMOUNT, held: 0n });
    t.match(await ledger.account('b'), { balance: 10n, held: 0n });
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: members spend the credit of their organisation, usage stays theirs`, async (t) => {
    const { ledger } = await openStore(t, name);
    for (const id of ['org', 'a', 'b', 'c']) await ledger.createAccount({ id });
    await ledger.grant({ id: 'own', account: 'a', amount: 5n });
    await ledger.configureAccount('a', { organisation: 'org' });
    await ledger.configureAccount('b', { organisation: 'org' });
    for (const [member, parent] of [
      ['c', 'a'],
      ['org', 'c'],
      ['org', 'org'],
    ] as const) {
      await t.rejects(
        ledger.configureAccount(member, { organisation: parent }),
        refusal('account-nested'),
        `${member} in ${parent}`,
      );
    }
    await t.rejects(ledger.configureAccount('c', { organisation: 'nobody' }), refusal('account-unknown'));
    await ledger.grant({ id: 'g', account: 'b', amount: 100n });
    t.match(await lease(ledger, 'l', 'a', 40n), { kind: 'held', amount: 40n });
    t.match(await lease(ledger, 'l', 'a', 40n), { kind: 'held', repeated: true });
    await charge(ledger, 'l', 'c1', 10n, USAGE);
    await debit(ledger, 'b', 'c2', 20n, USAGE);
    t.match(await ledger.account('org'), { balance: 40n, held: 30n });
    t.match(await ledger.account('a'), { balance: 5n, held: 0n, organisation: 'org' }, 'its own credit waits');
    t.match(await ledger.usage({ by: ['account'] }), [
      { account: 'a', amount: 10n },
      { account: 'b', amount: 20n },
    ]);
    t.match(await ledger.refund({ id: 'r', account: 'b', charges: [chargeOf('c2')] }), { amount: 20n });
    await ledger.configureAccount('a', { organisation: null });
    t.match(await lease(ledger, 'm', 'a', 40n), { kind: 'held', amount: 5n });
    await charge(ledger, 'l', 'c3', 1n, USAGE);
    t.match(await ledger.account('org'), { balance: 60n, held: 29n }, 'a lease stays with who gave it');
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: what an organisation has paid is given back to no account that has left it`, async (t) => {
    const { ledger } = await openStore(t, name);
    for (const id of ['org', 'other', 'a', 'b']) await ledger.createAccount({ id });
    for (const id of ['a', 'b']) await ledger.configureAccount(id, { organisation: 'org' });
    for (const id of ['c', 'd']) await debit(ledger, 'a', id, 10n, USAGE);
    for (const organisation of [null, 'other']) {
      await ledger.configureAccount('a', { organisation });
      const refund = ledger.refund({ id: 'r', account: 'a', charges: [chargeOf('c')] });
      await t.rejects(refund, refusal('charge-unknown'), `${organisation}`);
    }
    t.match(await ledger.refund({ id: 'r', account: 'org', charges: [chargeOf('c')] }), { amount: 10n });
    t.match(await ledger.refund({ id: 's', account: 'b', charges: [chargeOf('d')] }), { amount: 10n });
    t.match(await Promise.all(['org', 'other', 'a'].map((id) => ledger.account(id))), [
      { balance: 0n },
      { balance: 0n },
      { balance: 0n },
    ]);
    t.match(await ledger.audit(), { sound: true, problems: [] });
  });

  t.test(`${name}: a charge is not repeated when its account has joined an organisation meanwhile`, async (t) => {
    const { ledger } = await openStore(t, name);
    for (const id of ['org', 'a']) await ledger.createAccount({ id });
    t.match(await debit(ledger, 'a', 'c', 10n, USAGE), { repeated: false });
    await ledger.configureAccount('a', { organisation: 'org' });
    t.match(await debit(ledger, 'a', 'c', 10n, USAGE), { repeated: true });
    t.match(await ledger.account('a'), { balance: -10n });
    t.match(await ledger.account('org'), { balance: 0n });
    t.match(await ledger.refund({ id: 'r', account: 'a', charges: [chargeOf('c')] }), { amount: 10n });
  });

  t.test(
    `${name}: a charge is not repeated when its account has left or changed its organisation meanwhile`,
    async (t) => {
      const { ledger } = await openStore(t, name);
      for (const id of ['org', 'other', 'a']) await ledger.createAccount({ id });
      await ledger.configureAccount('a', { organisation: 'org' });
      t.match(await debit(ledger, 'a', 'c', 10n, USAGE), { repeated: false });
      for (const organisation of [null, 'other']) {
        await ledger.configureAccount('a', { organisation });
        t.match(await debit(ledger, 'a', 'c', 10n, USAGE), { repeated: true }, `${organisation}`);
      }
      t.match(await debit(ledger, 'a', 'd', 5n, USAGE), { repeated: false });
      t.match(await Promise.all(['a', 'org', 'other'].map((id) => ledger.account(id))), [
        { balance: 0n },
        { balance: -10n },
        { balance: -5n },
      ]);
      t.match(await ledger.audit(), { sound: true });
    },
  );
}

interface ModelGrant {
  readonly id: string;
  remaining: bigint;
  readonly expiresH: number;
}

/** One account by plain arithmetic, every grant by itself. Answers with `refused` when nothing may move. */
class Model {
  free = 0n;
  held = 0n;
  limit = 0n;
  hour = 0;
  grants: ModelGrant[] = [];
  readonly ids = new Map<string, string>();
  readonly leases = new Map<string, { left: bigint; open: boolean }>();
  readonly charges = new Map<string, bigint>();
  readonly refunds = new Map<string, { readonly charge: string | null; readonly amount: bigint }>();

  once(id: string, content: string, move: () => string): string {
    const known = this.ids.get(id);
    if (known !== undefined) return known === content ? 'repeated' : 'refused';
    const word = move();
    if (word !== 'refused') this.ids.set(id, content);
    return word;
  }

  /** Takes spent credit off the grants, what expires first. */
  spend(amount: bigint): void {
    for (const grant of this.grants) {
      const taken = amount < grant.remaining ? amount : grant.remaining;
      grant.remaining -= taken;
      amount -= taken;
    }
  }

  apply(step: Step): string {
    switch (step.kind) {
      case 'grant':
        return this.once(`grant ${step.id}`, `${step.amount}`, () => this.#grant(step));
      case 'adjust':
        return this.once(`adjust ${step.id}`, `${step.amount}`, () => {
          if (step.amount < 0n && this.free + this.limit < -step.amount) return 'refused';
          this.free += step.amount;
          if (step.amount < 0n) this.spend(-step.amount);
          return 'new';
        });
      case 'refund':
        return this.#refundOnce(step);
      case 'limit':
        this.limit = step.amount;
        return 'new';
      case 'lease': {
        if (this.leases.has(step.id)) return 'again';
        const all = this.free + this.limit;
        const amount = all < step.amount ? all : step.amount;
        if (amount <= 0n) return 'short';
        this.free -= amount;
        this.held += amount;
        this.leases.set(step.id, { left: amount, open: true });
        return `held ${amount}`;
      }
      case 'charge': {
        const hold = this.leases.get(step.lease);
        return this.once(`charge ${step.id}`, `${step.amount}`, () => {
          const left = hold?.open === true ? hold.left : 0n;
          const fromHold = step.amount < left ? step.amount : left;
          if (hold !== undefined) hold.left -= fromHold;
          this.held -= fromHold;
          this.free -= step.amount - fromHold;
          this.spend(step.amount);
          this.charges.set(`c${step.id}`, step.amount);
          return 'new';
        });
      }
      case 'release': {
        const hold = this.leases.get(step.id);
        if (hold === undefined) return 'refused';
        if (!hold.open) return 'false';
        hold.open = false;
        this.free += hold.left;
        this.held -= hold.left;
        return 'true';
      }
      case 'pass':
        this.hour += step.hours;
        for (const grant of this.grants) {
          const taken = this.free < grant.remaining ? this.free : grant.remaining;
          if (grant.expiresH > this.hour || taken <= 0n) continue;
          grant.remaining -= taken;
          this.free -= taken;
        }
        return 'new';
    }
  }

  #grant({ amount, expiresH, id }: Extract<Step, { kind: 'grant' }>): string {
    if (expiresH !== null && this.hour + expiresH <= this.hour) return 'refused';
    if (expiresH !== null) {
      let own = this.free + this.held;
      for (const { remaining } of this.grants) own -= remaining;
      const debt = own < 0n ? -own : 0n;
      this.grants.push({ id, remaining: amount > debt ? amount - debt : 0n, expiresH: this.hour + expiresH });
      this.grants.sort((a, b) => a.expiresH - b.expiresH || (a.id < b.id ? -1 : 1));
    }
    this.free += amount;
    return 'new';
  }

  /** A repeat names the same charge, or the sum that was given back. */
  #refundOnce({ amount, charge, id }: Extract<Step, { kind: 'refund' }>): string {
    const known = this.refunds.get(id);
    if (known !== undefined) {
      const same = charge === null ? known.amount === amount : known.charge === charge;
      return same ? 'repeated' : 'refused';
    }
    const sum = charge === null ? amount : (this.charges.get(charge) ?? 0n);
    if (sum <= 0n) return 'refused';
    if (charge !== null) this.charges.set(charge, 0n);
    this.refunds.set(id, { charge, amount: sum });
    this.free += sum;
    return 'new';
  }
}

type Step =
  | { readonly kind: 'grant'; readonly id: string; readonly amount: bigint; readonly expiresH: number | null }
  | { readonly kind: 'adjust'; readonly id: string; readonly amount: bigint }
  | { readonly kind: 'refund'; readonly id: string; readonly charge: string | null; readonly amount: bigint }
  | { readonly kind: 'limit'; readonly amount: bigint }
  | { readonly kind: 'lease'; readonly id: string; readonly amount: bigint }
  | { readonly kind: 'charge'; readonly lease: string; readonly id: string; readonly amount: bigint }
  | { readonly kind: 'release'; readonly id: string }
  | { readonly kind: 'pass'; readonly hours: number };

// Few names and amounts, so that repeats and ids that were used for something else come about often.
const id = fc.constantFrom('1', '2', '3', '4');
const amount = fc.constantFrom(1n, 7n, 40n);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('grant' as const), id, amount, expiresH: fc.constantFrom(null, 1, 2, 3, 5) }),
  fc.record({ kind: fc.constant('adjust' as const), id, amount: fc.constantFrom(5n, -1n, -7n, -40n) }),
  fc.record({ kind: fc.constant('refund' as const), id, charge: fc.constantFrom(null, 'c1', 'c2'), amount }),
  fc.record({ kind: fc.constant('limit' as const), amount: fc.constantFrom(0n, 10n) }),
  fc.record({ kind: fc.constant('lease' as const), id, amount }),
  fc.record({ kind: fc.constant('charge' as const), lease: id, id, amount }),
  fc.record({ kind: fc.constant('release' as const), id }),
  fc.record({ kind: fc.constant('pass' as const), hours: fc.constantFrom(1, 2) }),
);

async function run({ ledger, pass }: TestStore, step: Step, own: string, member: string): Promise<string> {
  const word = ({ repeated }: { repeated: boolean }): string => (repeated ? 'repeated' : 'new');
  const name = (id: string): string => `${own} ${id}`;
  switch (step.kind) {
    case 'grant': {
      const expires = step.expiresH === null ? {} : { expiresMs: hourMs + step.expiresH * HOUR_MS };
      return word(await ledger.grant({ id: name(step.id), account: member, amount: step.amount, ...expires }));
    }
    case 'adjust':
      return word(await ledger.adjust({ id: name(step.id), account: member, amount: step.amount }));
    case 'refund': {
      const what = step.charge === null ? { amount: step.amount } : { charges: [chargeOf(name(step.charge))] };
      return word(await ledger.refund({ id: name(step.id), account: member, ...what }));
    }
    case 'limit':
      await ledger.configureAccount(own, { creditLimit: step.amount });
      return 'new';
    case 'lease': {
      const answer = await lease(ledger, name(step.id), member, step.amount);
      return answer.kind === 'short' ? 'short' : answer.repeated ? 'again' : `held ${answer.amount}`;
    }
    case 'charge':
      return word(await charge(ledger, name(step.lease), name(`c${step.id}`), step.amount, USAGE, { account: member }));
    case 'release':
      return `${await ledger.release(name(step.id))}`;
    case 'pass':
      pass(step.hours * HOUR_MS);
      hourMs += step.hours * HOUR_MS;
      await ledger.expire();
      return 'new';
  }
}

let hourMs = START_MS;

for (const name of STORES) {
  t.test(`${name}: any sequence of grants, adjustments, refunds and expiry ends as in the model`, async (t) => {
    const store = await openStore(t, name);
    const { ledger } = store;
    hourMs = START_MS;
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), fc.boolean(), async (steps, together) => {
        const own = `run-${runs++}`;
        const member = `${own} member`;
        await ledger.createAccount({ id: own });
        await ledger.createAccount({ id: member });
        await ledger.configureAccount(member, { organisation: own });
        const model = new Model();
        const startMs = hourMs;
        let waiting: Promise<string>[] = [];
        const got: string[] = [];
        for (const each of steps) {
          // Those that are not group commands, and the date, stand between the commits.
          const alone = !together || each.kind === 'pass' || each.kind === 'limit';
          if (alone) {
            got.push(...(await Promise.all(waiting)));
            waiting = [];
          }
          const answer = run(store, each, own, member).catch((error: LedgerError) => {
            if (error.name === 'LedgerError') return 'refused';
            throw error;
          });
          if (alone) got.push(await answer);
          else waiting.push(answer);
        }
        got.push(...(await Promise.all(waiting)));
        const wanted = steps.map((each) => model.apply(each));
        const same = got.map((word, at) => (wanted[at] === 'again' && word === 'refused' ? 'again' : word));
        t.equal(startMs + model.hour * HOUR_MS, hourMs);
        if (JSON.stringify(same) !== JSON.stringify(wanted)) throw new Error(`${same} is not ${wanted}`);
        const account = await ledger.account(own);
        if (account?.balance !== model.free || account.held !== model.held) {
          throw new Error(`${account?.balance} + ${account?.held} is not ${model.free} + ${model.held}`);
        }
        const left = model.grants.filter(({ remaining }) => remaining > 0n);
        const print = (rows: readonly { id: string; remaining: bigint }[]): string =>
          rows.map(({ id, remaining }) => `${id.split(' ').at(-1)}:${remaining}`).join();
        const grants = print(await ledger.openGrants(own));
        if (grants !== print(left)) throw new Error(`the grants are ${grants}, not ${print(left)}`);
      }),
      { numRuns: (LONG ? 5 : 2) * (name === 'sqlite' ? 40 : 8), endOnFailure: true },
    );
    t.match(await ledger.audit(), { sound: true, sum: 0n, problems: [] });
  });
}
