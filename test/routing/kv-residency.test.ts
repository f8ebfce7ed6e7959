// What is known of a cache by its events: resident tokens, capacity, and the bounds of memory.
import t from 'tap';
import type { KvEvent } from '../../src/routing/kv-event-batch.ts';
import { KvResidency } from '../../src/routing/kv-residency.ts';
import { mix } from '../../src/routing/model-table.ts';

const BLOCK = 16;

function storedBlocks(from: number, count: number, more: Partial<KvEvent> = {}): KvEvent {
  const hashes = digests(from, count);
  return {
    type: 'stored',
    hashes,
    blockTokens: BLOCK,
    medium: 'device',
    group: 0,
    keepsPrefix: true,
    ...more,
  } as KvEvent;
}

function removedBlocks(from: number, count: number, more: Partial<KvEvent> = {}): KvEvent {
  return { type: 'removed', hashes: digests(from, count), medium: 'device', group: 0, ...more } as KvEvent;
}

function digests(from: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => mix(from + at) | 0);
}

/** A cache of so many blocks that evicts the oldest one for each new one. */
function churn(residency: KvResidency, blocks: number, from: number, count: number): void {
  for (let block = from; block < from + count; block++) {
    if (block >= blocks) residency.apply(removedBlocks(block - blocks, 1));
    residency.apply(storedBlocks(block, 1));
  }
}

t.test('counts the tokens of blocks that are stored and not removed', async (t) => {
  const residency = new KvResidency();
  residency.clear();
  residency.apply(storedBlocks(0, 10));
  t.equal(residency.residentTokens, 160);
  residency.apply(storedBlocks(5, 5));
  t.equal(residency.residentTokens, 160, 'a block that is stored twice counts once');
  residency.apply(removedBlocks(8, 4));
  t.equal(residency.residentTokens, 128, 'blocks that were never stored do not count');
  t.equal(residency.removedTokens, 32);
  residency.apply({ type: 'cleared' });
  t.equal(residency.residentTokens, 0);
});

t.test('a block counts until it has left every tier', async (t) => {
  const residency = new KvResidency();
  residency.clear();
  residency.apply(storedBlocks(0, 4));
  residency.apply(storedBlocks(0, 4, { medium: 'other', blockTokens: 0 } as Partial<KvEvent>));
  residency.apply(removedBlocks(0, 4));
  t.equal(residency.residentTokens, 64);
  t.equal(residency.capacityTokens, 0, 'leaving the accelerator is no eviction');
  residency.apply(removedBlocks(0, 1, { medium: 'other' } as Partial<KvEvent>));
  t.equal(residency.residentTokens, 48);
});

t.test('groups of sliding windows and state-space layers do not count', async (t) => {
  const residency = new KvResidency();
  residency.clear();
  residency.apply(storedBlocks(0, 4));
  residency.apply(storedBlocks(0, 4, { group: 1, keepsPrefix: false } as Partial<KvEvent>));
  residency.apply(removedBlocks(0, 3, { group: 1 } as Partial<KvEvent>));
  t.equal(residency.residentTokens, 64);
});

t.test('learns the capacity when blocks are evicted', async (t) => {
  const residency = new KvResidency();
  residency.clear();
  churn(residency, 100, 0, 100);
  t.equal(residency.capacityTokens, 0, 'nothing was evicted');
  churn(residency, 100, 100, 1);
  t.equal(residency.capacityTokens, 1600);
  churn(residency, 100, 101, 1000);
  t.equal(residency.capacityTokens, 1600);
  // Running requests hold a fifth of the cache from now on.
  residency.apply(removedBlocks(1001, 20));
  for (let round = 0; round < 10; round++) churn(residency, 80, 1101 + round * 100, 100);
  t.ok(residency.capacityTokens < 1600, 'it falls when less fits');
});

t.test('a subscriber that joins late learns the capacity only when it knows most of what is there', async (t) => {
  const residency = new KvResidency();
  churn(residency, 1000, 5000, 900);
  t.equal(residency.residentTokens, 900 * BLOCK);
  t.equal(residency.capacityTokens, 0, 'blocks were evicted, but unknown ones');
  churn(residency, 1000, 5900, 1000);
  t.equal(residency.capacityTokens, 1000 * BLOCK);
  residency.forget();
  t.equal(residency.residentTokens, 0);
  t.equal(residency.capacityTokens, 1000 * BLOCK, 'the size of a cache does not change when a batch is lost');
  churn(residency, 1000, 6900, 10);
  t.equal(residency.capacityTokens, 1000 * BLOCK);
});

t.test('above its bound it keeps a sample that stands for all', async (t) => {
  const residency = new KvResidency(2048);
  residency.clear();
  const error = (blocks: number): number => Math.abs(residency.residentTokens / (blocks * BLOCK) - 1);
  churn(residency, 40_000, 0, 40_000);
  t.ok(error(40_000) < 0.1, `resident tokens are off by ${error(40_000)}`);
  churn(residency, 40_000, 40_000, 100_000);
  t.ok(error(40_000) < 0.1, `after turnover by ${error(40_000)}`);
  t.ok(Math.abs(residency.capacityTokens / (40_000 * BLOCK) - 1) < 0.1, 'so is the capacity');
});

t.test('a flood of blocks that are never removed takes bounded memory', async (t) => {
  const residency = new KvResidency(1024);
  for (let block = 0; block < 1_000_000; block += 1000) residency.apply(storedBlocks(block, 1000));
  t.ok(Math.abs(residency.residentTokens / (1_000_000 * BLOCK) - 1) < 0.2);
});
