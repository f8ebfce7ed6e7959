// Health actor of one CRN: probes it, counts the outcomes of its requests, and writes the standings of its members to the board.
// A member is up when its last probes succeeded and the CRN is not ejected; an ejected CRN comes back through one trial request. A
// restart keeps the standings. Operators may drain, eject and return a CRN; a drained one is checked as before, but stays drained.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import { Breaker, type BreakerSettings, type FailureRates } from './breaker.ts';
import { type Board, STANDING, type Standing } from './board.ts';
import type { Failure, Outcome, Verdict } from './outcome.ts';

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
  /** The models of this CRN and their member cells. */
  readonly members: readonly { readonly model: string; readonly member: number }[];
  readonly health: HealthSettings;
  readonly ejection: BreakerSettings;
}

export interface CrnDeps {
  readonly board: Board;
  /** Outcomes of all CRNs, so that each can be compared with its peers. */
  readonly rates: FailureRates;
  /** Member cells of a model on the other CRNs. */
  readonly peers: (model: string) => readonly number[];
  /** Sends a probe. Resolves with the status, 0 for an answer that cannot be read; rejects without any response in time. */
  readonly probe: (url: string, timeoutMs: number) => Promise<number>;
  /** Whether this CRN may be ejected: enough others of each of its models must stay (panic threshold). */
  readonly mayEject: (url: string) => boolean;
  /** Whether an operator has drained this CRN. This state outlives the actor. */
  readonly isDrained: (url: string) => boolean;
  readonly onEvent: (event: CrnEvent) => void;
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
  | { readonly type: 'standing'; readonly url: string; readonly model: string; readonly standing: Standing }
  | { readonly type: 'probed'; readonly url: string; readonly ejected: boolean }
  | { readonly type: 'ejected'; readonly url: string; readonly forMs: number; readonly failure: string }
  | { readonly type: 'returned'; readonly url: string }
  | { readonly type: 'drained'; readonly url: string }
  /** The board has no cell for it, so it gets no requests. */
  | { readonly type: 'left out'; readonly url: string; readonly model: string };

export type CrnCommand =
  | { readonly type: 'Probe' }
  | { readonly type: 'Probed'; readonly model: string | null; readonly status: number | null }
  | { readonly type: 'Outcome'; readonly outcome: Outcome }
  | { readonly type: 'Override'; readonly override: CrnOverride; readonly replyTo: Ref<OverrideResult> }
  | { readonly type: 'Release' }
  | { readonly type: 'CheckTrial' };

/** Share of the interval after which a member whose last probe disagrees with its state is probed again. */
const FAST_SHARE = 0.2;

/** Each trial that hangs doubles the time until another one is offered, up to this many times the first. */
const MAX_PATIENCE = 6;

interface MemberState {
  readonly model: string;
  readonly member: number;
  /** The standing by the probes; null before the first. */
  probed: Standing | null;
  /** Consecutive probes that disagree with `probed`. */
  streak: number;
}

/** The standing by the status of one probe; null is no response. */
function probedStanding(status: number | null): Standing {
  if (status === 202) return STANDING.capable;
  return status !== null && status >= 200 && status < 300 ? STANDING.up : STANDING.down;
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
          state.probed(command.model, command.status);
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
  /** Whether a probe of this round has had a response, whatever its status. */
  #heard = false;
  /** When the last rounds of probes without any response were sent; at most `fall`. */
  #silentSince: number[] = [];

  constructor(settings: CrnSettings, deps: CrnDeps, context: Context<CrnCommand>) {
    this.#settings = settings;
    this.#deps = deps;
    this.#context = context;
    this.#members = settings.members.map(({ model, member }) => ({ model, member, probed: null, streak: 0 }));
    this.#perModel = settings.health.path.includes('{model}');
    const cells = this.#members.map(({ member }) => member);
    this.#breaker = new Breaker(settings.ejection, cells, deps.rates);
    // Outcomes of requests that began before are none of this actor's.
    for (const cell of cells) deps.board.raiseEpoch(cell);
    deps.board.endTrial(settings.server);
    // Without this it would be down, and thus a last resort, until its first probe.
    if (deps.isDrained(settings.url)) this.#publishAll();
  }

  probe(): void {
    if (this.#openProbes > 0) return;
    const { url, health } = this.#settings;
    const targets = this.#perModel ? this.#members.map(({ model }) => model) : [null];
    this.#openProbes = targets.length;
    this.#probeSentMs = this.#context.clock.now();
    this.#heard = false;
    for (const model of targets) {
      const path = model === null ? health.path : health.path.replace('{model}', () => encodeURIComponent(model));
      this.#context.pipe(
        this.#deps.probe(url + path, health.timeoutMs),
        (status) => ({ type: 'Probed', model, status }),
        () => ({ type: 'Probed', model, status: null }),
      );
    }
  }

  probed(model: string | null, status: number | null): void {
    for (const state of this.#members) if (model === null || state.model === model) this.#note(state, status);
    if (status !== null) this.#hear();
    this.#openProbes--;
    if (this.#openProbes > 0) return;
    if (!this.#heard) this.#noteSilence();
    if (!this.#probed) {
      this.#probed = true;
      this.#deps.onEvent({ type: 'probed', url: this.#settings.url, ejected: this.#ejection !== 'none' });
    }
    const unsettled = this.#members.some((state) => state.streak > 0);
    const spread = 0.9 + 0.2 * this.#context.random();
    const delayMs = this.#settings.health.intervalMs * spread * (unsettled ? FAST_SHARE : 1);
    this.#context.timers.once('probe', delayMs, { type: 'Probe' });
  }

  outcome({ count, epoch, failure, member, trial, verdict }: Outcome): void {
    if (verdict === 'ok') this.#hear();
    // Requests that began before the last ejection, trial or return say nothing about the time after it.
    if (epoch !== this.#deps.board.epoch(member)) return;
    if (this.#ejection === 'trial') {
      if (trial) this.#endTrial(verdict, failure);
      return;
    }
    if (this.#ejection !== 'none') return;
    const now = this.#context.clock.now();
    if (verdict === 'ok') this.#breaker.ok(member, now, count);
    if (verdict !== 'failed') return;
    const due = this.#breaker.failed(member, now, this.#peers(member));
    // A failed request is a reason to probe at once.
    this.probe();
    if (due && this.#deps.mayEject(this.#settings.url)) this.#eject(failure ?? 'failed');
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
    const takenMs = this.#deps.board.trialTakenMs(this.#settings.server);
    const ageMs = takenMs === null ? 0 : this.#context.clock.now() - takenMs;
    // Where trials hang, each one costs a client its time.
    const patience = Math.min(2 ** this.#overdue, MAX_PATIENCE);
    const leftMs = this.#settings.ejection.backoffMaxMs * patience - ageMs;
    if (leftMs <= 0) {
      this.#overdue++;
      this.#offer();
    } else {
      this.#context.timers.once('trial', leftMs, { type: 'CheckTrial' });
    }
  }

  #offer(): void {
    this.#deps.board.offerTrial(this.#settings.server);
    this.#context.timers.once('trial', this.#settings.ejection.backoffMaxMs, { type: 'CheckTrial' });
  }

  /** `isDrained` has changed before a drain or a return arrives here. */
  override(override: CrnOverride): void {
    const { url } = this.#settings;
    if (override.action === 'eject') {
      this.#eject('operator', override.forMs);
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

  #endTrial(verdict: Verdict, failure: Failure | null): void {
    if (verdict === 'failed') {
      this.#eject(failure ?? 'failed');
    } else if (verdict === 'ok') {
      this.#turn('none');
      this.#deps.onEvent({ type: 'returned', url: this.#settings.url });
    } else if (this.#overdue > 0) {
      // Another trial is offered or under way.
      this.#overdue--;
    } else {
      this.#offer();
    }
  }

  #eject(failure: string, wantedMs: number | null = null): void {
    const nextMs = this.#breaker.eject(this.#context.clock.now(), this.#context.random());
    const forMs = wantedMs ?? nextMs;
    this.#context.timers.once('release', forMs, { type: 'Release' });
    this.#turn('ejected');
    this.#deps.onEvent({ type: 'ejected', url: this.#settings.url, forMs, failure });
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

  #note(state: MemberState, status: number | null): void {
    const { rise, fall } = this.#settings.health;
    const seen = probedStanding(status);
    const good = seen !== STANDING.down;
    const turns = state.probed !== null && good !== (state.probed !== STANDING.down);
    state.streak = turns ? state.streak + 1 : 0;
    // The first probe counts by itself, and so does a change between up and capable.
    if (!turns || state.streak >= (good ? rise : fall)) {
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
    if (board.standing(state.member) === standing) return;
    board.setStanding(state.member, standing, this.#context.clock.now());
    onEvent({ type: 'standing', url: this.#settings.url, model: state.model, standing });
  }

  #standingOf(state: MemberState): Standing {
    if (this.#deps.isDrained(this.#settings.url)) return STANDING.drained;
    const probed = state.probed ?? STANDING.down;
    if (this.#ejection === 'none' || probed === STANDING.down) return probed;
    return this.#ejection === 'trial' ? STANDING.probing : STANDING.down;
  }
}
