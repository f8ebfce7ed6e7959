// The choice of the reader by media type, and every reader with random bytes.
import fc from 'fast-check';
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import type { CleanPage } from '../../src/extract/page.ts';
import { readPage } from '../../src/extract/read-page.ts';
import { declaredType, refuseByHeader } from '../../src/fetch/media-type.ts';
import { buildPdf, linesFrom } from '../support/pdf.ts';

function read(body: string | Uint8Array, mediaType: string, charset: string | null = null): Promise<CleanPage> {
  return readPage({ bytes: new Uint8Array(Buffer.from(body)), mediaType, charset, url: 'http://site.test/a' });
}

t.test('chooses the reader by the media type', async (t) => {
  const html = '<html><head><title>Mill</title></head><body><p>Water turns the wheel of the mill.</p></body></html>';
  for (const type of ['text/html', 'application/xhtml+xml', 'application/xml'])
    t.match(
      await read(html, type),
      { title: 'Mill', content: 'Water turns the wheel of the mill.', wordCount: 7 },
      type,
    );
  for (const type of ['application/json', 'application/ld+json'])
    t.equal((await read('[1]', type)).content, '[\n  1\n]', type);
  for (const type of ['text/plain', 'text/markdown', 'text/csv', 'application/yaml', 'application/x-ndjson'])
    t.equal((await read('a <b>', type)).content, 'a <b>', type);
  for (const type of ['text/xml', 'application/rss+xml']) t.equal((await read('<a>b</a>', type)).content, 'b', type);
  t.equal((await read(buildPdf([linesFrom(['Paper'])]), 'application/pdf')).content, 'Paper');
  t.equal((await read(Buffer.from('caf\xe9', 'latin1'), 'text/plain', 'iso-8859-1')).content, 'café');
});

t.test('every type that is downloaded as text is read', async (t) => {
  const types = ['jsonl', 'x-markdown', 'javascript', 'x-javascript', 'vnd.oai.openapi+yaml', 'vnd.oai.openapi+json'];
  for (const type of types.map((name) => `application/${name}`)) {
    refuseByHeader(declaredType(type));
    t.match((await read('"Water"', type)).content, 'Water', type);
  }
});

t.test('XML is read as HTML by its first element alone', async (t) => {
  const item = (text: string): string =>
    `<item><description><![CDATA[<html><p>${text}</p></html>]]></description></item>`;
  const feed = `<?xml version="1.0"?><rss><channel><title>Mills</title>${item('Water')}${item('Wheel')}</channel></rss>`;
  t.match(await read(feed, 'application/rss+xml'), { title: 'Mills', content: 'Mills\nWater\n\nWheel' });
  const prolog = '<?xml version="1.0"?><!-- <rss> --><!DOCTYPE html [ <!ENTITY a "b"> ]>';
  const page = '<html><head><title>Mill</title></head><body><p>Water turns the wheel of the mill.</p></body></html>';
  t.match(await read(prolog + page, 'text/xml'), { title: 'Mill', content: /^Water turns/ });
});

t.test('an element of XHTML that closes itself is empty', async (t) => {
  const text = 'Water turns the wheel of the mill, and the wheel turns the stone that grinds the corn.';
  const page = (head: string, body: string): string =>
    `<html xmlns="http://www.w3.org/1999/xhtml"><head>${head}</head><body>${body}</body></html>`;
  for (const type of ['application/xhtml+xml', 'application/xml']) {
    const contentOf = async (head: string, body: string): Promise<string> =>
      (await read(page(head, body), type)).content;
    for (const head of ['<script src="a.js"/>', '<style/>', '<title/>', '<script type="math/tex"/>'])
      t.equal(await contentOf(head, `<p>${text}</p>`), text, head);
    for (const empty of ['<iframe src="/a"/>', '<textarea/>', '<object/>', '<svg/>', '<template/>', '<pre/>', '<a/>'])
      t.equal(await contentOf('', `<p>${text}</p>${empty}<p>A ${text}</p>`), `${text}\n\nA ${text}`, empty);
  }
  const plain = await read(
    page('<title>Mill</title>', `<p>${text}</p><iframe src="/a"/><p>A ${text}</p>`),
    'text/html',
  );
  t.equal(plain.content, text, 'in HTML it is left open');
});

t.test('writes a page in another format and as HTML, of the same bytes', async (t) => {
  const both = (body: string | Uint8Array, mediaType: string): Promise<CleanPage> =>
    readPage({
      bytes: new Uint8Array(Buffer.from(body)),
      mediaType,
      charset: null,
      format: 'markdown',
      alsoHtml: true,
    });
  const html = '<title>Mill</title><p>Water turns the <b>wheel</b> of the mill.</p>';
  t.match(await both(html, 'text/html'), {
    content: 'Water turns the **wheel** of the mill.',
    html: /<p>Water turns the/,
  });
  t.match(await both('a <b>', 'text/plain'), { content: 'a <b>', html: '<p>a &lt;b&gt;</p>' });
  t.match(await both(buildPdf([linesFrom(['Paper'])]), 'application/pdf'), { content: 'Paper', html: /Paper<\// });
  t.notOk('html' in (await read(html, 'text/html')));
});

t.test('refuses types that are not text', async (t) => {
  for (const type of ['image/png', 'application/zip', 'application/octet-stream', 'image/svg+xml', ''])
    await t.rejects(read('x', type), { code: 'HR_FETCH_TYPE', subject: type });
});

t.test('any bytes give well-formed text or an error of the table', async () => {
  const types = ['text/html', 'application/xml', 'application/json', 'text/plain', 'application/pdf'];
  const markup = fc.constantFrom(
    '<p>',
    '</p>',
    '<a href="',
    '"',
    '<![CDATA[',
    '&#xd800;',
    '&amp',
    '{',
    '[',
    '%PDF-1.4\n',
    '1 0 obj',
    '<<',
    '>>',
    'stream\n',
    'endstream',
    'trailer',
    '/Root 1 0 R',
    'xref\n',
    '\\ud800',
  );
  const piece = fc.oneof(
    markup.map((text) => Buffer.from(text)),
    fc.uint8Array({ maxLength: 60 }),
  );
  const pages = fc.tuple(
    fc.constantFrom(...types),
    fc.constantFrom(null, 'utf-16le', 'shift_jis'),
    fc.array(piece, { maxLength: 40 }),
  );
  await fc.assert(
    fc.asyncProperty(pages, async ([type, charset, pieces]) => {
      try {
        const { title, content, wordCount } = await read(Buffer.concat(pieces), type, charset);
        return title.isWellFormed() && content.isWellFormed() && Number.isInteger(wordCount);
      } catch (error) {
        if (error instanceof HeadraceError) return true;
        throw error;
      }
    }),
    { numRuns: 2000 },
  );
});

t.test('a PDF with bytes changed gives text or an error of the table', async () => {
  const whole = buildPdf([linesFrom(['Water turns', 'the wheel.']), linesFrom(['And so on.'])], {
    info: { Title: 'Mill' },
  });
  const changes = fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(changes, async (changed) => {
      const bytes = whole.slice();
      for (const [at, byte] of changed) bytes[at] = byte;
      try {
        return (await read(bytes, 'application/pdf')).content.isWellFormed();
      } catch (error) {
        if (error instanceof HeadraceError) return true;
        throw error;
      }
    }),
    { numRuns: 300 },
  );
});
