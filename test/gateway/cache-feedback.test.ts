// Feedback over a whole gateway: what CRNs report of their caches, truly or not, becomes metrics, capacities and the worth of
// predictions; the affinity header and `POST /explain` show it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import t from 'tap';
import type { Overview } from '../../src/admin/overview.ts';
import type { RequestExplanation } from '../../src/api/explain.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import type { InjectResponse } from '../../src/ingress/inject.ts';
import { serving } from '../support/serving.ts';

const MODEL = 'm';
const TOKEN = 'owner';

interface Tap {
  teardown(run: () => unknown): unknown;
}

/** Cached tokens that a CRN reports of a prompt of so many; undefined: it does not say. */
type Report = (promptTokens: number) => number | undefined;

interface Scene {
  readonly gateway: Gateway;
  readonly admin: string;
  readonly urls: readonly string[];
  /** Answers of the CRNs from now on. */
  report: Report;
  readonly ask: (words: string, stream?: boolean) => Promise<InjectResponse>;
  readonly metric: (line: RegExp) => Promise<number>;
  readonly explain: (words: string, query?: string, token?: string) => Promise<Response>;
}

/** Prompts are counted with a token for each four characters. */
function serve(scene: { report: Report }, req: IncomingMessage, res: ServerResponse): void {
  const pieces: Buffer[] = [];
  req.on('data', (piece: Buffer) => pieces.push(piece));
  req.on('end', () => {
    if (req.method === 'GET') {
      res.writeHead(req.url === '/health' ? 200 : 404).end('{}');
      return;
    }
    const body = JSON.parse(Buffer.concat(pieces).toString()) as { messages: { content: string }[]; stream?: boolean };
    const promptTokens = Math.ceil((body.messages[0]?.content.length ?? 0) / 4);
    const cached = scene.report(promptTokens);
    const usage = {
      prompt_tokens: promptTokens,
      completion_tokens: 1,
      ...(cached !== undefined && { prompt_tokens_details: { cached_tokens: cached } }),
    };
    if (body.stream !== true) {
      res.setHeader('content-type', 'application/json');
      res.end(JSON.stringify({ choices: [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }], usage }));
      return;
    }
    res.setHeader('content-type', 'text/event-stream');
    res.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'hi' } }] })}\n\n`);
    res.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`);
    res.end(`data: ${JSON.stringify({ choices: [], usage })}\n\ndata: [DONE]\n\n`);
  });
}

async function open(t: Tap, count: number, more: SettingsInput = {}): Promise<Scene> {
  const crns: { report: Report } = { report: () => undefined };
  const urls: string[] = [];
  for (let at = 0; at < count; at++) {
    urls.push(await serving(t, (req, res) => serve(crns, req, res)));
  }
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    adminToken: TOKEN,
    threads: 0,
    log: { level: 'silent' },
    keys: { required: false },
    models: { [MODEL]: { servers: urls } },
    health: { interval: '1h' },
    ejection: { slowStart: 0 },
    serverTiming: true,
    ...more,
  });
  t.teardown(() => gateway.close());
  const { adminUrl } = await gateway.listen();
  await gateway.ready();
  const admin = adminUrl as string;
  const bodyOf = (words: string, stream = false): object => ({
    model: MODEL,
    stream,
    messages: [{ role: 'user', content: words }],
  });
  return Object.assign(crns, {
    gateway,
    admin,
    urls,
    ask: (words: string, stream = false) =>
      gateway.inject({ method: 'POST', path: '/v1/chat/completions', body: bodyOf(words, stream) }),
    metric: async (line: RegExp) => {
      const text = await (await fetch(`${admin}/metrics`)).text();
      const values = text.split('\n').filter((each) => line.test(each) && !each.startsWith('#'));
      return values.reduce((sum, each) => sum + Number(each.split(' ').at(-1)), 0);
    },
    explain: (words: string, query = '', token = TOKEN) =>
      fetch(`${admin}/explain${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify(bodyOf(words)),
      }),
  });
}

/** 8000 characters that no other prompt has. */
function promptOf(name: string): string {
  return Array.from({ length: 1000 }, (_, at) => `${name}${at}`.padEnd(8, '.').slice(0, 8)).join('');
}

const hitOf = (response: InjectResponse): number =>
  Number(/^hit=(\d\.\d\d) crn=http/.exec(response.headers['x-headrace-affinity'] ?? '')?.[1]);

t.test('the affinity header says the predicted share of the prompt and the CRN', async (t) => {
  const scene = await open(t, 3);
  const first = await scene.ask(promptOf('a'));
  t.equal(hitOf(first), 0);
  const again = await scene.ask(promptOf('a'));
  t.ok(hitOf(again) > 0.9 && hitOf(again) <= 1);
  const url = / crn=(.*)$/.exec(again.headers['x-headrace-affinity'] ?? '')?.[1] ?? '';
  t.ok(scene.urls.includes(url));
  const quiet = await open(t, 1, { serverTiming: false });
  t.equal((await quiet.ask(promptOf('a'))).headers['x-headrace-affinity'], undefined);
});

t.test('predicted and reported cached tokens are counted where a CRN reports them, of a sample', async (t) => {
  const scene = await open(t, 1);
  const prompt = promptOf('a');
  scene.report = (tokens) => tokens - 16;
  for (let i = 0; i < 17; i++) await scene.ask(prompt, i % 16 !== 0);
  t.equal(await scene.metric(/^headrace_locality_prompt_tokens_total/), 3 * 2000, 'the 1st, 9th and 17th');
  t.equal(await scene.metric(/^headrace_locality_cached_tokens_total.*reported/), 3 * 1984);
  const predicted = await scene.metric(/^headrace_locality_cached_tokens_total.*predicted/);
  t.ok(predicted > 2 * 1800 && predicted <= 2 * 2000, `${predicted}: the first was new`);
  const hits = await scene.metric(/^headrace_locality_prompt_bytes_total.*hit/);
  const misses = await scene.metric(/^headrace_locality_prompt_bytes_total.*miss/);
  t.ok(hits > 16 * 7500 && hits <= 16 * 8100, `${hits}: of every request`);
  t.ok(misses >= 8000 && misses < 8000 + 17 * 600, `${misses}`);
  t.equal(await scene.metric(/^headrace_locality_bytes_per_token/), 4.0035, 'the role counts, too');
  t.equal(await scene.metric(/^headrace_locality_hit_factor/), 1);
  const { crns } = (await (await fetch(`${scene.admin}/overview`)).json()) as Overview;
  const [crn] = crns;
  t.equal(crn?.reportedHit, 0.992);
  t.ok((crn?.predictedHit ?? 0) > 0.9 && (crn?.predictedHit ?? 0) < 0.95, `${crn?.predictedHit}`);
  t.match(crn?.models, [{ capacityBytes: Number }]);
});

t.test('a CRN that does not report cached tokens is not counted', async (t) => {
  const scene = await open(t, 1);
  for (let i = 0; i < 20; i++) await scene.ask(promptOf('a'));
  t.equal(await scene.metric(/^headrace_locality_prompt_tokens_total/), 0);
  t.equal((await explained(scene, promptOf('a'))).crns[0]?.hitFactor, 1);
});

async function explained(scene: Scene, words: string, query = ''): Promise<RequestExplanation> {
  const response = await scene.explain(words, query);
  return (await response.json()) as RequestExplanation;
}

t.test('a CRN that reports 0 again and again loses its advantage, and regains it with a hit', async (t) => {
  const scene = await open(t, 1, { routing: { commonShare: 0, prior: 0 } });
  const prompt = promptOf('a');
  scene.report = () => 0;
  for (let i = 0; i < 8 * 40; i++) await scene.ask(prompt);
  const [denied] = (await explained(scene, prompt)).crns;
  t.match(denied, { hitFactor: 0 });
  t.ok((denied?.matchedBytes ?? 0) > 7000, 'the index still knows what was sent');
  t.ok((denied?.miss ?? 0) >= 2 * 8000, 'but all of it counts as missing');
  scene.report = (tokens) => tokens - 16;
  for (let i = 0; i < 8; i++) await scene.ask(prompt);
  t.match((await explained(scene, prompt)).crns[0], { hitFactor: 1 });
});

t.test('usage that lies harms nothing', async (t) => {
  const scene = await open(t, 2);
  for (const cached of [-1, 1e12, 0.5, NaN, 99_999_999]) {
    scene.report = () => cached;
    for (let i = 0; i < 16; i++) t.equal((await scene.ask(promptOf(`a${i}`))).status, 200);
  }
  const reported = await scene.metric(/^headrace_locality_cached_tokens_total.*reported/);
  t.ok(reported <= (await scene.metric(/^headrace_locality_prompt_tokens_total/)), `${reported}`);
});

t.test('an explanation says where a request would go and changes nothing', async (t) => {
  const scene = await open(t, 3);
  const prompt = promptOf('a');
  const served = (await scene.ask(prompt)).headers['x-headrace-affinity']?.split('crn=')[1];
  const before = await scene.metric(/^headrace_(requests|routing|locality|upstream)\w*_total/);
  const explanations: RequestExplanation[] = [];
  for (let i = 0; i < 20; i++)
    explanations.push(await explained(scene, prompt), await explained(scene, promptOf(`b${i}`)));
  t.equal(await scene.metric(/^headrace_(requests|routing|locality|upstream)\w*_total/), before);
  const known = explanations.filter((_, at) => at % 2 === 0);
  t.ok(known.every(({ chosen, reason }) => chosen === served && reason === 'cache'));
  const [first] = known;
  t.match(first, { model: MODEL, dialect: 'chat-completions', session: false, cookie: null });
  t.equal(first?.crns.length, 3);
  for (const { backlog, cost, failures, inFlight, miss, slowness, slowStart, standing } of first?.crns ?? []) {
    t.equal(standing, 'up');
    t.ok(Math.abs((backlog + inFlight + miss) * slowness * failures * slowStart - cost) < 1e-6 * cost);
  }
  const costs = first?.crns.toSorted((a, b) => a.cost - b.cost) ?? [];
  t.equal(costs[0]?.crn, served, 'the least cost');
  for (const { crns } of explanations.filter((_, at) => at % 2 === 1)) {
    t.ok(
      crns.every(({ matchedBlocks }) => matchedBlocks === 0),
      'what was explained was not entered',
    );
  }
});

t.test('an explanation takes hints of a request: cookie, session, path', async (t) => {
  const scene = await open(t, 3);
  const [, second] = scene.urls as [string, string, string];
  const post = async (headers: Record<string, string>): Promise<RequestExplanation> => {
    const body = JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hello' }] });
    const all = { authorization: `Bearer ${TOKEN}`, ...headers };
    return (await (
      await fetch(`${scene.admin}/explain`, { method: 'POST', headers: all, body })
    ).json()) as RequestExplanation;
  };
  const cookie = `preferred_instances=${encodeURIComponent(JSON.stringify({ [MODEL]: second }))}`;
  t.match(await post({ cookie }), { chosen: second, reason: 'cookie', cookie: second });
  const session = await post({ 'x-session-id': 'abc' });
  t.match(session, { session: true, reason: 'prior' });
  t.equal(session.crns.find(({ favourite }) => favourite)?.crn, session.chosen);
  t.match(await explained(scene, 'hello', '?path=/v1/unknown'), { dialect: null });
});

t.test('an explanation is for those with a token, and is bounded', async (t) => {
  const scene = await open(t, 1, {
    limits: { bodyBytes: 65_536 },
    adminTokens: [
      { name: 'v', role: 'viewer', sha256: 'd35ca5051b82ffc326a3b0b6574a9a3161dee16b9478a199ee39cd803ce5b799' },
    ],
  });
  t.equal((await scene.explain('hello', '', 'wrong')).status, 401);
  t.equal((await scene.explain('hello', '', 'viewer')).status, 200, 'a viewer may');
  t.equal((await scene.explain('x'.repeat(70_000))).status, 413);
  t.equal((await scene.explain('hello', '?path=chat')).status, 422);
  t.equal((await fetch(`${scene.admin}/explain`)).status, 405);
  const post = (body: string): Promise<Response> =>
    fetch(`${scene.admin}/explain`, { method: 'POST', headers: { authorization: `Bearer ${TOKEN}` }, body });
  t.equal((await post('{"model":"other"}')).status, 404);
  t.equal((await post('not JSON')).status, 422);
  const closed = await open(t, 1, { adminToken: null });
  t.equal((await closed.explain('hello')).status, 403);
});

t.test('with threads, one of them explains what they share', async (t) => {
  const scene = await open(t, 2, { threads: 1 });
  const { reason, crns } = await explained(scene, promptOf('a'));
  t.equal(crns.length, 2);
  t.equal(reason, 'prior');
});
