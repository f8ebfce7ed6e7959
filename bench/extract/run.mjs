// Compares the quality of the cleaner and of other extractors on pages whose main content people marked. Run after a build:
// node bench/extract/run.mjs FOLDER [--peers headrace,defuddle,readability,trafilatura,go-trafilatura,all-text]
// [--set wcxb|trafilatura|mozilla] [--half even|odd] [--python PATH] [--go PATH] [--json] [--write]. `--write` puts the table into
// bench/README.md. pages.mjs describes the layout of FOLDER, scores.mjs the scores.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
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
    const counts = results.map(({ page, answer }) => shingleCounts(answer.content, page.expected));
    const { f1: shingles } = shingleMeans(counts);
    return {
      precision: average('precision'),
      recall: average('recall'),
      f1: average('f1'),
      shingles,
      ...snippets,
      title,
    };
  },
  segments: (results) => segmentTotals(results.map(({ page, answer }) => segmentCounts(answer.content, page.segments))),
  shingles(results) {
    const scores = shingleMeans(results.map(({ page, answer }) => shingleCounts(answer.content, page.expected)));
    return { ...scores, title: mean(results.map(({ page, answer }) => Number(answer.title === page.meta.title))) };
  },
};

const WARM_UP_PAGES = 100;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    peers: { type: 'string', default: 'headrace' },
    set: { type: 'string' },
    half: { type: 'string' },
    python: { type: 'string', default: 'python3' },
    go: { type: 'string', default: 'go' },
    json: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
});
const [folder] = positionals;
if (folder === undefined) throw new Error('FOLDER is missing: node bench/extract/run.mjs FOLDER');

const every = readPages(folder, values.set === undefined ? Object.keys(SETS) : [values.set]);
const pages = values.half === undefined ? every : every.filter((_, at) => at % 2 === Number(values.half === 'odd'));
const rows = [];
for (const peer of values.peers.split(',')) rows.push(...(await judge(peer)));
if (values.write) writeTable(rows);
if (values.json) console.log(JSON.stringify(rows, null, 2));
else printTable(rows);

async function judge(name) {
  const extract = await PEERS[name](values);
  const results = [];
  // The first pages pay for compiling the code, which a process that goes on does once.
  for (const page of pages.slice(0, WARM_UP_PAGES)) await answerOf(extract, page);
  for (const page of pages) {
    const start = process.cpuUsage();
    const answer = await answerOf(extract, page);
    const { user, system } = process.cpuUsage(start);
    results.push({ page, answer, cpuMs: answer.cpuMs ?? (user + system) / 1000 });
    if (results.length % 50 === 0) process.stderr.write(`${name}: ${results.length} of ${pages.length} pages\n`);
  }
  extract.close?.();
  return Object.keys(SETS).flatMap((set) =>
    rowsOf(
      name,
      set,
      results.filter(({ page }) => page.set === set),
    ),
  );
}

/** A peer that fails has found nothing. */
async function answerOf(extract, page) {
  try {
    return await extract(page);
  } catch {
    return { title: '', content: '' };
  }
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
  console.log(
    'set | type | peer | pages | precision | recall | F1 | 4-grams | with | without | title | CPU ms per page',
  );
  console.log('--- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | ---');
  for (const row of table) {
    const scores = ['precision', 'recall', 'f1', 'shingles', 'with', 'without', 'title'].map((key) => number(row[key]));
    console.log([row.set, row.type, row.peer, row.pages, ...scores, row.cpuMs.toFixed(1)].join(' | '));
  }
}

/** One row for each set and type, one column for each peer; then 4-grams over articles, titles and CPU time. */
function writeTable(table) {
  const peers = [...new Set(table.map(({ peer }) => peer))];
  const cells = (label, of, digits = 3) => {
    const found = peers.map(of);
    const best = Math.max(...found.filter((value) => value !== undefined));
    const texts = found.map((value) => {
      const text = value === undefined ? '' : value.toFixed(digits);
      return value === best && digits === 3 ? `**${text}**` : text;
    });
    return [label, ...texts];
  };
  const rowOf = (set, type, peer) => table.find((row) => row.set === set && row.type === type && row.peer === peer);
  const lines = [['set, type', ...peers], ['set, type', ...peers].map(() => '---')];
  for (const { set, type, pages: count } of table.filter(({ peer }) => peer === peers[0])) {
    const label = type === 'all' ? `${set}, all ${count} pages` : `${type}, ${count}`;
    lines.push(cells(label, (peer) => rowOf(set, type, peer)?.f1));
    if (rowOf(set, type, peers[0]).shingles !== undefined && type === 'article')
      lines.push(cells('article, 4-grams', (peer) => rowOf(set, type, peer).shingles));
    if (type !== 'all') continue;
    if (rowOf(set, type, peers[0]).title !== undefined)
      lines.push(cells(`${set}, titles`, (peer) => rowOf(set, type, peer).title));
    lines.push(cells(`${set}, CPU ms per page`, (peer) => rowOf(set, type, peer).cpuMs, 1));
  }
  const text = lines.map((line) => `| ${line.join(' | ')} |`).join('\n');
  const path = join(import.meta.dirname, '../README.md');
  const [before, , after] = readFileSync(path, 'utf8').split(
    /(?<=<!-- peers of the cleaner -->\n)|(?=<!-- end of peers -->)/,
  );
  writeFileSync(path, `${before}\n${text}\n\n${after}`);
}
