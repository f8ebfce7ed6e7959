// Scores the selection on the training pages: node bench/extract/evaluate.mjs FOLDER [DATA] [--held-out] [--worst N]. With DATA,
// the output of train.py, with its predictions for pages that the model was not trained on; without, with the weights of the package, which
// know all pages.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { cleanScored } from '../../dist/src/extract/clean.js';
import { score } from '../../dist/src/extract/model.js';
import { mean, shingleCounts, shingleMeans, wordScore } from './scores.mjs';
import { readTrainingPages } from './training-pages.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    'held-out': { type: 'boolean', default: false },
    worst: { type: 'string', default: '0' },
    rows: { type: 'string' },
  },
});
const [folder, data] = positionals;
const predictions = data === undefined ? undefined : floats(join(data, 'predictions.f32'));
const places = data === undefined ? [] : JSON.parse(readFileSync(join(data, 'pages.json'), 'utf8')).pages;
const firstOf = new Map(places.map(({ set, id, first }) => [`${set} ${id}`, first]));

const results = [];
for (const page of readTrainingPages(folder)) {
  if (page.isHeldOut !== values['held-out']) continue;
  const first = firstOf.get(`${page.set} ${page.id}`);
  let isFirst = predictions !== undefined;
  const { content } = cleanScored(page.html, { url: page.url }, (table) => {
    if (!isFirst) return score(table);
    isFirst = false;
    return predictions.slice(first, first + table.weight.length);
  });
  const { set, type, id, expected } = page;
  results.push({ set, type, id, words: wordScore(content, expected), shingles: shingleCounts(content, expected) });
}

const types = ['article', 'collection', 'documentation', 'forum', 'listing', 'product', 'service'];
for (const type of ['all', ...types]) {
  const rows = results.filter((row) => row.set === 'wcxb' && (type === 'all' || row.type === type));
  const [precision, recall, f1] = ['precision', 'recall', 'f1'].map((key) => mean(rows.map(({ words }) => words[key])));
  print(`wcxb ${type}`, rows.length, precision, recall, f1);
}
for (const set of ['wcxb', 'fundus']) {
  const rows = results.filter((row) => row.set === set && row.type === 'article');
  const { precision, recall, f1 } = shingleMeans(rows.map(({ shingles }) => shingles));
  print(`${set} articles, 4-grams`, rows.length, precision, recall, f1);
}
for (const { set, type, id, words } of results
  .toSorted((a, b) => a.words.f1 - b.words.f1)
  .slice(0, Number(values.worst)))
  print(`${set} ${type} ${id}`, 1, words.precision, words.recall, words.f1);
if (values.rows !== undefined) writeFileSync(values.rows, JSON.stringify(results));

function print(name, pages, precision, recall, f1) {
  console.log([name, pages, precision.toFixed(3), recall.toFixed(3), f1.toFixed(3)].join(' | '));
}

function floats(path) {
  const bytes = readFileSync(path);
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}
