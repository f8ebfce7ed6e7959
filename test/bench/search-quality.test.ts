// A small run of bench/search: exact figures for one seed, and what must hold for any.
import t from 'tap';
import { pageKey } from '../../src/search/canonical-url.ts';
import { merge } from '../../src/search/merge.ts';
import { benchModule } from './modules.ts';

interface Quality {
  readonly ndcg: number;
  readonly mrr: number;
  readonly duplicates: number;
}

interface SetQuality {
  readonly methods: Readonly<Record<string, Quality>>;
  readonly falseMerges: number;
  readonly missedMerges: number;
}

interface Measure {
  readonly ndcg: (shown: readonly number[], all: readonly number[]) => number;
  readonly reciprocalRank: (grades: readonly number[]) => number;
  readonly measureAll: (
    gateway: object,
    options: { readonly queries: number; readonly seed: number },
  ) => Readonly<Record<string, SetQuality>>;
}

const { measureAll, ndcg, reciprocalRank } = await benchModule<Measure>('search/measure.mjs');

/** NDCG@10 by set of engines. */
const EXPECTED: Readonly<Record<string, string>> = {
  'five alike': '0.830',
  'good and bad': '0.774',
  'small overlap': '0.683',
  'one spams': '0.793',
  'short lists': '0.894',
  'same bias': '0.822',
  duplicates: '0.833',
  ties: '0.803',
  'two engines': '0.825',
  'long lists': '0.794',
};

t.test('the measures are those of the literature', async (t) => {
  t.equal(ndcg([3, 2, 0], [3, 2, 0]), 1);
  t.equal(ndcg([], [3]), 0);
  t.equal(ndcg([0], [0]), 0);
  // (3/log2(2) + 7/log2(3)) / (7/log2(2) + 3/log2(3))
  t.equal(ndcg([2, 3], [3, 2]).toFixed(6), ((3 + 7 / Math.log2(3)) / (7 + 3 / Math.log2(3))).toFixed(6));
  t.equal(reciprocalRank([0, 1, 2]), 1 / 3);
  t.equal(reciprocalRank([1, 1]), 0);
});

t.test('merging is as good as it was', async (t) => {
  const table = measureAll({ pageKey, merge }, { queries: 20, seed: 1 });
  const ours = Object.entries(table).map(([set, { methods }]) => [set, (methods['ours']?.ndcg ?? 0).toFixed(3)]);
  t.strictSame(Object.fromEntries(ours), EXPECTED);
  for (const [set, { falseMerges, methods, missedMerges }] of Object.entries(table)) {
    t.strictSame({ falseMerges, missedMerges }, { falseMerges: 0, missedMerges: 0 }, set);
    const { ours, 'RRF, k = 60': classic } = methods as Readonly<Record<'ours' | 'RRF, k = 60', Quality>>;
    t.equal(ours.duplicates, 0, set);
    t.ok(ours.ndcg >= classic.ndcg - 0.005, set);
  }
});

t.test('a seed gives the same figures', async (t) => {
  const table = measureAll({ pageKey, merge }, { queries: 3, seed: 5 });
  const again = measureAll({ pageKey, merge }, { queries: 3, seed: 5 });
  t.strictSame(again, table);
});
