// Which path answers what:
//   POST /v1/chat/completions /v1/completions /v1/responses /v1/messages /completion /completions   generations
//   POST /v1/embeddings /v1/images/generations /v1/audio/speech                                     instant answers
//   GET  /v1/models /health /health/{model}                                                         lists and probes
// Called by host.ts once a request is read and no fault stands before its answer.
import type { Pace, Pacer } from './pacing.ts';
import { parsePace } from './pacing.ts';
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
  loading(): boolean;
}

/** Answers are dated alike everywhere, so that the same request gets the same bytes but for its id. */
const CREATED_SECONDS = 1_767_225_600;

/** No answer is longer, whatever is asked: an answer is made whole before its first word leaves. */
const MAX_TOKENS = 1_000_000;

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
  return WIRES.get(path)?.problem(status, message, code) ?? openaiProblem(status, message, code);
}

/** Answers an error in the dialect of the path. */
export function refuse(reply: Reply, status: number, message: string, code: string): void {
  reply.json(status, problemOf(reply.entry.path, status, message, code));
}

/** Answers a GET. */
export function answerGet(simulation: Simulation, reply: Reply): void {
  const { path } = reply.entry;
  if (path === '/health') {
    if (simulation.loading()) return reply.json(503, { status: 'loading' }, { 'retry-after': '1' });
    return reply.json(200, { status: 'ok' });
  }
  if (path.startsWith('/health/')) return answerModelHealth(simulation, reply, path.slice('/health/'.length));
  if (path === '/v1/models') return reply.json(200, { object: 'list', data: simulation.models.map(listed) });
  refuse(reply, 404, `no such path: GET ${path}`, 'not_found');
}

function answerModelHealth(simulation: Simulation, reply: Reply, segment: string): void {
  const model = decode(segment);
  if (simulation.models.includes(model)) {
    if (simulation.loading()) return reply.json(503, { status: 'loading' }, { 'retry-after': '1' });
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

function listed(id: string): Json {
  return {
    id,
    object: 'model',
    created: CREATED_SECONDS,
    owned_by: 'headrace',
    root: id,
    max_model_len: CONTEXT_TOKENS,
  };
}

/** Answers a POST whose body is read; `body` is undefined when it was no JSON object. */
export function answerPost(simulation: Simulation, reply: Reply, body: Json | undefined): void {
  const { path } = reply.entry;
  const wire = WIRES.get(path);
  const instant = INSTANT.get(path);
  if (wire === undefined && instant === undefined) return refuse(reply, 404, `no such path: POST ${path}`, 'not_found');
  if (simulation.loading()) return refuse(reply, 503, 'Loading model', 'loading');
  if (body === undefined) return refuse(reply, 400, 'the body is not a JSON object', 'invalid_request');
  const model = modelOf(simulation, wire, body);
  if (model === undefined) return refuse(reply, 400, 'model must be a text', 'invalid_request');
  if (!simulation.models.includes(model)) {
    return refuse(reply, 404, `The model '${model}' does not exist`, 'model_not_found');
  }
  let generation: Generation;
  try {
    if (wire === undefined) return instant?.(body, model, reply);
    generation = generationOf(simulation, wire, reply, body, model);
  } catch (error) {
    return refuse(reply, 400, (error as Error).message, 'invalid_request');
  }
  answerGeneration(simulation, wire, reply, generation);
}

/** Clients of the llama-style API name no model: they get the first. */
function modelOf(simulation: Simulation, wire: Wire | undefined, body: Json): string | undefined {
  const { model } = body;
  if (typeof model === 'string') return model;
  return model === undefined && wire === llama ? simulation.models[0] : undefined;
}

function generationOf(simulation: Simulation, wire: Wire, reply: Reply, body: Json, model: string): Generation {
  const ask = wire.read(body);
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
    pieces,
    finish: stoppingWord === '' && count === limit ? 'length' : 'stop',
    stoppingWord,
    promptTokens: countTokens(ask.prompt),
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
