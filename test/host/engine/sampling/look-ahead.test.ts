// Looking ahead changes when tokens are sampled, never which.
import { createLanguageModel } from '../../../../src/host/engine/model/language-model.ts';
import { LookAhead } from '../../../../src/host/engine/sampling/look-ahead.ts';
import { createRandom } from '../../../../src/host/engine/sampling/random.ts';
import { type Sampler, createSampling } from '../../../../src/host/engine/sampling/sampler.ts';
import { DEFAULT_SAMPLING } from '../../../../src/host/engine/sampling/sampling-options.ts';
import t from 'tap';

const EOS = 2;
const model = createLanguageModel(1);
const sampling = createSampling(model);

function real(seed: number): Sampler {
  return sampling.start({ options: DEFAULT_SAMPLING, prompt: Int32Array.of(1, 40, 41), random: createRandom(seed) });
}

/** Counts up from 1000 and ends after `length` tokens. */
function counting(length = Infinity): { sampler: Sampler; sampled: () => number } {
  let sampled = 0;
  const sampler = { next: () => (++sampled > length ? EOS : 999 + sampled) } as Sampler;
  return { sampler, sampled: () => sampled };
}

t.test('the tokens are those of the sampler alone, beside other sequences', (t) => {
  const alone = real(7);
  const ahead = new LookAhead(real(7), EOS, Infinity);
  const other = new LookAhead(real(8), EOS, Infinity);
  ahead.shift(3);
  for (let at = 0; at < 500; at++) {
    other.next();
    const expected = alone.next();
    if (ahead.next() !== expected) t.fail(`token ${at}`);
    if (expected === EOS) break;
  }
  t.pass('all of them');
  t.end();
});

t.test('the first token is sampled alone, and neighbouring slots sample in different steps', (t) => {
  const whenSampled = (slotId: number): number[] => {
    const { sampler, sampled } = counting();
    const ahead = new LookAhead(sampler, EOS, Infinity);
    ahead.shift(slotId);
    const steps: number[] = [];
    for (let step = 0; step < 33; step++) {
      const before = sampled();
      t.equal(ahead.next(), 1000 + step);
      if (sampled() > before) steps.push(step);
    }
    return steps;
  };
  const slots = Array.from({ length: 16 }, (_, slotId) => whenSampled(slotId));
  for (const steps of slots) t.same(steps.slice(0, 2), [0, 1]);
  const loads = Array.from({ length: 33 }, (_, step) => slots.filter((steps) => steps.includes(step)).length);
  t.same(loads.slice(2, 26), new Array(24).fill(2), 'an eighth of the slots at every step');
  t.end();
});

t.test('nothing is sampled past the limit or the end', (t) => {
  const limited = counting();
  const short = new LookAhead(limited.sampler, EOS, 12);
  for (let at = 0; at < 12; at++) short.next();
  t.equal(limited.sampled(), 12);
  const ending = counting(5);
  const ended = new LookAhead(ending.sampler, EOS, Infinity);
  t.same(
    Array.from({ length: 6 }, () => ended.next()),
    [1000, 1001, 1002, 1003, 1004, EOS],
  );
  t.equal(ending.sampled(), 6);
  t.end();
});
