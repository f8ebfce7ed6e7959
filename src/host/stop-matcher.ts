// Finds stop strings in text that arrives token by token, and holds back what may still become one. Pieces may end within a
// character. The result does not depend on how the text was cut into pieces.
/** What may be sent after a piece. */
export interface Emission {
  /** Text that is no part of a stop string, whatever comes next. */
  readonly text: string;
  /** The stop string that matched, or null. After it nothing more is emitted. */
  readonly stop: string | null;
}

const NOTHING: Emission = { text: '', stop: null };

/**
 * Watches one text. The stop string that is complete first wins; of two that end together, the longer one. The text before it
 * is emitted, it and what follows are not. Empty stop strings are ignored.
 */
export class StopMatcher {
  /** Stop strings by their first and by their last character, the longest first. */
  readonly #byFirst: ReadonlyMap<number, readonly string[]>;
  readonly #byLast: ReadonlyMap<number, readonly string[]>;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #longest: number;
  /** Whether the decoder may hold the first bytes of a character. */
  #isPartial = false;
  #held = '';
  #isStopped = false;

  constructor(stops: readonly string[]) {
    const longestFirst = stops.filter((stop) => stop !== '').toSorted((a, b) => b.length - a.length);
    this.#byFirst = Map.groupBy(longestFirst, (stop) => stop.charCodeAt(0));
    this.#byLast = Map.groupBy(longestFirst, (stop) => stop.charCodeAt(stop.length - 1));
    this.#longest = longestFirst[0]?.length ?? 0;
  }

  /** Takes the next piece: whole characters as a string, or any bytes. */
  push(piece: string | Uint8Array): Emission {
    if (this.#isStopped) return NOTHING;
    const text = this.#decode(piece);
    if (this.#longest === 0) return text === '' ? NOTHING : { text, stop: null };
    return text === '' ? NOTHING : this.#search(this.#held + text, this.#held.length);
  }

  /** The text has ended: returns what was held back. A character that never became whole is one U+FFFD. */
  flush(): string {
    if (this.#isStopped) return '';
    const rest = this.#isPartial ? this.push('') : NOTHING;
    const text = rest.text + this.#held;
    this.#held = '';
    return text;
  }

  #decode(piece: string | Uint8Array): string {
    if (typeof piece !== 'string') {
      this.#isPartial = true;
      return this.#decoder.decode(piece, { stream: true });
    }
    if (!this.#isPartial) return piece;
    this.#isPartial = false;
    return this.#decoder.decode() + piece;
  }

  /** No stop string is within the first `known` characters. */
  #search(text: string, known: number): Emission {
    for (let end = known + 1; end <= text.length; end++) {
      const ending = this.#byLast.get(text.charCodeAt(end - 1)) ?? [];
      const stop = ending.find((each) => each.length <= end && text.startsWith(each, end - each.length));
      if (stop === undefined) continue;
      this.#isStopped = true;
      this.#held = '';
      return { text: text.slice(0, end - stop.length), stop };
    }
    const safe = this.#safeLength(text);
    this.#held = text.slice(safe);
    return safe === 0 ? NOTHING : { text: text.slice(0, safe), stop: null };
  }

  /** Length of the text before the first place where a stop string may have begun. */
  #safeLength(text: string): number {
    for (let at = Math.max(0, text.length - this.#longest + 1); at < text.length; at++) {
      const rest = text.slice(at);
      const beginning = this.#byFirst.get(rest.charCodeAt(0)) ?? [];
      if (beginning.some((stop) => stop.length > rest.length && stop.startsWith(rest))) return at;
    }
    return text.length;
  }
}
