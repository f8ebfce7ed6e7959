// The llama-style paths of a host with an engine: POST /completion, /completions, /infill, /tokenize, /detokenize and GET
// /props, /slots. Called by routes.ts with the body read and the model known; what a request gets wrong is thrown as
// InvalidOptions and answered there.
import type { Engine, Prompt } from './engine.ts';
import type { Pace } from '../engine/paced.ts';
import type { CompletionOptions } from './options.ts';
import { DEFAULT_OPTIONS, InvalidOptions, readCompletion, readInfill } from './options.ts';
import { CompletionReply, generationSettings, llamaProblem } from './result.ts';
import type { Reply } from '../reply.ts';
import { type Json, limitOf, stopsOf, textOf } from '../wire/wire.ts';

/** One request to a llama-style path. */
export interface LlamaRequest {
  readonly engine: Engine;
  readonly reply: Reply;
  readonly body: Json;
  readonly model: string;
  /** What a plan for this request changes in its options. */
  readonly planned: Partial<CompletionOptions>;
  readonly pace: Partial<Pace>;
  readonly truthId: string | null;
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
  const { engine, reply, model, pace, truthId } = request;
  const options = { ...given, ...request.planned };
  const sink = new CompletionReply({ options, model, truthId }, reply, engine);
  const running = engine.complete({ model, prompt, options, whenFull: 'shift', pace, truthId }, sink);
  reply.onClose(() => running.cancel());
}

async function tokenize({ engine, reply, body, model }: LlamaRequest): Promise<void> {
  const { content } = body;
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

function propsOf(engine: Engine, model: string): Json {
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
