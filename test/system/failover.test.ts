// Failover with CRNs that die and come back under bounded load: clients see none of the failures that failover can hide.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { freePort } from '../support/free-port.ts';
import { chat, MODEL, readStream, SERVERS, startSystem, type StreamRead, until, within } from '../support/system.ts';

const CLIENTS = 32;

/** Clients that ask one chat after the other, every fourth one streaming, until they are stopped. */
class Load {
  readonly statuses = new Map<number, number>();
  /** Requests that ended in an exception on the client's side. */
  readonly broken: unknown[] = [];
  readonly streams: StreamRead[] = [];
  answered = 0;
  #stopped = false;
  readonly #clients: Promise<void>[];

  constructor(url: string) {
    this.#clients = Array.from({ length: CLIENTS }, (_, index) => this.#client(url, index));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await within('clients', Promise.all(this.#clients));
  }

  /** Waits for so many more answers. */
  async more(count: number): Promise<void> {
    const goal = this.answered + count;
    await until(`${count} more answers`, () => this.answered >= goal);
  }

  async #client(url: string, index: number): Promise<void> {
    const stream = index % 4 === 0;
    for (let round = 0; !this.#stopped; round++) {
      try {
        const text = `conversation ${index}, round ${round}`;
        const response = await chat(url, { stream, text, tokens: stream ? 40 : 8 });
        if (stream) this.streams.push(await readStream(response));
        else await response.text();
        this.statuses.set(response.status, (this.statuses.get(response.status) ?? 0) + 1);
      } catch (error) {
        this.broken.push(error);
      }
      this.answered++;
    }
  }
}

for (const server of SERVERS) {
  t.test(
    `${server}: a CRN that dies under load costs no client an answer, and serves again when it is back`,
    async (t) => {
      const { url, hosts, gateway } = await startSystem(t, {
        hosts: [{ journalEntries: 100_000, listen: `127.0.0.1:${await freePort()}` }, { journalEntries: 100_000 }],
        settings: { server },
      });
      const [first, second] = hosts;
      if (first === undefined || second === undefined) throw new Error('two hosts');
      const load = new Load(url);
      await load.more(200);
      await until('streams on both', () => first.live > 0 && second.live > 0);
      await first.kill();
      await load.more(400);
      await first.listen();
      await until('the CRN is up', () => gateway.crns().every(({ standing }) => standing === 'up'));
      const before = first.requests.length;
      await until('the CRN serves', () =>
        first.requests.slice(before).some(({ path }) => path === '/v1/chat/completions'),
      );
      await load.more(100);
      await load.stop();
      t.same([...load.statuses.keys()], [200]);
      t.same(load.broken, []);
      const ended = load.streams.filter(({ complete }) => !complete);
      for (const stream of ended)
        t.equal(stream.error?.code, 'HR_STREAM_BROKEN', 'a stream that had begun says that it broke');
      t.ok(ended.length <= CLIENTS / 4, `${ended.length} streams had begun on the CRN that died`);
      t.ok(load.streams.some(({ complete }) => complete));
      await until('nothing is in flight', () => gateway.crns().every(({ inFlight }) => inFlight === 0));
    },
  );

  t.test(`${server}: with every CRN gone requests get 503 in time, and succeed once a CRN is back`, async (t) => {
    const connectMs = 1000;
    const { url, hosts, gateway } = await startSystem(t, {
      hosts: [{}, { listen: `127.0.0.1:${await freePort()}` }],
      settings: { server, timeouts: { connect: `${connectMs}ms` } },
    });
    await Promise.all(hosts.map((host) => host.kill()));
    await until('all are down', () => gateway.crns().every(({ standing }) => standing === 'down'));
    const before = performance.now();
    const answers = await Promise.all(Array.from({ length: CLIENTS }, () => chat(url)));
    t.ok(performance.now() - before < connectMs + 1000, 'within the connect timeout');
    for (const answer of answers) {
      t.equal(answer.status, 503);
      t.ok(Number(answer.headers.get('retry-after')) >= 1);
      t.equal(answer.headers.get('x-should-retry'), 'false');
      t.strictSame(await answer.json(), { detail: `All servers unavailable for model ${MODEL}` });
    }
    t.equal((await fetch(`${url}/health`)).status, 200, 'the gateway is not to blame');
    await hosts[1]?.listen();
    await until('served again', async () => (await chat(url)).status === 200);
  });
}

t.test('a CRN that accepts no connection delays a response by the connect timeout at most', async (t) => {
  const port = await startDeaf(t);
  const started = performance.now();
  const { url } = await startSystem(t, {
    settings: {
      models: { [MODEL]: { servers: [`http://127.0.0.1:${port}`] } },
      timeouts: { connect: '300ms' },
      health: { interval: '50ms', timeout: '100ms' },
    },
  });
  const before = performance.now();
  t.ok(before - started < 5000, 'a probe is given up after its own timeout, not after that of the client library');
  t.equal((await within('an answer', chat(url))).status, 503);
  const tookMs = performance.now() - before;
  t.ok(tookMs > 200 && tookMs < 3000, `took ${Math.round(tookMs)} ms`);
});

/** A port whose process is stopped and whose backlog is full: the kernel drops new connections. */
async function startDeaf(t: Test): Promise<number> {
  const script = `require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {
    console.log(this.address().port); })`;
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'ignore'] });
  t.teardown(() => child.kill('SIGKILL'));
  const [line] = (await once(child.stdout, 'data')) as [Buffer];
  const port = Number(line.toString());
  child.kill('SIGSTOP');
  const sockets = Array.from({ length: 4 }, () => connect({ port, host: '127.0.0.1' }).on('error', () => undefined));
  t.teardown(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.slice(0, 2).map((socket) => once(socket, 'connect')));
  return port;
}
