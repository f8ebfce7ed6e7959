// The gateway embedded in other programs, in every way that docs/embedding.md shows: its own port, inject, http.createServer,
// Express and Fastify.

import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import {
  ConfigError,
  createGateway,
  type Gateway,
  type GatewayOptions,
  type InjectRequest,
  type SearchInput,
  type SettingsInput,
} from '../../src/index.ts';
import { freePort } from '../support/free-port.ts';
import { serving } from '../support/serving.ts';
import { chat, KEY, MODEL, readStream, settingsFor, startHosts } from '../support/system.ts';

async function startGateway(t: Test, extra: SettingsInput = {}): Promise<Gateway> {
  const gateway = createGateway(settingsFor(await startHosts(t), extra));
  t.teardown(() => gateway.close());
  await gateway.ready();
  return gateway;
}

function urlOf(t: Test, server: Server): string {
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What a mounted gateway must do below `base`. */
async function exercise(t: Test, base: string): Promise<void> {
  const openai = new OpenAI({ apiKey: KEY, baseURL: `${base}/v1`, maxRetries: 0 });
  const ask = { model: MODEL, messages: [{ role: 'user' as const, content: 'Where?' }], max_tokens: 5 };
  const whole = await openai.chat.completions.create(ask);
  t.equal(whole.choices[0]?.message.content?.split(' ').length, 5);
  t.equal(await openai.chat.completions.stream(ask).finalContent(), whole.choices[0]?.message.content);
  t.ok((await readStream(await chat(base, { stream: true }))).complete);
  await t.rejects(openai.chat.completions.create({ ...ask, model: 'nobody' }), { status: 404, message: /404/ });
  t.match(await (await fetch(`${base}/health`)).json(), { status: 'ok' });
  t.match(await (await fetch(`${base}/v1/models`)).json(), { data: [{ id: MODEL }] });
  t.equal((await fetch(`${base}/docs`)).status, 200);
  t.equal((await fetch(`${base}/nothing/here`)).status, 404);
}

t.test('listens on a port of its own', async (t) => {
  const gateway = await startGateway(t);
  const { url, adminUrl } = await gateway.listen();
  t.equal(adminUrl, null, 'an embedded gateway opens no admin port unless it is told to');
  await exercise(t, url);
  await gateway.close();
  await t.rejects(fetch(`${url}/health`));
  t.equal(await gateway.close(), undefined, 'closing twice is fine');
});

t.test('leaves the environment of the process alone', async (t) => {
  delete process.env['UWS_HTTP_MAX_HEADERS_SIZE'];
  const before = { ...process.env };
  await (await startGateway(t)).listen();
  t.strictSame({ ...process.env }, before);
});

t.test('answers injected requests without a socket', async (t) => {
  const gateway = await startGateway(t);
  const answer = await gateway.inject({
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${KEY}` },
    body: { model: MODEL, messages: [{ role: 'user', content: 'Where?' }] },
  });
  t.equal(answer.status, 200);
  t.match(answer.json(), { choices: [{ message: { role: 'assistant' } }] });
  t.match((await gateway.inject({ path: '/health' })).json(), { status: 'ok' });
});

t.test('is the listener of http.createServer', async (t) => {
  const gateway = await startGateway(t);
  const server = createServer(gateway.nodeListener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await exercise(t, urlOf(t, server));
});

t.test('close waits for requests that came through the listener', async (t) => {
  const hosts = await startHosts(t, [{ interTokenMs: 10 }]);
  const gateway = createGateway(settingsFor(hosts));
  const server = createServer(gateway.nodeListener);
  await gateway.ready();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stream = chat(urlOf(t, server), { stream: true, tokens: 30 }).then(readStream);
  await hosts[0]?.nextRequest();
  await gateway.close();
  t.equal(hosts[0]?.live, 0);
  t.ok((await stream).complete);
});

for (const parser of ['', ' after express.json()']) {
  t.test(`is mounted in Express${parser}`, async (t) => {
    const gateway = await startGateway(t);
    const app = express();
    if (parser !== '') app.use(express.json());
    app.use('/ai', gateway.nodeListener);
    app.get('/own', (_req, res) => res.send('own'));
    const server = await new Promise<Server>((resolve) => {
      const listening = app.listen(0, '127.0.0.1', () => resolve(listening));
    });
    const url = urlOf(t, server);
    await exercise(t, `${url}/ai`);
    t.equal(await (await fetch(`${url}/own`)).text(), 'own');
  });
}

t.test('is mounted in Fastify', async (t) => {
  const gateway = await startGateway(t);
  const app = fastify();
  t.teardown(() => app.close());
  await app.register(
    (scope, _options, done) => {
      // Leaves bodies alone: the gateway reads them.
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _payload, parsed) => parsed(null));
      scope.all('/*', (request, reply) => {
        reply.hijack();
        request.raw.url = request.raw.url?.slice('/ai'.length) ?? '/';
        gateway.nodeListener(request.raw, reply.raw);
      });
      done();
    },
    { prefix: '/ai' },
  );
  app.post('/own', (request) => request.body);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  await exercise(t, `${url}/ai`);
  const own = await fetch(`${url}/own`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"its":"own"}',
  });
  t.same(await own.json(), { its: 'own' }, 'bodies of the application are parsed as before');
});

t.test('a closed gateway sends nothing to its servers', async (t) => {
  const hosts = await startHosts(t);
  const gateway = createGateway(settingsFor(hosts));
  const server = createServer(gateway.nodeListener);
  await gateway.ready();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await gateway.close();
  const refused = { status: 503, headers: { 'x-headrace-error': 'HR_DRAINING' } };
  const body = { model: MODEL, messages: [{ role: 'user', content: 'Where?' }] };
  const headers = { authorization: `Bearer ${KEY}` };
  t.match(await gateway.inject({ path: '/v1/chat/completions', headers, body }), refused);
  t.equal((await chat(urlOf(t, server))).status, 503);
  t.equal((await gateway.inject({ path: '/health' })).status, 503);
  await t.rejects(gateway.ready(), { code: 'HR_DRAINING' }, 'though it was ready');
});

t.test('what is wrong with a request as a whole is said without a field', async (t) => {
  const gateway = createGateway({ keys: { required: false } });
  t.teardown(() => gateway.close());
  await t.rejects(gateway.search('weir' as never), {
    code: 'HR_REQUEST_INVALID',
    message: 'Validation failed: Input should be a valid dictionary or object to extract fields from',
  });
});

t.test('a closed gateway opens no port', async (t) => {
  const port = await freePort();
  const gateway = createGateway({ listen: `127.0.0.1:${port}` });
  await gateway.close();
  await t.rejects(gateway.listen(), { code: 'HR_DRAINING' });
  await t.rejects(fetch(`http://127.0.0.1:${port}/health`));
});

for (const threads of [0, 1]) {
  t.test(`what waits for the start of a gateway with ${threads} threads ends when it closes`, async (t) => {
    const gateway = createGateway({ threads, listen: '127.0.0.1:0' });
    const waiting = Promise.allSettled([gateway.listen(), gateway.ready()]);
    await gateway.close();
    const drained = { status: 'rejected', reason: { code: 'HR_DRAINING' } };
    t.match(await waiting, [drained, drained]);
    await t.rejects(gateway.ready(), { code: 'HR_DRAINING' });
  });
}

t.test('all mistakes in settings are reported at once', (t) => {
  const wrong = {
    listen: 'nowhere',
    timeouts: { connect: 'soon' },
    models: { m: { servers: ['ftp://x'] } },
    surprise: 1,
  } as unknown as SettingsInput;
  try {
    createGateway(wrong);
    t.fail('must throw');
  } catch (error) {
    t.ok(error instanceof ConfigError);
    const paths = (error as ConfigError).mistakes.map(({ path }) => path);
    t.same(paths.sort(), ['listen', 'models.m.servers[0]', 'surprise', 'timeouts.connect']);
    for (const path of paths) t.ok((error as Error).message.includes(path));
  }
  t.end();
});

for (const wrong of [5, null, undefined, [], new Map(), 'headrace.yaml'] as unknown[] as SettingsInput[]) {
  t.test(`settings must be an object: ${JSON.stringify(wrong)}`, async (t) => {
    const refused = { name: 'ConfigError', message: /\(root\): must be an object/ };
    t.throws(() => createGateway(wrong), refused);
    const gateway = await startGateway(t);
    t.throws(() => gateway.reload(wrong), refused);
    t.match(gateway.crns(), [{ model: MODEL }], 'the running settings stay');
  });
}

t.test('onFatal must be a function', (t) => {
  const options = { onFatal: 'exit' } as unknown as GatewayOptions;
  t.throws(() => createGateway({}, options), { name: 'ConfigError', message: /onFatal: must be a function/ });
  t.end();
});

t.test('an injected request that makes no sense is an error that says what', async (t) => {
  const gateway = await startGateway(t);
  const inject = (request: unknown): Promise<unknown> => gateway.inject(request as InjectRequest);
  for (const nothing of [undefined, null, 5])
    await t.rejects(inject(nothing), { message: /^inject: the request must/ });
  for (const request of [{}, { path: 5 }]) await t.rejects(inject(request), { message: /^inject: path must be a/ });
  await t.rejects(inject({ path: '/health', method: 5 }), { message: 'inject: method must be a string' });
  t.match(await inject({ path: '/health', method: 'get' }), { status: 200 });
  const headers = { accept: 5 };
  await t.rejects(inject({ path: '/health', headers }), { message: 'inject: the header accept must be a string' });
  for (const body of [1n, () => 1])
    await t.rejects(inject({ path: '/search', body }), { message: /^inject: body must/ });
});

t.test('bytes in whatever form are the body of an injected request', async (t) => {
  const gateway = await startGateway(t);
  const bytes = Buffer.from(`    ${JSON.stringify({ model: 'none' })}`);
  const copy = new Uint8Array(bytes).buffer;
  const path = '/v1/chat/completions';
  const headers = { 'content-type': 'application/json', 'x-api-key': KEY };
  for (const body of [bytes, copy, new DataView(copy, 4), new Uint16Array(copy, 4)])
    t.equal((await gateway.inject({ path, headers, body })).status, 404, 'the model is read');
});

t.test('an injected value has its content type whatever the other headers say', async (t) => {
  const hosts = await startHosts(t, [{}]);
  const gateway = createGateway(settingsFor(hosts));
  t.teardown(() => gateway.close());
  await gateway.ready();
  const body = { model: MODEL, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 1 };
  const headers = { 'x-wanted': 'content-type', 'x-api-key': KEY };
  await gateway.inject({ path: '/v1/chat/completions', headers, body });
  t.match(await hosts[0]?.nextRequest(), { headers: { 'content-type': 'application/json' } });
});

t.test('an injected request is rejected with the reason of its signal', async (t) => {
  const gateway = await startGateway(t);
  for (const reason of [new Error('enough'), 'enough', null]) {
    const request = gateway.inject({ path: '/health', signal: AbortSignal.abort(reason) });
    t.equal(await request.catch((error: unknown) => error), reason);
  }
});

t.test('a call that makes no sense is an error that says what', async (t) => {
  const gateway = await startGateway(t);
  const calls: Record<string, (options: unknown) => Promise<unknown>> = {
    search: (options) => gateway.search({ query: 'weir' }, options as object),
    fetchPage: (options) => gateway.fetchPage('http://page.example/', options as object),
    fetchPages: (options) => gateway.fetchPages(['http://page.example/'], options as object),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const options of [null, 5, 'markdown'])
      await t.rejects(call(options), { name: 'TypeError', message: `${name}: the options must be an object` });
    const refused = { name: 'TypeError', message: `${name}: signal must be an AbortSignal` };
    for (const signal of [5, {}]) await t.rejects(call({ signal }), refused);
  }
  const signal = 5 as unknown as AbortSignal;
  await t.rejects(gateway.inject({ path: '/health', signal }), { message: 'inject: signal must be an AbortSignal' });
  await t.rejects(gateway.search({ query: 'weir', page: 0 }), {
    code: 'HR_REQUEST_INVALID',
    message: 'Validation failed: page: Input should be greater than or equal to 1',
  });
});

t.test('a member that is undefined is one that is left out', async (t) => {
  const gateway = await startGateway(t);
  const search = (members: object): Promise<unknown> => gateway.search(members as SearchInput);
  const content = { results: undefined };
  await t.rejects(search({ query: 'weir', engines: undefined, content }), { code: 'HR_SEARCH_ALL_FAILED' });
  const options: object = { max_chars: undefined, format: undefined };
  await t.rejects(gateway.fetchPage('http://127.0.0.1/', options), { code: 'HR_FETCH_BLOCKED' });
  await t.rejects(search({ query: undefined }), { message: 'Validation failed: query: Field required' });
});

t.test('headers of injected requests may be those of fetch', async (t) => {
  const gateway = await startGateway(t);
  const authorization = `Bearer ${KEY}`;
  for (const headers of [
    { authorization },
    new Headers({ authorization }),
    [['authorization', authorization] as const],
  ]) {
    t.equal((await gateway.inject({ path: '/svc/auth/check', headers })).status, 200);
  }
});

t.test('close waits for searches and pages of the program', async (t) => {
  const asked: ServerResponse[] = [];
  const both = Promise.withResolvers<void>();
  const url = await serving(t, (_, res) => {
    if (asked.push(res) === 2) both.resolve();
  });
  const search = { engines: { engine_a: { kind: 'worker', url } } } as const;
  const gateway = await startGateway(t, { search, fetch: { allow: ['127.0.0.1'] } });
  const query = { query: 'weir', engines: ['engine_a'] };
  const calls = Promise.all([gateway.search(query), gateway.fetchPage(`${url}/page`)]);
  await both.promise;
  const closed = gateway.close();
  // Without anything in flight a gateway is closed within these turns.
  for (let turn = 0; turn < 100; turn++) await new Promise(setImmediate);
  for (const res of asked) {
    const isPage = res.req.url === '/page';
    res.setHeader('content-type', isPage ? 'text/html' : 'application/json');
    res.end(isPage ? '<p>Words of a page.</p>' : '{"results":[]}');
  }
  t.match(await calls, [{ meta: { engines_used: ['engine_a'] } }, { content: 'Words of a page.' }]);
  await closed;
  await t.rejects(gateway.search(query), { code: 'HR_DRAINING' });
  await t.rejects(gateway.fetchPage(`${url}/page`), { code: 'HR_DRAINING' });
});

t.test('a closed gateway takes no settings', async (t) => {
  const gateway = await startGateway(t);
  await gateway.close();
  t.throws(() => gateway.reload({}), { code: 'HR_DRAINING' });
});

for (const threads of [0, 1]) {
  t.test(`a gateway with ${threads} threads listens once`, async (t) => {
    const gateway = await startGateway(t, { threads });
    const [{ url }] = await Promise.all([
      gateway.listen(),
      t.rejects(gateway.listen(), { message: 'listen() has been called before' }),
    ]);
    await t.rejects(gateway.listen(), { message: 'listen() has been called before' });
    t.equal((await fetch(`${url}/health`)).status, 200);
    await gateway.close();
    await t.rejects(fetch(`${url}/health`));
    await t.rejects(gateway.listen(), { code: 'HR_DRAINING' }, 'though it has listened');
  });

  t.test(`a gateway with ${threads} threads may listen again on ports that were taken`, async (t) => {
    const holders = [createServer(), createServer()] as const;
    for (const holder of holders) {
      const port = await freePort();
      await new Promise<void>((resolve) => holder.listen(port, '127.0.0.1', resolve));
    }
    const [listen, admin] = holders.map((holder) => `127.0.0.1:${(holder.address() as AddressInfo).port}`) as [
      string,
      string,
    ];
    const gateway = await startGateway(t, { threads, listen, admin, timeouts: { unready: '500ms' } });
    for (const holder of holders) {
      await t.rejects(gateway.listen(), { code: 'EADDRINUSE' });
      await new Promise((resolve) => holder.close(resolve));
    }
    t.strictSame(await gateway.listen(), { url: `http://${listen}`, adminUrl: `http://${admin}` });
    for (const each of [listen, admin]) t.equal((await fetch(`http://${each}/health`)).status, 200);
    const closing = gateway.close();
    while ((await fetch(`http://${listen}/health`)).status !== 503);
    const [host, port] = listen.split(':') as [string, string];
    const late = connect(Number(port), host);
    await t.resolves(once(late, 'connect'), 'it still listens, for load balancers that have not asked');
    late.destroy();
    await closing;
  });
}

t.test('with a shared port an admin address that this machine does not have is an error', async (t) => {
  // RFC 5737: of no machine.
  const gateway = await startGateway(t, { sharePort: true, admin: '192.0.2.1:9090' });
  await t.rejects(gateway.listen(), { code: 'EADDRNOTAVAIL', message: /^cannot listen on 192\.0\.2\.1:9090/ });
});

t.test('a reload with wrong settings throws and keeps the old ones', async (t) => {
  const gateway = await startGateway(t);
  t.throws(() => gateway.reload({ models: { m: { servers: ['ftp://x'] } } }), { name: 'ConfigError' });
  t.match((await gateway.inject({ path: '/v1/models' })).json(), { data: [{ id: MODEL }] });
});

t.test('two gateways in one process are independent', async (t) => {
  const [first, second] = await Promise.all([startGateway(t), startGateway(t, { keys: { required: false } })]);
  const [one, two] = await Promise.all([first.listen(), second.listen()]);
  t.not(one.url, two.url);
  await exercise(t, one.url);
  await first.close();
  await exercise(t, two.url);
});

t.test('a port in use is an error that names it, also when another gateway uses it', async (t) => {
  const first = await startGateway(t);
  const { port } = new URL((await first.listen()).url);
  const second = await startGateway(t, { listen: `127.0.0.1:${port}` });
  await t.rejects(second.listen(), { message: `cannot listen on 127.0.0.1:${port}: the port is taken` });
});
