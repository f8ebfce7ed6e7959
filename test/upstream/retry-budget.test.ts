import t from 'tap';
import { RetryBudget } from '../../src/upstream/index.ts';

t.test('begins with a full reserve and refuses when it is spent', async (t) => {
  const budget = new RetryBudget(0.2, 2);
  t.same([budget.withdraw(), budget.withdraw(), budget.withdraw()], [true, true, false]);
  t.equal(budget.balance, 0);
});

t.test('four requests earn a retry, and no more than the reserve is saved', async (t) => {
  const budget = new RetryBudget(0.25, 1);
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
  const budget = new RetryBudget(0, 1, () => refused++);
  budget.withdraw();
  t.equal(refused, 0);
  budget.withdraw();
  budget.withdraw();
  t.equal(refused, 2);
});

t.test('without a reserve nothing is ever retried', async (t) => {
  const budget = new RetryBudget(1, 0);
  budget.deposit();
  t.equal(budget.withdraw(), false);
});
