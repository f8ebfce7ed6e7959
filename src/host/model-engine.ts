// The interface between a model host and the engine that generates: simulated, attached, or a GGUF file in this process.
// Keys, paths and types are checked before; an engine refuses unsupported options by name with InvalidOptions and ignores
// none.
import type { CompletionOptions, InfillExtra, PromptPart } from './completion-options.ts';
import type { Pace } from './engine/pace.ts';
import type { ServerTimings } from './engine/server-timings.ts';

/** One turn of a conversation, whatever dialect it came in. */
export interface Turn {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly text: string;
}

/** What stands before the answer. */
export type Prompt =
  /** Text and tokens; a beginning-of-sequence token comes in front when the first part is text. */
  | { readonly kind: 'parts'; readonly parts: readonly PromptPart[] }
  | {
      readonly kind: 'infill';
      readonly prefix: string;
      readonly suffix: string;
      /** Text of other files, in front of the prefix; default none. */
      readonly extra?: readonly InfillExtra[];
      /** How the text between prefix and suffix begins; default not at all. */
      readonly middle?: string;
    }
  /** Whether the answer is prose, or data such as a tool call: `speaks`. `continues`: it goes on with the last turn. */
  | {
      readonly kind: 'chat';
      readonly turns: readonly Turn[];
      readonly speaks: 'prose' | 'data';
      /** The tools of the request as text, behind the first system turns. Simulated engines read it. */
      readonly tools?: string;
      readonly continues?: boolean;
    };

/** One generation that is wanted. */
export interface Task {
  /** Id of one of the engine's models. */
  readonly model: string;
  readonly prompt: Prompt;
  /** Text in front of every prompt of this caller, with the beginning of the sequence; absent or empty: none. */
  readonly system?: string;
  /** `prompt` of the options is not read; `stream` says whether text is wanted as it comes. */
  readonly options: CompletionOptions;
  /** `shift` drops tokens from a full context and continues; `stop` ends there and refuses prompts that do not fit. */
  readonly whenFull: 'shift' | 'stop';
  /**
   * With each token its log probability in the language model alone and this many most likely tokens; absent: none.
   * Only for engines with `givesLogProbs`.
   */
  readonly logProbs?: number;
  /** The text to generate in place of what the model would say. Only for simulated engines that are not `paced`. */
  readonly text?: string;
  /** Id under which its server timings are kept; null: they are not recorded. */
  readonly timingsId: string | null;
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
  /** The same in the form of today's llama-server, from engines that speak it. */
  readonly today?: Readonly<Record<string, unknown>>;
}

/** What stands beside a piece of text when the request asks for it. */
export interface TextDetails {
  /** The tokens of the text. */
  readonly tokens?: readonly number[];
  /** Timings so far, as the engine writes them. */
  readonly timings?: Readonly<Record<string, unknown>>;
  /** How much of the prompt is evaluated, as the engine writes it. */
  readonly promptProgress?: Readonly<Record<string, unknown>>;
}

/** Takes what an engine generates. `start` may come before `complete` has returned; `end` comes last and exactly once. */
export interface Sink {
  /** The prompt is about to be evaluated: tokens in all, tokens found in the cache, and the slot. */
  start(promptTokens: number, cachedTokens: number, slotId: number): void;
  /**
   * Text that will not be taken back: whole characters, no part of a stop string. Reports only when asked for. What
   * marked `waits` may be sent together with the next text, or when `leave` is called.
   */
  text(text: string, reports: readonly TokenReport[], waits?: boolean, details?: TextDetails): void;
  /** Sends text that was marked `waits`. */
  leave?(): void;
  /** Whether the engine may let text wait, by no more than one step, when it has very many streams. Default false. */
  readonly mayWait?: boolean;
  end(end: CompletionEnd): void;
  /** Resolves when the client can take more, or has left; undefined when it can take more now. */
  rest?(): Promise<void> | undefined;
}

/**
 * `eos` the model ended, `word` a stop string matched, `limit` all requested tokens are generated, `context` it is full,
 * `failed` the engine could not go on.
 */
export type StopReason = 'eos' | 'word' | 'limit' | 'context' | 'failed' | 'cancelled';

/** How a generation ended. Times are milliseconds; counts are tokens. */
export interface CompletionEnd {
  readonly reason: StopReason;
  /** The stop string matched, or an empty string. */
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
  /** Timings as the engine writes them; absent: they follow from the other members. */
  readonly timings?: Readonly<Record<string, unknown>>;
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
  /** As llama-server writes them. */
  readonly speculative?: boolean;
  readonly next_token?: unknown;
}

/** How a text is split into tokens. */
export interface TokenizeOptions {
  /** A beginning-of-sequence token comes in front, if the model has one. Default false. */
  readonly addSpecial?: boolean;
  /** Names of special tokens in the text become these tokens. Default: as the engine likes. */
  readonly parseSpecial?: boolean;
}

/** A token with its text, or with its bytes when they are no whole characters. */
export interface TokenPiece {
  readonly id: number;
  readonly piece: string | readonly number[];
}

/** What `GET /props` says of an engine. */
export interface EngineProps {
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
  /** Tokens that the KV memory of a model holds; 0 when the engine does not say. */
  cacheTokens: 0,
  /** Tokens of a KV block; 0 where the memory has no blocks. */
  blockTokens: 0,
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
export interface ModelEngine {
  /** Kind of the engine for messages: `simulated`, `llama-server`, … */
  readonly kind: string;
  readonly models: readonly string[];
  /** Whether it answers `logProbs` of a task; hosts refuse `logprobs` for others. */
  readonly givesLogProbs?: boolean;
  /** Whether it answers `return_tokens` of a task; hosts refuse it for others. */
  readonly givesTokens?: boolean;
  /** Whether it reads `others` of a task's options; hosts refuse them by name for engines that do not. */
  readonly readsOthers?: boolean;
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
  countPrompt?(model: string, prompt: Prompt, system?: string): Promise<number> | number;
  tokenize(model: string, content: string, options?: TokenizeOptions): Promise<ArrayLike<number>> | ArrayLike<number>;
  /** As `tokenize`, with the text of each token. Hosts refuse `with_pieces` for engines without it. */
  pieces?(
    model: string,
    content: string,
    options?: TokenizeOptions,
  ): Promise<readonly TokenPiece[]> | readonly TokenPiece[];
  /** Throws InvalidOptions for numbers that are no tokens. */
  detokenize(model: string, tokens: readonly number[]): Promise<string> | string;
  props(model: string): EngineProps;
  /** Null when the engine shows none. */
  slots(model: string): readonly SlotState[] | Promise<readonly SlotState[] | null>;
  /** Further members of `GET /props`, such as its chat template; empty when it shows none. */
  ownProps?(model: string): Promise<Readonly<Record<string, unknown>>>;
  /** Further members of a model in `GET /v1/models`. */
  listed?(model: string): Readonly<Record<string, unknown>>;
  figures(): EngineFigures;
  /** The engine's own metrics in the Prometheus text format, in place of those made from the figures. */
  metrics?(): Promise<string | null>;
  /**
   * Answers a whole request of a compatible dialect. Engines that serve the dialects themselves have it; for others the
   * host translates every dialect into `complete`.
   */
  readonly relay?: (request: RawRequest) => Promise<RawAnswer>;
  /** Whether a path of the engine's own API is relayed. */
  relays?(path: string): boolean;
  /** What the engine answers to a GET of its own API; undefined when the path is none of those that are shown. */
  shown?(path: string): Promise<unknown>;
  /** Server timings of the generation with this `timingsId`, if they were recorded. */
  timings?(id: string): ServerTimings | undefined;
  /** The host begins to serve, for the first time or again after `close`: caches are empty, and a model may have to be loaded. */
  open?(): void;
  /** Ends all generations, as running out of memory does, and continues with new requests. */
  exhaust?(): void;
  close(): Promise<void>;
}
