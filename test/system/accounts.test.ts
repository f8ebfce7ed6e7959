// Credit over the whole path of a request, with real sockets and a real ledger: held before the work, settled after it, released
// on failure.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import {
  bearer,
  endow,
  type LedgerFixture,
  openTestLedger,
  priceOf,
  startLedgerFixture,
  USD,
  usageOf,
} from '../support/ledger-fixture.ts';
import { postgresDatabase } from '../support/postgres.ts';
import { chat, MODEL, until } from '../support/system.ts';

interface ChatUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
}

const KEYED = { headers: bearer() };

/** Tokens that are charged for the text in these chat events when the CRN has not counted them. */
function textTokens(events: string): number {
  const texts = [...events.matchAll(/"content":"((?:[^"\\]|\\.)*)"/g)].map(([, text]) =>
    Buffer.byteLength(text as string),
  );
  return Math.ceil(texts.reduce((sum, bytes) => sum + bytes, 0) / 4);
}

/** Asks until the key is known. */
async function known(fixture: LedgerFixture, key?: string): Promise<void> {
  const check = (): Promise<Response> => fetch(`${fixture.url}/svc/auth/check`, { headers: bearer(key) });
  await until('the key is known', async () => (await check()).status === 200);
}

async function openAccount(
  t: Parameters<typeof startLedgerFixture>[0],
  usd: bigint,
  more = {},
): Promise<LedgerFixture> {
  const fixture = await startLedgerFixture(t, more);
  await endow(fixture.ledger, usd);
  await known(fixture);
  return fixture;
}

for (const threads of [0, 2]) {
  t.test(
    `${threads} threads: a request without credit is refused; a charge follows the token counts of the CRN`,
    async (t) => {
      const fixture = await openAccount(t, 0n, { settings: { threads } });
      const refused = await chat(fixture.url, KEYED);
      t.equal(refused.status, 402);
      t.equal(refused.headers.get('x-headrace-error'), 'HR_CREDIT_SHORT');
      t.match(await refused.json(), { detail: /^Not enough credit: this may cost 0\.0000\d+ USD, 0 USD are left$/ });
      t.equal(fixture.host.requests.filter(({ path }) => path.includes('chat')).length, 0, 'nothing was asked');

      await fixture.ledger.grant({ id: 'first', account: 'acme', amount: USD });
      const answered = await chat(fixture.url, KEYED);
      t.equal(answered.status, 200);
      const { usage } = (await answered.json()) as { usage: ChatUsage };
      const row = await usageOf(fixture.ledger, 1);
      const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
      t.equal(row.amount, priceOf(usage.prompt_tokens, cached, usage.completion_tokens));
      t.match(row, { inputTokens: BigInt(usage.prompt_tokens), outputTokens: 8n, estimated: 0n });
      await fixture.gateway.close();
      t.match(await fixture.ledger.account('acme'), { balance: USD - row.amount, held: 0n }, 'the lease is given back');
      t.match(await fixture.ledger.audit(), { sound: true });
    },
  );
}

t.test('a refusal for want of credit says the least that the request costs, over all its choices', async (t) => {
  const credit = { assumedTokens: 1000 };
  const fixture = await openAccount(t, USD / 1_000_000n, { settings: { credit }, model: { context_length: 500 } });
  const asking = async (body: object): Promise<string> => {
    const response = await fetch(`${fixture.url}/v1/completions`, {
      method: 'POST',
      headers: { ...bearer(), 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, ...body }),
    });
    t.equal(response.headers.get('x-headrace-error'), 'HR_CREDIT_SHORT');
    return ((await response.json()) as { detail: string }).detail;
  };
  // 16 tokens for each choice at 1.5 millionths of a USD, and two of the prompt at a quarter of one.
  t.match(await asking({ prompt: '123456', max_tokens: 1e15 }), 'may cost 0.000025 USD');
  t.match(await asking({ prompt: '123456', max_tokens: 1e15, n: 1e15 }), 'may cost 9007.199255 USD');
  t.match(await asking({ prompt: '123456', max_tokens: 1000, n: 4 }), 'may cost 0.000097 USD');
  t.match(await asking({ prompt: '123456', n: 4 }), 'may cost 0.000097 USD');
  t.match(await asking({ prompt: '123456', max_tokens: 2 }), 'may cost 0.000004 USD');
  t.match(await asking({ prompt: 'x'.repeat(4000), max_tokens: 1000 }), 'may cost 0.000149 USD');
});

t.test('a stream is charged by its usage event, which is removed if the client did not ask for it', async (t) => {
  const fixture = await openAccount(t, USD);
  const streamed = await chat(fixture.url, { ...KEYED, stream: true, tokens: 12 });
  const text = await streamed.text();
  t.notMatch(text, '"choices":[]');
  t.match(text, /data: \[DONE\]\n\n$/);
  t.match(await usageOf(fixture.ledger, 1), { outputTokens: 12n, estimated: 0n });
  const asked = await fetch(`${fixture.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...bearer(), 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ model: MODEL, stream: true, max_tokens: 3, messages: [{ role: 'user', content: 'x' }] },
      stream_options: { include_usage: true },
    }),
  });
  t.match(await asked.text(), '"choices":[],"usage":{', 'who asks gets it');
  t.match(await usageOf(fixture.ledger, 2), { outputTokens: 15n });
});

t.test('a client that disconnects is charged an estimate of what it received, marked as estimated', async (t) => {
  const fixture = await openAccount(t, USD);
  const leaving = new AbortController();
  const response = await chat(fixture.url, {
    ...{ stream: true, tokens: 100, text: 'x'.repeat(40), signal: leaving.signal },
    headers: { ...bearer(), 'x-headrace-fault': 'stall-after=5' },
  });
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  let seen = '';
  while (seen.split('\n\n').length <= 5) seen += Buffer.from((await reader.read()).value ?? []).toString();
  leaving.abort();
  const messages = Buffer.byteLength(JSON.stringify([{ role: 'user', content: 'x'.repeat(40) }]));
  const row = await usageOf(fixture.ledger, 1);
  const tokens = textTokens(seen);
  t.match(row, { outputTokens: BigInt(tokens), estimated: 1n, inputTokens: BigInt(Math.ceil(messages / 4)) });
  t.equal(row.amount, priceOf(Number(row.inputTokens), 0, tokens));
});

t.test('a broken stream is charged for what was delivered; failed and refused requests cost nothing', async (t) => {
  const fixture = await openAccount(t, USD);
  const fault = (words: string, stream: boolean): Promise<string> =>
    chat(fixture.url, { stream, tokens: 50, headers: { ...bearer(), 'x-headrace-fault': words } }).then((r) =>
      r.text(),
    );
  const broken = await fault('truncate-after=4', true);
  t.match(broken, 'HR_STREAM_');
  const tokens = textTokens(broken);
  t.ok(tokens > 1);
  t.match(await usageOf(fixture.ledger, 1), { outputTokens: BigInt(tokens), estimated: 1n });
  await fault('status=500', false);
  await fault('status=400', false);
  await fault('end-after=0', true);
  await fault('reset', true);
  await chat(fixture.url, KEYED).then((response) => response.text());
  const row = await usageOf(fixture.ledger, 2);
  t.equal(row.outputTokens, BigInt(tokens + 8), 'only the last request was added');
  await fixture.gateway.close();
  t.match(await fixture.ledger.account('acme'), { held: 0n });
});

t.test('an answer of 200 that is none costs nothing', async (t) => {
  const json = { 'content-type': 'application/json' };
  const events = { 'content-type': 'text/event-stream' };
  const usage = { prompt_tokens: 54, completion_tokens: 23 };
  const good = JSON.stringify({ choices: [{ index: 0, message: { content: 'water' }, finish_reason: 'stop' }], usage });
  const answers: [string, Record<string, string>, string][] = [
    ['HTML', { 'content-type': 'text/html' }, '<html><body>It works!</body></html>'],
    ['no bytes', json, ''],
    ['error JSON', json, JSON.stringify({ error: { message: 'out of memory' }, usage })],
    ['cut JSON', json, good.slice(0, -20)],
    ['only [DONE]', events, 'data: [DONE]\n\n'],
    ['an error event', events, `data: ${JSON.stringify({ error: { message: 'out of memory' } })}\n\ndata: [DONE]\n\n`],
    ['a role alone', events, 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'],
  ];
  const crn = createServer((request, response) => {
    request.resume();
    const [, fields = json, body = good] = answers.find(([title]) => title === request.headers['x-title']) ?? [];
    response.writeHead(200, fields).end(body);
  }).listen(0, '127.0.0.1');
  await once(crn, 'listening');
  t.teardown(() => crn.close());
  const url = `http://127.0.0.1:${(crn.address() as AddressInfo).port}`;
  const ejection = { consecutive: 1000, errorRate: 1, minRequests: 1000 };
  const fixture = await openAccount(t, USD, { model: { servers: [url] }, settings: { ejection } });
  for (const [title] of answers) {
    const failed = await chat(fixture.url, { headers: { ...bearer(), 'x-title': title }, stream: true });
    t.equal(failed.headers.get('x-headrace-error'), 'HR_ROUTE_ALL_FAILED', title);
    await failed.text();
  }
  t.equal(await chat(fixture.url, { ...KEYED, tokens: 23 }).then((response) => response.text()), good);
  const row = await usageOf(fixture.ledger, 1);
  t.match(row, { inputTokens: 54n, outputTokens: 23n, estimated: 0n });
  await fixture.gateway.close();
  t.match(await fixture.ledger.account('acme'), { balance: USD - row.amount, held: 0n });
});

t.test(
  'a lie about usage costs no more than the limit of the request, and a prepaid balance stays above zero',
  async (t) => {
    const asked: Record<string, unknown>[] = [];
    const crn = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request
        .on('data', (piece: Buffer) => pieces.push(piece))
        .on('end', () => {
          if (pieces.length > 0) asked.push(JSON.parse(Buffer.concat(pieces).toString()) as Record<string, unknown>);
          const choices = [{ index: 0, message: { content: 'hi' }, finish_reason: 'stop' }];
          const usage = { prompt_tokens: 99_999_999, completion_tokens: 99_999_999 };
          response.setHeader('content-type', 'application/json');
          response.end(JSON.stringify({ choices, usage }));
        });
    }).listen(0, '127.0.0.1');
    await once(crn, 'listening');
    t.teardown(() => crn.close());
    const url = `http://127.0.0.1:${(crn.address() as AddressInfo).port}`;
    const fixture = await openAccount(t, USD / 1000n, { model: { servers: [url] } });
    const limited = await chat(fixture.url, { ...KEYED, tokens: 10 });
    t.equal(limited.status, 200);
    t.equal(limited.headers.get('x-headrace-output-limit'), null);
    t.match(await usageOf(fixture.ledger, 1), { outputTokens: 10n });
    // Without a limit, all the credit that is left covers a part of the longest answer.
    const response = await fetch(`${fixture.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { ...bearer(), 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hi' }] }),
    });
    t.equal(response.status, 200);
    const { max_tokens: limit } = asked.at(-1) as { max_tokens: number };
    t.ok(limit > 0 && limit < 1000, `a limit of ${limit} was written`);
    t.equal(response.headers.get('x-headrace-output-limit'), String(limit));
    await usageOf(fixture.ledger, 2);
    // The same without a dialect: Ollama's own path gets a limit, another one does not, and neither takes what is not there.
    for (const path of ['/api/generate', '/other']) {
      const { status } = await fetch(fixture.url + path, {
        method: 'POST',
        headers: { ...bearer(), 'content-type': 'application/json' },
        body: JSON.stringify({ model: MODEL, prompt: 'hi' }),
      });
      t.ok(status === 200 || status === 402, path);
      if (path !== '/api/generate' || status !== 200) continue;
      const { options } = asked.at(-1) as { options: { num_predict: number } };
      t.ok(options.num_predict > 0 && options.num_predict < 1000, `a limit of ${options.num_predict} was written`);
    }
    await fixture.gateway.close();
    const balance = (await fixture.ledger.account('acme'))?.balance ?? -1n;
    t.ok(balance >= 0n, `${balance} pico-USD are left`);
  },
);

t.test('every dialect is charged, in JSON and in streams', async (t) => {
  const fixture = await openAccount(t, USD);
  const ask = (path: string, body: object): Promise<Response> =>
    fetch(fixture.url + path, {
      method: 'POST',
      headers: { ...bearer(), 'content-type': 'application/json' },
      body: JSON.stringify({ model: MODEL, ...body }),
    });
  const words = [{ role: 'user', content: 'where to' }];
  let requests = 0;
  for (const stream of [false, true]) {
    for (const [path, body] of [
      ['/v1/chat/completions', { messages: words, max_tokens: 5 }],
      ['/v1/completions', { prompt: 'where to', max_tokens: 5 }],
      ['/v1/messages', { messages: words, max_tokens: 5 }],
      ['/v1/responses', { input: 'where to', max_output_tokens: 5 }],
      ['/completions', { prompt: 'where to', n_predict: 5 }],
    ] as const) {
      const before = requests === 0 ? 0n : (await usageOf(fixture.ledger, requests)).outputTokens;
      const answered = await ask(path, { ...body, stream });
      t.equal(answered.status, 200, path);
      await answered.text();
      const row = await usageOf(fixture.ledger, ++requests);
      t.equal(row.outputTokens - before, 5n, `${path} ${stream ? 'stream' : 'JSON'}`);
      t.equal(row.estimated, 0n, path);
    }
  }
  await ask('/v1/embeddings', { input: 'three words here' }).then((response) => response.text());
  t.match(await usageOf(fixture.ledger, requests + 1), { estimated: 0n });
});

for (const kind of ['sqlite', 'postgres'] as const) {
  t.test(`${kind}: a key revoked or created in the store takes effect within two seconds`, async (t) => {
    const fixture = await openAccount(t, USD, {
      settings: { threads: 2 },
      ...(kind === 'postgres' && { store: await postgresDatabase() }),
    });
    t.equal((await chat(fixture.url, KEYED)).status, 200);
    const started = performance.now();
    await fixture.ledger.disableKey('key-of-acme');
    await until('the key has stopped', async () => (await chat(fixture.url, KEYED)).status === 401);
    t.ok(performance.now() - started < 2000);
    await endow(fixture.ledger, USD, {}, 'other');
    await known(fixture, 'hr_other');
  });
}

t.test('key limits answer 429 with retry-after, and 402 when the monthly limit is reached', async (t) => {
  const fixture = await startLedgerFixture(t);
  await endow(fixture.ledger, USD, { requestsPerMinute: 2 });
  await endow(fixture.ledger, USD, { monthlySpend: '200000000' }, 'thrifty');
  await endow(fixture.ledger, USD, { tokensPerMinute: 400 }, 'terse');
  await endow(fixture.ledger, USD, { requestsPerMinute: 1 }, 'rare');
  await known(fixture, 'hr_terse');
  const statuses = [];
  for (let request = 0; request < 3; request++) statuses.push((await chat(fixture.url, KEYED)).status);
  t.same(statuses, [200, 200, 429], 'the window slides: no border lets more through');
  const limited = await chat(fixture.url, KEYED);
  t.equal(limited.status, 429);
  t.equal(limited.headers.get('x-headrace-error'), 'HR_KEY_RATE');
  t.match(await limited.text(), /This key may send 2 requests a minute/);
  const rare = { headers: bearer('hr_rare') };
  t.equal((await chat(fixture.url, rare)).status, 200);
  t.match(await (await chat(fixture.url, rare)).text(), /This key may send 1 request a minute/);
  t.match(Number(limited.headers.get('retry-after')), Number);
  for (const [key, status, code] of [
    ['hr_thrifty', 402, 'HR_KEY_SPENT'],
    ['hr_terse', 429, 'HR_KEY_TOKENS'],
  ] as const) {
    const headers = bearer(key);
    t.equal((await chat(fixture.url, { headers })).status, 200, `${key} has not used anything yet`);
    await until(`${key} is limited`, async () => {
      const response = await chat(fixture.url, { headers });
      return response.status === status && response.headers.get('x-headrace-error') === code;
    });
  }
});

t.test('a search is charged per engine that succeeded, a page by its price', async (t) => {
  const engine = (search: () => Promise<unknown>): object => ({
    kind: 'mine',
    documentation: 'https://x.org/',
    types: ['web'],
    search,
  });
  const found = [{ title: 'a', url: 'https://x.org/a', snippet: 's' }];
  const site = createServer((_, response) => response.setHeader('content-type', 'text/plain').end('a page of words'));
  await once(site.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => site.close());
  const { port } = site.address() as AddressInfo;
  const fixture = await openAccount(t, USD, {
    settings: {
      search: {
        engines: {
          engine_a: engine(() => Promise.resolve(found)),
          engine_b: engine(() => Promise.reject(new Error('down'))),
          engine_c: engine(() => Promise.resolve(found)),
        },
        pricing: { engine_a: '0.005', engine_b: '0.003' },
      },
      fetch: { price: '0.001', allow: ['127.0.0.1'], ports: [port] },
    },
  });
  const ask = (path: string, body: object): Promise<Response> =>
    fetch(fixture.url + path, {
      method: 'POST',
      headers: { ...bearer(), 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  t.equal((await ask('/search', { query: 'q', engines: ['engine_a', 'engine_b', 'engine_c'] })).status, 200);
  t.equal((await usageOf(fixture.ledger, 2)).amount, 5_000_000_000n);
  const rows = await fixture.ledger.usage({ by: ['model'] });
  t.same(
    rows.map(({ amount, model }) => [model, amount]),
    [
      ['search:engine_a', 5_000_000_000n],
      ['search:engine_c', 0n],
    ],
  );
  t.not((await ask('/search/fetch', { url: 'http://127.0.0.1:1/' })).status, 200);
  t.equal((await ask('/search/fetch', { url: `http://127.0.0.1:${port}/` })).status, 200);
  t.equal((await usageOf(fixture.ledger, 3)).amount, 6_000_000_000n);
  t.equal((await ask('/search', { query: 'q', engines: ['engine_b'] })).status, 503);
  await fixture.gateway.close();
  t.equal((await fixture.ledger.usage({ by: [] }))[0]?.amount, 6_000_000_000n, 'failures cost nothing');
});

t.test('a search costs each engine once for each started ten results, and equal ones under way once', async (t) => {
  const gate = Promise.withResolvers<void>();
  let calls = 0;
  const hit = (i: number): object => ({ title: 'a', url: `https://x.org/${i}`, snippet: 's' });
  const engine = {
    kind: 'mine',
    documentation: 'https://x.org/',
    types: ['web'],
    async search({ maxResults, query }: { maxResults: number; query: string }) {
      calls++;
      if (query === 'shared') await gate.promise;
      return Array.from({ length: query === 'few' ? 3 : maxResults }, (_, i) => hit(i));
    },
  };
  const fixture = await openAccount(t, USD, {
    settings: { search: { engines: { engine_a: engine }, pricing: { engine_a: '0.005' } } },
  });
  const costOf = async (query: string, maxResults: number): Promise<string | undefined> => {
    const body = { query, max_results: maxResults, engines: ['engine_a'] };
    const { headers } = await fixture.gateway.inject({ path: '/search', headers: bearer(), body });
    return headers['x-headrace-cost'];
  };
  t.same(
    [await costOf('many', 1), await costOf('many', 10), await costOf('many', 11), await costOf('many', 100)],
    ['0.005', '0.005', '0.01', '0.05'],
  );
  t.equal(await costOf('few', 100), '0.005', 'what was found counts');
  calls = 0;
  const shared = Array.from({ length: 4 }, () => costOf('shared', 10));
  t.equal(await costOf('few', 10), '0.005', 'by then all have joined');
  gate.resolve();
  const costs = await Promise.all(shared);
  t.equal(calls, 2);
  t.same(costs.filter((cost) => cost === '0.00').length, 3);
  t.ok(costs.includes('0.005'));
  await fixture.gateway.close();
  t.equal((await fixture.ledger.usage({ by: [] }))[0]?.amount, 85_000_000_000n);
});

t.test('keys of the configuration are postpaid unless marked prepaid', async (t) => {
  const keys = {
    static: [
      { key: 'hr_own', account: 'operator' },
      { key: 'hr_strict', account: 'strict', prepaid: true },
    ],
  };
  const fixture = await startLedgerFixture(t, { settings: { keys } });
  t.equal((await chat(fixture.url, { headers: bearer('hr_own') })).status, 200);
  const row = await usageOf(fixture.ledger, 1, 'operator');
  t.match(await fixture.ledger.account('operator'), { balance: -row.amount });
  t.match(await fixture.ledger.usage({ by: ['key'] }), [{ key: /^static:[0-9a-f]{8}$/ }]);
  t.equal((await chat(fixture.url, { headers: bearer('hr_strict') })).status, 402);
});

t.test('the prices in the model list are those that the ledger charges', async (t) => {
  const fixture = await openAccount(t, USD);
  const list = (await (await fetch(`${fixture.url}/v1/models`)).json()) as {
    data: { id: string; pricing: { prompt: string; completion: string } }[];
  };
  const { pricing } = list.data.find(({ id }) => id === MODEL) ?? { pricing: { prompt: '', completion: '' } };
  const pico = (usd: string): number => Math.round(Number(usd) * 1e12);
  await chat(fixture.url, KEYED).then((response) => response.text());
  const row = await usageOf(fixture.ledger, 1);
  const listed = Number(row.inputTokens) * pico(pricing.prompt) + Number(row.outputTokens) * pico(pricing.completion);
  t.equal(row.cachedTokens, 0n);
  t.equal(Number(row.amount), listed);
  t.match(await fixture.ledger.history({ account: 'acme', limit: 1 }), [
    { kind: 'charge', usage: { price: '0.25/1.50/0.05' } },
  ]);
});

t.test('two gateways on one store never spend more than the balance', async (t) => {
  const fixture = await openAccount(t, USD / 1000n, { hosts: [{}, {}] });
  const second = await startLedgerFixture(t, { store: fixture.store });
  await known(second);
  let spent = 0n;
  const client = async (url: string): Promise<void> => {
    for (;;) {
      const response = await chat(url, { ...KEYED, tokens: 4 });
      const body = (await response.json()) as { usage?: ChatUsage };
      if (response.status === 402) return;
      // The other gateway holds what is left.
      if (response.headers.get('x-headrace-error') === 'HR_CREDIT_BUSY') continue;
      const {
        completion_tokens: completion,
        prompt_tokens: prompt,
        prompt_tokens_details: more,
      } = body.usage as ChatUsage;
      spent += priceOf(prompt, more?.cached_tokens ?? 0, completion);
    }
  };
  await Promise.all([fixture.url, second.url, fixture.url, second.url].map(client));
  await Promise.all([fixture.gateway.close(), second.gateway.close()]);
  const ledger = await openTestLedger(t, fixture.store);
  t.match(await ledger.account('acme'), { balance: USD / 1000n - spent, held: 0n });
  t.ok(spent <= USD / 1000n);
  t.ok(spent > USD / 2000n, 'most of it could be spent');
  t.match(await ledger.audit(), { sound: true });
});
