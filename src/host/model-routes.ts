// The HTTP endpoints of a host:
//   POST /v1/chat/completions /v1/completions /v1/responses /v1/messages    compatible dialects
//   POST /completion /completions /infill /tokenize /detokenize, GET /props /slots    llama-style API
//   POST /apply-template /embedding(s) /rerank /reranking /models/load /models/unload    llama-server's own
//   POST /v1/messages/count_tokens /v1/embeddings /v1/images/generations /v1/audio/speech    no generation
//   GET /models /models/{model} /health /health/{model} /metrics /sim/truth/{request id}    lists and probes
// Paths of `PATH_ALIASES` mean the same as others.
import { percentDecoded } from '../net/percent-decoding.ts';
import { type CompletionOptions, InvalidOptions } from './completion-options.ts';
import { answerByEngine, countTokens } from './dialect-answer.ts';
import { type Pace, parsePace } from './engine/pace.ts';
import { chatFormat } from './formats/chat-format.ts';
import { completionsFormat } from './formats/completions-format.ts';
import { drawImages, embed, speak } from './formats/fixed-answers.ts';
import { type ApiFormat, type Json, openaiProblem } from './formats/format.ts';
import { messagesFormat } from './formats/messages-format.ts';
import { responsesFormat } from './formats/responses-format.ts';
import { metricsText } from './host-metrics.ts';
import { llamaProblem } from './completion-reply.ts';
import { readJsonBody } from './json-body.ts';
import { LLAMA_GETS, LLAMA_POSTS, SERVER_POSTS } from './llama-api.ts';
import { type ModelEngine, PromptTooLong } from './model-engine.ts';
import type { Reply } from './reply.ts';
import type { Script } from './script.ts';
import type { SystemPrompts } from './system-prompts.ts';

/** What the routes need to know of their host. */
export interface RouteDeps {
  readonly name: string;
  readonly models: readonly string[];
  readonly loadable: readonly string[];
  readonly engine: ModelEngine;
  readonly script: Script | undefined;
  /** Dialects that are served; undefined: all. */
  readonly dialects: readonly HostDialect[] | undefined;
  /** Tokens of a compatible answer when its request names no maximum; -1: for the engine to say. */
  readonly maxTokens: number;
  readonly systemPrompts: SystemPrompts;
  loading(): boolean;
  /** Part of the ids of an answer. Without a seed no answer of whichever host and run has it: gateways keep responses by their ids. */
  answerId(request: number): string;
  /** What `/health` says besides its status. */
  healthDetails(): Json;
  /** Requests in progress. */
  live(): number;
}

/** Answers are dated alike everywhere, so that the same request gets the same bytes but for its id. */
const CREATED_SECONDS = 1_767_225_600;

/** Paths that count the tokens of a prompt, with the dialect of their bodies. */
export const COUNTS: ReadonlyMap<string, ApiFormat> = new Map([
  ['/v1/messages/count_tokens', messagesFormat],
  ['/v1/chat/completions/input_tokens', chatFormat],
  ['/v1/responses/input_tokens', responsesFormat],
]);

/**
 * Paths of llama-server that mean the same as others. Its `/completions` and `/embeddings` are APIs of their own, and with `/v1/health`
 * a base URL that ends in `/v1` by mistake would look healthy.
 */
export const PATH_ALIASES: ReadonlyMap<string, string> = new Map([
  ['/chat/completions', '/v1/chat/completions'],
  ['/chat/completions/input_tokens', '/v1/chat/completions/input_tokens'],
  ['/models', '/v1/models'],
  ['/responses', '/v1/responses'],
  ['/responses/input_tokens', '/v1/responses/input_tokens'],
]);

/** The path of a request by the name that the routes know. */
function pathOf({ entry: { path } }: Reply): string {
  return PATH_ALIASES.get(path) ?? path;
}

const LOAD_PATH = '/models/load';
const UNLOAD_PATH = '/models/unload';

const FORMATS: ReadonlyMap<string, ApiFormat> = new Map([
  ['/v1/chat/completions', chatFormat],
  ['/v1/completions', completionsFormat],
  ['/v1/responses', responsesFormat],
  ['/v1/messages', messagesFormat],
]);

/** Dialects by the names of the setting `dialects`, with their paths. */
const PATHS = {
  chat: ['/v1/chat/completions', '/v1/chat/completions/input_tokens'],
  completions: ['/v1/completions'],
  responses: ['/v1/responses', '/v1/responses/input_tokens'],
  messages: ['/v1/messages', '/v1/messages/count_tokens'],
  llama: [...LLAMA_POSTS.keys(), ...SERVER_POSTS.keys(), ...LLAMA_GETS.keys(), LOAD_PATH, UNLOAD_PATH],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type HostDialect = keyof typeof PATHS;

export const HOST_DIALECTS = Object.keys(PATHS) as readonly HostDialect[];

const DIALECTS: ReadonlyMap<string, HostDialect> = new Map(
  HOST_DIALECTS.flatMap((dialect) => PATHS[dialect].map((path) => [path, dialect] as const)),
);

/** Answers 404, as servers without the path do, when the path belongs to a dialect that is not served. */
function refuseDialect({ dialects }: RouteDeps, reply: Reply): boolean {
  const dialect = DIALECTS.get(pathOf(reply));
  if (dialects === undefined || dialect === undefined || dialects.includes(dialect)) return false;
  reply.json(404, { detail: 'Not Found' });
  return true;
}

const INSTANT: ReadonlyMap<string, (body: Json, model: string, reply: Reply) => void> = new Map([
  ['/v1/embeddings', (body: Json, model: string, reply: Reply) => reply.json(200, embed(body, model))],
  [
    '/v1/images/generations',
    (body: Json, _: string, reply: Reply) => reply.json(200, drawImages(body, CREATED_SECONDS)),
  ],
  ['/v1/audio/speech', (body: Json, _: string, reply: Reply) => reply.body(200, 'audio/wav', speak(body))],
]);

/** An error body in the dialect of the path. */
export function problemOf(sent: string, status: number, message: string, code: string): Json {
  const path = PATH_ALIASES.get(sent) ?? sent;
  const format = COUNTS.get(path) ?? FORMATS.get(path);
  if (DIALECTS.get(path) === 'llama') return llamaProblem(status, message);
  return { detail: message, ...(format?.problem(status, message, code) ?? openaiProblem(status, message, code)) };
}

/** Answers an error in the dialect of the path. */
export function refuse(reply: Reply, status: number, message: string, code: string): void {
  reply.json(status, problemOf(reply.entry.path, status, message, code));
}

/** Answers that the path is not served, or not by this method. */
export function refuseMethod(reply: Reply): void {
  const { method, path } = reply.entry;
  const known = pathOf(reply);
  const isPost = POSTS.some((paths) => paths.has(known));
  const isGet = LLAMA_GETS.has(known) || GETS.has(known) || known.startsWith(MODEL_PATH);
  const isEither = method === 'GET' || method === 'POST';
  if (isEither && !isPost && !isGet) return refuse(reply, 404, `no such path: ${method} ${path}`, 'not_found');
  const allow = isPost ? 'POST' : isGet ? 'GET' : 'GET, POST';
  const problem = problemOf(path, 405, `${method} is not served`, 'method_not_allowed');
  reply.json(405, problem, { allow });
}

const POSTS: readonly ReadonlyMap<string, unknown>[] = [FORMATS, INSTANT, LLAMA_POSTS, SERVER_POSTS, COUNTS];
const GETS: ReadonlySet<string> = new Set(['/health', '/metrics', '/v1/models']);

/** Answers a GET; 502 when the engine fails to show what is asked for. */
export function answerGet(deps: RouteDeps, reply: Reply, account: string | null): void {
  show(deps, reply, account).catch((error: Error) => refuse(reply, 502, error.message, 'engine_failed'));
}

async function show(deps: RouteDeps, reply: Reply, account: string | null): Promise<void> {
  const path = pathOf(reply);
  if (refuseDialect(deps, reply)) return;
  if (path === '/health') {
    if (deps.loading()) return refuseUnready(deps, reply);
    return reply.json(200, { status: 'ok', ...deps.healthDetails() });
  }
  if (path.startsWith('/health/')) return answerModelHealth(deps, reply, path.slice('/health/'.length));
  if (path === '/v1/models') return reply.json(200, { object: 'list', data: listedModels(deps, reply) });
  if (path.startsWith(MODEL_PATH)) {
    const named = percentDecoded(path.slice(MODEL_PATH.length));
    const model = modelNamed(deps, named);
    if (model !== undefined) return reply.json(200, listed(model, deps));
    return refuseModel(reply, named);
  }
  if (await answerEngineGet(deps, reply, account)) return;
  const value = await deps.engine.shown?.(path);
  if (value === undefined) refuseMethod(reply);
  else reply.json(200, value);
}

/** Error of a host that is loading, or whose engine has failed. */
function unready(engine: ModelEngine): { readonly code: string; readonly message: string } {
  if (engine.health() !== 'failed') return { code: 'loading', message: 'Loading model' };
  return { code: 'engine away', message: `The engine behind this host (${engine.kind}) is away` };
}

/** In the words of the interface, and in llama-server's. */
function refuseUnready({ engine }: RouteDeps, reply: Reply): void {
  const { code, message } = unready(engine);
  reply.json(503, { status: code, error: { code: 503, message, type: 'unavailable_error' } }, { 'retry-after': '1' });
}

function refuseModel(reply: Reply, named: string): void {
  refuse(reply, 404, `The model '${named}' does not exist`, 'model_not_found');
}

/** A model in any case of letters. */
function modelNamed({ models }: RouteDeps, name: string): string | undefined {
  return models.find((id) => id.toLowerCase() === name.toLowerCase());
}

function answerModelHealth(deps: RouteDeps, reply: Reply, segment: string): void {
  const model = percentDecoded(segment);
  if (deps.models.includes(model)) {
    if (deps.loading()) return refuseUnready(deps, reply);
    const { instance } = deps.healthDetails();
    return reply.json(200, { status: 'ok', model, ...(instance !== undefined && { instance }) });
  }
  if (deps.loadable.includes(model)) return reply.json(202, { status: 'not loaded', model });
  refuseModel(reply, model);
}

/** False when the path is none of the engine's. */
async function answerEngineGet(deps: RouteDeps, reply: Reply, account: string | null): Promise<boolean> {
  const { engine, systemPrompts } = deps;
  const { path } = reply.entry;
  const query = new URLSearchParams(reply.entry.query);
  const endpoint = LLAMA_GETS.get(path);
  if (endpoint !== undefined) {
    const named = query.get('model') ?? deps.models[0]!;
    const model = modelNamed(deps, named);
    if (model === undefined) refuseModel(reply, named);
    else await endpoint({ engine, reply, model, account, systemPrompts, query });
    return true;
  }
  if (path === '/metrics') {
    await answerMetrics(deps, reply);
    return true;
  }
  if (!path.startsWith(TIMINGS_PATH)) return false;
  const timings = engine.timings?.(percentDecoded(path.slice(TIMINGS_PATH.length)));
  if (timings === undefined) refuse(reply, 404, 'no timings are kept for this request', 'not_found');
  else reply.json(200, timings);
  return true;
}

const TIMINGS_PATH = '/sim/truth/';
const MODEL_PATH = '/v1/models/';

async function answerMetrics(deps: RouteDeps, reply: Reply): Promise<void> {
  const { engine } = deps;
  const engineText = (await engine.metrics?.()) ?? null;
  const text = metricsText(engine.figures(), deps.models, deps.live(), engineText);
  reply.body(200, 'text/plain; version=0.0.4', Buffer.from(text));
}

/** The models of the host. On llama-server's path with those that are known and not loaded, as its router lists them. */
function listedModels(deps: RouteDeps, reply: Reply): Json[] {
  const loaded = deps.models.map((id) => listed(id, deps));
  if (reply.entry.path !== '/models') return loaded;
  const absent = deps.loadable.map((id) => ({ id, object: 'model', created: CREATED_SECONDS, owned_by: 'headrace' }));
  return [
    ...loaded.map((model) => ({ ...model, status: { value: 'loaded' } })),
    ...absent.map((model) => ({ ...model, status: { value: 'unloaded' } })),
  ];
}

function listed(id: string, { engine }: RouteDeps): Json {
  const contextTokens = engine.contextTokens(id);
  return {
    ...(contextTokens > 0 && { meta: { n_ctx: contextTokens } }),
    ...engine.listed?.(id),
    id,
    object: 'model',
    created: CREATED_SECONDS,
    owned_by: 'headrace',
    root: id,
    // An engine that does not say has 0.
    ...(contextTokens > 0 && { max_model_len: contextTokens }),
  };
}

/** Answers a POST whose body is read; `body` is undefined when it was no JSON object. */
export function answerPost(
  deps: RouteDeps,
  reply: Reply,
  account: string | null,
  body: Json | undefined,
  bytes: Buffer,
): void {
  if (refuseDialect(deps, reply)) return;
  const { engine, systemPrompts } = deps;
  const path = pathOf(reply);
  const endpoint = LLAMA_POSTS.get(path);
  const server = SERVER_POSTS.get(path);
  const format = FORMATS.get(path);
  const instant = INSTANT.get(path);
  const counted = COUNTS.get(path);
  if (path === LOAD_PATH || path === UNLOAD_PATH) return answerLoad(deps, reply, path, body);
  const isOwn = engine.relays?.(path) === true;
  if (!isOwn && [format, instant, endpoint, server, counted].every((found) => found === undefined)) {
    return refuseMethod(reply);
  }
  if (deps.loading()) return refuse(reply, 503, unready(engine).message, unready(engine).code);
  if (body === undefined) {
    if (engine.isPaced === true) return refuse(reply, 400, 'the body is not a JSON object', 'invalid_request');
    const read = readJsonBody(bytes);
    return refuseOptions(reply, new InvalidOptions('errors' in read ? read.errors : []));
  }
  const isLlama = isOwn || endpoint !== undefined || server !== undefined;
  const model = askedModel(deps, reply, body['model'] ?? (isLlama ? deps.models[0] : undefined));
  if (model === undefined) return;
  if (engine.relay !== undefined && endpoint === undefined) return relay(engine.relay, reply, model, bytes);
  const system = systemPrompts.of(model, account).prompt;
  if (counted !== undefined) return countPrompt({ engine, reply, model, body, system }, counted);
  const timingsId = reply.entry.headers['x-headrace-truth'] === undefined ? null : reply.id;
  reply.onExhaust(() => engine.exhaust?.());
  try {
    if (instant !== undefined) {
      if (engine.kind === 'simulated') return instant(body, model, reply);
      return refuse(reply, 404, `The engine behind this host (${engine.kind}) does not serve ${path}`, 'not_found');
    }
    const { planned, pace } = planOf(engine, reply);
    if (server !== undefined && engine.kind !== 'simulated') {
      return refuse(reply, 501, `the engine of this host (${engine.kind}) does not serve ${path}`, 'not_supported');
    }
    if (format === undefined) {
      const request = { engine, reply, body, model, account, systemPrompts, planned, pace, timingsId };
      const answered = (endpoint ?? server)!(request);
      return void answered?.catch((error: Error) => refuseError(reply, error));
    }
    const { maxTokens, script } = deps;
    const id = deps.answerId(reply.entry.id);
    const request = {
      format,
      body,
      model,
      system,
      id,
      created: CREATED_SECONDS,
      maxTokens,
      planned,
      pace,
      timingsId,
      script,
    };
    answerByEngine(engine, reply, request);
  } catch (error) {
    refuseError(reply, error as Error);
  }
}

/** The model that a request asks for; undefined once the request was refused. */
function askedModel(deps: RouteDeps, reply: Reply, named: unknown): string | undefined {
  const isLenient = deps.engine.isPaced === true;
  if (typeof named !== 'string') {
    if (isLenient) refuse(reply, 400, 'model must be a text', 'invalid_request');
    else refuseOptions(reply, named === undefined ? NO_MODEL : NO_TEXT_MODEL);
    return undefined;
  }
  const model = isLenient ? deps.models.find((id) => id === named) : modelNamed(deps, named);
  if (model === undefined) refuseModel(reply, named);
  return model;
}

/**
 * What the header `x-headrace-sim` changes: the pace of a paced engine, of other simulated ones the length alone. Real engines
 * are not to be steered by it. Throws an Error for what it does not understand.
 */
function planOf(
  { isPaced, kind }: ModelEngine,
  reply: Reply,
): { readonly planned: Partial<CompletionOptions>; readonly pace: Partial<Pace> } {
  if (kind !== 'simulated') return { planned: {}, pace: {} };
  const pace = parsePace(headerOf(reply, 'x-headrace-sim'));
  if (isPaced === true) return { planned: {}, pace };
  const { timeToFirstTokenMs, interTokenMs, tokens } = pace;
  const fixed = timeToFirstTokenMs !== undefined ? 'ttft' : interTokenMs !== undefined ? 'itl' : null;
  if (fixed !== null) {
    throw new Error(`'${fixed}' is for hosts with a fixed pace (--ttft, --itl); this one is as fast as its engine`);
  }
  return { planned: tokens === undefined ? {} : { n_predict: tokens, ignore_eos: true }, pace: {} };
}

/**
 * What llama-server's router does on request: here the models are loaded as long as the host runs, so that no client takes
 * one away from another.
 */
function answerLoad(deps: RouteDeps, reply: Reply, path: string, body: Json | undefined): void {
  const named = body?.['model'];
  if (typeof named !== 'string') return refuseOptions(reply, named === undefined ? NO_MODEL : NO_TEXT_MODEL);
  const isLoaded = modelNamed(deps, named) !== undefined;
  if (!isLoaded && !deps.loadable.includes(named)) {
    return refuseModel(reply, named);
  }
  if (path === LOAD_PATH && isLoaded) return reply.json(200, { success: true });
  refuse(reply, 501, 'the models of this host are loaded and unloaded by its operator', 'not_supported');
}

interface CountRequest {
  readonly engine: ModelEngine;
  readonly reply: Reply;
  readonly model: string;
  readonly body: Json;
  readonly system: string;
}

function countPrompt({ engine, reply, model, body, system }: CountRequest, format: ApiFormat): void {
  if (engine.countPrompt === undefined) {
    return refuse(reply, 501, `the engine of this host (${engine.kind}) does not count tokens`, 'not_supported');
  }
  countTokens(engine, model, format, body, system)
    .then((tokens) =>
      reply.json(200, { ...(format !== messagesFormat && { object: 'response.input_tokens' }), input_tokens: tokens }),
    )
    .catch((error: Error) => refuseError(reply, error));
}

/** For engines that serve the dialects themselves. */
function relay(send: NonNullable<ModelEngine['relay']>, reply: Reply, model: string, body: Buffer): void {
  const gone = new AbortController();
  const { headers } = reply.entry;
  const path = pathOf(reply);
  reply.onClose(() => gone.abort());
  send({ path, model, headers, body, signal: gone.signal })
    .then((answer) => reply.pass(answer.status, answer.headers, answer.body))
    .catch((error: Error) => {
      // After its head an answer can only be cut; before it there is still a status for the failure.
      if (reply.entry.status === 0) refuse(reply, 502, error.message, 'engine_failed');
      else reply.drop();
    });
}

const NO_MODEL = new InvalidOptions([{ loc: ['body', 'model'], msg: 'Field required', type: 'missing' }]);
const NO_TEXT_MODEL = new InvalidOptions([
  { loc: ['body', 'model'], msg: 'Input should be a valid string', type: 'string_type' },
]);

function refuseError(reply: Reply, error: Error): void {
  if (error instanceof InvalidOptions) refuseOptions(reply, error);
  else if (error instanceof PromptTooLong) refuse(reply, 400, error.message, 'context_length_exceeded');
  else refuse(reply, 400, error.message, 'invalid_request');
}

/** The standard shape of a 422, with the dialect's own error beside it. */
function refuseOptions(reply: Reply, error: InvalidOptions): void {
  const problem = problemOf(reply.entry.path, 422, error.message, 'invalid_request');
  reply.json(422, { ...problem, detail: error.entries.map(({ loc, msg, type }) => ({ loc, msg, type })) });
}

/** One request header as a text, or undefined. */
export function headerOf(reply: Reply, name: string): string | undefined {
  const value = reply.entry.headers[name];
  return Array.isArray(value) ? value.join(',') : value;
}
