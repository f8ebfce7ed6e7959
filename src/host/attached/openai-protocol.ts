// Llama-style completions in the protocol of /v1/completions, with the extensions of vLLM where the engine is vLLM. Stop
// strings are matched here for engines that do not report which one was met.
import { type CompletionOptions, type PromptPart, invalidOption, refuseManyStops } from '../completion-options.ts';
import { type CompletionEnd, type StopReason, type Task, type TokenReport, BLANK_END } from '../model-engine.ts';
import { StopMatcher } from '../stop-matcher.ts';
import { membersOf } from '../../net/json-object.ts';
import { type JsonObject, complaintOf, numberOf } from './engine-http.ts';
import type { EngineProtocol, EngineRequest, ProtocolDeps, ProtocolEvent } from './engine-protocol.ts';
/** The bias of a forbidden token, which is also the most negative one these engines take. */
const FORBIDDEN_BIAS = -100;

/** The options of both, as the engine names them; prompt, model and `max_tokens` come apart. */
function openaiOptions(options: CompletionOptions, isVllm: boolean): JsonObject {
  const hasPenalties = options.repeat_last_n !== 0;
  return {
    stream: true,
    stream_options: { include_usage: true },
    // Below 0 means greedy to the interface and nothing to these engines.
    temperature: Math.max(0, options.temperature),
    top_p: options.top_p,
    presence_penalty: hasPenalties ? options.presence_penalty : 0,
    frequency_penalty: hasPenalties ? options.frequency_penalty : 0,
    ...(options.seed >= 0 && { seed: options.seed }),
    ...(options.n_probs > 0 && { logprobs: options.n_probs }),
    logit_bias: biasesOf(options.logit_bias),
    ...(isVllm && {
      stop: options.stop,
      top_k: options.top_k <= 0 ? -1 : options.top_k,
      min_p: options.min_p,
      repetition_penalty: hasPenalties ? options.repeat_penalty : 1,
      ignore_eos: options.ignore_eos,
    }),
  };
}

/** One task. Throws InvalidOptions for infills, mixed prompts without a tokenizer, and biases by text. */
export class OpenAiProtocol implements EngineProtocol {
  readonly #task: Task;
  readonly #deps: ProtocolDeps;
  readonly #options: JsonObject;
  /** Searches what the engine does not search for us. */
  readonly #matcher: StopMatcher | null;
  readonly #askedMs: number;
  #firstMs: number | undefined;
  #promptTokens = 0;
  #cachedTokens = 0;
  #generated = 0;
  #events = 0;
  #isStarted = false;
  #reason: StopReason | undefined;
  #stoppingWord = '';

  constructor(task: Task, deps: ProtocolDeps) {
    const { prompt, options } = task;
    const isVllm = deps.engine.kind === 'vllm';
    this.#task = task;
    this.#deps = deps;
    this.#askedMs = deps.now();
    this.#options = openaiOptions(options, isVllm);
    if (!isVllm) refuseManyStops(options);
    this.#matcher = isVllm || options.stop.length === 0 ? null : new StopMatcher(options.stop);
    if (options.n_predict < 0 && deps.model.contextTokens === null) {
      throw invalidOption('n_predict', 'the engine behind this host stops early unless it is told a number of tokens');
    }
    if (prompt.kind === 'infill') throw invalidOption('input_prefix', 'the engine behind this host cannot fill in');
    if (prompt.kind === 'parts' && !deps.engine.canTokenize) {
      const parts = this.#withSystem(prompt.parts);
      refuseMixed(parts);
      if (deps.engine.kind === 'ollama') refuseTokens(parts);
    }
  }

  async ask(): Promise<EngineRequest> {
    const { prompt } = this.#task;
    if (prompt.kind !== 'parts') throw new Error('conversations are passed on, not completed');
    const { model } = this.#deps;
    const parts = this.#withSystem(prompt.parts);
    const wire = await this.#prompt(parts);
    const max_tokens = await this.#maxTokens(wire, model.contextTokens ?? 0);
    return { path: '/v1/completions', body: { ...this.#options, max_tokens, model: model.id, prompt: wire } };
  }

  hear(event: JsonObject): ProtocolEvent {
    // Some servers send the member with every event, empty.
    if (event['error'] !== undefined && event['error'] !== null)
      return { failure: complaintOf(500, JSON.stringify(event)) };
    this.#readUsage(membersOf(event['usage']));
    const { choices } = event;
    const choice = membersOf(Array.isArray(choices) ? choices[0] : undefined);
    const text = typeof choice['text'] === 'string' ? choice['text'] : '';
    if (text !== '') this.#events++;
    this.#firstMs ??= this.#deps.now();
    const reports = this.#reports(membersOf(choice['logprobs']));
    const finish = choice['finish_reason'];
    if (typeof finish === 'string') this.#finish(finish, choice['stop_reason']);
    if (this.#task.options.n_predict === 0) return {};
    return this.#emit(text, reports);
  }

  close(): CompletionEnd | undefined {
    return this.#reason === undefined ? undefined : this.#end(this.#reason);
  }

  #withSystem(parts: readonly PromptPart[]): PromptPart[] {
    return [this.#deps.system, ...parts].filter((part) => part !== '');
  }

  /** One text as it is; more than that as tokens, because only tokens can be joined without changing them. */
  async #prompt(parts: readonly PromptPart[]): Promise<string | number[]> {
    const { canTokenize } = this.#deps.engine;
    if (parts.length <= 1 && typeof parts[0] !== 'number') return parts[0] ?? '';
    if (!canTokenize && parts.every((part) => typeof part === 'string')) return parts.join('');
    const tokens: number[] = [];
    for (const [at, part] of parts.entries()) {
      if (typeof part === 'number') tokens.push(part);
      else for (const token of await this.#deps.tokenize(part, at === 0)) tokens.push(token);
    }
    return tokens;
  }

  /** Without a limit these engines make 16 tokens; unlimited is what the context has room for. */
  async #maxTokens(prompt: string | number[], contextTokens: number): Promise<number> {
    const { n_predict } = this.#task.options;
    // They make one at least.
    if (n_predict >= 0) return Math.max(1, n_predict);
    const { engine, tokenize } = this.#deps;
    if (typeof prompt !== 'string') return Math.max(1, contextTokens - prompt.length);
    // No token is less than a byte, and the beginning of the sequence is one more.
    const most = engine.canTokenize ? (await tokenize(prompt, true)).length : Buffer.byteLength(prompt) + 1;
    return Math.max(1, contextTokens - most);
  }

  #readUsage(usage: JsonObject): void {
    this.#promptTokens = numberOf(usage['prompt_tokens']) ?? this.#promptTokens;
    this.#generated = numberOf(usage['completion_tokens']) ?? this.#generated;
    const cached = numberOf(membersOf(usage['prompt_tokens_details'])['cached_tokens']);
    this.#cachedTokens = cached ?? this.#cachedTokens;
  }

  #finish(finish: string, stopReason: unknown): void {
    if (this.#reason !== undefined) return;
    this.#reason = finish === 'length' ? 'limit' : typeof stopReason === 'string' ? 'word' : 'eos';
    if (this.#reason === 'word') this.#stoppingWord = stopReason as string;
  }

  #emit(text: string, reports: readonly TokenReport[]): ProtocolEvent {
    const start = this.#isStarted
      ? {}
      : { start: { promptTokens: this.#promptTokens, cachedTokens: this.#cachedTokens, slotId: -1 } };
    this.#isStarted = true;
    if (this.#matcher === null) return { ...start, text, reports };
    const found = this.#matcher.push(text);
    if (found.stop !== null) {
      this.#stoppingWord = found.stop;
      return { ...start, text: found.text, reports, end: this.#end('word'), isCut: true };
    }
    const rest = this.#reason === undefined ? '' : this.#matcher.flush();
    return { ...start, text: found.text + rest, reports };
  }

  #end(reason: StopReason): CompletionEnd {
    const { n_predict, seed } = this.#task.options;
    const firstMs = this.#firstMs ?? this.#askedMs;
    const endMs = this.#deps.now();
    const isEmpty = n_predict === 0;
    return {
      ...BLANK_END,
      reason: isEmpty ? 'limit' : reason,
      stoppingWord: isEmpty || reason !== 'word' ? '' : this.#stoppingWord,
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      // An answer that was cut at a stop string has no usage; most engines send one event for each token.
      generatedTokens: isEmpty ? 0 : this.#generated || this.#events,
      promptMs: firstMs - this.#askedMs,
      generationMs: isEmpty ? 0 : endMs - firstMs,
      seed,
    };
  }

  #reports({ tokens, top_logprobs }: JsonObject): TokenReport[] {
    const { n_probs } = this.#task.options;
    if (n_probs === 0 || !Array.isArray(tokens)) return [];
    const tops: unknown[] = Array.isArray(top_logprobs) ? top_logprobs : [];
    return tokens.map((token, at) => {
      // The chosen token is listed too when it is not among the likeliest.
      const probs = Object.entries(membersOf(tops[at]))
        .map(([tok_str, logprob]) => ({ tok_str, prob: Math.exp(numberOf(logprob) ?? -Infinity) }))
        .sort((a, b) => b.prob - a.prob)
        .slice(0, n_probs);
      return { content: typeof token === 'string' ? token : '', probs };
    });
  }
}

function refuseTokens(parts: readonly PromptPart[]): void {
  if (parts.some((part) => typeof part === 'number'))
    throw invalidOption('prompt', 'the engine behind this host takes text, not tokens');
}

function refuseMixed(parts: readonly PromptPart[]): void {
  const isMixed = parts.some((part) => typeof part === 'string') && parts.some((part) => typeof part === 'number');
  if (isMixed)
    throw invalidOption('prompt', 'the engine behind this host takes text or tokens, not both in one prompt');
}

/** Biases by token as an object. Throws InvalidOptions for those by text, and for those these engines would cut. */
function biasesOf(given: unknown): JsonObject {
  const pairs = Array.isArray(given) ? (given as [unknown, unknown][]) : Object.entries(given as object);
  return Object.fromEntries(
    pairs.map(([token, bias], at) => {
      if (!/^\d+$/.test(String(token)))
        throw invalidOption('logit_bias', 'the engine behind this host takes biases by token, not by text', at);
      if (typeof bias === 'number' && Math.abs(bias) > 100) {
        throw invalidOption('logit_bias', 'the engine behind this host takes biases from -100 to 100', at);
      }
      return [String(token), bias === false ? FORBIDDEN_BIAS : bias];
    }),
  );
}
