// Cases of cleaning a page: generated articles of two sizes, as in the fetch benchmark. `../clean.mjs` compares with other
// cleaners on real pages.

import { article } from '../../lib/article.mjs';

const OPTIONS = { url: 'https://example.com/article', format: 'markdown' };

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { clean } = await load('src/extract/index.js', 'workers/html/index.js');
  const pages = [0, 9].map((index) => article(index).toString());
  return Object.fromEntries(
    pages.map((html) => [`clean, ${Math.round(html.length / 1000)} kB page`, () => clean(html, OPTIONS)]),
  );
}
