// What may be in the package. A file that fits no line is either a mistake or needs a line here.

import t from 'tap';
import { pack } from './installed.ts';

const ALLOWED = [
  /^(ARCHITECTURE|CHANGELOG|CONTRIBUTING|README|SECURITY)\.md$/,
  /^(LICENSE|package\.json|headrace\.schema\.json)$/,
  /^bin\/headrace\.js$/,
  /^man\/headrace\.1$/,
  /^bench\/README\.md$/,
  /^demo\/documents\//,
  /^dist\/(src|workers)\/.*(?<!\.test)\.(js|d\.ts)$/,
  /^dist\/workers\/clean\.(cjs|d\.cts)$/,
  /^dist\/src\/admin\/dashboard\/(index\.html|icon\.svg|app\.js|app\.css|licenses\.txt)$/,
  /^docs\/[\w-]+\.(md|png|svg)$/,
  /^src\/extract\/cmaps\/(cmaps\.br|LICENSE)$/,
  /^docs\/examples\/search-engine\/(catalogue(\.test)?\.js|catalogue\.fixture\.json|package\.json)$/,
  /^ops\/helm\/headrace\/(\.helmignore|templates\/(_helpers\.tpl|NOTES\.txt))$/,
  /^ops\/([\w-]+\/)*([\w.@-]+\.(json|md|ya?ml|service)|Dockerfile(\.dockerignore)?)$/,
];

/** Bytes that are downloaded. 0.4 MB are the CMaps of East Asian PDFs. */
const PACKED_BYTES = 3.2e6;

t.test('the package holds the listed kinds of files only, and is small', async (t) => {
  const { files, size } = await pack();
  t.strictSame(
    files.map(({ path }) => path).filter((path) => !ALLOWED.some((kind) => kind.test(path))),
    [],
  );
  for (const kind of ALLOWED)
    t.ok(
      files.some(({ path }) => kind.test(path)),
      String(kind),
    );
  t.ok(size < PACKED_BYTES, `${size} bytes`);
  t.comment(`${files.length} files, ${size} bytes packed`);
});
