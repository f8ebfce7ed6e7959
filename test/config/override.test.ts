import t from 'tap';
import { resolveSettings } from '../../src/config/load.ts';

t.test('a flag wins over the environment, the environment over the file, the file over the default', async (t) => {
  const file = { timeouts: { idle: '1s', connect: '1s', headers: '1s' } };
  const env = { HEADRACE_TIMEOUTS_IDLE: '2s', HEADRACE_TIMEOUTS_CONNECT: '2s' };
  t.match(resolveSettings(file, env, { 'timeouts.idle': '3s' }), {
    settings: { timeouts: { idleMs: 3_000, connectMs: 2_000, headersMs: 1_000, bodyMs: 30_000 } },
  });
});

t.test('text is read by the type of the setting', async (t) => {
  const flags = {
    listen: '127.0.0.1:0',
    admin: 'null',
    threads: '2',
    'routing.affinity': 'false',
    'routing.stickiness': '1.5',
    'limits.bodyBytes': '1MB',
    'log.level': 'debug',
    'cors.origins': 'https://a.example, https://b.example',
    'keys.static': '[{"key": "k${x}", "account": "a"}]',
    models: '{"m": {"servers": ["http://gpu1:1"]}}',
  };
  t.match(resolveSettings({}, {}, flags), {
    settings: {
      listen: { host: '127.0.0.1', port: 0 },
      admin: null,
      threads: 2,
      routing: { affinity: false, stickiness: 1.5 },
      limits: { bodyBytes: 1e6 },
      log: { level: 'debug' },
      cors: { origins: ['https://a.example', 'https://b.example'] },
      keys: { static: [{ key: 'k${x}', account: 'a' }] },
      models: { m: { servers: [{ url: 'http://gpu1:1' }] } },
    },
  });
  t.match(resolveSettings({}, {}, { 'cors.origins': '["*"]' }), { settings: { cors: { origins: ['*'] } } });
});

t.test('null from the environment turns off what the file turned on', async (t) => {
  const resolution = resolveSettings({ streamKeepAlive: '5s' }, { HEADRACE_STREAM_KEEP_ALIVE: 'null' });
  t.match(resolution, { settings: { streamKeepAliveMs: null } });
});

t.test('mistakes carry the name the value came under, and all places are checked', async (t) => {
  const resolution = resolveSettings({ threads: -1 }, { HEADRACE_THREADS: 'many' }, { threads: '1.5', models: '{' });
  t.same(resolution, {
    mistakes: [
      { path: 'threads', message: 'must be at least 0' },
      { path: 'HEADRACE_THREADS', message: 'must be auto or a whole number' },
      { path: '--threads', message: 'must be auto or a whole number' },
      { path: '--models', message: 'must be JSON' },
    ],
  });
});

t.test('an unknown flag is a mistake, with the nearest name', async (t) => {
  t.same(resolveSettings({}, {}, { 'timeouts.conect': '1s', idle: '1s', frobnicate: '1' }), {
    mistakes: [
      { path: '--timeouts.conect', message: 'is unknown; did you mean --timeouts.connect?' },
      { path: '--idle', message: 'is unknown; did you mean --timeouts.idle?' },
      { path: '--frobnicate', message: 'is unknown' },
    ],
  });
});

t.test('a misspelt variable is a mistake; a variable of another program is not', async (t) => {
  t.same(resolveSettings({}, { HEADRACE_LISTN: '1' }), {
    mistakes: [{ path: 'HEADRACE_LISTN', message: 'is unknown; did you mean HEADRACE_LISTEN?' }],
  });
  const others = {
    HEADRACE_DEPLOYED_BY: 'me',
    HEADRACE_PORT: 'tcp://10.0.0.1:80',
    HEADRACE_PORT_80_TCP_ADDR: '10.0.0.1',
    HEADRACE_SERVICE_HOST: '10.0.0.1',
    HEADRACE_SERVICE_PORT: '80',
    HEADRACE_ADMIN_PORT: 'tcp://10.0.0.2:9090',
    HEADRACE_ADMIN_SERVICE_HOST: '10.0.0.2',
    LISTEN: '1',
  };
  t.ok('settings' in resolveSettings({}, others));
});

t.test('an empty variable counts as not set', async (t) => {
  t.match(resolveSettings({ threads: 3 }, { HEADRACE_THREADS: '' }), { settings: { threads: 3 } });
});

t.test('flags of every section are accepted', async (t) => {
  t.match(resolveSettings({}, {}, { store: 'sqlite::memory:', 'payments.assumedTokens': '7' }), {
    settings: { store: 'sqlite::memory:', payments: { assumedTokens: 7 } },
  });
});

t.test('an empty flag or variable does not remove what the file says', async (t) => {
  const file = { models: { m: { servers: ['http://127.0.0.1:1'] } }, keys: { static: [{ key: 'k', account: 'a' }] } };
  const mapping = 'must be a mapping of names to values';
  t.same(resolveSettings(file, {}, { models: '' }), { mistakes: [{ path: '--models', message: mapping }] });
  t.same(resolveSettings(file, {}, { 'search.pricing': 'null' }), {
    mistakes: [{ path: '--search.pricing', message: mapping }],
  });
  t.same(resolveSettings(file, { HEADRACE_KEYS_STATIC: 'null' }, {}), {
    mistakes: [{ path: 'HEADRACE_KEYS_STATIC', message: 'must be a list' }],
  });
  t.ok(
    'settings' in resolveSettings({ ...file, search: { pricing: null } }, {}, {}),
    'in a file it is an empty section',
  );
});
