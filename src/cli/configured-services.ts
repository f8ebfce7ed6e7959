// Asks everything that a configuration names whether it is there and as expected: servers of models, search engines, sources of servers, the
// store and the payment facilitator. Costs nothing: servers get requests that they refuse, and engines that charge are not searched.

import { createSystem, systemClock } from '../actor/index.ts';
import { inspectStore } from '../billing/main-thread.ts';
import { DIALECT_WORDS, type DialectWord } from '../config/dialect-bits.ts';
import {
  type DiscoverySourceSettings,
  discoverySourceName,
  discoverySources,
  type Settings,
} from '../config/settings.ts';
import { parseJson } from '../config/json-text.ts';
import { storeName } from '../config/store-url.ts';
import { counted } from '../config/units.ts';
import { messageOf } from '../errors.ts';
import { Discovery, readDiscoveryMap } from '../discovery/index.ts';
import { BufferedClient, type BufferedRequest, type BufferedResponse } from '../net/buffered-client.ts';
import { errorReason, mayBePath, pathUnknown, statusReason } from '../routing/index.ts';
import { probe } from '../routing/main-thread.ts';
import {
  checkedRequest,
  configureEngines,
  type Engine,
  EngineError,
  type EngineQuery,
  type EngineRequest,
  type EngineSpec,
  foldersOf,
} from '../search/index.ts';

/** What was found of one thing. */
export interface Finding {
  readonly what: 'server' | 'search engine' | 'discovery' | 'store' | 'facilitator';
  readonly name: string;
  /** Of a server. */
  readonly models?: readonly string[];
  /** `not asked`: it is there, and asking it more would cost. */
  readonly result: 'ok' | 'wrong' | 'not asked';
  /** In plain words. */
  readonly found: string;
  /** Of the first answer; null without one. */
  readonly latencyMs: number | null;
  readonly suggestions: readonly string[];
}

/** Things that are asked at the same time. */
const CONCURRENCY = 16;

/** Longest wait for one answer where no setting says it. */
const TIMEOUT_MS = 5000;
const MAX_BYTES = 4 * 1024 * 1024;

/** Names in a sentence, and characters of a name: a server may list whatever it likes. */
const MOST_NAMES = 8;
const MOST_CHARS = 100;

/** Asks all. `onDone` is called after each. The findings have the order of the configuration. */
export async function askServices(
  settings: Settings,
  onDone: (done: number, all: number) => void = () => undefined,
): Promise<Finding[]> {
  const client = new BufferedClient(4);
  try {
    const tasks = tasksOf(settings, client);
    const findings: Finding[] = [];
    let next = 0;
    let done = 0;
    const work = async (): Promise<void> => {
      for (let at = next++; at < tasks.length; at = next++) {
        findings[at] = await (tasks[at] as () => Promise<Finding>)();
        onDone(++done, tasks.length);
      }
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, work));
    return findings;
  } finally {
    client.close();
  }
}

function tasksOf(settings: Settings, client: BufferedClient): (() => Promise<Finding>)[] {
  const { payments, search, store } = settings;
  const tasks = serversOf(settings).map((server) => () => new ServerCheck(client, server).run());
  for (const source of discoverySources(settings)) {
    tasks.push(() => (source.kind === 'url' ? askDiscovery(client, source.url) : askSource(source, settings)));
  }
  for (const engine of configureEngines(search.engines, () => 0).engines) tasks.push(() => askEngine(client, engine));
  if (store !== null) tasks.push(() => askStore(store));
  const { facilitator } = payments;
  if (facilitator !== null) tasks.push(() => askFacilitator(client, facilitator, payments));
  return tasks;
}

/** One base URL, asked with one key. */
interface Server {
  readonly url: string;
  readonly apiKey: string | undefined;
  readonly models: string[];
  /** As declared; empty: found out. */
  readonly dialects: readonly DialectWord[];
  readonly health: Settings['health'];
}

function serversOf({ health, models }: Settings): Server[] {
  const found = new Map<string, Server>();
  for (const [id, { apiKey: common, dialects: ofModel, servers }] of Object.entries(models)) {
    for (const { apiKey = common, dialects = ofModel, url } of servers) {
      const declared = dialects === undefined || dialects === 'auto' ? [] : dialects;
      const key = JSON.stringify([url, apiKey, declared]);
      const known = found.get(key);
      if (known === undefined) found.set(key, { url, apiKey, models: [id], dialects: declared, health });
      else known.models.push(id);
    }
  }
  return [...found.values()];
}

type Outcome = Pick<Finding, 'found' | 'latencyMs' | 'result' | 'suggestions'>;

/** An answer, or why there is none. */
type Answer = (BufferedResponse & { readonly latencyMs: number }) | { readonly status: null; readonly reason: string };

async function ask(client: BufferedClient, request: BufferedRequest, timeoutMs = TIMEOUT_MS): Promise<Answer> {
  const sentMs = systemClock.now();
  try {
    const response = await client.send(request, AbortSignal.timeout(timeoutMs), MAX_BYTES);
    return { ...response, latencyMs: since(sentMs) };
  } catch (error) {
    return { status: null, reason: errorReason(error, timeoutMs) };
  }
}

/** Milliseconds, in tenths. */
function since(sentMs: number): number {
  return Math.round((systemClock.now() - sentMs) * 10) / 10;
}

const ACCEPT_JSON = { accept: 'application/json', 'user-agent': 'headrace' };

function get(client: BufferedClient, url: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
  return ask(client, { method: 'GET', url, headers: { ...ACCEPT_JSON, ...headers } });
}

/** Paths by which servers may say that they are healthy. */
const HEALTH_PATHS = ['/health', '/v1/models', '/healthz', '/ping'];

/** Where requests of a dialect go. */
const DIALECT_PATHS: Readonly<Record<DialectWord, string>> = {
  chat: '/v1/chat/completions',
  completions: '/v1/completions',
  responses: '/v1/responses',
  messages: '/v1/messages',
  llama: '/completion',
};

class ServerCheck {
  readonly #client: BufferedClient;
  readonly #server: Server;
  readonly #suggestions: string[] = [];
  readonly #said: string[] = [];
  #isWrong = false;

  constructor(client: BufferedClient, server: Server) {
    this.#client = client;
    this.#server = server;
  }

  async run(): Promise<Finding> {
    const { models, url } = this.#server;
    return { what: 'server', name: url, models, ...(await this.#outcome()) };
  }

  async #outcome(): Promise<Outcome> {
    const { url } = this.#server;
    const sentMs = systemClock.now();
    const health = await this.#health(url);
    const latencyMs = health.isAnswered ? since(sentMs) : null;
    if (health.reason === null) this.#said.push('healthy');
    else this.#complain(health.reason);
    if (health.isAnswered) {
      await this.#readModels();
      await this.#findDialects();
    }
    if (health.reason !== null || this.#isWrong) await this.#findBetterUrl(health);
    const result = this.#isWrong ? 'wrong' : 'ok';
    return { result, latencyMs, found: this.#said.join('; '), suggestions: this.#suggestions };
  }

  #complain(sentence: string): void {
    this.#isWrong = true;
    this.#said.push(sentence);
  }

  /** Probes as a running gateway does. */
  async #health(url: string, path: string = this.#healthPath): Promise<{ reason: string | null; isAnswered: boolean }> {
    const { timeoutMs } = this.#server.health;
    try {
      const { reason, status } = await probe(this.#client, url + path, timeoutMs);
      // A model that is not loaded is no mistake.
      return { reason: status === 202 ? null : reason, isAnswered: status > 0 };
    } catch (error) {
      return { reason: errorReason(error, timeoutMs), isAnswered: false };
    }
  }

  get #healthPath(): string {
    const { health, models } = this.#server;
    return health.path.replace('{model}', () => encodeURIComponent(models[0] ?? ''));
  }

  get #credentials(): Record<string, string> {
    const { apiKey } = this.#server;
    return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  }

  async #readModels(): Promise<void> {
    const { apiKey, models, url } = this.#server;
    const answer = await get(this.#client, `${url}/v1/models`, this.#credentials);
    if (answer.status === null) {
      this.#said.push(`no model list: ${answer.reason}`);
    } else if (answer.status === 401 || answer.status === 403) {
      this.#complain(`${statusReason(answer.status, pathOf(`${url}/v1/models`))}: ${keyProblem(apiKey)}`);
      this.#suggestions.push(apiKey === undefined ? 'set apiKey of the model or the server' : 'check its apiKey');
    } else if (answer.status !== 200) {
      this.#said.push(`no model list: ${statusReason(answer.status, pathOf(`${url}/v1/models`))}`);
    } else {
      this.#compareModels(models, answer);
    }
  }

  #compareModels(models: readonly string[], { body }: BufferedResponse): void {
    const listed = listedModels(body);
    if (listed === null) {
      this.#said.push('its model list cannot be read');
      return;
    }
    this.#said.push(listed.ids.length === 0 ? 'lists no model' : `lists ${namesOf(listed.ids)}`);
    const missing = models.filter((model) => !listed.ids.includes(model));
    // One model, whatever it is called: llama-server lists the path of its file.
    if (missing.length === 0 || listed.ids.length === 0 || listed.takesAnyName) return;
    this.#complain(`does not list ${namesOf(missing)}`);
    this.#suggestions.push(
      `serve ${namesOf(missing)} there under this name, or name the model as the server does: ${namesOf(listed.ids)}`,
    );
  }

  /** Requests without a prompt: a server refuses those that it knows the path of, and answers 404 or 405 to others. */
  async #findDialects(): Promise<void> {
    const { dialects, models, url } = this.#server;
    const headers = { ...ACCEPT_JSON, ...this.#credentials, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: models[0], max_tokens: 1, n_predict: 1 });
    const found = await Promise.all(
      DIALECT_WORDS.map(async (word) => {
        const request = { method: 'POST', url: url + DIALECT_PATHS[word], headers, body } as const;
        const answer = await ask(this.#client, request);
        return answer.status === null ? null : isKnownPath(answer.status, answer.body);
      }),
    );
    const spoken = DIALECT_WORDS.filter((_, at) => found[at] === true);
    const lacking = DIALECT_WORDS.filter((word, at) => found[at] === false && dialects.includes(word));
    if (spoken.length > 0) this.#said.push(`dialects ${spoken.join(', ')}`);
    else if (found.every((each) => each === false)) this.#complain('knows the path of no dialect');
    if (lacking.length === 0) return;
    this.#complain(`is declared to speak ${lacking.join(', ')}, and does not`);
    this.#suggestions.push('correct dialects of the model or the server');
  }

  async #findBetterUrl({ isAnswered, reason }: { reason: string | null; isAnswered: boolean }): Promise<void> {
    const { url } = this.#server;
    for (const candidate of shorterUrls(url)) {
      if ((await this.#health(candidate)).reason !== null) continue;
      const models = await get(this.#client, `${candidate}/v1/models`, this.#credentials);
      if (models.status === null || models.status === 404) continue;
      this.#suggestions.push(`remove ${url.slice(candidate.length)}: the server answers at ${candidate}`);
      return;
    }
    if (isAnswered && reason !== null) {
      for (const path of HEALTH_PATHS) {
        if (path === this.#healthPath || (await this.#health(url, path)).reason !== null) continue;
        this.#suggestions.push(`set health.path to ${path}, which the server answers`);
        return;
      }
    }
    if (reason === null) return;
    const isPlain = url.startsWith('http:');
    const other = isPlain ? url.replace('http:', 'https:') : url.replace('https:', 'http:');
    const { reason: otherReason, isAnswered: speaks } = await this.#health(other);
    if (speaks || otherReason?.startsWith('TLS certificate') === true) {
      this.#suggestions.push(`write ${isPlain ? 'https' : 'http'}: ${other}`);
    }
  }
}

function keyProblem(apiKey: string | undefined): string {
  return apiKey === undefined ? 'the server wants a key' : 'the server refuses the key';
}

/** Whether a server knows the path of a request that it answered so; null where that cannot be told. */
function isKnownPath(status: number, body: Buffer): boolean | null {
  if ((status >= 500 && status !== 501) || status === 401 || status === 403 || status === 429) return null;
  // Not followed: what is there is the word of another address.
  if (status >= 300 && status < 400) return null;
  return !mayBePath(status) || (status === 404 && !pathUnknown(status, body));
}

/** The URL without `/v1`, and without its path. */
function shorterUrls(url: string): string[] {
  const { origin } = new URL(url);
  const candidates = [url.replace(/\/v1$/, ''), origin];
  return [...new Set(candidates)].filter((candidate) => candidate !== url);
}

function pathOf(url: string): string {
  return new URL(url).pathname;
}

function listedModels(body: Buffer): { ids: string[]; takesAnyName: boolean } | null {
  try {
    const { data } = parseJson(body.toString()) as { readonly data?: unknown };
    if (!Array.isArray(data)) return null;
    const entries = data as readonly ({ readonly id?: unknown; readonly owned_by?: unknown } | null)[];
    return {
      ids: entries.flatMap((entry) => (typeof entry?.id === 'string' ? [entry.id] : [])),
      takesAnyName: entries.some((entry) => entry?.owned_by === 'llamacpp'),
    };
  } catch {
    return null;
  }
}

/** Names in a sentence, as many as are read. */
export function namesOf(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  const shown = names
    .slice(0, MOST_NAMES)
    .map((name) => (name.length > MOST_CHARS ? `${name.slice(0, MOST_CHARS)}…` : name));
  return shown.join(', ') + (more > 0 ? ` and ${more} more` : '');
}

function onServers(models: number, servers: number): string {
  return `${counted(models, 'model')} on ${counted(servers, 'server')}`;
}

async function askDiscovery(client: BufferedClient, url: string): Promise<Finding> {
  const about = { what: 'discovery', name: url.replace(/\?.*$/, '?…') } as const;
  const answer = await get(client, url);
  const wrong = (found: string): Finding => ({ ...about, ...outcomeOf('wrong', found, answer) });
  if (answer.status === null) return wrong(answer.reason);
  if (answer.status !== 200) return wrong(statusReason(answer.status, pathOf(url)));
  try {
    const { models, notes } = readDiscoveryMap(parseJson(answer.body.toString()));
    const servers = new Set([...models.values()].flatMap(({ servers: own }) => own.map((server) => server.url)));
    const found = [onServers(models.size, servers.size), ...notes].join('; ');
    return { ...about, ...outcomeOf(notes.length === 0 ? 'ok' : 'wrong', found, answer) };
  } catch (error) {
    return wrong(error instanceof SyntaxError ? 'is not JSON' : messageOf(error));
  }
}

/** Longest wait for a source: name servers and API servers are tried twice within it. */
const SOURCE_TIMEOUT_MS = 10_000;

/** Asks a source as a gateway does, once. */
async function askSource(source: DiscoverySourceSettings, settings: Settings): Promise<Finding> {
  const sentMs = systemClock.now();
  const reported = Promise.withResolvers<void>();
  const timer = systemClock.setTimeout(reported.resolve, SOURCE_TIMEOUT_MS);
  const system = createSystem({ name: 'check', clock: systemClock });
  const log = { info: () => undefined, warn: () => undefined };
  const discovery = new Discovery({
    ...{ system, log, clock: systemClock },
    get: () => Promise.reject(new Error('polls nothing')),
    onChange: () => undefined,
    onAnswered: reported.resolve,
  });
  try {
    discovery.configure({ discovery: [source], discoveryIntervalMs: settings.discoveryIntervalMs });
    await reported.promise;
    const [status] = discovery.status();
    const { models = 0, notes = [], problem = null, servers = 0, state = 'waiting' } = status ?? {};
    const found = problem ?? (state === 'waiting' ? 'no answer in time' : onServers(models, servers));
    return {
      what: 'discovery',
      name: discoverySourceName(source),
      result: state === 'ok' && notes.length === 0 ? 'ok' : 'wrong',
      found: [found, ...notes].join('; '),
      latencyMs: state === 'ok' ? since(sentMs) : null,
      suggestions: [],
    };
  } finally {
    systemClock.clearTimeout(timer);
    await system.terminate();
  }
}

function outcomeOf(result: Finding['result'], found: string, answer: Answer, suggestions: string[] = []): Outcome {
  return { result, found, latencyMs: answer.status === null ? null : answer.latencyMs, suggestions };
}

/** Kinds of which every search costs. */
const PAID: ReadonlySet<string> = new Set(['brave', 'exa', 'mojeek', 'serper', 'tavily']);

async function askEngine(client: BufferedClient, { id, workers }: EngineSpec): Promise<Finding> {
  const outcomes = await Promise.all(workers.map((engine) => engineOutcome(client, engine)));
  const wrong = outcomes.find(({ result }) => result === 'wrong');
  const [first] = outcomes;
  const kind = workers[0]?.kind ?? '';
  return { what: 'search engine', name: `${id} (${kind})`, ...((wrong ?? first) as Outcome) };
}

async function engineOutcome(client: BufferedClient, engine: Engine): Promise<Outcome> {
  const query: EngineQuery = { query: 'water', type: engine.types[0] ?? 'web', maxResults: 1 };
  const sentMs = systemClock.now();
  if ('search' in engine) {
    try {
      const hits = await engine.search(query, AbortSignal.timeout(TIMEOUT_MS));
      return {
        result: 'ok',
        found: `a search had ${counted(hits.length, 'hit')}`,
        latencyMs: since(sentMs),
        suggestions: [],
      };
    } catch (error) {
      return refused(engine, error);
    }
  }
  let request: EngineRequest;
  try {
    await engine.ready;
    request = checkedRequest(engine.request(query, undefined));
  } catch (error) {
    return refused(engine, error);
  }
  if (engine.kind === 'worker') return workerOutcome(await get(client, request.url.replace(/\/search$/, '/health')));
  if (PAID.has(engine.kind)) {
    const answer = await get(client, `${new URL(request.url).origin}/`);
    if (answer.status === null) return outcomeOf('wrong', answer.reason, answer);
    return outcomeOf('not asked', 'reachable; a search would cost, so the key was not tried', answer);
  }
  const answer = await ask(client, request);
  if (answer.status === null) return outcomeOf('wrong', answer.reason, answer);
  try {
    const { hits } = engine.parse(answer, { query, state: undefined, collected: 0, nowMs: 0 });
    return outcomeOf('ok', `a search had ${counted(hits.length, 'hit')}`, answer);
  } catch (error) {
    const status = answer.status === 200 ? '' : ` (${statusReason(answer.status, pathOf(request.url))})`;
    const found = error instanceof EngineError ? error.reason : 'invalid response';
    return outcomeOf('wrong', `${found}${status}`, answer);
  }
}

/** The engine itself refused, before anything was sent. */
function refused(engine: Engine, error: unknown): Outcome {
  return { result: 'wrong', found: reasonOf(engine, error), latencyMs: null, suggestions: [] };
}

function reasonOf(engine: Engine, error: unknown): string {
  if (!(error instanceof EngineError)) return messageOf(error);
  const [folder] = foldersOf([{ workers: [engine] }]);
  // All other answers of an index can be read.
  return folder !== undefined && error.failure === 'invalid'
    ? `the folder ${folder.path} cannot be read`
    : error.reason;
}

/** A worker may stand before an engine that charges. */
function workerOutcome(answer: Answer): Outcome {
  if (answer.status === null) return outcomeOf('wrong', answer.reason, answer);
  if (answer.status === 200) return outcomeOf('ok', 'healthy; a search may cost, so the secret was not tried', answer);
  if (answer.status === 404)
    return outcomeOf('not asked', 'reachable; it has no /health, and was not searched', answer);
  return outcomeOf('wrong', statusReason(answer.status, '/health'), answer);
}

async function askStore(url: string): Promise<Finding> {
  const about = { what: 'store', name: storeName(url) } as const;
  const sentMs = systemClock.now();
  try {
    const { exists, isWritable, newest, version } = await inspectStore(url, systemClock);
    const schema = version === newest ? `schema ${version}` : `schema ${version}, which a start brings to ${newest}`;
    const found = !exists ? 'does not exist yet: a gateway makes it' : version === 0 ? 'empty' : schema;
    const latencyMs = since(sentMs);
    if (version > newest) {
      const problem = `schema ${version} is newer than ${newest}, the newest that this version knows`;
      return { ...about, result: 'wrong', found: problem, latencyMs, suggestions: ['use a newer version'] };
    }
    if (isWritable) return { ...about, result: 'ok', found, latencyMs, suggestions: [] };
    return { ...about, result: 'wrong', found: `${found}; it cannot be written to`, latencyMs, suggestions: [] };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const found = code === undefined || code === 'ERR_SQLITE_ERROR' ? messageOf(error) : errorReason(error, TIMEOUT_MS);
    return { ...about, result: 'wrong', found, latencyMs: null, suggestions: [] };
  }
}

/** The other names of networks: CAIP-2, and those of the first version of x402. */
const CHAINS: Readonly<Record<string, string>> = {
  base: 'eip155:8453',
  'base-sepolia': 'eip155:84532',
  'eip155:8453': 'base',
  'eip155:84532': 'base-sepolia',
};

async function askFacilitator(client: BufferedClient, url: string, payments: Settings['payments']): Promise<Finding> {
  const about = { what: 'facilitator', name: url } as const;
  const headers = Object.entries(payments.facilitatorHeaders).map(([name, value]) => [name.toLowerCase(), value]);
  const answer = await get(client, `${url}/supported`, Object.fromEntries(headers) as Record<string, string>);
  if (answer.status === null) return { ...about, ...outcomeOf('wrong', answer.reason, answer) };
  if (answer.status !== 200)
    return { ...about, ...outcomeOf('wrong', statusReason(answer.status, pathOf(`${url}/supported`)), answer) };
  const { network } = payments;
  const isSupported = [network, CHAINS[network]].some(
    (name) => name !== undefined && answer.body.includes(`"${name}"`),
  );
  const found = isSupported ? `supports ${network}` : `does not list ${network}`;
  return { ...about, ...outcomeOf(isSupported ? 'ok' : 'wrong', found, answer) };
}
