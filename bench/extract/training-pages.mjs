// Reads the pages that train the model of src/extract, in the layouts of the public collections: the development part of WCXB
// (FOLDER/wcxb/dev/{html,ground-truth}) and the parser tests of Fundus (FOLDER/fundus/tests/resources/parser/test_data).
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const json = (path) => JSON.parse(readFileSync(path, 'utf8'));
const gunzip = (path) => gunzipSync(readFileSync(path)).toString('utf8');

/** Pages in a fixed order: `{ set, id, type, url, site, isHeldOut, fold, html, expected, title }`. */
export function readTrainingPages(folder) {
  return [...wcxb(join(folder, 'wcxb/dev')), ...fundus(join(folder, 'fundus/tests/resources/parser/test_data'))].map(
    (page) => {
      const site = siteOf(page.url);
      const [first, second] = createHash('md5').update(site).digest();
      return { ...page, site, isHeldOut: first % 20 < 3, fold: second % 5 };
    },
  );
}

function wcxb(folder) {
  return readdirSync(join(folder, 'ground-truth'))
    .sort()
    .map((name) => {
      const { url, _internal: internal, ground_truth: truth } = json(join(folder, 'ground-truth', name));
      const id = name.replace('.json', '');
      const html = gunzip(join(folder, 'html', name.replace(/json$/, 'html.gz')));
      const type = internal.page_type.primary;
      return {
        set: 'wcxb',
        id,
        type,
        url: url || id,
        html,
        expected: truth.main_content ?? '',
        title: truth.title ?? '',
      };
    });
}

function fundus(folder) {
  return readdirSync(folder)
    .sort()
    .filter((country) => existsSync(join(folder, country, 'meta.info')))
    .flatMap((country) => {
      const meta = json(join(folder, country, 'meta.info'));
      return Object.entries(meta)
        .filter(([name]) => existsSync(join(folder, country, name)))
        .map(([name, { url = name }]) => {
          const html = gunzip(join(folder, country, name));
          const versions = json(join(folder, country, `${name.replace(/_\d{4}_.*$/, '')}.json`));
          return {
            set: 'fundus',
            id: `${country}-${name}`,
            type: 'article',
            url,
            html,
            ...bestVersion(versions, html),
          };
        });
    });
}

/** A publisher's file has one article per version of its parser: the one whose paragraphs are in this page. */
function bestVersion(versions, html) {
  const letters = (text) => text.replaceAll(/[^\p{L}]+/gu, '');
  const page = letters(html.replaceAll(/<[^>]*>|&[#\w]+;|\\u[0-9a-f]{4}/g, ''));
  let best = { share: -1, expected: '', title: '' };
  for (const { body, title } of Object.values(versions)) {
    const parts = [
      ...body.summary,
      ...body.sections.flatMap(({ headline, paragraphs }) => [...headline, ...paragraphs]),
    ];
    const found = parts.filter((part) => page.includes(letters(part).slice(0, 40)));
    const share = found.length / (parts.length || 1);
    if (share > best.share) best = { share, expected: parts.join('\n\n'), title, summary: body.summary.join('\n') };
  }
  return best;
}

/** The registered domain, roughly: three labels under a country's `co`, `com` and so on, else two. */
export function siteOf(url) {
  const labels = (URL.parse(url.trim())?.hostname ?? url).split('.');
  const isSecondLevel =
    labels.at(-1)?.length === 2 && /^(?:co|com|org|net|gov|gob|ac|edu|or|ne|go)$/.test(labels.at(-2));
  return labels.slice(isSecondLevel ? -3 : -2).join('.');
}
