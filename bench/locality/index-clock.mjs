// How well the block index predicts a true cache: blocks in LRU order, the last ones of a prompt freed first. `node index-clock.mjs` prints
// the share of prompt bytes that was predicted wrongly, for the index as it is, alone and with other gateways to tell, and for two other rules
// of its clock. With others, an entry renews only what is older than a part of the capacity, and `told` is the share of the blocks that it
// tells them. `../../dist` must be built. Sizes are in units of 512 bytes; a block is a number, and has four units when it is divisible by `LONG`.

import { BlockIndex, createBlockIndexMemory } from '../../dist/src/routing/block-index.js';
import { createPlacementMemory, PlacementRing } from '../../dist/src/routing/placement-ring.js';
import { cacheBlocks, generate } from './traces.mjs';

const SERVERS = 8;
/** Of the blocks of a workload, all caches together have room for these shares. */
const SHARES = [0.25, 0.6];
/** Part of the requests at the beginning that are not counted: the caches fill. */
const WARM_UP = 0.2;
/** One request in so many goes to another server than the rest of its conversation. */
const ELSEWHERE = 6;
/** Units of a block of 512 tokens, at four bytes a token. Blocks of the index are shorter up to the block `SHORT`. */
const UNITS = 4;
const SHORT = 32;
const LONG = 8;

const unitsOf = (block) => (block % LONG === 0 ? UNITS : 1);
const sumOf = (blocks) => blocks.reduce((sum, block) => sum + unitsOf(block), 0);

class Cache {
  #blocks = new Set();
  #units = 0;
  #capacity;

  constructor(capacity) {
    this.#capacity = capacity;
  }

  matched(blocks) {
    let at = 0;
    while (at < blocks.length && this.#blocks.has(blocks[at])) at++;
    return at;
  }

  enter(blocks) {
    for (const block of blocks.toReversed()) {
      if (!this.#blocks.delete(block)) this.#units += unitsOf(block);
      this.#blocks.add(block);
    }
    for (const block of this.#blocks) {
      if (this.#units <= this.#capacity) break;
      this.#blocks.delete(block);
      this.#units -= unitsOf(block);
    }
  }
}

/** Stamps of a clock that advances by `advance(blocks, matched)` at each prompt. */
class Stamps {
  #stamps = new Map();
  #clock = 0;
  #capacity;
  #advance;

  constructor(capacity, advance) {
    this.#capacity = capacity;
    this.#advance = advance;
  }

  matched(blocks) {
    let at = 0;
    while (at < blocks.length && this.#clock - (this.#stamps.get(blocks[at]) ?? -Infinity) < this.#capacity) at++;
    return at;
  }

  enter(blocks) {
    this.#clock += this.#advance(blocks, this.matched(blocks));
    let before = 0;
    for (const block of blocks) {
      this.#stamps.set(block, this.#clock - before);
      before += unitsOf(block);
    }
  }
}

/** The index of the gateway, with one member. */
class Index {
  #index;
  #ring = null;
  #told = { entered: (_member, _advance, _first, _hashes, count) => void (told += count) };

  constructor(capacity, isShared) {
    if (isShared) {
      this.#ring = new PlacementRing(createPlacementMemory(1, 1), 0);
      this.#ring.on = true;
    }
    this.#index = new BlockIndex(createBlockIndexMemory(1 << 24, 1), this.#ring);
    this.#index.setCapacity(0, capacity * 512);
  }

  matched(blocks) {
    return this.#index.matched(0, hashesOf(blocks), blocks.length);
  }

  enter(blocks) {
    this.#index.enter(0, hashesOf(blocks), blocks.length);
    entered += blocks.length;
    this.#ring?.read(this.#told, () => false);
  }
}

/** Blocks that the index with other gateways was given, and those that it told. */
let entered = 0;
let told = 0;

const RULES = {
  misses: (capacity) => new Stamps(capacity, (blocks, matched) => sumOf(blocks.slice(matched))),
  'all blocks': (capacity) => new Stamps(capacity, sumOf),
  'misses, and hits by age': (capacity) => new Index(capacity, false),
  'the same, shared': (capacity) => new Index(capacity, true),
};

function hashesOf(blocks) {
  const hashes = new Int32Array(2 * blocks.length);
  blocks.forEach((block, at) => {
    hashes[2 * at] = Math.imul(block + 1, 0x9e3779b1) >> 4;
    hashes[2 * at + 1] = Math.imul(block + 1, 0x2c1b3c6d);
  });
  return hashes;
}

/** The prompts of each server, as lists of blocks. */
function assign(requests) {
  const lists = Array.from({ length: SERVERS }, () => []);
  const homes = new Map();
  requests.forEach(({ blocks: ids, conversation }, at) => {
    if (!homes.has(conversation)) homes.set(conversation, homes.size);
    const blocks = ids.flatMap((id, place) =>
      place < SHORT ? [1, 2, 3, 4].map((part) => id * LONG + part) : [id * LONG],
    );
    lists[(homes.get(conversation) + (at % ELSEWHERE === 0 ? at : 0)) % SERVERS].push(blocks);
  });
  return lists;
}

function errorOf(lists, capacity, makeIndex) {
  let [wrong, total] = [0, 0];
  for (const list of lists) {
    const [index, cache] = [makeIndex(capacity), new Cache(capacity)];
    list.forEach((blocks, at) => {
      if (at >= list.length * WARM_UP) {
        const [predicted, held] = [index.matched(blocks), cache.matched(blocks)];
        wrong += sumOf(blocks.slice(Math.min(predicted, held), Math.max(predicted, held)));
        total += sumOf(blocks);
      }
      index.enter(blocks);
      cache.enter(blocks);
    });
  }
  return wrong / total;
}

console.log(['workload', 'caches', ...Object.keys(RULES), 'told'].join(' | '));
for (const workload of ['chat', 'agents', 'documents', 'tenants', 'hot']) {
  const requests = generate(workload);
  const lists = assign(requests);
  for (const share of SHARES) {
    const capacity = cacheBlocks(requests, share, SERVERS) * UNITS;
    const errors = Object.values(RULES).map((makeIndex) => {
      entered = 0;
      told = 0;
      return errorOf(lists, capacity, makeIndex);
    });
    console.log(
      [workload, share, ...[...errors, told / entered].map((part) => `${(100 * part).toFixed(1)} %`)].join(' | '),
    );
  }
}
