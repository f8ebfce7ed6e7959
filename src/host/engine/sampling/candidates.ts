// The distribution that samplers work on: some tokens listed with their logits, all others at one common logit, the floor.
// After rank() the list is sorted by falling logit, then rising id, and every sampler keeps that order.
/** Lists up to this long are sorted by insertion: they come almost sorted. */
const INSERTION_MOST = 192;

/** One distribution; made once per vocabulary and filled anew for every token. */
export class TokenCandidates {
  readonly vocabularySize: number;
  /** Tokens listed, in the first `size` places. */
  readonly ids: Int32Array;
  readonly logits: Float64Array;
  /** Probabilities; valid after softmax(). */
  readonly p: Float64Array;
  size: number = 0;
  /** Logit of every allowed token that is not listed; -Infinity: none can be chosen. */
  floor: number = -Infinity;
  /** 1 for every token that may be chosen; null: all. rank() applies it. */
  allowed: Uint8Array | null = null;
  /** Scratch of the penalties, by token; all zero between their calls. */
  readonly counts: Uint32Array;
  readonly #listed: Uint8Array;

  constructor(vocabularySize: number) {
    this.vocabularySize = vocabularySize;
    this.ids = new Int32Array(vocabularySize);
    this.logits = new Float64Array(vocabularySize);
    this.p = new Float64Array(vocabularySize);
    this.counts = new Uint32Array(vocabularySize);
    this.#listed = new Uint8Array(vocabularySize);
  }

  /** Empties the list and sets the floor. */
  clear(floor: number): void {
    this.size = 0;
    this.floor = floor;
    this.allowed = null;
  }

  /** Lists a token; it must not be listed yet. */
  add(id: number, logit: number): void {
    this.ids[this.size] = id;
    this.logits[this.size] = logit;
    this.size++;
  }

  /**
   * Sorts, and drops what cannot be chosen. Afterwards the first `need` places (or all, when there are fewer tokens)
   * hold exactly what the whole vocabulary would hold there; pass Infinity for the whole distribution.
   */
  rank(need: number): void {
    const { logits, ids, allowed, floor } = this;
    if (allowed !== null) {
      for (let at = 0; at < this.size; at++) if (allowed[ids[at]!] === 0) logits[at] = -Infinity;
    }
    if (this.#rankFew(need)) return;
    this.#sort();
    let above = this.size;
    while (above > 0 && logits[above - 1]! <= floor) above--;
    if (need > above && floor !== -Infinity) this.#insertFloor(above);
    else this.size = above;
    this.floor = -Infinity;
  }

  /** Probabilities of the listed tokens, renormalised. The list must be sorted. */
  softmax(): void {
    const { logits, p, size } = this;
    const highest = logits[0]!;
    let sum = 0;
    let last = highest;
    let weight = 1;
    for (let at = 0; at < size; at++) {
      // Long runs share the floor, and the exponential is the expensive part.
      if (logits[at] !== last) {
        last = logits[at]!;
        weight = exponential(last - highest);
      }
      p[at] = weight;
      sum += weight;
    }
    for (let at = 0; at < size; at++) p[at]! /= sum;
  }

  /** Keeps the places from `from` up to `to`; the list stays sorted. */
  keep(from: number, to: number): void {
    if (from > 0) {
      this.ids.copyWithin(0, from, to);
      this.logits.copyWithin(0, from, to);
    }
    this.size = to - from;
  }

  /** Draws a place by the probabilities, with one number in [0, 1). */
  draw(random: number): number {
    let left = random;
    for (let at = 0; at < this.size - 1; at++) {
      left -= this.p[at]!;
      if (left < 0) return at;
    }
    return this.size - 1;
  }

  /**
   * Ranks the first `need` places alone and drops the others, which is right where all that stays is above the floor. False
   * when the whole list must be sorted; its order may have changed then.
   */
  #rankFew(need: number): boolean {
    const { ids, logits, size, floor } = this;
    if (need >= size || size > INSERTION_MOST) return false;
    for (let at = 1; at < size; at++) {
      const id = ids[at]!;
      const logit = logits[at]!;
      let to = at - 1;
      if (at >= need) {
        to = need - 1;
        if (logit < logits[to]! || (logit === logits[to] && id > ids[to]!)) continue;
        // The displaced candidate takes the place, so that nothing is lost if the whole list is needed.
        ids[at] = ids[to]!;
        logits[at] = logits[to]!;
        to--;
      }
      this.#insert(id, logit, to);
    }
    if (logits[need - 1]! <= floor) return false;
    this.size = need;
    this.floor = -Infinity;
    return true;
  }

  #sort(): void {
    if (this.size > INSERTION_MOST) {
      this.#sortMany();
      return;
    }
    const { ids, logits, size } = this;
    for (let at = 1; at < size; at++) {
      this.#insert(ids[at]!, logits[at]!, at - 1);
    }
  }

  /** Puts a token in its place among those up to `last`; the ones behind it move down by one. */
  #insert(id: number, logit: number, last: number): void {
    const { ids, logits } = this;
    let to = last;
    while (to >= 0 && (logits[to]! < logit || (logits[to] === logit && ids[to]! > id))) {
      ids[to + 1] = ids[to]!;
      logits[to + 1] = logits[to]!;
      to--;
    }
    ids[to + 1] = id;
    logits[to + 1] = logit;
  }

  #sortMany(): void {
    const ids = this.ids.slice(0, this.size);
    const logits = this.logits.slice(0, this.size);
    const order = Uint32Array.from(ids, (_, at) => at);
    order.sort((a, b) => (logits[a] === logits[b] ? ids[a]! - ids[b]! : logits[b]! > logits[a]! ? 1 : -1));
    for (let at = 0; at < order.length; at++) {
      this.ids[at] = ids[order[at]!]!;
      this.logits[at] = logits[order[at]!]!;
    }
  }

  /** Lists all tokens at the floor, between the `above` places over it and those under it. */
  #insertFloor(above: number): void {
    const { ids, logits, allowed, floor } = this;
    const listed = this.#listed;
    let under = above;
    while (under < this.size && logits[under] === floor) under++;
    let end = this.size;
    while (end > under && logits[end - 1] === -Infinity) end--;
    const underIds = ids.slice(under, end);
    const underLogits = logits.slice(under, end);
    listed.fill(0);
    for (let at = 0; at < above; at++) listed[ids[at]!] = 1;
    for (let at = under; at < this.size; at++) listed[ids[at]!] = 1;
    let size = above;
    for (let id = 0; id < this.vocabularySize; id++) {
      if (listed[id] === 1 || (allowed !== null && allowed[id] === 0)) continue;
      ids[size] = id;
      logits[size++] = floor;
    }
    ids.set(underIds, size);
    logits.set(underLogits, size);
    this.size = size + underIds.length;
  }
}

const PARTS = 64;
/** Below this e^x is taken as 0: no draw can distinguish it. */
const LEAST = -700;
const PER_LOG2 = PARTS / Math.LN2;
const LOG2_PART = Math.LN2 / PARTS;
const FRACTIONS: Float64Array = Float64Array.from({ length: PARTS }, (_, part) => 2 ** (part / PARTS));
/** 2 to the power of the index less 1024. */
const POWERS: Float64Array = Float64Array.from({ length: 1025 }, (_, at) => 2 ** (at - 1024));

/** e to the power of `x`, which is at most 0. */
export function exponential(x: number): number {
  if (!(x > LEAST)) return 0;
  const n = Math.floor(x * PER_LOG2);
  const r = x - n * LOG2_PART;
  const series = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120)))));
  return FRACTIONS[n & (PARTS - 1)]! * POWERS[(n >> 6) + 1024]! * series;
}
