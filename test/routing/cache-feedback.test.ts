// What answers and CRNs teach about KV caches: capacities, bytes per token, and members that never report a hit.
import t from 'tap';
import { BlockIndex } from '../../src/routing/block-index.ts';
import { createBoardMemory } from '../../src/routing/board.ts';
import { CacheFeedback, type CountedAnswer } from '../../src/routing/cache-feedback.ts';

const M = 3;
const MODEL = 1;
/** A prompt of 10,000 tokens with 4 bytes each. */
const PROMPT: CountedAnswer = { promptBytes: 40_000, predictedBytes: 20_480, promptTokens: 10_000, cachedTokens: null };

function scene(): { feedback: CacheFeedback; other: CacheFeedback; blocks: BlockIndex } {
  const memory = createBoardMemory(4, 4, 2);
  const blocks = new BlockIndex(memory.blocks);
  return { blocks, feedback: new CacheFeedback(memory, blocks), other: new CacheFeedback(memory, blocks) };
}

t.test('a confirmed prediction changes nothing', async (t) => {
  const { blocks, feedback } = scene();
  blocks.setCapacity(M, 1_000_000);
  for (const cachedTokens of [5120, 5000, 4700, 5500]) feedback.answered(MODEL, M, { ...PROMPT, cachedTokens });
  t.equal(blocks.capacity(M), 1_000_000);
  t.equal(feedback.hitFactor(M), 1);
});

t.test('fewer cached tokens than predicted shrink the capacity, more raise it', async (t) => {
  const { blocks, feedback } = scene();
  blocks.setCapacity(M, 1_000_000);
  feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 2000 });
  t.equal(blocks.capacity(M), 980_000);
  feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 9000 });
  t.equal(blocks.capacity(M), 999_600);
  feedback.answered(MODEL, M, { ...PROMPT, predictedBytes: 0, cachedTokens: 300 });
  t.equal(blocks.capacity(M), 999_600, 'less than a few blocks is a template');
  t.equal(blocks.capacity(M + 0), blocks.capacity(3));
});

t.test('a CRN that does not report cached tokens teaches nothing about its cache', async (t) => {
  const { blocks, feedback } = scene();
  blocks.setCapacity(M, 1_000_000);
  for (let i = 0; i < 100; i++) feedback.answered(MODEL, M, PROMPT);
  t.equal(blocks.capacity(M), 1_000_000);
  t.equal(feedback.hitFactor(M), 1);
});

t.test(
  'a CRN that always reports 0 loses the worth of its predictions once, and regains it with the first hit',
  async (t) => {
    const { blocks, feedback } = scene();
    blocks.setCapacity(M, 1_000_000);
    const factors: number[] = [];
    for (let i = 0; i < 100; i++) {
      feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 0 });
      factors.push(feedback.hitFactor(M));
    }
    t.same(factors.slice(0, 8), Array(8).fill(1));
    t.same(
      factors,
      factors.toSorted((a, b) => b - a),
      'it only falls',
    );
    t.same(new Set(factors.slice(24)), new Set([0]));
    t.ok(blocks.capacity(M) > 850_000, 'it says nothing about the size');
    feedback.answered(MODEL, M, { ...PROMPT, predictedBytes: 0, cachedTokens: 0 });
    t.equal(feedback.hitFactor(M), 0);
    feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 5000 });
    t.equal(feedback.hitFactor(M), 1);
  },
);

t.test('prompts that were not expected to be cached say nothing by a 0', async (t) => {
  const { blocks, feedback } = scene();
  blocks.setCapacity(M, 1_000_000);
  for (let i = 0; i < 100; i++) feedback.answered(MODEL, M, { ...PROMPT, predictedBytes: 1024, cachedTokens: 0 });
  t.equal(feedback.hitFactor(M), 1);
  t.equal(blocks.capacity(M), 1_000_000);
});

t.test('bytes per token are learned by model, over threads, within bounds', async (t) => {
  const { feedback, other } = scene();
  t.equal(feedback.bytesPerToken(MODEL), 4);
  feedback.answered(MODEL, M, { ...PROMPT, promptTokens: 20_000 });
  t.equal(feedback.bytesPerToken(MODEL), 2, 'the first answer counts by itself');
  for (let i = 0; i < 200; i++) other.answered(MODEL, 0, { ...PROMPT, promptTokens: 8000 });
  t.ok(Math.abs(feedback.bytesPerToken(MODEL) - 5) < 0.01);
  t.equal(feedback.bytesPerToken(0), 4, 'another model');
  for (let i = 0; i < 500; i++) feedback.answered(MODEL, M, { ...PROMPT, promptTokens: 64 });
  t.ok(feedback.bytesPerToken(MODEL) <= 16);
  for (let i = 0; i < 500; i++)
    feedback.answered(MODEL, M, { ...PROMPT, promptTokens: 100_000_000, cachedTokens: 1e8 });
  t.ok(feedback.bytesPerToken(MODEL) >= 1);
  const before = feedback.bytesPerToken(MODEL);
  feedback.answered(MODEL, M, { ...PROMPT, promptTokens: 10 });
  t.equal(feedback.bytesPerToken(MODEL), before, 'a prompt of few tokens is mostly template');
  feedback.resetModel(MODEL);
  t.equal(feedback.bytesPerToken(MODEL), 4);
});

t.test('the size that a CRN reports is the capacity, in bytes of its model', async (t) => {
  const { blocks, feedback } = scene();
  feedback.reported(MODEL, M, 100_000, true);
  t.equal(blocks.capacity(M), 400_000);
  feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 2000 });
  t.equal(blocks.capacity(M), 392_000);
  feedback.reported(MODEL, M, 100_000, true);
  t.equal(blocks.capacity(M), 392_000, 'the same size again');
  for (let i = 0; i < 300; i++) feedback.answered(MODEL, 0, { ...PROMPT, promptTokens: 20_000 });
  feedback.reported(MODEL, M, 100_000, true);
  t.equal(Math.round(blocks.capacity(M)), 196_000, 'tokens turned out to be shorter; what answers taught stays');
  feedback.reported(MODEL, M, null, true);
  t.equal(Math.round(blocks.capacity(M)), 196_000, 'no size');
});

t.test('a size that KV events show takes the place of the reported one until the CRN is restarted', async (t) => {
  const { blocks, feedback } = scene();
  feedback.reported(MODEL, M, 100_000, true);
  feedback.measured(MODEL, M, 70_000);
  t.equal(blocks.capacity(M), 280_000);
  feedback.reported(MODEL, M, 100_000, true);
  t.equal(blocks.capacity(M), 280_000);
  feedback.measured(MODEL, M, 72_000);
  t.equal(blocks.capacity(M), 280_000, 'about the same');
  feedback.restarted(M);
  feedback.reported(MODEL, M, 100_000, true);
  t.equal(blocks.capacity(M), 400_000);
});

t.test('answers move the capacity within bounds', async (t) => {
  const { blocks, feedback } = scene();
  feedback.reported(MODEL, M, 100_000, true);
  for (let i = 0; i < 500; i++) feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 100 });
  t.equal(blocks.capacity(M), 100_000);
  for (let i = 0; i < 500; i++) feedback.answered(MODEL, M, { ...PROMPT, cachedTokens: 10_000 });
  t.equal(blocks.capacity(M), 1_600_000);
  for (let i = 0; i < 2000; i++) feedback.answered(MODEL, 0, { ...PROMPT, cachedTokens: 100 });
  t.equal(blocks.capacity(0), 65_536);
  for (let i = 0; i < 2000; i++) feedback.answered(MODEL, 0, { ...PROMPT, cachedTokens: 10_000 });
  t.equal(blocks.capacity(0), 2 ** 30);
  for (const cachedTokens of [1e8, Number.MAX_SAFE_INTEGER]) feedback.answered(MODEL, M, { ...PROMPT, cachedTokens });
  t.equal(blocks.capacity(M), 1_600_000, 'more cached tokens than the prompt has');
});

t.test('a CRN that says that it keeps no prefixes needs no answers to be believed', async (t) => {
  const { feedback } = scene();
  feedback.reported(MODEL, M, 100_000, false);
  t.equal(feedback.hitFactor(M), 0);
});

t.test('a restart empties the cache, and what was held against it', async (t) => {
  const { blocks, feedback } = scene();
  const hashes = Int32Array.from({ length: 8 }, (_, at) => Math.imul(at + 1, 0x9e3779b1));
  feedback.reported(MODEL, M, 100_000, false);
  blocks.enter(M, hashes, 4);
  blocks.enter(0, hashes, 4);
  feedback.restarted(M);
  t.equal(blocks.matched(M, hashes, 4), 0);
  t.equal(blocks.matched(0, hashes, 4), 4);
  t.equal(feedback.hitFactor(M), 1);
  feedback.reported(MODEL, M, 50_000, true);
  t.equal(blocks.capacity(M), 200_000, 'it may have another size now');
});

t.test('what is cached beyond the prediction is unexplained, per model', (t) => {
  const { feedback, other } = scene();
  const answer = { promptBytes: 40_000, predictedBytes: 8000, promptTokens: 10_000, cachedTokens: 2000 };
  t.equal(feedback.unexplained(0), 0);
  for (let at = 0; at < 400; at++) feedback.answered(0, 0, answer);
  t.equal(other.unexplained(0), 0, 'all of it was predicted');
  for (let at = 0; at < 400; at++) feedback.answered(0, 0, { ...answer, cachedTokens: 6000 });
  t.ok(Math.abs(other.unexplained(0) - 0.5) < 0.01, 'half of the rest');
  t.equal(other.unexplained(1), 0);
  for (let at = 0; at < 400; at++) feedback.answered(0, 0, { ...answer, cachedTokens: null });
  t.ok(other.unexplained(0) > 0.49, 'an answer that does not say says nothing');
  for (let at = 0; at < 400; at++) feedback.answered(0, 0, { ...answer, predictedBytes: 39_000, cachedTokens: 10_000 });
  t.ok(other.unexplained(0) > 0.49, 'nor does one that was expected to be cached');
  feedback.resetModel(0);
  t.equal(other.unexplained(0), 0);
  t.end();
});
