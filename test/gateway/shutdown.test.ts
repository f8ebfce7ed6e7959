// Shutdown on real sockets: streams that are still running after `timeouts.drain` end with an error event for clients that read,
// and are charged in any case, whichever thread serves them.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { resolveSettings } from '../../src/config/load.ts';
import { createGateway, type ServedGateway, serveGateway } from '../../src/gateway/gateway.ts';
import {
  bearer,
  endow,
  type LedgerFixture,
  SECRET,
  startLedgerFixture,
  USD,
  usageOf,
} from '../support/ledger-fixture.ts';
import { dial, encode, type Wire } from '../support/server-adapter-wire.ts';
import { chat, KEY, MODEL, settingsFor, startHosts, until } from '../support/system.ts';
import { freePort } from '../support/free-port.ts';

const PROBED = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}';
const STREAM = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';
const EVENT = `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'x'.repeat(8000) } }] })}\n\n`;

interface Crn {
  readonly url: string;
  /** Bytes that the kernel has taken of the stream. */
  readonly sentBytes: () => number;
  /** Resolves when the gateway has closed the connection of the stream. */
  readonly cut: Promise<void>;
}

/** A CRN that answers a chat with a stream that does not end. */
async function startCrn(t: Test): Promise<Crn> {
  const cut = Promise.withResolvers<void>();
  let stream: Socket | undefined;
  const server = createServer((socket) => {
    t.teardown(() => socket.destroy());
    socket.on('error', () => undefined);
    socket.on('data', (piece: Buffer) => {
      const text = piece.toString('latin1');
      if (text.startsWith('GET')) {
        socket.write(PROBED);
      } else if (stream === undefined && text.startsWith('POST')) {
        stream = socket;
        socket.on('close', () => cut.resolve());
        const fill = (): void => {
          while (!socket.destroyed && socket.write(EVENT));
        };
        socket.on('drain', fill);
        socket.write(STREAM);
        fill();
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    sentBytes: () => (stream === undefined ? 0 : stream.bytesWritten - stream.writableLength),
    cut: cut.promise,
  };
}

/** A stream whose client has read nothing, once all buffers on its way are full. */
async function stuckStream(
  t: Test,
  threads: number,
): Promise<LedgerFixture & { readonly crn: Crn; readonly wire: Wire }> {
  const crn = await startCrn(t);
  const settings = { threads, timeouts: { drain: '50ms' } };
  const fixture = await startLedgerFixture(t, { settings, model: { servers: [crn.url] } });
  await endow(fixture.ledger, 10n * USD);
  await until('the key is known', async () => {
    const checked = await fetch(`${fixture.url}/svc/auth/check`, { headers: { ...bearer(), connection: 'close' } });
    return checked.status === 200;
  });
  const wire = dial(t, Number(new URL(fixture.url).port));
  wire.socket.pause();
  const body = { model: MODEL, stream: true, max_tokens: 1000, messages: [{ role: 'user', content: 'hi' }] };
  await wire.send(encode({ path: '/v1/chat/completions', headers: { authorization: `Bearer ${SECRET}` }, body }));
  let before = -1;
  let unchanged = 0;
  await until('nothing moves any more', () => {
    const sent = crn.sentBytes();
    unchanged = sent > 0 && sent === before ? unchanged + 1 : 0;
    before = sent;
    return unchanged === 20;
  });
  return { ...fixture, crn, wire };
}

for (const threads of [0, 1]) {
  t.test(`a cut stream is charged though its client does not read, threads: ${threads}`, async (t) => {
    const { gateway, ledger } = await stuckStream(t, threads);
    await gateway.close();
    const [row] = await ledger.usage({ account: 'acme', by: [] });
    t.equal(row?.requests, 1n);
    t.ok((row?.amount ?? 0n) > 0n);
    t.equal((await ledger.account('acme'))?.held, 0n, 'the lease is given back');
  });

  t.test(`a client that reads late gets the error event of its cut stream, threads: ${threads}`, async (t) => {
    const { crn, gateway, ledger, wire } = await stuckStream(t, threads);
    const closed = gateway.close();
    await crn.cut;
    wire.socket.resume();
    t.equal(await wire.ended, 'fin');
    t.match(wire.pending.slice(-1000), /HR_DRAINING[^]*\r\n0\r\n\r\n$/);
    await closed;
    const [row] = await ledger.usage({ account: 'acme', by: [] });
    t.equal(row?.requests, 1n);
  });
}

t.test('what has been delivered on a thread that throws is charged', async (t) => {
  const { gateway, ledger } = await stuckStream(t, 1);
  (gateway as ServedGateway).crash(1);
  const { amount } = await usageOf(ledger, 1);
  t.ok(amount > 0n);
});

t.test('an admin listener that opens while the gateway closes is closed', async (t) => {
  const port = await freePort();
  // A name takes longer to listen on than a gateway without requests to close.
  const resolution = resolveSettings({ admin: `localhost:${port}`, threads: 0, store: null, log: { level: 'silent' } });
  if (!('settings' in resolution)) throw new Error('wrong settings');
  const gateway = serveGateway(resolution.settings);
  const opening = gateway.listenAdmin();
  await Promise.all([t.rejects(opening, { code: 'HR_DRAINING' }), gateway.close()]);
  await t.rejects(fetch(`http://localhost:${port}/health`));
});

t.test('a thread that does not return is ended behind the drain', async (t) => {
  const code = `import { writeFileSync } from 'node:fs';
    export const createEngine = () => ({ kind: 'stuck', types: ['web'], documentation: 'https://stuck.example',
      search: () => { writeFileSync(import.meta.dirname + '/stuck', ''); for (;;); } });`;
  const folder = t.testdir({ 'stuck.mjs': code });
  const search = { engines: { engine_a: { kind: 'module', path: `${folder}/stuck.mjs` } } } as const;
  const gateway = createGateway(settingsFor([], { threads: 1, models: {}, search, timeouts: { drain: '50ms' } }));
  const { url } = await gateway.listen();
  const cut = t.rejects(
    fetch(`${url}/search`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'weir', engines: ['engine_a'] }),
    }),
  );
  await until('the thread is stuck', () => existsSync(`${folder}/stuck`));
  await gateway.close();
  await cut;
});

t.test('a thread that ends during the drain does not open the port again', async (t) => {
  const hosts = await startHosts(t, [{ interTokenMs: 50 }]);
  const resolution = resolveSettings({ ...settingsFor(hosts), threads: 2, store: null, timeouts: { drain: '2s' } });
  if (!('settings' in resolution)) throw new Error('wrong settings');
  const gateway = serveGateway(resolution.settings);
  const { url } = await gateway.listen();
  await gateway.ready();
  // So many that both threads have some.
  const streams = Array.from({ length: 12 }, () =>
    chat(url, { stream: true, tokens: 1000, headers: { connection: 'close' } }).then((response) => response.text()),
  );
  const ended = Promise.allSettled(streams);
  await until('all run', () => gateway.crns().reduce((sum, { inFlight }) => sum + inFlight, 0) === 12);
  let isClosed = false;
  const closing = gateway.close().then(() => (isClosed = true));
  await until('the port is closed', () =>
    fetch(url).then(
      () => false,
      () => true,
    ),
  );
  gateway.crash(1);
  await until('it is over, without an answer meanwhile', async () => {
    const answered = await fetch(url).then(
      () => true,
      () => false,
    );
    if (answered) t.fail('the port is open again');
    return isClosed || answered;
  });
  await closing;
  await ended;
});

t.test('a gateway that closes while a thread ends does not wait for it', async (t) => {
  for (const turns of [0, 1, 5, 20]) {
    const resolution = resolveSettings({ ...settingsFor([]), models: {}, threads: 2, store: null });
    if (!('settings' in resolution)) throw new Error('wrong settings');
    const gateway = serveGateway(resolution.settings);
    await gateway.listen();
    gateway.crash(1);
    for (let turn = 0; turn < turns; turn++) await new Promise(setImmediate);
    const beganMs = performance.now();
    await gateway.close();
    const elapsedMs = performance.now() - beganMs;
    t.ok(elapsedMs < 10_000, `${elapsedMs} ms after ${turns} turns`);
  }
});

t.test('a collector of traces that does not answer holds up the end for two seconds at most', async (t) => {
  const collector = createServer((socket) => {
    t.teardown(() => socket.destroy());
    socket.on('error', () => undefined).resume();
  });
  await new Promise<void>((resolve) => collector.listen(0, '127.0.0.1', resolve));
  t.teardown(() => collector.close());
  const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}/v1/traces`;
  const gateway = createGateway(settingsFor([], { models: {}, telemetry: { otlp: { endpoint } } }));
  // More than one batch: each would be waited for as long as the collector may take.
  for (let at = 0; at < 600; at++) await gateway.inject({ method: 'GET', path: '/v1/models' });
  const beganMs = performance.now();
  await gateway.close();
  const elapsedMs = performance.now() - beganMs;
  t.ok(elapsedMs < 4000, `${elapsedMs} ms`);
});

t.test('a request that comes while a closing gateway sends its spans is served', async (t) => {
  const spans = Promise.withResolvers<Socket>();
  const asked = Promise.withResolvers<Socket>();
  const collector = createServer((socket) => {
    t.teardown(() => socket.destroy());
    socket.on('error', () => undefined).once('data', () => spans.resolve(socket));
  });
  const crn = createServer((socket) => {
    t.teardown(() => socket.destroy());
    socket
      .on('error', () => undefined)
      .on('data', (piece: Buffer) => {
        if (piece.includes('POST')) asked.resolve(socket);
        else socket.write(PROBED);
      });
  });
  for (const server of [collector, crn]) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.teardown(() => server.close());
  }
  const urlOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const telemetry = { otlp: { endpoint: `${urlOf(collector)}/v1/traces` } };
  const models = { [MODEL]: { servers: [urlOf(crn)] } };
  const gateway = createGateway(settingsFor([], { models, telemetry }));
  const { url } = await gateway.listen();
  await gateway.ready();
  const wire = dial(t, Number(new URL(url).port));
  await once(wire.socket, 'connect');
  await gateway.inject({ method: 'GET', path: '/v1/models' });
  const closing = gateway.close();
  const exporting = await spans.promise;
  const body = { model: MODEL, messages: [{ role: 'user', content: 'hi' }] };
  await wire.send(encode({ path: '/v1/chat/completions', headers: { authorization: `Bearer ${KEY}` }, body }));
  const answering = await asked.promise;
  exporting.write(PROBED);
  for (let turns = 0; turns < 50; turns++) await new Promise(setImmediate);
  const answer = JSON.stringify({ choices: [{ index: 0, message: { content: 'late' }, finish_reason: 'stop' }] });
  answering.write(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`,
  );
  t.match((await wire.answer()).text(), /late/);
  await closing;
});
