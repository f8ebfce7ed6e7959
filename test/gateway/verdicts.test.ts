// Verdicts on real sockets: which answers of a CRN reach the client, which go to the next CRN, and which of them cost the CRN its
// standing.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { InjectResponse } from '../../src/ingress/inject.ts';

const MODEL = 'm';

const GOOD_BODY = JSON.stringify({
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'hi' }, finish_reason: 'stop' }],
});

interface Refusal {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface Crn {
  readonly url: string;
  /** Requests so far, without probes. */
  requests: number;
}

/** A CRN with good probes; null: it answers every chat. */
async function startCrn(t: Tap, refusal: Refusal | null): Promise<Crn> {
  const crn = { url: '', requests: 0 };
  const serve = (req: IncomingMessage, res: ServerResponse): void => {
    req.resume();
    if (req.method === 'GET') {
      res.end('{}');
      return;
    }
    crn.requests++;
    const { status = 200, headers = {}, body = GOOD_BODY } = refusal ?? {};
    res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
  };
  const server = createServer(serve);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  crn.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return crn;
}

interface Tap {
  teardown(run: () => unknown): unknown;
}

interface Fixture {
  readonly crns: readonly Crn[];
  readonly gateway: Gateway;
  readonly settings: SettingsInput;
  readonly ask: (path?: string, content?: string) => Promise<InjectResponse>;
  /** Standings in the order of the CRNs. */
  readonly standings: () => string[];
  /** Requests of all CRNs. */
  readonly requests: () => number;
}

async function open(
  t: Tap,
  refusals: readonly (Refusal | null)[],
  { apiKey, ...extra }: SettingsInput & { apiKey?: string } = {},
): Promise<Fixture> {
  const crns = await Promise.all(refusals.map((refusal) => startCrn(t, refusal)));
  const servers = crns.map(({ url }) => url);
  const settings: SettingsInput = {
    listen: '127.0.0.1:0',
    threads: 0,
    log: { level: 'silent' },
    keys: { required: false },
    models: { [MODEL]: apiKey === undefined ? { servers } : { servers, apiKey } },
    // No probe but the first: nothing brings a CRN back in between.
    health: { interval: '1h' },
    routing: { affinity: false },
    ...extra,
  };
  const gateway = createGateway(settings);
  t.teardown(() => gateway.close());
  await gateway.ready();
  return {
    crns,
    gateway,
    settings,
    ask: (path = '/v1/chat/completions', content = 'hello') =>
      gateway.inject({ method: 'POST', path, body: { model: MODEL, messages: [{ role: 'user', content }] } }),
    standings: () => servers.map((url) => gateway.crns().find((crn) => crn.url === url)?.standing ?? 'unknown'),
    requests: () => crns.reduce((sum, crn) => sum + crn.requests, 0),
  };
}

for (const refusal of [
  { status: 400, body: '{"error":{"message":"temperature must be positive"}}' },
  { status: 404, body: '{"detail":"Not Found"}' },
  { status: 405, headers: { allow: 'GET' } },
  { status: 413 },
  { status: 415 },
  { status: 422, body: '{"detail":[]}' },
  { status: 501, body: '{"error":{"code":501,"message":"This server does not support embeddings."}}' },
]) {
  t.test(`a ${refusal.status} is passed on as it is, and five of them leave the servers up`, async (t) => {
    const { ask, requests, standings } = await open(t, [refusal, refusal]);
    for (let i = 1; i <= 5; i++) {
      const answer = await ask('/v1/embeddings');
      t.same([answer.status, answer.body.toString()], [refusal.status, refusal.body ?? GOOD_BODY]);
      if (refusal.headers !== undefined) t.match(answer.headers, refusal.headers);
      t.equal(requests(), i, 'no other CRN is asked');
    }
    t.same(standings(), ['up', 'up']);
  });
}

for (const status of [408, 425, 429]) {
  t.test(`a ${status} goes to the next CRN and leaves the server up`, async (t) => {
    const { ask, crns, standings } = await open(t, [{ status }, null]);
    for (let i = 0; i < 20; i++) t.equal((await ask()).status, 200);
    t.ok((crns[0]?.requests ?? 0) > 0);
    t.same(standings(), ['up', 'up']);
  });
}

t.test('when all CRNs are busy the last 429 passes with its Retry-After', async (t) => {
  const busy = { status: 429, headers: { 'retry-after': '17' }, body: '{"error":"busy"}' };
  const { ask, requests } = await open(t, [busy, busy]);
  const answer = await ask();
  t.same([answer.status, answer.body.toString(), answer.headers['retry-after']], [429, busy.body, '17']);
  t.equal(requests(), 2);
});

const UNKNOWN = { status: 404, body: '{"error":{"message":"The model `m` does not exist.","code":"model_not_found"}}' };

t.test('a CRN that does not know the model is passed over for it from then on, and stays up', async (t) => {
  const { ask, crns, standings } = await open(t, [UNKNOWN, null]);
  for (let i = 0; i < 40; i++) t.equal((await ask()).status, 200);
  t.equal(crns[0]?.requests, 1);
  t.same(standings(), ['up', 'up']);
});

t.test('when no CRN knows the model the last answer passes', async (t) => {
  const { ask, requests } = await open(t, [UNKNOWN, UNKNOWN]);
  for (let i = 1; i <= 3; i++) {
    const answer = await ask();
    t.same([answer.status, answer.body.toString(), requests()], [404, UNKNOWN.body, 2 * i]);
  }
});

for (const [status, code] of [
  [500, 'HR_ROUTE_ALL_FAILED'],
  [503, 'HR_ROUTE_ALL_FAILED'],
  [302, 'HR_ROUTE_ALL_FAILED'],
  [307, 'HR_ROUTE_ALL_FAILED'],
  [401, 'HR_UPSTREAM_CREDENTIALS'],
  [403, 'HR_UPSTREAM_CREDENTIALS'],
] as const) {
  const refusal = { status, headers: { location: 'http://10.0.0.1/internal' } };

  t.test(`a ${status} for our own credential goes to the next CRN, never to the client, and ejects`, async (t) => {
    const { ask, crns, standings } = await open(t, [refusal, null], { apiKey: 'own', ejection: { consecutive: 1 } });
    for (let i = 0; i < 60; i++) t.equal((await ask()).status, 200);
    t.equal(crns[0]?.requests, 1);
    t.same(standings()[1], 'up');
    t.not(standings()[0], 'up');
    const all = await open(t, [refusal, refusal], { apiKey: 'own' });
    const answer = await all.ask();
    t.equal(answer.headers['x-headrace-error'], code);
    t.notOk('location' in answer.headers);
  });
}

t.test("401 and 403 for a client's own key are the client's", async (t) => {
  for (const status of [401, 403]) {
    const { ask, requests, standings } = await open(t, [{ status }, { status }]);
    for (let i = 1; i <= 5; i++) t.same([(await ask()).status, requests()], [status, i]);
    t.same(standings(), ['up', 'up']);
  }
});

const STREAM = { 'content-type': 'text/event-stream' };

for (const [what, refusal] of [
  ['error JSON', { status: 200, body: '{"error":{"message":"out of memory"}}' }],
  ['HTML', { status: 200, headers: { 'content-type': 'text/html' }, body: '<html>It works!</html>' }],
  ['nothing', { status: 200, body: '' }],
  ['an error as its first event', { status: 200, headers: STREAM, body: 'data: {"error":{"message":"no"}}\n\n' }],
  ['only [DONE]', { status: 200, headers: STREAM, body: 'data: [DONE]\n\n' }],
  ['404 for the model', UNKNOWN],
  ['500', { status: 500 }],
] as const) {
  for (const affinity of [true, false]) {
    const where = affinity ? 'with' : 'without';

    t.test(`beside a CRN that answers ${what} all conversations are answered, ${where} affinity`, async (t) => {
      const ejection = { backoff: '1h', backoffMax: '1h' };
      const { ask, crns } = await open(t, [refusal, null], { routing: { affinity }, ejection });
      for (let at = 0; at < 40; at++) {
        const answer = await ask('/v1/chat/completions', `conversation ${at}`);
        t.same([answer.status, answer.body.toString()], [200, GOOD_BODY]);
      }
      const asked = crns[0]?.requests ?? 0;
      t.ok(asked > 0 && asked <= 5, `it was asked ${asked} times`);
    });
  }
}

t.test('new settings do not refill the retry budget', async (t) => {
  const { ask, gateway, requests, settings } = await open(t, [{ status: 500 }, { status: 500 }], {
    routing: { affinity: false, retryBudget: 0, retryBurst: 1 },
  });
  await ask();
  t.equal(requests(), 2);
  await ask();
  t.equal(requests(), 3, 'the only retry is spent');
  gateway.reload({ ...settings, ownedBy: 'somebody else' });
  await ask();
  t.equal(requests(), 4);
});
