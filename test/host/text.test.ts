import t from 'tap';
import { countTokens, createRandom, cutAtStop, seedOf, writeWords } from '../../src/host/text.ts';

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

t.test('random numbers stay in [0, 1) and spread', async (t) => {
  const random = createRandom(42);
  const drawn = Array.from({ length: 1000 }, random);
  t.ok(drawn.every((value) => value >= 0 && value < 1));
  const mean = drawn.reduce((sum, value) => sum + value, 0) / drawn.length;
  t.ok(mean > 0.45 && mean < 0.55, `mean ${mean}`);
});

t.test('the earliest stop string cuts, also across and within pieces', async (t) => {
  const pieces = ['The', ' water', ' turns', ' the', ' wheel.'];
  t.same(cutAtStop([...pieces], []), { pieces, stoppingWord: '' });
  t.same(cutAtStop([...pieces], ['mill']), { pieces, stoppingWord: '' });
  t.same(cutAtStop([...pieces], ['wheel', 'er tu']), { pieces: ['The', ' wat'], stoppingWord: 'er tu' });
  t.same(cutAtStop([...pieces], ['The']), { pieces: [], stoppingWord: 'The' });
  t.same(cutAtStop([...pieces], [' turns']), { pieces: ['The', ' water'], stoppingWord: ' turns' });
});

t.test('a prompt counts a quarter of its characters, at least one token', async (t) => {
  t.equal(countTokens(''), 1);
  t.equal(countTokens('12345'), 2);
});
