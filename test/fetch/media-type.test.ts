import t from 'tap';
import { declaredType, mediaTypeOf, refuseByHeader } from '../../src/fetch/media-type.ts';
import { said } from '../support/site.ts';

function verdict(header: string | undefined, body: string): string {
  try {
    const declared = declaredType(header);
    refuseByHeader(declared);
    return mediaTypeOf(declared, Buffer.from(body, 'latin1'));
  } catch (error) {
    return said(error);
  }
}

t.test('parses Content-Type', async (t) => {
  t.same(declaredType('Text/HTML; x=1; Charset="UTF-8"'), { mediaType: 'text/html', charset: 'utf-8' });
  t.same(declaredType("text/html;charset='gbk'"), { mediaType: 'text/html', charset: 'gbk' });
  t.same(declaredType('text/html; charset=, text/plain; charset=a'), { mediaType: 'text/html', charset: null });
  t.same(declaredType('text/html charset=utf-8'), { mediaType: 'text/html', charset: null });
  for (const vague of [
    undefined,
    '',
    'nonsense',
    '"text/html"',
    'text/',
    'text/html:charset=x',
    'text/ht/ml',
    'application/octet-stream',
    '*/*; charset=x',
  ])
    t.equal(declaredType(vague).mediaType, null, String(vague));
});

t.test('accepts declared text types', async (t) => {
  for (const type of [
    ...['text/html', 'application/xhtml+xml', 'text/plain', 'text/markdown', 'text/csv', 'application/json'],
    ...['application/ld+json', 'application/xml', 'text/xml', 'application/rss+xml', 'application/atom+xml'],
  ])
    t.equal(verdict(type, '<p>words'), type);
});

t.test('refuses what cannot be text', async (t) => {
  t.equal(verdict('image/svg+xml', '<svg>'), 'HR_FETCH_TYPE image');
  t.equal(verdict('audio/mpeg', ''), 'HR_FETCH_TYPE audio');
  t.equal(verdict('font/woff2', ''), 'HR_FETCH_TYPE font');
  t.equal(verdict('application/zip', ''), 'HR_FETCH_TYPE binary');
  for (const start of [
    '\x89PNG\r\n',
    'GIF89a',
    '\xff\xd8\xff',
    'PK\x03\x04',
    '\x1f\x8b\x08',
    'Rar!\x1a\x07',
    '\x7fELF',
  ])
    for (const type of ['text/html', 'text/plain', undefined]) t.equal(verdict(type, start), 'HR_FETCH_TYPE binary');
  t.equal(verdict('text/html', 'words\x00'), 'HR_FETCH_TYPE binary');
  t.equal(verdict('text/html', '<html>\x00\x00\x00'), 'HR_FETCH_TYPE binary');
  t.equal(verdict('text/html', '\x01\x02\x03\x04'), 'HR_FETCH_TYPE binary');
});

t.test('accepts a few control characters, and UTF-16', async (t) => {
  t.equal(verdict('text/html', '<!doctype html>\n<title>a\x00b</title>'), 'text/html', 'browsers drop NULs of HTML');
  t.equal(verdict('text/html', '<p>a\x0bb\x01'), 'text/html');
  t.equal(verdict('text/html', '\xff\xfe<\x00p\x00'), 'text/html');
  t.equal(verdict('text/html; charset=utf-16le', '<\x00p\x00'), 'text/html');
  t.equal(verdict('text/html; charset=iso-2022-jp', '\x1b$B$3\x1b(B'), 'text/html');
  t.equal(verdict('text/plain', 'PK and GIF are formats'), 'text/plain');
});

t.test('detects PDF by its bytes', async (t) => {
  for (const type of ['application/pdf', 'application/octet-stream', 'text/html', undefined])
    t.equal(verdict(type, '%PDF-1.7\n\x00\x01'), 'application/pdf', String(type));
  t.equal(verdict('application/pdf', 'junk\n%PDF-1.4'), 'application/pdf');
  t.equal(verdict('application/pdf', '<!doctype html><p>Log in'), 'text/html', 'a page in place of the file');
  t.equal(verdict('application/pdf', '\x00\x01'), 'HR_FETCH_TYPE binary');
});

t.test('sniffs the bytes when no type is declared', async (t) => {
  t.equal(verdict(undefined, '\xef\xbb\xbf \n<!DOCTYPE html>'), 'text/html');
  t.equal(verdict('application/octet-stream', '<HTML lang=en>'), 'text/html');
  t.equal(verdict(undefined, '<!-- a --><p>'), 'text/html');
  t.equal(verdict(undefined, '<?xml version="1.0"?><rss>'), 'application/xml');
  t.equal(verdict(undefined, '<?xml version="1.0"?><html xmlns="a">'), 'application/xhtml+xml');
  t.equal(verdict(undefined, '# A heading'), 'text/plain');
  t.equal(verdict(undefined, ''), 'text/plain');
});

t.test('UTF-16 without a byte order mark or a charset is text', async (t) => {
  const wide = (text: string): string => Buffer.from(text, 'utf16le').toString('latin1');
  const swapped = (text: string): string => Buffer.from(text, 'utf16le').swap16().toString('latin1');
  for (const encode of [wide, swapped]) {
    t.equal(verdict('text/html', encode('<html><p>Wasser im Fluß</html>')), 'text/html');
    t.equal(verdict(undefined, encode('<!doctype html><title>Wasser</title>')), 'text/html', 'sniffed too');
    t.equal(verdict(undefined, encode('Wasser im Fluss')), 'text/plain');
    const chinese = `<p>${'一部分水流进下一个池子'.repeat(40)}`;
    t.equal(verdict('text/html', encode(chinese)), 'text/html', 'East Asian text behind a tag');
    t.equal(verdict(undefined, encode(chinese)), 'text/html');
  }
  t.equal(verdict('text/html', 'a\0b\0'.repeat(3)), 'HR_FETCH_TYPE binary');
  t.equal(verdict('text/html', '\x01\0\x02\0\x03\0'.repeat(9)), 'HR_FETCH_TYPE binary');
});
