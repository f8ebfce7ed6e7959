// Discovery maps: what is read of them, and what is refused.
import t from 'tap';
import { readDiscoveryMap, withKey } from '../../src/discovery/discovery-map.ts';
import type { FoundModel, FoundModels, ServerDetails } from '../../src/routing/model-table.ts';

/** The models of a map. */
function modelsOf(map: unknown): FoundModels {
  return readDiscoveryMap(map).models;
}

function found(...servers: readonly (string | ServerDetails)[]): FoundModel {
  return { servers: servers.map((server) => (typeof server === 'string' ? { url: server } : server)), aliases: [] };
}

t.test('reads the discovery map of the interface', (t) => {
  const map = { a: { servers: ['http://one/', 'http://one', 'http://two/base//'] }, b: { servers: ['ftp://x', 7] } };
  t.same([...modelsOf(map)], [['a', found('http://one', 'http://two/base')]]);
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
    [...modelsOf({ a: { servers } })],
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
    [...modelsOf({ a: { servers, dialects, aliases: ['gpt-5'] }, b: { servers, dialects: 7, aliases: [7] } })],
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

t.test('a credential of the source is for servers that have none of their own', (t) => {
  const models = modelsOf({ a: { servers: ['http://one', { url: 'http://two', apiKey: 'own' }] } });
  t.same(
    withKey(models, 'common').get('a'),
    found({ apiKey: 'common', url: 'http://one' }, { apiKey: 'own', url: 'http://two' }),
  );
  t.equal(withKey(models, undefined), models);
  t.end();
});

t.test('leaves out servers whose URL the settings would refuse, and names that no request can have', (t) => {
  const servers = ['http://me:secret@one', 'http://one/?key=secret', 'http://one/#part', 'HTTP://One:80/v1/', 'two'];
  t.same(
    [...modelsOf({ a: { servers }, ['b'.repeat(257)]: { servers }, 'c\n': { servers } })],
    [['a', found('http://one/v1')]],
  );
  t.throws(() => readDiscoveryMap({ ['b'.repeat(10_000)]: {} }), { message: /^.{1,200}$/ });
  t.end();
});

t.test('says what it leaves out, without what may be a secret', (t) => {
  const servers = [
    'http://one',
    'http://me:secret@two',
    { url: 'http://three', weight: -1, apiKey: 'two words' },
    { url: 'http://four', dialects: ['sonnet'] },
  ];
  t.same(readDiscoveryMap({ a: { servers, aliases: 'b', dialects: 7 }, ü: { servers: ['http://one'] } }).notes, [
    'aliases of model a cannot be read',
    'dialects of model a cannot be read',
    'server 2 of model a is left out: it has no base URL, or one with a password, a query or a fragment',
    'apiKey of server 3 of model a cannot be read',
    'weight of server 3 of model a cannot be read',
    'dialects of server 4 of model a cannot be read',
    'model "ü" is left out: an id has up to 256 visible ASCII characters',
  ]);
  t.same(readDiscoveryMap({ a: { servers: ['http://one', 'http://one/'] }, b: { servers: [] } }).notes, []);
  t.end();
});

t.test('reads no more servers than the board has cells for, and no notes without end', (t) => {
  const map = Object.fromEntries(
    Array.from({ length: 3000 }, (_, at) => [`m${at}`, { servers: ['http://one', 'http://two', 'ftp://three'] }]),
  );
  const { models, notes } = readDiscoveryMap(map);
  t.equal(models.size, 2048);
  t.equal(notes.length, 18);
  t.equal(notes[0], '952 models are left out: models have at most 4,096 servers in all');
  t.equal(notes[17], 'and 2,984 more');
  t.end();
});

t.test('a model with too many servers is left out alone', (t) => {
  const servers = Array.from({ length: 4097 }, (_, at) => `http://10.0.${at >> 8}.${at & 255}`);
  const { models, notes } = readDiscoveryMap({ large: { servers }, small: { servers: ['http://one'] } });
  t.same([...models.keys()], ['small']);
  t.same(notes, ['1 model is left out: models have at most 4,096 servers in all']);
  t.end();
});
