// A client that follows a background response: live while it reads, then from the store, without a lost or repeated event.

import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import type { BackgroundResponse } from '../../src/responses/background-response.ts';
import { EventFollower } from '../../src/responses/event-follower.ts';
import type { Followed } from '../../src/responses/response-store.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

type Batches = Extract<Followed, { readonly kind: 'events' }>;

const KEY = { account: 'a', id: 'r' };
const eventOf = (number: number): string => `event: x\ndata: {"sequence_number":${number}}\n\n`;

/** An exchange whose client reads when the test says so. */
class SlowExchange extends StubExchange {
  full = false;

  override write(chunk: Uint8Array): boolean {
    super.write(chunk);
    return !this.full;
  }

  get numbers(): number[] {
    return [...this.body.matchAll(/"sequence_number":(\d+)/g)].map(([, number]) => Number(number));
  }
}

/** A store with the events up to `kept`; `ended`: there are no more. */
function storeOf(state: { kept: number; ended: boolean }): { follow: () => Promise<Batches>; asked: number[] } {
  const asked: number[] = [];
  const follow = async (_: unknown, after: number): Promise<Batches> => {
    asked.push(after);
    await setImmediate();
    // Batches of four, which begin before the event that is asked for.
    const first = Math.floor((after + 1) / 4) * 4;
    const last = Math.min(first + 3, state.kept);
    if (last <= after) return { kind: 'events', batches: [], kept: true, ended: state.ended };
    const numbers = Array.from({ length: last - first + 1 }, (_each, at) => first + at);
    return {
      kind: 'events',
      batches: [{ ...KEY, first, last, data: numbers.map(eventOf).join('') }],
      kept: true,
      ended: false,
    };
  };
  return { follow: follow as () => Promise<Batches>, asked };
}

function runOf(): { run: BackgroundResponse; followers: Set<EventFollower> } {
  const followers = new Set<EventFollower>();
  const run = {
    follow: (follower: EventFollower) => void followers.add(follower),
    unfollow: (follower: EventFollower) => void followers.delete(follower),
  };
  return { run: run as unknown as BackgroundResponse, followers };
}

t.test('events are read from any number on to the end', async (t) => {
  const exchange = new SlowExchange('GET');
  const store = storeOf({ kept: 9, ended: true });
  new EventFollower(exchange, store, KEY, 2).followStore();
  while (exchange.endCause === null) await setImmediate();
  t.same(exchange.numbers, [3, 4, 5, 6, 7, 8, 9]);
  t.equal(exchange.answered['content-type'], 'text/event-stream; charset=utf-8');
});

/** A store of a response that others have ended with event 2. */
const STOPPED: Batches = {
  kind: 'events',
  batches: [
    {
      ...{ ...KEY, first: 1, last: 2 },
      data: `${eventOf(1)}event: response.failed\ndata: {"type":"response.failed","sequence_number":2,"response":{"id":"r"}}\n\n`,
    },
  ],
  kept: true,
  ended: true,
};

for (const live of [3, 6]) {
  t.test(`a client with ${live} events, more than are kept, gets the end that is kept as its next event`, async (t) => {
    const exchange = new SlowExchange('POST');
    const follower = new EventFollower(exchange, { follow: async () => STOPPED }, KEY, -1);
    follower.followLive(runOf().run);
    for (let number = 0; number < live; number++) follower.push(Buffer.from(eventOf(number)), number);
    follower.stopped();
    while (exchange.endCause === null) await setImmediate();
    t.same(
      exchange.numbers,
      Array.from({ length: live + 1 }, (_, at) => at),
    );
    t.match(exchange.body, /event: response\.failed\ndata: \{[^\n]*"response":\{"id":"r"\}[^\n]*\}\n\n$/);
  });
}

t.test('a client with an event that the store then refuses gets the end in the place of the next one', async (t) => {
  const exchange = new SlowExchange('GET');
  const waiting: Batches = {
    ...{ kind: 'events', kept: false, ended: false },
    batches: [{ ...KEY, first: 0, last: 2, data: [0, 1, 2].map(eventOf).join('') }],
  };
  const answers = [waiting, STOPPED];
  const follow = async (): Promise<Batches> => answers.shift() ?? STOPPED;
  new EventFollower(exchange, { follow }, KEY, -1).followStore();
  while (exchange.endCause === null) await setImmediate();
  t.same(exchange.numbers, [0, 1, 2, 3]);
  t.match(exchange.body, /event: response\.failed\n/);
});

t.test('a client that has the end does not get it again', async (t) => {
  const resumed = new SlowExchange('GET');
  new EventFollower(resumed, { follow: async () => STOPPED }, KEY, 2).followStore();
  while (resumed.endCause === null) await setImmediate();
  t.equal(resumed.body, '');
  const live = new SlowExchange('POST');
  const follower = new EventFollower(live, { follow: async () => STOPPED }, KEY, 1);
  follower.followLive(runOf().run);
  live.full = true;
  follower.push(
    Buffer.from(
      'event: response.failed\ndata: {"type":"response.failed","sequence_number":2,"response":{"id":"r"}}\n\n',
    ),
    2,
  );
  live.full = false;
  follower.onWritable();
  while (live.endCause === null) await setImmediate();
  t.same(live.numbers, [2]);
});

t.test('a client that reads too slowly is not waited for, and gets the rest from the store', async (t) => {
  const exchange = new SlowExchange('POST');
  const state = { kept: 0, ended: false };
  const store = storeOf(state);
  const { followers, run } = runOf();
  const follower = new EventFollower(exchange, store, KEY, -1);
  follower.followLive(run);
  for (let number = 0; number < 3; number++) follower.push(Buffer.from(eventOf(number)), number);
  exchange.full = true;
  follower.push(Buffer.from(eventOf(3)), 3);
  t.equal(followers.size, 0, 'the response goes on without it');
  t.same(store.asked, []);
  Object.assign(state, { kept: 30, ended: true });
  follower.onWritable();
  while (exchange.numbers.length < 8) await setImmediate();
  t.same(exchange.numbers, [0, 1, 2, 3, 4, 5, 6, 7], 'one batch, while it is still slow');
  exchange.full = false;
  follower.onWritable();
  while (exchange.endCause === null) await setImmediate();
  t.same(
    exchange.numbers,
    Array.from({ length: 31 }, (_, at) => at),
  );
});

t.test('how a response ended that has stopped comes from the store', async (t) => {
  const exchange = new SlowExchange('POST');
  const follower = new EventFollower(exchange, storeOf({ kept: 3, ended: true }), KEY, -1);
  follower.followLive(runOf().run);
  follower.push(Buffer.from(eventOf(0)), 0);
  follower.stopped();
  while (exchange.endCause === null) await setImmediate();
  t.same(exchange.numbers, [0, 1, 2, 3]);
});

t.test('a client that leaves is forgotten, and an error tells where to go on', async (t) => {
  const { followers, run } = runOf();
  const gone = new SlowExchange('POST');
  new EventFollower(gone, storeOf({ kept: 0, ended: false }), KEY, -1).followLive(run);
  gone.destroy();
  t.equal(followers.size, 0);
  const cut = new SlowExchange('POST');
  const follower = new EventFollower(cut, storeOf({ kept: 0, ended: false }), KEY, -1);
  follower.followLive(run);
  follower.push(Buffer.from(eventOf(0)), 0);
  follower.onCut();
  t.match(cut.body, /event: error\ndata: .*"sequence_number":0/);
  t.notMatch(cut.body, /response\.failed/, 'it runs on');
  t.equal(cut.errorCode, 'HR_DRAINING');
  const lost = new SlowExchange('GET');
  const follow = async (): Promise<Batches> => {
    throw new HeadraceError('HR_RESPONSE_UNKNOWN', { subject: "'r'" });
  };
  new EventFollower(lost, { follow }, KEY, -1).followStore();
  while (lost.endCause === null) await setImmediate();
  t.match(lost.body, /was not found/, 'the response was deleted');
});
