// The HTTP/1.1 request parser: what it accepts and refuses, with the input cut at every byte.
import t from 'tap';
import { RequestParser } from '../../src/net/http1-request-parser.ts';
import { readRequests } from '../support/http1-requests.ts';

const LIMITS = { headerBytes: 1000, maxFields: 20 };

const text = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');
const everywhere = (bytes: Buffer): number[] => [...bytes.keys()];
const read = (bytes: Buffer, places: readonly number[] = []): ReturnType<typeof readRequests> =>
  readRequests(bytes, places, LIMITS);

const GET = 'GET / HTTP/1.1';
const POST = 'POST / HTTP/1.1';
const HOST = 'host: x';
const CHUNKED = [POST, HOST, 'transfer-encoding: chunked', ''];

/** Parts of the only request of an input. */
const ACCEPTED: Record<string, readonly [Buffer, object]> = {
  'a request with a query': [
    text('GET /v1/models?a=b?c HTTP/1.1', HOST, '', ''),
    { method: 'GET', path: '/v1/models', query: 'a=b?c', minor: 1, declaredBytes: 0, keepAlive: true, body: '' },
  ],
  'a body of declared length': [
    text(POST, HOST, 'Content-Length: 3', '', 'a\0\xff'),
    { method: 'POST', declaredBytes: 3, body: 'a\0\xff', headers: ['host', 'x', 'content-length', '3'] },
  ],
  'a body of length 0': [text(POST, HOST, 'content-length: 0', '', ''), { declaredBytes: 0, body: '' }],
  'a length with zeros and blanks around it': [
    text(POST, HOST, 'content-length: \t 003 \t', '', 'abc'),
    { declaredBytes: 3, body: 'abc' },
  ],
  'a body on GET': [text(GET, HOST, 'content-length: 5', '', 'GET /'), { method: 'GET', body: 'GET /' }],
  'a body on HEAD': [
    text('HEAD / HTTP/1.1', HOST, 'transfer-encoding: chunked', '', '1', 'x', '0', '', ''),
    { method: 'HEAD', declaredBytes: -1, body: 'x' },
  ],
  'HTTP/1.0 without Host': [text('GET / HTTP/1.0', '', ''), { minor: 0, keepAlive: false, headers: [] }],
  'HTTP/1.0 with keep-alive': [
    text('GET / HTTP/1.0', HOST, 'connection: Keep-Alive', '', ''),
    { minor: 0, keepAlive: true },
  ],
  'a later minor version': [text('GET / HTTP/1.9', HOST, '', ''), { minor: 1, keepAlive: true }],
  'Connection: close': [text(GET, HOST, 'connection: x', 'Connection: TE, Close', '', ''), { keepAlive: false }],
  'close beside keep-alive': [text(GET, HOST, 'connection: keep-alive, close', '', ''), { keepAlive: false }],
  'names in lower case': [
    text(GET, 'HOST: x', "X-!#$%&'*+.^_`|~09: 1", '', ''),
    { headers: ['host', 'x', "x-!#$%&'*+.^_`|~09", '1'] },
  ],
  'blanks around values, not inside': [
    text(GET, HOST, 'a:b', 'c: \t d \t e \t', 'f:', 'g: \t ', '', ''),
    { headers: ['host', 'x', 'a', 'b', 'c', 'd \t e', 'f', '', 'g', ''] },
  ],
  'one character per byte': [
    text('GET /caf\xe9?\xff HTTP/1.1', HOST, 'a: \x80\xff', '', ''),
    { path: '/caf\xe9', query: '\xff', headers: ['host', 'x', 'a', '\x80\xff'] },
  ],
  'fields that repeat, in order': [
    text(GET, 'a: 1', HOST, 'a: 2', '', ''),
    { headers: ['a', '1', 'host', 'x', 'a', '2'] },
  ],
  'a method that is any token': [text('M-Search* /x HTTP/1.1', HOST, '', ''), { method: 'M-Search*', path: '/x' }],
  'the server as a whole': [text('OPTIONS * HTTP/1.1', HOST, '', ''), { path: '*', query: '' }],
  'an absolute target, whose authority is the Host': [
    text('GET http://Example.com:8080/a?b HTTP/1.1', HOST, 'a: b', '', ''),
    { path: '/a', query: 'b', headers: ['host', 'Example.com:8080', 'a', 'b'] },
  ],
  'an absolute target without path': [
    text('GET HTTPS://[::1] HTTP/1.1', HOST, '', ''),
    { path: '/', query: '', headers: ['host', '[::1]'] },
  ],
  'an absolute target with a query alone': [text('GET http://h?q HTTP/1.1', HOST, '', ''), { path: '/', query: 'q' }],
  'an absolute target of OPTIONS without path': [text('OPTIONS http://h HTTP/1.1', HOST, '', ''), { path: '*' }],
  'an absolute target in HTTP/1.0 without Host': [
    text('GET http://h/ HTTP/1.0', 'a: b', '', ''),
    { path: '/', headers: ['a', 'b', 'host', 'h'] },
  ],
  'a URL in a query': [text('GET /x?http://h/ HTTP/1.1', HOST, '', ''), { path: '/x', query: 'http://h/' }],
  'an empty Host': [text(GET, 'host:', '', ''), { headers: ['host', ''] }],
  'a Host with an IP literal': [text(GET, 'host: [2001:db8::1]:80', '', ''), { path: '/' }],
  'empty lines before a request': [text('', '', '', '', GET, HOST, '', ''), { path: '/' }],
  'an expectation': [
    text(POST, HOST, 'Expect: 100-Continue', 'content-length: 1', '', 'x'),
    { expectContinue: true, body: 'x' },
  ],
  'an expectation without body': [text(POST, HOST, 'expect: 100-continue', '', ''), { expectContinue: false }],
  'an expectation in HTTP/1.0': [
    text('POST / HTTP/1.0', 'expect: 100-continue', 'content-length: 1', '', 'x'),
    { expectContinue: false, body: 'x' },
  ],
  'another expectation': [
    text(POST, HOST, 'expect: more', 'content-length: 1', '', 'x'),
    { expectContinue: false, body: 'x' },
  ],
  'an upgrade, which is ignored': [
    text(GET, HOST, 'connection: upgrade', 'upgrade: websocket', '', ''),
    { keepAlive: true, path: '/' },
  ],
  chunks: [
    text(POST, HOST, 'Transfer-Encoding: Chunked', '', '1', 'a', '2', 'bc', '0', '', ''),
    { declaredBytes: -1, body: 'abc' },
  ],
  'no chunk but the last': [text(...CHUNKED, '000', '', ''), { declaredBytes: -1, body: '' }],
  'chunk sizes in any case and with zeros': [
    text(...CHUNKED, '00a', '0123456789', '1F', 'z'.repeat(31), '0', '', ''),
    { body: `0123456789${'z'.repeat(31)}` },
  ],
  'chunks with extensions': [
    text(...CHUNKED, '1;a', 'a', '1;a=b;c="d e\xe9";', 'b', '1 ; a = b', 'c', '1\t;', 'd', '0;last', '', ''),
    { body: 'abcd' },
  ],
  'chunk data that looks like chunks': [
    text(...CHUNKED, 'd', '0\r\n\r\nGET / \r\n', '0', '', ''),
    { body: '0\r\n\r\nGET / \r\n' },
  ],
  'trailers, which are dropped': [
    text(...CHUNKED, '1', 'a', '0', 'xxPOST: /x HTTP/1.1', 'Host: a', 'content-length: 9', 'e:', '', ''),
    { body: 'a', headers: ['host', 'x', 'transfer-encoding', 'chunked'] },
  ],
};

for (const [name, [bytes, parts]] of Object.entries(ACCEPTED)) {
  t.test(`accepted: ${name}`, async (t) => {
    const whole = read(bytes);
    t.match(whole, { requests: [{ ...parts, complete: true }], status: 0, reason: '' });
    t.equal(whole.requests.length, 1);
    for (const places of [[1], [bytes.byteLength - 1], everywhere(bytes)]) t.same(read(bytes, places), whole);
  });
}

const LINE = 'invalid request line';
const TARGET = 'invalid request target';
const BYTE = 'control character or bare line break in the head';
const FIELD = 'invalid header line';
const BAD_HOST = 'invalid Host';
const LENGTH = 'invalid Content-Length';
const LENGTHS = 'more than one Content-Length';
const CODING = 'invalid Transfer-Encoding';
const BOTH = 'both Content-Length and Transfer-Encoding';
const CHUNK = 'invalid chunked body';
const TRAILER = 'invalid trailer';

const withField = (...fields: string[]): Buffer => text(POST, HOST, ...fields, '', '');
const withChunk = (...lines: string[]): Buffer => text(...CHUNKED, ...lines, '0', '', '');

/** By status and reason. */
const REFUSED: Record<string, readonly [Buffer, number, string]> = {
  'no request': [text('garbage', '', ''), 400, LINE],
  'a line of HTTP/0.9': [text('GET /', '', ''), 400, LINE],
  'no version': [text('GET / ', HOST, '', ''), 400, LINE],
  'no method': [text(' / HTTP/1.1', HOST, '', ''), 400, LINE],
  'no target': [text('GET  HTTP/1.1', HOST, '', ''), 400, LINE],
  'a method that is no token': [text('G@T / HTTP/1.1', HOST, '', ''), 400, LINE],
  'two spaces after the method': [text('GET  / HTTP/1.1', HOST, '', ''), 400, LINE],
  'two spaces after the target': [text('GET /  HTTP/1.1', HOST, '', ''), 400, LINE],
  'a tab after the method': [text('GET\t/ HTTP/1.1', HOST, '', ''), 400, LINE],
  'a tab in the target': [text('GET /\t HTTP/1.1', HOST, '', ''), 400, LINE],
  'a space in the target': [text('GET /a b HTTP/1.1', HOST, '', ''), 400, LINE],
  'a space after the version': [text('GET / HTTP/1.1 ', HOST, '', ''), 400, LINE],
  'a version in lower case': [text('GET / http/1.1', HOST, '', ''), 400, LINE],
  'another protocol': [text('GET / RTSP/1.0', HOST, '', ''), 400, LINE],
  'a version with more digits': [text('GET / HTTP/1.10', HOST, '', ''), 400, LINE],
  'a version without dot': [text('GET / HTTP/1', HOST, '', ''), 400, LINE],
  'HTTP/2': [text('GET / HTTP/2.0', HOST, '', ''), 505, 'HTTP version not supported'],
  'the preface of HTTP/2': [text('PRI * HTTP/2.0', '', 'SM', '', ''), 505, 'HTTP version not supported'],
  'HTTP/0.9 by name': [text('GET / HTTP/0.9', HOST, '', ''), 505, 'HTTP version not supported'],
  'a handshake of TLS': [Buffer.from('1603010200010001fc0303', 'hex'), 400, BYTE],
  'more than four empty lines': [text('', '', '', '', '', GET, HOST, '', ''), 400, LINE],
  'a CR alone before the request': [Buffer.from('\rGET / HTTP/1.1\r\nhost: x\r\n\r\n'), 400, LINE],
  'a LF alone before the request': [Buffer.from('\nGET / HTTP/1.1\r\nhost: x\r\n\r\n'), 400, BYTE],
  'a blank before the request': [text(` ${GET}`, HOST, '', ''), 400, LINE],
  'lines that end in LF': [Buffer.from('GET / HTTP/1.1\nhost: x\n\n'), 400, BYTE],
  'one line that ends in LF': [Buffer.from('GET / HTTP/1.1\r\nhost: x\na: b\r\n\r\n'), 400, BYTE],
  'lines that end in CR': [Buffer.from('GET / HTTP/1.1\rhost: x\r\r'), 400, BYTE],
  'CR CR LF': [Buffer.from('GET / HTTP/1.1\r\r\nhost: x\r\n\r\n'), 400, BYTE],
  'a NUL in the target': [text('GET /\0 HTTP/1.1', HOST, '', ''), 400, BYTE],
  'a DEL in the target': [text('GET /\x7f HTTP/1.1', HOST, '', ''), 400, BYTE],
  'a NUL in a value': [withField('a: b\0c'), 400, BYTE],
  'a NUL in a name': [withField('a\0: b'), 400, BYTE],
  'a control character in a value': [withField('a: \x01'), 400, BYTE],
  'a vertical tab after a value': [withField('content-length: 0\x0b'), 400, BYTE],
  'a CR alone in a value': [withField('a: b\rc'), 400, BYTE],
  'a LF alone in a value': [withField('a: b\nc: d'), 400, BYTE],
  'a CR alone as a line': [withField('\r'), 400, BYTE],
  'a folded line': [withField('a: b', ' c: d'), 400, FIELD],
  'a line folded with a tab': [withField('a: b', '\tc'), 400, FIELD],
  'a blank before the first field': [text(GET, ` ${HOST}`, '', ''), 400, FIELD],
  'a space before the colon': [withField('content-length : 5'), 400, FIELD],
  'a tab before the colon': [withField('a\t: b'), 400, FIELD],
  'a space in a name': [withField('a b: c'), 400, FIELD],
  'a name that is not ASCII': [withField('caf\xe9: c'), 400, FIELD],
  'no name': [withField(': b'), 400, FIELD],
  'no colon': [withField('ab'), 400, FIELD],
  'a name in quotes': [withField('"a": b'), 400, FIELD],
  'too many fields': [withField(...Array.from({ length: 20 }, (_, at) => `a${at}: b`)), 431, 'too many header lines'],
  'a head that is too large': [withField(`a: ${'b'.repeat(1000)}`), 431, 'header too large'],
  'a line that is too long': [text(`GET /${'a'.repeat(1000)} HTTP/1.1`, HOST, '', ''), 414, 'request line too long'],
  'a head without end': [Buffer.from('a'.repeat(5000)), 414, 'request line too long'],
  'a name without end': [text(GET, 'a'.repeat(5000)), 431, 'header too large'],
  CONNECT: [text('CONNECT h:80 HTTP/1.1', HOST, '', ''), 400, 'CONNECT is not supported'],
  'an authority as target': [text('GET h:80 HTTP/1.1', HOST, '', ''), 400, TARGET],
  'the server as a whole for GET': [text('GET * HTTP/1.1', HOST, '', ''), 400, TARGET],
  'a target without slash': [text('GET a/b HTTP/1.1', HOST, '', ''), 400, TARGET],
  'a query as target': [text('GET ?a HTTP/1.1', HOST, '', ''), 400, TARGET],
  'another scheme': [text('GET ftp://h/ HTTP/1.1', HOST, '', ''), 400, TARGET],
  'an absolute target without host': [text('GET http:///a HTTP/1.1', HOST, '', ''), 400, TARGET],
  'an absolute target with a user': [text('GET http://u:p@h/ HTTP/1.1', HOST, '', ''), 400, TARGET],
  'a fragment': [text('GET /a#b HTTP/1.1', HOST, '', ''), 400, TARGET],
  'a fragment behind a query': [text('GET /a?b#c HTTP/1.1', HOST, '', ''), 400, TARGET],
  'a fragment behind an authority': [text('GET http://h#f HTTP/1.1', HOST, '', ''), 400, TARGET],
  'no Host': [text(GET, '', ''), 400, 'missing Host'],
  'no Host beside an absolute target': [text('GET http://h/ HTTP/1.1', '', ''), 400, 'missing Host'],
  'two Hosts': [text(GET, HOST, 'Host: y', '', ''), 400, 'more than one Host'],
  'two equal Hosts': [text(GET, HOST, HOST, '', ''), 400, 'more than one Host'],
  'two Hosts in HTTP/1.0': [text('GET / HTTP/1.0', HOST, HOST, '', ''), 400, 'more than one Host'],
  'a Host with a blank': [text(GET, 'host: a b', '', ''), 400, BAD_HOST],
  'a Host with a path': [text(GET, 'host: a/b', '', ''), 400, BAD_HOST],
  'a Host with a user': [text(GET, 'host: u@a', '', ''), 400, BAD_HOST],
  'a Host with two ports': [text(GET, 'host: a:1:2', '', ''), 400, BAD_HOST],
  'a Host with an open bracket': [text(GET, 'host: [::1', '', ''), 400, BAD_HOST],
  'two lengths': [withField('content-length: 1', 'Content-Length: 2'), 400, LENGTHS],
  'two equal lengths': [withField('content-length: 0', 'content-length: 0'), 400, LENGTHS],
  'two lengths on GET': [text(GET, HOST, 'content-length: 5', 'content-length: 0', '', ''), 400, LENGTHS],
  'two lengths in one field': [withField('content-length: 5, 5'), 400, LENGTH],
  'a length that is no number': [withField('content-length: 1x'), 400, LENGTH],
  'an empty length': [withField('content-length:'), 400, LENGTH],
  'a signed length': [withField('content-length: +1'), 400, LENGTH],
  'a negative length': [withField('content-length: -1'), 400, LENGTH],
  'a hexadecimal length': [withField('content-length: 0x1'), 400, LENGTH],
  'a length with a blank inside': [withField('content-length: 4 2'), 400, LENGTH],
  'a length with a comma': [withField('content-length: 4,'), 400, LENGTH],
  'a length above 2^53': [withField('content-length: 9007199254740993'), 413, 'body too large'],
  'a length above 2^64': [withField('content-length: 18446744073709551617'), 413, 'body too large'],
  'a length and a coding': [withField('content-length: 5', 'transfer-encoding: chunked'), 400, BOTH],
  'a coding and a length': [withField('transfer-encoding: chunked', 'content-length: 5'), 400, BOTH],
  'a length and identity': [withField('content-length: 5', 'transfer-encoding: identity'), 400, BOTH],
  'a coding in HTTP/1.0': [text('POST / HTTP/1.0', 'transfer-encoding: chunked', '', '0', '', ''), 400, CODING],
  identity: [withField('transfer-encoding: identity'), 400, CODING],
  'another coding before chunked': [withField('transfer-encoding: gzip, chunked'), 400, CODING],
  'another coding behind chunked': [withField('transfer-encoding: chunked, gzip'), 400, CODING],
  'chunked twice': [withField('transfer-encoding: chunked, chunked'), 400, CODING],
  'chunked in two fields': [withField('transfer-encoding: chunked', 'transfer-encoding: chunked'), 400, CODING],
  'a coding that begins with chunked': [withField('transfer-encoding: chunkedchunked'), 400, CODING],
  'chunked with a parameter': [withField('transfer-encoding: chunked;a=b'), 400, CODING],
  'chunked in quotes': [withField('transfer-encoding: "chunked"'), 400, CODING],
  'chunked with an empty element': [withField('transfer-encoding: ,chunked'), 400, CODING],
  'an empty coding': [withField('transfer-encoding:'), 400, CODING],
  'a chunk without a size': [withChunk('', 'a'), 400, CHUNK],
  'a chunk size that is no number': [withChunk('g', 'a'), 400, CHUNK],
  'a chunk size with a prefix': [withChunk('0x1', 'a'), 400, CHUNK],
  'a chunk size with a sign': [withChunk('+1', 'a'), 400, CHUNK],
  'a chunk size with a blank before it': [withChunk(' 1', 'a'), 400, CHUNK],
  'a chunk size with a blank behind it': [withChunk('1 ', 'a'), 400, CHUNK],
  'a chunk size with a word behind it': [withChunk('1 a', 'a'), 400, CHUNK],
  'a chunk size of 16 digits': [withChunk('0000000000000001', 'a'), 400, CHUNK],
  'a chunk size above 2^53': [withChunk('40000000000000', 'a'), 400, CHUNK],
  'a chunk size that ends in LF': [Buffer.concat([text(...CHUNKED, ''), Buffer.from('1\na\r\n0\r\n\r\n')]), 400, CHUNK],
  'a chunk size that ends in CR': [Buffer.concat([text(...CHUNKED, ''), Buffer.from('1\ra\r\n0\r\n\r\n')]), 400, CHUNK],
  'an extension that ends in LF': [withChunk('1;a\na'), 400, CHUNK],
  'an extension with a CR': [withChunk('1;a\rb', 'a'), 400, CHUNK],
  'an extension with a NUL': [withChunk('1;a\0', 'a'), 400, CHUNK],
  'an extension that is too long': [withChunk(`1;${'a'.repeat(5000)}`, 'a'), 400, CHUNK],
  'blanks without end': [withChunk(`1${' '.repeat(5000)};`, 'a'), 400, CHUNK],
  'chunk data that is longer than its size': [withChunk('1', 'ab'), 400, CHUNK],
  'chunk data that ends in LF': [withChunk('1', 'a\n'), 400, CHUNK],
  'chunk data that ends in another byte and LF': [withChunk('1', 'ax\n0'), 400, CHUNK],
  'chunk data that ends in CR alone': [withChunk('1', 'a\rb'), 400, CHUNK],
  'a trailer without colon': [text(...CHUNKED, '0', 'xxPOST', '', ''), 400, TRAILER],
  'a trailer without name': [text(...CHUNKED, '0', ': a', '', ''), 400, TRAILER],
  'a trailer with a space in its name': [text(...CHUNKED, '0', 'GET / HTTP/1.1', '', ''), 400, TRAILER],
  'a trailer with a control character': [text(...CHUNKED, '0', 'a: \0', '', ''), 400, TRAILER],
  'a folded trailer': [text(...CHUNKED, '0', 'a: b', ' c', '', ''), 400, TRAILER],
  'a trailer that ends in LF': [text(...CHUNKED, '0', 'a: b\nc: d', '', ''), 400, TRAILER],
  'a body that ends in CR alone': [text(...CHUNKED, '0', '\rx'), 400, TRAILER],
  'trailers that are too long': [text(...CHUNKED, '0', `a: ${'b'.repeat(20_000)}`, '', ''), 431, 'trailers too large'],
};

for (const [name, [bytes, status, reason]] of Object.entries(REFUSED)) {
  t.test(`refused: ${name}`, async (t) => {
    const whole = read(bytes);
    t.match(whole, { status, reason });
    t.not(whole.requests[0]?.complete, true);
    for (const places of [[1], [bytes.byteLength - 1], everywhere(bytes)]) t.same(read(bytes, places), whole);
  });
}

t.test('a head of exactly the limit is accepted, one byte more is refused', async (t) => {
  const headOf = (bytes: number): Buffer => {
    const rest = text(GET, HOST, 'a: ', '', '').byteLength;
    return text(GET, HOST, `a: ${'b'.repeat(bytes - rest)}`, '', '');
  };
  for (const places of [[], [999], everywhere(headOf(1000))]) {
    t.match(read(headOf(1000), places), { requests: [{ complete: true }], status: 0 });
    t.match(read(headOf(1001), places), { requests: [], status: 431 });
  }
});

t.test('pipelined requests are read one after the other, whatever bodies they have', async (t) => {
  const bytes = Buffer.concat([
    text(POST, HOST, 'content-length: 3', '', 'abc'),
    text(GET, 'host: y', '', ''),
    text('', ...CHUNKED, '2', 'de', '0', 'a: b', '', ''),
    text('GET /last HTTP/1.1', HOST, 'content-length: 5', '', 'GET /'),
    text(GET, HOST, 'connection: close', '', ''),
    Buffer.from('\0never read'),
  ]);
  const whole = read(bytes);
  t.match(
    whole.requests.map(({ path, body, complete, headers }) => [path, body, complete, headers[1]]),
    [
      ['/', 'abc', true, 'x'],
      ['/', '', true, 'y'],
      ['/', 'de', true, 'x'],
      ['/last', 'GET /', true, 'x'],
      ['/', '', true, 'x'],
    ],
  );
  t.equal(whole.status, 0);
  for (let place = 0; place <= bytes.byteLength; place++) t.same(read(bytes, [place]), whole);
  t.same(read(bytes, everywhere(bytes)), whole);
});

t.test('the same head again, one that differs in a byte, and one that is cut give what they say', async (t) => {
  const same = text(POST, HOST, 'content-length: 1', '', 'a');
  const other = text(POST, HOST, 'content-length: 2', '', 'bc');
  const bad = text(POST, HOST, 'content-length: x', '', '');
  const bytes = Buffer.concat([same, same, same, other, same, same, other, other, other, same, bad]);
  const whole = read(bytes);
  t.equal(whole.requests.map(({ body }) => body).join(''), 'aaabcaabcbcbca');
  t.equal(whole.reason, LENGTH);
  for (let place = 0; place <= bytes.byteLength; place++) t.same(read(bytes, [place, place + 50]), whole);
});

t.test('a head that begins like the one before is read as if it came alone', async (t) => {
  const before = [POST, HOST, 'a: 1', 'b: 2', 'c: 3', 'connection: x'];
  const tails: string[][] = [
    ['content-length: 1', '', 'x'],
    ['content-length: 12', '', 'x'.repeat(12)],
    ['content-length: 1', 'd: 4', '', 'x'],
    ['', ''],
    ['content-length: 1', 'connection: close', '', 'x'],
    ['content-length: 1', 'content-length: 1', '', 'x'],
    ['content-length: 1', ' folded', '', 'x'],
    ['content-length: 1', 'host: y', '', 'x'],
    ['content-length: 1x', '', 'x'],
    ['content-length: 1\n', '', 'x'],
    ['transfer-encoding: chunked', '', '1', 'x', '0', '', ''],
    ['content-length: 1', 'transfer-encoding: chunked', '', '0', '', ''],
    Array.from({ length: 30 }, (_, at) => `n${at}: 1`).concat('', ''),
  ];
  const first = text(...before, 'content-length: 1', '', 'x');
  for (const tail of tails) {
    const bytes = text(...before, ...tail);
    const alone = read(bytes);
    const all = read(Buffer.concat([first, first, first, bytes]));
    t.same(all.requests.slice(3), alone.requests, tail.join());
    t.same([all.status, all.reason], [alone.status, alone.reason], tail.join());
  }
});

t.test(
  'a head repeats the one before when nothing but the value of Content-Length in its last line differs',
  async (t) => {
    const parser = new RequestParser({ headerBytes: 16_384, maxFields: 64 });
    const repeats: boolean[] = [];
    const send = (...lines: string[]): void => {
      const bytes = text(...lines);
      for (let at = 0; at < bytes.byteLength;) {
        if (parser.state === 'done') parser.begin();
        const isHead = parser.state === 'head';
        at = parser.parse(bytes, at, bytes.byteLength);
        if (isHead && parser.state !== 'head') repeats.push(parser.repeats);
      }
    };
    const one = [POST, HOST, 'a: 1', 'content-length: 1', '', 'x'];
    send(...one);
    send(...one);
    t.same(repeats.splice(0), [false, false], 'nothing is kept of a first request');
    send(...one);
    send(POST, HOST, 'a: 1', 'content-length: 3', '', 'xyz');
    send(POST, HOST, 'a: 1', 'content-length: 12', '', 'x'.repeat(12));
    send(...one);
    t.same(repeats.splice(0), [true, true, true, true]);
    t.equal(parser.keepsHead, true);
    send(POST, HOST, 'a: 2', 'content-length: 1', '', 'x');
    send(POST, HOST, 'content-length: 1', '', 'x');
    send(POST, HOST, 'content-length: 1', 'a: 1', '', 'x');
    send(POST, HOST, 'content-length: 2', 'a: 1', '', 'xy');
    send(POST, HOST, 'content-length: 2', '', 'xy');
    send(POST, HOST, 'transfer-encoding: chunked', '', '0', '', '');
    send(POST, HOST, '', '');
    send(POST.replace('POST', 'PUT'), HOST, '', '');
    t.same(repeats, [false, false, false, false, false, false, false, false]);
  },
);

t.test('the authority of an absolute target is the Host of its request alone', async (t) => {
  const requests = [
    ['http://h/ HTTP/1.1', HOST, 'a: b'],
    ['http://h/ HTTP/1.1', HOST, 'a: b'],
    ['/ HTTP/1.1', HOST, 'a: b'],
    ['http://i/ HTTP/1.0', 'connection: keep-alive', 'c: d'],
    ['http://i/ HTTP/1.0', 'connection: keep-alive', 'c: d'],
    ['http://i/ HTTP/1.0', 'connection: keep-alive', 'c: e', 'f: g'],
    ['/ HTTP/1.0', 'connection: keep-alive', 'c: d'],
  ].map(([line, ...fields]) => text(`GET ${line}`, ...fields, '', ''));
  const all = read(Buffer.concat(requests));
  t.same(
    all.requests,
    requests.flatMap((bytes) => read(bytes).requests),
  );
  t.same(all.requests[5]?.headers, ['connection', 'keep-alive', 'c', 'e', 'f', 'g', 'host', 'i']);
});

t.test('a request that has not ended is not complete and not refused', async (t) => {
  for (const bytes of [
    text(GET, HOST, ''),
    Buffer.from('GET / HTTP/1.1\r\nhost: x\r'),
    text(POST, HOST, 'content-length: 3', '', 'ab'),
    text(...CHUNKED, '3', 'ab'),
    text(...CHUNKED, '0', ''),
    text('', '', ''),
  ]) {
    const { requests, status } = read(bytes);
    t.not(requests[0]?.complete, true);
    t.equal(status, 0);
  }
});
