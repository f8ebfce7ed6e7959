// Pieces of content: where they end, and that they are the whole.
import fc from 'fast-check';
import t from 'tap';
import { clean } from '../../src/extract/index.ts';
import { pieceOf } from '../../src/fetch/page-answer.ts';

const FORMATS = ['text', 'markdown', 'html'] as const;

function piecesOf(content: string, most: number, format: (typeof FORMATS)[number]): string[] {
  const pieces: string[] = [];
  for (let start = 0; start < content.length;) {
    const [from, to] = pieceOf(content, start, most, format);
    if (from !== start || to <= from) throw new Error(`a piece from ${from} to ${to} at ${start}`);
    pieces.push(content.slice(from, to));
    start = to;
  }
  return pieces;
}

t.test('pieces that follow each other are the whole content, and end inside no character', (t) => {
  const words = fc.constantFrom('word', 'a', ' ', '\n', '\n\n', '. ', '<p>', '</p>\n', '👩‍👩‍👧‍👦', 'é', '🇩🇪', '漢字。');
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 200 }),
    fc.array(words).map((list) => list.join('')),
  );
  const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' });
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 60 }), fc.constantFrom(...FORMATS), (content, most, format) => {
      const pieces = piecesOf(content, most, format);
      if (pieces.join('') !== content) throw new Error('not the whole');
      for (const piece of pieces) {
        if (!piece.isWellFormed()) throw new Error('half a character');
        if (piece.length > most && [...segmenter.segment(piece)].length > 1) throw new Error('too long');
      }
    }),
    { numRuns: 2000 },
  );
  t.pass();
  t.end();
});

t.test('a piece ends after a paragraph, else a line, a sentence or a word', (t) => {
  const end = (content: string, most: number): string => content.slice(0, pieceOf(content, 0, most, 'text')[1]);
  t.equal(end('One two.\n\nThree four five', 16), 'One two.\n\n');
  t.equal(end('One two.\nThree four five', 16), 'One two.\n');
  t.equal(end('One two. Three four five', 16), 'One two. ');
  t.equal(end('One two three four five', 16), 'One two three ');
  t.equal(end('Oneunbrokenwordofmanyletters', 16), 'Oneunbrokenwordo');
  t.equal(end('Hi. A paragraph that goes on', 20), 'Hi. A paragraph ', 'not where little is left');
  t.end();
});

t.test('a piece of HTML ends after a block where it can', (t) => {
  const page =
    '<p>Some text of this paragraph.</p>'.repeat(3) + '<pre>if (a)\n<b></pre>' + '<p>More of it.</p>'.repeat(40);
  const { content } = clean(`<article>${page}</article>`, { format: 'html' });
  for (const piece of piecesOf(content, 120, 'html')) {
    for (const tag of ['p', 'pre']) {
      const opened = piece.match(new RegExp(`<${tag}>`, 'g'))?.length ?? 0;
      t.equal(piece.match(new RegExp(`</${tag}>`, 'g'))?.length ?? 0, opened, piece);
    }
  }
  t.end();
});

t.test('a start inside a character begins with it, and one beyond the end gives nothing', (t) => {
  t.same(pieceOf('a👩b', 2, 10, 'text'), [1, 4]);
  t.same(pieceOf('abc', 7, 10, 'text'), [3, 3]);
  t.same(pieceOf('', 0, 1, 'text'), [0, 0]);
  t.end();
});
