// A thread that enters, reads and forgets prompts without pause until it is killed; started by `block-index-threads.slow.test.ts`. It
// counts what it reads and what it must not find.

import { workerData } from 'node:worker_threads';
import { createSeededRandom } from '../../src/actor/clock.ts';
import { BlockIndex, type BlockIndexMemory } from '../../src/routing/block-index.ts';

export interface BlockIndexThreadData {
  readonly memory: BlockIndexMemory;
  /** See `WORDS`. */
  readonly words: SharedArrayBuffer;
  readonly thread: number;
  readonly seed: number;
}

/**
 * Words that the threads share: the present round; rounds that are cleared, all below this; calls of `enter`; readings that found
 * blocks; blocks found that were never entered; blocks found that were cleared; then for each thread the round it has seen last.
 */
export const WORDS = { round: 0, cleared: 1, entered: 2, found: 3, invented: 4, returned: 5, seen: 6 } as const;

export const MEMBERS = 4;
/** Prompts of each member and round. */
export const PROMPTS = 6;
const MOST_BLOCKS = 6;

/**
 * The blocks of a prompt, the same in every thread. No two blocks have the same 20 bits that the index tells them apart by within
 * a line, so that whatever is found wrongly is due to the threads.
 */
export function promptOf(round: number, member: number, prompt: number): Int32Array {
  const id = ((round * MEMBERS + member) * PROMPTS + prompt) * MOST_BLOCKS;
  const hashes = new Int32Array(2 * (1 + ((id % 7) % MOST_BLOCKS)));
  for (let word = 0; word < hashes.length; word += 2) {
    hashes[word] = Math.imul(id + word, 0x2c1b3c6d) >> 7;
    hashes[word + 1] = Math.imul(id + word / 2 + 1, 0x9e3779b1);
  }
  return hashes;
}

function run({ memory, seed, thread, words }: BlockIndexThreadData): void {
  const index = new BlockIndex(memory);
  const shared = new Int32Array(words);
  const random = createSeededRandom(seed);
  const draw = (below: number): number => Math.floor(random() * below);
  const held = (member: number, hashes: Int32Array): boolean => index.matched(member, hashes, hashes.length / 2) > 0;
  for (;;) {
    const round = Atomics.load(shared, WORDS.round);
    Atomics.store(shared, WORDS.seen + thread, round);
    const member = draw(MEMBERS);
    const hashes = promptOf(round, member, draw(PROMPTS));
    const choice = random();
    if (choice < 0.55) {
      const enteredAt = index.enter(member, hashes, hashes.length / 2);
      if (choice < 0.05) index.withdraw(member, hashes, 0, hashes.length / 2, enteredAt);
      Atomics.add(shared, WORDS.entered, 1);
    } else if (choice < 0.8) {
      if (held(member, hashes)) Atomics.add(shared, WORDS.found, 1);
      if (held((member + 1) % MEMBERS, hashes)) Atomics.add(shared, WORDS.invented, 1);
    } else {
      const cleared = Atomics.load(shared, WORDS.cleared);
      if (cleared === 0) continue;
      const old = promptOf(draw(cleared), member, draw(PROMPTS));
      if (held(member, old)) Atomics.add(shared, WORDS.returned, 1);
    }
  }
}

// The test imports this file for its constants.
if (workerData !== null) run(workerData as BlockIndexThreadData);
