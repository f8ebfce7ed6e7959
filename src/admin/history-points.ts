// Rows of numbers in a ring: one row for each step of time, two bytes a number. Rows in which nothing happened take no memory
// while all their neighbours are such rows.

/** Rows that are allocated together. */
const CHUNK = 60;

/** Codes: 0 is 0, `NOTHING` is null, the ones between are logarithms. */
const NOTHING = 65_535;
/** Numbers from 2^-20 (a millionth) to 2^44 (17 tera), exact to three digits. */
const LOWEST_LOG = -20;
const CODES_PER_DOUBLING = 1023;

function encode(value: number | null): number {
  if (value === null || Number.isNaN(value)) return NOTHING;
  if (value <= 0) return 0;
  const code = Math.round((Math.log2(value) - LOWEST_LOG) * CODES_PER_DOUBLING);
  return Math.min(Math.max(code, 1), NOTHING - 1);
}

function decode(code: number): number | null {
  if (code === NOTHING) return null;
  if (code === 0) return 0;
  return Number((2 ** (code / CODES_PER_DOUBLING + LOWEST_LOG)).toPrecision(3));
}

export class HistoryPoints {
  /** Codes of a row in which nothing happened. */
  readonly #idle: readonly number[];
  readonly #chunks: (Uint16Array | null)[];
  /** The number of the chunk that each place of the ring holds: its rows are those from `number * CHUNK` on. */
  readonly #numbers: Float64Array;
  readonly #codes: number[] = [];

  /** Keeps the last `rows`. `idle`: the row that stands for nothing. */
  constructor(rows: number, idle: readonly (number | null)[]) {
    this.#idle = idle.map(encode);
    const places = Math.ceil(rows / CHUNK) + 1;
    this.#chunks = Array.from({ length: places }, () => null);
    this.#numbers = new Float64Array(places).fill(-1);
  }

  /** Bytes of the rows. */
  get bytes(): number {
    return this.#chunks.reduce((sum, chunk) => sum + (chunk?.byteLength ?? 0), 0);
  }

  /** Writes the row of a step; steps ascend. A step that is left out has the idle row. */
  write(step: number, row: readonly (number | null)[]): void {
    const number = Math.floor(step / CHUNK);
    const place = number % this.#chunks.length;
    if (this.#numbers[place] !== number) {
      this.#numbers[place] = number;
      this.#chunks[place] = null;
    }
    const codes = this.#codes;
    let isIdle = true;
    for (let column = 0; column < row.length; column++) {
      codes[column] = encode(row[column] as number | null);
      if (codes[column] !== this.#idle[column]) isIdle = false;
    }
    let chunk = this.#chunks[place] ?? null;
    if (chunk === null) {
      if (isIdle) return;
      chunk = new Uint16Array(CHUNK * codes.length);
      for (let row = 0; row < CHUNK; row++) chunk.set(this.#idle, row * codes.length);
      this.#chunks[place] = chunk;
    }
    chunk.set(codes, (step % CHUNK) * codes.length);
  }

  /** A number of a step that is at most `rows` before the last one written. */
  read(step: number, column: number): number | null {
    const number = Math.floor(step / CHUNK);
    const place = number % this.#chunks.length;
    const chunk = this.#numbers[place] === number ? this.#chunks[place] : null;
    return decode(
      chunk == null ? (this.#idle[column] as number) : (chunk[(step % CHUNK) * this.#idle.length + column] as number),
    );
  }
}
