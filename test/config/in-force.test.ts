// The configuration in force as a document: values as users write them, sources, and no secret of any setting.

import t from 'tap';
import { type SettingInForce, settingsInForceDocument } from '../../src/config/in-force.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import type { AnyType, Fields } from '../../src/config/value-types.ts';

function documentOf(
  input: object,
  env: Record<string, string> = {},
  flags: Record<string, string> = {},
  pending: readonly string[] = [],
): Map<string, SettingInForce> {
  const resolution = resolveSettings(input, env, flags);
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  const rows = settingsInForceDocument(resolution.settings, resolution.sources, pending);
  return new Map(rows.map((row) => [row.path, row]));
}

t.test('every setting is there, with its default and where it comes from', async (t) => {
  const input = { timeouts: { idle: '90s', connect: '3s' }, log: null, limits: { bodyBytes: '64MiB' } };
  const env = { HEADRACE_HEALTH_INTERVAL: '7s', HEADRACE_LOG_LEVEL: '' };
  const rows = documentOf(input, env, { threads: '2' }, ['threads']);
  t.same(
    [...rows.keys()],
    SETTINGS.map(({ path }) => path),
  );
  t.same(rows.get('timeouts.idle'), {
    ...{ path: 'timeouts.idle', section: 'Timeouts', value: '90s', default: '60s', differs: true, source: 'file' },
    ...{ secret: false, restart: false, pending: false, type: 'duration', env: 'HEADRACE_TIMEOUTS_IDLE' },
    ...{ flag: '--timeouts.idle', sentence: 'Longest silence of a server in the middle of an answer.' },
  });
  t.match(rows.get('timeouts.connect'), { value: '3s', differs: false, source: 'file' }, 'written, and the default');
  t.match(rows.get('limits.bodyBytes'), { value: '64MiB', default: '100MiB' });
  t.match(rows.get('health.interval'), { value: '7s', source: 'environment' });
  t.match(rows.get('threads'), { value: 2, default: 'auto', source: 'flag', restart: true, pending: true });
  t.match(rows.get('log.level'), { value: 'info', source: 'default', differs: false });
  t.match(rows.get('listen'), { value: '0.0.0.0:8080', source: 'default' });
});

t.test('lists, maps and URLs', async (t) => {
  const models = {
    'atlas-27b': {
      servers: ['http://10.0.0.1:8000', { url: 'http://10.0.0.2:8000', weight: 2, apiKey: 'sk-server' }],
      apiKey: 'sk-model',
      pricing: { prompt: '0.25', completion: '1.50' },
    },
  };
  const rows = documentOf({
    models,
    discovery: 'http://registry.example/map?token=secret',
    search: { engines: { a: { kind: 'brave', apiKey: 'secret' } } },
    keys: { static: [{ key: 'hr_secret', account: 'team', rpm: 60 }] },
    store: 'postgres://user:secret@db.example/headrace?password=secret',
    telemetry: { otlp: { endpoint: 'http://collector.example/v1/traces?key=secret', headers: { 'x-key': 'secret' } } },
  });
  t.same(rows.get('models')?.value, {
    'atlas-27b': {
      servers: [{ url: 'http://10.0.0.1:8000' }, { url: 'http://10.0.0.2:8000', apiKey: '(set)', weight: 2 }],
      pricing: { prompt: '0.25', completion: '1.50' },
      apiKey: '(set)',
    },
  });
  t.equal(rows.get('discovery')?.value, 'http://registry.example/map?…');
  t.same(rows.get('search.engines')?.value, { a: { kind: 'brave', apiKey: '(set)' } });
  t.same(rows.get('keys.static')?.value, [{ key: '(set)', account: 'team', rpm: 60 }]);
  t.equal(rows.get('store')?.value, 'postgres://db.example/headrace');
  t.same(rows.get('telemetry.otlp.headers')?.value, { 'x-key': '(set)' });
  t.equal(rows.get('telemetry.otlp.endpoint')?.value, 'http://collector.example/v1/traces?…');
  t.notMatch(JSON.stringify([...rows.values()]), /secret@|=secret|"secret":"secret"|hr_secret|sk-server|sk-model/);
  t.equal(documentOf({ store: 'sqlite:/var/lib/headrace.db' }).get('store')?.value, 'sqlite:/var/lib/headrace.db');
  t.equal(documentOf({ store: null }).get('store')?.value, null);
});

/** A valid value of each secret, which holds a mark that nothing else has. */
const SECRETS: Readonly<Record<string, object>> = {
  adminToken: { adminToken: 'MARK0' },
  'adminTokens.sha256': { adminTokens: [{ name: 'vera', role: 'viewer', sha256: `ABCDEF0123${'0'.repeat(54)}` }] },
  adminTokens: { adminTokens: [{ name: 'vera', role: 'viewer', sha256: `ABCDEF0123${'0'.repeat(54)}` }] },
  'models.servers.apiKey': { models: { m: { servers: [{ url: 'http://a', apiKey: 'MARK0' }] } } },
  'models.apiKey': { models: { m: { servers: ['http://a'], apiKey: 'MARK0' } } },
  'keys.static': { keys: { static: [{ key: 'MARK0', account: 'a' }] } },
  'keys.static.key': { keys: { static: [{ key: 'MARK0', account: 'a' }] } },
  'trust.signingKey': { trust: { signingKey: 'file:/MARK0' } },
  'trust.token': { trust: { token: 'MARK0' } },
  'trust.server.apiKey': { trust: { server: { apiKey: 'MARK0' } } },
  'search.engines': { search: { engines: { a: { kind: 'worker', url: 'http://MARK0', deep: { token: 'MARK0' } } } } },
  store: { store: 'postgres://MARK0:MARK0@db/name?sslpassword=MARK0' },
  'webhooks.endpoints': { webhooks: { endpoints: { a: { url: 'http://a', secret: `whsec_MARK0${'A'.repeat(35)}` } } } },
  'webhooks.endpoints.secret': {
    webhooks: { endpoints: { a: { url: 'http://a/?token=MARK0', secret: `whsec_MARK0${'A'.repeat(35)}` } } },
  },
  'payments.facilitatorHeaders': { payments: { facilitatorHeaders: { authorization: 'MARK0' } } },
  'payments.rpc': { payments: { rpc: 'https://rpc.example/v2/MARK0' } },
  'fetch.renderer.url': { fetch: { renderer: { url: 'ws://browser.example/?token=MARK0' } } },
  'cluster.url': { cluster: { url: 'redis://:MARK0@redis.example/0' } },
  'discovery.apiKey': {
    discovery: [
      { kind: 'url', url: 'http://a/?token=MARK0', apiKey: 'MARK0' },
      { kind: 'dns', name: 'a.example', port: 1, model: 'm', apiKey: 'MARK0' },
      { kind: 'kubernetes', service: 'a', model: 'm', apiKey: 'MARK0' },
      { kind: 'file', path: 'a', apiKey: 'MARK0' },
    ],
  },
  'telemetry.otlp.headers': { telemetry: { otlp: { headers: { authorization: 'MARK0' } } } },
};

/** Paths of all settings that are secrets, those in entries of lists and maps too. */
function secretPaths(path: string, type: AnyType & { readonly secret?: boolean }): string[] {
  const variants = Object.values(type.items?.variants ?? {}).map(({ fields }) => fields);
  const inner = Object.assign({ ...type.fields, ...type.items?.fields }, ...variants) as Fields;
  const nested = Object.entries(inner).flatMap(([name, field]) => secretPaths(`${path}.${name}`, field));
  return type.secret === true ? [path, ...nested] : nested;
}

t.test('no secret of any setting is shown', async (t) => {
  const paths = SETTINGS.flatMap(({ path, setting }) => secretPaths(path, setting));
  t.same([...new Set(paths)].sort(), Object.keys(SECRETS).sort(), 'this test knows all of them');
  for (const [path, input] of Object.entries(SECRETS)) {
    const rows = [...documentOf(input).values()];
    t.notMatch(JSON.stringify(rows), /MARK0|ABCDEF0123/i, path);
    const shown = rows.find((row) => row.path === path);
    if (shown !== undefined) t.equal(shown.differs, true, `${path} is said to be set`);
  }
});
