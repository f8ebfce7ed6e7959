// Places of accounts and hosts at several gateways, over links in memory on a manual clock: limits that hold together, shares, and counts
// that are gone with their gateway or with their time.
import t from 'tap';
import type { ClusterLink } from '../../src/cluster/link.ts';
import { PlaceShares } from '../../src/cluster/place-shares.ts';
import { HostLimits, type Release } from '../../src/fetch/host-limits.ts';
import { AccountPlaces, createPlaceMemory, type Place, PlaceCounts, type Turn } from '../../src/routing/index.ts';
import { createFakeCluster, type FakeCluster, type FakeLink } from '../support/cluster-link.ts';

interface Gateway {
  readonly link: FakeLink;
  readonly places: AccountPlaces;
  readonly hosts: HostLimits;
  readonly shares: PlaceShares;
  readonly seed: () => number | undefined;
}

interface Setup {
  readonly cluster: FakeCluster;
  readonly gateways: readonly Gateway[];
  readonly gateway: () => Gateway;
  readonly keys: Map<string, string>;
}

const SEED = 0x811c9dc5;

async function setUp(count = 3, perAccount = 8, host: { perHost?: number; hostDelayMs?: number } = {}): Promise<Setup> {
  const keys = new Map<string, string>();
  const cluster = createFakeCluster({
    answer: ([command, key, value]) => {
      const name = String(key);
      if (command === 'DEL') return keys.delete(name) ? 1 : 0;
      if (command === 'GETEX') return Buffer.from(keys.get(name) ?? '');
      if (command !== 'SET') throw new Error(`ERR unknown command '${String(command)}'`);
      if (keys.has(name)) return null;
      keys.set(name, String(value));
      return 'OK';
    },
  });
  const gateway = (): Gateway => {
    const link = cluster.link();
    const { clock } = cluster;
    const memories = [1, 2, 3].map(() => createPlaceMemory(1, SEED)) as [
      SharedArrayBuffer,
      SharedArrayBuffer,
      SharedArrayBuffer,
    ];
    const places = new AccountPlaces({ memory: memories[0], thread: 0, clock });
    places.configure({ perAccount, waiting: 1024, waitingOfAccount: 64, waitMs: 10_000 });
    const counts = { running: new PlaceCounts(memories[1], 0), delays: new PlaceCounts(memories[2], 0) };
    const settings = { concurrency: 100, perHost: 4, hostDelayMs: 0, queue: 100, ...host };
    const hosts = new HostLimits(settings, clock, counts);
    const shares = new PlaceShares({ link: link as ClusterLink, clock, memories });
    return { link, places, hosts, shares, seed: () => new Int32Array(memories[2])[0] };
  };
  const gateways = Array.from({ length: count }, gateway);
  await cluster.advance(1000);
  return { cluster, gateways, gateway, keys };
}

interface Asked {
  readonly turns: Turn[];
  readonly place: Place;
}

function ask({ places }: Gateway, account = 'busy'): Asked {
  const turns: Turn[] = [];
  return { turns, place: places.request(account, (turn) => turns.push(turn)) };
}

function runningIn(gateways: readonly Gateway[]): number[] {
  return gateways.map(({ places }) => places.running);
}

t.test('gateways agree on one seed, also after the engine has lost it', async (t) => {
  const { cluster, gateway, gateways, keys } = await setUp();
  const [seed = ''] = [...keys.values()];
  t.match(seed, /^[0-9a-f]{8}$/);
  for (const each of gateways) t.equal((each.seed() ?? 0) >>> 0, Number.parseInt(seed, 16));
  cluster.stop();
  keys.clear();
  await cluster.advance(2000);
  cluster.start();
  await cluster.advance(5000);
  t.same([...keys.values()], [seed]);
  keys.set([...keys.keys()][0] ?? '', 'no seed');
  const late = gateway();
  await cluster.advance(1000);
  t.equal(late.link.badMessages.length, 0);
  await cluster.advance(10_000);
  t.match([...keys.values()], [/^[0-9a-f]{8}$/], 'what is no seed is replaced');
});

t.test('gateways understand each other again soon after one of them has given the engine another seed', async (t) => {
  const { cluster, gateway, gateways, keys } = await setUp();
  keys.clear();
  const all = [...gateways, gateway()];
  await cluster.advance(1000);
  t.equal(new Set(all.map(({ seed }) => seed())).size, 2, 'the new one was first');
  ask(gateways[0] as Gateway);
  await cluster.advance(10_000);
  t.equal(new Set(all.map(({ seed }) => seed())).size, 1);
});

t.test('an account that floods one gateway leaves no more places at the others than their share', async (t) => {
  const { cluster, gateways } = await setUp();
  const [one, two, three] = gateways as [Gateway, Gateway, Gateway];
  const flood = Array.from({ length: 20 }, () => ask(one));
  await cluster.advance(100);
  t.same(runningIn(gateways), [8, 0, 0]);
  for (let request = 0; request < 20; request++) {
    ask(two);
    ask(three);
  }
  ask(two, 'another');
  await cluster.advance(100);
  t.same(runningIn(gateways), [8, 3, 2], 'a share of 2 each, and another account its own');
  for (const { place } of flood.slice(0, 8)) {
    place.leave();
    await cluster.advance(50);
  }
  t.same(runningIn(gateways), [4, 3, 2], 'until there are as many as one gateway would give');
});

t.test('an account that floods all gateways at once has soon no more places than at one', async (t) => {
  const { cluster, gateways } = await setUp();
  const running: Asked[] = [];
  const asked = gateways.flatMap((gateway) => Array.from({ length: 60 }, () => ask(gateway)));
  let most = 0;
  for (let turn = 0; turn < 200; turn++) {
    await cluster.advance(10);
    // Each search takes 300 ms.
    running.push(...asked.filter((each) => each.turns.length > 0 && !running.includes(each)));
    if (turn % 4 === 0) running[turn / 4]?.place.leave();
    const { length } = running.filter((each) => each.turns[0] === 'place');
    if (turn > 100) most = Math.max(most, length - Math.floor(turn / 4));
  }
  t.ok(most <= 8 + 3, `${most} places`);
});

t.test('counts are gone with their gateway, and nobody is refused because of old ones', async (t) => {
  const { cluster, gateways } = await setUp(2);
  const [one, two] = gateways as [Gateway, Gateway];
  for (let request = 0; request < 8; request++) ask(one);
  await cluster.advance(100);
  const waiting = Array.from({ length: 8 }, () => ask(two));
  const given = (): number => waiting.filter(({ turns }) => turns[0] === 'place').length;
  await cluster.advance(3000);
  t.equal(given(), 4, 'its share, as the other says it over and over');
  one.shares.close();
  await cluster.advance(2100);
  t.equal(given(), 8, 'what was said 2 s ago counts no more');
});

t.test('a gateway that leaves takes its counts along, at once', async (t) => {
  const { cluster, gateways } = await setUp(2);
  const [one, two] = gateways as [Gateway, Gateway];
  for (let request = 0; request < 8; request++) ask(one);
  await cluster.advance(100);
  const waiting = Array.from({ length: 8 }, () => ask(two));
  one.shares.close();
  void one.link.close();
  await cluster.advance(100);
  t.equal(waiting.filter(({ turns }) => turns[0] === 'place').length, 8);
});

t.test('without the engine each gateway has all places', async (t) => {
  const { cluster, gateways } = await setUp(2);
  const [one, two] = gateways as [Gateway, Gateway];
  for (let request = 0; request < 8; request++) ask(one);
  await cluster.advance(100);
  cluster.stop();
  await cluster.advance(3000);
  for (let request = 0; request < 8; request++) ask(two);
  t.same(runningIn(gateways), [8, 8]);
});

t.test('the limit of a host holds over all gateways', async (t) => {
  const { cluster, gateways } = await setUp();
  const [one, two] = gateways as [Gateway, Gateway];
  const { signal } = new AbortController();
  const releases: Release[] = [];
  const start = async ({ hosts }: Gateway, account: string, host = 'example.com'): Promise<void> => {
    releases.push(await hosts.acquire(account, host, signal));
  };
  for (const account of ['a', 'b', 'c', 'd']) void start(one, account);
  await cluster.advance(100);
  t.equal(releases.length, 4);
  for (const account of ['a', 'b', 'c']) void start(two, account);
  void start(two, 'a', 'example.org');
  await cluster.advance(100);
  t.equal(releases.length, 6, 'its share of one, and another host');
  for (const release of releases.slice(0, 3)) release();
  await cluster.advance(100);
  t.equal(releases.length, 8, 'what the other has given back');
});

t.test('the delay of a host is longer where other gateways ask it too', async (t) => {
  const { cluster, gateways } = await setUp(3, 8, { hostDelayMs: 100 });
  const { signal } = new AbortController();
  const starts: number[] = [];
  for (const { hosts } of gateways) {
    for (let request = 0; request < 20; request++) {
      void Promise.resolve(hosts.acquire(`account ${request}`, 'example.com', signal)).then((release) => {
        starts.push(cluster.clock.now());
        release();
      });
    }
  }
  await cluster.advance(3000);
  t.ok(starts.length >= 25 && starts.length <= 36, `${starts.length} requests in 3 s, for a delay of 100 ms`);
});

t.test('messages of strangers change nothing', async (t) => {
  const { cluster, gateways } = await setUp(2, 1);
  const [one, two] = gateways as [Gateway, Gateway];
  const head = Buffer.alloc(4);
  head.writeInt32LE(two.seed() ?? 0);
  const entry = (memory: number, cell: number): Buffer => Buffer.from([memory, cell & 0xff, cell >> 8, 255, 255]);
  const bad = [
    Buffer.alloc(0),
    Buffer.alloc(7),
    Buffer.alloc(4 + 5 * 3 * 4096 + 5),
    ...[entry(3, 0), entry(0, 4096), Buffer.concat([entry(0, 1), entry(0, 1)])].map((rest) =>
      Buffer.concat([head, rest]),
    ),
  ];
  for (const message of bad) one.link.publish('shares', message);
  const otherSeed = Buffer.concat([Buffer.alloc(4), ...Array.from({ length: 4096 }, (_, cell) => entry(0, cell))]);
  one.link.publish('shares', otherSeed);
  await cluster.advance(50);
  t.equal(two.link.badMessages.length, bad.length);
  t.same(ask(two).turns, ['place']);
});
