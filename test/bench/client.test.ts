// The load client of the benchmarks at a fixed rate: what is due in the window counts, however late it is answered, or is an error.
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';

const run = promisify(execFile);
const CLIENT = fileURLToPath(new URL('../../../bench/lib/client.mjs', import.meta.url));

interface Report {
  readonly seconds: number;
  readonly requests: number;
  readonly errors: number;
  readonly lastError: string;
  readonly latencyMs: { readonly p50: number; readonly p99: number; readonly count: number };
}

/** Requests of this rate for half a second, after a warm-up as long. */
async function measure(t: Test, server: Server, load: object): Promise<Report> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close().closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const all = {
    port,
    path: '/v1',
    headers: {},
    stream: false,
    bodyBytes: 1000,
    warmupMs: 500,
    durationMs: 500,
    watch: {},
  };
  const { stdout } = await run(process.execPath, [CLIENT, JSON.stringify({ ...all, ...load })]);
  return JSON.parse(stdout) as Report;
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
