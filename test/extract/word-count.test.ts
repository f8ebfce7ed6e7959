// The word count compared with Intl.Segmenter.
import fc from 'fast-check';
import t from 'tap';
import { countWords } from '../../src/extract/word-count.ts';

const SEGMENTER = new Intl.Segmenter('en', { granularity: 'word' });

function reference(text: string): number {
  return Array.from(SEGMENTER.segment(text)).filter(({ isWordLike }) => isWordLike).length;
}

t.test('counts words', (t) => {
  for (const [text, words] of [
    ['', 0],
    ["The miller's wheel turns 1,234.5 times, e.g. today.", 8],
    ['“Ну что ж”, сказал он…', 5],
    ['snake_case __ _ a_1', 3],
    ['東京都に住んでいます', reference('東京都に住んでいます')],
    ['عجلة الماء', 2],
  ] as const)
    t.equal(countWords(text), words, text);
  t.end();
});

t.test('counts every character up to the kana as the segmenter does, in any position', (t) => {
  const frames = [
    (c: string) => c,
    (c: string) => `a${c}b`,
    (c: string) => `1${c}2`,
    (c: string) => `_${c}`,
    (c: string) => `x ${c}a`,
    (c: string) => `a.${c}`,
    (c: string) => c + c,
  ];
  const wrong: string[] = [];
  for (let code = 0; code < 0x3100; code++)
    for (const frame of frames) {
      const text = frame(String.fromCharCode(code));
      if (countWords(text) !== reference(text)) wrong.push(text);
    }
  t.same(wrong, []);
  t.end();
});

t.test('counts any text as the segmenter does', (t) => {
  const unit = fc.oneof(
    { weight: 6, arbitrary: fc.constantFrom(...'ab12_.,\':;" \n\r-’‘éжß·…—“') },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        '\u0301',
        '\u200d',
        '\u00ad',
        '中',
        'カ',
        'א',
        '😀',
        '🇩',
        '\u200b',
        'ก',
        '\u3000',
        '\ud800',
        '٣',
        ' word'.repeat(12),
      ),
    },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 3 }) },
  );
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 80 }), (units) => countWords(units.join('')) === reference(units.join(''))),
    { numRuns: 5000 },
  );
  t.end();
});
