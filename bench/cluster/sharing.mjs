// What sharing placements and backlogs costs and brings, with the gateway's own exchange and codec in virtual time: `node sharing.mjs [GATEWAYS]` prints
// hit rates and times to first token of one gateway, of several that share, and of as many that do not; the bytes of the bodies that a request costs; and
// the CPU time of noting, encoding and applying them. `../../dist` must be built. Only the CPU times depend on the machine.

import { createSeededRandom } from '../../dist/src/actor/index.js';
import { PlacementExchange } from '../../dist/src/cluster/index.js';
import * as routing from '../../dist/src/routing/index.js';
import { createPlanes } from '../lib/picker-planes.mjs';
import { simulate } from '../locality/fleet.mjs';
import { DEFAULTS } from '../locality/simulation.mjs';
import { fleetWorkload } from './workloads.mjs';

const CRNS = 8;
const REQUESTS = 3000;
const WORKLOADS = ['chat', 'agents', 'documents', 'tenants', 'hot'];
/** Bytes of text of a block of tokens, at 4 a token. */
const BLOCK_BYTES = 2048;
/** As in `src/cluster/placements.ts`. */
const BATCH_MS = 20;
/** From a message to its application. */
const LAG_MS = 2;

/** A policy of several gateways; requests go to a random one. */
function gateways({ count, cacheBlocks, isShared, totals, seed = 1 }) {
  return (servers) => {
    const random = createSeededRandom(seed);
    const clock = { nowMs: 0, now: () => clock.nowMs };
    const made = Array.from({ length: count }, () => {
      const own = { ring: null };
      const makeIndex = (memory) => {
        own.ring = new routing.PlacementRing(memory.placements, 0);
        own.ring.on = isShared;
        return new routing.BlockIndex(memory.blocks, own.ring);
      };
      const { memory, model, planes } = createPlanes(routing, { count: servers.length, clock, random, makeIndex });
      const [plane] = planes;
      servers.forEach((_, at) => plane.index.setCapacity(at, cacheBlocks * BLOCK_BYTES));
      const exchange = new PlacementExchange({
        ...{ members: servers.length, servers: servers.length, board: plane.board, rings: [own.ring] },
        index: new routing.BlockIndex(memory.blocks),
        holders: new routing.ResponseHolders(memory),
      });
      exchange.configure({ version: 1, models: [model] }, 0);
      return { exchange, model, plane, nextMs: random() * BATCH_MS };
    });
    const onTheWay = [];

    const apply = ({ atMs, body, from }) => {
      clock.nowMs = atMs;
      made.forEach(({ exchange }, to) => {
        if (to !== from) exchange.apply(body, 1 + ((from - to + count) % count), atMs);
      });
    };
    /** Everything that is due until then. */
    const advance = (untilMs) => {
      for (;;) {
        const next = made.reduce((first, each) => (each.nextMs < first.nextMs ? each : first));
        const message = onTheWay[0];
        const dueMs = Math.min(isShared ? next.nextMs : Infinity, message?.atMs ?? Infinity);
        if (dueMs > untilMs) break;
        if (message?.atMs === dueMs) {
          apply(onTheWay.shift());
          continue;
        }
        clock.nowMs = dueMs;
        next.nextMs += BATCH_MS;
        const body = next.exchange.take(dueMs);
        if (body === null) continue;
        totals.messages++;
        totals.bytes += body.length;
        onTheWay.push({ atMs: dueMs + LAG_MS, body: Buffer.from(body), from: made.indexOf(next) });
      }
      clock.nowMs = untilMs;
    };
    return {
      choose({ prompt }, nowMs) {
        advance(nowMs);
        const { model, plane } = made[Math.floor(random() * count)];
        const hint = {
          ...{ url: undefined, session: 0, holder: 0, dialectBit: 0, translatedBit: 0, isUntranslatable: false },
          ...{ stream: true, bytes: prompt.bytes, blocks: () => prompt },
        };
        const candidates = new routing.Candidates(model, plane, DEFAULTS, hint);
        const { server } = candidates.next();
        totals.requests++;
        this.state = { candidates, plane, model };
        return server;
      },
      onFirst({ cachedTokens, request, server, state: { candidates, model, plane } }, nowMs) {
        advance(nowMs);
        candidates.prefilled(candidates, nowMs - request.atMs);
        const { inputTokens, prompt } = request;
        plane.feedback.answered(model.budget, server, {
          ...{ cachedTokens, promptBytes: prompt.bytes, promptTokens: inputTokens },
          predictedBytes: prompt.bytes - candidates.charged,
        });
        totals.unexplained = plane.feedback.unexplained(model.budget);
      },
      onEnd({ server, state: { plane } }, nowMs) {
        advance(nowMs);
        plane.board.leave(server);
      },
    };
  };
}

/** CPU time in microseconds of what a request costs where it is served, and at a sibling, with 20 requests in a message. */
function cpuOf(requests, cacheBlocks) {
  const gateway = (ring) => {
    const { memory, model, planes } = createPlanes(routing, {
      ...{ count: CRNS, clock: { now: () => 0 }, random: () => 0 },
      makeIndex: (made) => new routing.BlockIndex(made.blocks, ring(made)),
    });
    const [{ board, index }] = planes;
    for (const { member } of model.members) index.setCapacity(member, cacheBlocks * BLOCK_BYTES);
    return { board, index, memory, model };
  };
  const exchangeOf = ({ board, memory, model }, rings) => {
    const exchange = new PlacementExchange({
      ...{ members: CRNS, servers: CRNS, board, rings, index: new routing.BlockIndex(memory.blocks) },
      holders: new routing.ResponseHolders(memory),
    });
    exchange.configure({ version: 1, models: [model] }, 0);
    return exchange;
  };
  const enter = ({ board, index }, { prompt }, at) => {
    const member = at % CRNS;
    index.enter(member, prompt.hashes, prompt.count);
    board.enter(member);
    board.loads.charge(member, prompt.bytes, 0);
  };
  const alone = gateway(() => null);
  const aloneUs = timed(() => requests.forEach((request, at) => enter(alone, request, at)));
  let ring;
  const sharing = gateway(({ placements }) => {
    ring = new routing.PlacementRing(placements, 0);
    ring.on = true;
    return ring;
  });
  const exchange = exchangeOf(sharing, [ring]);
  const bodies = [];
  const sharedUs = timed(() =>
    requests.forEach((request, at) => {
      enter(sharing, request, at);
      if (at % 20 === 19) bodies.push(Buffer.from(exchange.take(at)));
    }),
  );
  const sibling = exchangeOf(
    gateway(() => null),
    [],
  );
  const applyUs = timed(() => bodies.forEach((body) => sibling.apply(body, 1, 0)));
  return [(sharedUs - aloneUs) / requests.length, applyUs / requests.length];
}

function timed(act) {
  const before = process.cpuUsage();
  act();
  const { system, user } = process.cpuUsage(before);
  return system + user;
}

const most = Number(process.argv[2] ?? 3);
console.log(
  'workload | gateways | hit rate | p90 ms | p99 ms | busiest / mean | unexplained | bytes a request | messages a request | CPU µs a request: own, each sibling',
);
for (const name of WORKLOADS) {
  const { cacheBlocks, requests } = fleetWorkload(name, { crns: CRNS, perPart: REQUESTS });
  for (const [label, count, isShared] of [
    ['one', 1, false],
    [`${most} shared`, most, true],
    [`${most} unshared`, most, false],
  ]) {
    const totals = { requests: 0, messages: 0, bytes: 0, unexplained: 0 };
    const { hitRate, imbalance, p90, p99 } = simulate(
      requests,
      { servers: CRNS, cacheBlocks },
      gateways({ count, cacheBlocks, isShared, totals }),
    );
    const { bytes, messages, requests: total } = totals;
    const cost = isShared
      ? [
          (bytes / total).toFixed(0),
          (messages / total).toFixed(1),
          cpuOf(requests, cacheBlocks)
            .map((us) => us.toFixed(1))
            .join(', '),
        ]
      : ['–', '–', '–'];
    const cells = [
      hitRate.toFixed(3),
      Math.round(p90),
      Math.round(p99),
      imbalance.toFixed(2),
      totals.unexplained.toFixed(3),
    ];
    console.log([name, label, ...cells, ...cost].join(' | '));
  }
}
