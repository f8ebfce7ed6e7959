// The snapshot that data planes get: merging of configured and discovered models, and hashes in the place of keys.
import t from 'tap';
import { hashKey } from '../../src/billing/index.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings, SettingsInput } from '../../src/config/settings.ts';
import { configuredKeys, mergeModels, withoutKeys } from '../../src/gateway/snapshot.ts';

function settingsOf(input: SettingsInput): Settings {
  const resolution = resolveSettings(input);
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

t.test('discovered servers are added to configured ones; ids match in any case, with the configured spelling', (t) => {
  const settings = settingsOf({ models: { 'Atlas-27B': { servers: ['http://one'], apiKey: 'secret', tee: true } } });
  const discovered = new Map([
    ['atlas-27b', ['http://one', 'http://two']],
    ['finch-3b', ['http://three']],
  ]);
  const { specs, catalog } = mergeModels(settings, discovered);
  t.same(specs, [
    { id: 'Atlas-27B', servers: ['http://one', 'http://two'], apiKey: 'secret' },
    { id: 'finch-3b', servers: ['http://three'], apiKey: undefined },
  ]);
  t.same(catalog, [
    { id: 'Atlas-27B', tee: true, servers: ['http://one', 'http://two'] },
    { id: 'finch-3b', servers: ['http://three'] },
  ]);
  t.end();
});

t.test('servers of several discoveries are merged under the first spelling', (t) => {
  const discovered = new Map([['Finch-3B', ['http://one']]]);
  const registered = new Map([
    ['finch-3b', ['http://one', 'http://two']],
    ['wren-1b', ['http://three']],
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
  const discovered = new Map([['a', ['http://two', { url: 'http://one', events: events('discovered') }]]]);
  const registered = new Map([['b', [{ url: 'http://two', events: events('registered') }, 'http://three']]]);
  const merged = mergeModels(settings, discovered, registered);
  t.same(
    [...merged.events],
    [
      ['http://one', events('configured')],
      ['http://two', events('registered')],
    ],
  );
  t.same(merged.specs, [
    { id: 'a', servers: ['http://one', 'http://two'], apiKey: undefined },
    { id: 'b', servers: ['http://two', 'http://three'], apiKey: undefined },
  ]);
  t.same(merged.catalog[1], { id: 'b', servers: ['http://two', 'http://three'] }, 'lists show base URLs only');
  t.end();
});

t.test('data planes get hashes of keys, never keys', (t) => {
  const settings = settingsOf({
    keys: { static: [{ key: 'hr_secret', account: 'demo' }] },
    trust: { signingKey: 'hr_secret', token: 'hr_secret' },
    payments: { facilitatorHeaders: { authorization: 'hr_secret' } },
  });
  const record = { hash: hashKey('hr_secret'), account: 'demo', prepaid: false, id: /^static:[0-9a-f]{8}$/ };
  t.match(configuredKeys(settings), [{ record, limits: {} }]);
  t.notMatch(JSON.stringify(withoutKeys(settings)), /hr_secret/);
  t.equal(withoutKeys(settings).keys.required, true);
  t.end();
});
