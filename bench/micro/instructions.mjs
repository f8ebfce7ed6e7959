// Counts the CPU instructions that one request costs the whole gateway, by valgrind, and compares them with instructions.json:
//
//   node bench/micro/instructions.mjs [DIST]     prints them, for dist or another built tree
//   node bench/micro/instructions.mjs --check    with everything on and limits: fails when a case takes 5 % more than in instructions.json
//   node bench/micro/instructions.mjs --update   writes instructions.json
//
// The gateway runs embedded in a process of its own (`../lib/instruction-gateway.mjs`) under callgrind, whose counting is off until
// the code is warm. Client and model servers are in this process and take turns with the gateway, so that every run has the
// same reads and writes, however busy the machine is. What the kernel does in system calls is not counted.
// Without valgrind (Debian: apt-get install valgrind) it says "not measured" and ends with 0.

import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PROXY_CORE } from '../lib/cores.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { isInstalled, runCommand, startChild, stopChild, temporaryFolder } from '../lib/process.mjs';
import { progress } from '../lib/report.mjs';
import { ResponseReader } from '../lib/response.mjs';
import { spread } from '../lib/statistics.mjs';
import { ANSWER, eventText, EVENTS, requests } from '../lib/traffic.mjs';
import { compareCounts } from './instruction-limits.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BASELINE = fileURLToPath(new URL('instructions.json', import.meta.url));
const GATEWAY = fileURLToPath(new URL('../lib/instruction-gateway.mjs', import.meta.url));

/** What is counted: `warm` requests before the count, then `samples` times `count` requests. Garbage is collected in some samples: their median counts. */
const JSON_CASE = { stream: false, warm: 200, count: 80, samples: 5 };
const STREAM_CASE = { stream: true, warm: 8, count: 4, samples: 5 };
/** By variant of the gateway (`../lib/gateway.mjs`), each in a process of its own. Ratios are to `open`. */
const CASES = {
  open: { 'json open': JSON_CASE, 'stream open': STREAM_CASE },
  keys: { 'json keys': JSON_CASE },
  headrace: { json: JSON_CASE, stream: STREAM_CASE },
  limited: { 'json limited': JSON_CASE, 'stream limited': STREAM_CASE },
};
/** What a check counts: the code of the other variants is a part of this one's. */
const CHECKED = ['limited'];
/** Loading the gateway under valgrind takes 8 s on a quiet machine, and minutes beside a whole test run. */
const START_TIMEOUT_MS = 300_000;

/**
 * One thread, fixed seeds, no work in the background, and a small young generation, so that collections come evenly. JavaScript runs
 * in the baseline compiler: the optimising ones make other code at other moments in each run (counts that differ by 10 %
 * and more), and need thousands of requests of warm-up. Baseline code takes about five times the instructions, so
 * JavaScript weighs more than in production beside Node.js itself.
 */
const NODE_FLAGS = [
  ...['--always-sparkplug', '--no-lazy-feedback-allocation', '--no-maglev', '--no-turbofan', '--no-flush-bytecode'],
  ...['--predictable', '--single-threaded', '--hash-seed=1', '--random-seed=1', '--max-semi-space-size=1'],
  ...['--initial-old-space-size=512', '--no-incremental-marking', '--no-minor-gc-task', '--no-memory-reducer'],
];

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: ';
const JSON_ANSWER = Buffer.from(`${HEAD}application/json\r\ncontent-length: ${ANSWER.length}\r\n\r\n${ANSWER}`);
const STREAM_HEAD = `${HEAD}text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n`;
const HEALTHY = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';
const chunk = (text) => `${text.length.toString(16)}\r\n${text}\r\n`;

/** Two model servers. A stream's next event is sent by `next`, when the client has the one before. */
async function startServers() {
  const state = { socket: null, sent: 0 };
  const next = () => {
    const { socket } = state;
    if (socket === null || state.sent === EVENTS) return;
    const event = chunk(eventText(state.sent++, 0));
    socket.write(state.sent === EVENTS ? `${event}0\r\n\r\n` : event);
  };
  const answer = (socket, text) => {
    if (text.startsWith('GET')) socket.write(HEALTHY);
    else if (text.includes('"stream":true')) {
      state.socket = socket;
      state.sent = 1;
      socket.write(STREAM_HEAD + chunk(eventText(0, 0)));
    } else socket.write(JSON_ANSWER);
  };
  const servers = [0, 1].map(() =>
    createServer({ noDelay: true }, (socket) => {
      let text = '';
      socket.on('error', () => socket.destroy());
      socket.on('data', (bytes) => {
        text += bytes.latin1Slice();
        const end = text.indexOf('\r\n\r\n');
        const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
        if (end < 0 || text.length < end + 4 + length) return;
        const whole = text;
        text = '';
        answer(socket, whole);
      });
    }),
  );
  const ports = await Promise.all(
    servers.map(
      (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port))),
    ),
  );
  return { ports, next, close: () => servers.forEach((server) => server.close()) };
}

/** One kept connection; `run(messages, count)` sends requests one after the other and resolves after the last answer. */
async function openClient(port, next) {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  let onDone = () => {};
  let onFail = () => {};
  const reader = new ResponseReader(() => {
    // After the event has been read to its end.
    setImmediate(() => next());
  });
  socket.on('data', (bytes) => {
    try {
      if (!reader.push(bytes)) return;
      const { status } = reader;
      reader.reset();
      if (status === 200) onDone();
      else onFail(new Error(`status ${status}: ${bytes.toString().slice(0, 500)}`));
    } catch (error) {
      onFail(error);
    }
  });
  socket.on('error', (error) => onFail(error));
  socket.on('close', () => onFail(new Error('the gateway closed the connection')));
  await new Promise((resolve) => socket.once('connect', resolve));
  let at = 0;
  const run = async (messages, count) => {
    for (let sent = 0; sent < count; sent++) {
      const done = new Promise((resolve, reject) => {
        onDone = resolve;
        onFail = reject;
      });
      socket.write(messages[at++ % messages.length]);
      await done;
    }
  };
  return { run, close: () => socket.destroy() };
}

/** Instructions of one request of every case of these variants, on the built tree `dist`. */
async function countTree(dist, variants) {
  const counts = {};
  for (const variant of variants) Object.assign(counts, await countVariant(dist, variant));
  return counts;
}

async function countVariant(dist, variant) {
  const servers = await startServers();
  try {
    return await countBehind(servers, dist, variant);
  } finally {
    servers.close();
  }
}

async function countBehind(servers, dist, variant) {
  const folder = temporaryFolder();
  const spec = JSON.stringify({ dist: resolve(dist), ports: servers.ports, folder, variant });
  const out = `--callgrind-out-file=${join(folder, 'count')}`;
  const { child, match } = await startChild({
    name: 'gateway under valgrind',
    command: 'valgrind',
    args: [
      ...['--tool=callgrind', '--instr-atstart=no', out, '--smc-check=all-non-file'],
      ...[process.execPath, ...NODE_FLAGS, GATEWAY, spec],
    ],
    core: PROXY_CORE,
    ready: /^ready (\d+)$/,
    startTimeoutMs: START_TIMEOUT_MS,
  });
  const port = Number(match[1]);
  const client = await openClient(port, servers.next);
  const control = (...words) => runCommand('callgrind_control', [...words, String(child.pid)]);
  try {
    const counts = {};
    for (const [name, { stream, warm, count, samples }] of Object.entries(CASES[variant])) {
      const messages = requests({ port, stream, bodyBytes: 1000 });
      progress(`instructions, ${name}`);
      await client.run(messages, warm);
      control('-i', 'on');
      const totals = [];
      for (let sample = 0; sample < samples; sample++) {
        control('-z');
        await client.run(messages, count);
        control('-d');
        totals.push(newestTotal(folder) / count);
      }
      control('-i', 'off');
      counts[name] = Math.round(spread(totals).median);
    }
    return counts;
  } finally {
    client.close();
    await stopChild(child);
  }
}

/** Instructions in the last dump of callgrind. */
function newestTotal(folder) {
  const numberOf = (file) => Number(file.slice('count.'.length));
  const dumps = readdirSync(folder).filter((file) => /^count\.\d+$/.test(file));
  const newest = dumps.toSorted((a, b) => numberOf(a) - numberOf(b)).at(-1);
  return Number(/^(?:summary|totals): (\d+)/m.exec(readFileSync(join(folder, newest), 'latin1'))[1]);
}

/** What keys, metering and limits add to the same request of an open gateway. */
function ratioLines(counts) {
  return Object.values(CASES)
    .flatMap((cases) => Object.entries(cases))
    .map(([name, { stream }]) => [name, counts[name] / counts[`${stream ? 'stream' : 'json'} open`] - 1])
    .filter(([, more]) => more !== 0)
    .map(([name, more]) => `${name}: ${(more * 100).toFixed(1)} % more than an open gateway`);
}

async function main(words) {
  const say = (text) => process.stdout.write(`${text}\n`);
  if (!isInstalled('valgrind') || !isInstalled('callgrind_control')) {
    say('instructions: not measured, valgrind is not installed (Debian: apt-get install valgrind)');
    return;
  }
  useOwnNode(ROOT);
  const [dist = join(ROOT, 'dist')] = words.filter((word) => !word.startsWith('--'));
  const isCheck = words.includes('--check');
  const variants = isCheck ? CHECKED : Object.keys(CASES);
  const counted = { node: process.version, arch: process.arch, counts: await countTree(dist, variants) };
  progress('');
  if (words.includes('--update')) {
    writeFileSync(BASELINE, `${JSON.stringify(counted, null, 2)}\n`);
    for (const [name, count] of Object.entries(counted.counts))
      say(`${name}: ${count} instructions a request, written`);
    return;
  }
  if (!isCheck) for (const line of ratioLines(counted.counts)) say(line);
  const { lines, isOver } = compareCounts(JSON.parse(readFileSync(BASELINE, 'utf8')), counted);
  for (const line of lines) say(line);
  if (isOver && isCheck) process.exitCode = 1;
}

await main(process.argv.slice(2)).catch((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
});
