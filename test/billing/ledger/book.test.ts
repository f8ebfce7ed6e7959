import t from 'tap';
import { Book } from '../../../src/billing/ledger/book.ts';
import { paymentId } from '../../../src/billing/ledger/commands.ts';
import type { Row, Session, Write } from '../../../src/billing/ledger/database.ts';
import { chargeStatements, INSERT_MOVEMENTS, UPDATE_ACCOUNTS } from '../../../src/billing/ledger/tables.ts';
import { USAGE } from './stores.ts';

const MONEY = { balance: 10n, held: 3n, organisation: null, creditLimit: 0n, lowBalance: null, expiring: 0n };
const ACCOUNT = { id: 'a:b', label: '', createdMs: 0, ...MONEY };

function bookOf(): Book {
  const numbers = new Map(['a:b', USAGE.key as string, USAGE.model].map((name, at) => [name, BigInt(at + 1)]));
  const none = { holds: [], payments: [], grants: [], refunds: [], movements: new Map() };
  return new Book(0, null, { ...none, accounts: [ACCOUNT], numbers, clockMs: 0, blocked: new Set() });
}

/** What saving the book writes, by statement. */
async function saved(book: Book): Promise<Map<Write, readonly Row[]>> {
  const writes = new Map<Write, readonly Row[]>();
  const session: Session = {
    holdsWriteLock: true,
    all: async () => [],
    find: async () => [],
    match: async () => [],
    write: async (write, rows) => void writes.set(write, rows),
    clockMs: async () => 0,
    notify: async () => undefined,
  };
  await book.save(session);
  return writes;
}

t.test('a charge takes from what is held and from the balance, and is one row of its month', async (t) => {
  const book = bookOf();
  const charge = { number: 9n, account: 'a:b', payer: 'a:b', amount: 5n, usage: USAGE, dateMs: Date.UTC(2026, 1, 28) };
  book.charge(charge, 3n);
  t.match(book.account('a:b'), { balance: 8n, held: 0n });
  t.equal(book.knownCharge(charge), 5n);
  t.equal(book.knownCharge({ ...charge, number: 8n }), undefined);
  const writes = await saved(book);
  t.match(writes.get(chargeStatements('2026_02').insert), [
    { account: 1n, member: 0n, key: 2n, model: 3n, amount: 5n },
  ]);
  t.match(writes.get(UPDATE_ACCOUNTS), [{ id: 'a:b', balance: 8n, held: 0n }]);
});

t.test('credit is one row with the account of the operator that it came from', async (t) => {
  const book = bookOf();
  book.post({ id: 'm', kind: 'grant', account: 'a:b', counter: 'source:grant', amount: 7n });
  t.same(book.movement('m'), { account: 'a:b', amount: 7n });
  t.match((await saved(book)).get(INSERT_MOVEMENTS), [{ account: 'a:b', counter: 'source:grant', amount: 7n }]);
});

t.test('a charge of zero changes no account, and nothing is written for tables that did not change', async (t) => {
  const book = bookOf();
  book.charge({ number: 9n, account: 'a:b', payer: 'a:b', amount: 0n, usage: USAGE, dateMs: 0 });
  t.equal((await saved(book)).get(UPDATE_ACCOUNTS), undefined);
  t.equal((await saved(bookOf())).size, 0);
});

t.test('a movement that exceeds 64 bits changes nothing', async (t) => {
  const book = bookOf();
  const movement = { id: 'm', kind: 'grant', account: 'a:b', counter: 'source:grant', amount: 2n ** 63n } as const;
  t.throws(() => book.post(movement), /exceeds 64 bits/);
  t.match(book.account('a:b'), { balance: 10n });
  t.equal(book.movement('m'), undefined);
});

t.test('payments are told apart by network, asset, payer and nonce', async (t) => {
  const key = { network: 'base', asset: '0xA', payer: '0xB', nonce: '0xC' };
  t.equal(paymentId(key), paymentId({ ...key, nonce: '0xc' }));
  for (const part of Object.keys(key)) t.not(paymentId(key), paymentId({ ...key, [part]: 'other' }), part);
});
