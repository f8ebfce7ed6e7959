// Three gateways in front of the same host, siblings through a real Redis or Valkey: roll call, health, overview, metrics, and what
// remains when the engine is away.

import t from 'tap';
import type { Overview } from '../../src/admin/overview.ts';
import { type Member, startMember, TOKEN } from '../support/cluster-member.ts';
import { startRedis } from '../support/redis.ts';
import { KEY, MODEL, settingsFor, startHosts, until } from '../support/system.ts';

async function overviewOf({ adminUrl }: Member, path = '/overview'): Promise<Overview> {
  const answer = await fetch(`${adminUrl}${path}`);
  return (await answer.json()) as Overview;
}

async function healthOf({ gateway }: Member): Promise<{ cluster?: { connected: boolean; gateways: number } }> {
  return (await gateway.inject({ path: '/health' })).json() as never;
}

async function metricOf({ adminUrl }: Member, line: RegExp): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(line.exec(text)?.[1] ?? NaN);
}

async function chat({ gateway }: Member): Promise<number> {
  const answer = await gateway.inject({
    method: 'POST',
    path: '/v1/chat/completions',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, max_tokens: 2, messages: [{ role: 'user', content: 'hello' }] }),
  });
  return answer.status;
}

t.test('every gateway shows all of them, with one that leaves gone at once', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t);
  const [a, b, c] = [
    await startMember(t, hosts, redis),
    await startMember(t, hosts, redis),
    await startMember(t, hosts, redis),
  ];
  for (const each of [a, b, c]) {
    await until('all are there', async () => (await healthOf(each)).cluster?.gateways === 3);
  }
  t.same((await healthOf(a)).cluster, { connected: true, gateways: 3 });
  await until('addresses arrive', async () => {
    const { cluster } = await overviewOf(a);
    return cluster?.gateways.every(({ address }) => address !== null) === true;
  });
  const { cluster, version } = await overviewOf(a);
  t.same(
    new Set(cluster?.gateways.map(({ address }) => address)),
    new Set([a, b, c].map(({ url }) => new URL(url).host)),
  );
  t.equal(cluster?.gateways[0]?.self, true);
  t.match(cluster?.gateways[1], { self: false, version, stage: 'ready' });
  t.ok((cluster?.gateways[1]?.ageMs ?? Infinity) < 3000);
  t.equal((await overviewOf(b, '/house')).cluster?.gateways.length, 3);

  t.equal(await metricOf(a, /^headrace_cluster_connected (.*)$/m), 1);
  t.equal(await metricOf(a, /^headrace_cluster_siblings (.*)$/m), 2);
  t.ok((await metricOf(a, /^headrace_cluster_news_age_seconds (.*)$/m)) < 3);
  t.ok(
    (await metricOf(a, /^headrace_cluster_messages_total\{.*topic="roll-call".*direction="in".*result="ok".* (.*)$/m)) >
      1,
  );

  await c.gateway.close();
  await until('it has left', async () => (await healthOf(a)).cluster?.gateways === 2);
});

t.test('gateways start and serve without the engine, and find each other when it is back', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  await redis.stop();
  const hosts = await startHosts(t);
  const [a, b] = [await startMember(t, hosts, redis), await startMember(t, hosts, redis)];
  t.same((await healthOf(a)).cluster, { connected: false, gateways: 1 });
  t.equal(await chat(a), 200);
  await redis.start();
  await until('they are siblings', async () => (await healthOf(a)).cluster?.gateways === 2);
  redis.pause();
  await until('a knows it', async () => (await healthOf(a)).cluster?.connected === false);
  t.same(await Promise.all([chat(a), chat(b)]), [200, 200]);
  t.equal(await metricOf(a, /^headrace_cluster_connected (.*)$/m), 0);
  redis.resume();
  await until('a is back', async () => (await healthOf(a)).cluster?.connected === true);
});

t.test('a reload turns the cluster on and off', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t);
  const a = await startMember(t, hosts, redis, { cluster: null });
  t.equal((await healthOf(a)).cluster, undefined);
  t.equal((await overviewOf(a)).cluster, null);
  t.ok(Number.isNaN(await metricOf(a, /^headrace_cluster_connected (.*)$/m)));
  const settings = settingsFor(hosts, { admin: '127.0.0.1:0', adminToken: TOKEN, store: null });
  const reloaded = a.gateway.reload({ ...settings, cluster: { url: redis.url } });
  t.ok(reloaded.applied.includes('cluster.url'));
  await until('it is connected', async () => (await healthOf(a)).cluster?.connected === true);
  a.gateway.reload({ ...settings, cluster: null });
  t.equal((await healthOf(a)).cluster, undefined);
});

t.test('the URL with its password is in no document', async (t) => {
  const redis = await startRedis({ args: ['--requirepass', 'sesame'] });
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t);
  const a = await startMember(t, hosts, redis, { cluster: { url: redis.url.replace('://', '://:sesame@') } });
  await until('it is connected', async () => (await healthOf(a)).cluster?.connected === true);
  const headers = { authorization: `Bearer ${TOKEN}` };
  for (const path of ['/configuration', '/overview', '/status', '/metrics']) {
    const text = await (await fetch(`${a.adminUrl}${path}`, { headers })).text();
    t.notMatch(text, 'sesame', path);
  }
});
