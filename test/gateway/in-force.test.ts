import t from 'tap';
import { diffSettings } from '../../src/config/diff.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { Settings, SettingsInput } from '../../src/config/settings.ts';
import { settingsInForce } from '../../src/gateway/in-force.ts';

function settingsOf(input: SettingsInput): Settings {
  const resolution = resolveSettings(input);
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

t.test('what takes effect at once is taken over, the rest stays', (t) => {
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
