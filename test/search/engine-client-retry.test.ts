// One search of one engine under a manual clock: retries, rate limits, pages, workers, hedging.
import t from 'tap';
import {
  clientBench as bench,
  fakeEngine,
  FOUND,
  hang,
  HITS,
  hostOf,
  reasons,
  startSearch,
} from '../support/search.ts';

const TWO = { workers: [fakeEngine('w0'), fakeEngine('w1')] };

t.test('asks once more when the engine says when and it fits', async (t) => {
  let asked = 0;
  const b = bench(() => (++asked === 1 ? { failure: 'rate limited', retryAfterMs: 2000 } : FOUND));
  const { reports } = startSearch(b.client, 11_000);
  await b.advance(1999);
  t.equal(asked, 1);
  await b.advance(1);
  t.strictSame(reports, [HITS]);
  t.equal(b.board.suspendedUntilMs(0), 0);
});

t.test('asks only once more, and not when it does not fit or nothing was said', async (t) => {
  const always = bench(() => ({ failure: 'http', status: 503, retryAfterMs: 1000 }));
  const { reports } = startSearch(always.client, 11_000);
  await always.advance(10_000);
  t.same(reports, [{ reason: 'engine returned HTTP 503' }]);
  t.equal(always.transport.asked.length, 2);
  for (const answer of [{ failure: 'rate limited', retryAfterMs: 10_000 }, { failure: 'rate limited' }] as const) {
    const b = bench(() => answer);
    t.same(await reasons(b, 1), ['rate limited']);
    t.equal(b.transport.asked.length, 1);
    t.equal(b.board.suspendedUntilMs(0), 11_000);
  }
});

t.test('a client that leaves during the wait for a second try is gone', async (t) => {
  const b = bench(() => ({ failure: 'rate limited', retryAfterMs: 2000 }));
  const { call, reports } = startSearch(b.client, 11_000);
  await b.settle();
  call.cancel('cancelled');
  await b.advance(5000);
  t.equal(b.transport.asked.length, 1);
  t.same(reports, [{ reason: 'cancelled' }]);
  t.equal(b.clock.nextDueMs, Infinity, 'no timer is left');
});

t.test('waits for its own rate limit within the deadline, and says so when there is no place', async (t) => {
  const b = bench(() => FOUND, { rates: [{ requests: 1, perMs: 4000 }] });
  const all = Array.from({ length: 4 }, () => startSearch(b.client, 11_000));
  await b.settle();
  t.same(
    all.map(({ reports }) => reports.length),
    [1, 0, 0, 1],
  );
  t.same(all[3]?.reports, [{ reason: 'rate limited' }]);
  await b.advance(4025);
  t.equal(all[1]?.reports.length, 1);
  await b.advance(4025);
  t.strictSame(all[2]?.reports, [HITS]);
  t.equal(b.board.suspendedUntilMs(0), 0, 'our own limit is not the engine’s fault');
});

t.test('a deadline in the wait for our own limit blames nobody', async (t) => {
  const b = bench(() => FOUND, { rates: [{ requests: 1, perMs: 4000 }] });
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

t.test('turns pages until there are enough hits', async (t) => {
  const page = (n: number): string[] => Array.from({ length: 4 }, (_, i) => `http://x.org/${n}-${i}`);
  let n = 0;
  const b = bench(() => ({ urls: page(n), next: ++n }));
  const { reports } = startSearch(b.client, 11_000, { maxResults: 10 });
  await b.settle();
  t.equal((reports[0] as typeof HITS).hits.length, 10);
  t.equal(b.transport.asked.length, 3);
});

t.test('a first page without hits that names a next one is a step on the way', async (t) => {
  const b = bench(({ url }) => (url.endsWith('s=') ? { next: 'ids' } : FOUND));
  const { reports } = startSearch(b.client, 11_000);
  await b.settle();
  t.strictSame(reports, [HITS]);
});

t.test('an engine that never ends is left after a dozen requests', async (t) => {
  const b = bench(() => ({ next: 1 }));
  t.same(await reasons(b, 1), ['ok']);
  t.equal(b.transport.asked.length, 12);
});

t.test('a later page that fails leaves the hits there are, and the engine hears of it', async (t) => {
  const b = bench(({ url }) => (url.endsWith('s=') ? { ...FOUND, next: 2 } : { failure: 'denied' }));
  const { reports } = startSearch(b.client, 11_000);
  await b.settle();
  t.strictSame(reports, [HITS]);
  t.same(await reasons(b, 1), ['suspended']);
});

t.test('a deadline in a later page leaves the hits there are', async (t) => {
  const b = bench(({ url }, signal) => (url.endsWith('s=') ? { ...FOUND, next: 2 } : hang(signal)));
  const { call, reports } = startSearch(b.client, 11_000);
  await b.settle();
  call.cancel('timeout');
  await b.settle();
  t.strictSame(reports, [HITS]);
});

t.test('no place for a later page is no failure', async (t) => {
  const b = bench(() => ({ ...FOUND, next: 2 }), { rates: [{ requests: 1, perMs: 60_000 }] });
  t.same(await reasons(b, 1), ['ok']);
  t.equal(b.board.suspendedUntilMs(0), 0);
});

t.test('spreads searches over its workers', async (t) => {
  const b = bench((_request, signal) => hang(signal), TWO);
  for (let i = 0; i < 10; i++) startSearch(b.client, 11_000);
  await b.settle();
  t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 5);
});

t.test('another worker takes over, and the one that failed rests', async (t) => {
  for (const failure of ['http', 'invalid', 'denied', 'challenge', 'rate limited'] as const) {
    const b = bench((request) => (hostOf(request) === 'w0' ? { failure, status: 500 } : FOUND), TWO);
    t.same(await reasons(b, 5), ['ok', 'ok', 'ok', 'ok', 'ok']);
    t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 1);
    await b.advance(5000);
    await reasons(b, 5);
    t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 2, 'tried by one after a while');
    await b.advance(5000);
    await reasons(b, 1);
    t.equal(b.transport.asked.filter((url) => url.includes('w0')).length, 2, 'and rests longer');
  }
});

t.test('no other worker is asked what the query or the account is to blame for', async (t) => {
  for (const failure of ['rejected', 'quota'] as const) {
    const b = bench(() => ({ failure }), TWO);
    await reasons(b, 1);
    t.equal(b.transport.asked.length, 1);
  }
});

t.test('a worker that hangs is not asked again at once', async (t) => {
  const b = bench((request, signal) => (hostOf(request) === 'w0' ? hang(signal) : FOUND), TWO);
  const { call, reports } = startSearch(b.client, 11_000);
  await b.settle();
  call.cancel('timeout');
  await b.settle();
  t.same(reports, [{ reason: 'timeout' }]);
  t.same(await reasons(b, 3), ['ok', 'ok', 'ok']);
});

t.test('all workers failing is the engine failing', async (t) => {
  const b = bench(() => ({ failure: 'http', status: 502 }), TWO);
  t.same(await reasons(b, 4), [...Array.from({ length: 3 }, () => 'engine returned HTTP 502'), 'suspended']);
  t.equal(b.transport.asked.length, 6);
});

t.test('a slow worker is hedged; the first answer counts and the other is left', async (t) => {
  const b = bench((request, signal) => (hostOf(request) === 'w0' ? hang(signal) : FOUND), { ...TWO, hedgeMs: 300 });
  const { reports } = startSearch(b.client, 11_000);
  await b.advance(299);
  t.equal(b.transport.asked.length, 1);
  await b.advance(1);
  t.strictSame(reports, [HITS]);
  t.same([b.transport.left.length, b.transport.load.now, b.transport.listeners()], [1, 0, 0]);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('a quick worker is not hedged', async (t) => {
  const b = bench(() => FOUND, { ...TWO, hedgeMs: 300 });
  t.same(
    await reasons(b, 20),
    Array.from({ length: 20 }, () => 'ok'),
  );
  await b.advance(1000);
  t.equal(b.transport.asked.length, 20);
  t.equal(b.clock.nextDueMs, Infinity);
});

t.test('a worker that fails before its hedge is due is replaced at once', async (t) => {
  const b = bench((request) => (hostOf(request) === 'w0' ? { failure: 'http', status: 500 } : FOUND), {
    ...TWO,
    hedgeMs: 300,
  });
  t.same(await reasons(b, 1), ['ok']);
  t.equal(b.transport.asked.length, 2);
});

t.test('a hedge that fails leaves the first its time', async (t) => {
  let open: ((value: typeof FOUND) => void) | undefined;
  const b = bench(
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
  const b = bench((_request, signal) => hang(signal), { ...TWO, hedgeMs: 300, concurrency: 100 });
  for (let i = 0; i < 50; i++) startSearch(b.client, 11_000);
  await b.advance(1000);
  t.equal(b.transport.asked.length, 55);
});

t.test('a deadline cuts off both of a hedged pair', async (t) => {
  const b = bench((_request, signal) => hang(signal), { ...TWO, hedgeMs: 300 });
  const { call, reports } = startSearch(b.client, 11_000);
  await b.advance(1000);
  call.cancel('timeout');
  await b.settle();
  t.same(reports, [{ reason: 'timeout' }]);
  t.same([b.transport.left.length, b.transport.load.now, b.transport.listeners()], [2, 0, 0]);
});
