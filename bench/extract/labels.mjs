// Labels the blocks of a page with the share of their words that are in the marked content, in the order of the content.

const SHINGLE = 3;
/** Occurrences in the content that are tried per place of a block. */
const MAX_CANDIDATES = 12;
/** Out of order, only longer matches count. */
const LEAST_APART = 8;

/** `blocks` are texts. Returns `{ share, words }` for each. */
export function labelsOf(blocks, expected) {
  const { words, starts } = linesOf(expected);
  const index = new Map();
  for (let at = 0; at + SHINGLE <= words.length; at++) push(index, words.slice(at, at + SHINGLE).join(' '), at);
  const single = new Map();
  for (const [at, word] of words.entries()) push(single, word, at);
  const tokens = blocks.map(tokensOf);
  const matches = tokens.flatMap((block, number) =>
    candidatesOf(block, words, index, single, starts).map((match) => ({ ...match, number })),
  );
  const chain = longestChain(matches, words.length);
  const used = new Uint8Array(words.length);
  const matched = new Array(blocks.length).fill(0);
  for (const { number, from, length } of chain) {
    matched[number] += length;
    used.fill(1, from, from + length);
  }
  // Content that is out of order: whole paragraphs whose words nothing else has taken.
  for (const match of matches) {
    if (matched[match.number] > 0 || match.length < LEAST_APART) continue;
    if (match.length < 0.8 * tokens[match.number].length) continue;
    const taken = used.subarray(match.from, match.from + match.length).reduce((sum, one) => sum + one, 0);
    if (taken > 0.2 * match.length) continue;
    matched[match.number] = match.length;
    used.fill(1, match.from, match.from + match.length);
  }
  return tokens.map((block, number) => ({
    share: block.length === 0 ? 0 : Math.min(1, matched[number] / block.length),
    words: block.length,
  }));
}

/** Runs of words of a block that are in the content. */
function candidatesOf(block, words, index, single, starts) {
  if (block.length === 0) return [];
  if (block.length < SHINGLE) {
    const places = single.get(block[0]) ?? [];
    return places
      .filter((at) => block.every((word, offset) => words[at + offset] === word))
      .filter((at) => starts.has(at) || starts.has(at + block.length))
      .slice(0, 4 * MAX_CANDIDATES)
      .map((from) => ({ from, length: block.length, at: 0 }));
  }
  const found = [];
  const isTaken = new Set();
  for (let at = 0; at + SHINGLE <= block.length; at++) {
    const places = index.get(block.slice(at, at + SHINGLE).join(' ')) ?? [];
    for (const from of places.slice(0, MAX_CANDIDATES)) {
      const diagonal = from - at;
      if (isTaken.has(`${diagonal}:${at}`)) continue;
      let length = SHINGLE;
      while (at + length < block.length && block[at + length] === words[from + length]) length++;
      for (let step = 0; step <= length - SHINGLE; step++) isTaken.add(`${diagonal}:${at + step}`);
      found.push({ from, length, at });
    }
  }
  return found;
}

/** The chain of matches, in the order of both, with most words. */
function longestChain(matches, size) {
  // Maxima over prefixes of the content, in a Fenwick tree of chains.
  const tree = new Array(size + 2).fill(null);
  const better = (left, right) => ((left?.total ?? 0) >= (right?.total ?? 0) ? left : right);
  let at = 0;
  const ordered = matches.toSorted((a, b) => a.number - b.number || a.at - b.at || a.from - b.from);
  let best = null;
  while (at < ordered.length) {
    let end = at;
    while (end < ordered.length && ordered[end].number === ordered[at].number && ordered[end].at === ordered[at].at)
      end++;
    const group = ordered.slice(at, end).map((match) => {
      let before = null;
      for (let i = match.from; i > 0; i -= i & -i) before = better(before, tree[i]);
      return { ...match, before, total: (before?.total ?? 0) + match.length };
    });
    for (const each of group) {
      for (let i = each.from + each.length; i <= size; i += i & -i) tree[i] = better(tree[i], each);
      best = better(best, each);
    }
    at = end;
  }
  const chain = [];
  for (let each = best; each; each = each.before) chain.push(each);
  return chain;
}

function linesOf(text) {
  const words = [];
  const starts = new Set();
  for (const line of text.split('\n')) {
    starts.add(words.length);
    words.push(...tokensOf(line));
  }
  starts.add(words.length);
  return { words, starts };
}

/** Lower-case words; each character of scripts without spaces is one. */
export function tokensOf(text) {
  return (
    text
      .toLowerCase()
      .match(/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]|[\p{L}\p{Nd}_]+/gu) ?? []
  );
}

function push(index, key, at) {
  const places = index.get(key);
  if (places === undefined) index.set(key, [at]);
  else places.push(at);
}
