// Compares the quality of the cleaner and of other extractors on pages whose main content people marked. Run after a build:
// node bench/extract/run.mjs FOLDER [--peers headrace,defuddle,readability,all-text] [--set wcxb|trafilatura|mozilla]
// [--half even|odd] [--json]. pages.mjs describes the layout of FOLDER, scores.mjs the scores.
import { parseArgs } from 'node:util';
import { SETS, readPages } from './pages.mjs';
import { PEERS } from './peers.mjs';
import { mean, segmentCounts, segmentTotals, shingleCounts, shingleMeans, wordScore } from './scores.mjs';

/** Columns of a set's table from its results. */
const SCORES = {
  words(results) {
    const scores = results.map(({ page, answer }) => wordScore(answer.content, page.expected));
    const snippets = segmentSums(results.map(({ page, answer }) => segmentCounts(answer.content, page.meta)));
    const average = (key) => mean(scores.map((score) => score[key]));
    const title = mean(results.map(({ page, answer }) => Number(answer.title === page.meta.title)));
    return { precision: average('precision'), recall: average('recall'), f1: average('f1'), ...snippets, title };
  },
  segments: (results) => segmentTotals(results.map(({ page, answer }) => segmentCounts(answer.content, page.segments))),
  shingles(results) {
    const scores = shingleMeans(results.map(({ page, answer }) => shingleCounts(answer.content, page.expected)));
    return { ...scores, title: mean(results.map(({ page, answer }) => Number(answer.title === page.meta.title))) };
  },
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    peers: { type: 'string', default: 'headrace' },
    set: { type: 'string' },
    half: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error('FOLDER is missing: node bench/extract/run.mjs FOLDER');

const every = readPages(folder, values.set === undefined ? Object.keys(SETS) : [values.set]);
const pages = values.half === undefined ? every : every.filter((_, at) => at % 2 === Number(values.half === 'odd'));
const rows = [];
for (const peer of values.peers.split(',')) rows.push(...(await judge(peer)));
if (values.json) console.log(JSON.stringify(rows, null, 2));
else printTable(rows);

async function judge(name) {
  const extract = await PEERS[name]();
  const results = [];
  for (const page of pages) {
    const start = process.cpuUsage();
    let answer = { title: '', content: '' };
    try {
      answer = await extract(page);
    } catch {
      // A peer that fails has found nothing.
    }
    const { user, system } = process.cpuUsage(start);
    results.push({ page, answer, cpuMs: (user + system) / 1000 });
  }
  return Object.keys(SETS).flatMap((set) =>
    rowsOf(
      name,
      set,
      results.filter(({ page }) => page.set === set),
    ),
  );
}

function rowsOf(peer, set, results) {
  if (results.length === 0) return [];
  const types = [...new Set(results.map(({ page }) => page.type))].sort((left, right) => left.localeCompare(right));
  const groups = types.length > 1 ? ['all', ...types] : ['all'];
  return groups.map((type) => {
    const group = results.filter(({ page }) => type === 'all' || page.type === type);
    const cpuMs = mean(group.map((each) => each.cpuMs));
    return { set, type, peer, pages: group.length, ...SCORES[SETS[set].score](group), cpuMs };
  });
}

function segmentSums(counts) {
  const sum = (key) => counts.reduce((all, each) => all + each[key], 0);
  return { with: sum('tp') / (sum('tp') + sum('fn')), without: sum('fp') / sum('unwanted') };
}

function printTable(table) {
  const number = (value) => (value === undefined ? '' : value.toFixed(3));
  console.log('set | type | peer | pages | precision | recall | F1 | with | without | title | CPU ms per page');
  console.log('--- | --- | --- | --- | --- | --- | --- | --- | --- | --- | ---');
  for (const row of table) {
    const scores = ['precision', 'recall', 'f1', 'with', 'without', 'title'].map((key) => number(row[key]));
    console.log([row.set, row.type, row.peer, row.pages, ...scores, row.cpuMs.toFixed(1)].join(' | '));
  }
}
