// The seam between the parts of the simulated engine. The scheduler knows steps, caches and time, and nothing of words; a
// `Job` is one sequence whose tokens come from the language model and its sampler. Times are microseconds of the engine's
// clock (`clock.now()` times 1000). Callbacks must not throw: they run inside a step that thousands share.

/** One sequence on its way through the scheduler. */
export interface Job {
  /** Prompt tokens, beginning-of-sequence included; at least one. */
  readonly prompt: Int32Array;
  /** Most tokens to generate; Infinity until the context is full. 0 only evaluates the prompt into the cache. */
  readonly maxTokens: number;
  /** Whether the prefix may come from, and stay in, the prefix cache. */
  readonly cachePrompt: boolean;
  /** Slot that is wanted; -1: any. Taken when idle; shared blocks have no slots of their own and choose freely. */
  readonly slotId: number;
  /** First prompt tokens that truncation and shifting leave alone (`n_keep`); negative: the whole prompt. */
  readonly keepTokens: number;
  /**
   * What a full context does: `shift` cuts long prompts in the middle, and gives up half of what follows the kept tokens
   * whenever generation arrives at the end; `stop` ends the sequence with reason `context`, a prompt that does not fit
   * before its first token.
   */
  readonly whenFull: 'shift' | 'stop';
  /**
   * Whether every second token may wait for the next one when a step has very many sequences, so that two leave in one
   * write.
   */
  readonly mayWait: boolean;
  /**
   * Samples the next token; called once per step in which this sequence would produce one, when the step begins, so that
   * publishing at its end costs little. Null ends the sequence with that step (end of sequence, stop string, grammar
   * complete) and publishes nothing.
   */
  readonly next: () => number | null;
  /**
   * It got a slot for the first time: tokens of the prompt found in the cache, and tokens of the prompt after truncation.
   * May be called, as may `next`, before `submit` returns.
   */
  readonly onStart: (slotId: number, cachedTokens: number, promptTokens: number) => void;
  /** A token became final at the end of a step. When it `waits` it leaves with the next one, or when `onDue` says so. */
  readonly onToken: (token: number, atUs: number, waits: boolean) => void;
  /** The token that waits is to leave now: the next step is not to come, or comes without this sequence. */
  readonly onDue: () => void;
  /** Called exactly once, after every other callback and never before `submit` returns. */
  readonly onEnd: (end: JobEnd) => void;
}

/** `stopped`: `next` said so; `length`: `maxTokens` reached; `context`: context full and `whenFull` is `stop`. */
export type EndReason = 'stopped' | 'length' | 'context' | 'cancelled' | 'out-of-memory';

/** Why and when a sequence ended. */
export interface JobEnd {
  readonly reason: EndReason;
  readonly arrivedUs: number;
  /** Beginning of the step that took it in; `endedUs` when none did. */
  readonly startedUs: number;
  /** End of the step that produced the first token; `startedUs` when there was none. */
  readonly firstTokenUs: number;
  readonly endedUs: number;
  /** The last slot it sat in; -1: none. */
  readonly slotId: number;
  /** Prompt tokens after truncation, cached ones included. */
  readonly promptTokens: number;
  /** Prompt tokens that were found in the cache when it started. */
  readonly cachedTokens: number;
  readonly generatedTokens: number;
  /** Whether the prompt was cut or the context moved. */
  readonly isTruncated: boolean;
  /** Times it was pushed out by memory pressure and begun again. */
  readonly preemptions: number;
}
