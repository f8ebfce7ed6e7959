// Assigns sequences of a context to generations: the one that is named, else the idle one that shares the longest prefix with
// the prompt, the least recently used of equals. Generations without one are queued.
import type { LlamaSequence, Token } from './binding.ts';

export interface PooledSequence {
  readonly id: number;
  readonly sequence: LlamaSequence;
}

interface Place extends PooledSequence {
  isBusy: boolean;
  /** Rank of its last use. */
  used: number;
}

interface Waiting {
  /** -1: any. */
  readonly slotId: number;
  /** Null when nothing may be reused. */
  readonly prompt: Token[] | null;
  readonly take: (slot: PooledSequence) => void;
}

/**
 * The least part of a prompt that counts as shared, as in llama.cpp's server: for a few common words no slot is to lose
 * the conversation it holds.
 */
const LEAST_SHARE = 0.1;

/** The beginning-of-sequence token alone is no prefix. */
const LEAST_SHARED_TOKENS = 2;

export class SequencePool {
  readonly #places: readonly Place[];
  readonly #queue: Waiting[] = [];
  #uses = 0;
  #onIdle: (() => void) | undefined;

  constructor(sequences: readonly LlamaSequence[]) {
    this.#places = sequences.map((sequence, id) => ({ id, sequence, isBusy: false, used: 0 }));
  }

  get waiting(): number {
    return this.#queue.length;
  }

  /** Id, state and tokens of each. */
  list(): { id: number; isBusy: boolean; tokens: number }[] {
    return this.#places.map(({ id, isBusy, sequence }) => ({ id, isBusy, tokens: sequence.nextTokenIndex }));
  }

  /** Resolves when no sequence is in use and no generation is queued. */
  idle(): Promise<void> {
    return new Promise((resolve) => {
      this.#onIdle = resolve;
      this.#tellIdle();
    });
  }

  /** Resolves with a sequence for exclusive use until `give`; with null when `signal` is aborted before. */
  take(slotId: number, prompt: Token[] | null, signal: AbortSignal): Promise<PooledSequence | null> {
    return new Promise((resolve) => {
      const leave = (): void => {
        this.#queue.splice(this.#queue.indexOf(waiting), 1);
        resolve(null);
        this.#tellIdle();
      };
      const take = (slot: PooledSequence): void => {
        signal.removeEventListener('abort', leave);
        resolve(slot);
      };
      const waiting: Waiting = { slotId, prompt, take };
      signal.addEventListener('abort', leave, { once: true });
      this.#queue.push(waiting);
      this.#serve();
    });
  }

  give(slot: PooledSequence): void {
    const place = this.#places[slot.id]!;
    place.isBusy = false;
    place.used = ++this.#uses;
    this.#serve();
    this.#tellIdle();
  }

  #tellIdle(): void {
    if (this.#queue.length === 0 && this.#places.every(({ isBusy }) => !isBusy)) this.#onIdle?.();
  }

  #serve(): void {
    for (let at = 0; at < this.#queue.length;) {
      const waiting = this.#queue[at]!;
      const place = this.#pick(waiting);
      if (place === undefined) at++;
      else {
        this.#queue.splice(at, 1);
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
