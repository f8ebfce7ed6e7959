// Retry budget: what is earned, spent and refused, and that threads share it.
import t from 'tap';
import { createBoardMemory } from '../../src/routing/board.ts';
import { RetryBudget } from '../../src/routing/retry-budget.ts';

const memory = (): { retries: SharedArrayBuffer } => createBoardMemory(1, 2, 1);

t.test('begins with a full reserve and refuses when it is spent', async (t) => {
  const budget = new RetryBudget(memory(), 0, { ratio: 0.2, burst: 2 });
  t.same([budget.withdraw(), budget.withdraw(), budget.withdraw()], [true, true, false]);
  t.equal(budget.balance, 0);
});

t.test('four requests earn a retry, and no more than the reserve is saved', async (t) => {
  const budget = new RetryBudget(memory(), 0, { ratio: 0.25, burst: 1 });
  budget.withdraw();
  for (let i = 0; i < 3; i++) budget.deposit();
  t.equal(budget.withdraw(), false);
  budget.deposit();
  t.equal(budget.withdraw(), true);
  for (let i = 0; i < 100; i++) budget.deposit();
  t.equal(budget.balance, 1);
});

t.test('tells of every retry it refuses', async (t) => {
  let refused = 0;
  const budget = new RetryBudget(memory(), 0, { ratio: 0, burst: 1 }, () => refused++);
  budget.withdraw();
  t.equal(refused, 0);
  budget.withdraw();
  budget.withdraw();
  t.equal(refused, 2);
});

t.test('a part of it can be kept from a retry', async (t) => {
  const budget = new RetryBudget(memory(), 0, { ratio: 0, burst: 4 });
  t.same([budget.withdraw(0.5), budget.withdraw(0.5), budget.withdraw(0.5)], [true, true, false]);
  t.same([budget.withdraw(), budget.withdraw(), budget.withdraw()], [true, true, false]);
});

t.test('without a reserve nothing is ever retried', async (t) => {
  const budget = new RetryBudget(memory(), 0, { ratio: 1, burst: 0 });
  budget.deposit();
  t.equal(budget.withdraw(), false);
});

t.test('budgets of one cell are one budget, also under other settings, and other cells are others', async (t) => {
  const shared = memory();
  const one = new RetryBudget(shared, 0, { ratio: 0.5, burst: 3 });
  const two = new RetryBudget(shared, 0, { ratio: 0.5, burst: 3 });
  const other = new RetryBudget(shared, 1, { ratio: 0.5, burst: 3 });
  one.withdraw();
  two.withdraw();
  t.same([one.balance, two.balance, other.balance], [1, 1, 3]);
  const smaller = new RetryBudget(shared, 0, { ratio: 0.5, burst: 1 });
  t.same([smaller.balance, smaller.withdraw()], [0, false], 'what was spent stays spent');
  for (let i = 0; i < 4; i++) smaller.deposit();
  t.same([one.balance, smaller.balance], [3, 1]);
});
