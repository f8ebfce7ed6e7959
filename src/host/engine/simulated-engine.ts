// The simulated engine: a language model and a scheduler for each model, or the `paced` profile with words at a fixed pace.
// Models of one engine share nothing but its settings.
import { type Clock, systemClock, systemRandom } from '../../actor/index.ts';
import { type CompletionOptions, type SystemPrompt, invalidOption, InvalidOptions } from '../completion-options.ts';
import {
  type EngineFigures,
  type EngineProps,
  type ModelEngine,
  type Prompt,
  type Run,
  type Sink,
  type SlotState,
  type Task,
  NO_FIGURES,
  PromptTooLong,
} from '../model-engine.ts';
import type { BlockObserver } from './block-cache.ts';
import { createSpedClock, createVirtualClock } from './engine-clock.ts';
import { Generation } from './generation.ts';
import { type LanguageModel, createLanguageModel } from './model/language-model.ts';
import { SPECIAL } from './model/vocabulary.ts';
import { countTokens, seedOf, WORD_VOCABULARY, WordChain } from './model/word-chain.ts';
import { type PacedSettings, pacedLength, PacedSequence } from './paced-sequence.ts';
import { Pacer } from './pacer.ts';
import { type Profile, type ProfileName, PROFILES } from './profile.ts';
import { promptTokens, tokenMistake } from './prompt-tokens.ts';
import { type TokenGrammar, createTokenGrammar } from './sampling/grammar-mask.ts';
import { readLogitBias } from './sampling/logit-bias.ts';
import { FixedTokens } from './sampling/fixed-tokens.ts';
import { type Random, chooseSeed, createRandom } from './sampling/random.ts';
import { type Sampling, createSampling } from './sampling/sampler.ts';
import { type SamplingOptions, DEFAULT_SAMPLING } from './sampling/sampling-options.ts';
import { Scheduler } from './scheduler.ts';
import type { SequenceEnd } from './sequence.ts';
import { timeJob, TimingsLog } from './server-timings.ts';
/** How a simulated engine behaves; the defaults are `8b-h100` with 32 slots in real time. */
export interface SimulatedSettings {
  /** A known machine, fields that differ from `8b-h100`, or `paced`: words at a fixed pace, cheap, without steps. */
  readonly profile?: ProfileName | 'paced' | Partial<Profile> | undefined;
  /** Number of slots with memory of their own, as in llama.cpp's server, in place of the profile's memory. */
  readonly slots?: number | undefined;
  /** In place of the profile's. */
  readonly contextTokens?: number | undefined;
  /** How many times faster than real; `virtual` takes no time but that of the work. Default 1. */
  readonly speed?: number | 'virtual' | undefined;
}

/** What the host adds to the settings. */
export interface SimulatedDeps extends SimulatedSettings {
  readonly models: readonly string[];
  /** Seed of the language models; hosts with the same seed generate the same texts. Default 1. */
  readonly seed?: number | undefined;
  /** Of the profile `paced`. */
  readonly pace?: Partial<PacedSettings> | undefined;
  readonly clock?: Clock | undefined;
  /** Draws the seeds of requests that name none. Default: the system's. */
  readonly random?: Random | undefined;
  /** Is told of changes of the KV blocks; with one model only. */
  readonly observer?: BlockObserver | undefined;
}

/** The machines that are known. */
export const PROFILE_NAMES: readonly ProfileName[] = Object.keys(PROFILES) as ProfileName[];

const DEFAULT_SLOTS = 32;
const GRAMMARS = 64;
const KEPT_TIMINGS = 4096;

/** What a paced engine says of itself; it holds nothing in memory and has no slots of its own. */
const PACED: Profile = {
  ...PROFILES['8b-h100'],
  maxSequences: 1,
  memory: { kind: 'slots', capacityTokens: 1, choice: 'least-recent' },
};

const DEFAULT_PACE: PacedSettings = { timeToFirstTokenMs: 30, interTokenMs: 10, maxTokens: 16, naturalTokens: 256 };

/** Creates an engine. Throws a RangeError for a profile that makes no sense. */
export function createSimulatedEngine(deps: SimulatedDeps): ModelEngine {
  return new SimulatedEngine(deps);
}

/** The profile that the settings describe. */
function profileOf({ profile, slots, contextTokens }: SimulatedSettings): Profile {
  if (profile === 'paced') return PACED;
  const known = typeof profile === 'string' ? PROFILES[profile] : { ...PROFILES['8b-h100'], ...profile };
  const context = contextTokens ?? known.contextTokens;
  const count = slots ?? (profile === undefined ? DEFAULT_SLOTS : undefined);
  if (count === undefined) return { ...known, contextTokens: context };
  const { memory } = known;
  const most = memory.kind === 'slots' ? memory.capacityTokens : memory.blocks * memory.blockTokens;
  const capacityTokens = slots === undefined ? most : Math.max(count * context, 1);
  return {
    ...known,
    contextTokens: context,
    maxSequences: count,
    maxBatchTokens: Math.max(known.maxBatchTokens, count),
    memory: { kind: 'slots', capacityTokens, choice: 'similarity' },
  };
}

/** Tokens at the end of a prompt that the answer goes on with: the model reads them like its own. */
function prefilledTokens(prompt: Prompt, tokenizer: LanguageModel['tokenizer']): number {
  if (prompt.kind !== 'chat' || prompt.continues !== true) return 0;
  return tokenizer.tokenize(prompt.turns.at(-1)?.text ?? '').length;
}

/** Building a language model takes some time and a fleet has many hosts: those with the same seed share it. */
const LANGUAGE_MODELS = new Map<number, { model: LanguageModel; sampling: Sampling }>();

function languageModel(seed: number): { model: LanguageModel; sampling: Sampling } {
  let known = LANGUAGE_MODELS.get(seed);
  if (known === undefined) {
    const model = createLanguageModel(seed);
    known = { model, sampling: createSampling(model) };
    LANGUAGE_MODELS.set(seed, known);
  }
  return known;
}

/** One model of an engine. */
class Loaded {
  readonly scheduler: Scheduler;
  readonly #seed: number;
  readonly slots: { busy: boolean; tokens: number }[];
  system: SystemPrompt = { prompt: '', anti_prompt: '', assistant_name: '' };
  systemTokens: Int32Array = new Int32Array(0);
  readonly #grammars = new Map<string, TokenGrammar>();

  constructor(seed: number, profile: Profile, clock: Clock, observer: BlockObserver | undefined) {
    this.#seed = seed;
    this.scheduler = new Scheduler({ profile, clock, observer });
    this.slots = Array.from({ length: profile.maxSequences }, () => ({ busy: false, tokens: 0 }));
  }

  get model(): LanguageModel {
    return languageModel(this.#seed).model;
  }

  get sampling(): Sampling {
    return languageModel(this.#seed).sampling;
  }

  /** Throws InvalidOptions for text that is no grammar. */
  grammar(text: string): TokenGrammar | undefined {
    if (text === '') return undefined;
    const known = this.#grammars.get(text);
    if (known !== undefined) return known;
    let made: TokenGrammar;
    try {
      made = createTokenGrammar(text, this.model.vocabulary);
    } catch (error) {
      throw invalidOption('grammar', (error as Error).message);
    }
    this.#grammars.set(text, made);
    if (this.#grammars.size > GRAMMARS) this.#grammars.delete(this.#grammars.keys().next().value!);
    return made;
  }
}

class SimulatedEngine implements ModelEngine {
  readonly kind = 'simulated';
  readonly givesLogProbs: boolean;
  readonly isPaced: boolean;
  /** Absent for a paced engine, which has no memory to run out of. */
  readonly exhaust?: () => void;
  readonly models: readonly string[];
  readonly #loaded: ReadonlyMap<string, Loaded>;
  readonly #profile: Profile;
  readonly #clock: Clock;
  readonly #seed: number;
  readonly #pace: PacedSettings;
  readonly #pacer: Pacer;
  readonly #random: Random;
  readonly #timings = new TimingsLog(KEPT_TIMINGS);
  readonly #figures = { ...NO_FIGURES };

  constructor(deps: SimulatedDeps) {
    const { models, observer, seed = 1, speed = 1, pace, clock = systemClock, random = systemRandom } = deps;
    const outOfMemory = (): void => {
      for (const { scheduler } of this.#loaded.values()) scheduler.outOfMemory();
    };
    if (observer !== undefined && models.length > 1) throw new RangeError('KV events are those of one model');
    this.models = models;
    this.#profile = profileOf(deps);
    this.#seed = seed;
    this.#random = random;
    this.#clock =
      speed === 'virtual' ? createVirtualClock(setImmediate) : speed === 1 ? clock : createSpedClock(clock, speed);
    const { timeToFirstTokenMs, interTokenMs, maxTokens, naturalTokens } = { ...DEFAULT_PACE, ...pace };
    this.#pace = { timeToFirstTokenMs, interTokenMs, maxTokens, naturalTokens };
    this.#pacer = new Pacer(this.#clock);
    this.isPaced = deps.profile === 'paced';
    this.givesLogProbs = !this.isPaced;
    if (!this.isPaced) this.exhaust = outOfMemory;
    this.#loaded = new Map(models.map((model) => [model, new Loaded(seed, this.#profile, this.#clock, observer)]));
  }

  contextTokens(): number {
    return this.#profile.contextTokens;
  }

  health(): 'ready' {
    return 'ready';
  }

  tokenize(model: string, content: string): Int32Array {
    return this.#of(model).model.tokenizer.tokenize(content);
  }

  detokenize(model: string, tokens: readonly number[]): string {
    const { vocabulary, tokenizer } = this.#of(model).model;
    const wrong = tokens.flatMap((token, at) =>
      token < vocabulary.size ? [] : [tokenMistake(['body', 'tokens', at], vocabulary.size)],
    );
    if (wrong.length > 0) throw new InvalidOptions(wrong);
    return tokenizer.detokenize(tokens);
  }

  countPrompt(model: string, prompt: Prompt): number {
    if (this.isPaced) return countTokens(textOf(prompt));
    const { model: language, systemTokens } = this.#of(model);
    return promptTokens(prompt, [], { ...language, systemTokens }).length;
  }

  setSystemPrompt(model: string, system: SystemPrompt): void {
    const loaded = this.#of(model);
    loaded.system = system;
    const tokens = loaded.model.tokenizer.tokenize(system.prompt);
    loaded.systemTokens = tokens.length === 0 ? tokens : Int32Array.of(SPECIAL.bos, ...tokens);
  }

  complete(task: Task, sink: Sink): Run {
    if (this.isPaced) return this.#completePaced(task, sink);
    const loaded = this.#of(task.model);
    const { model, sampling, systemTokens } = loaded;
    const { vocabulary, tokenizer } = model;
    const { options } = task;
    const prompt = promptTokens(task.prompt, options.image_data, { vocabulary, tokenizer, systemTokens });
    const { contextTokens } = this.#profile;
    if (task.whenFull === 'stop' && prompt.length >= contextTokens) {
      throw new PromptTooLong(prompt.length, contextTokens);
    }
    const grammar = loaded.grammar(options.grammar);
    const seed = chooseSeed(options.seed, this.#random);
    const sampler =
      task.text === undefined
        ? sampling.start({
            options: { ...samplingOf(options, model), logProbs: task.logProbs ?? null },
            prompt,
            prefilled: prefilledTokens(task.prompt, tokenizer),
            random: createRandom(seed),
            grammar,
          })
        : new FixedTokens(tokenizer.tokenize(task.text), vocabulary.eos);
    let slotId = -1;
    const session = new Generation({
      task,
      prompt,
      systemTokens: systemTokens.length,
      sampler,
      vocabulary,
      seed,
      sink,
      onStart: (slot, tokens) => {
        slotId = slot;
        this.#started(loaded, slot, tokens);
      },
      onEnd: (end) => this.#ended(loaded, session.job.cachePrompt, slotId, end),
    });
    return this.#submit(loaded, session, task.timingsId);
  }

  props(model: string): EngineProps {
    const { system } = this.#of(model);
    return {
      assistantName: system.assistant_name,
      antiPrompt: system.anti_prompt,
      systemPrompt: system.prompt,
      slots: this.#profile.maxSequences,
      isMultimodal: true,
    };
  }

  slots(model: string): readonly SlotState[] {
    const { contextTokens } = this.#profile;
    return this.#of(model).slots.map(({ busy, tokens }, id) => ({
      id,
      n_ctx: contextTokens,
      is_processing: busy,
      n_tokens: tokens,
    }));
  }

  figures(): EngineFigures {
    let steps = 0;
    let used = 0;
    let lateSteps = 0;
    let mostBehindMs = 0;
    let cacheTokens = 0;
    for (const { scheduler } of this.#loaded.values()) {
      const { counts, usedTokens, capacityTokens, ...state } = scheduler.state();
      steps += counts.steps;
      used += usedTokens / capacityTokens;
      cacheTokens = Math.max(cacheTokens, capacityTokens);
      lateSteps += state.lateSteps;
      mostBehindMs = Math.max(mostBehindMs, state.mostBehindUs / 1000);
    }
    const memory = { memoryUse: used / this.#loaded.size, cacheTokens: this.isPaced ? 0 : cacheTokens };
    return { ...this.#figures, ...memory, steps, lateSteps, mostBehindMs };
  }

  timings(id: string): unknown {
    return this.#timings.get(id);
  }

  async close(): Promise<void> {
    this.#pacer.clear();
    for (const { scheduler } of this.#loaded.values()) scheduler.close();
  }

  #of(model: string): Loaded {
    const loaded = this.#loaded.get(model);
    if (loaded === undefined) throw new Error(`no such model: ${model}`);
    return loaded;
  }

  #completePaced(task: Task, sink: Sink): Run {
    const loaded = this.#of(task.model);
    const { n_predict, ignore_eos } = task.options;
    const text = textOf(task.prompt);
    const pace = { ...this.#pace, ...task.pace };
    const { tokens, isCut } = pacedLength(pace, pace.tokens ?? n_predict, pace.tokens !== undefined || ignore_eos);
    const seed = seedOf(this.#seed, task.model, text);
    const session = new Generation({
      task,
      prompt: NO_TOKENS,
      systemTokens: 0,
      sampler: new WordChain(seed, tokens),
      vocabulary: WORD_VOCABULARY,
      seed,
      sink,
      onStart: (slot, promptTokens) => this.#started(loaded, slot, promptTokens),
      onEnd: (end) => this.#ended(loaded, false, 0, end),
    });
    this.#figures.waiting++;
    const { job } = session;
    const promptTokens = countTokens(text);
    const sequence = new PacedSequence({ job, sink, pace, promptTokens, tokens, isCut, pacer: this.#pacer });
    sequence.start();
    return {
      cancel: () => {
        session.cancel();
        sequence.cancel();
      },
    };
  }

  #submit({ scheduler }: Loaded, session: Generation, timingsId: string | null): Run {
    let { job } = session;
    if (timingsId !== null) {
      const timed = timeJob(job, this.#clock);
      this.#timings.add(timingsId, timed.timings);
      job = timed.job;
    }
    this.#figures.waiting++;
    scheduler.submit(job);
    return {
      cancel() {
        session.cancel();
        scheduler.cancel(job);
      },
    };
  }

  #started({ slots }: Loaded, slotId: number, tokens: number): void {
    this.#figures.waiting--;
    this.#figures.running++;
    const slot = slots[slotId];
    if (slot === undefined) return;
    slot.busy = true;
    slot.tokens = tokens;
  }

  #ended({ slots }: Loaded, isCached: boolean, slotId: number, end: SequenceEnd): void {
    const figures = this.#figures;
    if (slotId < 0) figures.waiting--;
    else figures.running--;
    figures.preemptions += end.preemptions;
    figures.promptTokens += end.promptTokens;
    figures.cachedTokens += end.cachedTokens;
    figures.generatedTokens += end.generatedTokens;
    figures.promptMs += (end.firstTokenUs - end.startedUs) / 1000;
    figures.generationMs += (end.endedUs - end.firstTokenUs) / 1000;
    const slot = slots[end.slotId];
    if (slot === undefined) return;
    slot.busy = false;
    slot.tokens = isCached ? end.promptTokens + end.generatedTokens : 0;
  }
}

const NO_TOKENS = new Int32Array(0);

/** Text of a prompt, to choose the words of a paced answer by. */
function textOf(prompt: Prompt): string {
  if (prompt.kind === 'parts') return prompt.parts.join('\n');
  return prompt.kind === 'infill'
    ? `${prompt.prefix}\n${prompt.suffix}`
    : prompt.turns.map((turn) => turn.text).join('\n');
}

function samplingOf(options: CompletionOptions, model: LanguageModel): SamplingOptions {
  const { vocabulary, tokenizer } = model;
  return {
    ...DEFAULT_SAMPLING,
    temperature: options.temperature,
    topK: options.top_k,
    topP: options.top_p,
    minP: options.min_p,
    typicalP: options.typical_p,
    tfsZ: options.tfs_z,
    repeatPenalty: options.repeat_penalty,
    repeatLastN: options.repeat_last_n,
    penalizeNl: options.penalize_nl,
    presencePenalty: options.presence_penalty,
    frequencyPenalty: options.frequency_penalty,
    mirostat: options.mirostat,
    mirostatTau: options.mirostat_tau,
    mirostatEta: options.mirostat_eta,
    ignoreEos: options.ignore_eos,
    logitBias: readLogitBias(options.logit_bias, vocabulary.size, tokenizer.tokenize),
    nProbs: options.n_probs,
  };
}
