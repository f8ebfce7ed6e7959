// The link over a real Redis or Valkey: commands and messages on one connection, scripts, losses and refusals.

import t from 'tap';
import { ClusterError, defineScript } from '../../src/cluster/index.ts';
import { openLink } from '../support/real-link.ts';
import { startRedis } from '../support/redis.ts';

t.test('commands and messages share one RESP3 connection', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const a = openLink(t, 'a', redis.url);
  await a.next('connected');
  const b = openLink(t, 'b', redis.url);
  await Promise.all([a.next('joined'), b.next('joined')]);
  t.match(a.link.siblings()[1], { name: 'b', version: '1.2.3', inFlight: 3, requestsPerS: 1.5, stage: 'ready' });

  const clients = redis.cli('CLIENT', 'LIST', 'TYPE', 'pubsub').split('\n');
  t.equal(clients.length, 2, 'one connection for each gateway');
  t.match(clients[0], /resp=3/);
  t.match(redis.cli('CLIENT', 'LIST', 'TYPE', 'normal'), /cmd=client/, 'besides that of redis-cli');

  const received = new Promise((resolve) => {
    b.link.on('placements', (body, from) => resolve([body, from.name]));
  });
  const bytes = Buffer.from([0, 255, 13, 10, 128]);
  t.ok(a.link.publish('placements', bytes));
  t.same(await received, [bytes, 'a']);

  const key = a.link.key('page', 'x');
  t.equal(key, '{test}:page:x');
  t.equal(await a.link.command(['SET', key, bytes, 'PX', '60000'], 1000), 'OK');
  t.same(await b.link.command(['GET', key], 1000), bytes);
  t.equal(await b.link.command(['GET', a.link.key('none')], 1000), null);
  t.equal(await b.link.command(['INCR', a.link.key('n')], 1000), 1);
  await a.link.command(['HSET', a.link.key('h'), 'one', '1'], 1000);
  t.same(await b.link.command(['HGETALL', a.link.key('h')], 1000), [Buffer.from('one'), Buffer.from('1')]);
});

t.test('a script is sent to an engine that does not have it', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const { link, next } = openLink(t, 'a', redis.url);
  await next('connected');
  const script = defineScript("return {KEYS[1], ARGV[1], redis.call('TIME')[1] ~= nil and 1 or 0}");
  const run = (): Promise<unknown> => link.script(script, ['k'], ['v'], 1000);
  t.same(await run(), [Buffer.from('k'), Buffer.from('v'), 1]);
  redis.cli('SCRIPT', 'FLUSH');
  t.same(await run(), [Buffer.from('k'), Buffer.from('v'), 1]);
  await t.rejects(link.script(defineScript('return redis.call("GET")'), [], [], 1000), {
    name: 'ClusterError',
    reason: 'refused',
    code: 'ERR',
  });
});

t.test('commands fail at once while the engine is away, and work again after it returns', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const a = openLink(t, 'a', redis.url);
  t.match(await a.next('connected'), { awayMs: Infinity });
  const b = openLink(t, 'b', redis.url);
  await a.next('joined');
  await redis.stop();
  await Promise.all([a.next('lost'), b.next('lost')]);
  t.equal(a.link.connected, false);
  t.equal(a.link.publish('keys', Buffer.of(1)), false);
  await t.rejects(a.link.command(['PING'], 1000), new ClusterError('away', 'the engine is away'));
  await redis.start();
  const [again] = await Promise.all([a.next('connected'), b.next('connected')]);
  t.ok(again.type === 'connected' && again.awayMs > 0 && again.awayMs < Infinity);
  t.equal(await a.link.command(['PING'], 1000), 'PONG');
});

t.test('an engine that stops answering is noticed, also when its connections stay open', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const { link, next, nextProblem } = openLink(t, 'a', redis.url);
  await next('connected');
  redis.pause();
  const waiting = t.rejects(link.command(['PING'], 60_000), { name: 'ClusterError', reason: 'away' });
  t.match(await next('lost'), { reason: 'the engine does not answer' });
  await waiting;
  t.equal(await nextProblem(), 'no answer in time');
  redis.resume();
  await next('connected');
});

t.test('an engine that is full carries messages, and refuses what would be kept', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const a = openLink(t, 'a', redis.url);
  await a.next('connected');
  const b = openLink(t, 'b', redis.url);
  await Promise.all([a.next('joined'), b.next('joined')]);
  await a.link.command(['SET', a.link.key('kept'), 'x'], 1000);
  redis.cli('CONFIG', 'SET', 'maxmemory', '1');
  await t.rejects(a.link.command(['SET', a.link.key('more'), 'x'], 1000), { reason: 'refused', code: 'OOM' });
  t.same(await a.link.command(['GET', a.link.key('kept')], 1000), Buffer.from('x'));
  const received = new Promise((resolve) => b.link.on('placements', (body) => resolve(body)));
  t.ok(a.link.publish('placements', Buffer.from('y')));
  t.same(await received, Buffer.from('y'));
  redis.cli('CONFIG', 'SET', 'maxmemory', '0');
  t.equal(await a.link.command(['SET', a.link.key('more'), 'x'], 1000), 'OK');
});

t.test('a wrong password is named, and the link goes on trying', async (t) => {
  const redis = await startRedis({ args: ['--requirepass', 'right'] });
  t.teardown(() => redis.stop());
  const wrong = redis.url.replace('://', '://:wr%6Fng-secret@');
  const { link, next, nextProblem } = openLink(t, 'a', wrong);
  t.match(await nextProblem(), /^wrong user or password in cluster\.url/);
  t.match(await nextProblem(), /^wrong user or password in cluster\.url/);
  t.equal(link.connected, false);
  link.configure({ url: redis.url, name: 'test' });
  t.match(await nextProblem(), /the engine asks for a password/);
  link.configure({ url: redis.url.replace('://', '://:r%69ght@'), name: 'test' });
  await next('connected');
});
