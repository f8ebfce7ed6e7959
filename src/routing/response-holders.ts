// Which CRN has a response of the responses dialect, so that a request that continues it by `previous_response_id` goes there: only
// that CRN knows it. A table of fixed size in memory that all threads of the process share; the newest response of a slot wins, so
// the older ones are forgotten first come, first gone. Nothing is locked: a wrong entry costs one answer that names no such response.

import type { BoardMemory } from './board.ts';
import { hashText, type Member, mix } from './model-table.ts';
import type { PlacementRing } from './placement-ring.ts';

/** Responses that are remembered at most; a power of two. */
const SLOTS = 16 * 1024;
/** Words of a slot: the hash of the id, and the hash of the CRN's URL. */
const SLOT_WORDS = 2;

export const RESPONSE_HOLDERS_BYTES: number = SLOTS * SLOT_WORDS * 4;

export class ResponseHolders {
  readonly #words: Uint32Array;
  readonly #ring: PlacementRing | null;

  /** `ring`: responses are noted there for other gateways while it is on. */
  constructor({ responses }: Pick<BoardMemory, 'responses'>, ring: PlacementRing | null = null) {
    this.#words = new Uint32Array(responses);
    this.#ring = ring;
  }

  /** The CRN of `member` has the response. */
  note(responseId: string, { hash }: Member): void {
    this.#tell(hashText(responseId), hash);
  }

  /** The response is deleted: no CRN is asked to continue it any more. */
  forget(responseId: string): void {
    this.#tell(hashText(responseId), 0);
  }

  #tell(tag: number, hash: number): void {
    this.learn(tag, hash);
    if (this.#ring !== null && this.#ring.on) this.#ring.response(tag, hash);
  }

  /** The CRN with this `Member.hash` (0: none) has the response whose id has the hash `tag`: so another gateway says. */
  learn(tag: number, hash: number): void {
    const at = slotOf(tag);
    this.#words[at] = tag;
    this.#words[at + 1] = hash;
  }

  /** `Member.hash` of the CRN that has the response; 0 when it is not known. */
  find(responseId: string): number {
    const tag = hashText(responseId);
    const at = slotOf(tag);
    return this.#words[at] === tag ? (this.#words[at + 1] as number) : 0;
  }
}

function slotOf(tag: number): number {
  return (mix(tag) & (SLOTS - 1)) * SLOT_WORDS;
}
