// Affinity on real sockets: a conversation stays with the CRN of its cookie at low load, leaves it while it is busy, and gets another
// cookie only when the CRN is unfit.
import type { IncomingMessage, ServerResponse } from 'node:http';
import t from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { InjectResponse } from '../../src/ingress/inject.ts';
import { serving } from '../support/serving.ts';

const MODEL = 'm';
const CHAT = { model: MODEL, messages: [{ role: 'user', content: 'hello' }] };

const ANSWER = JSON.stringify({
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
});

interface Tap {
  teardown(run: () => unknown): unknown;
}

/** A CRN whose chats wait while it is `holding`. */
class Crn {
  url = '';
  requests = 0;
  holding = false;
  refusal: string | null = null;
  readonly #held: ServerResponse[] = [];
  readonly #waiting: { count: number; resolve: () => void }[] = [];

  serve(req: IncomingMessage, res: ServerResponse): void {
    req.resume();
    res.setHeader('content-type', 'application/json');
    if (req.method === 'GET') {
      res.end('{}');
      return;
    }
    this.requests++;
    if (this.refusal !== null) res.writeHead(404).end(this.refusal);
    else if (this.holding) this.#held.push(res);
    else res.end(ANSWER);
    for (const { count, resolve } of this.#waiting) if (this.requests === count) resolve();
  }

  /** Resolves once `count` requests have arrived. */
  arrived(count: number): Promise<void> {
    if (this.requests >= count) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ count, resolve }));
  }

  release(): void {
    this.holding = false;
    for (const res of this.#held.splice(0)) res.end(ANSWER);
  }
}

async function open(t: Tap, count: number): Promise<{ crns: Crn[]; ask: (url?: string) => Promise<InjectResponse> }> {
  const crns = Array.from({ length: count }, () => new Crn());
  for (const crn of crns) {
    crn.url = await serving(t, (req, res) => crn.serve(req, res));
  }
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    threads: 0,
    log: { level: 'silent' },
    keys: { required: false },
    models: { [MODEL]: { servers: crns.map(({ url }) => url) } },
    health: { interval: '1h' },
    ejection: { slowStart: 0 },
  });
  t.teardown(() => gateway.close());
  await gateway.ready();
  const ask = (url?: string): Promise<InjectResponse> => {
    const headers = url === undefined ? {} : { cookie: `preferred_instances=${JSON.stringify({ [MODEL]: url })}` };
    return gateway.inject({ method: 'POST', path: '/v1/chat/completions', body: CHAT, headers });
  };
  return { crns, ask };
}

t.test('up to 4 requests of a conversation run on the CRN of its cookie', async (t) => {
  const { ask, crns } = await open(t, 3);
  const [home] = crns as [Crn];
  home.holding = true;
  const running: Promise<InjectResponse>[] = [];
  for (let count = 1; count <= 4; count++) {
    running.push(ask(home.url));
    await home.arrived(count);
  }
  const fifth = await ask(home.url);
  t.equal(fifth.status, 200);
  t.equal(home.requests, 4);
  t.notOk('set-cookie' in fifth.headers, 'a CRN that is merely busy stays in the cookie');
  home.release();
  for (const answer of await Promise.all(running)) t.notOk('set-cookie' in answer.headers);
  t.notOk('set-cookie' in (await ask(home.url)).headers);
  t.equal(home.requests, 5, 'the conversation has returned');
});

t.test('the cookie changes when its CRN does not know the model, or is none of the model', async (t) => {
  const { ask, crns } = await open(t, 2);
  const [home, other] = crns as [Crn, Crn];
  home.refusal = '{"error":{"code":"model_not_found"}}';
  const moved = await ask(home.url);
  t.equal(moved.status, 200);
  t.match(moved.headers['set-cookie'], other.url);
  home.refusal = null;
  t.match((await ask('http://10.0.0.9:1')).headers['set-cookie'], other.url);
  t.equal(home.requests, 1);
});
