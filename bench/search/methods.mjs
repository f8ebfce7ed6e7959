// Ways to merge the rankings of several engines, each as a function of lists of { key, url } that returns them in its order. Those beside ours
// give a page the score that is named, and break ties as ours does: best rank, then the order of the engines.

/** A method whose score of a page comes from its ranks in the engines' lists, counted from 1. */
function byScore(score) {
  return (lists) => {
    const pages = new Map();
    for (const [order, list] of lists.entries()) {
      for (const [index, hit] of list.entries()) {
        const page = pages.get(hit.key) ?? { hit, ranks: [], sizes: [], best: Infinity, order };
        if (!pages.has(hit.key)) pages.set(hit.key, page);
        if (page.last === order) continue;
        page.last = order;
        page.ranks.push(index + 1);
        page.sizes.push(list.length);
        if (index + 1 < page.best) Object.assign(page, { best: index + 1, order, hit });
      }
    }
    return [...pages.values()]
      .map((page) => ({ ...page, score: score(page.ranks, page.sizes) }))
      .sort((a, b) => b.score - a.score || a.best - b.best || a.order - b.order)
      .map(({ hit }) => hit);
  };
}

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Reciprocal rank fusion (Cormack, Clarke and Büttcher 2009). */
export const rrf = (k) => byScore((ranks) => sum(ranks.map((rank) => 1 / (k + rank))));

/** The score of SearXNG: number of engines times the sum of 1 / rank. */
export const searxng = byScore((ranks) => ranks.length * sum(ranks.map((rank) => 1 / rank)));

/** CombMNZ (Fox and Shaw 1994) with scores from ranks, 1 for the first of a list and almost 0 for its last. */
export const combMnz = byScore(
  (ranks, sizes) => ranks.length * sum(ranks.map((rank, at) => 1 - (rank - 1) / (sizes[at] ?? 1))),
);

/** One of each engine in turn; what has come already is left out. */
export function roundRobin(lists) {
  const seen = new Set();
  const merged = [];
  for (let at = 0; lists.some((list) => at < list.length); at++) {
    for (const list of lists) {
      const hit = list[at];
      if (hit === undefined || seen.has(hit.key)) continue;
      seen.add(hit.key);
      merged.push(hit);
    }
  }
  return merged;
}
