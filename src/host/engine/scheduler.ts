// Continuous batching for one model: steps follow each other on an absolute schedule with one timer. A late step begins at
// once, at the time it should have begun, so that the average pace is kept. All tokens of a step are published at its end;
// above `pairAbove` sequences, half of the slots hold theirs for one step, so that two tokens leave in one write. With a paced
// profile, which is for one job, a full client holds the next step back. Every accepted job ends exactly once.
import type { Clock, TimerHandle } from '../../actor/index.ts';
import { type SchedulerState, Batch, createCounts, WaitingQueue } from './batch.ts';
import type { BlockObserver } from './block-cache.ts';
import type { PrefixCache } from './prefix-cache.ts';
import { type Profile, checkProfile, createCache } from './profile.ts';
import { type EndReason, type Holding, type SequenceJob, NO_TOKEN, Sequence } from './sequence.ts';
import { StepTimes } from './step-times.ts';
export interface SchedulerSettings {
  readonly profile: Profile;
  /** The engine's clock; see engine-clock.ts for faster and virtual ones. */
  readonly clock: Clock;
  /** Durations of the steps. Default: what the formula of the profile says. */
  readonly times?: StepTimes;
  /** Memory in place of the one that the profile describes; benchmarks look into theirs. */
  readonly cache?: PrefixCache;
  /** Is told of changes of the profile's memory, which has KV blocks then. */
  readonly observer?: BlockObserver | undefined;
  /** Sequences in a step above which tokens leave in pairs, for jobs that allow it; default 512. */
  readonly pairAbove?: number;
}

/** Steps made in one go when late, before other work of the process gets its turn. */
const CATCH_UP_STEPS = 4;

/** Engine time behind which the schedule is given up and begins anew. */
const MOST_BEHIND_US = 1_000_000;

export class Scheduler {
  readonly profile: Profile;
  readonly #clock: Clock;
  readonly #pairAbove: number;
  readonly #cache: PrefixCache;
  readonly #times: StepTimes;
  readonly #isPaced: boolean;
  readonly #waiting = new WaitingQueue();
  readonly #batch: Batch;
  readonly #counts = createCounts();
  readonly #sequences = new Map<SequenceJob, Sequence>();
  #timer: TimerHandle | undefined;
  #isInStep = false;
  /** Callbacks are running: what they ask for takes effect when they are done. */
  #isBusy = false;
  #isClosed = false;
  #hasCancelled = false;
  #isExhausted = false;
  #stepUs = 0;
  #holding: Holding = null;
  #endUs = 0;
  #behindUs = 0;
  #latestUs = 0;
  #lateSteps = 0;

  /** Throws a RangeError for a profile that makes no sense. */
  constructor(settings: SchedulerSettings) {
    const { profile, clock, times, cache, observer, pairAbove = 512 } = settings;
    checkProfile(profile);
    this.profile = profile;
    this.#clock = clock;
    this.#pairAbove = pairAbove;
    this.#cache = cache ?? createCache(profile, observer);
    this.#times = times ?? new StepTimes(profile, { seed: null });
    this.#isPaced = profile.isPaced === true;
    this.#batch = new Batch(profile, this.#cache, this.#waiting, this.#counts);
  }

  /**
   * Takes a job; it may start before this returns. It never ends before, except with a paced profile whose steps take no time.
   * False when closed: it is not taken then and none of its callbacks is called. Throws a RangeError for an empty prompt or a job that is in already.
   */
  submit(job: SequenceJob): boolean {
    if (this.#isClosed) return false;
    if (job.prompt.length === 0) throw new RangeError('a prompt needs at least one token');
    if (this.#sequences.has(job)) throw new RangeError('the job has been submitted already');
    const sequence = new Sequence(job, this.profile.contextTokens, this.#nowUs());
    this.#sequences.set(job, sequence);
    this.#waiting.push(sequence);
    this.#wake();
    return true;
  }

  /**
   * Ends a job: at once when it waits, else at the end of the step under way, whose token it does not get. False when it
   * has ended or was never taken.
   */
  cancel(job: SequenceJob): boolean {
    const sequence = this.#sequences.get(job);
    if (sequence === undefined || sequence.isCancelled) return false;
    if (sequence.isWaiting) {
      this.#waiting.cancel(sequence);
      this.#end(sequence, 'cancelled', this.#nowUs());
      return true;
    }
    sequence.isCancelled = true;
    this.#hasCancelled = true;
    if (!this.#isInStep) this.#wake();
    return true;
  }

  /** All sequences end with `out-of-memory` at the end of the step under way, and the cache is lost. */
  outOfMemory(): void {
    this.#isExhausted = true;
    if (!this.#isInStep) this.#wake();
  }

  /** Cancels everything now, the step under way included, and lets go of the clock. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    if (this.#timer !== undefined) this.#clock.clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#isInStep = false;
    if (!this.#isBusy) this.#endAll('cancelled', this.#nowUs());
  }

  state(): SchedulerState {
    return {
      running: this.#batch.running,
      waiting: this.#waiting.size,
      usedTokens: this.#cache.usedTokens,
      idleTokens: this.#cache.idleTokens,
      capacityTokens: this.#cache.capacityTokens,
      mostBehindUs: this.#latestUs,
      lateSteps: this.#lateSteps,
      counts: structuredClone(this.#counts),
    };
  }

  /** The slots in use, each with the tokens of its sequence. */
  slots(): [slotId: number, tokens: number][] {
    const { decoding, prefilling } = this.#batch;
    return [...decoding, ...prefilling].map(({ allocation, length }) => [allocation!.slotId, length]);
  }

  #nowUs(): number {
    return Math.round(this.#clock.now() * 1000);
  }

  /** Begins a step unless one is under way or about to begin anyway. */
  #wake(): void {
    if (this.#isInStep || this.#isBusy || this.#isClosed) return;
    this.#isBusy = true;
    const nowUs = this.#nowUs();
    this.#begin(nowUs);
    if (this.#isPaced && this.#isInStep && this.#endUs <= nowUs) this.#run(nowUs);
    this.#settle();
  }

  /** The timer has run: the step under way is over. */
  #fire(): void {
    this.#timer = undefined;
    this.#isBusy = true;
    this.#run(this.#nowUs());
    this.#settle();
  }

  /** Makes the steps that are due. */
  #run(dueUs: number): void {
    let nowUs = dueUs;
    for (let steps = 1; ; steps++) {
      this.#note(nowUs);
      this.#finish();
      if (this.#isPaced && this.#restsFor()) break;
      this.#begin(this.#nextStartUs(nowUs));
      if (!this.#isInStep || (this.#stepUs > 0 && (this.#isPaced || steps >= CATCH_UP_STEPS))) break;
      nowUs = this.#nowUs();
      if (this.#endUs > nowUs) break;
    }
    if (this.#isPaced) for (const sequence of this.#batch.decoding) sequence.releaseHeld();
  }

  /** A stream with constant pace goes on at its pace when it was late, and does not catch up. */
  #nextStartUs(nowUs: number): number {
    if (this.#isPaced) return Math.max(this.#endUs, nowUs - this.profile.stepUs);
    return this.#behindUs > MOST_BEHIND_US ? nowUs : this.#endUs;
  }

  /** Whether the client has to take what it got before the next step begins. */
  #restsFor(): boolean {
    const rest = this.#batch.decoding[0]?.job.rest?.();
    void rest?.then(() => {
      if (this.#isClosed || this.#isInStep) return;
      this.#isBusy = true;
      this.#begin(this.#nextStartUs(this.#nowUs()));
      this.#settle();
    });
    return rest !== undefined;
  }

  /** Callbacks are done: sets the timer, or carries out a close they asked for. */
  #settle(): void {
    this.#isBusy = false;
    if (this.#isClosed) return this.#endAll('cancelled', this.#nowUs());
    if (!this.#isInStep) return;
    const delayMs = Math.max(0, this.#endUs - this.#nowUs()) / 1000;
    this.#timer = this.#clock.setTimeout(() => this.#fire(), delayMs);
  }

  #note(nowUs: number): void {
    this.#behindUs = Math.max(0, nowUs - this.#endUs);
    if (this.#behindUs > this.#latestUs) this.#latestUs = this.#behindUs;
    if (this.#behindUs > this.#stepUs) this.#lateSteps++;
  }

  #begin(startUs: number): void {
    if (this.#isClosed) return;
    if (this.#hasCancelled) this.#endCancelled(startUs);
    if (this.#isExhausted) this.#exhaust(startUs);
    const isIdle = this.#batch.running === 0;
    const beginUs = isIdle ? Math.max(startUs, this.#waiting.first?.arrivedUs ?? 0) : startUs;
    if (!this.#batch.pack(beginUs)) return;
    this.#batch.sample();
    if (this.#isClosed) return;
    // With constant pace, the end comes with the last token.
    const isOver = this.#isPaced && this.#batch.decoding[0]?.sampled === NO_TOKEN;
    this.#stepUs = isOver ? 0 : this.#times.next(beginUs, this.#batch);
    this.#endUs = beginUs + this.#stepUs;
    this.#isInStep = true;
  }

  #finish(): void {
    const { decoding, prefilling, ending } = this.#batch;
    this.#isInStep = false;
    this.#counts.steps++;
    if (this.#isPaced) this.#holding = this.profile.stepUs === 0 ? 'all' : null;
    else this.#holding = decoding.length > this.#pairAbove ? ((this.#counts.steps & 1) as Holding) : null;
    this.#counts.stepUs += this.#stepUs;
    this.#counts.prefillTokens += this.#batch.prefillTokens;
    let stay = 0;
    for (const sequence of decoding) if (this.#advance(sequence)) decoding[stay++] = sequence;
    decoding.length = stay;
    let unfinished = 0;
    for (const sequence of prefilling) {
      const isComplete = sequence.computed + sequence.chunk === sequence.length;
      if (!this.#advance(sequence)) continue;
      if (isComplete) decoding.push(sequence);
      else prefilling[unfinished++] = sequence;
    }
    prefilling.length = unfinished;
    for (const sequence of ending.splice(0)) this.#end(sequence, sequence.endReason!, this.#endUs);
  }

  /** Books what the step did for one sequence and publishes its token. False when it ended. */
  #advance(sequence: Sequence): boolean {
    if (sequence.isCancelled) return this.#end(sequence, 'cancelled', this.#endUs);
    const { job } = sequence;
    sequence.computed += sequence.chunk;
    if (sequence.computed >= sequence.allocation!.commitAt) {
      this.#cache.commit(sequence.allocation!, sequence.tokens, sequence.computed);
    }
    if (sequence.computed < sequence.length) return true;
    if (sequence.generated >= job.maxTokens) return this.#end(sequence, 'length', this.#endUs);
    const token = sequence.sampled;
    if (token === NO_TOKEN) return this.#end(sequence, 'stopped', this.#endUs);
    sequence.append(token);
    this.#counts.generatedTokens++;
    if (sequence.firstTokenUs < 0) sequence.firstTokenUs = this.#endUs;
    sequence.publish(token, this.#endUs, this.#holding);
    if (sequence.generated >= job.maxTokens) return this.#end(sequence, 'length', this.#endUs);
    if (job.whenFull === 'shift' || sequence.length < this.profile.contextTokens) return true;
    return this.#end(sequence, 'context', this.#endUs);
  }

  /** Always false, for `#advance`. */
  #end(sequence: Sequence, reason: EndReason, atUs: number): false {
    if (sequence.allocation !== null) this.#cache.release(sequence.allocation, sequence.tokens, sequence.computed);
    sequence.allocation = null;
    this.#sequences.delete(sequence.job);
    this.#counts.ended[reason]++;
    sequence.job.onEnd(sequence.end(reason, atUs));
    return false;
  }

  /** Ends the running sequences that were cancelled. */
  #endCancelled(atUs: number): void {
    while (this.#hasCancelled) {
      this.#hasCancelled = false;
      for (const list of [this.#batch.decoding, this.#batch.prefilling]) {
        let stay = 0;
        for (const sequence of list) {
          if (sequence.isCancelled) this.#end(sequence, 'cancelled', atUs);
          else list[stay++] = sequence;
        }
        list.length = stay;
      }
    }
  }

  #exhaust(atUs: number): void {
    this.#isExhausted = false;
    this.#endAll('out-of-memory', atUs);
    this.#cache.clear();
  }

  #endAll(reason: EndReason, atUs: number): void {
    const { decoding, prefilling, ending } = this.#batch;
    decoding.length = prefilling.length = ending.length = 0;
    for (const sequence of [...this.#sequences.values()]) {
      if (!this.#sequences.has(sequence.job)) continue;
      if (sequence.isWaiting) this.#waiting.cancel(sequence);
      this.#end(sequence, reason, atUs);
    }
  }
}
