import fc from 'fast-check';
import t from 'tap';
import { createTokenizer } from '../../../../src/host/engine/model/tokenizer.ts';
import { createVocabulary, SPECIAL } from '../../../../src/host/engine/model/vocabulary.ts';

const vocabulary = createVocabulary();
const { tokenize, detokenize, bytesOf } = createTokenizer(vocabulary);

t.test('every well-formed text comes back as it was', async () => {
  const words = fc.constantFrom('The', ' water', '水車', ' rivière', '\n', '    ', '🌊', '\ufeff', '\0', ' is', 'ing');
  const text = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(words).map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(text, (text) => detokenize(tokenize(text)) === text),
    { numRuns: 2000 },
  );
});

t.test('frequent words are one token, with their leading space or without', async (t) => {
  t.equal(tokenize('water').length, 1);
  t.equal(tokenize(' water').length, 1);
  t.equal(tokenize('The headrace leads the water').length, 5);
  t.strictSame([...tokenize('')], []);
});

t.test('no beginning of sequence and no leading space are added', async (t) => {
  const [first] = tokenize('water');
  t.not(first, SPECIAL.bos);
  t.equal(vocabulary.text(first!), 'water');
});

t.test('a character without a piece falls back to its bytes', async (t) => {
  const tokens = tokenize('🌊');
  t.strictSame(
    [...tokens],
    [0xf0, 0x9f, 0x8c, 0x8a].map((byte) => vocabulary.firstByte + byte),
  );
  t.equal(vocabulary.text(tokens[0]!), null);
  t.equal(detokenize(tokens.subarray(0, 2)), '\ufffd');
});

t.test('text never becomes a special token, and special tokens give no text', async (t) => {
  t.notOk([...tokenize('<s></s><|im_start|>')].some((token) => token < vocabulary.firstByte));
  t.equal(detokenize([SPECIAL.bos, ...tokenize('water'), SPECIAL.eos]), 'water');
  t.equal(bytesOf([SPECIAL.user]).length, 0);
});

t.test('a number that is no token is refused', async (t) => {
  t.throws(() => detokenize([vocabulary.size]), { name: 'RangeError' });
  t.throws(() => detokenize([-1]), { name: 'RangeError' });
});

t.test('every piece is one token, and the newline is the one of its byte', async (t) => {
  t.ok(vocabulary.size >= 1000 && vocabulary.size <= 4096);
  for (let token = vocabulary.firstByte + 256; token < vocabulary.size; token++) {
    const text = vocabulary.text(token)!;
    if (tokenize(text)[0] !== token || tokenize(text).length !== 1) t.fail(`${token} '${text}'`);
  }
  t.equal(tokenize('\n')[0], vocabulary.newline);
});
