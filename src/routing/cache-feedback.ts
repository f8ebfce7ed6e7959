// What answers and CRNs say about KV caches, in memory that all threads share: how many bytes of prompt a token of a model has, whether
// the cached tokens that a member reports confirm what the block index predicts, and the size of its cache. Adjusts the capacities of the
// index by it. Values are written by any thread without locks: threads that race, or die in between, cost one sample.
//
// | row                          | written by                                              |
// |------------------------------|---------------------------------------------------------|
// | zero streak, member          | answers that report cached tokens; set at restarts      |
// | size in bytes, member        | the CRN's actor, from what the CRN says; 0: not known   |
// | measured, member             | the control plane, when KV events tell the size         |
// | bytes per token, model       | answers that report tokens; 0: not known                |
// | unexplained, model           | answers that report cached tokens                       |

import type { BoardMemory } from './board.ts';

/** One answer, as its CRN counted it. */
export interface CountedAnswer {
  /** Bytes of the prompt. */
  readonly promptBytes: number;
  /** Bytes of the prompt that the member was expected to hold when it was chosen. */
  readonly predictedBytes: number;
  /** Tokens of the prompt, more than 0. */
  readonly promptTokens: number;
  /** Tokens that came from its cache; null when it does not say. */
  readonly cachedTokens: number | null;
}

/** Bytes of text that are one token on average, where nothing is known of a model. */
const USUAL_BYTES = 4;
/** Averages beyond these are those of images and wrong counts. */
const FEWEST_BYTES = 1;
const MOST_BYTES = 16;
/** A shorter prompt is mostly template. */
const LEAST_TOKENS = 64;
/** Weight of one answer in the average. */
const WEIGHT = 1 / 16;

/** A prediction of less says nothing: servers cache whole blocks and compute the last one anew. In bytes. */
const LEAST_PREDICTED = 2048;
/** Part of a prediction that an answer may be off: tokens have different lengths along a prompt. */
const TOLERANCE = 1 / 8;

/** Change of the capacity by one answer. */
const SHRINK = 0.98;
const GROW = 1.02;
/** Bounds of the capacity relative to the size that a CRN reports. */
const LEAST_PART = 1 / 4;
const MOST_TIMES = 4;
/** Least capacity in bytes: less is one prompt. */
const LEAST_CAPACITY = 64 * 1024;

/** A size that differs by less from the last one is the same. */
const SAME_SIZE = 0.1;

/** Predicted hits in a row that were none, from which on predictions for a member count less, and from which on not at all. */
const DOUBTED = 8;
const DENIED = 24;

/**
 * Of answers that nobody is charged for, one in so many is read: reading each costs a tenth of the instructions of a small request, and
 * an eighth teaches the same a little later.
 */
const SAMPLED = 8;

/** Rows of a member. */
const ZEROS = 0;
const SIZE = 1;
const MEASURED = 2;
const MEMBER_ROWS = 3;

/** Rows of a model. */
const MODEL_ROWS = 2;
const BYTES_PER_TOKEN = 0;
const UNEXPLAINED = 1;

/** Weight of one answer in the unexplained share. */
const UNEXPLAINED_WEIGHT = 1 / 64;

/** Bytes of the memory for so many members, and as many models. */
export function feedbackBytes(members: number): number {
  return (members * (MEMBER_ROWS + MODEL_ROWS) + MODEL_ROWS) * Float64Array.BYTES_PER_ELEMENT;
}

/** The part of a `BlockIndex` that feedback changes. */
export interface CachedBlocks {
  capacity(member: number): number;
  setCapacity(member: number, bytes: number): void;
  clear(member: number): void;
}

export class CacheFeedback {
  readonly #rows: Float64Array;
  readonly #blocks: CachedBlocks;
  /** Offset of the models. */
  readonly #modelsAt: number;
  /** Answers that might have been read. */
  #offered = 0;

  constructor({ feedback, members }: Pick<BoardMemory, 'feedback' | 'members'>, blocks: CachedBlocks) {
    this.#rows = new Float64Array(feedback);
    this.#blocks = blocks;
    this.#modelsAt = members * MEMBER_ROWS;
  }

  /** Whether an answer is to be read that is not read anyway. */
  isDue(): boolean {
    return this.#offered++ % SAMPLED === 0;
  }

  /** Bytes of prompt that are one token on average. `model`: its cell. */
  bytesPerToken(model: number): number {
    return (this.#rows[this.#modelAt(model) + BYTES_PER_TOKEN] as number) || USUAL_BYTES;
  }

  /** What a predicted hit of a member is worth, from 0 for one that never reports any to 1. */
  hitFactor(member: number): number {
    const zeros = this.#rows[member * MEMBER_ROWS + ZEROS] as number;
    if (zeros <= DOUBTED) return 1;
    return zeros >= DENIED ? 0 : (DENIED - zeros) / (DENIED - DOUBTED);
  }

  /**
   * Share of what was not expected to be cached that was all the same, 0 to 1: the work of other gateways, whose requests this one does
   * not know of. `model`: its cell.
   */
  unexplained(model: number): number {
    return this.#rows[this.#modelAt(model) + UNEXPLAINED] as number;
  }

  /** Learns from an answer of a member. `model`: its cell. */
  answered(model: number, member: number, answer: CountedAnswer): void {
    const { cachedTokens, predictedBytes, promptBytes, promptTokens } = answer;
    const bytesPerToken = promptBytes / promptTokens;
    if (promptTokens >= LEAST_TOKENS) this.#noteTokens(model, bytesPerToken);
    if (cachedTokens === null) return;
    const cachedBytes = Math.min(cachedTokens * bytesPerToken, promptBytes);
    this.#noteUnexplained(model, cachedBytes - predictedBytes, promptBytes - predictedBytes);
    const isPredicted = predictedBytes >= LEAST_PREDICTED;
    const zeros = member * MEMBER_ROWS + ZEROS;
    if (cachedTokens > 0) this.#rows[zeros] = 0;
    else if (isPredicted) this.#rows[zeros] = Math.min((this.#rows[zeros] as number) + 1, DENIED);
    const tolerance = Math.max(LEAST_PREDICTED, predictedBytes * TOLERANCE);
    // A member that reports no hits at all says nothing about its size.
    if (isPredicted && cachedBytes < predictedBytes - tolerance) {
      if ((this.#rows[zeros] as number) <= DOUBTED) this.#scale(member, SHRINK);
    } else if (cachedBytes > predictedBytes + tolerance) {
      this.#scale(member, GROW);
    }
  }

  /** A member's CRN says how many tokens its cache holds, and whether it keeps prefixes. May be repeated. `model`: its cell. */
  reported(model: number, member: number, tokens: number | null, keepsPrefixes: boolean): void {
    if (!keepsPrefixes) this.#rows[member * MEMBER_ROWS + ZEROS] = DENIED;
    // What is measured is what is left by running requests, too.
    const isMeasured = this.#rows[member * MEMBER_ROWS + MEASURED] === 1;
    if (tokens !== null && !isMeasured) this.#setSize(model, member, tokens);
  }

  /** KV events of a member's CRN show how many tokens its cache keeps, whatever the CRN says of its size. May be repeated. */
  measured(model: number, member: number, tokens: number): void {
    this.#rows[member * MEMBER_ROWS + MEASURED] = 1;
    this.#setSize(model, member, tokens);
  }

  #setSize(model: number, member: number, tokens: number): void {
    const at = member * MEMBER_ROWS + SIZE;
    const before = this.#rows[at] as number;
    const bytes = tokens * this.bytesPerToken(model);
    if (Math.abs(bytes - before) <= before * SAME_SIZE) return;
    this.#rows[at] = bytes;
    // What answers have taught stays.
    this.#blocks.setCapacity(member, before === 0 ? bytes : (this.#blocks.capacity(member) * bytes) / before);
  }

  /** A member's cache is empty and its settings may have changed: it was restarted. */
  restarted(member: number): void {
    this.#rows.fill(0, member * MEMBER_ROWS, (member + 1) * MEMBER_ROWS);
    this.#blocks.clear(member);
  }

  /** Clears a member's cell, before it is used for another member. */
  resetMember(member: number): void {
    this.#rows.fill(0, member * MEMBER_ROWS, (member + 1) * MEMBER_ROWS);
  }

  /** Clears a model's cell, before it is used for another model. */
  resetModel(model: number): void {
    this.#rows.fill(0, this.#modelAt(model), this.#modelAt(model) + MODEL_ROWS);
  }

  #modelAt(model: number): number {
    return this.#modelsAt + model * MODEL_ROWS;
  }

  #noteUnexplained(model: number, foundBytes: number, unknownBytes: number): void {
    if (unknownBytes < 2 * LEAST_PREDICTED) return;
    const at = this.#modelAt(model) + UNEXPLAINED;
    const known = this.#rows[at] as number;
    this.#rows[at] = known + (Math.min(Math.max(foundBytes / unknownBytes, 0), 1) - known) * UNEXPLAINED_WEIGHT;
  }

  #noteTokens(model: number, measured: number): void {
    const at = this.#modelAt(model) + BYTES_PER_TOKEN;
    const sample = Math.min(Math.max(measured, FEWEST_BYTES), MOST_BYTES);
    const known = this.#rows[at] as number;
    this.#rows[at] = known === 0 ? sample : known + (sample - known) * WEIGHT;
  }

  #scale(member: number, factor: number): void {
    const size = this.#rows[member * MEMBER_ROWS + SIZE] as number;
    const least = size === 0 ? LEAST_CAPACITY : size * LEAST_PART;
    const most = size === 0 ? Infinity : size * MOST_TIMES;
    const capacity = this.#blocks.capacity(member);
    this.#blocks.setCapacity(member, Math.min(Math.max(capacity * factor, least), most));
  }
}
