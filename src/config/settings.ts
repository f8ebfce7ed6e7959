// Every setting: name, type, default with unit, description, and whether a change needs a restart. `Settings` and
// `SettingsInput` are inferred from it; messages, help text, reference table and JSON Schema are generated from it.

import {
  address,
  addressBlock,
  boolean,
  bytes,
  choice,
  decimal,
  duration,
  headers,
  hostOrBlock,
  integer,
  integerOr,
  list,
  listOr,
  listOrText,
  map,
  MOST_USD,
  nullable,
  number,
  oneOf,
  open,
  optional,
  orText,
  portOrName,
  required,
  resolvedName,
  section,
  setting,
  string,
  url,
  type Pattern,
  type SectionInput,
  type SectionOutput,
  type Setting,
  type Traits,
} from './value-types.ts';
import { DIALECT_WORDS } from './dialect-bits.ts';
import { ZMQ_ADDRESS } from './units.ts';

/** The change takes effect at the next start. */
const RESTART: Traits = { reload: false };
const SECRET: Traits = { secret: true };

/** Not `.` or `..`: clients resolve those away. Without a look-ahead, which the schema of the Helm chart could not have. */
const SEGMENT: Pattern = {
  pattern: /^\.*[A-Za-z0-9_~-][A-Za-z0-9._~-]*$/,
  hint: 'one segment of a path, such as "svc"',
};
const TOKEN: Pattern = { pattern: /^[\x21-\x7e]+$/, hint: 'visible ASCII characters without spaces' };
const HEADER_VALUE: Pattern = { pattern: /^[\x20-\x7e]+$/, hint: 'visible ASCII characters' };
const PATH: Pattern = { pattern: /^\/\S*$/, hint: 'a path that begins with /' };
const ORIGIN: Pattern = {
  pattern: /^(?:\*|[Hh][Tt][Tt][Pp][Ss]?:\/\/[^/?#@\s]+)$/,
  hint: '"*" or an origin, such as "https://app.example"',
};
const HOST_NAME: Pattern = { pattern: /^[^\s/:@,]+$/, hint: 'a host name without a port' };
const ESCAPES = 'with / # ? % in a password as %2F %23 %3F %25';
/** A character that ends the host of a URL would make a part of the password its host. */
const STORE: Pattern = {
  pattern: /^(?:sqlite:.+|postgres(?:ql)?:\/\/(?:[^/?#\s]+\/?|\/)[^/?#@\s]*(?:\?\w+=[^#\s]*)?)$/,
  hint: `sqlite:FILE, sqlite::memory: or postgres://USER@HOST/DATABASE, ${ESCAPES}`,
};
const ENGINE: Pattern = {
  pattern: /^rediss?:\/\/(?:[^/?#%\s]|%[0-9A-Fa-f]{2})+(?:\/\d*)?$/,
  hint: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE], or rediss:// for TLS, ${ESCAPES}`,
};
const DEVTOOLS: Pattern = {
  pattern: /^(?:https?|wss?):\/\/[^/?#@\s]+(?:[/?][^#\s]*)?$/i,
  hint: 'ws://HOST:PORT/PATH, wss://, http:// or https://, such as "http://127.0.0.1:9222"',
};
const CLUSTER_NAME: Pattern = {
  pattern: /^[A-Za-z0-9._-]{1,64}$/,
  hint: 'up to 64 letters, digits, dots, dashes and underscores',
};
const WEBHOOK_EVENTS = ['credit.low', 'budget.reached', 'payment.open', 'key.created', 'key.disabled'] as const;
/** 24 to 64 bytes in base64, as Standard Webhooks has them. */
const WEBHOOK_SECRET: Pattern = {
  pattern: /^whsec_[A-Za-z0-9+/]{32,86}={0,2}(?: whsec_[A-Za-z0-9+/]{32,86}={0,2})?$/,
  hint: 'whsec_ and 24 to 64 bytes in base64; "headrace webhooks secret" makes one',
};
const SHA256: Pattern = { pattern: /^[0-9A-Fa-f]{64}$/, hint: '64 hexadecimal digits' };
const CHAIN_ADDRESS: Pattern = { pattern: /^0x[0-9A-Fa-f]{40}$/, hint: '0x and 40 hexadecimal digits' };

const ZMQ_ENDPOINT: Pattern = {
  pattern: ZMQ_ADDRESS,
  hint: 'a ZeroMQ endpoint, such as "tcp://10.0.0.1:5557"',
};

const CAPABILITIES = ['chat', 'completion', 'vision', 'tools', 'reasoning', 'embedding', 'image', 'audio'] as const;
/** Products whose interfaces the gateway has; see `compat/`. */
const COMPATIBLE = ['tavily', 'searxng', 'jina', 'firecrawl'] as const;
const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
const NETWORKS = ['base', 'base-sepolia', 'eip155:8453', 'eip155:84532'] as const;

const BASE_URL = { base: true } as const;

/** Bounds of `weight`: beyond them one server gets all of the load, or nothing. */
export const LEAST_WEIGHT = 0.001;
export const MOST_WEIGHT = 1000;

/** Of the year 9999, the last one of RFC 3339. A date in milliseconds is beyond. */
const LAST_SECOND = 253_402_300_799;

const KV_EVENTS = section('KV events of a server.', {
  endpoint: required(string(ZMQ_ENDPOINT), 'ZeroMQ endpoint at which the server publishes its KV events.'),
  replay: optional(string(ZMQ_ENDPOINT), 'Endpoint that sends missed events again.'),
  topic: optional(string(), 'Topic to subscribe to; without one, all topics.'),
});

const MODEL_NAME: Pattern = {
  pattern: /^[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?$/,
  hint: 'a name of up to 256 visible ASCII characters',
};

const SERVER = section('One server.', {
  url: required(url(BASE_URL), 'Base URL of the server.'),
  dialects: optional(listOr('auto', choice(DIALECT_WORDS)), 'Dialects that the server speaks, where not as the model.'),
  apiKey: optional(string(TOKEN), 'Credential that the gateway sends to this server, where not as the model.', SECRET),
  weight: optional(
    number({ min: LEAST_WEIGHT, max: MOST_WEIGHT }),
    'Share of the load that the server gets, relative to the other servers of the model; without it 1.',
  ),
  events: optional(orText('endpoint', KV_EVENTS), 'KV events of the server; see KV-cache locality.'),
});

/** Model fields have the names that they have in the model lists of the interface. */
const MODEL = section('One model.', {
  servers: setting(list(orText('url', SERVER)), [], 'The servers that run the model: base URLs, or mappings.'),
  dialects: optional(
    listOr('auto', choice(DIALECT_WORDS)),
    'Dialects that the servers speak which do not say it themselves; auto, as without it, finds them out.',
  ),
  aliases: optional(
    list(string(MODEL_NAME)),
    'Further names that clients may use for the model; servers and lists have its id only.',
  ),
  context_length: optional(integer({ min: 1 }), 'Longest context in tokens.'),
  hugging_face_id: optional(string(), 'Name of the weights on Hugging Face.'),
  tee: optional(boolean(), 'Whether the servers run in a trusted execution environment.'),
  capabilities: optional(list(choice(CAPABILITIES)), 'What the model can do.'),
  pricing: optional(
    section('Prices of the model.', {
      prompt: required(decimal(), 'USD per million prompt tokens, as a decimal string.'),
      completion: required(decimal(), 'USD per million completion tokens, as a decimal string.'),
      cached_prompt: optional(decimal(), 'USD per million prompt tokens read from a cache.'),
    }),
    'Prices of the model.',
  ),
  name: optional(string(), 'Display name in the model lists.'),
  created: optional(integer({ max: LAST_SECOND }), 'When the model was published, in seconds since 1970.'),
  max_output_length: optional(integer({ min: 1 }), 'Longest answer in tokens.'),
  quantization: optional(string(), 'Number format of the weights, such as fp8.'),
  apiKey: optional(string(TOKEN), 'Credential that the gateway sends to the servers of this model.', SECRET),
  webSearchTool: optional(boolean(), 'Where webSearchTool is on: false, as the servers have the tool themselves.'),
});

const STATIC_KEY = section('One client key.', {
  key: required(string(TOKEN), 'The key as clients send it.', SECRET),
  account: required(string(), 'The account that its usage is counted for.'),
  prepaid: optional(boolean(), 'Whether the key can spend only the credit of its account.'),
  running: optional(integer({ min: 1, max: 1_000_000_000 }), 'Largest number of requests under way at the same time.'),
  rpm: optional(integer({ min: 1, max: 1_000_000_000 }), 'Largest number of requests in a minute.'),
  tpm: optional(
    integer({ min: 1, max: 1_000_000_000 }),
    'Largest number of tokens in a minute, of prompts and answers.',
  ),
  monthly: optional(decimal(), 'Largest sum in USD that the key may spend in a calendar month (UTC).'),
});

const ADMIN_TOKEN = section('One token of an operator.', {
  name: required(string(TOKEN), 'Who holds it, as the log of acts names them.'),
  role: required(
    choice(['viewer', 'operator', 'owner']),
    'What it allows: viewer reads, operator also runs accounts, keys and servers, owner also moves money.',
  ),
  sha256: required(string(SHA256), 'SHA-256 of the token; `headrace admins token` makes both.', SECRET),
});

const WEBHOOK = section('One receiver of events.', {
  url: required(url(), 'URL that messages are posted to.'),
  secret: required(
    string(WEBHOOK_SECRET),
    'Key of the signatures; two with a blank between them while it is changed.',
    SECRET,
  ),
  events: setting(list(choice(WEBHOOK_EVENTS)), [...WEBHOOK_EVENTS], 'Events that are sent.'),
});

const DNS_NAME: Pattern = {
  pattern:
    /^(?=.{1,254}$)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$/,
  hint: 'a DNS name, such as "vllm.default.svc.cluster.local"',
};
const NAME_SERVER: Pattern = {
  pattern: /^(?:[\d.]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?|[0-9A-Fa-f:.]+)$/,
  hint: 'an IP address, with a port where it is not 53, such as "10.96.0.10" or "[fd00::a]:5353"',
};
const KUBERNETES_NAME: Pattern = {
  pattern: /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/,
  hint: 'a name of Kubernetes: lower case letters, digits and dashes',
};
const LABEL_NAME: Pattern = {
  pattern: /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/,
  hint: 'the name of a label, such as "model" or "example.com/model"',
};
const SELECTOR: Pattern = {
  pattern: /^[A-Za-z0-9._/=!,() -]{1,1024}$/,
  hint: 'a label selector of Kubernetes, such as "app=vllm" or "app in (vllm, sglang)"',
};

/** What the source says of all of its servers. */
const FOUND_SERVERS = {
  scheme: setting(choice(['http', 'https']), 'http', 'Scheme of the servers.'),
  host: optional(
    string(HOST_NAME),
    'Name in the Host header and in TLS; without it that of the source with https, else the address.',
  ),
  dialects: optional(listOr('auto', choice(DIALECT_WORDS)), 'Dialects that the servers speak.'),
  aliases: optional(list(string(MODEL_NAME)), 'Further names of the model.'),
  weight: optional(number({ min: LEAST_WEIGHT, max: MOST_WEIGHT }), 'Weight of each server; without it 1.'),
};
const FOUND_KEY = optional(string(TOKEN), 'Credential for servers that have none of their own.', SECRET);

/** By kind. */
const DISCOVERY = {
  url: section('A discovery map at a URL.', {
    kind: required(choice(['url']), 'A discovery map that is polled.'),
    url: required(url(), 'URL of the map.'),
    interval: optional(duration(), 'Time between two requests; without it discoveryInterval.'),
    apiKey: FOUND_KEY,
  }),
  dns: section('The addresses of a DNS name.', {
    kind: required(choice(['dns']), 'The A and AAAA records of a name, or its SRV records.'),
    name: required(string(DNS_NAME), 'Complete DNS name; search domains are not tried.'),
    records: setting(
      choice(['auto', 'address', 'srv']),
      'auto',
      'Records that are asked for; auto: SRV for names such as _http._tcp.vllm.example, else A and AAAA.',
    ),
    port: optional(integer({ min: 1, max: 65_535 }), 'Port of the servers; SRV records have their own.'),
    model: required(string(MODEL_NAME), 'Model that the servers run.'),
    interval: optional(duration(), 'Time between two queries of SRV records; without it discoveryInterval.'),
    family: setting(
      choice(['all', 'ipv4', 'ipv6']),
      'all',
      'Addresses that are used; for servers with both, choose one, since each address counts as a server.',
    ),
    nameServers: setting(list(string(NAME_SERVER)), [], 'Name servers to ask; without any those of the system.'),
    ...FOUND_SERVERS,
    apiKey: FOUND_KEY,
  }),
  kubernetes: section('The EndpointSlices of Kubernetes.', {
    kind: required(choice(['kubernetes']), 'EndpointSlices of services, watched.'),
    namespace: optional(string(KUBERNETES_NAME), 'Namespace of the service; without it that of the pod.'),
    service: optional(string(KUBERNETES_NAME), 'Service whose endpoints are the servers.'),
    selector: optional(string(SELECTOR), 'Label selector of EndpointSlices, which have the labels of their service.'),
    port: optional(portOrName(), 'Port of the pods or its name; without it the only port, or the one named http.'),
    model: optional(string(MODEL_NAME), 'Model of servers without modelLabel.'),
    modelLabel: optional(string(LABEL_NAME), 'Label of the service that names the model.'),
    dialectsLabel: optional(string(LABEL_NAME), 'Label with the dialects, separated by dots.'),
    aliasLabel: optional(string(LABEL_NAME), 'Label with a further name of the model.'),
    weightLabel: optional(string(LABEL_NAME), 'Label with the weight of each server.'),
    labels: setting(
      choice(['service', 'pod']),
      'service',
      'Whose labels these are; those of pods can only be read with the right to list and watch pods.',
    ),
    server: optional(url(BASE_URL), 'Base URL of the API server; without it that of the cluster of the pod.'),
    account: setting(
      string(PATH),
      '/var/run/secrets/kubernetes.io/serviceaccount',
      'Folder of the service account: token, ca.crt and namespace.',
    ),
    ...FOUND_SERVERS,
    apiKey: FOUND_KEY,
  }),
  file: section('A discovery map in a file.', {
    kind: required(choice(['file']), 'A discovery map in a file, watched.'),
    path: required(string(), 'Path of the file, YAML or JSON; from the folder of the configuration.'),
    apiKey: FOUND_KEY,
  }),
};

/** All settings; sections are records. */
export const SCHEMA = section('General', {
  listen: setting(
    address('0.0.0.0'),
    '0.0.0.0:8080',
    'Public interface as HOST:PORT; port 0 picks a free one.',
    RESTART,
  ),
  admin: setting(
    nullable(address('127.0.0.1')),
    '127.0.0.1:9090',
    'Admin interface (metrics, dashboard) as HOST:PORT.',
    RESTART,
  ),
  adminHosts: setting(
    list(string(HOST_NAME)),
    [],
    'Further host names under which the admin interface is reached, such as that of a proxy.',
  ),
  adminToken: setting(
    nullable(string(TOKEN)),
    null,
    'Token that operators send to the admin interface; required to serve accounts and keys there.',
    SECRET,
  ),
  adminTokens: setting(
    list(ADMIN_TOKEN),
    [],
    'Further tokens for the admin interface, each with a name and a role; adminToken is an owner.',
    SECRET,
  ),
  threads: setting(
    integerOr('auto', { max: 1024 }),
    'auto',
    'Ingress threads; auto is one per core, 0 runs everything in one thread.',
    RESTART,
  ),
  sharePort: setting(
    boolean(),
    false,
    'Whether several gateways may listen on the same port, so that one can replace another.',
    RESTART,
  ),
  server: setting(
    choice(['auto', 'uws', 'node']),
    'auto',
    "HTTP server; auto and node are the gateway's own, uws is the optional package uWebSockets.js.",
    RESTART,
  ),
  servicePrefix: setting(string(SEGMENT), 'svc', 'First segment of the paths of the gateway itself.', RESTART),
  listingPrefix: setting(string(SEGMENT), 'aggregator', 'First segment of the path of the marketplace list.', RESTART),
  publicScheme: setting(
    choice(['http', 'https']),
    'http',
    'Scheme that clients use to reach the gateway; with https, cookies are Secure.',
  ),
  trustedProxies: setting(
    list(addressBlock()),
    [],
    'Addresses and CIDR blocks of the proxies whose X-Forwarded-* headers are passed on to servers.',
  ),
  errorBodies: setting(
    choice(['auto', 'contract', 'dialect']),
    'auto',
    'Body of errors: detail alone, with the error object of the dialect, or with it for SDKs only (auto).',
  ),
  ownedBy: setting(string(), 'headrace', 'Value of owned_by in the model list.'),
  mcp: setting(
    boolean(),
    true,
    'Whether /mcp serves fetch, and with engines search, as tools (Model Context Protocol).',
  ),
  compat: setting(
    list(choice(COMPATIBLE)),
    [...COMPATIBLE],
    'Products whose interfaces search and fetch also have, below a path of their name.',
  ),
  serverTiming: setting(boolean(), false, 'Whether answers carry a Server-Timing header.'),
  streamKeepAlive: setting(
    nullable(duration()),
    null,
    'Silence after which a comment line is sent on a stream to keep it open.',
  ),
  models: setting(map(MODEL), {}, 'The models, by the id that clients ask for.'),
  webSearchTool: setting(
    boolean(),
    false,
    'Whether searches run as the web search tool of requests to models whose servers have none.',
  ),
  discovery: setting(
    nullable(listOrText(oneOf(DISCOVERY), url())),
    null,
    'Where servers are found: the URL of a discovery map, or a list of sources. Merged with models.',
  ),
  discoveryInterval: setting(duration(), '30s', 'Time between two requests to a discovery URL.'),
  health: section('Health probes', {
    interval: setting(duration(), '5s', 'Time between two probes of a server.'),
    timeout: setting(duration(), '2s', 'Longest wait for the answer to a probe.'),
    path: setting(string(PATH), '/health', 'Path to probe; {model} is replaced by the model.'),
    rise: setting(integer({ min: 1 }), 1, 'Consecutive good probes that bring a server back.'),
    fall: setting(integer({ min: 1 }), 2, 'Consecutive bad probes that take a server out.'),
  }),
  ejection: section('Ejection of failing servers', {
    consecutive: setting(integer({ min: 1 }), 5, 'Consecutive failed requests that eject a server.'),
    errorRate: setting(number({ max: 1 }), 0.5, 'Share of failed requests in the window that ejects a server.'),
    outlierRate: setting(
      number({ max: 1 }),
      0.1,
      'Share of failed requests that ejects a server whose peers do better by outlierFactor.',
    ),
    outlierFactor: setting(
      number({ min: 1 }),
      3,
      'Share of a server relative to its peers from which outlierRate applies.',
    ),
    minRequests: setting(
      integer({ min: 1 }),
      20,
      'Requests of a server in the window below which shares are not evaluated.',
    ),
    window: setting(duration(), '10s', 'Length of the window over which shares are taken.'),
    backoff: setting(duration(), '1s', 'Time of the first ejection; it doubles with every consecutive ejection.'),
    backoffMax: setting(duration(), '10s', 'Longest time of an ejection.'),
    slowStart: setting(
      duration({ min: 0 }),
      '10s',
      'Time over which a returning server gets back its full share; 0 is at once.',
    ),
    maxShare: setting(number({ max: 1 }), 0.5, "Largest share of a model's servers that may be ejected at once."),
  }),
  rewrite: section('Rewriting of requests', {
    volatileSystem: setting(
      boolean(),
      true,
      'Whether the billing line of Claude Code, new in every request, is taken out of system texts.',
    ),
  }),
  routing: section('Routing', {
    affinity: setting(
      boolean(),
      true,
      'Whether requests with a common prefix go to the same server, for its KV cache.',
    ),
    missWeight: setting(
      number({ max: 100 }),
      2,
      'Weight of prompt bytes that a server would have to prefill, relative to bytes that wait there.',
    ),
    requestBytes: setting(
      bytes({ min: 0, max: 16 * 1024 ** 2 }),
      '4KiB',
      'Load of a request in flight besides its prefill, in bytes of prompt.',
    ),
    speedWeight: setting(
      number({ max: 2 }),
      1,
      "Weight of a server's measured prefill speed; 0 takes all servers for equally fast.",
    ),
    failurePenalty: setting(
      number({ max: 20 }),
      10,
      'Doublings of the cost of a server whose last answers all failed; a share counts in proportion.',
    ),
    commonShare: setting(
      number({ max: 1 }),
      0.2,
      'Share of requests from which a common beginning of prompts attracts no more of them; 0 is off.',
    ),
    prior: setting(
      number({ max: 1 }),
      0.5,
      'Share of an unknown prompt that one server, the same for all gateways, is expected to hold at most.',
    ),
    sessionPrior: setting(number({ max: 1 }), 0.2, 'The same for requests that name a session.'),
    stickiness: setting(
      number({ min: 1, max: 1000 }),
      4,
      'Cost of the server of the affinity cookie, relative to the best one, above which a request leaves it.',
    ),
    boundedLoad: setting(
      nullable(number({ min: 1, max: 1000 })),
      null,
      'Without effect: load is a part of the cost of a server. Accepted in files that have it.',
    ),
    indexBytes: setting(
      bytes({ min: 64 * 1024, max: 4 * 1024 ** 3 }),
      '64MiB',
      'Memory of the index of prompt blocks, rounded down to a power of two; 8 bytes per block and server.',
      RESTART,
    ),
    isolate: setting(
      choice(['none', 'account']),
      'none',
      'Who is taken to share cached prompts: all clients of a model, or only those of an account.',
    ),
    retryBudget: setting(number({ max: 1 }), 0.2, 'Retries allowed as a share of requests.'),
    retryBurst: setting(integer({ max: 100_000 }), 64, 'Retries per model allowed at once before the share applies.'),
    hedge: setting(boolean(), false, 'Whether a stream whose first event is late is asked of a second server too.'),
    hedgeShare: setting(number({ max: 1 }), 0.05, 'Second servers asked for late streams, as a share of requests.'),
    hold: setting(
      duration({ min: 0 }),
      '0ms',
      'Prefill backlog of all servers of a model beyond which requests wait in the gateway; 0 turns it off.',
    ),
    holdTimeout: setting(duration(), '30s', 'Longest wait of a request for a server with a shorter backlog.'),
    holdRequests: setting(integer({ min: 1, max: 65_536 }), 1024, 'Requests of a model that may wait at a time.'),
    holdBytes: setting(bytes(), '256MiB', 'Memory that the bodies of requests of a model that wait may take.'),
    continue: setting(
      choice(['off', 'vllm', 'prefill']),
      'off',
      'How a text stream that breaks off is continued on another server; see Routing and failover.',
    ),
  }),
  timeouts: section('Timeouts', {
    connect: setting(duration(), '3s', 'Longest wait for a connection to a server.', RESTART),
    headers: setting(duration(), '600s', 'Longest wait for the head of an answer.'),
    firstByte: setting(
      nullable(duration()),
      null,
      'Longest wait for the first byte of an answer; null sets no limit of its own.',
    ),
    idle: setting(duration(), '60s', 'Longest silence of a server in the middle of an answer.'),
    body: setting(duration(), '30s', 'Longest silence of a client in the middle of a request body.'),
    clientIdle: setting(duration(), '120s', 'Longest time that a client may leave a waiting answer unread.'),
    clientKeepAlive: setting(duration(), '75s', 'Longest time that a connection of a client waits for a request.'),
    unready: setting(
      duration({ min: 0 }),
      '0ms',
      'Time at shutdown in which requests are still served while /health answers 503, for load balancers.',
    ),
    drain: setting(duration({ min: 0 }), '30s', 'Time that running requests get to finish at shutdown.'),
    keepAlive: setting(duration(), '60s', 'Time that an unused connection to a server stays open.', RESTART),
  }),
  limits: section('Limits', {
    bodyBytes: setting(bytes(), '100MiB', 'Largest request body.'),
    headerBytes: setting(bytes({ min: 1024 }), '16KiB', 'Largest head of a request.', RESTART),
    bufferedBytes: setting(
      bytes(),
      '1GiB',
      'Memory that waiting bodies and answers may take in the process, if there is as much.',
    ),
    connections: setting(
      integer({ min: 1 }),
      65_536,
      'Most connections of clients per thread, if descriptors suffice; more are closed as they come.',
    ),
    jsonDepth: setting(integer({ min: 1, max: 1000 }), 256, 'Deepest nesting of a JSON body.'),
    jsonValues: setting(
      integer({ min: 1 }),
      2_000_000,
      'Most values of a JSON body; each key of an object and each token id of a prompt count as one.',
    ),
    connectionsPerServer: setting(
      integer({ min: 1 }),
      4096,
      'Largest number of connections to one server, per thread.',
      RESTART,
    ),
    heldEventBytes: setting(bytes(), '1MiB', 'Largest single event of a stream.'),
  }),
  cors: section('Cross-origin requests', {
    origins: setting(list(string(ORIGIN)), ['*'], 'Origins of web pages that may call the gateway.'),
  }),
  keys: section('Client keys', {
    required: setting(boolean(), true, 'Whether callers need a key; false is an open gateway, for trusted networks.'),
    static: setting(list(STATIC_KEY), [], 'Client keys with the account each belongs to.', SECRET),
  }),
  trust: section('Hosts and gateway', {
    signingKey: setting(
      nullable(string()),
      null,
      'Gateway: Ed25519 key that signs keys for hosts: PEM, base64 or file:PATH.',
      { ...RESTART, ...SECRET },
    ),
    token: setting(
      nullable(string(TOKEN)),
      null,
      'Token that hosts send to the admin interface; with it the gateway serves hosts.',
      SECRET,
    ),
    interval: setting(
      duration(),
      '30s',
      'Time between two key snapshots to every host; a host asks after one and a half.',
      RESTART,
    ),
    ttl: setting(duration(), '30s', 'Gateway: silence after which a registered host is removed.'),
    maxHosts: setting(integer({ min: 1, max: 1024 }), 256, 'Gateway: largest number of registered hosts.'),
    gateway: setting(nullable(url(BASE_URL)), null, "Host: base URL of the gateway's admin interface.", RESTART),
    publicKey: setting(
      nullable(string()),
      null,
      'Host: Ed25519 keys of the gateway, in base64 or PEM, separated by commas.',
      RESTART,
    ),
    announce: setting(
      nullable(url(BASE_URL)),
      null,
      'Host: base URL under which it registers with the gateway.',
      RESTART,
    ),
    file: setting(nullable(string()), null, 'Host: file that keeps the last key snapshot over a restart.', RESTART),
    server: section('Host as a server of the gateway', {
      dialects: setting(
        listOr('auto', choice(DIALECT_WORDS)),
        'auto',
        'Host: dialects that it registers with.',
        RESTART,
      ),
      apiKey: setting(
        nullable(string(TOKEN)),
        null,
        'Host: credential that it asks the gateway to send; null is that of its models.',
        { ...RESTART, ...SECRET },
      ),
      weight: setting(
        number({ min: LEAST_WEIGHT, max: MOST_WEIGHT }),
        1,
        'Host: share of the load that it asks for, relative to the other servers of a model.',
        RESTART,
      ),
      aliases: setting(map(list(string(MODEL_NAME))), {}, 'Host: further names of its models, by model id.', RESTART),
    }),
  }),
  search: section('Search', {
    timeout: setting(duration(), '10s', 'Longest wait for an engine, from the moment a search begins.'),
    softTimeout: setting(
      duration(),
      '4s',
      'When the answers of half the engines are enough; the others are named slow and not charged.',
    ),
    perAccount: setting(
      integer({ min: 1 }),
      8,
      'Largest number of searches at once for one account, or one network without a key; others wait.',
    ),
    ids: setting(
      list(string()),
      ['engine_a', 'engine_b', 'engine_c', 'engine_d', 'engine_e'],
      'Engine ids that a request may name whether configured or not; configured ones may always be named.',
    ),
    default: setting(list(string()), ['engine_a', 'engine_b', 'engine_c'], 'Engines of a request that names none.'),
    engines: setting(map(open()), {}, 'The engines, by id.', SECRET),
    cacheTtl: setting(nullable(duration()), null, 'How long answers are cached for equal searches of one account.'),
    cacheBytes: setting(bytes(), '64MiB', 'Memory of the cache of answers, per thread.'),
    pricing: setting(
      map(decimal(MOST_USD)),
      {},
      'Price in USD of an engine that answers, by engine id, for each started ten results.',
    ),
  }),
  fetch: section('Pages', {
    timeout: setting(duration(), '15s', 'Longest time for a page, from acceptance to clean text.'),
    connectTimeout: setting(duration(), '5s', 'Longest wait for name lookup and connection to the server of a page.'),
    firstByteTimeout: setting(duration(), '10s', 'Longest wait for the head of an answer.'),
    maxBytes: setting(bytes(), '10MB', 'Largest page, counted after decompression.'),
    allow: setting(list(hostOrBlock()), [], 'Hosts and CIDR blocks that may be fetched although they are private.'),
    deny: setting(
      list(hostOrBlock()),
      [],
      'Hosts, with their subdomains, and CIDR blocks that are not fetched, whatever allow says.',
    ),
    ports: setting(
      nullable(list(integer({ min: 1, max: 65_535 }))),
      null,
      'Ports that may be fetched from; null: 80, 443, 8080 and 8443, and any port of the hosts in allow.',
    ),
    redirects: setting(integer({ max: 20 }), 5, 'Largest number of redirects that are followed.'),
    userAgent: setting(string(HEADER_VALUE), 'Headrace/0.1 (page reader)', 'User-Agent header of page requests.'),
    robots: setting(boolean(), false, 'Whether robots.txt is read before a page is fetched.'),
    concurrency: setting(integer({ min: 1 }), 256, 'Largest number of pages fetched at once.'),
    perAccount: setting(
      integer({ min: 1 }),
      8,
      'Largest number of pages fetched at once for one account, or for one network of clients without keys.',
    ),
    perHost: setting(integer({ min: 1 }), 8, 'Largest number of pages fetched from one host at once.'),
    hostDelay: setting(duration({ min: 0 }), '0ms', 'Shortest time between two requests to one host.'),
    cacheTtl: setting(nullable(duration()), '5m', 'How long clean pages are cached; null turns the cache off.'),
    cacheBytes: setting(bytes(), '64MiB', 'Memory of the cache of pages.'),
    cleaners: setting(
      integerOr('auto', { min: 1, max: 64 }),
      'auto',
      'Threads that clean pages; auto is half the cores.',
    ),
    queue: setting(
      integer({ min: 1 }),
      256,
      'Pages that may wait before new ones are refused, a quarter of them of one account.',
    ),
    cleanTimeout: setting(duration(), '5s', 'Longest time of a cleaner for one page; then the thread is replaced.'),
    cleanMemoryBytes: setting(bytes(), '256MiB', 'Largest memory of a cleaner; then the thread is replaced.'),
    price: setting(decimal(MOST_USD), '0', 'Price in USD of a page that was fetched.'),
    pagesPerCleaner: setting(integer({ min: 1 }), 10_000, 'Pages after which a cleaner thread is replaced.'),
    renderer: section('A browser for pages with scripts', {
      url: setting(
        nullable(string(DEVTOOLS)),
        null,
        'DevTools endpoint of a browser that runs the scripts of pages; null: none.',
        SECRET,
      ),
      when: setting(
        choice(['auto', 'never', 'always']),
        'auto',
        'Which pages are rendered; auto: those with scripts and less than 200 characters.',
      ),
      timeout: setting(duration(), '10s', 'Longest time of a page in the browser; then what it shows is taken.'),
      pages: setting(integer({ min: 1, max: 256 }), 4, 'Largest number of pages in the browser at once.'),
      queue: setting(integer({ min: 1 }), 64, 'Pages that may wait for the browser, a quarter of them of one account.'),
      requests: setting(integer({ min: 1 }), 500, 'Largest number of requests and tunnels of one page.'),
      maxBytes: setting(bytes(), '50MB', 'Largest sum of what one page sends and receives.'),
      memory: setting(bytes(), '256MiB', 'Largest memory of the scripts and documents of one page.'),
      proxyListen: setting(
        address('127.0.0.1'),
        '127.0.0.1:0',
        'Where the proxy for the browser listens while it has pages; port 0: any.',
      ),
      proxyHost: setting(
        nullable(string(HOST_NAME)),
        null,
        'Host by which the browser reaches that proxy; null: the one of proxyListen.',
      ),
    }),
  }),
  store: setting(
    nullable(string(STORE)),
    'sqlite:./headrace.db',
    'Ledger: sqlite:FILE, beside the configuration, sqlite::memory: or postgres://…; null: none.',
    { ...RESTART, ...SECRET },
  ),
  cluster: section('Cluster of gateways', {
    url: setting(
      nullable(string(ENGINE)),
      null,
      'Redis or Valkey that gateways share: redis://HOST, or rediss:// for TLS; null: this gateway is alone.',
      SECRET,
    ),
    name: setting(string(CLUSTER_NAME), 'headrace', 'Gateways of one name are siblings; begins the names of all keys.'),
  }),
  credit: section('Credit', {
    lease: setting(
      decimal(MOST_USD),
      '0.05',
      'Credit in USD that a gateway leases of an account beyond present needs; more where spending is fast.',
    ),
    leaseTtl: setting(
      duration({ min: 1000 }),
      '60s',
      'How long leases are valid, and priced requests are served, without the store.',
    ),
    flush: setting(
      duration({ max: 60_000 }),
      '250ms',
      'Interval at which threads write charges to the store; a thread that dies loses as much.',
    ),
    assumedTokens: setting(
      integer(),
      16_384,
      'Answer tokens that are held for a request without a limit, which is its limit then.',
    ),
  }),
  retention: section('Retention', {
    charges: setting(
      nullable(duration({ min: 31 * 86_400_000, max: 36_500 * 86_400_000 })),
      null,
      'Age at which audited charges of whole months are removed; sums by day stay. Null: never.',
    ),
    audit: setting(
      nullable(duration({ min: 60_000 })),
      '24h',
      'Interval of audits of the ledger and of the removal of what is too old; null: never.',
    ),
  }),
  costLog: section('Records of requests', {
    requests: setting(
      choice(['off', 'charged', 'all']),
      'off',
      'Requests of keys that the store records: none, those that cost something, all.',
    ),
    retention: setting(duration({ min: 60_000, max: 3_650 * 86_400_000 }), '30d', 'Age at which a record is removed.'),
    rows: setting(integer({ min: 1000 }), 1_000_000, 'Most records that are kept; the oldest are removed.'),
  }),
  responses: section('Responses', {
    store: setting(
      boolean(),
      true,
      'Whether responses are kept for previous_response_id, retrieval and background work.',
    ),
    ttl: setting(
      duration({ min: 60_000, max: 3_650 * 86_400_000 }),
      '30d',
      'Age at which a response is removed whose conversation has not gone on.',
    ),
    maxBytes: setting(bytes(), '4MiB', 'Largest response that is kept, and largest size of the events of one.'),
    accountBytes: setting(bytes(), '256MiB', 'Largest size of all responses of an account; the oldest are removed.'),
    background: setting(integer({ min: 0 }), 256, 'Responses that may run in the background at the same time.'),
    backgroundPerAccount: setting(integer({ min: 0 }), 32, 'The same for one account.'),
  }),
  webhooks: section('Webhooks', {
    endpoints: setting(map(WEBHOOK), {}, 'Receivers of events, by name.', SECRET),
    lowBalance: setting(
      nullable(decimal(MOST_USD)),
      null,
      'Credit in USD below which credit.low is sent, for accounts without a threshold.',
      RESTART,
    ),
    allow: setting(list(hostOrBlock()), [], 'Private hosts and CIDR blocks that may receive webhooks.'),
    timeout: setting(duration(), '15s', 'Longest wait for the answer of a receiver.'),
    retention: setting(
      duration({ min: 60_000, max: 3_650 * 86_400_000 }),
      '30d',
      'Age at which an event is removed whose deliveries have ended or have no endpoint any more.',
    ),
  }),
  payments: section('Payments (x402)', {
    facilitator: setting(
      nullable(url(BASE_URL)),
      null,
      'URL of the x402 facilitator that settles payments; null turns payments off.',
      RESTART,
    ),
    facilitatorHeaders: setting(
      headers(HEADER_VALUE),
      {},
      'Headers of requests to the facilitator, such as credentials, by name.',
      { ...RESTART, ...SECRET },
    ),
    payTo: setting(nullable(string(CHAIN_ADDRESS)), null, 'Address that is paid.', RESTART),
    rpc: setting(
      nullable(url()),
      null,
      'URL of a JSON-RPC node that is asked about unanswered settlements; null asks the facilitator only.',
      { ...RESTART, ...SECRET },
    ),
    unpaid: setting(
      integer({ min: 1 }),
      256,
      'Most requests without a key that are worked on before their payment is settled.',
      RESTART,
    ),
    unpaidPerPayer: setting(
      integer({ min: 1 }),
      8,
      'The same for one payer, who begins with one and gains one with every payment.',
      RESTART,
    ),
    network: setting(choice(NETWORKS), 'base', 'Chain on which payments are made.', RESTART),
    asset: setting(
      nullable(string(CHAIN_ADDRESS)),
      null,
      'Address of the token of payments, worth one USD; null is USDC.',
      RESTART,
    ),
    assetName: setting(nullable(string()), null, 'Name in the EIP-712 domain of a token other than USDC.', RESTART),
    assetVersion: setting(string(), '2', 'Version in that domain.', RESTART),
    assetDecimals: setting(integer({ min: 6, max: 12 }), 6, 'Decimal places of that token.', RESTART),
    maxPurchase: setting(decimal(MOST_USD), '1000', 'Largest purchase of credits in USD.', RESTART),
    minimum: setting(decimal(MOST_USD), '0.0001', 'Lowest price in USD of a request without a key.'),
    assumedTokens: setting(
      integer(),
      1024,
      'Answer tokens that are charged for a request without a key and without a limit.',
    ),
  }),
  log: section('Logging', {
    level: setting(choice(LOG_LEVELS), 'info', 'Lowest level that is written to standard error.'),
    requests: setting(
      choice(['off', 'errors', 'all']),
      'off',
      'Finished requests that are logged, one line each at level info: none, failed ones, all.',
    ),
    sample: setting(number({ max: 1 }), 1, 'Share of the requests without an error that is logged.'),
  }),
  requestLog: section('Request log', {
    size: setting(
      integer({ max: 1_000_000 }),
      10_000,
      'Last finished requests that each ingress thread keeps in memory; 0 turns the request log off.',
    ),
    prompts: setting(
      boolean(),
      false,
      'Whether prompts and answers are kept with them, for operators to read. They may be personal data.',
    ),
    promptLength: setting(
      integer({ min: 1, max: 100_000 }),
      2000,
      'Characters that are kept of a prompt, its last ones, and of an answer, its first ones.',
    ),
    clientAddress: setting(boolean(), false, 'Whether the IP address of the peer is kept with them.'),
  }),
  telemetry: section('Telemetry', {
    otlp: section('Traces', {
      endpoint: setting(
        nullable(url()),
        null,
        'URL that traces are posted to as OTLP/HTTP JSON; usually ends in /v1/traces.',
      ),
      headers: setting(headers(HEADER_VALUE), {}, 'Headers of these posts, by name.', SECRET),
      sample: setting(
        number({ max: 1 }),
        1,
        'Share of requests that are traced; a traceparent of the client takes precedence.',
      ),
      serviceName: setting(string(), 'headrace', 'Name of the gateway in traces.'),
    }),
  }),
});

/** The complete and checked configuration. Durations are in milliseconds, sizes in bytes, prices in USD. Frozen. */
export type Settings = SectionOutput<typeof SCHEMA.fields>;

/** The shape of the configuration file, and what `createGateway` takes. Every setting may be left out. */
export type SettingsInput = SectionInput<typeof SCHEMA.fields>;

/** One model of `Settings`. All fields but `servers` may be absent. */
export type ModelSettings = SectionOutput<typeof MODEL.fields>;

/** One server of a model. */
export type ServerSettings = SectionOutput<typeof SERVER.fields>;

/** One source of `discovery`. */
export type DiscoverySourceSettings = Exclude<NonNullable<Settings['discovery']>, string>[number];

/** The sources of `discovery`: a URL alone is one. */
export function discoverySources({ discovery }: Pick<Settings, 'discovery'>): readonly DiscoverySourceSettings[] {
  return typeof discovery === 'string' ? [{ kind: 'url', url: discovery }] : (discovery ?? []);
}

/** Whether a DNS source asks for SRV records: their names begin with a service and a protocol (RFC 2782). */
export function asksForSrv({ name, records }: Extract<DiscoverySourceSettings, { kind: 'dns' }>): boolean {
  return records === 'auto' ? /^_[^.]+\._[^.]+\./.test(name) : records === 'srv';
}

/** What a source is called in logs, metrics and on pages. Holds no secret: a query is left out. */
export function discoverySourceName(source: DiscoverySourceSettings): string {
  switch (source.kind) {
    case 'url':
      return source.url.replace(/\?.*$/, '?…');
    case 'dns':
      return `dns ${source.name}${source.port === undefined ? '' : `:${source.port}`}`;
    case 'kubernetes': {
      const { namespace, selector, service } = source;
      return `kubernetes ${[namespace, service, selector].filter((part) => part !== undefined).join('/')}`;
    }
    case 'file':
      return `file ${source.path}`;
  }
}

/** One model of `SettingsInput`. */
export type ModelInput = SectionInput<typeof MODEL.fields>;

/** One setting with the names that it goes by. */
export interface SettingRow {
  /** Path in the file: `timeouts.connect`. */
  readonly path: string;
  /** Path in `Settings`: `['timeouts', 'connectMs']`. */
  readonly resolvedPath: readonly string[];
  /** Name in the environment: `HEADRACE_TIMEOUTS_CONNECT`. */
  readonly env: string;
  /** Name on the command line: `--timeouts.connect`. */
  readonly flag: string;
  /** Title of the section that the setting belongs to. */
  readonly section: string;
  readonly setting: Setting;
}

/** Every setting outside the entries of lists and maps, in the order of the schema. */
export const SETTINGS: readonly SettingRow[] = rowsOf(SCHEMA, '', []);

/** The fields of one entry of `models`, by name. */
export const MODEL_FIELDS: Readonly<Record<string, Setting>> = MODEL.fields;

function rowsOf(record: Setting, prefix: string, parents: readonly string[]): SettingRow[] {
  return Object.entries(record.fields ?? {}).flatMap(([name, field]) => {
    const path = prefix + name;
    const resolvedPath = [...parents, resolvedName(name, field)];
    if (field.kind === 'record') return rowsOf(field, `${path}.`, resolvedPath);
    return [{ path, resolvedPath, env: envName(path), flag: `--${path}`, section: record.sentence, setting: field }];
  });
}

/** `timeouts.firstByte` is `HEADRACE_TIMEOUTS_FIRST_BYTE`. */
export function envName(path: string): string {
  return `HEADRACE_${path
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .replaceAll('.', '_')
    .toUpperCase()}`;
}
