// The keeper of CRN actors: tables, cells, restarts, the panic threshold, and when everyone has been judged.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { ask, type Ref } from '../../src/actor/ref.ts';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { CrnEvent, CrnOrder, Obeyed } from '../../src/routing/crn.ts';
import { crns, type CrnsCommand, type CrnsSettings, type ModelSpec } from '../../src/routing/crns.ts';
import { type Member, Table, type TableData } from '../../src/routing/table.ts';

const SETTINGS: CrnsSettings = {
  health: { intervalMs: 1000, timeoutMs: 500, path: '/health', rise: 1, fall: 2 },
  ejection: { consecutive: 2, errorRate: 1, minRequests: 1000, windowMs: 10_000, backoffMs: 5000, backoffMaxMs: 5000 },
  maxShare: 0.5,
};

class World {
  readonly test: TestSystem = createTestSystem();
  readonly board: Board;
  readonly tables: TableData[] = [];
  readonly events: CrnEvent[] = [];
  readonly probes: string[] = [];
  judged = 0;
  answer: (url: string) => Promise<number> = () => Promise.resolve(200);
  readonly ref: Ref<CrnsCommand>;

  constructor(cells = 8) {
    const memory = createBoardMemory(cells, cells, 1);
    this.board = new Board(memory, 0);
    this.ref = this.test.system.spawn(
      crns({
        board: this.board,
        memory,
        probe: (url) => {
          this.probes.push(url);
          return this.answer(url);
        },
        onTable: (table) => this.tables.push(table),
        onEvent: (event) => this.events.push(event),
        onJudged: () => this.judged++,
      }),
      { name: 'crns' },
    );
  }

  get table(): Table {
    return new Table(this.tables.at(-1) as TableData);
  }

  member(model: string, url: string): Member {
    return this.table.find(model)?.members.find((member) => member.url === url) as Member;
  }

  standing(model: string, url: string): number {
    return this.board.standing(this.member(model, url).member);
  }

  async configure(models: Record<string, readonly string[]>, settings: CrnsSettings = SETTINGS): Promise<void> {
    const specs: ModelSpec[] = Object.entries(models).map(([id, servers]) => ({ id, servers, apiKey: `key-${id}` }));
    this.ref.tell({ type: 'Configure', models: specs, settings });
    await this.settle();
  }

  async settle(): Promise<void> {
    for (let i = 0; i < 4; i++) await this.test.settle();
  }

  async order(url: string, order: CrnOrder): Promise<Obeyed> {
    const message = (replyTo: Ref<Obeyed>): CrnsCommand => ({ type: 'Order', url, order, replyTo });
    const obeyed = ask(this.ref, message, { timeoutMs: 1000 });
    await this.settle();
    return obeyed;
  }

  fail(model: string, url: string, times: number): void {
    const { member } = this.member(model, url);
    for (let i = 0; i < times; i++) {
      this.ref.tell({ type: 'Outcome', outcome: { member, verdict: 'failed', failure: 'reset', count: 1 } });
    }
  }

  actors(): readonly string[] {
    return this.events.flatMap((event) => (event.type === 'judged' ? [event.url] : []));
  }
}

t.test('makes a table of every model, one cell a CRN and one a model on it', async (t) => {
  const world = new World();
  await world.configure({ A: ['http://x', 'http://y', 'http://x'], b: ['http://y'] });
  t.equal(world.table.version, 1);
  t.same(
    world.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['A', ['http://x', 'http://y']],
      ['b', ['http://y']],
    ],
  );
  const [ay, by, ax] = [world.member('a', 'http://y'), world.member('b', 'http://y'), world.member('a', 'http://x')];
  t.equal(ay.server, by.server);
  t.not(ay.server, ax.server);
  t.equal(new Set([ay.member, by.member, ax.member]).size, 3);
  t.same([ay.hash === by.hash, ay.apiKey, by.apiKey], [true, 'key-A', 'key-b']);
  t.same(world.probes.toSorted(), ['http://x/health', 'http://y/health'], 'one actor a CRN');
  t.equal(world.standing('b', 'http://y'), STANDING.up);
});

t.test('says so once everyone has been judged, and again for newcomers', async (t) => {
  const world = new World();
  const gates = new Map<string, PromiseWithResolvers<number>>();
  world.answer = (url) => {
    const gate = Promise.withResolvers<number>();
    gates.set(url, gate);
    return gate.promise;
  };
  await world.configure({ m: ['http://x', 'http://y'] });
  gates.get('http://x/health')?.resolve(200);
  await world.settle();
  t.equal(world.judged, 0);
  gates.get('http://y/health')?.reject(new Error('refused'));
  await world.settle();
  t.equal(world.judged, 1, 'a bad judgement is one');
  await world.configure({ m: ['http://x', 'http://y'] });
  t.equal(world.judged, 2, 'nobody is new');
  await world.configure({ m: ['http://x', 'http://z'] });
  t.equal(world.judged, 2);
  gates.get('http://z/health')?.resolve(200);
  await world.settle();
  t.equal(world.judged, 3);
  await world.configure({});
  t.equal(world.judged, 4, 'nobody is there to judge');
});

t.test('keeps the cells of what stays and forgets what goes', async (t) => {
  const world = new World(3);
  await world.configure({ a: ['http://x', 'http://y'], b: ['http://x'] });
  const before = [world.member('a', 'http://x'), world.member('b', 'http://x')];
  const gone = world.member('a', 'http://y');
  world.board.noteFirstByte(gone.member, 900, 0);
  await world.configure({ a: ['http://x'], b: ['http://x'] });
  t.same([world.member('a', 'http://x'), world.member('b', 'http://x')], before);
  t.same([world.board.standing(gone.member), world.board.firstByteMs(gone.member)], [STANDING.down, 1]);
  world.answer = () => new Promise(() => undefined);
  await world.configure({ a: ['http://x', 'http://z'], b: ['http://x'] });
  const fresh = world.member('a', 'http://z');
  t.equal(fresh.member, gone.member, 'the only free cell');
  t.equal(world.board.standing(fresh.member), STANDING.down);
});

t.test('the cell that was free longest is used first', async (t) => {
  const world = new World(4);
  await world.configure({ m: ['http://x'] });
  const first = world.member('m', 'http://x').member;
  for (const name of ['y', 'z', 'w']) {
    await world.configure({ m: [`http://${name}`] });
    t.not(world.member('m', `http://${name}`).member, first);
  }
});

t.test('an actor is started anew when its settings or models change, and only then', async (t) => {
  const world = new World();
  await world.configure({ m: ['http://x'], n: ['http://y'] });
  t.equal(world.probes.length, 2);
  await world.configure({ m: ['http://x'], n: ['http://y'] });
  t.equal(world.probes.length, 2);
  await world.configure({ m: ['http://x'], n: ['http://y'], o: ['http://y'] });
  t.same(world.probes.slice(2), ['http://y/health']);
  t.equal(world.standing('m', 'http://x'), STANDING.up);
  const health = { ...SETTINGS.health, path: '/ready' };
  await world.configure({ m: ['http://x'], n: ['http://y'], o: ['http://y'] }, { ...SETTINGS, health });
  t.same(world.probes.slice(3).toSorted(), ['http://x/ready', 'http://y/ready']);
  t.equal(world.standing('m', 'http://x'), STANDING.up, 'up all the time');
});

t.test('a CRN that is taken out is probed no more', async (t) => {
  const world = new World();
  await world.configure({ m: ['http://x', 'http://y'] });
  await world.configure({ m: ['http://x'] });
  const count = world.probes.filter((url) => url.includes('y')).length;
  await world.test.advance(10_000);
  t.equal(world.probes.filter((url) => url.includes('y')).length, count);
  t.ok(world.probes.filter((url) => url.includes('x')).length > 5);
});

t.test('an outcome reaches the CRN of its cell; one of an unknown cell reaches nobody', async (t) => {
  const world = new World();
  await world.configure({ m: ['http://x', 'http://y'] });
  world.fail('m', 'http://y', 2);
  world.ref.tell({ type: 'Outcome', outcome: { member: 7, verdict: 'failed', failure: 'reset', count: 1 } });
  await world.settle();
  t.same([world.standing('m', 'http://x'), world.standing('m', 'http://y')], [STANDING.up, STANDING.down]);
});

t.test('at most the set share of a model is ejected, even when all fail in one turn', async (t) => {
  for (const [count, most] of [
    [1, 0],
    [2, 1],
    [3, 1],
    [4, 2],
    [5, 2],
  ] as const) {
    const world = new World();
    const urls = Array.from({ length: count }, (_, at) => `http://crn-${at}`);
    await world.configure({ m: urls });
    for (const url of urls) world.fail('m', url, 10);
    await world.settle();
    const ejected = world.events.filter(({ type }) => type === 'ejected').length;
    t.equal(ejected, most, `${ejected} of ${count}`);
    const standings = urls.map((url) => world.standing('m', url));
    t.equal(standings.filter((standing) => standing === STANDING.down).length, most);
  }
});

t.test('every model of a CRN has a say', async (t) => {
  const world = new World();
  await world.configure({ wide: ['http://x', 'http://y', 'http://z'], narrow: ['http://x'] });
  world.fail('wide', 'http://x', 10);
  await world.settle();
  t.equal(world.standing('wide', 'http://x'), STANDING.up, 'it is all that the other model has');
  world.fail('wide', 'http://y', 10);
  await world.settle();
  t.equal(world.standing('wide', 'http://y'), STANDING.down);
});

t.test('one that came back, or whose actor was started anew, counts no more', async (t) => {
  const world = new World();
  await world.configure({ m: ['http://x', 'http://y'] });
  world.fail('m', 'http://x', 2);
  await world.settle();
  world.fail('m', 'http://y', 2);
  await world.settle();
  t.equal(world.standing('m', 'http://y'), STANDING.up);
  await world.test.advance(6000);
  const { member } = world.member('m', 'http://x');
  t.equal(world.board.takeTrial(member), true);
  world.ref.tell({ type: 'Outcome', outcome: { member, verdict: 'ok', failure: null, count: 1 } });
  await world.settle();
  world.fail('m', 'http://y', 2);
  await world.settle();
  t.equal(world.standing('m', 'http://y'), STANDING.down, 'now it may');

  // The actor of y crashes: the new one knows of no ejection.
  world.ref.tell({
    type: 'Outcome',
    outcome: { member: world.member('m', 'http://y').member, verdict: 'failed', failure: 'reset', count: 1 },
  });
  const crash = {
    member: world.member('m', 'http://y').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  world.ref.tell({ type: 'Outcome', outcome: crash as never });
  await world.settle();
  t.equal(world.standing('m', 'http://y'), STANDING.up);
  world.fail('m', 'http://x', 2);
  await world.settle();
  t.equal(world.standing('m', 'http://x'), STANDING.down);
});

t.test('leaves out the CRNs that the board has no cells for, and goes on with the others', async (t) => {
  const world = new World(2);
  await world.configure({ one: ['http://a', 'http://b', 'http://c'], two: ['http://d'] });
  t.same(
    world.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['one', ['http://a', 'http://b']],
      ['two', []],
    ],
  );
  t.same(
    world.events.filter(({ type }) => type === 'left out').map(({ url }) => url),
    ['http://c', 'http://d'],
  );
  await world.configure({ two: ['http://d'] });
  t.same(
    world.table.find('two')?.members.map(({ url }) => url),
    ['http://d'],
    'once there is room again',
  );
});

t.test('drains, and remembers it through crashes and configurations until it is told to return', async (t) => {
  const world = new World();
  await world.configure({ m: ['http://x', 'http://y'] });
  t.equal(await world.order('http://x', { action: 'drain' }), 'done');
  t.equal(world.standing('m', 'http://x'), STANDING.drained);
  t.equal(world.standing('m', 'http://y'), STANDING.up);
  await world.configure({ m: ['http://x', 'http://y'], n: ['http://x'] });
  t.same([world.standing('m', 'http://x'), world.standing('n', 'http://x')], [STANDING.drained, STANDING.drained]);
  await world.configure({ m: ['http://y'] });
  await world.configure({ m: ['http://x', 'http://y'] });
  t.equal(world.standing('m', 'http://x'), STANDING.drained, 'it had left the settings');
  const crash = {
    member: world.member('m', 'http://x').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  world.ref.tell({ type: 'Outcome', outcome: crash as never });
  await world.settle();
  t.equal(world.standing('m', 'http://x'), STANDING.drained);
  t.equal(await world.order('http://x', { action: 'return' }), 'done');
  t.equal(world.standing('m', 'http://x'), STANDING.up);
  t.equal(await world.order('http://nowhere', { action: 'drain' }), 'no such CRN');
});

t.test('what an operator has taken out counts for the panic threshold, and does not ask it', async (t) => {
  const world = new World();
  await world.configure({ m: ['http://x', 'http://y'] });
  await world.order('http://x', { action: 'drain' });
  world.fail('m', 'http://y', 10);
  await world.settle();
  t.equal(world.standing('m', 'http://y'), STANDING.up, 'it is the last one');
  await world.order('http://y', { action: 'eject', forMs: 1000 });
  t.equal(world.standing('m', 'http://y'), STANDING.down, 'an order is an order');
});
