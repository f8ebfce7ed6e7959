// Validation of the section `trust`: where signing keys come from, and mistakes in them.
import { join } from 'node:path';
import t from 'tap';
import { createSigningKey, printSigningKey } from '../../src/billing/main-thread.ts';
import { resolveSettings } from '../../src/config/load.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { withEnginesChecked } from '../../src/gateway/engine-settings.ts';
import { readConfiguredKey } from '../../src/admin/trust-settings.ts';

const KEY = createSigningKey();

function mistakesOf(trust: NonNullable<SettingsInput['trust']>): readonly { path: string; message: string }[] {
  const resolution = withEnginesChecked(resolveSettings({ trust }));
  return 'mistakes' in resolution ? resolution.mistakes : [];
}

t.test('a signing key is given in the setting or in a file', async (t) => {
  const pem = printSigningKey(KEY);
  const path = join(t.testdir({ 'signing.pem': pem }), 'signing.pem');
  t.equal(readConfiguredKey(pem).id, KEY.id);
  t.equal(readConfiguredKey(`file:${path}`).id, KEY.id);
  t.same(mistakesOf({ signingKey: `file:${path}`, publicKey: KEY.publicKey }), []);
});

t.test('mistakes are reported with all others, and never repeat a key', async (t) => {
  const wrong = mistakesOf({ signingKey: 'sesame', publicKey: 'sesame', announce: 'http://me:1' });
  t.same(
    wrong.map(({ path }) => path),
    ['trust.signingKey', 'trust.publicKey', 'trust.announce'],
  );
  t.notMatch(JSON.stringify(wrong), /sesame/);
  t.match(mistakesOf({ signingKey: 'file:/nowhere/at/all' }), [{ message: /cannot be read \(ENOENT\)/ }]);
  t.same(mistakesOf({ announce: 'http://me:1', gateway: 'http://g:9090', token: 'sesame' }), []);
});
