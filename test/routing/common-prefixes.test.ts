// CommonPrefixes: which leading blocks are common, per model, and that this is forgotten.
import t from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { CommonPrefixes } from '../../src/routing/common-prefixes.ts';

const random = createSeededRandom(3);
const words = (blocks: number): number[] => Array.from({ length: 2 * blocks }, () => Math.floor(random() * 2 ** 32));
const prompt = (shared: readonly number[], blocks: number): Int32Array =>
  Int32Array.from([...shared, ...words(blocks)]);

t.test('blocks that a share of the requests begins with are common', async (t) => {
  const common = new CommonPrefixes();
  const system = words(6);
  const leading = (share: number): number => common.leading(1, prompt(system, 10), 16, share);
  t.equal(leading(0.2), 0, 'nothing is at first');
  for (let at = 0; at < 1000; at++) common.note(1, prompt(at % 4 === 0 ? system : [], 10), at % 4 === 0 ? 16 : 10);
  t.equal(leading(0.2), 6);
  t.equal(leading(0.3), 0);
  t.equal(common.leading(1, prompt([], 10), 10, 0.2), 0);
  t.equal(common.leading(1, prompt([], 0), 0, 0.2), 0);
  for (let at = 0; at < 5000; at++) common.note(1, prompt([], 10), 10);
  t.equal(leading(0.2), 0, 'it is forgotten');
});

t.test('models are counted apart', async (t) => {
  const common = new CommonPrefixes();
  const [one, two] = [words(4), words(4)];
  for (let at = 0; at < 1000; at++) {
    common.note(1, prompt(one, 1), 5);
    if (at % 3 === 0) common.note(2, prompt(two, 1), 5);
  }
  t.equal(common.leading(1, prompt(one, 1), 5, 0.9), 4);
  t.equal(common.leading(2, prompt(two, 1), 5, 0.9), 4, 'of a quarter of the requests');
});

t.test('long prompts of one model make nothing of another model common', async (t) => {
  const common = new CommonPrefixes();
  for (let at = 0; at < 2040; at++) common.note(1, prompt([], 128), 128);
  let found = 0;
  for (let at = 0; at < 200; at++) if (common.leading(2, prompt([], 10), 10, 0.1) > 0) found++;
  t.ok(found < 10, `${found} of 200`);
});

t.test('what is beyond 64 KiB is not common, and the first requests have nothing in common', async (t) => {
  const common = new CommonPrefixes();
  const document = words(400);
  for (let at = 0; at < 20; at++) common.note(1, prompt(document, 1), 401);
  t.equal(common.leading(1, prompt(document, 1), 401, 0.2), 0);
  for (let at = 0; at < 20; at++) common.note(1, prompt(document, 1), 401);
  t.equal(common.leading(1, prompt(document, 1), 401, 0.2), 128);
});
