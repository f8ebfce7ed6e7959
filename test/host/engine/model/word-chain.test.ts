import t from 'tap';
import { countTokens, seedOf, WORD_VOCABULARY, WordChain } from '../../../../src/host/engine/model/word-chain.ts';

/** The words of a walk up to its end. */
function writeWords(seed: number, count: number): string[] {
  const chain = new WordChain(seed, count);
  const words: string[] = [];
  for (let token = chain.next(); token !== WORD_VOCABULARY.eos; token = chain.next())
    words.push(WORD_VOCABULARY.text(token));
  return words;
}

t.test('the same seed writes the same words, another seed others', async (t) => {
  t.same(writeWords(7, 40), writeWords(7, 40));
  t.notSame(writeWords(7, 40), writeWords(8, 40));
  t.equal(writeWords(7, 40).length, 40);
  t.same(writeWords(7, 0), []);
});

t.test('a shorter text is the beginning of a longer one', async (t) => {
  t.same(writeWords(7, 60).slice(0, 20), writeWords(7, 20));
});

t.test('pieces join into words separated by single spaces', async (t) => {
  const text = writeWords(3, 200).join('');
  t.match(text, /^\S+( \S+){199}$/);
});

t.test('some words are not ASCII', async (t) => {
  const text = Array.from({ length: 20 }, (_, seed) => writeWords(seed, 100).join('')).join('');
  t.match(text, /水車/);
});

t.test('the seed depends on the setting, the model and both ends of a long prompt', async (t) => {
  const long = 'x'.repeat(100_000);
  const seeds = [
    seedOf(1, 'm', 'hello'),
    seedOf(2, 'm', 'hello'),
    seedOf(1, 'n', 'hello'),
    seedOf(1, 'm', 'hello!'),
    seedOf(1, 'm', `a${long}`),
    seedOf(1, 'm', `b${long}`),
    seedOf(1, 'm', `${long}a`),
  ];
  t.equal(new Set(seeds).size, seeds.length);
  t.equal(seedOf(1, 'm', 'hello'), seeds[0]);
});

t.test('a walk that has ended stays at its end', async (t) => {
  const chain = new WordChain(7, 1);
  t.not(chain.next(), WORD_VOCABULARY.eos);
  t.same([chain.next(), chain.next()], [WORD_VOCABULARY.eos, WORD_VOCABULARY.eos]);
});

t.test('a prompt counts a quarter of its characters, at least one token', async (t) => {
  t.equal(countTokens(''), 1);
  t.equal(countTokens('12345'), 2);
});
