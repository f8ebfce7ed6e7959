// Links between documents: every target exists, every page is reached from the index, and what the package publishes
// links to published files only.

import { existsSync } from 'node:fs';
import { dirname, normalize } from 'node:path';
import t from 'tap';
import { anchors, DOCUMENTS, links, PAGES, readDocument, ROOT } from './markdown.ts';

/** Largest README in bytes: a newcomer reads it whole. */
const README_BYTES = 12 * 1024;

/** The file that a relative link points to, relative to the root. */
function target(page: string, link: string): string {
  const [path = ''] = link.split('#');
  return path === '' ? page : normalize(`${dirname(page)}/${path}`);
}

const isRelative = (link: string): boolean => !/^[a-z]+:/.test(link);

for (const page of DOCUMENTS) {
  t.test(`the links of ${page} lead somewhere`, async (t) => {
    for (const link of links(page).filter(isRelative)) {
      const file = target(page, link);
      t.ok(existsSync(`${ROOT}${file}`), `${link}: the file exists`);
      const [, anchor] = link.split('#');
      if (anchor !== undefined && file.endsWith('.md')) t.ok(anchors(file).has(anchor), `${link}: the heading exists`);
    }
  });
}

t.test('the index names every page', async (t) => {
  const named = new Set(links('docs/README.md').map((link) => target('docs/README.md', link)));
  for (const page of PAGES.filter((name) => !name.endsWith('README.md'))) t.ok(named.has(page), page);
});

t.test('the README is short', async (t) => {
  t.ok(Buffer.byteLength(readDocument('README.md')) <= README_BYTES);
});

t.test('the files that ARCHITECTURE.md names exist', async (t) => {
  const named = readDocument('ARCHITECTURE.md').matchAll(/`((?!headrace\/)[\w./-]+\/[\w.-]*)`/g);
  for (const [, path = ''] of named) {
    const places = ['', 'src/'].map((folder) => `${ROOT}${folder}${path}`);
    const isThere = places.some((place) => existsSync(place) || existsSync(`${place}.test.ts`));
    t.ok(isThere, path);
  }
});

t.test('published documents link to published files', async (t) => {
  const { files } = JSON.parse(readDocument('package.json')) as { files: string[] };
  // npm publishes these whatever `files` says.
  const published = [...files, 'README.md', 'LICENSE', 'package.json'];
  const isPublished = (file: string): boolean =>
    published.some((entry) => file === entry || file.startsWith(`${entry}/`));
  for (const page of DOCUMENTS.filter(isPublished)) {
    for (const link of links(page).filter(isRelative)) {
      const file = target(page, link).replace(/\/$/, '');
      t.ok(isPublished(file), `${page}: ${link}`);
    }
  }
});
