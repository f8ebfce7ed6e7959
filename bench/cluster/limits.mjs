// What the engine, and the control thread of a gateway, have to do for n gateways: a model of their load from figures of a simulation and of
// the engine, and the paragraph that says which of them is full first.

import { wireBytes, BACKLOG_BYTES, ENTRY_BYTES, GROUP_BYTES, HASH_BYTES } from './wire.mjs';
import { BATCH_MS } from './gateways.mjs';

/** CPU time of redis-server 7.0 for a delivery to one subscriber, and for each KB of it, in microseconds: `engine-cost.mjs`. */
export const ENGINE = { deliveryUs: 4.2, kilobyteUs: 0.15, source: 'Redis 7.0.15 on one core of an AMD EPYC' };

/** A link of 10 Gbit/s carries so many bytes per second at three quarters of its rate. */
const LINK_BYTES = 10e9 / 8 / 1.33;

/** Share of a core that may be used before a thread counts as full. */
const FULL = 0.75;

/** Gateways of one name at most: rows for siblings in shared memory. */
const MOST_GATEWAYS = 64;

/** Changes of load that a request publishes: chosen, first token, ended. */
const CHANGES = 3;

/**
 * Load of the engine and of a gateway's control thread by `gateways` gateways with `ratePerS` requests per second each over `crns` CRNs.
 * `blocks`: new blocks of a request. `applyUs`: CPU time of a receiver for a request of a sibling.
 */
export function loadOf({ gateways, ratePerS, crns, blocks, applyUs }) {
  const batches = Math.min(1000 / BATCH_MS, ratePerS * CHANGES);
  const inBatch = ratePerS / batches;
  const members = crns * (1 - (1 - 1 / crns) ** inBatch);
  const changed = crns * (1 - (1 - 1 / crns) ** (CHANGES * inBatch));
  const body = members * GROUP_BYTES + inBatch * (ENTRY_BYTES + blocks * HASH_BYTES) + changed * BACKLOG_BYTES;
  const { inBytes, outBytes } = wireBytes(body);
  const deliveries = gateways * gateways * batches;
  return {
    bytesPerRequest: (inBytes * batches) / ratePerS,
    messagesPerS: gateways * batches,
    deliveriesPerS: deliveries,
    inPerS: gateways * batches * inBytes,
    outPerS: deliveries * outBytes,
    /** Shares: of a core of the engine, of its link, of a core of a gateway's control thread. */
    engineCore: (deliveries * (ENGINE.deliveryUs + (outBytes / 1000) * ENGINE.kilobyteUs)) / 1e6,
    engineLink: (deliveries * outBytes) / LINK_BYTES,
    controlThread: ((gateways - 1) * ratePerS * applyUs) / 1e6,
  };
}

const LIMITS = {
  engineCore: 'the core of the engine, which writes every message to every gateway',
  engineLink: 'the network of the engine',
  controlThread: 'the control thread of every gateway, which applies what all others choose',
};

/** The most gateways for which nothing is full, and what is full with one more. */
export function mostGateways(options) {
  for (let gateways = 2; gateways <= 1024; gateways++) {
    const load = loadOf({ ...options, gateways });
    const full = Object.keys(LIMITS)
      .map((name) => ({ name, share: load[name] / (name === 'engineLink' ? 1 : FULL) }))
      .sort((a, b) => b.share - a.share)[0];
    if (full.share > 1) return { gateways: gateways - 1, full: full.name };
  }
  return { gateways: 1024, full: null };
}

/** Rates of a gateway, in requests per second, for which the limits are told. */
const RATES = [20, 200, 1000, 5000];

const mega = (bytes) =>
  bytes < 1e6 ? `${Math.round(bytes / 1000)} KB` : `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
const share = (part) => (part < 0.095 ? `${(part * 100).toFixed(1)} %` : `${Math.round(part * 100)} %`);

/** A table of loads at n gateways by requests per second of one, and a paragraph of where they end. `of`: `crns`, `blocks`, `applyUs`, `choiceUs` of the largest simulated fleet. */
export function limitsResult(of) {
  const counts = [3, 8, 16, 32, 64];
  const rows = RATES.flatMap((ratePerS) =>
    counts.map((gateways) => {
      const load = loadOf({ ...of, gateways, ratePerS });
      return [
        String(ratePerS),
        String(gateways),
        load.bytesPerRequest.toFixed(0),
        load.messagesPerS.toFixed(0),
        load.deliveriesPerS.toFixed(0),
        mega(load.inPerS),
        mega(load.outPerS),
        share(load.engineCore),
        share(load.engineLink),
        share(load.controlThread),
      ];
    }),
  );
  return {
    title: `Computed: load of sharing, ${of.crns} CRNs, ${of.blocks.toFixed(1)} new blocks in a request`,
    columns: [
      ...['requests/s of a gateway', 'gateways', 'bytes/request', 'messages/s', 'deliveries/s', 'in/s', 'out/s'],
      ...['core of the engine', 'its link of 10 Gbit/s', 'control thread'],
    ],
    rows,
    remarks: [limitsText(of)],
  };
}

/** Where the design stops scaling, and what gives first. */
export function limitsText(of) {
  const ends = RATES.map((ratePerS) => ({ ratePerS, ...mostGateways({ ...of, ratePerS }) }));
  const each = ends.map(({ full, gateways, ratePerS }) => {
    const count =
      gateways > MOST_GATEWAYS
        ? `more than ${MOST_GATEWAYS} gateways, which is the limit of the tables`
        : `${gateways} gateways`;
    return `at ${ratePerS} requests/s of each ${count}, then ${LIMITS[full] ?? 'nothing of these'} is full`;
  });
  return [
    `Where it ends. Every gateway publishes at most ${1000 / BATCH_MS} messages per second and every gateway gets all of them, so the work of the engine grows with the square of the number of gateways, and that of a control thread with the requests of all together; the choice itself grows with the CRNs only (${of.choiceUs.toFixed(0)} us of CPU time with ${of.crns}).`,
    `Room for: ${each.join('; ')}.`,
    `Limits taken: ${FULL * 100} % of one core at ${ENGINE.deliveryUs} us of CPU time for a delivery and ${ENGINE.kilobyteUs} us for each KB (measured, ${ENGINE.source}, each message alone; messages that arrive together cost a fifth), three quarters of a link of 10 Gbit/s, ${FULL * 100} % of the control thread at ${of.applyUs.toFixed(1)} us for a request of a sibling (measured in the simulation).`,
    'What gives first does so softly: an engine that is full delivers later, and the table of lags shows what that costs; a gateway that cannot follow is one of n that shares less.',
  ].join(' ');
}
