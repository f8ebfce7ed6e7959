// Chooses CRNs for one request, in the order they should be tried: failover is taking the next one.
// 1. the favourite of the affinity cookie, 2. by session or prompt prefix: rendezvous hashing with bounded load
// (Mirrokni et al., "Consistent Hashing with Bounded Loads"), 3. power of two choices on requests in flight × peak-EWMA
// of time to first byte. Reads the board, waits for nobody. When nobody is admitted, those that are down are tried
// last: a wrong judgement must not turn into a refusal. Those that an operator has drained are never tried.

import { type Board, STANDING } from './board.ts';
import { type Member, mix, type Model } from './model-table.ts';

/** How the first choice was made; `moved` says that affinity had to yield. */
export type Affinity = 'cookie' | 'hash' | 'moved' | 'none';

export interface PickerSettings {
  /** Off: every request goes by load. */
  readonly affinity: boolean;
  /** A favourite may carry this many times the mean load before affinity yields. */
  readonly boundedLoad: number;
  /** Ramp of a CRN that came back, in milliseconds. */
  readonly slowStartMs: number;
}

/** The wishes of one request. */
export interface Wishes {
  /** Base URL from the affinity cookie. */
  readonly favourite: string | undefined;
  /** Hash of session or prompt prefix; 0 when there is none. */
  readonly key: number;
}

/** The candidates of one request: a cursor over a model's members. */
export class Candidates {
  affinity: Affinity = 'none';
  /** True once only members that were judged down are left. */
  lastResort = false;
  /** True once a member that was judged fit has been given. */
  admitted = false;
  readonly #model: Model;
  readonly #board: Board;
  readonly #settings: PickerSettings;
  readonly #wishes: Wishes;
  readonly #random: () => number;
  readonly #nowMs: number;
  /** Most requests try one CRN only. */
  #first: Member | null = null;
  #others: Set<Member> | null = null;

  constructor(
    model: Model,
    board: Board,
    settings: PickerSettings,
    wishes: Wishes,
    nowMs: number,
    random: () => number,
  ) {
    this.#model = model;
    this.#board = board;
    this.#settings = settings;
    this.#wishes = wishes;
    this.#nowMs = nowMs;
    this.#random = random;
  }

  /** The next CRN to try, or undefined when each has been given once. Enters it on the board: see `Board.leave`. */
  next(): Member | undefined {
    const member = this.#choose();
    if (member === undefined) return undefined;
    if (this.#first === null) this.#first = member;
    else (this.#others ??= new Set()).add(member);
    this.#board.enter(member.server);
    return member;
  }

  #tried(member: Member): boolean {
    return member === this.#first || this.#others?.has(member) === true;
  }

  #choose(): Member | undefined {
    const fit =
      this.#takeTrial() ?? this.#best(this.#untried(STANDING.up)) ?? this.#best(this.#untried(STANDING.capable));
    if (fit !== undefined) {
      this.admitted = true;
      return fit;
    }
    this.lastResort = true;
    const rest = this.#model.members.filter(
      (member) => this.#board.standing(member.member) !== STANDING.drained && !this.#tried(member),
    );
    return rest.length > 0 ? this.#byLoad(rest) : undefined;
  }

  /** A CRN that is being let back gets exactly one request, whoever comes first. */
  #takeTrial(): Member | undefined {
    for (const member of this.#model.members) {
      if (this.#board.standing(member.member) !== STANDING.probing) continue;
      if (!this.#tried(member) && this.#board.takeTrial(member.member)) return member;
    }
    return undefined;
  }

  #untried(standing: number): Member[] {
    const { members } = this.#model;
    const found: Member[] = [];
    for (const member of members) {
      if (this.#board.standing(member.member) === standing && !this.#tried(member)) found.push(member);
    }
    return found;
  }

  #best(admitted: Member[]): Member | undefined {
    if (admitted.length === 0) return undefined;
    if (admitted.length === 1) return this.#only(admitted[0] as Member);
    if (!this.#settings.affinity) return this.#byLoad(admitted);
    const bound = this.#bound(admitted);
    const { favourite, key } = this.#wishes;
    if (favourite !== undefined && this.#first === null) {
      const member = admitted.find((candidate) => candidate.url === favourite);
      if (member !== undefined && this.#fits(member, bound)) {
        this.affinity = 'cookie';
        return member;
      }
    }
    if (key !== 0) return this.#byHash(admitted, key, bound);
    return this.#byLoad(admitted);
  }

  #only(member: Member): Member {
    if (member.url === this.#wishes.favourite) this.affinity = 'cookie';
    else if (this.#wishes.key !== 0) this.affinity = 'hash';
    return member;
  }

  /** Most requests a favourite may carry, this one included. */
  #bound(admitted: readonly Member[]): number {
    let total = 1;
    for (const member of admitted) total += this.#board.inFlight(member.server);
    return Math.ceil((total / admitted.length) * this.#settings.boundedLoad);
  }

  #fits(member: Member, bound: number): boolean {
    const room = bound * this.#board.warmth(member.member, this.#nowMs, this.#settings.slowStartMs);
    return this.#board.inFlight(member.server) + 1 <= Math.max(room, 1);
  }

  /** Highest rendezvous score among those with room; the order of scores is each conversation's own. */
  #byHash(admitted: readonly Member[], key: number, bound: number): Member | undefined {
    let best: Member | undefined;
    let bestScore = -1;
    let topScore = -1;
    for (const member of admitted) {
      const score = mix(member.hash ^ key);
      if (score > topScore) topScore = score;
      if (score > bestScore && this.#fits(member, bound)) {
        best = member;
        bestScore = score;
      }
    }
    if (best === undefined) return this.#byLoad(admitted);
    this.affinity = bestScore === topScore ? 'hash' : 'moved';
    return best;
  }

  /** Power of two choices (Mitzenmacher): of two at random the one with less expected waiting. */
  #byLoad(admitted: readonly Member[]): Member | undefined {
    const count = admitted.length;
    if (count === 1) return admitted[0];
    const first = Math.floor(this.#random() * count);
    const second = (first + 1 + Math.floor(this.#random() * (count - 1))) % count;
    const a = admitted[first] as Member;
    const b = admitted[second] as Member;
    return this.#cost(a) <= this.#cost(b) ? a : b;
  }

  #cost(member: Member): number {
    const warmth = this.#board.warmth(member.member, this.#nowMs, this.#settings.slowStartMs);
    const expectedMs = this.#board.expectedMs(member.member, this.#nowMs);
    return ((this.#board.inFlight(member.server) + 1) * expectedMs) / warmth;
  }
}
