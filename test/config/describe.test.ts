import t from 'tap';
import { explain, helpText, settingsTable } from '../../src/config/describe.ts';
import { loadConfigText, resolveSettings } from '../../src/config/load.ts';
import { MODEL_FIELDS, SETTINGS, type Settings } from '../../src/config/settings.ts';
import { EXAMPLE_ENV, EXAMPLE_YAML } from './example.ts';

function settingsOf(resolution: ReturnType<typeof resolveSettings>): Settings {
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  return resolution.settings;
}

t.test('the table has one line for every setting, the fields of models and keys included', async (t) => {
  const lines = settingsTable().split('\n');
  for (const { path, setting } of SETTINGS) {
    const line = lines.filter((each) => each.startsWith(`| \`${path}\` |`));
    t.equal(line.length, 1, path);
    t.ok(line[0]?.includes(setting.sentence.replaceAll('|', '\\|')), `${path} has its sentence`);
  }
  for (const name of Object.keys(MODEL_FIELDS)) t.ok(settingsTable().includes(`\`models.ID.${name}`), name);
  t.ok(settingsTable().includes('| `keys.static[].key` | string | required |'));
  t.ok(settingsTable().includes('| `models.ID.servers` | list of URL or mapping |'));
  t.ok(settingsTable().includes('| `models.ID.servers[].events.endpoint` | string | required |'));
  const columns = new Set(lines.map((line) => line.replaceAll('\\|', '').split('|').length));
  t.same([...columns], [7], 'every line has the same columns');
});

t.test('the table says type, default with unit, and when a change takes effect', async (t) => {
  t.match(settingsTable(), '| `timeouts.connect` | duration | `3s` | restart |');
  t.match(settingsTable(), '| `admin` | HOST:PORT, null | `127.0.0.1:9090` | restart |');
  t.match(settingsTable(), '| `limits.bodyBytes` | size | `100MiB` | at once |');
  t.match(settingsTable(), '| `threads` | auto, whole number | `auto` | restart |');
});

t.test('the help text names every flag with its default and stays within its width', async (t) => {
  const help = helpText();
  for (const { flag } of SETTINGS) t.ok(help.includes(`${flag} `), flag);
  for (const line of help.split('\n')) t.ok(line.length <= 100, line);
  t.match(help, /^Health probes$/m);
  t.match(help, /^ \*--listen HOST:PORT {2,}Public interface/m);
  t.match(help, '[100MiB]');
  t.match(help, '(trace, debug,');
});

t.test('the explanation lists what the example would run', async (t) => {
  const text = explain(settingsOf(loadConfigText(EXAMPLE_YAML, 'x.yaml', EXAMPLE_ENV)), 'x.yaml');
  t.match(text, /^headrace with x\.yaml\n/);
  t.match(text, /public +http:\/\/0\.0\.0\.0:8080/);
  t.match(text, /admin +http:\/\/127\.0\.0\.1:9090/);
  t.match(text, /keys +required, 1 static key of 1 account/);
  t.match(text, /probes +GET \/health every 5s, up after 1 good, down after 2 bad/);
  t.match(text, '2 models on 3 servers');
  t.match(text, /atlas-27b +http:\/\/127\.0\.0\.1:9001, http:\/\/127\.0\.0\.1:9002 \(chat, tools, vision\)/);
  t.match(text, /^Not the default\n {2}search\.pricing +engine_a \(default \{\}\)\n\n/m);
  t.match(text, 'Embed-1.5: one server only');
});

t.test('the explanation says where everything has its default', async (t) => {
  t.match(explain(settingsOf(resolveSettings({}))), 'Every setting has its default.');
});

t.test('the explanation says which servers publish KV events', async (t) => {
  const servers = ['http://a:1', { url: 'http://b:1', events: 'tcp://b:5557' }];
  t.match(
    explain(settingsOf(resolveSettings({ models: { m: { servers } } }))),
    'm  http://a:1, http://b:1 with KV events\n',
  );
});

t.test('the explanation says what a server speaks, its weight, that it has a credential, and aliases', async (t) => {
  const server = { url: 'http://b:1', dialects: ['chat', 'messages'], apiKey: 'sesame', weight: 2 };
  const model = { servers: ['http://a:1', server], dialects: 'auto', aliases: ['gpt-5', 'sonnet'], apiKey: 'sesame' };
  const text = explain(settingsOf(resolveSettings({ models: { m: model } })));
  const second = 'http://b:1 with own credential and weight 2 and dialects chat/messages';
  t.match(text, `m  http://a:1, ${second} (own credential, dialects found out, also gpt-5, sonnet)\n`);
  t.notMatch(text, 'sesame');
});

t.test('the explanation lists what differs from the defaults, as it would be written', async (t) => {
  const settings = settingsOf(
    resolveSettings({
      admin: null,
      timeouts: { idle: '2m' },
      limits: { bodyBytes: 1_048_576 },
      listen: '[::1]:80',
      cors: { origins: ['https://a.example'] },
      discovery: 'https://map.example/models?token=sesame',
      threads: 0,
    }),
  );
  const text = explain(settings);
  t.match(text, /admin +null \(default 127\.0\.0\.1:9090\)/);
  t.match(text, /timeouts\.idle +2m \(default 60s\)/);
  t.match(text, /limits\.bodyBytes +1MiB \(default 100MiB\)/);
  t.match(text, /listen +\[::1\]:80 \(default 0\.0\.0\.0:8080\)/);
  t.match(text, /cors\.origins +\["https:\/\/a\.example"\] \(default \["\*"\]\)/);
  t.match(text, /admin +off/);
  t.match(text, /discovery +https:\/\/map\.example\/models\?… every 30s/);
  t.notMatch(text, /sesame/, 'a query may hold a token');
});

t.test('the explanation says which secrets are set, and what mappings name', async (t) => {
  const text = explain(
    settingsOf(
      resolveSettings({
        adminToken: 'sesame-operator-sesame-operator-01',
        cluster: { url: 'redis://:sesame@valkey:6379' },
        telemetry: { otlp: { headers: { authorization: 'sesame' } } },
        search: { engines: { engine_a: { kind: 'wikipedia' } }, pricing: { engine_a: '0.005' } },
      }),
    ),
  );
  t.match(text, /adminToken +set \(default null\)/);
  t.match(text, /cluster\.url +set \(default null\)/);
  t.match(text, /telemetry\.otlp\.headers +authorization \(default \{\}\)/);
  t.match(text, /search\.pricing +engine_a \(default \{\}\)/);
  t.notMatch(text, /sesame/);
});

t.test('no key or credential is ever printed', async (t) => {
  const models = { m: { servers: ['http://gpu.example:1'], apiKey: 'sesame-upstream' }, e: {} };
  const text = explain(
    settingsOf(resolveSettings({ models, keys: { static: [{ key: 'sesame-client', account: 'a' }] } })),
  );
  t.match(text, '(own credential)');
  t.match(text, /e +no server/);
  t.notMatch(text, /sesame/);
});
