// Command of the benchmarks (`npm run bench`): runs the named parts, prints their tables, and writes bench/results/DATE.json
// with every single run, and report.html beside it. On first use it installs the peers and builds the gateway.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { flagLines, parseFlags, readBaseUrl } from './lib/flags.mjs';
import { GOAL_COLUMNS, GOAL_PARTS, goalRows, judgeGoals, quietText } from './lib/goals.mjs';
import { localityFiles, localityOf } from './lib/locality-page.mjs';
import { measuredPage } from './lib/measured-page.mjs';
import { condensed, performanceFiles } from './lib/performance-page.mjs';
import { pageOf } from './lib/report-page.mjs';
import { useOwnNode } from './lib/own-node.mjs';
import { PEERS, VARIANTS } from './lib/peers.mjs';
import { isInstalled, runCommand, temporaryFolder } from './lib/process.mjs';
import { printProfiles } from './lib/profile.mjs';
import { Progress } from './lib/progress.mjs';
import { fileDate, printTable, surroundings } from './lib/report.mjs';
import { MODEL } from './lib/traffic.mjs';
import { part as accounts } from './load/accounts.mjs';
import { part as cluster } from './load/cluster.mjs';
import { part as dialects } from './load/dialects.mjs';
import { part as fetchPages } from './load/fetch.mjs';
import { part as locality } from './load/locality.mjs';
import { part as memory } from './load/memory.mjs';
import { part as micro } from './load/micro.mjs';
import { part as overhead } from './load/overhead.mjs';
import { part as peers } from './load/peers.mjs';
import { part as proxy } from './load/proxy.mjs';
import { part as search } from './load/search.mjs';
import { part as stream } from './load/stream.mjs';
import { part as upload } from './load/upload.mjs';
import { part as path } from './path.mjs';
import { part as tools } from './tools/part.mjs';
import { installPackages } from './peers/install.mjs';

const PARTS = Object.fromEntries(
  [
    proxy,
    stream,
    peers,
    search,
    fetchPages,
    overhead,
    memory,
    accounts,
    dialects,
    locality,
    cluster,
    micro,
    path,
    upload,
    tools,
  ].map((part) => [part.name, part]),
);
/** Parts that run when none is named: all but those that take many minutes. */
const DEFAULT = Object.keys(PARTS).filter(
  (name) => ![upload.name, peers.name, locality.name, cluster.name, tools.name].includes(name),
);
/** Not a part: all parts that measure a goal. */
const GOALS = 'goals';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const HERE = fileURLToPath(new URL('.', import.meta.url));

const GENERAL = {
  quick: { type: 'boolean', default: false, help: 'a smoke run of a minute or two: its figures mean nothing' },
  out: { type: 'word', default: join(HERE, 'results'), help: 'folder of the results' },
  render: { type: 'word', default: '', help: 'measure nothing: write report.html anew, from this DATE.json' },
  docs: { type: 'boolean', default: false, help: 'write the pages of docs/ and what they are made of too' },
};
/** Values of `--quick` for flags without a `quick` value of their own. */
const QUICK = { rounds: 1, seconds: 0.4, warmUp: 0.2, threads: [1, 2] };

const HELP = `npm run bench [-- PART ... FLAGS]

Measures the gateway and other gateways in the same rounds on the same core: CPU time per request, latency, rate
and memory. Without a part, all but peers, locality, cluster, upload and tools run: about ten minutes.

  proxy      JSON requests; nginx, HAProxy, fastify, Portkey beside it; one thread and two
  stream     streams of 64 events beside the same peers
  peers      both of these beside all other gateways and proxies, which are installed first (only when named)
  search     searches over five engines: capacity, then added latency at a fixed rate
  fetch      pages fetched and cleaned, and what that does to chats
  overhead   what is added to a request and to each event of a stream at 25, 50 and 75 % of capacity
  memory     resident memory with 10,000 idle connections and with 2,000 live streams
  accounts   the gateway open, with keys, and with keys and metering
  dialects   requests of messages and responses: passed, and translated to chat completions
  locality   prompts with shared beginnings over hosts with caches: tokens found there, time to first token (only when named)
  cluster    gateways that share placements through Redis, beside one and beside as many that share nothing; with
             --simulate up to 64 gateways and 1,000 CRNs in virtual time (only when named)
  micro      time of one call of the hot functions
  path       source files, functions and calls that one warm request enters
  upload     small requests beside uploads of 10 MB (only when named)
  tools      searches with the text of their best pages beside the loop of a script; tool calls by MCP; pages in
             a browser (only when named)
  goals      peers (nginx and HAProxy only), overhead, search, fetch and upload, and a table of the goals

Each prints tables; all of a run are written to bench/results/DATE.json, with plots to bench/results/report.html.
Needs Linux, two cores and taskset. nginx and HAProxy take part when they are installed (Debian: apt-get install
nginx-light haproxy). Use a quiet machine: "foreign" in a table is the share of core 0 that other processes used.

Flags of every part
${flagLines(GENERAL)}
${flagLines(shared())}

Peers are ${PEERS.slice(0, 9).join(', ')},
${PEERS.slice(9).join(', ')}; and any gateway
that runs already, at the address of --base-url. Let it serve model ${MODEL} from http://127.0.0.1:9400/v1, with
--upstream-port 9400 here; bench/README.md shows how, and which key it gets.

Flags of one part, or with another default there
${Object.values(PARTS).map(ownFlags).join('\n')}

Compare the hot functions of two versions: node bench/micro/compare.mjs BASE BRANCH
`;

/** Flags that several parts have, with the help of the first. */
function shared() {
  const all = Object.values(PARTS).flatMap(({ flags }) => Object.entries(flags));
  const many = all.filter(([flag]) => all.filter(([other]) => other === flag).length > 2);
  return Object.fromEntries(many.toReversed());
}

/** What the part has alone, or with another meaning or default than the first. */
function ownFlags({ name, flags }) {
  const common = { ...GENERAL, ...shared() };
  const own = Object.entries(flags).filter(
    ([flag, row]) => flagLines({ [flag]: row }) !== flagLines({ [flag]: common[flag] ?? {} }),
  );
  return `${name}\n${flagLines(Object.fromEntries(own))}`;
}

function readArguments(argv) {
  const quick = argv.includes('--quick');
  const named = parseFlags({ GENERAL, ...tablesOf(Object.values(PARTS), quick) }, argv, quick);
  if (named.help) return { help: true };
  const unknown = named.positionals.find((name) => name !== GOALS && !Object.hasOwn(PARTS, name));
  if (unknown !== undefined)
    throw new Error(`there is no part "${unknown}"; there are ${Object.keys(PARTS).join(', ')}, ${GOALS}`);
  const parts = partsOf(named.positionals);
  const unknownPeer = named.values.proxy.peers.find(
    (name) => !PEERS.includes(name) && !Object.hasOwn(VARIANTS, name.split('*')[0]),
  );
  if (unknownPeer !== undefined) throw new Error(`there is no peer "${unknownPeer}"; there are ${PEERS.join(', ')}`);
  const runsAlready = named.values.proxy.baseUrl.map((text) => readBaseUrl(text).name);
  const taken = runsAlready.find((name, at) => PEERS.includes(name) || runsAlready.indexOf(name) !== at);
  if (taken !== undefined) throw new Error(`--base-url ${taken}: another peer has this name`);
  // Parsed again with the flags of the chosen parts only, so that a flag which none of them has is an error.
  const { values } = parseFlags({ GENERAL, ...tablesOf(parts, quick) }, argv, quick);
  return { parts, values, general: values.GENERAL, showsGoals: named.positionals.includes(GOALS) };
}

/** The named parts. Those that run for the goals alone have the defaults of the goals. */
function partsOf(names) {
  if (names.length === 0) return DEFAULT.map((name) => PARTS[name]);
  const wanted = [...new Set(names.flatMap((name) => (name === GOALS ? Object.keys(GOAL_PARTS) : [name])))];
  return wanted.map((name) => {
    const part = PARTS[name];
    if (names.includes(name)) return part;
    const defaults = Object.entries(GOAL_PARTS[name]).map(([flag, value]) => [
      flag,
      { ...part.flags[flag], default: value },
    ]);
    return { ...part, flags: { ...part.flags, ...Object.fromEntries(defaults) } };
  });
}

function tablesOf(parts, quick) {
  const table = ({ flags }) =>
    Object.fromEntries(
      Object.entries(flags).map(([flag, row]) => {
        const fits = Array.isArray(QUICK[flag]) === Array.isArray(row.default);
        return [flag, quick && flag in QUICK && fits && !('quick' in row) ? { ...row, quick: QUICK[flag] } : row];
      }),
    );
  return Object.fromEntries(parts.map((part) => [part.name, table(part)]));
}

/** Keeps the peers that a part has: `--peers` applies to all parts, and not all parts have every peer. */
function narrowed({ peers, flags }, values) {
  if (!Object.hasOwn(flags, 'peers') || values.peers === flags.peers.default) return values;
  const known = values.peers.filter((name) => peers.includes(name.split('*')[0]));
  return { ...values, peers: known.length > 0 ? known : flags.peers.default };
}

/** Installs what is missing and builds; returns notes about what could not be installed. */
function prepare(parts) {
  const notes = [];
  const say = (text) => process.stderr.write(`${text}\n`);
  if (process.platform !== 'linux') throw new Error('the benchmarks need Linux: they read /proc');
  if (availableParallelism() < 2) throw new Error('the benchmarks need two cores: one for the peer, one for its load');
  if (!isInstalled('taskset')) throw new Error('taskset is needed (Debian: apt-get install util-linux)');
  const peersNeeded = parts.some(
    ({ flags, needsPackages }) => needsPackages || flags.peers?.default.includes('fastify'),
  );
  if (peersNeeded && !existsSync(join(HERE, 'node_modules', 'fastify'))) {
    say('installing the peers in bench/ (once)');
    try {
      installPackages();
    } catch (error) {
      notes.push(`npm ci in bench/ failed, so fastify and portkey are left out: ${error.message.split('\n')[0]}`);
    }
  }
  if (!existsSync(join(ROOT, 'node_modules', 'typescript'))) {
    say('installing the gateway (once)');
    runCommand('npm', ['ci', '--no-audit', '--no-fund'], { cwd: ROOT });
  }
  if (!existsSync(join(ROOT, 'dist', 'src', 'cli', 'main.js'))) {
    say('building the gateway');
    runCommand('npm', ['run', 'build'], { cwd: ROOT });
  }
  return notes;
}

async function runPart(part, settings, bar, notes) {
  const results = [];
  const profileDir = settings.profile === true ? temporaryFolder() : undefined;
  const rig = {
    profileDir,
    step: (text) => bar.step(part.name, text),
    note: (text) => {
      if (notes.includes(text)) return;
      notes.push(text);
      bar.clear();
      process.stderr.write(`${text}\n`);
    },
    result: ({ data, figures, ...shown }) => {
      results.push({ ...shown, figures, data });
      bar.clear();
      printTable(shown.title, shown.columns, shown.rows);
      for (const remark of shown.remarks) process.stdout.write(`\n${remark}\n`);
    },
  };
  await part.measure(settings, rig);
  if (profileDir !== undefined) printProfiles(profileDir);
  return { name: part.name, sentence: part.sentence, settings, results };
}

function write(out, run) {
  const html = writePageOf(run, out);
  const json = join(out, `${fileDate(new Date(run.startedAt))}.json`);
  writeFileSync(json, `${JSON.stringify(run, null, 1)}\n`);
  return [json, html];
}

function writePageOf(run, out) {
  mkdirSync(out, { recursive: true });
  const html = join(out, 'report.html');
  writeFileSync(html, pageOf(run));
  return html;
}

/** Parts with a page, into which their figures are written: that of their name, or another one. */
const PAGES = {
  [locality.name]: { keep: localityOf, write: localityFiles },
  [dialects.name]: measuredPage(dialects.name, 'dialects.md'),
  [tools.name]: { ...measuredPage(tools.name, 'search.md'), page: 'search' },
};

/** Writes what the repository keeps of a run, and the pages made of it: one for all parts without a page of their own. */
async function writeDocs(run) {
  const others = { ...run, parts: run.parts.filter(({ name }) => !Object.hasOwn(PAGES, name)) };
  const written = [];
  if (others.parts.length > 0) {
    const kept = condensed(others);
    written.push(...(await writePage('performance.json', kept, performanceFiles(kept))));
  }
  for (const [name, { keep, page: file = name, write }] of Object.entries(PAGES)) {
    const kept = keep(run);
    if (kept === null) continue;
    const page = readFileSync(join(ROOT, 'docs', `${file}.md`), 'utf8');
    written.push(...(await writePage(`${name}.json`, kept, write(kept, page))));
  }
  return written;
}

async function writePage(name, kept, files) {
  const { formatted } = await import('../scripts/formatted.mjs');
  const json = join(HERE, name);
  writeFileSync(json, await formatted(json, JSON.stringify(kept)));
  const written = [json];
  for (const [page, text] of Object.entries(files)) {
    const file = join(ROOT, 'docs', page);
    writeFileSync(file, page.endsWith('.md') ? await formatted(file, text) : text);
    written.push(file);
  }
  return written;
}

async function main({ parts, values, general, showsGoals }) {
  if (general.render !== '') {
    const run = JSON.parse(readFileSync(resolve(general.render), 'utf8'));
    if (!Array.isArray(run.parts)) throw new Error(`${general.render} is no result of npm run bench`);
    const written = [writePageOf(run, general.out), ...(general.docs ? await writeDocs(run) : [])];
    process.stdout.write(`${written.join('\n')}\n`);
    return;
  }
  const startedAt = new Date();
  const notes = prepare(parts);
  useOwnNode(ROOT);
  if (general.quick) notes.push('A quick run: it checks that everything works, and its figures mean nothing.');
  const settings = parts.map((part) => narrowed(part, values[part.name]));
  const totals = parts.map((part, at) => part.steps(settings[at]));
  const bar = new Progress(totals.reduce((sum, steps) => sum + steps, 0));
  const done = [];
  let failed = false;
  let steps = 0;
  for (const [at, part] of parts.entries()) {
    try {
      done.push(await runPart(part, settings[at], bar, notes));
    } catch (error) {
      failed = true;
      notes.push(`${part.name} failed: ${error.message.trim()}`);
      bar.clear();
      process.stderr.write(`${notes.at(-1)}\n`);
    }
    steps += totals[at];
    bar.clear(steps);
  }
  const command = ['npm run bench', ...(process.argv.length > 2 ? ['--', ...process.argv.slice(2)] : [])].join(' ');
  const seconds = (Date.now() - startedAt.getTime()) / 1000;
  const run = {
    startedAt: startedAt.toISOString(),
    seconds,
    command,
    surroundings: surroundings(),
    notes,
    parts: done,
  };
  const goals = judgeGoals(run).filter(({ measured }) => showsGoals || measured !== null);
  if (goals.length > 0) {
    printTable('Goals', GOAL_COLUMNS, goalRows(goals));
    process.stdout.write(`\n${quietText(run)}\n`);
  }
  const written = [...write(general.out, run), ...(general.docs ? await writeDocs(run) : [])];
  process.stdout.write(`\n${written.join('\n')}\n`);
  // All children are stopped; open sockets to peers of --base-url must not keep the process alive.
  process.exit(failed ? 1 : 0);
}

let given;
try {
  given = readArguments(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`${error.message}\n\nnpm run bench -- --help says more.\n`);
  process.exit(2);
}
if (given.help) process.stdout.write(HELP);
else {
  await main(given).catch((error) => {
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  });
}
