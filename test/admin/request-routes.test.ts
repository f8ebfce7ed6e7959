// Requests under way and the request log on the admin listener: what they show, parameters, pages, and who may read them.

import { request } from 'node:http';
import t, { type Test } from 'tap';
import { hashToken } from '../../src/admin/index.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import type { Host, HostSettings } from '../../src/host/index.ts';
import { chat, KEY, MODEL, settingsFor, startHosts, until } from '../support/system.ts';

interface Row {
  readonly requestId: string;
  readonly cursor: string;
  readonly [name: string]: unknown;
}

interface Page {
  readonly data: Row[];
  readonly next: string | null;
  readonly completeSinceMs: number | null;
  readonly missingThreads: number;
}

interface Started {
  readonly url: string;
  readonly adminUrl: string;
  readonly hosts: readonly Host[];
  readonly get: <T = Page>(path: string, token?: string) => Promise<{ status: number; body: T; response: Response }>;
}

async function start(
  t: Test,
  settings: SettingsInput = {},
  hostSettings: readonly Partial<HostSettings>[] = [{}],
): Promise<Started> {
  const hosts = await startHosts(t, hostSettings);
  const gateway = createGateway(settingsFor(hosts, { admin: '127.0.0.1:0', ...settings }));
  t.teardown(() => gateway.close());
  const { url, adminUrl } = await gateway.listen();
  await gateway.ready();
  const get = async <T>(path: string, token?: string): Promise<{ status: number; body: T; response: Response }> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const response = await fetch(`${adminUrl}${path}`, { headers });
    return { status: response.status, body: (await response.json()) as T, response };
  };
  return { url, adminUrl: adminUrl ?? '', hosts, get };
}

async function ask(url: string, id: string, more: Parameters<typeof chat>[1] = {}): Promise<void> {
  const response = await chat(url, { ...more, headers: { 'x-request-id': id, ...more.headers } });
  await response.text();
}

t.test('a finished request is in the log', async (t) => {
  const { url, hosts, get } = await start(t);
  await ask(url, 'whole');
  await ask(url, 'stream', { stream: true });
  await ask(url, 'unknown', { model: 'atlas-28b' });
  const { status, body, response } = await get('/requests/log');
  t.equal(status, 200);
  t.equal(response.headers.get('cache-control'), 'no-store');
  t.match(body, {
    next: null,
    missingThreads: 0,
    completeSinceMs: null,
    size: 10_000,
    data: [
      {
        requestId: 'unknown',
        status: 404,
        code: 'HR_ROUTE_UNKNOWN_MODEL',
        model: null,
        alias: 'atlas-28b',
        attempts: 0,
      },
      {
        requestId: 'stream',
        status: 200,
        streamed: true,
        firstByteMs: Number,
        dialect: 'chat-completions',
        affinity: String,
      },
      {
        ...{ requestId: 'whole', endpoint: '/v1/chat/completions', model: MODEL, account: 'tests', crn: hosts[0]?.url },
        ...{
          attempts: 1,
          status: 200,
          streamed: false,
          aborted: false,
          durationMs: Number,
          sentMs: Number,
          alias: null,
        },
      },
    ],
  });
  t.notMatch(JSON.stringify(body), KEY, 'no key');
  t.match((await get<Row>('/requests/log/stream')).body, {
    requestId: 'stream',
    others: [],
    texts: { kept: false, prompt: null },
  });
  t.match((await get<Row>(`/requests/log/${body.data[2]?.cursor}`)).body, { requestId: 'whole' });
  t.match(await get('/requests/log/none'), { status: 404, body: { detail: /no request of this id/ } });
  t.match(await get('/requests/log/%zz'), { status: 404 });
});

t.test('the size of every body is in the log, also where none is sent on', async (t) => {
  const { url, get } = await start(t);
  const body = JSON.stringify({ query: 'water' });
  for (const [id, path, sent] of [
    ['search', '/search', body],
    ['invalid', '/search', '{"query": 5}'],
    ['unknown', '/v1/chat/completions', '{"model": "nobody"}'],
  ] as const) {
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'x-request-id': id };
    await (await fetch(url + path, { method: 'POST', body: sent, headers })).text();
    t.equal((await get<Row>(`/requests/log/${id}`)).body['bytesIn'], sent.length, id);
  }
});

t.test('the size of the answer to a tool call is in the log', async (t) => {
  const { url, get } = await start(t);
  for (const [id, method, params] of [
    ['list', 'tools/list', {}],
    ['call', 'tools/call', { name: 'fetch', arguments: { url: 'http://10.0.0.1/' } }],
  ] as const) {
    const accept = 'application/json, text/event-stream';
    const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', accept, 'x-request-id': id };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
    const answer = await (await fetch(`${url}/mcp`, { method: 'POST', body, headers })).text();
    t.match(answer, /^event: message\n/);
    t.equal((await get<Row>(`/requests/log/${id}`)).body['bytesOut'], Buffer.byteLength(answer), id);
  }
});

t.test('the size of the events of a background response is in the log', async (t) => {
  const { url, get } = await start(t);
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ model: MODEL, input: 'x', max_output_tokens: 4, background: true, stream: true });
  const sent = { method: 'POST', body, headers: { ...headers, 'x-request-id': 'created' } };
  const created = await (await fetch(`${url}/v1/responses`, sent)).text();
  const [, id = ''] = /"id":"(resp_[^"]+)"/.exec(created) ?? [];
  const resumed = { headers: { ...headers, 'x-request-id': 'resumed' } };
  const again = await (await fetch(`${url}/v1/responses/${id}?stream=true`, resumed)).text();
  t.equal(again, created);
  t.equal((await get<Row>('/requests/log/resumed')).body['bytesOut'], Buffer.byteLength(again));
  const { data } = (await get('/requests/log')).body;
  const sizes = data.filter(({ requestId }) => requestId === 'created').map((row) => row['bytesOut']);
  t.ok(sizes.includes(Buffer.byteLength(created)), JSON.stringify(sizes));
});

t.test('an attempt that failed is told with its reason', async (t) => {
  const { url, hosts, get } = await start(t, { routing: { affinity: false } }, [{}, {}]);
  await hosts[0]?.setFault([{ fault: { status: 500 } }]);
  // Whichever CRN comes first: in the end one request has met both.
  let turn = 0;
  await until('a request that left the first CRN', async () => {
    await ask(url, `turn-${turn++}`);
    const { body } = await get(`/requests/log?crn=${encodeURIComponent(hosts[0]?.url ?? '')}`);
    return body.data.length > 0;
  });
  const { body } = await get(`/requests/log?q=status+500`);
  t.match(body.data[0], {
    ...{ status: 200, attempts: 2, crn: hosts[1]?.url },
    failures: [{ crn: hosts[0]?.url, failure: 'status 500', reason: String, sentMs: Number, endMs: Number }],
  });
});

t.test('requests under way are listed with where they stand', async (t) => {
  const { url, get } = await start(t, {}, [{ timeToFirstTokenMs: 0, interTokenMs: 30_000 }]);
  const abort = new AbortController();
  const answer = await chat(url, { stream: true, headers: { 'x-request-id': 'running' }, signal: abort.signal });
  await answer.body?.getReader().read();
  interface Live {
    readonly count: number;
    readonly data: readonly Row[];
  }
  t.match((await get<Live>('/requests/live')).body, {
    ...{ count: 1, missingThreads: 0 },
    data: [
      {
        ...{
          requestId: 'running',
          phase: 'streaming',
          endpoint: '/v1/chat/completions',
          model: MODEL,
          account: 'tests',
        },
        ...{
          attempts: 1,
          ageMs: Number,
          sinceMs: Number,
          sentMs: Number,
          firstByteMs: Number,
          bytesIn: Number,
          thread: 0,
        },
      },
    ],
  });
  abort.abort();
  await until('the request has ended', async () => (await get<Live>('/requests/live')).body.count === 0);
  t.match((await get('/requests/log?status=error')).body.data, [{ requestId: 'running', aborted: true, status: 200 }]);
});

t.test('phases of a request before its answer', async (t) => {
  const { url, adminUrl, get } = await start(t, {}, [{ timeToFirstTokenMs: 30_000 }]);
  const phases = async (): Promise<string> =>
    (await get<{ data: Row[] }>('/requests/live')).body.data
      .map(({ phase, requestId }) => `${requestId} ${String(phase)}`)
      .join();
  const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json', 'x-request-id': 'body' };
  const slow = request(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { ...headers, 'content-length': 100 },
  });
  slow.on('error', () => undefined);
  slow.write('{"model": ');
  await until('its body is read', async () => (await phases()) === 'body reading');
  t.match((await get<{ data: Row[] }>('/requests/live')).body.data, [{ bytesIn: 10, model: null, attempts: 0 }]);
  slow.destroy();
  await until('it is gone', async () => (await phases()) === '');
  const abort = new AbortController();
  const sent = chat(url, { stream: true, headers: { 'x-request-id': 'sent' }, signal: abort.signal }).catch(
    () => undefined,
  );
  await until('it was sent', async () => (await phases()) === 'sent sent');
  abort.abort();
  await sent;
  t.match((await fetch(`${adminUrl}/requests/live`)).status, 200);
});

t.test('pages go on without gaps or repeats over threads while requests end', async (t) => {
  const { url, get } = await start(t, { threads: 2 });
  const some = (from: number, to: number): Promise<void[]> =>
    Promise.all(Array.from({ length: to - from }, (_, i) => ask(url, `r${from + i}`)));
  await some(0, 30);
  await until('all are in the log', async () => (await get('/requests/log')).body.data.length === 30);
  const seen: string[] = [];
  let next: string | null = '';
  for (let from = 30; next !== null; from += 5) {
    const { body }: { body: Page } = await get(`/requests/log?limit=7${next === '' ? '' : `&before=${next}`}`);
    seen.push(...body.data.map(({ requestId }) => requestId));
    next = body.next;
    await some(from, from + 5);
  }
  t.same(seen.sort(), Array.from({ length: 30 }, (_, i) => `r${i}`).sort());
  // A page has what had ended when it was asked for: wait until that is everything.
  const all = async (): Promise<Row[]> => (await get('/requests/log?limit=500')).body.data;
  await until('all are in the log', async () => (await all()).length === 55);
  const rows = await all();
  const behind = await get(`/requests/log?limit=500&after=${rows.at(-1)?.cursor}`);
  const cursors = (of: readonly Row[]): string[] => of.map(({ cursor }) => cursor);
  t.same(cursors(behind.body.data), cursors(rows.slice(0, -1)).reverse(), 'the same forwards');
});

t.test('parameters that are wrong are named, all at once', async (t) => {
  const { get } = await start(t);
  const { status, body } = await get<{ detail: { loc: string[]; msg: string }[] }>(
    '/requests/log?limit=501&before=x&status=7xx&slowerThan=2&q=&modle=a',
  );
  t.equal(status, 422);
  t.same(
    body.detail.map(({ loc, msg }) => `${loc.join('.')} ${msg}`),
    [
      'query.modle is not a field here',
      'query.before must be the cursor of a row',
      'query.status must be a status such as 404, a class such as 5xx, or error: what failed, broke off or was aborted',
      'query.slowerThan must be a duration with its unit, such as 2s or 500ms',
      'query.limit must be a whole number from 1 to 500',
      'query.q must be 1 to 300 characters',
    ],
  );
  t.match(await get('/requests/log?before=1-1-1&after=1-1-1'), { status: 422 });
  t.match(await get('/requests/log?q=a&q=b'), { status: 422, body: { detail: [{ msg: 'is given twice' }] } });
  t.match(await get('/requests/live?x=1'), { status: 422 });
  for (const right of ['status=404', 'status=5xx', 'status=error', 'slowerThan=500ms', 'limit=1', 'q=a%20b'])
    t.equal((await get(`/requests/log?${right}`)).status, 200, right);
});

const TOKENS: SettingsInput = {
  adminToken: 'sesame',
  adminTokens: [{ name: 'vera', role: 'viewer', sha256: hashToken('look').toString('hex') }],
};

t.test('with admin tokens a viewer reads, and only an operator reads prompts', async (t) => {
  const requestLog = { prompts: true, promptLength: 20 };
  const { url, adminUrl, get } = await start(t, { ...TOKENS, requestLog });
  await ask(url, 'kept', { text: 'The first part of a long question. Where does the water go?' });
  await ask(url, 'kept-stream', { stream: true });
  for (const path of ['/requests/live', '/requests/log', '/requests/log/kept']) {
    const refused = await get(path);
    t.equal(refused.status, 401, path);
    t.equal(refused.response.headers.get('www-authenticate'), 'Bearer');
    t.equal((await get(path, 'wrong')).status, 401, path);
    t.equal((await get(path, 'look')).status, 200, path);
    t.equal(
      (await fetch(adminUrl + path, { method: 'POST', headers: { authorization: 'Bearer sesame' } })).status,
      405,
      path,
    );
  }
  t.match((await get('/requests/log/kept', 'look')).body, { texts: { kept: true, prompt: null, answer: null } });
  const { body } = await get<{ texts: { prompt: string; answer: string } }>('/requests/log/kept', 'sesame');
  t.match(body.texts, { kept: true, prompt: /does the water go\?$/, answer: /\S/ });
  t.ok(body.texts.prompt.length <= 20 && body.texts.answer.length <= 20);
  t.match((await get('/requests/log/kept-stream', 'sesame')).body, { texts: { prompt: /water go\?$/, answer: /\S/ } });
  t.notMatch((await get('/requests/log', 'sesame')).body, { data: [{ texts: Object }] }, 'lists have none');
});

t.test('without admin tokens prompts are not readable, and by default not kept', async (t) => {
  const open = await start(t, { requestLog: { prompts: true } });
  await ask(open.url, 'a');
  t.match((await open.get('/requests/log/a')).body, { texts: { kept: true, prompt: null, answer: null } });
  const closed = await start(t, TOKENS);
  await ask(closed.url, 'a');
  t.match((await closed.get('/requests/log/a', 'sesame')).body, { texts: { kept: false, prompt: null, answer: null } });
});

t.test('health probes are not in the log, and size 0 turns it off', async (t) => {
  const { url, get } = await start(t);
  t.equal((await fetch(`${url}/health`)).status, 200);
  await (await fetch(`${url}/v1/models`)).text();
  t.match((await get('/requests/log')).body.data, [{ endpoint: '/v1/models', method: 'GET' }]);
  t.equal((await get('/requests/log')).body.data.length, 1);
  const off = await start(t, { requestLog: { size: 0 } });
  await ask(off.url, 'a');
  t.match((await off.get('/requests/log')).body, { size: 0, data: [] });
});

t.test('the configuration in force is shown as documents are', async (t) => {
  const { adminUrl, get } = await start(t);
  interface Configuration {
    readonly reloadable: boolean;
    readonly settings: { path: string; value: unknown; source: string }[];
  }
  const { body, response } = await get<Configuration>('/configuration');
  t.equal(response.headers.get('cache-control'), 'no-store');
  t.equal(body.reloadable, false, 'an embedded gateway has no file');
  const of = (path: string): unknown => body.settings.find((row) => row.path === path);
  t.match(of('health.interval'), { value: '50ms', source: 'program' });
  t.match(of('store'), { value: null, source: 'program' });
  t.match(of('keys.static'), { value: [{ key: '(set)', account: 'tests' }] });
  t.equal((await fetch(`${adminUrl}/configuration`, { method: 'POST' })).status, 405);
  const greedy = await start(t, {
    limits: { bodyBytes: '4096000GiB', bufferedBytes: '4096000GiB', connections: 1e12 },
  });
  const applied = new Map(
    (await greedy.get<Configuration>('/configuration')).body.settings.map((row) => [row.path, row]),
  );
  for (const path of ['limits.bodyBytes', 'limits.bufferedBytes', 'limits.connections']) {
    t.match(applied.get(path), { source: 'process', differs: true }, `${path} is what the process can have`);
  }
  t.equal(applied.get('limits.bodyBytes')?.value, applied.get('limits.bufferedBytes')?.value);
  const guarded = await start(t, TOKENS);
  t.equal((await guarded.get('/configuration')).status, 401);
  t.equal((await guarded.get('/configuration', 'look')).status, 200);
  t.notMatch(JSON.stringify((await guarded.get('/configuration', 'look')).body), /sesame/);
});
