// Times one sampled token of the simulated engine's model: default options, greedy, the whole distribution, Mirostat,
// probabilities asked for, and under a grammar; and the tokenizer. Run after a build: node bench/micro/sample.mjs.
import { schemaGrammar } from '../../dist/src/host/engine/grammar/json-schema-grammar.js';
import { createLanguageModel } from '../../dist/src/host/engine/model/language-model.js';
import { createTokenGrammar } from '../../dist/src/host/engine/sampling/grammar-mask.js';
import { DEFAULT_SAMPLING } from '../../dist/src/host/engine/sampling/sampling-options.js';
import { createRandom } from '../../dist/src/host/engine/sampling/random.js';
import { createSampling } from '../../dist/src/host/engine/sampling/sampler.js';
import { medianNs } from './median.mjs';

/** `</s>`, after which a new sequence begins. */
const EOS = 2;
const model = createLanguageModel(1);
const sampling = createSampling(model);
const prompt = Int32Array.from([1, ...model.tokenizer.tokenize('How does a headrace differ from a tailrace?'), 6]);
const schema = {
  type: 'object',
  properties: { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] }, days: { type: 'integer' } },
  required: ['city', 'unit', 'days'],
};
const grammar = createTokenGrammar(schemaGrammar(schema), model.vocabulary);

const CASES = {
  'default options': {},
  greedy: { temperature: 0 },
  'no penalties': { repeatPenalty: 1 },
  'top_k 0': { topK: 0 },
  'top_k 0, top_p 1, min_p 0': { topK: 0, topP: 1, minP: 0 },
  'mirostat 2': { mirostat: 2 },
  'n_probs 10': { nProbs: 10 },
  'JSON schema grammar': { grammar },
};

/** A function that samples one token, starting a new sequence, with its own seed, after each end. */
function endless({ grammar, ...options }) {
  let seed = 0;
  const start = () =>
    sampling.start({ options: { ...DEFAULT_SAMPLING, ...options }, prompt, random: createRandom(seed++), grammar });
  let sampler = start();
  return () => {
    if (sampler.next() === EOS) sampler = start();
  };
}

// The model makes what it lists after a context when it first meets it: that is no part of the price of a token.
const warmUp = endless({});
for (let token = 0; token < 300_000; token++) warmUp();

for (const [name, options] of Object.entries(CASES)) {
  console.log(`${name} | ${medianNs(endless(options)).toFixed(0)} ns per token`);
}

const text =
  'The old mill by the river grinds 12 sacks a day; naïve 水車 🌊.\nconst total = add(left, right);\n'.repeat(10_000);
const bytes = Buffer.byteLength(text);
const ns = medianNs(() => model.tokenizer.tokenize(text));
console.log(`tokenize | ${((bytes * 1000) / ns).toFixed(0)} MB/s`);
const tokens = model.tokenizer.tokenize(text);
const back = medianNs(() => model.tokenizer.detokenize(tokens));
console.log(`detokenize | ${((bytes * 1000) / back).toFixed(0)} MB/s`);
