import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { applySnapshot, Placements, SnapshotReader } from '../../src/cluster/index.ts';
import { DeadlineQueue } from '../../src/net/deadline.ts';
import { Admission } from '../../src/routing/admission.ts';
import type { PromptHashes } from '../../src/routing/picker.ts';
import { createFakeCluster, type FakeCluster, type FakeLink } from '../support/cluster-link.ts';
import { PlacementGateway, promptOf } from '../support/placement-gateway.ts';

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at);

interface Linked extends PlacementGateway {
  readonly link: FakeLink;
  readonly placements: Placements;
  readonly snapshots: number[];
}

const GATEWAY: Omit<ConstructorParameters<typeof PlacementGateway>[0], 'now'> = { crns: 4 };

/** A gateway with a link; its cells are its own. */
function linked(cluster: FakeCluster, options: Partial<typeof GATEWAY> = {}): Linked {
  const gateway = new PlacementGateway({ ...GATEWAY, now: () => cluster.clock.now(), ...options });
  gateway.ring.on = false;
  const link = cluster.link();
  const snapshots: number[] = [];
  const placements = new Placements({
    ...{ link, clock: cluster.clock, exchange: gateway.exchange, index: gateway.control, ring: gateway.ring },
    onSnapshot: (_from, bytes) => void snapshots.push(bytes),
  });
  return Object.assign(gateway, { link, placements, snapshots });
}

async function three(cluster: FakeCluster): Promise<[Linked, Linked, Linked]> {
  const gateways = range(0, 3).map((at) => linked(cluster, { cells: range(3 * at, 4) }));
  await cluster.advance(1000);
  return gateways as [Linked, Linked, Linked];
}

async function close(cluster: FakeCluster, gateways: readonly Linked[]): Promise<void> {
  for (const { placements } of gateways) placements.close();
  const closed = Promise.all(gateways.map(({ link }) => link.close()));
  await cluster.advance(1000);
  await closed;
}

t.test('a prompt goes where another gateway has sent its beginning', async (t) => {
  const cluster = createFakeCluster();
  cluster.lagMs = 10;
  const [one, two, three_] = await three(cluster);
  const prompt = promptOf(range(0, 200));
  const chosen = one.crnOf(one.choose(prompt));
  await cluster.advance(100);
  for (const each of [two, three_]) {
    t.equal(each.matched(chosen, prompt), 192);
    t.equal(each.crnOf(each.choose(promptOf(range(0, 210)))), chosen);
  }
  await close(cluster, [one, two, three_]);
});

t.test('the backlog of a sibling counts within 100 ms, and no more when it is gone', async (t) => {
  const cluster = createFakeCluster();
  const [one, two, three_] = await three(cluster);
  const { member, server } = two.model.members[one.crnOf(one.choose(promptOf(range(0, 100))))]!;
  await cluster.advance(100);
  t.equal(two.board.inFlight(server), 1);
  cluster.cut(one.link);
  await cluster.advance(2000);
  t.equal(two.board.loads.backlog(member, cluster.clock.now()), 100 * 512);
  await cluster.advance(2000);
  t.equal(two.board.inFlight(server), 0);
  t.equal(two.board.loads.backlog(member, cluster.clock.now()), 0);
  await close(cluster, [one, two, three_]);
});

t.test('a gateway whose engine is away goes on, and what it noted meanwhile is told afterwards', async (t) => {
  const cluster = createFakeCluster();
  const [one, two, three_] = await three(cluster);
  cluster.stop();
  await cluster.advance(100);
  const prompt = promptOf(range(0, 100));
  const chosen = one.crnOf(one.choose(prompt));
  await cluster.advance(500);
  t.equal(two.matched(chosen, prompt), 0);
  cluster.start();
  await cluster.advance(3000);
  t.equal(two.matched(chosen, prompt), 95);
  t.equal(three_.matched(chosen, prompt), 95);
  await close(cluster, [one, two, three_]);
});

t.test('nothing is sent while nothing runs, and the next choice is told within milliseconds', async (t) => {
  const cluster = createFakeCluster();
  const [one, two, three_] = await three(cluster);
  const prompt = promptOf(range(0, 50));
  const choice = one.choose(prompt);
  await cluster.advance(5);
  t.ok(two.matched(one.crnOf(choice), prompt) > 0);
  await cluster.advance(200);
  one.prefilledBy(choice);
  one.board.leave(choice.member.server);
  await cluster.advance(5000);
  t.equal(two.board.inFlight(two.model.members[one.crnOf(choice)]!.server), 0);
  const sent = (): number => one.link.counted.filter((each) => each === 'out placements ok').length;
  const before = sent();
  await cluster.advance(60_000);
  t.equal(sent(), before);
  // Ten choices in 100 ms, which share messages.
  for (let at = 0; at < 10; at++) {
    one.choose(promptOf(range(1000 * at + 5000, 50)));
    await cluster.advance(10);
  }
  t.ok(sent() - before <= 6, `${sent() - before} messages`);
  await close(cluster, [one, two, three_]);
});

t.test('gateways that are busy tell in the same instants, and threads do not signal what they note', async (t) => {
  const cluster = createFakeCluster();
  const gateways = await three(cluster);
  let signals = 0;
  const times: number[] = [];
  const [one] = gateways;
  for (const { link, ring } of gateways) {
    const wait = ring.noted.wait.bind(ring.noted);
    ring.noted.wait = (wake): void => {
      signals++;
      wait(wake);
    };
    link.on('placements', () => void times.push(cluster.clock.now()));
  }
  for (let at = 0; at < 400; at++) {
    const gateway = gateways[at % 3] as Linked;
    const choice = gateway.choose(promptOf(range(1000 * at, 50)));
    await cluster.advance(5);
    choice.prefilled(choice, 5);
    gateway.board.leave(choice.member.server);
    if (at === 200) {
      signals = 0;
      times.length = 0;
    }
  }
  const instants = new Set(times).size;
  t.equal(signals, 0, 'a gateway with something to tell in every message sleeps until its pause is over');
  t.ok(times.length > 60, `${times.length} messages arrived`);
  t.ok(instants < times.length / 4, `in ${instants} instants, of six deliveries each`);
  await cluster.advance(3000);
  t.ok(signals > 0, 'and waits for its threads when there is nothing to tell');
  const sent = one.link.counted.filter((each) => each === 'out placements ok').length;
  one.choose(promptOf(range(1e6, 50)));
  await cluster.advance(5);
  t.equal(one.link.counted.filter((each) => each === 'out placements ok').length, sent + 1);
  await close(cluster, gateways);
});

t.test('what is sent to a restarted CRN is told again, though siblings were told of it before', async (t) => {
  const cluster = createFakeCluster();
  const [one, two, three_] = await three(cluster);
  const prompt = promptOf(range(0, 200));
  const chosen = one.crnOf(one.choose(prompt));
  await cluster.advance(100);
  t.equal(two.matched(chosen, prompt), 192);
  // Two of them have noticed the restart; the third one has not yet, and what it goes on to choose changes nothing for the others.
  for (const each of [one, two]) each.index.clear(each.model.members[chosen]!.member);
  t.equal(three_.crnOf(three_.choose(prompt)), chosen);
  await cluster.advance(100);
  t.same([one.matched(chosen, prompt), two.matched(chosen, prompt)], [0, 0]);
  three_.index.clear(three_.model.members[chosen]!.member);
  const next = one.crnOf(one.choose(prompt));
  await cluster.advance(100);
  for (const each of [two, three_]) t.equal(each.matched(next, prompt), 192);
  await close(cluster, [one, two, three_]);
});

t.test('a request is held while what a sibling has sent fills the CRN, and the sibling lives', async (t) => {
  const cluster = createFakeCluster();
  const { clock } = cluster;
  const [one, two] = [linked(cluster, { crns: 1 }), linked(cluster, { crns: 1 })];
  await cluster.advance(1000);
  const { board, memory, model } = two;
  const admission = new Admission(
    {
      ...{ board, memory, thread: 0, expected: board.loads, clock, deadlines: new DeadlineQueue(clock, 1) },
      ...{ onWaiting: () => undefined, onOutcome: () => undefined },
    },
    { holdMs: 100, timeoutMs: 60_000, requests: 10, bytes: 1e6 },
  );
  for (let at = 0; at < 20; at++) {
    const choice = two.choose(promptOf(range(1000 * at, 100)));
    await cluster.advance(50);
    choice.prefilled(choice, 50);
    board.leave(choice.member.server);
  }
  t.equal(admission.admits(model, 0), true, 'a prompt of 100 blocks takes 50 ms');
  one.choose(promptOf(range(1e6, 2000)));
  await cluster.advance(100);
  t.equal(admission.admits(model, 0), false, 'one of 2000 blocks that the sibling has sent takes a second');
  cluster.cut(one.link);
  await cluster.advance(4000);
  t.equal(board.loads.backlog(model.members[0]!.member, clock.now()), 0);
  t.equal(admission.admits(model, 0), true);
  await close(cluster, [one, two]);
});

t.test('alone, nothing is noted', async (t) => {
  const cluster = createFakeCluster();
  const one = linked(cluster);
  await cluster.advance(1000);
  t.equal(one.ring.on, false);
  const two = linked(cluster);
  await cluster.advance(1000);
  t.equal(one.ring.on, true);
  await close(cluster, [two]);
  t.equal(one.ring.on, false);
  await close(cluster, [one]);
});

t.test('a gateway that starts routes as the others within a second', async (t) => {
  const cluster = createFakeCluster();
  cluster.lagMs = 5;
  const old = await three(cluster);
  const random = createSeededRandom(3);
  const prompts: PromptHashes[] = [];
  for (let at = 0; at < 500; at++) {
    const prompt = promptOf(range(at * 1000, 20 + Math.floor(random() * 60)));
    prompts.push(prompt);
    const gateway = old[at % 3] as Linked;
    const choice = gateway.choose(prompt);
    await cluster.advance(5);
    choice.prefilled(choice, 5);
    gateway.board.leave(choice.member.server);
  }
  await cluster.advance(1500);
  // Half and twice the memory, and other cells.
  const sizes = [1 << 19, 1 << 20, 1 << 21];
  const late = sizes.map((indexBytes) => linked(cluster, { indexBytes, cells: [7, 5, 9, 0] }));
  await cluster.advance(1000);
  for (const each of late) {
    t.equal(each.snapshots.length, 1);
    let [same, held] = [0, 0];
    for (const prompt of prompts) {
      for (let crn = 0; crn < 4; crn++) {
        const expected = old[0].matched(crn, prompt);
        if (expected === 0) continue;
        held++;
        if (Math.abs(each.matched(crn, prompt) - expected) <= expected / 8) same++;
      }
    }
    t.ok(held >= 500);
    t.ok(same >= held * 0.99, `${same} of ${held}`);
  }
  await close(cluster, [...old, ...late]);
});

t.test('a gateway whose CRNs answer late takes over what its siblings know of them', async (t) => {
  const cluster = createFakeCluster();
  const old = await three(cluster);
  const prompts = range(0, 40).map((at) => promptOf(range(at * 1000, 100)));
  const chosen = prompts.map((prompt, at) => {
    const gateway = old[at % 3] as Linked;
    const choice = gateway.choose(prompt);
    gateway.board.leave(choice.member.server);
    return gateway.crnOf(choice);
  });
  await cluster.advance(1500);
  const late = linked(cluster);
  const { id, members, budget } = late.model;
  late.exchange.configure({ version: 2, models: [{ id, members: members.slice(0, 1), budget }] }, cluster.clock.now());
  await cluster.advance(1000);
  t.equal(late.snapshots.length, 1);
  for (const version of [3, 4]) {
    const models = [{ id, members: members.slice(0, version), budget }];
    if (late.exchange.configure({ version, models }, cluster.clock.now())) late.placements.renew();
  }
  await cluster.advance(1000);
  t.ok(late.snapshots.length >= 2, 'asked once more');
  prompts.forEach((prompt, at) => t.ok(late.matched(chosen[at] as number, prompt) >= 95));
  t.notOk(late.exchange.configure({ version: 5, models: [late.model] }, cluster.clock.now()), 'nothing is missing');
  await close(cluster, [...old, late]);
});

t.test('a gateway that was cut off catches up, also on what its siblings did meanwhile', async (t) => {
  const cluster = createFakeCluster();
  const [one, two, three_] = await three(cluster);
  cluster.cut(three_.link);
  await cluster.advance(5000);
  const prompt = promptOf(range(0, 100));
  const chosen = one.crnOf(one.choose(prompt));
  await cluster.advance(1000);
  t.equal(two.matched(chosen, prompt), 95);
  t.equal(three_.matched(chosen, prompt), 0);
  cluster.cut(three_.link, false);
  await cluster.advance(6000);
  t.ok(three_.matched(chosen, prompt) >= 95);
  await close(cluster, [one, two, three_]);
});

t.test('a sibling that does not answer is not waited for', async (t) => {
  const cluster = createFakeCluster();
  const [one, two, three_] = await three(cluster);
  const prompt = promptOf(range(0, 100));
  const chosen = one.crnOf(one.choose(prompt));
  await cluster.advance(100);
  // Two of them cannot send snapshots.
  one.placements.close();
  two.placements.close();
  const late = linked(cluster);
  await cluster.advance(4000);
  t.equal(late.snapshots.length, 1);
  t.equal(late.matched(chosen, prompt), 95);
  await close(cluster, [one, two, three_, late]);
});

t.test('a snapshot has the youngest entries, as many as fit', async (t) => {
  const gateway = new PlacementGateway({ crns: 1, now: () => 0, capacity: 1 << 24 });
  const other = new PlacementGateway({ crns: 1, now: () => 0, capacity: 1 << 24 });
  const prompts = range(0, 200).map((at) => promptOf(range(at * 1000, 100)));
  for (const { count, hashes } of prompts) gateway.index.enter(0, hashes, count);
  const reader = new SnapshotReader(gateway.control, () => 77, 50_000);
  let bytes = 0;
  let isLast = false;
  for (let chunk = reader.next(); chunk !== null; chunk = reader.next()) {
    bytes += chunk.length;
    t.ok(chunk.length < 80_000);
    isLast = applySnapshot(chunk, other.control, (id) => (id === 77 ? 0 : undefined));
  }
  t.equal(isLast, true);
  t.ok(bytes < 60_000 && bytes > 25_000, `${bytes}`);
  t.equal(other.matched(0, prompts.at(-1) as PromptHashes), 100);
  t.equal(other.matched(0, prompts[0] as PromptHashes), 0);
});

t.test('a chunk that is not of the expected form changes nothing', async (t) => {
  const gateway = new PlacementGateway({ crns: 1, now: () => 0 });
  const other = new PlacementGateway({ crns: 1, now: () => 0 });
  const prompt = promptOf(range(0, 50));
  gateway.index.enter(0, prompt.hashes, prompt.count);
  const chunk = new SnapshotReader(gateway.control, () => 1).next() as Buffer;
  for (let length = 0; length < chunk.length; length++) {
    t.throws(() => applySnapshot(chunk.subarray(0, length), other.control, () => 0));
  }
  for (const bits of [0, 9, 27, 255]) {
    const wrong = Buffer.from(chunk);
    wrong[0] = bits;
    t.throws(() => applySnapshot(wrong, other.control, () => 0));
  }
  t.equal(other.matched(0, prompt), 0);
  applySnapshot(chunk, other.control, () => undefined);
  t.equal(other.matched(0, prompt), 0);
});
