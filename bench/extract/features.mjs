// Writes the features and labels that train.py reads: node bench/extract/features.mjs FOLDER OUTPUT. training-pages.mjs says
// what FOLDER holds. OUTPUT gets features.f32 and labels.f32 (share in the content, words), a row per block, and pages.json.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BLOCK, TAG, traits } from '../../dist/src/extract/tags.js';
import { isApart } from '../../dist/src/extract/content-builder.js';
import { SPACE_BEFORE } from '../../dist/src/extract/tree.js';
import { FEATURES, WIDTH } from '../../dist/src/extract/features.js';
import { cleanScored } from '../../dist/src/extract/clean.js';
import { labelsOf } from './labels.mjs';
import { readTrainingPages } from './training-pages.mjs';

const [folder, output] = process.argv.slice(2);
mkdirSync(output, { recursive: true });
const features = [];
const labels = [];
const pages = [];
let first = 0;
for (const { html, url, expected, set, type, id, site, isHeldOut, fold } of readTrainingPages(folder)) {
  let tree;
  let blocks;
  let table;
  cleanScored(html, { url }, (...seen) => {
    if (table === undefined) [table, tree, blocks] = seen;
    return new Float32Array(seen[2].count);
  });
  // A page that the adapter of its site reads.
  if (table === undefined) continue;
  const found = labelsOf(textsOf(tree, blocks), expected);
  features.push(table.rows.slice(0, blocks.count * WIDTH));
  labels.push(Float32Array.from(found.flatMap(({ share, words }) => [share, words])));
  const truth = expected.match(/[\p{L}\p{Nd}_]+/gu)?.length ?? 0;
  pages.push({ set, type, id, site, isHeldOut, fold, first, count: blocks.count, truth });
  first += blocks.count;
}
writeFileSync(join(output, 'features.f32'), Buffer.concat(features.map((part) => Buffer.from(part.buffer))));
writeFileSync(join(output, 'labels.f32'), Buffer.concat(labels.map((part) => Buffer.from(part.buffer))));
writeFileSync(join(output, 'pages.json'), JSON.stringify({ names: Object.keys(FEATURES), width: WIDTH, pages }));

function textsOf(tree, blocks) {
  const texts = new Array(blocks.count).fill('');
  let gap = '';
  for (let node = 1; node < tree.count; node++) {
    if (tree.tag[node] !== TAG['#text']) {
      if ((tree.flags[node] & SPACE_BEFORE) !== 0 || isApart(tree, node) || tree.tag[node] === TAG.br) gap = ' ';
      if ((traits(tree.tag[node]) & BLOCK) !== 0) gap = ' ';
      continue;
    }
    texts[blocks.of[node]] += `${(tree.flags[node] & SPACE_BEFORE) === 0 ? gap : ' '}${tree.textOf(node)}`;
    gap = '';
  }
  return texts;
}
