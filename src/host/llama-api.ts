// The llama-style API (docs/interface.md, section 12) with the names of the interface and those of today's llama-server:
// completions, infills, tokens, templates, rankings, and what a host says of its slots and models. Invalid requests throw
// InvalidOptions. A stream ends with the event that has `stop: true`, without `[DONE]`.
import {
  type CompletionOptions,
  DEFAULT_OPTIONS,
  InvalidOptions,
  invalidOption,
  readCompletion,
  readInfill,
  refuseNoTokens,
  refuseOthers,
} from './completion-options.ts';
import { CompletionReply, defaultSettings, llamaProblem } from './completion-reply.ts';
import { countTokens } from './dialect-answer.ts';
import type { Pace } from './engine/pace.ts';
import { chatFormat } from './formats/chat-format.ts';
import { embedContent, rerank } from './formats/fixed-answers.ts';
import { type Json, limitOf, stopsOf, textOf } from './formats/format.ts';
import type { ModelEngine, Prompt, TokenizeOptions } from './model-engine.ts';
import type { Reply } from './reply.ts';
import type { SystemPrompts } from './system-prompts.ts';

/** One request to a llama-style path. */
export interface LlamaRequest {
  readonly engine: ModelEngine;
  readonly reply: Reply;
  readonly body: Json;
  readonly model: string;
  /** Who asks; null where no key is needed. */
  readonly account: string | null;
  readonly systemPrompts: SystemPrompts;
  /** What a plan for this request changes in its options. */
  readonly planned: Partial<CompletionOptions>;
  readonly pace: Partial<Pace>;
  readonly timingsId: string | null;
}

/** One request without a body. */
export type LlamaQuery = Pick<LlamaRequest, 'engine' | 'reply' | 'model' | 'account' | 'systemPrompts'> & {
  readonly query: URLSearchParams;
};

type Endpoint = (request: LlamaRequest) => void | Promise<void>;
type QueryEndpoint = (request: LlamaQuery) => void | Promise<void>;

/** POST paths that engines answer by `complete` and their tokenizer. */
export const LLAMA_POSTS: ReadonlyMap<string, Endpoint> = new Map<string, Endpoint>([
  ['/completion', complete],
  ['/completions', complete],
  ['/infill', infill],
  ['/tokenize', tokenize],
  ['/detokenize', detokenize],
]);

/** POST paths that servers with an API of their own answer themselves; otherwise the simulated engine answers. */
export const SERVER_POSTS: ReadonlyMap<string, Endpoint> = new Map<string, Endpoint>([
  ['/apply-template', applyTemplate],
  ['/embedding', ({ reply, body, model }) => reply.json(200, embedContent(body, model))],
  ['/embeddings', ({ reply, body, model }) => reply.json(200, embedContent(body, model))],
  ['/rerank', rank],
  ['/reranking', rank],
  ['/v1/rerank', rank],
  ['/v1/reranking', rank],
]);

/** GET paths; the body is empty. */
export const LLAMA_GETS: ReadonlyMap<string, QueryEndpoint> = new Map<string, QueryEndpoint>([
  ['/props', props],
  ['/slots', slots],
]);

async function slots({ engine, reply, model, query }: LlamaQuery): Promise<void> {
  const shown = engine.props(model).slots > 0 ? await engine.slots(model) : null;
  if (shown === null) {
    return reply.json(501, llamaProblem(501, `the engine behind this host (${engine.kind}) shows no slots`));
  }
  // As llama-server: for balancers that look for a free slot.
  if (query.get('fail_on_no_slot') === '1' && shown.every(({ is_processing }) => is_processing)) {
    return reply.json(503, llamaProblem(503, 'no slot available'), { 'retry-after': '1' });
  }
  reply.json(200, shown);
}

function complete(request: LlamaRequest): void {
  const isPaced = request.engine.isPaced === true;
  const options = isPaced ? readLeniently(request.body) : readCompletion(request.body);
  const { prompt } = options;
  run(request, options, { kind: 'parts', parts: isPaced ? [textOf(prompt)] : [prompt].flat() });
}

/** Requests to a paced engine: whatever they leave out or have in another shape is the default. */
function readLeniently(body: Json): CompletionOptions {
  const { prompt, seed, stream, ignore_eos } = body;
  return {
    ...DEFAULT_OPTIONS,
    prompt: (prompt ?? '') as CompletionOptions['prompt'],
    n_predict: limitOf(body, 'n_predict', 'max_tokens') ?? -1,
    seed: (seed ?? -1) as number,
    stop: stopsOf(body, 'stop'),
    stream: stream === true,
    ignore_eos: ignore_eos === true,
  };
}

function infill(request: LlamaRequest): void {
  const options = readInfill(request.body);
  const { input_prefix: prefix, input_suffix: suffix, input_extra: extra, prompt } = options;
  run(request, options, { kind: 'infill', prefix, suffix, extra, middle: String(prompt) });
}

function run(request: LlamaRequest, given: CompletionOptions, prompt: Prompt): void {
  const { engine, reply, model, account, systemPrompts, pace, timingsId } = request;
  if (engine.isPaced !== true) refuseUnanswered(engine, given);
  if (given.system_prompt !== null) systemPrompts.set(model, account, given.system_prompt);
  const options = { ...given, ...request.planned };
  const sink = new CompletionReply({ options, model, timingsId }, reply, engine);
  const system = systemPrompts.of(model, account).prompt;
  const listed = engine.givesLogProbs === true && options.n_probs > 0 && options.post_sampling_probs === false;
  const logProbs = listed ? { logProbs: options.n_probs } : {};
  const task = { model, prompt, system, options, whenFull: 'shift', pace, timingsId, ...logProbs } as const;
  const running = engine.complete(task, sink);
  reply.onClose(() => running.cancel());
}

/** Throws InvalidOptions for what only some engines know. */
function refuseUnanswered(engine: ModelEngine, options: CompletionOptions): void {
  const { givesLogProbs, givesTokens, kind, readsOthers } = engine;
  if (options.others['n_cmpl'] !== undefined || options.others['n'] !== undefined) {
    const name = options.others['n_cmpl'] === undefined ? 'n' : 'n_cmpl';
    throw invalidOption(name, 'a llama-style completion has one result; send several requests');
  }
  if (readsOthers !== true) refuseOthers(options, kind);
  if (options.return_tokens && givesTokens !== true) {
    throw invalidOption('return_tokens', `the engine of this host (${kind}) does not show its tokens`);
  }
  const isOfModel = options.n_probs > 0 && options.post_sampling_probs === false;
  if (isOfModel && readsOthers !== true && givesLogProbs !== true) {
    throw invalidOption('post_sampling_probs', `the engine of this host (${kind}) has them after the samplers only`);
  }
}

async function tokenize({ engine, reply, body, model }: LlamaRequest): Promise<void> {
  const { content, messages } = body;
  if (content === undefined && Array.isArray(messages) && engine.countPrompt !== undefined) {
    // As vLLM does: the tokens of a chat with its template.
    const count = await countTokens(engine, model, chatFormat, body);
    return reply.json(200, { count, max_model_len: engine.contextTokens(model) });
  }
  if (typeof content !== 'string') throw refused('content', content, 'string');
  const addSpecial = flagOf(body, 'add_special');
  const parseSpecial = flagOf(body, 'parse_special');
  const options: TokenizeOptions = {
    ...(addSpecial !== undefined && { addSpecial }),
    ...(parseSpecial !== undefined && { parseSpecial }),
  };
  if (flagOf(body, 'with_pieces') !== true) {
    return reply.json(200, { tokens: Array.from(await engine.tokenize(model, content, options)) });
  }
  if (engine.pieces === undefined) {
    throw invalidOption('with_pieces', `the engine of this host (${engine.kind}) gives numbers alone`);
  }
  reply.json(200, { tokens: await engine.pieces(model, content, options) });
}

function flagOf(body: Json, name: string): boolean | undefined {
  const value = body[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'boolean') return value;
  throw new InvalidOptions([{ loc: ['body', name], msg: 'Input should be a valid boolean', type: 'bool_type' }]);
}

async function detokenize({ engine, reply, body, model }: LlamaRequest): Promise<void> {
  const { tokens } = body;
  if (!Array.isArray(tokens)) throw refused('tokens', tokens, 'list');
  refuseNoTokens('tokens', tokens);
  reply.json(200, { content: await engine.detokenize(model, tokens) });
}

/** The template of simulated models, which is ChatML. Their own prompts have special tokens in place of its marks. */
const CHAT_TEMPLATE =
  "{%- for message in messages -%}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}" +
  "{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}";

function applyTemplate({ reply, body }: LlamaRequest): void {
  if (!Array.isArray(body['messages'])) throw refused('messages', body['messages'], 'list');
  const [prompt] = chatFormat.readPrompts(body).prompts;
  if (prompt?.kind !== 'chat') throw refused('messages', body['messages'], 'list');
  const turns = prompt.turns.map(({ role, text }) => `<|im_start|>${role}\n${text}<|im_end|>\n`);
  const end = flagOf(body, 'add_generation_prompt') === false ? '' : '<|im_start|>assistant\n';
  reply.json(200, { prompt: turns.join('') + end });
}

function rank({ reply, body, model }: LlamaRequest): void {
  const { query, documents } = body;
  if (typeof query !== 'string') throw refused('query', query, 'string');
  if (!Array.isArray(documents)) throw refused('documents', documents, 'list');
  reply.json(200, rerank(query, documents.map(textOf), limitOf(body, 'top_n'), model));
}

function refused(name: string, value: unknown, type: 'string' | 'list'): InvalidOptions {
  const isMissing = value === undefined;
  const msg = isMissing ? 'Field required' : `Input should be a valid ${type}`;
  return new InvalidOptions([{ loc: ['body', name], msg, type: isMissing ? 'missing' : `${type}_type` }]);
}

async function props({ engine, reply, model, account, systemPrompts }: LlamaQuery): Promise<void> {
  const { assistant_name, anti_prompt, prompt } = systemPrompts.of(model, account);
  const { slots: total, isMultimodal } = engine.props(model);
  const contextTokens = engine.contextTokens(model);
  const own = (await engine.ownProps?.(model)) ?? (engine.kind === 'simulated' ? SIMULATED_PROPS : {});
  reply.json(200, {
    model_alias: model,
    model_path: model,
    modalities: { vision: isMultimodal, audio: false },
    is_sleeping: false,
    ...own,
    assistant_name,
    user_name: anti_prompt,
    anti_prompt,
    system_prompt: prompt,
    total_slots: total,
    default_generation_settings: { n_ctx: contextTokens, params: defaultSettings(model, contextTokens) },
    endpoint_slots: total > 0,
    // What a host has is changed where it is started.
    endpoint_props: false,
    endpoint_metrics: true,
  });
}

const SIMULATED_PROPS = {
  chat_template: CHAT_TEMPLATE,
  bos_token: '',
  eos_token: '',
  build_info: 'headrace-simulated',
};
