// What answers completions behind a host: the seam between HTTP and an engine. The simulated engine implements it over its
// step scheduler; an attached engine implements it over the wire of a server, or over a model in this process.
// The host has checked keys, paths and types before it calls; an engine refuses what it cannot do by throwing
// InvalidOptions, by the option's name, and drops nothing silently.
import type { CompletionOptions, PromptPart } from './completion-options.ts';
import type { Pace } from './engine/paced-sequence.ts';

/** One turn of a conversation, whatever dialect it came in. */
export interface Turn {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/** What stands before the answer. */
export type Prompt =
  /** Text and tokens; a beginning-of-sequence token comes in front when the first part is text. */
  | { readonly kind: 'parts'; readonly parts: readonly PromptPart[] }
  | { readonly kind: 'infill'; readonly prefix: string; readonly suffix: string }
  /** `speaks` is what the answer is to be: prose, or data such as a tool call. */
  | { readonly kind: 'chat'; readonly turns: readonly Turn[]; readonly speaks: 'prose' | 'data' };

/** One generation that is wanted. */
export interface Task {
  /** Id of one of the engine's models. */
  readonly model: string;
  readonly prompt: Prompt;
  /** `prompt` and `stream` of the options are not read. */
  readonly options: CompletionOptions;
  /** `shift` drops tokens from a full context and goes on, `stop` ends there and refuses prompts that do not fit. */
  readonly whenFull: 'shift' | 'stop';
  /**
   * With each token the log probabilities that the model alone gives it and this many most likely ones; absent: none.
   * Only for engines with `givesLogProbs`.
   */
  readonly logProbs?: number;
  /** Whether the truth about it is to be kept under this id; null: no. */
  readonly truthId: string | null;
  /** For engines that are `paced`; what is absent is the engine's default. */
  readonly pace?: Partial<Pace>;
}

/** A token with its probability after the samplers, text as on the wire. */
export interface Likely {
  readonly tok_str: string;
  readonly prob: number;
}

/** A token with the natural logarithm of its probability, as OpenAI's API writes it. */
export interface LogProb {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[];
}

/** A generated token, and the most likely ones in its place. */
export interface TokenLogProbs extends LogProb {
  readonly top_logprobs: readonly LogProb[];
}

/** Probabilities at one generated token. */
export interface TokenReport {
  readonly content: string;
  readonly probs: readonly Likely[];
  /** When the task asks for them. */
  readonly logProbs?: TokenLogProbs;
}

/** Takes what an engine generates. `start` may come before `complete` has returned; `end` comes last and exactly once. */
export interface Sink {
  /** The prompt is about to be evaluated: tokens in all, tokens found in the cache, and the slot. */
  start(promptTokens: number, cachedTokens: number, slotId: number): void;
  /**
   * Text that will not be taken back: whole characters, no part of a stop string. Reports only when asked for. What
   * `waits` may leave together with the next text, or when `leave` is called.
   */
  text(text: string, reports: readonly TokenReport[], waits?: boolean): void;
  /** Text that waits leaves now. */
  leave?(): void;
  /** Whether the engine may let text wait, by no more than one step, when it has very many streams. Default false. */
  readonly mayWait?: boolean;
  end(end: CompletionEnd): void;
  /** Whether text is only wanted at the end; then the engine may hand it over in one piece. Default false. */
  readonly isWhole?: boolean;
  /** Resolves when the client takes more, or is gone; undefined when it takes more now. Engines that can wait ask. */
  rest?(): Promise<void> | undefined;
}

/**
 * `eos` the model ended, `word` a stop string was met, `limit` the tokens asked for are made, `context` it is full,
 * `failed` the engine could not go on.
 */
export type StopReason = 'eos' | 'word' | 'limit' | 'context' | 'failed' | 'cancelled';

/** How a generation ended. Times are milliseconds; counts are tokens. */
export interface CompletionEnd {
  readonly reason: StopReason;
  /** The stop string met, or an empty string. */
  readonly stoppingWord: string;
  /** Why it failed; empty otherwise. */
  readonly message: string;
  /** Of a failure: the status to answer while there is still one to choose. Default 500. */
  readonly status?: number;
  readonly slotId: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  readonly isTruncated: boolean;
  readonly queueMs: number;
  readonly promptMs: number;
  readonly generationMs: number;
  /** The seed that was used, also when the request left it to chance; -1 when the engine does not say. */
  readonly seed: number;
}

/** A generation under way. */
export interface Run {
  /** Ends it; harmless afterwards. Nothing more is handed to the sink. */
  cancel(): void;
}

/** What a host says about one of its slots. */
export interface SlotState {
  readonly id: number;
  readonly n_ctx: number;
  readonly is_processing: boolean;
  /** Tokens of the sequence in it: running, or left in the cache. */
  readonly n_tokens: number;
}

/** What clients need to build prompts when a system prompt is set for all slots. */
export interface EngineProps {
  readonly assistantName: string;
  readonly antiPrompt: string;
  readonly systemPrompt: string;
  readonly slots: number;
  readonly isMultimodal: boolean;
}

/** Figures of an engine that has done nothing yet. */
export const NO_FIGURES = {
  running: 0,
  waiting: 0,
  steps: 0,
  /** Steps that ended late by more than their own length, and the most that one was late. */
  lateSteps: 0,
  mostBehindMs: 0,
  preemptions: 0,
  promptTokens: 0,
  cachedTokens: 0,
  generatedTokens: 0,
  promptMs: 0,
  generationMs: 0,
  /** Part of the KV memory that running sequences hold, 0 to 1. */
  memoryUse: 0,
};

/** Figures since the engine began, for `/metrics`. */
export type EngineFigures = Readonly<typeof NO_FIGURES>;

/** An end with nothing in it yet. */
export const BLANK_END: CompletionEnd = {
  reason: 'limit',
  stoppingWord: '',
  message: '',
  slotId: -1,
  promptTokens: 0,
  cachedTokens: 0,
  generatedTokens: 0,
  isTruncated: false,
  queueMs: 0,
  promptMs: 0,
  generationMs: 0,
  seed: -1,
};

/** A request of a compatible dialect as it came. */
export interface RawRequest {
  readonly path: string;
  readonly model: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: Buffer;
  readonly signal: AbortSignal;
}

/** An answer to pass on as it is. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: AsyncIterable<Uint8Array>;
}

/** A prompt that does not fit the context of a task with `whenFull: 'stop'`. */
export class PromptTooLong extends Error {
  constructor(promptTokens: number, contextTokens: number) {
    super(`This model's maximum context length is ${contextTokens} tokens; the prompt has ${promptTokens} tokens.`);
  }
}

/** An engine with its models. */
export interface Engine {
  /** `simulated`, `llama-server`, …: what answers, for people. */
  readonly kind: string;
  readonly models: readonly string[];
  /** Whether it answers `logProbs` of a task; hosts refuse `logprobs` for others. */
  readonly givesLogProbs?: boolean;
  /**
   * Whether its tokens leave at a pace that requests choose. Hosts read requests to it leniently, one choice each, without
   * tools and schemas.
   */
  readonly isPaced?: boolean;
  /** Most tokens of one sequence, prompt and generated. */
  contextTokens(model: string): number;
  /** Until it is `ready` the host answers 503. */
  health(): 'loading' | 'ready' | 'failed';
  /**
   * Begins a generation. Throws InvalidOptions for what it cannot do and PromptTooLong; any other failure is an end with
   * `failed`.
   */
  complete(task: Task, sink: Sink): Run;
  /** Tokens of a prompt, as `complete` would count them. Hosts refuse to count for engines without it. */
  countPrompt?(model: string, prompt: Prompt): Promise<number> | number;
  tokenize(model: string, content: string): Promise<ArrayLike<number>> | ArrayLike<number>;
  /** Throws InvalidOptions for numbers that are no tokens. */
  detokenize(model: string, tokens: readonly number[]): Promise<string> | string;
  /** Sets the initial prompt of all slots of a model. Throws InvalidOptions. */
  setSystemPrompt(model: string, prompt: NonNullable<CompletionOptions['system_prompt']>): void;
  props(model: string): EngineProps;
  slots(model: string): readonly SlotState[];
  figures(): EngineFigures;
  /** What the engine tells scrapers itself, in the Prometheus text format, in place of names made from the figures. */
  metrics?(): Promise<string | null>;
  /**
   * Answers a request of a compatible dialect whole. Engines that speak the dialects themselves have it; for others the
   * host translates every dialect into `complete`.
   */
  readonly relay?: (request: RawRequest) => Promise<RawAnswer>;
  /** What really happened to a generation with this `truthId`, if it was kept. */
  truth?(id: string): unknown;
  /** Ends everything it runs, as running out of memory does, and goes on with new requests. */
  exhaust?(): void;
  close(): Promise<void>;
}
