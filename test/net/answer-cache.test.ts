// The cache of answers under a manual clock: keeping, coalescing, aborting.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { AnswerCache, type AnswerSource, type Flight, type Pending } from '../../src/net/answer-cache.ts';

interface Answer {
  readonly text: string;
}

interface Setup {
  readonly cache: AnswerCache<Answer>;
  readonly clock: ManualClock;
  readonly flights: Flight<Answer>[];
  readonly aborted: Flight<Answer>[];
  readonly heard: [who: string, text: string, source: AnswerSource][];
  readonly request: (key: string, who: string) => Pending;
}

function setUp(): Setup {
  const clock = createManualClock();
  const cache = new AnswerCache<Answer>({ clock, sizeOf: ({ text }) => text.length });
  const flights: Flight<Answer>[] = [];
  const aborted: Flight<Answer>[] = [];
  const heard: Setup['heard'] = [];
  const start = (flight: Flight<Answer>): { abort: () => void } => {
    flights.push(flight);
    return { abort: () => void aborted.push(flight) };
  };
  return {
    ...{ cache, clock, flights, aborted, heard },
    request: (key, who) => cache.request(key, ({ text }, source) => void heard.push([who, text, source]), start),
  };
}

const microtasks = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

t.test('equal requests share a flight and each is answered once', async (t) => {
  const b = setUp();
  b.request('x', 'one');
  b.request('x', 'two');
  b.request('y', 'three');
  t.equal(b.flights.length, 2);
  t.equal(b.cache.works().length, 2);
  b.flights[0]?.land({ text: 'X' }, true);
  t.same(b.heard, [], 'later than the landing');
  await microtasks();
  b.flights[0]?.land({ text: 'again' }, true);
  await microtasks();
  t.strictSame(b.heard, [
    ['one', 'X', 'flight'],
    ['two', 'X', 'shared'],
  ]);
  t.equal(b.cache.works().length, 1);
  b.request('x', 'four');
  t.equal(b.flights.length, 3, 'nothing is kept before it is configured');
});

t.test('a flight may land as it starts', async (t) => {
  const b = setUp();
  b.cache.configure(1000, 100);
  const start = (flight: Flight<Answer>): { abort: () => void } => {
    flight.land({ text: 'X' }, true);
    return { abort: () => t.fail('aborted') };
  };
  const heard: AnswerSource[] = [];
  const pending = b.cache.request('x', (_answer, source) => heard.push(source), start);
  b.cache.request('x', (_answer, source) => heard.push(source), start);
  t.same(heard, [], 'later than the request returns');
  await microtasks();
  pending.abort();
  t.same(heard, ['flight', 'cache']);
});

t.test('a flight that fails to start is none', async (t) => {
  const b = setUp();
  const start = (): never => {
    throw new Error('no start');
  };
  t.throws(() => b.cache.request('x', () => t.fail('answered'), start), { message: 'no start' });
  t.same(b.cache.works(), []);
  b.request('x', 'one');
  t.equal(b.flights.length, 1);
});

t.test('keeps what may be kept, for its time', async (t) => {
  const b = setUp();
  b.cache.configure(1000, 100);
  b.request('x', 'one');
  b.request('y', 'one');
  b.flights[0]?.land({ text: 'X' }, true);
  b.flights[1]?.land({ text: 'Y' }, false);
  await microtasks();
  b.heard.length = 0;
  b.clock.advance(999);
  b.request('x', 'two');
  t.same(b.heard, [], 'later than the request returns');
  b.request('y', 'two');
  await microtasks();
  t.strictSame(b.heard, [['two', 'X', 'cache']]);
  t.equal(b.flights.length, 3);
  b.clock.advance(2);
  b.request('x', 'three');
  t.equal(b.flights.length, 4);
});

t.test('is bounded in bytes, and one answer takes an eighth of them at most', async (t) => {
  const b = setUp();
  b.cache.configure(1000, 80);
  const ask = async (key: string, bytes: number): Promise<boolean> => {
    const before = b.flights.length;
    b.request(key, 'me');
    const started = b.flights.length > before;
    b.flights.at(-1)?.land({ text: 'x'.repeat(bytes) }, true);
    await microtasks();
    return started;
  };
  t.equal(await ask('large', 11), true);
  t.equal(await ask('large', 11), true);
  for (let i = 0; i < 9; i++) t.equal(await ask(`key ${i}`, 10), true);
  t.equal(await ask('key 8', 10), false);
  t.equal(await ask('key 0', 10), true, 'the oldest has given way');
});

t.test('an aborted request hears nothing; the last one aborts the flight', async (t) => {
  const b = setUp();
  const [one, two] = [b.request('x', 'one'), b.request('x', 'two')];
  one.abort();
  one.abort();
  t.same(b.aborted, []);
  two.abort();
  t.equal(b.aborted.length, 1);
  b.request('x', 'three');
  t.equal(b.flights.length, 2, 'not the flight that was aborted');
  b.flights[0]?.land({ text: 'old' }, true);
  b.flights[1]?.land({ text: 'new' }, true);
  await microtasks();
  t.strictSame(b.heard, [['three', 'new', 'flight']]);
  t.equal(b.aborted.length, 1);
});

t.test('a request aborted between landing and answer hears nothing', async (t) => {
  const b = setUp();
  b.cache.configure(1000, 100);
  const one = b.request('x', 'one');
  b.request('x', 'two');
  b.flights[0]?.land({ text: 'X' }, true);
  one.abort();
  const cached = b.request('x', 'three');
  cached.abort();
  await microtasks();
  t.strictSame(b.heard, [['two', 'X', 'shared']]);
  t.same(b.aborted, []);
});

t.test('a flight that began before the cache was emptied does not fill it', async (t) => {
  const b = setUp();
  b.cache.configure(1000, 100);
  b.request('x', 'one');
  b.cache.configure(1000, 100);
  b.flights[0]?.land({ text: 'old' }, true);
  await microtasks();
  t.strictSame(b.heard, [['one', 'old', 'flight']]);
  b.request('x', 'two');
  t.equal(b.flights.length, 2);
  for (const [ttlMs, bytes] of [
    [null, 100],
    [1000, 0],
  ] as const) {
    b.cache.configure(ttlMs, bytes);
    b.request('z', 'three');
    b.flights.at(-1)?.land({ text: 'Z' }, true);
    await microtasks();
    const before = b.flights.length;
    b.request('z', 'four').abort();
    t.equal(b.flights.length, before + 1, 'switched off');
  }
});

t.test('in a full cache, a group with more than a quarter evicts its own answers, not those of others', async (t) => {
  const b = setUp();
  b.cache.configure(1000, 100);
  const keep = (key: string, group: string): void => {
    const land = (flight: Flight<Answer>): { abort: () => void } => {
      flight.land({ text: '0123456789' }, true);
      return { abort: () => undefined };
    };
    b.cache.request(key, (_, source) => void b.heard.push([key, group, source]), land, group);
  };
  keep('other', 'b');
  for (let i = 0; i < 20; i++) keep(`page ${i}`, 'a');
  await microtasks();
  b.heard.length = 0;
  for (const key of ['other', 'page 17', 'page 18', 'page 19', 'page 0']) keep(key, 'c');
  await microtasks();
  t.strictSame(
    b.heard.map(([key, , source]) => [key, source]),
    [
      ['other', 'cache'],
      ['page 17', 'cache'],
      ['page 18', 'cache'],
      ['page 19', 'cache'],
      ['page 0', 'flight'],
    ],
  );
});

t.test('a flight that has ended keeps neither its work nor who has waited for it', async (t) => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const { cache } = setUp();
  let landed: Flight<Answer> | undefined;
  const begin = (): readonly WeakRef<object>[] => {
    const work = { abort: () => undefined };
    const done = (): void => undefined;
    cache.request('x', done, (flight) => {
      landed = flight;
      return work;
    });
    return [new WeakRef(work), new WeakRef(done)];
  };
  const held = begin();
  landed?.land({ text: 'X' }, false);
  await microtasks();
  collect();
  t.same(
    held.map((ref) => ref.deref()),
    [undefined, undefined],
  );
});
