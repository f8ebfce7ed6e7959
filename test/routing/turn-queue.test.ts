import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { type Place, type Turn, TurnQueue } from '../../src/routing/turn-queue.ts';

function open(settings: Partial<ConstructorParameters<typeof TurnQueue>[0]> = {}) {
  const clock = createManualClock();
  const limits = { places: 3, placesOf: () => 2, waiting: 6, waitingOfKey: 3, waitMs: 1000 };
  const queue = new TurnQueue({ ...limits, ...settings }, clock);
  const served: string[] = [];
  const enter = (key: string): Promise<Turn> =>
    queue.enter(key).then((turn) => {
      served.push(`${key} ${turn}`);
      return turn;
    });
  return { clock, queue, served, enter };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('a key has places of its own limit, and what is free goes to others', async (t) => {
  const { enter, queue, served } = open();
  for (const key of ['a', 'a', 'a', 'b', 'b']) void enter(key);
  await turn();
  t.same(served, ['a place', 'a place', 'b place']);
  t.same([queue.taken, queue.waiting], [3, 2]);
  queue.leave('b');
  await turn();
  t.equal(served.at(-1), 'b place', 'the limit of a is used up');
  queue.leave('a');
  await turn();
  t.equal(served.at(-1), 'a place');
  for (const key of ['a', 'a', 'b']) queue.leave(key);
  t.same([queue.taken, queue.waiting], [0, 0]);
});

t.test('keys that wait take turns, however many wait for one', async (t) => {
  const { enter, queue, served } = open({ places: 1 });
  for (const key of ['a', 'a', 'a', 'a', 'b', 'c', 'b']) void enter(key);
  for (let at = 0; at < 7; at++) {
    await turn();
    queue.leave(served.at(-1)?.[0] ?? '');
  }
  t.same(served.map((one) => one[0]).join(''), 'aabcaba');
});

t.test('what waits of a key without a place costs nothing when others give theirs back', (t) => {
  let asked = 0;
  const placesOf = (): number => {
    asked++;
    return 1;
  };
  const { queue } = open({ places: Infinity, placesOf, waiting: 1000, waitingOfKey: 1000 });
  for (let at = 0; at < 500; at++) queue.request('a', () => undefined);
  const other = queue.request('b', () => undefined);
  asked = 0;
  other.leave();
  t.equal(asked, 1, 'one answer holds for all that wait of a key');
  t.equal(queue.waiting, 499);
  t.end();
});

t.test('a line is bounded for each key and in total, and in time', async (t) => {
  const { clock, enter, queue } = open({ places: 1 });
  const first = enter('a');
  const waiting = ['a', 'a', 'a'].map(enter);
  t.equal(await enter('a'), 'limit');
  const others = ['b', 'c', 'd'].map(enter);
  t.equal(await enter('e'), 'full');
  t.equal(await first, 'place');
  clock.advance(1000);
  t.same(await Promise.all([...waiting, ...others]), Array<Turn>(6).fill('limit'));
  t.equal(queue.waiting, 0);
  queue.leave('a');
  t.equal(await enter('e'), 'place');
});

t.test('a limit that grows is noticed at the next turn', async (t) => {
  let places = 1;
  const { enter, queue, served } = open({ placesOf: () => places });
  for (let at = 0; at < 3; at++) void enter('a');
  await turn();
  t.equal(served.length, 1);
  places = 2;
  queue.leave('a');
  await turn();
  t.equal(served.length, 3);
});

t.test('a key whose requests come one by one gets its share, not more', async (t) => {
  const { enter, queue, served } = open({ places: 1, placesOf: () => 1 });
  for (const key of ['x', 'b', 'b', 'b', 'a']) void enter(key);
  for (let at = 0; at < 6; at++) {
    await turn();
    const [key = ''] = served.at(-1) ?? '';
    if (key === 'a') void enter('a');
    queue.leave(key);
  }
  await turn();
  t.equal(served.map((one) => one[0]).join(''), 'xbababa');
});

t.test('whoever leaves gives a place back once, or ends its wait', (t) => {
  const { queue } = open({ places: 1 });
  const turns: string[] = [];
  const places = ['a', 'b', 'c'].map((key) => queue.request(key, (one) => turns.push(`${key} ${one}`)));
  places[1]?.leave();
  places[1]?.leave();
  t.same([queue.taken, queue.waiting], [1, 1]);
  places[0]?.leave();
  places[0]?.leave();
  t.same(turns, ['a place', 'c place']);
  t.same([queue.taken, queue.takenOf('a'), queue.takenOf('c')], [1, 0, 1]);
  queue.configure({ places: 1, placesOf: () => 2, waiting: 0, waitingOfKey: 9, waitMs: Infinity });
  const refused = queue.request('d', (one) => turns.push(`d ${one}`));
  refused.leave();
  t.equal(turns.at(-1), 'd full');
  places[2]?.leave();
  t.same([queue.taken, queue.waiting], [0, 0]);
  t.end();
});

t.test('no interleaving of requests, departures and timeouts loses or doubles a place', (t) => {
  const step = fc.oneof(
    fc.record({ type: fc.constant('request' as const), key: fc.constantFrom('a', 'b', 'c', 'd'), hasty: fc.boolean() }),
    fc.record({ type: fc.constant('leave' as const), at: fc.nat(40) }),
    fc.record({ type: fc.constant('wait' as const), ms: fc.nat(600) }),
    fc.record({ type: fc.constant('configure' as const), places: fc.integer({ min: 1, max: 4 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const clock = createManualClock();
      const limits = { places: 3, placesOf: () => 2, waiting: 6, waitingOfKey: 3, waitMs: 1000 };
      const queue = new TurnQueue(limits, clock);
      const all: { key: string; place: Place; state: 'waiting' | Turn | 'gone'; hasty: boolean }[] = [];
      let most = limits.places;
      const check = (): void => {
        const held = all.filter(({ state }) => state === 'place');
        const waiting = all.filter(({ state }) => state === 'waiting');
        assert.equal(queue.taken, held.length);
        assert.equal(queue.waiting, waiting.length);
        for (const key of ['a', 'b', 'c', 'd']) {
          const own = held.filter((one) => one.key === key).length;
          assert.equal(queue.takenOf(key), own);
          assert.ok(own <= 2);
          const waits = waiting.some((one) => one.key === key);
          if (waits) assert.ok(own === 2 || held.length >= most, 'nobody waits beside a place that is free');
        }
      };
      for (const one of steps) {
        if (one.type === 'request') {
          const holder = {
            key: one.key,
            place: { leave: () => undefined },
            state: 'waiting',
            hasty: one.hasty,
          } as (typeof all)[0];
          all.push(holder);
          let waited = false;
          holder.place = queue.request(one.key, (turn) => {
            assert.equal(holder.state, 'waiting', 'called once, and not after it has left');
            holder.state = turn;
            if (turn !== 'place' || !holder.hasty || !waited) return;
            // Some leave within the call that gives them their place.
            holder.state = 'gone';
            holder.place.leave();
          });
          waited = true;
        } else if (one.type === 'leave') {
          const holder = all[one.at];
          if (holder !== undefined) {
            if (holder.state === 'place' || holder.state === 'waiting') holder.state = 'gone';
            holder.place.leave();
          }
        } else if (one.type === 'wait') {
          clock.advance(one.ms);
        } else {
          most = one.places;
          queue.configure({ ...limits, places: one.places });
        }
        check();
      }
      for (const holder of all) {
        if (holder.state === 'place' || holder.state === 'waiting') holder.state = 'gone';
        holder.place.leave();
      }
      assert.deepEqual([queue.taken, queue.waiting, clock.nextDueMs], [0, 0, Infinity]);
    }),
    { numRuns: 200 },
  );
  t.end();
});
