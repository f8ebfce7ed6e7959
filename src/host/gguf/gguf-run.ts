// One generation on one sequence of a model in this process: prefix reuse, prefill, decoding, stop strings, end. The sequence
// is used by nothing else meanwhile.
import type { Clock } from '../../actor/index.ts';
import { keptTokens, shiftedTokens, truncatePrompt } from '../engine/context-window.ts';
import type { CompletionEnd, Sink, StopReason, Task, TokenReport } from '../model-engine.ts';
import { StopMatcher } from '../stop-matcher.ts';
import type { EvaluateOptions, LlamaModel, LlamaSequence, Token } from './binding.ts';
import type { PromptTokens } from './gguf-prompt.ts';
import { samplingOf } from './gguf-sampling.ts';
/** What a run is made of. */
export interface GgufRunDeps {
  readonly task: Task;
  readonly prompt: PromptTokens;
  readonly model: LlamaModel;
  readonly contextTokens: number;
  readonly seed: number;
  readonly clock: Clock;
  readonly sink: Sink;
  readonly arrivedMs: number;
  readonly bias: EvaluateOptions['tokenBias'];
  /** Made late: its mistakes are failures of the run. */
  readonly grammar: () => Promise<object | undefined>;
  readonly isCancelled: () => boolean;
}

/** Tokens a character can have, one for each of its bytes. */
const MOST_PIECES = 4;

/** Tokens before a piece that its text may depend on. */
const LOOKBACK = 16;

/** Prompt tokens evaluated before it is looked whether the client is still there. */
const MOST_AT_ONCE = 512;

export class GgufRun {
  readonly #parts: GgufRunDeps;
  readonly #slotId: number;
  readonly #sequence: LlamaSequence;
  readonly #matcher: StopMatcher;
  /** All tokens, of the prompt and made. */
  readonly #history: Token[];
  readonly #promptTokens: number;
  readonly #startedMs: number;
  #firstMs = 0;
  #cachedTokens = 0;
  #generated = 0;
  #isTruncated: boolean;
  #stoppingWord = '';
  /** Tokens whose text is not whole yet. */
  #pending: Token[] = [];
  #reports: TokenReport[] = [];

  constructor(parts: GgufRunDeps, slotId: number, sequence: LlamaSequence) {
    const { task, prompt, contextTokens } = parts;
    const whole = Int32Array.from(prompt.tokens);
    const fitting = truncatePrompt(whole, contextTokens, keptOf(parts));
    this.#parts = parts;
    this.#slotId = slotId;
    this.#sequence = sequence;
    this.#history = [...fitting];
    this.#promptTokens = fitting.length;
    this.#isTruncated = fitting.length < whole.length;
    this.#matcher = new StopMatcher([...task.options.stop, ...prompt.turnEnds]);
    this.#startedMs = parts.clock.now();
  }

  /** Runs to the end, which the caller hands on. Rejects when the engine fails. */
  async run(): Promise<CompletionEnd> {
    const { task, sink, contextTokens, model, seed, bias, clock } = this.#parts;
    const { options } = task;
    const prompt = [...this.#history];
    const rest = prompt.slice(await this.#reuse(prompt));
    sink.start(this.#promptTokens, this.#cachedTokens, this.#slotId);
    while (rest.length > MOST_AT_ONCE) {
      await this.#sequence.evaluateWithoutGeneratingNewTokens(rest.splice(0, MOST_AT_ONCE));
      if (this.#parts.isCancelled()) return this.#end('cancelled');
    }
    if (options.n_predict === 0) {
      await this.#sequence.evaluateWithoutGeneratingNewTokens(rest);
      this.#firstMs = clock.now();
      return this.#end('limit');
    }
    const grammar = await this.#parts.grammar();
    const evaluation: EvaluateOptions = {
      ...samplingOf(options, seed, model, contextTokens, this.#history),
      yieldEogToken: true,
      ...(bias !== undefined && { tokenBias: bias }),
      ...(grammar !== undefined && { grammarEvaluationState: grammar }),
      contextShift: { strategy: ({ sequence, size }) => this.#shift(sequence, size) },
    };
    const reason =
      options.n_probs > 0 ? await this.#runReporting(rest, evaluation) : await this.#runPlain(rest, evaluation);
    this.#flush();
    return this.#end(reason);
  }

  async #runPlain(rest: Token[], evaluation: EvaluateOptions): Promise<StopReason> {
    for await (const token of this.#sequence.evaluate(rest, evaluation)) {
      const reason = this.#take(token);
      if (reason !== null) return reason;
      await this.#parts.sink.rest?.();
    }
    return 'eos';
  }

  async #runReporting(rest: Token[], evaluation: EvaluateOptions): Promise<StopReason> {
    const { n_probs } = this.#parts.task.options;
    const metadata = { probabilities: true } as const;
    for await (const { token, probabilities } of this.#sequence.evaluateWithMetadata(rest, metadata, evaluation)) {
      const listed = [...probabilities].sort(([, a], [, b]) => b - a).slice(0, n_probs);
      if (!this.#parts.model.isEogToken(token)) {
        const probs = listed.map(([other, prob]) => ({ tok_str: this.#piece(other), prob }));
        this.#reports.push({ content: this.#piece(token), probs });
      }
      const reason = this.#take(token);
      if (reason !== null) return reason;
      await this.#parts.sink.rest?.();
    }
    return 'eos';
  }

  /** Takes a token that was made; a reason ends the generation. */
  #take(token: Token): StopReason | null {
    const { model, task, contextTokens, clock, isCancelled } = this.#parts;
    if (this.#generated === 0) this.#firstMs = clock.now();
    if (isCancelled()) return 'cancelled';
    if (model.isEogToken(token)) return 'eos';
    this.#generated++;
    this.#say(token);
    this.#history.push(token);
    if (this.#stoppingWord !== '') return task.options.stop.includes(this.#stoppingWord) ? 'word' : 'eos';
    if (this.#generated === task.options.n_predict) return 'limit';
    if (task.whenFull === 'shift' || this.#history.length < contextTokens) return null;
    this.#isTruncated = true;
    return 'context';
  }

  #say(token: Token): void {
    this.#pending.push(token);
    const before = this.#history.length - this.#pending.length + 1;
    const last = this.#history.slice(Math.max(0, before - LOOKBACK), before);
    const text = this.#parts.model.detokenize(this.#pending, false, last);
    // Bytes of one character come one by one; until it is whole they read as U+FFFD.
    if (text.endsWith('\ufffd') && this.#pending.length < MOST_PIECES) return;
    this.#pending = [];
    const { text: safe, stop } = this.#matcher.push(text);
    if (stop !== null) this.#stoppingWord = stop;
    this.#emit(safe);
  }

  #flush(): void {
    if (this.#stoppingWord !== '') return;
    const rest = this.#pending.length === 0 ? '' : this.#parts.model.detokenize(this.#pending, false);
    this.#emit(this.#matcher.push(rest).text + this.#matcher.flush());
  }

  #emit(text: string): void {
    if ((text === '' && this.#reports.length === 0) || this.#parts.isCancelled()) return;
    const reports = this.#reports;
    this.#reports = [];
    this.#parts.sink.text(text, reports);
  }

  /** Text of a token in reports. */
  #piece(token: Token): string {
    const text = this.#parts.model.detokenize([token], true);
    return text === '\ufffd' ? `byte: token ${token}` : text;
  }

  /** Leaves in the sequence what it shares with the prompt; returns how many tokens that is. */
  async #reuse(prompt: Token[]): Promise<number> {
    const sequence = this.#sequence;
    const shared = this.#parts.task.options.cache_prompt
      ? sequence.compareContextTokens(prompt).firstDifferentIndex
      : 0;
    // The last token is evaluated in any case: what comes next is read off it.
    const kept = Math.min(shared, prompt.length - 1);
    const { nextTokenIndex: end } = sequence;
    if (end > kept) await sequence.eraseContextTokenRanges([{ start: kept, end }]);
    // Some models can only forget more than they were asked to.
    this.#cachedTokens = Math.min(kept, sequence.nextTokenIndex);
    return this.#cachedTokens;
  }

  #shift(sequence: LlamaSequence, size: number): { start: number; end: number }[] {
    this.#isTruncated = true;
    const length = sequence.nextTokenIndex;
    const start = Math.min(
      keptTokens(keptOf(this.#parts), this.#promptTokens, this.#parts.contextTokens),
      length - size,
    );
    return [{ start, end: start + Math.max(size, shiftedTokens(length, start)) }];
  }

  #end(reason: StopReason): CompletionEnd {
    const { arrivedMs, clock, seed } = this.#parts;
    const firstMs = this.#firstMs || this.#startedMs;
    return {
      reason,
      stoppingWord: reason === 'word' ? this.#stoppingWord : '',
      message: '',
      slotId: this.#slotId,
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      generatedTokens: this.#generated,
      isTruncated: this.#isTruncated,
      queueMs: this.#startedMs - arrivedMs,
      promptMs: firstMs - this.#startedMs,
      generationMs: clock.now() - firstMs,
      seed,
    };
  }
}

/** Tokens that a full context always keeps; negative: the whole prompt. */
function keptOf({ task, prompt }: GgufRunDeps): number {
  const { n_keep } = task.options;
  return n_keep < 0 ? -1 : n_keep + prompt.systemTokens;
}
