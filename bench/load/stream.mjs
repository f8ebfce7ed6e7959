// Load benchmark of streams: 64 events through every peer. Figures: CPU time per stream as a multiple of nginx's in the same
// round, delay of an event on its way, time to the first event. A part of ../run.mjs.

import { COMMON } from '../lib/flags.mjs';
import { COMPARED, PEER_FLAGS, PEERS, withPeers } from '../lib/peers.mjs';
import { percent, roundsText, show, showErrors, showThreads } from '../lib/report.mjs';
import { interleave, runClient, turnsOf } from '../lib/rounds.mjs';
import { distributionOf, figuresOf, spread, spreadOf, summarise } from '../lib/statistics.mjs';
import { EVENTS, STREAM_BYTES } from '../lib/traffic.mjs';
import { bars, latencyPlot, watched } from './proxy.mjs';

export const part = {
  name: 'stream',
  sentence: 'Streams of 64 events through the gateway and its peers: CPU time per stream, delays.',
  peers: PEERS,
  flags: {
    ...COMMON,
    ...PEER_FLAGS,
    peers: { type: 'words', default: COMPARED, help: 'peers' },
    connections: { type: 'numbers', default: [64], help: 'streams at a time, one table each' },
    bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
    gapMs: { type: 'number', default: 5, help: 'milliseconds between two events of a stream' },
  },
  steps: ({ connections, peers, baseUrl, rounds }) =>
    connections.length * (peers.length + baseUrl.length) * turnsOf(rounds),
  measure: measureStreams,
};

/** Streams by their events, the closing one included: a window cuts streams at both ends. */
export const streamsOf = ({ events, eventsPerStream }) => events / eventsPerStream;

/** Warm-up of streams: connections open over its first half, as long as two streams, so that phases stay spread. */
export const streamWarmupMs = ({ warmUp, gapMs }) => Math.max(warmUp * 1000, 4 * EVENTS * gapMs);

/** Streams at a time, and the least time in milliseconds, of the run that does not count. */
const HEATING = { connections: 256, durationMs: 8000 };

/**
 * The run of a peer that does not count: enough streams that just-in-time compilers have finished. 64 streams at a time are 200 in a
 * second, and a path is compiled for good after some thousands.
 */
export const heating = (load) => ({
  ...load,
  connections: HEATING.connections,
  durationMs: Math.max(load.durationMs, HEATING.durationMs),
});

/** What `summarise` does not know of streams. */
export function summariseStreams(runs, reference) {
  return summarise(runs, streamsOf, reference).map((peer) => ({
    ...peer,
    eventsPerSecond: spread(runs[peer.name].map(({ events, seconds }) => events / seconds)).median,
    firstEventMs: spreadOf(runs[peer.name], 'firstEventMs'),
    eventDelayMs: spreadOf(runs[peer.name], 'eventDelayMs'),
    eventGapMs: spreadOf(runs[peer.name], 'eventGapMs'),
    firstEvents: distributionOf(runs[peer.name], 'firstEventMs'),
    eventDelays: distributionOf(runs[peer.name], 'eventDelayMs'),
  }));
}

/** Streams through `flags.peers`: a table for each number of them at a time. */
export async function measureStreams(flags, rig) {
  const settings = { ...flags, stream: true, profileDir: rig.profileDir, note: rig.note };
  await withPeers({ ...settings, names: flags.peers }, async (peers) => {
    for (const connections of flags.connections) {
      const load = {
        stream: true,
        connections,
        bodyBytes: flags.bodyBytes,
        warmupMs: streamWarmupMs(flags),
        durationMs: flags.seconds * 1000,
        answerBytes: STREAM_BYTES,
      };
      const step = (text) => rig.step(`${connections} streams, ${text}`);
      const run = (peer, isWarmUp) => runClient(peer, isWarmUp ? heating(load) : load);
      const runs = await interleave(peers, flags.rounds, run, step);
      const summary = summariseStreams(runs);
      rig.result({
        ...streamResult(flags, connections, summary),
        figures: { scenario: 'stream', connections, peers: figuresOf(summary) },
        data: { connections, runs },
      });
    }
  });
}

function streamResult(flags, connections, summary) {
  const both = ({ p50, p99 }) => `${p50.median.toFixed(2)} / ${p99.median.toFixed(2)}`;
  const gateway = summary.find(({ name }) => name === 'headrace');
  const delayed = summary.filter(({ eventDelays }) => eventDelays.some(([ms]) => ms > 0));
  return {
    title: `Streams, ${connections} at a time, ${flags.gapMs} ms between events, ${roundsText(flags)}: median (min-max)`,
    columns: [
      ...[
        'peer',
        'CPU us/stream',
        'x nginx',
        'user',
        'system',
        'events/s',
        'first event p50 / p99 ms',
        'delay p50 / p99 ms',
      ],
      ...['gap p50 / p99 ms', 'core 0', 'foreign', 'core 1', 'RSS MB', 'errors'],
    ],
    rows: summary.map((peer) => [
      peer.name,
      show(peer.cpuUs, 0),
      show(peer.ratio, 2),
      peer.userUs?.median.toFixed(0) ?? '-',
      peer.systemUs?.median.toFixed(0) ?? '-',
      peer.eventsPerSecond.toFixed(0),
      both(peer.firstEventMs),
      both(peer.eventDelayMs),
      both(peer.eventGapMs),
      peer.name === 'direct' ? '-' : percent(peer.peerUse),
      percent(peer.foreignUse),
      percent(peer.loadCoreUse),
      peer.rssMb.median.toFixed(0),
      showErrors(peer),
    ]),
    remarks: gateway === undefined ? [] : [`Threads of the gateway: ${showThreads(gateway.threads)}.`],
    plots: [
      bars('CPU time per stream', 'us', watched(summary), ({ cpuUs }) => cpuUs),
      latencyPlot('Time to the first event', summary, 'firstEvents'),
      latencyPlot('Delay of an event on its way', delayed, 'eventDelays'),
    ],
  };
}
