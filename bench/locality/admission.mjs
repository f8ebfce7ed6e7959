// What `routing.hold` does under overload, on a fleet in virtual time: `../../dist` must be built. Picker, block index and admission are the gateway's
// own. Deterministic. `node bench/locality/admission.mjs` prints the tables of docs/locality.md.

import { pathToFileURL } from 'node:url';
import { createManualClock, createSeededRandom } from '../../dist/src/actor/testkit.js';
import { DeadlineQueue } from '../../dist/src/net/deadline.js';
import { Admission } from '../../dist/src/routing/admission.js';
import * as routing from '../../dist/src/routing/index.js';
import { createPlanes } from '../lib/picker-planes.mjs';
import { quantile } from '../lib/statistics.mjs';
import { BLOCK_TOKENS, Server, SERVER } from './fleet.mjs';
import { DEFAULTS, prepared } from './simulation.mjs';
import { cacheBlocks, generate, spread } from './traces.mjs';

const SERVERS = 8;
const BLOCK_BYTES = 2048;
/** Far above what a run needs: what waits is served in the end, so that all runs answer the same requests. */
const ENDLESS_MS = 1e9;

/** Sends requests (`prepared`, with an `account` each) to a fleet. Returns each request's time to first token and cached tokens. */
export function simulateHeld(requests, { blocks, holdMs, servers: count = SERVERS, threads = 4, seed = 1 }) {
  const clock = createManualClock(1);
  const random = createSeededRandom(seed);
  const servers = Array.from({ length: count }, () => new Server(blocks, SERVER));
  const deadlines = new DeadlineQueue(clock);
  const { memory, model, planes: pickers } = createPlanes(routing, { count, threads, clock, random });
  const { members } = model;
  const planes = pickers.map((plane, thread) => {
    const { board, index } = plane;
    for (const { member } of members) index.setCapacity(member, blocks * BLOCK_BYTES);
    const deps = { board, memory, thread, expected: board.loads, clock, deadlines, onWaiting() {}, onOutcome() {} };
    const settings = { holdMs, timeoutMs: ENDLESS_MS, requests: Infinity, bytes: Infinity };
    return { ...plane, admission: new Admission(deps, settings) };
  });
  const answered = [];
  const start = (request, plane) => {
    const { prompt } = request;
    const hint = {
      url: undefined,
      session: 0,
      holder: 0,
      dialectBit: 0,
      translatedBit: 0,
      isUntranslatable: false,
      stream: true,
      bytes: prompt.bytes,
      blocks: () => prompt,
    };
    const candidates = new routing.Candidates(model, plane, DEFAULTS, hint);
    const { server } = candidates.next();
    const sentMs = clock.now();
    servers[server].add({ request, server, left: 0, toDecode: 0, unnamed: 0, candidates, plane, sentMs }, sentMs);
  };
  const arrive = (request) => {
    const plane = planes[Math.floor(random() * threads)];
    const { admission, index } = plane;
    if (holdMs === 0 || admission.admits(model, 0)) {
      start(request, plane);
      return;
    }
    const { bytes, count: blockCount, hashes } = request.prompt;
    const held = Math.max(...members.map(({ member }) => index.matched(member, hashes, blockCount)));
    const work = Math.max(bytes - routing.blockBytes(held), 0) + DEFAULTS.requestBytes;
    const onAdmitted = () => start(request, plane);
    admission.hold(model, { account: request.account, work, bytes, holder: 0, onAdmitted, onRefused() {} });
  };
  const onFirst = ({ cachedTokens, candidates, request, sentMs }, nowMs) => {
    candidates.prefilled(candidates, nowMs - sentMs);
    answered.push({ request, waitedMs: nowMs - request.atMs, cachedTokens });
  };
  const onEnd = ({ plane, server }) => plane.board.leave(server);
  let at = 0;
  for (;;) {
    const running = servers.filter((server) => server.running);
    const stepMs = Math.min(...running.map(({ dueMs }) => dueMs));
    const arrivalMs = requests[at]?.atMs ?? Infinity;
    const nextMs = Math.min(stepMs, arrivalMs, clock.nextDueMs);
    if (answered.length === requests.length || nextMs === Infinity) return answered;
    if (nextMs > clock.now()) clock.advance(nextMs - clock.now());
    if (nextMs === stepMs) running.find(({ dueMs }) => dueMs === stepMs)?.finish(onFirst, onEnd);
    else if (nextMs === arrivalMs) arrive(requests[at++]);
  }
}

/** Quantiles of the time to first token in seconds, and the share of prompt tokens that came from a cache. */
function figuresOf(answered) {
  const waits = answered.map(({ waitedMs }) => waitedMs / 1000).sort((a, b) => a - b);
  const sum = (value) => answered.reduce((total, one) => total + value(one), 0);
  return {
    p50: quantile(waits, 0.5),
    p90: quantile(waits, 0.9),
    p99: quantile(waits, 0.99),
    hits: sum(({ cachedTokens }) => cachedTokens) / sum(({ request }) => request.inputTokens),
  };
}

/** An account with conversations over two minutes, and another one that sends 300 long prompts within ten seconds of them. */
export function flooded() {
  const quiet = spread(generate('chat', { requests: 240 }), 120_000);
  const blocks = cacheBlocks(quiet, 0.1, SERVERS);
  const first = 1 + Math.max(...quiet.flatMap((request) => request.blocks));
  const flood = Array.from({ length: 300 }, (_, at) => ({
    atMs: 30_000 + (at * 10_000) / 300,
    conversation: `flood-${at}`,
    blocks: Array.from({ length: 16 }, (_block, block) => first + at * 16 + block),
    inputTokens: 16 * BLOCK_TOKENS,
    outputTokens: 50,
  }));
  const requests = prepared([...quiet, ...flood].sort((a, b) => a.atMs - b.atMs)).map((request) => ({
    ...request,
    account: request.conversation.startsWith('flood') ? 'flood' : 'quiet',
  }));
  return { requests, blocks };
}

/** Coding agents that ask for more than the fleet can do: requests of `accounts` accounts, of one for each conversation without it. */
export function overloaded(accounts) {
  const agents = spread(generate('agents', { requests: 1500 }), 60_000);
  const accountOf = ({ conversation, key }) => (accounts === undefined ? conversation : `a${(key >>> 0) % accounts}`);
  const requests = prepared(agents).map((request) => ({ ...request, account: accountOf(request) }));
  return { requests, blocks: cacheBlocks(agents, 0.5, SERVERS) };
}

const HOLDS_MS = [0, 250, 500, 1000, 2000, 5000];

function print() {
  const row = (holdMs, cells) => `| ${holdMs === 0 ? 'off' : `${holdMs} ms`} | ${cells.join(' | ')} |`;
  const times = (values) => `${values.map((value) => value.toFixed(value < 10 ? 2 : 1)).join(' / ')} s`;
  console.log(
    '| `routing.hold` | quiet account, p50 / p99 | its cached tokens | flood, p50 / p99 |\n| - | - | - | - |',
  );
  for (const holdMs of HOLDS_MS) {
    const { requests, blocks } = flooded();
    const answered = simulateHeld(requests, { blocks, holdMs });
    const inFlood = ({ request: { atMs } }) => atMs >= 30_000 && atMs < 80_000;
    const quiet = figuresOf(answered.filter((one) => one.request.account === 'quiet' && inFlood(one)));
    const flood = figuresOf(answered.filter(({ request }) => request.account === 'flood'));
    console.log(row(holdMs, [times([quiet.p50, quiet.p99]), quiet.hits.toFixed(3), times([flood.p50, flood.p99])]));
  }
  for (const accounts of [1, 4, undefined]) {
    console.log(
      `\n| accounts: ${accounts ?? 'one for each conversation'} | p50 / p90 / p99 | cached tokens |\n| - | - | - |`,
    );
    for (const holdMs of HOLDS_MS) {
      const { requests, blocks } = overloaded(accounts);
      const { hits, p50, p90, p99 } = figuresOf(simulateHeld(requests, { blocks, holdMs }));
      console.log(row(holdMs, [times([p50, p90, p99]), hits.toFixed(3)]));
    }
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) print();
