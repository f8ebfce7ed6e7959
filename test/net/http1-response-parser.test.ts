// The HTTP/1.1 response parser: what it accepts and refuses, with the input cut at every byte.
import t from 'tap';
import { ResponseParser } from '../../src/net/http1-response-parser.ts';
import { readResponse as read } from '../support/http1-responses.ts';

const text = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');
const everywhere = (bytes: Buffer): number[] => [...bytes.keys()];

const OK = 'HTTP/1.1 200 OK';
const CHUNKED = [OK, 'transfer-encoding: chunked', ''];

const MALFORMED: Record<string, Buffer> = {
  'no HTTP': text('garbage', '', ''),
  'another protocol': text('ICY 200 OK', '', ''),
  'another version': text('HTTP/2.0 200 OK', '', ''),
  'a later minor version': text('HTTP/1.2 200 OK', '', ''),
  'a lower-case version': text('http/1.1 200 OK', '', ''),
  'two spaces before the status': text('HTTP/1.1  200 OK', '', ''),
  'a short status': text('HTTP/1.1 20 OK', '', ''),
  'a long status': text('HTTP/1.1 2000 OK', '', ''),
  'a status that is no number': text('HTTP/1.1 2x0 OK', '', ''),
  'a status below 100': text('HTTP/1.1 099 OK', '', ''),
  'a status above 599': text('HTTP/1.1 600 OK', '', ''),
  'a control character in the reason': text('HTTP/1.1 200 O\x01K', '', ''),
  'an empty line first': text('', OK, 'content-length: 0', '', ''),
  'a change of protocol': text('HTTP/1.1 101 Switching Protocols', 'upgrade: x', '', ''),
  'lines that end in LF': Buffer.from(`${OK}\na: b\n\r\n\r\n`),
  'a lone CR': text(OK, 'a: b\rc: d', '', ''),
  'a lone LF': text(OK, 'a: b\nc: d', '', ''),
  'a NUL': text(OK, 'a: b\0', '', ''),
  'a folded line': text(OK, 'a: b', ' c', '', ''),
  'a space before the colon': text(OK, 'a : b', '', ''),
  'a name with a space': text(OK, 'a b: c', '', ''),
  'a name that is not ASCII': text(OK, 'caf\xe9: c', '', ''),
  'no name': text(OK, ': b', '', ''),
  'no colon': text(OK, 'ab', '', ''),
  'too many fields': text(OK, ...Array.from({ length: 257 }, (_, at) => `a${at}: b`), '', ''),
  'a head that is too large': text(OK, `a: ${'b'.repeat(70_000)}`, '', ''),
  'informational heads without end': Buffer.from('HTTP/1.1 102 Processing\r\nlink: </x>\r\n\r\n'.repeat(2000)),
  'an informational response with a length': text('HTTP/1.1 103 Early Hints', 'content-length: 1', '', 'x'),
  'an informational response with a coding': text(
    'HTTP/1.1 103 Early Hints',
    'transfer-encoding: chunked',
    '',
    '0',
    '',
    '',
  ),
  'a length that is no number': text(OK, 'content-length: 1x', '', ''),
  'an empty length': text(OK, 'content-length:', '', ''),
  'a signed length': text(OK, 'content-length: +1', '', ''),
  'a negative length': text(OK, 'content-length: -1', '', ''),
  'a hexadecimal length': text(OK, 'content-length: 0x1', '', ''),
  'a length above 2^53': text(OK, 'content-length: 9007199254740993', '', ''),
  'lengths that differ': text(OK, 'content-length: 1', 'content-length: 2', '', ''),
  'lengths that differ in one field': text(OK, 'content-length: 1, 2', '', ''),
  'a length and nothing': text(OK, 'content-length: 1,', '', ''),
  'another coding': text(OK, 'transfer-encoding: gzip, chunked', '', ''),
  'an unknown coding': text(OK, 'transfer-encoding: identity', '', ''),
  'chunked twice': text(OK, 'transfer-encoding: chunked', 'transfer-encoding: chunked', '', ''),
  'no coding': text(OK, 'transfer-encoding:', '', ''),
  'a coding in HTTP/1.0': text('HTTP/1.0 200 OK', 'transfer-encoding: chunked', '', '0', '', ''),
  'a coding and a length that is no number': text(OK, 'transfer-encoding: chunked', 'content-length: x', '', ''),
  'a chunk without a size': text(...CHUNKED, '', ''),
  'a chunk size that is no number': text(...CHUNKED, 'g', ''),
  'a chunk size with a prefix': text(...CHUNKED, '0x1', 'a', ''),
  'a chunk size above 2^53': text(...CHUNKED, '40000000000000', ''),
  'a chunk size of many zeros': text(...CHUNKED, '0'.repeat(5000), ''),
  'a chunk size that ends in LF': text(...CHUNKED, '1\na', ''),
  'a chunk extension that is too long': text(...CHUNKED, `1;${'a'.repeat(5000)}`, 'a', ''),
  'a chunk extension with a control character': text(...CHUNKED, '1;a\0', 'a', ''),
  'a chunk that is longer than its size': text(...CHUNKED, '1', 'ab', ''),
  'a CR alone after a chunk': text(...CHUNKED, '1', 'a\rb', ''),
  'a trailer with a control character': text(...CHUNKED, '0', 'a: \0', '', ''),
  'a folded trailer': text(...CHUNKED, '0', 'a: b', ' c', '', ''),
  'a trailer that ends in LF': text(...CHUNKED, '0', 'a: b\nc', '', ''),
  'trailers that are too long': text(...CHUNKED, '0', `a: ${'b'.repeat(20_000)}`, '', ''),
};

for (const [name, bytes] of Object.entries(MALFORMED)) {
  t.test(`${name} is malformed`, async (t) => {
    for (const places of [[], [1], [bytes.byteLength - 1], everywhere(bytes)]) {
      t.equal(read(bytes, places, { ended: true }).state, 'malformed');
    }
  });
}

t.test('responses without a body end with their head', async (t) => {
  for (const line of ['HTTP/1.1 204 No Content', 'HTTP/1.1 304 Not Modified', OK]) {
    for (const field of ['content-length: 5', 'transfer-encoding: chunked', 'a: b']) {
      const one = read(text(line, field, '', ''), [], { toHead: line === OK });
      t.match(one, { state: 'done', body: '', reusable: true });
    }
  }
});

t.test('the version and the Connection field decide whether the connection is reused', async (t) => {
  const persists = (version: string, ...fields: string[]): boolean =>
    read(text(`HTTP/${version} 200 OK`, ...fields, 'content-length: 0', '', '')).reusable;
  t.equal(persists('1.1'), true);
  t.equal(persists('1.1', 'connection: Keep-Alive'), true);
  t.equal(persists('1.1', 'connection: X, Close'), false);
  t.equal(persists('1.1', 'connection: x', 'connection: close'), false);
  t.equal(persists('1.0'), false);
  t.equal(persists('1.0', 'connection: Keep-Alive'), true);
  t.equal(persists('1.0', 'connection: x, keep-alive'), true);
  t.equal(persists('1.0', 'connection: keep-alive, close'), false);
});

t.test('a head that begins like the one before is read as if it came alone', async (t) => {
  const before = (line: string): string[] => [line, 'a: 1', 'b: 2', 'connection: x'];
  const tails = [
    ['content-length: 1', '', 'x'],
    ['content-length: 1', 'connection: close', '', 'x'],
    ['transfer-encoding: chunked', '', '0', '', ''],
    ['content-length: 1', 'content-length: 1', '', 'x'],
    ['', 'x'],
    ['content-length: 1', ' folded', '', 'x'],
  ];
  for (const line of [OK, 'HTTP/1.0 503', 'HTTP/1.1 204 No Content']) {
    for (const tail of tails) {
      const parser = new ResponseParser();
      read(text(...before(line), 'content-length: 1', '', 'x'), [], {}, parser);
      const bytes = text(...before(line), ...tail);
      t.same(read(bytes, [], {}, parser), read(bytes), `${line} ${tail.join()}`);
    }
  }
});

t.test('a connection that an informational response ends is not reused', async (t) => {
  const final = [OK, 'content-length: 0', '', ''];
  t.equal(read(text('HTTP/1.1 103 Early Hints', 'connection: close', '', ...final)).reusable, false);
  t.equal(read(text('HTTP/1.1 103 Early Hints', 'connection: keep-alive', '', ...final)).reusable, true);
});

t.test('chunked wins over Content-Length, drops it, and ends the connection', async (t) => {
  const one = read(text(OK, 'content-length: 3', 'a: b', 'transfer-encoding: chunked', '', '1', 'x', '0', '', ''));
  t.same(one, {
    state: 'done',
    status: 200,
    fields: ['a', 'b', 'transfer-encoding', 'chunked'],
    body: 'x',
    reusable: false,
  });
});

t.test('equal Content-Length fields become one', async (t) => {
  for (const fields of [['content-length: 2, 2'], ['content-length: 2', 'Content-Length: 02']]) {
    const one = read(text(OK, ...fields, 'a: b', '', 'xy'));
    t.same([one.state, one.fields, one.body], ['done', ['content-length', '2', 'a', 'b'], 'xy']);
  }
});

t.test('an incomplete response stays incomplete when the server closes', async (t) => {
  for (const bytes of [
    text(OK, 'content-length: 3', '', 'ab'),
    text(...CHUNKED, '3', 'abc', '0', ''),
    text(...CHUNKED, '3', 'ab'),
    text(OK, 'a: b', ''),
    Buffer.alloc(0),
  ]) {
    t.notMatch(read(bytes, [], { ended: true }).state, /done|malformed/);
  }
});

t.test('a response that cannot become valid is malformed at its first wrong byte', async (t) => {
  for (const [good, bad] of [
    ['', 'S'],
    ['', '{'],
    ['', '\n'],
    ['HTT', 'Q'],
    ['HTTP/', '2'],
    ['HTTP/1.', '2'],
    ['HTTP/1.1 ', '6'],
    ['HTTP/1.1 200', 'O'],
    ['HTTP/1.1 200 OK', '\n'],
    ['HTTP/1.1 200 OK\r', 'a'],
    ['HTTP/1.1 200 OK\r\na: b', '\n'],
    ['HTTP/1.1 200 OK\r\na: b', '\0'],
    ['HTTP/1.1 200 OK\r\na: b\r', '\r'],
    ['HTTP/1.1 100 Continue\r\n\r\n', '\r'],
  ] as const) {
    const bytes = Buffer.from(good + bad);
    for (const places of [[], [good.length], everywhere(bytes)]) {
      t.equal(read(Buffer.from(good), places).state, 'head', JSON.stringify(good));
      t.match(read(bytes, places), { state: 'malformed', reusable: false }, JSON.stringify(good + bad));
    }
  }
});

t.test('a truncated head stays incomplete when the server closes', async (t) => {
  for (const start of ['', 'HTT', 'HTTP/1.1 200', 'HTTP/1.1 200 OK\r\n', 'HTTP/1.1 200 OK\r\na: b\r']) {
    t.equal(read(Buffer.from(start), [], { ended: true }).state, 'head', start);
  }
});

t.test('the same head again, and one that differs in a byte, give what they say', async (t) => {
  const parser = new ResponseParser();
  const [one, other] = [text(OK, 'content-length: 2', '', 'ab'), text(OK, 'content-length: 1', '', 'c')];
  const [close, bad] = [text(OK, 'connection: close', '', 'ab'), text(OK, 'content-length: x', '', '')];
  for (const bytes of [one, one, other, other, one, close, close, one]) {
    for (const places of [[], [], [10], []]) {
      t.same(read(bytes, places, { ended: true }, parser), read(bytes, places, { ended: true }));
    }
  }
  for (const toHead of [false, true, false]) t.equal(read(one, [], { toHead }, parser).body, toHead ? '' : 'ab');
  t.equal(read(bad, [], {}, parser).state, 'malformed');
});

t.test('bytes behind a response are not read and end the connection', async (t) => {
  const first = text(OK, 'content-length: 1', '', 'x');
  for (const extra of [first, Buffer.from('\r\n'), Buffer.from('y')]) {
    const one = read(Buffer.concat([first, extra]));
    t.match(one, { state: 'done', body: 'x', reusable: false });
  }
});

t.test('blanks around a chunk extension are skipped', async (t) => {
  t.match(read(text(...CHUNKED, '1  ; a = b', 'x', '0 ', '', '')), { state: 'done', body: 'x', reusable: true });
});

t.test('the data of several chunks in one piece is moved together', async (t) => {
  const parser = new ResponseParser();
  parser.begin(false);
  const bytes = text(...CHUNKED, '1', 'a', '2', 'bc', '3', 'def', '100', 'g');
  parser.parse(bytes, bytes.byteLength);
  t.equal(bytes.toString('latin1', parser.bodyStart, parser.bodyEnd), 'abcdefg');
  t.equal(parser.state, 'chunked');
});

t.test(
  'chunk framing parses the same when a line is cut inside its size, its extension and its line ends',
  async (t) => {
    const bytes = text(...CHUNKED, '00a;x=y', '0123456789', '1F ', 'z'.repeat(31), '0;last', 'a: b', '', '');
    const whole = read(bytes);
    t.match(whole, { state: 'done', body: `0123456789${'z'.repeat(31)}`, reusable: true });
    for (let first = 0; first <= bytes.byteLength; first++) {
      for (let second = first; second <= bytes.byteLength; second += 3) t.same(read(bytes, [first, second]), whole);
    }
  },
);

t.test('blanks around field values are removed, those inside are kept', async (t) => {
  const one = read(text(OK, 'a:b', 'c: \t d \t e \t', 'f:', 'g: \t ', 'content-length:\t0 ', '', ''));
  t.same(one.fields, ['a', 'b', 'c', 'd \t e', 'f', '', 'g', '', 'content-length', '0']);
});
