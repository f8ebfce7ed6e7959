// Counts the code that one warm request enters: distinct files of the built tree, distinct functions and calls, by V8's precise
// coverage, on one checkout or several. `node bench/path.mjs --help`; needs a built tree. Also part `path` of ./run.mjs.
//
// Definition. The gateway runs embedded (`createGateway`, `threads: 0`, a SQLite ledger, a key of the store
// whose account has credit, prices for everything) under `Profiler.startPreciseCoverage` with `callCount` and `detailed`. The
// client uses one kept connection. The model host (`headrace host`, 20 ms between tokens), the search worker and the site
// are other processes. The thread that cleans pages has an isolate of its own and is not counted.
//   chat    `POST /v1/chat/completions`: one user message, streamed, --tokens tokens
//   search  `POST /search` to two engines of kind `worker`, three hits each, not cached
//   page    `POST /search/fetch` of a page of 1.6 KB, not cached
//   charge  what follows each of these chats: from the flush of its spending to the reply to its booked charge
// After --warm-requests requests of a path, --repeats requests are counted one at a time. The window of a request goes from before
// it is sent to 100 ms after its last byte; that of a charge from 80 ms before the flush to 80 ms after the commit. Outcomes of
// attempts, which go to the CRN actors in batches every 250 ms, are in neither. A function counts with the median of its
// calls over the repeats, and not at all when that is 0: this leaves out timers. Probes and renewals of leases have
// intervals longer than a run.
// Counted is what lies in `dist/src` and `dist/workers`, but for `dist/src/host`: every function, method, accessor, closure
// and field initializer, each time it is entered. Code of Node.js and of dependencies is not counted.

import { existsSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LOAD_CORE, PROXY_CORE } from './lib/cores.mjs';
import { flagLines, parseFlags } from './lib/flags.mjs';
import { useOwnNode } from './lib/own-node.mjs';
import { runChild, runCommand, startChild, stopChild, temporaryFolder } from './lib/process.mjs';
import { percent, printTable, progress } from './lib/report.mjs';
import { spread } from './lib/statistics.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SELF = fileURLToPath(import.meta.url);
const lib = (file) => fileURLToPath(new URL(`lib/${file}`, import.meta.url));

const PATHS = ['chat', 'search', 'page', 'charge'];
const MODEL = 'atlas-27b';
const ACCOUNT = 'bench';
const CREDIT_USD = '1000';
const COLUMNS = ['path', 'checkout', 'files', 'functions', 'calls', 'calls of single requests'];

const FLAGS = {
  dist: { type: 'word', multiple: true, default: [], help: 'built tree (DIR/dist) of a checkout; may be repeated' },
  tokens: { type: 'number', default: 4, help: 'tokens of the streamed answer' },
  warmRequests: { type: 'number', default: 20, help: 'requests of each path that go before the counted ones' },
  repeats: { type: 'number', default: 11, quick: 3, help: 'requests of each path that are counted' },
};
const OUTPUT = {
  list: { type: 'boolean', default: false, help: 'print every file and function with its calls, most calls first' },
  lists: { type: 'word', default: '', help: 'write these lists to PATH.txt in this folder (of the last --dist)' },
  json: { type: 'boolean', default: false, help: 'print everything as one line of JSON instead' },
};

export const part = {
  name: 'path',
  sentence: 'Built files, functions and calls that one warm request enters.',
  peers: [],
  flags: FLAGS,
  steps: ({ dist }) => Math.max(1, dist.length),
  measure: async (flags, rig) => {
    const counts = await countAll(flags, rig.step);
    rig.result({ ...tableOf(counts, flags), remarks: [], plots: [], data: { counts } });
  },
};

/** Counts every checkout in turn, behind the same host and site. */
async function countAll({ dist, ...flags }, step) {
  const dists = (dist.length === 0 ? [join(ROOT, 'dist')] : dist).map((folder) => resolve(folder));
  for (const folder of dists) {
    if (!existsSync(join(folder, 'src', 'index.js'))) throw new Error(`${folder}: there is no src/index.js; build it`);
  }
  const children = [];
  const start = async (name, args, ready) => {
    const { child, match } = await startChild({ name, command: process.execPath, args, core: LOAD_CORE, ready });
    children.push(child);
    return match[1];
  };
  try {
    const hostFlags = ['host', '--model', MODEL, '--port', '0', '--profile', 'even', '--seed', '1'];
    const host = await start('host', [cliOf(dists[0]), ...hostFlags], /listening on (\S+)/);
    const sitePort = Number(await start('site', [lib('path-site.mjs')], /^ready (\d+)$/));
    const counts = [];
    for (const folder of dists) {
      step(folder);
      counts.push(await countOne(folder, { ...flags, host, sitePort }));
    }
    return counts;
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

const cliOf = (dist) => join(dirname(dist), 'bin', 'headrace.js');

async function countOne(dist, settings) {
  const store = join(temporaryFolder(), 'ledger.db');
  // The commands make no store where there is none.
  writeFileSync(store, '');
  const headrace = (...words) =>
    runCommand(process.execPath, [cliOf(dist), ...words, '--store', `sqlite:${store}`]).trim();
  const key = headrace('keys', 'create', '--account', ACCOUNT, '--quiet');
  headrace('credits', 'grant', ACCOUNT, CREDIT_USD);
  const spec = JSON.stringify({ dist, store, key, model: MODEL, ...settings });
  const args = [lib('path-gateway.mjs'), spec];
  const rows = await runChild({ name: `gateway of ${dist}`, command: process.execPath, args, core: PROXY_CORE });
  return { dist, ...Object.fromEntries(PATHS.map((path) => [path, summaryOf(rows[path])])) };
}

/** Functions with the median of their calls, most calls first; and the sums of single requests. */
function summaryOf(rows) {
  const functions = rows
    .map(({ calls, ...it }) => ({ ...it, calls: spread(calls).median }))
    .filter(({ calls }) => calls > 0)
    .sort((a, b) => b.calls - a.calls || a.file.localeCompare(b.file) || a.line - b.line);
  return {
    files: new Set(functions.map(({ file }) => file)).size,
    functions: functions.length,
    calls: functions.reduce((sum, { calls }) => sum + calls, 0),
    single: rows[0].calls.map((_, at) => rows.reduce((sum, { calls }) => sum + calls[at], 0)),
    list: functions,
  };
}

const nameOf = (dist) => basename(dirname(dist));

/** One row for each path and checkout; later checkouts as a share of the first too. */
function tableOf(counts, { tokens, repeats }) {
  const rows = PATHS.flatMap((path) =>
    counts.map(({ dist, [path]: counted }, at) => {
      const cell = (figure) => {
        const share = at === 0 ? '' : ` (${percent({ median: counted[figure] / counts[0][path][figure] })})`;
        return `${counted[figure]}${share}`;
      };
      const { min, max } = spread(counted.single);
      return [path, nameOf(dist), cell('files'), cell('functions'), cell('calls'), `${min}-${max}`];
    }),
  );
  const title = `One warm request: median of ${repeats}, ${tokens} tokens streamed`;
  return { title, columns: COLUMNS, rows };
}

/** Files by their calls, below each its functions. */
function listText(path, { files, functions, calls, list }) {
  const byFile = new Map();
  for (const it of list) byFile.set(it.file, [...(byFile.get(it.file) ?? []), it]);
  const sum = (its) => its.reduce((total, it) => total + it.calls, 0);
  const blocks = [...byFile]
    .sort(([, a], [, b]) => sum(b) - sum(a))
    .map(([file, its]) => {
      const lines = its.map((it) => `${String(it.calls).padStart(12)}  ${it.name} :${it.line}`);
      return `${String(sum(its)).padStart(6)}  ${file}\n${lines.join('\n')}\n`;
    });
  return `${path}: ${files} files, ${functions} functions, ${calls} calls\n\n${blocks.join('\n')}`;
}

async function main() {
  const help = `node bench/path.mjs [flags]\n\n${part.sentence}\n\n${flagLines({ ...FLAGS, ...OUTPUT })}\n`;
  let given;
  try {
    given = parseFlags({ path: { ...FLAGS, ...OUTPUT } }, process.argv.slice(2));
  } catch (error) {
    process.stderr.write(`${error.message}\n${help}`);
    process.exit(2);
  }
  if (given.help) {
    process.stdout.write(help);
    return;
  }
  useOwnNode(ROOT);
  const { list, lists, json, ...flags } = given.values.path;
  const counts = await countAll(flags, (dist) => progress(`path, ${dist}`));
  const { title, columns, rows } = tableOf(counts, flags);
  if (json) process.stdout.write(`${JSON.stringify({ ...flags, node: process.version, counts })}\n`);
  else printTable(title, columns, rows);
  for (const { dist, ...paths } of counts) {
    for (const path of PATHS)
      if (list && !json) process.stdout.write(`\n${nameOf(dist)}: ${listText(path, paths[path])}`);
  }
  if (lists === '') return;
  for (const path of PATHS) writeFileSync(join(lists, `${path}.txt`), listText(path, counts.at(-1)[path]));
}

if (process.argv[1] === SELF) {
  await main().catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
}
