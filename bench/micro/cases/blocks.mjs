// Cases of the block index: what members hold of a prompt, and entering it for one of them. The index has 64 MiB and is full, the
// prompts are too many for the caches of the processor. Blocks: 2 (a body of 1 KB) and 200 (one of 200 KB).

const INDEX_BYTES = 64 << 20;
const MEMBERS = 64;
const PROMPTS = 4096;
const BLOCKS = 200;
/** Blocks of a system prompt that every member holds. */
const SHARED = 20;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { BlockIndex, createBlockIndexMemory } = await load('src/routing/block-index.js');
  const index = new BlockIndex(createBlockIndexMemory(INDEX_BYTES, MEMBERS));
  let state = 1;
  const draw = () => {
    state = Math.imul(state, 0x915f77f5) + 1;
    return Math.imul(state ^ (state >>> 15), 0x2c1b3c6d);
  };
  const fill = (hashes, from = 0) => {
    for (let at = 2 * from; at < hashes.length; at++) hashes[at] = draw();
    return hashes;
  };
  const scratch = new Int32Array(2 * BLOCKS);
  for (let member = 0; member < MEMBERS; member++) index.setCapacity(member, 2 ** 30);
  for (let entered = 0; entered < 1.2 * (INDEX_BYTES / 8); entered += BLOCKS) {
    index.enter((entered / BLOCKS) % MEMBERS, fill(scratch), BLOCKS);
  }
  const system = fill(new Int32Array(2 * SHARED));
  for (let member = 0; member < MEMBERS; member++) index.enter(member, system, SHARED);
  const prompts = Array.from({ length: PROMPTS }, () => {
    const hashes = fill(new Int32Array(2 * BLOCKS), SHARED);
    hashes.set(system);
    return hashes;
  });

  let request = 0;
  const choose = (hashes, count, members) => {
    let best = 0;
    let most = -1;
    for (let member = 0; member < members; member++) {
      const matched = index.matched(member, hashes, count);
      if (matched <= most) continue;
      most = matched;
      best = member;
    }
    return best;
  };
  /** Conversations that go on: their member holds all blocks but the last four. */
  const known = (count, members) => {
    const held = Math.max(count - 4, 0);
    for (let at = 0; at < PROMPTS; at++) index.enter(at % members, prompts[at], held);
    return () => {
      const at = request++ % PROMPTS;
      const hashes = prompts[at];
      index.enter(choose(hashes, count, members), hashes, count);
    };
  };
  /** New prompts, of which no member holds a block. */
  const unknown = (count, members) => {
    const hashes = new Int32Array(2 * count);
    return () => {
      fill(hashes);
      choose(hashes, count, members);
      index.enter(request++ % members, hashes, count);
    };
  };
  const made = new Int32Array(2 * BLOCKS);
  return {
    'hashes of 200 blocks, to subtract from new ones': () => fill(made),
    'new, 2 blocks, 8 members': unknown(2, 8),
    'new, 2 blocks, 64 members': unknown(2, 64),
    'new, 200 blocks, 8 members': unknown(200, 8),
    'new, 200 blocks, 64 members': unknown(200, 64),
    'known, 2 blocks, 8 members': known(2, 8),
    'known, 2 blocks, 64 members': known(2, 64),
    'known, 200 blocks, 8 members': known(200, 8),
    'known, 200 blocks, 64 members': known(200, 64),
  };
}
