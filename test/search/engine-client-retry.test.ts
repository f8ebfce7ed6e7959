// One search of one engine under a manual clock: retries, rate limits, pages, workers, hedging.
import t from 'tap';
import type { ManualClock } from '../../src/actor/testkit.ts';
import { setUpClient, fakeEngine, FOUND, hang, HITS, hostOf, reasons, startSearch } from '../support/search.ts';

function delay(clock: ManualClock, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.setTimeout(resolve, ms));
}

const TWO = { workers: [fakeEngine('w0'), fakeEngine('w1')] };

t.test('retries once when the engine names a time before the deadline', async (t) => {
  let asked = 0;
  const b = setUpClient(() => (++asked === 1 ? { failure: 'rate limited', retryAfterMs: 2000 } : FOUND));
  const { reports } = startSearch(b.client, 11_000);
  await b.advance(1999);
  t.equal(asked, 1);
  await b.advance(1);
  t.strictSame(reports, [HITS]);
  t.equal(b.board.suspendedUntilMs(0), 0);
});

t.test('does not retry twice, nor without a time, nor past the deadline', async (t) => {
  const always = setUpClient(() => ({ failure: 'http', status: 503, retryAfterMs: 1000 }));
  const { reports } = startSearch(always.client, 11_000);
  await always.advance(10_000);
  t.same(reports, [{ reason: 'engine returned HTTP 503' }]);
  t.equal(always.transport.asked.length, 2);
  for (const answer of [{ failure: 'rate limited', retryAfterMs: 10_000 }, { failure: 'rate limited' }] as const) {
    const b = setUpClient(() => answer);
    t.same(await reasons(b, 1), ['rate limited']);
    t.equal(b.transport.asked.length, 1);
    t.equal(b.board.suspendedUntilMs(0), 11_000);
  }
});

t.test('a search cancelled in the wait for a retry ends, with its timer', async (t) => {
  const b = setUpClient(() => ({ failure: 'rate limited', retryAfterMs: 2000 }));
  const { call, reports } = startSearch(b.client, 11_000);
  await b.settle();
  call.cancel('cancelled');
  await b.advance(5000);
  t.equal(b.transport.asked.length, 1);
  t.same(reports, [{ reason: 'cancelled' }]);
  t.equal(b.clock.nextDueMs, Infinity, 'no timer is left');
});

t.test('waits for its rate limit for up to a second, and reports rate limited at once past it', async (t) => {
  const b = setUpClient(() => FOUND, { rates: [{ requests: 1, perMs: 400 }] });
  const all = Array.from({ length: 4 }, () => startSearch(b.client, 11_000));
  await b.settle();
  t.same(
    all.map(({ reports }) => reports.length),
    [1, 0, 0, 1],
  );
  t.same(all[3]?.reports, [{ reason: 'rate limited' }]);
  await b.advance(425);
  t.equal(all[1]?.reports.length, 1);
  await b.advance(425);
  t.strictSame(all[2]?.reports, [HITS]);
  t.equal(b.board.suspendedUntilMs(0), 0, 'our own limit does not blame the engine');
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('does not wait for a place that leaves no time for a request', async (t) => {
  const b = setUpClient(() => FOUND, { rates: [{ requests: 1, perMs: 600 }] });
  await reasons(b, 1);
  for (let i = 0; i < 10; i++) b.client.latencies.add(500);
  const late = startSearch(b.client, b.clock.now() + 1000);
  const inTime = startSearch(b.client, b.clock.now() + 1200);
  await b.settle();
  t.same([late.reports, inTime.reports], [[{ reason: 'rate limited' }], []]);
  await b.advance(625);
  t.strictSame(inTime.reports, [HITS]);
});

t.test('gives the places of its rate limit to accounts in turns', async (t) => {
  const b = setUpClient(({ url }) => ({ urls: [url] }), { rates: [{ requests: 1, perMs: 300 }] });
  await reasons(b, 1);
  const many = Array.from({ length: 6 }, (_, i) => startSearch(b.client, 20_000, { query: `many ${i}` }, 'many'));
  const one = startSearch(b.client, 20_000, { query: 'one' }, 'one');
  await b.settle();
  t.equal(many.filter(({ reports }) => reports.length === 1).length, 4, 'all but those who are served in a second');
  await b.advance(1000);
  t.match(one.reports, [{ hits: [{}] }]);
  t.equal(many.filter(({ reports }) => 'hits' in (reports[0] ?? {})).length, 2);
  t.match(b.transport.asked.at(-1), 'many', 'the second turn of the first account comes after the first of the other');
});

t.test('a deadline in the wait for the rate limit does not blame the engine', async (t) => {
  const b = setUpClient(() => FOUND, { rates: [{ requests: 1, perMs: 900 }] });
  await reasons(b, 1);
  for (let i = 0; i < 5; i++) {
    const { call, reports } = startSearch(b.client, 110_000);
    await b.settle();
    call.cancel('timeout');
    await b.settle();
    t.same(reports, [{ reason: 'timeout' }]);
  }
  t.equal(b.board.suspendedUntilMs(0), 0);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('asks for pages until there are enough hits', async (t) => {
  const page = (n: number): string[] => Array.from({ length: 8 }, (_, i) => `http://x.org/${n}-${i}`);
  let n = 0;
  const b = setUpClient(() => ({ urls: page(n), next: ++n }));
  const { reports } = startSearch(b.client, 11_000, { maxResults: 20 });
  await b.settle();
  t.equal((reports[0] as typeof HITS).hits.length, 20);
  t.equal(b.transport.asked.length, 3);
});

t.test('goes on after a first page that has no hits but a next page', async (t) => {
  const b = setUpClient(({ url }) => (url.endsWith('s=') ? { next: 'ids' } : FOUND));
  const { reports } = startSearch(b.client, 11_000);
  await b.settle();
  t.strictSame(reports, [HITS]);
});

t.test('sends at most two requests for each ten results wanted, and 12 in all', async (t) => {
  for (const [maxResults, most] of [
    [1, 2],
    [10, 2],
    [11, 4],
    [100, 12],
  ] as const) {
    const b = setUpClient(() => ({ next: 1 }));
    startSearch(b.client, 11_000, { maxResults });
    await b.settle();
    t.equal(b.transport.asked.length, most);
  }
});

t.test('a later page that fails leaves the hits there are, and says nothing about the engine', async (t) => {
  for (const failure of ['denied', 'http', 'rate limited', 'invalid'] as const) {
    const b = setUpClient(({ url }) => (url.endsWith('s=') ? { ...FOUND, next: 2 } : { failure, status: 500 }));
    t.same(await reasons(b, 5), ['ok', 'ok', 'ok', 'ok', 'ok']);
    t.equal(b.board.suspendedUntilMs(0), 0);
  }
});

t.test('large searches that the deadline cuts between pages never suspend the engine', async (t) => {
  let n = 0;
  const b = setUpClient(
    async (_request, signal) => {
      await Promise.race([delay(b.clock, 2200), hang(signal)]);
      return { urls: Array.from({ length: 10 }, (_, i) => `http://x.org/${n}-${i}`), next: ++n };
    },
    { concurrency: 4 },
  );
  const large = { maxResults: 100 };
  const calls = ['a', 'b', 'c'].map((query) =>
    startSearch(b.client, 11_000, { ...large, query: `large ${query}` }, `account ${query}`),
  );
  await b.advance(10_000);
  for (const { call } of calls) call.cancel('timeout');
  await b.settle();
  t.same(
    calls.map(({ reports }) => (reports[0] as typeof HITS).hits.length),
    [40, 40, 40],
  );
  const next = startSearch(b.client, 21_000);
  await b.advance(2200);
  t.match(next.reports, [{ hits: [{}] }], 'the next search is served');
});

t.test('a request that had no time of its own does not blame the engine when it is cut off', async (t) => {
  const b = setUpClient(({ url }, signal) => (url.includes('quick') ? FOUND : hang(signal)), {
    rates: [{ requests: 1, perMs: 900 }],
  });
  for (let i = 0; i < 4; i++) {
    startSearch(b.client, b.clock.now() + 1000, { query: 'quick' });
    const { call, reports } = startSearch(b.client, b.clock.now() + 1500, { query: `slow ${i}` }, `account ${i}`);
    await b.advance(1500);
    call.cancel('timeout');
    await b.settle();
    t.same(reports, [{ reason: 'timeout' }]);
    await b.advance(1000);
  }
  t.equal(b.transport.asked.length, 8);
  t.equal(b.board.suspendedUntilMs(0), 0);
});

t.test('a deadline in a later page leaves the hits there are', async (t) => {
  const b = setUpClient(({ url }, signal) => (url.endsWith('s=') ? { ...FOUND, next: 2 } : hang(signal)));
  const { call, reports } = startSearch(b.client, 11_000);
  await b.settle();
  call.cancel('timeout');
  await b.settle();
  t.strictSame(reports, [HITS]);
});

t.test('a later page that the rate limit refuses is no failure', async (t) => {
  const b = setUpClient(() => ({ ...FOUND, next: 2 }), { rates: [{ requests: 1, perMs: 60_000 }] });
  t.same(await reasons(b, 1), ['ok']);
  t.equal(b.board.suspendedUntilMs(0), 0);
});

t.test('spreads searches over its workers', async (t) => {
  const b = setUpClient((_request, signal) => hang(signal), TWO);
  for (let i = 0; i < 10; i++) startSearch(b.client, 11_000);
  await b.settle();
  t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 5);
});

t.test('another worker takes over, and the one that failed is left out for a while', async (t) => {
  for (const failure of ['http', 'invalid', 'denied', 'challenge', 'rate limited'] as const) {
    const b = setUpClient((request) => (hostOf(request) === 'w0' ? { failure, status: 500 } : FOUND), TWO);
    t.same(await reasons(b, 5), ['ok', 'ok', 'ok', 'ok', 'ok']);
    t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 1);
    await b.advance(5000);
    await reasons(b, 5);
    t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 2, 'tried by one search after a while');
    await b.advance(5000);
    await reasons(b, 1);
    t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 2, 'and left out longer');
  }
});

t.test('no other worker is asked when query or account are at fault', async (t) => {
  for (const failure of ['rejected', 'quota'] as const) {
    const b = setUpClient(() => ({ failure }), TWO);
    await reasons(b, 1);
    t.equal(b.transport.asked.length, 1);
  }
});

t.test('a worker that hangs is left out for a while', async (t) => {
  const b = setUpClient((request, signal) => (hostOf(request) === 'w0' ? hang(signal) : FOUND), TWO);
  const { call, reports } = startSearch(b.client, 11_000);
  await b.advance(10_000);
  call.cancel('timeout');
  await b.settle();
  t.same(reports, [{ reason: 'timeout' }]);
  t.same(await reasons(b, 3), ['ok', 'ok', 'ok']);
});

t.test('the engine fails when all workers fail', async (t) => {
  const b = setUpClient(() => ({ failure: 'http', status: 502 }), TWO);
  t.same(await reasons(b, 4), [...Array.from({ length: 3 }, () => 'engine returned HTTP 502'), 'suspended']);
  t.equal(b.transport.asked.length, 6);
});

t.test('hedges a slow worker; the first answer counts and the other request is cancelled', async (t) => {
  const b = setUpClient((request, signal) => (hostOf(request) === 'w0' ? hang(signal) : FOUND), {
    ...TWO,
    hedgeMs: 300,
  });
  const { reports } = startSearch(b.client, 11_000);
  await b.advance(299);
  t.equal(b.transport.asked.length, 1);
  await b.advance(1);
  t.strictSame(reports, [HITS]);
  t.same([b.transport.left.length, b.transport.load.now, b.transport.listeners()], [1, 0, 0]);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('does not hedge a fast worker', async (t) => {
  const b = setUpClient(() => FOUND, { ...TWO, hedgeMs: 300 });
  t.same(
    await reasons(b, 20),
    Array.from({ length: 20 }, () => 'ok'),
  );
  await b.advance(1000);
  t.equal(b.transport.asked.length, 20);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('a worker that fails before its hedge is due is replaced at once', async (t) => {
  const b = setUpClient((request) => (hostOf(request) === 'w0' ? { failure: 'http', status: 500 } : FOUND), {
    ...TWO,
    hedgeMs: 300,
  });
  t.same(await reasons(b, 1), ['ok']);
  t.equal(b.transport.asked.length, 2);
});

t.test('a hedge that fails does not end the first request', async (t) => {
  let open: ((value: typeof FOUND) => void) | undefined;
  const b = setUpClient(
    (request) => (hostOf(request) === 'w0' ? new Promise<typeof FOUND>((r) => (open = r)) : { failure: 'denied' }),
    { ...TWO, hedgeMs: 300 },
  );
  const { reports } = startSearch(b.client, 11_000);
  await b.advance(5000);
  t.same(reports, []);
  open?.(FOUND);
  await b.settle();
  t.strictSame(reports, [HITS]);
});

t.test('hedges have a budget', async (t) => {
  const b = setUpClient((_request, signal) => hang(signal), { ...TWO, hedgeMs: 300, concurrency: 100 });
  for (let i = 0; i < 50; i++) startSearch(b.client, 11_000);
  await b.advance(1000);
  t.equal(b.transport.asked.length, 55);
});

t.test('a deadline cancels both requests of a hedged pair', async (t) => {
  const b = setUpClient((_request, signal) => hang(signal), { ...TWO, hedgeMs: 300 });
  const { call, reports } = startSearch(b.client, 11_000);
  await b.advance(1000);
  call.cancel('timeout');
  await b.settle();
  t.same(reports, [{ reason: 'timeout' }]);
  t.same([b.transport.left.length, b.transport.load.now, b.transport.listeners()], [2, 0, 0]);
});
