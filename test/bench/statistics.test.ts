// Medians, spreads and ratios of the benchmarks.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

interface Run {
  readonly requests: number;
  readonly seconds: number;
  readonly cpuUs: { readonly peer: number };
  readonly [field: string]: unknown;
}

interface Summary {
  readonly name: string;
  readonly cpuUs: Spread | null;
  readonly ratio: Spread | null;
  readonly perSecond: Spread;
  readonly foreignUse: Spread;
  readonly errors: number;
  readonly lastError: string;
  readonly distribution: readonly (readonly [ms: number, share: number])[];
}

interface Statistics {
  readonly SHARES: readonly number[];
  readonly spread: (values: readonly number[]) => Spread;
  readonly summarise: (
    runs: Readonly<Record<string, readonly Run[]>>,
    unitsOf: (run: Run) => number,
    reference?: string,
  ) => readonly Summary[];
  readonly ratioOf: (
    row: { readonly samples: Readonly<Record<string, readonly number[]>> },
    base: string,
    branch: string,
  ) => Spread | null;
  readonly formatNs: (ns: number) => string;
  readonly quantile: (sorted: readonly number[], share: number) => number;
}

const { ratioOf, SHARES, formatNs, quantile, spread, summarise } = await benchModule<Statistics>('lib/statistics.mjs');

/** A run of one second that used `cpuUs` for `requests`, with every latency at `ms`. */
function run(cpuUs: number, requests: number, ms = 1, errors = 0): Run {
  return {
    requests,
    seconds: 1,
    cpuUs: { peer: cpuUs },
    cores: [
      { busy: 0.5, stolen: 0.01 },
      { busy: 0.25, stolen: 0 },
    ],
    latencyMs: { p50: ms, p99: ms * 2, count: requests, curve: SHARES.map((share) => ms * share) },
    rssBytes: 2 ** 20,
    threadsUs: { 10: cpuUs },
    errors,
    lastError: errors > 0 ? 'status 500' : '',
  };
}

t.test('a quantile is the value at a share of a sorted list', async (t) => {
  t.strictSame(
    [0, 0.5, 0.99, 1].map((share) => quantile([1, 2, 3, 4], share)),
    [1, 3, 4, 4],
  );
  t.ok(Number.isNaN(quantile([], 0.5)), 'there is none of nothing');
});

t.test('a median is the middle value, or the mean of the two middle values', async (t) => {
  t.strictSame(spread([3, 1, 2]), { median: 2, min: 1, max: 3 });
  t.strictSame(spread([4, 1, 2, 100]), { median: 3, min: 1, max: 100 });
  t.strictSame(spread([7]), { median: 7, min: 7, max: 7 });
  t.strictSame(spread([]), { median: 0, min: 0, max: 0 });
});

t.test('a median does not reorder its input', async (t) => {
  const values = [3, 1, 2];
  spread(values);
  t.strictSame(values, [3, 1, 2]);
});

t.test('ratios are taken within rounds, so that a slow round counts for both', async (t) => {
  const runs = {
    nginx: [run(100, 10), run(1000, 10), run(100, 10)],
    headrace: [run(200, 10), run(2000, 10), run(210, 10)],
  };
  const [nginx, headrace] = summarise(runs, ({ requests }) => requests);
  t.strictSame(nginx?.ratio, { median: 1, min: 1, max: 1 });
  t.strictSame(headrace?.ratio, { median: 2, min: 2, max: 2.1 });
  t.strictSame(headrace?.cpuUs, { median: 21, min: 20, max: 200 });
  t.strictSame(headrace?.perSecond, { median: 10, min: 10, max: 10 });
});

t.test('a peer whose process is not known has no CPU time and no ratio', async (t) => {
  const [, other] = summarise({ nginx: [run(100, 10)], other: [run(0, 10)] }, ({ requests }) => requests);
  t.equal(other?.cpuUs, null);
  t.equal(other?.ratio, null);
});

t.test('without the reference there are no ratios', async (t) => {
  const [headrace] = summarise({ headrace: [run(100, 10)] }, ({ requests }) => requests);
  t.equal(headrace?.ratio, null);
});

t.test('a reference that answered nothing in a window, or whose process is not known, gives no ratios', async (t) => {
  for (const nginx of [run(100, 0), run(0, 10)]) {
    const [, other] = summarise(
      { nginx: [run(100, 10), nginx], other: [run(200, 10), run(200, 10)] },
      (of) => of.requests,
    );
    t.equal(other?.ratio, null);
    t.equal(other?.cpuUs?.median, 20);
  }
});

t.test('errors are summed up and the last one is kept', async (t) => {
  const runs = { headrace: [run(1, 1, 1, 2), run(1, 1), run(1, 1, 1, 1)] };
  const [headrace] = summarise(runs, ({ requests }) => requests);
  t.match(headrace, { errors: 3, lastError: 'status 500' });
});

t.test('foreign use is the busy share of the core minus the share of the peer', async (t) => {
  const [headrace] = summarise({ headrace: [run(300_000, 10)] }, ({ requests }) => requests);
  t.equal(headrace?.foreignUse.median.toFixed(2), '0.21');
});

t.test('a distribution has the median of the rounds at every share', async (t) => {
  const runs = { headrace: [run(1, 1, 1), run(1, 1, 3), run(1, 1, 2)] };
  const [headrace] = summarise(runs, ({ requests }) => requests);
  t.strictSame(
    headrace?.distribution,
    SHARES.map((share) => [2 * share, share]),
  );
});

t.test('two versions are compared round by round, and only where both have figures', async (t) => {
  const samples = { base: [10, 20, 10], branch: [20, 20, 5] };
  t.strictSame(ratioOf({ samples }, 'base', 'branch'), { median: 1, min: 0.5, max: 2 });
  t.equal(ratioOf({ samples: { base: [1] } }, 'base', 'branch'), null);
});

t.test('times are formatted in ns, us or ms by size', async (t) => {
  t.strictSame([12.34, 1234, 123_456, 12_345_678, Number.NaN].map(formatNs), [
    '12.3 ns',
    '1234 ns',
    '123 us',
    '12.3 ms',
    '-',
  ]);
});

t.test('small requests beside uploads of which none was answered in a window have no ratio', async (t) => {
  interface Uploads {
    readonly summariseUploads: (name: string, rounds: object[], reference: object[]) => { ratio: Spread | null };
  }
  const { summariseUploads } = await benchModule<Uploads>('load/upload.mjs');
  const round = (requests: number, ms: number): object => {
    const alone = run(100, 10);
    return { alone, beside: run(100, requests, requests === 0 ? 0 : ms), uploads: alone, rssBytes: 1 };
  };
  const ratio = (own: object, nginx: object): Spread | null => summariseUploads('headrace', [own], [nginx]).ratio;
  t.equal(ratio(round(10, 3), round(10, 2))?.median, 1.5);
  t.equal(ratio(round(0, 3), round(10, 2)), null);
  t.equal(ratio(round(10, 3), round(0, 2)), null);
});
