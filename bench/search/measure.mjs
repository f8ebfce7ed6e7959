// Quality of merged rankings over queries with known relevance: NDCG@10 and MRR of what a user sees, duplicates that were not
// recognised, and pages that were merged although they differ.

import { SETS, rankings } from './engines.mjs';
import { combMnz, roundRobin, rrf, searxng } from './methods.mjs';

const DEPTH = 10;

/** NDCG at 10 of grades in the order shown; a page that is shown twice counts once. `all`: grades of every page that was found. */
export function ndcg(shown, all) {
  const gain = (grade, at) => (2 ** grade - 1) / Math.log2(at + 2);
  const sum = (grades) => grades.slice(0, DEPTH).reduce((total, grade, at) => total + gain(grade, at), 0);
  const ideal = sum(all.toSorted((a, b) => b - a));
  return ideal === 0 ? 0 : sum(shown) / ideal;
}

/** 1 / rank of the first page that helps: grade 2 or better. */
export function reciprocalRank(grades) {
  const at = grades.findIndex((grade) => grade >= 2);
  return at < 0 ? 0 : 1 / (at + 1);
}

/**
 * Merges lists of { id, url } and judges the order. `grades` by id; other ids are spam of grade 0. Ours is given URLs as engines
 * give them, the others the keys of `keyOf`, so that methods differ in their order alone.
 */
export function judge({ grades, lists }, order) {
  const shown = order(lists);
  const seen = new Set();
  const gradesShown = [];
  let duplicates = 0;
  for (const { id } of shown.slice(0, DEPTH)) {
    const isAgain = id >= 0 && seen.has(id);
    if (isAgain) duplicates++;
    seen.add(id);
    gradesShown.push(isAgain ? 0 : (grades.get(id) ?? 0));
  }
  const found = new Set(lists.flatMap((list) => list.map(({ id }) => id)));
  const all = Array.from(found, (id) => grades.get(id) ?? 0);
  return { ndcg: ndcg(gradesShown, all), mrr: reciprocalRank(gradesShown), duplicates: duplicates / DEPTH };
}

/** The methods of the table. `merge` and `pageKey` are the gateway's. */
export function methodsOf({ pageKey, merge }) {
  const keyed = (method) => (lists) =>
    method(lists.map((list) => list.map((hit) => ({ ...hit, key: pageKey(hit.url) }))));
  return {
    ours: (lists) => {
      const ids = new Map(lists.flatMap((list) => list.map(({ id, url }) => [url, id])));
      const engines = lists.map((list, at) => ({
        engine: `e${at}`,
        hits: list.map(({ url }) => ({ title: url, url, snippet: '' })),
      }));
      return merge(engines, { searchType: 'web' }).map(({ url }) => ({ id: ids.get(url), url }));
    },
    'RRF, k = 60': keyed(rrf(60)),
    'RRF, k = 2': keyed(rrf(2)),
    SearXNG: keyed(searxng),
    CombMNZ: keyed(combMnz),
    'round robin': keyed(roundRobin),
  };
}

/** Pages that got one key although they differ, and pages with more keys than one, among all hits of a query. */
export function keyMistakes({ lists }, pageKey) {
  const idsOf = new Map();
  const keysOf = new Map();
  for (const { id, url } of lists.flat()) {
    if (id < 0) continue;
    const key = pageKey(url);
    idsOf.set(key, (idsOf.get(key) ?? new Set()).add(id));
    keysOf.set(id, (keysOf.get(id) ?? new Set()).add(key));
  }
  const more = (sets) => [...sets.values()].filter((set) => set.size > 1).length;
  return { falseMerges: more(idsOf), missedMerges: more(keysOf) };
}

/** Mean of a measure for each method and set: `{ set: { method: { ndcg, mrr, duplicates } } }`, and mistakes of keys by set. */
export function measureAll(gateway, { queries, seed = 1, sets = SETS }) {
  const methods = methodsOf(gateway);
  const table = {};
  for (const [set, profiles] of Object.entries(sets)) {
    const totals = {};
    const mistakes = { falseMerges: 0, missedMerges: 0 };
    const add = (name, { duplicates, mrr, ndcg: gained }) => {
      const total = (totals[name] ??= { ndcg: 0, mrr: 0, duplicates: 0 });
      total.ndcg += gained / queries;
      total.mrr += mrr / queries;
      total.duplicates += duplicates / queries;
    };
    for (let query = 0; query < queries; query++) {
      const judged = rankings(profiles, query, seed);
      for (const [name, order] of Object.entries(methods)) add(name, judge(judged, order));
      profiles.forEach((_, at) =>
        add(
          `engine ${at + 1} alone`,
          judge(judged, (lists) => lists[at]),
        ),
      );
      const { falseMerges, missedMerges } = keyMistakes(judged, gateway.pageKey);
      mistakes.falseMerges += falseMerges;
      mistakes.missedMerges += missedMerges;
    }
    const alone = Object.entries(totals).filter(([name]) => name.endsWith('alone'));
    for (const [name] of alone) delete totals[name];
    totals['best engine'] = alone.map(([, total]) => total).reduce((a, b) => (b.ndcg > a.ndcg ? b : a));
    table[set] = { methods: totals, ...mistakes };
  }
  return table;
}
