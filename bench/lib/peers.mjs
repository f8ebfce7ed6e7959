// Starts and stops the peers of a load benchmark: the gateway in its variants, other gateways, and the upstream itself as
// `direct`. Every peer runs on core 0; the upstream and the load client run on core 1.

import { fileURLToPath } from 'node:url';
import { LOAD_CORE } from './cores.mjs';
import { readBaseUrl } from './flags.mjs';
import { gatewaySettings, startGateway } from './gateway.mjs';
import { listenerOf, startChild, stopChild } from './process.mjs';
import { GATEWAY_PEERS } from '../peers/gateways.mjs';
import { PROXIES } from '../peers/proxies.mjs';
import { rigNode } from './rig-node.mjs';
import { ANSWER, EVENTS, KEY, requests } from './traffic.mjs';

/** Time that a peer has to answer its first request: LiteLLM takes 10 s to start on a core of its own. */
const HEALTH_TIMEOUT_MS = 60_000;
const PROBE_BYTES = 1000;

/** Variants of this gateway, with what they do for the report. */
export const VARIANTS = {
  headrace: 'keys; affinity by prefix; probes; metrics; counts tokens and charges a SQLite ledger',
  limited: 'the same with limits of requests, tokens and money for the key',
  keys: 'keys; affinity by prefix; probes; metrics',
  open: 'no keys; affinity by prefix; probes; metrics',
  'least-load': 'no keys; no affinity; probes; metrics',
};
const GATEWAYS = Object.keys(VARIANTS);

/** Other people's programs, and the floor: see `../peers/proxies.mjs`. */
export const OTHERS = { ...PROXIES, ...GATEWAY_PEERS };

/** Names that `--peers` takes, beside those of `--base-url`. */
export const PEERS = [...GATEWAYS, ...Object.keys(OTHERS), 'direct'];

/** Default peers of the parts that compare gateways. */
export const COMPARED = ['nginx', 'haproxy', 'headrace', 'fastify', 'portkey', 'direct'];

/** Flags of a part that runs these peers. */
export const PEER_FLAGS = {
  baseUrl: {
    type: 'word',
    multiple: true,
    default: [],
    help: 'one more peer, already running: NAME=http://HOST:PORT/v1; may be repeated',
  },
  upstreamPort: { type: 'number', default: 0, help: 'first of the two ports of the model servers; 0: picked' },
};

/**
 * Starts the named peers and their upstream, calls `use(peers)`, stops everything. `stream` sets nginx up for streams
 * and selects the kind of probe; `gapMs` is the time between two events; `note(text)` gets what had to be left out.
 * `headrace*2` is the gateway with two ingress threads.
 */
export async function withPeers({ names, stream, gapMs = 5, upstreamPort = 0, baseUrl = [], note, ...settings }, use) {
  const children = [];
  try {
    const upstream = await startUpstream(gapMs, upstreamPort);
    children.push(upstream.child);
    const started = async (name) => {
      if (name === 'direct') return { port: upstream.ports[0], child: upstream.child };
      if (Object.hasOwn(OTHERS, name)) return OTHERS[name].start(OTHERS[name].find(), upstream.ports, stream);
      const [variant, threads = settings.threads ?? 1] = name.split('*');
      if (!GATEWAYS.includes(variant)) throw new Error(`there is no peer "${name}"; there are ${PEERS.join(', ')}`);
      return startGateway(gatewaySettings(variant, upstream.ports), { ...settings, threads: Number(threads) });
    };
    const peers = [];
    const start = async (name) => {
      const { child, ...peer } = await started(name);
      if (child !== upstream.child) children.push(child);
      const slow = OTHERS[name]?.slow;
      return ready({ name, slow, pid: child.pid, upstreamPid: upstream.child.pid, child, ...peer }, stream);
    };
    for (const name of names) {
      const isOther = Object.hasOwn(OTHERS, name);
      if (isOther && OTHERS[name].find() === null) {
        note(`${name} (${OTHERS[name].from}) is not installed; the run goes on without it.`);
        continue;
      }
      // A peer that does not start is left out; the gateway must start.
      const peer = await start(name).catch((error) => {
        if (!isOther) throw error;
        note(`${error.message}; the run goes on without it.`);
      });
      if (peer !== undefined) peers.push(peer);
    }
    for (const { name, host, port, path } of baseUrl.map(readBaseUrl)) {
      if (!['127.0.0.1', 'localhost'].includes(host)) throw new Error(`--base-url ${name}: on this machine only`);
      peers.push(await ready({ name, port, path, pid: listenerOf(port), upstreamPid: upstream.child.pid }, stream));
    }
    return await use(peers);
  } finally {
    for (const child of children.reverse()) await stopChild(child);
  }
}

/** Starts the model servers: `{ child, ports }`. */
export async function startUpstream(gapMs, port) {
  const { child, match } = await startChild({
    name: 'upstream',
    command: rigNode(),
    args: [fileURLToPath(new URL('upstream.mjs', import.meta.url)), String(gapMs), String(port)],
    core: LOAD_CORE,
    ready: /^ready (\d+) (\d+)$/,
  });
  return { child, ports: [Number(match[1]), Number(match[2])] };
}

/**
 * Waits until a peer gives the upstream's response, and adds its length and the number of its events: some peers serialize JSON
 * again, and add or drop an event.
 */
async function ready(peer, stream) {
  const lastMs = performance.now() + HEALTH_TIMEOUT_MS;
  for (;;) {
    let why;
    try {
      const answer = await probe(peer, stream);
      const { child: _, ...rest } = peer;
      return { ...rest, ...answer };
    } catch (error) {
      why = error.cause?.message ?? error.message;
    }
    const said = peer.child?.errors.trim().slice(-300) ?? '';
    if (peer.child?.exited) throw new Error(`${peer.name} has ended: ${said}`);
    if (performance.now() > lastMs) throw new Error(`${peer.name} does not answer as it should: ${why} ${said}`.trim());
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function probe({ port, path = '/v1', headers = {} }, stream) {
  const [message] = requests({ port, stream, bodyBytes: PROBE_BYTES });
  const text = message.toString();
  const answer = await fetch(`http://127.0.0.1:${port}${path}/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${KEY}`, connection: 'close', ...headers },
    body: text.slice(text.indexOf('\r\n\r\n') + 4),
  });
  const body = await answer.text();
  if (answer.status !== 200) throw new Error(`status ${answer.status}: ${body.slice(0, 200)}`);
  const answerEvents = stream ? eventsOf(body) : 0;
  if (!stream && contentOf(body) !== contentOf(ANSWER)) throw new Error(`another answer: ${body.slice(0, 200)}`);
  return { answerBytes: Buffer.byteLength(body), answerEvents };
}

/** Events of a stream, the closing [DONE] included. Every piece of text must have come. */
function eventsOf(body) {
  const events = body.split('\n\n').slice(0, -1);
  const texts = events.filter((event) => event.includes('"content":"')).length;
  if (texts < EVENTS - 1 || events.at(-1) !== 'data: [DONE]') throw new Error(`a stream of ${texts} texts`);
  return events.length;
}

function contentOf(answer) {
  return JSON.parse(answer).choices[0].message.content;
}
