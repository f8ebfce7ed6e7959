// Packs Adobe's predefined CMaps into src/extract/cmaps/cmaps.br: a JSON index of names and lengths, a line end, and the files in
// that order, compressed. Run: node scripts/build-cmaps.mjs FOLDER, where FOLDER is `cmaps` of the package pdfjs-dist 6.5.438.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('FOLDER is missing: node scripts/build-cmaps.mjs FOLDER');
const names = readdirSync(folder)
  .filter((name) => name.endsWith('.bcmap'))
  .sort();
const files = names.map((name) => readFileSync(join(folder, name)));
const index = JSON.stringify(names.map((name, at) => [name, files[at].length]));
const packed = brotliCompressSync(Buffer.concat([Buffer.from(`${index}\n`), ...files]), {
  params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 },
});
writeFileSync(new URL('../src/extract/cmaps/cmaps.br', import.meta.url), packed);
