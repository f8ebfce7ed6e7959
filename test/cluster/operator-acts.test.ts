// Drains, ejections and returns through any gateway hold for all of them, over a real Redis or Valkey.

import t, { type Test } from 'tap';
import { type Clock, systemClock, systemEpochMs } from '../../src/actor/index.ts';
import { type ClusterLink, OperatorActs } from '../../src/cluster/index.ts';
import type { Host } from '../../src/host/index.ts';
import { createFakeCluster } from '../support/cluster-link.ts';
import { type Member, startMember, TOKEN } from '../support/cluster-member.ts';
import { openLink } from '../support/real-link.ts';
import { startRedis } from '../support/redis.ts';
import { startHosts, until } from '../support/system.ts';

async function act({ adminUrl }: Member, action: string, body: object): Promise<{ status: number; answer: unknown }> {
  const response = await fetch(`${adminUrl}/crns/${action}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, answer: await response.json() };
}

const standingOf = ({ gateway }: Member, host: Host | undefined): string | undefined =>
  gateway.crns().find(({ url }) => url === host?.url)?.standing;

const together = (members: readonly Member[]): Promise<void> =>
  until('all know each other', async () => {
    const counts = await Promise.all(
      members.map(async ({ gateway }) => {
        const health = (await gateway.inject({ path: '/health' })).json() as { cluster?: { gateways: number } };
        return health.cluster?.gateways;
      }),
    );
    return counts.every((count) => count === members.length);
  });

t.test('what an operator does through one gateway holds for all, and for those that start later', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t, [{}, {}]);
  const [url, other] = hosts.map((host) => host.url);
  const members = [await startMember(t, hosts, redis), await startMember(t, hosts, redis)];
  const [a, b] = members as [Member, Member];
  await together(members);
  t.same(await act(a, 'drain', { url }), {
    status: 200,
    answer: { crn: url, action: 'drain', cluster: { told: true, gateways: 2 } },
  });
  await until('it is drained everywhere', () => members.every((each) => standingOf(each, hosts[0]) === 'drained'));
  const late = await startMember(t, hosts, redis);
  t.equal(standingOf(late, hosts[0]), 'drained', 'as soon as it is ready');
  t.equal((await act(b, 'return', { url })).status, 200);
  const all = [...members, late];
  await until('it is back everywhere', () => all.every((each) => standingOf(each, hosts[0]) === 'up'));
  t.equal((await act(late, 'eject', { url: other, for: '1h' })).status, 200);
  await until('it is ejected everywhere', () => all.every((each) => standingOf(each, hosts[1]) !== 'up'));
  t.equal((await act(a, 'drain', { url: 'http://nowhere' })).status, 404);
});

t.test('an act while the engine is away holds here, and is told when it is back; the last one wins', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const hosts = await startHosts(t, [{}, {}]);
  const members = [await startMember(t, hosts, redis), await startMember(t, hosts, redis)];
  const [a, b] = members as [Member, Member];
  const [url, other] = hosts.map((host) => host.url);
  await together(members);
  t.equal((await act(b, 'drain', { url: other })).status, 200);
  await until('it is drained everywhere', () => members.every((each) => standingOf(each, hosts[1]) === 'drained'));
  await redis.stop();
  await until('the engine is lost', async () => {
    const healths = await Promise.all(
      members.map(async ({ gateway }) => (await gateway.inject({ path: '/health' })).json()),
    );
    return healths.every((health) => (health as { cluster?: { connected: boolean } }).cluster?.connected === false);
  });
  t.match(await act(a, 'drain', { url }), { status: 200, answer: { cluster: { told: false } } });
  t.equal(standingOf(b, hosts[0]), 'up', 'the other one cannot know');
  t.equal((await act(a, 'return', { url: other })).status, 200);
  await redis.start();
  await until('both acts are told', () => standingOf(b, hosts[0]) === 'drained' && standingOf(b, hosts[1]) === 'up');
  t.equal(standingOf(a, hosts[0]), 'drained');
  t.equal(standingOf(a, hosts[1]), 'up', 'an older act of a sibling does not come back');
});

t.test('a gateway that starts while the engine is away serves, without the acts of others', async (t) => {
  const redis = await startRedis();
  await redis.stop();
  const hosts = await startHosts(t);
  const alone = await startMember(t, hosts, redis);
  t.equal(standingOf(alone, hosts[0]), 'up');
  t.match(await act(alone, 'drain', { url: hosts[0]?.url }), { status: 200, answer: { cluster: { told: false } } });
  t.equal(standingOf(alone, hosts[0]), 'drained');
});

/** The acts of a gateway on a link, and what it has carried out. */
function actsOf(
  t: Test,
  link: ClusterLink,
  clock: Clock = systemClock,
): { readonly acts: OperatorActs; readonly applied: readonly string[] } {
  const applied: string[] = [];
  const acts = new OperatorActs({
    link,
    clock,
    log: { info: () => undefined, warn: () => undefined },
    apply: async (url, { action }) => {
      applied.push(`${action} ${url}`);
      return 'done';
    },
  });
  t.teardown(() => acts.close());
  return { acts, applied };
}

t.test('an act that is dated in the future of the engine is ignored, in messages and in the hash', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const [own, forger] = [openLink(t, 'own', redis.url), openLink(t, 'forger', redis.url)];
  const { acts, applied } = actsOf(t, own.link);
  const urls = ['http://a', 'http://b'];
  acts.crnsChanged(new Set(urls));
  const later = `${(systemEpochMs() + 3_600_000) * 1000} {"action":"drain","forMs":null,"by":"forger"}`;
  redis.cli('HSET', own.link.key('acts'), 'http://b', later);
  await Promise.all([own.next('joined'), forger.next('joined'), acts.settled]);
  const tell = (url: string, entry: string): boolean =>
    forger.link.publish('acts', Buffer.from(JSON.stringify({ url, entry })));
  tell('http://a', later);
  await own.whenCounted('in acts invalid');
  const now = `${systemEpochMs() * 1000} {"action":"drain","forMs":null,"by":"operator"}`;
  for (const url of urls) tell(url, now);
  await until('both are taken', () => applied.length === 2);
  t.same(applied, ['drain http://a', 'drain http://b']);
  t.equal(redis.cli('HGET', own.link.key('acts'), 'http://b'), '', 'the forged one was removed');
});

t.test('acts are read again when a sibling joins, whose first messages may have been dropped', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const own = openLink(t, 'own', redis.url);
  const applied = Promise.withResolvers<string>();
  const acts = new OperatorActs({
    link: own.link,
    // Without the reading every 30 s.
    clock: { ...systemClock, setTimeout: () => ({}), clearTimeout: () => undefined },
    log: { info: () => undefined, warn: () => undefined },
    apply: async (url, { action }) => {
      applied.resolve(`${action} ${url}`);
      return 'done';
    },
  });
  t.teardown(() => acts.close());
  acts.crnsChanged(new Set(['http://a']));
  await acts.settled;
  const entry = `${systemEpochMs() * 1000} {"action":"drain","forMs":null,"by":"operator"}`;
  redis.cli('HSET', own.link.key('acts'), 'http://a', entry);
  openLink(t, 'sibling', redis.url);
  t.equal(await applied.promise, 'drain http://a');
});

t.test('of an act that the engine has not dated and one of a sibling the engine says which is later', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.stop());
  const [own, sibling] = [openLink(t, 'own', redis.url), openLink(t, 'sibling', redis.url)];
  const writing = Promise.withResolvers<void>();
  // The time of the engine is seen late, as on a busy machine; the act is told when the test says so.
  const { link } = own;
  const script = link.script.bind(link);
  link.script = async (...ask) => {
    const isRead = ask[2].length === 1;
    if (!isRead) await writing.promise;
    const [nowUs, ...answer] = (await script(...ask)) as [number];
    return [isRead ? nowUs - 1_500_000 : nowUs, ...answer];
  };
  const { acts, applied } = actsOf(t, link);
  acts.crnsChanged(new Set(['http://a']));
  await Promise.all([own.next('joined'), sibling.next('joined'), acts.settled]);
  const told = acts.act('http://a', { action: 'return' }, 'operator');
  const entry = `${(systemEpochMs() - 500) * 1000} {"action":"drain","forMs":null,"by":"sibling"}`;
  sibling.link.publish('acts', Buffer.from(JSON.stringify({ url: 'http://a', entry })));
  await own.whenCounted('in acts ok');
  writing.resolve();
  t.same(await told, { result: 'done', told: true });
  t.same(applied, ['return http://a'], 'an older act of a sibling does not come back');
});

t.test('a return that is a day old leaves the engine, however many gateways know it', async (t) => {
  const dayUs = 86_400_000_000;
  const hash = new Map<string, string>();
  // As the scripts do, which have one argument, six, or pairs of a URL and what it had.
  const evaluate = (...argv: string[]): unknown => {
    const nowUs = 2 * dayUs + clock.now() * 1000;
    const [url = '', record = '', stamp = ''] = argv;
    if (argv.length === 1) return [nowUs, [...hash].flat().map((each) => Buffer.from(each))];
    if (argv.length < 6) return Number(hash.delete(url));
    hash.set(url, `${stamp} ${record}`);
    return [nowUs, Buffer.from(`${stamp} ${record}`)];
  };
  const cluster = createFakeCluster({ answer: ([, , , , ...argv]) => evaluate(...argv.map(String)) });
  const { clock } = cluster;
  hash.set('http://a', `${dayUs + 60_000_000} {"action":"return","forMs":null,"by":"operator"}`);
  const slower: Clock = { ...clock, now: () => clock.now(), setTimeout: (act, ms) => clock.setTimeout(act, ms + 5) };
  actsOf(t, cluster.link(), clock);
  actsOf(t, cluster.link(), slower);
  await cluster.advance(130_000);
  t.equal(hash.size, 0, 'the second one does not tell what the first one has removed');
});
