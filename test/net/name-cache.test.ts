// Cached addresses of host names: when they are looked up, what is used meanwhile, and how many lookups run at a time.
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/clock.ts';
import { NameCache, type NameWaiter } from '../../src/net/name-cache.ts';

interface Question {
  readonly hostname: string;
  answer(...addresses: string[]): Promise<void>;
  fail(code: string): Promise<void>;
}

/** A cache whose lookups wait for the test. */
class Fixture {
  readonly clock: ManualClock = createManualClock(1_000_000);
  readonly asked: Question[] = [];
  readonly cache: NameCache;

  constructor() {
    const lookup = (hostname: string): Promise<readonly string[]> => {
      const { promise, resolve, reject } = Promise.withResolvers<readonly string[]>();
      this.asked.push({
        hostname,
        answer: (...addresses) => (resolve(addresses), settled()),
        fail: (code) => (reject(Object.assign(new Error(code), { code })), settled()),
      });
      return promise;
    };
    this.cache = new NameCache({ clock: this.clock, lookup });
  }

  /** What a request for the addresses of a name hears: its addresses, or the code of an error; null while it waits. */
  request(hostname: string): { heard: readonly string[] | string | null; waiter: NameWaiter } {
    const name = this.cache.name(hostname);
    const outcome = {
      heard: null as readonly string[] | string | null,
      waiter: {
        onResolved: (error: NodeJS.ErrnoException | null): void => {
          outcome.heard = error === null ? name.addresses : (error.code ?? 'no code');
        },
      },
    };
    name.resolve(outcome.waiter, this.clock.now());
    return outcome;
  }

  heard(hostname: string): readonly string[] | string | null {
    return this.request(hostname).heard;
  }
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test(
  'a name is looked up once for all that wait, and again after 30 s, its addresses being used meanwhile',
  async (t) => {
    const f = new Fixture();
    const requests = [f.request('a'), f.request('a'), f.request('a')];
    t.same([f.asked.length, requests.map(({ heard }) => heard)], [1, [null, null, null]]);
    await f.asked[0]?.answer('10.0.0.1', '10.0.0.2', '10.0.0.1');
    t.same(
      requests.map(({ heard }) => heard),
      Array(3).fill(['10.0.0.1', '10.0.0.2']),
    );
    f.clock.advance(29_999);
    t.same([f.heard('a'), f.asked.length], [['10.0.0.1', '10.0.0.2'], 1]);
    f.clock.advance(1);
    t.same([f.heard('a'), f.heard('a'), f.asked.length], [['10.0.0.1', '10.0.0.2'], ['10.0.0.1', '10.0.0.2'], 2]);
    await f.asked[1]?.answer('10.0.0.3');
    t.same([f.heard('a'), f.asked.length], [['10.0.0.3'], 2]);
  },
);

t.test('addresses are used for as long as later lookups fail or do not end', async (t) => {
  const f = new Fixture();
  f.heard('a');
  await f.asked[0]?.answer('10.0.0.1');
  f.clock.advance(30_000);
  f.heard('a');
  f.clock.advance(3_600_000);
  t.same([f.heard('a'), f.asked.length], [['10.0.0.1'], 2], 'a lookup that does not end');
  await f.asked[1]?.fail('EAI_AGAIN');
  t.same(f.heard('a'), ['10.0.0.1']);
  f.clock.advance(25_000);
  for (let at = 2; at < 20; at++) {
    f.clock.advance(5000);
    t.same(f.heard('a'), ['10.0.0.1']);
    await f.asked[at]?.fail('EAI_AGAIN');
  }
  t.equal(f.asked.length, 20);
});

t.test('a failed lookup is repeated after 1, 2, 4 and then every 5 s, and answers requests until then', async (t) => {
  const f = new Fixture();
  const first = f.request('a');
  await f.asked[0]?.fail('EAI_AGAIN');
  t.equal(first.heard, 'EAI_AGAIN');
  let count = 1;
  for (const waitMs of [1000, 2000, 4000, 5000, 5000]) {
    f.clock.advance(waitMs - 1);
    t.same([f.heard('a'), f.asked.length], ['EAI_AGAIN', count]);
    f.clock.advance(1);
    const waiting = f.request('a');
    t.same([waiting.heard, f.asked.length], [null, ++count]);
    await f.asked.at(-1)?.fail('EAI_AGAIN');
    t.equal(waiting.heard, 'EAI_AGAIN');
  }
});

t.test('a lookup that fails slowly is repeated after four times its time, 30 s at most', async (t) => {
  const f = new Fixture();
  for (const [at, tookMs, waitMs] of [
    [0, 2000, 8000],
    [1, 10_000, 30_000],
  ] as const) {
    f.heard('a');
    f.clock.advance(tookMs);
    await f.asked[at]?.fail('EAI_AGAIN');
    f.clock.advance(waitMs - 1);
    t.same([f.heard('a'), f.asked.length], ['EAI_AGAIN', at + 1]);
    f.clock.advance(1);
  }
});

t.test('a name that stops existing loses its addresses after 30 s, and gets them back', async (t) => {
  const f = new Fixture();
  f.heard('a');
  await f.asked[0]?.answer('10.0.0.1');
  f.clock.advance(30_000);
  t.same(f.heard('a'), ['10.0.0.1']);
  await f.asked[1]?.fail('ENOTFOUND');
  for (let at = 2; at < 7; at++) {
    f.clock.advance(5000);
    t.same(f.heard('a'), ['10.0.0.1'], `lookup ${at}`);
    await f.asked[at]?.fail('ENOTFOUND');
  }
  f.clock.advance(5000);
  f.heard('a');
  await f.asked[7]?.fail('ENOTFOUND');
  t.equal(f.heard('a'), 'ENOTFOUND');
  f.clock.advance(5000);
  const back = f.request('a');
  await f.asked[8]?.answer('10.0.0.9');
  t.same([back.heard, f.asked.length], [['10.0.0.9'], 9]);
});

t.test('two lookups run at a time; names that failed before leave one place to the others', async (t) => {
  const f = new Fixture();
  for (const name of ['bad1', 'bad2']) f.heard(name);
  const third = f.request('c');
  t.same(names(f), ['bad1', 'bad2']);
  await f.asked[0]?.fail('EAI_AGAIN');
  t.same(names(f), ['bad1', 'bad2', 'c']);
  await f.asked[1]?.fail('EAI_AGAIN');
  await f.asked[2]?.answer('10.0.0.3');
  t.same(third.heard, ['10.0.0.3']);
  f.clock.advance(1000);
  const slow = [f.request('bad1'), f.request('bad2')];
  t.same(names(f).slice(3), ['bad1']);
  const good = f.request('d');
  t.same(names(f).slice(3), ['bad1', 'd']);
  await f.asked[4]?.answer('10.0.0.4');
  t.same(good.heard, ['10.0.0.4']);
  await f.asked[3]?.answer('10.0.0.1');
  t.same(names(f).slice(5), ['bad2']);
  await f.asked[5]?.answer('10.0.0.2');
  t.same(
    slow.map(({ heard }) => heard),
    [['10.0.0.1'], ['10.0.0.2']],
  );
});

t.test('an answer without an address is a name that does not exist', async (t) => {
  const f = new Fixture();
  const request = f.request('a');
  await f.asked[0]?.answer();
  t.equal(request.heard, 'ENOTFOUND');
});

t.test('a request that leaves hears nothing', async (t) => {
  const f = new Fixture();
  const request = f.request('a');
  f.cache.name('a').leave(request.waiter);
  await f.asked[0]?.answer('10.0.0.1');
  t.equal(request.heard, null);
});

t.test('addresses are never looked up', async (t) => {
  const f = new Fixture();
  t.same([f.heard('127.0.0.1'), f.heard('::1')], [['127.0.0.1'], ['::1']]);
  f.clock.advance(3_600_000);
  t.same([f.heard('127.0.0.1'), f.asked.length], [['127.0.0.1'], 0]);
});

t.test('the hosts file counts', async (t) => {
  const name = new NameCache().name('localhost');
  const error = await new Promise((resolve) => name.resolve({ onResolved: resolve }, performance.now()));
  t.equal(error, null);
  t.ok(name.addresses.some((address) => address === '127.0.0.1' || address === '::1'));
});

function names({ asked }: Fixture): string[] {
  return asked.map(({ hostname }) => hostname);
}
