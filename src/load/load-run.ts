// Runs a load: sends the requests of the workload at the times of the arrivals, and reports a sample for each response. In an
// open loop the intended send times are fixed before the run and do not depend on the system under test.
import type { Clock } from '../actor/index.ts';
import { TimerSet } from '../net/timer-set.ts';
import { type Arrivals, timetable, userStartMs } from './arrivals.ts';
import type { LoadResponse, Sender } from './load-client.ts';
import { type RequestSettings, loadRequest } from './load-request.ts';
import { type Sample, sampleOf } from './sample.ts';
import type { Message, Script, Workload } from './workload.ts';

export interface RunSettings extends RequestSettings {
  readonly arrivals: Arrivals;
  /** Requests that should leave in this time from the start are not told of. */
  readonly warmUpMs: number;
  /** How long requests leave after the warm-up; Infinity for no end. */
  readonly durationMs: number;
  /** How many requests leave after the warm-up; Infinity for no end. */
  readonly requests: number;
  /** Between the end of an answer and the next turn of its conversation. */
  readonly thinkMs: number;
  /** A conversation of an open loop that would be one more than this is dropped. */
  readonly maxInFlight: number;
  /** How long requests under way may take to end after the last one has left. */
  readonly graceMs: number;
}

export interface RunDeps {
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly sender: Sender;
  readonly workload: Workload;
  /** Called for each request after the warm-up, with its response. */
  readonly onSample: (sample: Sample, answer: LoadResponse) => void;
}

/** A request that leaves this much after its time is counted as late, in milliseconds. */
const LATE_MS = 5;

/** Requests that are due leave for so long before answers are read again, in milliseconds. */
const SLICE_MS = 5;

/** A conversation under way. */
interface Conversation {
  readonly number: number;
  readonly script: Script;
  readonly messages: Message[];
  turn: number;
}

export class LoadRun {
  sent = 0;
  inFlight = 0;
  /** Conversations of an open loop that found too many requests under way, or could not be begun before the end. */
  dropped = 0;
  late = 0;
  /** Requests under way when the run was stopped by hand. */
  unfinished = 0;
  /** When it began, on the clock. */
  startMs = 0;
  /** When the last answer came, or the run was stopped by hand; not before the last request was due. */
  endMs = 0;
  readonly #settings: RunSettings;
  readonly #deps: RunDeps;
  readonly #timers: TimerSet;
  readonly #ended = Promise.withResolvers<void>();
  #measured = 0;
  #conversations = 0;
  #isSending = true;
  #isOver = false;
  #answeredMs = 0;

  constructor(settings: RunSettings, deps: RunDeps) {
    this.#settings = settings;
    this.#deps = deps;
    this.#timers = new TimerSet(deps.clock);
  }

  /** Runs to the end of the plan, or until `stop`. */
  async run(): Promise<void> {
    const { arrivals, warmUpMs, durationMs } = this.#settings;
    this.startMs = this.#deps.clock.now();
    if (arrivals.kind === 'closed') {
      if (durationMs !== Infinity) this.#timers.after(warmUpMs + durationMs, () => this.#sendNoMore());
      for (let user = 0; user < arrivals.users; user++) {
        this.#timers.after(userStartMs(arrivals, user), () => this.#nextScript());
      }
    } else {
      this.#open(arrivals);
    }
    await this.#ended.promise;
  }

  /** Ends now; requests under way are cut and counted as unfinished. */
  stop(): void {
    if (this.#isOver) return;
    this.#isSending = false;
    this.unfinished = this.inFlight;
    this.#end(this.#deps.clock.now());
  }

  #end(endMs: number): void {
    this.#isOver = true;
    this.endMs = endMs;
    this.#timers.cancelAll();
    this.#deps.sender.close();
    this.#ended.resolve();
  }

  #sendNoMore(): void {
    if (!this.#isSending) return;
    this.#isSending = false;
    this.#answeredMs = this.#deps.clock.now();
    if (this.inFlight === 0) this.#end(this.#answeredMs);
    // What had no answer in time has failed.
    else this.#timers.after(this.#settings.graceMs, () => this.#deps.sender.close());
  }

  /** Continues a user of a closed loop with the next conversation. Without one the run ends. */
  #nextScript(): void {
    const script = this.#isSending ? this.#deps.workload.next() : undefined;
    if (script === undefined) this.#sendNoMore();
    else this.#turn(this.#begin(script), this.#deps.clock.now(), () => this.#nextScript());
  }

  #open(arrivals: Exclude<Arrivals, { kind: 'closed' }>): void {
    const { clock, workload, random } = this.#deps;
    const { warmUpMs, durationMs } = this.#settings;
    const dueOf = timetable(arrivals, random);
    const endMs = this.startMs + warmUpMs + durationMs;
    let script: Script | undefined;
    let dueMs = 0;
    const plan = (): void => {
      // A request that can leave no more needs no text.
      if (script === undefined || clock.now() < endMs || workload.isTimed === true) script = workload.next();
      dueMs = script === undefined ? Infinity : this.startMs + dueOf(script.atMs);
    };
    const arrive = (): void => {
      const sliceEndMs = clock.now() + SLICE_MS;
      let nowMs = clock.now();
      for (; this.#isSending && dueMs <= nowMs && dueMs < endMs && nowMs < sliceEndMs; nowMs = clock.now()) {
        if (nowMs < endMs) this.#arrival(script as Script, dueMs);
        else this.#drop(dueMs);
        plan();
      }
      if (script === undefined || (nowMs >= endMs && dueMs >= endMs)) this.#sendNoMore();
      else if (this.#isSending) this.#timers.after(Math.max(Math.min(dueMs, endMs) - nowMs, 0), arrive);
    };
    plan();
    arrive();
  }

  #drop(dueMs: number): void {
    if (!this.#counts(dueMs)) return;
    this.dropped++;
    this.#measure();
  }

  #arrival(script: Script, dueMs: number): void {
    if (this.inFlight >= this.#settings.maxInFlight) this.#drop(dueMs);
    else this.#turn(this.#begin(script), dueMs, () => undefined);
  }

  #begin(script: Script): Conversation {
    const messages: Message[] = script.system === '' ? [] : [{ role: 'system', text: script.system }];
    return { number: this.#conversations++, script, messages, turn: 0 };
  }

  /** Sends a turn that should leave at `intendedMs`, and after its answer the next one; `then` when all are through. */
  #turn(conversation: Conversation, intendedMs: number, then: () => void): void {
    const { script, messages, turn } = conversation;
    const said = script.turns[turn];
    if (said === undefined || !this.#isSending) return then();
    const { sender, clock } = this.#deps;
    const isLast = turn === script.turns.length - 1;
    messages.push({ role: 'user', text: said.text });
    const request = loadRequest(this.#settings, messages, said.outputTokens);
    const counts = this.#counts(intendedMs);
    this.sent++;
    this.inFlight++;
    if (counts && clock.now() - intendedMs > LATE_MS) this.late++;
    if (counts) this.#measure();
    sender.send(request, !isLast, (answer) => {
      if (this.#isOver) return;
      this.inFlight--;
      // The wait for what has no answer does not count in the rates.
      if (!UNANSWERED.has(answer.outcome)) this.#answeredMs = answer.endedMs;
      const place = { conversation: conversation.number, turn, intendedMs, startMs: this.startMs };
      if (counts) this.#deps.onSample(sampleOf(answer, place), answer);
      if (!this.#isSending && this.inFlight === 0) return this.#end(this.#answeredMs);
      conversation.turn++;
      messages.push({ role: 'assistant', text: answer.text === '' ? NOTHING_SAID : answer.text });
      // A failed conversation is not continued: its answer is unknown.
      if (isLast || answer.outcome !== 'ok') return this.#afterTurn(answer, then);
      const nextMs = clock.now() + this.#settings.thinkMs;
      this.#timers.after(this.#settings.thinkMs, () => this.#turn(conversation, nextMs, then));
    });
  }

  /** A user whose request could not even be sent would ask again without end in the same millisecond. */
  #afterTurn(answer: LoadResponse, then: () => void): void {
    if (answer.status === 0) this.#timers.after(RETRY_MS, then);
    else then();
  }

  #counts(intendedMs: number): boolean {
    return intendedMs - this.startMs >= this.#settings.warmUpMs;
  }

  /** One more of the requests that the plan has. */
  #measure(): void {
    if (++this.#measured >= this.#settings.requests) this.#sendNoMore();
  }
}

/** Outcomes without an answer. */
const UNANSWERED: ReadonlySet<string> = new Set(['cut', 'timeout']);

/** Stands for an answer without text: some servers refuse empty messages. */
const NOTHING_SAID = '(no answer)';

/** Pause of a user after a failure of the connection, in milliseconds. */
const RETRY_MS = 100;
