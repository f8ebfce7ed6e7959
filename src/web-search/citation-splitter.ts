// Finds the markers by which a model cites search results, `[3]` or `[1, 2]`, in a text that comes in pieces. What may become a marker
// is held back, so that no part of one leaves as text. However the text is cut, the segments say the same.

/** A piece of the text, or the numbers of the results that the text before it cites. */
export type Segment =
  | { readonly text: string; readonly cites?: undefined }
  | { readonly cites: readonly number[]; readonly text?: undefined };

/** A longer marker is text. */
const MAX_MARKER_CHARS = 40;

/** Behind an optional space: the beginning of a marker, which may end with the next character. */
const BEGINNING = /^ ?\[\d[\d, ]*$/;
const MARKER = /^ ?\[(\d{1,4}(?: ?, ?\d{1,4})*)\]$/;
/** As some models were taught: `【3†source】`. */
const WIDE_BEGINNING = /^ ?【\d[^】\n]*$/;
const WIDE_MARKER = /^ ?【(\d{1,4})(?:†[^】\n]*)?】$/;

const TICK = '`';

export class CitationSplitter {
  readonly #isKnown: (number: number) => boolean;
  /** A space, or a marker that is not complete, or one that may be the text of a link. */
  #held = '';
  /** Backticks that have opened code; 0 outside of code. */
  #code = 0;
  /** Backticks in a row. */
  #ticks = 0;
  #text = '';
  #segments: Segment[] = [];

  /** @param isKnown whether there is a result of this number: others are no citations */
  constructor(isKnown: (number: number) => boolean) {
    this.#isKnown = isKnown;
  }

  /** Takes more text. */
  push(text: string): Segment[] {
    for (const char of text) this.#char(char);
    return this.#taken();
  }

  /** The text has ended. */
  end(): Segment[] {
    this.#endTicks();
    if (!this.#cite()) this.#release();
    this.#code = 0;
    return this.#taken();
  }

  #char(char: string): void {
    if (this.#held !== '' && this.#takes(char)) return;
    if (char === TICK) this.#ticks++;
    else this.#endTicks();
    // Code in a line does not go on in the next one.
    if (char === '\n' && this.#code < 3) this.#code = 0;
    const opens = char === ' ' || char === '[' || char === '【';
    if (opens && this.#code === 0 && this.#ticks === 0) this.#held = char;
    else this.#text += char;
  }

  /** Whether the character belongs to what is held; else nothing is held any more. */
  #takes(char: string): boolean {
    const held = this.#held;
    const longer = held + char;
    const last = held.at(-1);
    if (last === ']' || last === '】') {
      // `[1](address)` is a link.
      if (char === '(' || !this.#cite()) this.#release();
      return false;
    }
    const isOpened = held === ' ' && (char === '[' || char === '【');
    const goesOn =
      BEGINNING.test(longer) || MARKER.test(longer) || WIDE_BEGINNING.test(longer) || WIDE_MARKER.test(longer);
    if (isOpened || (goesOn && longer.length <= MAX_MARKER_CHARS)) {
      this.#held = longer;
      return true;
    }
    this.#release();
    return false;
  }

  /** Whether what is held is a citation, which is then told. */
  #cite(): boolean {
    const [, numbers] = MARKER.exec(this.#held) ?? WIDE_MARKER.exec(this.#held) ?? [];
    const cites = [...new Set(numbers?.split(',').map(Number))].filter((number) => this.#isKnown(number));
    if (cites.length === 0) return false;
    this.#held = '';
    this.#flush();
    this.#segments.push({ cites });
    return true;
  }

  #release(): void {
    this.#text += this.#held;
    this.#held = '';
  }

  #endTicks(): void {
    const ticks = this.#ticks;
    this.#ticks = 0;
    if (ticks === 0) return;
    if (this.#code === 0) this.#code = ticks;
    else if (ticks === this.#code || (this.#code >= 3 && ticks > this.#code)) this.#code = 0;
  }

  #flush(): void {
    if (this.#text !== '') this.#segments.push({ text: this.#text });
    this.#text = '';
  }

  #taken(): Segment[] {
    this.#flush();
    const segments = this.#segments;
    this.#segments = [];
    return segments;
  }
}
