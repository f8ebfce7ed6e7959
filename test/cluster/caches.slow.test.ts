// Three gateways in front of a real engine: a page and a search that one has answered, an engine of searches that one found exhausted, and
// places; while the engine of the cluster is there, away, slow, and full of what no gateway wrote.

import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import type { SettingsInput } from '../../src/config/settings.ts';
import { createGateway, type Gateway } from '../../src/gateway/gateway.ts';
import { freePort } from '../support/free-port.ts';
import { startRedis, type RedisServer } from '../support/redis.ts';
import { site, type Site } from '../support/site.ts';
import { until } from '../support/system.ts';

const KEYS = { static: ['me', 'you'].map((account) => ({ account, key: `hr_${account}` })) };

const PAGE = `<title>Weirs</title><article><h1>Weirs</h1><p>${'A weir is a low wall across a river. '.repeat(20)}</p></article>`;

interface Cluster {
  readonly redis: RedisServer;
  readonly web: Site;
  readonly gateway: (settings?: SettingsInput) => Promise<Running>;
  /** Status of the engine of searches. */
  status: number;
  /** Answers the pages that are held. */
  readonly release: () => void;
}

interface Running {
  readonly gateway: Gateway;
  readonly url: string;
  readonly post: (path: string, body: unknown, account?: string) => Promise<Response>;
  /** A page; resolves with whether it came from a cache. */
  readonly page: (path: string, account?: string) => Promise<boolean>;
  readonly search: (query: string, account?: string) => Promise<Response>;
  /** Lookups of a cache that ended so. */
  readonly lookups: (cache: string, result: string) => Promise<number>;
}

async function setUp(t: Test): Promise<Cluster> {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const held: (() => void)[] = [];
  const release = (): void => held.splice(0).forEach((end) => end());
  t.teardown(release);
  const web = await site(t, {
    '/page': (_request, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE),
    '/held': (_request, response) =>
      void held.push(() => response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE)),
    '/search': (_request, response) => {
      response.writeHead(cluster.status, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({ results: [{ title: 'Weirs', url: 'https://example.com/weirs', content: 'walls' }] }),
      );
    },
  });
  const cluster: Cluster = {
    ...{ redis, web, status: 200, release },
    gateway: (settings = {}) => startGateway(t, redis.url, web, settings),
  };
  return cluster;
}

async function startGateway(t: Test, url: string, web: Site, settings: SettingsInput): Promise<Running> {
  const gateway = createGateway({
    // Its threads listen after the port was found free: others must not get it meanwhile.
    listen: `127.0.0.1:${await freePort()}`,
    ...{ store: null, keys: KEYS, log: { level: 'silent' } },
    cluster: { url },
    // A busy machine may need long for the first page of a cleaner.
    fetch: { allow: ['127.0.0.1'], ports: [web.port], timeout: '1m', cleanTimeout: '1m' },
    search: { engines: { a: { kind: 'searxng', url: web.origin } }, default: ['a'], cacheTtl: '1m' },
    admin: '127.0.0.1:0',
    ...settings,
  });
  t.teardown(() => gateway.close());
  const { adminUrl, url: base } = await gateway.listen();
  const post = (path: string, body: unknown, account = 'me'): Promise<Response> =>
    fetch(`${base}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer hr_${account}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  return {
    ...{ gateway, url: base, post },
    async page(path, account) {
      const response = await post('/search/fetch', { url: web.origin + path }, account);
      t.equal(response.status, 200, path);
      const { content } = (await response.json()) as { content: string };
      t.match(content, /low wall/);
      return response.headers.get('x-headrace-cache') === 'hit';
    },
    search: (query, account) => post('/search', { query, max_results: 1 }, account),
    async lookups(cache, result) {
      const text = await (await fetch(`${adminUrl}/metrics`)).text();
      const found = new RegExp(
        `^headrace_cluster_cache_lookups_total\\{cache="${cache}",result="${result}"\\} (\\d+)`,
        'm',
      );
      return Number(found.exec(text)?.[1] ?? 0);
    },
  };
}

/** Three gateways that know of each other; the second has an ingress thread. */
async function startThree(c: Cluster, settings: SettingsInput = {}): Promise<[Running, Running, Running]> {
  const gateways = await Promise.all([
    c.gateway(settings),
    c.gateway({ ...settings, threads: 1 }),
    c.gateway(settings),
  ]);
  for (const { url } of gateways) await until('the roll call', () => hasSiblings(url, 3));
  return gateways as [Running, Running, Running];
}

async function hasSiblings(url: string, count: number): Promise<boolean> {
  const response = await fetch(`${url}/health`);
  const { cluster } = (await response.json()) as { cluster?: { connected?: boolean; gateways?: number } };
  return cluster?.connected === true && cluster.gateways === count;
}

/** Keys of entries in the engine. */
function entries({ redis }: Cluster): string[] {
  return redis.cli('--raw', 'keys', '{headrace}:cache:*').split('\n').filter(Boolean);
}

/** A proxy that delays every byte. */
async function slowProxy(t: Test, port: number, delayMs: number): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const engine = connect(port, '127.0.0.1');
    for (const [from, to] of [
      [client, engine],
      [engine, client],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('data', (bytes) => void setTimeout(() => to.destroyed || to.write(bytes), delayMs / 2));
      from.on('close', () => to.destroy());
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Repeats what a busy machine may keep from ending within 20 ms, each time with another `name`. */
async function eventually(what: string, holds: (name: string) => Promise<boolean>): Promise<void> {
  let names = 0;
  await until(what, () => holds(`n${++names}`));
}

/** Whether a page that one gateway has read is answered by another one without a request to its site. */
async function isShared(c: Cluster, path: string, one: Running, two: Running): Promise<boolean> {
  const before = entries(c).length;
  await one.page(path);
  await until('it is shared', () => entries(c).length > before);
  c.web.asked.length = 0;
  return (await two.page(path)) && c.web.asked.length === 0;
}

t.test('what one gateway has read or found the others answer', async (t) => {
  const c = await setUp(t);
  const [one, two, three] = await startThree(c);
  for (const [index, other] of [two, three].entries()) {
    await eventually('a page of another gateway', (name) => isShared(c, `/page?${index}-${name}`, one, other));
    t.ok((await other.lookups('page', 'hit')) > 0);
    await one.page(`/page?${index}-secret`);
    t.equal(await other.page(`/page?${index}-secret`, 'you'), false, 'an address with a query is of its account alone');
    await eventually('a search of another gateway', async (name) => {
      const query = `${index} ${name}`;
      const before = entries(c).length;
      const answer: unknown = await (await one.search(query)).json();
      await until('it is shared', () => entries(c).length > before);
      c.web.asked.length = 0;
      const again = await other.search(query);
      if (again.headers.get('x-headrace-cache') !== 'hit') return false;
      t.same(await again.json(), answer);
      t.same(c.web.asked, [], 'the engine was not asked');
      const stranger = await other.search(query, 'you');
      t.equal(stranger.headers.get('x-headrace-cache'), null, 'another account');
      t.equal(c.web.asked.length, 1);
      return true;
    });
    t.ok((await other.lookups('search', 'hit')) > 0);
  }
  for (const key of entries(c)) t.ok(Number(c.redis.cli('pttl', key)) > 0, 'every entry has an end');
});

t.test('an engine that one gateway finds exhausted is suspended at all', async (t) => {
  const c = await setUp(t);
  const [one, ...others] = await startThree(c);
  c.status = 402;
  t.equal((await one.search('weirs')).status, 503);
  for (const { search } of others) {
    let asked: number;
    await until('it is suspended', async () => {
      asked = c.web.asked.length;
      t.equal((await search('locks')).status, 503);
      return c.web.asked.length === asked;
    });
  }
  t.ok(c.web.asked.length <= 3, 'no gateway asked more than once');
});

t.test('an engine of the cluster that is away, slow or full of garbage costs hits, nothing else', async (t) => {
  const c = await setUp(t);
  const [one, two, three] = await startThree(c);
  await eventually('garbage is found', async (name) => {
    const before = new Set(entries(c));
    await one.page(`/page?${name}`);
    let key: string | undefined;
    await until('it is shared', () => (key = entries(c).find((each) => !before.has(each))) !== undefined);
    c.redis.cli('set', key ?? '', 'garbage', 'px', '60000');
    t.equal(await two.page(`/page?${name}`), false);
    return (await two.lookups('page', 'invalid')) > 0;
  });
  c.redis.pause();
  t.equal(await two.page('/page?paused'), false);
  t.ok((await two.lookups('page', 'timeout')) > 0);
  c.redis.resume();
  await c.redis.stop();
  for (const gateway of [one, two, three]) t.equal(await gateway.page('/page?stopped'), false);
  await c.redis.start();
  for (const { url } of [one, two]) await until('the engine is found', () => hasSiblings(url, 3));
  await eventually('pages are shared', (name) => isShared(c, `/page?again-${name}`, one, two));
  const slow = await c.gateway({
    cluster: { url: `redis://127.0.0.1:${await slowProxy(t, c.redis.port, 100)}` },
  });
  await until('the roll call', () => hasSiblings(slow.url, 4));
  t.equal(await slow.page('/page?slow'), false);
  t.ok((await slow.lookups('page', 'timeout')) > 0);
});

t.test('an account that fetches at one gateway has no place more at another', async (t) => {
  const c = await setUp(t);
  const [one, two] = await startThree(c, {
    fetch: { allow: ['127.0.0.1'], ports: [c.web.port], perAccount: 1, timeout: '1m', cleanTimeout: '1m' },
  });
  const held = one.post('/search/fetch', { url: `${c.web.origin}/held` });
  await until('the page is asked for', () => c.web.asked.includes('/held'));
  let waiting = Promise.resolve(true);
  await eventually('the other gateway knows of it', async (name) => {
    await waiting;
    waiting = two.page(`/page?${name}`);
    await two.page(`/page?other-${name}`, 'you');
    return !c.web.asked.includes(`/page?${name}`);
  });
  c.release();
  t.equal((await held).status, 200);
  t.equal(await waiting, false);
});
