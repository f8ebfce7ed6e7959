import { once } from 'node:events';
import { createServer } from 'node:http';
import { connect, createServer as createRawServer, type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import { createGuard } from '../../../src/fetch/guard.ts';
import { GuardingProxy, type PageProxy, type PageProxyOptions } from '../../../src/fetch/renderer/guarding-proxy.ts';
import { nameServer } from '../../support/dns.ts';
import { page as html, site } from '../../support/site.ts';

const ANY = { host: '127.0.0.1', port: 0 };

/** A proxy that allows the name `site.test` alone, which is 127.0.0.1 as `inside.test` is. */
async function open(
  t: Test,
  ports: readonly number[],
  fields: Partial<PageProxyOptions> = {},
): Promise<{ proxy: GuardingProxy; page: PageProxy; authorization: string }> {
  const { lookup } = await nameServer(t, (name) => (name.endsWith('.test') ? ['127.0.0.1'] : []));
  const guard = createGuard({ allow: ['site.test'], ports, lookup });
  const proxy = new GuardingProxy();
  const page = await proxy.open(ANY, {
    ...{ guard, clock: systemClock, connectTimeoutMs: 2000, maxRequests: 100, maxBytes: 1_000_000 },
    ...fields,
  });
  t.teardown(() => page.close());
  return { proxy, page, authorization: basic(page) };
}

function basic({ password, username }: PageProxy): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
}

/** All that comes back for these bytes until the connection ends, or what `until` matches. */
async function say(port: number, text: string, until: RegExp = /$^/): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let heard = '';
  socket.setEncoding('latin1').on('error', () => undefined);
  socket.write(text);
  for await (const piece of socket) {
    heard += String(piece);
    if (until.test(heard)) break;
  }
  socket.destroy();
  return heard;
}

function get(url: string, authorization: string, more = ''): string {
  const field = authorization === '' ? '' : `Proxy-Authorization: ${authorization}\r\n`;
  return `GET ${url} HTTP/1.1\r\nHost: x\r\n${field}${more}Connection: close\r\n\r\n`;
}

function tunnel(authority: string, authorization: string): string {
  const field = authorization === '' ? '' : `Proxy-Authorization: ${authorization}\r\n`;
  return `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${field}\r\n`;
}

function status(answer: string): string {
  return answer.slice(9, 12);
}

t.test('without the credentials of a page nothing is sent', async (t) => {
  const { origin, port, asked } = await site(t, { '/': html('page') });
  const { page, authorization } = await open(t, [port]);
  const other = `Basic ${Buffer.from(`${page.username}:wrong`).toString('base64')}`;
  for (const credentials of ['', other, authorization.toLowerCase(), `${authorization}x`]) {
    t.equal(status(await say(page.port, get(`http://site.test:${port}/`, credentials))), '407');
    t.equal(status(await say(page.port, tunnel(`site.test:${port}`, credentials))), '407');
  }
  t.same(asked, [], origin);
  t.match(page.counts(), { requests: 0 });
});

t.test('requests and tunnels to allowed hosts pass, without what is between browser and proxy', async (t) => {
  let seen: NodeJS.Dict<string | string[]> = {};
  const { port, asked } = await site(t, {
    '/page': (request, response) => {
      seen = request.headers;
      response
        .writeHead(200, { 'x-page': 'yes', 'proxy-authenticate': 'Basic', 'keep-alive': 'timeout=9' })
        .end('text');
    },
  });
  const { page, authorization } = await open(t, [port]);
  const url = `http://site.test:${port}/page?q=1`;
  const answer = await say(page.port, get(url, authorization, 'X-Hop: 1\r\nProxy-Connection: x\r\nAccept: a\r\n'));
  t.match(answer, /^HTTP\/1\.1 200 [^]*x-page: yes[^]*text\r\n/);
  t.notMatch(answer, /proxy-authenticate/i);
  t.match(seen, { host: `site.test:${port}`, accept: 'a', 'x-hop': '1' });
  t.notOk('proxy-authorization' in seen || 'proxy-connection' in seen);
  const inside = `${tunnel(`site.test:${port}`, authorization)}GET /page HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n`;
  t.match(await say(page.port, inside), /^HTTP\/1\.1 200 Connection established\r\n\r\nHTTP\/1\.1 200 OK[^]*text\r\n/);
  t.same(asked, ['/page?q=1', '/page']);
  t.match(page.counts(), { requests: 2, refused: 0 });
});

t.test('private addresses are refused in every spelling, and names that lead to them', async (t) => {
  const { port, connections } = await site(t, { '/': html('inside') });
  const { page, authorization } = await open(t, [port]);
  const hosts = [
    ...[
      '127.0.0.1',
      'localhost',
      '127.1',
      '2130706433',
      '0x7f000001',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
    ],
    ...['169.254.169.254', '10.0.0.1', '[fd00:ec2::254]', '0.0.0.0', '[::]', '[64:ff9b::7f00:1]', 'x.localhost'],
  ];
  for (const host of hosts) {
    t.equal(status(await say(page.port, get(`http://${host}:${port}/`, authorization))), '403', host);
    t.equal(status(await say(page.port, tunnel(`${host}:${port}`, authorization))), '403', host);
  }
  // As names that do not exist.
  for (const host of ['inside.test', 'nowhere.example']) {
    t.equal(status(await say(page.port, get(`http://${host}:${port}/`, authorization))), '502', host);
    t.equal(status(await say(page.port, tunnel(`${host}:${port}`, authorization))), '502', host);
  }
  t.equal(status(await say(page.port, get('http://site.test:1/', authorization))), '403', 'port');
  t.equal(status(await say(page.port, tunnel('site.test:25', authorization))), '403', 'port');
  t.equal(connections(), 0);
});

t.test('other forms of requests are refused', async (t) => {
  const { port, connections } = await site(t, { '/': html('page') });
  const { page, authorization } = await open(t, [port]);
  for (const url of [
    '/',
    `ftp://site.test:${port}/`,
    `https://site.test:${port}/`,
    `http://u:p@site.test:${port}/`,
    '*',
  ])
    t.equal(status(await say(page.port, get(url, authorization))), '403', url);
  for (const authority of [`u@site.test:${port}`, 'site.test', `site.test:${port}/x`, `site.test:x`])
    t.match(status(await say(page.port, tunnel(authority, authorization))), /^(?:400|403|)$/, authority);
  const upgrade = get(`http://site.test:${port}/`, authorization, 'Upgrade: websocket\r\n').replace('close', 'upgrade');
  t.match(await say(page.port, upgrade), /^HTTP\/1\.1 (?:501|400)/);
  t.equal(connections(), 0);
});

t.test('connections that are reset at any moment end alone', async (t) => {
  const { port } = await site(t, { '/': html('page') });
  const { page, authorization } = await open(t, [port], { maxRequests: 10_000, maxBytes: 1e9 });
  const field = `Proxy-Authorization: ${authorization}\r\n`;
  const url = `http://site.test:${port}/`;
  const messages = [
    `GET ${url} HTTP/1.1\r\nHost: x\r\n${field}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    `GET ${url} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
    tunnel(`site.test:${port}`, authorization),
    tunnel(`site.test:${port}`, ''),
    `POST ${url} HTTP/1.1\r\nHost: x\r\n${field}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n`,
    get(url, authorization).repeat(3),
  ];
  for (let round = 0; round < 300; round++) {
    const socket = connect(page.port, '127.0.0.1').on('error', () => undefined);
    await once(socket, 'connect');
    const text = messages[round % messages.length] as string;
    // More than a socket that is not read holds, so that the answer meets a connection that is reset.
    socket.write(text + 'x'.repeat(round % 4 === 0 ? 200_000 : 0));
    for (let turn = round % 5; turn > 0; turn--) await new Promise((resolve) => setImmediate(resolve));
    socket.resetAndDestroy();
  }
  t.equal(status(await say(page.port, get(url, authorization))), '200');
});

t.test('a server that changes the protocol unasked is an error of its request', async (t) => {
  const server = createRawServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () =>
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nmore'),
    );
  });
  t.teardown(() => server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const { page, authorization } = await open(t, [port]);
  t.equal(status(await say(page.port, get(`http://site.test:${port}/`, authorization))), '502');
});

t.test('a server that asks for the credentials of the proxy gets an error', async (t) => {
  const { port } = await site(t, { '/': html('', { 'proxy-authenticate': 'Basic realm="x"' }, 407) });
  const { page, authorization } = await open(t, [port]);
  t.equal(status(await say(page.port, get(`http://site.test:${port}/`, authorization))), '502');
});

t.test('requests and bytes of a page are bounded', async (t) => {
  const { port, asked } = await site(t, { '/': html('x'.repeat(5000)) });
  const url = `http://site.test:${port}/`;
  const few = await open(t, [port], { maxRequests: 2 });
  const answers = [];
  for (let count = 0; count < 4; count++) answers.push(status(await say(few.page.port, get(url, few.authorization))));
  t.same(answers, ['200', '200', '403', '403']);
  t.match(few.page.counts(), { requests: 4, refused: 2 });
  const small = await open(t, [port], { maxBytes: 4000 });
  await say(small.page.port, get(url, small.authorization));
  t.equal(status(await say(small.page.port, get(url, small.authorization))), '403');
  t.equal(asked.length, 3);
});

t.test('heads count in the bytes of a page: an answer that never comes to its own head ends', async (t) => {
  const INFORMATION = `HTTP/1.1 103 Early Hints\r\nlink: ${'x'.repeat(10_000)}\r\n\r\n`;
  const ended = Promise.withResolvers<void>();
  const server = createRawServer((socket) => {
    const goOn = (): void => {
      while (socket.writable && socket.write(INFORMATION));
    };
    socket
      .on('data', goOn)
      .on('drain', goOn)
      .on('error', () => undefined);
    socket.on('close', () => ended.resolve());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const { page, authorization } = await open(t, [port], { maxBytes: 200_000 });
  t.notMatch(status(await say(page.port, get(`http://site.test:${port}/`, authorization))), /^2/);
  await ended.promise;
  const { bytes } = page.counts();
  t.ok(bytes > 200_000 && bytes < 2_000_000, `${bytes} bytes`);
});

t.test('the body of a request is never taken for another request', async (t) => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => (body += String(piece)));
    request.on('end', () => {
      asked.push(`${request.method} ${request.url} ${body.length}`);
      response.end('ok');
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => server.close().closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const { page, authorization } = await open(t, [port]);
  const hidden = 'GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n';
  const chunked = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;
  const forms = [
    ['Transfer-Encoding: chunked\r\n', chunked],
    [`Connection: content-length\r\nContent-Length: ${hidden.length}\r\n`, hidden],
  ] as const;
  for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST']) {
    for (const [fields, body] of forms) {
      const url = `http://site.test:${port}/seen`;
      const head = `${method} ${url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: ${authorization}\r\n${fields}`;
      t.equal(status(await say(page.port, `${head}\r\n${body}`, /ok/)), '200');
      t.equal(asked.pop(), `${method} /seen ${hidden.length}`);
    }
  }
  t.same(asked, []);
});

t.test('the end of a page ends its tunnels and its credentials, and the last one the listener', async (t) => {
  const accepted: Socket[] = [];
  const server = createRawServer((socket) => void accepted.push(socket.on('error', () => undefined)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const { proxy, page, authorization } = await open(t, [port]);
  const guard = createGuard({ allow: [], ports: [80] });
  const limits = { clock: systemClock, connectTimeoutMs: 100, maxRequests: 1, maxBytes: 1 };
  const other = await proxy.open(ANY, { guard, ...limits });
  t.equal(other.port, page.port);
  const socket = connect(page.port, '127.0.0.1');
  const heard = once(socket, 'data');
  socket.write(tunnel(`site.test:${port}`, authorization));
  t.match(String((await heard)[0]), /^HTTP\/1\.1 200 /);
  const upstream = accepted[0] as Socket;
  const ends = [once(socket, 'close'), once(upstream, 'close')];
  upstream.resume();
  socket.resume();
  page.close();
  await Promise.all(ends);
  t.equal(status(await say(page.port, tunnel(`site.test:${port}`, authorization))), '407');
  t.ok(proxy.isListening);
  other.close();
  t.equal(proxy.pages, 0);
  t.notOk(proxy.isListening);
  const [error] = (await once(connect(page.port, '127.0.0.1'), 'error')) as [NodeJS.ErrnoException];
  t.equal(error.code, 'ECONNREFUSED');
});

t.test('an address that is taken is an error of the renderer', async (t) => {
  const holder = createRawServer().listen(0, '127.0.0.1');
  await once(holder, 'listening');
  t.teardown(() => holder.close());
  const { port } = holder.address() as AddressInfo;
  const proxy = new GuardingProxy();
  const guard = createGuard({ allow: [], ports: [80] });
  const limits = { clock: systemClock, connectTimeoutMs: 100, maxRequests: 1, maxBytes: 1 };
  const opened = proxy.open({ host: '127.0.0.1', port }, { guard, ...limits });
  await t.rejects(opened, { code: 'HR_FETCH_RENDERER', subject: 'its proxy cannot listen (EADDRINUSE)' });
  t.notOk(proxy.isListening);
});
