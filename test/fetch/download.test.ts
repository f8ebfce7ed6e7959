import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import {
  type Answer,
  downloader,
  fetchSettings,
  get,
  outcome,
  page,
  rawSite,
  redirect,
  said,
  site,
} from '../support/site.ts';
import type { Lookup } from '../../src/net/name-cache.ts';
import { until } from '../support/system.ts';

const TEXT = '<!doctype html><title>A</title><p>Some words of a page.';

t.test('downloads a page with its declared type, charset and cache rules', async (t) => {
  const web = await site(t, {
    '/a': page(TEXT, { 'content-type': 'Text/HTML; Charset="ISO-8859-1"', 'cache-control': 'max-age=1, no-store' }),
    '/b': page(TEXT),
  });
  const from = downloader(t, { ports: [web.port] });
  const a = await get(from, `${web.origin}/a#part`);
  t.same(
    { ...a, bytes: Buffer.from(a.bytes).toString() },
    {
      ...{ url: `${web.origin}/a`, mediaType: 'text/html', charset: 'iso-8859-1', bytes: TEXT, noStore: true },
    },
  );
  t.equal(a.bytes.byteLength, a.bytes.buffer.byteLength, 'owns its whole buffer');
  structuredClone(a.bytes, { transfer: [a.bytes.buffer] });
  t.equal(a.bytes.byteLength, 0, 'which may be transferred');
  const b = await get(from, `${web.origin}/b`);
  t.same([b.charset, b.noStore], [null, false]);
});

t.test('sends its name and what it accepts, and no other headers', async (t) => {
  let seen: unknown;
  const web = await site(t, {
    '/a': redirect('/b'),
    '/b': (request, response) => {
      seen = request.headers;
      page(TEXT)(request, response);
    },
  });
  await get(downloader(t, { ports: [web.port], userAgent: 'Pages/2 (us)' }), `${web.origin}/a`);
  const { accept, ...rest } = seen as Record<string, string>;
  t.match(accept, /^text\/html,/);
  t.same(rest, {
    host: `127.0.0.1:${web.port}`,
    connection: 'keep-alive',
    'user-agent': 'Pages/2 (us)',
    'accept-encoding': 'gzip, deflate, br, zstd',
    'accept-language': 'en,*;q=0.5',
  });
});

/** A frame of zstd that decoders skip (RFC 8878 §3.1.2). */
const SKIPPABLE = Buffer.from('502a4d180500000068656c6c6f', 'hex');

/** A member of gzip with all optional fields (RFC 1952 §2.3). */
function namedGzip(text: string): Buffer {
  const member = gzipSync(text);
  member[3] = 0x1e;
  const fields = Buffer.from('\x03\x00abcname.html\0a comment\0\x12\x34', 'latin1');
  return Buffer.concat([member.subarray(0, 10), fields, member.subarray(10)]);
}

t.test('decodes gzip that comes byte by byte, up to the end of its last member', async (t) => {
  const body = Buffer.concat([namedGzip(TEXT.slice(0, 9)), gzipSync(TEXT.slice(9)), Buffer.from('behind')]);
  const web = await rawSite(t, (socket) => {
    socket.setNoDelay(true);
    socket.write(
      `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    const writeNext = (at: number): void => {
      if (at < body.length) socket.write(body.subarray(at, at + 1), () => setImmediate(writeNext, at + 1));
    };
    writeNext(0);
  });
  const from = downloader(t, { ports: [web.port] });
  t.equal(await outcome(get(from, `${web.origin}/`)), TEXT);
});

t.test('decodes every accepted coding, and two in a row', async (t) => {
  const codings: Record<string, [string, Uint8Array]> = {
    '/gzip': ['gzip', gzipSync(TEXT)],
    '/x-gzip': ['X-GZip', gzipSync(TEXT)],
    '/members': ['gzip', Buffer.concat([gzipSync(TEXT.slice(0, 9)), gzipSync(TEXT.slice(9))])],
    '/named': ['gzip', namedGzip(TEXT)],
    '/behind': ['gzip', Buffer.concat([gzipSync(TEXT), Buffer.from('<!-- 9 ms -->')])],
    '/zeros': ['gzip', Buffer.concat([gzipSync(TEXT.slice(0, 9)), gzipSync(TEXT.slice(9)), Buffer.alloc(20)])],
    '/most': ['gzip', Buffer.concat([...Array<Buffer>(999).fill(gzipSync('')), gzipSync(TEXT), Buffer.alloc(20)])],
    '/magic': ['gzip', Buffer.concat([gzipSync(TEXT), Buffer.from('1f8bffff', 'hex')])],
    '/deflate': ['deflate', deflateSync(TEXT)],
    '/raw': ['deflate', deflateRawSync(TEXT)],
    '/br': ['br', brotliCompressSync(TEXT)],
    '/zstd': ['zstd', zstdCompressSync(TEXT)],
    '/frames': ['zstd', Buffer.concat([zstdCompressSync(TEXT.slice(0, 9)), zstdCompressSync(TEXT.slice(9))])],
    '/skippable': [
      'zstd',
      Buffer.concat([
        SKIPPABLE,
        zstdCompressSync(TEXT.slice(0, 9)),
        SKIPPABLE,
        zstdCompressSync(TEXT.slice(9)),
        SKIPPABLE,
      ]),
    ],
    '/two-frames': ['zstd, gzip', gzipSync(Buffer.concat([zstdCompressSync(TEXT), zstdCompressSync('')]))],
    '/identity': ['identity', Buffer.from(TEXT)],
    '/two': ['gzip, br', brotliCompressSync(gzipSync(TEXT))],
    '/raw-two': ['deflate, deflate', deflateRawSync(deflateRawSync(TEXT))],
  };
  const pages = Object.entries(codings).map(([path, [coding, body]]) => [
    path,
    page(body, { 'content-encoding': coding }),
  ]);
  const web = await site(t, Object.fromEntries(pages));
  const from = downloader(t, { ports: [web.port] });
  for (const path of Object.keys(codings)) t.equal(await outcome(get(from, web.origin + path)), TEXT, path);
});

t.test('large pages are complete, encoded or not', async (t) => {
  const large = '<p>words and words</p>\n'.repeat(90_000);
  const web = await site(t, {
    '/plain': page(large),
    '/gzip': page(gzipSync(large, { level: 0 }), { 'content-encoding': 'gzip' }),
  });
  const from = downloader(t, { ports: [web.port] });
  for (const path of ['/plain', '/gzip'])
    t.ok((await outcome(get(from, web.origin + path))) === large, `${path}: ${large.length} bytes`);
});

t.test('what is no encoding stands for none', async (t) => {
  const names = ['utf-8', 'none', 'aws-chunked', 'text/html', 'identity', ''];
  const fields = (name: string): Record<string, string> => ({ 'content-encoding': name });
  const web = await site(t, {
    ...Object.fromEntries(names.map((name, index) => [`/${index}`, page(TEXT, fields(name))])),
    '/both': page(gzipSync(TEXT), fields('gzip, utf-8')),
    '/packed': page(gzipSync(TEXT), fields('gzipped')),
  });
  const from = downloader(t, { ports: [web.port] });
  for (const [index, name] of names.entries()) t.equal(await outcome(get(from, `${web.origin}/${index}`)), TEXT, name);
  t.equal(await outcome(get(from, `${web.origin}/both`)), TEXT);
  t.equal(await outcome(get(from, `${web.origin}/packed`)), 'HR_FETCH_TYPE binary');
});

t.test('an encoding that is unknown, repeated too often or broken is a failure', async (t) => {
  const packed = gzipSync(TEXT);
  const web = await site(t, {
    '/unknown': page(packed, { 'content-encoding': 'compress' }),
    '/three': page(gzipSync(gzipSync(packed)), { 'content-encoding': 'gzip, gzip, gzip' }),
    '/cut': page(packed.subarray(0, -12), { 'content-encoding': 'gzip' }),
    '/cut-trailer': page(packed.subarray(0, -1), { 'content-encoding': 'gzip' }),
    '/cut-member': page(Buffer.concat([packed, packed.subarray(0, -12)]), { 'content-encoding': 'gzip' }),
    '/changed': page(Buffer.concat([packed.subarray(0, -8), Buffer.alloc(8)]), { 'content-encoding': 'gzip' }),
    '/no-gzip': page(TEXT, { 'content-encoding': 'gzip' }),
    '/lie': page(TEXT, { 'content-encoding': 'br' }),
    '/cut-zstd': page(zstdCompressSync(TEXT).subarray(0, -1), { 'content-encoding': 'zstd' }),
    '/cut-frame': page(Buffer.concat([zstdCompressSync(TEXT), zstdCompressSync(TEXT).subarray(0, 9)]), {
      'content-encoding': 'zstd',
    }),
    '/behind': page(Buffer.concat([zstdCompressSync(TEXT), Buffer.from('<!-- 9 ms -->')]), {
      'content-encoding': 'zstd',
    }),
    '/frames': page(Buffer.concat(Array<Buffer>(1001).fill(zstdCompressSync(''))), { 'content-encoding': 'zstd' }),
    '/members': page(Buffer.concat(Array<Buffer>(1001).fill(gzipSync('a'))), { 'content-encoding': 'gzip' }),
  });
  const from = downloader(t, { ports: [web.port] });
  t.equal(await outcome(get(from, `${web.origin}/unknown`)), 'HR_FETCH_FAILED unknown encoding');
  t.equal(await outcome(get(from, `${web.origin}/three`)), 'HR_FETCH_FAILED unknown encoding');
  t.equal(await outcome(get(from, `${web.origin}/cut`)), 'HR_FETCH_FAILED broken encoding');
  for (const path of [
    '/cut-trailer',
    '/cut-member',
    '/changed',
    '/no-gzip',
    '/lie',
    '/cut-zstd',
    '/cut-frame',
    '/behind',
    '/frames',
    '/members',
  ])
    t.equal(await outcome(get(from, web.origin + path)), 'HR_FETCH_FAILED broken encoding', path);
});

t.test('only statuses 200 to 203 are a success', async (t) => {
  const statuses = [204, 206, 304, 400, 401, 403, 404, 410, 429, 500, 503];
  const pages = statuses.map((status) => [
    `/${status}`,
    page(status === 204 || status === 304 ? '' : TEXT, {}, status),
  ]);
  const web = await site(t, { ...Object.fromEntries(pages), '/302': page(TEXT, {}, 302), '/empty': page('') });
  const from = downloader(t, { ports: [web.port] });
  for (const status of [...statuses, 302])
    t.equal(await outcome(get(from, `${web.origin}/${status}`)), `HR_FETCH_FAILED status ${status}`);
  t.equal(await outcome(get(from, `${web.origin}/empty`)), '', 'an empty page is a page');
});

t.test('follows redirects of every kind, up to the limit', async (t) => {
  const web = await site(t, {
    '/301': redirect('/302', 301),
    '/302': redirect('303', 302),
    '/303': (request, response) => redirect(`//${request.headers.host}/307`, 303)(request, response),
    '/307': redirect('page?b', 307),
    '/page': page(TEXT),
    '/umlaut': redirect('/p%C3%A4ge'),
    '/p%C3%A4ge': page('found'),
    '/loop': redirect('/pool'),
    '/pool': redirect('/loop'),
    '/self': redirect('#other'),
    '/bad': redirect('http://['),
    '/far': redirect('/far/1'),
    ...Object.fromEntries([1, 2, 3, 4, 5].map((n) => [`/far/${n}`, redirect(`/far/${n + 1}`)])),
    '/far/6': page(TEXT),
  });
  const from = downloader(t, { ports: [web.port], redirects: 5 });
  t.equal((await get(from, `${web.origin}/umlaut`)).url, `${web.origin}/p%C3%A4ge`);
  const found = await get(from, `${web.origin}/301`);
  t.same([found.url, Buffer.from(found.bytes).toString()], [`${web.origin}/page?b`, TEXT]);
  t.equal(await outcome(get(from, `${web.origin}/loop`)), 'HR_FETCH_FAILED redirect loop');
  t.equal(await outcome(get(from, `${web.origin}/self`)), 'HR_FETCH_FAILED redirect loop');
  t.equal(await outcome(get(from, `${web.origin}/bad`)), 'HR_FETCH_FAILED bad redirect');
  t.equal(await outcome(get(from, `${web.origin}/far/1`)), TEXT, 'five are followed');
  t.equal(await outcome(get(from, `${web.origin}/far`)), 'HR_FETCH_FAILED too many redirects', 'six are not');
});

t.test('a page is not cached where the way to it may not be', async (t) => {
  const refresh = '<meta http-equiv="refresh" content="0; url=/b">';
  const web = await site(t, {
    '/once': (_request, response) =>
      void response.writeHead(302, { location: '/b', 'cache-control': 'no-store' }).end(),
    '/then': redirect('/once'),
    '/mine': page(refresh, { 'cache-control': 'private' }),
    '/a': redirect('/b'),
    '/b': page(TEXT, { 'cache-control': 'max-age=60', etag: '"1"' }),
  });
  const from = downloader(t, { ports: [web.port] });
  for (const path of ['/once', '/then', '/mine', '/a']) {
    const expected = { url: `${web.origin}/b`, noStore: path !== '/a' };
    t.match(await get(from, web.origin + path), expected, path);
  }
});

t.test('reads an unescaped Location as browsers do', async (t) => {
  const web = await rawSite(t, (socket, path) => {
    if (path === '/') socket.end('HTTP/1.1 301 Moved\r\nLocation: /p\u00e4ge\r\nContent-Length: 0\r\n\r\n');
    else socket.end('HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nfound');
  });
  t.equal((await get(downloader(t, { ports: [web.port] }), `${web.origin}/`)).url, `${web.origin}/p%C3%A4ge`);
});

t.test('reuses a connection, and opens another when the server has closed it', async (t) => {
  const web = await site(t, {
    '/a': page(TEXT),
    '/b': (request, response) => {
      page(TEXT)(request, response);
      // Unannounced, as servers do when they restart.
      response.on('finish', () => request.socket.end());
    },
  });
  const from = downloader(t, { ports: [web.port] });
  for (let i = 0; i < 3; i++) t.equal(await outcome(get(from, `${web.origin}/a`)), TEXT);
  t.equal(web.connections(), 1);
  for (let i = 0; i < 5; i++) t.equal(await outcome(get(from, `${web.origin}/b`)), TEXT);
});

t.test(
  'a page whose reused connection is cut is asked for once more, also where its site gets another one meanwhile',
  async (t) => {
    const served = new WeakSet<object>();
    const other = Promise.withResolvers<void>();
    const answer = `HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: ${TEXT.length}\r\n\r\n${TEXT}`;
    const web = await rawSite(t, (socket, path) => {
      if (path === '/other') other.resolve();
      if (served.has(socket)) void other.promise.then(() => socket.destroy());
      else socket.write(answer);
      served.add(socket);
    });
    const from = downloader(t, { ports: [web.port] });
    t.equal(await outcome(get(from, `${web.origin}/first`)), TEXT);
    const pages = ['reusing', 'other'].map((path) => outcome(get(from, `${web.origin}/${path}`)));
    t.same(await Promise.all(pages), [TEXT, TEXT]);
  },
);

t.test('a signal ends a download at once, with the reason of the signal', async (t) => {
  const arrived = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const web = await site(t, {
    '/': (request) => {
      arrived.resolve();
      request.socket.on('close', () => left.resolve());
    },
  });
  const from = downloader(t, { ports: [web.port] });
  const controller = new AbortController();
  const download = from.download(`${web.origin}/`, 'a', controller.signal);
  await arrived.promise;
  controller.abort(new Error('client gone'));
  await t.rejects(download, { message: 'client gone' });
  await left.promise;
  t.pass('the connection is closed');
  await t.rejects(from.download(`${web.origin}/`, 'a', controller.signal), { message: 'client gone' });
});

t.test('new settings do not affect running downloads', async (t) => {
  const gate = Promise.withResolvers<void>();
  const arrived = Promise.withResolvers<void>();
  const web = await site(t, {
    '/slow': (request, response) => {
      arrived.resolve();
      void gate.promise.then(() => redirect('/b')(request, response));
    },
    '/b': page(TEXT),
  });
  const from = downloader(t, { ports: [web.port] });
  const running = get(from, `${web.origin}/slow`);
  await arrived.promise;
  from.configure(fetchSettings({ ports: [web.port], allow: [] }));
  t.equal(await outcome(get(from, `${web.origin}/b`)), 'HR_FETCH_BLOCKED private address');
  gate.resolve();
  t.equal(await outcome(running), TEXT, 'its redirect included');
  from.configure(fetchSettings({ ports: [web.port], maxBytes: 9 }));
  t.equal(await outcome(get(from, `${web.origin}/b`)), 'HR_FETCH_TOO_LARGE 9');
});

t.test('closing ends running downloads and refuses later ones', async (t) => {
  const arrived = Promise.withResolvers<void>();
  const web = await site(t, { '/': () => arrived.resolve() });
  const from = downloader(t, { ports: [web.port] });
  const running = get(from, `${web.origin}/`).catch(said);
  await arrived.promise;
  await from.close();
  t.equal(await running, 'HR_DRAINING');
  t.equal(await outcome(get(from, `${web.origin}/`)), 'HR_DRAINING');
});

t.test('a cookie wall gives the page: cookies are kept within one fetch', async (t) => {
  const seen: string[] = [];
  const wall: Answer = (request, response) => {
    const { cookie = '' } = request.headers;
    seen.push(`${request.url} ${cookie}`);
    if (cookie.includes('consent=yes')) response.writeHead(200, { 'content-type': 'text/html' }).end('<p>The page');
    else response.writeHead(302, { location: '/set', 'set-cookie': ['first=1; Path=/', 'gone=1; Max-Age=0'] }).end();
  };
  const set: Answer = (request, response) => {
    seen.push(`${request.url} ${request.headers.cookie ?? ''}`);
    response.writeHead(303, { location: '/page', 'set-cookie': 'consent=yes; Path=/' }).end();
  };
  const web = await site(t, { '/page': wall, '/set': set });
  const from = downloader(t, { ports: [web.port] });
  for (let round = 0; round < 2; round++) {
    t.equal(await outcome(get(from, `${web.origin}/page`)), '<p>The page');
    t.same(
      seen.splice(0),
      ['/page ', '/set first=1', '/page first=1; consent=yes'],
      'each fetch begins without cookies',
    );
  }
});

t.test('a cookie goes to no other host, and a wall that never opens is a loop', async (t) => {
  const seen: (string | undefined)[] = [];
  const other = await site(
    t,
    {
      '/': (request, response) => {
        seen.push(request.headers.cookie);
        response.writeHead(200, { 'content-type': 'text/plain' }).end('other');
      },
    },
    '127.0.0.2',
  );
  let count = 0;
  const web = await site(t, {
    '/away': (_, response) => response.writeHead(302, { location: `${other.origin}/`, 'set-cookie': 'id=1' }).end(),
    '/same': (_, response) => response.writeHead(302, { location: '/same', 'set-cookie': 'id=1' }).end(),
    '/new': (_, response) => response.writeHead(302, { location: '/new', 'set-cookie': `id=${++count}` }).end(),
  });
  const from = downloader(t, { ports: [web.port, other.port], allow: ['127.0.0.1', '127.0.0.2'] });
  t.equal(await outcome(get(from, `${web.origin}/away`)), 'other');
  t.same(seen, [undefined]);
  t.equal(await outcome(get(from, `${web.origin}/same`)), 'HR_FETCH_FAILED redirect loop');
  t.equal(await outcome(get(from, `${web.origin}/new`)), 'HR_FETCH_FAILED too many redirects');
});

t.test('a page that only leads elsewhere is followed as a redirect', async (t) => {
  const html = (body: string, headers: Record<string, string> = {}): Answer =>
    page(body, { 'content-type': 'text/html', ...headers });
  const refresh = (url: string, delay = 0): string =>
    `<meta http-equiv="refresh" content="${delay}; url=${url}"><p>Redirecting`;
  const web = await site(t, {
    '/page': html('<p>The page'),
    '/moved': html(refresh('/page')),
    '/slow': html(refresh('page', 5)),
    '/based': html(`<base href="/deep/">${refresh('../page')}`),
    '/field': html('<p>Redirecting', { refresh: '0; url=/page' }),
    '/utf8': html(refresh('/é')),
    '/%C3%A9': html('<p>Accent'),
    '/reference': html(refresh('/&#x4e2d;')),
    '/%E4%B8%AD': html('<p>Middle'),
    '/self': html(refresh('/self')),
    '/one': html(refresh('/two')),
    '/two': html(refresh('/one')),
    '/inside': html(refresh('http://10.0.0.1/')),
    '/text': page(refresh('/page'), { 'content-type': 'text/plain' }),
    '/wall': (request, response) =>
      request.headers.cookie === 'seen=1'
        ? response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Behind')
        : response.writeHead(200, { 'content-type': 'text/html', 'set-cookie': 'seen=1' }).end(refresh('/wall')),
  });
  const from = downloader(t, { ports: [web.port, 80], redirects: 1 });
  const read = (path: string): Promise<string> => outcome(get(from, `${web.origin}${path}`));
  for (const path of ['/moved', '/slow', '/based', '/field']) t.equal(await read(path), '<p>The page', path);
  t.equal((await get(from, `${web.origin}/moved`)).url, `${web.origin}/page`);
  t.equal(await read('/utf8'), '<p>Accent');
  t.equal(await read('/reference'), '<p>Middle');
  t.equal(await read('/self'), refresh('/self'), 'a page that reloads itself is content');
  t.equal(await read('/wall'), '<p>Behind', 'unless it has set a cookie');
  t.equal(await read('/text'), refresh('/page'), 'in HTML only');
  t.equal(await read('/inside'), 'HR_FETCH_BLOCKED private address');
  const further = downloader(t, { ports: [web.port], redirects: 5 });
  t.equal(await outcome(get(further, `${web.origin}/one`)), 'HR_FETCH_FAILED redirect loop');
});

t.test('a client that leaves ends the lookup of its page, unless another client waits for the same site', async (t) => {
  const signals: (AbortSignal | undefined)[] = [];
  const lookup: Lookup = (_name, signal) => {
    signals.push(signal);
    return new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason as Error)));
  };
  const from = downloader(t, { ports: [80] }, { lookup });
  const left = [new AbortController(), new AbortController()] as const;
  const ends = left.map(({ signal }, at) => from.download(`http://slow.test/${at}`, 'a', signal).catch(said));
  await until('both are looked up', () => signals.length > 0);
  left[0].abort(new Error('left'));
  t.equal(await ends[0], 'Error: left');
  t.equal(signals.at(-1)?.aborted, false);
  left[1].abort(new Error('left'));
  await ends[1];
  await until('all lookups have ended', () => signals.every((signal) => signal?.aborted === true));
});
