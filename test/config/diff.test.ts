import t from 'tap';
import { diffSettings, settingsInForce, valueOf } from '../../src/config/diff.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { SETTINGS, type Settings, type SettingsInput } from '../../src/config/settings.ts';

function settingsOf(input: SettingsInput): Settings {
  const resolution = resolveSettings(input);
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

t.test('equal configurations do not differ, however they are written', async (t) => {
  const before = settingsOf({ timeouts: { idle: '60s' }, models: { m: { servers: ['http://a:1/'] } } });
  const after = settingsOf({ timeouts: { idle: '60s' }, models: { m: { servers: ['http://a:1'] } } });
  t.same(diffSettings(before, after), { reloadable: [], restart: [] });
});

t.test('changes are sorted by when they take effect', async (t) => {
  const before = settingsOf({ log: { level: 'info' } });
  const after = settingsOf({
    listen: '0.0.0.0:81',
    limits: { headerBytes: '32KiB' },
    log: { level: 'debug' },
    admin: null,
  });
  t.same(diffSettings(before, after), {
    reloadable: ['log.level'],
    restart: ['listen', 'admin', 'limits.headerBytes'],
  });
});

t.test('models are compared one by one: added, removed, changed', async (t) => {
  const same = { servers: ['http://s:1'] };
  const before = settingsOf({ models: { same, gone: same, other: same } });
  const after = settingsOf({ models: { same, 'new-1.5': same, other: { servers: [] } } });
  t.same(diffSettings(before, after).reloadable, ['models.gone', 'models.other', 'models["new-1.5"]']);
});

t.test('keys are named as a whole and never shown', async (t) => {
  const before = settingsOf({ keys: { static: [{ key: 'sesame', account: 'a' }] } });
  const diff = diffSettings(before, settingsOf({}));
  t.same(diff.reloadable, ['keys.static']);
  t.notMatch(JSON.stringify(diff), /sesame/);
});

t.test('every setting has a value', async (t) => {
  const settings = settingsOf({});
  for (const row of SETTINGS) t.not(valueOf(settings, row), undefined, row.path);
});

t.test('settings in force: those that take effect at once are taken over, the others stay', (t) => {
  const running = settingsOf({});
  const wanted = settingsOf({
    listen: '127.0.0.1:1',
    admin: null,
    servicePrefix: 'other',
    timeouts: { connect: '9s', idle: '9s' },
    models: { m: { servers: ['http://one'] } },
  });
  const inForce = settingsInForce(running, wanted);
  t.same(inForce.listen, running.listen);
  t.same(inForce.admin, running.admin);
  t.equal(inForce.servicePrefix, 'svc');
  t.equal(inForce.timeouts.connectMs, 3000);
  t.equal(inForce.timeouts.idleMs, 9000);
  t.same(inForce.models, wanted.models);
  t.same(diffSettings(running, inForce).restart, []);
  t.same(diffSettings(inForce, wanted).reloadable, []);
  t.end();
});

t.test('settings in force have the engines of the embedder as they are', (t) => {
  const engine = { kind: 'own', types: ['web'], search: () => Promise.resolve([]) };
  const wanted = settingsOf({ search: { engines: { own: engine } } });
  t.equal(settingsInForce(settingsOf({}), wanted).search.engines['own'], engine);
  t.end();
});
