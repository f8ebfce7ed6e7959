// Reading order and structure of PDF pages, from pieces of text with positions.
import fc from 'fast-check';
import t from 'tap';
import { type Fragment, htmlOfPages, type PageText } from '../../src/extract/pdf-layout.ts';
import { cpuMsOf } from '../support/cpu-time.ts';

/** A line of text at a size of 10 points, of which a character takes half. */
function line(text: string, x: number, y: number, size = 10): Fragment {
  return { text, x, y, width: (text.length * size) / 2, size, isRightToLeft: false };
}

function page(fragments: readonly Fragment[], others: readonly string[] = []): PageText {
  return { fragments, others, height: 800 };
}

const SENTENCES = [
  'The race leads the water from the weir to',
  'the wheel, which turns the stones of the',
  'mill as long as the river carries enough',
  'water, and in dry summers the miller sits',
  'on the bank and waits until the rain has',
  'come down from the hills to fill the pond.',
];

t.test('columns are read one after the other, and headings across them divide them', async (t) => {
  const left = SENTENCES.map((text, index) => line(`L${text}`, 50, 700 - 12 * index));
  const right = SENTENCES.map((text, index) => line(`R${text}`, 320, 700 - 12 * index));
  const title = line('A title over both of the columns that is rather long and wide', 80, 740, 14);
  const html = htmlOfPages([page([...left, ...right, title].toReversed())]);
  const joined = (letter: string): string => SENTENCES.map((text) => letter + text).join(' ');
  t.equal(html, `<h1>${title.text}</h1><p>${joined('L')}</p><p>${joined('R')}</p>`);
});

t.test('three and four columns are read one after the other', async (t) => {
  for (const columns of [3, 4]) {
    const letters = [...'ABCD'].slice(0, columns);
    const texts = letters.map((letter) =>
      Array.from({ length: 8 }, (_, row) => `${letter}${row} of the mill${row < 7 ? 's' : '.'}`),
    );
    const lines = texts.flatMap((column, at) => column.map((text, row) => line(text, 40 + 90 * at, 700 - 12 * row)));
    const expected = texts.map((column) => `<p>${column.join(' ')}</p>`).join('');
    t.equal(htmlOfPages([page(lines)]), expected, `${columns}`);
  }
});

t.test('a paragraph goes on in the next column and on the next page', async (t) => {
  const half = ['The race leads the water from the weir to', 'the wheel, which turns the stones of the'];
  const rest = ['mill as long as the river carries enough', 'water.'];
  const pages = [half, rest].map((texts) => page(texts.map((text, index) => line(text, 50, 500 - 12 * index))));
  t.equal(htmlOfPages(pages), `<p>${[...half, ...rest].join(' ')}</p>`);
});

t.test('superscripts and subscripts stay in their line, however far they are from each other', async (t) => {
  let x = 50;
  const parts = [
    ['where x', 0, 10],
    ['2', 4.1, 7],
    [' + H', 0, 10],
    ['2', -2.5, 7],
    ['O is the sum', 0, 10],
    ['n', 5.3, 8.9],
  ] as const;
  const formula = parts.map(([text, raised, size]) => {
    const part = line(text, x, 688 + raised, size);
    x += part.width;
    return part;
  });
  const [above, below] = [line('The water of the mill is given here,', 50, 700), line('of all the mills.', 50, 676)];
  const joined = '<p>The water of the mill is given here, where x2 + H2O is the sumn of all the mills.</p>';
  t.equal(htmlOfPages([page([above, ...formula, below])]), joined);
  const note = [line('1', 50, 103, 6), line(' A note of the mill', 53, 100, 9), line('on two lines', 50, 89, 9)];
  t.equal(htmlOfPages([page(note)]), '<p>1 A note of the mill on two lines</p>', 'a mark has not the size of its line');
});

t.test('lines beside an initial or a watermark stay apart', async (t) => {
  const lines = SENTENCES.map((text, index) => line(text, index < 3 ? 75 : 50, 700 - 12 * index));
  const joined = `${SENTENCES.slice(0, 2).join(' ')} I${SENTENCES.slice(2).join(' ')}`;
  const initial = { ...line('I', 50, 676, 40), width: 24.9 };
  t.equal(htmlOfPages([page([initial, ...lines])]), `<p>${joined}</p>`);
  const watermark = line('DRAFT', 400, 676, 60);
  const html = htmlOfPages([page([...lines, watermark])]);
  for (const text of SENTENCES) t.ok(html.includes(text), text);
});

t.test('a larger text whose lines are further apart than those of the page is a paragraph', async (t) => {
  const lead = SENTENCES.map((text, index) => line(text, 50, 760 - 20 * index, 13));
  const body = Array.from({ length: 12 }, (_, index) => line(SENTENCES[index % 6] as string, 50, 600 - 11 * index, 9));
  const text = SENTENCES.join(' ');
  t.equal(htmlOfPages([page([...lead, ...body])]), `<p>${text}</p><p>${text} ${text}</p>`);
});

t.test('cells with little text are rows, not columns', async (t) => {
  const rows = ['Mill Head', 'Upper 3.2', 'Lower 2.1', 'Old 1.8', 'New 4.4'].map((row) => row.split(' '));
  const cells = rows.flatMap((row, y) => row.map((text, x) => line(text, 60 + 200 * x, 700 - 14 * y)));
  const expected = rows.map((row) => `<tr>${row.map((cell) => `<td>${cell}</td>`).join('')}</tr>`).join('');
  t.equal(htmlOfPages([page(cells)]), `<table>${expected}</table>`);
});

t.test('running headers, footers and page numbers are left out', async (t) => {
  const pages = [1, 2, 3, 4].map((number) =>
    page([
      line(`Journal of Mills ${number}`, 50, 780),
      line(`Text of page ${'abcd'[number - 1]} stands alone.`, 50, 400),
      line(`Chapter ${'xyzw'[number - 1]} ${number + 10}`, 50, 20),
    ]),
  );
  const expected = ['a', 'b', 'c', 'd'].map((letter) => `<p>Text of page ${letter} stands alone.</p>`).join('');
  t.equal(htmlOfPages(pages), expected);
  t.equal(htmlOfPages([page([line('12', 300, 20), line('Alone.', 50, 400)])]), '<p>Alone.</p><p>12</p>', 'one page');
});

t.test('words, hyphens and lines of dense scripts are joined as they are read', async (t) => {
  const join = (first: string, second: string): string =>
    htmlOfPages([page([line(first, 50, 500), line(second, 50, 488)])]);
  t.equal(join('the mill-', 'stones'), '<p>the millstones</p>');
  t.equal(join('the Anglo-', 'Saxons'), '<p>the Anglo- Saxons</p>');
  t.equal(join('水車は', '回る'), '<p>水車は回る</p>');
  const apart = page([line('two', 50, 500), line('words', 68, 500), line('x', 93, 500)]);
  t.equal(htmlOfPages([apart]), '<p>two wordsx</p>', 'a gap is a space, none is none');
});

t.test('text that is drawn again with a small shift is read once', async (t) => {
  const words = [...'ill'].map((letter, index) => ({ ...line(letter, 50 + 2.5 * index, 500), width: 2.5 }));
  const bold = [0, 0.3, 0.6].map((shift) => line('A mill', 60 + shift, 500 - shift));
  t.equal(htmlOfPages([page([...words, ...bold])]), '<p>ill A mill</p>');
});

t.test('a right-to-left line is read from the right', async (t) => {
  const hebrew = (text: string, x: number): Fragment => ({ ...line(text, x, 500), isRightToLeft: true });
  t.equal(htmlOfPages([page([hebrew('עולם', 50), hebrew('שלום', 75)])]), '<p>שלום עולם</p>');
});

t.test('columns, cells and indents of a right-to-left page are read from the right', async (t) => {
  const turned = (text: string, right: number, y: number): Fragment => ({
    ...line(text, right - 5 * text.length, y),
    isRightToLeft: true,
  });
  const column = (letter: string, right: number): Fragment[] =>
    SENTENCES.map((text, index) => turned(letter + text, right, 700 - 12 * index));
  const joined = (letter: string): string => SENTENCES.map((text) => letter + text).join(' ');
  const columns = htmlOfPages([page([...column('B', 270), ...column('A', 540)])]);
  t.equal(columns, `<p>${joined('A')}</p><p>${joined('B')}</p>`);
  const cells = ['name', 'age', 'David', '42'].map((text, at) => turned(text, at % 2 ? 300 : 500, at < 2 ? 700 : 688));
  const rows = '<tr><td>name</td><td>age</td></tr><tr><td>David</td><td>42</td></tr>';
  t.equal(htmlOfPages([page(cells)]), `<table>${rows}</table>`);
  const ragged = ['a first line of a text', 'and a short one.', 'Still the same text, which', 'goes on.'];
  const lines = ragged.map((text, index) => turned(text, 500, 700 - 12 * index));
  t.equal(htmlOfPages([page(lines)]), `<p>${ragged.join(' ')}</p>`);
});

t.test('lists end where a line stands left of their text', async (t) => {
  const lines = [
    line('\u2022 a wheel that is', 50, 500),
    line('large', 60, 488),
    line('\u2022 a sluice', 50, 476),
    line('And so on.', 50, 464),
  ];
  t.equal(htmlOfPages([page(lines)]), '<ul><li>a wheel that is large</li><li>a sluice</li></ul><p>And so on.</p>');
});

t.test('an entry of a table of contents is a paragraph; turned text comes after the page', async (t) => {
  const lines = [line('1 Wheels . . . . . . 3', 50, 500), line('2 Sluices . . . . . . 9', 50, 488)];
  t.equal(
    htmlOfPages([page(lines, ['arXiv stamp'])]),
    '<p>1 Wheels . . . . . . 3</p><p>2 Sluices . . . . . . 9</p><p>arXiv stamp</p>',
  );
});

t.test('long paragraphs and long lines of dots take time that their length takes', async (t) => {
  const words = 'lower case words in a line that goes on';
  const column = (count: number): PageText =>
    page(Array.from({ length: count }, (_, index) => line(words, 50, 12 * (count - index))));
  t.equal(htmlOfPages([column(3)]), `<p>${words} ${words} ${words}</p>`);
  const dots = page([line(`${'.'.repeat(40_000)}z`, 50, 500), line('Next', 50, 488)]);
  const row = page(Array.from({ length: 40_000 }, (_, index) => line('word', 25 * index, 500)));
  const tookMs = cpuMsOf(() => void htmlOfPages([column(8000), dots, row]));
  t.ok(tookMs < 2000, `${tookMs} ms`);
});

t.test('every text is written once, wherever it stands', async () => {
  const numbers = fc.double({ min: -2000, max: 2000, noNaN: true });
  const fragments = fc.uniqueArray(
    fc.record({
      text: fc.integer({ min: 100_000, max: 999_999 }).map((number) => `w${number}`),
      x: numbers,
      y: numbers,
      width: fc.double({ min: 0, max: 500, noNaN: true }),
      size: fc.double({ min: 0.1, max: 60, noNaN: true }),
      isRightToLeft: fc.boolean(),
    }),
    { maxLength: 80, selector: ({ text }) => text },
  );
  fc.assert(
    fc.property(fragments, (pieces) => {
      const html = htmlOfPages([page(pieces)]);
      const count = (text: string): number => html.split(text).length - 1;
      return pieces.every(({ text }) => count(text) === 1);
    }),
    { numRuns: 500 },
  );
});
