import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { fetchSettings, page, rawSite, site } from '../support/site.ts';
import type { PdfBombsReport } from './fixtures/pdf-bombs.ts';
import type { StormOrder, StormReport } from './fixtures/storm.ts';

const MAX_GROWN_BYTES = 768 * 1024 * 1024;
const EACH = 20;
const HEAD = 'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n';

async function storm(order: StormOrder): Promise<StormReport> {
  const script = fileURLToPath(new URL('fixtures/storm.js', import.meta.url));
  // A clean environment: the test runner's loader is no part of the measurement.
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(order)], { env: {} });
  return JSON.parse(stdout) as StormReport;
}

t.test('200 hostile downloads at once end in their errors within bounded memory', async (t) => {
  const zeros = Buffer.alloc(104_857_600);
  const gzip = gzipSync(zeros);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_LGWIN]: 24 };
  const web = await site(t, {
    '/gzip': page(gzip, { 'content-encoding': 'gzip' }),
    '/gzip-twice': page(gzipSync(gzip), { 'content-encoding': 'gzip, gzip' }),
    '/br': page(brotliCompressSync(zeros, { params }), { 'content-encoding': 'br' }),
    '/zstd': page(zstdCompressSync(zeros), { 'content-encoding': 'zstd' }),
    '/binary': page(Buffer.from('\x89PNG\r\n', 'latin1')),
  });
  const piece = Buffer.alloc(65_536, 'word ');
  const raw = await rawSite(t, (socket, path) => {
    if (path === '/endless') {
      socket.write(`${HEAD}\r\n`);
      const more = (): void => {
        while (!socket.destroyed && socket.write(piece));
      };
      socket.on('drain', more);
      more();
    } else if (path === '/trickle') {
      socket.write(`${HEAD}\r\n`);
      const timer = setInterval(() => socket.write('a'), 20);
      socket.on('close', () => clearInterval(timer));
    } else if (path === '/short') socket.end(`${HEAD}Content-Length: 100\r\n\r\n<p>`);
    else if (path === '/flood') socket.end(`${HEAD}X: ${'a'.repeat(200_000)}\r\n\r\n`);
    else socket.resetAndDestroy();
  });
  const bombs = ['/gzip', '/gzip-twice', '/br', '/zstd'].map((path) => web.origin + path);
  const others = ['/endless', '/trickle', '/short', '/flood', '/reset'].map((path) => raw.origin + path);
  const kinds = [...bombs, `${web.origin}/binary`, ...others];
  const urls = Array.from({ length: EACH * kinds.length }, (_, at) => kinds[at % kinds.length] ?? '');
  const settings = fetchSettings({
    ...{ ports: [web.port, raw.port], perHost: urls.length, timeoutMs: 12_000, firstByteTimeoutMs: 12_000 },
    connectTimeoutMs: 12_000,
  });
  const { grownBytes, outcomes } = await storm({ urls, settings, endless: EACH });
  t.same(outcomes, {
    'HR_FETCH_TOO_LARGE 10000000': 5 * EACH,
    'HR_FETCH_TYPE binary': EACH,
    'HR_FETCH_TIMEOUT total': EACH,
    'HR_FETCH_FAILED connection closed': 2 * EACH,
    'HR_FETCH_FAILED head too large': EACH,
  });
  t.ok(grownBytes < MAX_GROWN_BYTES, `${Math.round(grownBytes / 1_048_576)} MiB`);
});

t.test('PDFs that end their threads leave no memory behind', async (t) => {
  const script = fileURLToPath(new URL('fixtures/pdf-bombs.js', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [script], { env: { UV_THREADPOOL_SIZE: '32' } });
  const { firstBytes, lastBytes, outcomes } = JSON.parse(stdout) as PdfBombsReport;
  // On a busy machine the time of a page may end first.
  const ends = new Set(['needed too much memory', 'took too long']);
  t.ok(outcomes.length > 1 && outcomes.every((outcome) => ends.has(outcome)), outcomes.join());
  t.ok(lastBytes - firstBytes < 512 * 1024 * 1024, `${firstBytes} ${lastBytes}`);
});
