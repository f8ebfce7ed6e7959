// Picks CRNs for one request in the order of failover: 1. the CRN of the affinity cookie, 2. by session or prompt prefix, with
// rendezvous hashing and bounded load (Mirrokni et al., "Consistent Hashing with Bounded Loads"), 3. power of two choices on
// requests in flight × peak-EWMA of time to first byte. CRNs that are down come last, drained ones never. It only reads memory.

import { type Board, STANDING } from './board.ts';
import { type Member, mix, type Model, type ModelTable } from './model-table.ts';

/** How the first CRN was chosen; `moved`: affinity gave way to the load bound. */
export type Affinity = 'cookie' | 'hash' | 'moved' | 'none';

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
}

/** The candidates of one request: a cursor over the members of a model. */
export class Candidates {
  affinity: Affinity = 'none';
  /** Whether only members that are down were left for the last `next`. */
  lastResort = false;
  /** Whether `next` has returned a member that is not down. */
  admitted = false;
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
    const member = this.#choose();
    if (member === undefined) return undefined;
    if (this.#first === null) this.#first = member;
    else (this.#others ??= new Set()).add(member);
    this.#board.enter(member.server);
    return member;
  }

  #choose(): Member | undefined {
    const up: Member[] = [];
    const capable: Member[] = [];
    const down: Member[] = [];
    for (const member of this.#model.members) {
      if (member === this.#first || this.#others?.has(member) === true) continue;
      const standing = this.#board.standing(member.member);
      if (standing === STANDING.up) {
        up.push(member);
      } else if (standing === STANDING.capable) {
        capable.push(member);
      } else if (standing === STANDING.probing && this.#board.takeTrial(member.member)) {
        // A CRN on trial gets exactly one request, whichever comes first.
        this.admitted = true;
        return member;
      } else if (standing !== STANDING.drained) {
        down.push(member);
      }
    }
    const best = up.length > 0 ? up : capable;
    if (best.length > 0) {
      this.admitted = true;
      return this.#best(best);
    }
    // Health checks may be wrong: with no other CRN left, those that are down are tried rather than refusing the request.
    this.lastResort = true;
    return this.#byLoad(down);
  }

  /** The best of at least one member. */
  #best(members: readonly Member[]): Member | undefined {
    const { url, key } = this.#hint;
    if (members.length === 1) {
      const [only] = members;
      if (only?.url === url) this.affinity = 'cookie';
      else if (key !== 0) this.affinity = 'hash';
      return only;
    }
    if (!this.#settings.affinity) return this.#byLoad(members);
    if (url !== undefined && this.#first === null) {
      const preferred = members.find((candidate) => candidate.url === url);
      if (preferred !== undefined && this.#fits(preferred, this.#bound(members))) {
        this.affinity = 'cookie';
        return preferred;
      }
    }
    return key === 0 ? this.#byLoad(members) : this.#byHash(members, key);
  }

  /** Most requests that a CRN chosen by affinity may have, this one included. */
  #bound(members: readonly Member[]): number {
    let total = 1;
    for (const member of members) total += this.#board.inFlight(member.server);
    return Math.ceil((total / members.length) * this.#settings.boundedLoad);
  }

  #fits(member: Member, bound: number): boolean {
    const limit = bound * this.#board.warmth(member.member, this.#nowMs, this.#settings.slowStartMs);
    return this.#board.inFlight(member.server) + 1 <= Math.max(limit, 1);
  }

  /** The highest rendezvous score among the members below the bound. Each key has its own order of members. */
  #byHash(members: readonly Member[], key: number): Member | undefined {
    const bound = this.#bound(members);
    let best: Member | undefined;
    let bestScore = -1;
    let topScore = -1;
    for (const member of members) {
      const score = mix(member.hash ^ key);
      if (score > topScore) topScore = score;
      if (score > bestScore && this.#fits(member, bound)) {
        best = member;
        bestScore = score;
      }
    }
    if (best === undefined) return this.#byLoad(members);
    this.affinity = bestScore === topScore ? 'hash' : 'moved';
    return best;
  }

  /** Power of two choices (Mitzenmacher): of two random members the one with the lower cost; undefined of none. */
  #byLoad(members: readonly Member[]): Member | undefined {
    const count = members.length;
    if (count <= 1) return members[0];
    const first = Math.floor(this.#random() * count);
    const second = (first + 1 + Math.floor(this.#random() * (count - 1))) % count;
    const a = members[first] as Member;
    const b = members[second] as Member;
    return this.#cost(a) <= this.#cost(b) ? a : b;
  }

  #cost(member: Member): number {
    const warmth = this.#board.warmth(member.member, this.#nowMs, this.#settings.slowStartMs);
    const expectedMs = this.#board.expectedMs(member.member, this.#nowMs);
    return ((this.#board.inFlight(member.server) + 1) * expectedMs) / warmth;
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

/** Reads a cookie value, raw or percent-encoded, into base URLs by model id in lower case. Skips what is no string. */
export function readAffinity(value: string | undefined): ReadonlyMap<string, string> {
  if (value === undefined || value.length > MAX_COOKIE_CHARS) return NO_ENTRIES;
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
