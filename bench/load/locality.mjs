// Load benchmark of KV-cache locality: a workload of prompts that share their beginnings, sent in open loop through gateways to a fleet
// of simulated hosts with small prefix caches. Measured are the prompt tokens that the hosts found in their caches, beside those of
// an oracle that knows every cache, and the time to the first token. A part of ../run.mjs.

import { readFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from '../lib/cores.mjs';
import { gatewaySettings, startGateway } from '../lib/gateway.mjs';
import { OTHERS, withPeers } from '../lib/peers.mjs';
import { localityGoals, localityPlots } from '../lib/locality-page.mjs';
import { runChild, startChild, stopChild } from '../lib/process.mjs';
import { percent, roundsText, show } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { figuresOf, formatNs, spread, summarise } from '../lib/statistics.mjs';
import { ANSWER, KEY, MODEL } from '../lib/traffic.mjs';
import { calibrate } from '../locality/calibration.mjs';
import { measureSuite } from '../micro/suite.mjs';
import { TOKEN_BYTES } from '../locality/block-engine.mjs';
import {
  BLOCK_TOKENS,
  cacheBlocks,
  generate,
  readTrace,
  spread as spreadTimes,
  workingSet,
  WORKLOADS,
} from '../locality/traces.mjs';

const DIST = fileURLToPath(new URL('../../dist', import.meta.url));
/** Micro benchmarks of what a choice consists of. */
const COST_CASES = ['prompt', 'blocks', 'pick'];
const script = (name) => fileURLToPath(new URL(`../locality/${name}.mjs`, import.meta.url));

/** Steps of the hosts. How long a token of prefill takes is found for each workload: see calibration.mjs. */
const SPEED = { stepUs: 1000, sequenceUs: 50, memoryTokenUs: 0, maxBatchTokens: 2048 };
/** Smaller sizes of caches are shares. */
const LEAST_BLOCKS = 10;
/** Share of the requests, the first ones, that do not count. */
const WARM_UP = 0.1;
/** A peer has this long to answer, and then this long until it has used all hosts. */
const READY_MS = 60_000;
const ALL_HOSTS_MS = 5_000;
const PROBES = 8;
const PROBE_EVERY_MS = 50;

/** Policies by name, with what they do. `2x` before a name runs two gateways that take turns, `*4` behind it four ingress threads. */
const POLICIES = {
  oracle: 'no gateway: the client asks what every cache holds, and chooses by the same cost',
  headrace: 'this gateway: keys, affinity, probes, metrics',
  sessions: 'the same, and every request names its conversation in a header',
  'least-load': 'this gateway without affinity',
};
const REFERENCE = 'oracle';
/** Variants of the gateway that differ in affinity alone. */
const WITH_AFFINITY = 'open';
const WITHOUT_AFFINITY = 'least-load';

export const part = {
  name: 'locality',
  sentence:
    'Prompts that share their beginnings, over eight simulated hosts with block caches: share of the prompt tokens found in the caches, and time to the first token, beside an oracle that knows every cache.',
  peers: [],
  flags: {
    policies: {
      type: 'words',
      default: ['oracle', 'headrace', 'headrace*4', '2xheadrace', 'sessions', 'least-load', 'smg', '2xsmg'],
      quick: ['oracle', 'headrace', 'least-load'],
      help: `${Object.keys(POLICIES).join(', ')}, or any peer of bench/peers`,
    },
    workloads: {
      type: 'words',
      default: ['agents', 'documents', 'tenants', 'hot'],
      quick: ['tenants'],
      help: `of ${Object.keys(WORKLOADS).join(', ')}`,
    },
    trace: {
      type: 'word',
      multiple: true,
      default: [],
      help: 'a trace, in place of the workload NAME: [NAME=]FILE[@SIZE/SIZE]; may be repeated',
    },
    gateway: {
      type: 'word',
      multiple: true,
      default: [],
      help: 'one more policy, another build of this gateway: NAME=FOLDER; may be repeated',
    },
    rounds: {
      type: 'number',
      default: 1,
      quick: 1,
      least: 1,
      help: 'rounds; every policy runs once per round, on empty caches',
    },
    requests: { type: 'number', default: 1500, quick: 300, help: 'most requests of a workload; 0: as many as it has' },
    ratePerS: { type: 'number', default: 180, quick: 150, help: 'requests a second' },
    use: { type: 'number', default: 0.6, help: 'share of the time for which the oracle keeps the fleet busy' },
    hosts: { type: 'number', default: 8, help: 'simulated hosts' },
    blockBytes: { type: 'number', default: 1024, help: 'bytes of text for a block of 512 tokens' },
    answerTokens: { type: 'number', default: 8, help: 'most tokens of an answer' },
    seed: { type: 'number', default: 1, help: 'of the workloads' },
    cpuRounds: {
      type: 'number',
      default: 5,
      quick: 1,
      help: 'rounds for the CPU time of a choice and of a request; 0: none',
    },
  },
  steps: (flags) =>
    flags.rounds * (flags.policies.length + flags.gateway.length) * scenariosOf(flags).length +
    (flags.cpuRounds === 0 ? 0 : 2 * turnsOf(flags.cpuRounds) + COST_CASES.length * flags.cpuRounds),
  measure,
};

async function measure(flags, rig) {
  const builds = Object.fromEntries(flags.gateway.map(readGateway));
  const policies = [...flags.policies, ...Object.keys(builds)].filter((name) => canRun(name, builds, rig));
  if (policies.length === 0) throw new Error('none of the policies can run');
  const scenarios = [];
  for (const scenario of scenariosOf(flags)) {
    const plan = planOf(scenario, flags);
    const runs = Object.fromEntries(policies.map((name) => [name, []]));
    for (let round = 1; round <= flags.rounds; round++) {
      for (let turn = 0; turn < policies.length; turn++) {
        const name = policies[(turn + round - 1) % policies.length];
        rig.step(`${plan.title}, round ${round}/${flags.rounds} ${name}`);
        runs[name].push(await runPolicy(name, plan, flags, builds));
      }
    }
    const figures = figuresOfScenario(plan, runs);
    scenarios.push(figures);
    rig.result({ ...scenarioResult(plan, figures, flags), figures, data: { plan, runs } });
  }
  const costs =
    flags.cpuRounds > 0 ? { ...(await measureCpu(flags, rig)), calls: await measureCalls(flags, rig) } : null;
  const goals = localityGoals(scenarios, costs);
  if (goals.rows.length > 0) rig.result({ ...goals, remarks: [], plots: localityPlots(scenarios), data: {} });
}

// --- Scenarios -------------------------------------------------------------------------------------------------------

/** Every workload at each of its cache sizes; a trace takes the place of the workload of its name. */
export function scenariosOf({ trace, workloads }) {
  const traces = trace.map(readTraceFlag);
  const names = [...new Set([...workloads, ...traces.map(({ name }) => name)])];
  return names.flatMap((name) => {
    const { shares, ...of } = traces.find((one) => one.name === name) ?? workloadNamed(name);
    return shares === undefined ? [{ name, ...of }] : shares.map((size) => ({ name, ...of, ...sizeOf(size) }));
  });
}

/** A cache size: a share of the working set for all caches together, or blocks of each. */
const sizeOf = (size) => (size < LEAST_BLOCKS ? { share: size } : { blocks: Math.round(size) });

function workloadNamed(name) {
  if (Object.hasOwn(WORKLOADS, name)) {
    const { shares, blocks } = WORKLOADS[name];
    return { shares, blocks };
  }
  throw new Error(`there is no workload "${name}"; there are ${Object.keys(WORKLOADS).join(', ')}`);
}

/**
 * `agents=FILE@0.6/0.5` or `agents=FILE@1495`: the name is that of the file, and all caches together hold half of the working set, when they are not
 * given.
 */
export function readTraceFlag(text) {
  const [, name, file, shares] = /^(?:([a-z][a-z0-9-]*)=)?(.+?)(?:@([\d./]+))?$/i.exec(text);
  const list = (shares ?? '0.5').split('/').map(Number);
  if (list.some((size) => !(size > 0))) throw new Error(`--trace ${text}: "${shares}" is no cache size`);
  return { name: name ?? basename(file).replace(/\..*$/, ''), trace: resolve(file), shares: list };
}

/** Requests, cache size and speed of the hosts of a scenario. */
export function planOf({ name, trace, share, blocks }, flags) {
  const most = flags.requests === 0 ? undefined : flags.requests;
  const all =
    trace === undefined
      ? generate(name, { seed: flags.seed, requests: Math.min(most ?? Infinity, WORKLOADS[name].requests) })
      : readTrace(readFileSync(trace, 'utf8'), name, most);
  const durationMs = (all.length / flags.ratePerS) * 1000;
  const requests = spreadTimes(all, durationMs).map((request) => ({
    ...request,
    outputTokens: Math.min(flags.answerTokens, request.outputTokens),
  }));
  const capacity = blocks ?? cacheBlocks(requests, share, flags.hosts);
  const { blockBytes, hosts, use } = flags;
  /** Tokens of the trace for one of the hosts. */
  const scale = (BLOCK_TOKENS * TOKEN_BYTES) / blockBytes;
  const traceSpeed = { ...SPEED, maxBatchTokens: SPEED.maxBatchTokens * scale };
  const tokenUs = calibrate(requests, { hosts, cacheBlocks: capacity, blockBytes, speed: traceSpeed, use });
  const speed = { ...SPEED, prefillTokenUs: tokenUs * scale };
  const inputTokens = all.reduce((sum, request) => sum + request.inputTokens, 0);
  return {
    ...{ name, trace, share, durationMs, speed, cacheBlocks: capacity, count: all.length },
    blockMs: (tokenUs * BLOCK_TOKENS) / 1000,
    meanTokens: inputTokens / all.length,
    workingSet: workingSet(all),
    title: `${name}, ${capacity} blocks a host`,
  };
}

// --- One run ---------------------------------------------------------------------------------------------------------

/** `2xheadrace*4` as `{ copies, base, threads }`. */
export function readPolicy(name) {
  const [, copies = '1', base, threads = '1'] = /^(?:(\d)x)?(.+?)(?:\*(\d+))?$/.exec(name);
  return { copies: Number(copies), base, threads: Number(threads) };
}

function readGateway(text) {
  const [, name, folder] = /^([a-z0-9-]+)=(.+)$/i.exec(text) ?? [];
  if (name === undefined) throw new Error(`--gateway takes NAME=FOLDER, not "${text}"`);
  return [name, resolve(folder)];
}

function canRun(name, builds, rig) {
  const { base } = readPolicy(name);
  if (Object.hasOwn(POLICIES, base) || Object.hasOwn(builds, base)) return true;
  if (!Object.hasOwn(OTHERS, base)) {
    throw new Error(`there is no policy "${name}"; there are ${Object.keys(POLICIES).join(', ')}, or a peer's name`);
  }
  if (OTHERS[base].find() !== null) return true;
  rig.note(`${base} (${OTHERS[base].from}) is not installed; the run goes on without it.`);
  return false;
}

/** Runs a scenario through one policy, with a fleet and gateways of its own. */
function runPolicy(name, plan, flags, builds) {
  const { base, copies, threads } = readPolicy(name);
  return runThrough(plan, flags, {
    name,
    copies: base === REFERENCE ? 0 : copies,
    start: (ports) => startPolicy(base, ports, threads, builds),
    load: { sessions: base === 'sessions', oracle: base === REFERENCE },
  });
}

/**
 * Runs a scenario through `copies` gateways of `start(ports)`, which take turns, over a fleet of their own. `load`: more of what the client is
 * told. `around(run)` runs the client, so that something can be read before and after.
 */
export async function runThrough(plan, flags, { name, copies, start, load: more, around = (run) => run() }) {
  const children = [];
  try {
    const fleet = await startFleet(plan, flags);
    children.push(fleet.child);
    const gateways = [];
    for (let copy = 0; copy < copies; copy++) {
      const gateway = await start(fleet.ports);
      children.push(gateway.child);
      await reachesAll(gateway, fleet);
      gateways.push(gateway);
    }
    return await around(() => sendThrough(plan, flags, { name, fleet, gateways, load: more }));
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

/** Sends the requests of a scenario to gateways that run, which take turns; resolves with what the client counted. */
export function sendThrough(plan, flags, { name, fleet, gateways, load: more }) {
  const load = {
    ...{ trace: plan.trace, workload: plan.name, seed: flags.seed, requests: plan.count },
    ...{ durationMs: plan.durationMs, warmUp: WARM_UP, blockBytes: flags.blockBytes },
    ...{ model: MODEL, key: KEY, path: `${gateways[0]?.path ?? '/v1'}/chat/completions` },
    ...{ answerTokens: flags.answerTokens, ...more },
    ...{ ports: gateways.map(({ port }) => port), hostPorts: fleet.ports, controlPort: fleet.controlPort },
    watch: Object.fromEntries([['fleet', fleet.child.pid], ...gateways.map(({ child }, at) => [at, child.pid])]),
  };
  const args = [script('client'), JSON.stringify(load)];
  return runChild({ name: `client of ${name}`, command: process.execPath, args, core: LOAD_CORE });
}

export async function startFleet({ cacheBlocks: blocks, speed }, { hosts, blockBytes }) {
  const settings = { model: MODEL, hosts, cacheBlocks: blocks, blockBytes, speed };
  const { child, match } = await startChild({
    name: 'hosts',
    command: process.execPath,
    args: [script('hosts'), JSON.stringify(settings)],
    core: LOAD_CORE,
    ready: /^ready (\d+) ([\d ]+)$/,
  });
  return { child, controlPort: Number(match[1]), ports: match[2].split(' ').map(Number) };
}

function startPolicy(base, ports, threads, builds) {
  if (Object.hasOwn(OTHERS, base)) return OTHERS[base].start(OTHERS[base].find(), ports, true);
  const settings = { ...gatewaySettings('keys', ports), routing: { affinity: base !== WITHOUT_AFFINITY } };
  const cli = Object.hasOwn(builds, base) ? { cli: join(builds[base], 'bin', 'headrace.js') } : {};
  return startGateway(settings, { threads, ...cli });
}

/**
 * Sends prompts that have nothing in common through a gateway, a few at a time, until every host has answered one: gateways learn of
 * servers after they listen. One that answers but does not use all of them in time runs as it is.
 */
export async function reachesAll({ port, path = '/v1', child }, { controlPort }) {
  const reached = async () =>
    (await (await fetch(`http://127.0.0.1:${controlPort}/counters`)).json()).map((of) => of.requests);
  const before = await reached();
  const startMs = performance.now();
  let lastMs = startMs + READY_MS;
  let isUp = false;
  let why = 'it answers nothing';
  const probe = async (number) => {
    const answer = await fetch(`http://127.0.0.1:${port}${path}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}`, connection: 'close' },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: probeText(number) }], max_tokens: 1 }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`status ${answer.status}: ${text.slice(0, 200)}`);
  };
  for (let round = 0; performance.now() < lastMs && !child.exited; round++) {
    try {
      await Promise.all(Array.from({ length: PROBES }, (_, at) => probe(round * PROBES + at)));
      if (!isUp) lastMs = performance.now() + ALL_HOSTS_MS;
      isUp = true;
      const counts = await reached();
      if (counts.every((count, host) => count > before[host])) return;
    } catch (error) {
      why = error.cause?.message ?? error.message;
    }
    await new Promise((done) => setTimeout(done, PROBE_EVERY_MS));
  }
  if (isUp && !child.exited) return;
  throw new Error(`${child.name} is not ready: ${why} ${child.errors.trim().slice(-300)}`.trim());
}

/** Text that differs from the first characters on. */
function probeText(number) {
  return Array.from({ length: 12 }, (_, at) => Math.imul(number * 12 + at + 1, 0x9e3779b1).toString(36)).join(' ');
}

// --- Figures ---------------------------------------------------------------------------------------------------------

const sum = (list) => list.reduce((total, one) => total + one, 0);
const imbalance = (list) => (sum(list) === 0 ? 1 : (Math.max(...list) * list.length) / sum(list));

export function figuresOfRun(run) {
  const { hosts, firstTokenMs, requests, seconds, cpuUs, cores } = run;
  const gatewayUs = sum(Object.entries(cpuUs).map(([name, us]) => (name === 'fleet' ? 0 : us)));
  return {
    hitRate: sum(hosts.map((host) => host.cachedTokens)) / sum(hosts.map((host) => host.promptTokens)),
    p50: firstTokenMs.p50,
    p90: firstTokenMs.p90,
    p99: firstTokenMs.p99,
    busy: imbalance(hosts.map((host) => host.stepUs)),
    spread: imbalance(hosts.map((host) => host.requests)),
    use: sum(hosts.map((host) => host.stepUs)) / hosts.length / 1e6 / seconds,
    cpuUs: gatewayUs / requests,
    late: run.lateMs.p99,
    foreignUse: Math.max(0, cores[0].busy - gatewayUs / 1e6 / seconds) + cores[0].stolen,
    loadCoreUse: cores[1].busy,
  };
}

/** Figures of every policy, each the spread over the rounds; `ofOracle` and `p99OfOracle` are ratios within rounds. */
function figuresOfScenario({ name, cacheBlocks: blocks, share, title }, runs) {
  const all = Object.fromEntries(Object.entries(runs).map(([policy, list]) => [policy, list.map(figuresOfRun)]));
  const reference = all[REFERENCE];
  const peers = Object.entries(all).map(([policy, list]) => {
    const of = (figure) => spread(list.map((run) => run[figure]));
    const ratio = (figure) =>
      reference === undefined ? null : spread(list.map((run, round) => run[figure] / reference[round][figure]));
    return {
      name: policy,
      ...Object.fromEntries(Object.keys(list[0]).map((figure) => [figure, of(figure)])),
      ofOracle: ratio('hitRate'),
      p99OfOracle: ratio('p99'),
      errors: sum(runs[policy].map(({ errors }) => errors)),
      lastError: runs[policy].findLast(({ lastError }) => lastError)?.lastError ?? '',
    };
  });
  return { scenario: 'locality', workload: name, cacheBlocks: blocks, share, title, peers };
}

/** A median alone, when there was one round. */
const shown = (value, digits) =>
  value === null ? '-' : value.min === value.max ? value.median.toFixed(digits) : show(value, digits);

function scenarioResult(plan, { peers }, flags) {
  const { count, durationMs, meanTokens, workingSet: blocks, cacheBlocks: capacity, blockMs, share } = plan;
  const of = share === undefined ? '' : `, ${Math.round(share * 100)} % of the working set in all`;
  const lateMs = Math.max(...peers.map(({ late }) => late.median));
  return {
    title: `${plan.title}, ${roundsText({ rounds: flags.rounds })}`,
    columns: [
      ...['policy', 'hit rate', 'of the oracle', 'first token p50 ms', 'p90 ms', 'p99 ms', 'p99 of the oracle'],
      ...['busy max/mean', 'requests max/mean', 'fleet busy', 'CPU us/request', 'core 1', 'errors'],
    ],
    rows: peers.map((peer) => [
      peer.name,
      shown(peer.hitRate, 3),
      shown(peer.ofOracle, 3),
      shown(peer.p50, 1),
      shown(peer.p90, 1),
      shown(peer.p99, 1),
      shown(peer.p99OfOracle, 2),
      shown(peer.busy, 2),
      shown(peer.spread, 2),
      percent(peer.use),
      peer.name === REFERENCE ? '-' : shown(peer.cpuUs, 0),
      percent(peer.loadCoreUse),
      `${peer.errors} ${peer.lastError}`.trim(),
    ]),
    remarks: [
      `${count} requests in ${(durationMs / 1000).toFixed(1)} s, ${Math.round(meanTokens)} tokens each on average, ${blocks} different blocks of 512 tokens; ${capacity} blocks in each of ${flags.hosts} caches${of}. Prefill of a block takes ${blockMs.toFixed(2)} ms. The first ${Math.round(WARM_UP * 100)} % of the requests do not count.`,
      ...(lateMs > 20 ? [`1 % of the requests were sent ${lateMs.toFixed(0)} ms late or more: core 1 was full.`] : []),
    ],
    plots: [],
  };
}

/** What affinity costs a request of 1 KB: the gateway with it and without, in the same rounds. */
async function measureCpu({ cpuRounds: rounds }, rig) {
  const load = {
    ...{ stream: false, connections: 64, bodyBytes: 1000, answerBytes: ANSWER.length },
    ...{ warmupMs: 500, durationMs: 1200 },
  };
  const names = [WITH_AFFINITY, WITHOUT_AFFINITY];
  return withPeers({ names, stream: false, note: rig.note }, async (peers) => {
    const step = (text) => rig.step(`CPU time, ${text}`);
    const runs = await interleave(peers, rounds, (peer) => runClient(peer, load), step);
    const summary = summarise(runs, ({ requests }) => requests, WITHOUT_AFFINITY);
    const perRequest = ({ cpuUs, requests }) => cpuUs.peer / requests;
    const added = spread(
      runs[WITH_AFFINITY].map((run, at) => perRequest(run) - perRequest(runs[WITHOUT_AFFINITY][at])),
    );
    rig.result({
      title: `CPU time of a proxied request of 1 KB, ${roundsText({ rounds })}: median (min-max)`,
      columns: ['affinity', 'CPU us/request', 'added us', 'errors'],
      rows: summary.map((peer) => [
        peer.name === WITH_AFFINITY ? 'on' : 'off',
        show(peer.cpuUs),
        peer.name === WITH_AFFINITY ? show(added) : '-',
        String(peer.errors),
      ]),
      remarks: ['Two servers; no keys and no metering. What is added is the difference within rounds.'],
      plots: [],
      figures: { scenario: 'locality cpu', added, peers: figuresOf(summary) },
      data: { runs },
    });
    return { added };
  });
}

/** Time of one call of what a choice consists of. */
async function measureCalls({ cpuRounds: rounds }, rig) {
  const limits = { rounds, batchMs: 5, batches: 7 };
  const measured = await measureSuite({ built: DIST }, COST_CASES, { ...limits, step: rig.step, warn: rig.note });
  const calls = measured.map(({ name, samples }) => ({ name, ns: spread(samples.built ?? [Number.NaN]) }));
  rig.result({
    title: `Time of one call, ${roundsText({ rounds })}: median (min-max)`,
    columns: ['call', 'median', 'least', 'most'],
    rows: calls.map(({ name, ns }) => [name, formatNs(ns.median), formatNs(ns.min), formatNs(ns.max)]),
    remarks: [],
    plots: [],
    figures: { scenario: 'locality calls', calls },
    data: {},
  });
  return calls;
}
