// The load clients of the benchmarks: what is due in the window counts, however late it is answered, or is an error.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { freePort } from '../support/free-port.ts';

const run = promisify(execFile);

interface Report {
  readonly seconds: number;
  readonly requests: number;
  readonly errors: number;
  readonly lastError: string;
  readonly latencyMs: { readonly p50: number; readonly p99: number; readonly count: number };
}

async function portOf(t: Test, server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close().closeAllConnections());
  return (server.address() as AddressInfo).port;
}

async function runClient<Result>(client: string, load: object): Promise<Result> {
  const file = fileURLToPath(new URL(`../../../bench/lib/${client}.mjs`, import.meta.url));
  const { stdout } = await run(process.execPath, [file, JSON.stringify(load)]);
  return JSON.parse(stdout) as Result;
}

/** Requests of this rate for half a second, after a warm-up as long. */
async function measure(t: Test, server: Server, load: object): Promise<Report> {
  const all = {
    port: await portOf(t, server),
    path: '/v1',
    headers: {},
    stream: false,
    bodyBytes: 1000,
    warmupMs: 500,
    durationMs: 500,
    watch: {},
  };
  return runClient('client', { ...all, ...load });
}

t.test('a stall at the end of the window counts for all requests that were due in it', async (t) => {
  let firstMs = 0;
  const server = createServer((_request, response) => {
    firstMs ||= performance.now();
    const sinceMs = performance.now() - firstMs;
    // From the middle of the window to behind its end.
    setTimeout(() => response.end('{}'), sinceMs > 700 ? Math.max(1400 - sinceMs, 0) : 0);
  });
  const { errors, latencyMs, seconds } = await measure(t, server, { connections: 200, ratePerS: 200 });
  t.equal(errors, 0);
  const due = 200 * seconds;
  t.ok(Math.abs(latencyMs.count - due) <= due / 10, `${latencyMs.count} of the ${due} that were due`);
  t.ok(latencyMs.p99 > 300, `${latencyMs.p99} ms`);
});

t.test('requests that a peer never got to are errors', async (t) => {
  // One connection, ten answers in a second.
  const server = createServer((_request, response) => void setTimeout(() => response.end('{}'), 100));
  const { errors, lastError } = await measure(t, server, { connections: 1, ratePerS: 100 });
  t.ok(errors > 40, `${errors} errors`);
  t.equal(lastError, 'not answered in time');
});

t.test('the memory client counts each connection that fails once, with the reason', async (t) => {
  const server = createServer((_request, response) => response.writeHead(500).end());
  const load = { port: await portOf(t, server), path: '/v1', pid: null, stream: true, connections: 4, bodyBytes: 1000 };
  const report = await runClient('memory-client', load);
  t.match(report, { open: 0, failed: 4, lastError: 'answer HTTP/1.1 500' });
});

/** A hundredth of a second of searches or pages, after a warm-up as long. */
const SHORT = { connections: 2, warmupMs: 10, durationMs: 10, watch: {} };

t.test('an answer to a search that cannot be read is an error', async (t) => {
  const server = createServer(({ url }, response) => response.end(url === '/log' ? '[]' : '{"results":'));
  const port = await portOf(t, server);
  const { errors, lastError } = await runClient<Report>('search-client', { ...SHORT, port, logPort: port });
  t.ok(errors > 0, `${errors} errors`);
  t.match(lastError, /JSON/);
});

t.test('pages and calls that are not answered are errors', async (t) => {
  const port = await portOf(
    t,
    createServer(() => {}),
  );
  const pages = { ...SHORT, port, sitePort: 1, pages: 1 };
  const calls = { ...SHORT, port, way: 'http', callers: 2, lastMs: 50 };
  const reports = await Promise.all([
    runClient<Report>('fetch-client', { ...pages, lastMs: 50 }),
    runClient<Report>('fetch-client', { ...pages, lastMs: 50, ratePerS: 500 }),
    runClient<Report>('../tools/mcp-client', calls),
  ]);
  for (const { errors, lastError, requests } of reports) {
    t.equal(requests, 0);
    t.ok(errors >= 2, `${errors} errors`);
    t.equal(lastError, 'not answered in time');
  }
});

t.test('a page that was asked for in the window and comes behind it counts for latency', async (t) => {
  const server = createServer((_request, response) => {
    setTimeout(() => response.end('{"word_count":1}'), 100);
  });
  const load = { ...SHORT, port: await portOf(t, server), sitePort: 1, pages: 1, ratePerS: 200 };
  const { errors, latencyMs } = await runClient<Report>('fetch-client', load);
  t.equal(errors, 0);
  t.ok(latencyMs.count > 0, `${latencyMs.count} pages`);
  t.ok(latencyMs.p50 >= 90, `${latencyMs.p50} ms`);
});

t.test('a peer that takes no connections has errors', async (t) => {
  const load = { ...SHORT, port: await freePort(), path: '/v1', headers: {}, stream: false, bodyBytes: 1000 };
  const { errors, lastError } = await runClient<Report>('client', load);
  t.ok(errors > 0, `${errors} errors`);
  t.match(lastError, /ECONNREFUSED/);
});
