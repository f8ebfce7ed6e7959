// The gateway embedded in other programs, in every way that docs/embedding.md shows: its own port, inject, http.createServer,
// Express and Fastify.

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import fastify from 'fastify';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { ConfigError, createGateway, type Gateway, type SettingsInput } from '../../src/index.ts';
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

/** A port of the loopback interface that nothing listens on. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
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
