// Faults of the way to the engine and of the engine itself, over a real Redis or Valkey, and strangers who write to its channels.

import { setDefaultCACertificates } from 'node:tls';
import t from 'tap';
import { envelopeHead, PROTOCOL_VERSION } from '../../src/cluster/envelope.ts';
import { type Topic, TOPICS } from '../../src/cluster/link.ts';
import { writeHeartbeat } from '../../src/cluster/roll-call.ts';
import { createGateway } from '../../src/gateway/gateway.ts';
import { CERTIFICATE, EXPIRED_CERTIFICATE, EXPIRED_KEY, KEY } from '../support/certificate.ts';
import { Random } from '../support/random.ts';
import { openLink } from '../support/real-link.ts';
import { startRedis } from '../support/redis.ts';
import { settingsFor, startHosts, until } from '../support/system.ts';
import { startTcpRelay } from '../support/tcp-relay.ts';

t.test('a connection whose packets are dropped is given up within 2 s, and opened again', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const relay = await startTcpRelay(t, redis.port);
  const cut = openLink(t, 'cut', `redis://127.0.0.1:${relay.port}`);
  const other = openLink(t, 'other', redis.url);
  await Promise.all([cut.next('joined'), other.next('joined')]);
  relay.isCut = true;
  t.match(await cut.next('lost'), { reason: 'the engine does not answer' });
  t.equal(other.link.siblings().length, 2, 'before its siblings take it for gone after 3 s');
  t.match(await other.next('left'), { reason: 'silent', sibling: { name: 'cut' } });
  relay.isCut = false;
  await Promise.all([cut.next('connected'), other.next('joined')]);
});

t.test('an engine that is 100 ms away is slow, not lost', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const relay = await startTcpRelay(t, redis.port);
  const a = openLink(t, 'a', `redis://127.0.0.1:${relay.port}`);
  const b = openLink(t, 'b', redis.url);
  await Promise.all([a.next('joined'), b.next('joined')]);
  relay.lagMs = 50;
  let isLost = false;
  a.link.onChange(({ type }) => (isLost ||= type === 'lost'));
  await t.rejects(a.link.command(['PING'], 20), { name: 'ClusterError', reason: 'timeout' });
  const answered = Array.from({ length: 8 }, () => a.link.command(['PING'], 5000));
  t.same(new Set(await Promise.all(answered)), new Set(['PONG']), 'commands share the delay');
  b.counted.length = 0;
  // Four heartbeats: longer than it takes to give a connection up.
  await until('heartbeats arrive', () => b.counted.filter((each) => each === 'in roll-call ok').length >= 4);
  t.notOk(isLost);
});

t.test('an engine that is full or read-only refuses writes; messages go on', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const [a, b] = [openLink(t, 'a', redis.url), openLink(t, 'b', redis.url)];
  await Promise.all([a.next('joined'), b.next('joined')]);
  const write = (): Promise<unknown> => a.link.command(['SET', a.link.key('x'), '1', 'PX', '1000'], 1000);
  redis.cli('CONFIG', 'SET', 'maxmemory', '1');
  await t.rejects(write(), { name: 'ClusterError', reason: 'refused', code: 'OOM' });
  a.link.publish('keys', Buffer.alloc(32));
  await b.whenCounted('in keys ok');
  redis.cli('CONFIG', 'SET', 'maxmemory', '0');
  redis.cli('REPLICAOF', '127.0.0.1', '1');
  await t.rejects(write(), { name: 'ClusterError', reason: 'refused', code: 'READONLY' });
  t.match(await a.next('lost'), { reason: /read-only/ }, 'its address may lead to another one by now');
  await a.next('connected');
  await t.rejects(write(), { name: 'ClusterError', reason: 'refused', code: 'READONLY' });
  t.ok(a.link.connected, 'it does not');
  a.link.publish('suspensions', Buffer.alloc(1));
  await b.whenCounted('in suspensions ok');
  redis.cli('REPLICAOF', 'NO', 'ONE');
  t.equal(await write(), 'OK');
});

t.test('a gateway follows the address of the primary after a failover that leaves its connection open', async (t) => {
  const [first, second] = [await startRedis(), await startRedis()];
  t.teardown(() => Promise.all([first.stop(), second.stop()]));
  const relay = await startTcpRelay(t, first.port);
  const { link, next } = openLink(t, 'a', `redis://127.0.0.1:${relay.port}`);
  await next('connected');
  const write = (): Promise<unknown> => link.command(['SET', link.key('x'), '1', 'PX', '60000'], 1000);
  t.equal(await write(), 'OK');
  relay.target = second.port;
  first.cli('REPLICAOF', '127.0.0.1', String(second.port));
  await t.rejects(write(), { code: 'READONLY' });
  await next('connected');
  t.equal(await write(), 'OK');
  t.equal(second.cli('GET', link.key('x')), '1');
});

t.test('a user with the rights of the documentation is enough', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  redis.cli('ACL', 'SETUSER', 'headrace', 'on', '>pass', '~{test}:*', '&{test}:*', '+@all', '-@admin', '-@dangerous');
  const url = redis.url.replace('://', '://headrace:pass@');
  const [a, b] = [openLink(t, 'a', url), openLink(t, 'b', url)];
  await Promise.all([a.next('joined'), b.next('joined')]);
  t.equal(await a.link.command(['SET', a.link.key('x'), '1', 'PX', '1000'], 1000), 'OK');
  await t.rejects(a.link.command(['GET', 'other'], 1000), { name: 'ClusterError', reason: 'refused', code: 'NOPERM' });
});

t.test('rediss checks the certificate of the engine', async (t) => {
  setDefaultCACertificates([CERTIFICATE]);
  t.teardown(() => setDefaultCACertificates([]));
  const good = await startRedis({ tls: { certificate: CERTIFICATE, key: KEY } });
  const bad = await startRedis({ tls: { certificate: EXPIRED_CERTIFICATE, key: EXPIRED_KEY } });
  t.teardown(() => Promise.all([good.stop(), bad.stop()]));
  const a = openLink(t, 'a', good.url);
  await a.next('connected');
  t.equal(await a.link.command(['PING'], 1000), 'PONG');
  const b = openLink(t, 'b', bad.url);
  t.match(await b.nextProblem(), /certificate/);
  const plain = openLink(t, 'c', good.url.replace('rediss', 'redis'));
  t.ok(await plain.nextProblem());
  t.equal(plain.link.connected, false);
});

t.test('what strangers write to the channels is counted, and gateways serve on', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t, [{}, {}]);
  const gateways = [0, 1].map(() =>
    createGateway(settingsFor(hosts, { cluster: { url: redis.url, name: 'test' }, store: 'sqlite::memory:' })),
  );
  t.teardown(() => Promise.all(gateways.map((gateway) => gateway.close())));
  await Promise.all(gateways.map((gateway) => gateway.ready()));
  const stranger = openLink(t, 'stranger', redis.url);
  await stranger.next('joined');
  const random = new Random(19);
  const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => random.below(256)));
  const publish = async (message: Buffer): Promise<unknown> => {
    // A link that heard nothing in time, on a busy machine, has to come back first.
    await until('the stranger is connected', () => stranger.link.connected);
    return stranger.link.command(['PUBLISH', stranger.link.key('all'), message], 10_000);
  };
  // A sender whom the gateways know, so that its messages reach their handlers.
  const instance = '00112233445566ff';
  const heartbeat = writeHeartbeat({
    ...{ name: 'known', version: '9', address: null, stage: 'ready', uptimeMs: 1, inFlight: 0, requestsPerS: 0 },
    ...{ ask: false, leaving: false },
  });
  const head = (topic: Topic): Buffer => envelopeHead(instance, topic);
  await publish(Buffer.concat([head('roll-call'), heartbeat]));
  const sent: Promise<unknown>[] = [];
  for (let round = 0; round < 60; round++) {
    for (const topic of TOPICS) sent.push(publish(Buffer.concat([head(topic), bytes(random.below(300))])));
    const whole = Buffer.concat([head('roll-call'), heartbeat]);
    whole[random.below(whole.length)] = random.below(256);
    sent.push(publish(whole), publish(bytes(random.below(64))));
  }
  const future = Buffer.concat([head('placements'), bytes(100)]);
  future[0] = PROTOCOL_VERSION + 1;
  sent.push(publish(future));
  for (const text of [
    '{}',
    '[]',
    'null',
    '{"url":"http://x","entry":"1 {}","nowUs":1}',
    `{"url":${'['.repeat(5000)}`,
  ]) {
    for (const topic of ['acts', 'roll-call'] as const)
      sent.push(publish(Buffer.concat([head(topic), Buffer.from(text)])));
  }
  await Promise.all(sent);
  for (const gateway of gateways) {
    const answer = await gateway.inject({
      method: 'POST',
      path: '/v1/chat/completions',
      headers: { authorization: 'Bearer hr_system', 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'atlas-27b', max_tokens: 2, messages: [{ role: 'user', content: 'hello' }] }),
    });
    t.equal(answer.status, 200);
    const health = (await gateway.inject({ path: '/health' })).json() as { cluster: { gateways: number } };
    t.match(health, { status: 'ok', cluster: { connected: true } });
    t.ok(health.cluster.gateways >= 4, 'the messages came from one that they know');
  }
});
