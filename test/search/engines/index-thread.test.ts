// The thread of the indexes and the queue before it: one index for all threads, and whatever happens to it is a failure of the
// queries in it, never of the thread that asks.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { createManualClock, createSystem } from '../../../src/actor/index.ts';
import { createGateway } from '../../../src/index.ts';
import type { EngineHit } from '../../../src/search/engine.ts';
import { IndexClient, IndexService } from '../../../src/search/engines/local/index-service.ts';
import { IndexThread, MAX_QUERIES } from '../../../src/search/engines/local/index-thread.ts';
import type { IndexedFolderSettings } from '../../../src/search/engines/local.ts';
import { createHost } from '../../../src/testkit.ts';

const SCRIPT = new URL('../fixtures/index/scripted.js', import.meta.url);
const SIGNAL = new AbortController().signal;

function folder(path: string): IndexedFolderSettings {
  return { path, baseUrl: 'https://docs.example/', maxFiles: 100, maxBytes: 1e6, rescanMs: 2000 };
}

function scripted(t: Test) {
  const clock = createManualClock();
  const notices: string[] = [];
  let heard = Promise.withResolvers<string>();
  const thread = new IndexThread({
    clock,
    script: SCRIPT,
    onNotice: (sentence) => {
      notices.push(sentence);
      heard.resolve(sentence);
      heard = Promise.withResolvers();
    },
  });
  t.teardown(() => thread.close());
  const find = (query: string, signal = SIGNAL, path = '/f'): Promise<readonly EngineHit[]> =>
    thread.find(folder(path), { query, type: 'web', maxResults: 10 }, signal);
  const threadOf = async (query: string): Promise<string> => (await find(query))[0]?.title ?? '';
  return { clock, find, heard: () => heard.promise, notices, thread, threadOf };
}

/** Files that a built module imports, with those that they import. */
function importsOf(file: string, seen = new Set<string>()): Set<string> {
  seen.add(file);
  for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(
    /^(?:import|(?:import|export)\s[\w*{}\s,$]*from)\s*['"]([^'"]+)['"]/gm,
  )) {
    const target = name.startsWith('.') ? resolve(dirname(file), name) : name;
    if (seen.has(target)) continue;
    if (target.endsWith('.js') && existsSync(target)) importsOf(target, seen);
    else seen.add(target);
  }
  return seen;
}

t.test('no thread that serves requests loads the index', async (t) => {
  const dist = fileURLToPath(new URL('../../../', import.meta.url));
  const isIndex = (name: string): boolean => name === 'minisearch' || name.endsWith('/local/collection.js');
  const ingress = [...importsOf(`${dist}workers/ingress.js`)];
  t.ok(ingress.some((name) => name.endsWith('/engines/local.js')));
  t.strictSame(ingress.filter(isIndex), []);
  t.strictSame([...importsOf(`${dist}src/gateway/gateway.js`)].filter(isIndex), []);
  t.equal([...importsOf(`${dist}workers/search-index.js`)].filter(isIndex).length, 2);
});

t.test('all threads and equal folders share one index', async (t) => {
  const system = createSystem({ name: 'test' });
  const service = new IndexService(system, () => undefined);
  t.teardown(async () => {
    await service.close();
    await system.terminate();
  });
  const path = t.testdir({ 'a.txt': 'alpha' });
  const clients = ['thread-1', 'thread-2'].map((name) => new IndexClient(service.ref, name));
  const query = { query: 'alpha', type: 'web', maxResults: 10 } as const;
  const found = await Promise.all(clients.map((client) => client.find(folder(path), query, SIGNAL)));
  for (const hits of found) t.same(hits, [{ title: 'a.txt', url: 'https://docs.example/a.txt', snippet: 'alpha' }]);
  const [client] = clients as [IndexClient];
  await t.rejects(client.find(folder(`${path}/gone`), query, SIGNAL), { message: 'invalid response' });
  await t.rejects(client.find(folder(path), query, AbortSignal.abort()), { name: 'AbortError' });
});

t.test('a query that blocks the index delays no chat, and ends with the thread', async (t) => {
  const host = createHost({ models: ['atlas-27b'], timeToFirstTokenMs: 0, interTokenMs: 0 });
  t.teardown(() => host.kill());
  const gateway = createGateway({
    models: { 'atlas-27b': { servers: [await host.listen()] } },
    keys: { static: [{ key: 'hr_test', account: 'a' }] },
  });
  t.teardown(() => gateway.close());
  await gateway.ready();
  const { clock, find, heard, notices, threadOf } = scripted(t);
  const before = await threadOf('first');
  const blocked = find('block');
  blocked.catch(() => undefined);
  t.equal(await heard(), '/f: blocked');
  const behind = find('behind');
  behind.catch(() => undefined);
  const { body, status } = await gateway.inject({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json', authorization: 'Bearer hr_test' },
    body: JSON.stringify({ model: 'atlas-27b', max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] }),
  });
  t.equal(status, 200, body.toString());
  t.pass('the chat is answered while the index is blocked');
  clock.advance(10_000);
  await t.rejects(blocked, { message: 'index ended: query took too long', failure: 'http' });
  await t.rejects(behind, { message: 'index ended: query took too long' });
  t.match(notices.at(-1), /read again: query took too long/);
  const next = threadOf('next');
  clock.advance(100);
  t.not(await next, before, 'another thread');
});

t.test('a thread that ends is replaced, reads its folders again and is not told about in its own words', async (t) => {
  const { clock, find, heard, notices, thread } = scripted(t);
  thread.keep([folder('/kept')]);
  t.equal((await find('first'))[0]?.snippet, 'first /kept');
  await t.rejects(find('throw'), { message: 'index ended: unexpected error' });
  t.strictSame(notices, ['the search index has ended and is read again: unexpected error']);
  const next = find('next');
  clock.advance(99);
  clock.advance(1);
  t.equal((await next)[0]?.snippet, 'next /kept');
  // Twice in a row: the second wait is twice as long.
  for (const waitMs of [100, 200]) {
    const ended = heard();
    await t.rejects(find('throw'));
    await ended;
    clock.advance(waitMs);
  }
  t.equal((await find('last'))[0]?.snippet, 'last /kept');
});

t.test('the queue is bounded, and a client that leaves makes room', async (t) => {
  const { find } = scripted(t);
  const leaving = new AbortController();
  const waiting = Array.from({ length: MAX_QUERIES }, () => find('wait', leaving.signal));
  await t.rejects(find('more'), { message: 'index busy', failure: 'rejected' });
  leaving.abort(new Error('left'));
  for (const each of waiting) await t.rejects(each, { message: 'left' });
  t.equal((await find('next', SIGNAL, '/other'))[0]?.url, 'https://a.example/', 'another folder is not behind them');
});

t.test('closing fails what waits', async (t) => {
  const { find, thread } = scripted(t);
  const waiting = find('wait');
  waiting.catch(() => undefined);
  await thread.close();
  await t.rejects(waiting, { message: 'cancelled' });
  await t.rejects(find('more'), { message: 'cancelled' });
});
