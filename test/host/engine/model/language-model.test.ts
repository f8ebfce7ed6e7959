import { createLanguageModel } from '../../../../src/host/engine/model/language-model.ts';
import { TokenContext } from '../../../../src/host/engine/model/token-context.ts';
import { SPECIAL } from '../../../../src/host/engine/model/vocabulary.ts';
import { TokenCandidates } from '../../../../src/host/engine/sampling/candidates.ts';
import { createRandom } from '../../../../src/host/engine/sampling/random.ts';
import { type Sampling, createSampling } from '../../../../src/host/engine/sampling/sampler.ts';
import { DEFAULT_SAMPLING } from '../../../../src/host/engine/sampling/sampling-options.ts';
import t from 'tap';

const model = createLanguageModel(1);
const { tokenize, detokenize } = model.tokenizer;
const sampling = createSampling(model);

function write(sampling: Sampling, prompt: readonly number[], seed: number, most = 2000): number[] {
  const sampler = sampling.start({
    options: DEFAULT_SAMPLING,
    prompt: Int32Array.from(prompt),
    random: createRandom(seed),
  });
  const tokens: number[] = [];
  while (tokens.length < most) {
    const token = sampler.next();
    if (token === SPECIAL.eos) break;
    tokens.push(token);
  }
  return tokens;
}

function listed(seed: number, prompt: string): { ids: number[]; logits: number[] } {
  const out = new TokenCandidates(model.vocabulary.size);
  createLanguageModel(seed).logits(new TokenContext(tokenize(prompt)), out);
  return { ids: [...out.ids.subarray(0, out.size)], logits: [...out.logits.subarray(0, out.size)] };
}

t.test('logits depend on the seed and the whole prompt, and on nothing else', async (t) => {
  t.strictSame(listed(1, 'What is the water'), listed(1, 'What is the water'));
  t.notSame(listed(1, 'What is the water').logits, listed(2, 'What is the water').logits);
  const ending = ' and the miller opens the second gate';
  t.notSame(listed(1, `Water${ending}`).logits, listed(1, `Wind${ending}`).logits);
  t.strictSame(listed(1, `Water${ending}`).ids, listed(1, `Wind${ending}`).ids);
});

t.test('at most 64 tokens are listed, all different and above the floor', async (t) => {
  for (const prompt of ['', 'The', 'The water', 'zqx', '🌊', 'return value;\n']) {
    const { ids, logits } = listed(3, prompt);
    t.ok(ids.length >= 40 && ids.length <= 64, `${prompt}: ${ids.length}`);
    t.equal(new Set(ids).size, ids.length);
    t.ok(Math.min(...logits) > 0);
  }
});

t.test('answers begin like sentences, end by themselves, and vary in length', async (t) => {
  const lengths: number[] = [];
  for (let seed = 0; seed < 200; seed++) {
    const tokens = write(sampling, [SPECIAL.bos, ...tokenize(`Question ${seed}?`), SPECIAL.assistant], seed);
    lengths.push(tokens.length);
    if (seed < 5) t.match(detokenize(tokens), /^\S/);
  }
  lengths.sort((a, b) => a - b);
  t.ok(lengths.at(-1)! < 2000);
  t.ok(lengths[100]! > 20 && lengths[100]! < 200, `median ${lengths[100]}`);
  t.ok(lengths[180]! > 2 * lengths[20]!, 'they spread');
});

t.test('the middle of an infill prompt reads like code', async (t) => {
  const prompt = [SPECIAL.bos, SPECIAL.prefix, ...tokenize('function add('), SPECIAL.suffix, SPECIAL.middle];
  const texts = [1, 2, 3, 4, 5, 6].map((seed) => detokenize(write(sampling, prompt, seed)));
  t.match(texts.join(''), /[;{}]\n/);
  t.notMatch(texts.join(''), /headrace|bakery/);
});

t.test('some answers have characters that are several tokens', async (t) => {
  let split = 0;
  for (let seed = 0; seed < 60; seed++) {
    const tokens = write(sampling, [SPECIAL.assistant], seed);
    if (tokens.some((token) => model.vocabulary.text(token) === null)) split++;
  }
  t.ok(split > 0);
});
