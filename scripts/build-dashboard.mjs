// Bundles the dashboard into dist/src/admin/dashboard: index.html, icon.svg, app.js, app.css, chunk-HASH.js of views that are loaded
// when they are opened, and licenses.txt with the licences of the packages in the bundle. Reproducible: the same sources give the same bytes.

import { build } from 'esbuild';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCE = `${ROOT}src/admin/dashboard/`;
const TARGET = `${ROOT}dist/src/admin/dashboard/`;

mkdirSync(TARGET, { recursive: true });
for (const file of readdirSync(TARGET)) if (/^chunk-\w+\.js$/.test(file)) rmSync(TARGET + file);

const { metafile } = await build({
  absWorkingDir: ROOT,
  entryPoints: [
    { in: `${SOURCE}app.tsx`, out: 'app' },
    { in: `${SOURCE}style.css`, out: 'app' },
  ],
  outdir: TARGET,
  bundle: true,
  splitting: true,
  chunkNames: 'chunk-[hash]',
  minify: true,
  format: 'esm',
  // Browsers of the last two years: light-dark() and :has() in the style sheet.
  target: ['chrome123', 'firefox123', 'safari17.5'],
  tsconfig: `${SOURCE}tsconfig.json`,
  legalComments: 'none',
  charset: 'utf8',
  metafile: true,
  logLevel: 'warning',
});

for (const file of ['index.html', 'icon.svg']) copyFileSync(SOURCE + file, TARGET + file);

const packages = Object.keys(metafile.inputs).flatMap(
  (path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? [],
);
const licenses = [...new Set(packages)].sort().map((name) => {
  const { version } = JSON.parse(readFileSync(`${ROOT}node_modules/${name}/package.json`, 'utf8'));
  return `${name} ${version}\n\n${readFileSync(`${ROOT}node_modules/${name}/LICENSE`, 'utf8').trim()}\n`;
});
writeFileSync(`${TARGET}licenses.txt`, licenses.join(`\n${'-'.repeat(80)}\n\n`));
