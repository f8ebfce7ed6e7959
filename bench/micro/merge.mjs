// Times merge for five engines of 10 and of 100 hits, half of the pages shared, and comparisonKey for plain and disguised
// URLs. Run after a build: node bench/micro/merge.mjs. Prints medians.
import { comparisonKey } from '../../dist/src/search/canonical-url.js';
import { merge } from '../../dist/src/search/merge.js';
import { medianNs } from './median.mjs';

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

for (const count of [10, 100]) {
  const lists = Array.from({ length: ENGINES }, (_, engine) => ({ engine: `e${engine}`, hits: hits(engine, count) }));
  const ns = medianNs(() => merge(lists, { searchType: 'web' }));
  const pages = merge(lists, { searchType: 'web' }).length;
  console.log(`merge, ${ENGINES} x ${count} hits, ${pages} pages | ${(ns / 1000).toFixed(1)} µs`);
}

const target = encodeURIComponent('https://example.com/articles/2026/a-page?id=1');
const URLS = {
  plain: 'https://example.com/articles/2026/a-page',
  'tracked and escaped': 'http://www.example.com/%7Earticles/a%2Dpage/?utm_source=x&b=2&a=1#part',
  wrapped: `https://www.google.com/url?sa=t&q=${target}`,
  scholarly: 'https://onlinelibrary.wiley.com/doi/abs/10.1002/anie.202012345',
};
for (const [name, url] of Object.entries(URLS)) {
  console.log(`comparisonKey, ${name} | ${medianNs(() => comparisonKey(url)).toFixed(0)} ns`);
}
