// Pieces of content: where they end, and that they are the whole.
import fc from 'fast-check';
import { Parser } from 'htmlparser2';
import t from 'tap';
import { clean, type PageFormat } from '../../src/extract/index.ts';
import { type Piece, pieceOf } from '../../src/fetch/content-piece.ts';

const FORMATS = ['text', 'markdown', 'html'] as const;

interface Cut extends Piece {
  readonly text: string;
}

function piecesOf(content: string, most: number, format: PageFormat): Cut[] {
  const pieces: Cut[] = [];
  for (let start = 0; start < content.length;) {
    const piece = pieceOf(content, start, most, format);
    if (piece.from !== start || piece.to <= start) throw new Error(`from ${piece.from} to ${piece.to} at ${start}`);
    pieces.push({ ...piece, text: content.slice(piece.from, piece.to) });
    start = piece.to;
  }
  return pieces;
}

const joined = (pieces: readonly Cut[]): string => pieces.map(({ text }) => text).join('');

t.test('pieces that follow each other are the whole content, and end inside no character', (t) => {
  const words = fc.constantFrom(
    ...['word', 'a', ' ', '\n', '\n\n', '. ', '<p>', '</p>\n', '<', '>', '&amp;', '&', '```', '````\n', '| a | b |\n'],
    ...['👩‍👩‍👧‍👦', 'é', '🇩🇪', '漢字。', '- ', '> '],
  );
  const text = fc.oneof(
    fc.string({ unit: 'grapheme', maxLength: 200 }),
    fc.array(words, { maxLength: 60 }).map((list) => list.join('')),
  );
  const segmenter = new Intl.Segmenter('en', { granularity: 'grapheme' });
  fc.assert(
    fc.property(text, fc.integer({ min: 1, max: 60 }), fc.constantFrom(...FORMATS), (content, most, format) => {
      const pieces = piecesOf(content, most, format);
      if (joined(pieces) !== content) throw new Error('not the whole');
      for (const { text: piece } of pieces) {
        if (!piece.isWellFormed()) throw new Error('half a character');
        const isLong = piece.length > most && format !== 'html';
        if (isLong && [...segmenter.segment(piece)].length > 1) throw new Error('too long');
      }
    }),
    { numRuns: 3000 },
  );
  t.pass();
  t.end();
});

t.test('every start and every length gives a piece, and ends', (t) => {
  const content = '\n</p>\n| a |\n```\n\n<b title="x">&amp;👩‍👩‍👧</b>\n<p>';
  for (const format of FORMATS) {
    for (let start = 0; start < content.length; start++)
      for (let most = 1; most <= content.length; most++) {
        const { from, to } = pieceOf(content, start, most, format);
        if (from > start || to <= start) t.fail(`${format} ${start} ${most}: ${from} to ${to}`);
      }
  }
  t.end();
});

t.test('hostile content takes time in proportion to its length', (t) => {
  const parts = fc.array(
    fc.constantFrom(
      ...[
        '```\n',
        '```a\n',
        '`',
        '````',
        'a```b\n',
        '|\n',
        '> | a\n',
        '- ',
        '> ',
        ' ',
        '\n',
        '[^a]: ',
        '[^aaaa',
        '1. ',
      ],
      ...['<', '\n<', '\n</', '</li>', '&', ';', '\u{1f468}\u200d', '\ud800'],
    ),
    { minLength: 1, maxLength: 3 },
  );
  const before = process.cpuUsage();
  fc.assert(
    fc.property(parts, fc.constantFrom(...FORMATS), (list, format) => {
      const part = list.join('');
      // By the square of the length, one piece of it would take minutes.
      const content = part.repeat(Math.ceil(300_000 / part.length));
      for (const most of [1, 20_000, 290_000]) pieceOf(content, content.length - 295_000, most, format);
      pieceOf(content, content.length - 1000, 500, format);
    }),
    { numRuns: 60 },
  );
  const { user } = process.cpuUsage(before);
  t.ok(user < 10e6, `${user} us`);
  t.end();
});

t.test('a table whose rows are many is looked at no further back than the piece', (t) => {
  const content = `text\n\n${'|\n'.repeat(1_000_000)}`;
  const { from, to } = pieceOf(content, content.length - 3000, 1000, 'markdown');
  t.same([from, to], [content.length - 3000, content.length - 2000]);
  t.equal(pieceOf(content, content.length - 3000, 1000, 'markdown').cutInside, 'table');
  t.same(pieceOf(content, 0, 30, 'markdown'), { from: 0, to: 6, cutInside: null });
  t.end();
});

t.test('a piece ends after a paragraph, else a line, a sentence or a word', (t) => {
  const end = (content: string, most: number): string => content.slice(0, pieceOf(content, 0, most, 'text').to);
  t.equal(end('One two.\n\nThree four five', 16), 'One two.\n\n');
  t.equal(end('One two.\nThree four five', 16), 'One two.\n');
  t.equal(end('One two. Three four five', 16), 'One two. ');
  t.equal(end('One two three four five', 16), 'One two three ');
  t.equal(end('Oneunbrokenwordofmanyletters', 16), 'Oneunbrokenwordo');
  t.equal(end('Hi. A paragraph that goes on', 20), 'Hi. A paragraph ', 'not where little is left');
  t.end();
});

/** Whether all elements that begin in a piece of HTML end in it, and none that began before. */
function isWhole(html: string): boolean {
  const open: string[] = [];
  let whole = true;
  const parser = new Parser({
    onopentag: (name) => void open.push(name),
    onclosetag(name, isImplied) {
      const isVoid = name === 'hr' || name === 'br' || name === 'img';
      whole &&= open.pop() === name && (!isImplied || isVoid);
    },
  });
  parser.write(html);
  whole &&= open.length === 0;
  parser.end();
  return whole && !/^[^<]*<\//.test(html);
}

const PAGE = `<article><h1>Weirs</h1>${'<p>A weir is a <b>low wall</b> across a <a href="/river?a=1&amp;b=2">river</a> &amp; more.</p>'.repeat(20)}
  <pre><code>if (a &lt; b) {\n\n  x = "&gt;";\n}</code></pre><ul>${'<li>One of <i>many</i></li>'.repeat(40)}</ul><p>End.</p>
  <table><tr><th>Mill</th><th>Wheels</th></tr>${'<tr><td>Upper</td><td>2</td></tr>'.repeat(40)}</table><hr>
  <blockquote><p>Quoted.</p><p>Twice.</p></blockquote><p>${'Last words. '.repeat(50)}</p></article>`;

t.test('a piece of HTML is whole elements, and says when it ends within one that is longer', (t) => {
  const { content } = clean(PAGE, { format: 'html', url: 'https://example.com/' });
  for (const most of [1, 7, 60, 150, 400, 1200, 5000]) {
    const pieces = piecesOf(content, most, 'html');
    t.equal(joined(pieces), content);
    let isInside = false;
    for (const { cutInside, text } of pieces) {
      t.notMatch(text, /<[^>]*$|^[^<]*>/, 'no piece ends in a tag');
      t.notMatch(text, /&[a-z]*$/, 'nor in a character reference');
      if (!isInside && cutInside === null) t.ok(isWhole(text), text);
      isInside = cutInside !== null;
    }
  }
  const whole = piecesOf(content, 3000, 'html');
  t.ok(whole.length > 1 && whole.every(({ cutInside }) => cutInside === null));
  t.end();
});

t.test('Markdown is cut before a code block or a table that does not fit, else after a line of it', (t) => {
  const code = '```js\nlet a = 1;\n\nlet b = 2;\nlet c = 3;\n```';
  const text = 'A paragraph of text before it.';
  const cut = (content: string, most: number): [string, string | null] => {
    const { cutInside, to } = pieceOf(content, 0, most, 'markdown');
    return [content.slice(0, to), cutInside];
  };
  t.same(cut(`${text}\n\n${code}\n\nEnd.`, 60), [`${text}\n\n`, null]);
  t.same(cut(`${text}\n\n${code}\n\nEnd.`, text.length + code.length + 4), [`${text}\n\n${code}\n\n`, null]);
  t.same(cut(`${code}\n\nEnd.`, 30), ['```js\nlet a = 1;\n\n', 'code']);
  t.same(cut(`- a list\n\n  ${code.replaceAll('\n', '\n  ')}`, 40), ['- a list\n\n', null], 'code in a list');
  const quoted = `> Quoted.\n>\n> ${code.replaceAll('\n', '\n> ')}`;
  t.same(cut(quoted, 40), ['> Quoted.\n>\n', null], 'code in a quotation');
  t.same(cut(`\`\`\`\`\n\`\`\`\n${'x\n'.repeat(20)}\`\`\`\`\n\nEnd`, 30)[1], 'code', 'a fence in code is no end of it');
  t.same(
    cut(`\`\`\` a \`\` b \`\`\` and more.\n\n${'word '.repeat(20)}`, 40)[1],
    null,
    'code within a line is no block',
  );
  const row = '| Upper | 2 |\n';
  const table = `| Mill | Wheels |\n| --- | --- |\n${row.repeat(10)}`;
  t.same(cut(`${text}\n\n${table}`, 70), [`${text}\n\n`, null]);
  t.same(cut(table, 90), [table.slice(0, 88), 'table']);
  t.same(cut(table, 92), [table.slice(0, 88), 'table'], 'after a row');
  t.same(cut(`| ${'long '.repeat(30)}|\n`, 40)[1], 'table', 'in a row');
  t.end();
});

t.test('Markdown of a page is cut inside of no code and no table without saying so', (t) => {
  const { content } = clean(PAGE, { format: 'markdown', url: 'https://example.com/' });
  for (const most of [40, 100, 300, 1000]) {
    const pieces = piecesOf(content, most, 'markdown');
    t.equal(joined(pieces), content);
    let isOpen = false;
    for (const { cutInside, text } of pieces) {
      if (text.split('```').length % 2 === 0) isOpen = !isOpen;
      t.equal(cutInside === 'code', isOpen);
    }
  }
  t.end();
});

t.test('a start inside a character begins with it, and one beyond the end gives nothing', (t) => {
  t.match(pieceOf('a👩b', 2, 10, 'text'), { from: 1, to: 4 });
  t.match(pieceOf('abc', 7, 10, 'text'), { from: 3, to: 3, cutInside: null });
  t.match(pieceOf('', 0, 1, 'text'), { from: 0, to: 0 });
  t.end();
});
