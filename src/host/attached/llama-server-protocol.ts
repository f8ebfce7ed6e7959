// Llama-style completions in the protocol of current llama-server versions: renamed members (slot_id, stopped_*), changed
// defaults (repeat_penalty, cache_prompt), changed shapes (probabilities, images). Every option of the interface is sent, so
// that no default of the server applies to it; others go as they came.
import {
  type CompletionOptions,
  type ImageData,
  type ImagePrompt,
  type PromptPart,
  invalidOption,
  readImageMarks,
} from '../completion-options.ts';
import {
  type CompletionEnd,
  type Likely,
  type StopReason,
  type Task,
  type TextDetails,
  type TokenReport,
  BLANK_END,
} from '../model-engine.ts';
import { membersOf } from '../../net/json-object.ts';
import { type JsonObject, complaintOf, numberOf } from './engine-http.ts';
import type { EngineProtocol, EngineRequest, ProtocolDeps, ProtocolEvent } from './engine-protocol.ts';
/**
 * The order of the samplers; penalties come first and temperature last, whatever the operator prefers. Not sent beside options
 * that may belong to other samplers.
 */
const SAMPLERS = ['penalties', 'top_k', 'typ_p', 'top_p', 'min_p', 'temperature'];

/** Options that say how to answer and not how to sample. */
const ABOUT_ANSWERS = new Set([
  'return_progress',
  'timings_per_token',
  'sse_ping_interval',
  'n_cache_reuse',
  'json_schema',
]);

/** The options that both sides know, as the engine names them. */
function llamaServerOptions(options: CompletionOptions): JsonObject {
  return {
    n_predict: options.n_predict,
    n_keep: options.n_keep,
    id_slot: options.slot_id,
    cache_prompt: options.cache_prompt,
    stop: options.stop,
    seed: options.seed,
    temperature: options.temperature,
    top_k: options.top_k,
    top_p: options.top_p,
    min_p: options.min_p,
    typical_p: options.typical_p,
    repeat_penalty: options.repeat_penalty,
    repeat_last_n: options.repeat_last_n,
    presence_penalty: options.presence_penalty,
    frequency_penalty: options.frequency_penalty,
    mirostat: options.mirostat,
    mirostat_tau: options.mirostat_tau,
    mirostat_eta: options.mirostat_eta,
    // Beside an empty grammar the engine does not read a schema.
    ...(options.grammar !== '' && { grammar: options.grammar }),
    ignore_eos: options.ignore_eos,
    logit_bias: options.logit_bias,
    n_probs: options.n_probs,
    ...(options.n_probs > 0 && { post_sampling_probs: options.post_sampling_probs ?? true }),
    ...(options.return_tokens && { return_tokens: true }),
    ...(!hasOthers(options) && { samplers: SAMPLERS, dynatemp_range: 0 }),
    ...options.others,
    stream: options.stream || !needsWhole(options),
    // Tells how much of the prompt was in the cache before the first token is there.
    return_progress: true,
  };
}

/** Streams leave out tokens that end within a character, and what is said of them. */
function needsWhole({ n_probs, return_tokens }: CompletionOptions): boolean {
  return n_probs > 0 || return_tokens;
}

function hasOthers({ others }: CompletionOptions): boolean {
  return Object.keys(others).some((name) => !ABOUT_ANSWERS.has(name));
}

/** One task. A system prompt does not reach infills: the engine lays them out itself. */
export class LlamaServerProtocol implements EngineProtocol {
  readonly #task: Task;
  readonly #deps: ProtocolDeps;
  readonly #withImages: ImagePrompt | undefined;
  #promptTokens = 0;
  #cachedTokens = 0;
  #slotId = -1;
  #isStarted = false;

  constructor(task: Task, deps: ProtocolDeps) {
    this.#task = task;
    this.#deps = deps;
    const { prompt, options } = task;
    if (prompt.kind === 'infill' && !deps.engine.canInfill) {
      throw invalidOption('input_prefix', 'the model behind this host cannot fill in');
    }
    if (prompt.kind === 'parts' && options.image_data.length > 0) {
      this.#withImages = imagePromptOf(prompt.parts, options.image_data);
    }
  }

  async ask(): Promise<EngineRequest> {
    const { prompt, options } = this.#task;
    const shared = { ...llamaServerOptions(options), model: this.#deps.model.id };
    if (prompt.kind === 'infill') {
      const { prefix, suffix, extra = [], middle = '' } = prompt;
      const body = {
        ...shared,
        input_prefix: prefix,
        input_suffix: suffix,
        ...(extra.length > 0 && { input_extra: extra }),
        ...(middle !== '' && { prompt: middle }),
      };
      return { path: '/infill', body };
    }
    if (prompt.kind === 'chat') throw new Error('conversations are passed on, not completed');
    const wire = await (this.#withImages === undefined ? this.#parts(prompt.parts) : this.#marked(this.#withImages));
    return { path: '/completion', body: { ...shared, prompt: wire } };
  }

  hear(event: JsonObject): ProtocolEvent {
    // Some servers send the member with every event, empty.
    if (event['error'] !== undefined && event['error'] !== null)
      return { failure: complaintOf(500, JSON.stringify(event)) };
    const progress = membersOf(event['prompt_progress']);
    const timings = membersOf(event['timings']);
    this.#promptTokens = numberOf(event['tokens_evaluated']) ?? numberOf(progress['total']) ?? this.#promptTokens;
    this.#cachedTokens = numberOf(progress['cache']) ?? cachedOf(timings, this.#promptTokens) ?? this.#cachedTokens;
    this.#slotId = numberOf(event['id_slot']) ?? numberOf(event['slot_id']) ?? this.#slotId;
    const read: ProtocolEvent = { ...this.#content(event), ...this.#start() };
    return event['stop'] === true ? { ...read, end: this.#end(event, timings) } : read;
  }

  /** The engine always says when it stops. */
  close(): undefined {
    return undefined;
  }

  #start(): ProtocolEvent {
    if (this.#isStarted) return {};
    this.#isStarted = true;
    return { start: { promptTokens: this.#promptTokens, cachedTokens: this.#cachedTokens, slotId: this.#slotId } };
  }

  #content(event: JsonObject): ProtocolEvent {
    const { n_probs, n_predict, others, post_sampling_probs, return_tokens } = this.#task.options;
    // Asked for no token, the engine samples one all the same.
    if (n_predict === 0 || typeof event['content'] !== 'string') return {};
    const listed = event['completion_probabilities'];
    const isBare = post_sampling_probs === null;
    const reports = n_probs > 0 && Array.isArray(listed) ? listed.map((entry) => reportOf(entry, n_probs, isBare)) : [];
    const { tokens, timings, prompt_progress: progress } = event;
    const isLast = event['stop'] === true;
    const details: TextDetails = {
      // What reports progress has a token that is none.
      ...(return_tokens && progress === undefined && isFilled(tokens) && { tokens }),
      ...(others['timings_per_token'] === true && !isLast && timings !== undefined && { timings: membersOf(timings) }),
      ...(others['return_progress'] === true && progress !== undefined && { promptProgress: membersOf(progress) }),
    };
    return { text: event['content'], reports, ...(Object.keys(details).length > 0 && { details }) };
  }

  #end(event: JsonObject, timings: JsonObject): CompletionEnd {
    const { n_predict } = this.#task.options;
    const made = numberOf(event['tokens_predicted']) ?? 0;
    const generatedTokens = n_predict === 0 ? 0 : made;
    const isTruncated = event['truncated'] === true;
    const stopped = stopReason(event);
    // Today's engine says "limit" of a full context too.
    const isFull = stopped === 'limit' && isTruncated && (n_predict < 0 || generatedTokens < n_predict);
    const reason = n_predict === 0 ? 'limit' : isFull ? 'context' : stopped;
    const word = event['stopping_word'];
    return {
      ...BLANK_END,
      reason,
      stoppingWord: reason === 'word' && typeof word === 'string' ? word : '',
      slotId: this.#slotId,
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      generatedTokens,
      isTruncated,
      promptMs: numberOf(timings['prompt_ms']) ?? 0,
      generationMs: generatedTokens === 0 ? 0 : (numberOf(timings['predicted_ms']) ?? 0),
      ...(generatedTokens > 0 && { timings }),
      seed: numberOf(membersOf(event['generation_settings'])['seed']) ?? this.#task.options.seed,
    };
  }

  /** One prompt: a list of nothing but texts would be taken for several. */
  async #parts(given: readonly PromptPart[]): Promise<string | PromptPart[]> {
    const { system, tokenize } = this.#deps;
    const parts = given.filter((part) => part !== '');
    if (system !== '') return [...(await tokenize(system, true)), ...parts];
    const [first, second, ...rest] = parts;
    if (second === undefined) return typeof first === 'string' ? first : first === undefined ? '' : [first];
    if (parts.some((part) => typeof part === 'number')) return parts;
    return [first!, ...(await tokenize(second as string, false)), ...rest];
  }

  async #marked({ images, rest }: ImagePrompt): Promise<JsonObject> {
    const { mediaMarker, system } = this.#deps;
    const text = [...images.map(({ before }) => before), rest].join(await mediaMarker());
    return { prompt_string: system + text, multimodal_data: images.map(({ image }) => image.data) };
  }
}

function imagePromptOf(parts: readonly PromptPart[], images: readonly ImageData[]): ImagePrompt {
  if (parts.some((part) => typeof part === 'number')) {
    throw invalidOption('image_data', 'the engine behind this host takes images in texts only, not between tokens');
  }
  return readImageMarks([parts.join('')], images)[0]!;
}

function isFilled(tokens: unknown): tokens is number[] {
  return Array.isArray(tokens) && tokens.length > 0;
}

/** Prompt tokens that were in the cache; engines that do not count them say how many they evaluated. */
function cachedOf(timings: JsonObject, promptTokens: number): number | undefined {
  const evaluated = numberOf(timings['prompt_n']);
  return numberOf(timings['cache_n']) ?? (evaluated === undefined ? undefined : Math.max(0, promptTokens - evaluated));
}

function stopReason(event: JsonObject): StopReason {
  const type = event['stop_type'];
  if (type === 'eos' || event['stopped_eos'] === true) return 'eos';
  if (type === 'word' || event['stopped_word'] === true) return 'word';
  return 'limit';
}

/** Of today's form or that of the interface, likeliest first. `isBare`: without today's form, as it came. */
function reportOf(entry: unknown, count: number, isBare: boolean): TokenReport {
  const report = membersOf(entry);
  const isOwn = typeof report['content'] === 'string';
  const listed = report['probs'] ?? report['top_probs'] ?? report['top_logprobs'];
  const probs = Array.isArray(listed) ? listed.slice(0, count).map(likelyOf) : [];
  return { content: pieceOf(report), probs, ...(!isBare && !isOwn && { today: report }) };
}

function likelyOf(entry: unknown): Likely {
  const token = membersOf(entry);
  const prob = numberOf(token['prob']) ?? Math.exp(numberOf(token['logprob']) ?? -Infinity);
  return { tok_str: pieceOf(token), prob };
}

/** Text of a token in reports: a byte within a character is named, since it has no text of its own. */
function pieceOf(token: JsonObject): string {
  const { bytes } = token;
  const byte = Array.isArray(bytes) && bytes.length === 1 ? numberOf(bytes[0]) : undefined;
  if (byte !== undefined && byte > 0x7f) return `byte: \\x${byte.toString(16)}`;
  const text = token['content'] ?? token['tok_str'] ?? token['token'];
  return typeof text === 'string' ? text : '';
}
