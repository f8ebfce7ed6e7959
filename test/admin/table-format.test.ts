// Tables and CSV of the admin API.
import fc from 'fast-check';
import t from 'tap';
import { type Column, printCsv, printTable } from '../../src/admin/table-format.ts';

type Row = readonly (string | null)[];

function columns(count: number, numbers: readonly number[] = []): Column<Row>[] {
  return Array.from({ length: count }, (_, at) => ({
    head: `c${at}`,
    cell: (row: Row) => row[at] ?? null,
    isNumber: numbers.includes(at),
    csvOnly: false,
  }));
}

/** A reader by the grammar of RFC 4180, section 2. */
function readCsv(text: string): string[][] {
  const field = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n)/y;
  const records: string[][] = [[]];
  while (field.lastIndex < text.length) {
    const [, raw = '', end] = field.exec(text) ?? [];
    if (end === undefined) throw new Error(`no CSV: ${JSON.stringify(text)}`);
    records.at(-1)?.push(raw.startsWith('"') ? raw.slice(1, -1).replaceAll('""', '"') : raw);
    if (end === '\r\n') records.push([]);
  }
  return records.slice(0, -1);
}

t.test('no text of a CSV is a formula, and numbers stay numbers', (t) => {
  const texts = ['=1+1', '+1', '-2+3', '@SUM(A1)', '\t=1', '\r=1', '\n=1', '\uff1d1', 'a=1', "'=1"];
  const written = readCsv(
    printCsv(
      columns(1),
      texts.map((text) => [text]),
    ),
  ).slice(1);
  t.strictSame(written, [...texts.slice(0, 8).map((text) => [`'${text}`]), ['a=1'], ["'=1"]]);
  const numbers = ['-1.50', '7', '-0.000001'].map((text) => [text]);
  t.strictSame(readCsv(printCsv(columns(1, [0]), numbers)).slice(1), numbers);
  t.strictSame(readCsv(printCsv(columns(1, [0]), [['-1+cmd']])).slice(1), [["'-1+cmd"]], 'no number');
  t.end();
});

t.test('CSV round-trips any field that is no formula', (t) => {
  const isText = (text: string): boolean => !/^[=+\-@\t\r\n]/.test(text);
  const cell = fc.oneof(fc.string(), fc.stringMatching(/^[",\r\n a]{0,6}$/)).filter(isText);
  const rows = fc.array(fc.array(cell, { minLength: 3, maxLength: 3 }), { maxLength: 5 });
  fc.assert(
    fc.property(rows, (given) => {
      t.strictSame(readCsv(printCsv(columns(3), given)), [['c0', 'c1', 'c2'], ...given]);
    }),
    { numRuns: 50 },
  );
  t.equal(printCsv(columns(2), [['a"b', null]]), 'c0,c1\r\n"a""b",\r\n');
  t.end();
});

t.test('a table aligns text to the left and numbers at the decimal point', (t) => {
  const rows = [
    ['acme', '25.00'],
    ['a long name', '-0.0000375'],
    ['b', null],
    ['c', '7'],
  ];
  t.equal(
    printTable(columns(2, [1]), rows),
    [
      'c0                   c1',
      'acme         25.00',
      'a long name  -0.0000375',
      'b             -',
      'c             7',
      '',
    ].join('\n'),
  );
  t.end();
});

t.test('a table has any number of rows', (t) => {
  const column = { head: 'N', cell: (row: number) => row / 2, isNumber: true, csvOnly: false };
  const rows = Array.from({ length: 200_000 }, (_, row) => row);
  t.match(printTable([column], rows), /^ +N\n +0\n +0\.5\n[^]*\n99999\.5\n$/);
  t.end();
});

t.test('a table replaces control characters and leaves out columns that are for CSV only', (t) => {
  const [first, second] = columns(2) as [Column<Row>, Column<Row>];
  const text = printTable([first, { ...second, csvOnly: true }], [['\u001b[2Jred\n\u2028', 'more']]);
  t.equal(text, 'c0\n?[2Jred??\n');
  t.end();
});
