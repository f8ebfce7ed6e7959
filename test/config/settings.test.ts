import t from 'tap';
import { resolveSettings } from '../../src/config/load.ts';
import { envName, MODEL_FIELDS, SETTINGS, type Settings, type SettingsInput } from '../../src/config/settings.ts';
import { resolvedName } from '../../src/config/value-types.ts';

/** The documented defaults. */
const DEFAULTS: Settings = {
  listen: { host: '0.0.0.0', port: 8080 },
  admin: { host: '127.0.0.1', port: 9090 },
  adminHosts: [],
  requestLog: { size: 10_000, prompts: false, promptLength: 2000, clientAddress: false },
  adminToken: null,
  adminTokens: [],
  webhooks: { endpoints: {}, lowBalance: null, allow: [], timeoutMs: 15_000, retentionMs: 2_592_000_000 },
  responses: {
    store: true,
    ttlMs: 2_592_000_000,
    maxBytes: 4_194_304,
    accountBytes: 268_435_456,
    background: 256,
    backgroundPerAccount: 32,
  },
  costLog: { requests: 'off', retentionMs: 2_592_000_000, rows: 1_000_000 },
  retention: { chargesMs: null, auditMs: 86_400_000 },
  threads: 'auto',
  sharePort: false,
  server: 'auto',
  servicePrefix: 'svc',
  listingPrefix: 'aggregator',
  publicScheme: 'http',
  trustedProxies: [],
  mcp: true,
  compat: ['tavily', 'searxng', 'jina', 'firecrawl'],
  errorBodies: 'auto',
  ownedBy: 'headrace',
  serverTiming: false,
  streamKeepAliveMs: null,
  models: {},
  webSearchTool: false,
  discovery: null,
  discoveryIntervalMs: 30_000,
  rewrite: { volatileSystem: true },
  health: { intervalMs: 5_000, timeoutMs: 2_000, path: '/health', rise: 1, fall: 2 },
  ejection: {
    consecutive: 5,
    errorRate: 0.5,
    outlierRate: 0.1,
    outlierFactor: 3,
    minRequests: 20,
    windowMs: 10_000,
    backoffMs: 1_000,
    backoffMaxMs: 10_000,
    slowStartMs: 10_000,
    maxShare: 0.5,
  },
  routing: {
    affinity: true,
    missWeight: 2,
    requestBytes: 4096,
    speedWeight: 1,
    failurePenalty: 10,
    commonShare: 0.2,
    prior: 0.5,
    sessionPrior: 0.2,
    stickiness: 4,
    boundedLoad: null,
    indexBytes: 64 * 1024 * 1024,
    isolate: 'none',
    retryBudget: 0.2,
    retryBurst: 64,
    hedge: false,
    hedgeShare: 0.05,
    holdMs: 0,
    holdTimeoutMs: 30_000,
    holdRequests: 1024,
    holdBytes: 256 * 1024 ** 2,
    continue: 'off',
  },
  timeouts: {
    connectMs: 3_000,
    headersMs: 600_000,
    firstByteMs: null,
    idleMs: 60_000,
    bodyMs: 30_000,
    clientIdleMs: 120_000,
    clientKeepAliveMs: 75_000,
    unreadyMs: 0,
    drainMs: 30_000,
    keepAliveMs: 60_000,
  },
  limits: {
    bodyBytes: 104_857_600,
    headerBytes: 16_384,
    bufferedBytes: 1_073_741_824,
    connections: 65_536,
    jsonDepth: 256,
    jsonValues: 2_000_000,
    connectionsPerServer: 4_096,
    heldEventBytes: 1_048_576,
  },
  cors: { origins: ['*'] },
  keys: { required: true, static: [] },
  trust: {
    signingKey: null,
    token: null,
    intervalMs: 30_000,
    ttlMs: 30_000,
    maxHosts: 256,
    gateway: null,
    publicKey: null,
    announce: null,
    file: null,
    server: { dialects: 'auto', apiKey: null, weight: 1, aliases: {} },
  },
  search: {
    timeoutMs: 10_000,
    softTimeoutMs: 4000,
    perAccount: 8,
    ids: ['engine_a', 'engine_b', 'engine_c', 'engine_d', 'engine_e'],
    default: ['engine_a', 'engine_b', 'engine_c'],
    engines: {},
    cacheTtlMs: null,
    cacheBytes: 67_108_864,
    pricing: {},
  },
  fetch: {
    timeoutMs: 15_000,
    connectTimeoutMs: 5_000,
    firstByteTimeoutMs: 10_000,
    maxBytes: 10_000_000,
    allow: [],
    deny: [],
    ports: null,
    redirects: 5,
    userAgent: 'Headrace/0.1 (page reader)',
    robots: false,
    concurrency: 256,
    perAccount: 8,
    perHost: 8,
    hostDelayMs: 0,
    cacheTtlMs: 300_000,
    cacheBytes: 67_108_864,
    cleaners: 'auto',
    queue: 256,
    cleanTimeoutMs: 5_000,
    cleanMemoryBytes: 268_435_456,
    price: '0',
    pagesPerCleaner: 10_000,
    renderer: {
      ...{ url: null, when: 'auto', timeoutMs: 10_000, pages: 4, queue: 64, requests: 500 },
      ...{ maxBytes: 50_000_000, memory: 268_435_456, proxyListen: { host: '127.0.0.1', port: 0 }, proxyHost: null },
    },
  },
  store: 'sqlite:./headrace.db',
  cluster: { url: null, name: 'headrace' },
  credit: { lease: '0.05', leaseTtlMs: 60_000, flushMs: 250, assumedTokens: 16_384 },
  log: { level: 'info', requests: 'off', sample: 1 },
  telemetry: { otlp: { endpoint: null, headers: {}, sample: 1, serviceName: 'headrace' } },
  payments: {
    facilitator: null,
    facilitatorHeaders: {},
    payTo: null,
    rpc: null,
    unpaid: 256,
    unpaidPerPayer: 8,
    network: 'base',
    asset: null,
    assetName: null,
    assetVersion: '2',
    assetDecimals: 6,
    maxPurchase: '1000',
    minimum: '0.0001',
    assumedTokens: 1024,
  },
};

/** The input type takes what a file may say. */
const INPUT: SettingsInput = {
  listen: 8081,
  timeouts: { connect: '1s', idle: '500ms', firstByte: null },
  limits: { bodyBytes: '1MiB' },
  models: { m: { servers: ['http://gpu1:1'], context_length: 8, pricing: { prompt: '1', completion: '2' } } },
  keys: { static: [{ key: 'k', account: 'a' }] },
  search: { timeout: '10s' },
  payments: null,
};

t.test('an empty configuration resolves to the defaults', async (t) => {
  t.strictSame(resolveSettings({}), { settings: DEFAULTS, sources: {} });
});

t.test('an object of the input type resolves', async (t) => {
  t.match(resolveSettings(INPUT), {
    settings: {
      listen: { host: '0.0.0.0', port: 8081 },
      timeouts: { connectMs: 1_000, idleMs: 500, firstByteMs: null },
      limits: { bodyBytes: 1_048_576 },
      models: { m: { contextLength: 8, pricing: { prompt: '1', completion: '2' } } },
      search: { timeoutMs: 10_000 },
    },
  });
});

t.test('a server is a base URL or a mapping, and so are its KV events', async (t) => {
  const servers = (...list: unknown[]): unknown => {
    const resolution = resolveSettings({ models: { m: { servers: list } } });
    return 'mistakes' in resolution
      ? resolution.mistakes.map(({ path, message }) => `${path} ${message}`)
      : resolution.settings.models['m']?.servers;
  };
  t.same(servers('http://a/', { url: 'http://b/' }, { url: 'http://c', events: 'tcp://c:5557' }), [
    { url: 'http://a' },
    { url: 'http://b' },
    { url: 'http://c', events: { endpoint: 'tcp://c:5557' } },
  ]);
  const events = { endpoint: 'tcp://[::1]:5557', replay: 'tcp://10.0.0.1:5558', topic: 'kv' };
  t.same(servers({ url: 'http://a', events }), [{ url: 'http://a', events }]);
  t.same(servers({ url: 'http://a', events: null }), [{ url: 'http://a' }]);
  t.same(
    servers(
      7,
      null,
      {},
      { url: 'a' },
      { url: 'http://a', event: 'tcp://a:1' },
      { url: 'http://a', events: 'tcp://*:1' },
      { url: 'http://a', events: 'tcp://a:70000' },
    ),
    [
      'models.m.servers[0] must be a URL that begins with http:// or https://',
      'models.m.servers[1] must be a URL that begins with http:// or https://',
      'models.m.servers[2].url is required',
      'models.m.servers[3].url must be a URL that begins with http:// or https://',
      'models.m.servers[4].event is unknown; did you mean events?',
      'models.m.servers[5].events must be a ZeroMQ endpoint, such as "tcp://10.0.0.1:5557"',
      'models.m.servers[6].events must be a ZeroMQ endpoint, such as "tcp://10.0.0.1:5557"',
    ],
  );
  t.same(servers('http://a', { url: 'http://a/', events: 'tcp://a:1' }), ['models.m.servers[1] is listed before']);
});

t.test('a server says its dialects, credential and weight; a model those of its servers, and aliases', async (t) => {
  const server = { url: 'http://a', dialects: ['chat', 'llama'], apiKey: 'own', weight: 0.5 };
  const model = { dialects: ['chat'], aliases: ['gpt-5', 'acme/big model'] };
  t.match(resolveSettings({ models: { m: { ...model, servers: [server, { url: 'http://b', dialects: 'auto' }] } } }), {
    settings: { models: { m: { ...model, servers: [server, { dialects: 'auto' }] } } },
  });
  const mistakes = (m: object): unknown => {
    const resolution = resolveSettings({ models: { m } });
    return 'mistakes' in resolution ? resolution.mistakes.map(({ path, message }) => `${path} ${message}`) : [];
  };
  const wrong = { url: 'http://a', dialects: ['chat', 'sonnet'], apiKey: 'two words', weight: 0 };
  t.same(mistakes({ servers: [wrong, { url: 'http://b', dialects: [], weight: 'heavy' }] }), [
    'models.m.servers[0].dialects[1] must be one of chat, completions, responses, messages, llama',
    'models.m.servers[0].apiKey must be visible ASCII characters without spaces',
    'models.m.servers[0].weight must be at least 0.001',
    'models.m.servers[1].dialects must be auto or a list of one or more',
    'models.m.servers[1].weight must be a number',
  ]);
  t.same(mistakes({ dialects: 'chat', aliases: ['', 'ü', 'x'.repeat(257)] }), [
    'models.m.dialects must be auto or a list of one or more',
    ...[0, 1, 2].map((at) => `models.m.aliases[${at}] must be a name of up to 256 visible ASCII characters`),
  ]);
});

t.test('the three names of a setting follow from its path', async (t) => {
  const connect = SETTINGS.find(({ path }) => path === 'timeouts.connect');
  t.equal(connect?.env, 'HEADRACE_TIMEOUTS_CONNECT');
  t.equal(connect?.flag, '--timeouts.connect');
  t.equal(envName('servicePrefix'), 'HEADRACE_SERVICE_PREFIX');
  t.equal(envName('timeouts.firstByte'), 'HEADRACE_TIMEOUTS_FIRST_BYTE');
  t.equal(new Set(SETTINGS.map(({ env }) => env)).size, SETTINGS.length, 'no two settings share a variable');
});

t.test('every setting has a description of one sentence', async (t) => {
  const rows = [...SETTINGS.map(({ path, setting }) => [path, setting] as const), ...Object.entries(MODEL_FIELDS)];
  for (const [path, { sentence }] of rows) t.match(sentence, /^[A-Z][^\n]{9,100}\.$/, path);
});

t.test('settings of listening sockets and of the loaded addon need a restart', async (t) => {
  const restart = SETTINGS.filter(({ setting }) => setting.reload === false).map(({ path }) => path);
  for (const path of ['listen', 'admin', 'threads', 'server', 'limits.headerBytes']) t.ok(restart.includes(path), path);
  for (const path of ['models', 'keys.static', 'log.level']) t.notOk(restart.includes(path), path);
});

t.test('settings of hosts need a restart: a host reads its configuration when it starts', async (t) => {
  const ofHosts = SETTINGS.filter(({ setting }) => setting.sentence.startsWith('Host: '));
  t.equal(ofHosts.length, 8);
  for (const { path, setting } of ofHosts) t.equal(setting.reload, false, path);
});

t.test('names in Settings are camel case and carry the unit of durations', async (t) => {
  const fields = Object.entries(MODEL_FIELDS).map(([name, field]) => resolvedName(name, field));
  t.ok(fields.includes('huggingFaceId'));
  const idle = SETTINGS.find(({ path }) => path === 'timeouts.idle');
  t.same(idle?.resolvedPath, ['timeouts', 'idleMs']);
});

t.test('lists of hosts take host names, addresses and CIDR blocks, and nothing that would match no host', async (t) => {
  const takes = (entry: string): boolean[] =>
    [{ fetch: { allow: [entry] } }, { fetch: { deny: [entry] } }, { webhooks: { allow: [entry] } }].map(
      (settings) => 'settings' in resolveSettings(settings),
    );
  for (const good of [
    ...[
      'wiki.local',
      'wiki.local.',
      'localhost',
      'foo_bar',
      'ünï.test',
      'a.9b',
      'dead.beef',
      '1e1',
      '3com.test',
      '1.2.3.test',
    ],
    ...['10.0.0.1', '10.0.0.0/8', '[fd00::1]', 'fd00::/8', '::1', '0.0.0.0/0', 'fe80::/128', '::ffff:10.0.0.1'],
  ])
    t.same(takes(good), [true, true, true], good);
  for (const bad of [
    ...[
      '',
      '10.0.0.0/33',
      '10.0/8',
      'fd00::/129',
      'http://wiki',
      'a b',
      'wiki:80',
      'me@wiki',
      'a,b',
      'a?b',
      'a#b',
      'a\\b',
    ],
    // The last label is a number: addresses in other spellings, or nothing at all.
    ...['300.1.1.1', '10.0.0.999', '1.2.3', '127.1', '0x7f.1', '0x10', '256', '1.2.3.4.5', 'a.1', 'a.0x', '10.0.0.1.'],
    ...['999.0.0.0/8', ':::', '1:2', '[::1', '::1]', '[1.2.3.4]', '[::1]/128', '[fd00::/8]', '::1%lo'],
    ...['*.corp', '*', '.corp', 'a..b', '.'],
  ])
    t.same(takes(bad), [false, false, false], bad);
  t.match(resolveSettings({ fetch: { allow: ['300.1.1.1'] } }), {
    mistakes: [{ path: 'fetch.allow[0]', message: /^must be a host name, an address or a CIDR block/ }],
  });
  t.match(resolveSettings({ fetch: { allow: [10.1 as unknown as string] } }), {
    mistakes: [{ path: 'fetch.allow[0]' }],
  });
});

t.test('payments are complete or off', async (t) => {
  const facilitator = 'https://pay.test/x402';
  const payTo = '0x209693Bc6afc0C5328bA36FaF03C514EF312287C';
  t.match(resolveSettings({ payments: { facilitator, payTo } }), { settings: { payments: { facilitator, payTo } } });
  t.match(resolveSettings({ payments: { facilitator } }), { mistakes: [{ path: 'payments.payTo' }] });
  t.match(resolveSettings({ payments: { payTo } }), { mistakes: [{ path: 'payments.facilitator' }] });
  t.match(resolveSettings({ payments: { facilitator, payTo }, store: null }), { mistakes: [{ path: 'store' }] });
  t.match(resolveSettings({ payments: { facilitator, payTo: '0x12' } }), { mistakes: [{ path: 'payments.payTo' }] });
});
