// Hashes of millions of blocks of prompts that differ in one number.
import t from 'tap';
import { promptBlocks } from '../../src/dialect/index.ts';
import { DIALECTS } from '../../src/dialect/dialects.ts';
import { scanBody } from '../../src/dialect/body-scan.ts';

const BLOCKS = 3_000_000;

t.test('millions of blocks of similar prompts have different hashes', (t) => {
  const all = new BigUint64Array(BLOCKS);
  const words = new Int32Array(all.buffer);
  let filled = 0;
  for (let prompt = 0; filled < BLOCKS; prompt++) {
    const body = Buffer.from(`{"prompt":"${String(prompt).padStart(512, '0')}${'x'.repeat(1_048_064)}"}`);
    const scan = scanBody(body, { requireModel: false });
    if (!scan.ok) return t.fail();
    const { count, hashes } = promptBlocks(body, scan, DIALECTS.completions, 1);
    const taken = Math.min(count, BLOCKS - filled);
    words.set(hashes.subarray(0, 2 * taken), 2 * filled);
    filled += taken;
  }
  // By chance two of them are equal once in four million runs.
  all.sort();
  let equal = 0;
  for (let at = 1; at < BLOCKS; at++) if (all[at] === all[at - 1]) equal++;
  t.equal(equal, 0);
  return t.end();
});
