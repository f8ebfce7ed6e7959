// Generated PDF files: paragraphs, titles, dates, and files without text.
import { pbkdf2Sync } from 'node:crypto';
import { deflateSync } from 'node:zlib';
import t from 'tap';
import { readPdf, unlessStalled } from '../../src/extract/pdf.ts';
import { buildPdf, linesFrom } from '../support/pdf.ts';

const URL_1 = 'http://site.test/papers/mills.pdf';

t.test('joins lines to paragraphs and hyphenated words, page after page', async (t) => {
  const first = [
    { text: 'On mills', x: 72, y: 740, size: 24 },
    ...linesFrom(['A race leads water to the wheel of a', 'mill; the wheel turns the mill-', 'stones without rest.']),
    ...linesFrom(['The second paragraph.', 'It goes on.'], 640),
  ];
  const page = await readPdf(buildPdf([first, linesFrom(['Another page.'])]), { url: URL_1 });
  t.same(page, {
    title: 'On mills',
    content:
      'On mills\n\nA race leads water to the wheel of a mill; the wheel turns the millstones without rest.\n\nThe second paragraph. It goes on.\n\nAnother page.',
    wordCount: 27,
  });
});

t.test('double-spaced lines are one paragraph, and an indent begins another', async (t) => {
  const lines = linesFrom(['One line', 'and the next.', 'Then more', 'of it.'], 700, 28);
  const indented = lines.map((line, index) => (index === 2 ? { ...line, x: 90 } : line));
  const { content } = await readPdf(buildPdf([indented]), { url: URL_1 });
  t.equal(content, 'One line and the next.\n\nThen more of it.');
});

t.test('takes title and metadata from the file', async (t) => {
  const info = {
    Title: 'Water power',
    Author: 'A. Miller',
    CreationDate: "D:20260102030405+01'30'",
    ModDate: 'D:20260203',
  };
  const bytes = (): Uint8Array => buildPdf([linesFrom(['Words'])], { info });
  t.same(await readPdf(bytes(), { url: URL_1 }), { title: 'Water power', content: 'Words', wordCount: 1 });
  t.same((await readPdf(bytes(), { url: URL_1, include: ['metadata'] })).metadata, {
    author: 'A. Miller',
    published: '2026-01-02T03:04:05+01:30',
    modified: '2026-02-03',
  });
  const zeros = buildPdf([linesFrom(['Words'])], { info: { CreationDate: 'D:00000000000000Z' } });
  t.same((await readPdf(zeros, { url: URL_1, include: ['metadata'] })).metadata, {}, 'no date');
});

t.test('what a file says of itself is bounded, and well-formed', async (t) => {
  const info = { Title: `Mills\0${'x'.repeat(1e6)}`, Subject: 's'.repeat(1e6), Author: 'Ann;'.repeat(1e5) };
  const { authors, metadata, title } = await readPdf(buildPdf([linesFrom(['Text'])], { info }), {
    include: ['metadata'],
  });
  t.match(title, /^Mills/);
  t.notMatch(title, /\0/);
  t.ok(title.length <= 2000 && metadata?.description?.length === 2000 && metadata.author?.length === 2000);
  t.same(
    authors,
    Array.from({ length: 50 }, () => 'Ann'),
  );
});

t.test('a file name is no title', async (t) => {
  const info = { Title: 'Microsoft Word - report-v2.docx' };
  t.equal((await readPdf(buildPdf([linesFrom(['A report'])], { info }), { url: URL_1 })).title, 'A report');
  const long = Array.from({ length: 30 }, () => 'and so on and on without end');
  t.equal((await readPdf(buildPdf([linesFrom(long)], { info }), { url: URL_1 })).title, 'mills.pdf');
  const unsaid = { Title: '(anonymous)', Author: 'anonymous', Subject: '(unspecified)', Keywords: '' };
  const { authors, metadata, title } = await readPdf(buildPdf([linesFrom(['A report'])], { info: unsaid }), {
    include: ['metadata'],
  });
  t.same({ authors, metadata, title }, { authors: undefined, metadata: {}, title: 'A report' });
});

t.test('fails for files without text, and says why', async (t) => {
  const read = (bytes: Uint8Array): Promise<unknown> => readPdf(bytes, { url: URL_1 });
  const code = 'HR_FETCH_UNREADABLE';
  await t.rejects(read(buildPdf([[]])), { code, subject: 'the PDF has no text; it may be a scan' });
  const encrypted = buildPdf([linesFrom(['Secret'])], { encrypted: true });
  await t.rejects(read(encrypted), { code, subject: 'the PDF is encrypted' });
  const broken = { code, subject: 'the PDF is damaged' };
  await t.rejects(read(new Uint8Array(0)), broken);
  await t.rejects(read(Buffer.from('%PDF-1.7 and no more')), broken);
});

t.test('reads East Asian fonts by the predefined CMaps', async (t) => {
  const cases = [
    ['90ms-RKSJ-H', 'Japan1', '93fa967b8cea82cc955c8ea6', '日本語の表示'],
    ['EUC-H', 'Japan1', 'c6fccbdcb8ec', '日本語'],
    ['UniJIS-UTF16-H', 'Japan1', '65e5672c8a9e', '日本語'],
    ['GBK-EUC-H', 'GB1', 'cbaeb3b5cdc6b6af', '水车推动'],
    ['UniGB-UCS2-H', 'GB1', '6c348f66', '水车'],
    ['ETen-B5-H', 'CNS1', 'a4f4a8ae', '水車'],
    ['KSCms-UHC-H', 'Korea1', 'b9b0b7b9b9e6bec6', '물레방아'],
    // Numbers of the collection itself.
    ['Identity-H', 'Japan1', '0ee50adb0a1e', ''],
  ] as const;
  for (const [encoding, ordering, text, expected] of cases) {
    const bytes = buildPdf([linesFrom([text])], { eastAsian: { encoding, ordering } });
    const { content } = await readPdf(bytes, { url: URL_1 });
    if (expected !== '') t.equal(content, expected, encoding);
    else t.match(content, /^\p{Script=Han}{3}$/u, encoding);
  }
});

t.test('more pages than are read are said as truncated', async (t) => {
  const pages = Array.from({ length: 501 }, (_, index) => linesFrom([`Page of mill ${index}`]));
  const page = await readPdf(buildPdf(pages), { url: URL_1 });
  t.equal(page.truncated, true);
  t.match(page.content, /Page of mill 499$/);
  const whole = await readPdf(buildPdf(pages.slice(0, 3)), { url: URL_1 });
  t.notOk('truncated' in whole);
});

t.test('text that is left out of a page, or with a damaged one, is said as truncated', async (t) => {
  const bytes = buildPdf(['One', 'Two', 'Three'].map((text) => linesFrom([`${text} water mills`])));
  // The second page is a content stream.
  bytes[Buffer.from(bytes).indexOf('7 0 R')] = 0x38;
  t.match(await readPdf(bytes, { url: URL_1 }), { content: /^One water mills/, truncated: true });
  const many = Array.from({ length: 100_001 }, (_, at) => ({ text: 'w', x: 10 + (at % 20) * 29, y: 790 - at / 130 }));
  t.equal((await readPdf(buildPdf([many]), { url: URL_1 })).truncated, true);
});

t.test('what takes longer than the time limit is left out, of the first page too, and said as truncated', async (t) => {
  const first = linesFrom(Array.from({ length: 60 }, (_, at) => `Line ${at} of the first page`));
  const pages = [first, linesFrom(['The second page'])];
  const { content, truncated } = await readPdf(buildPdf(pages), { timeoutMs: 0 });
  t.match(content, /^Line 0 of the first page Line 1 of/);
  t.notMatch(content, /Line 59|second/);
  t.equal(truncated, true);
  const one = await readPdf(buildPdf([linesFrom(['A page', 'of two lines'])]), { timeoutMs: 0 });
  t.equal(one.content, 'A page of two lines');
  t.notOk('truncated' in one, 'nothing is left out');
});

t.test('lines in the middle of turned pages are no running headers, however often they come', async (t) => {
  const turns: ((x: number, y: number) => string)[] = [
    (x, y) => `1 0 0 1 ${x} ${y}`,
    (x, y) => `0 1 -1 0 ${612 - y} ${x}`,
    (x, y) => `-1 0 0 -1 ${612 - x} ${792 - y}`,
    (x, y) => `0 -1 1 0 ${y} ${792 - x}`,
  ];
  const lines = [...'abcdefghi'].map((letter) => `Line ${letter}`);
  for (const turn of turns) {
    const drawn = lines.map((text, at) => `/F1 12 Tf ${turn(100, 400 - 14 * at)} Tm (${text}) Tj`);
    const { content } = await readPdf(buildPdf([[], [], []], { deflated: deflateSync(`BT ${drawn.join(' ')} ET`) }));
    t.equal(content, Array(3).fill(lines.join(' ')).join('\n\n'));
  }
});

t.test('streams that are compressed twice, cut off or damaged are read as far as they go', async (t) => {
  const lines = Array.from(
    { length: 60 },
    (_, at) => `1 0 0 1 72 ${760 - 12 * at} Tm (Line ${at} of ${at ** 3 % 997}) Tj`,
  );
  const drawn = deflateSync(`BT /F1 10 Tf ${lines.join('\n')} ET`);
  const read = async (deflated: Uint8Array, filter?: string): Promise<string> =>
    (await readPdf(buildPdf([[]], { deflated, ...(filter !== undefined && { filter }) }))).content;
  const whole = await read(drawn);
  t.match(whole, /^Line 0 of 0 .*Line 59 of 994$/s);
  t.equal(await read(deflateSync(drawn), '[/FlateDecode /FlateDecode]'), whole);
  t.equal(await read(Buffer.concat([drawn.subarray(0, -4), Buffer.from('none')])), whole, 'a wrong checksum');
  const start = await read(drawn.subarray(0, -100));
  t.ok(start.length > whole.length / 2 && whole.startsWith(start.slice(0, -20)), 'cut off');
});

t.test('writes headings, lists and tables in the format that is asked for', async (t) => {
  const page = [
    { text: 'On mills', x: 72, y: 740, size: 24 },
    { text: 'Parts', x: 72, y: 700, size: 16 },
    ...linesFrom(['A mill has these parts, each of them of wood', 'or of stone:'], 670),
    ...linesFrom(['- a wheel', '- a sluice'], 620),
    ...linesFrom(['Mill', 'Upper', 'Lower'], 560),
    ...linesFrom(['Head', '3.2', '2.1'], 560).map((line) => ({ ...line, x: 200 })),
  ];
  const { content } = await readPdf(buildPdf([page]), { url: URL_1, format: 'markdown' });
  t.equal(
    content,
    '# On mills\n\n## Parts\n\nA mill has these parts, each of them of wood or of stone:\n\n- a wheel\n- a sluice\n\n| Mill | Head |\n| --- | --- |\n| Upper | 3.2 |\n| Lower | 2.1 |',
  );
  const text = await readPdf(buildPdf([page]), { url: URL_1 });
  t.match(text.content, /Mill\tHead\nUpper\t3\.2\nLower\t2\.1$/);
});

t.test('reads a file with a wrong cross-reference table', async (t) => {
  const text = Buffer.from(buildPdf([linesFrom(['Still there'])])).toString('latin1');
  const bytes = Buffer.from(text.replace(/startxref\n\d+/, 'startxref\n7'), 'latin1');
  t.equal((await readPdf(new Uint8Array(bytes), { url: URL_1 })).content, 'Still there');
});

t.test('a step that works is not stalled, however slow it is; one that waits for nothing is', async (t) => {
  const slow = async (): Promise<string> => {
    for (let round = 0; round < 5; round++) {
      // Takes longer than the time after which an idle step is given up.
      pbkdf2Sync('password', 'salt', 100_000, 64, 'sha512');
      await new Promise((resolve) => setImmediate(resolve));
    }
    return 'done';
  };
  t.equal(await unlessStalled(slow(), 20), 'done');
  await t.rejects(unlessStalled(new Promise(() => undefined), 20), { message: 'stalled' });
});
