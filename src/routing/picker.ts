// Picks CRNs for one request in the order of failover. Of those that are fit, the next one is that with the least cost:
//
//   cost = ((backlog + requestBytes × requests in flight) / weight + requestBytes + missWeight × miss)
//          × slowness × 2^(failurePenalty × failure share) / warmth
//
// in bytes of prompt. `backlog` is what the CRN has still to prefill; `weight` its configured share of the load; `miss` what it would have to prefill of this prompt, by the
// block index; `slowness` its time per byte relative to the others; `warmth` rises from 0.1 to 1 in a slow start. Three things alter the miss:
//
// 1. Blocks that many requests have in common count as held everywhere: a system prompt draws no requests to one CRN.
// 2. The CRN with the highest rendezvous score for the session, else for the first block that is not common, is expected to hold
//    more than is known: gateways that do not know of each other agree on it.
// 3. The CRN of the affinity cookie is taken to hold the whole prompt. It is left only when its cost is `stickiness` times the least.
//
// Before all that, a response is continued by the CRN that has it. CRNs that do not know the model or the dialect come after those that do,
// then those that are down; drained ones never come, nor those to which the request cannot be sent in any form. Choosing allocates nothing.

import type { Clock } from '../actor/index.ts';
import { blockBytes, type BlockIndex } from './block-index.ts';
import { type Board, RANK, type Standing, STANDING } from './board.ts';
import type { CacheFeedback } from './cache-feedback.ts';
import type { CommonPrefixes } from './common-prefixes.ts';
import { type Member, mix, type Model } from './model-table.ts';
import type { Candidate, Choice } from './outcome.ts';

/**
 * How the first CRN was chosen. `response`: it has the response that is continued. `cookie`: the affinity cookie names it. `cache`: it holds the
 * beginning of the prompt, as far as is known, and no other one holds more. `prior`: by the rendezvous score. `moved`: the CRN of the
 * cookie was passed over. `spilled`: one that holds more of the prompt was passed over. `none`: by load.
 */
export type Affinity = 'response' | 'cookie' | 'cache' | 'prior' | 'moved' | 'spilled' | 'none';

/** The terms of the cost; sizes in bytes of prompt. */
export interface PickerSettings {
  /** False: every request goes by load. */
  readonly affinity: boolean;
  /** Weight of bytes that this request would have to prefill, relative to those that wait already. */
  readonly missWeight: number;
  /** What a request in flight counts besides its prefill: it decodes. */
  readonly requestBytes: number;
  /** 1: a CRN that takes twice as long per byte costs twice as much. 0: all are taken for equally fast. */
  readonly speedWeight: number;
  /** Doublings of the cost of a CRN whose last answers all failed or were refused. */
  readonly failurePenalty: number;
  /** Share of the requests of a model from which a beginning is common; 0: none is. */
  readonly commonShare: number;
  /** Share of the unknown part that the CRN with the highest rendezvous score is expected to hold, when other gateways send it requests too. */
  readonly prior: number;
  /** The same for a request with a session. */
  readonly sessionPrior: number;
  /** The CRN of the cookie may cost this many times the least. */
  readonly stickiness: number;
  /** Ramp of a CRN that came back, in milliseconds. */
  readonly slowStartMs: number;
}

/** A prompt as chained hashes of its blocks. Scratch memory: valid until the next prompt is read. */
export interface PromptHashes {
  /** Two words for each whole block. */
  readonly hashes: Int32Array;
  readonly count: number;
  /** Bytes of the prompt, the rest behind the last whole block included. */
  readonly bytes: number;
}

/** What a request says about the CRN that it should go to. */
export interface AffinityHint {
  /** Base URL from the affinity cookie. */
  readonly url: string | undefined;
  /** Hash of the session; 0 without one. */
  readonly session: number;
  /** `Member.hash` of the CRN with the response that the request continues; 0 when there is none, or it is not known. */
  readonly holder: number;
  /** Whether the answer will be a stream, whose first event tells when its prefill is over. */
  readonly stream: boolean;
  /** Bytes of the body, for a prompt that cannot be read. */
  readonly bytes: number;
  /** Bit of its dialect in `DIALECT_BITS`; 0: every CRN is asked as it is. */
  readonly dialectBit: number;
  /** Bit of the dialect in which CRNs are asked that lack its own; 0: none. */
  readonly translatedBit: number;
  /** It cannot be carried to that dialect: CRNs that lack its own are not asked. */
  readonly isUntranslatable: boolean;
  /** The prompt; called at each choice. */
  blocks(): PromptHashes;
}

/**
 * How a CRN is asked. `own`: with the request as it is. `translated`: in another dialect. `refused`: as it is, though it is known to lack the
 * dialect, so that its own refusal passes on. `none`: not at all.
 */
export type FormName = 'own' | 'translated' | 'refused' | 'none';

/** What all choices of a thread share. */
export interface PickerDeps {
  readonly board: Board;
  readonly index: BlockIndex;
  readonly common: CommonPrefixes;
  readonly feedback: Pick<CacheFeedback, 'hitFactor' | 'unexplained'>;
  readonly clock: Pick<Clock, 'now'>;
  readonly random: () => number;
}

/** Why a request would go where it would go, at this moment. Sizes are bytes of prompt. */
export interface Explanation {
  /** Base URL; null when there is no CRN to try. */
  readonly chosen: string | null;
  /** As in `Affinity`; `trial`: it is ejected, and takes one request to try; `last resort`: every CRN is down. */
  readonly reason: Affinity | 'trial' | 'last resort';
  readonly promptBytes: number;
  /** Leading bytes of the prompt that many requests of the model have in common: they count as held everywhere. */
  readonly commonBytes: number;
  readonly crns: readonly ExplainedCrn[];
}

/** What a request would cost on one CRN. `cost` = (`backlog` + `inFlight` + `miss`) × `slowness` × `failures` × `slowStart`. */
export interface ExplainedCrn {
  readonly crn: string;
  readonly standing: Standing;
  readonly form: FormName;
  /** It is among those from which the least cost is chosen. */
  readonly eligible: boolean;
  /** Whole blocks of the prompt that it is expected to hold, their bytes, and what these count, from 0 to 1: see `CacheFeedback`. */
  readonly matchedBlocks: number;
  readonly matchedBytes: number;
  readonly hitFactor: number;
  /** Expected to hold more than is known, by the rendezvous score. */
  readonly favourite: boolean;
  /** Share of the load relative to the other CRNs. */
  readonly weight: number;
  /** Bytes that wait to be prefilled, divided by the weight. */
  readonly backlog: number;
  /** Requests in flight, divided by the weight, and this one, times `requestBytes`. */
  readonly inFlight: number;
  /** The part of `backlog` and `inFlight` that other gateways have sent, as far as is known. */
  readonly siblings: number;
  /** Bytes that it would have to prefill of this prompt, times `missWeight`. */
  readonly miss: number;
  /** Bytes that it prefills in a second; null while it is not known. */
  readonly bytesPerS: number | null;
  readonly slowness: number;
  readonly failures: number;
  readonly slowStart: number;
  readonly cost: number;
}

/** Costs that differ by less are alike: estimates are no better than that. */
const NEAR_TIE = 1.01;

/**
 * With other gateways, costs that differ by less than what these may have sent meanwhile are alike, too, or all would choose the same CRN that seems
 * to be idle: so many times the mean of what is not known yet, and so many requests at most. Chosen by the test of
 * gateways that choose at the same time, and by `bench cluster --simulate`.
 */
const UNHEARD_TIE = 10;
const MOST_UNHEARD = 4;

/**
 * Part of the share from which a beginning is common, from which on it is no key: requests that have it are spread by what follows, but
 * still drawn to caches that are known to hold it.
 */
const KEY_SHARE = 1 / 2;

/** Unexplained share of cached prompts from which on the whole prior counts: a little of it tells of other gateways, and agreement raises it. */
const FULL_UNEXPLAINED = 1 / 8;

/** Part of the prior that always counts. */
const LEAST_PRIOR = 1 / 5;

/** Doublings of the time per byte by which CRNs that are equally fast may seem to differ. */
const SPEED_NOISE = 1;

/** An idle CRN of the cookie is kept unless a larger share of its last answers failed or was refused. */
const FAILING_SHARE = 0.5;

/**
 * Members that are a choice of the request that is choosing, the blocks of its prompt that they hold, and their costs: only used within one
 * call, so that no choice allocates.
 */
const eligible: Member[] = [];
const held: number[] = [];
const costs: number[] = [];

const NO_BLOCKS: PromptHashes = { hashes: new Int32Array(0), count: 0, bytes: 0 };

/** The candidates of one request: a cursor over the members of a model, and the last choice. */
export class Candidates implements Candidate {
  affinity: Affinity = 'none';
  /** Whether only members that are down were left for the last `next`. */
  lastResort = false;
  /** Whether `next` has returned a member that is not down. */
  admitted = false;
  // The last choice; an attempt must remember it.
  member!: Member;
  /** How it is asked. */
  form: FormName = 'own';
  epoch = 0;
  trial = false;
  matched = 0;
  enteredAt = 0;
  aged = 0;
  charged = 0;
  work = 0;
  readonly #model: Model;
  readonly #deps: PickerDeps;
  readonly #settings: PickerSettings;
  readonly #hint: AffinityHint;
  /** Members returned so far; most requests try one only. */
  #first: Member | null = null;
  #others: Set<Member> | null = null;

  constructor(model: Model, deps: PickerDeps, settings: PickerSettings, hint: AffinityHint) {
    this.#model = model;
    this.#deps = deps;
    this.#settings = settings;
    this.#hint = hint;
  }

  /**
   * The next CRN to try, undefined after each has been returned once. The request is counted on the board (`Board.leave`) and charged
   * with its prefill (`prefilled` or `abandoned`), and its blocks are entered into the index.
   */
  next(): Member | undefined {
    this.trial = false;
    const blocks = this.#settings.affinity ? this.#hint.blocks() : NO_BLOCKS;
    const nowMs = this.#deps.clock.now();
    if (this.#first === null) this.#deps.common.note(this.#model.budget, blocks.hashes, blocks.count);
    const member = this.choose(blocks, nowMs);
    if (member === undefined) return undefined;
    if (this.#first === null) this.#first = member;
    else (this.#others ??= new Set()).add(member);
    this.#take(member, blocks, nowMs);
    return member;
  }

  /** As `next`, but undefined when only CRNs that are down are left: those stay for `next`. */
  nextFit(): Member | undefined {
    for (const member of this.#model.members) {
      if (member === this.#first || this.#others?.has(member) === true) continue;
      if (this.#rank(member, this.#deps.board.standing(member.member), this.#deps.clock.now()) > RANK.down)
        return this.next();
    }
    return undefined;
  }

  /** Where this request would go now, and why. Changes nothing: no trial is taken, nothing is counted, charged or entered. */
  explain(): Explanation {
    const { board, clock } = this.#deps;
    const { members } = this.#model;
    const nowMs = clock.now();
    const blocks = this.#settings.affinity ? this.#hint.blocks() : NO_BLOCKS;
    const trial = members.find((each) => {
      const isOffered = board.standing(each.member) === STANDING.probing && board.isTrialOffered(each.server);
      return isOffered && this.#mayTry(each, nowMs);
    });
    const ranks = members.map((member) => this.#rank(member, board.standing(member.member), nowMs));
    const rank = Math.max(RANK.none, ...ranks);
    const count = rank === RANK.none ? 0 : ranks.filter((each) => each === rank).length;
    const best = this.choose(blocks, nowMs, false);
    // Nothing is expected of the caches of CRNs that are down.
    const known = this.lastResort ? NO_BLOCKS : blocks;
    const shared = this.#sharedOf(known);
    const key = this.#keyOf(known);
    const isByPrompt = this.#settings.affinity && !this.lastResort;
    const favourite = key === 0 || !isByPrompt ? undefined : highest(key, count);
    const speed = this.#meanSpeed(count, nowMs);
    return {
      chosen: (trial ?? best)?.url ?? null,
      reason: trial !== undefined ? 'trial' : this.lastResort ? 'last resort' : this.affinity,
      promptBytes: this.#bytesOf(blocks),
      commonBytes: blockBytes(shared),
      crns: members.map((member, at) => ({
        ...this.#termsOf(member, known, shared, member === favourite, speed, nowMs),
        eligible: rank !== RANK.none && ranks[at] === rank,
      })),
    };
  }

  #termsOf(
    member: Member,
    blocks: PromptHashes,
    shared: number,
    favourite: boolean,
    speed: number,
    nowMs: number,
  ): Omit<ExplainedCrn, 'eligible'> {
    const { board, feedback, index } = this.#deps;
    const { failurePenalty, requestBytes, slowStartMs } = this.#settings;
    const cell = member.member;
    const matchedBlocks = index.matched(cell, blocks.hashes, blocks.count);
    const miss = this.#miss(member, matchedBlocks, this.#bytesOf(blocks), shared, favourite);
    const msPerByte = board.loads.msPerByte(cell);
    return {
      crn: member.url,
      standing: board.standing(cell),
      form: this.formOf(member, nowMs),
      matchedBlocks,
      matchedBytes: blockBytes(matchedBlocks),
      hitFactor: feedback.hitFactor(cell),
      favourite,
      weight: member.weight,
      backlog: board.loads.backlog(cell, nowMs) / member.weight,
      inFlight: requestBytes * (board.inFlight(member.server) / member.weight + 1),
      siblings:
        (Math.min(board.loads.siblingsBytes(cell), board.loads.backlog(cell, nowMs)) +
          requestBytes * board.siblingsInFlight(member.server)) /
        member.weight,
      miss,
      bytesPerS: msPerByte === 0 ? null : 1000 / msPerByte,
      slowness: 2 ** this.#slower(cell, speed, nowMs),
      failures: 2 ** (board.failureShare(cell, nowMs) * failurePenalty),
      slowStart: 1 / board.warmth(cell, nowMs, slowStartMs),
      cost: (this.#load(member, nowMs) + miss) * this.#factor(member, speed, nowMs),
    };
  }

  /** Chooses the member of an attempt once more. */
  again({ epoch, member }: Choice): void {
    this.#take(member, this.#settings.affinity ? this.#hint.blocks() : NO_BLOCKS, this.#deps.clock.now());
    this.epoch = epoch;
    // The outcome told for the trial has offered it again.
    this.trial = false;
  }

  /**
   * An answer has begun, so that its prompt is prefilled: once for each choice, or `abandoned`. `elapsedMs`: from the request sent to the
   * first useful event; null for an answer that is no stream.
   */
  prefilled({ charged, member: { member }, work }: Candidate, elapsedMs: number | null): void {
    if (this.#hint.stream && elapsedMs !== null) {
      this.#deps.board.loads.noteFirst(member, work, elapsedMs, this.#deps.clock.now());
    }
    this.#discharge(member, charged);
  }

  #discharge(member: number, charged: number): void {
    const { loads } = this.#deps.board;
    if (this.#hint.stream) loads.discharge(member, charged);
    else loads.dischargeWhole(member, charged);
  }

  /**
   * An answer has not begun, and will not: the member may hold no more of the prompt than before. `isRefused`: nor has it computed any of it,
   * so that what it holds stays.
   */
  abandoned({ aged, charged, enteredAt, matched, member: { member } }: Candidate, isRefused: boolean): void {
    const { index } = this.#deps;
    this.#discharge(member, charged);
    if (!this.#settings.affinity) return;
    const { count, hashes } = this.#hint.blocks();
    index.withdraw(member, hashes, matched, count, enteredAt);
    if (isRefused) index.rewind(member, aged);
  }

  /** Takes the last choice back: it is not asked. */
  giveBack(): void {
    const { board } = this.#deps;
    board.leave(this.member.server);
    this.abandoned(this, true);
    if (this.trial) board.returnTrial(this.member.server);
    this.trial = false;
  }

  /** Takes the last choice back: the request cannot be sent to it in any form. It counts as not tried. */
  withdraw(): void {
    this.giveBack();
    if (this.#first === this.member) this.#first = null;
    else this.#others?.delete(this.member);
  }

  /** How a member is asked, whatever its standing. */
  formOf(member: Member, nowMs: number): FormName {
    const { dialectBit, isUntranslatable, translatedBit } = this.#hint;
    const { board } = this.#deps;
    if (dialectBit === 0 || board.speaks(member, dialectBit, nowMs)) return 'own';
    if (isUntranslatable) return 'none';
    if (translatedBit !== 0 && board.speaks(member, translatedBit, nowMs)) return 'translated';
    return member.dialects === 0 ? 'refused' : 'none';
  }

  /** Whether the request can be sent to none of the members, whatever their standing. */
  get isUnspoken(): boolean {
    const nowMs = this.#deps.clock.now();
    const { members } = this.#model;
    return members.length > 0 && members.every((member) => this.formOf(member, nowMs) === 'none');
  }

  /**
   * Whether the CRN of the affinity cookie is fit at present: in the pool, up, and not without the model or the dialect. Then the cookie
   * stays, also when another CRN has served the request.
   */
  get preferredFit(): boolean {
    const { url } = this.#hint;
    if (url === undefined) return false;
    for (const member of this.#model.members) {
      if (member.url !== url) continue;
      return this.#rank(member, this.#deps.board.standing(member.member), this.#deps.clock.now()) === RANK.up;
    }
    return false;
  }

  #take(member: Member, blocks: PromptHashes, nowMs: number): void {
    const { board, index } = this.#deps;
    const cell = member.member;
    const { count, hashes } = blocks;
    this.member = member;
    this.form = this.formOf(member, nowMs);
    this.epoch = board.epoch(cell);
    this.matched = index.matched(cell, hashes, count);
    this.charged = Math.max(this.#bytesOf(blocks) - blockBytes(this.matched), 0);
    this.work = board.loads.backlog(cell, nowMs) + this.charged + this.#settings.requestBytes;
    this.enteredAt = index.enter(cell, hashes, count);
    this.aged = index.aged;
    board.enter(member.server);
    if (this.#hint.stream) board.loads.charge(cell, this.charged, nowMs);
    else board.loads.chargeWhole(cell, this.charged, nowMs);
  }

  #bytesOf(blocks: PromptHashes): number {
    return blocks === NO_BLOCKS || blocks.bytes === 0 ? this.#hint.bytes : blocks.bytes;
  }

  /** @internal The next member; sets `trial`, `admitted`, `lastResort` and `affinity`. `tries`: may take the trial of an ejected CRN. */
  protected choose(blocks: PromptHashes, nowMs: number, tries = true): Member | undefined {
    const { board } = this.#deps;
    let best: number = RANK.none;
    let count = 0;
    this.lastResort = false;
    for (const member of this.#model.members) {
      if (member === this.#first || this.#others?.has(member) === true) continue;
      const standing = board.standing(member.member);
      if (
        tries &&
        standing === STANDING.probing &&
        this.#mayTry(member, nowMs) &&
        board.takeTrial(member.server, nowMs)
      ) {
        // A CRN on trial gets exactly one request, whichever comes first.
        this.admitted = true;
        this.trial = true;
        return member;
      }
      const rank = this.#rank(member, standing, nowMs);
      if (rank === RANK.none || rank < best) continue;
      if (rank > best) count = 0;
      best = rank;
      eligible[count++] = member;
    }
    if (count === 0) {
      this.lastResort = true;
      return undefined;
    }
    if (best > RANK.down) {
      this.admitted = true;
      return this.#best(blocks, count, nowMs);
    }
    // Health checks may be wrong: with no other CRN left, those that are down are tried rather than refusing the request.
    this.lastResort = true;
    return this.#cheapest(NO_BLOCKS, 0, 0, count, nowMs);
  }

  /** A request that only one CRN can serve is no trial of another one, nor one that cannot be sent to it. */
  #mayTry(member: Member, nowMs: number): boolean {
    const { holder } = this.#hint;
    if (holder !== 0 && holder !== member.hash && this.#first === null) return false;
    const form = this.formOf(member, nowMs);
    return form === 'own' || form === 'translated';
  }

  /** As `Board.rank`, for this request. */
  #rank(member: Member, standing: Standing, nowMs: number): number {
    const rank = this.#deps.board.rank(member.member, standing);
    const { dialectBit } = this.#hint;
    if (dialectBit === 0 || this.#deps.board.speaks(member, dialectBit, nowMs)) return rank;
    const form = this.formOf(member, nowMs);
    return form === 'none' ? RANK.none : form === 'refused' ? Math.min(rank, RANK.unknown) : rank;
  }

  /** The best of the first `count` eligible members, at least one. */
  #best(blocks: PromptHashes, count: number, nowMs: number): Member {
    const { affinity, stickiness } = this.#settings;
    if (!affinity) return this.#cheapest(NO_BLOCKS, 0, 0, count, nowMs);
    const { holder, url } = this.#hint;
    const isFirst = this.#first === null;
    if (isFirst && holder !== 0) {
      // Whatever its load: no other CRN can continue the response.
      for (let i = 0; i < count; i++) {
        const member = eligible[i] as Member;
        if (member.hash !== holder) continue;
        this.affinity = 'response';
        return member;
      }
    }
    const shared = this.#sharedOf(blocks);
    const key = this.#keyOf(blocks);
    const best = this.#cheapest(blocks, shared, key, count, nowMs);
    if (!isFirst) return best;
    const preferred = url === undefined ? undefined : this.#eligibleAt(url, count);
    if (preferred !== undefined && (preferred === best || this.#keeps(preferred, stickiness, count, nowMs))) {
      this.affinity = 'cookie';
      return preferred;
    }
    this.affinity = preferred === undefined ? this.#affinityOf(best, key, count) : 'moved';
    return best;
  }

  /** The least cost of the first `count` eligible members; of those that are alike the one with the highest score, without a key a random one. */
  #cheapest(blocks: PromptHashes, shared: number, key: number, count: number, nowMs: number): Member {
    const { index, random } = this.#deps;
    const bytes = this.#bytesOf(blocks);
    const favourite = key === 0 ? undefined : highest(key, count);
    const speed = this.#meanSpeed(count, nowMs);
    let least = Infinity;
    for (let i = 0; i < count; i++) {
      const member = eligible[i] as Member;
      const matched = index.matched(member.member, blocks.hashes, blocks.count);
      const miss = this.#miss(member, matched, bytes, shared, member === favourite);
      held[i] = matched;
      const cost = (this.#load(member, nowMs) + miss) * this.#factor(member, speed, nowMs);
      costs[i] = cost;
      if (cost < least) least = cost;
    }
    let first = -1;
    let firstScore = -1;
    let second = -1;
    let secondScore = -1;
    const unheard = index.unheard;
    const slack = unheard === 0 ? 0 : this.#unheardCost(unheard, count, nowMs);
    const most = slack === 0 ? 0 : (held[costs.indexOf(least)] as number);
    for (let i = 0; i < count; i++) {
      const member = eligible[i] as Member;
      const cost = costs[i] as number;
      // Whoever holds less of the prompt is no match.
      const isAlike = cost <= least * NEAR_TIE || (cost <= least + slack && (held[i] as number) >= most);
      if (!isAlike) continue;
      const score = key === 0 ? weighted(random(), member) : scoreOf(member, key);
      if (score > firstScore) {
        second = first;
        secondScore = firstScore;
        first = i;
        firstScore = score;
      } else if (score > secondScore) {
        second = i;
        secondScore = score;
      }
    }
    // Of two the cheaper one: nearly as even as the cheapest of all, and without its rush.
    const isSecond = slack > 0 && second !== -1 && (costs[second] as number) < (costs[first] as number);
    return eligible[isSecond ? second : Math.max(first, 0)] as Member;
  }

  /** What requests of other gateways may cost that are not known yet: see `UNHEARD_TIE`. */
  #unheardCost(unheard: number, count: number, nowMs: number): number {
    const { board } = this.#deps;
    let bytes = 0;
    let requests = 0;
    for (let i = 0; i < count; i++) {
      const { member, server } = eligible[i] as Member;
      bytes += board.loads.backlog(member, nowMs);
      requests += board.inFlight(server);
    }
    const each = this.#settings.requestBytes + bytes / Math.max(requests, 1);
    return Math.min(UNHEARD_TIE * unheard, MOST_UNHEARD) * each;
  }

  /**
   * What the CRN with the highest score is expected to hold: the more, the more caches hold that this gateway cannot explain. Other gateways
   * that tell what they send where need no agreement beyond that.
   */
  #prior(most: number): number {
    const { feedback, index } = this.#deps;
    const unexplained = index.isShared ? 0 : feedback.unexplained(this.#model.budget);
    return most * Math.min(Math.max(unexplained / FULL_UNEXPLAINED, LEAST_PRIOR), 1);
  }

  /** What the rendezvous score is of: the session, else the first block that not many requests have in common. 0: neither. */
  #keyOf(blocks: PromptHashes): number {
    const { session } = this.#hint;
    if (session !== 0) return session;
    const { commonShare } = this.#settings;
    const { common } = this.#deps;
    const { count, hashes } = blocks;
    const unkeyed = commonShare === 0 ? 0 : common.leading(this.#model.budget, hashes, count, commonShare * KEY_SHARE);
    return keyOf(blocks, unkeyed);
  }

  /** Leading blocks that count as held by every member. */
  #sharedOf({ count, hashes }: PromptHashes): number {
    const { commonShare } = this.#settings;
    return commonShare === 0 ? 0 : this.#deps.common.leading(this.#model.budget, hashes, count, commonShare);
  }

  /** What a member would have to prefill of a prompt of so many bytes, of which it holds `matched` blocks; weighted, in bytes. */
  #miss({ member }: Member, matched: number, bytes: number, shared: number, isFavourite: boolean): number {
    const { missWeight, prior, sessionPrior } = this.#settings;
    const known = blockBytes(matched) * this.#deps.feedback.hitFactor(member);
    const unknown = Math.max(bytes - Math.max(known, blockBytes(shared)), 0);
    const expected = isFavourite ? 1 - (this.#hint.session === 0 ? this.#prior(prior) : sessionPrior) : 1;
    return missWeight * unknown * expected;
  }

  /** What waits at a member, by its weight, and this request, in bytes. */
  #load({ member, server, weight }: Member, nowMs: number): number {
    const { board } = this.#deps;
    const { requestBytes } = this.#settings;
    return (board.loads.backlog(member, nowMs) + requestBytes * board.inFlight(server)) / weight + requestBytes;
  }

  /** What makes a byte of work more expensive at a member. `speed`: `#meanSpeed`. */
  #factor({ member }: Member, speed: number, nowMs: number): number {
    const { failurePenalty, slowStartMs } = this.#settings;
    const { board } = this.#deps;
    const doublings = board.failureShare(member, nowMs) * failurePenalty + this.#slower(member, speed, nowMs);
    return 2 ** doublings / board.warmth(member, nowMs, slowStartMs);
  }

  /** How much slower than the others a member is, in doublings of its time per byte. `speed`: `#meanSpeed`. */
  #slower(member: number, speed: number, nowMs: number): number {
    const { loads } = this.#deps.board;
    const recency = this.#settings.speedWeight * loads.recency(member, nowMs);
    if (recency === 0) return 0;
    const slower = Math.log2(loads.msPerByte(member)) - speed;
    // Smaller differences are those of the prompts.
    return Math.abs(slower) <= SPEED_NOISE ? 0 : recency * (slower - Math.sign(slower) * SPEED_NOISE);
  }

  /** Logarithm of the mean time per byte of the eligible members, newer measurements weighing more; 0 without any. */
  #meanSpeed(count: number, nowMs: number): number {
    const { loads } = this.#deps.board;
    let weights = 0;
    let sum = 0;
    for (let i = 0; i < count; i++) {
      const { member } = eligible[i] as Member;
      const weight = loads.recency(member, nowMs);
      if (weight === 0) continue;
      weights += weight;
      sum += weight * Math.log2(loads.msPerByte(member));
    }
    return weights === 0 ? 0 : sum / weights;
  }

  /** Whether a request stays with the CRN of its cookie, the costs of all eligible members being known. An idle one is always kept. */
  #keeps(preferred: Member, stickiness: number, count: number, nowMs: number): boolean {
    const { board } = this.#deps;
    const { member, server } = preferred;
    if (board.inFlight(server) === 0 && board.loads.backlog(member, nowMs) === 0) {
      return board.failureShare(member, nowMs) <= FAILING_SHARE;
    }
    let least = Infinity;
    for (let i = 0; i < count; i++) least = Math.min(least, costs[i] as number);
    const cost = this.#load(preferred, nowMs) * this.#factor(preferred, this.#meanSpeed(count, nowMs), nowMs);
    return cost <= stickiness * least;
  }

  /** Of the member that `#cheapest` has just chosen. */
  #affinityOf(chosen: Member, key: number, count: number): Affinity {
    let most = 0;
    for (let i = 0; i < count; i++) most = Math.max(most, held[i] as number);
    const own = held[eligible.indexOf(chosen)] as number;
    if (own < most) return 'spilled';
    if (own > 0) return 'cache';
    return key !== 0 && highest(key, count) === chosen ? 'prior' : 'none';
  }

  #eligibleAt(url: string, count: number): Member | undefined {
    for (let i = 0; i < count; i++) if ((eligible[i] as Member).url === url) return eligible[i];
    return undefined;
  }
}

/** What all gateways agree on for a prompt: its first block that is not common; 0 when it has none. */
function keyOf({ count, hashes }: PromptHashes, shared: number): number {
  return shared < count ? (hashes[2 * shared] as number) || 1 : 0;
}

/** Rendezvous score of a member for a key, from 0 to 1. Each key has its own order of members. */
function scoreOf(member: Member, key: number): number {
  return weighted(mix(member.hash ^ key) / 2 ** 32, member);
}

/**
 * A random number from 0 to 1, raised so that the member whose number is the highest is each one as often as its weight says
 * (Efraimidis and Spirakis, weighted random sampling).
 */
function weighted(uniform: number, { weight }: Member): number {
  return weight === 1 ? uniform : uniform ** (1 / weight);
}

/** The highest score among the first `count` eligible members. */
function highest(key: number, count: number): Member | undefined {
  let best: Member | undefined;
  let bestScore = -1;
  for (let i = 0; i < count; i++) {
    const score = scoreOf(eligible[i] as Member, key);
    if (score <= bestScore) continue;
    best = eligible[i];
    bestScore = score;
  }

  return best;
}
