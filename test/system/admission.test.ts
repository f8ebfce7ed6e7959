// Admission with real threads: a flood over many connections, which the system spreads over the threads, and one account that sends now
// and then. The CRN is a real server that ends one request at a time, when the test says so.

import type { IncomingMessage, ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { until } from '../support/system.ts';
import { serving } from '../support/serving.ts';

const MODEL = 'm';
const THREADS = 4;
const FLOOD = 32;
const TURNS = 8;
const KEYS = { flood: 'hr_flood_key', quiet: 'hr_quiet_key' } as const;
type Account = keyof typeof KEYS;

/** Its backlog is far longer than the least `routing.hold`, however fast the CRN has shown to be. */
const LONG_BYTES = 1_000_000;

const ANSWER =
  'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n' +
  'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

class Crn {
  url = '';
  /** Accounts of the long requests that have arrived, in order. */
  readonly arrived: string[] = [];
  readonly #open: ServerResponse[] = [];

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    let bytes = 0;
    for await (const piece of req) bytes += (piece as Buffer).byteLength;
    if (req.method === 'GET') {
      res.end('{}');
      return;
    }
    if (bytes < LONG_BYTES) {
      res.writeHead(200, { 'content-type': 'text/event-stream' }).end(ANSWER);
      return;
    }
    this.#open.push(res);
    this.arrived.push(req.headers.authorization === `Bearer ${KEYS.flood}` ? 'flood' : 'quiet');
  }

  /** Requests that have no answer yet. */
  get open(): number {
    return this.#open.length;
  }

  /** Refuses the oldest request: its prompt is work no more, and nothing is learned of the speed of the CRN. */
  refuse(): void {
    this.#open.shift()?.writeHead(422, { 'content-type': 'application/json' }).end('{}');
  }
}

async function open(
  t: Test,
  extra: SettingsInput = {},
): Promise<{ crn: Crn; url: string; waiting: () => Promise<number> }> {
  const crn = new Crn();
  crn.url = await serving(t, (req, res) => void crn.serve(req, res));
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    threads: THREADS,
    log: { level: 'silent' },
    keys: { static: Object.entries(KEYS).map(([account, key]) => ({ account, key })) },
    models: { [MODEL]: { servers: [crn.url] } },
    health: { interval: '1h' },
    routing: { hold: '1ms', holdTimeout: '1h' },
    ...extra,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  const waiting = async (): Promise<number> => {
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
    return Number(/^headrace_held_requests\{model="m"\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
  };
  return { crn, url, waiting };
}

/** A stream on a connection of its own, so that the system picks the thread anew. */
async function send(url: string, account: Account, bytes: number, signal?: AbortSignal): Promise<number> {
  const content = `${Math.random()}`.padEnd(bytes, 'x');
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEYS[account]}`, 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: MODEL, stream: true, messages: [{ role: 'user', content }] }),
    ...(signal !== undefined && { signal }),
  });
  await response.text();
  return response.status;
}

t.test('a flood over four threads delays the requests of another account by about one turn', async (t) => {
  const { crn, url, waiting } = await open(t);
  t.equal(await send(url, 'quiet', 10), 200, 'the CRN has shown how fast it is');
  const answers = Array.from({ length: FLOOD }, () => send(url, 'flood', LONG_BYTES));
  await until('the flood waits', async () => (await waiting()) + crn.arrived.length === FLOOD);
  t.ok(crn.arrived.length <= THREADS, 'of requests that come at once each thread admits one at most');
  const turns: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const before = crn.arrived.length;
    answers.push(send(url, 'quiet', LONG_BYTES));
    // A turn of the flood may pass meanwhile, so that no number of those that wait is sure.
    await until('the request waits', async () => {
      const arrived = crn.arrived.length;
      return arrived + (await waiting()) === answers.length;
    });
    await until('it is admitted', () => {
      const hasArrived = crn.arrived.slice(before).includes('quiet');
      if (!hasArrived && crn.open > 0) crn.refuse();
      return hasArrived;
    });
    turns.push(crn.arrived.slice(before).indexOf('quiet'));
  }
  // A thread that the machine does not run for long loses its turn, so a single one may take longer.
  const median = turns.toSorted((a, b) => a - b)[TURNS / 2] as number;
  t.ok(median <= 2, `requests of the flood before each of the other account: ${turns.join(', ')}`);
  const all = Promise.all(answers);
  let isOver = false;
  void all.then(() => (isOver = true));
  await until('all are answered', () => {
    if (crn.open > 0) crn.refuse();
    return isOver;
  });
  t.same(new Set(await all), new Set([422]));
  t.equal(await waiting(), 0);
});

t.test('what a request holds of the limits of its key returns when its client leaves while it waits', async (t) => {
  const keys = { static: Object.entries(KEYS).map(([account, key]) => ({ account, key, running: 1 })) };
  const { crn, url, waiting } = await open(t, { keys, store: 'sqlite::memory:', threads: 1 });
  t.equal(await send(url, 'quiet', 10), 200);
  const running = send(url, 'flood', LONG_BYTES);
  await until('it is at the CRN', () => crn.arrived.length === 1);
  for (let round = 0; round < 3; round++) {
    const leaving = new AbortController();
    const left = send(url, 'quiet', LONG_BYTES, leaving.signal).catch(() => 'left');
    await until('it waits, so its key had a place', async () => (await waiting()) === 1);
    t.equal(await send(url, 'quiet', 10), 429, 'and has no other one');
    leaving.abort();
    t.equal(await left, 'left');
    await until('it waits no more', async () => (await waiting()) === 0);
  }
  crn.refuse();
  t.equal(await running, 422);
  t.equal(await send(url, 'quiet', 10), 200);
});
