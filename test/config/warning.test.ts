import t from 'tap';
import { resolveSettings } from '../../src/config/load.ts';
import type { SettingsInput } from '../../src/config/settings.ts';
import { findWarnings } from '../../src/config/warning.ts';

const SOUND: SettingsInput = {
  models: { m: { servers: ['http://10.0.0.1:1', 'http://10.0.0.2:1'], apiKey: 'sesame' } },
  keys: { static: [{ key: 'k', account: 'a' }] },
};

function warningsOf(change: SettingsInput): string[] {
  const resolution = resolveSettings({ ...SOUND, ...change });
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return findWarnings(resolution.settings);
}

t.test('a sound configuration has none', async (t) => {
  t.same(warningsOf({}), []);
});

t.test('an open gateway is reported unless only this machine reaches it', async (t) => {
  t.match(warningsOf({ keys: { required: false } }), [/^open gateway: anybody who reaches 0\.0\.0\.0:8080/]);
  t.same(warningsOf({ keys: { required: false }, listen: '127.0.0.1:8080' }), []);
});

t.test('a server URL that ends in /v1 is reported', async (t) => {
  const servers = ['http://10.0.0.1:1/v1', 'http://10.0.0.2:1/', 'http://10.0.0.3:1/v1beta'];
  t.match(warningsOf({ models: { m: { servers } } }), [
    'm: http://10.0.0.1:1/v1 ends in /v1, to which paths such as /v1/chat/completions are added: leave /v1 out',
  ]);
  t.equal(warningsOf({ models: { m: { servers } } }).length, 1);
});

t.test('a setting without effect is reported', async (t) => {
  t.match(warningsOf({ routing: { boundedLoad: 1.25 } }), [
    /^routing\.boundedLoad has no effect: .*routing\.stickiness/,
  ]);
});

t.test('an admin interface that other machines reach is reported', async (t) => {
  t.match(warningsOf({ admin: '0.0.0.0:9090' }), [/^the admin interface on 0\.0\.0\.0:9090/]);
  t.same(warningsOf({ admin: null }), []);
});

t.test('prompts that are kept are reported, and whether anybody can read them', async (t) => {
  const requestLog = { prompts: true };
  t.match(warningsOf({ requestLog }), [
    /^prompts and answers of all clients are kept in memory .*nobody can read them/,
  ]);
  t.match(warningsOf({ requestLog, adminToken: 't' }), [/^prompts and answers .*operators read them$/]);
  t.same(warningsOf({ requestLog: { prompts: true, size: 0 } }), []);
});

t.test('a facilitator or node of a chain that is asked without encryption is reported', async (t) => {
  const payTo = `0x${'1'.repeat(40)}`;
  const payments = { payTo, facilitator: 'http://pay.example/x402', rpc: 'http://node.example/secret' };
  t.match(warningsOf({ payments }), [
    /^payments\.facilitator: its answers cross a public network unencrypted \(pay\.example\)/,
    /^payments\.rpc: its answers cross a public network unencrypted \(node\.example\)/,
  ]);
  t.same(warningsOf({ payments: { payTo, facilitator: 'http://10.0.0.1:1', rpc: 'https://node.example' } }), []);
});

t.test('a web search tool without an engine is reported', async (t) => {
  t.match(warningsOf({ webSearchTool: true }), [/^webSearchTool: no engine of search\.default is configured/]);
  const engines = { engine_b: { kind: 'searxng', url: 'http://127.0.0.1:8888' } };
  t.same(warningsOf({ webSearchTool: true, search: { engines } }), []);
});

t.test('a default of engines that are not there is reported', async (t) => {
  const engines = { engine_x: { kind: 'searxng', url: 'http://127.0.0.1:8888' } };
  t.match(warningsOf({ search: { engines } }), [
    /^search: no engine of search\.default is configured, so a search fails that names none itself/,
  ]);
  t.same(warningsOf({ search: { engines, default: ['engine_x', 'engine_y'] } }), []);
  t.same(warningsOf({}), [], 'there is no search');
});

t.test('a price of an engine that is not there is reported', async (t) => {
  const engines = { engine_b: { kind: 'searxng', url: 'http://127.0.0.1:8888' } };
  t.match(warningsOf({ search: { engines, pricing: { engin_b: '0.005' } } }), [/^search\.pricing: engin_b: no engine/]);
  t.same(warningsOf({ search: { engines, pricing: { engine_b: '0.005' } } }), []);
});

t.test('a gateway that nobody can call is reported', async (t) => {
  t.match(warningsOf({ keys: { required: true }, store: null }), [/^nobody can call/]);
  t.same(warningsOf({ keys: { required: true }, store: 'sqlite::memory:' }), [], 'the store may have keys');
});

t.test(
  'models without servers or without failover are reported, unless discovery or hosts may add servers',
  async (t) => {
    t.match(warningsOf({ models: {} }), [/^nothing to serve/]);
    t.match(warningsOf({ models: { none: {}, one: { servers: ['http://s:1'] } } }), [
      /^none: no server/,
      /^one: one server/,
    ]);
    t.same(warningsOf({ models: { none: {} }, discovery: 'https://map.example/models' }), []);
    for (const models of [{}, { none: {} }]) t.same(warningsOf({ models, trust: { token: 'of-the-hosts' } }), []);
  },
);

t.test('credentials and model maps that cross a public network unencrypted are reported', async (t) => {
  const servers = ['http://gpu.example:1', 'https://gpu.example:2', 'http://[2001:db8::1]:3', 'http://[fd00::1]:4'];
  const warnings = warningsOf({ models: { m: { servers, apiKey: 'sesame' } } });
  t.match(warnings, [/^m: its apiKey .*\(gpu\.example:1\)$/, /\(\[2001:db8::1\]:3\)$/]);
  t.equal(warnings.length, 2);
  t.notMatch(warnings.join(), /sesame/);
  t.same(warningsOf({ models: { m: { servers } } }), [], 'without a credential nothing is exposed');
  const own = [{ url: 'http://gpu.example:1', apiKey: 'sesame' }, 'http://gpu.example:2'];
  t.match(warningsOf({ models: { m: { servers: own } } }), [/^m: its apiKey .*\(gpu\.example:1\)$/]);
  t.match(warningsOf({ discovery: 'http://map.example/m?token=sesame' }), [/^discovery: .*\(map\.example\)$/]);
});

t.test('a probe timeout longer than the interval is reported', async (t) => {
  t.match(warningsOf({ health: { timeout: '6s' } }), [
    /^health\.timeout \(6s\) is longer than health\.interval \(5s\)/,
  ]);
});

t.test('models with the same problem share a warning, which names the first ones', async (t) => {
  const models = Object.fromEntries(Array.from({ length: 4096 }, (_, at) => [`m${at}`, { servers: ['http://a'] }]));
  t.same(warningsOf({ models }), [
    'm0, m1, m2, m3, m4, m5, m6, m7 and 4088 more: one server only, so nothing to fail over to',
  ]);
  t.same(warningsOf({ models: { a: { servers: [] }, b: { servers: [] } } }), [
    'a, b: no server, so every request gets 503',
  ]);
});
