// Failures and shutdown of ingress threads: one that throws is replaced while the port stays served, too many failures end the
// process, and a shutdown waits for requests in flight. In a child process, because a mistake with an open uWebSockets.js app
// aborts it.

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { createManualClock } from '../../src/actor/testkit.ts';
import { chat, KEY, readStream, startHosts, until, within } from '../support/system.ts';
import type { Overview } from '../../src/admin/index.ts';
import { type Served, startServe, statusOf } from '../support/system-cli.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const CRASHING = fileURLToPath(new URL('fixtures/crashing.js', import.meta.url));
const STUCK = fileURLToPath(new URL('fixtures/stuck-engine.js', import.meta.url));

/** A chat on a connection of its own, so that the system picks the thread anew. */
function chatOnce(url: string, headers: Record<string, string> = {}): Promise<Response> {
  return chat(url, { headers: { connection: 'close', ...headers } });
}

function count(text: string, word: string): number {
  return text.split(word).length - 1;
}

function isRefused(url: string): Promise<boolean> {
  return fetch(url).then(
    () => false,
    () => true,
  );
}

async function inFlight(served: Served): Promise<number> {
  return (await statusOf(served)).crns.reduce((sum, crn) => sum + crn.inFlight, 0);
}

t.test('a thread that throws is replaced; the port stays served and its in-flight counts are removed', async (t) => {
  const hosts = await startHosts(t);
  const served = await startServe(t, hosts, { threads: 2, timeouts: { drain: '2s' } }, { script: CRASHING });
  const { cli, url } = served;
  t.equal(count(cli.stderr, 'ingress thread serves'), 2);
  const held = 24;
  const leave = new AbortController();
  let alive = held;
  const holds = Array.from({ length: held }, () =>
    chat(url, { headers: { 'x-headrace-fault': 'hang' }, signal: leave.signal }).catch(() => alive--),
  );
  await until('all are in flight', async () => (await inFlight(served)) === held);
  cli.send({ crash: 1 });
  await cli.complains(/ingress thread failed/);
  for (let round = 0; round < 50; round++) {
    const answer = await chatOnce(url);
    t.equal(answer.status, 200, 'served while the thread is away');
    await answer.text();
  }
  await until('the thread is back', () => count(cli.stderr, 'ingress thread serves') === 3);
  t.ok(alive > 0 && alive < held, `${alive} of ${held} were on the other thread`);
  t.equal(await inFlight(served), alive, 'requests in flight of the failed thread are off the board');
  const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
  t.match(metrics, new RegExp(`^headrace_requests_in_flight ${alive}$`, 'm'));
  leave.abort();
  await Promise.all(holds);
  await until('nothing is in flight', async () => (await inFlight(served)) === 0);
  for (let round = 0; round < 20; round++) t.equal((await chatOnce(url)).status, 200);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 0, signal: null });
});

t.test(
  'a thread that does not answer is told of by the log and the metrics, which stay quick and keep its counts',
  async (t) => {
    const folder = temporaryFolder(t);
    const search = {
      engines: { engine_a: { kind: 'module', path: STUCK, options: { until: `${folder}/go` } } },
    } as const;
    const served = await startServe(t, await startHosts(t), { threads: 1, search });
    const { adminUrl, cli, url } = served;
    const metrics = async (): Promise<string> => (await fetch(`${adminUrl}/metrics`)).text();
    t.equal((await chatOnce(url)).status, 200);
    t.match(await metrics(), /^headrace_thread_unresponsive_seconds{thread="1"} 0$/m);
    const requests = async (): Promise<number> => {
      const { models } = (await (await fetch(`${adminUrl}/overview`)).json()) as Overview;
      return models.find(({ model }) => model !== '')?.requests ?? 0;
    };
    t.equal(await requests(), 1);
    const searched = fetch(`${url}/search`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'weir', engines: ['engine_a'] }),
    });
    await cli.complains(/"thread":1,"msg":"ingress thread does not answer: its connections wait"/);
    const beganMs = performance.now();
    const during = await metrics();
    t.ok(performance.now() - beganMs < 1500, 'the thread is not asked');
    t.match(during, /^headrace_thread_unresponsive_seconds{thread="1"} (?:[3-9]|\d\d)\./m);
    t.match(during, /^headrace_requests_total{endpoint="\/v1\/chat\/completions".* 1$/m);
    t.equal(await requests(), 1, 'nor falls a sum of the overview');
    writeFileSync(`${folder}/go`, '');
    await cli.complains(/"thread":1,"msg":"ingress thread answers again"/);
    t.equal((await searched).status, 200);
    t.match(await metrics(), /^headrace_thread_unresponsive_seconds{thread="1"} 0$/m);
  },
);

/** Its words are those of the query, and look like a line of a stack. */
const THROWING = `export const createEngine = () => ({ kind: 'own', documentation: '', types: ['web'],
  async search({ query }) { throw new TypeError(query + '\\n    at ' + query); } });`;

for (const threads of [0, 1]) {
  t.test(
    `threads: ${threads}, what the code of an engine throws is logged without its words, once a minute`,
    async (t) => {
      const folder = temporaryFolder(t);
      writeFileSync(`${folder}/own.mjs`, THROWING);
      const search = { engines: { engine_a: { kind: 'module', path: `${folder}/own.mjs` } } } as const;
      const { cli, url } = await startServe(t, await startHosts(t), { threads, search });
      for (const query of ['private one', 'private two']) {
        const answer = await fetch(`${url}/search`, {
          method: 'POST',
          headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
          body: JSON.stringify({ query, engines: ['engine_a'] }),
        });
        t.match(await answer.json(), { detail: 'All search engines failed' });
      }
      cli.signal('SIGTERM');
      await cli.ends();
      const lines = cli.log.filter(({ engine }) => engine === 'engine_a');
      t.match(lines, [
        { level: 40, thrown: /^TypeError at .*own\.mjs\S*:2:/, msg: 'the code of a search engine threw' },
      ]);
      t.equal(lines.length, 1);
      t.notMatch(cli.stderr, 'private');
    },
  );
}

t.test('past the restart intensity the process ends with code 1 and says why', async (t) => {
  const hosts = await startHosts(t);
  const { cli } = await startServe(t, hosts, { threads: 2 }, { script: CRASHING });
  for (let crashes = 1; crashes <= 6; crashes++) {
    cli.send({ crash: 1 });
    await until(
      `crash ${crashes} is over`,
      () => !cli.running || count(cli.stderr, 'ingress thread serves') === 2 + crashes,
    );
  }
  t.strictSame(await cli.ends(), { code: 1, signal: null });
  t.match(cli.log.at(-1), { level: 60, msg: 'the gateway cannot go on', err: { message: /ingress thread 1 ended/ } });
});

t.test('what a thread has reserved of limits returns when it ends', async (t) => {
  const hosts = await startHosts(t);
  const keys = { static: [{ key: KEY, account: 'tests', running: 1, tpm: 2000 }] };
  const settings = { threads: 1, store: 'sqlite::memory:', keys };
  const { cli, url } = await startServe(t, hosts, settings, { script: CRASHING });
  const cut = chat(url, { tokens: 1500, headers: { 'x-headrace-fault': 'hang' } }).then(
    () => 'answered',
    () => 'cut',
  );
  await hosts[0]?.nextRequest();
  t.equal((await chat(url)).headers.get('x-headrace-error'), 'HR_KEY_RUNNING');
  cli.send({ crash: 1 });
  t.equal(await cut, 'cut');
  await until('another thread serves', () => count(cli.stderr, 'ingress thread serves') === 2);
  t.equal((await chat(url, { tokens: 1500 })).status, 200, 'neither the place nor the tokens are lost');
});

t.test('an error in the main thread ends the process with code 1 and says why', async (t) => {
  const hosts = await startHosts(t);
  const { cli } = await startServe(t, hosts, { threads: 2 }, { script: CRASHING });
  cli.send({ crash: 0 });
  t.strictSame(await cli.ends(), { code: 1, signal: null });
  t.match(cli.log.at(-1), { level: 60, msg: 'the gateway cannot go on', err: { message: 'crash on request' } });
});

for (const threads of [1, 2]) {
  t.test(`a shutdown of ${threads} waits for live streams`, async (t) => {
    const clock = createManualClock();
    const hosts = await startHosts(t, [{ clock }]);
    const { cli, url } = await startServe(t, hosts, { threads });
    const streams = Array.from({ length: 20 }, async () => readStream(await chat(url, { stream: true, tokens: 60 })));
    await until('all stream', () => hosts[0]?.live === 20);
    cli.signal('SIGTERM');
    await until('no other is accepted', () => isRefused(`${url}/health`));
    clock.advance(1000);
    for (const stream of await within('streams', Promise.all(streams))) t.ok(stream.complete);
    t.strictSame(await cli.ends(), { code: 0, signal: null });
  });
}

t.test('a second signal ends the process at once, without an abort', async (t) => {
  const hosts = await startHosts(t);
  const { cli, url } = await startServe(t, hosts, { threads: 2 });
  const broken = chat(url, { headers: { 'x-headrace-fault': 'hang' } }).then(
    () => 'answered',
    () => 'cut',
  );
  await hosts[0]?.nextRequest();
  cli.signal('SIGTERM');
  await until('draining', () => isRefused(`${url}/health`));
  t.ok(cli.running);
  cli.signal('SIGTERM');
  t.strictSame(await cli.ends(), { code: 130, signal: null });
  t.equal(await broken, 'cut');
});
