// The cleaning pool with real threads that run a test script: queue bounds and order, time and memory limits, crashes,
// clients that leave, recycling and draining, under a manual clock.
import t, { type Test } from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings } from '../../src/config/settings.ts';
import { type CleaningPool, createCleaningPool, HEAVY_BYTES } from '../../src/fetch/cleaning-pool.ts';
import type { CleanJob, CleanPage } from '../../src/extract/page.ts';
import { buildPdf, deflatedSpaces, linesFrom } from '../support/pdf.ts';

const SCRIPT = new URL('fixtures/cleaner.js', import.meta.url);
const ACCOUNT = 'a';
const STAY = new AbortController().signal;
const MIB = 1024 * 1024;

/** Interval of the checks of limits. */
const CHECK_MS = 50;

interface Bench {
  readonly pool: CleaningPool;
  readonly clock: ManualClock;
  readonly settings: Settings['fetch'];
  readonly read: (mediaType: string, signal?: AbortSignal, charset?: string) => Promise<CleanPage>;
  /** A page that stays in its thread; resolves once it is there. */
  readonly hold: (signal?: AbortSignal, account?: string, bytes?: number, mediaType?: string) => Promise<Held>;
  /** A page that never ends; resolves once its thread has begun with it. */
  readonly hang: (signal?: AbortSignal) => Promise<Held>;
}

interface Held {
  readonly page: Promise<CleanPage>;
  readonly release: () => Promise<CleanPage>;
}

/** Has the limits checked until no more than so many pages are in a thread. */
async function checkUntil(pool: CleaningPool, clock: ManualClock, running: number): Promise<void> {
  while (pool.stats().running > running) {
    clock.advance(CHECK_MS);
    await new Promise((resolve) => void setImmediate(resolve));
  }
}

let gates = 0;

function jobOf(mediaType: string, charset: string | null = null, bytes = 1000): CleanJob {
  return { bytes: new Uint8Array(bytes), mediaType, charset, url: 'http://site.test/' };
}

function fetchSettings(wanted: Partial<Settings['fetch']> = {}): Settings['fetch'] {
  const resolution = resolveSettings({});
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return { ...resolution.settings.fetch, ...wanted };
}

function bench(t: Test, wanted: Partial<Settings['fetch']> = {}): Bench {
  const clock = createManualClock();
  const settings = fetchSettings({ cleaners: 1, ...wanted });
  const pool = createCleaningPool(settings, { clock, script: SCRIPT });
  t.teardown(() => pool.close());
  const self: Bench = {
    ...{ pool, clock, settings },
    read: (mediaType, signal = STAY, charset) => pool.read(jobOf(mediaType, charset), ACCOUNT, signal),
    hang: (signal) => self.hold(signal, ACCOUNT, 1000, 'test/hang'),
    async hold(signal = STAY, account = ACCOUNT, bytes = 1000, mediaType = 'test/wait') {
      const name = `gate-${process.pid}-${++gates}`;
      const channel = new BroadcastChannel(name);
      t.teardown(() => channel.close());
      const waiting = new Promise((resolve) => {
        channel.onmessage = resolve;
      });
      const page = pool.read(jobOf(mediaType, name, bytes), account, signal);
      page.catch(() => {});
      await waiting;
      return {
        page,
        release() {
          channel.postMessage('go');
          return page;
        },
      };
    },
  };
  return self;
}

t.test('reads a page in a thread, which takes over its bytes', async (t) => {
  const { pool } = bench(t);
  const job = jobOf('test/echo');
  const page = await pool.read(job, ACCOUNT, STAY);
  t.equal(page.content, '1000');
  t.equal(job.bytes.byteLength, 0, 'transferred');
});

t.test('passes on errors of readers, defects with their stack trace', async (t) => {
  const { read, pool } = bench(t);
  await t.rejects(read('test/refuse'), { code: 'HR_FETCH_TYPE', subject: 'test/refuse' });
  await t.rejects(read('test/defect'), { code: 'HR_FETCH_UNREADABLE', cause: 'Error: at line 1' });
  t.equal(pool.stats().replaced, 0);
});

t.test('refuses with Retry-After when the queue is full, and serves the queue in order', async (t) => {
  const { pool, read, hold } = bench(t, { queue: 2 });
  const first = await hold();
  const order: number[] = [];
  const second = read('test/echo').then(() => order.push(2));
  const third = read('test/echo').then(() => order.push(3));
  await t.rejects(read('test/echo'), { code: 'HR_FETCH_BUSY', headers: ['retry-after', '1'] });
  t.match(pool.stats(), { threads: 1, running: 1, queued: 2 });
  await first.release();
  await Promise.all([second, third]);
  t.same(order, [2, 3]);
  t.match(pool.stats(), { running: 0, queued: 0 });
});

t.test('refuses a page when the queue holds too many bytes', async (t) => {
  const { pool, hold } = bench(t);
  const echo = (account: string, bytes: number): Promise<CleanPage> =>
    pool.read(jobOf('test/echo', null, bytes), account, STAY);
  const held = [await hold(STAY, 'a', HEAVY_BYTES), await hold(STAY, 'b', HEAVY_BYTES)];
  const large = echo('a', 96 * MIB);
  await t.rejects(echo('a', HEAVY_BYTES), { code: 'HR_FETCH_LIMIT', subject: '8', headers: ['retry-after', '1'] });
  const second = echo('b', 32 * MIB);
  await t.rejects(echo('c', HEAVY_BYTES), { code: 'HR_FETCH_BUSY', headers: ['retry-after', '1'] });
  t.match(pool.stats(), { running: 2, queued: 2, refused: 2 });
  for (const { release } of held) await release();
  t.equal((await large).content, String(96 * MIB));
  t.equal((await second).content, String(32 * MIB));
  t.equal((await echo('a', HEAVY_BYTES)).content, String(HEAVY_BYTES), 'queued bytes are released');
});

t.test('small pages are cleaned while large ones and PDFs are held', async (t) => {
  const { clock, pool, hold, read, settings } = bench(t);
  const held = [await hold(STAY, 'a', HEAVY_BYTES), await hold(STAY, 'b', 10_000_000)];
  const hung = pool.read(jobOf('application/pdf'), 'c', STAY);
  t.match(pool.stats(), { running: 2, queued: 1 }, 'a PDF of any size is a large page');
  for (let page = 0; page < 20; page++) t.equal((await read('test/echo')).content, '1000');
  const small = await hold(STAY, 'd');
  t.match(pool.stats(), { running: 3, queued: 1, threads: 3 }, 'beside as many threads as are set');
  for (const { release } of [...held, small]) await release();
  t.equal((await hung).content, '1000');
  clock.advance(settings.cleanTimeoutMs);
});

t.test('the large pages of one account leave a thread to those of others', async (t) => {
  const { pool, hold } = bench(t);
  const held = await hold(STAY, 'a', HEAVY_BYTES);
  const own = pool.read(jobOf('test/echo', null, HEAVY_BYTES), 'a', STAY);
  t.match(pool.stats(), { running: 1, queued: 1 });
  for (let page = 0; page < 3; page++)
    t.equal((await pool.read(jobOf('test/echo', null, HEAVY_BYTES), 'b', STAY)).content, String(HEAVY_BYTES));
  t.match(pool.stats(), { running: 1, queued: 1 });
  await held.release();
  t.equal((await own).content, String(HEAVY_BYTES));
});

t.test('accounts take turns, whatever one of them has waiting', async (t) => {
  const { pool, hold } = bench(t);
  const held = await hold();
  const order: string[] = [];
  const pages = ['a', 'a', 'a', 'a', 'b', 'b', 'c'].map((account) =>
    pool.read(jobOf('test/echo'), account, STAY).then(() => order.push(account)),
  );
  await held.release();
  await Promise.all(pages);
  t.equal(order.join(''), 'abcabaa');
});

t.test('a large page of an account is not held against it once there was room for all', async (t) => {
  const { hold, pool } = bench(t);
  const queue = (account: string, bytes = 1000): Promise<unknown> =>
    pool.read(jobOf('a/b', null, bytes), account, STAY);
  const first = await hold(STAY, 'x');
  const large = queue('a', HEAVY_BYTES - 1);
  await first.release();
  await large;
  const second = await hold(STAY, 'x');
  const order: string[] = [];
  const reads = ['b', 'b', 'b', 'b', 'a'].map((account) => queue(account).then(() => order.push(account)));
  await second.release();
  await Promise.all(reads);
  t.ok(order.indexOf('a') <= 1, order.join(' '));
});

t.test('a page over its time limit ends its thread, and the next page gets a new one', async (t) => {
  const { pool, clock, read, hang, settings } = bench(t);
  const before = await read('test/echo');
  const { page: hung } = await hang();
  const next = read('test/echo');
  // Its time counts from the next check on.
  clock.advance(CHECK_MS);
  clock.advance(settings.cleanTimeoutMs - 1);
  t.match(pool.stats(), { running: 1, queued: 1 });
  clock.advance(1);
  await t.rejects(hung, { code: 'HR_FETCH_UNREADABLE', subject: 'took too long' });
  t.not((await next).title, before.title);
  t.match(pool.stats(), { threads: 1, running: 0, replaced: 1 });
});

t.test('the time limit of a page does not include the start of its thread', async (t) => {
  const { pool, clock, read, hold, settings } = bench(t);
  const late = await hold(STAY, ACCOUNT, 1000, 'test/late');
  clock.advance(2 * settings.cleanTimeoutMs);
  t.match(pool.stats(), { running: 1, replaced: 0 });
  t.equal((await late.release()).content, '1000');
  const never = await hold(STAY, ACCOUNT, 1000, 'test/late');
  const next = read('test/echo');
  clock.advance(30_000 - 1);
  t.match(pool.stats(), { running: 1, replaced: 0 });
  clock.advance(1);
  await t.rejects(never.page, { code: 'HR_FETCH_UNREADABLE', subject: 'took too long' });
  t.equal((await next).content, '1000');
});

t.test('a page that fills the heap ends its thread and no other', async (t) => {
  const { pool, clock, read, hold } = bench(t, { cleaners: 2, cleanMemoryBytes: 32 * MIB, cleanTimeoutMs: 1e12 });
  const held = await hold();
  const filling = t.rejects(read('test/heap'), { code: 'HR_FETCH_UNREADABLE', subject: 'needed too much memory' });
  const next = read('test/echo');
  await checkUntil(pool, clock, 1);
  await filling;
  t.equal((await next).content, '1000');
  t.equal((await held.release()).content, '1000');
  t.equal(pool.stats().replaced, 1);
});

t.test('a page that grows one array without end ends its thread, not the process', async (t) => {
  const { pool, clock, read } = bench(t, { cleanMemoryBytes: 32 * MIB, cleanTimeoutMs: 1e12 });
  await read('test/echo');
  const filling = t.rejects(read('test/array'), { code: 'HR_FETCH_UNREADABLE', subject: 'needed too much memory' });
  await checkUntil(pool, clock, 0);
  await filling;
  t.equal((await read('test/echo')).content, '1000');
  t.equal(pool.stats().replaced, 1);
});

t.test('a page that fills arrays outside of the heap ends its thread', async (t) => {
  const { pool, clock, read } = bench(t, { cleanMemoryBytes: 32 * MIB, cleanTimeoutMs: 1e12 });
  await read('test/echo');
  const filling = read('test/arrays');
  const caught = t.rejects(filling, { code: 'HR_FETCH_UNREADABLE', subject: 'needed too much memory' });
  await checkUntil(pool, clock, 0);
  await caught;
  t.equal((await read('test/echo')).content, '1000');
  t.equal(pool.stats().replaced, 1);
});

t.test('a page that crashes its thread fails alone', async (t) => {
  const { pool, read } = bench(t);
  const crashed = read('test/crash');
  const next = read('test/echo');
  await t.rejects(crashed, {
    code: 'HR_FETCH_UNREADABLE',
    subject: 'its reader failed',
    cause: { message: 'crashed' },
  });
  t.equal((await next).content, '1000');
  t.equal(pool.stats().replaced, 1);
});

t.test('drops a queued page whose client has left', async (t) => {
  const { pool, read, hold } = bench(t);
  const held = await hold();
  const client = new AbortController();
  const waiting = read('test/hang', client.signal);
  client.abort(new Error('gone'));
  await t.rejects(waiting, { message: 'gone' });
  t.equal(pool.stats().queued, 0);
  await held.release();
  t.equal((await read('test/echo')).content, '1000');
  await t.rejects(read('test/echo', client.signal), { message: 'gone' }, 'an aborted page does not start');
});

t.test('finishes a running page whose client has left, and keeps the thread', async (t) => {
  const { pool, read, hold } = bench(t);
  const before = await read('test/echo');
  const client = new AbortController();
  const held = await hold(client.signal);
  client.abort(new Error('gone'));
  await t.rejects(held.page, { message: 'gone' });
  t.match(pool.stats(), { running: 1 });
  const next = read('test/echo');
  held.release().catch(() => {});
  t.equal((await next).title, before.title);
  t.match(pool.stats(), { running: 0, replaced: 0 });
});

t.test('a hanging page whose client has left still ends at its time limit', async (t) => {
  const { pool, clock, read, hang, settings } = bench(t);
  const client = new AbortController();
  const { page: hung } = await hang(client.signal);
  client.abort(new Error('gone'));
  await t.rejects(hung, { message: 'gone' });
  const next = read('test/echo');
  clock.advance(CHECK_MS + settings.cleanTimeoutMs);
  t.equal((await next).content, '1000');
  t.match(pool.stats(), { running: 0, replaced: 1 });
});

t.test('recycles its threads after their pages, without failing one', async (t) => {
  const { pool, read } = bench(t, { pagesPerCleaner: 10 });
  const threads = new Set<string>();
  for (let round = 0; threads.size < 3 && round < 10_000; round++) {
    const pages = await Promise.all([read('test/echo'), read('test/echo'), read('test/echo')]);
    for (const { title } of pages) threads.add(title);
  }
  t.equal(threads.size, 3);
  t.equal(pool.stats().replaced, 0);
  t.ok(pool.stats().threads <= 2, 'the old ones have ended');
});

t.test('changed settings start new threads, and running pages finish in the old ones', async (t) => {
  const { pool, read, hold, settings } = bench(t);
  const held = await hold();
  const waiting = Promise.all([read('test/echo'), read('test/echo')]);
  pool.configure({ ...settings, cleaners: 2 });
  const pages = await waiting;
  const { title } = await held.release();
  t.notOk(
    pages.some((page) => page.title === title),
    'did not wait for the old thread',
  );
});

t.test('starts a thread for every two cores by default', async (t) => {
  const settings = fetchSettings();
  for (const [cores, threads] of [
    [1, 1],
    [4, 2],
  ] as const) {
    const pool = createCleaningPool(settings, { clock: createManualClock(), script: SCRIPT, cores });
    const pages = Array.from({ length: 5 }, () => pool.read(jobOf('test/hang'), ACCOUNT, STAY));
    t.match(pool.stats(), { running: threads, queued: 5 - threads });
    const ends = pages.map((page) => t.rejects(page, { code: 'HR_DRAINING' }));
    await pool.close();
    await Promise.all(ends);
  }
});

t.test('closing fails all pages and ends the threads', async (t) => {
  const { pool, read, hold } = bench(t);
  const held = await hold();
  const waiting = read('test/echo');
  const ends = [held.page, waiting].map((page) => t.rejects(page, { code: 'HR_DRAINING' }));
  await pool.close();
  await Promise.all(ends);
  t.match(pool.stats(), { threads: 0, queued: 0 });
  await t.rejects(read('test/echo'), { code: 'HR_DRAINING' });
});

t.test('the real cleaning threads read pages and survive hostile ones', async (t) => {
  const clock = createManualClock();
  const settings = fetchSettings({ cleaners: 1, cleanMemoryBytes: 64 * MIB, cleanTimeoutMs: 1e12 });
  const pool = createCleaningPool(settings, { clock });
  t.teardown(() => pool.close());
  const read = (body: string | Uint8Array, mediaType: string): Promise<CleanPage> =>
    pool.read({ bytes: new Uint8Array(Buffer.from(body)), mediaType, charset: null }, ACCOUNT, STAY);
  t.match(await read('Water turns the wheel', 'text/plain'), { title: 'Water turns the wheel', wordCount: 4 });
  const paper = buildPdf([linesFrom(['Paper']), linesFrom(['More'])]);
  t.equal((await read(paper, 'application/pdf')).content, 'Paper\n\nMore');
  pool.configure({ ...settings, cleanTimeoutMs: 1 });
  t.match(await read(paper, 'application/pdf'), { content: 'Paper', truncated: true }, 'within its time');
  pool.configure(settings);
  await t.rejects(read('PK', 'application/zip'), { code: 'HR_FETCH_TYPE', subject: 'application/zip' });
  const bomb = buildPdf([[]], { deflated: deflatedSpaces(512 * MIB) });
  const caught = t.rejects(read(bomb, 'application/pdf'), {
    code: 'HR_FETCH_UNREADABLE',
    subject: 'needed too much memory',
  });
  await checkUntil(pool, clock, 0);
  await caught;
  t.equal((await read('Still here', 'text/plain')).wordCount, 2);
});
