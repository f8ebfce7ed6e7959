import t from 'tap';
import { discovery, type DiscoveryCommand, readDiscoveryMap } from '../../src/gateway/discovery.ts';
import type { FoundModel, FoundModels, ServerDetails } from '../../src/routing/model-table.ts';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createSystem, type Ref } from '../../src/actor/index.ts';
import { createManualClock } from '../../src/actor/testkit.ts';
import { chat, settingsFor, startHosts, until } from '../support/system.ts';
import { createGateway } from '../../src/gateway/gateway.ts';

function found(...servers: readonly (string | ServerDetails)[]): FoundModel {
  return { servers: servers.map((server) => (typeof server === 'string' ? { url: server } : server)), aliases: [] };
}

t.test('reads the discovery map of the interface', (t) => {
  const map = { a: { servers: ['http://one/', 'http://one', 'http://two/base//'] }, b: { servers: ['ftp://x', 7] } };
  t.same([...readDiscoveryMap(map)], [['a', found('http://one', 'http://two/base')]]);
  t.end();
});

t.test('a server of a discovery map may say where it publishes its KV events', async (t) => {
  const events = { endpoint: 'tcp://one:5557', replay: 'tcp://one:5558', topic: 'kv' };
  const servers = [
    { url: 'http://one/', events },
    { url: 'http://two', events: 'tcp://two:5557' },
    { url: 'http://three', events: 'udp://three' },
    { url: 'http://four', events: { endpoint: 'tcp://four:1', replay: 7 }, weight: 1 },
    ...[{ url: 'ftp://five' }, {}, null, 7],
  ];
  t.same(
    [...readDiscoveryMap({ a: { servers } })],
    [
      [
        'a',
        found(
          { url: 'http://one', events },
          { url: 'http://two', events: { endpoint: 'tcp://two:5557' } },
          'http://three',
          { url: 'http://four', weight: 1 },
        ),
      ],
    ],
  );
});

t.test('a discovery map has the fields of servers and models of the settings', (t) => {
  const servers = [
    'http://one',
    { url: 'http://two', dialects: 'auto', apiKey: 'secret', weight: 2 },
    { url: 'http://three', dialects: ['sonnet'], apiKey: 'two words', weight: 0 },
  ];
  const dialects = ['chat', 'messages'];
  t.same(
    [...readDiscoveryMap({ a: { servers, dialects, aliases: ['gpt-5'] }, b: { servers, dialects: 7, aliases: [7] } })],
    [
      [
        'a',
        {
          servers: [
            { url: 'http://one', dialects },
            { url: 'http://two', dialects: 'auto', apiKey: 'secret', weight: 2 },
            { url: 'http://three', dialects },
          ],
          aliases: ['gpt-5'],
        },
      ],
      ['b', found('http://one', { url: 'http://two', dialects: 'auto', apiKey: 'secret', weight: 2 }, 'http://three')],
    ],
  );
  t.end();
});

t.test('refuses what is no map', (t) => {
  for (const value of [null, [], 'x', 7]) t.throws(() => readDiscoveryMap(value), /not a discovery map/);
  for (const value of [{ a: null }, { a: [] }, { a: { servers: 'http://one' } }]) {
    t.throws(() => readDiscoveryMap(value), /no list of servers for model a/);
  }
  t.end();
});

t.test('polls again after the interval, also after a failure', async (t) => {
  const clock = createManualClock();
  const system = createSystem({ clock, random: () => 0.5 });
  const answers = [
    { status: 200, body: Buffer.from('{"a":{"servers":["http://one"]}}') },
    { status: 500, body: Buffer.from('{}') },
    { status: 200, body: Buffer.from('nonsense') },
  ];
  const polled: [FoundModels | null, string | null][] = [];
  let next = Promise.withResolvers<void>();
  const ref: Ref<DiscoveryCommand> = system.spawn(
    discovery(
      { url: 'http://directory', intervalMs: 1000 },
      {
        get: () => Promise.resolve(answers.shift() ?? { status: 404, body: Buffer.alloc(0) }),
        onPolled: (models, problem) => {
          polled.push([models, problem]);
          next.resolve();
        },
      },
    ),
  );
  for (let round = 0; round < 3; round++) {
    await next.promise;
    next = Promise.withResolvers();
    clock.advance(999);
    t.equal(polled.length, round + 1, 'not before its time');
    clock.advance(1);
  }
  await next.promise;
  t.same(
    polled.map(([models]) => models?.get('a')),
    [found('http://one'), undefined, undefined, undefined],
  );
  t.same(polled.map(([, problem]) => problem)[1], 'answered 500');
  t.match(polled.map(([, problem]) => problem)[2], /JSON/);
  system.stop(ref);
  await system.terminate();
});

t.test('models of the directory are served beside configured ones, and a failed poll keeps them', async (t) => {
  const [host] = await startHosts(t, [{ models: ['found-1b', 'atlas-27b'] }]);
  let answer: string | null = JSON.stringify({ 'found-1b': { servers: [host?.url] } });
  let polls = 0;
  const directory = createServer((_req, res) => {
    polls++;
    res.writeHead(answer === null ? 500 : 200).end(answer ?? '');
  });
  await new Promise<void>((resolve) => directory.listen(0, '127.0.0.1', resolve));
  t.teardown(() => directory.close());
  const url = `http://127.0.0.1:${(directory.address() as AddressInfo).port}/svc/models`;
  const gateway = createGateway(
    settingsFor(host === undefined ? [] : [host], { discovery: url, discoveryInterval: '20ms' }),
  );
  t.teardown(() => gateway.close());
  const base = (await gateway.listen()).url;
  await gateway.ready();
  await until('found', async () => (await chat(base, { model: 'found-1b' })).status === 200);
  t.equal((await chat(base)).status, 200);
  answer = null;
  const before = polls;
  await until('polled again', () => polls > before + 2);
  t.equal((await chat(base, { model: 'found-1b' })).status, 200, 'losing the directory does not lose the servers');
  answer = '{}';
  await until('gone', async () => (await chat(base, { model: 'found-1b' })).status === 404);
});
