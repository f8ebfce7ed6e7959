import t from 'tap';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import { STANDING } from '../../src/routing/board.ts';
import { type Member, ModelTable } from '../../src/routing/model-table.ts';
import { Fleet, type Sent, SETTINGS } from '../support/admission-fleet.ts';

/** A table with these models. */
function tableOf(...models: Fleet['model'][]): ModelTable {
  return new ModelTable({ version: 1, models });
}

t.test('a request goes at once while a CRN has room, and nothing is kept', (t) => {
  const fleet = new Fleet();
  fleet.load(0, 5000);
  for (let at = 0; at < 3; at++) fleet.send(`a${at}`, 1000);
  t.equal(fleet.log.length, 2, 'a backlog of 100 ms is room for one more, one of 200 ms is not');
  t.equal(fleet.waiting, 1);
  fleet.clock.advance(60_000);
  t.equal(fleet.clock.nextDueMs, Infinity, 'no timer runs while nothing waits');
  t.end();
});

t.test('a waiting request goes as soon as a backlog is short', (t) => {
  const fleet = new Fleet({ crns: 1 });
  fleet.load(0, 3000);
  const sent = fleet.send('a1', 1000);
  fleet.clock.advance(199);
  t.equal(sent.ends, 0);
  fleet.clock.advance(5);
  t.equal(sent.ends, 1);
  t.same([...fleet.outcomes], [['admitted', 1]]);
  t.end();
});

t.test('the flood of one account delays the request of another by one turn', (t) => {
  const fleet = new Fleet({ crns: 2, settings: { timeoutMs: 1e9 } });
  for (let at = 0; at < 200; at++) fleet.send(`f${at}`, 2000);
  fleet.clock.advance(1000);
  const before = fleet.log.length;
  const quiet = fleet.send('q1', 2000);
  fleet.clock.advance(20_000);
  const between = fleet.log.indexOf('admitted q1') - before;
  t.ok(between <= 1, `${between} requests of the flood went before it`);
  t.ok((quiet.admittedMs as number) - 1_001_000 <= 210, 'the time of one request at one CRN');
  t.end();
});

t.test('what an account was served before all had room is not held against it', (t) => {
  for (const threads of [1, 2]) {
    const fleet = new Fleet({ crns: 1, threads, settings: { timeoutMs: 1e9 } });
    const last = threads - 1;
    fleet.load(0, 3000);
    const large = fleet.send('a1', 1_000_000);
    fleet.send('b0', 1000, { thread: last });
    fleet.clock.advance(200_000);
    t.same([large.ends, fleet.waiting], [1, 0]);
    for (let thread = 0; thread < threads; thread++) t.equal(fleet.send('c1', 1, { thread }).ends, 1, 'there is room');
    fleet.load(0, 3000);
    for (let at = 1; at <= 200; at++) fleet.send(`b${at}`, 2000, { thread: last });
    const next = fleet.send('a2', 2000);
    const before = fleet.log.length;
    fleet.clock.advance(60_000);
    t.equal(next.ends, 1);
    const between = fleet.log.indexOf('admitted a2') - before;
    t.ok(between <= 2, `${between} requests of the flood went before it, with ${threads} threads`);
  }
  t.end();
});

t.test('accounts that all have much waiting get equal shares of work', (t) => {
  const fleet = new Fleet({ crns: 3 });
  for (let at = 0; at < 60; at++) {
    fleet.send(`a${at}`, 1000);
    fleet.send(`b${at}`, 4000);
  }
  fleet.clock.advance(2000);
  const served = (account: string): number =>
    fleet.log.filter((line) => line.startsWith(`admitted ${account}`)).length * (account === 'a' ? 1000 : 4000);
  t.ok(Math.abs(served('a') - served('b')) <= 10_000, `${served('a')} and ${served('b')}`);
  t.end();
});

t.test('a request that leaves is not charged, and nothing is called any more', (t) => {
  const fleet = new Fleet({ crns: 1 });
  fleet.load(0, 3000);
  const sent = [1, 2, 3].map((at) => fleet.send(`a${at}`, 1000));
  t.equal(sent[0]?.leave(), true);
  t.equal(sent[0]?.leave(), false);
  fleet.clock.advance(10_000);
  t.same(fleet.log, ['admitted a2', 'admitted a3']);
  t.same(
    [...fleet.outcomes],
    [
      ['gone', 1],
      ['admitted', 2],
    ],
  );
  t.equal(sent[2]?.leave(), false, 'it has been admitted');
  t.end();
});

t.test('a wait ends with 429 after its timeout', (t) => {
  const fleet = new Fleet({ crns: 1, settings: { timeoutMs: 500 } });
  fleet.load(0, 100_000);
  const sent = fleet.send('a1', 1000);
  fleet.clock.advance(510);
  t.match(sent.error, { code: 'HR_ROUTE_BACKLOG', status: 429 });
  t.equal(sent.retryAfterS, 10, 'the backlog is down to the bound in 9.4 s');
  t.equal(fleet.waiting, 0);
  fleet.clock.advance(20_000);
  t.equal(sent.ends, 1);
  t.end();
});

t.test('one account gets half of the queue, several get less each, and the next one finds room', (t) => {
  const fleet = new Fleet({ crns: 1, settings: { requests: 12 } });
  fleet.load(0, 1_000_000);
  const waitingOf = (account: string): number =>
    Array.from({ length: 20 }, (_, at) => fleet.send(`${account}${at}`, 1000)).filter(({ error }) => error === null)
      .length;
  t.same(['a', 'b', 'c', 'd'].map(waitingOf), [6, 3, 2, 1]);
  t.equal(fleet.outcomes.get('full'), 80 - 12);
  t.match(fleet.log.at(-1), /^refused .* HR_ROUTE_BACKLOG$/);
  t.end();
});

t.test('the memory of waiting bodies is bounded in the same way', (t) => {
  const fleet = new Fleet({ crns: 1, settings: { bytes: 1000 } });
  fleet.load(0, 1_000_000);
  const send = (name: string, bytes: number): boolean => fleet.send(name, 1000, { bytes }).error === null;
  t.same([send('a1', 600), send('a2', 400)], [true, false], 'as many as are free');
  t.same([send('b1', 400), send('c1', 1)], [true, false]);
  t.end();
});

t.test('a reload admits all when nothing is to be held, and refuses what waits for a model that is gone', (t) => {
  for (const [change, expected] of [
    ['off', 'admitted'],
    ['gone', 'removed'],
  ] as const) {
    const fleet = new Fleet({ crns: 1 });
    fleet.load(0, 1_000_000);
    const sent = Array.from({ length: 20 }, (_, at) => fleet.send(`a${at}`, 1000));
    const model = { ...fleet.model, members: [...fleet.model.members] };
    const table = change === 'gone' ? tableOf({ ...model, id: 'other' }) : tableOf(model);
    fleet.admission.configure({ ...fleet.settings, holdMs: change === 'off' ? 0 : 100 }, table);
    t.same([...fleet.outcomes], [[expected, 20]]);
    t.equal(fleet.waiting, 0);
    for (const { ends, error, model: given } of sent) {
      t.equal(ends, 1);
      if (change === 'gone') t.equal(error?.code, 'HR_ROUTE_UNKNOWN_MODEL');
      else t.equal(given, model, 'the model as it is configured now');
    }
    fleet.clock.advance(100_000);
    t.equal(fleet.clock.nextDueMs, Infinity);
  }
  t.end();
});

t.test('a request that began before a reload waits for the servers of now, and so do those behind it', (t) => {
  const fleet = new Fleet({ crns: 3 });
  const [first, second, third] = fleet.model.members;
  const before = { ...fleet.model, members: [first, second].map((member) => member as Member) };
  const after = { ...fleet.model, members: [second, third].map((member) => member as Member) };
  for (const member of [0, 1, 2]) fleet.load(member, 10_000);
  fleet.admission.configure(fleet.settings, tableOf(after));
  const early = fleet.send('a1', 5000, { model: before });
  const late = fleet.send('b1', 5000, { model: after });
  t.equal(fleet.waiting, 2);
  fleet.clock.advance(10_000);
  t.same(
    [early, late].map(({ ends, model }) => [ends, model]),
    [1, 1].map((ends) => [ends, after]),
  );
  t.end();
});

t.test('what waits is told of the model that it waits for when its own has become an alias', (t) => {
  const fleet = new Fleet({ crns: 1 });
  fleet.load(0, 1_000_000);
  for (const name of ['a1', 'a2']) fleet.send(name, 1000);
  t.same([...fleet.told], [['m', 2]]);
  fleet.admission.configure(fleet.settings, tableOf({ ...fleet.model, id: 'n', aliases: ['m'] }));
  t.same(Object.fromEntries(fleet.told), { m: 0, n: 2 });
  t.end();
});

t.test(
  'what waits for a model that has become an alias goes to the servers of now, as what waits for the other model',
  (t) => {
    for (const ids of [
      ['m', 'n'],
      ['n', 'm'],
    ] as const) {
      const fleet = new Fleet({ crns: 3 });
      const members = (...cells: number[]): Member[] => cells.map((cell) => fleet.model.members[cell] as Member);
      const former = { m: { ...fleet.model, members: members(0) }, n: { id: 'n', members: members(1), budget: 1 } };
      for (const member of [0, 1]) fleet.load(member, 1_000_000);
      const sent = ids.map((id) => fleet.send(`${id}1`, 1000, { model: former[id] }));
      // Those that a reload takes away.
      for (const member of [0, 1]) fleet.board.resetMember(member);
      const now = { id: 'n', aliases: ['m'], members: members(2), budget: 1 };
      fleet.admission.configure(fleet.settings, tableOf(now));
      t.same(
        sent.map(({ ends, model }) => [ends, model?.members]),
        [1, 1].map((ends) => [ends, now.members]),
      );
      t.same(Object.fromEntries(fleet.told), { m: 0, n: 0 });
    }
    t.end();
  },
);

t.test('a reload that changes neither leaves all in their order, also with another cell', (t) => {
  const fleet = new Fleet({ crns: 2 });
  for (const member of [0, 1]) fleet.load(member, 10_000);
  for (const name of ['a1', 'a2', 'b1', 'b2']) fleet.send(name, 1000);
  fleet.admission.configure(fleet.settings, tableOf({ ...fleet.model, budget: 1 }));
  t.equal(fleet.waiting, 4);
  fleet.clock.advance(10_000);
  t.same(fleet.log, ['admitted a1', 'admitted b1', 'admitted a2', 'admitted b2']);
  t.end();
});

t.test('when no CRN is up all go, so that failover answers', (t) => {
  const fleet = new Fleet({ crns: 2 });
  for (const member of [0, 1]) fleet.load(member, 1_000_000);
  const sent = Array.from({ length: 5 }, (_, at) => fleet.send(`a${at}`, 1000));
  fleet.board.setStanding(0, STANDING.down, 0);
  fleet.clock.advance(10);
  t.equal(fleet.waiting, 5, 'the other one may have room soon');
  fleet.board.setStanding(1, STANDING.drained, 0);
  fleet.clock.advance(10);
  t.equal(fleet.waiting, 0);
  t.ok(sent.every(({ ends }) => ends === 1));
  t.end();
});

t.test('a CRN that comes back, or is up while others are only capable, counts', (t) => {
  const fleet = new Fleet({ crns: 2 });
  fleet.load(0, 1_000_000);
  fleet.board.setStanding(1, STANDING.capable, 0);
  const sent = fleet.send('a1', 1000);
  fleet.clock.advance(100);
  t.equal(sent.ends, 0, 'the picker prefers the one that is up');
  fleet.board.setStanding(1, STANDING.up, 0);
  fleet.clock.advance(3);
  t.equal(sent.ends, 1);
  t.end();
});

t.test('a request that one CRN alone can serve waits for that one, and nobody waits for it', (t) => {
  const fleet = new Fleet({ crns: 2 });
  const [first, second] = fleet.model.members;
  fleet.load(0, 10_000);
  const bound = fleet.send('a1', 1000, { holder: first?.hash as number });
  t.equal(bound.ends, 0, 'though the other CRN is idle');
  const other = fleet.send('b1', 1000);
  t.equal(other.ends, 1);
  t.equal(fleet.send('a2', 1000, { holder: second?.hash as number }).ends, 1, 'its account can go elsewhere');
  fleet.clock.advance(905);
  t.equal(bound.ends, 1, 'when its CRN has room');
  fleet.load(0, 10_000);
  const lost = fleet.send('a3', 1000, { holder: first?.hash as number });
  fleet.clock.advance(10);
  t.equal(lost.ends, 0);
  fleet.board.setStanding(0, STANDING.down, 0);
  fleet.clock.advance(3);
  t.equal(lost.ends, 1, 'its CRN is down: any other one will do');
  t.end();
});

t.test('many requests that wait for one CRN are looked at as one', (t) => {
  const fleet = new Fleet({ crns: 10 });
  for (let crn = 0; crn < 10; crn++) fleet.load(crn, 1_000_000);
  for (let at = 0; at < 200; at++) fleet.send(`a${at}`, 1000, { holder: 5 });
  t.equal(fleet.waiting, 200);
  fleet.asked = 0;
  fleet.clock.advance(2);
  t.ok(fleet.asked > 0 && fleet.asked <= 20, `${fleet.asked} backlogs`);
  t.end();
});

t.test('threads take turns by the tags of what waits in each', (t) => {
  const fleet = new Fleet({ crns: 1, threads: 4 });
  fleet.load(0, 2000);
  for (let at = 0; at < 80; at++) fleet.send(`f${at}`, 2000, { thread: at % 4 });
  fleet.clock.advance(2000);
  const before = fleet.log.length;
  fleet.send('q1', 2000, { thread: 2 });
  fleet.clock.advance(4000);
  t.ok(fleet.log.indexOf('admitted q1') - before <= 1, fleet.log.slice(before).join(', '));
  fleet.clock.advance(20_000);
  t.equal(fleet.log.length, 81);
  t.end();
});

t.test('a flood over all threads has one share', (t) => {
  const fleet = new Fleet({ crns: 1, threads: 4 });
  fleet.load(0, 2000);
  for (let at = 0; at < 160; at++) fleet.send(`f${at}`, 1000, { thread: at % 4 });
  for (let at = 0; at < 40; at++) fleet.send(`q${at}`, 1000, { thread: 3 });
  fleet.clock.advance(4000);
  const quiet = fleet.log.filter((line) => line.startsWith('admitted q')).length;
  t.ok(Math.abs(quiet - fleet.log.length / 2) <= 3, `${quiet} of ${fleet.log.length}`);
  t.end();
});

t.test('what goes at once does not pass what waits in another thread', (t) => {
  const fleet = new Fleet({ crns: 1, threads: 2 });
  fleet.load(0, 1100);
  fleet.send('a1', 1000, { thread: 0 });
  fleet.send('a2', 1000, { thread: 0 });
  fleet.clock.advance(9);
  const late = fleet.send('b1', 1000, { thread: 1 });
  t.equal(late.ends, 0);
  fleet.clock.advance(400);
  t.same(fleet.log, ['admitted a1', 'admitted b1', 'admitted a2']);
  t.end();
});

t.test('nobody waits for the turn of a thread that is dead', (t) => {
  const fleet = new Fleet({ crns: 1, threads: 2 });
  fleet.load(0, 2000);
  for (let at = 0; at < 4; at++) fleet.send(`a${at}`, 1000, { thread: 0 });
  const other = fleet.send('b1', 1000, { thread: 1 });
  const late = fleet.send('b2', 1000, { thread: 1 });
  fleet.threads[0]?.close();
  fleet.clock.advance(400);
  t.same([other.ends, late.ends], [1, 1]);
  t.end();
});

t.test('the bounds are those of all threads together', (t) => {
  const fleet = new Fleet({ crns: 1, threads: 3, settings: { requests: 12 } });
  fleet.load(0, 1_000_000);
  let waiting = 0;
  for (let at = 0; at < 60; at++) {
    if (fleet.send(`${at % 10}x`, 1000, { thread: at % 3 }).error === null) waiting++;
  }
  t.equal(waiting, 12);
  t.end();
});

/** Whether `Retry-After` is the time in which what waits of the account is gone, and the queue takes it again. */
t.test('Retry-After is true', (t) => {
  for (let seed = 1; seed <= 40; seed++) {
    const random = createSeededRandom(seed);
    const threads = 1 + Math.floor(random() * 4);
    const crns = 1 + Math.floor(random() * 6);
    const fleet = new Fleet({ crns, threads, rate: 1 + random() * 20, settings: { requests: 60, timeoutMs: 1e9 } });
    for (let member = 0; member < crns; member++) fleet.load(member, 1000 * fleet.rate);
    const accounts = 1 + Math.floor(random() * 5);
    const sent: Sent[] = [];
    while (!sent.some(({ error }) => error !== null)) {
      const account = 'abcde'[Math.floor(random() ** 2 * accounts)] as string;
      sent.push(
        fleet.send(`${account}${sent.length}`, 2000 + random() * 20_000, { thread: Math.floor(random() * threads) }),
      );
    }
    const refused = sent.at(-1) as Sent;
    const own = sent.filter(({ account, error }) => account === refused.account && error === null);
    const startMs = fleet.clock.now();
    while (own.some(({ ends }) => ends === 0)) fleet.clock.advance(10);
    const elapsedS = (fleet.clock.now() - startMs) / 1000;
    const ratio = refused.retryAfterS / Math.max(elapsedS, 1);
    t.ok(ratio > 0.5 && ratio < 2, `seed ${seed}: ${refused.retryAfterS} s were said, ${elapsedS} s it took`);
  }
  t.end();
});

/** Random arrivals, departures, standings, settings and loads in several threads. */
t.test('whatever happens, every request ends once and nothing stays behind', (t) => {
  const seen = new Set<string>();
  for (let seed = 1; seed <= 400; seed++) {
    const random = createSeededRandom(seed);
    const threads = 1 + Math.floor(random() * 4);
    const bounds = { requests: 3 + Math.floor(random() * 30), bytes: 20_000 + random() * 200_000 };
    const fleet = new Fleet({ crns: 3, threads, settings: { ...bounds, timeoutMs: 100 + random() * 3000 } });
    const sent: Sent[] = [];
    for (let step = 0; step < 300; step++) {
      const dice = random();
      const one = Math.floor(random() * 3);
      if (dice < 0.5) {
        const holder = random() < 0.1 ? one + 1 : 0;
        const account = 'abcdef'[Math.floor(random() ** 2 * 6)] as string;
        const thread = Math.floor(random() * threads);
        sent.push(fleet.send(`${account}${step}`, random() ** 3 * 10_000, { holder, thread }));
      } else if (dice < 0.58) {
        sent[Math.floor(random() * sent.length)]?.leave();
      } else if (dice < 0.6) {
        const standings = [STANDING.up, STANDING.up, STANDING.capable, STANDING.probing, STANDING.down];
        fleet.board.setStanding(one, standings[Math.floor(random() * 5)] as typeof STANDING.up, 0);
      } else if (dice < 0.61) {
        const holdMs = random() < 0.2 ? 0 : 20 + random() * 300;
        const isGone = random() < 0.2;
        fleet.model = { ...fleet.model, budget: random() < 0.3 ? 2 : 0 };
        const table = isGone ? tableOf() : tableOf(fleet.model);
        for (const thread of fleet.threads) thread.configure({ ...fleet.settings, holdMs }, table);
      } else if (dice < 0.65) {
        fleet.load(one, random() * 10_000);
      } else {
        fleet.clock.advance(random() * 60);
      }
      if (fleet.waiting > bounds.requests) t.fail(`seed ${seed}: ${fleet.waiting} wait`);
    }
    for (const thread of fleet.threads) thread.configure({ ...SETTINGS, holdMs: 50 }, tableOf(fleet.model));
    for (let member = 0; member < 3; member++) fleet.board.setStanding(member, STANDING.up, 0);
    fleet.clock.advance(100_000);
    const wrong = sent.filter(({ ends }) => ends !== 1);
    if (wrong.length > 0) t.fail(`seed ${seed}: ${wrong.map(({ ends, name }) => `${name} ${ends}`).join(', ')}`);
    if (fleet.waiting !== 0 || fleet.clock.nextDueMs !== Infinity) t.fail(`seed ${seed}: something is left behind`);
    for (const outcome of fleet.outcomes.keys()) seen.add(outcome);
  }
  t.same([...seen].sort(), ['admitted', 'full', 'gone', 'removed', 'timeout']);
  t.end();
});
