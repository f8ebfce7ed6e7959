// The CRN registry: tables, cells, restarts, the panic threshold, and drained CRNs.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { ask, type Ref } from '../../src/actor/ref.ts';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { CrnEvent, CrnOrder, OrderResult } from '../../src/routing/crn.ts';
import {
  crnRegistry,
  type CrnRegistryCommand,
  type CrnRegistrySettings,
  type ModelSpec,
} from '../../src/routing/crn-registry.ts';
import { type Member, ModelTable, type ModelTableData } from '../../src/routing/model-table.ts';

const SETTINGS: CrnRegistrySettings = {
  health: { intervalMs: 1000, timeoutMs: 500, path: '/health', rise: 1, fall: 2 },
  ejection: { consecutive: 2, errorRate: 1, minRequests: 1000, windowMs: 10_000, backoffMs: 5000, backoffMaxMs: 5000 },
  maxShare: 0.5,
};

class Fixture {
  readonly test: TestSystem = createTestSystem();
  readonly board: Board;
  readonly tables: ModelTableData[] = [];
  readonly events: CrnEvent[] = [];
  readonly probes: string[] = [];
  probed = 0;
  answer: (url: string) => Promise<number> = () => Promise.resolve(200);
  readonly ref: Ref<CrnRegistryCommand>;

  constructor(cells = 8) {
    const memory = createBoardMemory(cells, cells, 1);
    this.board = new Board(memory, 0);
    this.ref = this.test.system.spawn(
      crnRegistry({
        board: this.board,
        memory,
        probe: (url) => {
          this.probes.push(url);
          return this.answer(url);
        },
        onTable: (table) => this.tables.push(table),
        onEvent: (event) => this.events.push(event),
        onProbed: () => this.probed++,
      }),
      { name: 'crns' },
    );
  }

  get table(): ModelTable {
    return new ModelTable(this.tables.at(-1) as ModelTableData);
  }

  member(model: string, url: string): Member {
    return this.table.find(model)?.members.find((member) => member.url === url) as Member;
  }

  standing(model: string, url: string): number {
    return this.board.standing(this.member(model, url).member);
  }

  async configure(models: Record<string, readonly string[]>, settings: CrnRegistrySettings = SETTINGS): Promise<void> {
    const specs: ModelSpec[] = Object.entries(models).map(([id, servers]) => ({ id, servers, apiKey: `key-${id}` }));
    this.ref.tell({ type: 'Configure', models: specs, settings });
    await this.settle();
  }

  async settle(): Promise<void> {
    for (let i = 0; i < 4; i++) await this.test.settle();
  }

  async order(url: string, order: CrnOrder): Promise<OrderResult> {
    const message = (replyTo: Ref<OrderResult>): CrnRegistryCommand => ({ type: 'Order', url, order, replyTo });
    const result = ask(this.ref, message, { timeoutMs: 1000 });
    await this.settle();
    return result;
  }

  fail(model: string, url: string, times: number): void {
    const { member } = this.member(model, url);
    for (let i = 0; i < times; i++) {
      this.ref.tell({ type: 'Outcome', outcome: { member, verdict: 'failed', failure: 'reset', count: 1 } });
    }
  }

  actors(): readonly string[] {
    return this.events.flatMap((event) => (event.type === 'probed' ? [event.url] : []));
  }
}

t.test('makes a table with one server cell per CRN and one member cell per model on it', async (t) => {
  const deps = new Fixture();
  await deps.configure({ A: ['http://x', 'http://y', 'http://x'], b: ['http://y'] });
  t.equal(deps.table.version, 1);
  t.same(
    deps.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['A', ['http://x', 'http://y']],
      ['b', ['http://y']],
    ],
  );
  const [ay, by, ax] = [deps.member('a', 'http://y'), deps.member('b', 'http://y'), deps.member('a', 'http://x')];
  t.equal(ay.server, by.server);
  t.not(ay.server, ax.server);
  t.equal(new Set([ay.member, by.member, ax.member]).size, 3);
  t.same([ay.hash === by.hash, ay.apiKey, by.apiKey], [true, 'key-A', 'key-b']);
  t.same(deps.probes.toSorted(), ['http://x/health', 'http://y/health'], 'one actor a CRN');
  t.equal(deps.standing('b', 'http://y'), STANDING.up);
});

t.test('reports when all CRNs have been probed, and again after new ones', async (t) => {
  const deps = new Fixture();
  const gates = new Map<string, PromiseWithResolvers<number>>();
  deps.answer = (url) => {
    const gate = Promise.withResolvers<number>();
    gates.set(url, gate);
    return gate.promise;
  };
  await deps.configure({ m: ['http://x', 'http://y'] });
  gates.get('http://x/health')?.resolve(200);
  await deps.settle();
  t.equal(deps.probed, 0);
  gates.get('http://y/health')?.reject(new Error('refused'));
  await deps.settle();
  t.equal(deps.probed, 1, 'a bad probe counts too');
  await deps.configure({ m: ['http://x', 'http://y'] });
  t.equal(deps.probed, 2, 'no CRN is new');
  await deps.configure({ m: ['http://x', 'http://z'] });
  t.equal(deps.probed, 2);
  gates.get('http://z/health')?.resolve(200);
  await deps.settle();
  t.equal(deps.probed, 3);
  await deps.configure({});
  t.equal(deps.probed, 4, 'no CRN is left to probe');
});

t.test('keeps the cells of members that stay and clears those of members that go', async (t) => {
  const deps = new Fixture(3);
  await deps.configure({ a: ['http://x', 'http://y'], b: ['http://x'] });
  const before = [deps.member('a', 'http://x'), deps.member('b', 'http://x')];
  const gone = deps.member('a', 'http://y');
  deps.board.noteFirstByte(gone.member, 900, 0);
  await deps.configure({ a: ['http://x'], b: ['http://x'] });
  t.same([deps.member('a', 'http://x'), deps.member('b', 'http://x')], before);
  t.same([deps.board.standing(gone.member), deps.board.firstByteMs(gone.member)], [STANDING.down, 1]);
  deps.answer = () => new Promise(() => undefined);
  await deps.configure({ a: ['http://x', 'http://z'], b: ['http://x'] });
  const fresh = deps.member('a', 'http://z');
  t.equal(fresh.member, gone.member, 'the only free cell');
  t.equal(deps.board.standing(fresh.member), STANDING.down);
});

t.test('the cell that was free longest is taken first', async (t) => {
  const deps = new Fixture(4);
  await deps.configure({ m: ['http://x'] });
  const first = deps.member('m', 'http://x').member;
  for (const name of ['y', 'z', 'w']) {
    await deps.configure({ m: [`http://${name}`] });
    t.not(deps.member('m', `http://${name}`).member, first);
  }
});

t.test('restarts an actor only when its settings or models change', async (t) => {
  const deps = new Fixture();
  await deps.configure({ m: ['http://x'], n: ['http://y'] });
  t.equal(deps.probes.length, 2);
  await deps.configure({ m: ['http://x'], n: ['http://y'] });
  t.equal(deps.probes.length, 2);
  await deps.configure({ m: ['http://x'], n: ['http://y'], o: ['http://y'] });
  t.same(deps.probes.slice(2), ['http://y/health']);
  t.equal(deps.standing('m', 'http://x'), STANDING.up);
  const health = { ...SETTINGS.health, path: '/ready' };
  await deps.configure({ m: ['http://x'], n: ['http://y'], o: ['http://y'] }, { ...SETTINGS, health });
  t.same(deps.probes.slice(3).toSorted(), ['http://x/ready', 'http://y/ready']);
  t.equal(deps.standing('m', 'http://x'), STANDING.up, 'up all the time');
});

t.test('a CRN that was removed is not probed any more', async (t) => {
  const deps = new Fixture();
  await deps.configure({ m: ['http://x', 'http://y'] });
  await deps.configure({ m: ['http://x'] });
  const count = deps.probes.filter((url) => url.includes('y')).length;
  await deps.test.advance(10_000);
  t.equal(deps.probes.filter((url) => url.includes('y')).length, count);
  t.ok(deps.probes.filter((url) => url.includes('x')).length > 5);
});

t.test('an outcome reaches the CRN of its cell; one of an unknown cell is dropped', async (t) => {
  const deps = new Fixture();
  await deps.configure({ m: ['http://x', 'http://y'] });
  deps.fail('m', 'http://y', 2);
  deps.ref.tell({ type: 'Outcome', outcome: { member: 7, verdict: 'failed', failure: 'reset', count: 1 } });
  await deps.settle();
  t.same([deps.standing('m', 'http://x'), deps.standing('m', 'http://y')], [STANDING.up, STANDING.down]);
});

t.test('ejects at most maxShare of a model, even when all fail in one turn', async (t) => {
  for (const [count, most] of [
    [1, 0],
    [2, 1],
    [3, 1],
    [4, 2],
    [5, 2],
  ] as const) {
    const deps = new Fixture();
    const urls = Array.from({ length: count }, (_, at) => `http://crn-${at}`);
    await deps.configure({ m: urls });
    for (const url of urls) deps.fail('m', url, 10);
    await deps.settle();
    const ejected = deps.events.filter(({ type }) => type === 'ejected').length;
    t.equal(ejected, most, `${ejected} of ${count}`);
    const standings = urls.map((url) => deps.standing('m', url));
    t.equal(standings.filter((standing) => standing === STANDING.down).length, most);
  }
});

t.test('maxShare holds for every model of a CRN', async (t) => {
  const deps = new Fixture();
  await deps.configure({ wide: ['http://x', 'http://y', 'http://z'], narrow: ['http://x'] });
  deps.fail('wide', 'http://x', 10);
  await deps.settle();
  t.equal(deps.standing('wide', 'http://x'), STANDING.up, 'it is all that the other model has');
  deps.fail('wide', 'http://y', 10);
  await deps.settle();
  t.equal(deps.standing('wide', 'http://y'), STANDING.down);
});

t.test('a CRN that came back, or whose actor was restarted, does not count as ejected', async (t) => {
  const deps = new Fixture();
  await deps.configure({ m: ['http://x', 'http://y'] });
  deps.fail('m', 'http://x', 2);
  await deps.settle();
  deps.fail('m', 'http://y', 2);
  await deps.settle();
  t.equal(deps.standing('m', 'http://y'), STANDING.up);
  await deps.test.advance(6000);
  const { member } = deps.member('m', 'http://x');
  t.equal(deps.board.takeTrial(member), true);
  deps.ref.tell({ type: 'Outcome', outcome: { member, verdict: 'ok', failure: null, count: 1 } });
  await deps.settle();
  deps.fail('m', 'http://y', 2);
  await deps.settle();
  t.equal(deps.standing('m', 'http://y'), STANDING.down, 'now it may');

  // The actor of y crashes: the new one knows of no ejection.
  deps.ref.tell({
    type: 'Outcome',
    outcome: { member: deps.member('m', 'http://y').member, verdict: 'failed', failure: 'reset', count: 1 },
  });
  const crash = {
    member: deps.member('m', 'http://y').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  deps.ref.tell({ type: 'Outcome', outcome: crash as never });
  await deps.settle();
  t.equal(deps.standing('m', 'http://y'), STANDING.up);
  deps.fail('m', 'http://x', 2);
  await deps.settle();
  t.equal(deps.standing('m', 'http://x'), STANDING.down);
});

t.test('leaves out CRNs that the board has no cells for', async (t) => {
  const deps = new Fixture(2);
  await deps.configure({ one: ['http://a', 'http://b', 'http://c'], two: ['http://d'] });
  t.same(
    deps.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['one', ['http://a', 'http://b']],
      ['two', []],
    ],
  );
  t.same(
    deps.events.filter(({ type }) => type === 'left out').map(({ url }) => url),
    ['http://c', 'http://d'],
  );
  await deps.configure({ two: ['http://d'] });
  t.same(
    deps.table.find('two')?.members.map(({ url }) => url),
    ['http://d'],
    'once there is room again',
  );
});

t.test('a CRN stays drained through restarts and configurations until it is returned', async (t) => {
  const deps = new Fixture();
  await deps.configure({ m: ['http://x', 'http://y'] });
  t.equal(await deps.order('http://x', { action: 'drain' }), 'done');
  t.equal(deps.standing('m', 'http://x'), STANDING.drained);
  t.equal(deps.standing('m', 'http://y'), STANDING.up);
  await deps.configure({ m: ['http://x', 'http://y'], n: ['http://x'] });
  t.same([deps.standing('m', 'http://x'), deps.standing('n', 'http://x')], [STANDING.drained, STANDING.drained]);
  await deps.configure({ m: ['http://y'] });
  await deps.configure({ m: ['http://x', 'http://y'] });
  t.equal(deps.standing('m', 'http://x'), STANDING.drained, 'it had left the settings');
  const crash = {
    member: deps.member('m', 'http://x').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  deps.ref.tell({ type: 'Outcome', outcome: crash as never });
  await deps.settle();
  t.equal(deps.standing('m', 'http://x'), STANDING.drained);
  t.equal(await deps.order('http://x', { action: 'return' }), 'done');
  t.equal(deps.standing('m', 'http://x'), STANDING.up);
  t.equal(await deps.order('http://nowhere', { action: 'drain' }), 'no such CRN');
});

t.test('orders of an operator count for the panic threshold but are not limited by it', async (t) => {
  const deps = new Fixture();
  await deps.configure({ m: ['http://x', 'http://y'] });
  await deps.order('http://x', { action: 'drain' });
  deps.fail('m', 'http://y', 10);
  await deps.settle();
  t.equal(deps.standing('m', 'http://y'), STANDING.up, 'it is the last one');
  await deps.order('http://y', { action: 'eject', forMs: 1000 });
  t.equal(deps.standing('m', 'http://y'), STANDING.down, 'an order is an order');
});
