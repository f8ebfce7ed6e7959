// The measured part of the benchmark of several gateways: processes over simulated hosts, with an engine of their own. Measured are hits and times to the first
// token, the CPU time and the bytes that sharing adds, and how long it takes until one gateway knows what another one has chosen.

import { Agent, request as send } from 'node:http';
import { startGateway } from '../lib/gateway.mjs';
import { startUpstream } from '../lib/peers.mjs';
import { cpuUs, stopChild } from '../lib/process.mjs';
import { percent, roundsText, show } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { spread } from '../lib/statistics.mjs';
import { ANSWER, KEY, MODEL, nowUs } from '../lib/traffic.mjs';
import { figuresOfRun, planOf, runThrough, scenariosOf, startFleet } from '../load/locality.mjs';
import { measureEngine } from './engine-cost.mjs';
import { ADMIN_TOKEN, engineTraffic, settingsOf, startEngine, trafficSince } from './engine.mjs';
import { measureRates, nsOf, stepsOfRates } from './rates.mjs';

/** Flags of a run of locality that are the same here. */
const LOCALITY = { hosts: 8, blockBytes: 1024, answerTokens: 8, seed: 1, trace: [] };

/** News that have not come by then are lost. */
const NEWS_MS = 5000;

/** Time until gateways know of each other, at most. */
const READY_MS = 15_000;

/** Messages of each measurement of the engine. */
const ENGINE_MESSAGES = 2000;
const ENGINE_STEPS = 9;

/** What is compared: names, gateways, and whether they share. */
const policiesOf = ({ copies }) => [
  { name: 'one gateway', copies: 1, shared: false },
  { name: `${copies} shared`, copies, shared: true },
  { name: `${copies} unshared`, copies, shared: false },
];

/** What may be measured alone, by name. */
export const PARTS = {
  hits: {
    steps: (flags) => turnsOf(flags.rounds) * 3 * scenarios(flags).length,
    measure: async (flags, rig) => {
      for (const scenario of scenarios(flags)) await measureScenario(planOf(scenario, flags), flags, rig);
    },
  },
  cost: { steps: ({ rounds }) => turnsOf(rounds) * 2, measure: measureCost },
  rates: { steps: stepsOfRates, measure: measureRates },
  news: { steps: () => 1, measure: measureNews },
  engine: { steps: () => ENGINE_STEPS, measure: (_, rig) => measureDeliveries(rig) },
};

const chosen = ({ measures }) =>
  measures.map((name) => {
    if (Object.hasOwn(PARTS, name)) return PARTS[name];
    throw new Error(`there is no measurement "${name}"; there are ${Object.keys(PARTS).join(', ')}`);
  });

export const stepsOfReal = (flags) => chosen(flags).reduce((sum, { steps }) => sum + steps(flags), 0);

const scenarios = (flags) =>
  flags.workloads.flatMap((name) => scenariosOf({ ...LOCALITY, workloads: [name] }).slice(0, 1));

export async function measureReal(flags, rig) {
  for (const { measure } of chosen(flags)) await measure({ ...LOCALITY, ...flags }, rig);
}

async function measureScenario(plan, flags, rig) {
  const policies = policiesOf(flags);
  const runs = Object.fromEntries(policies.map(({ name }) => [name, []]));
  for (let round = turnsOf(flags.rounds) === flags.rounds ? 1 : 0; round <= flags.rounds; round++) {
    for (let turn = 0; turn < policies.length; turn++) {
      const policy = policies[(turn + round) % policies.length];
      rig.step(`${plan.title}, ${round === 0 ? 'warm-up' : `round ${round}/${flags.rounds}`} ${policy.name}`);
      const run = await runPolicy(policy, plan, flags);
      if (round > 0) runs[policy.name].push(run);
    }
  }
  const figures = policies.map(({ name }) => figuresOf(name, runs));
  const added = addedBy(policies, runs);
  rig.result({
    title: `${plan.title}, ${roundsText({ rounds: flags.rounds })}: median (min-max)`,
    columns: [
      ...['gateways', 'hit rate', 'of one', 'first token p50 ms', 'p90 ms', 'p99 ms', 'busy max/mean', 'fleet busy'],
      ...['CPU us/request', 'into the engine, bytes/request', 'out of it', 'core 1', 'errors'],
    ],
    rows: figures.map((row) => [
      row.name,
      show(row.hitRate, 3),
      show(row.ofOne, 3),
      ...[row.p50, row.p90, row.p99].map((value) => show(value, 1)),
      show(row.busy, 2),
      percent(row.use),
      show(row.cpuUs, 0),
      row.inBytes === null ? '-' : show(row.inBytes, 0),
      row.outBytes === null ? '-' : show(row.outBytes, 0),
      percent(row.loadCoreUse),
      `${row.errors} ${row.lastError}`.trim(),
    ]),
    remarks: [
      `${plan.count} requests at ${flags.ratePerS}/s, ${Math.round(plan.meanTokens)} tokens each on average; gateways on core 0, hosts, client and engine on core 1.`,
      `Sharing adds ${show(added.us, 1)} us of CPU time to a request, ${show(added.share, 3)} of what it takes without: differences within rounds between ${flags.copies} gateways with \`cluster\` and without.`,
    ],
    plots: [],
    figures: { scenario: 'cluster', title: plan.title, policies: figures, added },
    data: { plan, runs },
  });
}

/** One run; with an engine of its own where gateways share, whose traffic is counted while the client sends. */
async function runPolicy({ copies, name, shared }, plan, flags) {
  const engine = shared ? await startEngine() : null;
  try {
    return await runThrough(plan, flags, {
      ...{ name, copies, load: { sessions: false, oracle: false } },
      start: (ports) => startGateway(settingsOf(ports, engine)),
      around: async (run) => {
        const before = engine === null ? null : await engineTraffic(engine);
        const report = await run();
        return engine === null ? report : { ...report, engine: trafficSince(before, await engineTraffic(engine)) };
      },
    });
  } finally {
    if (engine !== null) await stopChild(engine.child);
  }
}

function figuresOf(name, runs) {
  const list = runs[name].map((run) => ({ ...figuresOfRun(run), count: run.sent, engine: run.engine }));
  const of = (field) => spread(list.map((run) => run[field]));
  const ofEngine = (field) =>
    list[0].engine === undefined ? null : spread(list.map(({ count, engine }) => engine[field] / count));
  const one = runs['one gateway'].map(figuresOfRun);
  return {
    name,
    ...Object.fromEntries(
      ['hitRate', 'p50', 'p90', 'p99', 'busy', 'use', 'cpuUs', 'loadCoreUse'].map((field) => [field, of(field)]),
    ),
    ofOne: spread(list.map(({ hitRate }, round) => hitRate / one[round].hitRate)),
    inBytes: ofEngine('inBytes'),
    outBytes: ofEngine('outBytes'),
    commands: ofEngine('commands'),
    errors: runs[name].reduce((sum, { errors }) => sum + errors, 0),
    lastError: runs[name].findLast(({ lastError }) => lastError)?.lastError ?? '',
  };
}

/** CPU time of a request that sharing adds, and its share, within rounds. */
function addedBy([, shared, unshared], runs) {
  const pairs = runs[shared.name].map((run, round) => [
    figuresOfRun(run).cpuUs,
    figuresOfRun(runs[unshared.name][round]).cpuUs,
  ]);
  return { us: spread(pairs.map(([on, off]) => on - off)), share: spread(pairs.map(([on, off]) => (on - off) / off)) };
}

// --- Cost ------------------------------------------------------------------------------------------------------------

/** Two gateways, of which one is loaded: with sharing the other one hears of every choice. */
const PAIRS = { on: true, off: false };

/** The warm-up round is so many times as long as the others: until code is compiled a request costs twice as much. */
const WARM_UP_ROUNDS = 6;

/** CPU time of requests of 1 KB at full load, of the gateway that serves them and its sibling together, with `cluster` on and off. */
async function measureCost({ rounds, seconds }, rig) {
  const children = [];
  try {
    const upstream = await startUpstream(0, 0);
    children.push(upstream.child);
    const engine = await startEngine();
    children.push(engine.child);
    const peers = [];
    for (const [name, isShared] of Object.entries(PAIRS)) {
      const pair = [];
      for (let at = 0; at < 2; at++) {
        const gateway = await startGateway(settingsOf(upstream.ports, isShared ? engine : null));
        children.push(gateway.child);
        pair.push(gateway);
      }
      const [{ child, port }, sibling] = pair;
      peers.push({ name, port, pid: child.pid, upstreamPid: upstream.child.pid, siblingPid: sibling.child.pid });
    }
    const load = {
      ...{ stream: false, connections: 64, bodyBytes: 1000, answerBytes: ANSWER.length },
      ...{ warmupMs: 500, durationMs: seconds * 1000 },
    };
    const run = async (peer, isWarmUp) => {
      const before = await engineTraffic(engine);
      const [beforeUs, beforeMainUs] = [cpuUs(peer.siblingPid), mainUsOf(peer)];
      const report = await runClient(peer, isWarmUp ? { ...load, durationMs: WARM_UP_ROUNDS * load.durationMs } : load);
      return {
        ...report,
        siblingUs: cpuUs(peer.siblingPid) - beforeUs,
        // That of the client's own warm-up too, as with the bytes.
        mainUs: mainUsOf(peer) - beforeMainUs,
        engine: trafficSince(before, await engineTraffic(engine)),
      };
    };
    const runs = await interleave(peers, rounds, run, (text) => rig.step(`cost of sharing, ${text}`));
    const perRequest = ({ cpuUs: { peer }, requests, siblingUs }) => (peer + siblingUs) / requests;
    const mainOf = ({ mainUs, requests }) => mainUs / (requests * (1 + load.warmupMs / load.durationMs));
    const within = (of) => spread(runs.on.map((one, round) => of(one, runs.off[round])));
    const added = {
      us: within((on, off) => mainOf(on) - mainOf(off)),
      share: within((on, off) => (mainOf(on) - mainOf(off)) / perRequest(off)),
      otherUs: within((on, off) => perRequest(on) - mainOf(on) - perRequest(off) + mainOf(off)),
    };
    rig.result({
      title: `Cost of sharing, requests of 1 KB at full load, ${roundsText({ rounds, seconds })}: median (min-max)`,
      columns: [
        'cluster',
        'CPU us/request',
        'of that the sibling',
        'requests/s',
        'into the engine, bytes/request',
        'errors',
      ],
      rows: Object.entries(runs).map(([name, list]) => [
        name,
        show(spread(list.map(perRequest)), 1),
        show(spread(list.map(({ requests, siblingUs }) => siblingUs / requests)), 1),
        show(spread(list.map((one) => one.requests / one.seconds)), 0),
        PAIRS[name] ? show(spread(list.map((one) => one.engine.inBytes / one.requests)), 1) : '-',
        String(list.reduce((sum, { errors }) => sum + errors, 0)),
      ]),
      remarks: [
        `Two gateways, one of which gets all requests. Sharing adds ${show(added.us, 2)} us of CPU time to a request in their main threads, ${show(added.share, 4)} of what it takes without, within rounds; all other threads differ by ${show(added.otherUs, 2)} us, which does not count: see docs/cluster.md. The bytes are those of the warm-up too. All requests have one prompt.`,
      ],
      plots: [],
      figures: { scenario: 'cluster cost', added },
      data: { runs },
    });
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

/** CPU time of the main threads of a pair, where the links to the engine live. */
const mainUsOf = ({ pid, siblingPid }) => (nsOf(pid, pid) + nsOf(siblingPid, siblingPid)) / 1000;

// --- News ------------------------------------------------------------------------------------------------------------

const agent = new Agent({ keepAlive: true });

function post(port, path, token, body) {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${token}`,
      'content-length': Buffer.byteLength(body),
    };
    const asked = send({ port, host: '127.0.0.1', method: 'POST', path, headers, agent }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('error', reject);
      response.on('end', () =>
        response.statusCode === 200
          ? resolve(text)
          : reject(new Error(`${path}: ${response.statusCode} ${text.slice(0, 200)}`)),
      );
    });
    asked.on('error', reject);
    asked.end(body);
  });
}

const CHAT = '/v1/chat/completions';

/** A chat whose prompt no other one begins with. */
function chatOf(number) {
  const words = Array.from({ length: 600 }, (_, at) => Math.imul(number * 1000 + at + 1, 0x9e3779b1).toString(36));
  return JSON.stringify({ model: MODEL, max_tokens: 1, messages: [{ role: 'user', content: words.join(' ') }] });
}

/** Whether a gateway knows that some CRN holds the beginning of a chat. */
async function knows(adminPort, body) {
  const { crns } = JSON.parse(await post(adminPort, `/explain?path=${CHAT}&account=bench`, ADMIN_TOKEN, body));
  return crns.some(({ matchedBlocks }) => matchedBlocks > 0);
}

/** The port of the admin listener, which is printed behind that of the gateway. */
async function adminPortOf({ lines }) {
  for (let turn = 0; turn < 100; turn++) {
    const line = lines.find((text) => text.includes('admin on'));
    if (line !== undefined) return Number(/:(\d+)\s*$/.exec(line)[1]);
    await pause();
  }
  throw new Error('the gateway has not said where its admin listener is');
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 10));

/** Time from a request sent to one gateway until another one knows where its prompt is. */
async function measureNews(flags, rig) {
  rig.step('news');
  const children = [];
  const ms = [];
  let lost = 0;
  try {
    const engine = await startEngine();
    children.push(engine.child);
    const fleet = await startFleet(
      {
        cacheBlocks: 400,
        speed: { stepUs: 1000, sequenceUs: 50, memoryTokenUs: 0, maxBatchTokens: 2048, prefillTokenUs: 1 },
      },
      flags,
    );
    children.push(fleet.child);
    const gateways = [];
    for (let at = 0; at < 2; at++) {
      const gateway = await startGateway(settingsOf(fleet.ports, engine));
      children.push(gateway.child);
      gateways.push({ ...gateway, adminPort: await adminPortOf(gateway.child) });
    }
    const [one, other] = gateways;
    const until = performance.now() + READY_MS;
    let isReady = false;
    for (let number = 0; !isReady && performance.now() < until; number++) {
      const body = chatOf(1e6 + number);
      await post(one.port, CHAT, KEY, body).catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, 200));
      isReady = await knows(other.adminPort, body).catch(() => false);
    }
    if (!isReady) throw new Error('news: the second gateway does not hear of what the first one chooses');
    for (let number = 0; number < flags.news; number++) {
      const body = chatOf(number);
      const sentUs = nowUs();
      const answered = post(one.port, CHAT, KEY, body);
      let isKnown = false;
      while (!isKnown && nowUs() - sentUs < NEWS_MS * 1000) isKnown = await knows(other.adminPort, body);
      if (isKnown) ms.push((nowUs() - sentUs) / 1000);
      else lost++;
      await answered;
    }
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
  ms.sort((a, b) => a - b);
  const at = (part) => ms[Math.min(ms.length - 1, Math.floor(ms.length * part))] ?? NaN;
  rig.result({
    title: 'News: from a request sent to one gateway until another one knows where its prompt is',
    columns: ['requests', 'p50 ms', 'p90 ms', 'most ms', 'never'],
    rows: [[String(ms.length), at(0.5).toFixed(1), at(0.9).toFixed(1), at(1).toFixed(1), String(lost)]],
    remarks: [
      'Asked of the other gateway by `POST /explain`, again and again: the time of a question, a few milliseconds, is in it.',
    ],
    plots: [],
    figures: { scenario: 'cluster news', p50: at(0.5), p90: at(0.9), most: at(1), lost },
    data: { ms },
  });
}

/** CPU time of the engine for a message. */
async function measureDeliveries(rig) {
  const rows = await measureEngine({ messages: ENGINE_MESSAGES, step: (text) => rig.step(`engine, ${text}`) });
  rig.result({
    title: 'CPU time of the engine for a message',
    columns: [
      'bytes of the body',
      'subscribers',
      'us/message, each alone',
      'us/delivery',
      'us/message, 32 at once',
      'us/delivery',
    ],
    rows: rows.map(({ aloneUs, bodyBytes, subscribers, togetherUs }) => [
      String(bodyBytes),
      String(subscribers),
      ...[aloneUs, aloneUs / subscribers, togetherUs, togetherUs / subscribers].map((us) => us.toFixed(2)),
    ]),
    remarks: [],
    plots: [],
    figures: { scenario: 'cluster engine', rows },
    data: {},
  });
}
