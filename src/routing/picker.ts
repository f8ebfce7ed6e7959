// Picks CRNs for one request in the order of failover: 1. the CRN with the response that is continued, 2. that of the affinity cookie,
// 3. by session or prompt prefix, with rendezvous hashing and bounded load (Mirrokni et al., "Consistent Hashing with Bounded Loads"),
// 4. power of two choices on requests in flight × expected wait. CRNs that do not know the model come after those that do, then those
// that are down; drained ones never come. Choosing allocates nothing.

import { type Board, type Standing, STANDING } from './board.ts';
import { type Member, mix, type Model, type ModelTable } from './model-table.ts';

/**
 * How the first CRN was chosen; `response`: it has the response that is continued; `moved`: the CRN of the cookie or of the hash was
 * passed over, since it is too busy or refuses.
 */
export type Affinity = 'response' | 'cookie' | 'hash' | 'moved' | 'none';

export interface PickerSettings {
  /** False: every request goes by load. */
  readonly affinity: boolean;
  /** A CRN chosen by affinity may have this many times the mean load. */
  readonly boundedLoad: number;
  /** Ramp of a CRN that came back, in milliseconds. */
  readonly slowStartMs: number;
}

/** What a request says about the CRN that it should go to. */
export interface AffinityHint {
  /** Base URL from the affinity cookie. */
  readonly url: string | undefined;
  /** Hash of the session or of the prompt prefix; 0 without either. */
  readonly key: number;
  /** `Member.hash` of the CRN with the response that the request continues; 0 when there is none, or it is not known. */
  readonly holder: number;
}

/** The bound of affinity is never below this many requests in flight, or one running request would move the next. */
const MIN_BOUND = 4;

/** Affinity passes over a CRN of which a larger share of the last answers failed or was refused. */
const FAILING_SHARE = 0.5;

/** Ranks of members in the order of preference; a request goes to the highest that is left. */
const RANK = { none: 0, down: 1, unknown: 2, capable: 3, up: 4 } as const;

/** Members that are a choice of the request that is choosing: only used within one call, so that no choice allocates. */
const eligible: Member[] = [];

/** The candidates of one request: a cursor over the members of a model. */
export class Candidates {
  affinity: Affinity = 'none';
  /** Whether only members that are down were left for the last `next`. */
  lastResort = false;
  /** Whether `next` has returned a member that is not down. */
  admitted = false;
  /** Of the member that `next` returned last, as `Choice` says; an attempt must remember both. */
  epoch = 0;
  trial = false;
  readonly #model: Model;
  readonly #board: Board;
  readonly #settings: PickerSettings;
  readonly #hint: AffinityHint;
  readonly #random: () => number;
  readonly #nowMs: number;
  /** Members returned so far; most requests try one only. */
  #first: Member | null = null;
  #others: Set<Member> | null = null;

  constructor(
    model: Model,
    board: Board,
    settings: PickerSettings,
    hint: AffinityHint,
    nowMs: number,
    random: () => number,
  ) {
    this.#model = model;
    this.#board = board;
    this.#settings = settings;
    this.#hint = hint;
    this.#nowMs = nowMs;
    this.#random = random;
  }

  /** The next CRN to try, undefined after each has been returned once. Counts the request on the board: see `Board.leave`. */
  next(): Member | undefined {
    this.trial = false;
    const member = this.#choose();
    if (member === undefined) return undefined;
    this.epoch = this.#board.epoch(member.member);
    if (this.#first === null) this.#first = member;
    else (this.#others ??= new Set()).add(member);
    this.#board.enter(member.server);
    return member;
  }

  /** As `next`, but undefined when only CRNs that are down are left: those stay for `next`. */
  nextFit(): Member | undefined {
    for (const member of this.#model.members) {
      if (member === this.#first || this.#others?.has(member) === true) continue;
      if (this.#rankOf(member, this.#board.standing(member.member)) > RANK.down) return this.next();
    }
    return undefined;
  }

  /**
   * Whether the CRN of the affinity cookie is fit at present: in the pool, up, and not without the model. Then the cookie stays,
   * also when another CRN has served the request.
   */
  get preferredFit(): boolean {
    const { url } = this.#hint;
    if (url === undefined) return false;
    for (const member of this.#model.members) {
      if (member.url === url) return this.#rankOf(member, this.#board.standing(member.member)) === RANK.up;
    }
    return false;
  }

  #choose(): Member | undefined {
    let best: number = RANK.none;
    let count = 0;
    for (const member of this.#model.members) {
      if (member === this.#first || this.#others?.has(member) === true) continue;
      const standing = this.#board.standing(member.member);
      if (standing === STANDING.probing && this.#mayTry(member) && this.#board.takeTrial(member.server, this.#nowMs)) {
        // A CRN on trial gets exactly one request, whichever comes first.
        this.admitted = true;
        this.trial = true;
        return member;
      }
      const rank = this.#rankOf(member, standing);
      if (rank === RANK.none || rank < best) continue;
      if (rank > best) count = 0;
      best = rank;
      eligible[count++] = member;
    }
    if (best > RANK.down) {
      this.admitted = true;
      return this.#best(count);
    }
    // Health checks may be wrong: with no other CRN left, those that are down are tried rather than refusing the request.
    this.lastResort = true;
    return this.#byLoad(count);
  }

  /** A request that only one CRN can serve is no trial of another one. */
  #mayTry({ hash }: Member): boolean {
    const { holder } = this.#hint;
    return holder === 0 || holder === hash || this.#first !== null;
  }

  #rankOf({ member }: Member, standing: Standing): number {
    if (standing === STANDING.up || standing === STANDING.capable) {
      if (this.#board.modelUnknown(member)) return RANK.unknown;
      return standing === STANDING.up ? RANK.up : RANK.capable;
    }
    return standing === STANDING.drained ? RANK.none : RANK.down;
  }

  /** The best of the first `count` eligible members, at least one. */
  #best(count: number): Member | undefined {
    const { url, key, holder } = this.#hint;
    const isFirst = this.#first === null;
    if (isFirst && holder !== 0 && this.#settings.affinity) {
      // Whatever its load: no other CRN can continue the response.
      for (let i = 0; i < count; i++) {
        const member = eligible[i] as Member;
        if (member.hash !== holder) continue;
        this.affinity = 'response';
        return member;
      }
    }
    if (count === 1) {
      const only = eligible[0] as Member;
      if (isFirst && only.url === url) this.affinity = 'cookie';
      else if (isFirst && key !== 0) this.affinity = 'hash';
      return only;
    }
    if (!this.#settings.affinity) return this.#byLoad(count);
    let moved = false;
    if (url !== undefined && isFirst) {
      const preferred = this.#eligibleAt(url, count);
      if (preferred !== undefined && this.#fits(preferred, count)) {
        this.affinity = 'cookie';
        return preferred;
      }
      moved = preferred !== undefined;
    }
    const member = key === 0 ? this.#byLoad(count) : this.#byHash(key, count, isFirst);
    if (moved) this.affinity = 'moved';
    return member;
  }

  #eligibleAt(url: string, count: number): Member | undefined {
    for (let i = 0; i < count; i++) if ((eligible[i] as Member).url === url) return eligible[i];
    return undefined;
  }

  /** Whether a CRN chosen by affinity may have this request too: it serves, and has at most `boundedLoad` times the mean then. */
  #fits({ member, server }: Member, count: number): boolean {
    if (this.#board.failureShare(member, this.#nowMs) > FAILING_SHARE) return false;
    const load = this.#board.inFlight(server) + 1;
    if (load <= MIN_BOUND) return true;
    let total = 1;
    for (let i = 0; i < count; i++) total += this.#board.inFlight((eligible[i] as Member).server);
    const bound = Math.ceil((total / count) * this.#settings.boundedLoad);
    return load <= bound * this.#board.warmth(member, this.#nowMs, this.#settings.slowStartMs);
  }

  /** The highest rendezvous score among the members that fit. Each key has its own order of members. */
  #byHash(key: number, count: number, isFirst: boolean): Member | undefined {
    let below = Infinity;
    for (let tried = 0; tried < count; tried++) {
      let best: Member | undefined;
      let bestScore = -1;
      for (let i = 0; i < count; i++) {
        const score = mix((eligible[i] as Member).hash ^ key);
        if (score <= bestScore || score >= below) continue;
        best = eligible[i] as Member;
        bestScore = score;
      }
      if (best === undefined) break;
      if (this.#fits(best, count)) {
        if (isFirst) this.affinity = tried === 0 ? 'hash' : 'moved';
        return best;
      }
      below = bestScore;
    }
    if (isFirst) this.affinity = 'moved';
    return this.#byLoad(count);
  }

  /** Power of two choices (Mitzenmacher): of two random members the one with the lower cost; undefined of none. */
  #byLoad(count: number): Member | undefined {
    if (count === 0) return undefined;
    if (count === 1) return eligible[0];
    const first = Math.floor(this.#random() * count);
    const second = (first + 1 + Math.floor(this.#random() * (count - 1))) % count;
    const a = eligible[first] as Member;
    const b = eligible[second] as Member;
    return this.#cost(a, count) <= this.#cost(b, count) ? a : b;
  }

  #cost({ member, server }: Member, count: number): number {
    const warmth = this.#board.warmth(member, this.#nowMs, this.#settings.slowStartMs);
    const expectedMs = this.#board.expectedMs(member, eligible, count, this.#nowMs);
    return ((this.#board.inFlight(server) + 1) * expectedMs) / warmth;
  }
}

// The affinity cookie (docs/interface.md, section 6): a JSON object from model id to base URL. Clients can change it, so an
// entry counts only if its URL is in the model's pool.

export const AFFINITY_COOKIE = 'preferred_instances';

/** `Max-Age` of the cookie in seconds. */
export const AFFINITY_MAX_AGE_S = 1800;

/** A longer cookie is ignored: browsers keep 4 KiB. */
const MAX_COOKIE_CHARS = 4096;

const NO_ENTRIES: ReadonlyMap<string, string> = new Map();

/** Cookie values that were read; a client sends the same one until its CRN changes, and most clients have one of few. */
const READ = new Map<string, ReadonlyMap<string, string>>();
const MAX_READ = 256;

/** Reads a cookie value, raw or percent-encoded, into base URLs by model id in lower case. Skips what is no string. */
export function readAffinity(value: string | undefined): ReadonlyMap<string, string> {
  if (value === undefined || value.length > MAX_COOKIE_CHARS) return NO_ENTRIES;
  const known = READ.get(value);
  if (known !== undefined) return known;
  const entries = parseAffinity(value);
  if (READ.size >= MAX_READ) READ.clear();
  READ.set(value, entries);
  return entries;
}

function parseAffinity(value: string): ReadonlyMap<string, string> {
  const entries = new Map<string, string>();
  try {
    // A raw value may have percent signs in its URLs.
    const parsed: unknown = JSON.parse(value.startsWith('{') ? value : decodeURIComponent(value));
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return entries;
    for (const [model, url] of Object.entries(parsed))
      if (typeof url === 'string') entries.set(model.toLowerCase(), url);
  } catch {
    // A broken cookie counts as none.
  }
  return entries;
}

/**
 * The cookie value after `url` has served `modelId`; undefined when the client's cookie says so already. Entries of other
 * models stay while their URL is in the model's pool.
 */
export function writeAffinity(
  known: ReadonlyMap<string, string>,
  table: ModelTable,
  modelId: string,
  url: string,
): string | undefined {
  // Most clients keep no cookies and get the same text every time.
  if (known.size === 0) return table.remember(url, modelId, () => encodeOne(modelId, url));
  if (known.get(modelId.toLowerCase()) === url) return undefined;
  const entries = emptyRecord();
  for (const [id, preferred] of known) {
    const model = table.find(id);
    if (model !== undefined && model.members.some((member) => member.url === preferred)) entries[model.id] = preferred;
  }
  entries[modelId] = url;
  const text = encode(entries);
  return text.length <= MAX_COOKIE_CHARS ? text : encodeOne(modelId, url);
}

function encodeOne(modelId: string, url: string): string {
  return encode(Object.assign(emptyRecord(), { [modelId]: url }));
}

/** An object without a prototype, so that any model id is an ordinary member. */
function emptyRecord(): Record<string, string> {
  return Object.create(null) as Record<string, string>;
}

/** JSON in which characters that a cookie value may not contain are escaped. */
function encode(entries: Record<string, string>): string {
  return JSON.stringify(entries).replace(
    /[;\u007f-\uffff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
