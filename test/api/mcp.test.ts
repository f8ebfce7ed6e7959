// `/mcp` without a socket: keys, origins, the two kinds of revisions, results and errors of tools, cancellation, drain, malformed input.

import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import type { Test } from 'tap';
import { createGateway, type Gateway, type InjectResponse, type InProcessEngine } from '../../src/index.ts';
import type { SettingsInput } from '../../src/config/settings.ts';

const KEY = 'hr_mcp';

const ENGINE: InProcessEngine = {
  kind: 'mine',
  documentation: 'https://example.com/',
  types: ['web', 'news'],
  search: ({ query }) =>
    Promise.resolve(
      query === 'nothing'
        ? []
        : [
            {
              title: `About  ${query}`,
              url: 'https://example.com/a',
              snippet: 'A text.',
              publishedAt: '2026-02-03T04:05:06Z',
            },
          ],
    ),
};

function open(t: Test, more: SettingsInput = {}, engine: InProcessEngine = ENGINE): Gateway {
  const gateway = createGateway({
    keys: { static: [{ key: KEY, account: 'tests' }] },
    log: { level: 'silent' },
    search: { engines: { mine: engine } },
    ...more,
  });
  t.teardown(() => gateway.close());
  return gateway;
}

const HEADERS = { accept: 'application/json, text/event-stream', authorization: `Bearer ${KEY}` };

function post(gateway: Gateway, body: unknown, headers: Record<string, string> = {}): Promise<InjectResponse> {
  return gateway.inject({ path: '/mcp', headers: { ...HEADERS, ...headers }, body });
}

interface Message {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
  readonly result?: Record<string, any>;
  readonly error?: { readonly code: number; readonly message: string };
}

/** The messages of an answer, in order. */
function messagesOf(response: InjectResponse): Message[] {
  if (!(response.headers['content-type'] ?? '').startsWith('text/event-stream')) return [response.json<Message>()];
  return [...response.text().matchAll(/^data: (.+)$/gm)].map(([, json]) => JSON.parse(json as string) as Message);
}

/** Calls in the way of the revisions with a handshake. */
async function rpc(gateway: Gateway, method: string, params: object = {}): Promise<Message> {
  const response = await post(gateway, { jsonrpc: '2.0', id: 1, method, params });
  return messagesOf(response).at(-1) as Message;
}

const call = (gateway: Gateway, name: string, input: object): Promise<Message> =>
  rpc(gateway, 'tools/call', { name, arguments: input });

t.test('the tools of a gateway with engines are search and fetch', async (t) => {
  const gateway = open(t);
  const { result } = await rpc(gateway, 'tools/list');
  t.same(
    result?.['tools'].map(({ name }: { name: string }) => name),
    ['search', 'fetch'],
  );
  for (const tool of result?.['tools'] ?? []) {
    t.match(tool, {
      title: String,
      description: String,
      inputSchema: { type: 'object' },
      outputSchema: { type: 'object' },
    });
    t.match(tool.annotations, {
      readOnlyHint: true,
      openWorldHint: true,
      idempotentHint: true,
      destructiveHint: false,
    });
  }
});

t.test('the arguments of the tools are the fields of the endpoints', async (t) => {
  const gateway = open(t);
  const { result } = await rpc(gateway, 'tools/list');
  const { components } = (await gateway.inject({ path: '/openapi.json' })).json<any>();
  const [search, fetch] = result?.['tools'] ?? [];
  const names = (schema: { properties: object }): string[] => Object.keys(schema.properties);
  t.same(names(search.inputSchema), names(components.schemas.SearchRequest));
  const ofPages = names(components.schemas.FetchRequest).filter((name) => name !== 'urls' && name !== 'include');
  t.same(names(fetch.inputSchema), ofPages);
  t.same(search.inputSchema.properties.engines.default, ['mine'], 'only engines that are configured');
  t.equal(fetch.inputSchema.properties.format.default, 'markdown');
});

t.test('what an engine finds is as the output schema of the tool says', async (t) => {
  const hit = {
    ...{ title: 'A map', url: 'https://example.com/map', snippet: 'A text.', publishedAt: '2026-02-03' },
    ...{ source: 'Atlas', thumbnailUrl: 'https://example.com/s.png', imageUrl: 'https://example.com/l.png' },
    ...{ width: 640, height: 480, doi: '10.1000/xyz', authors: ['A. Author'], year: 2026 },
    ...{ venue: 'Journal of Maps', citations: 3, openAccessUrl: 'https://example.com/map.pdf' },
  };
  const types = ['web', 'news', 'images', 'academic'] as const;
  const search = ({ query }: { query: string }): Promise<(typeof hit)[]> =>
    Promise.resolve(query === 'wrong' ? [{ ...hit, width: '640' as unknown as number }] : [hit]);
  const gateway = open(t, {}, { ...ENGINE, types, search });
  const { result: list } = await rpc(gateway, 'tools/list');
  const tool = list?.['tools'].find(({ name }: { name: string }) => name === 'search');
  const validate = new Ajv2020({ strict: false, validateFormats: false }).compile(tool.outputSchema);
  for (const search_type of types) {
    const { result } = await call(gateway, 'search', { query: 'maps', search_type });
    t.equal(result?.['structuredContent'].results.length, 1, search_type);
    t.ok(validate(result?.['structuredContent']), JSON.stringify(validate.errors));
  }
  const { result } = await call(gateway, 'search', { query: 'wrong', search_type: 'images' });
  t.equal(result?.['isError'], true, 'a hit with a width that is no number is not passed on');
});

t.test('the fetch tool reads one page, whatever its arguments are', async (t) => {
  const gateway = open(t);
  const { result } = await call(gateway, 'fetch', { urls: ['http://10.0.0.1/'] });
  t.match(result, {
    isError: true,
    content: [{ text: /^Error HR_REQUEST_INVALID: Invalid arguments: url: Field required/ }],
  });
});

t.test('a client that takes any type gets one of the two of the protocol', async (t) => {
  const gateway = open(t);
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  for (const [accept, status] of [
    ['*/*', 200],
    ['text/html, */*;q=0.8', 200],
    ['text/html, */*;q=0', 406],
    ['application/json', 406],
  ] as const)
    t.equal((await post(gateway, message, { accept })).status, status, accept);
});

t.test('without engines there is no search', async (t) => {
  const gateway = open(t, { search: {} });
  const { result } = await rpc(gateway, 'tools/list');
  t.match(result, { tools: [{ name: 'fetch' }] });
  t.match(await call(gateway, 'search', { query: 'a' }), { error: { code: -32602, message: 'Unknown tool: search' } });
});

t.test('a search is a list for models, and the same for programs', async (t) => {
  const { result } = await call(open(t), 'search', { query: 'weirs', search_type: 'news' });
  t.same(result?.['content'], [
    { type: 'text', text: '1. **About weirs**\nhttps://example.com/a\n2026-02-03\nA text.' },
  ]);
  t.same(result?.['structuredContent'], {
    results: [
      {
        ...{ title: 'About  weirs', url: 'https://example.com/a', snippet: 'A text.' },
        published_at: '2026-02-03T04:05:06Z',
      },
    ],
  });
});

t.test('a search that finds nothing says what to do', async (t) => {
  const { result } = await call(open(t), 'search', { query: 'nothing' });
  t.match(result?.['content'][0].text, /^Nothing found\. Try fewer or other words/);
  t.notOk(result?.['isError']);
});

t.test('wrong arguments and refused pages are results with the code, the reason and what to do', async (t) => {
  const gateway = open(t);
  const wrong = await call(gateway, 'search', { query: 'a', page: 0 });
  t.match(wrong.result, {
    isError: true,
    content: [{ text: /^Error HR_REQUEST_INVALID: Invalid arguments: page: .+ Correct the arguments/ }],
    _meta: { 'headrace/error': 'HR_REQUEST_INVALID', 'headrace/status': 422 },
  });
  t.notOk('structuredContent' in (wrong.result ?? {}));
  const blocked = await call(gateway, 'fetch', { url: 'http://10.0.0.1/' });
  t.match(blocked.result?.['content'][0].text, /^Error HR_FETCH_BLOCKED: .+ use another source\.$/);
});

t.test('the revision without a handshake is served too, with its headers checked', async (t) => {
  const gateway = open(t);
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const body = {
    jsonrpc: '2.0',
    id: 7,
    method: 'tools/call',
    params: { name: 'search', arguments: { query: 'a' }, _meta },
  };
  const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'search' };
  const response = await post(gateway, body, headers);
  t.equal(response.headers['content-type'], 'application/json');
  t.match(response.json(), { id: 7, result: { resultType: 'complete', structuredContent: { results: [{}] } } });
  t.equal((await post(gateway, body, { ...headers, 'mcp-name': 'fetch' })).status, 400);
  const discover = { jsonrpc: '2.0', id: 8, method: 'server/discover', params: { _meta } };
  const found = await post(gateway, discover, { ...headers, 'mcp-method': 'server/discover' });
  t.match(found.json(), { result: { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } } });
});

t.test('a plain call is answered byte for byte as by the SDK', async (t) => {
  const gateway = open(t);
  const calls: [string, unknown][] = [
    ['search', { query: 'water' }],
    ['search', { query: 'nothing', page: 2 }],
    ['search', { query: 'tab\t"quote" \u2028 \ud83d\ude00 \ud800', max_results: 1 }],
    ['search', {}],
    ['search', { query: 'a', engines: ['other'], more: [{ a: { b: null } }] }],
    ['search', { query: 'a', __proto__: null }],
    ['search', undefined],
    ['fetch', { url: 'http://127.0.0.1:9/' }],
    ['fetch', { url: 'no url' }],
    ['fetch', { url: 'http://[::1]/', format: 'text', max_chars: 1 }],
    ['other', {}],
  ];
  for (const [name, input] of calls) {
    for (const id of [1, 'a"b']) {
      const params = { name, arguments: input };
      const message = { jsonrpc: '2.0', id, method: 'tools/call', params };
      const plain = await post(gateway, message);
      // Metadata says nothing here, but only the SDK reads it.
      const known = await post(gateway, { ...message, params: { ...params, _meta: {} } });
      const where = `${name}, id ${id}`;
      t.equal(plain.text(), known.text(), where);
      t.equal(plain.status, known.status, where);
      const headersOf = ({ headers }: InjectResponse): object => ({ ...headers, 'x-request-id': '', 'request-id': '' });
      t.same(headersOf(plain), headersOf(known), where);
    }
  }
});

t.test('calls that are not quite plain are answered by the SDK', async (t) => {
  const gateway = open(t);
  const message = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'search', arguments: { query: 'a' } },
  };
  const answerTo = async (body: object, headers: Record<string, string> = {}): Promise<unknown> => {
    const response = await post(gateway, body, headers);
    const [{ error }] = messagesOf(response) as [Message];
    return error?.code ?? response.status;
  };
  t.equal(await answerTo(message, { accept: 'application/json' }), -32000);
  t.equal(await answerTo(message, { 'content-type': 'text/plain' }), -32000);
  t.equal(await answerTo(message, { 'mcp-protocol-version': '1999-01-01' }), -32000);
  t.equal(await answerTo({ ...message, jsonrpc: '1.0' }), -32600);
  t.equal(await answerTo({ ...message, id: 1.5 }), -32600);
  t.equal(await answerTo({ ...message, params: { name: 'other' } }), -32602);
  t.equal(await answerTo({ ...message, params: { name: 'search', arguments: [] } }), -32602);
});

t.test('progress comes before the result where the client asks for it', async (t) => {
  const params = { name: 'search', arguments: { query: 'a' }, _meta: { progressToken: 'p' } };
  const response = await post(open(t), { jsonrpc: '2.0', id: 1, method: 'tools/call', params });
  const [progress, result] = messagesOf(response);
  t.match(progress, { method: 'notifications/progress', params: { progressToken: 'p', progress: 1, total: 1 } });
  t.match(result, { id: 1, result: {} });
});

t.test('keys are those of the other endpoints', async (t) => {
  const gateway = open(t);
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const missing = await gateway.inject({ path: '/mcp', body: list });
  t.equal(missing.status, 401);
  t.equal(missing.headers['www-authenticate'], 'Bearer');
  t.equal((await post(gateway, list, { authorization: 'Bearer no' })).headers['x-headrace-error'], 'HR_AUTH_INVALID');
  t.equal(
    (await gateway.inject({ path: '/mcp', headers: { ...HEADERS, authorization: '', 'x-api-key': KEY }, body: list }))
      .status,
    200,
  );
  const keyless = open(t, { keys: { required: false } });
  t.equal((await post(keyless, list, { authorization: '' })).status, 200);
});

t.test('a web page of another origin needs a key, or to be named', async (t) => {
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const ask = async (gateway: Gateway, origin: string, authorization = ''): Promise<string | number | undefined> => {
    const { headers, status } = await post(gateway, list, { origin, authorization });
    return headers['x-headrace-error'] ?? status;
  };
  const gateway = open(t, { keys: { required: false, static: [{ key: KEY, account: 'tests' }] } });
  t.equal(await ask(gateway, 'http://evil.example'), 'HR_TOOL_ORIGIN');
  t.equal(await ask(gateway, 'http://localhost:3000'), 200);
  t.equal(await ask(gateway, 'http://localhost.evil.example'), 'HR_TOOL_ORIGIN');
  t.equal(await ask(gateway, 'http://evil.example', `Bearer ${KEY}`), 200);
  const named = open(t, { keys: { required: false }, cors: { origins: ['https://app.example'] } });
  t.equal(await ask(named, 'https://app.example'), 200);
});

t.test('there is no stream to open, no session to end, and nothing where it is off', async (t) => {
  const gateway = open(t);
  for (const method of ['GET', 'DELETE']) {
    const response = await gateway.inject({ method, path: '/mcp', headers: HEADERS });
    t.equal(response.status, 405);
    t.equal(response.headers['allow'], 'POST, OPTIONS');
  }
  const slashed = await gateway.inject({
    path: '/mcp/',
    headers: HEADERS,
    body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
  });
  t.equal(slashed.status, 200, 'as other servers of the protocol write their path');
  const off = open(t, { mcp: false });
  t.equal((await post(off, { jsonrpc: '2.0', id: 1, method: 'ping' })).status, 404);
});

t.test('bodies that are no message, too large, too deep or too many are refused', async (t) => {
  const gateway = open(t);
  const ping = { jsonrpc: '2.0', id: 'Käthe', method: 'ping' };
  const cases: [unknown, number][] = [
    ['{', 400],
    [Buffer.from(JSON.stringify(ping), 'latin1'), 400],
    [Buffer.from(JSON.stringify(ping)), 200],
    [[], 400],
    [null, 400],
    ['x'.repeat(1024 * 1024 + 1), 413],
    ['['.repeat(300) + ']'.repeat(300), 400],
    [Array.from({ length: 33 }, () => ({ jsonrpc: '2.0', id: 1, method: 'ping' })), 400],
  ];
  for (const [body, status] of cases) {
    const response = await gateway.inject({
      method: 'POST',
      path: '/mcp',
      headers: { ...HEADERS, 'content-type': 'application/json' },
      body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
    });
    t.equal(response.status, status, JSON.stringify(body).slice(0, 40));
  }
});

/** An engine that never answers. */
class Held {
  readonly asked = Promise.withResolvers<void>();
  readonly aborted = Promise.withResolvers<void>();
  readonly engine: InProcessEngine = {
    ...ENGINE,
    search: (_query, signal) =>
      new Promise(() => {
        signal.addEventListener('abort', () => this.aborted.resolve());
        this.asked.resolve();
      }),
  };
}

const SLOW = { jsonrpc: '2.0', id: 'a', method: 'tools/call', params: { name: 'search', arguments: { query: 'a' } } };

t.test('a client that leaves ends its search', async (t) => {
  const held = new Held();
  const gateway = open(t, {}, held.engine);
  const leave = new AbortController();
  const answer = gateway.inject({ path: '/mcp', headers: HEADERS, body: SLOW, signal: leave.signal });
  await held.asked.promise;
  leave.abort();
  await t.rejects(answer);
  await held.aborted.promise;
});

t.test('a cancellation ends the call of the same session, and of no other', async (t) => {
  const held = new Held();
  const gateway = open(t, {}, held.engine);
  const started = await post(gateway, {
    ...{ jsonrpc: '2.0', id: 0, method: 'initialize' },
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
  });
  const session = started.headers['mcp-session-id'] as string;
  t.match(session, /^[\w-]{36}$/);
  const answer = post(gateway, SLOW, { 'mcp-session-id': session });
  await held.asked.promise;
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'a' } };
  let isOver = false;
  void answer.then(() => (isOver = true));
  t.equal((await post(gateway, cancel, { 'mcp-session-id': 'another' })).status, 202);
  t.equal((await post(gateway, cancel)).status, 202);
  t.notOk(isOver);
  t.equal((await post(gateway, cancel, { 'mcp-session-id': session })).status, 202);
  await held.aborted.promise;
  t.notMatch((await answer).text(), 'result');
});
