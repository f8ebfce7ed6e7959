// Sends random conversations of the messages and the responses dialect through gateways in front of a server that speaks chat
// completions only, and counts for each field what arrives: carried, changed, lost; on the way there and on the way back.
//   node bench/dialects/fidelity.mjs DIR [--peers a,b] [--conversations N] [--seed N] [--docs] [--json FILE] [--cpu [--requests N]]
// DIR gets what is installed. --conversations is for Headrace; other peers get at most --peer-conversations.

import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { readCommand } from '../lib/flags.mjs';
import { useOwnNode } from '../lib/own-node.mjs';
import { cpuUs, stopChild } from '../lib/process.mjs';
import { printTable, progress, tableText } from '../lib/report.mjs';
import { ChatServer } from './chat-server.mjs';
import { Messages, Responses } from './conversations.mjs';
import { PEERS } from './peers.mjs';

const PAGE = new URL('../../docs/dialects.md', import.meta.url);
const BEGIN = '<!-- measured: written by bench/dialects/fidelity.mjs --docs -->';
const END = '<!-- /measured -->';
const DIALECTS = { messages: Messages, responses: Responses };
const REQUEST_TIMEOUT_MS = 60_000;
const SERVER_CORE = 0;
/** Of the measured requests of --cpu, as many more warm a gateway up. */
const WARM_UP_SHARE = 0.3;
const CPU_TEXT_BYTES = 20_000;
const CPU_EVENTS = 64;

const { positionals, values: flags } = readCommand(
  'node bench/dialects/fidelity.mjs DIR [flags]',
  'What gateways carry, change and lose of random conversations. DIR gets the other gateways, outside the repository.',
  {
    peers: { type: 'word', default: Object.keys(PEERS).join(','), help: 'gateways' },
    conversations: { type: 'number', default: 10_000, help: 'conversations of each dialect through Headrace' },
    peerConversations: { type: 'number', default: 1000, help: 'conversations of each dialect through the others' },
    seed: { type: 'number', default: 1, help: 'of the conversations' },
    docs: { type: 'boolean', default: false, help: 'write the table of docs/dialects.md' },
    json: { type: 'word', default: '', help: 'file for the results' },
    cpu: { type: 'boolean', default: false, help: 'measure CPU time instead' },
    requests: { type: 'number', default: 1000, help: 'measured requests of --cpu' },
  },
);
const [given] = positionals;
if (given === undefined) {
  process.stderr.write('DIR is wanted: the folder in which other gateways are installed, outside the repository\n');
  process.exit(2);
}
useOwnNode(fileURLToPath(new URL('../..', import.meta.url)));
const folder = resolve(given);
mkdirSync(folder, { recursive: true });
const { seed } = flags;

const server = new ChatServer();
await server.listen();
const results = {};
for (const name of flags.peers.split(',')) {
  const peer = PEERS[name]?.(folder);
  if (peer === undefined) throw new Error(`${name} is none of ${Object.keys(PEERS).join(', ')}`);
  const problem = installed(name, peer);
  results[name] = problem === null ? await measure(name, peer) : { problem };
  if (problem !== null) process.stdout.write(`${name}: not measured: ${problem}\n`);
}
server.close();

function installed(name, peer) {
  try {
    progress(`${name}: install`);
    peer.install();
    return null;
  } catch (error) {
    const said = `${error.stderr ?? ''}`.trim().split('\n');
    return said.find((line) => /ENOTFOUND|\b403\b|npm error/.test(line))?.trim() ?? error.message.split('\n')[0];
  }
}

async function measure(name, peer) {
  const { child, key, url } = await peer.start(server.url, SERVER_CORE);
  try {
    const count = name === 'headrace' ? flags.conversations : flags.peerConversations;
    const result = { version: peer.version(), note: peer.note, dialects: {} };
    for (const dialect of peer.dialects) {
      result.dialects[dialect] = flags.cpu
        ? await cpuOf(name, dialect, url, key, child.pid)
        : await fidelityOf(name, dialect, url, key, count);
    }
    return result;
  } finally {
    await stopChild(child);
  }
}

/** The client's request: the status, the answer's text and its parsed events or value. */
async function ask(url, key, { path, request, stream }) {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      authorization: `Bearer ${key}`,
      ...(path === '/v1/messages' && { 'x-api-key': key, 'anthropic-version': '2023-06-01' }),
    },
    body: typeof request === 'string' ? request : JSON.stringify(request),
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  const text = await response.text();
  const isStream = stream && response.headers.get('content-type')?.startsWith('text/event-stream') === true;
  return { status: response.status, text, isStream };
}

function eventsIn(text) {
  const events = [];
  for (const line of text.split('\n')) {
    if (!line.startsWith('data:')) continue;
    const data = line.slice(5).trim();
    if (data !== '' && data !== '[DONE]') events.push(JSON.parse(data));
  }
  return events;
}

async function fidelityOf(name, dialect, url, key, count) {
  const source = new DIALECTS[dialect](seed);
  const tally = { conversations: 0, refused: 0, refusals: {}, there: {}, back: {}, errors: {}, faults: {}, streams: 0 };
  const note = (side, field, fate) => {
    const fates = (tally[side][field] ??= { carried: 0, changed: 0, lost: 0 });
    fates[fate]++;
  };
  for (let index = 0; index < count; index++) {
    if (index % 50 === 0) progress(`${name}: ${dialect} ${index} of ${count}`);
    const conversation = { ...source.make(index), path: source.path };
    const { answer, error, facts, stream } = conversation;
    server.expect(answer, error);
    const { isStream, status, text } = await ask(url, key, conversation);
    tally.conversations++;
    const [chat] = server.received;
    if (chat === undefined) {
      tally.refused++;
      const reason = text.replace(/mark\w+/g, '…').slice(0, 160);
      tally.refusals[reason] = (tally.refusals[reason] ?? 0) + 1;
      continue;
    }
    for (const { fate, field } of facts) note('there', field, fate(chat));
    if (error !== null) {
      note('errors', 'status', status === error.status ? 'carried' : status >= 400 ? 'changed' : 'lost');
      const mark = error.message.split(' ')[0].split('\n')[0];
      const told = parsedError(text);
      note('errors', 'message', told === error.message ? 'carried' : text.includes(mark) ? 'changed' : 'lost');
      continue;
    }
    const { fault, whole } = readAnswer(source, status, text, isStream);
    if (stream) {
      tally.streams++;
      const seen = !isStream && status < 300 ? 'a whole answer in place of a stream' : fault;
      if (seen !== null) tally.faults[seen.slice(0, 100)] = (tally.faults[seen.slice(0, 100)] ?? 0) + 1;
    }
    for (const { fate, field } of source.answerFacts(answer)) note('back', field, fate(whole));
  }
  return tally;
}

function readAnswer(source, status, text, isStream) {
  try {
    if (isStream) return source.accumulate(eventsIn(text));
    return { whole: status < 300 ? JSON.parse(text) : {}, fault: status < 300 ? null : `status ${status}` };
  } catch (error) {
    return { whole: {}, fault: `unreadable: ${error.message.slice(0, 40)}` };
  }
}

function parsedError(text) {
  try {
    const { error } = JSON.parse(text);
    return error?.message;
  } catch {
    return undefined;
  }
}

/** CPU time of the peer's processes for a whole request and a stream, in microseconds. */
async function cpuOf(name, dialect, url, key, pid) {
  const { path } = new DIALECTS[dialect](seed);
  const text = 'The miller opens the sluice. '.repeat(Math.ceil(CPU_TEXT_BYTES / 29)).slice(0, CPU_TEXT_BYTES);
  const plain =
    dialect === 'messages' ? { max_tokens: 64, messages: [{ role: 'user', content: text }] } : { input: text };
  const answer = {
    id: 'chatcmpl-cpu',
    ...{ text: 'seven..'.repeat(CPU_EVENTS), thought: '', calls: [], finish: 'stop' },
    usage: { prompt: 100, completion: CPU_EVENTS, cached: 0 },
  };
  const taken = {};
  const count = flags.requests;
  for (const stream of [false, true]) {
    const conversation = {
      path,
      stream,
      request: JSON.stringify({ model: 'atlas-27b', ...plain, ...(stream && { stream }) }),
    };
    server.expect(answer, null);
    const send = async (times) => {
      for (let at = 0; at < times; at++) {
        server.received.length = 0;
        const { status, text: said } = await ask(url, key, conversation);
        if (status !== 200) throw new Error(`${name} answers ${status}: ${said.slice(0, 200)}`);
      }
    };
    progress(`${name}: CPU time of ${dialect}${stream ? ', streamed' : ''}`);
    await send(Math.ceil(WARM_UP_SHARE * count));
    const before = cpuUs(pid);
    await send(count);
    taken[stream ? 'stream' : 'request'] = (cpuUs(pid) - before) / count;
  }
  return taken;
}

/** `100 %`, or the share that is carried and what became of the rest. */
function cell(fates) {
  if (fates === undefined) return '–';
  const { carried, changed, lost } = fates;
  const total = carried + changed + lost;
  const share = (count) => `${((100 * count) / total).toFixed(count === 0 || count === total ? 0 : 1)} %`;
  const rest = [changed > 0 ? `changed ${share(changed)}` : '', lost > 0 ? `lost ${share(lost)}` : ''].filter(Boolean);
  return rest.length === 0 ? 'all' : `${carried === 0 ? 'none' : share(carried)}: ${rest.join(', ')}`;
}

function rowsOf(dialect, names) {
  const of = (name) => results[name].dialects[dialect];
  const fields = (side) => [...new Set(names.flatMap((name) => Object.keys(of(name)[side])))];
  const line = (side, prefix) =>
    fields(side).map((field) => [`${prefix}${field}`, ...names.map((name) => cell(of(name)[side][field]))]);
  const counted = (what) => names.map((name) => what(of(name)));
  return [
    ['conversations', ...counted(({ conversations }) => conversations.toLocaleString('en'))],
    ['refused by the gateway', ...counted(({ refused }) => String(refused))],
    ...line('there', ''),
    ...line('back', 'answer: '),
    ...line('errors', 'error of the server: '),
    [
      'streams that break the rules of the dialect',
      ...counted(
        ({ faults, streams }) => `${Object.values(faults).reduce((sum, count) => sum + count, 0)} of ${streams}`,
      ),
    ],
  ];
}

function report() {
  const parts = [];
  const measured = Object.keys(results).filter((name) => results[name].problem === undefined);
  for (const dialect of Object.keys(DIALECTS)) {
    const names = measured.filter((name) => dialect in results[name].dialects);
    if (names.length === 0) continue;
    const head = [`${dialect} → chat`, ...names.map((name) => `${name} ${results[name].version}`)];
    const rows = flags.cpu
      ? ['request', 'stream'].map((kind) => [
          `${kind}, µs of CPU`,
          ...names.map((name) => results[name].dialects[dialect][kind].toFixed(0)),
        ])
      : rowsOf(dialect, names);
    parts.push({ head, rows });
  }
  return parts;
}

const parts = report();
for (const { head, rows } of parts) printTable(head[0], head, rows);
for (const [name, { dialects = {} }] of Object.entries(results)) {
  for (const [dialect, { faults = {}, refusals = {} }] of Object.entries(dialects)) {
    for (const [why, count] of [...Object.entries(refusals), ...Object.entries(faults)]
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, 6)) {
      process.stdout.write(`${name} ${dialect}: ${count} × ${why}\n`);
    }
  }
}
if (flags.json !== '') writeFileSync(flags.json, JSON.stringify(results, null, 2));
if (flags.docs && !flags.cpu) {
  const page = readFileSync(PAGE, 'utf8');
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END, from);
  if (from < 0 || to < from) throw new Error(`docs/dialects.md needs the lines ${BEGIN} and ${END}`);
  const missing = Object.entries(results).filter(([, { problem }]) => problem !== undefined);
  const text = [
    `Seed ${seed}; ${Object.entries(results)
      .filter(([, { problem }]) => problem === undefined)
      .map(([name, { note, version }]) => `${name} ${version} (${note})`)
      .join('; ')}.`,
    ...missing.map(([name, { problem }]) => `Not measured: ${name} (\`${problem}\`).`),
  ].join(' ');
  const tables = parts.map(({ head, rows }) => tableText(head, rows)).join('\n\n');
  writeFileSync(PAGE, `${page.slice(0, from + BEGIN.length)}\n\n${text}\n\n${tables}\n\n${page.slice(to)}`);
}
process.exit(0);
