// Real threads that enter and read few lines of one index and are killed wherever they are: nothing is found that was not entered, or
// was cleared, and afterwards every line can be used.

import { Worker } from 'node:worker_threads';
import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { BlockIndex, type BlockIndexMemory } from '../../src/routing/block-index.ts';
import { type BlockIndexThreadData, MEMBERS, promptOf, PROMPTS, WORDS } from './block-index-thread-child.ts';

const THREADS = 3;
const KILLS = 40;
/** So few that threads meet: at most 24 blocks of 8 slots each are needed in a round. */
const LINES = 4;

const wait = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

t.test('threads that are killed leave nothing behind that was not there', async (t) => {
  const memory: BlockIndexMemory = {
    members: MEMBERS,
    lines: new SharedArrayBuffer(48 + LINES * 64),
    clocks: new SharedArrayBuffer(MEMBERS * 8),
  };
  const index = new BlockIndex(memory);
  for (let member = 0; member < MEMBERS; member++) index.setCapacity(member, 100 * 512);
  const words = new SharedArrayBuffer((WORDS.seen + THREADS) * 4);
  const shared = new Int32Array(words);
  const random = createSeededRandom(11);
  let seed = 0;
  const start = (thread: number): Worker => {
    const workerData: BlockIndexThreadData = { memory, words, thread, seed: ++seed };
    return new Worker(new URL('block-index-thread-child.js', import.meta.url), { workerData });
  };
  const threads = Array.from({ length: THREADS }, (_, thread) => start(thread));
  t.teardown(() => Promise.all(threads.map((worker) => worker.terminate())));
  for (let round = 1; round <= KILLS; round++) {
    // All threads use the prompts of this round now; then those of earlier ones are cleared.
    Atomics.store(shared, WORDS.round, round);
    while (shared.subarray(WORDS.seen).some((seen) => seen < round)) await wait(1);
    for (let member = 0; member < MEMBERS; member++) index.clear(member);
    Atomics.store(shared, WORDS.cleared, round);
    const entered = Atomics.load(shared, WORDS.entered);
    while (Atomics.load(shared, WORDS.entered) < entered + 1000 + random() * 1000) await wait(1);
    const killed = Math.floor(random() * THREADS);
    await threads[killed]?.terminate();
    threads[killed] = start(killed);
  }
  await Promise.all(threads.map((worker) => worker.terminate()));
  const count = (word: number): number => Atomics.load(shared, word);
  t.ok(count(WORDS.entered) > KILLS * 1000 && count(WORDS.found) > KILLS, 'blocks were entered and found');
  t.equal(count(WORDS.invented), 0, 'nothing that was never entered for the member');
  t.equal(count(WORDS.returned), 0, 'nothing that was cleared');
  for (let member = 0; member < MEMBERS; member++) {
    for (let prompt = 0; prompt < PROMPTS; prompt++) {
      for (let other = 0; other < MEMBERS; other++) index.clear(other);
      const hashes = promptOf(KILLS + 1, member, prompt);
      index.enter(member, hashes, hashes.length / 2);
      t.equal(index.matched(member, hashes, hashes.length / 2), hashes.length / 2, 'and every line can be used');
    }
  }
});
