// The CRN registry: tables, cells, restarts, the panic threshold, and drained CRNs.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { ask, type Ref } from '../../src/actor/ref.ts';
import { BlockIndex } from '../../src/routing/block-index.ts';
import { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import type { CrnEvent, CrnOverride, OverrideResult } from '../../src/routing/crn.ts';
import {
  crnRegistry,
  type CrnRegistryCommand,
  type CrnRegistrySettings,
  type ModelSpec,
  outcomeQueue,
} from '../../src/routing/crn-registry.ts';
import { type Member, ModelTable, type ModelTableData } from '../../src/routing/model-table.ts';
import { RetryBudget } from '../../src/routing/retry-budget.ts';
import { answerOf, silentDeps } from '../support/crn-deps.ts';

const SETTINGS: CrnRegistrySettings = {
  health: { intervalMs: 1000, timeoutMs: 500, path: '/health', rise: 1, fall: 2 },
  ejection: {
    consecutive: 2,
    errorRate: 1,
    outlierRate: 0.1,
    outlierFactor: 3,
    minRequests: 1000,
    windowMs: 10_000,
    backoffMs: 5000,
    backoffMaxMs: 5000,
  },
  maxShare: 0.5,
};

class Fixture {
  readonly test: TestSystem = createTestSystem();
  readonly memory: BoardMemory;
  readonly board: Board;
  readonly tables: ModelTableData[] = [];
  readonly events: CrnEvent[] = [];
  readonly probes: string[] = [];
  probed = 0;
  answer: (url: string) => Promise<number> = () => Promise.resolve(200);
  /** What probes identify processes by. */
  instance = '';
  readonly ref: Ref<CrnRegistryCommand>;

  constructor(cells = 8) {
    this.memory = createBoardMemory(cells, cells, 1);
    this.board = new Board(this.memory, 0);
    this.ref = this.test.system.spawn(
      crnRegistry({
        board: this.board,
        memory: this.memory,
        blockIndex: new BlockIndex(this.memory.blocks),
        ...silentDeps(this.memory),
        probe: async (url) => {
          this.probes.push(url);
          return { ...answerOf(await this.answer(url)), instance: this.instance };
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
    const keyed = (id: string) => (url: string) => ({ url, apiKey: `key-${id}` });
    const specs: ModelSpec[] = Object.entries(models).map(([id, urls]) => ({ id, servers: urls.map(keyed(id)) }));
    await this.configureSpecs(specs, settings);
  }

  async configureSpecs(models: readonly ModelSpec[], settings: CrnRegistrySettings = SETTINGS): Promise<void> {
    this.ref.tell({ type: 'Configure', models, settings });
    await this.settle();
  }

  async settle(): Promise<void> {
    for (let i = 0; i < 4; i++) await this.test.settle();
  }

  async override(url: string, override: CrnOverride): Promise<OverrideResult> {
    const message = (replyTo: Ref<OverrideResult>): CrnRegistryCommand => ({
      type: 'Override',
      url,
      override,
      replyTo,
    });
    const result = ask(this.ref, message, { timeoutMs: 1000 });
    await this.settle();
    return result;
  }

  fail(model: string, url: string, times: number): void {
    const { member } = this.member(model, url);
    for (let i = 0; i < times; i++) this.outcome(member, 'failed');
  }

  /** Tells the outcome of a request of the present epoch. */
  outcome(member: number, verdict: 'ok' | 'failed', trial = false, count = 1): void {
    const failure = verdict === 'failed' ? 'reset' : null;
    const outcome = { member, epoch: this.board.epoch(member), trial, verdict, failure, count } as const;
    this.ref.tell({ type: 'Outcome', outcome });
  }

  actors(): readonly string[] {
    return this.events.flatMap((event) => (event.type === 'probed' ? [event.url] : []));
  }
}

t.test(
  'members have the weight, the dialects and the credential of their server, and models their aliases',
  async (t) => {
    const fixture = new Fixture();
    const server = { url: 'http://x', apiKey: 'own', weight: 2.5, dialects: ['chat', 'messages'] } as const;
    await fixture.configureSpecs([{ id: 'a', aliases: ['GPT-5'], servers: [{ url: 'http://y' }, server] }]);
    t.match(fixture.member('a', 'http://y'), { apiKey: undefined, weight: 1, dialects: 0 });
    t.match(fixture.member('gpt-5', 'http://x'), { apiKey: 'own', weight: 2.5, dialects: 9 });
    const before = fixture.member('a', 'http://x').member;
    await fixture.configureSpecs([
      { id: 'a', servers: [{ url: 'http://y' }, { ...server, weight: 1, dialects: 'auto' }] },
    ]);
    t.match(fixture.member('a', 'http://x'), { member: before, weight: 1, dialects: 0 }, 'a change keeps its cells');
    t.equal(fixture.table.find('gpt-5'), undefined);
  },
);

t.test('makes a table with one server cell per CRN and one member cell per model on it', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ A: ['http://x', 'http://y', 'http://x'], b: ['http://y'] });
  t.equal(fixture.table.version, 1);
  t.same(
    fixture.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['A', ['http://x', 'http://y']],
      ['b', ['http://y']],
    ],
  );
  const [ay, by, ax] = [
    fixture.member('a', 'http://y'),
    fixture.member('b', 'http://y'),
    fixture.member('a', 'http://x'),
  ];
  t.equal(ay.server, by.server);
  t.not(ay.server, ax.server);
  t.equal(new Set([ay.member, by.member, ax.member]).size, 3);
  t.same([ay.hash === by.hash, ay.apiKey, by.apiKey], [true, 'key-A', 'key-b']);
  t.same(fixture.probes.toSorted(), ['http://x/health', 'http://y/health'], 'one actor a CRN');
  t.equal(fixture.standing('b', 'http://y'), STANDING.up);
});

t.test('reports when all CRNs have been probed, and again after new ones', async (t) => {
  const fixture = new Fixture();
  const gates = new Map<string, PromiseWithResolvers<number>>();
  fixture.answer = (url) => {
    const gate = Promise.withResolvers<number>();
    gates.set(url, gate);
    return gate.promise;
  };
  await fixture.configure({ m: ['http://x', 'http://y'] });
  gates.get('http://x/health')?.resolve(200);
  await fixture.settle();
  t.equal(fixture.probed, 0);
  gates.get('http://y/health')?.reject(new Error('refused'));
  await fixture.settle();
  t.equal(fixture.probed, 1, 'a bad probe counts too');
  await fixture.configure({ m: ['http://x', 'http://y'] });
  t.equal(fixture.probed, 2, 'no CRN is new');
  await fixture.configure({ m: ['http://x', 'http://z'] });
  t.equal(fixture.probed, 2);
  gates.get('http://z/health')?.resolve(200);
  await fixture.settle();
  t.equal(fixture.probed, 3);
  await fixture.configure({});
  t.equal(fixture.probed, 4, 'no CRN is left to probe');
});

t.test('keeps the cells of members that stay and clears those of members that go', async (t) => {
  const fixture = new Fixture(3);
  await fixture.configure({ a: ['http://x', 'http://y'], b: ['http://x'] });
  const before = [fixture.member('a', 'http://x'), fixture.member('b', 'http://x')];
  const gone = fixture.member('a', 'http://y');
  fixture.board.noteFirstByte(gone.member, 900, 1);
  await fixture.configure({ a: ['http://x'], b: ['http://x'] });
  t.same([fixture.member('a', 'http://x'), fixture.member('b', 'http://x')], before);
  t.equal(fixture.board.standing(gone.member), STANDING.down);
  fixture.answer = () => new Promise(() => undefined);
  await fixture.configure({ a: ['http://x', 'http://z'], b: ['http://x'] });
  const fresh = fixture.member('a', 'http://z');
  t.equal(fresh.member, gone.member, 'the only free cell');
  t.same([fixture.board.standing(fresh.member), fixture.board.firstByteMs(fresh.member)], [STANDING.down, 1]);
});

t.test('the cell that was free longest is taken first', async (t) => {
  const fixture = new Fixture(4);
  await fixture.configure({ m: ['http://x'] });
  const first = fixture.member('m', 'http://x').member;
  for (const name of ['y', 'z', 'w']) {
    await fixture.configure({ m: [`http://${name}`] });
    t.not(fixture.member('m', `http://${name}`).member, first);
  }
});

t.test('a model that stays keeps its retry budget, one that comes has a full one', async (t) => {
  const fixture = new Fixture(3);
  const budget = (model: string): RetryBudget =>
    new RetryBudget(fixture.memory, fixture.table.find(model)?.budget ?? -1, { ratio: 0, burst: 5 });
  await fixture.configure({ a: ['http://x'], b: ['http://x', 'http://y'], empty: [] });
  for (const model of ['a', 'b', 'b']) t.equal(budget(model).withdraw(), true);
  await fixture.configure({ new: ['http://y'], b: ['http://y'], empty: [] });
  t.same([budget('b').balance, budget('new').balance], [3, 5]);
  await fixture.configure({ a: ['http://x'], b: ['http://y'], more: ['http://y'] });
  t.same([budget('a').balance, budget('b').balance, budget('more').balance], [5, 3, 5]);
  budget('a').withdraw();
  await fixture.configure({ a: [], b: ['http://y'] });
  t.equal(budget('a').balance, 5, 'a model without CRNs has none of its own');
});

t.test('a CRN that fails more often than the others of its model is ejected', async (t) => {
  const fixture = new Fixture();
  const ejection = { ...SETTINGS.ejection, consecutive: 100, minRequests: 20 };
  await fixture.configure({ m: ['http://x', 'http://y', 'http://z'], n: ['http://z'] }, { ...SETTINGS, ejection });
  const [x, y, z] = ['x', 'y', 'z'].map((name) => fixture.member('m', `http://${name}`).member) as [
    number,
    number,
    number,
  ];
  fixture.outcome(y, 'ok', false, 30);
  fixture.outcome(z, 'ok', false, 30);
  fixture.outcome(x, 'ok', false, 18);
  fixture.fail('m', 'http://x', 1);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://x'), STANDING.up, '19 requests are too few');
  fixture.fail('m', 'http://x', 1);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://x'), STANDING.down);
  fixture.fail('m', 'http://y', 10);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://y'), STANDING.up, 'the panic threshold holds');
});

t.test('restarts an actor only when its settings or models change', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x'], n: ['http://y'] });
  t.equal(fixture.probes.length, 2);
  await fixture.configure({ m: ['http://x'], n: ['http://y'] });
  t.equal(fixture.probes.length, 2);
  await fixture.configure({ m: ['http://x'], n: ['http://y'], o: ['http://y'] });
  t.same(fixture.probes.slice(2), ['http://y/health']);
  t.equal(fixture.standing('m', 'http://x'), STANDING.up);
  const health = { ...SETTINGS.health, path: '/ready' };
  await fixture.configure({ m: ['http://x'], n: ['http://y'], o: ['http://y'] }, { ...SETTINGS, health });
  t.same(fixture.probes.slice(3).toSorted(), ['http://x/ready', 'http://y/ready']);
  t.equal(fixture.standing('m', 'http://x'), STANDING.up, 'up all the time');
});

t.test('a CRN that was up when its models changed is taken down by as many bad probes as before', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ a: ['http://x'] });
  fixture.answer = () => Promise.resolve(503);
  await fixture.configure({ a: ['http://x'], b: ['http://x'] });
  const standings = (): readonly number[] => ['a', 'b'].map((model) => fixture.standing(model, 'http://x'));
  t.same(standings(), [STANDING.up, STANDING.down], 'the first probe of a new model counts by itself');
  fixture.test.clock.advance(1100);
  await fixture.settle();
  t.same(standings(), [STANDING.down, STANDING.down]);
});

t.test('an actor is not restarted where its models come in another order', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'], n: ['http://x', 'http://y'] });
  fixture.fail('m', 'http://x', 2);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://x'), STANDING.down);
  const probes = fixture.probes.length;
  await fixture.configure({ n: ['http://x', 'http://y'], m: ['http://x', 'http://y'] });
  t.equal(fixture.probes.length, probes);
  t.equal(fixture.standing('m', 'http://x'), STANDING.down, 'its ejection goes on');
});

t.test('a CRN that was removed is not probed any more', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'] });
  await fixture.configure({ m: ['http://x'] });
  const count = fixture.probes.filter((url) => url.includes('y')).length;
  await fixture.test.advance(10_000);
  t.equal(fixture.probes.filter((url) => url.includes('y')).length, count);
  t.ok(fixture.probes.filter((url) => url.includes('x')).length > 5);
});

t.test('an outcome reaches the CRN of its cell; one of an unknown cell is dropped', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'] });
  fixture.fail('m', 'http://y', 2);
  fixture.outcome(7, 'failed');
  await fixture.settle();
  t.same([fixture.standing('m', 'http://x'), fixture.standing('m', 'http://y')], [STANDING.up, STANDING.down]);
});

t.test('a burst of outcomes does not cost a configuration or an override', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ a: ['http://x'] });
  const queue = fixture.test.system.spawn(outcomeQueue(fixture.ref));
  const outcome = { member: 7, epoch: 0, trial: false, verdict: 'failed', failure: 'connect', count: 1 } as const;
  for (let at = 0; at < 20_000; at++) queue.tell({ type: 'Outcome', outcome });
  await fixture.configure({ b: ['http://x'] });
  t.ok(fixture.table.find('b'));
  for (let at = 0; at < 20_000; at++) queue.tell({ type: 'Outcome', outcome });
  t.equal(await fixture.override('http://x', { action: 'drain' }), 'done');
});

t.test('ejects at most maxShare of a model, even when all fail in one turn', async (t) => {
  for (const [count, most] of [
    [1, 0],
    [2, 1],
    [3, 1],
    [4, 2],
    [5, 2],
  ] as const) {
    const fixture = new Fixture();
    const urls = Array.from({ length: count }, (_, at) => `http://crn-${at}`);
    await fixture.configure({ m: urls });
    for (const url of urls) fixture.fail('m', url, 10);
    await fixture.settle();
    const ejected = fixture.events.filter(({ type }) => type === 'ejected').length;
    t.equal(ejected, most, `${ejected} of ${count}`);
    const standings = urls.map((url) => fixture.standing('m', url));
    t.equal(standings.filter((standing) => standing === STANDING.down).length, most);
  }
});

t.test('maxShare holds for every model of a CRN', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ wide: ['http://x', 'http://y', 'http://z'], narrow: ['http://x'] });
  fixture.fail('wide', 'http://x', 10);
  await fixture.settle();
  t.equal(fixture.standing('wide', 'http://x'), STANDING.up, 'it is all that the other model has');
  fixture.fail('wide', 'http://y', 10);
  await fixture.settle();
  t.equal(fixture.standing('wide', 'http://y'), STANDING.down);
});

t.test('a CRN that came back, or whose actor was restarted, does not count as ejected', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'] });
  fixture.fail('m', 'http://x', 2);
  await fixture.settle();
  fixture.fail('m', 'http://y', 2);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://y'), STANDING.up);
  await fixture.test.advance(6000);
  const { member, server } = fixture.member('m', 'http://x');
  t.equal(fixture.board.takeTrial(server, 0), true);
  fixture.outcome(member, 'ok', true);
  await fixture.settle();
  fixture.fail('m', 'http://y', 2);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://y'), STANDING.down, 'now it may');

  // The actor of y crashes: the new one knows of no ejection.
  fixture.fail('m', 'http://y', 1);
  const crash = {
    member: fixture.member('m', 'http://y').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  fixture.ref.tell({ type: 'Outcome', outcome: crash as never });
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://y'), STANDING.up);
  fixture.fail('m', 'http://x', 2);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://x'), STANDING.down);
});

t.test('leaves out CRNs that the board has no cells for', async (t) => {
  const fixture = new Fixture(2);
  await fixture.configure({ one: ['http://a', 'http://b', 'http://c'], two: ['http://d'] });
  t.same(
    fixture.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['one', ['http://a', 'http://b']],
      ['two', []],
    ],
  );
  t.same(
    fixture.events.filter(({ type }) => type === 'left out'),
    [{ type: 'left out', url: 'http://c', model: 'one', count: 2 }],
    'one event for all of them',
  );
  await fixture.configure({ two: ['http://d'] });
  t.same(
    fixture.table.find('two')?.members.map(({ url }) => url),
    ['http://d'],
    'once cells are free again',
  );
});

t.test('models move between CRNs of a board that is full', async (t) => {
  const fixture = new Fixture(4);
  await fixture.configure({ one: ['http://a'], two: ['http://a', 'http://b'], three: ['http://b'] });
  await fixture.configure({ one: ['http://a'], two: ['http://a'], three: ['http://a', 'http://b'] });
  t.same(
    fixture.table.models.map(({ id, members }) => [id, members.map(({ url }) => url)]),
    [
      ['one', ['http://a']],
      ['two', ['http://a']],
      ['three', ['http://a', 'http://b']],
    ],
  );
  const cells = fixture.table.models.flatMap(({ members }) => members.map(({ member }) => member));
  t.equal(new Set(cells).size, 4, 'each with a cell of its own');
});

t.test('a CRN stays drained through restarts and configurations until it is returned', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'] });
  t.equal(await fixture.override('http://x', { action: 'drain' }), 'done');
  t.equal(fixture.standing('m', 'http://x'), STANDING.drained);
  t.equal(fixture.standing('m', 'http://y'), STANDING.up);
  await fixture.configure({ m: ['http://x', 'http://y'], n: ['http://x'] });
  t.same([fixture.standing('m', 'http://x'), fixture.standing('n', 'http://x')], [STANDING.drained, STANDING.drained]);
  await fixture.configure({ m: ['http://y'] });
  await fixture.configure({ m: ['http://x', 'http://y'] });
  t.equal(fixture.standing('m', 'http://x'), STANDING.drained, 'it had left the settings');
  const crash = {
    member: fixture.member('m', 'http://x').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  fixture.ref.tell({ type: 'Outcome', outcome: crash as never });
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://x'), STANDING.drained);
  t.equal(await fixture.override('http://x', { action: 'return' }), 'done');
  t.equal(fixture.standing('m', 'http://x'), STANDING.up);
  t.equal(await fixture.override('http://nowhere', { action: 'drain' }), 'no such CRN');
});

t.test('a CRN stays ejected by an operator through restarts and configurations for as long as was said', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'] });
  const ejections = (): number => fixture.events.filter(({ type }) => type === 'ejected').length;
  await fixture.override('http://x', { action: 'eject', forMs: 60_000 });
  await fixture.test.advance(10_000);
  await fixture.configure({ m: ['http://x', 'http://y'], n: ['http://x'] });
  const health = { ...SETTINGS.health, intervalMs: 500 };
  await fixture.configure({ m: ['http://x', 'http://y'], n: ['http://x'] }, { ...SETTINGS, health });
  await fixture.test.advance(10_000);
  t.same([fixture.standing('m', 'http://x'), fixture.standing('n', 'http://x')], [STANDING.down, STANDING.down]);
  await fixture.configure({ m: ['http://y'] });
  await fixture.configure({ m: ['http://x', 'http://y'] });
  const crash = {
    member: fixture.member('m', 'http://x').member,
    get verdict(): never {
      throw new Error('crash');
    },
  };
  fixture.ref.tell({ type: 'Outcome', outcome: crash as never });
  await fixture.settle();
  await fixture.test.advance(10_000);
  t.equal(fixture.standing('m', 'http://x'), STANDING.down);
  fixture.fail('m', 'http://y', 2);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://y'), STANDING.up, 'it counts for the panic threshold');
  await fixture.test.advance(31_000);
  t.equal(fixture.standing('m', 'http://x'), STANDING.probing, 'a minute is over');
  t.equal(ejections(), 1, 'it is one ejection');
  await fixture.override('http://x', { action: 'eject', forMs: 60_000 });
  await fixture.override('http://x', { action: 'return' });
  await fixture.configure({ m: ['http://x', 'http://y'] }, { ...SETTINGS, health });
  t.equal(fixture.standing('m', 'http://x'), STANDING.up, 'a return holds, too');
});

t.test('overrides by an operator count for the panic threshold but are not limited by it', async (t) => {
  const fixture = new Fixture();
  await fixture.configure({ m: ['http://x', 'http://y'] });
  await fixture.override('http://x', { action: 'drain' });
  fixture.fail('m', 'http://y', 10);
  await fixture.settle();
  t.equal(fixture.standing('m', 'http://y'), STANDING.up, 'it is the last one');
  await fixture.override('http://y', { action: 'eject', forMs: 1000 });
  t.equal(fixture.standing('m', 'http://y'), STANDING.down, 'an order is an order');
});

t.test('the next member of a cell begins anew, whatever requests of the one before still tell', async (t) => {
  const fixture = new Fixture(1);
  const { board } = fixture;
  const blocks = new BlockIndex(fixture.memory.blocks);
  const feedback = new CacheFeedback(fixture.memory, blocks);
  const hashes = Int32Array.from({ length: 8 }, (_, at) => at * 0x9e3779b1);
  await fixture.configure({ m: ['http://a'] });
  const { member } = fixture.member('m', 'http://a');
  blocks.setCapacity(member, 4096);
  blocks.enter(member, hashes, 4);
  await fixture.configure({ m: ['http://a'], n: [] });
  t.equal(blocks.matched(member, hashes, 4), 4, 'a member that stays');
  await fixture.configure({ m: [] });
  t.equal(blocks.matched(member, hashes, 4), 4, 'a member that has gone may come back');
  // Requests that were routed by the table before.
  blocks.enter(member, hashes, 4);
  board.noteFailure(member, 0);
  board.loads.noteFirst(member, 1000, 50, 0);
  const answer = { promptBytes: 8192, predictedBytes: 8192, promptTokens: 2048, cachedTokens: 0 };
  for (let n = 0; n < 100; n++) feedback.answered(0, member, answer);
  t.equal(feedback.hitFactor(member), 0);
  await fixture.configure({ m: ['http://b'] });
  t.equal(fixture.member('m', 'http://b').member, member);
  t.equal(blocks.matched(member, hashes, 4), 0, 'another member');
  t.not(blocks.capacity(member), 4096);
  t.same([board.failureShare(member, 0), board.loads.msPerByte(member), feedback.hitFactor(member)], [0, 0, 1]);
});

class Learned {
  readonly fixture = new Fixture(4);
  readonly blocks = new BlockIndex(this.fixture.memory.blocks);
  readonly hashes = Int32Array.from({ length: 8 }, (_, at) => at * 0x9e3779b1);

  async configure(...servers: readonly { readonly url: string; readonly instance?: string }[]): Promise<void> {
    await this.fixture.configureSpecs([{ id: 'm', servers }]);
  }

  learn(url: string): void {
    const { member } = this.fixture.member('m', url);
    this.blocks.enter(member, this.hashes, 4);
    this.fixture.board.noteFirstByte(member, 900, 1);
    this.fixture.board.loads.noteFirst(member, 1000, 50, 0);
  }

  /** Blocks, time to first byte, and whether its speed is known. */
  known(url: string): [number, number, boolean] {
    const { member } = this.fixture.member('m', url);
    const { board } = this.fixture;
    return [this.blocks.matched(member, this.hashes, 4), board.firstByteMs(member), board.loads.msPerByte(member) > 0];
  }
}

const X = { url: 'http://x' };
const Y = { url: 'http://y' };

t.test('a member that comes back within five minutes keeps what was learned of it', async (t) => {
  const learned = new Learned();
  await learned.configure(X, Y);
  learned.learn(X.url);
  const before = learned.fixture.member('m', X.url);
  await learned.configure(Y);
  t.equal(learned.fixture.board.standing(before.member), STANDING.down, 'it gets no requests meanwhile');
  await learned.fixture.test.advance(299_000);
  await learned.configure(Y, X);
  t.same(learned.fixture.member('m', X.url), before, 'its cells');
  t.same(learned.known(X.url), [4, 900, true]);
  t.equal(learned.fixture.standing('m', X.url), STANDING.up);
  await learned.configure(Y);
  await learned.fixture.test.advance(300_000);
  await learned.configure(Y, X);
  t.same(learned.known(X.url), [0, 1, false], 'later it is another one');
});

t.test('a model that loses all of its members and gets them back keeps what was learned of them', async (t) => {
  const learned = new Learned();
  await learned.configure(X, Y);
  learned.learn(X.url);
  await learned.fixture.configureSpecs([]);
  await learned.configure(X, Y);
  t.same(learned.known(X.url), [4, 900, true]);
});

t.test('another process at the URL of a member is another member', async (t) => {
  const learned = new Learned();
  await learned.configure({ ...X, instance: 'one' });
  learned.learn(X.url);
  await learned.configure({ ...X, instance: 'two' });
  t.same(learned.known(X.url), [0, 1, false], 'replaced at once');
  await learned.configure({ ...X, instance: 'one' });
  t.same(learned.known(X.url), [4, 900, true], 'the first one is back');
});

t.test('a member of which one source alone knows the process is the same one without that source', async (t) => {
  const learned = new Learned();
  const { fixture } = learned;
  await learned.configure(X);
  learned.learn(X.url);
  for (const server of [{ ...X, instance: 'one' }, X, { ...X, instance: 'one' }]) {
    await learned.configure(server);
    t.same(learned.known(X.url), [4, 900, true]);
  }
  await learned.configure({ ...X, instance: 'two' });
  t.same(learned.known(X.url), [0, 1, false]);
  learned.learn(X.url);
  await learned.configure(X);
  await learned.configure({ ...X, instance: 'three' });
  t.same(learned.known(X.url), [0, 1, false], 'another one meanwhile');
  learned.learn(X.url);
  const of = (id: string, instance?: string): ModelSpec => ({
    id,
    servers: [{ ...X, ...(instance !== undefined && { instance }) }],
  });
  await fixture.configureSpecs([of('first'), of('m', 'three')]);
  t.same(learned.known(X.url), [4, 900, true], 'whichever model names it');
  await fixture.configureSpecs([of('first'), of('m', 'four')]);
  t.same(learned.known(X.url), [0, 1, false]);
});

t.test('it is found out when a member was restarted while it was away', async (t) => {
  const learned = new Learned();
  const { fixture } = learned;
  fixture.instance = 'first';
  await learned.configure(X, Y);
  learned.learn(X.url);
  await learned.configure(Y);
  fixture.instance = 'second';
  await learned.configure(X, Y);
  t.ok(fixture.events.some((event) => event.type === 'restarted' && event.url === X.url));
});
