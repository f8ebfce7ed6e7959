// Tokens of random requests of all dialects, streams and whole answers, to CRNs that are honest, lie, fail or break off, with clients that
// leave, hedges, continuations, translations and background responses: metrics, request log and ledger say the same, and what honest CRNs
// have delivered whole is the truth.

import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { LoggedRequest } from '../../src/telemetry/request-log.ts';
import { bearer, endow, openTestLedger, PRICING, USD } from '../support/ledger-fixture.ts';
import { Random } from '../support/random.ts';
import {
  type ApiPath,
  BREAKS,
  type CrnScript,
  FAILURES,
  LIES,
  ScriptedCrns,
  type Step,
} from '../support/scripted-crn.ts';
import { until } from '../support/system.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const PATHS: readonly ApiPath[] = [
  '/v1/chat/completions',
  '/v1/completions',
  '/v1/responses',
  '/v1/messages',
  '/completions',
];
const KINDS = ['honest', 'odd'] as const;
const REQUESTS = 200;
const CLIENTS = 12;

interface Ask {
  readonly id: string;
  readonly kind: (typeof KINDS)[number];
  readonly path: ApiPath;
  readonly body: Readonly<Record<string, unknown>>;
  readonly script: CrnScript;
  /** Bytes of the answer after which the client leaves; Infinity: never. */
  readonly leavesAt: number;
}

function conversation(path: ApiPath, text: string): object {
  if (path === '/v1/responses') return { input: text };
  if (path === '/v1/completions' || path === '/completions') return { prompt: text };
  return { messages: [{ role: 'user', content: text }] };
}

function randomAsk(random: Random, id: string, stores: boolean): Ask {
  const kind = random.pick(KINDS);
  const path = random.pick(PATHS);
  const steps: Step[] = [];
  if (random.chance(0.3)) steps.push(random.pick(FAILURES));
  steps.push(kind === 'honest' ? 'honest' : random.pick<Step>([...LIES, ...BREAKS, 'honest']));
  const isBackground = stores && path === '/v1/responses' && random.chance(0.3);
  const body = {
    model: kind,
    stream: !isBackground && random.chance(0.6),
    ...conversation(path, 'x'.repeat(random.below(800))),
    ...(isBackground && { background: true }),
    ...(path === '/v1/messages' && { max_tokens: 400 }),
    ...(path === '/v1/chat/completions' && random.chance(0.5) && { stream_options: { include_usage: true } }),
  };
  const prompt = 1 + random.below(Math.floor(JSON.stringify(body).length / 2));
  const script: CrnScript = { steps, words: random.below(300) + 1, prompt, cached: random.below(prompt) };
  return {
    id,
    kind,
    path,
    body,
    script,
    leavesAt: kind === 'odd' && random.chance(0.3) ? random.below(4000) : Infinity,
  };
}

async function send(url: string, { body, id, leavesAt, path, script }: Ask): Promise<number> {
  const leaving = new AbortController();
  const headers = { ...bearer('hr_many'), 'content-type': 'application/json' };
  try {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { ...headers, 'x-request-id': id, 'x-script': JSON.stringify(script) },
      body: JSON.stringify(body),
      signal: leaving.signal,
    });
    let bytes = 0;
    let text = '';
    const decoder = new TextDecoder();
    for await (const piece of response.body as ReadableStream<Uint8Array>) {
      bytes += piece.byteLength;
      text += decoder.decode(piece, { stream: true });
      if (bytes < leavesAt) continue;
      leaving.abort();
      return 0;
    }
    if (body['background'] !== true || response.status !== 200) return response.status;
    const { id: name } = JSON.parse(text) as { id: string };
    let state = '';
    await until('the response has ended', async () => {
      state = ((await (await fetch(`${url}/v1/responses/${name}`, { headers })).json()) as { status: string }).status;
      return state !== 'queued' && state !== 'in_progress';
    });
    return state === 'completed' ? 200 : 0;
  } catch {
    return 0;
  }
}

type Counts = readonly [input: number, cached: number, output: number];

function sumOf(all: readonly Counts[]): Counts {
  return all.reduce<Counts>((sum, each) => [sum[0] + each[0], sum[1] + each[1], sum[2] + each[2]], [0, 0, 0]);
}

/** Requests that the metrics have counted. */
function requestsIn(metrics: string): number {
  const counted = metrics.matchAll(/^headrace_requests_total\{(?!endpoint="\/health").* (\d+)$/gm);
  return [...counted].reduce((sum, [, number]) => sum + Number(number), 0);
}

async function logged(adminUrl: string): Promise<LoggedRequest[]> {
  const rows: LoggedRequest[] = [];
  let before = '';
  for (;;) {
    const page = await fetch(`${adminUrl}/requests/log?limit=500${before}`);
    const { data, next } = (await page.json()) as { data: LoggedRequest[]; next: string | null };
    rows.push(...data);
    if (next === null) return rows;
    before = `&before=${next}`;
  }
}

async function play(t: Test, threads: number, stores: boolean): Promise<void> {
  const seed = randomInt(2 ** 32);
  t.comment(`seed ${seed}`);
  const random = new Random(seed);
  const crns = await ScriptedCrns.start(t, 4, 2);
  const model = { servers: crns.urls, pricing: PRICING, context_length: 4000 };
  const store = `sqlite:${join(temporaryFolder(t), 'ledger.db')}`;
  const ledger = stores ? await openTestLedger(t, store) : null;
  if (ledger !== null) await endow(ledger, 1000n * USD, {}, 'many');
  const gateway = createGateway({
    ...{ listen: '127.0.0.1:0', admin: '127.0.0.1:0', threads, log: { level: 'silent' } },
    ...{ store: stores ? store : null, keys: { required: stores }, models: { honest: model, odd: model } },
    ejection: { consecutive: 1_000_000, errorRate: 1, minRequests: 1_000_000 },
    routing: { retryBudget: 1, retryBurst: 100_000, hedge: true, hedgeShare: 1, continue: 'prefill' },
    timeouts: { firstByte: '500ms', idle: '500ms' },
    streamKeepAlive: '200ms',
    credit: { flush: '5ms', assumedTokens: 500 },
  });
  let isOpen = true;
  t.teardown(async () => {
    if (isOpen) await gateway.close();
  });
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  const check = (): Promise<Response> => fetch(`${url}/svc/auth/check`, { headers: bearer('hr_many') });
  if (stores) await until('the key is known', async () => (await check()).status === 200);
  const asks = Array.from({ length: REQUESTS }, (_, at) => randomAsk(random, `r-${at}`, stores));
  const statuses = new Map<string, number>();
  const left = asks.values();
  const client = async (): Promise<void> => {
    for (const ask of left) statuses.set(ask.id, await send(url, ask));
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  await until('nothing is under way', async () => {
    const { data } = (await (await fetch(`${adminUrl}/requests/live`)).json()) as { data: unknown[] };
    return data.length === 0;
  });
  let rows: LoggedRequest[] = [];
  let text = '';
  // The log holds back what has ended in the last milliseconds: the clocks of threads differ.
  await until('the log has all requests', async () => {
    rows = await logged(adminUrl as string);
    text = await (await fetch(`${adminUrl}/metrics`)).text();
    return rows.length === requestsIn(text);
  });
  isOpen = false;
  await gateway.close();
  for (const kind of KINDS) {
    const inLog = sumOf(
      rows
        .filter((row) => row.model === kind)
        .map(({ cachedTokens, inputTokens, outputTokens }) => [inputTokens ?? 0, cachedTokens ?? 0, outputTokens ?? 0]),
    );
    const inMetrics = ['input', 'cached', 'output'].map((type) =>
      Number(
        new RegExp(`^headrace_tokens_total\\{model="${kind}",type="${type}"\\} (\\S+)$`, 'm').exec(text)?.[1] ?? 0,
      ),
    );
    t.same(inMetrics, inLog, `${kind}: metrics and request log`);
    if (ledger !== null) {
      const usage = (await ledger.usage({ account: 'many', by: ['model'] })).find((row) => row.model === kind);
      const { cachedTokens = 0n, inputTokens = 0n, outputTokens = 0n } = usage ?? {};
      t.same([inputTokens, cachedTokens, outputTokens].map(Number), inLog, `${kind}: ledger and request log`);
    }
  }
  let compared = 0;
  for (const { body, id, kind, path } of asks) {
    const truth = crns.truths.get(id);
    if (kind !== 'honest' || truth === undefined || statuses.get(id) !== 200) continue;
    // An open gateway does not ask for counts that the client did not ask for.
    const isAsked = stores || body['stream'] !== true || !path.startsWith('/v1/c') || 'stream_options' in body;
    if (!isAsked) continue;
    const row = rows.find(({ endpoint, requestId }) => requestId === id && !endpoint.includes('{'));
    compared++;
    t.same(
      [row?.inputTokens, row?.cachedTokens, row?.outputTokens],
      [truth.prompt, truth.cached, truth.completion],
      `${id} ${path} ${JSON.stringify(body).slice(0, 80)}`,
    );
  }
  t.ok(compared > REQUESTS / 5, `${compared} requests were compared with the truth`);
  t.ok(crns.unknown > 0, 'requests were translated');
  const inBackground = asks.filter(({ body, id }) => body['background'] === true && statuses.get(id) === 200);
  t.equal(inBackground.length > 0, stores, `${inBackground.length} responses ran in the background`);
}

t.test('an open gateway', (t) => play(t, 0, false));
t.test('a gateway with accounts and two threads', (t) => play(t, 2, true));
