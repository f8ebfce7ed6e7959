import t from 'tap';
import { type HostSettings, createHost } from '../../src/testkit.ts';

function mistake(settings: unknown): string {
  try {
    createHost(settings as HostSettings);
    return '';
  } catch (error) {
    return String(error);
  }
}

t.test('wrong settings of a host are named', async (t) => {
  const models = ['atlas-27b'];
  for (const none of [undefined, null, 5]) t.match(mistake(none), 'RangeError: a host needs settings');
  for (const wrong of [undefined, 'atlas-27b', [], [5], ['']])
    t.equal(mistake({ models: wrong }), 'RangeError: models must be a list of ids that is not empty', String(wrong));
  for (const listen of ['nope', '127.0.0.1', 'a:b', 5, '127.0.0.1:70000'])
    t.match(mistake({ models, listen }), 'RangeError: listen must be HOST:PORT, not', String(listen));
  t.match(
    mistake({ models, engine: 'warp' }),
    /^RangeError: engine must be settings or one of paced, steps, .*"warp"$/,
  );
  t.match(mistake({ models, engine: { profile: 'x' } }), 'RangeError: engine.profile must be');
  for (const name of ['日本', 'a\nb', 5])
    t.match(mistake({ models, name }), 'RangeError: name must be the value of a header', String(name));
  for (const keys of ['x', [5], [{ key: 'a' }]]) t.match(mistake({ models, keys }), 'RangeError: keys must be a list');
  for (const value of ['x', -1, NaN])
    t.match(mistake({ models, maxBodyBytes: value }), 'RangeError: maxBodyBytes must be a number', String(value));
});

t.test('right settings make a host', async (t) => {
  const models = ['atlas-27b'];
  for (const settings of [
    { models },
    { models, listen: '[::1]:0', engine: 'steps' },
    { models, listen: ':0', engine: { profile: '8b-h100', slots: 2 } },
    { models, name: 'rack 1: Zürich' },
    { models, keys: ['a', { key: 'b', account: 'c' }], interTokenMs: 0 },
  ])
    t.equal(mistake(settings), '', JSON.stringify(settings));
});
