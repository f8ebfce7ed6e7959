import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import { type Turn, TurnQueue } from '../../../src/billing/payments/turn-queue.ts';

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
