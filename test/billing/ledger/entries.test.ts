import fc from 'fast-check';
import t from 'tap';
import { balanced, carry, partOf, paymentId, setAside, spendable } from '../../../src/billing/ledger/entries.ts';

t.test('carrying gives two entries that balance, and none for nothing', async (t) => {
  t.same(carry('x', 'y', 5n), [
    { account: 'x', amount: -5n },
    { account: 'y', amount: 5n },
  ]);
  t.same(carry('x', 'y', 0n), []);
});

t.test('entries of one account become one, and zeros are left out', async (t) => {
  const entries = [...carry('x', 'y', 5n), ...carry('x', 'z', 2n), ...carry('z', 'y', 2n)];
  t.same(balanced(entries), [
    { account: 'x', amount: -7n },
    { account: 'y', amount: 7n },
  ]);
});

t.test('entries that do not balance are refused', async (t) => {
  t.throws(() => balanced([{ account: 'x', amount: 1n }]), /add up to 1/);
});

t.test('every name of a customer leads back to the customer', async (t) => {
  fc.assert(
    fc.property(fc.string(), (id) => {
      t.same(partOf(spendable(id)), { owner: id, part: 'balance' });
      t.same(partOf(setAside(id)), { owner: id, part: 'held' });
    }),
    { numRuns: 50 },
  );
  t.equal(partOf('revenue'), undefined);
});

t.test('payments are told apart by network, asset, payer and nonce', async (t) => {
  const key = { network: 'base', asset: '0xA', payer: '0xB', nonce: '0xC' };
  t.equal(paymentId(key), paymentId({ ...key, nonce: '0xc' }));
  for (const part of Object.keys(key)) t.not(paymentId(key), paymentId({ ...key, [part]: 'other' }), part);
});
