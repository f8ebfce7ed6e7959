// The pages actor under a manual clock, with a downloader and a cleaning pool that the test controls: shared flights,
// timeouts, aborted requests, and what the cache keeps.
import fc from 'fast-check';
import t from 'tap';

import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings } from '../../src/config/settings.ts';
import { HeadraceError } from '../../src/errors.ts';
import type { PageAnswer, PageRequest } from '../../src/fetch/page-answer.ts';
import type { CleanedPage } from '../../src/fetch/cleaning-pool.ts';
import type { Download, Unchanged } from '../../src/fetch/download.ts';
import { PageClient, type PagesCommand, type PendingPage } from '../../src/fetch/page-client.ts';
import { pages, placeLimits } from '../../src/fetch/pages.ts';
import type { Renderer } from '../../src/fetch/renderer/renderer.ts';
import type { Ref } from '../../src/actor/index.ts';
import { AccountPlaces, createPlaceMemory } from '../../src/routing/index.ts';
import { noRenderer } from '../support/site.ts';

interface Call<T> {
  readonly url: string;
  readonly signal: AbortSignal;
  readonly resolve: (value: T) => void;
  readonly reject: (error: Error) => void;
}

interface Heard {
  readonly error: HeadraceError | null;
  readonly answer: PageAnswer | null;
  readonly cached: boolean;
}

interface Bench extends TestSystem {
  readonly downloads: Call<Download>[];
  /** With the entity tag behind the URL. */
  readonly refreshes: Call<Download | Unchanged>[];
  readonly cleanings: Call<CleanedPage>[];
  readonly outcomes: string[];
  readonly defects: unknown[];
  readonly ref: Ref<PagesCommand>;
  readonly closed: () => number;
  readonly places: AccountPlaces;
  readonly ask: (
    url: string,
    extra?: Partial<PageRequest>,
    account?: string,
  ) => { heard: Heard[]; pending: PendingPage };
  readonly downloaded: (call: number, extra?: Partial<Download>) => Promise<void>;
  readonly cleaned: (call: number, content?: string, extra?: Partial<CleanedPage>) => Promise<void>;
}

function settingsOf(fetch: Record<string, unknown>): Settings['fetch'] {
  const resolution = resolveSettings({ fetch });
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings.fetch;
}

function bench(fetch: Record<string, unknown> = {}, renderer: Renderer = noRenderer()): Bench {
  const test = createTestSystem();
  const settings = settingsOf(fetch);
  const downloads: Call<Download>[] = [];
  const refreshes: Call<Download | Unchanged>[] = [];
  const cleanings: Call<CleanedPage>[] = [];
  const outcomes: string[] = [];
  const defects: unknown[] = [];
  let closed = 0;
  const close = (): Promise<void> => Promise.resolve(void closed++);
  const call = <T>(list: Call<T>[], url: string, signal: AbortSignal): Promise<T> =>
    new Promise((resolve, reject) => void list.push({ url, signal, resolve, reject }));
  const places = new AccountPlaces({ memory: createPlaceMemory(1), thread: 0, clock: test.clock });
  places.configure(placeLimits(settings));
  const ref = test.system.spawn(
    pages({
      settings,
      places,
      open: () => ({
        downloader: {
          download: (url, _account, signal) => call(downloads, url, signal),
          refresh: (validators, url, _account, signal) => call(refreshes, `${url} ${validators.etag ?? ''}`, signal),
          configure: () => {},
          waits: () => ({ waiting: 0, refused: 0 }),
          ...{ visit: () => Promise.reject(new Error('no browser')), close },
        },
        renderer,
        pool: {
          read: (job, _account, signal) => call(cleanings, job.url ?? '', signal),
          configure: () => {},
          stats: () => ({ threads: 1, running: 0, queued: 0, replaced: 0, refused: 0 }),
          close,
        },
      }),
      onOutcome: (outcome) => void outcomes.push(outcome),
      onDefect: (error) => void defects.push(error),
      epochMs: () => Date.parse('2026-01-01T00:00:00Z') + test.clock.now(),
    }),
  );
  const client = new PageClient(ref, 'here');
  return {
    ...{ ...test, places, downloads, refreshes, cleanings, outcomes, defects, ref, closed: () => closed },
    ask(url, extra = {}, account = 'a') {
      const heard: Heard[] = [];
      const request: PageRequest = { url, format: 'text', include: [], ...extra };
      const pending = client.fetch(account, request, settings.timeoutMs, (error, answer, cached) =>
        heard.push({ error, answer, cached }),
      );
      return { heard, pending };
    },
    async downloaded(index, extra = {}) {
      const bytes = new Uint8Array(1);
      const { url, resolve } = downloads[index] as Call<Download>;
      resolve({ url, mediaType: 'text/html', charset: null, bytes, noStore: false, ...extra });
      await test.settle();
    },
    async cleaned(index, content = 'clean', extra = {}) {
      (cleanings[index] as Call<CleanedPage>).resolve({
        title: 'T',
        content,
        wordCount: 1,
        version: `v of ${content}`,
        ...extra,
      });
      await test.settle();
    },
  };
}

const URL_1 = 'https://example.com/1';

t.test('a page is downloaded, cleaned and answered with its final address', async (t) => {
  const b = bench();
  const { heard } = b.ask(URL_1);
  await b.settle();
  t.equal(b.downloads[0]?.url, URL_1);
  await b.downloaded(0, { url: 'https://example.com/moved' });
  t.equal(b.cleanings[0]?.url, 'https://example.com/moved');
  await b.cleaned(0);
  t.same(heard, [
    {
      error: null,
      answer: { url: 'https://example.com/moved', title: 'T', content: 'clean', word_count: 1 },
      cached: false,
    },
  ]);
  t.same(b.outcomes, ['fetched']);
});

t.test('a page that is too old for a request is asked for again with its validators', async (t) => {
  const b = bench({ cacheTtl: '5m' });
  const validators = { url: URL_1, etag: '"v1"' };
  b.ask(URL_1);
  await b.settle();
  await b.downloaded(0, { validators });
  await b.cleaned(0, 'version 1');
  b.clock.advance(60_000);
  const young = b.ask(URL_1, { maxAgeMs: 60_000, details: true });
  await b.settle();
  t.match(young.heard, [{ answer: { content: 'version 1', fetched_at: '2026-01-01T00:00:00.000Z' }, cached: true }]);
  const old = b.ask(URL_1, { maxAgeMs: 59_999, details: true });
  const other = b.ask(URL_1, { maxAgeMs: 0, details: true });
  await b.settle();
  t.same(
    b.refreshes.map(({ url }) => url),
    [`${URL_1} "v1"`],
    'one request for both',
  );
  b.refreshes[0]?.resolve({ unchanged: true, noStore: false });
  await b.settle();
  for (const { heard } of [old, other]) {
    t.match(heard, [{ answer: { content: 'version 1', fetched_at: '2026-01-01T00:01:00.000Z' }, cached: false }]);
  }
  t.equal(b.cleanings.length, 1, 'it is not read again');
  const renewed = b.ask(URL_1, { maxAgeMs: 1000 });
  await b.settle();
  t.match(renewed.heard, [{ cached: true }]);
  t.same(b.outcomes, ['fetched', 'cached', 'unchanged', 'shared', 'cached']);

  b.clock.advance(300_001);
  const later = b.ask(URL_1);
  await b.settle();
  t.equal(b.refreshes.length, 2, 'after the lifetime of the cache too');
  b.refreshes[1]?.resolve({
    ...{ url: URL_1, mediaType: 'text/html', charset: null, bytes: new Uint8Array(1), noStore: true },
  });
  await b.settle();
  await b.cleaned(1, 'version 2');
  t.match(later.heard, [{ answer: { content: 'version 2' }, cached: false }]);
  b.ask(URL_1);
  await b.settle();
  t.equal(b.downloads.length, 2, 'what must not be kept takes the place of what was');
});

t.test(
  'a page without validators is kept as long as the cache says, and one that failed to be renewed stays',
  async (t) => {
    const b = bench({ cacheTtl: '5m' });
    b.ask(URL_1);
    await b.settle();
    await b.downloaded(0);
    await b.cleaned(0);
    b.clock.advance(1000);
    const again = b.ask(URL_1, { maxAgeMs: 0 });
    await b.settle();
    t.equal(b.downloads.length, 2);
    b.downloads[1]?.reject(new HeadraceError('HR_FETCH_FAILED', { subject: 'status 500' }));
    await b.settle();
    t.equal(again.heard[0]?.error?.code, 'HR_FETCH_FAILED');
    const kept = b.ask(URL_1);
    await b.settle();
    t.match(kept.heard, [{ cached: true }]);
    b.clock.advance(300_000);
    b.ask(URL_1);
    await b.settle();
    t.equal(b.downloads.length, 3);
  },
);

t.test('a PDF that was cut is read again once it is too old, however unchanged it is', async (t) => {
  const b = bench({ cacheTtl: '5m' });
  b.ask(URL_1);
  await b.settle();
  await b.downloaded(0, { mediaType: 'application/pdf', validators: { url: URL_1, etag: '"v1"' } });
  await b.cleaned(0, 'half of it', { truncated: true });
  const kept = b.ask(URL_1);
  await b.settle();
  t.match(kept.heard, [{ answer: { content: 'half of it' }, cached: true }]);
  b.clock.advance(300_001);
  b.ask(URL_1);
  await b.settle();
  t.same([b.downloads.length, b.refreshes.length], [2, 0]);
});

t.test('a page whose address has a query is kept for its account alone', async (t) => {
  const b = bench({ cacheTtl: '5m' });
  const url = 'https://example.com/report?signature=secret';
  b.ask(url, {}, 'a');
  await b.settle();
  await b.downloaded(0);
  await b.cleaned(0);
  const own = b.ask(url, {}, 'a');
  const foreign = b.ask(url, {}, 'b');
  await b.settle();
  t.match(own.heard, [{ cached: true }]);
  t.same(foreign.heard, []);
  t.equal(b.downloads.length, 2);
});

t.test('requests get the pieces and fields that they ask for of one page', async (t) => {
  const b = bench({ cacheTtl: '5m' });
  const metadata = { language: 'en', published: '2024-05-01', canonical: 'https://example.com/c', author: 'A, B' };
  const whole = b.ask(URL_1, { details: true });
  await b.settle();
  await b.downloaded(0);
  await b.cleaned(0, 'One two three.', { metadata, authors: ['A', 'B'] });
  t.same(whole.heard[0]?.answer, {
    ...{ url: URL_1, title: 'T', content: 'One two three.', word_count: 1 },
    ...{ language: 'en', published_at: '2024-05-01', authors: ['A', 'B'], canonical_url: 'https://example.com/c' },
    fetched_at: '2026-01-01T00:00:00.000Z',
    version: 'v of One two three.',
  });
  const first = b.ask(URL_1, { details: true, maxChars: 8 });
  const rest = b.ask(URL_1, { details: true, start: 8 });
  const beyond = b.ask(URL_1, { details: true, start: 100 });
  const plain = b.ask(URL_1, { include: ['metadata'] });
  await b.settle();
  t.match(first.heard[0]?.answer, { content: 'One two ', truncated: true, next_start: 8 });
  t.match(rest.heard[0]?.answer, { content: 'three.' });
  t.equal(rest.heard[0]?.answer?.truncated, undefined);
  t.equal(beyond.heard[0]?.answer?.content, '');
  t.same(plain.heard[0]?.answer, { url: URL_1, title: 'T', content: 'One two three.', word_count: 1, metadata });
  t.equal(b.downloads.length, 1);
});

t.test('an answer says that its content is cut', async (t) => {
  const b = bench();
  const { heard } = b.ask(URL_1);
  await b.settle();
  await b.downloaded(0);
  await b.cleaned(0, 'long', { truncated: true });
  t.match(heard, [{ answer: { content: 'long', truncated: true } }]);
});

t.test('nothing is opened before the first request', async (t) => {
  const b = bench();
  await b.settle();
  b.system.stop(b.ref);
  await b.settle();
  t.equal(b.closed(), 0);
});

t.test('equal requests share one flight, others do not', async (t) => {
  const b = bench();
  const [one, two] = [b.ask(URL_1), b.ask(URL_1)];
  b.ask(URL_1, { format: 'markdown' });
  b.ask(URL_1, { include: ['links'] });
  await b.settle();
  t.equal(b.downloads.length, 3);
  await b.downloaded(0);
  await b.cleaned(0);
  t.equal(one.heard.length, 1);
  t.strictSame(one.heard, two.heard);
  t.same(b.outcomes, ['fetched', 'shared']);
});

t.test('a page is answered from the cache until its TTL ends', async (t) => {
  const b = bench({ cacheTtl: '5m' });
  b.ask(URL_1);
  await b.settle();
  await b.downloaded(0);
  await b.cleaned(0);
  const again = b.ask(URL_1);
  await b.settle();
  t.match(again.heard, [{ cached: true, answer: { content: 'clean' } }]);
  t.equal(b.downloads.length, 1);
  await b.advance(300_001);
  b.ask(URL_1);
  await b.settle();
  t.equal(b.downloads.length, 2);
});

t.test('no-store pages and errors are not cached, nor is anything when the cache is off', async (t) => {
  for (const [settings, extra] of [
    [{}, { noStore: true }],
    [{ cacheTtl: null }, {}],
  ] as const) {
    const b = bench(settings);
    b.ask(URL_1);
    await b.settle();
    await b.downloaded(0, extra);
    await b.cleaned(0);
    b.ask(URL_1);
    await b.settle();
    t.equal(b.downloads.length, 2);
    b.downloads[1]?.reject(new HeadraceError('HR_FETCH_FAILED', { subject: 'status 404' }));
    await b.settle();
    b.ask(URL_1);
    await b.settle();
    t.equal(b.downloads.length, 3);
  }
});

t.test('the cache is bounded in bytes', async (t) => {
  const b = bench({ cacheBytes: '64KiB' });
  for (let i = 0; i < 8; i++) {
    b.ask(`https://example.com/${i}`);
    await b.settle();
    await b.downloaded(i);
    await b.cleaned(i, 'x'.repeat(3000));
  }
  b.ask('https://example.com/big');
  await b.settle();
  await b.downloaded(8);
  await b.cleaned(8, 'x'.repeat(100_000));
  const kept = b.ask('https://example.com/7');
  const big = b.ask('https://example.com/big');
  await b.settle();
  t.equal(kept.heard.length, 1);
  t.equal(big.heard.length, 0, 'one page must not evict the others');
});

t.test('what a page says of itself counts in the cache', async (t) => {
  const said = 'x'.repeat(5000);
  for (const extra of [{ authors: [said] }, { metadata: { description: said } }]) {
    const b = bench({ cacheBytes: '64KiB' });
    b.ask(URL_1);
    await b.settle();
    await b.downloaded(0);
    await b.cleaned(0, 'x', extra);
    const again = b.ask(URL_1);
    await b.settle();
    t.equal(again.heard.length, 0, 'one page takes an eighth of it at most');
  }
});

t.test('a flight past its timeout ends in 504 and its work is aborted', async (t) => {
  const b = bench({ timeout: '2s' });
  const { heard } = b.ask(URL_1);
  await b.settle();
  await b.advance(2000);
  t.match(heard, [{ error: { code: 'HR_FETCH_TIMEOUT' } }]);
  t.ok(b.downloads[0]?.signal.aborted);
  await b.downloaded(0);
  await b.cleaned(0);
  t.equal(heard.length, 1, 'a later result answers nobody');
  b.ask(URL_1);
  await b.settle();
  t.equal(b.downloads.length, 2, 'nor is it cached');
});

t.test('the timeout covers the cleaning too', async (t) => {
  const b = bench({ timeout: '2s' });
  const { heard } = b.ask(URL_1);
  await b.settle();
  await b.advance(1500);
  await b.downloaded(0);
  await b.advance(500);
  t.match(heard, [{ error: { code: 'HR_FETCH_TIMEOUT' } }]);
  t.ok(b.cleanings[0]?.signal.aborted);
});

t.test('a page whose time ends in the browser is answered as incomplete where it needs no browser', async (t) => {
  const stuck = { ...noRenderer(), render: () => new Promise<never>(() => {}) };
  for (const [when, expected] of [
    ['auto', { answer: { content: 'clean', incomplete: true } }],
    ['always', { error: { code: 'HR_FETCH_TIMEOUT' } }],
  ] as const) {
    const b = bench({ renderer: { url: 'http://127.0.0.1:9222', when } }, stuck);
    const { heard } = b.ask(URL_1);
    await b.settle();
    await b.downloaded(0, { bytes: Buffer.from('<script src="app.js"></script>') });
    await b.cleaned(0);
    await b.advance(15_000);
    t.match(heard, [expected], when);
    t.equal(heard.length, 1);
  }
});

t.test('the last client that leaves aborts the flight', async (t) => {
  const b = bench();
  const [one, two] = [b.ask(URL_1), b.ask(URL_1)];
  await b.settle();
  one.pending.abort();
  await b.settle();
  t.notOk(b.downloads[0]?.signal.aborted);
  two.pending.abort();
  two.pending.abort();
  await b.settle();
  t.ok(b.downloads[0]?.signal.aborted);
  b.ask(URL_1);
  await b.settle();
  t.equal(b.downloads.length, 2);
  b.downloads[0]?.reject(new Error('late'));
  await b.settle();
  t.same([one.heard, two.heard, b.defects], [[], [], []]);
});

t.test('errors reach the client with code, subject and headers', async (t) => {
  const b = bench();
  const { heard } = b.ask(URL_1);
  await b.settle();
  b.downloads[0]?.reject(new HeadraceError('HR_FETCH_BUSY', { headers: ['retry-after', '1'] }));
  await b.settle();
  t.match(heard, [{ error: { code: 'HR_FETCH_BUSY', headers: ['retry-after', '1'] } }]);
  const second = b.ask(URL_1);
  await b.settle();
  await b.downloaded(1);
  b.cleanings[0]?.reject(new HeadraceError('HR_FETCH_UNREADABLE', { subject: 'took too long' }));
  await b.settle();
  t.match(second.heard, [{ error: { code: 'HR_FETCH_UNREADABLE', message: /took too long/ } }]);
});

t.test('an error that is not in the table is internal, and reported', async (t) => {
  const b = bench();
  const { heard } = b.ask(URL_1);
  await b.settle();
  const defect = new TypeError('a bug');
  b.downloads[0]?.reject(defect);
  await b.settle();
  t.match(heard, [{ error: { code: 'HR_INTERNAL' } }]);
  t.same(b.defects, [defect]);
});

t.test('stopping answers everyone who waits and closes download and pool', async (t) => {
  const b = bench();
  const { heard } = b.ask(URL_1);
  await b.settle();
  b.system.stop(b.ref);
  await b.settle();
  t.match(heard, [{ error: { code: 'HR_DRAINING' } }]);
  t.equal(b.closed(), 2);
  const late = b.ask(URL_1);
  await b.settle();
  t.match(late.heard, [{ error: { code: 'HR_DRAINING' } }]);
});

t.test('a change of the cache settings drops it, another change keeps it', async (t) => {
  const b = bench();
  b.ask(URL_1);
  await b.settle();
  await b.downloaded(0);
  await b.cleaned(0);
  b.ref.tell({ type: 'Configure', settings: settingsOf({ timeout: '3s' }) });
  const kept = b.ask(URL_1);
  await b.settle();
  t.match(kept.heard, [{ cached: true }]);
  b.ref.tell({ type: 'Configure', settings: settingsOf({ cacheTtl: '1m' }) });
  b.ask(URL_1);
  await b.settle();
  t.equal(b.downloads.length, 2);
});

t.test('a page that may not be fetched any more is not answered from the cache', async (t) => {
  for (const changed of [{ deny: ['site.test'] }, { robots: true }, { ports: [443] }]) {
    const b = bench();
    b.ask(URL_1);
    await b.settle();
    await b.downloaded(0);
    await b.cleaned(0);
    b.ref.tell({ type: 'Configure', settings: settingsOf(changed) });
    const { heard } = b.ask(URL_1);
    await b.settle();
    t.same([heard, b.downloads.length], [[], 2], JSON.stringify(changed));
  }
});

t.test('an account fetches as many pages at once as it may, others beside it', async (t) => {
  const b = bench({ perAccount: 2, queue: 8 });
  const slow = Array.from({ length: 512 }, (_, at) => b.ask(`https://slow.test/${at}`));
  await b.settle();
  t.equal(b.downloads.length, 2);
  t.match(b.places, { running: 2, waiting: 2, refusals: { limit: 508, full: 0 } });
  const refused = slow.flatMap(({ heard }) => heard);
  t.equal(refused.length, 508, 'a quarter of the queue waits');
  t.match(refused[0]?.error, { code: 'HR_FETCH_LIMIT', subject: '2', headers: ['retry-after', '1'] });
  const other = b.ask(URL_1, {}, 'b');
  await b.settle();
  await b.downloaded(2);
  await b.cleaned(0);
  t.equal(other.heard[0]?.error, null, 'at once');
  await b.advance(15_000);
  t.equal(b.outcomes.filter((outcome) => outcome === 'HR_FETCH_TIMEOUT').length, 4, 'the wait counts');
  t.match(b.places, { running: 0, waiting: 0 });
});

t.test('the queue of all accounts is bounded', async (t) => {
  const b = bench({ perAccount: 1, queue: 4 });
  const asks = Array.from({ length: 6 }, (_, at) => [0, 1].map(() => b.ask(URL_1, {}, `account ${at}`)));
  await b.settle();
  t.equal(b.downloads.length, 6, 'equal requests of an account share a place');
  const others = Array.from({ length: 6 }, (_, at) => b.ask('https://example.com/2', {}, `account ${at}`));
  await b.settle();
  t.same(
    others.map(({ heard }) => heard[0]?.error?.code),
    [...[undefined, undefined, undefined, undefined, 'HR_FETCH_BUSY', 'HR_FETCH_BUSY']],
  );
  t.ok(asks.flat().every(({ heard }) => heard.length === 0));
});

t.test('accounts share pages, but never a download under way', async (t) => {
  const b = bench({ cacheTtl: '5m', perAccount: 1, queue: 8 });
  b.ask('https://slow.test/');
  const waiting = b.ask(URL_1);
  const other = b.ask(URL_1, {}, 'b');
  await b.settle();
  t.same(
    b.downloads.map(({ url }) => url),
    ['https://slow.test/', URL_1],
    'b does not wait for the turn of a',
  );
  await b.downloaded(1);
  await b.cleaned(0);
  t.equal(other.heard.length, 1);
  t.equal(waiting.heard.length, 0);
  const cached = b.ask(URL_1);
  await b.settle();
  t.equal(cached.heard[0]?.cached, true, 'what is cached needs no place');
});

t.test('no interleaving of requests, answers, timeouts and departures loses a place', async (t) => {
  const step = fc.oneof(
    fc.record({ type: fc.constant('ask' as const), account: fc.constantFrom('a', 'b', 'c'), page: fc.nat(3) }),
    fc.record({ type: fc.constant('leave' as const), at: fc.nat(30) }),
    fc.record({ type: fc.constant('downloaded' as const), at: fc.nat(30) }),
    fc.record({ type: fc.constant('failed' as const), at: fc.nat(30) }),
    fc.record({ type: fc.constant('cleaned' as const), at: fc.nat(30) }),
    fc.record({ type: fc.constant('wait' as const), ms: fc.constantFrom(1, 5000, 15_000) }),
    fc.record({ type: fc.constant('configure' as const), perAccount: fc.integer({ min: 1, max: 3 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const b = bench({ perAccount: 2, queue: 8, cacheTtl: null });
      const asks: ReturnType<Bench['ask']>[] = [];
      for (const one of steps) {
        if (one.type === 'ask') asks.push(b.ask(`https://example.com/${one.page}`, {}, one.account));
        else if (one.type === 'leave') asks[one.at]?.pending.abort();
        else if (one.type === 'downloaded' && one.at < b.downloads.length) await b.downloaded(one.at);
        else if (one.type === 'failed') b.downloads[one.at]?.reject(new HeadraceError('HR_FETCH_TYPE'));
        else if (one.type === 'cleaned' && one.at < b.cleanings.length) await b.cleaned(one.at);
        else if (one.type === 'wait') await b.advance(one.ms);
        else if (one.type === 'configure')
          b.ref.tell({
            type: 'Configure',
            settings: settingsOf({ perAccount: one.perAccount, queue: 8, cacheTtl: null }),
          });
        await b.settle();
      }
      for (const { pending } of asks) pending.abort();
      await b.settle();
      const { defects, places } = b;
      b.system.stop(b.ref);
      await b.settle();
      return (
        places.running === 0 &&
        places.waiting === 0 &&
        defects.length === 0 &&
        asks.every(({ heard }) => heard.length <= 1)
      );
    }),
    { numRuns: 100 },
  );
  t.pass('100 interleavings');
});
