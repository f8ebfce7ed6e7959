// Cases of merging search hits: five engines of 10 and of 100 hits, half of the pages shared; and the key by which URLs are
// compared, for plain, tracked and wrapped ones.

const ENGINES = 5;
const SPELLINGS = ['https://', 'https://www.', 'http://', 'https://m.', 'https://'];

/** Even places are pages every engine has, spelled each engine's way and at other ranks; odd ones are its own. */
function hits(engine, count) {
  return Array.from({ length: count }, (_, at) => {
    const page = at % 2 === 0 ? `shared-${(at + 2 * engine) % count}` : `own-${engine}-${at}`;
    return {
      title: `Title of ${page}`,
      url: `${SPELLINGS[engine]}example.com/articles/2026/${page}?id=${page.length}&utm_source=e${engine}`,
      snippet: 'Some words around the words that were searched for. '.repeat(1 + ((at + engine) % 4)),
    };
  });
}

const target = encodeURIComponent('https://example.com/articles/2026/a-page?id=1');
const URLS = {
  plain: 'https://example.com/articles/2026/a-page',
  'tracked and escaped': 'http://www.example.com/%7Earticles/a%2Dpage/?utm_source=x&b=2&a=1#part',
  wrapped: `https://www.google.com/url?sa=t&q=${target}`,
  scholarly: 'https://onlinelibrary.wiley.com/doi/abs/10.1002/anie.202012345',
};

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { pageKey } = await load('src/search/canonical-url.js');
  const { merge } = await load('src/search/merge.js');
  const lists = (count) =>
    Array.from({ length: ENGINES }, (_, engine) => ({ engine: `e${engine}`, hits: hits(engine, count) }));
  const merging = [10, 100].map((count) => {
    const all = lists(count);
    return [`merge, ${ENGINES} x ${count} hits`, () => merge(all, { searchType: 'web' })];
  });
  const comparing = Object.entries(URLS).map(([name, url]) => [`pageKey, ${name}`, () => pageKey(url)]);
  return Object.fromEntries([...merging, ...comparing]);
}
