// One generation of the simulated engine: sampler and stop strings of a task as a `SequenceJob`, and the scheduler's
// callbacks as calls of the task's sink. Tokens are sampled and matched when a step begins, so that publishing at its end is
// cheap.
import type {
  CompletionEnd,
  LogProb,
  Sink,
  StopReason,
  Task,
  TextDetails,
  TokenLogProbs,
  TokenReport,
} from '../model-engine.ts';
import { StopMatcher } from '../stop-matcher.ts';
import type { Vocabulary } from './model/vocabulary.ts';
import type { LogProbabilities } from './sampling/log-probabilities.ts';
import { LookAhead } from './sampling/look-ahead.ts';
import type { Sampler } from './sampling/sampler.ts';
import type { SequenceEnd, SequenceJob } from './sequence.ts';
const NO_REPORTS: readonly TokenReport[] = [];
const NO_DETAILS: TextDetails = {};

/** What a session is made of. */
export interface GenerationDeps {
  readonly task: Task;
  readonly prompt: Int32Array;
  /** Leading tokens of the prompt that a full context always keeps, in addition to `n_keep`. */
  readonly systemTokens: number;
  readonly sampler: Pick<Sampler, 'next' | 'probabilities' | 'logProbabilities'>;
  readonly vocabulary: Pick<Vocabulary, 'eos' | 'text' | 'bytes'>;
  readonly seed: number;
  readonly sink: Sink;
  /** Called before the sink's `end`, also for sessions that were cancelled. */
  readonly onEnd: (end: SequenceEnd) => void;
  readonly onStart: (slotId: number, promptTokens: number, cachedTokens: number) => void;
}

export class Generation {
  readonly job: SequenceJob;
  readonly #parts: GenerationDeps;
  readonly #matcher: StopMatcher;
  readonly #reporting: boolean;
  readonly #listing: boolean;
  readonly #ahead: LookAhead;
  #reason: StopReason = 'limit';
  #stoppingWord = '';
  #generated = 0;
  #ready = '';
  #readyReports: TokenReport[] = [];
  #readyTokens: number[] = [];
  #cancelled = false;

  constructor(parts: GenerationDeps) {
    const { logProbs, options, whenFull } = parts.task;
    this.#parts = parts;
    this.#matcher = new StopMatcher(options.stop);
    this.#reporting = options.n_probs > 0 || logProbs !== undefined;
    this.#listing = options.return_tokens;
    const maxTokens = options.n_predict < 0 ? Infinity : options.n_predict;
    this.#ahead = new LookAhead(parts.sampler, parts.vocabulary.eos, maxTokens);
    this.job = {
      prompt: parts.prompt,
      maxTokens,
      cachePrompt: options.cache_prompt && options.image_data.length === 0,
      slotId: options.slot_id,
      keepTokens: options.n_keep < 0 ? -1 : options.n_keep + parts.systemTokens,
      whenFull,
      mayWait: parts.sink.mayWait === true,
      next: () => this.#next(),
      onStart: (slotId, cachedTokens, promptTokens) => {
        this.#ahead.shift(slotId);
        parts.onStart(slotId, promptTokens, cachedTokens);
        if (!this.#cancelled) parts.sink.start(promptTokens, cachedTokens, slotId);
      },
      onToken: (_token, _atUs, waits) => this.#publish(waits),
      onDue: () => this.#publish(false),
      rest: () => parts.sink.rest?.(),
      onEnd: (end) => this.#end(end),
    };
  }

  /** Nothing reaches the sink from now on. */
  cancel(): void {
    this.#cancelled = true;
  }

  #next(): number | null {
    if (this.#stoppingWord !== '') return null;
    const { sampler, vocabulary } = this.#parts;
    // A report says what the sampler held of its last token.
    const token = this.#reporting ? sampler.next() : this.#ahead.next();
    if (token === vocabulary.eos) {
      this.#reason = 'eos';
      return null;
    }
    this.#generated++;
    if (this.#listing) this.#readyTokens.push(token);
    if (this.#reporting) this.#readyReports.push(this.#report(token, sampler));
    const { text, stop } = this.#matcher.push(vocabulary.text(token) ?? vocabulary.bytes(token));
    this.#ready += text;
    if (stop === null) return token;
    this.#reason = 'word';
    this.#stoppingWord = stop;
    return null;
  }

  #publish(waits: boolean): void {
    if (this.#cancelled) return;
    const { sink } = this.#parts;
    if (this.#ready === '') return waits ? undefined : sink.leave?.();
    const text = this.#ready;
    this.#ready = '';
    if (!this.#reporting && !this.#listing) return sink.text(text, NO_REPORTS, waits);
    const reports = this.#readyReports;
    this.#readyReports = [];
    sink.text(text, reports, waits, this.#details());
  }

  #details(): TextDetails {
    if (!this.#listing) return NO_DETAILS;
    const tokens = this.#readyTokens;
    this.#readyTokens = [];
    return { tokens };
  }

  #end(end: SequenceEnd): void {
    this.#parts.onEnd(end);
    if (this.#cancelled) return;
    this.#ready += this.#matcher.flush();
    const { sink } = this.#parts;
    if (this.#ready !== '' || this.#readyReports.length > 0 || this.#readyTokens.length > 0) {
      sink.text(this.#ready, this.#readyReports, false, this.#details());
    }
    sink.end(this.#summary(end));
  }

  #summary(end: SequenceEnd): CompletionEnd {
    const failed = end.reason === 'out-of-memory';
    const reason: StopReason =
      end.reason === 'stopped'
        ? this.#reason
        : end.reason === 'length'
          ? 'limit'
          : failed
            ? 'failed'
            : (end.reason as 'context' | 'cancelled');
    return {
      reason,
      stoppingWord: reason === 'word' ? this.#stoppingWord : '',
      message: failed ? 'the engine ran out of memory' : '',
      slotId: end.slotId,
      promptTokens: end.promptTokens,
      cachedTokens: end.cachedTokens,
      generatedTokens: this.#generated,
      isTruncated: end.isTruncated || end.reason === 'context',
      queueMs: (end.startedUs - end.arrivedUs) / 1000,
      promptMs: (end.firstTokenUs - end.startedUs) / 1000,
      generationMs: (end.endedUs - end.firstTokenUs) / 1000,
      seed: this.#parts.seed,
    };
  }

  #report(token: number, { logProbabilities, probabilities }: GenerationDeps['sampler']): TokenReport {
    const { vocabulary } = this.#parts;
    return {
      content: pieceOf(token, vocabulary),
      probs: probabilities.map((entry) => ({ tok_str: pieceOf(entry.token, vocabulary), prob: entry.probability })),
      ...(logProbabilities !== null && { logProbs: logProbsOf(token, logProbabilities, vocabulary) }),
    };
  }
}

function logProbsOf(token: number, all: LogProbabilities, vocabulary: GenerationDeps['vocabulary']): TokenLogProbs {
  const one = (id: number, logprob: number): LogProb => {
    return { token: pieceOf(id, vocabulary), logprob, bytes: Array.from(vocabulary.bytes(id)) };
  };
  const listed = all.most().map((entry) => one(entry.token, entry.logProbability));
  return { ...one(token, all.of(token)), top_logprobs: listed };
}

/** Text of a token in reports: a byte within a character is named, since it has no text of its own. */
function pieceOf(token: number, vocabulary: GenerationDeps['vocabulary']): string {
  const text = vocabulary.text(token);
  if (text !== null) return text;
  const bytes = vocabulary.bytes(token);
  return bytes.length === 1 ? `byte: \\x${bytes[0]!.toString(16).padStart(2, '0')}` : Buffer.from(bytes).toString();
}
