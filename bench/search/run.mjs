// How good merged rankings are, by method, over simulated engines (`engines.mjs`) or over runs with public judgements:
//
//   node bench/search/run.mjs [--queries 500] [--seed 1]      a table for each set of engines
//   node bench/search/run.mjs --trec QRELS RUN RUN ...         the same for judgements and runs in the format of TREC
//
// Needs a built tree (`npm run build`). Pure computation: a busy machine changes nothing.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { useOwnNode } from '../lib/own-node.mjs';
import { judge, measureAll, methodsOf } from './measure.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
useOwnNode(ROOT);

/** Results that are taken of each run. */
const TREC_HITS = 20;

const load = (file) => import(pathToFileURL(join(ROOT, 'dist', file)).href);
const { pageKey } = await load('src/search/canonical-url.js');
const { merge } = await load('src/search/merge.js');
const gateway = { pageKey, merge };

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    queries: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
    trec: { type: 'boolean' },
  },
});

function print(rows) {
  const widths = rows[0].map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  for (const row of rows) process.stdout.write(`| ${row.map((cell, at) => cell.padEnd(widths[at])).join(' | ')} |\n`);
}

const figure = (number) => number.toFixed(3);

/** Lines of a file of TREC as their words. */
function wordsOf(file) {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter(Boolean)
    .map((line) => line.trim().split(/\s+/));
}

function measureTrec([qrels, ...runs]) {
  const gradesOf = new Map();
  for (const [topic, , page, grade] of wordsOf(qrels)) {
    const grades = gradesOf.get(topic) ?? new Map();
    gradesOf.set(topic, grades.set(page, Math.max(0, Number(grade))));
  }
  const listsOf = new Map();
  for (const [at, run] of runs.entries()) {
    for (const [topic, , page, , score] of wordsOf(run)) {
      const lists = listsOf.get(topic) ?? runs.map(() => []);
      listsOf.set(topic, lists);
      lists[at].push({ id: page, url: `https://trec.example/${encodeURIComponent(page)}`, score: Number(score) });
    }
  }
  const topics = [...listsOf.keys()].filter((topic) => gradesOf.has(topic));
  const alone = runs.map((run, at) => [run.split('/').at(-1), (lists) => lists[at]]);
  print([
    ['method', 'NDCG@10', 'MRR'],
    ...[...Object.entries(methodsOf(gateway)), ...alone].map(([name, order]) => {
      const total = { ndcg: 0, mrr: 0 };
      for (const topic of topics) {
        const lists = listsOf.get(topic).map((list) => list.toSorted((a, b) => b.score - a.score).slice(0, TREC_HITS));
        const { mrr, ndcg } = judge({ grades: gradesOf.get(topic), lists }, order);
        total.ndcg += ndcg / topics.length;
        total.mrr += mrr / topics.length;
      }
      return [name, figure(total.ndcg), figure(total.mrr)];
    }),
  ]);
}

if (values.trec) measureTrec(positionals);
else {
  const table = measureAll(gateway, { queries: Number(values.queries), seed: Number(values.seed) });
  const sets = Object.keys(table);
  const methods = Object.keys(table[sets[0]].methods);
  for (const [measure, title] of [
    ['ndcg', 'NDCG@10'],
    ['mrr', 'MRR'],
    ['duplicates', 'duplicates in the first ten'],
  ]) {
    process.stdout.write(`\n${title}\n\n`);
    print([
      ['', ...sets],
      ...methods.map((name) => [name, ...sets.map((set) => figure(table[set].methods[name][measure]))]),
    ]);
  }
  process.stdout.write('\nMistakes of keys\n\n');
  print([
    ['', ...sets],
    ...['falseMerges', 'missedMerges'].map((name) => [name, ...sets.map((set) => String(table[set][name]))]),
  ]);
}
