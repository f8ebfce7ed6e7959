// The goals of the request path, each with its limit and the place of its figure in a run, and the verdict on a run.

import { show } from './report.mjs';

/** Peers of the part `peers` that the goals need, with HAProxy and the two limits of the set-up. */
export const GOAL_PEERS = ['nginx', 'haproxy', 'headrace', 'keys', 'floor', 'direct'];

/** Parts that measure the goals, with the defaults of their flags that differ. */
export const GOAL_PARTS = {
  peers: { peers: GOAL_PEERS, connections: [64, 256] },
  overhead: { peers: ['nginx', 'headrace', 'direct'], shares: [0.5] },
  search: {},
  fetch: {},
  upload: {},
};

const GATEWAY = 'headrace';

/** All figures of a run: one object for each table that has them. */
function figuresIn(run) {
  return run.parts.flatMap(({ results }) => results.map(({ figures }) => figures).filter((it) => it !== undefined));
}

const peerIn = (figures, name) => figures?.peers?.find((peer) => peer.name === name);
const named = (scenario, name) => (run) =>
  peerIn(
    figuresIn(run).find((figures) => figures.scenario === scenario),
    name,
  );
const atConnections = (scenario, connections) => (run) =>
  peerIn(
    figuresIn(run).find((figures) => figures.scenario === scenario && figures.connections === connections),
    GATEWAY,
  );
const atHalfLoad = (name) => (run) =>
  peerIn(
    figuresIn(run)
      .find(({ scenario }) => scenario === 'added to events')
      ?.points.find(({ share }) => share === 0.5),
    name,
  );

/**
 * Goals: `peerIn(run)` finds the figures of the gateway, `of(figures)` the spread that is judged. A goal has a `limit`, or `limitIn(run)`
 * where it is another figure of the run.
 */
const GOALS = [
  ...[64, 256].map((connections) => ({
    text: `JSON, 1 KB to 0.6 KB, ${connections} connections: CPU time of a request`,
    unit: 'x nginx',
    limit: 1.35,
    peerIn: atConnections('json', connections),
    of: ({ ratio }) => ratio,
  })),
  ...[64, 256].map((connections) => ({
    text: `Streams of 64 events, ${connections} at a time: CPU time of a stream`,
    unit: 'x nginx',
    limit: 1.2,
    peerIn: atConnections('stream', connections),
    of: ({ ratio }) => ratio,
  })),
  {
    text: 'One event of a stream at half load: added p50',
    unit: 'ms, as nginx',
    digits: 3,
    limitIn: (run) => atHalfLoad('nginx')(run)?.p50.median,
    peerIn: atHalfLoad(GATEWAY),
    of: ({ p50 }) => p50,
  },
  {
    text: 'One event of a stream at half load: added p99',
    unit: 'ms',
    limit: 1,
    peerIn: atHalfLoad(GATEWAY),
    of: ({ p99 }) => p99,
  },
  {
    text: 'Search of five engines at 60 % load: added p99',
    unit: 'ms',
    limit: 5,
    peerIn: named('search', GATEWAY),
    of: ({ addedMs }) => addedMs.p99,
  },
  {
    text: 'Search of five engines: CPU time',
    unit: 'ms',
    limit: 0.7,
    peerIn: named('search', GATEWAY),
    of: ({ cpuUs }) => (cpuUs === null ? null : scaled(cpuUs, 1 / 1000)),
  },
  ...['1 cleaner', '2 cleaners'].map((name) => ({
    text: `Chats beside a storm of page fetches, ${name}: growth of p99 beyond direct chats`,
    unit: 'ms',
    limit: 2,
    peerIn: named('chats beside pages', name),
    of: ({ more }) => more,
  })),
  {
    text: 'Small requests beside uploads of 10 MB: p99',
    unit: 'x nginx',
    limit: 1.3,
    peerIn: named('small requests beside uploads', GATEWAY),
    of: ({ ratio }) => ratio,
  },
];

function scaled(spread, factor) {
  return { median: spread.median * factor, min: spread.min * factor, max: spread.max * factor };
}

/** `[{ text, unit, digits, limit, measured, errors, isMet }]` for a run; `measured` and `isMet` are null for what did not run. */
export function judgeGoals(run) {
  return GOALS.map(({ text, unit, limit, limitIn, peerIn, of, digits = 2 }) => {
    const peer = peerIn(run);
    const measured = (peer === undefined ? null : of(peer)) ?? null;
    const most = limit ?? limitIn(run) ?? null;
    const isMet = measured === null || most === null ? null : measured.median <= most;
    return { text, unit, digits, limit: most, measured, errors: peer?.errors ?? 0, isMet };
  });
}

export const GOAL_COLUMNS = ['goal', 'at most', 'measured: median (min-max)', ''];

/** Rows of the table of goals. */
export function goalRows(goals) {
  return goals.map(({ text, unit, digits, limit, measured, errors, isMet }) => [
    text,
    limit === null ? '-' : `${limit.toFixed(digits)} ${unit}`,
    measured === null ? 'not measured' : show(measured, digits),
    `${isMet === null ? '-' : isMet ? 'met' : 'missed'}${errors === 0 ? '' : `, ${errors} errors`}`,
  ]);
}

/**
 * Greatest share of the peers' core that other programs had, by the medians of every table; null when no table has it. Above 5 % figures
 * are not for publishing.
 */
export function foreignShare(run) {
  const shares = figuresIn(run)
    .flatMap((figures) => [
      ...(figures.points ?? []).map(({ foreignUse }) => foreignUse),
      ...(figures.peers ?? []).map((peer) => peer.foreignUse?.median),
    ])
    .filter((share) => share !== undefined);
  return shares.length === 0 ? null : Math.max(...shares);
}

/** Other programs may have had this share of the core of the peers. */
const QUIET = 0.05;

/** One sentence on how quiet the machine was. */
export function quietText(run) {
  const foreign = foreignShare(run);
  if (foreign === null) return 'What other programs had of the core of the peers was not measured.';
  const share = `${Math.round(foreign * 100)} %`;
  return foreign <= QUIET
    ? `Other programs had at most ${share} of the core of the peers.`
    : `The machine was not quiet: other programs had up to ${share} of the core of the peers. These figures check the tools and are not to be quoted.`;
}
