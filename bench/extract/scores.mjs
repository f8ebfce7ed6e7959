// Scores of extracted text against marked content: words in common, 4-grams in common, and segments that must and must not be
// in the output. They are defined as in the README of the pages that they are applied to.

/** Word score, per page: multisets of lower-cased tokens. Both empty is 1, one of them empty is 0. */
export function wordScore(output, expected) {
  return f1Of(countOf(tokens(output.toLowerCase())), countOf(tokens(expected.toLowerCase())));
}

/** 4-gram score of one page as counts; see `shingleMeans`. */
export function shingleCounts(output, expected) {
  const [found, wanted] = [output, expected].map((text) => countOf(shingles(tokens(text))));
  const shared = overlap(found, wanted);
  return { shared, found: found.size === 0 ? 0 : total(found), expected: wanted.size === 0 ? 0 : total(wanted) };
}

/** Precision is the mean over pages with output, recall that over pages with expected text, F1 is of these two. */
export function shingleMeans(counts) {
  const precision = mean(counts.filter(({ found }) => found > 0).map(({ shared, found }) => shared / found));
  const recall = mean(counts.filter(({ expected }) => expected > 0).map(({ shared, expected }) => shared / expected));
  return { precision, recall, f1: harmonic(precision, recall) };
}

/** Counts of one page: wanted segments found and missed, unwanted ones found. */
export function segmentCounts(output, segments) {
  const text = collapse(output);
  const found = (list) => (list ?? []).filter((segment) => text.includes(collapse(segment))).length;
  const [wanted, unwanted] = [found(segments.with), found(segments.without)];
  return {
    tp: wanted,
    fn: (segments.with ?? []).length - wanted,
    fp: unwanted,
    unwanted: (segments.without ?? []).length,
  };
}

export function segmentTotals(counts) {
  const sum = (key) => counts.reduce((all, each) => all + each[key], 0);
  const precision = sum('tp') / (sum('tp') + sum('fp'));
  const recall = sum('tp') / (sum('tp') + sum('fn'));
  return { precision, recall, f1: harmonic(precision, recall) };
}

export function mean(values) {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

function f1Of(found, expected) {
  if (expected.size === 0 || found.size === 0) {
    const score = Number(expected.size === found.size);
    return { precision: score, recall: score, f1: score };
  }
  const shared = overlap(found, expected);
  const [precision, recall] = [shared / total(found), shared / total(expected)];
  return { precision, recall, f1: harmonic(precision, recall) };
}

function tokens(text) {
  return text.match(/[\p{L}\p{Nd}_]+/gu) ?? [];
}

function shingles(words) {
  if (words.length === 0) return [];
  if (words.length < 4) return [words.join(' ')];
  return words.slice(3).map((_, at) => words.slice(at, at + 4).join(' '));
}

function countOf(items) {
  const counts = new Map();
  for (const item of items) counts.set(item, (counts.get(item) ?? 0) + 1);
  return counts;
}

function overlap(left, right) {
  let shared = 0;
  for (const [item, count] of left) shared += Math.min(count, right.get(item) ?? 0);
  return shared;
}

function total(counts) {
  let sum = 0;
  for (const count of counts.values()) sum += count;
  return sum;
}

function harmonic(left, right) {
  return left + right === 0 ? 0 : (2 * left * right) / (left + right);
}

function collapse(text) {
  return text.replaceAll(/\s+/g, ' ').trim();
}
