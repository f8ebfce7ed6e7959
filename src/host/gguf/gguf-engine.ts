// An engine that runs a GGUF file in this process: checks the file, loads the optional package, then the model.
import { type Clock, systemClock, systemRandom } from '../../actor/index.ts';
import { refuseBeyond, refuseUnknownTokens } from '../completion-options.ts';
import { chooseSeed } from '../engine/sampling/random.ts';
import {
  type CompletionEnd,
  type EngineFigures,
  type EngineProps,
  type ModelEngine,
  type Prompt,
  type Run,
  type Sink,
  type SlotState,
  type Task,
  type TokenizeOptions,
  BLANK_END,
  NO_FIGURES,
  PromptTooLong,
} from '../model-engine.ts';
import {
  type Llama,
  type LlamaContext,
  type LlamaModel,
  type LlamaModule,
  type Token,
  loadLlamaModule,
} from './binding.ts';
import { type GgufHeader, readGgufHeader } from './gguf-header.ts';
import { type PromptTokens, promptOf } from './gguf-prompt.ts';
import { GgufRun } from './gguf-run.ts';
import { biasOf, MISSING_OPTIONS, refuseUnsupported } from './gguf-sampling.ts';
import { SequencePool } from './sequence-pool.ts';
/** Settings of a model in this process; only `path` is required. */
export interface GgufSettings {
  readonly path: string;
  /** What the host calls the model; default: the file's name without `.gguf`. */
  readonly model?: string;
  /** Sequences at once; default 4. */
  readonly slots?: number;
  /** Tokens of one sequence; default: what the model was trained for, at most 8192, and what memory allows. */
  readonly contextTokens?: number;
  /** `auto` uses what is there; default `auto`. */
  readonly gpu?: 'auto' | false;
  /** Threads of the processor; default: as many as it has cores for mathematics. */
  readonly threads?: number;
  /** In place of the package; for tests. */
  readonly module?: LlamaModule;
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Draws seeds of requests that name none; default: the system's. */
  readonly random?: () => number;
}

const MOST_DEFAULT_TOKENS = 8192;

const DIALECTS = ['/v1/completions', '/v1/chat/completions', '/v1/responses', '/v1/messages'];

/** Loads a model file. Rejects with a sentence: a wrong file, a missing package, a model that does not fit. */
export async function loadGguf(settings: GgufSettings): Promise<GgufEngine> {
  const { path, slots = 4, contextTokens, gpu = 'auto', threads } = settings;
  const header = await readGgufHeader(path);
  if (header.tokenizer === null) throw new Error(`${path} cannot be loaded as a model: it has no tokenizer`);
  const module = settings.module ?? (await loadLlamaModule());
  // Never built here: a host that starts is no place for a compiler.
  const llama = await module.getLlama({ build: 'never', gpu, logLevel: 'error', progressLogs: false });
  try {
    const model = await llama.loadModel({ modelPath: path });
    const most = Math.min(header.contextTokens ?? MOST_DEFAULT_TOKENS, MOST_DEFAULT_TOKENS);
    const context = await model.createContext({
      sequences: slots,
      contextSize: contextTokens ?? { max: most },
      ...(threads !== undefined && { threads }),
    });
    return new GgufEngine({ module, llama, model, context, header }, slots, settings);
  } catch (error) {
    await llama.dispose();
    throw new Error(`${path} cannot be loaded: ${(error as Error).message}`, { cause: error });
  }
}

interface Loaded {
  readonly module: LlamaModule;
  readonly llama: Llama;
  readonly model: LlamaModel;
  readonly context: LlamaContext;
  readonly header: GgufHeader;
}

export class GgufEngine implements ModelEngine {
  readonly kind = 'gguf';
  readonly models: readonly string[];
  readonly header: GgufHeader;
  readonly #loaded: Loaded;
  readonly #pool: SequencePool;
  readonly #clock: Clock;
  readonly #random: () => number;
  #isClosed = false;
  readonly #figures = { ...NO_FIGURES };

  /** @internal */
  constructor(loaded: Loaded, slots: number, settings: GgufSettings) {
    const { path, model, clock = systemClock, random = systemRandom } = settings;
    this.#loaded = loaded;
    this.#clock = clock;
    this.#random = random;
    this.header = loaded.header;
    this.models = [model ?? path.replace(/^.*[/\\]/, '').replace(/\.gguf$/i, '')];
    this.#pool = new SequencePool(Array.from({ length: slots }, () => loaded.context.getSequence()));
  }

  contextTokens(): number {
    return this.#loaded.context.contextSize;
  }

  health(): 'ready' {
    return 'ready';
  }

  complete(task: Task, sink: Sink): Run {
    const { model, module, header } = this.#loaded;
    const { options } = task;
    const { vocabularySize } = header;
    refuseUnsupported(options);
    refuseBeyond(options, this.#pool.list().length);
    const prompt = promptOf(task.prompt, { module, model, vocabularySize, system: task.system ?? '' });
    const contextTokens = this.contextTokens();
    if (task.whenFull === 'stop' && prompt.tokens.length >= contextTokens) {
      throw new PromptTooLong(prompt.tokens.length, contextTokens);
    }
    const bias = biasOf(options.logit_bias, module, model, vocabularySize);
    const cancelled = new AbortController();
    const { signal } = cancelled;
    const isOver = (): boolean => signal.aborted || this.#isClosed;
    const seed = chooseSeed(options.seed, this.#random) >>> 0;
    const arrivedMs = this.#clock.now();
    const generate = async (): Promise<void> => {
      const slot = await this.#pool.take(options.slot_id, options.cache_prompt ? prompt.tokens : null, signal);
      if (slot === null) return;
      let end: CompletionEnd;
      this.#figures.running++;
      try {
        if (isOver()) return;
        const parts = { task, prompt, model, contextTokens, seed, clock: this.#clock, sink, arrivedMs, bias };
        const deps = { ...parts, grammar: () => this.#grammar(options.grammar), isCancelled: isOver };
        end = await new GgufRun(deps, slot.id, slot.sequence).run();
      } catch (error) {
        end = failed(error as Error, slot.id, prompt, seed);
      } finally {
        this.#figures.running--;
        this.#pool.give(slot);
      }
      this.#count(end);
      if (!isOver()) sink.end(end);
    };
    void generate();
    return { cancel: () => cancelled.abort() };
  }

  countPrompt(_model: string, prompt: Prompt, system = ''): number {
    const { model, module, header } = this.#loaded;
    return promptOf(prompt, { module, model, vocabularySize: header.vocabularySize, system }).tokens.length;
  }

  tokenize(
    _model: string,
    content: string,
    { addSpecial = false, parseSpecial = false }: TokenizeOptions = {},
  ): Token[] {
    const { model } = this.#loaded;
    const { bos, shouldPrependBosToken } = model.tokens;
    const tokens = model.tokenize(content, parseSpecial, 'trimLeadingSpace');
    return addSpecial && shouldPrependBosToken && bos !== null ? [bos, ...tokens] : tokens;
  }

  detokenize(_model: string, tokens: readonly number[]): string {
    const { model, header } = this.#loaded;
    refuseUnknownTokens('tokens', tokens, header.vocabularySize);
    return model.detokenize(tokens, true);
  }

  props(): EngineProps {
    return { slots: this.slots().length, isMultimodal: false };
  }

  slots(): readonly SlotState[] {
    const n_ctx = this.contextTokens();
    return this.#pool.list().map(({ id, isBusy, tokens }) => ({ id, n_ctx, is_processing: isBusy, n_tokens: tokens }));
  }

  figures(): EngineFigures {
    const slots = this.slots();
    const used = slots.reduce((sum, { n_tokens, n_ctx }) => sum + n_tokens / n_ctx, 0);
    const cacheTokens = slots.reduce((sum, { n_ctx }) => sum + n_ctx, 0);
    return { ...this.#figures, waiting: this.#pool.waiting, memoryUse: used / slots.length, cacheTokens };
  }

  async close(): Promise<void> {
    const { context, model, llama } = this.#loaded;
    this.#isClosed = true;
    await this.#pool.idle();
    await context.dispose();
    await model.dispose();
    await llama.dispose();
  }

  async #grammar(text: string): Promise<object | undefined> {
    if (text === '') return undefined;
    const { module, llama, model } = this.#loaded;
    const grammar = await llama.createGrammar({ grammar: text });
    return new module.LlamaGrammarEvaluationState({ model, grammar });
  }

  #count(end: CompletionEnd): void {
    const figures = this.#figures;
    figures.promptTokens += end.promptTokens;
    figures.cachedTokens += end.cachedTokens;
    figures.generatedTokens += end.generatedTokens;
    figures.steps += end.generatedTokens;
    figures.promptMs += end.promptMs;
    figures.generationMs += end.generationMs;
  }
}

/** One sentence for the log. */
export function describeGguf(engine: GgufEngine): string {
  const { header, models } = engine;
  const { architecture, name, hasChatTemplate, canInfill } = header;
  const own = name === null ? '' : ` "${name}"`;
  const slots = engine.slots().length;
  const abilities = [`${slots} slots`, 'tokenize', ...(canInfill ? ['infill'] : []), ...DIALECTS];
  const lacks = ['/v1/embeddings', ...(canInfill ? [] : ['infill']), ...MISSING_OPTIONS];
  const chat = hasChatTemplate ? '' : ' It has no chat template: conversations take a general one.';
  const head = `The engine is node-llama-cpp with the ${architecture} model${own} as ${models[0]}`;
  return `${head} (${engine.contextTokens()} tokens): ${abilities.join(', ')}; without ${lacks.join(', ')}.${chat}`;
}

function failed({ message }: Error, slotId: number, prompt: PromptTokens, seed: number): CompletionEnd {
  return { ...BLANK_END, reason: 'failed', message, slotId, promptTokens: prompt.tokens.length, seed };
}
