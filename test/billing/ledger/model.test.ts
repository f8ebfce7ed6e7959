// Random sequences of operations against a model of a few lines: answers and balances are those of the model, and the audit
// is sound.

import fc from 'fast-check';
import t from 'tap';
import type { Ledger } from '../../../src/billing/ledger/ledger.ts';
import { charge, openStore, STORES, USAGE } from './stores.ts';

interface ModelHold {
  readonly lease: boolean;
  readonly account: string;
  left: bigint;
  open: boolean;
}

/** Balances by plain arithmetic; every operation answers with a word, `refused` when it must not move anything. */
class Model {
  readonly balance = new Map<string, bigint>();
  readonly holds = new Map<string, ModelHold>();
  readonly done = new Map<string, string>();
  /** For whom an account has paid a charge. */
  readonly members = new Map<string, string>();
  income = 0n;

  add(account: string, amount: bigint): void {
    this.balance.set(account, (this.balance.get(account) ?? 0n) + amount);
  }

  once(id: string, content: string): 'new' | 'repeated' | 'refused' {
    const known = this.done.get(id);
    if (known !== undefined) return known === content ? 'repeated' : 'refused';
    this.done.set(id, content);
    return 'new';
  }

  grant(id: string, account: string, amount: bigint): string {
    const state = this.once(`grant ${id}`, `${account} ${amount}`);
    if (state === 'new') this.add(account, amount);
    return state;
  }

  hold(id: string, lease: boolean, account: string, asked: bigint): string {
    const known = this.holds.get(id);
    if (known !== undefined) return 'again';
    const balance = this.balance.get(account) ?? 0n;
    const amount = lease && balance < asked ? balance : asked;
    if (balance < amount || (lease && amount <= 0n)) return 'short';
    this.add(account, -amount);
    this.holds.set(id, { lease, account, left: amount, open: true });
    return `held ${amount}`;
  }

  settle(holdId: string, amount: bigint): string {
    const hold = this.holds.get(holdId);
    if (hold === undefined || hold.lease) return 'refused';
    const state = this.once(`settle ${holdId}`, `${amount}`);
    if (state !== 'new') return state;
    this.income += amount;
    const late = !hold.open;
    this.release(holdId);
    this.add(hold.account, -amount);
    return late ? 'late' : 'new';
  }

  charge(lease: string, account: string, id: string, amount: bigint): string {
    const hold = this.holds.get(lease);
    // Who gave the lease pays; a charge that the account itself has paid, or another one for it, is not charged again.
    const payer = hold?.lease === true ? hold.account : account;
    const others =
      hold?.lease === true ? [] : ['a', 'b'].filter((each) => this.members.get(`${each} ${id}`) === account);
    const known = [payer, account, ...others].find((each) => this.done.has(`charge ${each} ${id}`)) ?? payer;
    if (known === payer && !this.done.has(`charge ${payer} ${id}`)) this.members.set(`${payer} ${id}`, account);
    const state = this.once(`charge ${known} ${id}`, `${amount}`);
    if (state !== 'new') return state;
    this.income += amount;
    const pays = hold?.lease === true && hold.open ? hold : undefined;
    const fromHold = pays === undefined ? 0n : amount < pays.left ? amount : pays.left;
    if (pays !== undefined) pays.left -= fromHold;
    this.add(payer, fromHold - amount);
    return pays === undefined ? 'late' : 'new';
  }

  release(id: string): string {
    const hold = this.holds.get(id);
    if (hold === undefined) return 'refused';
    if (!hold.open) return 'false';
    hold.open = false;
    this.add(hold.account, hold.left);
    return 'true';
  }
}

type Step =
  | { readonly kind: 'grant'; readonly id: string; readonly account: string; readonly amount: bigint }
  | { readonly kind: 'hold' | 'lease'; readonly id: string; readonly account: string; readonly amount: bigint }
  | { readonly kind: 'settle'; readonly hold: string; readonly amount: bigint }
  | {
      readonly kind: 'charge';
      readonly hold: string;
      readonly account: string;
      readonly id: string;
      readonly amount: bigint;
    }
  | { readonly kind: 'release'; readonly id: string };

// Few names and amounts: repeats, charges after the end and ids used for something else must come about often.
const id = fc.constantFrom('1', '2', '3');
const account = fc.constantFrom('a', 'b');
const amount = fc.constantFrom(1n, 40n);
const large = fc.constantFrom(100n, 300n);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('grant' as const), id, account, amount: large }),
  fc.record({ kind: fc.constantFrom('hold' as const, 'lease' as const), id, account, amount }),
  fc.record({ kind: fc.constant('settle' as const), hold: id, amount }),
  fc.record({ kind: fc.constant('charge' as const), hold: id, account, id, amount }),
  fc.record({ kind: fc.constant('release' as const), id }),
);

function expected(model: Model, step: Step): string {
  switch (step.kind) {
    case 'grant':
      return model.grant(step.id, step.account, step.amount);
    case 'hold':
    case 'lease':
      return model.hold(step.id, step.kind === 'lease', step.account, step.amount);
    case 'settle':
      return model.settle(step.hold, step.amount);
    case 'charge':
      return model.charge(step.hold, step.account, step.id, step.amount);
    case 'release':
      return model.release(step.id);
  }
}

async function run(ledger: Ledger, step: Step, run: string): Promise<string> {
  const own = (name: string): string => `${run} ${name}`;
  const settled = (answer: { late: boolean; repeated: boolean }): string =>
    answer.repeated ? 'repeated' : answer.late ? 'late' : 'new';
  switch (step.kind) {
    case 'grant': {
      const { repeated } = await ledger.grant({ ...step, id: own(step.id), account: own(step.account) });
      return repeated ? 'repeated' : 'new';
    }
    case 'hold':
    case 'lease': {
      const { amount } = step;
      const request = { id: own(step.id), account: own(step.account), amount, holder: 'x', ttlMs: 1000 };
      const answer = await ledger[step.kind](request);
      return answer.kind === 'short' ? 'short' : answer.repeated ? 'again' : `held ${answer.amount}`;
    }
    case 'settle':
      return settled(await ledger.settle(own(step.hold), step.amount, USAGE));
    case 'charge':
      return settled(
        await charge(ledger, own(step.hold), own(step.id), step.amount, USAGE, { account: own(step.account) }),
      );
    case 'release':
      return `${await ledger.release(own(step.id))}`;
  }
}

/** An account that another one pays for has a charge with the number of a charge of that one. */
const SAME_NUMBER: readonly Step[] = [
  { kind: 'grant', id: '1', account: 'b', amount: 100n },
  { kind: 'lease', id: '1', account: 'b', amount: 1n },
  { kind: 'charge', hold: '2', account: 'b', id: '2', amount: 40n },
  { kind: 'charge', hold: '1', account: 'a', id: '3', amount: 40n },
  { kind: 'charge', hold: '3', account: 'a', id: '2', amount: 1n },
  { kind: 'charge', hold: '3', account: 'a', id: '2', amount: 1n },
];

for (const name of STORES) {
  t.test(`${name}: any sequence of operations ends as in the model, alone or many in one commit`, async (t) => {
    const { ledger } = await openStore(t, name);
    let runs = 0;
    let income = 0n;
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60 }), fc.boolean(), async (steps, together) => {
        const model = new Model();
        const own = `run-${runs++}`;
        for (const each of ['a', 'b']) await ledger.createAccount({ id: `${own} ${each}` });
        const wanted = steps.map((each) => expected(model, each));
        const start = (each: Step): Promise<string> => run(ledger, each, own).catch(() => 'refused');
        const got: string[] = [];
        if (together) got.push(...(await Promise.all(steps.map(start))));
        else for (const each of steps) got.push(await start(each));
        // A hold that is asked for again is known or refused, as its state and amount are.
        const same = got.map((word, at) => (wanted[at] === 'again' && word === 'refused' ? 'again' : word));
        income += model.income;
        if (JSON.stringify(same) !== JSON.stringify(wanted)) throw new Error(`${same} is not ${wanted}`);
        for (const each of ['a', 'b']) {
          const balance = (await ledger.account(`${own} ${each}`))?.balance;
          if (balance !== (model.balance.get(each) ?? 0n)) throw new Error(`${balance} is not the balance of ${each}`);
        }
      }),
      {
        ...{ numRuns: name === 'sqlite' ? 150 : 25, endOnFailure: true },
        examples: [
          [[...SAME_NUMBER], false],
          [[...SAME_NUMBER], true],
        ],
      },
    );
    t.match(await ledger.audit(), { sound: true, sum: 0n, problems: [] });
    t.match(await ledger.usage({ by: [] }), [{ amount: income }]);
  });
}
