// The registry of announced hosts on a manual clock: probes, renewal, removal, limits and merged models.
import t from 'tap';
import { createManualClock, type ManualClock } from '../../src/actor/testkit.ts';
import { type Announcement, readAnnouncement, HostRegistry } from '../../src/admin/host-registry.ts';
import type { ServerDetails } from '../../src/routing/index.ts';

interface Scene {
  readonly clock: ManualClock;
  readonly registry: HostRegistry;
  readonly probes: string[];
  readonly changes: () => number;
  /** What a probe answers; null for no connection. */
  status: number | null;
  readonly turn: () => Promise<void>;
}

const SETTINGS = { ttlMs: 30_000, maxHosts: 3, probeIntervalMs: 5000, probeTimeoutMs: 2000, probePath: '/health' };

function setUp(probePath = '/health'): Scene {
  const clock = createManualClock();
  let changes = 0;
  const scene: Scene = {
    clock,
    probes: [],
    status: 200,
    changes: () => changes,
    turn: () => new Promise((resolve) => void setImmediate(resolve)),
    registry: new HostRegistry(
      { ...SETTINGS, probePath },
      {
        clock,
        log: { info: () => {}, warn: () => {} },
        onChange: () => void changes++,
        probe: async (url) => {
          scene.probes.push(url);
          if (scene.status === null) throw new Error('no connection');
          return scene.status;
        },
      },
    ),
  };
  return scene;
}

function host(name: string, more: Partial<Announcement> = {}): Announcement {
  return { name, url: `http://${name}`, models: ['atlas-27b'], load: 0, ...more };
}

/** Servers of listed hosts by model id; those with nothing but a base URL as texts. */
function serversOf({ registry }: Scene): Map<string, (string | ServerDetails)[]> {
  const plain = (server: ServerDetails): string | ServerDetails =>
    Object.keys(server).length === 1 ? server.url : server;
  return new Map([...registry.found].map(([id, { servers }]) => [id, servers.map(plain)]));
}

t.test('a host is listed after its first good probe, not before', async (t) => {
  const scene = setUp();
  scene.status = 503;
  t.equal(scene.registry.announce(host('one')), 'new');
  await scene.turn();
  t.equal(serversOf(scene).size, 0);
  t.match(scene.registry.status(), [{ name: 'one', listed: false }]);
  scene.status = 202;
  scene.clock.advance(5000);
  await scene.turn();
  t.equal(serversOf(scene).size, 0, 'up without the model is not enough');
  scene.status = null;
  scene.clock.advance(5000);
  await scene.turn();
  scene.status = 200;
  scene.clock.advance(5000);
  await scene.turn();
  t.same([...serversOf(scene)], [['atlas-27b', ['http://one']]]);
  t.equal(scene.changes(), 1);
  scene.clock.advance(10_000);
  t.equal(scene.probes.length, 4, 'from then on others probe it');
});

t.test('a host may say where it publishes its KV events, and change it', async (t) => {
  const scene = setUp();
  scene.registry.announce(host('one', { details: { events: { endpoint: 'tcp://one:5557' } } }));
  await scene.turn();
  t.same([...serversOf(scene)], [['atlas-27b', [{ url: 'http://one', events: { endpoint: 'tcp://one:5557' } }]]]);
  t.equal(scene.changes(), 1);
  scene.registry.announce(host('one', { details: { events: { endpoint: 'tcp://one:5557' } } }));
  t.equal(scene.changes(), 1);
  scene.registry.announce(host('one'));
  t.equal(scene.changes(), 2);
  t.same([...serversOf(scene)], [['atlas-27b', ['http://one']]]);
  const body = { name: 'one', url: 'http://one', models: ['m'] };
  t.match(readAnnouncement({ ...body, events: 'tcp://one:1' }), { details: { events: { endpoint: 'tcp://one:1' } } });
  t.match(readAnnouncement({ ...body, events: { endpoint: 'tcp://one:1', topic: 'kv' } }), {
    details: { events: { topic: 'kv' } },
  });
  for (const events of [
    'one:1',
    'tcp://*:1',
    'tcp://one:0',
    'tcp://one:65536',
    7,
    null,
    {},
    { endpoint: 'tcp://one:1', topic: 7 },
    `tcp://${'a'.repeat(400)}:1`,
  ]) {
    t.match(readAnnouncement({ ...body, events }), /^events must be a ZeroMQ endpoint/);
  }
});

t.test('a host may say what it speaks, its weight, its credential and aliases of its models', async (t) => {
  const scene = setUp();
  const body = { name: 'one', url: 'http://one', models: ['atlas-27b', 'finch-3b'], load: 2 };
  const said = { dialects: ['chat', 'completions'], weight: 2.5, apiKey: 'host_secret' };
  const aliases = { 'finch-3b': ['gpt-5', 'claude-sonnet-4-5'] };
  const announced = readAnnouncement({ ...body, ...said, aliases }) as Announcement;
  scene.registry.announce(announced);
  await scene.turn();
  t.same(
    [...scene.registry.found],
    [
      ['atlas-27b', { servers: [{ url: 'http://one', ...said }], aliases: [] }],
      ['finch-3b', { servers: [{ url: 'http://one', ...said }], aliases: ['gpt-5', 'claude-sonnet-4-5'] }],
    ],
  );
  const { apiKey: _, ...shown } = said;
  t.same(
    scene.registry.status(),
    [{ ...body, ...shown, aliases, listed: true, silentMs: 0 }],
    'without its credential',
  );
  scene.registry.announce(readAnnouncement({ ...body, ...said, weight: 3, aliases }) as Announcement);
  t.equal(scene.changes(), 2, 'a change takes effect');
  for (const dialects of ['chat', [], ['chat-completions'], 7, null]) {
    t.match(readAnnouncement({ ...body, dialects }), 'dialects must be auto or a list of chat, completions');
  }
  for (const weight of [0, -1, 1001, '2', null]) {
    t.match(readAnnouncement({ ...body, weight }), 'weight must be a number from 0.001 to 1000');
  }
  for (const apiKey of ['', 'two words', 7, null]) t.match(readAnnouncement({ ...body, apiKey }), /^apiKey must be/);
  for (const wrong of [null, [], 'x', { other: ['a'] }, { 'finch-3b': 'a' }, { 'finch-3b': [''] }]) {
    t.match(readAnnouncement({ ...body, aliases: wrong }), /^aliases must be a mapping/);
  }
});

t.test('the probe asks for the first model where the path wants one', async (t) => {
  const scene = setUp('/health/{model}');
  scene.registry.announce(host('one', { models: ['acme/Atlas 27B', 'finch'] }));
  t.same(scene.probes, ['http://one/health/acme%2FAtlas%2027B']);
});

t.test('a host stays while it renews its registration, and is removed when it stops', async (t) => {
  const scene = setUp();
  scene.registry.announce(host('one'));
  await scene.turn();
  for (let beat = 0; beat < 5; beat++) {
    scene.clock.advance(29_999);
    t.equal(scene.registry.announce(host('one', { load: beat })), 'renewed');
  }
  t.match(scene.registry.status(), [{ listed: true, load: 4, silentMs: 0 }]);
  t.equal(scene.changes(), 1, 'a heartbeat changes nothing');
  scene.clock.advance(29_999);
  t.equal(serversOf(scene).size, 1);
  scene.clock.advance(1);
  t.equal(serversOf(scene).size, 0);
  t.same(scene.registry.status(), []);
  t.equal(scene.changes(), 2);
});

t.test(
  'hosts stay when the gateway itself stood still, and are removed if they do not announce themselves then',
  async (t) => {
    const manual = createManualClock();
    let stoodStillMs = 0;
    const clock = { ...manual, now: () => manual.now() + stoodStillMs };
    const registry = new HostRegistry(SETTINGS, {
      clock,
      log: { info: () => {}, warn: () => {} },
      onChange: () => {},
      probe: async () => 200,
    });
    t.teardown(() => registry.close());
    registry.announce(host('one'));
    await new Promise((resolve) => void setImmediate(resolve));
    stoodStillMs = 40_000;
    manual.advance(30_000);
    t.equal(registry.found.size, 1);
    manual.advance(29_999);
    t.equal(registry.found.size, 1);
    manual.advance(1);
    t.equal(registry.found.size, 0);
  },
);

t.test('a host that deregisters is removed at once, also in the middle of a probe', async (t) => {
  const scene = setUp();
  scene.registry.announce(host('one'));
  t.equal(scene.registry.remove('one'), true);
  await scene.turn();
  t.equal(serversOf(scene).size, 0);
  t.equal(scene.changes(), 0, 'the answer to the probe came too late');
  t.equal(scene.clock.nextDueMs, Infinity, 'and brought no other');
  t.equal(scene.registry.remove('one'), false);
  scene.registry.announce(host('one'));
  await scene.turn();
  t.equal(scene.registry.remove('one', 'http://elsewhere'), false, 'a name sake cannot take it out');
  t.equal(scene.registry.remove('one', 'http://one'), true);
  t.equal(serversOf(scene).size, 0);
});

t.test('a name and a URL belong to the first host until it leaves or stops announcing', async (t) => {
  const scene = setUp();
  scene.registry.announce(host('one'));
  t.equal(scene.registry.announce(host('one', { url: 'http://thief' })), 'taken');
  t.equal(scene.registry.announce(host('two', { url: 'http://one' })), 'taken');
  await scene.turn();
  t.same([...serversOf(scene)], [['atlas-27b', ['http://one']]]);
  scene.clock.advance(30_000);
  t.equal(scene.registry.announce(host('one', { url: 'http://heir' })), 'new');
  await scene.turn();
  t.same([...serversOf(scene)], [['atlas-27b', ['http://heir']]]);
});

t.test('there are no more hosts than allowed', async (t) => {
  const scene = setUp();
  for (const name of ['one', 'two', 'three']) t.equal(scene.registry.announce(host(name)), 'new');
  t.equal(scene.registry.announce(host('four')), 'full');
  t.equal(scene.registry.announce(host('three')), 'renewed', 'those inside stay');
  scene.registry.remove('one');
  t.equal(scene.registry.announce(host('four')), 'new');
});

t.test('models of many hosts are merged whatever their case, and a changed list takes effect', async (t) => {
  const scene = setUp();
  scene.registry.announce(host('one', { models: ['Atlas-27B', 'finch'] }));
  scene.registry.announce(host('two', { models: ['atlas-27b'] }));
  await scene.turn();
  t.same(
    [...serversOf(scene)],
    [
      ['Atlas-27B', ['http://one', 'http://two']],
      ['finch', ['http://one']],
    ],
  );
  scene.registry.announce(host('one', { models: ['finch'] }));
  t.same(
    [...serversOf(scene)],
    [
      ['finch', ['http://one']],
      ['atlas-27b', ['http://two']],
    ],
  );
});

t.test('no host is taken after close', async (t) => {
  const { clock, probes, registry } = setUp();
  registry.close();
  t.equal(registry.announce(host('late')), 'full');
  t.same(probes, []);
  t.equal(clock.nextDueMs, Infinity, 'no timer keeps the process');
});

t.test('no timer is left after close', async (t) => {
  const scene = setUp();
  scene.status = 500;
  scene.registry.announce(host('one'));
  await scene.turn();
  scene.registry.close();
  t.equal(scene.clock.nextDueMs, Infinity);
});

t.test('an announcement is read with its limits', async (t) => {
  const good = { name: 'gpu-1.rack_2', url: 'https://gpu1:8443/base/', models: ['acme/Atlas-27B'] };
  t.same(readAnnouncement(good), { ...good, url: 'https://gpu1:8443/base', load: 0 });
  t.equal((readAnnouncement({ ...good, load: 2.5, extra: 1 }) as Announcement).load, 2.5);
  const wrong: [object, RegExp][] = [
    [{ name: '' }, /^name/],
    [{ name: 'a/b' }, /^name/],
    [{ name: 'a'.repeat(65) }, /^name/],
    [{ name: 7 }, /^name/],
    [{ url: undefined }, /^url/],
    [{ url: 'gpu1:8000' }, /^url/],
    [{ url: 'file:///etc/passwd' }, /^url/],
    [{ url: 'http://user:secret@gpu1' }, /^url/],
    [{ url: 'http://gpu1/?q=1' }, /^url/],
    [{ url: 'http://gpu1/#top' }, /^url/],
    [{ url: `http://gpu1/${'a'.repeat(2048)}` }, /^url/],
    [{ models: [] }, /^models/],
    [{ models: 'atlas' }, /^models/],
    [{ models: [''] }, /^models/],
    [{ models: ['line\nfeed'] }, /^models/],
    [{ models: [7] }, /^models/],
    [{ models: ['a'.repeat(257)] }, /^models/],
    [{ models: ['a', 'A'] }, /once/],
    [{ models: Array.from({ length: 65 }, (_, index) => `m${index}`) }, /^models/],
    [{ load: -1 }, /^load/],
    [{ load: '1' }, /^load/],
  ];
  for (const [change, sentence] of wrong) t.match(readAnnouncement({ ...good, ...change }), sentence);
  for (const value of [null, [], 'host', 7]) t.match(readAnnouncement(value), /JSON object/);
  t.notMatch(readAnnouncement({ ...good, url: 'http://user:secret@gpu1' }), /secret/);
});
