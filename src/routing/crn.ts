// Health actor of one CRN: probes it, counts the outcomes of its requests, and writes the standings of its members to the board.
// A member is up when its last probes succeeded and the CRN is not ejected; an ejected CRN comes back through one trial request. A
// restart of the actor keeps the standings. Operators may drain, eject and return a CRN; a drained one is checked as before, but stays
// drained. Seldom, and never in the way of a probe, the actor asks what the CRN says about its process and its KV cache: after a restart
// of the CRN its cache is known to be empty, and what it was found to lack is forgotten.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import { Breaker, type BreakerSettings, type FailureRates } from './breaker.ts';
import { type Board, STANDING, type Standing } from './board.ts';
import type { CacheFeedback } from './cache-feedback.ts';
import { type CrnReport, NO_REPORT, ProcessIdentity } from './crn-report.ts';
import { errorReason } from './failure-reason.ts';
import type { Failure, Outcome, Verdict } from './outcome.ts';
import { isRefused, isUnsent, type ProbeAnswer } from './probe.ts';

export interface HealthSettings {
  /** Time between two probes in milliseconds, spread by ±10 % so that CRNs are not probed in step. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Path of the probe. With `{model}`, which stands for the model id, every model has its own probe. */
  readonly path: string;
  /** Consecutive good probes that bring a member up. */
  readonly rise: number;
  /** Consecutive bad probes that take a member down. */
  readonly fall: number;
}

export interface CrnSettings {
  readonly url: string;
  /** Server cell on the board. */
  readonly server: number;
  /** The models of this CRN and their cells. */
  readonly members: readonly { readonly model: string; readonly modelCell: number; readonly member: number }[];
  readonly health: HealthSettings;
  readonly ejection: BreakerSettings;
}

/** What is known of the process of a CRN. It outlives the actor, and a while without the CRN in any list. */
export class CrnMemory {
  /** What probes and metrics identify the process by: each source by itself. */
  readonly instance = new ProcessIdentity();
  readonly start = new ProcessIdentity();
  hasServed = false;
  absence: Absence = 'none';
  report: CrnReport = NO_REPORT;

  /** It has been away, or nothing was heard of it: its process may be another one when it is back. */
  noteAway(absence: Absence = 'failing'): void {
    // Its cache was empty before it first served.
    if (this.hasServed && this.absence !== 'ended') this.absence = absence;
  }
}

export interface CrnDeps {
  readonly board: Board;
  /** Outcomes of all CRNs, so that each can be compared with its peers. */
  readonly rates: FailureRates;
  /** Member cells of a model on the other CRNs. */
  readonly peers: (model: string) => readonly number[];
  readonly feedback: Pick<CacheFeedback, 'reported' | 'restarted'>;
  /** Default: nothing is known. */
  readonly memory?: CrnMemory;
  /** Sends a probe. Rejects without any response in time. */
  readonly probe: (url: string, timeoutMs: number) => Promise<ProbeAnswer>;
  /** Asks the CRN what it says about itself. */
  readonly report: (timeoutMs: number) => Promise<CrnReport>;
  /** Whether this CRN may be ejected: enough others of each of its models must stay (panic threshold). */
  readonly mayEject: () => boolean;
  /** Whether an operator has drained this CRN. This state outlives the actor. */
  readonly isDrained: () => boolean;
  /** For how long an operator still has it ejected, in milliseconds; 0: not at all. Outlives the actor, too. Default 0. */
  readonly ejectedForMs?: () => number;
  readonly onEvent: (event: CrnEvent) => void;
  /** A round of probes is over. */
  readonly onProbeResult: (result: ProbeResult) => void;
}

/** What a CRN answered to a round of probes. */
export interface ProbeResult {
  readonly ok: boolean;
  /** What the answer lacks, in plain words, of the first model that has a reason; null when all is well. */
  readonly reason: string | null;
  /** Until the last answer, or until the last probe was given up. */
  readonly latencyMs: number;
}

/**
 * An operator's override of the standing of a CRN. `drain`: no new requests; those in flight finish. `eject`: as after failures, but without the
 * panic threshold, for `forMs` milliseconds or, with null, as long as the next ejection would last. `return`: ends both.
 */
export type CrnOverride =
  | { readonly action: 'drain' }
  | { readonly action: 'eject'; readonly forMs: number | null }
  | { readonly action: 'return' };

export type OverrideResult = 'done' | 'no such CRN';

/** A change of a CRN, for logs and metrics. `probed`: its first probes are complete. */
export type CrnEvent =
  /** Also when it is first found down, and when it is down for another reason than before. */
  | {
      readonly type: 'standing';
      readonly url: string;
      readonly model: string;
      readonly standing: Standing;
      /** Why it is down, in plain words; null in any other standing. */
      readonly reason: string | null;
    }
  | { readonly type: 'probed'; readonly url: string; readonly ejected: boolean }
  | {
      readonly type: 'ejected';
      readonly url: string;
      readonly forMs: number;
      readonly failure: string;
      /** Of the last failure, in plain words. */
      readonly reason: string;
    }
  | { readonly type: 'returned'; readonly url: string }
  | { readonly type: 'drained'; readonly url: string }
  /** It refuses the credential of a request: the gateway's own, or one that the gateway has checked. */
  | { readonly type: 'refused credentials'; readonly url: string }
  /** Another process answers: its KV cache is empty. */
  | { readonly type: 'restarted'; readonly url: string }
  /** The board has no cells for so many CRNs, of which this is the first; they get no requests. */
  | { readonly type: 'left out'; readonly url: string; readonly model: string; readonly count: number };

export type CrnCommand =
  | { readonly type: 'Probe' }
  | { readonly type: 'Probed'; readonly model: string | null; readonly answer: ProbeAnswer | Unanswered }
  | { readonly type: 'Reported'; readonly report: CrnReport; readonly absence: Absence }
  | { readonly type: 'Outcome'; readonly outcome: Outcome }
  | { readonly type: 'Override'; readonly override: CrnOverride; readonly replyTo: Ref<OverrideResult> }
  | { readonly type: 'Release' }
  | { readonly type: 'CheckTrial' };

/** Reason of an ejection. */
const BY_OPERATOR = 'by an operator';

/** Share of the interval after which a member whose last probe disagrees with its state is probed again. */
const FAST_SHARE = 0.2;

/** Least time between two probes for failed requests, in milliseconds. */
const LEAST_PROBE_GAP_MS = 20;

/** Each trial that hangs doubles the time until another one is offered, up to this many times the first. */
const MAX_PATIENCE = 6;
/** A trial that was given up before an answer, after so many milliseconds, counts as one that hangs. */
const HUNG_TRIAL_MS = 1000;
const GIVEN_UP: ReadonlySet<Failure | null> = new Set(['client gone', 'hedged']);

/** No response to a probe. */
interface Unanswered {
  /** It never left this process, which says nothing about the CRN. */
  readonly isUnsent: boolean;
  /** Nothing listens there: the process of the CRN has ended. */
  readonly isRefused: boolean;
  readonly reason: string;
}

/** How far a CRN has been away since its last report. `ended`: its process has. `failing`: it may have. */
type Absence = 'none' | 'failing' | 'ended';

/** Time between two reports in milliseconds: sizes change with a restart only. Spread, since they follow a probe. */
const REPORT_MS = 5 * 60_000;
/** The same for a CRN that was away. */
const LEAST_REPORT_MS = 10_000;

/** Least time between two events about refused credentials, in milliseconds. */
const CREDENTIALS_MS = 60_000;

/** Failures of requests behind which there may be a restart. */
const ENDING_FAILURES: ReadonlySet<Failure | null> = new Set(['connect', 'reset', 'stale', 'truncated', 'unreachable']);

interface MemberState {
  readonly model: string;
  readonly modelCell: number;
  readonly member: number;
  /** The standing by the probes; null before the first. */
  probed: Standing | null;
  /** Consecutive probes that disagree with `probed`. */
  streak: number;
  /** Why the last probe was bad; null when it was good, and before the first. */
  reason: string | null;
  /** The reason of the last event with the standing down; undefined before the first. */
  toldReason: string | null | undefined;
}

/** The standing by the status of one probe; null is no response. */
function probedStanding(status: number | null): Standing {
  if (status === 202) return STANDING.capable;
  return status !== null && status >= 200 && status < 300 ? STANDING.up : STANDING.down;
}

/** The standing by the probes of an actor before this one; null where there was none, or where the board does not say. */
function knownStanding(standing: Standing): Standing | null {
  return standing === STANDING.up || standing === STANDING.capable ? standing : null;
}

/** Behavior of a CRN actor. */
export function crn(settings: CrnSettings, deps: CrnDeps): Behavior<CrnCommand> {
  return (context) => {
    const state = new Crn(settings, deps, context);
    state.probe();
    return (command) => {
      switch (command.type) {
        case 'Probe':
          state.probe();
          break;
        case 'Probed':
          state.probed(command.model, command.answer);
          break;
        case 'Reported':
          state.reported(command.report, command.absence);
          break;
        case 'Outcome':
          state.outcome(command.outcome);
          break;
        case 'Override':
          state.override(command.override);
          command.replyTo.tell('done');
          break;
        case 'Release':
          state.release();
          break;
        case 'CheckTrial':
          state.checkTrial();
          break;
      }
    };
  };
}

class Crn {
  readonly #settings: CrnSettings;
  readonly #deps: CrnDeps;
  readonly #context: Context<CrnCommand>;
  readonly #breaker: Breaker;
  readonly #members: readonly MemberState[];
  readonly #perModel: boolean;
  #ejection: 'none' | 'ejected' | 'trial' = 'none';
  /** Trials that took too long, so that another one was offered, and that have no outcome yet. */
  #overdue = 0;
  #openProbes = 0;
  #probed = false;
  #probeSentMs = 0;
  /** Why a probe of this round was no success. */
  #roundReason: string | null = null;
  #roundFailed = false;
  #ejectionReason = '';
  /** Whether a probe of this round has had a response, whatever its status, and whether one was not sent. */
  #heard = false;
  #unsent = false;
  /** When the last rounds of probes without any response were sent; at most `fall`. */
  #silentSince: number[] = [];
  readonly #memory: CrnMemory;
  #refusedMs = -Infinity;
  #isReporting = false;
  #reportedMs = -Infinity;
  #reportDueMs = -Infinity;

  constructor(settings: CrnSettings, deps: CrnDeps, context: Context<CrnCommand>) {
    this.#settings = settings;
    this.#deps = deps;
    this.#context = context;
    this.#memory = deps.memory ?? new CrnMemory();
    this.#members = settings.members.map((member) => ({
      ...member,
      probed: knownStanding(deps.board.standing(member.member)),
      streak: 0,
      reason: null,
      toldReason: undefined,
    }));
    this.#perModel = settings.health.path.includes('{model}');
    const cells = this.#members.map(({ member }) => member);
    this.#breaker = new Breaker(settings.ejection, cells, deps.rates);
    // Outcomes of requests that began before are none of this actor's.
    for (const cell of cells) deps.board.raiseEpoch(cell);
    deps.board.endTrial(settings.server);
    const ejectedForMs = deps.ejectedForMs?.() ?? 0;
    if (ejectedForMs > 0) this.#hold(ejectedForMs, BY_OPERATOR);
    // Without this it would be down, and thus a last resort, until its first probe.
    if (deps.isDrained()) this.#publishAll();
  }

  probe(): void {
    if (this.#openProbes > 0) return;
    const { url, health } = this.#settings;
    const targets = this.#perModel ? this.#members.map(({ model }) => model) : [null];
    this.#openProbes = targets.length;
    this.#probeSentMs = this.#context.clock.now();
    this.#heard = false;
    this.#unsent = false;
    this.#roundReason = null;
    this.#roundFailed = false;
    for (const model of targets) {
      const path = model === null ? health.path : health.path.replace('{model}', () => encodeURIComponent(model));
      this.#context.pipe(
        this.#deps.probe(url + path, health.timeoutMs),
        (answer) => ({ type: 'Probed', model, answer }),
        (error) => ({
          type: 'Probed',
          model,
          answer: {
            ...{ isUnsent: isUnsent(error), isRefused: isRefused(error) },
            reason: errorReason(error, health.timeoutMs),
          },
        }),
      );
    }
  }

  probed(model: string | null, answer: ProbeAnswer | Unanswered): void {
    const status = 'status' in answer ? answer.status : null;
    if ('isUnsent' in answer && answer.isUnsent) {
      this.#unsent = true;
    } else {
      this.#noteProcess(answer);
      for (const state of this.#members) {
        if (model === null || state.model === model) this.#note(state, status, answer.reason);
      }
    }
    if (status !== null) this.#hear();
    this.#roundReason ??= answer.reason;
    if (probedStanding(status) === STANDING.down) this.#roundFailed = true;
    this.#openProbes--;
    if (this.#openProbes > 0) return;
    this.#deps.onProbeResult({
      ok: !this.#roundFailed,
      reason: this.#roundReason,
      latencyMs: this.#context.clock.now() - this.#probeSentMs,
    });
    if (!this.#heard && !this.#unsent) this.#noteSilence();
    if (!this.#probed) {
      this.#probed = true;
      this.#deps.onEvent({ type: 'probed', url: this.#settings.url, ejected: this.#ejection !== 'none' });
    }
    this.#askForReport();
    const unsettled = this.#unsent || this.#members.some((state) => state.streak > 0);
    const spread = 0.9 + 0.2 * this.#context.random();
    const delayMs = this.#settings.health.intervalMs * spread * (unsettled ? FAST_SHARE : 1);
    this.#context.timers.once('probe', delayMs, { type: 'Probe' });
  }

  outcome({ count, epoch, failure, member, reason, trial, verdict }: Outcome): void {
    if (verdict === 'ok') this.#hear();
    if (ENDING_FAILURES.has(failure)) this.#memory.noteAway('failing');
    if (failure === 'credentials') this.#noteCredentials();
    // Requests that began before the last ejection, trial or return say nothing about the time after it.
    if (epoch !== this.#deps.board.epoch(member)) return;
    if (this.#ejection === 'trial') {
      if (trial) this.#endTrial(verdict, failure, reason);
      return;
    }
    if (this.#ejection !== 'none') return;
    const now = this.#context.clock.now();
    if (verdict === 'ok') this.#breaker.ok(member, now, count);
    if (verdict !== 'failed') return;
    const due = this.#breaker.failed(member, now, this.#peers(member));
    // A failed request is a reason to probe at once, many of them are none to do nothing else.
    if (now - this.#probeSentMs >= LEAST_PROBE_GAP_MS) this.probe();
    if (due && this.#deps.mayEject()) this.#eject(failure ?? 'failed', reason);
  }

  /** Reports refused credentials, at most once a minute. */
  #noteCredentials(): void {
    const now = this.#context.clock.now();
    if (now - this.#refusedMs < CREDENTIALS_MS) return;
    this.#refusedMs = now;
    this.#deps.onEvent({ type: 'refused credentials', url: this.#settings.url });
  }

  /** What the CRN says about itself. `absence`: how far it had been away when it was asked. */
  reported(report: CrnReport, absence: Absence): void {
    const wasAway = absence !== 'none';
    const { promptTokens: before } = this.#memory.report;
    this.#isReporting = false;
    const { keepsPrefixes, promptTokens, startedS } = report;
    const hasStarted = startedS !== null && this.#memory.start.isRestart(String(startedS), wasAway);
    if (hasStarted) this.#restarted();
    else if (wasAway && !this.#memory.instance.isKnown && startedS === null) {
      // Without anything that identifies it: counters begin anew with a process.
      const isComparable = promptTokens !== null && before !== null && before > 0;
      if (isComparable ? promptTokens < before : absence === 'ended') this.#restarted();
    }
    this.#memory.report = report;
    this.#tellSize(keepsPrefixes);
  }

  /** Asks for a report when one is due and the CRN serves. */
  #askForReport(): void {
    const nowMs = this.#context.clock.now();
    const absence = this.#memory.absence;
    const isServing = this.#members.some(({ probed }) => probed !== null && probed !== STANDING.down);
    this.#tellSize();
    if (isServing) this.#memory.hasServed = true;
    if (this.#isReporting || !isServing) return;
    if (absence === 'none' ? nowMs < this.#reportDueMs : nowMs < this.#reportedMs + LEAST_REPORT_MS) return;
    const { health } = this.#settings;
    this.#isReporting = true;
    this.#memory.absence = 'none';
    this.#reportedMs = nowMs;
    this.#reportDueMs = nowMs + REPORT_MS;
    this.#context.pipe(
      this.#deps.report(health.timeoutMs),
      (report) => ({ type: 'Reported', report, absence }),
      () => ({ type: 'Reported', report: NO_REPORT, absence }),
    );
  }

  /** The size of its cache is told again and again: what a token of its models has in bytes is learned meanwhile. */
  #tellSize(keepsPrefixes = true): void {
    const { cacheTokens } = this.#memory.report;
    for (const { member, modelCell } of this.#members) {
      this.#deps.feedback.reported(modelCell, member, cacheTokens, keepsPrefixes);
    }
  }

  #noteProcess(answer: ProbeAnswer | Unanswered): void {
    if (!('status' in answer)) {
      this.#memory.noteAway(answer.isRefused ? 'ended' : 'failing');
      return;
    }
    const { instance, isLoading, status } = answer;
    if (isLoading) this.#memory.noteAway('ended');
    else if (probedStanding(status) === STANDING.down) this.#memory.noteAway('failing');
    if (instance === '' || !this.#memory.instance.isRestart(instance, this.#memory.absence !== 'none')) return;
    this.#restarted();
    this.#reportDueMs = -Infinity;
  }

  #restarted(): void {
    const { board, feedback, onEvent } = this.#deps;
    for (const { member } of this.#members) feedback.restarted(member);
    board.clearLacks(this.#settings.server, this.#context.clock.now());
    this.#memory.report = NO_REPORT;
    onEvent({ type: 'restarted', url: this.#settings.url });
  }

  /** The CRN has responded to something. */
  #hear(): void {
    this.#heard = true;
    this.#silentSince = [];
    this.#deps.board.setUnreachable(this.#settings.server, null);
  }

  /** A round of probes without any response. `fall` of them in a row, and the CRN cannot be reached since the first was sent. */
  #noteSilence(): void {
    const { fall } = this.#settings.health;
    this.#silentSince.push(this.#probeSentMs);
    if (this.#silentSince.length > fall) this.#silentSince.shift();
    const [sinceMs] = this.#silentSince;
    if (sinceMs === undefined || this.#silentSince.length < fall) return;
    this.#deps.board.setUnreachable(this.#settings.server, sinceMs);
  }

  /** The ejection is over: offers a trial. */
  release(): void {
    this.#turn('trial');
    this.#offer();
  }

  /** Offers another trial when the last one has been taken for too long: its answer may last, or never come. The first outcome decides. */
  checkTrial(): void {
    if (this.#ejection !== 'trial') return;
    // Where trials hang, each one costs a client its time.
    const patience = Math.min(2 ** this.#overdue, MAX_PATIENCE);
    const leftMs = this.#settings.ejection.backoffMaxMs * patience - this.#trialAgeMs;
    if (leftMs <= 0) {
      this.#overdue++;
      this.#offer();
    } else {
      this.#context.timers.once('trial', leftMs, { type: 'CheckTrial' });
    }
  }

  /** How long ago the trial was taken, in milliseconds; 0 while it is offered. */
  get #trialAgeMs(): number {
    const takenMs = this.#deps.board.trialTakenMs(this.#settings.server);
    return takenMs === null ? 0 : this.#context.clock.now() - takenMs;
  }

  #offer(): void {
    this.#deps.board.offerTrial(this.#settings.server);
    this.#context.timers.once('trial', this.#settings.ejection.backoffMaxMs, { type: 'CheckTrial' });
  }

  /** `isDrained` has changed before a drain or a return arrives here. */
  override(override: CrnOverride): void {
    const { url } = this.#settings;
    if (override.action === 'eject') {
      this.#eject('operator', BY_OPERATOR, override.forMs);
      return;
    }
    if (override.action === 'return') {
      this.#context.timers.cancel('release');
      this.#turn('none');
    } else {
      this.#publishAll();
    }
    this.#deps.onEvent({ type: override.action === 'drain' ? 'drained' : 'returned', url });
  }

  #peers(member: number): readonly number[] {
    const state = this.#members.find((each) => each.member === member);
    return state === undefined ? [] : this.#deps.peers(state.model);
  }

  #endTrial(verdict: Verdict, failure: Failure | null, reason: string | undefined): void {
    if (verdict === 'failed') {
      this.#eject(failure ?? 'failed', reason);
    } else if (verdict === 'ok') {
      this.#turn('none');
      this.#deps.onEvent({ type: 'returned', url: this.#settings.url });
    } else if (GIVEN_UP.has(failure) && this.#trialAgeMs >= HUNG_TRIAL_MS) {
      // The next one is offered when this one would have been overdue: it would cost another client its time.
    } else if (this.#overdue > 0) {
      // Another trial is offered or under way.
      this.#overdue--;
    } else {
      this.#offer();
    }
  }

  #eject(failure: string, reason: string = failure, wantedMs: number | null = null): void {
    const nextMs = this.#breaker.eject(this.#context.clock.now(), this.#context.random());
    const forMs = wantedMs ?? nextMs;
    this.#hold(forMs, reason);
    this.#turn('ejected');
    this.#deps.onEvent({ type: 'ejected', url: this.#settings.url, forMs, failure, reason });
  }

  #hold(forMs: number, reason: string): void {
    this.#ejection = 'ejected';
    this.#ejectionReason = `ejected: ${reason}`;
    this.#context.timers.once('release', forMs, { type: 'Release' });
  }

  /** Begins a new epoch. Threads that see its standing must see its number, and no trial before both. */
  #turn(ejection: 'none' | 'ejected' | 'trial'): void {
    const { board } = this.#deps;
    this.#ejection = ejection;
    this.#overdue = 0;
    this.#context.timers.cancel('trial');
    board.endTrial(this.#settings.server);
    for (const { member } of this.#members) board.raiseEpoch(member);
    this.#publishAll();
  }

  #note(state: MemberState, status: number | null, reason: string | null): void {
    const { rise, fall } = this.#settings.health;
    state.reason = reason;
    const seen = probedStanding(status);
    const good = seen !== STANDING.down;
    const turns = state.probed !== null && good !== (state.probed !== STANDING.down);
    state.streak = turns ? state.streak + 1 : 0;
    // The first probe counts by itself, and so does a change between up and capable.
    if (!turns || state.streak >= (good ? rise : fall)) {
      // A model that is not loaded any more has no cache.
      if (seen === STANDING.capable && state.probed === STANDING.up) this.#deps.feedback.restarted(state.member);
      // While it was down, a proxy may have answered in its place.
      if (good && state.probed === STANDING.down)
        this.#deps.board.clearLacks(this.#settings.server, this.#context.clock.now());
      state.probed = seen;
      state.streak = 0;
    }
    if (good) this.#deps.board.clearModelUnknown(state.member);
    this.#publish(state);
  }

  #publishAll(): void {
    for (const state of this.#members) this.#publish(state);
  }

  #publish(state: MemberState): void {
    const { board, onEvent } = this.#deps;
    const standing = this.#standingOf(state);
    const isDown = standing === STANDING.down;
    const reason = isDown ? this.#downReasonOf(state) : null;
    const isTold = !isDown || state.probed === null || reason === state.toldReason;
    if (board.standing(state.member) === standing && isTold) return;
    board.setStanding(state.member, standing, this.#context.clock.now());
    state.toldReason = reason;
    onEvent({ type: 'standing', url: this.#settings.url, model: state.model, standing, reason });
  }

  /** A probe that turned out well while the member is down says nothing about why it is. */
  #downReasonOf({ probed, reason, toldReason }: MemberState): string | null {
    if (probed === null || probed === STANDING.down) return reason ?? toldReason ?? null;
    return this.#ejectionReason;
  }

  #standingOf(state: MemberState): Standing {
    if (this.#deps.isDrained()) return STANDING.drained;
    const probed = state.probed ?? STANDING.down;
    if (this.#ejection === 'none' || probed === STANDING.down) return probed;
    return this.#ejection === 'trial' ? STANDING.probing : STANDING.down;
  }
}
