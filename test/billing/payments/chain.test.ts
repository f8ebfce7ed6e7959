// What a JSON-RPC node says of a signed transfer, on real sockets: moved, void, unused, or not known. Only the receipt of a
// transaction that has paid the merchant with this very authorization counts as moved money.

import t from 'tap';
import { createManualClock, systemClock } from '../../../src/actor/clock.ts';
import { Chain, type SignedTransfer, type TransferState } from '../../../src/billing/payments/chain.ts';
import { type Operation, TestChain } from '../../support/chain.ts';
import { MERCHANT, START_S } from './payment-fixture.ts';

const PAYER = `0x${'11'.repeat(20)}`;
const OTHER = `0x${'22'.repeat(20)}`;
const NONCE = `0x${'0a'.repeat(32)}`;
const OTHER_NONCE = `0x${'0b'.repeat(32)}`;
const TRANSACTION = `0x${'77'.repeat(32)}`;
const VALUE = 20_000n;

const transfer: SignedTransfer = {
  asset: MERCHANT.asset.address,
  payTo: MERCHANT.payTo,
  payer: PAYER,
  nonce: NONCE,
  value: VALUE,
  sentS: START_S,
  validBeforeS: START_S + 300,
  transaction: null,
};

const paid: Operation = { kind: 'authorized', from: PAYER, to: MERCHANT.payTo, value: VALUE, nonce: NONCE };

async function open(t: { teardown: (done: () => void) => void }) {
  let passedS = 0;
  const node = await new TestChain(() => START_S + passedS).listen();
  const chain = new Chain({ url: node.url, timeoutMs: 300 }, MERCHANT.chain, systemClock);
  t.teardown(() => {
    chain.close();
    node.close();
  });
  return { node, chain, pass: (seconds: number) => void (passedS += seconds) };
}

t.test('money that has moved is found, with or without the name of its transaction', async (t) => {
  const { chain, node, pass } = await open(t);
  pass(10);
  node.mine(TRANSACTION, [paid]);
  pass(1000);
  t.same(await chain.find(transfer), { kind: 'moved', transaction: TRANSACTION });
  node.requests.length = 0;
  t.same(await chain.find({ ...transfer, transaction: TRANSACTION }), { kind: 'moved', transaction: TRANSACTION });
  t.same(
    node.requests.map(({ method }) => method),
    ['eth_getTransactionReceipt'],
  );
  t.same(await chain.find({ ...transfer, transaction: 'a name' }), { kind: 'moved', transaction: TRANSACTION });
});

t.test('a transfer that has not happened is ruled out a minute after its end, by the time of the blocks', async (t) => {
  const { chain, node, pass } = await open(t);
  t.same(await chain.find(transfer), { kind: 'unused', expired: false });
  t.same(await chain.find({ ...transfer, transaction: TRANSACTION }), { kind: 'unused', expired: false });
  pass(358);
  t.same(await chain.find(transfer), { kind: 'unused', expired: false });
  pass(2);
  t.same(await chain.find(transfer), { kind: 'unused', expired: true });
  node.lagS = 100;
  t.same(await chain.find(transfer), { kind: 'unused', expired: false }, 'a node that is behind knows less');
});

t.test('a used nonce that has not paid the merchant is void', async (t) => {
  const elsewhere: Operation = { ...paid, to: OTHER };
  const cases: readonly (readonly [string, readonly Operation[]])[] = [
    ['cancelled', [{ ...paid, kind: 'cancelled' }]],
    ['paid to another address', [elsewhere]],
    ['paid less', [{ ...paid, value: VALUE - 1n }]],
    ['the money of another authorization stands beside it', [elsewhere, { ...paid, nonce: OTHER_NONCE }]],
    ['a plain transfer stands beside it', [elsewhere, { ...paid, kind: 'plain' }]],
    ['a plain transfer stands before it', [{ ...paid, kind: 'plain' }, elsewhere]],
  ];
  for (const [name, operations] of cases) {
    const { chain, node, pass } = await open(t);
    node.mine(TRANSACTION, operations);
    pass(4);
    t.same(await chain.find(transfer), { kind: 'void' }, name);
    t.same(await chain.find({ ...transfer, transaction: TRANSACTION }), { kind: 'void' }, name);
  }
});

t.test('the transaction that a facilitator names is believed only as far as its receipt goes', async (t) => {
  const { chain, node } = await open(t);
  node.mine(TRANSACTION, [paid], '0x0');
  t.same(await chain.find({ ...transfer, transaction: TRANSACTION }), { kind: 'unused', expired: false });
  const other = await open(t);
  other.node.mine(TRANSACTION, [{ ...paid, nonce: OTHER_NONCE }]);
  t.same(await other.chain.find({ ...transfer, transaction: TRANSACTION }), { kind: 'unused', expired: false });
});

t.test('a node that limits the range of a search is asked in parts, within bounds', async (t) => {
  const { chain, node, pass } = await open(t);
  pass(700);
  node.mine(TRANSACTION, [paid]);
  pass(1300);
  node.maxRange = 100;
  t.same(await chain.find(transfer), { kind: 'moved', transaction: TRANSACTION });
  node.maxRange = 1;
  node.requests.length = 0;
  t.match(await chain.find(transfer), { kind: 'unknown', problem: /more than 64 requests/ });
  t.equal(node.requests.length, 64);
});

t.test('a look-up that takes long ends', async (t) => {
  const { node } = await open(t);
  const clock = createManualClock();
  const chain = new Chain({ url: node.url, timeoutMs: 60_000 }, MERCHANT.chain, clock);
  const slow = Promise.withResolvers<void>();
  node.mine(TRANSACTION, [paid]);
  node.faults.push({ method: 'eth_call', fault: slow.promise });
  const found = chain.find(transfer);
  while (node.requests.at(-1)?.method !== 'eth_call') await new Promise((resolve) => setImmediate(resolve));
  clock.advance(15_000);
  slow.resolve();
  t.match(await found, { kind: 'unknown', problem: 'a look-up takes more than 15 s' });
  chain.close();
});

t.test('a node that fails, or makes no sense, says nothing', async (t) => {
  const { chain, node, pass } = await open(t);
  node.mine(TRANSACTION, [paid]);
  pass(10);
  const methods = ['eth_chainId', 'eth_getBlockByNumber', 'eth_call', 'eth_getLogs', 'eth_getTransactionReceipt'];
  const wrong = [null, 7, '0x', '0xzz', {}, [], [null], true].map((result) => ({ result }));
  for (const fault of ['silent', 'cut', 'error', 'refused', ...wrong] as const) {
    for (const method of methods) {
      const fresh = new Chain({ url: node.url, timeoutMs: 50 }, MERCHANT.chain, systemClock);
      // A range that is refused is searched by halves; a kept connection that is cut is tried again.
      for (let times = 0; times < 64; times++) node.faults.push({ method, fault });
      const found: TransferState = await fresh.find(transfer);
      t.equal(found.kind, 'unknown', `${method} ${JSON.stringify(fault)}`);
      node.faults.length = 0;
      fresh.close();
    }
  }
  t.same(await chain.find(transfer), { kind: 'moved', transaction: TRANSACTION });
});

t.test('a node of another chain is not believed', async (t) => {
  const { chain, node, pass } = await open(t);
  node.chainId = 1n;
  pass(1000);
  t.match(await chain.find(transfer), { kind: 'unknown', problem: 'payments.rpc is not a node of base-sepolia' });
  node.chainId = 84532n;
  t.same(await chain.find(transfer), { kind: 'unused', expired: true });
});

t.test('requests time out by the given clock, and look-ups wait for each other', async (t) => {
  const { node } = await open(t);
  const clock = createManualClock();
  const chain = new Chain({ url: node.url }, MERCHANT.chain, clock);
  const held = Promise.withResolvers<void>();
  node.faults.push({ method: 'eth_chainId', fault: held.promise });
  const found = chain.find(transfer);
  while (clock.nextDueMs === Infinity) await new Promise((resolve) => setImmediate(resolve));
  t.equal(clock.nextDueMs, 5000);
  clock.advance(5000);
  t.match(await found, { kind: 'unknown' });
  held.resolve();
  chain.close();
});
