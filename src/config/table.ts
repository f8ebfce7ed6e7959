// The one table of settings: name, kind, default with unit, meaning, and whether a change needs a restart. The reader
// (`load.ts`), the help text and the README table (`describe.ts`) are all made from it; `settings.ts` has its type.

import { PAYMENTS } from './payments.ts';
import { address, boolean, bytes, choice, decimal, duration, integer, list, map, number, open, record } from './row.ts';
import { string, url, type Setting, type SettingTraits } from './row.ts';

/** The change takes effect at the next start. */
const RESTART: SettingTraits = { reload: false };
/** `null` turns the setting off. */
const OFF: SettingTraits = { nullable: true };
/** The field of an entry may be left out, and is then absent from `Settings` too. */
const OPTIONAL: SettingTraits = { required: false };
const REQUIRED: SettingTraits = { required: true };

const SEGMENT: SettingTraits = { pattern: /^[A-Za-z0-9._~-]+$/, hint: 'one segment of a path, such as "svc"' };
const TOKEN: SettingTraits = {
  pattern: /^[\x21-\x7e]+$/,
  hint: 'visible ASCII characters without spaces',
  secret: true,
};
const ORIGIN: SettingTraits = {
  pattern: /^(?:\*|https?:\/\/[^/?#@\s]+)$/i,
  hint: '"*" or an origin, such as "https://app.example"',
};

/** A prefix of up to 32 bits behind dots, up to 128 behind colons. */
const HOST_OR_BLOCK: SettingTraits = {
  pattern:
    /^(?:[^\s/:@]+|\[?[0-9a-f:.]+\]?|(?:\d{1,3}\.){3}\d{1,3}\/(?:[12]?\d|3[0-2])|[0-9a-f.]*:[0-9a-f:.]*\/(?:\d\d?|1[01]\d|12[0-8]))$/i,
  hint: 'a host name, an address or a CIDR block, such as "10.1.0.0/16"',
};

const HEADER_VALUE: SettingTraits = { pattern: /^[\x20-\x7e]+$/, hint: 'visible ASCII characters' };

const BASE_URL: SettingTraits = { pattern: /^[^?]*$/, hint: 'a base URL without a query (?)' };

const STORE: SettingTraits = {
  pattern: /^(?:sqlite:.+|postgres(?:ql)?:\/\/\S+)$/,
  hint: 'sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE',
  secret: true,
};

const CAPABILITIES = ['chat', 'completion', 'vision', 'tools', 'reasoning', 'embedding', 'image', 'audio'] as const;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;

const MODEL = record(
  {
    servers: list(
      url(undefined, 'Base URL of a server.', BASE_URL),
      [],
      'Base URLs of the servers that run the model.',
    ),
    context_length: integer(undefined, 'Longest context in tokens.', { ...OPTIONAL, min: 1 }),
    hugging_face_id: string(undefined, 'Name of the weights on Hugging Face.', OPTIONAL),
    tee: boolean(undefined, 'Whether the servers run in a trusted execution environment.', OPTIONAL),
    capabilities: list(
      choice(CAPABILITIES, '', 'What the model can do.'),
      undefined,
      'What the model can do.',
      OPTIONAL,
    ),
    pricing: record(
      {
        prompt: decimal(undefined, 'USD per million prompt tokens, as a decimal string.', REQUIRED),
        completion: decimal(undefined, 'USD per million completion tokens, as a decimal string.', REQUIRED),
        cached_prompt: decimal(undefined, 'USD per million prompt tokens read from a cache.', OPTIONAL),
      },
      'Prices of the model.',
      OPTIONAL,
    ),
    name: string(undefined, 'Name for people, shown in the lists.', OPTIONAL),
    created: integer(undefined, 'When the model was published, in seconds since 1970.', OPTIONAL),
    max_output_length: integer(undefined, 'Longest answer in tokens.', { ...OPTIONAL, min: 1 }),
    quantization: string(undefined, 'Number format of the weights, such as fp8.', OPTIONAL),
    apiKey: string(undefined, 'Credential the gateway shows to the servers of this model.', { ...OPTIONAL, ...TOKEN }),
  },
  'One model.',
);

const STATIC_KEY = record(
  {
    key: string(undefined, 'The key as clients send it.', { ...REQUIRED, ...TOKEN }),
    account: string(undefined, 'The account its use is counted for.', REQUIRED),
    prepaid: boolean(undefined, 'Whether the key spends only credit that its account has.', OPTIONAL),
  },
  'One client key.',
);

/** The table as a tree; sections are records. Use `SETTINGS` to go through the rows. */
export const TABLE: Setting = record(
  {
    listen: address('0.0.0.0:8080', 'Public interface as HOST:PORT; port 0 picks a free one.', RESTART),
    admin: address('127.0.0.1:9090', 'Admin interface (metrics, dashboard) as HOST:PORT.', { ...RESTART, ...OFF }),
    adminToken: string(
      null,
      'What operators show to the admin interface; with it accounts and keys are served there.',
      {
        ...OFF,
        ...TOKEN,
      },
    ),
    threads: integer('auto', 'Ingress threads; auto is one per core, 0 runs everything in one thread.', {
      ...RESTART,
      words: ['auto'],
      max: 1024,
    }),
    sharePort: boolean(
      false,
      'Whether another gateway may serve the same port: a new one starts, then the old one drains.',
      RESTART,
    ),
    server: choice(['auto', 'uws', 'node'], 'auto', 'HTTP server; auto takes uws where its binary loads.', RESTART),
    servicePrefix: string('svc', 'First segment of the paths of the gateway itself.', { ...RESTART, ...SEGMENT }),
    listingPrefix: string('aggregator', 'First segment of the path of the marketplace list.', {
      ...RESTART,
      ...SEGMENT,
    }),
    publicScheme: choice(['http', 'https'], 'http', 'What clients use to get here; with https cookies carry Secure.'),
    errorBodies: choice(['contract', 'dialect'], 'contract', 'Adds the error object of official SDKs with dialect.'),
    ownedBy: string('headrace', 'Value of owned_by in the model list.'),
    serverTiming: boolean(false, 'Whether answers carry a Server-Timing header.'),
    streamKeepAlive: duration(null, 'Silence after which a stream gets a comment line to keep it open.', OFF),
    models: map(MODEL, 'The models, by the id that clients ask for.'),
    discovery: url(null, 'URL that answers a map of models to servers; merged with models.', OFF),
    discoveryInterval: duration('30s', 'Time between two questions to the discovery URL.'),
    health: record(
      {
        interval: duration('5s', 'Time between two probes of a server.'),
        timeout: duration('2s', 'Longest wait for the answer to a probe.'),
        path: string('/health', 'Path to probe; {model} is replaced by the model.', {
          pattern: /^\/\S*$/,
          hint: 'a path that begins with /',
        }),
        rise: integer(1, 'Good probes in a row that bring a server back.', { min: 1 }),
        fall: integer(2, 'Bad probes in a row that take a server out.', { min: 1 }),
      },
      'Health probes',
    ),
    ejection: record(
      {
        consecutive: integer(5, 'Failed requests in a row that eject a server.', { min: 1 }),
        errorRate: number(0.5, 'Share of failed requests in the window that ejects a server.', { max: 1 }),
        minRequests: integer(20, 'Requests in the window below which the share does not count.', { min: 1 }),
        window: duration('10s', 'Length of the window that the share is taken over.'),
        backoff: duration('1s', 'First time out; it doubles with every ejection in a row.'),
        backoffMax: duration('60s', 'Longest time out.'),
        slowStart: duration('10s', 'Time over which a returning server gets back its full share; 0 is at once.', {
          min: 0,
        }),
        maxShare: number(0.5, "Largest share of a model's servers that may be ejected by error rate.", { max: 1 }),
      },
      'Ejection of failing servers',
    ),
    routing: record(
      {
        affinity: boolean(true, 'Whether requests that begin alike go to the same server, for its KV cache.'),
        boundedLoad: number(1.25, 'Load over the mean at which a favourite server is passed over.', { min: 1 }),
        retryBudget: number(0.2, 'Retries allowed as a share of requests.', { max: 1 }),
        retryBurst: integer(512, 'Retries allowed at once before the share counts.'),
      },
      'Routing',
    ),
    timeouts: record(
      {
        connect: duration('3s', 'Longest wait for a connection to a server.', RESTART),
        headers: duration('600s', 'Longest wait for the head of an answer.'),
        firstByte: duration(null, 'Longest wait for the first byte of an answer; null sets no limit of its own.', OFF),
        idle: duration('60s', 'Longest silence of a server in the middle of an answer.'),
        body: duration('30s', 'Longest silence of a client in the middle of a request body.'),
        clientIdle: duration('120s', 'Longest time a client may leave a waiting answer unread.'),
        unready: duration(
          '0ms',
          'How long a gateway that ends still serves, with /health at 503, so that balancers hear.',
          {
            min: 0,
          },
        ),
        drain: duration('30s', 'Time that running requests get to finish at shutdown.', { min: 0 }),
        keepAlive: duration('60s', 'Time an unused connection to a server stays open.', RESTART),
      },
      'Timeouts',
    ),
    limits: record(
      {
        bodyBytes: bytes('100MiB', 'Largest request body.'),
        headerBytes: bytes('16KiB', 'Largest head of a request.', { ...RESTART, min: 1024 }),
        bufferedBytes: bytes('1GiB', 'Memory that waiting bodies and answers may take in the process.'),
        jsonDepth: integer(256, 'Deepest nesting of a JSON body.', { min: 1 }),
        connectionsPerServer: integer(4096, 'Most connections to one server, per thread.', { ...RESTART, min: 1 }),
        heldEventBytes: bytes('1MiB', 'Largest single event of a stream.'),
      },
      'Limits',
    ),
    cors: record(
      {
        origins: list(
          string(undefined, 'An origin.', ORIGIN),
          ['*'],
          'Origins of web pages that may call the gateway.',
        ),
      },
      'Cross-origin requests',
    ),
    keys: record(
      {
        required: boolean(true, 'Whether callers need a key; false is an open gateway, for trusted networks.'),
        static: list(STATIC_KEY, [], 'Client keys with the account each belongs to.', { secret: true }),
      },
      'Client keys',
    ),
    trust: record(
      {
        signingKey: string(null, 'Gateway: Ed25519 key that signs keys for hosts: PEM, base64 or file:PATH.', {
          ...RESTART,
          ...OFF,
          secret: true,
        }),
        token: string(null, 'What hosts show to the admin interface; with it the gateway serves hosts.', {
          ...OFF,
          ...TOKEN,
        }),
        interval: duration(
          '30s',
          'Time between two key snapshots to every host; a host asks after one and a half.',
          RESTART,
        ),
        ttl: duration('30s', 'Gateway: silence after which a registered host is taken out.'),
        maxHosts: integer(256, 'Gateway: most registered hosts.', { min: 1, max: 1024 }),
        gateway: url(null, "Host: base URL of the gateway's admin interface.", { ...OFF, ...BASE_URL }),
        publicKey: string(null, 'Host: Ed25519 keys of the gateway, in base64 or PEM, separated by commas.', OFF),
        announce: url(null, 'Host: base URL under which it announces itself to the gateway.', { ...OFF, ...BASE_URL }),
        file: string(null, 'Host: file that keeps the last key snapshot over a restart.', OFF),
      },
      'Hosts and gateway',
    ),
    search: record(
      {
        timeout: duration('10s', 'Longest wait for an engine, from the moment a search is accepted.'),
        ids: list(
          string(undefined, 'An engine id.'),
          ['engine_a', 'engine_b', 'engine_c', 'engine_d', 'engine_e'],
          'Engine ids that a request may name whether configured or not; configured ones may always be named.',
        ),
        default: list(
          string(undefined, 'An engine id.'),
          ['engine_a', 'engine_b', 'engine_c'],
          'Engines of a request that names none.',
        ),
        engines: map(open('An engine: its kind, and the settings of the kind.'), 'The engines, by id.', {
          secret: true,
        }),
        cacheTtl: duration(null, 'How long answers are kept for equal searches of one account.', OFF),
        cacheBytes: bytes('64MiB', 'Memory for kept answers, per thread.'),
        pricing: map(decimal(undefined, 'USD per successful call.'), 'Price of a successful call, by engine id.'),
      },
      'Search',
    ),
    fetch: record(
      {
        timeout: duration('15s', 'Longest time for a page, from acceptance to clean text.'),
        connectTimeout: duration('5s', 'Longest wait for a connection to the server of a page, its name looked up.'),
        firstByteTimeout: duration('10s', 'Longest wait for the head of an answer.'),
        maxBytes: bytes('10MB', 'Largest page, counted after decompression.'),
        allow: list(
          string(undefined, 'A host or a CIDR block.', HOST_OR_BLOCK),
          [],
          'Hosts and CIDR blocks that may be fetched although they are private.',
        ),
        ports: list(integer(undefined, 'A port.', { min: 1, max: 65_535 }), [80, 443, 8080, 8443], 'Ports of pages.'),
        redirects: integer(5, 'Redirects that are followed.', { max: 20 }),
        userAgent: string('Headrace/0.1 (page reader)', 'How the gateway names itself to the servers of pages.', {
          pattern: /^[\x20-\x7e]+$/,
          hint: 'visible ASCII characters',
        }),
        robots: boolean(false, 'Whether robots.txt is asked before a page is fetched.'),
        concurrency: integer(256, 'Pages being fetched at once.', { min: 1 }),
        perHost: integer(8, 'Pages being fetched from one host at once.', { min: 1 }),
        hostDelay: duration('0ms', 'Least time between two requests to one host.', { min: 0 }),
        cacheTtl: duration('5m', 'How long clean pages are kept; null keeps none.', OFF),
        cacheBytes: bytes('64MiB', 'Memory for kept pages.'),
        cleaners: integer('auto', 'Threads that clean pages; auto is half the cores.', {
          words: ['auto'],
          min: 1,
          max: 64,
        }),
        queue: integer(256, 'Pages that may wait for a cleaner before new ones are refused.', { min: 1 }),
        cleanTimeout: duration('5s', 'Longest time of a cleaner for one page; then the thread is replaced.'),
        cleanMemoryBytes: bytes('256MiB', 'Most memory of a cleaner; then the thread is replaced.'),
        price: decimal('0', 'USD for a page that was fetched.'),
        pagesPerCleaner: integer(10_000, 'Pages after which a cleaner thread is replaced by a fresh one.', { min: 1 }),
      },
      'Pages',
    ),
    store: string('sqlite:./headrace.db', 'Ledger: sqlite:FILE, sqlite::memory: or postgres://…; null: none.', {
      ...RESTART,
      ...OFF,
      ...STORE,
    }),
    credit: record(
      {
        lease: decimal('0.05', 'Credit in USD that a thread borrows from an account beyond what it needs at once.'),
        leaseTtl: duration('60s', 'How long leases hold, and priced requests are served, without the store.', {
          min: 1000,
        }),
        flush: duration('250ms', 'How often threads book what was spent; a thread that dies loses as much.', {
          min: 1,
        }),
        assumedTokens: integer(1024, 'Tokens of an answer that are held for a request without a limit.', { min: 0 }),
      },
      'Credit',
    ),
    payments: PAYMENTS,
    log: record(
      {
        level: choice(LOG_LEVELS, 'info', 'Least level that is written to standard error.'),
        requests: choice(
          ['off', 'errors', 'all'],
          'off',
          'Finished requests that are logged, a line each at level info: none, failed ones, all.',
        ),
        sample: number(1, 'Share of the requests without an error that is logged.', { max: 1 }),
      },
      'Logging',
    ),
    telemetry: record(
      {
        otlp: record(
          {
            endpoint: url(
              null,
              'URL that traces are posted to as OTLP/HTTP JSON; it ends in /v1/traces as a rule.',
              OFF,
            ),
            headers: map(
              string(undefined, 'The value of a header.', HEADER_VALUE),
              'Headers of these posts, by name.',
              {
                secret: true,
              },
            ),
            sample: number(1, 'Share of requests that are traced; a traceparent of the client decides for its own.', {
              max: 1,
            }),
            serviceName: string('headrace', 'Name of the gateway in traces.'),
          },
          'Traces',
        ),
      },
      'Telemetry',
    ),
  },
  'General',
);

/** One row of the table with the three names it goes by. */
export interface SettingRow {
  /** Path in the file: `timeouts.connect`. */
  readonly path: string;
  /** Name in the environment: `HEADRACE_TIMEOUTS_CONNECT`. */
  readonly env: string;
  /** Name on the command line: `--timeouts.connect`. */
  readonly flag: string;
  /** Heading of the section the row belongs to. */
  readonly section: string;
  readonly setting: Setting;
}

/** Every row of the table in its order. */
export const SETTINGS: readonly SettingRow[] = rowsOf(TABLE, '');

/** The fields of one entry of `models`, by name. */
export const MODEL_FIELDS: Readonly<Record<string, Setting>> = MODEL.fields ?? {};

function rowsOf(section: Setting, prefix: string): SettingRow[] {
  return Object.entries(section.fields ?? {}).flatMap(([name, setting]) => {
    const path = prefix + name;
    if (setting.kind === 'record') return rowsOf(setting, `${path}.`);
    return [{ path, env: envName(path), flag: `--${path}`, section: section.sentence, setting }];
  });
}

/** `timeouts.firstByte` is `HEADRACE_TIMEOUTS_FIRST_BYTE`. */
export function envName(path: string): string {
  return `HEADRACE_${path
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll('.', '_')
    .toUpperCase()}`;
}
