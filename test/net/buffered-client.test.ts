// BufferedClient on real sockets: limits, waiting for a connection, and the one retry on a connection that its server has just
// closed.
import { createServer as createHttp, type RequestListener } from 'node:http';
import { createServer as createHttps } from 'node:https';
import { type AddressInfo, createServer as createTcp, type Server, type Socket } from 'node:net';
import t from 'tap';
import { DispatchError } from '../../src/net/client.ts';
import { TooLongError, BufferedClient } from '../../src/net/buffered-client.ts';
import { NameCache } from '../../src/net/name-cache.ts';
import { CERTIFICATE, KEY } from '../support/certificate.ts';

interface Test {
  teardown(run: () => unknown): unknown;
}

async function listen(t: Test, server: Server): Promise<string> {
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function http(t: Test, listener: RequestListener): Promise<string> {
  const server = createHttp(listener);
  t.teardown(() => server.closeAllConnections());
  return listen(t, server);
}

/** A server that responds to request `n` on connection `c`, both counted from 1, with `answer(c, n)`; '' resets. */
async function raw(
  t: Test,
  answer: (c: number, n: number) => string,
): Promise<{ url: string; connections: () => number }> {
  const sockets = new Set<Socket>();
  const server = createTcp((socket) => {
    sockets.add(socket.on('error', () => undefined));
    const c = sockets.size;
    let n = 0;
    socket.on('data', () => {
      const text = answer(c, ++n);
      if (text === '') socket.resetAndDestroy();
      else socket.write(text);
    });
  });
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  return { url: await listen(t, server), connections: () => sockets.size };
}

function client(t: Test, connections = 4): BufferedClient {
  const made = new BufferedClient(connections);
  t.teardown(() => made.close());
  return made;
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
const never = new AbortController().signal;
const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

t.test('reads small responses, follows no redirects, keeps its limits', async (t) => {
  const url = await http(t, (request, response) => {
    if (request.url === '/moved') response.writeHead(302, { location: '/' }).end();
    else if (request.url === '/large') response.end('x'.repeat(1000));
    else if (request.url === '/half') response.writeHead(200, { 'content-length': '10' }).write('half');
    else if (request.url !== '/silent') response.writeHead(202, { 'set-cookie': ['a=1', 'b=2'] }).end('{"a":1}');
  });
  const whole = client(t);
  const { body, headers, status } = await whole.get(`${url}/`, 1000, 100);
  t.same([status, body.toString(), headers['set-cookie']], [202, '{"a":1}', 'a=1, b=2']);
  t.equal((await whole.get(`${url}/moved`, 1000, 100)).status, 302);
  await t.rejects(whole.get(`${url}/large`, 1000, 999), TooLongError);
  t.equal((await whole.get(`${url}/large`, 1000, 1000)).body.length, 1000);
  await t.rejects(whole.get(`${url}/half`, 50, 100), { name: 'TimeoutError' });
  await t.rejects(whole.get(`${url}/silent`, 50, 100), { name: 'TimeoutError' });
  await t.rejects(whole.get('no url', 50, 100), { code: 'ERR_INVALID_URL' });
});

t.test('a request waits while all connections are in use', async (t) => {
  const open: (() => void)[] = [];
  let arrived = 0;
  const url = await http(t, (_request, response) => {
    arrived++;
    open.push(() => response.end('ok'));
  });
  const whole = client(t, 2);
  const answers = Array.from({ length: 5 }, () => whole.get(url, 5000, 100));
  for (const expected of [2, 4, 5]) {
    while (arrived < expected) await turn();
    for (let i = 0; i < 10; i++) await turn();
    t.equal(arrived, expected);
    for (const answer of open.splice(0)) answer();
  }
  t.equal((await Promise.all(answers)).length, 5);
});

t.test('requests that wait for a TLS connection are served when it has been read out', async (t) => {
  const server = createHttps({ cert: CERTIFICATE, key: KEY }, (_request, response) => response.end('ok'));
  t.teardown(() => server.closeAllConnections());
  const { port } = new URL(await listen(t, server));
  const names = new NameCache({ lookup: async () => ['127.0.0.1'] });
  const whole = new BufferedClient(1, { ca: CERTIFICATE, names });
  t.teardown(() => whole.close());
  const answers = Array.from({ length: 5 }, () => whole.get(`https://secure.test:${port}/`, 5000, 100));
  for (const { body } of await Promise.all(answers)) t.equal(body.toString(), 'ok');
});

t.test('hosts have the names that they are given', async (t) => {
  const url = await http(t, (request, response) => response.end(request.headers.host));
  const { origin, host, port } = new URL(url);
  const whole = new BufferedClient(1);
  t.teardown(() => whole.close());
  const asked = async (): Promise<string> => (await whole.get(`${origin}/`, 5000, 100)).body.toString();
  t.equal(await asked(), host);
  whole.nameHosts(new Map([[origin, 'gpu.example']]));
  t.equal(await asked(), `gpu.example:${port}`);
  whole.nameHosts(new Map());
  t.equal(await asked(), host);
});

t.test('a name is looked up once for all its ports, however many requests there are', async (t) => {
  const urls = [await http(t, (_, response) => response.end('a')), await http(t, (_, response) => response.end('b'))];
  let lookups = 0;
  const lookup = async (): Promise<string[]> => (lookups++, ['127.0.0.1']);
  const whole = new BufferedClient(4, { names: new NameCache({ lookup }) });
  t.teardown(() => whole.close());
  const ports = urls.map((url) => new URL(url).port);
  for (let i = 0; i < 5; i++) {
    const answers = await Promise.all(ports.map((port) => whole.get(`http://engine.test:${port}/`, 5000, 100)));
    t.same(
      answers.map(({ body }) => body.toString()),
      ['a', 'b'],
    );
  }
  t.equal(lookups, 1);
});

t.test('a connection given back in this turn serves a request that arrives meanwhile', async (t) => {
  const url = await http(t, (_request, response) => response.end('ok'));
  const whole = client(t, 1);
  for (let i = 0; i < 20; i++) await whole.get(url, 1000, 100);
  const chains = Array.from({ length: 4 }, async () => {
    for (let i = 0; i < 20; i++) await whole.get(url, 1000, 100);
  });
  await Promise.all(chains);
  t.pass('every request was served');
});

t.test('a waiting request that is aborted takes no connection', async (t) => {
  const open: (() => void)[] = [];
  const url = await http(t, (_request, response) => void open.push(() => response.end('ok')));
  const whole = client(t, 1);
  const first = whole.get(url, 5000, 100);
  const leaving = new AbortController();
  const second = whole.send({ method: 'GET', url, headers: {} }, leaving.signal, 100);
  const third = whole.get(url, 5000, 100);
  leaving.abort(new Error('left'));
  await t.rejects(second, /left/);
  let done = false;
  void Promise.all([first, third]).then(() => (done = true));
  while (!done) {
    open.shift()?.();
    await turn();
  }
  t.pass('the others were served');
});

t.test('a request on a used connection that the server has closed is sent again', async (t) => {
  const { connections, url } = await raw(t, (c, n) => (c === 1 && n === 2 ? '' : OK));
  const whole = client(t);
  await whole.get(url, 1000, 100);
  await turn();
  await turn();
  t.equal((await whole.get(url, 1000, 100)).body.toString(), 'ok');
  t.equal(connections(), 2);
});

t.test('neither a reset of a new connection nor of a retry is retried', async (t) => {
  const fresh = await raw(t, () => '');
  await t.rejects(client(t).get(fresh.url, 1000, 100));
  t.equal(fresh.connections(), 1);
  const { connections, url } = await raw(t, (c, n) => (c === 1 && n === 1 ? OK : ''));
  const whole = client(t);
  await whole.get(url, 1000, 100);
  await turn();
  await turn();
  await t.rejects(whole.get(url, 1000, 100));
  t.equal(connections(), 2);
});

t.test('a request whose response has begun is not sent again', async (t) => {
  const { connections, url } = await raw(t, (_, n) =>
    n === 1 ? OK : 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nha',
  );
  const whole = client(t);
  await whole.get(url, 1000, 100);
  await turn();
  await turn();
  await t.rejects(whole.get(url, 50, 100), { name: 'TimeoutError' });
  t.equal(connections(), 1);
});

t.test('close fails requests in progress and later ones', async (t) => {
  const { url } = await raw(t, () => 'HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n');
  const whole = client(t, 1);
  const under = [whole.get(url, 5000, 100), whole.get(url, 5000, 100)].map((answer) =>
    t.rejects(answer, new DispatchError('reset')),
  );
  await turn();
  whole.close();
  await Promise.all(under);
  await t.rejects(whole.send({ method: 'GET', url, headers: {} }, never, 100), new DispatchError('reset'));
});
