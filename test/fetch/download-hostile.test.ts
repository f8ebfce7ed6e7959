import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { downloader, get, outcome, page, rawSite, redirect, said, site } from '../support/site.ts';

const ZEROS = Buffer.alloc(104_857_600);
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n';
const TOO_LARGE = 'HR_FETCH_TOO_LARGE 10000000';

t.test('bombs of 100 MiB are cut at the limit', async (t) => {
  const gzip = gzipSync(ZEROS);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 24 };
  const web = await site(t, {
    '/gzip': page(gzip, { 'content-encoding': 'gzip' }),
    '/gzip-twice': page(gzipSync(gzip), { 'content-encoding': 'gzip, gzip' }),
    '/br': page(brotliCompressSync(ZEROS, { params }), { 'content-encoding': 'br' }),
    '/zstd': page(zstdCompressSync(ZEROS), { 'content-encoding': 'zstd' }),
    '/error': page(gzip, { 'content-encoding': 'gzip' }, 403),
  });
  const from = downloader(t, { ports: [web.port] });
  for (const path of ['/gzip', '/gzip-twice', '/br', '/zstd'])
    t.equal(await outcome(get(from, web.origin + path)), TOO_LARGE, path);
  t.equal(await outcome(get(from, `${web.origin}/error`)), 'HR_FETCH_FAILED status 403');
});

t.test('codings that never give a byte are cut at the limit, on the wire and between two decoders', async (t) => {
  // Empty stored blocks (RFC 1951 §3.2.4), none of them the last.
  const blocks = Buffer.alloc(65_535, Buffer.from([0, 0, 0, 0xff, 0xff]));
  const head = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
  let sent = 0;
  const endless = await rawSite(t, (socket) => {
    socket.write(`${HEAD}Content-Encoding: gzip\r\nConnection: close\r\n\r\n`);
    socket.write(head);
    const more = (): void => {
      while (!socket.destroyed) {
        sent += blocks.byteLength;
        if (!socket.write(blocks)) return;
      }
    };
    socket.on('drain', more);
    more();
  });
  const between = brotliCompressSync(Buffer.concat([head, ...Array.from({ length: 400 }, () => blocks)]));
  const web = await site(t, { '/': page(between, { 'content-encoding': 'gzip, br' }) });
  t.ok(between.byteLength < 10_000, `${between.byteLength} bytes on the wire`);
  const from = downloader(t, { ports: [endless.port, web.port], maxBytes: 1_000_000 });
  t.equal(await outcome(get(from, `${endless.origin}/`)), 'HR_FETCH_TOO_LARGE 1000000');
  t.ok(sent < 40_000_000, `${sent} bytes were sent`);
  t.equal(await outcome(get(from, `${web.origin}/`)), 'HR_FETCH_TOO_LARGE 1000000');
});

t.test('a zstd window over 8 MiB is refused', async (t) => {
  const params = { [constants.ZSTD_c_windowLog]: 27 };
  const web = await site(t, {
    '/': page(zstdCompressSync(Buffer.alloc(300_000_000, 'ab'), { params }), { 'content-encoding': 'zstd' }),
  });
  const from = downloader(t, { ports: [web.port], maxBytes: 400_000_000 });
  t.equal(await outcome(get(from, `${web.origin}/`)), 'HR_FETCH_FAILED broken encoding');
});

t.test('an endless body is cut off as soon as it is too large', async (t) => {
  let sent = 0;
  const left = Promise.withResolvers<void>();
  const piece = Buffer.alloc(65_536, 'word ');
  const web = await rawSite(t, (socket, path) => {
    const chunked = path === '/chunked';
    socket.write(`${HEAD}${chunked ? 'Transfer-Encoding: chunked' : 'Connection: close'}\r\n\r\n`);
    const more = (): void => {
      while (!socket.destroyed) {
        sent += piece.byteLength;
        if (chunked) socket.write('10000\r\n');
        const goOn = socket.write(piece);
        if (chunked) socket.write('\r\n');
        if (!goOn) return;
      }
    };
    socket.on('drain', more).on('close', () => left.resolve());
    more();
  });
  const from = downloader(t, { ports: [web.port], maxBytes: 1_000_000 });
  t.equal(await outcome(get(from, `${web.origin}/chunked`)), 'HR_FETCH_TOO_LARGE 1000000');
  await left.promise;
  t.equal(await outcome(get(from, `${web.origin}/close`)), 'HR_FETCH_TOO_LARGE 1000000');
  t.ok(sent < 40_000_000, `${sent} bytes were sent`);
});

t.test('a Content-Length over the limit is refused before the body', async (t) => {
  const web = await rawSite(t, (socket) => socket.write(`${HEAD}Content-Length: 10000001\r\n\r\n`));
  const from = downloader(t, { ports: [web.port] });
  t.equal(await outcome(get(from, `${web.origin}/`)), TOO_LARGE);
});

t.test('exactly the limit is not too large', async (t) => {
  const web = await site(t, {
    '/': page('a'.repeat(1000)),
    '/gzip': page(gzipSync('a'.repeat(1000)), { 'content-encoding': 'gzip' }),
  });
  for (const path of ['/', '/gzip']) {
    t.equal((await outcome(get(downloader(t, { ports: [web.port], maxBytes: 1000 }), web.origin + path))).length, 1000);
    t.equal(
      await outcome(get(downloader(t, { ports: [web.port], maxBytes: 999 }), web.origin + path)),
      'HR_FETCH_TOO_LARGE 999',
    );
  }
});

t.test('servers that never answer, or never finish, run into a timeout', async (t) => {
  const cases: Record<string, readonly [string, number, string]> = {
    '/silent': ['', 3000, 'first byte'],
    '/head': ['HTTP/1.1 200 OK\r\nX-A: ', 3000, 'first byte'],
    '/interim': ['HTTP/1.1 103 Early Hints\r\n\r\n', 3000, 'first byte'],
    '/body': [`${HEAD}Content-Length: 100\r\n\r\n<p>`, 7000, 'total'],
    '/chunk': [`${HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n5\r\nab`, 7000, 'total'],
    '/gzip': [`${HEAD}Content-Encoding: gzip\r\n\r\n\x1f`, 7000, 'total'],
    '/forbidden': ['HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\n<', 7000, 'total'],
  };
  for (const [path, [said, dueMs, subject]] of Object.entries(cases)) {
    const clock = createManualClock();
    const begun = Promise.withResolvers<void>();
    const left = Promise.withResolvers<void>();
    const web = await rawSite(t, (socket) => {
      socket.on('close', () => left.resolve());
      socket.write(said, 'latin1', () => begun.resolve());
    });
    const from = downloader(t, { ports: [web.port], firstByteTimeoutMs: 3000 }, { clock });
    const download = outcome(get(from, web.origin + path, 7000, clock));
    await begun.promise;
    // These bytes have arrived once those of a later request have.
    const probe = await site(t, { '/': page('') });
    await outcome(get(downloader(t, { ports: [probe.port] }), `${probe.origin}/`));
    clock.advance(dueMs - 1);
    const early = await Promise.race([download, new Promise<string>((resolve) => setImmediate(resolve, 'waiting'))]);
    t.equal(early, 'waiting', `${path} before the timeout`);
    clock.advance(1);
    t.equal(await download, `HR_FETCH_TIMEOUT ${subject}`, path);
    await left.promise;
  }
});

t.test('a steady trickle of bytes does not extend the total timeout', async (t) => {
  const clock = createManualClock();
  const trickling = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  const web = await rawSite(t, (socket) => {
    let written = 0;
    const more = (): void => {
      if (socket.destroyed) return;
      if (++written === 50) trickling.resolve();
      socket.write('a', () => setImmediate(more));
    };
    socket.on('close', () => left.resolve());
    socket.write(`${HEAD}\r\n`, more);
  });
  const from = downloader(t, { ports: [web.port] }, { clock });
  const download = outcome(get(from, `${web.origin}/`, 300, clock));
  await trickling.promise;
  clock.advance(300);
  t.equal(await download, 'HR_FETCH_TIMEOUT total');
  await left.promise;
});

t.test('a resolver that never answers runs into the connect timeout', async (t) => {
  const clock = createManualClock();
  const asked = Promise.withResolvers<void>();
  const lookup = (): Promise<string[]> => {
    asked.resolve();
    return new Promise(() => undefined);
  };
  const from = downloader(t, { ports: [80], connectTimeoutMs: 2000 }, { clock, lookup });
  const download = outcome(get(from, 'http://slow.test/'));
  await asked.promise;
  clock.advance(2000);
  t.equal(await download, 'HR_FETCH_TIMEOUT connect');
});

t.test('responses that are cut off or malformed are failures', async (t) => {
  const answers: Record<string, readonly [string, string]> = {
    '/short': [`${HEAD}Content-Length: 100\r\n\r\n<p>`, 'connection closed'],
    '/chunk': [`${HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\n<p>\r\n`, 'connection closed'],
    '/nothing': ['', 'connection closed'],
    '/half-head': ['HTTP/1.1 200 OK\r\nContent-', 'connection closed'],
    '/hints-flood': ['HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n'.repeat(100), 'malformed answer'],
    '/noise': ['\x00\x01\x02 not http\r\n\r\n', 'malformed answer'],
    '/bad-chunk': [`${HEAD}Transfer-Encoding: chunked\r\n\r\nzz\r\n<p>\r\n`, 'malformed answer'],
    '/flood': [`${HEAD}${'X-Flood: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n'.repeat(5000)}\r\n`, 'head too large'],
    '/long-field': [`${HEAD}X-Flood: ${'a'.repeat(200_000)}\r\n\r\n`, 'head too large'],
  };
  const web = await rawSite(t, (socket, path) => socket.end(answers[path]?.[0] ?? '', 'latin1'));
  const from = downloader(t, { ports: [web.port] });
  for (const [path, [, subject]] of Object.entries(answers))
    t.equal(await outcome(get(from, web.origin + path)), `HR_FETCH_FAILED ${subject}`, path);
});

t.test('a connection reset is a failure, before the head and after it', async (t) => {
  const web = await rawSite(t, (socket, path) => {
    if (path === '/early') socket.resetAndDestroy();
    else socket.write(`${HEAD}Content-Length: 100\r\n\r\n<p>`, () => socket.resetAndDestroy());
  });
  const from = downloader(t, { ports: [web.port] });
  for (const path of ['/early', '/late'])
    t.equal(await outcome(get(from, web.origin + path)), 'HR_FETCH_FAILED connection closed', path);
});

t.test('a body in a million chunks is read like any other', async (t) => {
  const web = await rawSite(t, (socket) => {
    socket.end(`${HEAD}Transfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(1_000_000)}0\r\n\r\n`);
  });
  const from = downloader(t, { ports: [web.port] });
  t.equal((await outcome(get(from, `${web.origin}/`))).length, 1_000_000);
});

t.test('large bodies that stall do not delay small pages', async (t) => {
  const written: Promise<void>[] = [];
  const slow = await rawSite(t, (socket) => {
    written.push(new Promise((resolve) => void socket.write(`${HEAD}\r\n${'a'.repeat(600_000)}`, () => resolve())));
  });
  const web = await site(t, { '/': page(gzipSync('<p>small'), { 'content-encoding': 'gzip' }) });
  const from = downloader(t, { ports: [slow.port, web.port], perHost: 64 });
  const controller = new AbortController();
  const stalled = Array.from({ length: 40 }, () =>
    from.download(`${slow.origin}/`, 'a', controller.signal).catch(said),
  );
  while (written.length < stalled.length) await new Promise((resolve) => setImmediate(resolve));
  await Promise.all(written);
  t.equal(await outcome(get(from, `${web.origin}/`)), '<p>small');
  controller.abort(new Error('enough'));
  t.same(new Set(await Promise.all(stalled)), new Set(['Error: enough']));
});

t.test('answers with odd statuses and framing are read by RFC 9112, or refused', async (t) => {
  const long = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n';
  const answers: Record<string, [said: string, expected: string]> = {
    '/hints': [`HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${long}Content-Length: 4\r\n\r\npage`, 'page'],
    '/continue': [`HTTP/1.1 100 Continue\r\n\r\n${long}Content-Length: 16\r\n\r\n100 HTTP/1.1 100`, '100 HTTP/1.1 100'],
    '/continue-twice': [
      `HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n${long}Content-Length: 4\r\n\r\npage`,
      'page',
    ],
    '/no-content': ['HTTP/1.1 204 No Content\r\n\r\n', 'HR_FETCH_FAILED status 204'],
    '/reset-content': ['HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n', 'HR_FETCH_FAILED status 205'],
    '/part': [
      'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-3/99\r\nContent-Length: 4\r\n\r\npart',
      'HR_FETCH_FAILED status 206',
    ],
    '/not-modified': ['HTTP/1.1 304 Not Modified\r\n\r\n', 'HR_FETCH_FAILED status 304'],
    '/upgrade': [
      'HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n',
      'HR_FETCH_FAILED connection closed',
    ],
    '/two-lengths': [`${long}Content-Length: 4\r\nContent-Length: 5\r\n\r\npages`, 'HR_FETCH_FAILED wrong length'],
    '/both': [
      `${long}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n`,
      'HR_FETCH_FAILED wrong length',
    ],
    '/bad-length': [`${long}Content-Length: -4\r\n\r\npage`, 'HR_FETCH_FAILED malformed answer'],
    '/smuggled': [`${long}Content-Length: 4\r\n\r\npageHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil`, 'page'],
  };
  const web = await rawSite(t, (socket, path) => socket.end(answers[path]?.[0] ?? '', 'latin1'));
  const from = downloader(t, { ports: [web.port] });
  for (const [path, [, expected]] of Object.entries(answers))
    t.equal(await outcome(get(from, web.origin + path)), expected, path);
});

t.test('100 Continue is read over, however it comes, on every request of a connection', async (t) => {
  const answer =
    'HTTP/1.1 100 Continue\r\nX: HTTP/1.1 100\r\n\r\n'.repeat(2) +
    `${HEAD}Content-Length: 16\r\n\r\nHTTP/1.1 100\r\n\r\n`;
  const web = await rawSite(t, (socket) => {
    socket.setNoDelay(true);
    const writeNext = (at: number): void => {
      if (at < answer.length) socket.write(answer.slice(at, at + 1), 'latin1', () => setImmediate(writeNext, at + 1));
    };
    writeNext(0);
  });
  const from = downloader(t, { ports: [web.port] });
  for (let request = 0; request < 3; request++)
    t.equal(await outcome(get(from, `${web.origin}/${request}`)), 'HTTP/1.1 100\r\n\r\n');
  t.equal(web.connections(), 1);
});

t.test('an answer is bounded as on the wire, whatever its framing', async (t) => {
  const extension = Buffer.alloc(65_536, 'a');
  const web = await rawSite(t, (socket, path) => {
    const head = `${HEAD}Transfer-Encoding: chunked\r\n\r\n`;
    if (path === '/small') {
      socket.write(`${head}${'1;name=value\r\na\r\n'.repeat(50_000)}0\r\n\r\n`);
      return;
    }
    socket.write(`${head}1;`);
    const more = (): void => {
      while (!socket.destroyed && socket.write(extension));
    };
    socket.on('drain', more);
    more();
  });
  const from = downloader(t, { ports: [web.port], maxBytes: 100_000 });
  t.equal(await outcome(get(from, `${web.origin}/endless`)), 'HR_FETCH_TOO_LARGE 1248576');
  for (const _ of [1, 2, 3]) t.equal((await outcome(get(from, `${web.origin}/small`))).length, 50_000);
  t.equal(web.connections(), 2, 'answers are counted apart');
});

t.test('the body of a redirect is not awaited', async (t) => {
  const web = await site(t, { '/page': page('<p>there') });
  const endless = await rawSite(t, (socket) => {
    socket.write(`HTTP/1.1 302 Found\r\nLocation: ${web.origin}/page\r\nContent-Length: 99999999\r\n\r\n<p>`);
  });
  const from = downloader(t, { ports: [web.port, endless.port] });
  t.equal(await outcome(get(from, `${endless.origin}/`)), '<p>there');
});

t.test('binary content that is declared as text is refused', async (t) => {
  const noise = Buffer.from(Array.from({ length: 4000 }, (_, at) => (at * 7919) % 251));
  const bodies: Record<string, Uint8Array> = {
    '/png': Buffer.from('\x89PNG\r\n\x1a\n and so on', 'latin1'),
    '/zip': Buffer.from('PK\x03\x04 and so on', 'latin1'),
    '/jpeg': Buffer.from('\xff\xd8\xff\xe0 and so on', 'latin1'),
    '/nul': Buffer.from('words\x00 and more'),
    '/noise': noise,
  };
  const pages = Object.entries(bodies).map(([path, body]) => [path, page(body)]);
  const web = await site(t, {
    ...Object.fromEntries(pages),
    '/image': page('<p>', { 'content-type': 'image/png' }),
    '/video': page('<p>', { 'content-type': 'video/mp4' }),
    '/exe': page('<p>', { 'content-type': 'application/x-msdownload' }),
  });
  const from = downloader(t, { ports: [web.port] });
  for (const path of Object.keys(bodies))
    t.equal(await outcome(get(from, web.origin + path)), 'HR_FETCH_TYPE binary', path);
  t.equal(await outcome(get(from, `${web.origin}/image`)), 'HR_FETCH_TYPE image');
  t.equal(await outcome(get(from, `${web.origin}/video`)), 'HR_FETCH_TYPE video');
  t.equal(await outcome(get(from, `${web.origin}/exe`)), 'HR_FETCH_TYPE binary');
});

t.test('the error for a refused redirect does not tell its target', async (t) => {
  const web = await site(t, { '/': redirect('http://secret-name.internal:22/?token=1') });
  const error = await get(downloader(t, { ports: [web.port] }), `${web.origin}/`).catch((thrown: unknown) => thrown);
  t.equal(said(error), 'HR_FETCH_BLOCKED port');
  t.notMatch((error as Error).message, 'secret');
});
