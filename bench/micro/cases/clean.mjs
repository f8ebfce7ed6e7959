// A page cleaned: articles between the furniture of a news site, as the fetch benchmark serves them. The comparison with
// other cleaners, on real pages, is `../clean.mjs`.

import { article } from '../../lib/articles.mjs';

const OPTIONS = { url: 'https://example.com/article', format: 'markdown' };

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { clean } = await load('src/extract/index.js');
  const pages = [0, 9].map((index) => article(index).toString());
  return Object.fromEntries(
    pages.map((html) => [`clean, ${Math.round(html.length / 1000)} kB page`, () => clean(html, OPTIONS)]),
  );
}
