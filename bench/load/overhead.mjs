// Load benchmark of added latency: what the gateway adds to a request, and to every event of a stream, at 25, 50 and 75 % of its
// capacity. Requests are due at fixed times (an open loop), the same for all peers, and latency counts from then. Added latency
// is the figure of the peer minus that of `direct` in the same round. A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { PEER_FLAGS, PEERS, withPeers } from '../lib/peers.mjs';
import { percent, roundsText, show, showErrors } from '../lib/report.mjs';
import { interleave, runClient } from '../lib/rounds.mjs';
import { spread, summarise } from '../lib/statistics.mjs';
import { ANSWER, STREAM_BYTES } from '../lib/traffic.mjs';
import { heating, streamsOf, streamWarmupMs } from './stream.mjs';

const GATEWAY = 'headrace';
const BASE = 'direct';
/** Use of core 1 above which client and upstream are the limit. */
const RIG_FULL = 0.9;

export const part = {
  name: 'overhead',
  sentence: 'Latency that is added to requests and to events of streams, at fixed shares of what the gateway can do.',
  peers: PEERS,
  flags: {
    ...COMMON,
    ...PEER_FLAGS,
    peers: { type: 'words', default: [GATEWAY, BASE], help: 'peers; these two are always among them' },
    shares: { type: 'numbers', default: [0.25, 0.5, 0.75], quick: [0.5], help: 'shares of what the gateway can do' },
    connections: {
      type: 'number',
      default: 256,
      help: 'connections at full load; four times as many wait in open loops',
    },
    bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
    gapMs: { type: 'number', default: 5, help: 'milliseconds between two events of a stream' },
  },
  steps: ({ peers, shares, rounds }) => 2 * (2 + shares.length * withBoth(peers).length * rounds),
  measure,
};

const withBoth = (peers) => [...new Set([GATEWAY, ...peers, BASE])];

async function measure(flags, rig) {
  const json = {
    stream: false,
    bodyBytes: flags.bodyBytes,
    durationMs: flags.seconds * 1000,
    answerBytes: ANSWER.length,
  };
  const stream = { ...json, stream: true, warmupMs: streamWarmupMs(flags), answerBytes: STREAM_BYTES };
  const kinds = [
    { load: { ...json, warmupMs: flags.warmUp * 1000 }, unitsOf: ({ requests }) => requests, result: requestResult },
    { load: stream, unitsOf: streamsOf, result: streamResult },
  ];
  for (const { load, unitsOf, result } of kinds) {
    const settings = { ...flags, stream: load.stream, profileDir: rig.profileDir, note: rig.note };
    await withPeers({ ...settings, names: withBoth(flags.peers) }, async (peers) => {
      const perSecond = await capacity(peers, { ...load, connections: flags.connections }, unitsOf, rig);
      const points = [];
      for (const share of flags.shares) {
        const ratePerS = Math.max(1, Math.round(share * perSecond));
        const paced = { ...load, connections: flags.connections * 4, ratePerS };
        const step = (text) => rig.step(`${load.stream ? 'streams' : 'requests'} at ${share * 100} %, ${text}`);
        const runs = await interleave(peers, flags.rounds, (peer) => runClient(peer, paced), step, true);
        points.push({ share, ratePerS, runs, summary: summarise(runs, unitsOf) });
      }
      rig.result({
        ...result(flags, perSecond, points),
        figures: overheadFigures(load, perSecond, points),
        data: { perSecond, points },
      });
    });
  }
}

/**
 * What the gateway can do in a second: what it did in a closed loop, over the share of its core that this took. Streams
 * come at the pace of their events, so that they do not fill it.
 */
async function capacity(peers, load, unitsOf, rig) {
  const gateway = peers.find(({ name }) => name === GATEWAY);
  let run;
  for (const what of ['warm-up', 'full load']) {
    rig.step(`${load.stream ? 'streams' : 'requests'}, ${what}`);
    run = await runClient(gateway, load.stream && what === 'warm-up' ? heating(load) : load);
  }
  return unitsOf(run) / (run.cpuUs.peer / 1e6);
}

/** A figure of a run less that of `direct` in the same round. */
function added(runs, name, figure) {
  return spread(runs[name].map((run, round) => figure(run) - figure(runs[BASE][round])));
}

/** What every peer adds at every share of the load, for the goals and the documentation. */
function overheadFigures({ stream }, perSecond, points) {
  const figures = stream
    ? { firstP50: first('p50'), firstP99: first('p99'), p50: delay('p50'), p99: delay('p99'), gapP99: gap('p99') }
    : { p50: latency('p50'), p99: latency('p99') };
  const peerOf = (runs, name) => ({
    name,
    errors: runs[name].reduce((sum, { errors }) => sum + errors, 0),
    ...Object.fromEntries(Object.entries(figures).map(([key, figure]) => [key, added(runs, name, figure)])),
  });
  return {
    scenario: stream ? 'added to events' : 'added to requests',
    perSecond,
    points: points.map(({ share, ratePerS, runs, summary }) => ({
      share,
      ratePerS,
      peers: Object.keys(runs)
        .filter((name) => name !== BASE)
        .map((name) => peerOf(runs, name)),
      foreignUse: Math.max(...summary.map(({ foreignUse }) => foreignUse.median)),
    })),
  };
}

/** Warns of loads at which client and upstream were the limit. */
function warnings(points) {
  const full = points.filter(({ summary }) => summary.some(({ loadCoreUse }) => loadCoreUse.median > RIG_FULL));
  if (full.length === 0) return [];
  const loads = full.map(({ share }) => percent({ median: share })).join(', ');
  return [`Core 1, with client and upstream, was full at ${loads}: what is added there is mostly the rig's own.`];
}

const named = (flags) => withBoth(flags.peers).filter((name) => name !== BASE);
const RIG = ['core 0', 'core 1', 'errors'];
const rigCells = (peer) => [percent(peer.peerUse), percent(peer.loadCoreUse), showErrors(peer)];

/** Rows for every share and peer that ran; `cells(point, peer)` are those in the middle. */
function rowsOf(points, cells) {
  return points.flatMap((point) =>
    point.summary
      .filter(({ name }) => name !== BASE)
      .map((peer) => [
        `${percent({ median: point.share })}, ${point.ratePerS}/s`,
        peer.name,
        ...cells(point, peer.name),
        ...rigCells(peer),
      ]),
  );
}

function addedPlot(title, flags, points, figures) {
  const ran = named(flags).filter((name) => points.every(({ runs }) => name in runs));
  const curves = ran.flatMap((name) =>
    figures.map(([label, figure]) => ({
      name: `${name}, ${label}`,
      points: points.map(({ share, runs }) => [share * 100, Math.max(0, added(runs, name, figure).median)]),
    })),
  );
  return { kind: 'curves', title, xLabel: 'per cent of what the gateway can do', yLabel: 'ms', curves };
}

const latency = (percentile) => (run) => run.latencyMs[percentile];
const delay = (percentile) => (run) => run.eventDelayMs[percentile];
const gap = (percentile) => (run) => run.eventGapMs[percentile];
const first = (percentile) => (run) => run.firstEventMs[percentile];

function requestResult(flags, perSecond, points) {
  const direct = ({ runs }, figure) => show(spread(runs[BASE].map(figure)), 2);
  return {
    title: `Added to a request, ${roundsText(flags)}: median (min-max)`,
    columns: ['load', 'peer', 'added p50 ms', 'added p99 ms', 'direct p50 ms', 'direct p99 ms', ...RIG],
    rows: rowsOf(points, (point, name) => [
      show(added(point.runs, name, latency('p50')), 2),
      show(added(point.runs, name, latency('p99')), 2),
      direct(point, latency('p50')),
      direct(point, latency('p99')),
    ]),
    remarks: [`The gateway can do ${perSecond.toFixed(0)} requests in a second of CPU time.`, ...warnings(points)],
    plots: [
      addedPlot('Added to a request', flags, points, [
        ['p50', latency('p50')],
        ['p99', latency('p99')],
      ]),
    ],
  };
}

function streamResult(flags, perSecond, points) {
  const cells = (figure) => (point, name) => show(added(point.runs, name, figure), 2);
  const figures = [first('p50'), first('p99'), delay('p50'), delay('p99'), gap('p99')].map(cells);
  return {
    title: `Added to streams, ${flags.gapMs} ms between events, ${roundsText(flags)}: median (min-max)`,
    columns: [
      ...['load', 'peer', 'first event p50 ms', 'first event p99 ms', 'event p50 ms', 'event p99 ms', 'gap p99 ms'],
      ...RIG,
    ],
    rows: rowsOf(points, (point, name) => figures.map((cell) => cell(point, name))),
    remarks: [`The gateway can do ${perSecond.toFixed(0)} streams in a second of CPU time.`, ...warnings(points)],
    plots: [
      addedPlot('Added to an event of a stream', flags, points, [
        ['p50', delay('p50')],
        ['p99', delay('p99')],
      ]),
    ],
  };
}
