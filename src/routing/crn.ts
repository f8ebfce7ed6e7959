// The health actor of one CRN: probes it, hears the outcomes of its requests, judges, and writes its standing on the
// board. Nobody waits for it. A member (one model on this CRN) is admitted when its last probes say so and the CRN is
// not ejected; an ejected CRN comes back through one trial request. A restart keeps the standings on the board. An operator
// may drain, eject and return it: a drained CRN is judged as before, and none of that shows until it is returned.

import type { Behavior, Context, Ref } from '../actor/index.ts';
import { Breaker, type BreakerSettings } from './breaker.ts';
import { type Board, STANDING, type Standing } from './board.ts';
import type { Outcome } from './classify.ts';

export interface HealthSettings {
  /** Time between two probes in milliseconds, spread by a tenth so that CRNs are never probed in lockstep. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
  /** Path of the probe; `{model}` is replaced by the model id, and then every model is judged for itself. */
  readonly path: string;
  /** Good probes in a row that bring a member up. */
  readonly rise: number;
  /** Bad probes in a row that take a member down. */
  readonly fall: number;
}

export interface CrnSettings {
  readonly url: string;
  /** The models this CRN serves, with their cells. */
  readonly members: readonly { readonly model: string; readonly member: number }[];
  readonly health: HealthSettings;
  readonly ejection: BreakerSettings;
}

/** What a CRN actor needs from outside. */
export interface CrnDeps {
  readonly board: Board;
  /** Requests a probe URL; resolves with the status, rejects when there is none in time. */
  readonly probe: (url: string, timeoutMs: number) => Promise<number>;
  /** Asks for leave to eject this CRN: granted when enough others of each of its models stay (panic threshold). */
  readonly mayEject: (url: string) => boolean;
  /** Whether an operator has drained this CRN; asked anew at every judgement, since it outlives the actor. */
  readonly isDrained: (url: string) => boolean;
  /** Hears every judgement. */
  readonly onJudged: (event: CrnEvent) => void;
}

/**
 * What an operator wants of a CRN. `drain`: no new request, those in flight finish. `eject`: as after failures, whatever
 * the panic threshold says, for `forMs` milliseconds or, with null, as long as the next ejection would last. `return`:
 * ends both, and what the probes say holds.
 */
export type CrnOrder =
  | { readonly action: 'drain' }
  | { readonly action: 'eject'; readonly forMs: number | null }
  | { readonly action: 'return' };

/** What became of an order. */
export type Obeyed = 'done' | 'no such CRN';

/** News about a CRN. */
export type CrnEvent =
  | { readonly type: 'standing'; readonly url: string; readonly model: string; readonly standing: Standing }
  | { readonly type: 'judged'; readonly url: string; readonly ejected: boolean }
  | { readonly type: 'ejected'; readonly url: string; readonly forMs: number; readonly failure: string }
  | { readonly type: 'returned'; readonly url: string }
  | { readonly type: 'drained'; readonly url: string }
  /** The board has no cell for it: the keeper's news, not the actor's. */
  | { readonly type: 'left out'; readonly url: string; readonly model: string };

export type CrnCommand =
  | { readonly type: 'Probe' }
  | { readonly type: 'Probed'; readonly model: string | null; readonly status: number }
  | { readonly type: 'Outcome'; readonly outcome: Outcome }
  | { readonly type: 'Obey'; readonly order: CrnOrder; readonly replyTo: Ref<Obeyed> }
  | { readonly type: 'Release' }
  | { readonly type: 'Offer' };

/** After a bad probe the next one comes sooner: by this share of the interval. */
const FAST_SHARE = 0.2;

interface MemberState {
  readonly model: string;
  readonly member: number;
  /** What the probes say; null before the first. */
  probed: Standing | null;
  streak: number;
}

/** Maps a probe's status to a standing; 0 stands for no answer. */
function probedStanding(status: number): Standing {
  if (status === 202) return STANDING.capable;
  return status >= 200 && status < 300 ? STANDING.up : STANDING.down;
}

/** Makes the behaviour of a CRN actor. */
export function crn(settings: CrnSettings, deps: CrnDeps): Behavior<CrnCommand> {
  return (context) => {
    const judge = new Judge(settings, deps, context);
    judge.probe();
    return (command) => {
      switch (command.type) {
        case 'Probe':
          judge.probe();
          break;
        case 'Probed':
          judge.probed(command.model, command.status);
          break;
        case 'Outcome':
          judge.outcome(command.outcome);
          break;
        case 'Obey':
          judge.obey(command.order);
          command.replyTo.tell('done');
          break;
        case 'Release':
          judge.release();
          break;
        case 'Offer':
          judge.offer();
          break;
      }
    };
  };
}

class Judge {
  readonly #settings: CrnSettings;
  readonly #deps: CrnDeps;
  readonly #context: Context<CrnCommand>;
  readonly #breaker: Breaker;
  readonly #members: readonly MemberState[];
  readonly #perModel: boolean;
  #ejection: 'none' | 'ejected' | 'trial' = 'none';
  #openProbes = 0;
  #judged = false;

  constructor(settings: CrnSettings, deps: CrnDeps, context: Context<CrnCommand>) {
    this.#settings = settings;
    this.#deps = deps;
    this.#context = context;
    this.#breaker = new Breaker(settings.ejection);
    this.#members = settings.members.map(({ model, member }) => ({ model, member, probed: null, streak: 0 }));
    this.#perModel = settings.health.path.includes('{model}');
    // Before its first probe a CRN counts as down, and those are a last resort.
    if (deps.isDrained(settings.url)) this.#publishAll();
  }

  probe(): void {
    if (this.#openProbes > 0) return;
    const { url, health } = this.#settings;
    const targets = this.#perModel ? this.#members.map(({ model }) => model) : [null];
    this.#openProbes = targets.length;
    for (const model of targets) {
      const path = model === null ? health.path : health.path.replace('{model}', () => encodeURIComponent(model));
      this.#context.pipe(
        this.#deps.probe(url + path, health.timeoutMs),
        (status) => ({ type: 'Probed', model, status }),
        () => ({ type: 'Probed', model, status: 0 }),
      );
    }
  }

  probed(model: string | null, status: number): void {
    for (const state of this.#members) if (model === null || state.model === model) this.#note(state, status);
    this.#openProbes--;
    if (this.#openProbes > 0) return;
    if (!this.#judged) {
      this.#judged = true;
      this.#deps.onJudged({ type: 'judged', url: this.#settings.url, ejected: this.#ejection !== 'none' });
    }
    const wavering = this.#members.some((state) => state.streak > 0);
    const spread = 0.9 + 0.2 * this.#context.random();
    const delayMs = this.#settings.health.intervalMs * spread * (wavering ? FAST_SHARE : 1);
    this.#context.timers.once('probe', delayMs, { type: 'Probe' });
  }

  outcome(outcome: Outcome): void {
    if (this.#ejection === 'trial') {
      this.#tried(outcome);
      return;
    }
    const now = this.#context.clock.now();
    if (outcome.verdict === 'ok') this.#breaker.ok(now, outcome.count);
    if (outcome.verdict !== 'failed' || this.#ejection !== 'none') return;
    const due = this.#breaker.failed(now);
    // A failed request is a reason to look at once.
    this.probe();
    if (due && this.#deps.mayEject(this.#settings.url)) this.#eject(outcome.failure ?? 'failed');
  }

  /** The ejection is over: one request may try. */
  release(): void {
    this.#ejection = 'trial';
    this.#publishAll();
    this.offer();
  }

  /** Offers the trial again from time to time: the request that took it may live long, or its thread may have died. */
  offer(): void {
    if (this.#ejection !== 'trial') return;
    for (const { member } of this.#members) this.#deps.board.offerTrial(member);
    this.#context.timers.once('offer', this.#settings.ejection.backoffMaxMs, { type: 'Offer' });
  }

  /** The keeper has noted before whether this CRN is drained. */
  obey(order: CrnOrder): void {
    const { url } = this.#settings;
    if (order.action === 'eject') {
      this.#eject('operator', order.forMs);
      return;
    }
    if (order.action === 'return') {
      this.#ejection = 'none';
      this.#context.timers.cancel('release');
      this.#context.timers.cancel('offer');
    }
    this.#publishAll();
    this.#deps.onJudged({ type: order.action === 'drain' ? 'drained' : 'returned', url });
  }

  #tried({ verdict, failure }: Outcome): void {
    if (verdict === 'failed') {
      this.#eject(failure ?? 'failed');
    } else if (verdict === 'neutral') {
      this.offer();
    } else {
      this.#ejection = 'none';
      this.#publishAll();
      this.#deps.onJudged({ type: 'returned', url: this.#settings.url });
    }
  }

  #eject(failure: string, wantedMs: number | null = null): void {
    const nextMs = this.#breaker.eject(this.#context.clock.now(), this.#context.random());
    const forMs = wantedMs ?? nextMs;
    this.#ejection = 'ejected';
    this.#context.timers.once('release', forMs, { type: 'Release' });
    this.#publishAll();
    this.#deps.onJudged({ type: 'ejected', url: this.#settings.url, forMs, failure });
  }

  #note(state: MemberState, status: number): void {
    const { rise, fall } = this.#settings.health;
    const seen = probedStanding(status);
    const good = seen !== STANDING.down;
    const turns = state.probed !== null && good !== (state.probed !== STANDING.down);
    state.streak = turns ? state.streak + 1 : 0;
    // The first probe decides alone, and so does a change between up and capable.
    if (!turns || state.streak >= (good ? rise : fall)) {
      state.probed = seen;
      state.streak = 0;
    }
    this.#publish(state);
  }

  #publishAll(): void {
    for (const state of this.#members) this.#publish(state);
  }

  #publish(state: MemberState): void {
    const { board, onJudged } = this.#deps;
    const standing = this.#wanted(state);
    if (board.standing(state.member) === standing) return;
    board.setStanding(state.member, standing, this.#context.clock.now());
    onJudged({ type: 'standing', url: this.#settings.url, model: state.model, standing });
  }

  #wanted(state: MemberState): Standing {
    if (this.#deps.isDrained(this.#settings.url)) return STANDING.drained;
    const probed = state.probed ?? STANDING.down;
    if (this.#ejection === 'none' || probed === STANDING.down) return probed;
    return this.#ejection === 'trial' ? STANDING.probing : STANDING.down;
  }
}
