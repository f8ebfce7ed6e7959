// The pages actor under a manual clock, with a downloader and a cleaning pool that the test controls: shared flights,
// timeouts, aborted requests, and what the cache keeps.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings } from '../../src/config/settings.ts';
import { HeadraceError } from '../../src/errors.ts';
import type { CleanPage } from '../../src/extract/page.ts';
import type { Download } from '../../src/fetch/download.ts';
import {
  type PageAnswer,
  PageClient,
  type PageRequest,
  pages,
  type PagesCommand,
  type PendingPage,
} from '../../src/fetch/pages.ts';
import type { Ref } from '../../src/actor/index.ts';

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
  readonly cleanings: Call<CleanPage>[];
  readonly outcomes: string[];
  readonly defects: unknown[];
  readonly ref: Ref<PagesCommand>;
  readonly closed: () => number;
  readonly ask: (url: string, extra?: Partial<PageRequest>) => { heard: Heard[]; pending: PendingPage };
  readonly downloaded: (call: number, extra?: Partial<Download>) => Promise<void>;
  readonly cleaned: (call: number, content?: string) => Promise<void>;
}

function settingsOf(fetch: Record<string, unknown>): Settings['fetch'] {
  const resolution = resolveSettings({ fetch });
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings.fetch;
}

function bench(fetch: Record<string, unknown> = {}): Bench {
  const test = createTestSystem();
  const settings = settingsOf(fetch);
  const downloads: Call<Download>[] = [];
  const cleanings: Call<CleanPage>[] = [];
  const outcomes: string[] = [];
  const defects: unknown[] = [];
  let closed = 0;
  const close = (): Promise<void> => Promise.resolve(void closed++);
  const call = <T>(list: Call<T>[], url: string, signal: AbortSignal): Promise<T> =>
    new Promise((resolve, reject) => void list.push({ url, signal, resolve, reject }));
  const ref = test.system.spawn(
    pages({
      settings,
      open: () => ({
        downloader: { download: (url, signal) => call(downloads, url, signal), configure: () => {}, close },
        pool: {
          read: (job, signal) => call(cleanings, job.url ?? '', signal),
          configure: () => {},
          stats: () => ({ threads: 1, running: 0, queued: 0, replaced: 0 }),
          close,
        },
      }),
      onOutcome: (outcome) => void outcomes.push(outcome),
      onDefect: (error) => void defects.push(error),
    }),
  );
  const client = new PageClient(ref, 'here');
  return {
    ...{ ...test, downloads, cleanings, outcomes, defects, ref, closed: () => closed },
    ask(url, extra = {}) {
      const heard: Heard[] = [];
      const request: PageRequest = { url, format: 'text', include: [], ...extra };
      const pending = client.fetch(request, settings.timeoutMs, (error, answer, cached) =>
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
    async cleaned(index, content = 'clean') {
      (cleanings[index] as Call<CleanPage>).resolve({ title: 'T', content, wordCount: 1 });
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
