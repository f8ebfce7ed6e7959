// The source that asks DNS, over a real name server.
import { Resolver } from 'node:dns/promises';
import t, { type Test } from 'tap';
import { type DnsSourceSettings, dnsSource } from '../../src/discovery/dns-source.ts';
import { SourceRun } from '../support/discovery-source.ts';
import { setSystemNameServers, zoneServer, type ZoneServer } from '../support/dns.ts';

const NAME = 'vllm.example';

async function start(
  t: Test,
  settings: Partial<DnsSourceSettings> = {},
  fill: (zone: ZoneServer['zone']) => void = () => undefined,
): Promise<{ run: SourceRun; server: ZoneServer }> {
  const server = await zoneServer(t);
  fill(server.zone);
  const all: DnsSourceSettings = {
    ...{ kind: 'dns', name: NAME, model: 'm', port: 8000, records: 'auto', family: 'all', scheme: 'http' },
    ...{ intervalMs: 30_000, nameServers: [server.address] },
    ...settings,
  };
  const run = new SourceRun(t, (system, deps) => void system.spawn(dnsSource(all, deps)));
  return { run, server };
}

t.test('every A and AAAA record is a server, in an order that does not change', async (t) => {
  const { run, server } = await start(t, { dialects: ['chat'], aliases: ['gpt-5'], weight: 2, apiKey: 'key' }, (zone) =>
    zone.set(NAME, [
      { type: 'A', data: '10.0.0.2', ttl: 60 },
      { type: 'A', data: '10.0.0.1', ttl: 20 },
      { type: 'AAAA', data: 'fd00::1', ttl: 40 },
    ]),
  );
  const urls = ['m http://10.0.0.1:8000', 'm http://10.0.0.2:8000', 'm http://[fd00::1]:8000'];
  t.same(await run.next(), urls);
  t.same(run.models.get('m')?.aliases, ['gpt-5']);
  t.same(run.servers('m')[0], { url: 'http://10.0.0.1:8000', dialects: ['chat'], apiKey: 'key', weight: 2 });
  t.equal(await run.turn(), 20_000, 'asked again when the first TTL ends');
  t.same(await run.next(), urls);
  t.same(server.asked.toSorted(), [`A ${NAME}`, `A ${NAME}`, `AAAA ${NAME}`, `AAAA ${NAME}`]);
});

t.test('TTLs are bounded', async (t) => {
  const { run, server } = await start(t, {}, (zone) => zone.set(NAME, [{ type: 'A', data: '10.0.0.1', ttl: 0 }]));
  await run.next();
  server.zone.set(NAME, [{ type: 'A', data: '10.0.0.1', ttl: 86_400 }]);
  t.equal(await run.turn(), 1000, 'at least a second');
  await run.next();
  t.equal(await run.turn(), 300_000, 'at most five minutes');
  await run.next();
});

t.test('one family can be chosen', async (t) => {
  const fill = (zone: ZoneServer['zone']): unknown =>
    zone.set(NAME, [
      { type: 'A', data: '10.0.0.1' },
      { type: 'AAAA', data: 'fd00::1' },
    ]);
  for (const [family, urls] of [
    ['ipv4', ['m http://10.0.0.1:8000']],
    ['ipv6', ['m http://[fd00::1]:8000']],
  ] as const) {
    const { run, server } = await start(t, { family }, fill);
    t.same(await run.next(), urls);
    t.same(server.asked, [`${family === 'ipv4' ? 'A' : 'AAAA'} ${NAME}`]);
  }
});

t.test('addresses that come and go', async (t) => {
  const { run, server } = await start(t, {}, (zone) => zone.set(NAME, [{ type: 'A', data: '10.0.0.1', ttl: 5 }]));
  t.same(await run.next(), ['m http://10.0.0.1:8000']);
  server.zone.set(NAME, [{ type: 'A', data: '10.0.0.2', ttl: 5 }]);
  await run.turn();
  t.same(await run.next(), ['m http://10.0.0.2:8000'], 'all replaced at once');
});

t.test('a name server that fails keeps what was found, with a growing wait', async (t) => {
  const { run, server } = await start(t, {}, (zone) =>
    zone.set(NAME, [
      { type: 'A', data: '10.0.0.1', ttl: 5 },
      { type: 'AAAA', data: 'fd00::1', ttl: 5 },
    ]),
  );
  const both = ['m http://10.0.0.1:8000', 'm http://[fd00::1]:8000'];
  t.same(await run.next(), both);
  server.zone.set(NAME, 'SERVFAIL');
  const waits: number[] = [];
  for (let round = 0; round < 3; round++) {
    waits.push(await run.turn());
    t.same(await run.next(), both, 'the last addresses');
    t.match(await run.next(), /^vllm\.example: the name server failed \(SERVFAIL\)/);
  }
  t.equal(waits[0], 5000);
  t.ok((waits[1] ?? 0) <= 500 && (waits[2] ?? 0) <= 1000, String(waits));
  // One family only.
  server.zone.set(`A ${NAME}`, [{ type: 'A', data: '10.0.0.9', ttl: 5 }]);
  await run.turn();
  t.same(await run.next(), ['m http://10.0.0.9:8000', 'm http://[fd00::1]:8000']);
  t.match(await run.next(), /SERVFAIL/);
  server.zone.delete(`A ${NAME}`);
  server.zone.set(NAME, [{ type: 'A', data: '10.0.0.9', ttl: 5 }]);
  await run.turn();
  t.same(await run.next(), ['m http://10.0.0.9:8000'], 'an answer without records of a family is one');
  t.equal(await run.turn(), 5000, 'the wait begins anew');
});

t.test('while one family fails the other one is asked for when its TTL ends', async (t) => {
  const { run, server } = await start(t, {}, (zone) => {
    zone.set(`A ${NAME}`, [{ type: 'A', data: '10.0.0.1', ttl: 5 }]);
    zone.set(`AAAA ${NAME}`, 'SERVFAIL');
  });
  const waits: number[] = [];
  for (let round = 0; round < 9; round++) {
    t.same(await run.next(), ['m http://10.0.0.1:8000']);
    t.match(await run.next(), /SERVFAIL/);
    waits.push(await run.turn());
  }
  t.ok(waits.every((ms) => ms <= 5000) && waits.at(-1) === 5000, String(waits));
  server.zone.set(NAME, 'SERVFAIL');
  server.zone.delete(`A ${NAME}`);
  t.same(await run.next(), ['m http://10.0.0.1:8000']);
  t.match(await run.next(), /SERVFAIL/);
  await run.turn();
  t.same(await run.next(), ['m http://10.0.0.1:8000']);
  t.match(await run.next(), /SERVFAIL/);
  t.ok((await run.turn()) > 5000, 'and less and less when both fail');
});

t.test('name servers of the system that are replaced are asked', async (t) => {
  const servers = [await zoneServer(t), await zoneServer(t)] as const;
  servers[0].zone.set(NAME, 'SERVFAIL');
  servers[1].zone.set(NAME, [{ type: 'A', data: '10.0.0.1' }]);
  let { address } = servers[0];
  setSystemNameServers(t, () => [address]);
  const { run } = await start(t, { nameServers: [] });
  t.match(await run.next(), /SERVFAIL/);
  ({ address } = servers[1]);
  await run.turn();
  t.same(await run.next(), ['m http://10.0.0.1:8000']);
});

t.test('a name that fails from the start is a failure', async (t) => {
  const { run } = await start(t, {}, (zone) => zone.set(NAME, 'SERVFAIL'));
  t.match(await run.next(), /SERVFAIL/);
  t.equal(run.models.size, 0);
});

t.test('a name without records keeps its last servers for half a minute', async (t) => {
  for (const gone of ['NXDOMAIN', []] as const) {
    const { run, server } = await start(t, {}, (zone) => zone.set(NAME, [{ type: 'A', data: '10.0.0.1', ttl: 1 }]));
    t.same(await run.next(), ['m http://10.0.0.1:8000']);
    server.zone.set(NAME, gone);
    await run.turn();
    t.match(await run.next(), /has no records; its last servers stay for 30 s/);
    for (let ms = 5000; ms < 30_000; ms += 5000) {
      t.equal(await run.turn(), 5000);
      t.match(await run.next(), /has no records/);
      t.same(run.urls, ['m http://10.0.0.1:8000']);
    }
    await run.turn();
    t.same(await run.next(), [], 'given up');
    t.same(run.notes, ['vllm.example has no records']);
    server.zone.set(NAME, [{ type: 'A', data: '10.0.0.2' }]);
    await run.turn();
    t.same(await run.next(), ['m http://10.0.0.2:8000'], 'back');
  }
});

t.test('the time in which name servers fail is none without records', async (t) => {
  const { run, server } = await start(t, {}, (zone) => zone.set(NAME, [{ type: 'A', data: '10.0.0.1', ttl: 1 }]));
  t.same(await run.next(), ['m http://10.0.0.1:8000']);
  server.zone.set(NAME, 'NXDOMAIN');
  await run.turn();
  t.match(await run.next(), /has no records/);
  server.zone.set(NAME, 'SERVFAIL');
  for (let passedMs = 0; passedMs < 60_000;) {
    passedMs += await run.turn();
    t.match(await run.next(), /SERVFAIL/);
  }
  server.zone.set(NAME, 'NXDOMAIN');
  await run.turn();
  t.match(await run.next(), /has no records; its last servers stay/);
  t.same(run.urls, ['m http://10.0.0.1:8000']);
});

t.test('a name without records at the start has no servers', async (t) => {
  const { run } = await start(t);
  t.same(await run.next(), []);
  t.same(run.notes, ['vllm.example has no records']);
});

const SRV = '_http._tcp.vllm.example';

t.test('SRV records give ports and weights; lower priorities are for when the others are down', async (t) => {
  const { run } = await start(t, { name: SRV, weight: 2 }, (zone) => {
    zone.set(SRV, [
      { type: 'SRV', data: { target: 'a.example', port: 8001, priority: 0, weight: 30 } },
      { type: 'SRV', data: { target: 'b.example', port: 8002, priority: 0, weight: 10 } },
      { type: 'SRV', data: { target: 'c.example', port: 8003, priority: 10, weight: 100 } },
      { type: 'SRV', data: { target: 'gone.example', port: 8004, priority: 0, weight: 20 } },
    ]);
    zone.set('a.example', [{ type: 'A', data: '10.0.0.1', ttl: 10 }]);
    zone.set('b.example', [
      { type: 'A', data: '10.0.0.2' },
      { type: 'A', data: '10.0.0.3' },
    ]);
    zone.set('c.example', [{ type: 'A', data: '10.0.0.4' }]);
  });
  await run.next();
  t.same(run.servers('m'), [
    { url: 'http://10.0.0.1:8001', weight: 3 },
    { url: 'http://10.0.0.2:8002' },
    { url: 'http://10.0.0.3:8002' },
    { url: 'http://10.0.0.4:8003', weight: 0.001 },
  ]);
  t.equal(await run.turn(), 10_000, 'the TTL of an address');
});

t.test('without weights all are equal, and the interval bounds the time between two queries', async (t) => {
  const { run } = await start(t, { name: 'any.example', records: 'srv', intervalMs: 7000 }, (zone) => {
    zone.set('any.example', [
      { type: 'SRV', data: { target: 'a.example', port: 8001, priority: 0, weight: 0 } },
      { type: 'SRV', data: { target: '.', port: 8002, priority: 0, weight: 0 } },
    ]);
    zone.set('a.example', [{ type: 'A', data: '10.0.0.1' }]);
  });
  await run.next();
  t.same(run.servers('m'), [{ url: 'http://10.0.0.1:8001' }]);
  t.equal(await run.turn(), 7000);
});

t.test('SRV records that cannot be asked for keep the servers', async (t) => {
  const { run, server } = await start(t, { name: SRV }, (zone) => {
    zone.set(SRV, [{ type: 'SRV', data: { target: 'a.example', port: 8001 } }]);
    zone.set('a.example', [{ type: 'A', data: '10.0.0.1', ttl: 5 }]);
  });
  await run.next();
  server.zone.set(SRV, 'SERVFAIL');
  await run.turn();
  t.match(await run.next(), /SERVFAIL/);
  server.zone.set(SRV, 'NXDOMAIN');
  await run.turn();
  t.match(await run.next(), /has no records/);
  t.same(run.urls, ['m http://10.0.0.1:8001']);
});

t.test(
  'of SRV records that lead to the same address the preferred one counts, in whatever order they come',
  async (t) => {
    const records = [
      { type: 'SRV', data: { target: 'b.example', port: 443, priority: 10, weight: 5 } },
      { type: 'SRV', data: { target: 'a.example', port: 443, priority: 0, weight: 5 } },
    ] as const;
    for (const inTurn of [records, records.toReversed()]) {
      const { run } = await start(t, { name: SRV, scheme: 'https' }, (zone) => {
        zone.set(SRV, inTurn);
        for (const name of ['a.example', 'b.example']) zone.set(name, [{ type: 'A', data: '10.0.0.1' }]);
      });
      await run.next();
      t.same(run.servers('m'), [{ url: 'https://10.0.0.1', host: 'a.example' }]);
    }
  },
);

t.test('a source that ends asks for no further names', async (t) => {
  const { run, server } = await start(t, { name: SRV }, (zone) => {
    const targets = Array.from({ length: 60 }, (_, at) => ({ target: `t${at}.example`, port: 80 }));
    zone.set(
      SRV,
      targets.map((data) => ({ type: 'SRV', data })),
    );
    for (const { target } of targets) zone.set(target, 'silent');
  });
  while (server.asked.length < 33) await new Promise((resolve) => void setImmediate(resolve));
  await run.test.system.terminate();
  const resolver = new Resolver();
  resolver.setServers([server.address]);
  await t.rejects(resolver.resolve4('later.example'), 'what was asked before this is with the server');
  t.equal(server.asked.length, 34, 'the SRV records, both families of 16 targets, and this name');
});

t.test('with https the name is that of Host and TLS', async (t) => {
  const fill = (zone: ZoneServer['zone']): void => {
    zone.set(NAME, [{ type: 'A', data: '10.0.0.1' }]);
    zone.set(SRV, [{ type: 'SRV', data: { target: 'a.example', port: 443 } }]);
    zone.set('a.example', [{ type: 'A', data: '10.0.0.1' }]);
  };
  const cases = [
    [{ scheme: 'https' }, { url: 'https://10.0.0.1:8000', host: NAME }],
    [
      { scheme: 'https', name: `${NAME}.` },
      { url: 'https://10.0.0.1:8000', host: NAME },
    ],
    [
      { scheme: 'https', host: 'other.example' },
      { url: 'https://10.0.0.1:8000', host: 'other.example' },
    ],
    [
      { host: 'other.example', port: 80 },
      { url: 'http://10.0.0.1', host: 'other.example' },
    ],
    [
      { scheme: 'https', name: SRV },
      { url: 'https://10.0.0.1', host: 'a.example' },
    ],
  ] as const;
  for (const [settings, server] of cases) {
    const { run } = await start(t, settings, fill);
    await run.next();
    t.same(run.servers('m'), [server]);
  }
});
