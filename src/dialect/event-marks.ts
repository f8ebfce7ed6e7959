// Names that matter in an event of a stream, found in one pass: native searches, one for each name, took a sixth of the CPU time of a stream.

import { EVENT_MARKS_WASM } from './event-marks-wasm.ts';
import { instantiate } from './wasm.ts';

/** What event-marks.wat exports. */
interface Loops {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly marks: (end: number, low: number, high: number, shift: number) => number;
}

const { memory, marks } = instantiate<Loops>(EVENT_MARKS_WASM);
const bytes = new Uint8Array(memory.buffer);

const EVENT = 0x10;
/** A longer event is searched by its reader. */
const MOST_BYTES = 32 * 1024;
/** Of a name so many last bytes are compared, its closing quote included. */
const TAIL_BYTES = 8;
const USAGE = 1 << 30;

/** The end of a name to be found. */
export class EventMark {
  /** The name without its first quote. */
  readonly name: Buffer;
  readonly #low: number;
  readonly #high: number;
  readonly #shift: number;

  constructor(name: Buffer) {
    this.name = name;
    const tail = Buffer.alloc(TAIL_BYTES);
    const length = Math.min(name.length, TAIL_BYTES);
    name.copy(tail, TAIL_BYTES - length, name.length - length);
    this.#low = tail.readInt32LE(0);
    this.#high = tail.readInt32LE(4);
    this.#shift = 8 * (TAIL_BYTES - length);
  }

  /**
   * Looks through the first `end` bytes of an event.
   * @returns false when it has a line end, or is too long; else {@link found} has what it found
   */
  search(event: Buffer, end: number): boolean {
    if (end > MOST_BYTES) return false;
    bytes.set(event, EVENT);
    const result = marks(EVENT + end, this.#low, this.#high, this.#shift);
    if (result < 0) return false;
    const quote = result & ~USAGE;
    found.at = quote === 0 ? -1 : quote - EVENT + 1 - this.name.length;
    found.hasUsage = (result & USAGE) !== 0;
    return true;
  }
}

/** What the last search found. */
export const found = {
  /** Where the last name begins that ends like the one searched for, if it has its length; -1: there is none. */
  at: -1,
  /** Whether a name, or a text, ends with `usage`. */
  hasUsage: false,
};
