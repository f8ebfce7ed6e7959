// Requests of one dialect on CRNs of another one, over a whole gateway and on real sockets: what is learned and told, charged, paid,
// limited, remembered of caches and shown, beside the same requests that are passed as they are.

import type { IncomingMessage, ServerResponse } from 'node:http';
import { ExactEvmScheme } from '@x402/evm';
import { wrapFetchWithPaymentFromConfig } from '@x402/fetch';
import t, { type Test } from 'tap';
import { privateKeyToAccount } from 'viem/accounts';
import type { Overview } from '../../src/admin/overview.ts';
import type { RequestExplanation } from '../../src/api/explain.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import { TestFacilitator } from '../support/facilitator.ts';
import { bearer, endow, PRICING, priceOf, startLedgerFixture, USD, usageOf } from '../support/ledger-fixture.ts';
import { serving } from '../support/serving.ts';
import { until } from '../support/system.ts';

const MODEL = 'm';
const TOKEN = 'owner';
const PROMPT = 1200;
const CACHED = 1024;
const COMPLETION = 7;

type Path = '/v1/messages' | '/v1/responses' | '/v1/chat/completions' | '/completion';

interface Asked {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly headers: IncomingMessage['headers'];
}

/** A CRN that counts every prompt alike and speaks some paths. */
class Crn {
  url = '';
  instance = 'first';
  /** Every path where empty. */
  speaks: readonly Path[] = [];
  /** It answers 500 to what it speaks. */
  fails = false;
  readonly asked: Asked[] = [];

  async serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const pieces: Buffer[] = [];
    for await (const piece of req) pieces.push(piece as Buffer);
    const path = req.url?.replace(/\?.*/, '') ?? '';
    if (req.method === 'GET') {
      res.writeHead(path === '/health' ? 200 : 404).end(JSON.stringify({ instance: this.instance }));
      return;
    }
    const body = JSON.parse(Buffer.concat(pieces).toString()) as Asked['body'];
    this.asked.push({ path: req.url ?? '', body, headers: req.headers });
    if (this.speaks.length > 0 && !this.speaks.includes(path as Path)) {
      res.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
    } else if (this.fails) {
      res.writeHead(500).end('{}');
    } else if (body['stream'] === true) {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      res.end(STREAMS[path as Path]);
    } else {
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(WHOLES[path as Path]));
    }
  }
}

const CHAT_USAGE = {
  prompt_tokens: PROMPT,
  completion_tokens: COMPLETION,
  prompt_tokens_details: { cached_tokens: CACHED },
};
const MESSAGES_USAGE = {
  input_tokens: PROMPT - CACHED,
  cache_read_input_tokens: CACHED,
  output_tokens: COMPLETION,
};
const RESPONSES_USAGE = {
  input_tokens: PROMPT,
  input_tokens_details: { cached_tokens: CACHED, cache_write_tokens: 0 },
  output_tokens: COMPLETION,
};

const WHOLES: Readonly<Record<Path, object>> = {
  '/v1/chat/completions': {
    id: 'chatcmpl-1',
    choices: [{ index: 0, message: { role: 'assistant', content: 'down the hill' }, finish_reason: 'stop' }],
    usage: CHAT_USAGE,
  },
  '/v1/messages': {
    type: 'message',
    content: [{ type: 'text', text: 'down the hill' }],
    stop_reason: 'end_turn',
    usage: MESSAGES_USAGE,
  },
  '/v1/responses': {
    object: 'response',
    id: 'resp_1',
    status: 'completed',
    output: [{ type: 'message', content: [{ type: 'output_text', text: 'down the hill' }] }],
    usage: RESPONSES_USAGE,
  },
  '/completion': { content: 'down the hill', stop: true },
};

const data = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const named = (type: string, rest: object = {}): string => `event: ${type}\n${data({ type, ...rest })}`;

const STREAMS: Readonly<Record<Path, string>> = {
  '/v1/chat/completions': [
    data({ id: 'chatcmpl-1', choices: [{ index: 0, delta: { role: 'assistant', content: 'down' } }] }),
    data({ id: 'chatcmpl-1', choices: [{ index: 0, delta: { content: ' the hill' } }] }),
    data({ id: 'chatcmpl-1', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    data({ id: 'chatcmpl-1', choices: [], usage: CHAT_USAGE }),
    'data: [DONE]\n\n',
  ].join(''),
  '/v1/messages': [
    named('message_start', { message: { content: [], usage: { ...MESSAGES_USAGE, output_tokens: 1 } } }),
    named('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'down the hill' } }),
    named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: MESSAGES_USAGE }),
    named('message_stop'),
  ].join(''),
  '/v1/responses': [
    named('response.created', { response: {} }),
    named('response.output_text.delta', { delta: 'down the hill' }),
    named('response.completed', { response: { output: [], usage: RESPONSES_USAGE } }),
  ].join(''),
  '/completion': data({ content: 'down the hill', stop: true }),
};

const WORDS = 'where does the water go? '.repeat(80);

function bodyOf(path: Path, more: object = {}): object {
  const conversation =
    path === '/v1/responses' ? { input: WORDS } : { max_tokens: 50, messages: [{ role: 'user', content: WORDS }] };
  return { model: MODEL, ...conversation, ...more };
}

async function startCrns(t: Test, speaks: readonly (readonly Path[])[]): Promise<Crn[]> {
  return Promise.all(
    speaks.map(async (paths) => {
      const crn = new Crn();
      crn.speaks = paths;
      crn.url = await serving(t, (req, res) => void crn.serve(req, res));
      return crn;
    }),
  );
}

interface Scene {
  readonly gateway: Gateway;
  readonly url: string;
  readonly admin: string;
  readonly crns: readonly Crn[];
  readonly send: (path: Path, more?: object, headers?: Readonly<Record<string, string>>) => Promise<Response>;
  readonly metric: (name: RegExp) => Promise<number>;
  readonly overview: () => Promise<Overview>;
  readonly explain: (path: Path, more?: object) => Promise<RequestExplanation>;
}

async function open(t: Test, speaks: readonly (readonly Path[])[], more: SettingsInput = {}): Promise<Scene> {
  const crns = await startCrns(t, speaks);
  const gateway = createGateway({
    listen: '127.0.0.1:0',
    admin: '127.0.0.1:0',
    adminToken: TOKEN,
    threads: 0,
    log: { level: 'silent' },
    keys: { required: false },
    models: { [MODEL]: { servers: crns.map(({ url }) => url) } },
    health: { interval: '50ms' },
    ...more,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url } = await gateway.listen();
  await gateway.ready();
  const admin = adminUrl as string;
  const authorization = `Bearer ${TOKEN}`;
  const post = (target: string, body: object, headers: Readonly<Record<string, string>>): Promise<Response> =>
    fetch(target, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
  return {
    ...{ gateway, url, admin, crns },
    send: (path, extra, headers = {}) => post(url + path, bodyOf(path, extra), headers),
    metric: async (name) => {
      const lines = (await (await fetch(`${admin}/metrics`)).text()).split('\n').filter((line) => name.test(line));
      return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
    },
    overview: async () => (await (await fetch(`${admin}/overview`, { headers: { authorization } })).json()) as Overview,
    explain: async (path, extra) =>
      (await (
        await post(`${admin}/explain?path=${path}`, bodyOf(path, extra), { authorization })
      ).json()) as RequestExplanation,
  };
}

const CHAT: readonly Path[] = ['/v1/chat/completions'];
const ALL: readonly Path[] = [];

t.test(
  'a llama-style request is answered by a CRN that knows its path, and teaches nothing of the others',
  async (t) => {
    const { crns, overview, send } = await open(t, [CHAT, ['/completion'], CHAT]);
    for (const stream of [false, true, false, true]) {
      const response = await send('/completion', { prompt: 'x', stream });
      t.match([response.status, await response.text()], [200, /down the hill/]);
    }
    t.match((await overview()).crns, [{ lacks: [] }, { lacks: [] }, { lacks: [] }]);
    for (const crn of crns) crn.speaks = CHAT;
    const response = await send('/completion', { prompt: 'x' });
    t.match([response.status, await response.text()], [404, '{"detail":"Not Found"}']);
  },
);

for (const [path, name] of [
  ['/v1/messages', 'messages-chat'],
  ['/v1/responses', 'responses-chat'],
] as const) {
  t.test(`${path}: the first request teaches what the CRN lacks, and all are answered`, async (t) => {
    const { crns, explain, metric, overview, send } = await open(t, [CHAT]);
    const [crn] = crns as [Crn];
    const word = path.slice('/v1/'.length);
    t.match(await explain(path), { crns: [{ form: 'own' }], untranslatable: null });
    for (const stream of [false, true, false]) {
      const response = await send(path, { stream }, { 'anthropic-version': '2023-06-01', 'openai-beta': 'x' });
      t.equal(response.status, 200);
      t.equal(response.headers.get('x-headrace-translated'), name);
      t.match(response.headers.get('content-type'), stream ? 'text/event-stream' : 'application/json');
      const text = await response.text();
      t.match(text, 'down');
      t.match(text, word === 'messages' ? '"end_turn"' : '"completed"');
      t.notMatch(text, '"choices"');
    }
    t.same(
      crn.asked.map((asked) => asked.path),
      [path, ...Array.from({ length: 3 }, () => '/v1/chat/completions')],
    );
    for (const { headers, path: asked } of crn.asked.slice(1)) {
      t.equal(asked, '/v1/chat/completions');
      t.notOk('anthropic-version' in headers || 'openai-beta' in headers);
    }
    t.equal(await metric(/^headrace_translated_total/), 3);
    t.equal(await metric(/^headrace_upstream_attempts_total.*verdict="neutral",failure="dialect unknown"/), 1);
    t.equal(await metric(/^headrace_upstream_attempts_total.*verdict="failed"/), 0);
    const { crns: shown } = await overview();
    t.match(shown, [{ lacks: [word], models: [{ standing: 'up', dialects: null }] }]);
    t.match(await explain(path), { crns: [{ form: name }] });
  });

  t.test(`${path}: what is learned ends with the process of the CRN`, async (t) => {
    const { crns, overview, send } = await open(t, [CHAT]);
    const [crn] = crns as [Crn];
    await (await send(path)).text();
    crn.speaks = ALL;
    t.equal((await send(path)).headers.get('x-headrace-translated'), name);
    crn.instance = 'second';
    await until('the restart is seen', async () => (await overview()).crns[0]?.lacks.length === 0);
    const passed = await send(path);
    t.equal(passed.headers.get('x-headrace-translated'), null);
    t.same(await passed.json(), WHOLES[path]);
  });

  t.test(
    `${path}: CRNs of both kinds serve one model, and one that fails is replaced by one of the other kind`,
    async (t) => {
      const { crns, send } = await open(t, [CHAT, ALL]);
      const kinds = new Set<string | null>();
      for (let turn = 0; turn < 40 && kinds.size < 2; turn++) {
        const response = await send(path);
        kinds.add(response.headers.get('x-headrace-translated'));
        t.match(await response.text(), 'down the hill');
      }
      t.same(kinds, new Set([name, null]));
      for (const crn of crns) {
        // The one that fails is asked first, in its own form, and the other one answers in the other form.
        const { speaks } = crn;
        const cookie = `preferred_instances=${JSON.stringify({ [MODEL]: crn.url })}`;
        crn.fails = true;
        const response = await send(path, {}, { cookie });
        t.equal(response.headers.get('x-headrace-translated'), speaks === ALL ? name : null);
        t.match(await response.text(), 'down the hill');
        crn.fails = false;
      }
    },
  );

  t.test(`${path}: a refusal of the CRN is told in the dialect of the client`, async (t) => {
    const url = await serving(t, (req, res) => {
      req.resume();
      if (req.method === 'GET') res.end('{}');
      else {
        const isChat = req.url === '/v1/chat/completions';
        res.writeHead(isChat ? 400 : 404, { 'content-type': 'application/json' });
        res.end(
          isChat ? '{"error":{"message":"too hot","type":"BadRequestError","code":400}}' : '{"detail":"Not Found"}',
        );
      }
    });
    const { send } = await open(t, [], { models: { [MODEL]: { servers: [url] } } });
    const response = await send(path);
    t.equal(response.status, 400);
    t.equal(response.headers.get('x-headrace-translated'), name);
    const body = (await response.json()) as { type?: string; error: { message: string } };
    t.match(body.error.message, 'too hot');
    if (path === '/v1/messages') t.equal(body.type, 'error');
  });

  t.test(
    `${path}: a request that cannot be carried is refused with the name of the field, unless a CRN speaks the dialect`,
    async (t) => {
      const more = { tools: [{ type: path === '/v1/messages' ? 'web_search_20250305' : 'file_search', name: 'x' }] };
      const { explain, send } = await open(t, [CHAT]);
      const refused = await send(path, more);
      t.equal(refused.status, 422);
      t.equal(refused.headers.get('x-headrace-error'), 'HR_REQUEST_UNTRANSLATABLE');
      t.match(await refused.text(), /"tools"/);
      const { crns, untranslatable } = await explain(path, more);
      t.match(crns, [{ form: 'none', eligible: false }]);
      t.type(untranslatable, 'string');
      const mixed = await open(t, [CHAT, ALL]);
      for (let turn = 0; turn < 8; turn++) {
        const passed = await mixed.send(path, more);
        t.equal(passed.status, 200);
        t.same(await passed.json(), WHOLES[path]);
      }
    },
  );

  t.test(
    `${path}: a translated request costs what a passed one with the same counts costs, to the pico-USD`,
    async (t) => {
      const crns = await startCrns(t, [CHAT, ALL]);
      const [chat, all] = crns.map(({ url }) => url) as [string, string];
      const fixture = await startLedgerFixture(t, {
        settings: {
          models: {
            translated: { servers: [{ url: chat, dialects: ['chat'] }], pricing: PRICING },
            learned: { servers: [chat], pricing: PRICING },
            passed: { servers: [all], pricing: PRICING },
          },
        },
      });
      await endow(fixture.ledger, USD);
      const check = (): Promise<Response> => fetch(`${fixture.url}/svc/auth/check`, { headers: bearer() });
      await until('the key is known', async () => (await check()).status === 200);
      let requests = 0n;
      for (const model of ['translated', 'learned', 'passed']) {
        for (const stream of [false, true]) {
          const response = await fetch(fixture.url + path, {
            method: 'POST',
            headers: { 'content-type': 'application/json', ...bearer() },
            body: JSON.stringify({ ...bodyOf(path), model, stream }),
          });
          t.equal(response.status, 200);
          await response.text();
          requests++;
          const row = await usageOf(fixture.ledger, Number(requests));
          t.equal(row.amount, requests * priceOf(PROMPT, CACHED, COMPLETION), `${model} ${stream}`);
        }
      }
      t.match(await fixture.ledger.audit(), { sound: true });
    },
  );

  t.test(`${path}: the limit of an account stands in the request that the CRN gets`, async (t) => {
    const [crn] = (await startCrns(t, [CHAT])) as [Crn];
    const fixture = await startLedgerFixture(t, {
      settings: { models: { [MODEL]: { servers: [crn.url], pricing: PRICING } }, credit: { assumedTokens: 10 } },
    });
    // Enough for the prompt and some tokens.
    await endow(fixture.ledger, USD / 1000n);
    const check = (): Promise<Response> => fetch(`${fixture.url}/svc/auth/check`, { headers: bearer() });
    await until('the key is known', async () => (await check()).status === 200);
    const response = await fetch(fixture.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...bearer() },
      body: JSON.stringify({ ...bodyOf(path), max_tokens: 1_000_000, max_output_tokens: 1_000_000 }),
    });
    t.equal(response.status, 200);
    const limit = Number(response.headers.get('x-headrace-output-limit'));
    t.ok(limit > 0 && limit < 1_000_000);
    const { body } = crn.asked.at(-1) as Asked;
    const limits = [body['max_tokens'], body['max_completion_tokens'], body['max_output_tokens']];
    t.same(new Set(limits.filter((each) => each !== undefined)), new Set([limit]));
  });

  t.test(`${path}: a request is paid once its translated answer has begun, and not for a refusal`, async (t) => {
    const wallet = privateKeyToAccount('0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80');
    const nowS = (): number => Math.floor((performance.timeOrigin + performance.now()) / 1000);
    const facilitator = await new TestFacilitator({ nowS }).listen();
    t.teardown(() => facilitator.close());
    facilitator.fund(wallet.address, 1_000_000n);
    const [crn] = (await startCrns(t, [CHAT])) as [Crn];
    const fixture = await startLedgerFixture(t, {
      settings: {
        threads: 0,
        models: { [MODEL]: { servers: [crn.url], pricing: PRICING } },
        payments: {
          facilitator: facilitator.url,
          payTo: '0x209693Bc6afc0C5328bA36FaF03C514EF312287C',
          network: 'base-sepolia',
        },
      },
    });
    const pay = wrapFetchWithPaymentFromConfig(fetch, {
      schemes: [{ network: 'eip155:*', client: new ExactEvmScheme(wallet) }],
    });
    const spent = (): bigint => 1_000_000n - facilitator.balance(wallet.address);
    const request = (more: object): RequestInit => ({
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(bodyOf(path, { max_tokens: 2000, max_output_tokens: 2000, ...more })),
    });
    for (const stream of [false, true]) {
      const before = spent();
      const response = await pay(fixture.url + path, request({ stream }));
      t.equal(response.status, 200);
      t.equal(response.headers.get('x-headrace-translated'), name);
      t.ok(response.headers.get('payment-response') !== null);
      t.match(await response.text(), 'down');
      t.ok(spent() > before);
    }
    const before = spent();
    crn.speaks = ['/v1/responses', '/v1/messages'];
    const refused = await pay(fixture.url + path, request({}));
    t.equal(refused.status, 404);
    t.equal(spent(), before);
  });

  t.test(`${path}: blocks are those of the body of the client, and cached tokens are compared with them`, async (t) => {
    const { metric, send } = await open(t, [CHAT], { serverTiming: true });
    const hits: number[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const response = await send(path, { stream: true });
      hits.push(Number(/^hit=(\d\.\d\d)/.exec(response.headers.get('x-headrace-affinity') ?? '')?.[1]));
      await response.text();
    }
    t.equal(hits[0], 0);
    t.ok((hits[1] as number) > 0.7 && (hits[2] as number) > 0.7, hits.join());
    t.equal(await metric(/^headrace_locality_cached_tokens_total.*reported/), CACHED, 'the first one is a sample');
    t.equal(await metric(/^headrace_locality_prompt_tokens_total/), PROMPT);
  });
}

t.test('dialects that are declared are never asked for, and the error says that none is left', async (t) => {
  const [crn] = (await startCrns(t, [ALL])) as [Crn];
  const models = { [MODEL]: { servers: [{ url: crn.url, dialects: ['chat'] as const }] } };
  const { overview, send } = await open(t, [], { models });
  t.equal((await send('/v1/messages')).headers.get('x-headrace-translated'), 'messages-chat');
  t.same(
    crn.asked.map(({ path }) => path),
    ['/v1/chat/completions'],
  );
  t.match((await overview()).crns, [{ lacks: [], models: [{ dialects: ['chat'] }] }]);
  const none = await open(t, [], { models: { [MODEL]: { servers: [{ url: crn.url, dialects: ['completions'] }] } } });
  const response = await none.send('/v1/messages');
  t.equal(response.status, 404);
  t.equal(response.headers.get('x-headrace-error'), 'HR_ROUTE_UNKNOWN_DIALECT');
  t.match(await response.text(), 'No server of model m is declared');
  t.equal(crn.asked.length, 1);
});

t.test('a trace says which try was translated', async (t) => {
  const spans: { name: string; attributes: { key: string; value: { stringValue?: string } }[] }[] = [];
  const endpoint = await serving(t, (req, res) => {
    const pieces: Buffer[] = [];
    req.on('data', (piece: Buffer) => pieces.push(piece));
    req.on('end', () => {
      const sent = JSON.parse(Buffer.concat(pieces).toString()) as {
        resourceSpans: { scopeSpans: { spans: typeof spans }[] }[];
      };
      for (const { scopeSpans } of sent.resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans);
      res.end('{}');
    });
  });
  const { gateway, send } = await open(t, [CHAT], { telemetry: { otlp: { endpoint: `${endpoint}/v1/traces` } } });
  await (await send('/v1/messages')).text();
  await gateway.close();
  const told = spans.map(({ attributes, name }) => [
    name,
    attributes.find(({ key }) => key === 'headrace.translation')?.value.stringValue,
  ]);
  const tries = told.flatMap(([name, translation]) => (name === 'chat m' ? [translation] : []));
  t.equal(tries.length, 2);
  t.same(new Set(tries), new Set(['messages-chat', undefined]));
});
