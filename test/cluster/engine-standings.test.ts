// Search engines of several gateways over links in memory on a manual clock: suspensions, answers, trials and rate limits hold for all,
// and nobody suspends an engine more easily over several gateways than over one.
import fc from 'fast-check';
import t from 'tap';
import type { ClusterLink } from '../../src/cluster/link.ts';
import { EngineStandings } from '../../src/cluster/engine-standings.ts';
import type { RateLimit } from '../../src/search/engine.ts';
import { type CallFailure, createEngineMemory, EngineBoard } from '../../src/search/engine-board.ts';
import { specOf } from '../support/search.ts';
import { createFakeCluster, type FakeCluster, type FakeLink } from '../support/cluster-link.ts';

interface Gateway {
  readonly link: FakeLink;
  readonly board: EngineBoard;
  readonly standings: EngineStandings;
}

interface Setup {
  readonly cluster: FakeCluster;
  readonly gateways: readonly [Gateway, Gateway, Gateway];
  readonly gateway: (rates?: readonly RateLimit[], fingerprint?: string) => Gateway;
  readonly keys: Map<string, string>;
}

async function setUp(rates: readonly RateLimit[] = []): Promise<Setup> {
  const keys = new Map<string, string>();
  const cluster = createFakeCluster({
    answer: ([command, key, value, ...rest]) => {
      const name = String(key);
      // The script that gives a claim back: of a claim, by a gateway.
      const [claim, holder] = rest.map(String);
      if (command === 'EVALSHA') return Number(keys.get(claim ?? '') === holder && keys.delete(claim ?? ''));
      if (command !== 'SET') throw new Error(`ERR unknown command '${String(command)}'`);
      if (keys.has(name)) return null;
      keys.set(name, String(value));
      return 'OK';
    },
  });
  const gateway = (limits = rates, fingerprint = 'same'): Gateway => {
    const link = cluster.link();
    const board = new EngineBoard(createEngineMemory(2));
    const standings = new EngineStandings({ link: link as ClusterLink, board, clock: cluster.clock });
    standings.configure([specOf('a', { fingerprint, rates: limits }), specOf('b', { cell: 1, fingerprint })]);
    return { link, board, standings };
  };
  const gateways = [gateway(), gateway(), gateway()] as const;
  await cluster.advance(1000);
  return { cluster, gateways, gateway, keys };
}

function fail(
  { board }: Gateway,
  { clock }: FakeCluster,
  failure: CallFailure,
  account: string,
  query: string,
): number {
  const permit = board.acquire(0, clock.now(), account);
  return permit === undefined ? -1 : board.fail(0, permit, failure, clock.now(), { account, query });
}

t.test(
  'a suspension that one gateway found holds for all within 100 ms, and a trial that succeeds ends it for all',
  async (t) => {
    const { cluster, gateways, keys } = await setUp();
    const [one, two, three] = gateways;
    cluster.lagMs = 20;
    t.equal(fail(one, cluster, 'rate limited', 'me', 'q'), 10_000);
    await cluster.advance(100);
    for (const { board } of gateways) {
      t.equal(board.acquire(0, cluster.clock.now(), 'you'), undefined);
      t.ok(Math.abs(board.suspendedUntilMs(0) - one.board.suspendedUntilMs(0)) <= 50);
      t.equal(board.acquire(1, cluster.clock.now(), 'you'), 0n, 'another engine goes on');
    }
    cluster.lagMs = 0;
    await cluster.advance(3_600_000);
    const now = cluster.clock.now();
    const permits = [two, three].map(({ board }) => board.acquire(0, now, 'me'));
    const claims = Promise.all([two, three].map(({ standings }) => standings.claim(0)));
    await cluster.advance(1);
    t.same(await claims, [true, false], 'one trial for the cluster');
    three.board.release(0, permits[1] ?? 0n);
    two.board.succeed(0, permits[0] ?? 0n, 'me', cluster.clock.now());
    await cluster.advance(40);
    for (const { board } of gateways) t.equal(board.acquire(0, cluster.clock.now(), 'you'), 0n);
    await cluster.advance(200);
    t.equal(keys.size, 0, 'the claim is given back');
  },
);

t.test('a claim whose answer is late is given back too, and only by the gateway that has it', async (t) => {
  const { cluster, gateways, keys } = await setUp();
  const [one, two, three] = gateways;
  fail(one, cluster, 'rate limited', 'me', 'q');
  await cluster.advance(10_100);
  // There and back takes longer than a search waits for.
  cluster.lagMs = 25;
  const now = cluster.clock.now();
  const permits = [two, three].map(({ board }) => board.acquire(0, now, 'me') ?? 0n);
  const claims = Promise.all([two, three].map(({ standings }) => standings.claim(0)));
  await cluster.advance(60);
  t.same(await claims, [true, true], 'it cannot be told whose it is');
  three.board.release(0, permits[1] ?? 0n);
  await cluster.advance(500);
  t.equal(keys.size, 1, 'the other one goes on');
  two.board.fail(0, permits[0] ?? 0n, 'rate limited', cluster.clock.now(), { account: 'me', query: 'q' });
  await cluster.advance(500);
  t.equal(keys.size, 0, 'the next trial may begin');
});

t.test('a trial that fails lengthens the suspension of all', async (t) => {
  const { cluster, gateways } = await setUp();
  const [one, two, three] = gateways;
  fail(one, cluster, 'rate limited', 'me', 'q');
  await cluster.advance(10_100);
  t.equal(fail(two, cluster, 'rate limited', 'me', 'q'), 20_000, 'doubled, though by another gateway');
  await cluster.advance(100);
  t.ok(three.board.suspendedUntilMs(0) > cluster.clock.now() + 19_000);
});

t.test('gateways with other settings of an engine stand on their own', async (t) => {
  const { cluster, gateways, gateway } = await setUp();
  const other = gateway([], 'another key');
  await cluster.advance(1000);
  fail(gateways[0], cluster, 'quota', 'me', 'q');
  await cluster.advance(100);
  t.equal(other.board.acquire(0, cluster.clock.now(), 'me'), 0n);
});

t.test('a gateway that starts, or comes back, hears of the suspensions there are', async (t) => {
  const { cluster, gateways, gateway } = await setUp();
  const [one, two] = gateways;
  cluster.cut(two.link);
  fail(one, cluster, 'quota', 'me', 'q');
  await cluster.advance(5000);
  t.equal(two.board.acquire(0, cluster.clock.now(), 'me'), 0n);
  cluster.cut(two.link, false);
  const fresh = gateway();
  await cluster.advance(10_000);
  for (const { board } of [two, fresh]) t.equal(board.acquire(0, cluster.clock.now(), 'me'), undefined);
});

t.test('a row of one account at several gateways suspends the engine for that account', async (t) => {
  const { cluster, gateways } = await setUp();
  for (const [index, gateway] of gateways.entries()) {
    fail(gateway, cluster, 'timeout', 'me', `query ${index}`);
    await cluster.advance(50);
  }
  for (const { board } of gateways) {
    t.equal(board.acquire(0, cluster.clock.now(), 'me'), undefined);
    t.equal(board.acquire(0, cluster.clock.now(), 'you'), 0n);
  }
});

t.test('failures do not count where another gateway had an answer meanwhile', async (t) => {
  const { cluster, gateways } = await setUp();
  const [one, two, three] = gateways;
  fail(one, cluster, 'timeout', 'me', 'query 1');
  // In the same turn, so that neither has heard of the other.
  cluster.clock.advance(5);
  two.board.succeed(0, 0n, 'you', cluster.clock.now());
  for (const query of ['2', '3', '4']) fail(one, cluster, 'timeout', 'me', query);
  fail(one, cluster, 'timeout', 'ally', '5');
  t.equal(one.board.isSuspendedForAll(0), true, 'before it hears of the answer');
  await cluster.advance(100);
  for (const { board } of [one, two, three]) t.equal(board.acquire(0, cluster.clock.now(), 'you'), 0n);
});

t.test('two accounts suspend an engine over several gateways no more easily than over one', async () => {
  const account = fc.constantFrom('x', 'y');
  const event = fc.record({
    gateway: fc.nat(2),
    isAnswer: fc.boolean(),
    account: fc.oneof(account, fc.constant('other')),
    query: fc.nat(20),
    lagMs: fc.constantFrom(1, 5, 30, 100),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(event, { maxLength: 25 }), async (events) => {
      const { cluster, gateways } = await setUp();
      const alone = new EngineBoard(createEngineMemory(2));
      let wasSuspended = false;
      for (const { account: who, gateway: index, isAnswer, lagMs, query } of events) {
        const nowMs = cluster.clock.now();
        const { board } = gateways[index] as Gateway;
        for (const each of [board, alone]) {
          const permit = each.acquire(0, nowMs, who);
          if (permit === undefined) continue;
          if (isAnswer) each.succeed(0, permit, who, nowMs);
          else each.fail(0, permit, 'timeout', nowMs, { account: who, query: `query ${query}` });
        }
        wasSuspended ||= alone.isSuspendedForAll(0);
        await cluster.advance(lagMs);
      }
      await cluster.advance(100);
      if (wasSuspended) return;
      for (const { board } of gateways) {
        if (board.isSuspendedForAll(0)) throw new Error('suspended for all');
      }
    }),
    { numRuns: 150 },
  );
});

t.test('more engines than one message holds are told in several', async (t) => {
  const cluster = createFakeCluster();
  const cells = Array.from({ length: 150 }, (_, cell) => cell);
  const [one, two] = [1, 2].map(() => {
    const board = new EngineBoard(createEngineMemory(cells.length));
    const standings = new EngineStandings({ link: cluster.link() as ClusterLink, board, clock: cluster.clock });
    standings.configure(cells.map((cell) => specOf(`engine ${cell}`, { cell, fingerprint: 'same' })));
    return board;
  }) as [EngineBoard, EngineBoard];
  await cluster.advance(1000);
  const nowMs = cluster.clock.now();
  for (const cell of cells) {
    const permit = one.acquire(cell, nowMs, 'me') ?? 0n;
    one.fail(cell, permit, 'rate limited', nowMs, { account: 'me', query: 'q' });
  }
  await cluster.advance(100);
  t.same(
    cells.filter((cell) => two.acquire(cell, cluster.clock.now(), 'you') !== undefined),
    [],
  );
});

t.test('a rate limit of an engine holds over all gateways', async (t) => {
  const { cluster, gateways } = await setUp([{ requests: 10, perMs: 1000 }]);
  const rates = [{ requests: 10, perMs: 1000 }];
  const sent: number[] = [];
  for (let turn = 0; turn < 250; turn++) {
    for (const { board } of gateways) {
      if (board.reserve(0, rates, cluster.clock.now(), 0) === 0) sent.push(cluster.clock.now());
    }
    await cluster.advance(20);
  }
  const most = Math.max(...sent.map((atMs) => sent.filter((other) => other >= atMs && other < atMs + 1000).length));
  t.ok(most <= 13, `${most} in a second: what three gateways send before they hear of each other`);
  t.ok(sent.length >= 25 && sent.length <= 53, `${sent.length} in five seconds`);
  cluster.stop();
  await cluster.advance(3000);
  const apart: number[] = [];
  for (let turn = 0; turn < 250; turn++) {
    for (const { board } of gateways) {
      if (board.reserve(0, rates, cluster.clock.now(), 0) === 0) apart.push(cluster.clock.now());
    }
    await cluster.advance(20);
  }
  t.ok(apart.length <= 53, `${apart.length}: each keeps to its share while they do not hear of each other`);
});

t.test('messages of strangers change nothing', async (t) => {
  const { cluster, gateways } = await setUp();
  const [one, two] = gateways;
  const messages = [Buffer.alloc(63), Buffer.alloc(65 * 64), Buffer.alloc(64, 0xff), Buffer.alloc(64)];
  for (const message of messages) one.link.publish('suspensions', message);
  await cluster.advance(50);
  t.equal(two.link.badMessages.length, 3);
  t.equal(two.board.acquire(0, cluster.clock.now(), 'me'), 0n);
});

t.test('a trial is claimed at once while the engine of the cluster is away', async (t) => {
  const { cluster, gateways } = await setUp();
  cluster.stop();
  await cluster.advance(10);
  t.same(await Promise.all(gateways.map(({ standings }) => standings.claim(0))), [true, true, true]);
});
