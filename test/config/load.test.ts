import { deepStrictEqual as deepEqual } from 'node:assert';
import { join, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import t from 'tap';
import * as fc from 'fast-check';
import { stringify } from 'yaml';
import {
  expandVariables,
  loadConfigFile,
  loadConfigText,
  parseConfigText,
  resolveSetting,
  resolveSettings,
  type Mistake,
  type Resolution,
} from '../../src/config/load.ts';
import { SETTINGS } from '../../src/config/settings.ts';
import { configuredKeys } from '../../src/gateway/snapshot.ts';
import { EXAMPLE_ENV, EXAMPLE_YAML } from './example.ts';
import { ARBITRARY_FILES, fileOf, SETTING_VALUES, TYPED_FILES } from './files.ts';
import { LONG } from '../support/long.ts';

type Fields = Readonly<Record<string, unknown>>;

function mistakesOf(input: unknown, env: Record<string, string> = {}): readonly Mistake[] {
  const resolution = resolveSettings(input, env);
  return 'mistakes' in resolution ? resolution.mistakes : [];
}

t.test('the example loads completely', async (t) => {
  const resolution = loadConfigText(EXAMPLE_YAML, 'example.yaml', EXAMPLE_ENV);
  t.match(resolution, {
    settings: {
      models: {
        'atlas-27b': {
          servers: [{ url: 'http://127.0.0.1:9001' }, { url: 'http://127.0.0.1:9002' }],
          contextLength: 131_072,
          huggingFaceId: 'acme/Atlas-27B',
          tee: false,
          capabilities: ['chat', 'tools', 'vision'],
          pricing: { prompt: '0.25', completion: '1.50' },
        },
        'Embed-1.5': { servers: [{ url: 'https://embed.example/base' }] },
      },
      keys: { required: true, static: [{ key: 'hr_example_client_key', account: 'demo' }] },
      fetch: { timeoutMs: 15_000, maxBytes: 10_000_000, allow: [] },
      store: 'sqlite:./headrace.db',
    },
  });
  if ('settings' in resolution) t.same(Object.keys(resolution.settings.models['Embed-1.5'] ?? {}), ['servers']);
});

t.test('settings are frozen at every depth', async (t) => {
  const resolution = loadConfigText(EXAMPLE_YAML, 'example.yaml', EXAMPLE_ENV);
  if ('mistakes' in resolution) throw new Error('the example has mistakes');
  const { settings } = resolution;
  for (const part of [settings, settings.models, settings.models['atlas-27b']?.servers, settings.keys.static[0]]) {
    t.ok(Object.isFrozen(part));
  }
});

t.test(
  'paths of engines and files of keys begin at the folder of the file, in a variable at the working folder',
  (t) => {
    const pathsOf = (resolution: Resolution): unknown[] =>
      'settings' in resolution
        ? Object.values(resolution.settings.search.engines).map((engine) => (engine as { path: string }).path)
        : [resolution.mistakes];
    const entries =
      '{ a: { kind: local, path: ./texts }, b: { kind: module, path: b.js }, c: { kind: local, path: /c } }';
    const file = '/etc/headrace/headrace.yaml';
    t.same(pathsOf(loadConfigText(`search: { engines: ${entries} }`, file)), [
      '/etc/headrace/texts',
      '/etc/headrace/b.js',
      '/c',
    ]);
    const [local] = pathsOf(
      loadConfigText('', file, { HEADRACE_SEARCH_ENGINES: '{"a":{"kind":"local","path":"./texts"}}' }),
    );
    t.equal(local, resolve('texts'));
    const trust = 'trust: { signingKey: "file:signing.pem", file: ./keys.json }';
    const keys = { signingKey: 'file:/etc/headrace/signing.pem', file: '/etc/headrace/keys.json' };
    t.match(loadConfigText(trust, file), { settings: { trust: keys } });
    t.match(loadConfigText(trust, file, { HEADRACE_TRUST_FILE: 'keys.json' }), {
      settings: { trust: { ...keys, file: 'keys.json' } },
    });
    t.end();
  },
);

t.test('sections and lists whose entries are commented out have their defaults', async (t) => {
  const empty = loadConfigText('health:\nmodels:\nkeys:\n  static:\n', 'x.yaml');
  t.same(empty, resolveSettings({}));
  t.same(loadConfigText('# nothing\n', 'x.yaml'), resolveSettings({}));
});

t.test('all mistakes are reported at once, by path', async (t) => {
  const input = {
    listen: 'nowhere',
    admin: 'nowhere',
    threads: 'some',
    publicScheme: 'ftp',
    servicePrefix: 'a/b',
    ownedBy: 7,
    serverTiming: 'yes',
    models: {
      'm-1.5': { servers: ['gpu1:1', 'http://u:p@gpu1', 'http://gpu1/#x', 'http://gpu1/?q=1'], context_length: 0 },
      n: { servers: 'http://gpu1', capabilities: ['dance'], pricing: { prompt: '1e-7' }, apiKey: 'a b' },
    },
    health: { interval: 'soon', path: 'health', rise: 1.5 },
    ejection: { errorRate: 2 },
    credit: { flush: '61s' },
    timeouts: [],
    limits: { bodyBytes: '1 pile', headerBytes: 10 },
    cors: { origins: ['example.org'] },
    keys: { static: [{ key: 'k' }, 'k'] },
  };
  t.same(
    mistakesOf(input).map(({ path, message }) => `${path} ${message}`),
    [
      'listen must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080',
      'admin must be HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080, or null',
      'threads must be auto or a whole number',
      'servicePrefix must be one segment of a path, such as "svc"',
      'publicScheme must be one of http, https',
      'ownedBy must be a string; put it in quotes',
      'serverTiming must be true or false',
      'models["m-1.5"].servers[0] must be a URL that begins with http:// or https://',
      'models["m-1.5"].servers[1] must not carry a user name or password',
      'models["m-1.5"].servers[2] must not carry a fragment (#)',
      'models["m-1.5"].servers[3] must be a base URL without a query (?)',
      'models["m-1.5"].context_length must be at least 1',
      'models.n.servers must be a list',
      'models.n.capabilities[0] must be one of chat, completion, vision, tools, reasoning, embedding, image, audio',
      'models.n.pricing.prompt must be a plain decimal number in quotes, such as "0.25"',
      'models.n.pricing.completion is required',
      'models.n.apiKey must be visible ASCII characters without spaces',
      'health.interval must be a duration, such as 250ms, 5s or 2m',
      'health.path must be a path that begins with /',
      'health.rise must be a whole number',
      'ejection.errorRate must be at most 1',
      'timeouts must be a mapping of names to values',
      'limits.bodyBytes must be a size, such as 64KiB, 10MB or 1GiB',
      'limits.headerBytes must be at least 1KiB',
      'cors.origins[0] must be "*" or an origin, such as "https://app.example"',
      'keys.static[0].account is required',
      'keys.static[1] must be a mapping of names to values',
      'credit.flush must be at most 1m',
    ],
  );
});

t.test('an address block is an address or a CIDR block of either family', async (t) => {
  const good = ['127.0.0.1', '10.0.0.0/8', '0.0.0.0/0', '::1', 'fd00::/8', '::ffff:10.0.0.0/104', '2001:db8::/128'];
  t.match(resolveSettings({ trustedProxies: good }), { settings: { trustedProxies: good } });
  const bad = [
    '10.0.0.0/33',
    '::/129',
    '10.0.0/8',
    '300.0.0.1',
    'proxy.example',
    '',
    '/8',
    '10.0.0.0/',
    '::1/8/8',
    'fe80::1%eth0',
    1,
  ];
  const mistakes = mistakesOf({ trustedProxies: bad });
  t.same(
    mistakes.map(({ path }) => path),
    bad.map((_, index) => `trustedProxies[${index}]`),
  );
  t.equal(mistakes[0]?.message, 'must be an IP address or a CIDR block, such as "10.0.0.0/8" or "fd00::/8"');
});

t.test('limits of keys fit into the memory that counts them', async (t) => {
  for (const name of ['running', 'rpm', 'tpm']) {
    t.same(mistakesOf({ keys: { static: [{ key: 'k', account: 'a', [name]: 2 ** 32 }] } }), [
      { path: `keys.static[0].${name}`, message: 'must be at most 1000000000' },
    ]);
  }
});

t.test('headers have names that can be sent', async (t) => {
  const message = 'holds a name that no header may have here';
  for (const name of ['', 'x key', 'authorization:', 'x\r\ny', 'ключ', 'Host', 'content-length']) {
    t.same(mistakesOf({ telemetry: { otlp: { headers: { ok: 'a', [name]: 'a' } } } }), [
      { path: 'telemetry.otlp.headers', message },
    ]);
    t.same(mistakesOf({ payments: { facilitatorHeaders: { [name]: 'a' } } }), [
      { path: 'payments.facilitatorHeaders', message },
    ]);
  }
  t.same(mistakesOf({ telemetry: { otlp: { headers: { 'X-Api_Key': 'a', Authorization: 'Bearer a' } } } }), []);
});

t.test('values of the wrong kind are mistakes at every level', async (t) => {
  t.same(mistakesOf([1]), [{ path: '(root)', message: 'must be a mapping of names to values' }]);
  t.same(mistakesOf('listen'), [{ path: '(root)', message: 'must be a mapping of names to values' }]);
  t.match(mistakesOf({ models: [] }), [{ path: 'models', message: 'must be a mapping of names to values' }]);
  t.match(mistakesOf({ ownedBy: ' ' }), [{ path: 'ownedBy', message: 'must not be empty' }]);
  t.match(mistakesOf({ ownedBy: [] }), [{ path: 'ownedBy', message: 'must be a string' }]);
  t.match(mistakesOf({ listen: null }), [{ path: 'listen' }]);
  t.match(mistakesOf({ timeouts: { idle: '25d' } }), [{ path: 'timeouts.idle', message: 'must be at most 24d' }]);
  t.match(
    mistakesOf({ models: { m: { created: 1_700_000_000_000 } } }),
    [{ path: 'models.m.created', message: 'must be at most 253402300799' }],
    'milliseconds',
  );
});

t.test('an unknown name is reported with the nearest known one, or with the section that has it', async (t) => {
  const input = { lisen: 1, frobnicate: 1, idle: '5s', health: { intervall: 1 }, models: { m: { server: [] } } };
  t.same(mistakesOf(input), [
    { path: 'models.m.server', message: 'is unknown; did you mean servers?' },
    { path: 'health.intervall', message: 'is unknown; did you mean interval?' },
    { path: 'lisen', message: 'is unknown; did you mean listen?' },
    { path: 'frobnicate', message: 'is unknown' },
    { path: 'idle', message: 'is unknown; did you mean timeouts.idle?' },
  ]);
});

t.test('a setting without effect is taken in files that have it', async (t) => {
  t.same(mistakesOf({ routing: { affinity: true, boundedLoad: 1.25, retryBudget: 0.2 } }), []);
  t.match(mistakesOf({ routing: { boundedLoad: 'much' } }), [{ path: 'routing.boundedLoad' }]);
});

t.test('settings that are right alone and wrong together are mistakes', async (t) => {
  const repeated = { key: 'k', account: 'a' };
  t.match(mistakesOf({ admin: '0.0.0.0:8080' }), [{ path: 'admin', message: 'must not take the port of listen' }]);
  t.same(mistakesOf({ listen: '127.0.0.1:1', admin: '127.0.0.2:1' }), []);
  t.same(mistakesOf({ listen: '127.0.0.1:0', admin: '127.0.0.1:0' }), []);
  t.match(mistakesOf({ listingPrefix: 'svc' }), [{ path: 'listingPrefix' }]);
  t.match(mistakesOf({ servicePrefix: 'v1' }), [{ path: 'servicePrefix' }]);
  for (const dots of ['.', '..']) t.match(mistakesOf({ listingPrefix: dots }), [{ path: 'listingPrefix' }]);
  t.match(mistakesOf({ ejection: { backoff: '2m' } }), [{ path: 'ejection.backoff' }]);
  t.match(mistakesOf({ limits: { bodyBytes: '2GiB' } }), [{ path: 'limits.bodyBytes' }]);
  t.match(mistakesOf({ limits: { heldEventBytes: '2GiB' } }), [{ path: 'limits.heldEventBytes' }]);
  t.match(mistakesOf({ models: { Atlas: {}, atlas: {} } }), [{ path: 'models', message: /^holds atlas twice/ }]);
  t.match(mistakesOf({ models: { '': {} } }), [{ path: 'models', message: 'holds a model without an id' }]);
  t.match(mistakesOf({ models: { 'm.1': { servers: ['http://a/', 'http://a'] } } }), [
    { path: 'models["m.1"].servers[1]', message: 'is listed before' },
  ]);
  t.same(mistakesOf({ models: { A: { aliases: ['x', 'a', 'X'] }, b: { aliases: ['y', 'x', 'A'] } } }), [
    { path: 'models.A.aliases[1]', message: 'is the id of a model; upper and lower case are the same' },
    { path: 'models.A.aliases[2]', message: 'is an alias already; upper and lower case are the same' },
    { path: 'models.b.aliases[1]', message: 'is an alias already; upper and lower case are the same' },
    { path: 'models.b.aliases[2]', message: 'is the id of a model; upper and lower case are the same' },
  ]);
  t.match(mistakesOf({ keys: { static: [repeated, repeated] } }), [{ path: 'keys.static[1].key' }]);
  const adminTokens = [
    { name: 'ann', role: 'owner', sha256: 'a'.repeat(64) },
    { name: 'ann', role: 'viewer', sha256: 'A'.repeat(64) },
  ];
  t.same(mistakesOf({ adminTokens }), [{ path: 'adminTokens[1].sha256', message: 'is listed before' }]);
  t.same(mistakesOf({ store: null, keys: { static: [repeated, { ...repeated, key: 'l', rpm: 5 }] } }), [
    { path: 'keys.static[1]', message: 'has limits, which need a store' },
  ]);
});

t.test('conflicts are told together with what is wrong alone, but for those that a right value may end', async (t) => {
  const pathsOf = (...given: Parameters<typeof mistakesOf>): string[] => mistakesOf(...given).map(({ path }) => path);
  const input = {
    timeouts: { idle: '5' },
    listingPrefix: 'svc',
    models: {
      m: { servers: ['http://a', 'http://a'] },
      n: { servers: 'http://b', aliases: ['m'] },
      o: { aliases: ['m'] },
    },
    keys: {
      static: [
        { key: 'k', account: 'a' },
        { key: 'k', account: 'b' },
      ],
    },
    payments: { facilitator: 'http://f' },
  };
  t.same(pathsOf(input), [
    'models.n.servers',
    'timeouts.idle',
    'listingPrefix',
    'payments.payTo',
    'models.m.servers[1]',
    'models.o.aliases[0]',
    'keys.static[1].key',
  ]);
  t.same(pathsOf({ listen: 'x', admin: '0.0.0.0:8080' }), ['listen']);
  t.same(pathsOf({ servicePrefix: '/', listingPrefix: 'svc' }), ['servicePrefix']);
  t.same(pathsOf({ ejection: { backoff: '20s', backoffMax: '1' } }), ['ejection.backoffMax']);
  t.same(pathsOf({ limits: { bodyBytes: '2GiB', bufferedBytes: 'x' } }), ['limits.bufferedBytes']);
  t.same(pathsOf({ payments: { facilitator: 'http://f', payTo: 'x' } }), ['payments.payTo']);
  t.same(pathsOf({ payments: { facilitator: 'f', payTo: `0x${'1'.repeat(40)}` } }), ['payments.facilitator']);
  t.same(pathsOf({ keys: { static: [{ key: 'k', account: 'a', rpm: 'x' }] }, store: null }), ['keys.static[0].rpm']);
  t.same(pathsOf({ idle: 1, listen: ':', admin: '127.0.0.1:1' }, { HEADRACE_LISTEN: '127.0.0.1:1' }), [
    'listen',
    'idle',
    'admin',
  ]);
  t.same(pathsOf({ idle: 1, admin: '127.0.0.1:1' }, { HEADRACE_LISTEN: 'x' }), ['idle', 'HEADRACE_LISTEN']);
});

t.test('variables are expanded in every string', async (t) => {
  const input = {
    threads: '${N}',
    models: { m: { servers: ['http://${HOST}:1'], apiKey: '${KEY}' } },
    keys: { static: [{ key: '$${KEY}', account: '${KEY}' }] },
  };
  t.match(resolveSettings(input, { N: '4', HOST: 'gpu1', KEY: 'sesame' }), {
    settings: {
      threads: 4,
      models: { m: { servers: [{ url: 'http://gpu1:1' }], apiKey: 'sesame' } },
      keys: { static: [{ key: '${KEY}', account: 'sesame' }] },
    },
  });
  t.match(mistakesOf(input, { N: '4', KEY: 'sesame' }), [
    { path: 'models.m.servers[0]', message: 'names the environment variable HOST, which is not set' },
  ]);
});

t.test('a variable in a name, which would stay there, is a mistake', async (t) => {
  const message = 'has a variable in its name, where none is replaced: write the name itself';
  const input = {
    models: { '${MODEL}': { servers: ['http://h'] }, '$${M}': null },
    search: { engines: { a: { '${NAME}': 1 } }, pricing: { 'e-${N}': '1' } },
  };
  t.same(mistakesOf(input, { MODEL: 'm', NAME: 'kind', N: '1' }), [
    { path: 'models["${MODEL}"]', message },
    { path: 'models["$${M}"]', message },
    { path: 'search.engines.a["${NAME}"]', message },
    { path: 'search.pricing["e-${N}"]', message },
  ]);
});

t.test('a list or mapping that contains itself is a mistake', async (t) => {
  t.same(loadConfigText('search: { engines: { x: &a { y: [*a] } } }', 'x.yaml'), {
    mistakes: [{ path: 'search.engines.x.y[0]', message: 'must not contain itself' }],
  });
  t.same(loadConfigText('cors: { origins: &a [*a] }', 'x.yaml'), {
    mistakes: [{ path: 'cors.origins[0]', message: 'must not contain itself' }],
  });
  t.same(loadConfigText('other: &a [*a]', 'x.yaml'), { mistakes: [{ path: 'other', message: 'is unknown' }] });
  t.same(resolveSettings({}, {}, { 'search.engines': '{ "x": &a { "y": *a } }' }), {
    mistakes: [{ path: '--search.engines', message: 'must be JSON' }],
  });
});

t.test('the name __proto__, which no mapping of settings can have, is a mistake', async (t) => {
  const mistakes = [{ path: 'models', message: 'may have no name __proto__' }];
  for (const name of ['x.json', 'x.yaml'])
    t.same(loadConfigText('{ "models": { "__proto__": { "servers": "http://a:1" } } }', name), { mistakes }, name);
});

t.test('a duration without a unit is refused in the file, in the environment and on the command line', async (t) => {
  const message = 'has no unit: write 60s for seconds or 60ms for milliseconds';
  t.same(mistakesOf({ timeouts: { idle: 60 } }), [{ path: 'timeouts.idle', message }]);
  t.same(mistakesOf({ timeouts: { firstByte: '60' } }), [
    { path: 'timeouts.firstByte', message: `${message}, or null` },
  ]);
  t.same(mistakesOf({}, { HEADRACE_TIMEOUTS_IDLE: '60' }), [{ path: 'HEADRACE_TIMEOUTS_IDLE', message }]);
  t.same(resolveSettings({}, {}, { 'timeouts.idle': '60' }), { mistakes: [{ path: '--timeouts.idle', message }] });
  t.match(resolveSettings({ ejection: { slowStart: 0 } }), { settings: { ejection: { slowStartMs: 0 } } });
});

t.test('charges can be kept for years', async (t) => {
  t.match(resolveSettings({ retention: { charges: '400d' } }), {
    settings: { retention: { chargesMs: 400 * 86_400_000 } },
  });
});

t.test('mistakes never repeat a value', async (t) => {
  const inputs = [
    { keys: { static: [{ key: 'sesame open', account: 1 }, { 'sesame-1': 'demo' }, ['sesame']] } },
    { keys: { static: 'sesame' }, models: { m: { apiKey: ['sesame'], servers: ['http://u:sesame@h', 'sesame'] } } },
    { listen: 'sesame', threads: 'sesame', publicScheme: 'sesame', limits: { bodyBytes: 'sesame' } },
    {
      keys: {
        static: [
          { key: 'sesame', account: 'a' },
          { key: 'sesame', account: 'b' },
        ],
      },
    },
  ];
  for (const input of inputs) {
    const mistakes = mistakesOf(input);
    t.ok(mistakes.length > 0);
    t.notMatch(JSON.stringify(mistakes), /sesame/);
  }
  for (const text of ['key: "sesame', 'key: @sesame', 'a: sesame: b', '- sesame\nsesame', '{"key": sesame"']) {
    const parsed = parseConfigText(text, 'x.yaml');
    t.ok('mistakes' in parsed, text);
    t.notMatch(JSON.stringify(parsed), /sesame/);
  }
});

t.test('a template that was not filled in is a mistake, and nothing quotes it', async (t) => {
  const warnings: string[] = [];
  const note = ({ message }: Error): void => void warnings.push(message);
  process.on('warning', note);
  const message = 'is a mapping or list in the place of a name, as of a template that was not filled in';
  for (const text of ['adminToken: {{ sesame }}', 'models:   { [sesame]: {} }', 'models:\n  ? {a: b}\n  : {}'])
    t.match(loadConfigText(text, 'x.yaml'), { mistakes: [{ path: /^x\.yaml:\d:\d+$/, message }] });
  t.same(parseConfigText('adminToken: {{ sesame }}', 'x.yaml'), { mistakes: [{ path: 'x.yaml:1:14', message }] });
  await new Promise((resolve) => void setImmediate(resolve));
  process.off('warning', note);
  t.same(warnings, []);
});

t.test('a name is found again in each section, among as many as there are', async (t) => {
  const message = 'repeats a name of the same section';
  t.same(parseConfigText('a: { b: 1, c: 2, b: 3 }\n"d": 4\nd: { b: 5 }', 'x.yaml'), {
    mistakes: [
      { path: 'x.yaml:1:18', message },
      { path: 'x.yaml:3:1', message },
    ],
  });
  t.same(parseConfigText('models:\n  7: { servers: [] }\n  "7": { servers: [] }\n  0x7: {}', 'x.yaml'), {
    mistakes: [
      { path: 'x.yaml:3:3', message },
      { path: 'x.yaml:4:3', message },
    ],
  });
  const names = Array.from({ length: 30_000 }, (_, at) => `  m${at}: { servers: [http://127.0.0.1:${at + 1}] }`);
  const { user } = process.cpuUsage();
  const loaded = loadConfigText(['models:', ...names].join('\n'), 'x.yaml');
  const seconds = process.cpuUsage({ user, system: 0 }).user / 1e6;
  t.ok('settings' in loaded);
  // With each pair of names compared it takes ten times as long as now.
  t.ok(seconds < 8, `${seconds} s`);
});

t.test('syntax errors carry file, line and column', async (t) => {
  t.same(parseConfigText('listen: 1\n\tadmin: 2', 'x.yaml'), {
    mistakes: [{ path: 'x.yaml:2:1', message: 'is indented with a tab; use spaces' }],
  });
  t.same(parseConfigText('a: 1\nb: 2\na: 3', 'x.yaml'), {
    mistakes: [{ path: 'x.yaml:3:1', message: 'repeats a name of the same section' }],
  });
  t.match(parseConfigText('{"a": [1, 2', 'x.json'), { mistakes: [{ path: /^x\.json:1:\d+$/ }] });
  t.match(parseConfigText('store: sqlite::memory:', 'x.yaml'), {
    mistakes: [{ path: 'x.yaml:1:8', message: /colon in its value: put quotes around the value/ }],
  });
  t.match(parseConfigText('a: { store: sqlite::memory: }', 'x.yaml'), {
    mistakes: [{ message: /^has a colon in a value/ }],
  });
  t.match(parseConfigText('a: &b &c d', 'x.yaml'), { mistakes: [{ message: 'is not valid YAML or JSON here' }] });
  t.match(parseConfigText('a: *b', 'x.yaml'), { mistakes: [{ path: 'x.yaml', message: /^holds an alias/ }] });
  t.match(loadConfigText('a: 1\n---\na: 2', 'x.yaml'), { mistakes: [{ message: /^begins a second document/ }] });
});

t.test('the address of a wallet needs no quotes', async (t) => {
  const payTo = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C';
  t.same(parseConfigText(`payments: { payTo: ${payTo}, n: 0x12 }`, 'x.yaml'), {
    input: { payments: { payTo, n: 18 } },
  });
});

t.test('a file called JSON is read as JSON', async (t) => {
  t.same(parseConfigText('{\n\t"threads": 2\n}', 'x.json'), { input: { threads: 2 } });
  t.match(parseConfigText('{"threads": }', 'x.json'), {
    mistakes: [{ path: 'x.json:1:13', message: 'is not valid JSON here' }],
  });
  t.match(parseConfigText('{\n  "models": { "😀": [1,] }\n}', 'x.json'), { mistakes: [{ path: 'x.json:2:24' }] });
  t.same(parseConfigText('', 'x.json'), { input: {} });
});

t.test('a mark of the byte order is no part of the text; UTF-16 is named', async (t) => {
  for (const name of ['x.json', 'x.yaml']) {
    t.same(parseConfigText('\uFEFF{"threads": 2}', name), { input: { threads: 2 } });
    t.same(parseConfigText(Buffer.from('\uFEFFthreads: 2', 'utf16le').toString(), name), {
      mistakes: [{ path: `${name}:1:1`, message: 'is not text in UTF-8' }],
    });
  }
});

t.test('a file in another encoding is a mistake: a key would silently be another one', async (t) => {
  t.same(parseConfigText(Buffer.from('threads: 2\nownedBy: caf\xe9\n', 'latin1').toString(), 'x.yaml'), {
    mistakes: [{ path: 'x.yaml:2:13', message: 'is not text in UTF-8' }],
  });
});

t.test('a mistake at one place is said once', async (t) => {
  const { mistakes } = parseConfigText('models: { m: { servers: [http://a:1 }\n', 'x.yaml') as { mistakes: Mistake[] };
  t.equal(new Set(mistakes.map(({ path, message }) => path + message)).size, mistakes.length);
});

t.test('a file is loaded, and one that cannot be read is a mistake', async (t) => {
  const directory = t.testdir({ 'good.yaml': 'threads: 1\nstore: null\n', 'bad.yaml': 'threads: [' });
  const good = await loadConfigFile(join(directory, 'good.yaml'), { HEADRACE_LOG_LEVEL: 'warn' }, { threads: '2' });
  t.match(good, { settings: { threads: 2, log: { level: 'warn' } } });
  t.match(await loadConfigFile(join(directory, 'bad.yaml')), { mistakes: [{ path: /bad\.yaml:1:\d+$/ }] });
  t.match(await loadConfigFile(join(directory, 'none.yaml')), { mistakes: [{ message: 'does not exist' }] });
  t.match(await loadConfigFile(directory), { mistakes: [{ path: directory, message: 'cannot be read (EISDIR)' }] });
});

t.test('any settings, right or wrong, resolve the same as object, YAML and JSON', async (t) => {
  let resolved = 0;
  fc.assert(
    fc.property(TYPED_FILES, (file) => {
      // In a file it is taken for bytes that are no UTF-8.
      fc.pre(!JSON.stringify(file).includes('\uFFFD'));
      const direct = resolveSettings(file);
      const yaml = loadConfigText(stringify(file), 'x.yaml');
      const json = loadConfigText(JSON.stringify(file), 'x.json');
      if ('settings' in direct) resolved += 1;
      const wanted = JSON.stringify(direct);
      return JSON.stringify(yaml) === wanted && JSON.stringify(json) === wanted;
    }),
    { numRuns: LONG ? 500 : 150 },
  );
  t.ok(resolved > 0, `${resolved} were right`);
});

t.test('every setting can be set to something else than its default, by itself', async (t) => {
  for (const [path, values] of SETTING_VALUES) {
    const { fallback } = SETTINGS.find((setting) => setting.path === path)?.setting ?? {};
    const samples = fc.sample(values, { numRuns: 60, seed: 1 });
    const mistakes = new Set<string>();
    const isSet = samples.some((value) => {
      if (isDeepStrictEqual(value, fallback)) return false;
      const found = mistakesOf(fileOf({ [path]: value }));
      for (const { message } of found) mistakes.add(message);
      return found.every((mistake) => !mistake.path.startsWith(path));
    });
    t.ok(isSet || samples.every((value) => isDeepStrictEqual(value, fallback)), `${path}: ${[...mistakes].join('; ')}`);
  }
});

t.test('amounts of money are bounded by what can be charged', async (t) => {
  const limited = (monthly: string): unknown => ({ keys: { static: [{ key: 'k', account: 'a', monthly }] } });
  const resolution = resolveSettings(limited('1000000'));
  if ('mistakes' in resolution) throw new Error('a limit may be larger than a charge');
  t.match(configuredKeys(resolution.settings), [{ limits: { monthlySpend: '1000000000000000000' } }]);
  t.match(mistakesOf(limited('99999999')), [{ path: 'keys.static[0].monthly', message: 'must be at most 9999999' }]);
  t.match(mistakesOf({ fetch: { price: '9001' } }), [{ path: 'fetch.price', message: 'must be at most 9000' }]);
});

t.test('anything at all gives settings or mistakes, each with a path and a message', async () => {
  fc.assert(
    fc.property(ARBITRARY_FILES, (file) => {
      const resolution = resolveSettings(file);
      if ('settings' in resolution) return Object.isFrozen(resolution.settings);
      return (
        resolution.mistakes.length > 0 &&
        resolution.mistakes.every(({ path, message }) => path !== '' && message !== '' && message !== 'Invalid input')
      );
    }),
    { numRuns: 500 },
  );
});

t.test('any text in variables and flags gives settings, conflicts or mistakes under their names', async () => {
  const texts = fc.array(fc.tuple(fc.constantFrom(...SETTINGS), fc.string()), { maxLength: 5 });
  fc.assert(
    fc.property(texts, texts, (variables, flags) => {
      const resolution = resolveSettings(
        {},
        Object.fromEntries(variables.map(([{ env }, text]) => [env, text])),
        Object.fromEntries(flags.map(([{ path }, text]) => [path, text])),
      );
      if ('settings' in resolution) return true;
      const labels = [...variables.map(([{ env }]) => env), ...flags.map(([{ flag }]) => flag)];
      const isConflict = (place: string): boolean => SETTINGS.some(({ path }) => path === place);
      const isWritten = (place: string): boolean => labels.some((label) => place.startsWith(label));
      return resolution.mistakes.every(({ path }) => isConflict(path) || isWritten(path));
    }),
    { numRuns: 300 },
  );
});

t.test('a value from a flag or the environment resolves as the same value in a file', async () => {
  fc.assert(
    fc.property(TYPED_FILES, (file) => {
      if ('mistakes' in resolveSettings(file)) return;
      for (const { path, env } of SETTINGS) {
        const value = path.split('.').reduce<unknown>((section, name) => (section as Fields | undefined)?.[name], file);
        // Null is empty in a file only: an empty flag is a mistake.
        if (value === undefined || value === null) continue;
        const text = typeof value === 'string' ? value : JSON.stringify(value);
        const wanted = resolveSetting(path, file, {}, {});
        deepEqual(resolveSetting(path, {}, {}, { [path]: text }), wanted);
        deepEqual(resolveSetting(path, {}, { [env]: text }, {}), wanted);
      }
    }),
    { numRuns: 100 },
  );
});

t.test('one setting is resolved whatever is wrong with the others', async (t) => {
  const input = { store: 'sqlite:${DIR}/a.db', threads: 'many', lisen: 1 };
  const env = { DIR: '/data', HEADRACE_THREADS: 'many', HEADRACE_LISTN: '1' };
  t.same(resolveSetting('store', input, env, {}), { value: 'sqlite:/data/a.db' });
  t.same(resolveSetting('store', {}, {}, {}), { value: 'sqlite:./headrace.db' });
  t.same(resolveSetting('store', input, { ...env, HEADRACE_STORE: 'sqlite:b' }, { store: 'sqlite:c' }), {
    value: 'sqlite:c',
  });
  t.same(resolveSetting('timeouts.idle', { timeouts: { idle: '2s' } }, {}, {}), { value: 2000 });
  t.same(resolveSetting('store', { store: null }, {}, {}), { value: null });
  t.same(resolveSetting('store', input, {}, { store: 'mysql:' }), {
    mistakes: [
      { path: 'store', message: 'names the environment variable DIR, which is not set' },
      {
        path: '--store',
        message:
          'must be sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE, with / # ? % in a password as %2F %23 %3F %25, or null',
      },
    ],
  });
  t.throws(() => resolveSetting('stores', {}, {}, {}), /no setting stores/);
});

t.test('variables are expanded in a file of which the settings are checked elsewhere', async (t) => {
  const input = { apiKey: '${KEY}', nested: [{ 'a.b': '${ONE} ${TWO}' }] };
  t.same(expandVariables(input, { KEY: 'k', ONE: '1', TWO: '2' }), {
    value: { apiKey: 'k', nested: [{ 'a.b': '1 2' }] },
  });
  t.same(expandVariables(input, { KEY: 'k' }), {
    mistakes: [
      { path: 'nested[0]["a.b"]', message: 'names the environment variable ONE, which is not set' },
      { path: 'nested[0]["a.b"]', message: 'names the environment variable TWO, which is not set' },
    ],
  });
});
