// Load benchmark: streams of 64 events through nginx, the gateway and nothing at all. Figures: CPU time per stream over
// nginx's in the same round, delay of an event on its way, time to the first one. Method and figures: bench/README.md.

import { COMMON, readFlags } from '../lib/flags.mjs';
import { withPeers } from '../lib/peers.mjs';
import { temporaryFolder } from '../lib/process.mjs';
import { printProfiles } from '../lib/profile.mjs';
import { percent, printTable, progress, show, showThreads, writeResult } from '../lib/report.mjs';
import { interleave, runClient, spreadOf, summarise } from '../lib/rounds.mjs';
import { EVENTS, STREAM_BYTES } from '../lib/traffic.mjs';

const flags = readFlags('stream', 'Streams of 64 events through nginx and the gateway: CPU time per stream, delays.', {
  ...COMMON,
  connections: { type: 'numbers', default: [64, 256], help: 'streams at a time, one table for each' },
  bodyBytes: { type: 'number', default: 1000, help: 'bytes of a request body' },
  gapMs: { type: 'number', default: 5, help: 'milliseconds between two events of a stream' },
});
const startedAt = new Date();
const profileDir = flags.profile ? temporaryFolder() : undefined;
/** Streams by their events, the closing one included: a window cuts streams at both ends. */
const streamsOf = ({ events }) => events / (EVENTS + 1);

const points = await withPeers({ ...flags, names: flags.peers, stream: true, profileDir }, async (peers) => {
  const all = [];
  for (const connections of flags.connections) {
    const load = {
      stream: true,
      connections,
      bodyBytes: flags.bodyBytes,
      // Connections open over its first half, which is as long as two streams: phases stay spread from then on.
      warmupMs: Math.max(1500, 4 * EVENTS * flags.gapMs),
      durationMs: flags.seconds * 1000,
      answerBytes: STREAM_BYTES,
    };
    const note = (text) => progress(`stream, ${connections} streams, ${text}`);
    const runs = await interleave(peers, flags.rounds, (peer) => runClient(peer, load), note);
    const summary = summarise(runs, streamsOf).map((peer) => ({
      ...peer,
      eventsPerSecond: peer.perSecond.median * (EVENTS + 1),
      firstEventMs: spreadOf(runs[peer.name], 'firstEventMs'),
      eventDelayMs: spreadOf(runs[peer.name], 'eventDelayMs'),
      eventGapMs: spreadOf(runs[peer.name], 'eventGapMs'),
    }));
    all.push({ connections, summary, runs });
    print(connections, summary);
  }
  return all;
});

function print(connections, summary) {
  const both = ({ p50, p99 }) => `${p50.median.toFixed(2)} / ${p99.median.toFixed(2)}`;
  printTable(
    `Streams, ${connections} at a time, ${flags.rounds} rounds of ${flags.seconds} s, ${flags.gapMs} ms between events: median (min-max)`,
    [
      'peer',
      'CPU us/stream',
      'x nginx',
      'events/s',
      'first event p50 / p99 ms',
      'delay p50 / p99 ms',
      'gap p50 / p99 ms',
      'core 0',
      'foreign',
      'core 1',
      'RSS MB',
      'errors',
    ],
    summary.map((peer) => [
      peer.name,
      show(peer.cpuUs, 0),
      peer.ratio === null ? '-' : show(peer.ratio, 2),
      peer.eventsPerSecond.toFixed(0),
      both(peer.firstEventMs),
      both(peer.eventDelayMs),
      both(peer.eventGapMs),
      peer.name === 'direct' ? '-' : percent(peer.peerUse),
      percent(peer.foreignUse),
      percent(peer.loadCoreUse),
      peer.rssMb.median.toFixed(0),
      `${peer.errors} ${peer.lastError}`.trim(),
    ]),
  );
  const gateway = summary.find(({ name }) => name === 'headrace');
  if (gateway) process.stdout.write(`\nthreads of the gateway: ${showThreads(gateway.threads)}\n`);
}

writeResult('stream', startedAt, { flags, points });
if (profileDir !== undefined) printProfiles(profileDir);
