// Load benchmark of translation: requests with tools in each dialect, passed to servers that speak it and translated to servers
// that speak chat completions only, through one gateway. Figures: CPU time per request and per stream, and the translated
// ones as a multiple of the passed ones in the same round. A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { gatewaySettings, startGateway } from '../lib/gateway.mjs';
import { dialectRequests } from '../lib/dialect-traffic.mjs';
import { startUpstream } from '../lib/peers.mjs';
import { stopChild } from '../lib/process.mjs';
import { percent, roundsText, show, showErrors } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { figuresOf, summarise } from '../lib/statistics.mjs';
import { MODEL } from '../lib/traffic.mjs';
import { bars } from './proxy.mjs';
import { heating, streamsOf, streamWarmupMs } from './stream.mjs';

/** A model of the same servers that are said to speak chat completions only. Its name is as long as that of the other one. */
const CHAT_ONLY = MODEL.replace(/.$/, 'c');

const PASSED = { chat: 'chat, passed', messages: 'messages, passed', responses: 'responses, passed' };
const TRANSLATED = { messages: 'messages, translated', responses: 'responses, translated' };
/** CPU time of a translated request or stream as a multiple of a passed one, at most. */
const GOAL = 1.3;

export const part = {
  name: 'dialects',
  sentence: 'Requests and streams that are passed, and those that are translated to chat completions: CPU time.',
  peers: [],
  flags: {
    ...COMMON,
    connections: { type: 'number', default: 64, help: 'requests or streams at a time' },
    bodyBytes: { type: 'number', default: 20_000, help: 'bytes of a request body, 18,000 or more' },
    gapMs: { type: 'number', default: 5, help: 'milliseconds between two events of a stream' },
  },
  steps: ({ rounds }) => 2 * 5 * turnsOf(rounds),
  measure,
};

async function measure(flags, rig) {
  const upstream = await startUpstream(flags.gapMs, 0);
  const children = [upstream.child];
  try {
    const settings = gatewaySettings('headrace', upstream.ports);
    const model = settings.models[MODEL];
    const models = {
      [MODEL]: { ...model, dialects: ['chat', 'messages', 'responses'] },
      [CHAT_ONLY]: { ...model, dialects: ['chat'] },
    };
    const { threads, nodeFlags } = flags;
    const gateway = await startGateway({ ...settings, models }, { threads, nodeFlags, profileDir: rig.profileDir });
    children.push(gateway.child);
    const common = { port: gateway.port, pid: gateway.child.pid, upstreamPid: upstream.child.pid };
    const variants = [
      ...Object.entries(PASSED).map(([dialect, name]) => ({ ...common, name, dialect, model: MODEL })),
      ...Object.entries(TRANSLATED).map(([dialect, name]) => ({ ...common, name, dialect, model: CHAT_ONLY })),
    ];
    for (const stream of [false, true]) rig.result(await compare(variants, stream, flags, rig.step));
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

async function compare(variants, stream, flags, step) {
  const load = {
    ...{ stream, connections: flags.connections, bodyBytes: flags.bodyBytes, durationMs: flags.seconds * 1000 },
    warmupMs: stream ? streamWarmupMs(flags) : flags.warmUp * 1000,
  };
  const peers = [];
  for (const variant of variants) peers.push({ ...variant, ...(await probe({ ...load, ...variant })) });
  const run = (peer, isWarmUp) => {
    const own = { ...load, dialect: peer.dialect, model: peer.model };
    return runClient(peer, isWarmUp ? warming(own) : own);
  };
  const kind = stream ? 'streams' : 'requests';
  const runs = await interleave(peers, flags.rounds, run, (text) => step(`${kind}, ${text}`));
  const unitsOf = stream ? streamsOf : ({ requests }) => requests;
  const summary = summarise(runs, unitsOf, PASSED.chat).map((peer) => {
    const { dialect } = variants.find(({ name }) => name === peer.name);
    const [own] = summarise(runs, unitsOf, PASSED[dialect]).filter(({ name }) => name === peer.name);
    return { ...peer, ofPassed: own.ratio };
  });
  return { ...resultOf(summary, stream, flags), data: { runs } };
}

/** Just-in-time compilers have finished after some thousands of requests. */
const warming = (load) => (load.stream ? heating(load) : { ...load, durationMs: Math.max(load.durationMs, 4000) });

/** One answer, to know how long all of them are. Ids in a stream differ in length. */
async function probe(load) {
  const [message] = dialectRequests(load);
  const text = message.toString('latin1');
  const [line, ...lines] = text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n');
  const headers = Object.fromEntries(lines.map((field) => field.split(': ')));
  const response = await fetch(`http://127.0.0.1:${load.port}${line.split(' ')[1]}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: headers.Authorization, connection: 'close' },
    body: message.subarray(text.indexOf('\r\n\r\n') + 4),
  });
  const body = await response.text();
  const translated = response.headers.get('x-headrace-translated');
  const isTranslated = load.model === CHAT_ONLY;
  if (response.status !== 200 || (translated !== null) !== isTranslated) {
    throw new Error(`${load.name}: status ${response.status}, translated ${translated}: ${body.slice(0, 200)}`);
  }
  return load.stream
    ? { answerEvents: body.split('\n\n').length - 1 }
    : { answerBytes: Buffer.byteLength(body), answerEvents: 0 };
}

function resultOf(summary, stream, flags) {
  const unit = stream ? 'stream' : 'request';
  const worst = Math.max(
    ...Object.values(TRANSLATED).map((name) => summary.find((peer) => peer.name === name).ofPassed.median),
  );
  return {
    title: `${stream ? 'Streams of 64 events' : 'JSON answers'}, requests of ${flags.bodyBytes} bytes, ${flags.connections} at a time, ${roundsText(flags)}: median (min-max)`,
    columns: [
      ...['requests', `CPU us/${unit}`, 'x passed', 'x chat', 'user', 'system', `${unit}s/s`, 'core 0', 'foreign'],
      ...['core 1', 'errors'],
    ],
    rows: summary.map((peer) => [
      peer.name,
      show(peer.cpuUs, 0),
      Object.values(TRANSLATED).includes(peer.name) ? show(peer.ofPassed, 2) : '-',
      show(peer.ratio, 2),
      peer.userUs?.median.toFixed(0) ?? '-',
      peer.systemUs?.median.toFixed(0) ?? '-',
      peer.perSecond.median.toFixed(0),
      percent(peer.peerUse),
      percent(peer.foreignUse),
      percent(peer.loadCoreUse),
      showErrors(peer),
    ]),
    remarks: [`Goal: at most ${GOAL} x passed; ${worst.toFixed(2)} was measured.`],
    plots: [bars(`CPU time per ${unit}`, 'us', summary, ({ cpuUs }) => cpuUs)],
    figures: { scenario: `dialects, ${unit}`, connections: flags.connections, peers: figuresOf(summary) },
  };
}
