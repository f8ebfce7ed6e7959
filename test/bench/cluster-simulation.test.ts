// Gateways that share placements and backlogs, in virtual time: beside one gateway and beside as many that share nothing, with lag, loss and faults.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Result {
  readonly hitRate: number;
  readonly p99: number;
  readonly engine: {
    readonly messages: number;
    readonly deliveries: number;
    readonly inBytes: number;
    readonly outBytes: number;
    readonly lost: number;
    readonly snapshotBytes: number;
  };
  readonly started?: { readonly own: number; readonly others: number };
  readonly inFlightAtDeath?: number;
}

type Policy = (servers: readonly object[]) => object;

interface Options {
  readonly gateways: number;
  readonly shared?: boolean;
  readonly lagMs?: number;
  readonly loss?: number;
  readonly cut?: { fromMs: number; toMs: number };
  readonly start?: { atMs: number; forMs: number; snapshot: boolean };
  readonly death?: { atMs: number };
}

interface Gateways {
  readonly cluster: (options: Options & { cacheBlocks: number; indexBytes: number; seed: number }) => Policy;
}

interface Workload {
  readonly requests: readonly { readonly atMs: number }[];
  readonly cacheBlocks: number;
  readonly crns: number;
}

interface Workloads {
  readonly fleetWorkload: (name: string, options: { crns: number; perPart: number; seed: number }) => Workload;
}

interface Fleet {
  readonly simulate: (
    requests: readonly object[],
    fleet: { servers: number; cacheBlocks: number },
    policy: Policy,
  ) => Result;
}

interface Limits {
  readonly mostGateways: (options: { ratePerS: number; crns: number; blocks: number; applyUs: number }) => {
    readonly gateways: number;
    readonly full: string | null;
  };
}

const { cluster } = await benchModule<Gateways>('cluster/gateways.mjs');
const { fleetWorkload } = await benchModule<Workloads>('cluster/workloads.mjs');
const { mostGateways } = await benchModule<Limits>('cluster/limits.mjs');
const { simulate } = await benchModule<Fleet>('locality/fleet.mjs');

const SEEDS = [11, 12];
const INDEX_BYTES = 4 * 1024 * 1024;

/** Runs of a workload with each seed, or only with the first. */
function runsOf(
  name: string,
  perPart: number,
  seeds = SEEDS,
): (optionsOf: (endMs: number) => Options) => readonly Result[] {
  const workloads = seeds.map((seed) => ({ seed, ...fleetWorkload(name, { crns: 8, perPart, seed }) }));
  return (optionsOf) =>
    workloads.map(({ cacheBlocks, crns, requests, seed }) => {
      const endMs = requests.at(-1)?.atMs ?? 0;
      const policy = cluster({ ...optionsOf(endMs), cacheBlocks, indexBytes: INDEX_BYTES, seed });
      return simulate(requests, { servers: crns, cacheBlocks }, policy);
    });
}

const hits = (results: readonly Result[]): number =>
  results.reduce((sum, { hitRate }) => sum + hitRate, 0) / results.length;

const documents = runsOf('documents', 700);
const tenants = runsOf('tenants', 700);

t.test('gateways that share find nearly what one finds, those that do not find less', async (t) => {
  for (const [name, run] of Object.entries({ documents, tenants })) {
    const one = hits(run(() => ({ gateways: 1 })));
    const shared = hits(run(() => ({ gateways: 4 })));
    const unshared = hits(run(() => ({ gateways: 4, shared: false })));
    t.ok(Math.abs(shared / one - 1) <= 0.02, `${name}: ${shared}, one ${one}`);
    t.ok(unshared <= 0.97 * shared, `${name}: ${unshared}, shared ${shared}`);
  }
});

t.test('late and lost messages cost hits, and no engine at all leaves what hashing gives', async (t) => {
  const shared = hits(tenants(() => ({ gateways: 4 })));
  const late = hits(tenants(() => ({ gateways: 4, lagMs: 5000 })));
  const lossy = hits(tenants(() => ({ gateways: 4, loss: 0.3 })));
  const unshared = hits(tenants(() => ({ gateways: 4, shared: false })));
  t.ok(late < shared && late > unshared, `late: ${late}, shared ${shared}, unshared ${unshared}`);
  t.ok(lossy < shared && lossy > 0.95 * unshared, `lossy: ${lossy}, shared ${shared}, unshared ${unshared}`);
  const lost = tenants(() => ({ gateways: 4, cut: { fromMs: 0, toMs: Infinity } }));
  t.ok(hits(lost) >= 0.98 * unshared, `without an engine: ${hits(lost)}`);
  t.ok(
    lost.every(({ engine }) => engine.lost > 0),
    'nothing was published',
  );
  const cut = tenants((endMs) => ({ gateways: 4, cut: { fromMs: endMs / 2, toMs: endMs / 2 + 10_000 } }));
  t.ok(hits(cut) > unshared, `after a cut of 10 s: ${hits(cut)}`);
  t.ok(
    cut.every(({ engine }) => engine.snapshotBytes > 0),
    'snapshots after the cut',
  );
});

t.test('a gateway that starts has the hits of the others with a snapshot, and less without', async (t) => {
  const started = (snapshot: boolean): readonly Result[] =>
    tenants((endMs) => ({ gateways: 4, start: { atMs: endMs / 2, forMs: endMs / 8, snapshot } }));
  const own = (results: readonly Result[]): number =>
    results.reduce((sum, result) => sum + (result.started?.own ?? 0), 0);
  const others = (results: readonly Result[]): number =>
    results.reduce((sum, result) => sum + (result.started?.others ?? 0), 0);
  const withOne = started(true);
  t.ok(own(withOne) >= 0.9 * others(withOne), `with a snapshot ${own(withOne)}, others ${others(withOne)}`);
  const without = started(false);
  t.ok(own(without) < own(withOne), `without ${own(without)}, with ${own(withOne)}`);
});

t.test('what a dead gateway had in flight does not count any more after 3 s', async (t) => {
  const neither = hits(tenants(() => ({ gateways: 4 })));
  const results = tenants((endMs) => ({ gateways: 4, death: { atMs: endMs / 2 } }));
  t.ok(hits(results) >= 0.97 * neither, `hits ${hits(results)}, before ${neither}`);
  t.ok(results.some(({ inFlightAtDeath = 0 }) => inFlightAtDeath > 0));
});

t.test('the same seed gives the same figures; every gateway gets every message', async (t) => {
  const run = runsOf('hot', 300, [11]);
  const options = (): Options => ({ gateways: 4, loss: 0.1 });
  const [first] = run(options);
  t.strictSame(first, run(options)[0]);
  const engine = first?.engine;
  t.ok(engine !== undefined && engine.messages > 0 && engine.inBytes > 0);
  t.ok(Object.values(engine ?? {}).every(Number.isFinite), 'every figure is a number');
  t.equal(engine?.deliveries, (engine?.messages ?? 0) * 4);
  t.ok(engine !== undefined && engine.outBytes > 3 * engine.inBytes && engine.outBytes < 4.1 * engine.inBytes);
});

t.test('the computed limits: more requests leave room for fewer gateways', async (t) => {
  const of = { crns: 100, blocks: 15, applyUs: 10 };
  const slow = mostGateways({ ...of, ratePerS: 20 });
  const fast = mostGateways({ ...of, ratePerS: 5000 });
  t.equal(slow.full, 'engineCore', 'messages, at low rates');
  t.equal(fast.full, 'controlThread', 'placements, at high rates');
  t.ok(fast.gateways < slow.gateways);
});
