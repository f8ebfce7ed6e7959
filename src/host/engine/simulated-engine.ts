// The simulated engine: for each model a language model and a scheduler whose steps all requests share. With the profile `paced` each
// request has a scheduler of its own, with steps of a constant length, and words in place of the language model. The same seed, name
// and arrivals give the same answers at the same times.
import { type Clock, createSeededRandom, systemClock, systemRandom } from '../../actor/index.ts';
import { TimerSet } from '../../net/timer-set.ts';
import {
  type CompletionOptions,
  type ImageData,
  invalidOption,
  refuseBeyond,
  refuseManyStops,
  refuseUnknownTokens,
} from '../completion-options.ts';
import {
  type EngineFigures,
  type EngineProps,
  type ModelEngine,
  type Prompt,
  type Run,
  type Sink,
  type SlotState,
  type Task,
  type TokenizeOptions,
  type TokenPiece,
  NO_FIGURES,
  PromptTooLong,
} from '../model-engine.ts';
import type { BlockObserver } from './block-cache.ts';
import { createSpedClock, createVirtualClock } from './engine-clock.ts';
import { Generation } from './generation.ts';
import { type LanguageModel, createLanguageModel } from './model/language-model.ts';
import { SPECIAL } from './model/vocabulary.ts';
import { countTokens, seedOf, WORD_VOCABULARY, WordChain } from './model/word-chain.ts';
import { type PacedSettings, pacedLength } from './pace.ts';
import { type Profile, pacedProfile } from './profile.ts';
import { type ProfileName, DEFAULT_PROFILE, PROFILES } from './profiles.ts';
import { promptTokens } from './prompt-tokens.ts';
import { GrammarCache } from './sampling/grammar-cache.ts';
import type { TokenGrammar } from './sampling/grammar-mask.ts';
import { type LogitBias, readLogitBias } from './sampling/logit-bias.ts';
import { FixedTokens } from './sampling/fixed-tokens.ts';
import { type Random, chooseSeed, createRandom } from './sampling/random.ts';
import { type Sampling, createSampling } from './sampling/sampler.ts';
import { type SamplingOptions, DEFAULT_SAMPLING } from './sampling/sampling-options.ts';
import { Scheduler } from './scheduler.ts';
import type { SequenceEnd, SequenceJob } from './sequence.ts';
import { type ServerTimings, timeJob, TimingsLog } from './server-timings.ts';
import { StepTimes, derivedSeed, normal } from './step-times.ts';

/** How a simulated engine behaves; the default is the machine `8b-rtx4090` in real time, loaded and warm. */
export interface SimulatedSettings {
  /** A known machine, fields that differ from `8b-h100`, or `paced`: words at a constant pace, cheap, whatever else runs. */
  readonly profile?: ProfileName | 'paced' | Partial<Profile> | undefined;
  /** Number of slots with memory of their own, as in llama.cpp's server, in place of the profile's memory. */
  readonly slots?: number | undefined;
  /** In place of the profile's. */
  readonly contextTokens?: number | undefined;
  /** How many times faster than real; `virtual` takes no time but that of the work. Default 1. */
  readonly speed?: number | 'virtual' | undefined;
  /** Whether step times vary and stall as the profile says. Default true. */
  readonly variation?: boolean | undefined;
  /** Whether the model is loaded first and its first steps are slow, as the profile says. Default false. */
  readonly coldStart?: boolean | undefined;
  /** Factor of all step times, for a slow machine among others; default 1. */
  readonly slowdown?: number | undefined;
  /** Median time of a request on its way to the engine, milliseconds; log-normal, and one in a thousand is lost once. Default 0. */
  readonly networkMs?: number | undefined;
}

/** What the host adds to the settings. */
export interface SimulatedDeps extends SimulatedSettings {
  readonly models: readonly string[];
  /** Seed of the language models, and with the name of step times; hosts with the same seed generate the same texts. Default 1. */
  readonly seed?: number | undefined;
  /** Tells engines with the same seed apart: their step times differ. Default: empty. */
  readonly name?: string | undefined;
  /** Of the profile `paced`. */
  readonly pace?: Partial<PacedSettings> | undefined;
  readonly clock?: Clock | undefined;
  /** Draws the seeds of requests that name none. Default: by `seed` and `name` when there is a seed, else the system's. */
  readonly random?: Random | undefined;
  /** Is told of changes of the KV blocks; with one model only. */
  readonly observer?: BlockObserver | undefined;
}

/** Spread of the network's delay, and what a lost packet costs: the least timeout of a retransmission on Linux. Both are assumed for a network. */
const NETWORK_SPREAD = 0.3;
const LOST_SHARE = 0.001;
const RETRANSMISSION_MS = 200;

const KEPT_TIMINGS = 4096;

/** Tokens listed with their texts in one answer: each takes some 150 bytes. */
const MAX_PIECES = 1_048_576;
const NO_TOKENS = new Int32Array(0);

/** Most tokens of a sequence that a paced engine names; it holds nothing in memory and takes any prompt. */
const PACED_CONTEXT_TOKENS = 32_768;

const DEFAULT_PACE: PacedSettings = { timeToFirstTokenMs: 30, interTokenMs: 10, maxTokens: 16, naturalTokens: 256 };

/** Creates an engine. Throws a RangeError for a profile that makes no sense. */
export function createSimulatedEngine(deps: SimulatedDeps): ModelEngine {
  return new SimulatedEngine(deps);
}

/** The profile that the settings describe. */
function profileOf({ profile, slots, contextTokens }: SimulatedSettings): Profile {
  if (profile === 'paced') return { ...pacedProfile(0, 0), contextTokens: PACED_CONTEXT_TOKENS };
  const known =
    typeof profile === 'object' ? { ...PROFILES['8b-h100'], ...profile } : PROFILES[profile ?? DEFAULT_PROFILE];
  const context = contextTokens ?? known.contextTokens;
  if (slots === undefined) return { ...known, contextTokens: context };
  return {
    ...known,
    contextTokens: context,
    maxSequences: slots,
    maxBatchTokens: Math.max(known.maxBatchTokens, slots),
    memory: { kind: 'slots', capacityTokens: Math.max(slots * context, 1), choice: 'similarity' },
  };
}

/** What was read of a prompt, behind this system prompt and with these images. */
interface ReadPrompt {
  readonly system: string;
  readonly images: readonly ImageData[];
  readonly tokens: Int32Array;
  /** Leading tokens that are of the system prompt. */
  readonly systemTokens: number;
  /** Tokens at the end that the answer goes on with. */
  readonly prefilled: number;
}

/** Tokens at the end of a prompt that the answer goes on with: the model reads them like its own. */
function prefilledTokens(prompt: Prompt, tokenizer: LanguageModel['tokenizer']): number {
  if (prompt.kind !== 'chat' || prompt.continues !== true) return 0;
  return tokenizer.tokenize(prompt.turns.at(-1)?.text ?? '').length;
}

interface SharedModel {
  readonly model: LanguageModel;
  readonly sampling: Sampling;
  readonly grammars: GrammarCache;
}

/** Building a language model takes some time and a fleet has many hosts: those with the same seed share it. */
const LANGUAGE_MODELS = new Map<number, SharedModel>();

function languageModel(seed: number): SharedModel {
  let known = LANGUAGE_MODELS.get(seed);
  if (known === undefined) {
    const model = createLanguageModel(seed);
    known = { model, sampling: createSampling(model), grammars: new GrammarCache(model.vocabulary) };
    LANGUAGE_MODELS.set(seed, known);
  }
  return known;
}

/** One model of an engine. */
class Loaded {
  scheduler: Scheduler;
  readonly #seed: number;
  readonly #createScheduler: () => Scheduler;
  /** Schedulers of requests with a constant pace. */
  readonly paced = new Set<Scheduler>();
  /** Tokens that the last sequence of each slot left in the cache. */
  readonly leftTokens: number[];

  constructor(seed: number, slots: number, createScheduler: () => Scheduler) {
    this.#seed = seed;
    this.#createScheduler = createScheduler;
    this.scheduler = createScheduler();
    this.leftTokens = Array.from({ length: slots }, () => 0);
  }

  /** Begins anew after a close, with nothing in memory. */
  restart(): void {
    this.scheduler = this.#createScheduler();
    this.leftTokens.fill(0);
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
    try {
      return languageModel(this.#seed).grammars.get(text);
    } catch (error) {
      throw invalidOption('grammar', (error as Error).message);
    }
  }
}

class SimulatedEngine implements ModelEngine {
  readonly kind = 'simulated';
  readonly givesLogProbs: boolean;
  readonly givesTokens: boolean;
  readonly isPaced: boolean;
  /** Absent for a paced engine, which has no memory to run out of. */
  readonly exhaust?: () => void;
  readonly models: readonly string[];
  readonly #loaded: ReadonlyMap<string, Loaded>;
  readonly #profile: Profile;
  readonly #clock: Clock;
  readonly #seed: number;
  readonly #pace: PacedSettings;
  readonly #random: Random;
  /** Draws delays of the network. */
  readonly #network: Random;
  readonly #networkMs: number;
  readonly #loadMs: number;
  /** Timers of requests that are on their way, and of the model that loads. */
  readonly #timers: TimerSet;
  #isLoading = false;
  #isClosed = false;
  readonly #timings = new TimingsLog(KEPT_TIMINGS);
  /** Of the choices of a request only the first one has its prompt and its biases read. */
  readonly #prompts = new WeakMap<Prompt, ReadPrompt>();
  readonly #biases = new WeakMap<object, LogitBias>();
  /** The system prompt of the last request: many prompts may stand behind it. */
  #system: { readonly text: string; readonly tokens: Int32Array } = { text: '', tokens: NO_TOKENS };
  readonly #figures = { ...NO_FIGURES };

  constructor(deps: SimulatedDeps) {
    const { models, observer, seed = 1, name = '', speed = 1, pace, clock = systemClock } = deps;
    const { variation = true, coldStart = false, slowdown = 1, networkMs = 0 } = deps;
    const outOfMemory = (): void => {
      for (const { scheduler } of this.#loaded.values()) scheduler.outOfMemory();
    };
    if (observer !== undefined && models.length > 1) throw new RangeError('KV events are those of one model');
    this.models = models;
    this.#profile = profileOf(deps);
    this.#seed = seed;
    const chance = deps.seed === undefined ? systemRandom : createSeededRandom(derivedSeed(seed, name, 'requests'));
    this.#random = deps.random ?? chance;
    this.#network = createSeededRandom(derivedSeed(seed, name, 'network'));
    this.#networkMs = networkMs;
    this.#loadMs = coldStart ? (this.#profile.coldStart?.loadMs ?? 0) : 0;
    this.#clock =
      speed === 'virtual' ? createVirtualClock(setImmediate) : speed === 1 ? clock : createSpedClock(clock, speed);
    this.#timers = new TimerSet(this.#clock);
    const { timeToFirstTokenMs, interTokenMs, maxTokens, naturalTokens } = { ...DEFAULT_PACE, ...pace };
    this.#pace = { timeToFirstTokenMs, interTokenMs, maxTokens, naturalTokens };
    this.isPaced = deps.profile === 'paced';
    this.givesLogProbs = !this.isPaced;
    this.givesTokens = !this.isPaced;
    if (!this.isPaced) this.exhaust = outOfMemory;
    const profile = this.#profile;
    const create = (model: string) => (): Scheduler => {
      const drawn = variation ? derivedSeed(seed, name, model, 'steps') : null;
      const times = new StepTimes(profile, { seed: drawn, isCold: coldStart, slowdown });
      return new Scheduler({ profile, clock: this.#clock, times, observer });
    };
    this.#loaded = new Map(models.map((model) => [model, new Loaded(seed, profile.maxSequences, create(model))]));
  }

  open(): void {
    if (this.#isClosed) for (const loaded of this.#loaded.values()) loaded.restart();
    this.#isClosed = false;
    this.#isLoading = this.#loadMs > 0;
    if (this.#isLoading) this.#timers.after(this.#loadMs, () => void (this.#isLoading = false));
  }

  contextTokens(): number {
    return this.#profile.contextTokens;
  }

  health(): 'loading' | 'ready' {
    return this.#isLoading ? 'loading' : 'ready';
  }

  tokenize(model: string, content: string, { addSpecial = false }: TokenizeOptions = {}): Int32Array {
    const language = this.#of(model).model;
    const tokens = language.tokenizer.tokenize(content);
    return addSpecial ? withBegin(tokens) : tokens;
  }

  pieces(model: string, content: string, options?: TokenizeOptions): TokenPiece[] {
    const { vocabulary } = this.#of(model).model;
    const tokens = this.tokenize(model, content, options);
    if (tokens.length > MAX_PIECES)
      throw invalidOption('content', `at most ${MAX_PIECES} tokens are listed with pieces`);
    return Array.from(tokens, (id) => ({
      id,
      piece: vocabulary.text(id) ?? Array.from(vocabulary.bytes(id)),
    }));
  }

  detokenize(model: string, tokens: readonly number[]): string {
    const { vocabulary, tokenizer } = this.#of(model).model;
    refuseUnknownTokens('tokens', tokens, vocabulary.size);
    return tokenizer.detokenize(tokens);
  }

  countPrompt(model: string, prompt: Prompt, system = ''): number {
    if (this.isPaced) return countTokens(textOf(prompt));
    const { model: language } = this.#of(model);
    return promptTokens(prompt, [], { ...language, systemTokens: systemTokensOf(language, system) }).length;
  }

  complete(task: Task, sink: Sink): Run {
    if (this.isPaced) return this.#completePaced(task, sink);
    const loaded = this.#of(task.model);
    const { model, sampling } = loaded;
    const { vocabulary, tokenizer } = model;
    const { options } = task;
    refuseBeyond(options, this.#profile.maxSequences);
    const { prefilled, systemTokens, tokens: prompt } = this.#read(model, task);
    const { contextTokens } = this.#profile;
    if (task.whenFull === 'stop' && prompt.length >= contextTokens) {
      throw new PromptTooLong(prompt.length, contextTokens);
    }
    const grammar = loaded.grammar(options.grammar);
    const seed = chooseSeed(options.seed, this.#random);
    const sampler =
      task.text === undefined
        ? sampling.start({
            options: { ...samplingOf(options, this.#biasesOf(model, options)), logProbs: task.logProbs ?? null },
            prompt,
            prefilled,
            random: createRandom(seed),
            grammar,
          })
        : new FixedTokens(tokenizer.tokenize(task.text), vocabulary.eos);
    const session = new Generation({
      task,
      prompt,
      systemTokens,
      sampler,
      vocabulary,
      seed,
      sink,
      onStart: () => this.#started(),
      onEnd: (end) => this.#ended(loaded, session.job.cachePrompt, end),
    });
    return this.#submit(loaded.scheduler, session, task.timingsId);
  }

  props(): EngineProps {
    return { slots: this.#profile.maxSequences, isMultimodal: true };
  }

  slots(model: string): readonly SlotState[] {
    const { contextTokens } = this.#profile;
    const { scheduler, paced, leftTokens } = this.#of(model);
    const running = new Map([scheduler, ...paced].flatMap((each) => each.slots()));
    return leftTokens.map((tokens, id) => ({
      id,
      n_ctx: contextTokens,
      is_processing: running.has(id),
      n_tokens: running.get(id) ?? tokens,
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
    const { memory: kept } = this.#profile;
    const blockTokens = kept.kind === 'blocks' ? kept.blockTokens : 0;
    const memory = { memoryUse: used / this.#loaded.size, cacheTokens: this.isPaced ? 0 : cacheTokens, blockTokens };
    return { ...this.#figures, ...memory, steps, lateSteps, mostBehindMs };
  }

  timings(id: string): ServerTimings | undefined {
    return this.#timings.get(id);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#timers.cancelAll();
    for (const { scheduler, paced } of this.#loaded.values()) {
      for (const each of [scheduler, ...paced]) each.close();
    }
  }

  #of(model: string): Loaded {
    const loaded = this.#loaded.get(model);
    if (loaded === undefined) throw new Error(`no such model: ${model}`);
    return loaded;
  }

  #read(model: LanguageModel, { options, prompt, system = '' }: Task): ReadPrompt {
    const images = options.image_data;
    let read = this.#prompts.get(prompt);
    if (read?.system !== system || read.images !== images) {
      const { vocabulary, tokenizer } = model;
      if (this.#system.text !== system) this.#system = { text: system, tokens: systemTokensOf(model, system) };
      const systemTokens = this.#system.tokens;
      const tokens = promptTokens(prompt, images, { vocabulary, tokenizer, systemTokens });
      const prefilled = prefilledTokens(prompt, tokenizer);
      read = { system, images, tokens, systemTokens: systemTokens.length, prefilled };
      this.#prompts.set(prompt, read);
    }
    return read;
  }

  #biasesOf({ tokenizer, vocabulary }: LanguageModel, { logit_bias }: CompletionOptions): LogitBias {
    if (typeof logit_bias !== 'object' || logit_bias === null) return new Map();
    let biases = this.#biases.get(logit_bias);
    if (biases === undefined) {
      biases = readLogitBias(logit_bias, vocabulary.size, tokenizer.tokenize);
      this.#biases.set(logit_bias, biases);
    }
    return biases;
  }

  #completePaced(task: Task, sink: Sink): Run {
    const loaded = this.#of(task.model);
    const { n_predict, ignore_eos } = task.options;
    refuseManyStops(task.options);
    const text = textOf(task.prompt);
    const pace = { ...this.#pace, ...task.pace };
    const limit = pace.tokens ?? n_predict;
    const { tokens, isCut } = pacedLength(pace, limit, pace.tokens !== undefined || ignore_eos);
    const seed = seedOf(this.#seed, task.model, text);
    const options = { ...task.options, cache_prompt: false, n_predict: isCut ? limit : -1 };
    const profile = pacedProfile(pace.timeToFirstTokenMs, pace.interTokenMs);
    const scheduler = new Scheduler({ profile, clock: this.#clock });
    const session = new Generation({
      task: { ...task, options, whenFull: 'stop' },
      prompt: new Int32Array(countTokens(text)),
      systemTokens: 0,
      sampler: new WordChain(seed, tokens),
      vocabulary: WORD_VOCABULARY,
      seed,
      sink,
      onStart: () => this.#started(),
      onEnd: (end) => {
        loaded.paced.delete(scheduler);
        this.#ended(loaded, false, end);
      },
    });
    loaded.paced.add(scheduler);
    return this.#submit(scheduler, session, task.timingsId);
  }

  #submit(scheduler: Scheduler, session: Generation, timingsId: string | null): Run {
    let { job } = session;
    if (timingsId !== null) {
      const timed = timeJob(job, this.#clock);
      this.#timings.add(timingsId, timed.timings);
      job = timed.job;
    }
    const travel =
      this.#networkMs === 0 ? null : this.#timers.after(this.#travelMs(), () => this.#arrive(scheduler, job));
    if (travel === null) this.#arrive(scheduler, job);
    return {
      cancel: () => {
        session.cancel();
        if (travel !== null && this.#timers.cancel(travel)) return;
        if (scheduler.profile.isPaced === true) scheduler.close();
        else scheduler.cancel(job);
      },
    };
  }

  #arrive(scheduler: Scheduler, job: SequenceJob): void {
    this.#figures.waiting++;
    if (!scheduler.submit(job)) this.#figures.waiting--;
  }

  /** How long a request is on its way. Draws as many numbers for each. */
  #travelMs(): number {
    const delayMs = this.#networkMs * Math.exp(NETWORK_SPREAD * normal(this.#network));
    return this.#network() < LOST_SHARE ? delayMs + RETRANSMISSION_MS : delayMs;
  }

  #started(): void {
    this.#figures.waiting--;
    this.#figures.running++;
  }

  #ended({ leftTokens }: Loaded, isCached: boolean, end: SequenceEnd): void {
    const figures = this.#figures;
    if (end.slotId < 0) figures.waiting--;
    else figures.running--;
    figures.preemptions += end.preemptions;
    figures.promptTokens += end.promptTokens;
    figures.cachedTokens += end.cachedTokens;
    figures.generatedTokens += end.generatedTokens;
    figures.promptMs += (end.firstTokenUs - end.startedUs) / 1000;
    figures.generationMs += (end.endedUs - end.firstTokenUs) / 1000;
    if (end.slotId >= 0) leftTokens[end.slotId] = isCached ? end.computedTokens : 0;
  }
}

/** Tokens of the text in front of every prompt, its beginning-of-sequence included; none for an empty text. */
function systemTokensOf({ tokenizer }: Pick<LanguageModel, 'tokenizer'>, system: string): Int32Array {
  return system === '' ? NO_TOKENS : withBegin(tokenizer.tokenize(system));
}

function withBegin(tokens: Int32Array): Int32Array {
  const all = new Int32Array(tokens.length + 1);
  all[0] = SPECIAL.bos;
  all.set(tokens, 1);
  return all;
}

/** Text of a prompt, to choose the words of a paced answer by. */
function textOf(prompt: Prompt): string {
  if (prompt.kind === 'parts') return prompt.parts.join('\n');
  return prompt.kind === 'infill'
    ? `${prompt.prefix}\n${prompt.suffix}`
    : prompt.turns.map((turn) => turn.text).join('\n');
}

function samplingOf(options: CompletionOptions, logitBias: LogitBias): SamplingOptions {
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
    logitBias,
    nProbs: options.n_probs,
  };
}
