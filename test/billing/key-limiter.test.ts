import t from 'tap';
import { createLimitMemory, type KeyAllowance, KeyLimiter } from '../../src/billing/index.ts';

const MINUTE = 60_000;
const START = Date.UTC(2026, 10, 30, 23, 58);

const allow = (more: Partial<KeyAllowance>): KeyAllowance => ({
  cell: 1,
  requestsPerMinute: undefined,
  tokensPerMinute: undefined,
  monthlySpend: undefined,
  ...more,
});

t.test('requests per minute are counted over all threads and start again with the next minute', async (t) => {
  const memory = createLimitMemory(4);
  const threads = [new KeyLimiter(memory), new KeyLimiter(memory)] as const;
  const allowance = allow({ requestsPerMinute: 3 });
  t.equal(threads[0].admit(allowance, START), null);
  t.equal(threads[1].admit(allowance, START), null);
  t.equal(threads[0].admit(allowance, START + 1), null);
  t.same(threads[1].admit(allowance, START + 15_500), { kind: 'requests', limit: 3, retryAfterS: 45 });
  t.equal(threads[1].admit({ ...allowance, cell: 2 }, START), null, 'another key');
  t.equal(threads[1].admit(allowance, START + MINUTE), null);
});

t.test('tokens count when they are settled, and later requests are refused', async (t) => {
  const limits = new KeyLimiter(createLimitMemory(4));
  const allowance = allow({ tokensPerMinute: 100 });
  t.equal(limits.admit(allowance, START), null);
  limits.settle(allowance, 99, 0, START);
  t.equal(limits.admit(allowance, START), null);
  limits.settle(allowance, 1, 0, START);
  t.match(limits.admit(allowance, START + 1000), { kind: 'tokens', limit: 100, retryAfterS: 59 });
  t.equal(limits.admit(allowance, START + MINUTE), null);
});

t.test('a monthly limit is reached, and the next month starts again', async (t) => {
  const limits = new KeyLimiter(createLimitMemory(4));
  const allowance = allow({ monthlySpend: 1_000_000 });
  limits.settle(allowance, 5, 600_000, START);
  t.equal(limits.admit(allowance, START), null);
  limits.sync(1, 500_000, START);
  t.equal(limits.spent(1, START), 600_000, 'the ledger lags behind');
  limits.sync(1, 1_000_000, START);
  t.same(limits.admit(allowance, START), { kind: 'spend', limit: 1_000_000 }, 'another gateway has spent the rest');
  t.equal(limits.admit(allowance, START + 2 * MINUTE), null, 'December');
  limits.settle(allowance, 5, 1, START + 2 * MINUTE);
  t.equal(limits.spent(1, START + 2 * MINUTE), 1);
  limits.clear(1);
  t.equal(limits.spent(1, START + 2 * MINUTE), 0);
});

t.test('a thread whose clock is behind does not reset the minute or month', async (t) => {
  const limits = new KeyLimiter(createLimitMemory(4));
  const allowance = allow({ requestsPerMinute: 2, monthlySpend: 10 });
  const border = Date.UTC(2026, 11, 1);
  t.equal(limits.admit(allowance, border), null);
  limits.settle(allowance, 0, 9, border);
  t.equal(limits.admit(allowance, border - 1), null);
  limits.settle(allowance, 0, 1, border - 1);
  t.equal(limits.spent(allowance.cell, border), 10);
  t.match(limits.admit({ ...allowance, monthlySpend: undefined }, border), { kind: 'requests' });
});
