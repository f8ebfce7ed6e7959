// Latency of paid chats while the ledger is audited, backed up and reported on. A gateway over a ledger with many charges (10 million by
// default) gets requests at a fixed rate from a client of another process. Run after a build:
//
//   node bench/micro/ledger-latency.mjs [--charges 10000000] [--store sqlite,postgres] [--rate 200] [--seconds 20]
//
// Each piece of work is repeated for as long as the client measures. Audits and reports are asked of the admin listener, so that the
// control thread of the gateway does them; `headrace backup` is a process of its own and copies SQLite files only. The gateway runs on
// one core, client, model servers, PostgreSQL and backup on the other.

import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from '../lib/cores.mjs';
import { flagLines, parseFlags } from '../lib/flags.mjs';
import { startGateway } from '../lib/gateway.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { startChild, stopChild, temporaryFolder } from '../lib/process.mjs';
import { printTable, progress } from '../lib/report.mjs';
import { rigNode } from '../lib/rig-node.mjs';
import { runClient } from '../lib/rounds.mjs';
import { ANSWER, KEY, MODEL } from '../lib/traffic.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
useOwnNode(ROOT);

const { systemClock } = await import('../../dist/src/actor/clock.js');
const { openLedger } = await import('../../dist/src/billing/ledger/open-ledger.js');
const { postgresDatabase } = await import('../../dist/test/support/postgres.js');
const { makeCharges, makeRequestRecords } = await import('../lib/ledger-charges.mjs');

const CLI = join(ROOT, 'bin', 'headrace.js');
const TOKEN = 'token-of-the-benchmark-0123456789';
const ACCOUNT = 'bench';
/** Pico-USD: more than any run spends, and far more than a lease. */
const CREDIT = 10n ** 15n;
/** As many records of requests as a gateway keeps by default. */
const MOST_RECORDS = 1_000_000;
const UNTIL_ADMIN_MS = 10;

const FLAGS = {
  charges: { type: 'number', default: 10_000_000, help: 'charges in the ledger' },
  store: { type: 'words', default: ['sqlite', 'postgres'], help: 'stores, of sqlite and postgres' },
  rate: { type: 'number', default: 200, help: 'paid chats a second' },
  seconds: { type: 'number', default: 20, help: 'seconds that are measured for each piece of work' },
  connections: { type: 'number', default: 16, help: 'connections of the client' },
};

/** Answers the body of a request to the admin listener. */
async function ask(admin, path) {
  const response = await fetch(admin + path, { headers: { authorization: `Bearer ${TOKEN}` } });
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text.slice(0, 300)}`);
  return text;
}

async function audit(admin, full) {
  const { problems, sound } = JSON.parse(await ask(admin, `/audit?full=${full}`));
  if (!sound) throw new Error(`the ledger is not sound: ${problems[0]}`);
}

async function backup(url) {
  const file = join(temporaryFolder(), 'copy.db');
  const { child } = await startChild({
    name: 'backup',
    command: process.execPath,
    args: [CLI, 'backup', file, '--store', url],
    core: LOAD_CORE,
  });
  const how = await child.ended;
  if (how !== 'ended with 0' || !existsSync(file)) throw new Error(`backup: ${how} ${child.errors}`);
  rmSync(file);
}

/** What goes on beside the requests, by its name in the table. */
function worksOn(store, url, admin) {
  const works = {
    nothing: null,
    'full audit': () => audit(admin, true),
    'incremental audit': () => audit(admin, false),
    'headrace backup': () => backup(url),
    'usage by account, key, model and day': () => ask(admin, '/usage?by=account,key,model,day&format=csv'),
    'cost log, pages of 1,000': () => ask(admin, '/requests?limit=1000&format=csv'),
  };
  if (store !== 'sqlite') delete works['headrace backup'];
  return works;
}

/** Runs the client, and the work again and again beside it. */
async function measure(peer, load, work) {
  let isOver = false;
  let runs = 0;
  const repeat = async () => {
    while (!isOver) {
      await work();
      runs++;
    }
  };
  const working = work === null ? Promise.resolve() : repeat();
  // A failure of the work must not leave the client alone.
  const result = await Promise.race([runClient(peer, load), working.then(() => new Promise(() => {}))]);
  isOver = true;
  const runsInWindow = runs;
  await working;
  return { ...result, runs: runsInWindow };
}

async function openStore(store) {
  const url = store === 'sqlite' ? `sqlite:${join(temporaryFolder(), 'ledger.db')}` : await postgresDatabase();
  return { url, ledger: await openLedger(url, { clock: systemClock, dateMs: () => Date.now() }) };
}

async function measureStore(store, { charges, connections, rate, seconds }) {
  const { ledger, url } = await openStore(store);
  progress(`${store}: ${charges} charges are made`);
  await makeCharges(store, url, ledger, charges);
  await makeRequestRecords(store, url, Math.min(charges, MOST_RECORDS));
  await ledger.createAccount({ id: ACCOUNT });
  await ledger.grant({ id: 'bench', account: ACCOUNT, amount: CREDIT });
  await ledger.close();
  const upstream = await startChild({
    name: 'upstream',
    command: rigNode(),
    args: [fileURLToPath(new URL('../lib/upstream.mjs', import.meta.url)), '5', '0'],
    core: LOAD_CORE,
    ready: /^ready (\d+) (\d+)$/,
  });
  const servers = upstream.match.slice(1).map((port) => `http://127.0.0.1:${port}`);
  const gateway = await startGateway({
    store: url,
    adminToken: TOKEN,
    keys: { required: true, static: [{ key: KEY, account: ACCOUNT, prepaid: true }] },
    models: { [MODEL]: { servers, pricing: { prompt: '0.25', completion: '1.50' } } },
    costLog: { requests: 'charged' },
  });
  try {
    const admin = await adminOf(gateway.child);
    const peer = { name: 'headrace', port: gateway.port, pid: gateway.child.pid, upstreamPid: upstream.child.pid };
    const load = {
      stream: false,
      connections,
      bodyBytes: 1000,
      ratePerS: rate,
      warmupMs: 2000,
      answerBytes: ANSWER.length,
    };
    const rows = [];
    for (const [name, work] of Object.entries(worksOn(store, url, admin))) {
      progress(`${store}: ${name}`);
      const { errors, lastError, latencyMs, runs } = await measure(peer, { ...load, durationMs: seconds * 1000 }, work);
      if (errors > 0) throw new Error(`${errors} requests failed: ${lastError}`);
      const { count, max, p50, p99 } = latencyMs;
      const times = [p50, p99, max].map((ms) => ms.toFixed(2));
      rows.push([store, name, work === null ? '' : String(runs), String(count), ...times]);
    }
    return rows;
  } finally {
    await stopChild(gateway.child);
    await stopChild(upstream.child);
  }
}

async function adminOf(child) {
  for (;;) {
    const line = child.lines.find((text) => text.startsWith('admin on '));
    if (line !== undefined) return line.slice('admin on '.length);
    await new Promise((resolve) => setTimeout(resolve, UNTIL_ADMIN_MS));
  }
}

const { help, values } = parseFlags({ latency: FLAGS }, process.argv.slice(2));
if (help) {
  process.stdout.write(`node bench/micro/ledger-latency.mjs [flags]\n\n${flagLines(FLAGS)}\n`);
  process.exit(0);
}
const flags = values.latency;
const rows = [];
for (const store of flags.store) rows.push(...(await measureStore(store, flags)));
progress('');
const title = `Paid chats at ${flags.rate} a second over ${flags.charges} charges, ms`;
printTable(title, ['store', 'meanwhile', 'finished', 'requests', 'p50', 'p99', 'max'], rows);
process.exit(0);
