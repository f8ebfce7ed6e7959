// The snapshot that data planes get: merging of configured and discovered models, and hashes in the place of keys.
import t from 'tap';
import { hashKey } from '../../src/billing/index.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings, SettingsInput } from '../../src/config/settings.ts';
import { configuredKeys, mergeModels, withoutKeys } from '../../src/gateway/snapshot.ts';
import type { FoundModel, ServerDetails } from '../../src/routing/index.ts';

function settingsOf(input: SettingsInput): Settings {
  const resolution = resolveSettings(input);
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

function found(servers: readonly (string | ServerDetails)[], aliases: readonly string[] = []): FoundModel {
  return { servers: servers.map((server) => (typeof server === 'string' ? { url: server } : server)), aliases };
}

t.test('discovered servers are added to configured ones; ids match in any case, with the configured spelling', (t) => {
  const settings = settingsOf({ models: { 'Atlas-27B': { servers: ['http://one'], apiKey: 'secret', tee: true } } });
  const discovered = new Map([
    ['atlas-27b', found(['http://one', 'http://two'])],
    ['finch-3b', found(['http://three'])],
  ]);
  const { specs, catalog } = mergeModels(settings, discovered);
  t.same(specs, [
    {
      id: 'Atlas-27B',
      aliases: [],
      servers: [
        { url: 'http://one', apiKey: 'secret' },
        { url: 'http://two', apiKey: 'secret' },
      ],
    },
    { id: 'finch-3b', aliases: [], servers: [{ url: 'http://three' }] },
  ]);
  t.same(catalog, [
    { id: 'Atlas-27B', tee: true, servers: ['http://one', 'http://two'] },
    { id: 'finch-3b', servers: ['http://three'] },
  ]);
  t.end();
});

t.test('servers of several discoveries are merged under the first spelling', (t) => {
  const discovered = new Map([['Finch-3B', found(['http://one'])]]);
  const registered = new Map([
    ['finch-3b', found(['http://one', 'http://two'])],
    ['wren-1b', found(['http://three'])],
  ]);
  t.same(mergeModels(settingsOf({}), discovered, registered).catalog, [
    { id: 'Finch-3B', servers: ['http://one', 'http://two'] },
    { id: 'wren-1b', servers: ['http://three'] },
  ]);
  t.end();
});

t.test('what is said first of the events of a server holds, whoever says it', (t) => {
  const events = (topic: string): { endpoint: string; topic: string } => ({ endpoint: 'tcp://one:5557', topic });
  const settings = settingsOf({
    models: { a: { servers: [{ url: 'http://one', events: events('configured') }, 'http://two'] } },
  });
  const discovered = new Map([['a', found(['http://two', { url: 'http://one', events: events('discovered') }])]]);
  const registered = new Map([['b', found([{ url: 'http://two', events: events('registered') }, 'http://three'])]]);
  const merged = mergeModels(settings, discovered, registered);
  t.same(
    [...merged.events],
    [
      ['http://one', events('configured')],
      ['http://two', events('registered')],
    ],
  );
  t.same(merged.catalog[1], { id: 'b', servers: ['http://two', 'http://three'] }, 'lists show base URLs only');
  t.end();
});

t.test('what a model says holds for its configured servers, and for found ones of which nothing else is said', (t) => {
  const settings = settingsOf({
    models: {
      a: {
        servers: ['http://one', { url: 'http://two', apiKey: 'own', dialects: 'auto', weight: 2 }],
        apiKey: 'common',
        dialects: ['chat'],
        aliases: ['gpt-5'],
      },
    },
  });
  const said: ServerDetails = { url: 'http://two', apiKey: 'later', dialects: ['llama'], weight: 7 };
  const three: ServerDetails[] = [
    { ...said, url: 'http://three' },
    { url: 'http://four', weight: 7 },
  ];
  const discovered = new Map([['A', found([said, { ...said, url: 'http://one' }, ...three], ['gpt-5', 'extra'])]]);
  const { catalog, conflicts, specs } = mergeModels(settings, discovered);
  t.same(specs, [
    {
      id: 'a',
      aliases: ['gpt-5', 'extra'],
      servers: [
        { url: 'http://one', apiKey: 'common', dialects: ['chat'], weight: 7 },
        { url: 'http://two', apiKey: 'own', dialects: 'auto', weight: 2 },
        { url: 'http://three', apiKey: 'later', dialects: ['llama'], weight: 7 },
        { url: 'http://four', apiKey: 'common', dialects: ['chat'], weight: 7 },
      ],
    },
  ]);
  const urls = ['http://one', 'http://two', 'http://three', 'http://four'];
  t.same(catalog, [{ id: 'a', servers: urls }], 'lists show none of it');
  t.same(conflicts, []);
  t.end();
});

t.test('a found model or alias whose name is taken is left out, and a sentence says so', (t) => {
  const settings = settingsOf({ models: { a: { servers: ['http://one'], aliases: ['GPT-5'] } } });
  const discovered = new Map([
    ['gpt-5', found(['http://two'])],
    ['b', found(['http://two'], ['A', 'c', 'mine'])],
  ]);
  const registered = new Map([['c', found(['http://three'], ['Mine', 'C', 'b'])]]);
  const { conflicts, specs } = mergeModels(settings, discovered, registered);
  t.same(
    specs.map(({ aliases, id }) => [id, aliases]),
    [
      ['a', ['GPT-5']],
      ['b', ['mine']],
      ['c', []],
    ],
  );
  t.same(conflicts, [
    'model gpt-5 is left out: it is an alias of a',
    'alias A of model b is left out: it is a name of a',
    'alias c of model b is left out: it is a name of c',
    'alias Mine of model c is left out: it is a name of b',
    'alias b of model c is left out: it is a name of b',
  ]);
  t.end();
});

t.test('of very many names that are taken, the first are told and the others counted', (t) => {
  const names = (prefix: string): string[] => Array.from({ length: 300 }, (_, at) => `${prefix}${at}`);
  const one = new Map([['one', { servers: [], aliases: names('a') }]]);
  const two = new Map([['two', { servers: [], aliases: names('a') }]]);
  const ids = new Map(names('A').map((id) => [id, { servers: [], aliases: [] }] as const));
  const settings = settingsOf({ models: { mine: { servers: [], aliases: names('a') } } });
  const { conflicts } = mergeModels(settings, one, two, ids);
  t.equal(conflicts.length, 101);
  t.equal(conflicts[0], 'model A0 is left out: it is an alias of mine');
  t.equal(conflicts[100], '800 further names of found models are left out: they are taken');
  t.end();
});

t.test('a configured key is of the account that the ledger has, where its id is an address', (t) => {
  const account = `0x${'aB'.repeat(20)}`;
  const settings = settingsOf({ keys: { static: [{ key: 'hr_secret', account }] } });
  t.match(configuredKeys(settings), [{ record: { account: account.toLowerCase() } }]);
  t.end();
});

t.test('data planes get hashes of keys, never keys', (t) => {
  const settings = settingsOf({
    keys: { static: [{ key: 'hr_secret', account: 'demo' }] },
    trust: { signingKey: 'hr_secret', token: 'hr_secret', server: { apiKey: 'hr_secret' } },
    payments: { facilitatorHeaders: { authorization: 'hr_secret' } },
  });
  const record = { hash: hashKey('hr_secret'), account: 'demo', prepaid: false, id: /^static:[0-9a-f]{8}$/ };
  t.match(configuredKeys(settings), [{ record, limits: {} }]);
  t.notMatch(JSON.stringify(withoutKeys(settings)), /hr_secret/);
  t.equal(withoutKeys(settings).keys.required, true);
  t.end();
});
