// The llama-style API (docs/interface.md, section 12): POST /completion, /completions, /infill, /tokenize, /detokenize and
// GET /props, /slots. Invalid requests throw InvalidOptions. A stream has `content` and `stop` alone until its final event,
// which is the whole result without its text; it ends without `[DONE]`.
import {
  type CompletionOptions,
  type InfillOptions,
  DEFAULT_OPTIONS,
  InvalidOptions,
  readCompletion,
  readInfill,
} from './completion-options.ts';
import { countTokens } from './dialect-answer.ts';
import type { Pace } from './engine/pace.ts';
import { chatFormat } from './formats/chat-format.ts';
import { type Frames, type Json, dataFrame, limitOf, stopsOf, textOf } from './formats/format.ts';
import type { CompletionEnd, ModelEngine, Prompt, Sink, TokenReport } from './model-engine.ts';
import type { Reply } from './reply.ts';
/** One request to a llama-style path. */
export interface LlamaRequest {
  readonly engine: ModelEngine;
  readonly reply: Reply;
  readonly body: Json;
  readonly model: string;
  /** What a plan for this request changes in its options. */
  readonly planned: Partial<CompletionOptions>;
  readonly pace: Partial<Pace>;
  readonly timingsId: string | null;
}

type Endpoint = (request: LlamaRequest) => void | Promise<void>;

/** POST paths. */
export const LLAMA_POSTS: ReadonlyMap<string, Endpoint> = new Map<string, Endpoint>([
  ['/completion', complete],
  ['/completions', complete],
  ['/infill', infill],
  ['/tokenize', tokenize],
  ['/detokenize', detokenize],
]);

/** GET paths; the body is empty. */
export const LLAMA_GETS: ReadonlyMap<string, Endpoint> = new Map<string, Endpoint>([
  ['/props', ({ engine, reply, model }) => reply.json(200, propsOf(engine, model))],
  ['/slots', slots],
]);

function slots({ engine, reply, model }: LlamaRequest): void {
  if (engine.props(model).slots > 0) return reply.json(200, engine.slots(model));
  reply.json(501, llamaProblem(501, `the engine behind this host (${engine.kind}) has no slots`));
}

function complete(request: LlamaRequest): void {
  const isPaced = request.engine.isPaced === true;
  const options = isPaced ? readLeniently(request.body) : readCompletion(request.body);
  if (options.system_prompt !== null) request.engine.setSystemPrompt(request.model, options.system_prompt);
  const { prompt } = options;
  run(request, options, { kind: 'parts', parts: isPaced ? [textOf(prompt)] : [prompt].flat() });
}

/** Requests to a paced engine: whatever they leave out or have in another shape is the default. */
function readLeniently(body: Json): CompletionOptions {
  const { prompt, seed, stop, stream, ignore_eos } = body;
  return {
    ...DEFAULT_OPTIONS,
    prompt: (prompt ?? '') as CompletionOptions['prompt'],
    n_predict: limitOf(body, 'n_predict') ?? -1,
    seed: (seed ?? -1) as number,
    stop: stopsOf(stop),
    stream: stream === true,
    ignore_eos: ignore_eos === true,
  };
}

function infill(request: LlamaRequest): void {
  const options = readInfill(request.body);
  if (options.system_prompt !== null) request.engine.setSystemPrompt(request.model, options.system_prompt);
  run(request, options, { kind: 'infill', prefix: options.input_prefix, suffix: options.input_suffix });
}

function run(request: LlamaRequest, given: CompletionOptions, prompt: Prompt): void {
  const { engine, reply, model, pace, timingsId } = request;
  const options = { ...given, ...request.planned };
  const sink = new CompletionReply({ options, model, timingsId }, reply, engine);
  const running = engine.complete({ model, prompt, options, whenFull: 'shift', pace, timingsId }, sink);
  reply.onClose(() => running.cancel());
}

async function tokenize({ engine, reply, body, model }: LlamaRequest): Promise<void> {
  const { content, messages } = body;
  if (content === undefined && Array.isArray(messages) && engine.countPrompt !== undefined) {
    // As vLLM does: the tokens of a chat with its template.
    const count = await countTokens(engine, model, chatFormat, body);
    return reply.json(200, { count, max_model_len: engine.contextTokens(model) });
  }
  if (typeof content !== 'string') throw refused('content', content, 'string');
  reply.json(200, { tokens: Array.from(await engine.tokenize(model, content)) });
}

async function detokenize({ engine, reply, body, model }: LlamaRequest): Promise<void> {
  const { tokens } = body;
  if (!Array.isArray(tokens)) throw refused('tokens', tokens, 'list');
  const wrong = tokens.flatMap((token, at) =>
    Number.isInteger(token) && token >= 0
      ? []
      : [{ loc: ['body', 'tokens', at], msg: 'Input should be a valid integer', type: 'int_type' }],
  );
  if (wrong.length > 0) throw new InvalidOptions(wrong);
  reply.json(200, { content: await engine.detokenize(model, tokens as number[]) });
}

function refused(name: string, value: unknown, type: 'string' | 'list'): InvalidOptions {
  const isMissing = value === undefined;
  const msg = isMissing ? 'Field required' : `Input should be a valid ${type}`;
  return new InvalidOptions([{ loc: ['body', name], msg, type: isMissing ? 'missing' : `${type}_type` }]);
}

function propsOf(engine: ModelEngine, model: string): Json {
  const { assistantName, antiPrompt, systemPrompt, slots, isMultimodal } = engine.props(model);
  const contextTokens = engine.contextTokens(model);
  return {
    assistant_name: assistantName,
    user_name: antiPrompt,
    anti_prompt: antiPrompt,
    system_prompt: systemPrompt,
    total_slots: slots,
    model_path: model,
    modalities: { vision: isMultimodal, audio: false },
    default_generation_settings: {
      n_ctx: contextTokens,
      params: generationSettings(DEFAULT_OPTIONS, model, contextTokens),
    },
  };
}

/** What the result repeats of the request, and how it is sent. */
export interface ResultRequest {
  readonly options: CompletionOptions | InfillOptions;
  readonly model: string;
  readonly timingsId: string | null;
}

/** The error body of the llama-style paths. */
export function llamaProblem(status: number, message: string): Json {
  return { detail: message, ...llamaError(status, message) };
}

function llamaError(status: number, message: string): Json {
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  return { error: { code: status, message, type } };
}

/** Events of this dialect do not depend on the generation; only a fault asks for one. */
const FRAMES: Pick<Frames, 'failure'> = { failure: (message) => dataFrame(llamaError(500, message)) };

/** Options that are left out of `generation_settings`: the prompt itself and what may be as large. */
const NOT_REPEATED = new Set(['prompt', 'image_data', 'system_prompt', 'input_prefix', 'input_suffix']);

/** The options in use, `n_ctx` and the model. */
function generationSettings(options: CompletionOptions, model: string, contextTokens: number): Json {
  const given = Object.entries(options).filter(([name]) => !NOT_REPEATED.has(name));
  return { n_ctx: contextTokens, model, ...Object.fromEntries(given) };
}

function timingsOf(end: CompletionEnd): Json {
  const evaluated = end.promptTokens - end.cachedTokens;
  const { promptMs, generationMs, generatedTokens } = end;
  return {
    cache_n: end.cachedTokens,
    prompt_n: evaluated,
    prompt_ms: promptMs,
    prompt_per_token_ms: ratio(promptMs, evaluated),
    prompt_per_second: ratio(evaluated * 1000, promptMs),
    predicted_n: generatedTokens,
    predicted_ms: generationMs,
    predicted_per_token_ms: ratio(generationMs, generatedTokens),
    predicted_per_second: ratio(generatedTokens * 1000, generationMs),
  };
}

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

/** The result object. `reports` is null when no probabilities were asked for. */
function resultOf(
  request: ResultRequest,
  contextTokens: number,
  end: CompletionEnd,
  content: string,
  reports: readonly TokenReport[] | null,
): Json {
  const { options, model } = request;
  return {
    content,
    stop: true,
    model,
    prompt: 'input_prefix' in options ? options.input_prefix : options.prompt,
    slot_id: end.slotId,
    generation_settings: generationSettings(options, model, contextTokens),
    stopped_eos: end.reason === 'eos',
    stopped_limit: end.reason === 'limit',
    stopped_word: end.reason === 'word',
    stopping_word: end.stoppingWord,
    tokens_predicted: end.generatedTokens,
    tokens_evaluated: end.promptTokens,
    tokens_cached: end.cachedTokens,
    truncated: end.isTruncated,
    timings: timingsOf(end),
    ...(reports !== null && { completion_probabilities: reports }),
  };
}

/** Sends what an engine generates, as one body or as events. */
class CompletionReply implements Sink {
  readonly #request: ResultRequest;
  readonly #reply: Reply;
  readonly #engine: ModelEngine;
  readonly #reporting: boolean;
  readonly #streaming: boolean;
  readonly mayWait: boolean;
  #content = '';
  #reports: TokenReport[] = [];
  #made = 0;
  #isOpen = false;

  constructor(request: ResultRequest, reply: Reply, engine: ModelEngine) {
    this.#request = request;
    this.#reply = reply;
    this.#engine = engine;
    this.#reporting = request.options.n_probs > 0;
    this.#streaming = request.options.stream;
    this.mayWait = this.#streaming && reply.mayGather;
  }

  start(): void {}

  text(text: string, reports: readonly TokenReport[], waits = false): void {
    if (!this.#streaming) {
      // A body has no events to count: what would be one in a stream counts.
      if (this.#made++ === this.#reply.fault.oomAfter) return this.#engine.exhaust?.();
      this.#content += text;
      this.#reports.push(...reports);
      return;
    }
    const isFirst = !this.#isOpen;
    this.#open();
    const listed = this.#reporting ? `,"completion_probabilities":${JSON.stringify(reports)}` : '';
    this.#reply.event(`data: {"content":${JSON.stringify(text)},"stop":false${listed}}\n\n`, FRAMES);
    if (!waits || isFirst) this.#reply.flush();
  }

  leave(): void {
    this.#reply.flush();
  }

  end(end: CompletionEnd): void {
    const { timingsId, model } = this.#request;
    const failed = end.reason === 'failed' ? end.message : undefined;
    const streamed = this.#streaming && (this.#isOpen || failed === undefined);
    const faulty = !streamed && this.#reply.fault.errorAfter !== undefined ? 'the simulated engine failed' : undefined;
    if (failed !== undefined && streamed) return this.#reply.fail(FRAMES.failure(failed));
    const message = failed ?? faulty;
    const { status = 500 } = end;
    if (message !== undefined) return this.#reply.json(status, llamaProblem(status, message));
    const reports = this.#reporting && !streamed ? this.#reports : null;
    const result = resultOf(this.#request, this.#engine.contextTokens(model), end, this.#content, reports);
    const timings = timingsId === null ? undefined : this.#engine.timings?.(timingsId);
    if (!streamed) {
      const headers = timings === undefined ? undefined : { 'x-headrace-truth': JSON.stringify(timings) };
      return this.#reply.json(200, result, headers);
    }
    this.#open();
    this.#reply.lastEvent(dataFrame(result), FRAMES);
    if (timings !== undefined) this.#reply.comment(`truth ${JSON.stringify(timings)}`);
    this.#reply.end();
  }

  rest(): Promise<void> | undefined {
    return this.#streaming ? this.#reply.rest() : undefined;
  }

  #open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#reply.open();
  }
}
