// Cases of one sampled token of the simulated engine's model: default options, greedy, the whole distribution, Mirostat, probabilities asked
// for, and under a grammar; and the tokenizer with a text of 1 KB.

/** `</s>`, after which a new sequence begins. */
const EOS = 2;
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] }, days: { type: 'integer' } },
  required: ['city', 'unit', 'days'],
};
const TEXT =
  'The old mill by the river grinds 12 sacks a day; naïve 水車 🌊.\nconst total = add(left, right);\n'.repeat(10);

/** Tokens sampled before any case: what the model lists after a context it makes when it first meets it, which is no part of the price of a token. */
const WARM_UP_TOKENS = 300_000;

/** The cases of this file: see `../measure.mjs`. */
export async function cases(load) {
  const { schemaGrammar } = await load('src/host/engine/grammar/json-schema-grammar.js');
  const { createLanguageModel } = await load('src/host/engine/model/language-model.js');
  const { createTokenGrammar } = await load('src/host/engine/sampling/grammar-mask.js');
  const { DEFAULT_SAMPLING } = await load('src/host/engine/sampling/sampling-options.js');
  const { createRandom } = await load('src/host/engine/sampling/random.js');
  const { createSampling } = await load('src/host/engine/sampling/sampler.js');
  const model = createLanguageModel(1);
  const { tokenizer } = model;
  const sampling = createSampling(model);
  const prompt = Int32Array.from([1, ...tokenizer.tokenize('How does a headrace differ from a tailrace?'), 6]);
  const grammar = createTokenGrammar(schemaGrammar(SCHEMA), model.vocabulary);
  /** Samples one token, and starts a new sequence with its own seed after each end. */
  const endless = ({ grammar: mask, ...options }) => {
    let seed = 0;
    const start = () =>
      sampling.start({
        options: { ...DEFAULT_SAMPLING, ...options },
        prompt,
        random: createRandom(seed++),
        grammar: mask,
      });
    let sampler = start();
    return () => {
      if (sampler.next() === EOS) sampler = start();
    };
  };
  const warmUp = endless({});
  for (let token = 0; token < WARM_UP_TOKENS; token++) warmUp();
  const tokens = tokenizer.tokenize(TEXT);
  return {
    'token, default options': endless({}),
    'token, greedy': endless({ temperature: 0 }),
    'token, no penalties': endless({ repeatPenalty: 1 }),
    'token, top_k 0': endless({ topK: 0 }),
    'token, top_k 0, top_p 1, min_p 0': endless({ topK: 0, topP: 1, minP: 0 }),
    'token, mirostat 2': endless({ mirostat: 2 }),
    'token, n_probs 10': endless({ nProbs: 10 }),
    'token, JSON schema grammar': endless({ grammar }),
    'tokenize 1 KB': () => tokenizer.tokenize(TEXT),
    'detokenize 1 KB': () => tokenizer.detokenize(tokens),
  };
}
