// Generated PDF files: paragraphs, titles, dates, and files without text.
import { pbkdf2Sync } from 'node:crypto';
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
  const page = await readPdf(buildPdf([first, linesFrom(['Another page.'])]), URL_1, []);
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
  const { content } = await readPdf(buildPdf([indented]), URL_1, []);
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
  t.same(await readPdf(bytes(), URL_1, []), { title: 'Water power', content: 'Words', wordCount: 1 });
  t.same((await readPdf(bytes(), URL_1, ['metadata'])).metadata, {
    author: 'A. Miller',
    published: '2026-01-02T03:04:05+01:30',
    modified: '2026-02-03',
  });
});

t.test('a file name is no title', async (t) => {
  const info = { Title: 'Microsoft Word - report-v2.docx' };
  t.equal((await readPdf(buildPdf([linesFrom(['A report'])], { info }), URL_1, [])).title, 'A report');
  const long = Array.from({ length: 30 }, () => 'and so on and on without end');
  t.equal((await readPdf(buildPdf([linesFrom(long)], { info }), URL_1, [])).title, 'mills.pdf');
});

t.test('fails for files without text', async (t) => {
  const none = { code: 'HR_FETCH_UNREADABLE', subject: 'no text in the PDF' };
  await t.rejects(readPdf(buildPdf([[]]), URL_1, []), none);
  await t.rejects(readPdf(buildPdf([linesFrom(['Secret'])], { encrypted: true }), URL_1, []), none);
  const broken = { code: 'HR_FETCH_UNREADABLE', subject: 'the PDF is damaged' };
  await t.rejects(readPdf(new Uint8Array(0), URL_1, []), broken);
  await t.rejects(readPdf(Buffer.from('%PDF-1.7 and no more'), URL_1, []), broken);
});

t.test('reads a file with a wrong cross-reference table', async (t) => {
  const text = Buffer.from(buildPdf([linesFrom(['Still there'])])).toString('latin1');
  const bytes = Buffer.from(text.replace(/startxref\n\d+/, 'startxref\n7'), 'latin1');
  t.equal((await readPdf(new Uint8Array(bytes), URL_1, [])).content, 'Still there');
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
