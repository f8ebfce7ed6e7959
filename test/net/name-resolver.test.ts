// Names that clients choose, resolved by a name server on loopback: both address families, limits of time, and no effect on names
// of configured servers.
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import t from 'tap';
import { createManualClock, systemClock } from '../../src/actor/clock.ts';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import { NameResolver } from '../../src/net/name-resolver.ts';
import { nameServer, setSystemNameServers } from '../support/dns.ts';
import { answer } from '../support/upstream-crn.ts';

t.test('the addresses of both families, IPv4 first', async (t) => {
  const { asked, lookup } = await nameServer(t, (name) => {
    if (name === 'both.test') return ['2606:4700::1111', '93.184.216.34', '93.184.216.35'];
    return name === 'six.test' ? ['2606:4700::1111'] : [];
  });
  t.same(await lookup('both.test'), ['93.184.216.34', '93.184.216.35', '2606:4700::1111']);
  t.same(asked.sort(), ['A both.test', 'AAAA both.test']);
  t.same(await lookup('six.test'), ['2606:4700::1111']);
  await t.rejects(lookup('none.test'), { code: 'ENODATA' });
});

t.test('of a name with many addresses the first eight of each family count', async (t) => {
  const fours = Array.from({ length: 20 }, (_, at) => `93.184.216.${at + 1}`);
  const sixes = Array.from({ length: 10 }, (_, at) => `2606:4700::${at + 1}`);
  const { lookup } = await nameServer(t, () => [...fours, ...sixes]);
  t.same(await lookup('many.test'), [...fours.slice(0, 8), ...sixes.slice(0, 8)]);
});

t.test('search domains and the hosts file do not count', async (t) => {
  const { asked, lookup } = await nameServer(t, () => []);
  await t.rejects(lookup('localhost'), { code: 'ENODATA' });
  await t.rejects(lookup('internal'), { code: 'ENODATA' });
  t.same(asked.sort(), ['A internal', 'A localhost', 'AAAA internal', 'AAAA localhost']);
});

t.test('a name server that is silent about one family delays the other by 100 ms', async (t) => {
  for (const silent of ['A', 'AAAA']) {
    const asked = Promise.withResolvers<void>();
    const { address } = await nameServer(t, (_name, _count, type) => {
      if (type === silent) asked.resolve();
      return type === silent ? null : ['93.184.216.34', '2606:4700::1111'];
    });
    const clock = createManualClock();
    const resolver = new NameResolver({ clock, servers: [address] });
    t.teardown(() => resolver.close());
    const resolved = resolver.resolve('a.test');
    await asked.promise;
    while (clock.nextDueMs !== 100) await new Promise(setImmediate);
    clock.advance(100);
    t.same(await resolved, silent === 'A' ? ['2606:4700::1111'] : ['93.184.216.34']);
  }
});

t.test('a silent name server fails a lookup after 5 s', async (t) => {
  const { address } = await nameServer(t, () => null);
  const clock = createManualClock();
  const resolver = new NameResolver({ clock, servers: [address] });
  t.teardown(() => resolver.close());
  const failed = t.rejects(resolver.resolve('a.test'), { code: 'ETIMEOUT' });
  t.equal(clock.nextDueMs, 5000);
  clock.advance(5000);
  await failed;
});

t.test('hundreds of slow names of clients do not delay the name of a configured server', async (t) => {
  let queries = 0;
  const asked = Promise.withResolvers<void>();
  const { address } = await nameServer(t, () => {
    if (++queries === 400) asked.resolve();
    return null;
  });
  const resolver = new NameResolver({ clock: createManualClock(), servers: [address] });
  let ended = 0;
  const slow = Array.from({ length: 200 }, (_, at) => resolver.resolve(`slow${at}.test`).catch(() => ended++));
  await asked.promise;
  const server = createServer((socket) => {
    socket.on('error', () => undefined).on('data', () => socket.end(answer('200 OK', 'ok')));
  }).listen(0, 'localhost');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const client = new BufferedClient(1);
  t.teardown(() => client.close());
  const { port } = server.address() as AddressInfo;
  const startedMs = systemClock.now();
  t.equal((await client.get(`http://localhost:${port}/`, 10_000, 100)).body.toString(), 'ok');
  t.equal(ended, 0, `all slow lookups are in progress after ${systemClock.now() - startedMs} ms`);
  resolver.close();
  await Promise.all(slow);
  t.equal(ended, 200);
});

t.test('a lookup that nobody waits for, or that is late, asks no further question', async (t) => {
  const asked: string[] = [];
  const { address } = await nameServer(t, (name) => {
    asked.push(name);
    return name === 'good.test' ? ['93.184.216.34'] : null;
  });
  const clock = createManualClock();
  const resolver = new NameResolver({ clock, servers: [address] });
  t.teardown(() => resolver.close());
  const left = new AbortController();
  const lookups = Array.from({ length: 50 }, (_, at) => resolver.resolve(`slow${at}.test`, left.signal));
  while (asked.length < 100) await new Promise(setImmediate);
  t.equal(resolver.size, 50);
  left.abort(new Error('left'));
  const ends = await Promise.allSettled(lookups);
  t.ok(ends.every((end) => end.status === 'rejected' && end.reason.code === 'ECANCELLED'));
  t.equal(resolver.size, 0);
  await t.rejects(resolver.resolve('slow.test', left.signal), { code: 'ECANCELLED' });
  const late = t.rejects(resolver.resolve('late.test'), { code: 'ETIMEOUT' });
  clock.advance(5000);
  await late;
  t.same([resolver.size, clock.nextDueMs], [0, Infinity]);
  t.same(await resolver.resolve('good.test'), ['93.184.216.34'], 'and its channel serves others');
});

t.test('name servers of the system that are replaced are asked within a minute', async (t) => {
  const servers = [await nameServer(t, () => ['93.184.216.1']), await nameServer(t, () => ['93.184.216.2'])] as const;
  let { address } = servers[0];
  setSystemNameServers(t, () => [address]);
  const clock = createManualClock();
  const resolver = new NameResolver({ clock });
  t.teardown(() => resolver.close());
  t.same(await resolver.resolve('a.test'), ['93.184.216.1']);
  ({ address } = servers[1]);
  t.same(await resolver.resolve('a.test'), ['93.184.216.1'], 'by the same channel');
  clock.advance(60_000);
  t.same(await resolver.resolve('a.test'), ['93.184.216.2']);
});
