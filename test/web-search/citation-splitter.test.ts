// Markers of citations in texts that come in pieces.

import t from 'tap';
import { CitationSplitter, type Segment } from '../../src/web-search/citation-splitter.ts';
import { Random } from '../support/random.ts';

/** The segments of a text in these pieces, texts joined, as `text`, `<1,2>`. */
function read(pieces: readonly string[], known = 12): string {
  const splitter = new CitationSplitter((number) => number >= 1 && number <= known);
  const segments: Segment[] = pieces.flatMap((piece) => splitter.push(piece));
  segments.push(...splitter.end());
  return segments.map(({ cites, text }) => (cites === undefined ? text : `<${cites.join(',')}>`)).join('');
}

const TEXTS: readonly (readonly [text: string, read: string, about: string])[] = [
  ['It is high [1].', 'It is high<1>.', 'a marker takes the space before it along'],
  ['It is high[1].', 'It is high<1>.', 'a marker without a space'],
  ['high [1][2] and [1, 3]', 'high<1><2> and<1,3>', 'several'],
  ['high [3,3]', 'high<3>', 'the same number twice'],
  ['high 【4†source】.', 'high<4>.', 'the form of gpt-oss'],
  ['high [99], [0] or [1, 99]', 'high [99], [0] or<1>', 'numbers of no result are text'],
  ['see [1](https://a.example) and [2]', 'see [1](https://a.example) and<2>', 'the text of a link'],
  ['a[i], [x], [1, [ 2] [1', 'a[i], [x], [1, [ 2] [1', 'what only looks like a marker'],
  ['`list[1]` is [1]', '`list[1]` is<1>', 'code in a line'],
  ['```\nlist [1]\n```\nso [1]', '```\nlist [1]\n```\nso<1>', 'a block of code'],
  ['`open\nthen [1]', '`open\nthen<1>', 'code in a line ends with it'],
  ['a  [1]', 'a <1>', 'one space only'],
  [`[1${' '.repeat(60)}]`, `[1${' '.repeat(60)}]`, 'a marker that is too long'],
  ['[2] it is', '<2> it is', 'at the beginning'],
  ['🌊 water [1] 水', '🌊 water<1> 水', 'other characters'],
];

for (const [text, segments, about] of TEXTS) {
  t.test(`splits ${about}, however the text is cut`, async (t) => {
    t.equal(read([text]), segments, 'whole');
    t.equal(read(text.split('')), segments, 'by characters');
    for (let at = 1; at < text.length; at++) t.equal(read([text.slice(0, at), text.slice(at)]), segments, `at ${at}`);
  });
}

t.test('says the same of random texts however they are cut, and loses no character', async (t) => {
  const random = new Random(11);
  const parts = [
    '[',
    ']',
    '1',
    '12',
    ',',
    ' ',
    '[1]',
    ' [2]',
    '[3, 4]',
    '(',
    '`',
    '```',
    '\n',
    '【1†a】',
    '【',
    'word',
    '. ',
  ];
  for (let turn = 0; turn < 3000; turn++) {
    const text = Array.from({ length: random.below(25) }, () => random.pick(parts)).join('');
    const pieces: string[] = [];
    for (let at = 0; at < text.length;) {
      const size = 1 + random.below(5);
      pieces.push(text.slice(at, at + size));
      at += size;
    }
    const whole = read([text]);
    if (read(pieces) !== whole) t.equal(read(pieces), whole, JSON.stringify(pieces));
    if (read(pieces, 0) !== text) t.equal(read(pieces, 0), text, 'without results nothing changes');
  }
});

t.test('never gives out the beginning of a marker', async (t) => {
  const splitter = new CitationSplitter(() => true);
  const given = [...'High [1], wide [2, 3].'].flatMap((char) => splitter.push(char));
  given.push(...splitter.end());
  t.notOk(given.some(({ text }) => text !== undefined && /[[\]\d]/.test(text)));
});
