// Simulated search engines over one world of pages with known relevance, so that the quality of a merged ranking can be measured. Everything
// comes from a seed: the same seed gives the same rankings.

/** Relevance grades of pages, and their shares: 3 answers the query, 2 helps, 1 is about the subject, 0 is not. */
const GRADES = [
  { grade: 3, share: 0.02 },
  { grade: 2, share: 0.05 },
  { grade: 1, share: 0.13 },
];
const PAGES = 400;
const HOSTS = 60;

/** A generator of numbers from 0 to 1 (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Normal numbers (Box and Muller). */
function normal(next) {
  return Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}

/** Spellings of the address of one page, as engines give them. */
const SPELLINGS = [
  (address) => `https://${address}`,
  (address) => `https://${address}`,
  (address) => `https://${address}/`,
  (address) => `https://www.${address}`,
  (address) => `http://${address}`,
  (address) => `https://${address}?utm_source=engine&utm_medium=web`,
  (address) => `https://${address}#section`,
  (address) => `https://m.${address}`,
  (address) => `https://${address}/amp`,
  (address) => `https://${address}/index.html`,
];

/**
 * Addresses of different pages that look alike: case, parameter, port, subdomain, path. A merge of two of them is a false one.
 */
const KINDS = [
  (host, page) => `${host}/articles/${page}`,
  (host, page) => `${host}/Articles/${page}`,
  (host, page) => `${host}/index.php?id=${page}`,
  (host, page) => `${host}/watch?v=page${String(page).padStart(7, '0')}`,
  (host, page) => `en.${host}/articles/${page}`,
  (host, page) => `de.${host}/articles/${page}`,
  (host, page) => `${host}/a/${page}?page=2`,
];

/** The pages of one query: id, address, grade. */
export function makeWorld(seed) {
  const next = random(seed);
  const pages = Array.from({ length: PAGES }, (_, id) => {
    const host = `site-${Math.floor(next() * HOSTS)}.example`;
    const draw = next();
    let below = 0;
    const grade = GRADES.find(({ share }) => draw < (below += share))?.grade ?? 0;
    // Numbers repeat between kinds, so that addresses differ in their kind alone.
    return { id, address: KINDS[id % KINDS.length](host, Math.floor(id / KINDS.length)), grade };
  });
  // What all engines share beside relevance: popular pages rank high everywhere.
  return { pages, popularity: pages.map(() => normal(next)) };
}

/** @typedef {{ name: string, noise: number, coverage: number, size: number, popularity?: number, spam?: number, duplicates?: number, ties?: number }} Profile */

/**
 * The ranking of an engine for a world: its hits, best first. `noise`: standard deviation of its error, in grades; `coverage`: share of the
 * pages that it knows; `popularity`: weight of what all engines share beside relevance; `spam`: share of its places that it gives
 * to irrelevant pages of its own; `duplicates`: chance that a page comes again in another spelling; `ties`: scores are rounded to
 * this, and pages of equal score are in the order of their ids.
 */
export function rank(world, profile, seed) {
  const { noise, coverage, size, popularity = 0.3, spam = 0, duplicates = 0, ties = 0, bias = '' } = profile;
  const next = random(seed);
  const scored = [];
  for (const page of world.pages) {
    const error = normal(next) * noise;
    const isKnown = next() < coverage;
    const liked = bias !== '' && page.address.includes(bias) ? 1.5 : 0;
    let score = page.grade + error + popularity * world.popularity[page.id] + liked;
    if (ties > 0) score = Math.round(score / ties) * ties;
    if (isKnown) scored.push({ page, score });
  }
  scored.sort((a, b) => b.score - a.score || a.page.id - b.page.id);
  const spell = (address) => {
    const text = SPELLINGS[Math.floor(next() * SPELLINGS.length)](address);
    // A query comes before what is added behind the path.
    return address.includes('?') ? SPELLINGS[Math.floor(next() * 4) === 3 ? 3 : 0](address) : text;
  };
  const hits = [];
  for (const { page } of scored) {
    if (hits.length >= size) break;
    if (next() < spam) hits.push({ id: -1, url: `https://spam-${seed}-${hits.length}.example/buy` });
    hits.push({ id: page.id, url: spell(page.address) });
    if (next() < duplicates) hits.push({ id: page.id, url: spell(page.address) });
  }
  return hits.slice(0, size);
}

/** Sets of engines: what they have in common is said in the name. */
export const SETS = {
  'five alike': Array.from({ length: 5 }, (_, at) => ({ name: `e${at}`, noise: 1, coverage: 0.5, size: 10 })),
  'good and bad': [0.5, 0.8, 1.2, 2, 3].map((noise, at) => ({ name: `e${at}`, noise, coverage: 0.5, size: 10 })),
  'small overlap': Array.from({ length: 5 }, (_, at) => ({ name: `e${at}`, noise: 0.8, coverage: 0.15, size: 10 })),
  'one spams': [
    ...Array.from({ length: 4 }, (_, at) => ({ name: `e${at}`, noise: 1, coverage: 0.5, size: 10 })),
    { name: 'spam', noise: 3, coverage: 0.5, size: 10, spam: 0.6 },
  ],
  'short lists': [10, 3, 3, 2, 10].map((size, at) => ({ name: `e${at}`, noise: 0.8, coverage: 0.5, size })),
  'same bias': Array.from({ length: 5 }, (_, at) => ({
    ...{ name: `e${at}`, noise: 0.8, coverage: 0.5, size: 10 },
    ...(at < 3 ? { bias: 'index.php' } : {}),
  })),
  duplicates: Array.from({ length: 5 }, (_, at) => ({
    name: `e${at}`,
    noise: 1,
    coverage: 0.5,
    size: 10,
    duplicates: 0.3,
  })),
  ties: Array.from({ length: 5 }, (_, at) => ({ name: `e${at}`, noise: 1, coverage: 0.5, size: 10, ties: 1 })),
  'two engines': Array.from({ length: 2 }, (_, at) => ({ name: `e${at}`, noise: 0.8, coverage: 0.5, size: 10 })),
  'long lists': Array.from({ length: 5 }, (_, at) => ({ name: `e${at}`, noise: 1, coverage: 0.5, size: 50 })),
};

/** The rankings of all engines of a set for query number `query`. */
export function rankings(profiles, query, seed = 1) {
  const world = makeWorld(seed * 1_000_003 + query);
  const lists = profiles.map((profile, at) => rank(world, profile, seed * 7919 + query * 101 + at));
  return { grades: new Map(world.pages.map(({ id, grade }) => [id, grade])), lists, profiles };
}
