// The link to the engine and to siblings, over a simulated engine: order, bounds, lag, loss and cuts.

import t from 'tap';
import { type ClusterEvent, type ClusterService, MAX_BODY_BYTES, MAX_GATEWAYS } from '../../src/cluster/index.ts';
import { envelopeHead, PROTOCOL_VERSION } from '../../src/cluster/envelope.ts';
import { GONE_MS } from '../../src/cluster/roll-call.ts';
import { createFakeCluster } from '../support/cluster-link.ts';

function eventsOf(link: ClusterService): string[] {
  const events: string[] = [];
  link.onChange((event: ClusterEvent) => {
    const detail = 'sibling' in event ? ` ${event.sibling.name}` : '';
    events.push(`${event.type}${detail}${event.type === 'left' ? ` ${event.reason}` : ''}`);
  });
  return events;
}

t.test('siblings find each other at once, and messages carry their sender', async (t) => {
  const cluster = createFakeCluster();
  cluster.lagMs = 100;
  const [a, b] = [cluster.link('a'), cluster.link('b')];
  const events = eventsOf(a);
  await cluster.advance(400);
  t.same(events, ['connected', 'joined b']);
  t.same(
    a.siblings().map(({ index, name, self }) => ({ index, name, self })),
    [
      { index: 0, name: 'a', self: true },
      { index: 1, name: 'b', self: false },
    ],
  );
  const taken: unknown[] = [];
  b.on('placements', (body, from) => taken.push([String(body), from.name, from.index]));
  a.on('placements', (body) => taken.push(['own', String(body)]));
  for (const text of ['1', '2', '3']) t.ok(a.publish('placements', Buffer.from(text)));
  await cluster.advance(200);
  t.same(taken, [
    ['1', 'a', 1],
    ['2', 'a', 1],
    ['3', 'a', 1],
  ]);
});

t.test('a sibling that is silent is gone, and its row is used again', async (t) => {
  const cluster = createFakeCluster();
  const [a, b] = [cluster.link('a'), cluster.link('b')];
  await cluster.advance(60);
  const events = eventsOf(a);
  cluster.cut(b);
  b.publish('keys', Buffer.alloc(32));
  t.same(b.queue, { commands: 1, bytes: 32 });
  await cluster.advance(GONE_MS - 501);
  t.equal(a.siblings().length, 2);
  t.ok((a.sibling(b.instance)?.ageMs ?? 0) > 2000);
  await cluster.advance(1001);
  t.same(events, ['left b silent']);
  t.equal(b.connected, false, 'the one whose packets are dropped knows it');
  t.same(b.queue, { commands: 0, bytes: 0 }, 'and waits for no answers any more');
  cluster.cut(b, false);
  await cluster.advance(6000);
  t.same(events, ['left b silent', 'joined b']);
  t.equal(a.sibling(b.instance)?.index, 1);
});

t.test(
  'a heartbeat goes along with a message that is sent shortly before it, and the next one comes in time',
  async (t) => {
    const cluster = createFakeCluster();
    const [a, b] = [cluster.link('a'), cluster.link('b')];
    await cluster.advance(60);
    const beats = async (ms: number): Promise<number> => {
      b.counted.length = 0;
      await cluster.advance(ms);
      return b.counted.filter((each) => each === 'in roll-call ok').length;
    };
    await beats(1000 - (cluster.clock.now() % 500));
    await beats(300);
    a.publish('keys', Buffer.of(1));
    t.equal(await beats(1), 0, 'more than 150 ms before it is due');
    await beats(99);
    a.publish('keys', Buffer.of(1));
    t.equal(await beats(1), 1, 'within 150 ms');
    a.publish('keys', Buffer.of(1));
    t.equal(await beats(498), 0, 'once');
    t.equal(await beats(2), 1);
    await Promise.all([a.close(), b.close(), cluster.advance(300)]);
  },
);

t.test('a gateway that ends says so', async (t) => {
  const cluster = createFakeCluster();
  const [a, b] = [cluster.link('a'), cluster.link('b')];
  await cluster.advance(60);
  const events = eventsOf(a);
  const closed = b.close();
  await cluster.advance(60);
  await closed;
  t.same(events, ['left b leaving']);
});

t.test('another name is another cluster', async (t) => {
  const cluster = createFakeCluster();
  const [a, b] = [cluster.link('a'), cluster.link('b')];
  await cluster.advance(60);
  const [seenByA, seenByB] = [eventsOf(a), eventsOf(b)];
  b.configure({ url: 'redis://engine.test', name: 'other' });
  await cluster.advance(60);
  t.same(seenByA, ['left b leaving']);
  t.same(seenByB, ['lost', 'left a leaving', 'enabled', 'connected']);
  b.configure({ url: null, name: 'other' });
  await cluster.advance(10_000);
  t.same(seenByB.slice(4), ['lost', 'disabled']);
  t.equal(b.enabled, false);
});

t.test('messages that are too large, too many or of no use are counted and dropped', async (t) => {
  const cluster = createFakeCluster();
  const [a, b] = [cluster.link('a'), cluster.link('b')];
  t.equal(a.publish('keys', Buffer.alloc(1)), false);
  await cluster.advance(60);
  t.equal(a.publish('keys', Buffer.alloc(MAX_BODY_BYTES + 1)), false);
  for (let sent = 0; sent < 32; sent++) t.equal(a.publish('keys', Buffer.alloc(MAX_BODY_BYTES)), true);
  t.equal(a.publish('keys', Buffer.alloc(MAX_BODY_BYTES)), false);
  t.same(
    a.counted.filter((each) => each.includes('keys') && !each.endsWith('ok')),
    ['out keys away', 'out keys too_large', 'out keys full'],
  );
  await cluster.advance(60);
  t.equal(a.publish('keys', Buffer.alloc(MAX_BODY_BYTES)), true, 'again once the engine has answered');

  b.on('acts', () => {
    throw new Error('malformed');
  });
  a.publish('acts', Buffer.from('x'));
  const head = envelopeHead('00000000000000ff', 'keys');
  const future = Buffer.concat([head, Buffer.from('body')]);
  future[0] = PROTOCOL_VERSION + 1;
  b.counted.length = 0;
  await cluster.advance(60);
  cluster.inject('all', Buffer.concat([head, Buffer.from('body')]));
  cluster.inject('all', future);
  cluster.inject('all', Buffer.concat([head.subarray(0, 9), Buffer.of(255), Buffer.from('body')]));
  cluster.inject('all', Buffer.alloc(0));
  cluster.inject('all', head.subarray(0, 9));
  cluster.inject('all', Buffer.concat([head, Buffer.alloc(MAX_BODY_BYTES + 1)]));
  cluster.inject('all', Buffer.concat([envelopeHead('00000000000000ff', 'roll-call'), Buffer.from('{}')]));
  await cluster.advance(60);
  t.same(b.counted, [
    'in keys ok',
    'in acts invalid',
    'in keys stranger',
    'in other version',
    'in other topic',
    'in other invalid',
    'in other invalid',
    'in other too_large',
    'in roll-call invalid',
  ]);
  t.match(b.badMessages[0], { message: 'malformed' });
});

t.test('what a later version says is understood as far as it can be, and harms nothing', async (t) => {
  const cluster = createFakeCluster();
  const [a, b] = [cluster.link('a'), cluster.link('b')];
  await cluster.advance(60);
  const heard: string[] = [];
  b.on('keys', (body) => void heard.push(body.toString()));
  const later = '00000000000000ee';
  const beat = { name: 'later', version: '9.0.0', address: null, stage: 'ready', uptimeMs: 1, inFlight: 0 };
  const body = { ...beat, requestsPerS: 0, ask: false, leaving: false, zone: 'north', peers: [1, 2] };
  const say = (topic: 'roll-call' | 'keys', text: string): void =>
    cluster.inject('all', Buffer.concat([envelopeHead(later, topic), Buffer.from(text)]));
  say('roll-call', JSON.stringify(body));
  await cluster.advance(1);
  t.match(b.sibling(later), { name: 'later', version: '9.0.0' }, 'fields that it does not know are passed over');
  b.counted.length = 0;
  say('keys', 'one');
  const head = envelopeHead(later, 'keys').subarray(0, 9);
  cluster.inject('all', Buffer.concat([head, Buffer.of(200), Buffer.from('?')]));
  const protocol = Buffer.concat([envelopeHead(later, 'keys'), Buffer.from('two')]);
  protocol[0] = PROTOCOL_VERSION + 1;
  cluster.inject('all', protocol);
  say('keys', 'three');
  await cluster.advance(1);
  t.same(heard, ['one', 'three']);
  t.same(b.counted, ['in keys ok', 'in other topic', 'in other version', 'in keys ok']);
  t.equal(b.badMessages.length, 0);
  t.match(b.sibling(a.instance), { name: 'a' });
});

t.test('gateways beyond the rows of local tables are counted and ignored', async (t) => {
  const cluster = createFakeCluster();
  const a = cluster.link('a');
  for (let index = 1; index < MAX_GATEWAYS; index++) cluster.link();
  await cluster.advance(60);
  const late = cluster.link('late');
  await cluster.advance(60);
  t.equal(a.siblings().length, MAX_GATEWAYS);
  t.equal(a.sibling(late.instance), undefined);
  t.ok(a.counted.includes('in roll-call crowded'));
});
