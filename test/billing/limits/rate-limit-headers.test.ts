import t from 'tap';
import { LimitReservation } from '../../../src/billing/limits/key-limiter.ts';
import { addRateLimitHeaders, refusalHeaders, retryHeaders } from '../../../src/billing/limits/rate-limit-headers.ts';

const NOW = Date.UTC(2026, 10, 22, 12);
const ALLOWANCE = { cell: null, runningRequests: 1, requestsPerMinute: 60, tokensPerMinute: undefined };

type Refusal = Parameters<typeof refusalHeaders>[0];

const refusal = (more: Partial<Refusal>): Refusal => ({
  ...{ kind: 'requests', allowance: ALLOWANCE, limit: 60, remainingRequests: 0, remainingTokens: 0 },
  ...{ retryMs: 0, resetMs: 0 },
  ...more,
});

function fieldsOf(headers: readonly string[]): Record<string, string> {
  return Object.fromEntries(headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1] ?? '']] : [])));
}

t.test('an answer tells what is left of the limits that there are', async (t) => {
  const reservation = Object.assign(new LimitReservation(), { allowance: ALLOWANCE, bucket: NOW / 2000 });
  reservation.remainingRequests = 59;
  const openai: string[] = [];
  addRateLimitHeaders(openai, reservation, 'openai', NOW + 500);
  t.strictSame(fieldsOf(openai), {
    'x-ratelimit-limit-requests': '60',
    'x-ratelimit-remaining-requests': '59',
    'x-ratelimit-reset-requests': '1m1.5s',
  });
  const anthropic: string[] = [];
  addRateLimitHeaders(anthropic, reservation, 'anthropic', NOW + 500);
  t.strictSame(fieldsOf(anthropic), {
    'anthropic-ratelimit-requests-limit': '60',
    'anthropic-ratelimit-requests-remaining': '59',
    'anthropic-ratelimit-requests-reset': '2026-11-22T12:01:02Z',
  });
  const none: string[] = [];
  addRateLimitHeaders(none, new LimitReservation(), 'openai', NOW);
  t.same(none, []);
});

t.test('a refusal says when to come again, to the second and to the millisecond', async (t) => {
  const fields = fieldsOf(refusalHeaders(refusal({ retryMs: 12_000.2, resetMs: 250 }), 'openai', NOW));
  t.match(fields, { 'retry-after': '13', 'retry-after-ms': '12001', 'x-ratelimit-reset-requests': '250ms' });
  t.same(retryHeaders(0), ['retry-after', '1', 'retry-after-ms', '1000'], 'nobody knows');
  t.same(refusalHeaders(refusal({ kind: 'size' }), 'openai', NOW), ['x-should-retry', 'false']);
  for (const [resetMs, text] of [
    [0, '0ms'],
    [999.5, '1s'],
    [59_999, '59.999s'],
    [60_000, '1m0s'],
    [61_250, '1m1.25s'],
  ] as const) {
    t.match(fieldsOf(refusalHeaders(refusal({ resetMs }), 'openai', NOW)), { 'x-ratelimit-reset-requests': text });
  }
});
