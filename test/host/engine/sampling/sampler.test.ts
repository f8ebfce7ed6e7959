import { type LanguageModel, createLanguageModel } from '../../../../src/host/engine/model/language-model.ts';
import { SPECIAL } from '../../../../src/host/engine/model/vocabulary.ts';
import { createTokenGrammar } from '../../../../src/host/engine/sampling/grammar-mask.ts';
import { readLogitBias } from '../../../../src/host/engine/sampling/logit-bias.ts';
import { chooseSeed, createRandom } from '../../../../src/host/engine/sampling/random.ts';
import { type Sampler, createSampling } from '../../../../src/host/engine/sampling/sampler.ts';
import { type SamplingOptions, DEFAULT_SAMPLING } from '../../../../src/host/engine/sampling/sampling-options.ts';
import t from 'tap';

const words = createLanguageModel(1);
const { eos, newline } = words.vocabulary;
const sampling = createSampling(words);
const { tokenize, detokenize } = words.tokenizer;

interface Run {
  readonly options?: Partial<SamplingOptions>;
  readonly prompt?: string;
  readonly seed?: number;
  readonly grammar?: string;
  readonly most?: number;
}

function write({ options, prompt = 'The mill', seed = 1, grammar, most = 120 }: Run = {}): number[] {
  const sampler = sampling.start({
    options: { ...DEFAULT_SAMPLING, ...options },
    prompt: Int32Array.of(SPECIAL.bos, ...tokenize(prompt)),
    random: createRandom(seed),
    grammar: grammar === undefined ? undefined : createTokenGrammar(grammar, words.vocabulary),
  });
  const tokens: number[] = [];
  while (tokens.length < most && tokens.at(-1) !== eos) tokens.push(sampler.next());
  return tokens;
}

/** A sampler over ten tokens: the given logits, 0 for the others; every option off that is not given. */
function fixed(
  logits: Readonly<Record<number, number>>,
  options: Partial<SamplingOptions>,
  prompt: readonly number[] = [],
  random: () => number = () => 0,
): Sampler {
  const model: LanguageModel = {
    vocabulary: { ...words.vocabulary, size: 10 },
    tokenizer: words.tokenizer,
    logits(_context, out) {
      out.clear(0);
      for (const [id, logit] of Object.entries(logits)) out.add(Number(id), logit);
    },
  };
  const off = { temperature: 1, topK: 0, topP: 1, minP: 0, repeatPenalty: 1, nProbs: 10 };
  return createSampling(model).start({
    options: { ...DEFAULT_SAMPLING, ...off, ...options },
    prompt: Int32Array.from(prompt),
    random,
  });
}

/** Odds of token 3 against token 4, which is never penalised in these tests, as a logit. */
function logitOf3(options: Partial<SamplingOptions>, prompt: readonly number[], logit = 2): number {
  const sampler = fixed({ 3: logit, 4: 1 }, options, prompt);
  sampler.next();
  const p = (token: number): number => sampler.probabilities.find((entry) => entry.token === token)!.probability;
  return 1 + Math.log(p(3) / p(4));
}
const near = (left: number, right: number): boolean => Math.abs(left - right) < 1e-9;

t.test('the same seed, prompt and options give the same text; another of them gives another', async (t) => {
  t.strictSame(write(), write());
  t.notSame(write(), write({ seed: 2 }));
  t.notSame(write(), write({ prompt: 'A mill' }));
  t.notSame(write(), write({ options: { temperature: 1.5 } }));
  t.equal(
    chooseSeed(7, () => 0.5),
    7,
  );
  t.equal(
    chooseSeed(-1, () => 0.5),
    2 ** 31,
  );
});

t.test('the same seeds give the same numbers, near seeds unrelated ones', async (t) => {
  const first = createRandom(1);
  const numbers = Array.from({ length: 10_000 }, () => first());
  t.ok(numbers.every((number) => number >= 0 && number < 1));
  t.ok(Math.abs(numbers.reduce((sum, number) => sum + number) / 10_000 - 0.5) < 0.02);
  t.not(createRandom(1)(), createRandom(2)());
});

t.test('a temperature of 0 or below is greedy, and so is a top-k of 1', async (t) => {
  const greedy = write({ options: { temperature: 0 } });
  t.strictSame(write({ options: { temperature: 0 }, seed: 9 }), greedy);
  t.strictSame(write({ options: { temperature: -1 }, seed: 9 }), greedy);
  t.strictSame(write({ options: { topK: 1 }, seed: 9 }), greedy);
  t.equal(fixed({ 3: -1, 5: -2 }, { temperature: 0 }).next(), 0, 'the floor wins, lowest id first');
});

t.test('repeat penalty divides positive and multiplies negative logits, once', async (t) => {
  t.ok(near(logitOf3({ repeatPenalty: 2 }, [3]), 1));
  t.ok(near(logitOf3({ repeatPenalty: 2 }, [3, 3, 3]), 1));
  t.ok(near(logitOf3({ repeatPenalty: 2 }, [3], -2), -4));
  t.ok(near(logitOf3({ repeatPenalty: 2 }, [5]), 2));
});

t.test('frequency penalty counts, presence penalty does not', async (t) => {
  t.ok(near(logitOf3({ frequencyPenalty: 0.25 }, [3, 3, 3]), 1.25));
  t.ok(near(logitOf3({ presencePenalty: 0.5 }, [3, 3, 3]), 1.5));
  t.ok(near(logitOf3({ repeatPenalty: 2, frequencyPenalty: 0.25, presencePenalty: 0.5 }, [3, 3]), 0));
  const sampler = fixed({ 4: 1 }, { presencePenalty: -2 }, [3]);
  sampler.next();
  t.equal(sampler.probabilities[0]?.token, 3, 'a reward lifts a token out of the floor');
});

t.test('penalties look back repeat_last_n tokens, 0 none, -1 all', async (t) => {
  const far = [3, ...new Array<number>(70).fill(5)];
  t.ok(near(logitOf3({ presencePenalty: 1, repeatLastN: 64 }, far), 2));
  t.ok(near(logitOf3({ presencePenalty: 1, repeatLastN: 71 }, far), 1));
  t.ok(near(logitOf3({ presencePenalty: 1, repeatLastN: -1 }, far), 1));
  t.ok(near(logitOf3({ presencePenalty: 1, repeatLastN: 0 }, [3]), 2));
});

t.test('generated tokens are penalised too', async (t) => {
  const sampler = fixed({ 3: 2, 4: 1 }, { temperature: 0, presencePenalty: 1.5, nProbs: 0 });
  t.strictSame([sampler.next(), sampler.next()], [3, 4]);
});

t.test('penalize_nl: false spares the newline', async (t) => {
  const prompt = '\n\t\n\t\n';
  const count = (penalizeNl: boolean): number => {
    const options = { temperature: 0, frequencyPenalty: 3, penalizeNl, logitBias: new Map([[newline, 20]]) };
    return write({ prompt, options, most: 30 }).filter((token) => token === newline).length;
  };
  t.ok(count(true) < 10);
  t.equal(count(false), 30);
});

t.test('a bias is added to the logit, false forbids, also below the floor and by text', async (t) => {
  const the = tokenize(' the')[0]!;
  const read = (value: unknown): SamplingOptions['logitBias'] => readLogitBias(value, words.vocabulary.size, tokenize);
  t.ok(write({ most: 400, seed: 3 }).includes(the));
  for (const value of [[[the, false]], [[' the', false]], { ' the': false }, { [the]: -Infinity }]) {
    t.notOk(write({ options: { logitBias: read(value) }, most: 400, seed: 3 }).includes(the));
  }
  const rare = tokenize('Queue')[0]!;
  t.ok(write({ options: { logitBias: read([[rare, 100]]) } }).every((token) => token === rare));
  t.ok(near(logitOf3({ logitBias: new Map([[3, 1.5]]) }, []), 3.5));
  t.ok(near(logitOf3({ logitBias: new Map([[3, 1]]), repeatPenalty: 2 }, [3]), 1.5), 'before the penalties');
});

t.test('entries of a bias that are no entries are skipped, and the last one for a token wins', async (t) => {
  const value = [[1, 2], [1, 3], [2, true], ['x'], [-1, 1], [1.5, 1], [10, 1], null, [4, false], [5, Number.NaN]];
  t.strictSame(
    [...readLogitBias(value, 10, () => [])],
    [
      [1, 3],
      [4, -Infinity],
    ],
  );
  t.strictSame([...readLogitBias('no', 10, () => [])], []);
  t.strictSame(
    [...readLogitBias({ 7: 1, ab: 2 }, 10, () => [8, 9])],
    [
      [7, 1],
      [8, 2],
      [9, 2],
    ],
  );
});

t.test('the end can be ignored, unless a bias says otherwise', async (t) => {
  const most = 3000;
  t.equal(write({ most }).at(-1), eos);
  t.notOk(write({ most, options: { ignoreEos: true } }).includes(eos));
  t.strictSame(write({ options: { ignoreEos: true, logitBias: new Map([[eos, 99]]) } }), [eos]);
});

t.test('each truncation narrows what is written', async (t) => {
  const base: Partial<SamplingOptions> = { temperature: 3, topK: 0, topP: 1, minP: 0, ignoreEos: true };
  const variety = (options: Partial<SamplingOptions>): number =>
    new Set(write({ options: { ...base, ...options }, most: 300 })).size;
  const all = variety({});
  const cuts = [{ topK: 5 }, { topP: 0.5 }, { minP: 0.2 }, { typicalP: 0.3 }, { tfsZ: 0.5 }];
  for (const cut of [...cuts, { mirostat: 1, mirostatTau: 1 }, { mirostat: 2, mirostatTau: 1 }] as const) {
    t.ok(variety(cut) < all / 1.5, JSON.stringify(cut));
  }
});

t.test('truncations work at temperature 1', async (t) => {
  const kept = (options: Partial<SamplingOptions>): number => {
    const sampler = fixed({ 3: 2, 4: 1 }, options);
    sampler.next();
    return sampler.probabilities.filter(({ probability }) => probability > 0).length;
  };
  t.equal(kept({ minP: 0.3 }), 2);
  t.equal(kept({ minP: 0.3, temperature: 100 }), 2);
});

t.test('probabilities are those after the chain, and asking for them changes nothing', async (t) => {
  t.strictSame(write({ options: { nProbs: 10 } }), write());
  const sampler = fixed({ 3: 2, 4: 1 }, { topK: 2, nProbs: 3 }, [], () => 0.9);
  t.equal(sampler.next(), 4);
  const [first, second, third] = sampler.probabilities;
  t.equal(first?.token, 3);
  t.ok(near(first!.probability, Math.E / (1 + Math.E)));
  t.ok(near(first!.probability + second!.probability, 1));
  t.strictSame(third, { token: 0, probability: 0 }, 'what the chain cut has none');
  t.equal(sampler.probabilities.length, 3);
  const greedy = fixed({ 3: 2 }, { temperature: 0, nProbs: 10 });
  greedy.next();
  t.ok(
    near(
      greedy.probabilities.reduce((sum, { probability }) => sum + probability, 0),
      1,
    ),
  );
});

t.test('a grammar holds whatever the other options are, and ends the text when it is complete', async (t) => {
  const grammar = 'root ::= "yes" | "no, " [a-z]{3} "水"?';
  for (const options of [{}, { temperature: 0 }, { topK: 0, temperature: 5 }, { mirostat: 2 as const }, { topK: 1 }]) {
    for (let seed = 0; seed < 20; seed++) {
      const tokens = write({ grammar, options, seed });
      t.match(detokenize(tokens), /^(yes|no, [a-z]{3}水?)$/);
      t.equal(tokens.at(-1), eos);
    }
  }
});

t.test('when options and grammar leave no token the text ends', async (t) => {
  const logitBias = readLogitBias({ y: false, ye: false, yes: false }, words.vocabulary.size, tokenize);
  t.strictSame(write({ grammar: 'root ::= "yes"', options: { logitBias } }), [eos]);
});

t.test('text of zero bytes is never chosen under a grammar', async (t) => {
  const nul = words.vocabulary.firstByte;
  const options = { temperature: 0, logitBias: new Map([[nul, 100]]) };
  t.equal(write({ options, most: 1 })[0], nul);
  t.notOk(write({ options, grammar: 'root ::= .{1,8}' }).includes(nul));
});
