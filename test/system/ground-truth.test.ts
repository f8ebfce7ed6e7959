// Sends many mixed requests at once and compares the ledger with what the hosts counted for each, to the pico-USD. The number of
// requests is small by default; HEADRACE_LEDGER_REQUESTS=100000 raises it.

import t from 'tap';
import { bearer, endow, priceOf, startLedgerFixture, USD, usageOf } from '../support/ledger-fixture.ts';
import { MODEL, until } from '../support/system.ts';

const REQUESTS = Number(process.env['HEADRACE_LEDGER_REQUESTS'] ?? 3000);
const CLIENTS = 24;
const PATHS = ['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses', '/completions'] as const;
const TEXTS = Array.from({ length: 6 }, (_, at) => `question ${at} ${'about the water '.repeat(at)}`);
const LENGTHS = [1, 3, 8];
/** What is assumed of a model whose answers were all too short to learn from. */
const BYTES_PER_TOKEN = 4;

/** Bytes of the texts in a stream of completions, as they stand in its JSON. */
function textBytes(stream: string): number {
  let bytes = 0;
  for (const [, text = ''] of stream.matchAll(/"text":"((?:[^"\\]|\\.)*)"/g)) bytes += Buffer.byteLength(text);
  return bytes;
}

/** Events before a stream breaks or its client leaves. */
const CUT = 2;

/** What kinds of requests there are, by their number. */
const KINDS = ['json', 'stream', 'json', 'stream', 'leave', 'json', 'break', 'stream', 'fail', 'search'] as const;

interface Tally {
  requests: number;
  estimated: number;
  amount: bigint;
}

function bodyOf(path: string, text: string, length: number, stream: boolean): object {
  const base = { model: MODEL, stream };
  const messages = [{ role: 'user', content: text }];
  if (path === '/v1/responses') return { ...base, input: text, max_output_tokens: length };
  if (path === '/completions') return { ...base, prompt: text, n_predict: length };
  if (path === '/v1/completions') return { ...base, prompt: text, max_tokens: length };
  return { ...base, messages, max_tokens: length };
}

/** Bytes of the conversation as it stands in the body: what an estimate rests on. */
function conversationBytes(path: string, body: object): number {
  const { input, messages, prompt } = body as { input?: unknown; messages?: unknown; prompt?: unknown };
  const value = path === '/v1/responses' ? input : (messages ?? prompt);
  return Buffer.byteLength(JSON.stringify(value));
}

interface Counted {
  readonly usage?: Record<string, number>;
  readonly tokens_evaluated?: number;
  readonly tokens_predicted?: number;
}

/** Counts of a whole answer of a host. */
function countsOf(answer: Counted): { prompt: number; completion: number } {
  const { usage = {} } = answer;
  return {
    prompt: usage['prompt_tokens'] ?? usage['input_tokens'] ?? answer.tokens_evaluated ?? NaN,
    completion: usage['completion_tokens'] ?? usage['output_tokens'] ?? answer.tokens_predicted ?? NaN,
  };
}

t.test(`after ${REQUESTS} mixed requests the ledger equals what the hosts counted`, { timeout: 900_000 }, async (t) => {
  const fixture = await startLedgerFixture(t, {
    hosts: [{ interTokenMs: 0 }, { interTokenMs: 0 }],
    settings: {
      threads: 1,
      search: {
        engines: {
          engine_a: { kind: 'local', path: 'demo/documents' },
          engine_b: { kind: 'worker', url: 'http://127.0.0.1:9' },
        },
        pricing: { engine_a: '0.005', engine_b: '0.004' },
      },
    },
  });
  await endow(fixture.ledger, 1000n * USD);
  const post = (url: string, path: string, body: object, more: object = {}, signal?: AbortSignal): Promise<Response> =>
    fetch(url + path, {
      method: 'POST',
      headers: { ...bearer(), 'content-type': 'application/json', ...more },
      body: JSON.stringify(body),
      ...(signal !== undefined && { signal }),
    });
  await until('the key is known', async () => {
    return (await fetch(`${fixture.url}/svc/auth/check`, { headers: bearer() })).status === 200;
  });

  const truths = new Map<string, bigint>();
  for (const path of PATHS) {
    for (const text of TEXTS) {
      for (const length of LENGTHS) {
        const direct = path === '/completions' ? '/completion' : path;
        const answer = await post(fixture.host.url, direct, bodyOf(path, text, length, false));
        const { completion, prompt } = countsOf((await answer.json()) as Counted);
        truths.set(`${path} ${text} ${length}`, priceOf(prompt, 0, completion));
      }
    }
  }

  const expected: Tally = { requests: 0, estimated: 0, amount: 0n };
  const count = (amount: bigint, estimated = 0): void => {
    expected.requests++;
    expected.estimated += estimated;
    expected.amount += amount;
  };
  const run = async (index: number): Promise<void> => {
    const kind = KINDS[index % KINDS.length] as (typeof KINDS)[number];
    const path = PATHS[Math.floor(index / KINDS.length) % PATHS.length] as string;
    const text = TEXTS[Math.floor(index / 7) % TEXTS.length] as string;
    const length = LENGTHS[Math.floor(index / 3) % LENGTHS.length] as number;
    if (kind === 'search') {
      const body = { query: `weir ${index}`, engines: ['engine_a', 'engine_b'] };
      const response = await post(fixture.url, '/search', body);
      await response.text();
      if (response.status === 200) count(5_000_000_000n);
      return;
    }
    if (kind === 'fail') {
      const response = await post(fixture.url, path, bodyOf(path, text, length, false), {
        'x-headrace-fault': 'status=500',
      });
      await response.text();
      t.equal(response.status, 503);
      return;
    }
    if (kind === 'json' || kind === 'stream') {
      const response = await post(fixture.url, path, bodyOf(path, text, length, kind === 'stream'));
      await response.text();
      if (response.status !== 200) t.fail(`${path} ${response.status}`);
      count(truths.get(`${path} ${text} ${length}`) as bigint);
      return;
    }
    const body = bodyOf('/v1/completions', text, 50, true);
    const words = kind === 'leave' ? `stall-after=${CUT}` : `truncate-after=${CUT}`;
    const leaving = new AbortController();
    const response = await post(fixture.url, '/v1/completions', body, { 'x-headrace-fault': words }, leaving.signal);
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let seen = '';
    while (seen.split('\n\n').length <= CUT) seen += Buffer.from((await reader.read()).value ?? []).toString();
    if (kind === 'leave') leaving.abort();
    else while (!(await reader.read()).done);
    const prompt = Math.ceil(conversationBytes('/v1/completions', body) / BYTES_PER_TOKEN);
    count(priceOf(prompt, 0, Math.ceil(textBytes(seen) / BYTES_PER_TOKEN)), 1);
  };

  let next = 0;
  const client = async (): Promise<void> => {
    while (next < REQUESTS) await run(next++);
  };
  await Promise.all(Array.from({ length: CLIENTS }, client));
  const row = await usageOf(fixture.ledger, expected.requests);
  t.equal(row.amount, expected.amount);
  t.equal(row.estimated, BigInt(expected.estimated));
  await fixture.gateway.close();
  t.match(await fixture.ledger.account('acme'), { balance: 1000n * USD - expected.amount, held: 0n });
  t.match(await fixture.ledger.audit(), { sound: true, sum: 0n });
});
