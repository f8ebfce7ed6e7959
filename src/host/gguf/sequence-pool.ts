// Which generation gets which sequence of a context: the one it names, else the idle one that shares most with its prompt,
// the least recently used of equals; who finds none waits in line. Used by gguf-engine.ts.
import type { Sequence, Token } from './binding.ts';

export interface Slot {
  readonly id: number;
  readonly sequence: Sequence;
}

interface Place extends Slot {
  isBusy: boolean;
  /** Rank of its last use. */
  used: number;
}

interface Waiting {
  /** -1: any. */
  readonly slotId: number;
  /** Null when nothing may be reused. */
  readonly prompt: Token[] | null;
  readonly take: (slot: Slot) => void;
}

/**
 * The least part of a prompt that counts as shared, as in llama.cpp's server: for a few common words no slot is to lose
 * the conversation it holds.
 */
const LEAST_SHARE = 0.1;

/** The beginning-of-sequence token alone is no prefix. */
const LEAST_SHARED_TOKENS = 2;

export class Slots {
  readonly #places: readonly Place[];
  readonly #line: Waiting[] = [];
  #uses = 0;
  #onIdle: (() => void) | undefined;

  constructor(sequences: readonly Sequence[]) {
    this.#places = sequences.map((sequence, id) => ({ id, sequence, isBusy: false, used: 0 }));
  }

  get waiting(): number {
    return this.#line.length;
  }

  /** Id, state and tokens of each. */
  list(): { id: number; isBusy: boolean; tokens: number }[] {
    return this.#places.map(({ id, isBusy, sequence }) => ({ id, isBusy, tokens: sequence.nextTokenIndex }));
  }

  /** Resolves when nobody has a slot or waits for one. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      this.#tellIdle();
    });
  }

  /** Resolves with a slot that is the caller's until it gives it back. */
  take(slotId: number, prompt: Token[] | null): Promise<Slot> {
    return new Promise((take) => {
      this.#line.push({ slotId, prompt, take });
      this.#serve();
    });
  }

  give(slot: Slot): void {
    const place = this.#places[slot.id]!;
    place.isBusy = false;
    place.used = ++this.#uses;
    this.#serve();
    this.#tellIdle();
  }

  #tellIdle(): void {
    if (this.#line.length === 0 && this.#places.every(({ isBusy }) => !isBusy)) this.#onIdle?.();
  }

  #serve(): void {
    for (let at = 0; at < this.#line.length;) {
      const waiting = this.#line[at]!;
      const place = this.#pick(waiting);
      if (place === undefined) at++;
      else {
        this.#line.splice(at, 1);
        place.isBusy = true;
        waiting.take(place);
      }
    }
  }

  #pick({ slotId, prompt }: Waiting): Place | undefined {
    const idle = this.#places.filter((place) => !place.isBusy && (slotId < 0 || place.id === slotId));
    const shared = (place: Place): number => {
      if (prompt === null) return 0;
      const tokens = place.sequence.compareContextTokens(prompt).firstDifferentIndex;
      return tokens < Math.max(LEAST_SHARED_TOKENS, LEAST_SHARE * prompt.length) ? 0 : tokens;
    };
    return idle
      .map((place) => ({ place, shared: shared(place) }))
      .sort((a, b) => b.shared - a.shared || a.place.used - b.place.used)[0]?.place;
  }
}
