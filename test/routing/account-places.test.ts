// Places of searches by account under a manual clock: turns, limits over threads, threads that begin anew, and a model test.
import fc from 'fast-check';
import t from 'tap';
import { createTestSystem } from '../../src/actor/testkit.ts';
import type { Place, Turn } from '../../src/routing/index.ts';
import { AccountPlaces } from '../../src/routing/account-places.ts';
import { createPlaceMemory } from '../../src/routing/place-counts.ts';

/** With which no two accounts of these tests share a counter. */
const SEED = 0x811c9dc5;

const LIMITS = { waiting: 1024, waitingOfAccount: 64, waitMs: 10_000 } as const;

interface Setup extends Pick<ReturnType<typeof createTestSystem>, 'clock' | 'advance'> {
  readonly threads: readonly AccountPlaces[];
  readonly again: (thread: number) => AccountPlaces;
}

function setUp(perAccount: number, count: number, waitMs = 10_000): Setup {
  const { advance, clock } = createTestSystem();
  const memory = createPlaceMemory(count, SEED);
  const again = (thread: number): AccountPlaces => {
    const places = new AccountPlaces({ memory, thread, clock });
    places.configure({ ...LIMITS, perAccount, waitMs });
    return places;
  };
  return { clock, advance, again, threads: Array.from({ length: count }, (_, thread) => again(thread)) };
}

function ask(places: AccountPlaces, account: string): { readonly turns: Turn[]; readonly place: Place } {
  const turns: Turn[] = [];
  return { turns, place: places.request(account, (turn) => turns.push(turn)) };
}

t.test('an account has its places, and another account its own', async (t) => {
  const { threads } = setUp(2, 1);
  const places = threads[0] as AccountPlaces;
  const mine = ['a', 'a', 'a'].map((account) => ask(places, account));
  t.same(
    mine.map(({ turns }) => turns),
    [['place'], ['place'], []],
  );
  t.same(ask(places, 'b').turns, ['place']);
  t.same([places.running, places.waiting], [3, 1]);
  mine[0]?.place.leave();
  mine[0]?.place.leave();
  t.same(mine[2]?.turns, ['place']);
});

t.test('its places are those of all threads together', async (t) => {
  const { advance, clock, threads } = setUp(2, 2);
  const [one, two] = threads as [AccountPlaces, AccountPlaces];
  const first = ask(one, 'a');
  const second = ask(two, 'a');
  const third = ask(two, 'a');
  t.same([first.turns, second.turns, third.turns], [['place'], ['place'], []]);
  await advance(1000);
  t.same(third.turns, []);
  first.place.leave();
  await advance(20);
  t.same(third.turns, ['place'], 'hears of the place within 20 ms');
  t.equal(clock.nextDueMs, Infinity, 'nobody waits, nobody looks');
});

t.test('which accounts share a counter cannot be known from outside', (t) => {
  const sharers = (seed: number): string[] => {
    const { clock } = createTestSystem();
    const memory = createPlaceMemory(2, seed);
    const [one, two] = [0, 1].map((thread) => new AccountPlaces({ memory, thread, clock })) as [
      AccountPlaces,
      AccountPlaces,
    ];
    for (const places of [one, two]) places.configure({ ...LIMITS, perAccount: 1 });
    ask(one, 'victim');
    const accounts = Array.from({ length: 20_000 }, (_, at) => `0x${at.toString(16)}`);
    return accounts.filter((account) => {
      const { place, turns } = ask(two, account);
      place.leave();
      return turns.length === 0;
    });
  };
  const found = [1, 2, 3].map((seed) => sharers(seed));
  t.equal(new Set(found.flat()).size, found.flat().length, 'others with every seed');
  for (const accounts of found) t.ok(accounts.length > 0 && accounts.length < 20);
  const seeds = [0, 1].map(() => new Int32Array(createPlaceMemory(1))[0]);
  t.not(seeds[0], seeds[1]);
  t.end();
});

t.test('a thread that begins anew has nothing running', async (t) => {
  const { again, threads } = setUp(1, 2);
  ask(threads[0] as AccountPlaces, 'a');
  t.same(ask(threads[1] as AccountPlaces, 'a').turns, []);
  again(0);
  t.same(ask(threads[1] as AccountPlaces, 'b').turns, ['place']);
  t.same(ask(again(1), 'a').turns, ['place']);
});

t.test('waits have an end, a bound of the account, and one of all', async (t) => {
  const { advance, threads } = setUp(1, 1, 500);
  const places = threads[0] as AccountPlaces;
  const mine = Array.from({ length: 70 }, () => ask(places, 'a'));
  t.same([mine[0]?.turns, mine[64]?.turns, mine[65]?.turns], [['place'], [], ['limit']]);
  for (let i = 0; i < 15; i++) for (let n = 0; n < 65; n++) ask(places, `account ${i}`);
  t.equal(places.waiting, 1024);
  ask(places, 'late');
  t.same(ask(places, 'late').turns, ['full']);
  await advance(500);
  t.same(mine[1]?.turns, ['limit']);
  t.equal(places.waiting, 0);
});

const step = fc.oneof(
  fc.record({ kind: fc.constant('ask' as const), account: fc.nat(2), thread: fc.nat(2) }),
  fc.record({ kind: fc.constant('leave' as const), which: fc.nat(40) }),
  fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 1, max: 400 }) }),
);

t.test(
  'whatever the order: never more than the limit, nobody waits beside a free place, each is served once',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(step, { maxLength: 80, size: 'max' }),
        async (most, steps) => {
          const { advance, clock, threads } = setUp(most, 3, 100_000);
          const asked: { readonly account: number; readonly turns: Turn[]; readonly place: Place; left: boolean }[] =
            [];
          const runs = (account: number): number =>
            asked.filter((one) => one.account === account && !one.left && one.turns[0] === 'place').length;
          const check = (): void => {
            for (const account of [0, 1, 2]) if (runs(account) > most) throw new Error('too many run');
            if (asked.some(({ turns }) => turns.length > 1)) throw new Error('served twice');
          };
          for (const one of steps) {
            if (one.kind === 'pass') await advance(one.ms);
            else if (one.kind === 'ask') {
              const { account, thread } = one;
              asked.push({ account, left: false, ...ask(threads[thread] as AccountPlaces, `account ${account}`) });
            } else {
              const leaver = asked[one.which];
              leaver?.place.leave();
              if (leaver !== undefined) leaver.left = true;
            }
            check();
          }
          await advance(50);
          for (const one of asked)
            if (!one.left && one.turns.length === 0 && runs(one.account) < most)
              throw new Error('waits beside a free place');
          for (const one of asked) one.place.leave();
          await advance(50);
          if (threads.some(({ running, waiting }) => running + waiting > 0)) throw new Error('a place is lost');
          if (clock.nextDueMs !== Infinity) throw new Error('a timer is left');
        },
      ),
      { numRuns: 150 },
    );
  },
);
