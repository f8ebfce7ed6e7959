// Which path answers what:
//   POST /v1/chat/completions /v1/completions /v1/responses /v1/messages /completion /completions   generations
//   POST /v1/messages/count_tokens                                                                  tokens of a prompt
//   POST /v1/embeddings /v1/images/generations /v1/audio/speech                                     instant answers
//   GET  /v1/models /v1/models/{model} /health /health/{model}                                      lists and probes
//   POST /infill /tokenize /detokenize, GET /props /slots /metrics /sim/truth/{request id}          with an engine only
// Called by host.ts once a request is read and no fault stands before its answer.
import { answerByEngine } from './answering.ts';
import { LLAMA_GETS, LLAMA_POSTS } from './llama/endpoints.ts';
import type { Engine } from './llama/engine.ts';
import { PromptTooLong } from './llama/engine.ts';
import { metricsText } from './llama/metrics.ts';
import type { CompletionOptions } from './llama/options.ts';
import { InvalidOptions, invalidOption } from './llama/options.ts';
import { llamaProblem } from './llama/result.ts';
import type { Pace, Pacer } from './pacing.ts';
import { parsePace, parsePlannedTokens } from './pacing.ts';
import type { Reply } from './reply.ts';
import { Stream } from './stream.ts';
import { countTokens, cutAtStop, seedOf, writeWords } from './text.ts';
import { chat } from './wire/chat.ts';
import { completions } from './wire/completions.ts';
import { embed } from './wire/embeddings.ts';
import { CONTEXT_TOKENS, llama } from './wire/llama.ts';
import { drawImages, speak } from './wire/media.ts';
import { messages } from './wire/messages.ts';
import { responses } from './wire/responses.ts';
import type { Generation, Json, Wire } from './wire/wire.ts';
import { openaiProblem } from './wire/wire.ts';

/** What the routes need to know of their host. */
export interface Simulation {
  readonly name: string;
  readonly models: readonly string[];
  readonly loadable: readonly string[];
  readonly pace: Pace;
  /** Words of an answer when the request names no maximum. */
  readonly maxTokens: number;
  /** Words after which the simulated model comes to its end by itself. */
  readonly naturalTokens: number;
  readonly seed: number;
  readonly pacer: Pacer;
  /** What answers in place of the word chain; null: nothing. */
  readonly engine: Engine | null;
  /** Tokens of a compatible answer by the engine when its request names no maximum; -1: no bound. */
  readonly engineTokens: number;
  loading(): boolean;
  /** What `/health` says besides its status. */
  healthDetails(): Json;
  /** Requests in progress. */
  live(): number;
}

/** Answers are dated alike everywhere, so that the same request gets the same bytes but for its id. */
const CREATED_SECONDS = 1_767_225_600;

/** No answer is longer, whatever is asked: an answer is made whole before its first word leaves. */
const MAX_TOKENS = 1_000_000;

const COUNT_PATH = '/v1/messages/count_tokens';

const WIRES: ReadonlyMap<string, Wire> = new Map([
  ['/v1/chat/completions', chat],
  ['/v1/completions', completions],
  ['/v1/responses', responses],
  ['/v1/messages', messages],
  ['/completion', llama],
  ['/completions', llama],
]);

const INSTANT: ReadonlyMap<string, (body: Json, model: string, reply: Reply) => void> = new Map([
  ['/v1/embeddings', (body: Json, model: string, reply: Reply) => reply.json(200, embed(body, model))],
  [
    '/v1/images/generations',
    (body: Json, _: string, reply: Reply) => reply.json(200, drawImages(body, CREATED_SECONDS)),
  ],
  ['/v1/audio/speech', (body: Json, _: string, reply: Reply) => reply.body(200, 'audio/wav', speak(body))],
]);

/** An error body in the dialect of the path. */
export function problemOf(path: string, status: number, message: string, code: string): Json {
  const wire = path === COUNT_PATH ? messages : WIRES.get(path);
  if (wire === llama || LLAMA_POSTS.has(path)) return llamaProblem(status, message);
  return { detail: message, ...(wire?.problem(status, message, code) ?? openaiProblem(status, message, code)) };
}

/** Answers an error in the dialect of the path. */
export function refuse(reply: Reply, status: number, message: string, code: string): void {
  reply.json(status, problemOf(reply.entry.path, status, message, code));
}

/** Answers a GET. */
export function answerGet(simulation: Simulation, reply: Reply): void {
  const { path } = reply.entry;
  if (path === '/health') {
    if (simulation.loading()) return reply.json(503, { status: unready(simulation).code }, { 'retry-after': '1' });
    return reply.json(200, { status: 'ok', ...simulation.healthDetails() });
  }
  if (path.startsWith('/health/')) return answerModelHealth(simulation, reply, path.slice('/health/'.length));
  if (path === '/v1/models')
    return reply.json(200, { object: 'list', data: simulation.models.map((id) => listed(id, simulation)) });
  if (path.startsWith(MODEL_PATH)) {
    const named = decode(path.slice(MODEL_PATH.length));
    const model = modelNamed(simulation, named);
    if (model !== undefined) return reply.json(200, listed(model, simulation));
    return refuse(reply, 404, `The model '${named}' does not exist`, 'model_not_found');
  }
  if (simulation.engine !== null && answerEngineGet(simulation, simulation.engine, reply)) return;
  refuse(reply, 404, `no such path: GET ${path}`, 'not_found');
}

/** Why a host that is loading, or whose engine is gone, does not answer. */
function unready({ engine }: Simulation): { readonly code: string; readonly message: string } {
  if (engine?.health() !== 'failed') return { code: 'loading', message: 'Loading model' };
  return { code: 'engine away', message: `The engine behind this host (${engine.kind}) is away` };
}

/** A model in any case of letters. */
function modelNamed({ models }: Simulation, name: string): string | undefined {
  return models.find((id) => id.toLowerCase() === name.toLowerCase());
}

function answerModelHealth(simulation: Simulation, reply: Reply, segment: string): void {
  const model = decode(segment);
  if (simulation.models.includes(model)) {
    if (simulation.loading()) return reply.json(503, { status: unready(simulation).code }, { 'retry-after': '1' });
    return reply.json(200, { status: 'ok', model });
  }
  if (simulation.loadable.includes(model)) return reply.json(202, { status: 'not loaded', model });
  refuse(reply, 404, `The model '${model}' does not exist`, 'model_not_found');
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** False when the path is none of those that need an engine. */
function answerEngineGet(simulation: Simulation, engine: Engine, reply: Reply): boolean {
  const { path, query } = reply.entry;
  const endpoint = LLAMA_GETS.get(path);
  if (endpoint !== undefined) {
    const model = new URLSearchParams(query).get('model') ?? simulation.models[0]!;
    if (!simulation.models.includes(model))
      refuse(reply, 404, `The model '${model}' does not exist`, 'model_not_found');
    else void endpoint({ engine, reply, body: {}, model, planned: {}, truthId: null });
    return true;
  }
  if (path === '/metrics') {
    void answerMetrics(simulation, engine, reply);
    return true;
  }
  if (!path.startsWith(TRUTH_PATH)) return false;
  const truth = engine.truth?.(decode(path.slice(TRUTH_PATH.length)));
  if (truth === undefined) refuse(reply, 404, 'nothing is known of that request', 'not_found');
  else reply.json(200, truth);
  return true;
}

const TRUTH_PATH = '/sim/truth/';
const MODEL_PATH = '/v1/models/';

async function answerMetrics(simulation: Simulation, engine: Engine, reply: Reply): Promise<void> {
  const engineText = (await engine.metrics?.()) ?? null;
  const text = metricsText(engine.figures(), simulation.models, simulation.live(), engineText);
  reply.body(200, 'text/plain; version=0.0.4', Buffer.from(text));
}

function listed(id: string, { engine }: Simulation): Json {
  const contextTokens = engine?.contextTokens(id) ?? CONTEXT_TOKENS;
  return {
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
export function answerPost(simulation: Simulation, reply: Reply, body: Json | undefined, bytes: Buffer): void {
  const { path } = reply.entry;
  const wire = WIRES.get(path);
  const instant = INSTANT.get(path);
  if (simulation.engine !== null) return answerWithEngine(simulation, simulation.engine, reply, body, bytes);
  const isCount = path === COUNT_PATH;
  if (wire === undefined && instant === undefined && !isCount) {
    return refuse(reply, 404, `no such path: POST ${path}`, 'not_found');
  }
  if (simulation.loading()) return refuse(reply, 503, unready(simulation).message, unready(simulation).code);
  if (body === undefined) return refuse(reply, 400, 'the body is not a JSON object', 'invalid_request');
  const model = modelOf(simulation, wire, body);
  if (model === undefined) return refuse(reply, 400, 'model must be a text', 'invalid_request');
  if (!simulation.models.includes(model)) {
    return refuse(reply, 404, `The model '${model}' does not exist`, 'model_not_found');
  }
  let generation: Generation;
  try {
    if (isCount) return reply.json(200, { input_tokens: countTokens(messages.read(body).prompt) });
    if (wire === undefined) return instant?.(body, model, reply);
    generation = generationOf(simulation, wire, reply, body, model);
  } catch (error) {
    return refuseError(reply, error as Error);
  }
  answerGeneration(simulation, wire, reply, generation);
}

/** Answers a POST of a host with an engine; whatever a request gets wrong is answered here. */
function answerWithEngine(
  simulation: Simulation,
  engine: Engine,
  reply: Reply,
  body: Json | undefined,
  bytes: Buffer,
): void {
  const { path } = reply.entry;
  const wire = LLAMA_POSTS.has(path) ? undefined : WIRES.get(path);
  const endpoint = LLAMA_POSTS.get(path);
  const instant = INSTANT.get(path);
  const isCount = path === COUNT_PATH;
  if (wire === undefined && instant === undefined && endpoint === undefined && !isCount) {
    return refuse(reply, 404, `no such path: POST ${path}`, 'not_found');
  }
  if (simulation.loading()) return refuse(reply, 503, unready(simulation).message, unready(simulation).code);
  if (body === undefined) return refuseOptions(reply, NO_OBJECT);
  const named = body['model'] ?? (endpoint === undefined ? undefined : simulation.models[0]);
  if (typeof named !== 'string') return refuseOptions(reply, named === undefined ? NO_MODEL : NO_TEXT_MODEL);
  const model = modelNamed(simulation, named);
  if (model === undefined) return refuse(reply, 404, `The model '${named}' does not exist`, 'model_not_found');
  if (engine.relay !== undefined && endpoint === undefined) return relay(engine.relay, reply, model, bytes);
  if (isCount) return countPrompt(engine, reply, model, body);
  const truthId = reply.entry.headers['x-headrace-truth'] === undefined ? null : reply.id;
  const { name, engineTokens: maxTokens } = simulation;
  reply.onExhaust(() => engine.exhaust?.());
  try {
    if (instant !== undefined) {
      if (engine.kind === 'simulated') return instant(body, model, reply);
      return refuse(reply, 404, `The engine behind this host (${engine.kind}) does not serve ${path}`, 'not_found');
    }
    const planned = plannedOf(engine, reply);
    if (wire === undefined) {
      const answered = endpoint!({ engine, reply, body, model, planned, truthId });
      return void answered?.catch((error: Error) => refuseError(reply, error));
    }
    const id = `${name}-${reply.entry.id}`;
    answerByEngine(engine, reply, { wire, body, model, id, created: CREATED_SECONDS, maxTokens, planned, truthId });
  } catch (error) {
    refuseError(reply, error as Error);
  }
}

/** What the request's plan changes in its options: an exact length. Real engines are not to be steered by it. */
function plannedOf({ kind }: Engine, reply: Reply): Partial<CompletionOptions> {
  if (kind !== 'simulated') return {};
  const tokens = parsePlannedTokens(headerOf(reply, 'x-headrace-sim'));
  return tokens === null ? {} : { n_predict: tokens, ignore_eos: true };
}

function countPrompt(engine: Engine, reply: Reply, model: string, body: Json): void {
  if (engine.countPrompt === undefined) {
    return refuse(reply, 501, `the engine of this host (${engine.kind}) does not count tokens`, 'not_supported');
  }
  const count = async (): Promise<void> => {
    messages.read(body);
    const input_tokens = await engine.countPrompt!(model, messages.want(body).prompts[0]!);
    reply.json(200, { input_tokens });
  };
  count().catch((error: Error) => refuseError(reply, error));
}

/** For engines that speak the dialects themselves. */
function relay(send: NonNullable<Engine['relay']>, reply: Reply, model: string, body: Buffer): void {
  const gone = new AbortController();
  const { path, headers } = reply.entry;
  reply.onClose(() => gone.abort());
  send({ path, model, headers, body, signal: gone.signal })
    .then((answer) => reply.pass(answer.status, answer.headers, answer.body))
    .catch((error: Error) => {
      // After its head an answer can only be cut; before it there is still a status for the failure.
      if (reply.entry.status === 0) refuse(reply, 502, error.message, 'engine_failed');
      else reply.drop();
    });
}

const NO_OBJECT = new InvalidOptions([
  {
    loc: ['body'],
    msg: 'Input should be a valid dictionary or object to extract fields from',
    type: 'model_attributes_type',
  },
]);
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
  reply.json(422, { ...problem, detail: error.entries });
}

/** Clients of the llama-style API name no model: they get the first. */
function modelOf(simulation: Simulation, wire: Wire | undefined, body: Json): string | undefined {
  const { model } = body;
  if (typeof model === 'string') return model;
  return model === undefined && wire === llama ? simulation.models[0] : undefined;
}

function generationOf(simulation: Simulation, wire: Wire, reply: Reply, body: Json, model: string): Generation {
  const ask = wire.read(body);
  if (ask.choices > 1) throw invalidOption('n', 'a host with a fixed pace gives one choice');
  if (ask.logProbs !== null) throw invalidOption('logprobs', 'a host with a fixed pace has no log probabilities');
  const pace = parsePace(headerOf(reply, 'x-headrace-sim'), simulation.pace);
  const natural = ask.maxTokens === undefined ? simulation.maxTokens : simulation.naturalTokens;
  const limit = pace.tokens ?? ask.maxTokens ?? Infinity;
  const unending = pace.tokens !== undefined || (body['ignore_eos'] === true && ask.maxTokens !== undefined);
  const count = Math.min(MAX_TOKENS, unending ? limit : Math.min(limit, natural));
  const seed = seedOf(simulation.seed, model, ask.prompt);
  const { pieces, stoppingWord } = cutAtStop(writeWords(seed, count), ask.stops);
  return {
    id: `${simulation.name}-${reply.entry.id}`,
    model,
    created: CREATED_SECONDS,
    body,
    ask,
    index: 0,
    siblings: [],
    hasEnded: true,
    logProbs: null,
    pieces,
    finish: stoppingWord === '' && count === limit ? 'length' : 'stop',
    stoppingWord,
    promptTokens: countTokens(ask.prompt),
    cachedTokens: 0,
    outputTokens: pieces.length,
    callsTools: false,
    calls: [],
    timeToFirstTokenMs: pace.timeToFirstTokenMs,
    interTokenMs: pace.interTokenMs,
  };
}

function answerGeneration({ pacer }: Simulation, wire: Wire, reply: Reply, generation: Generation): void {
  if (generation.ask.stream) return new Stream(generation, wire.frames(generation), reply, pacer).start();
  const answer = (): void => {
    if (reply.fault.errorAfter === undefined) reply.json(200, wire.answer(generation));
    else refuse(reply, 500, 'the simulated engine failed', 'server_error');
  };
  const { timeToFirstTokenMs, interTokenMs, pieces } = generation;
  const takesMs = timeToFirstTokenMs + interTokenMs * Math.max(0, pieces.length - 1);
  if (takesMs === 0) answer();
  else pacer.after(takesMs, answer);
}

/** One request header as a text, or undefined. */
export function headerOf(reply: Reply, name: string): string | undefined {
  const value = reply.entry.headers[name];
  return Array.isArray(value) ? value.join(',') : value;
}
