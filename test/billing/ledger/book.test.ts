import t from 'tap';
import { Book } from '../../../src/billing/ledger/book.ts';
import { paymentId } from '../../../src/billing/ledger/commands.ts';
import type { Row, Session, Write } from '../../../src/billing/ledger/database.ts';
import { INSERT_ENTRIES, UPDATE_ACCOUNTS } from '../../../src/billing/ledger/tables.ts';

const MONEY = { balance: 10n, held: 3n, organisation: null, creditLimit: 0n, lowBalance: null, expiring: 0n };
const ACCOUNT = { id: 'a:b', label: '', createdMs: 0, ...MONEY };

function bookOf(): Book {
  const rows = { holds: [], payments: [], grants: [], refunds: [] };
  return new Book(0, null, { accounts: [ACCOUNT], movements: new Map(), ...rows });
}

/** What saving the book writes, by statement. */
async function saved(book: Book): Promise<Map<Write, readonly Row[]>> {
  const writes = new Map<Write, readonly Row[]>();
  const session: Session = {
    holdsWriteLock: true,
    all: async () => [],
    find: async () => [],
    write: async (write, rows) => void writes.set(write, rows),
    nextMovements: async (count) => Array.from({ length: count }, (_, at) => BigInt(at + 1)),
    notify: async () => undefined,
  };
  await book.save(session);
  return writes;
}

t.test('a movement changes its account and gets one entry for each part that changes', async (t) => {
  const book = bookOf();
  const operator = [{ account: 'revenue', amount: 5n }];
  book.post({ id: 'm', kind: 'settle', account: 'a:b', balance: -7n, held: 2n, operator });
  t.match(book.account('a:b'), { balance: 3n, held: 5n });
  t.same(book.movement('m'), { account: 'a:b', amount: -5n });
  const writes = await saved(book);
  t.same(writes.get(INSERT_ENTRIES), [
    { movement: 1n, account: 'customer:a:b', amount: -7n },
    { movement: 1n, account: 'held:a:b', amount: 2n },
    { movement: 1n, account: 'revenue', amount: 5n },
  ]);
  t.match(writes.get(UPDATE_ACCOUNTS), [{ id: 'a:b', balance: 3n, held: 5n }]);
});

t.test('nothing is written for amounts of zero, and nothing for tables that did not change', async (t) => {
  const book = bookOf();
  book.post({ id: 'm', kind: 'settle', account: 'a:b', operator: [{ account: 'revenue', amount: 0n }] });
  const writes = await saved(book);
  t.equal(writes.size, 1, 'the movement alone');
  t.equal((await saved(bookOf())).size, 0);
});

t.test('entries that do not add up to zero are refused', async (t) => {
  const book = bookOf();
  t.throws(() => book.post({ id: 'm', kind: 'grant', account: 'a:b', balance: 1n }), /movement 'm' add up to 1/);
  t.match(book.account('a:b'), { balance: 10n });
});

t.test('a movement that exceeds 64 bits changes nothing', async (t) => {
  const book = bookOf();
  const amount = 2n ** 63n;
  const operator = [{ account: 'source:grant', amount: -amount }];
  t.throws(() => book.post({ id: 'm', kind: 'grant', account: 'a:b', balance: amount, operator }), /exceeds 64 bits/);
  t.match(book.account('a:b'), { balance: 10n });
  t.equal(book.movement('m'), undefined);
});

t.test('payments are told apart by network, asset, payer and nonce', async (t) => {
  const key = { network: 'base', asset: '0xA', payer: '0xB', nonce: '0xC' };
  t.equal(paymentId(key), paymentId({ ...key, nonce: '0xc' }));
  for (const part of Object.keys(key)) t.not(paymentId(key), paymentId({ ...key, [part]: 'other' }), part);
});
