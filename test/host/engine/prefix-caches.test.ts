// The two prefix caches against references that are slow and plain: whole prefixes as text, lists sorted by age.
import { BlockCache } from '../../../src/host/engine/block-cache.ts';
import type { CacheAllocation, PrefixCache } from '../../../src/host/engine/prefix-cache.ts';
import { SlotCache } from '../../../src/host/engine/slot-cache.ts';
import { createDice } from './jobs.ts';
import t from 'tap';

const BLOCK = 4;

/** Blocks as a list of named prefixes by age, and counts of holders. */
class PlainBlocks {
  readonly holders = new Map<string, number>();
  /** Names nobody holds, oldest first. */
  idle: string[] = [];
  nameless: number;

  constructor(blocks: number) {
    this.nameless = blocks;
  }

  found(tokens: Int32Array): string[] {
    const names: string[] = [];
    for (let end = BLOCK; end < tokens.length; end += BLOCK) {
      const name = tokens.subarray(0, end).join();
      if (!this.holders.has(name) && !this.idle.includes(name)) break;
      names.push(name);
    }
    return names;
  }

  admit(tokens: Int32Array, isCached: boolean): { held: string[]; own: number } | null {
    const names = isCached ? this.found(tokens) : [];
    const own = Math.ceil(tokens.length / BLOCK) - names.length;
    const others = this.idle.filter((name) => !names.includes(name));
    if (own > this.nameless + others.length) return null;
    this.idle = others;
    for (const name of names) this.holders.set(name, (this.holders.get(name) ?? 0) + 1);
    const fresh = Math.min(own, this.nameless);
    this.nameless -= fresh;
    this.idle.splice(0, own - fresh);
    return { held: names, own };
  }

  /** All tokens are computed: names what nobody has named yet, then lets go, the end first. */
  release(tokens: Int32Array, isCached: boolean, { held, own }: { held: string[]; own: number }): void {
    const mine: (string | null)[] = [...held];
    for (let at = 0; at < own; at++) {
      const end = (held.length + at + 1) * BLOCK;
      const name = tokens.subarray(0, end).join();
      const isNew = isCached && end <= tokens.length && !this.holders.has(name) && !this.idle.includes(name);
      if (isNew) this.holders.set(name, 1);
      mine.push(isNew ? name : null);
    }
    for (const name of mine.reverse()) {
      const left = name === null ? 0 : this.holders.get(name)! - 1;
      if (name === null) this.nameless++;
      else if (left > 0) this.holders.set(name, left);
      else {
        this.holders.delete(name);
        this.idle.push(name);
      }
    }
  }
}

function randomPrompt(dice: (below: number) => number): Int32Array {
  const family = dice(3) * 100;
  return Int32Array.from({ length: 1 + dice(40) }, (_, at) => (at < 14 ? family + at : dice(2)));
}

t.test('shared blocks find, hold and forget what a plain list would', (t) => {
  for (let seed = 1; seed <= 20; seed++) {
    const dice = createDice(seed);
    const blocks = new BlockCache({ blocks: 30, blockTokens: BLOCK, sequences: 100 });
    const plain = new PlainBlocks(30);
    type Held = {
      allocation: CacheAllocation;
      own: { held: string[]; own: number };
      tokens: Int32Array;
      isCached: boolean;
    };
    const running: Held[] = [];
    for (let event = 0; event < 300; event++) {
      if (running.length > 0 && dice(2) === 0) {
        const [ended] = running.splice(dice(running.length), 1);
        blocks.release(ended!.allocation, ended!.tokens, ended!.tokens.length);
        plain.release(ended!.tokens, ended!.isCached, ended!.own);
      } else {
        const tokens = randomPrompt(dice);
        const isCached = dice(5) > 0;
        const found = blocks.cachedTokens(tokens, tokens.length);
        const allocation = blocks.admit(tokens, tokens.length, isCached, -1);
        if (isCached && allocation !== null && allocation.cachedTokens !== found)
          return t.fail(`seed ${seed}, event ${event}: ${found} cached tokens were foretold`);
        const own = plain.admit(tokens, isCached);
        if ((allocation === null) !== (own === null))
          return t.fail(`seed ${seed}, event ${event}: admitted by one only`);
        if (allocation === null || own === null) continue;
        if (allocation.cachedTokens !== own.held.length * BLOCK)
          return t.fail(`seed ${seed}, event ${event}: cached tokens`);
        running.push({ allocation, own, tokens, isCached });
      }
      if (blocks.idleTokens !== plain.idle.length * BLOCK) return t.fail(`seed ${seed}, event ${event}: idle tokens`);
    }
    for (const { allocation, tokens } of running) blocks.release(allocation, tokens, tokens.length);
    t.equal(blocks.usedTokens, 0);
    blocks.clear();
    t.equal(blocks.idleTokens, 0);
  }
  t.end();
});

t.test('a block is shared while another sequence still holds it', (t) => {
  const blocks = new BlockCache({ blocks: 4, blockTokens: 4, sequences: 4 });
  const tokens = Int32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9);
  const first = blocks.admit(tokens, 9, true, -1)!;
  t.equal(blocks.usedTokens, 12);
  t.equal(blocks.admit(tokens, 9, true, -1), null, 'nothing is computed yet');
  blocks.commit(first, tokens, 9);
  const second = blocks.admit(tokens, 9, true, -1)!;
  t.equal(second.cachedTokens, 8);
  t.equal(blocks.usedTokens, 16);
  t.notOk(blocks.grow(second), 'memory is exhausted');
  blocks.release(first, tokens, 9);
  t.ok(blocks.grow(second));
  blocks.release(second, tokens, 9);
  t.same([blocks.usedTokens, blocks.idleTokens], [0, 8]);
  t.end();
});

t.test('tokens after a shift are not found in the cache', (t) => {
  const blocks = new BlockCache({ blocks: 8, blockTokens: 4, sequences: 4 });
  const tokens = Int32Array.from({ length: 16 }, (_, at) => at);
  const allocation = blocks.admit(tokens, 16, true, -1)!;
  blocks.commit(allocation, tokens, 8);
  blocks.shift(allocation, 4);
  t.equal(allocation.roomTokens, 4);
  t.ok(blocks.grow(allocation));
  const shifted = Int32Array.of(0, 1, 2, 3, 10, 11, 12, 13, 14);
  blocks.release(allocation, shifted, 8);
  t.equal(blocks.admit(shifted, 9, true, -1)?.cachedTokens, 4);
  t.end();
});

t.test('slots reuse what a plain comparison with each of them says', (t) => {
  for (const choice of ['similarity', 'least-recent'] as const) {
    const dice = createDice(5);
    const slots: PrefixCache = new SlotCache({ slots: 4, contextTokens: 64, capacityTokens: 256, choice });
    const held: number[][] = [[], [], [], []];
    const used = [0, 0, 0, 0];
    const running = new Map<number, { allocation: CacheAllocation; tokens: Int32Array; isCached: boolean }>();
    for (let event = 1; event < 2000; event++) {
      const tokens = randomPrompt(dice);
      const isCached = dice(5) > 0;
      const wanted = dice(8) - 4;
      const allocation = slots.admit(tokens, tokens.length, isCached, wanted);
      const idle = [0, 1, 2, 3].filter((slotId) => !running.has(slotId));
      if ((allocation === null) !== (idle.length === 0)) return t.fail('a slot is free or not');
      if (allocation !== null) {
        const commonWith = (slotId: number): number => {
          const differs = held[slotId]!.findIndex((token, at) => token !== tokens[at]);
          return differs === -1 ? held[slotId]!.length : differs;
        };
        const byAge = idle.toSorted((a, b) => used[a]! - used[b]!);
        const [closest] = idle.toSorted((a, b) => commonWith(b) - commonWith(a) || a - b);
        const isClose = isCached && choice === 'similarity' && commonWith(closest!) > tokens.length / 10;
        const expected = idle.includes(wanted) ? wanted : isClose ? closest : byAge[0];
        if (allocation.slotId !== expected) return t.fail(`event ${event}: slot ${allocation.slotId}, not ${expected}`);
        const cached = isCached ? Math.min(commonWith(expected), tokens.length - 1) : 0;
        if (allocation.cachedTokens !== cached)
          return t.fail(`event ${event}: ${allocation.cachedTokens} cached, not ${cached}`);
        used[allocation.slotId] = event;
        running.set(allocation.slotId, { allocation, tokens, isCached });
      }
      const [ended] = [...running.keys()].filter(() => dice(3) === 0);
      if (ended === undefined) continue;
      const { allocation: done, tokens: kept, isCached: keeps } = running.get(ended)!;
      slots.release(done, kept, kept.length);
      running.delete(ended);
      used[ended] = event + 0.5;
      held[ended] = keeps ? [...kept] : [];
    }
    for (const { allocation, tokens } of running.values()) slots.release(allocation, tokens, tokens.length);
    t.equal(slots.usedTokens, 0);
    slots.clear();
    t.equal(slots.idleTokens, 0);
  }
  t.end();
});

t.test('idle slots give up what they hold, the oldest first, when a running one needs the room', (t) => {
  const slots = new SlotCache({ slots: 3, contextTokens: 96, capacityTokens: 128, choice: 'similarity' });
  const prompt = (first: number): Int32Array => Int32Array.from({ length: 32 }, (_, at) => first + at);
  for (const first of [100, 200]) slots.release(slots.admit(prompt(first), 32, true, -1)!, prompt(first), 32);
  const allocation = slots.admit(prompt(300), 32, true, -1)!;
  t.same([slots.usedTokens, slots.idleTokens], [32, 64]);
  t.ok(slots.grow(allocation));
  t.same([slots.usedTokens, slots.idleTokens], [64, 64]);
  t.ok(slots.grow(allocation));
  t.same([slots.usedTokens, slots.idleTokens], [96, 32]);
  t.notOk(slots.grow(allocation), 'the context of a slot is its limit');
  t.equal(slots.admit(prompt(200), 32, true, -1)?.cachedTokens, 31);
  t.end();
});
