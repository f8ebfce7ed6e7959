// The HTTP/1.1 response parser: what it accepts and refuses, with the input cut at every byte, and compared with node:http.
import { once } from 'node:events';
import { request } from 'node:http';
import { Duplex } from 'node:stream';
import fc from 'fast-check';
import t from 'tap';
import { ResponseParser } from '../../src/net/http1-response-parser.ts';

interface Read {
  readonly state: string;
  readonly status: number;
  readonly fields: readonly string[];
  readonly body: string;
  readonly reusable: boolean;
}

/** Parses `bytes` cut at `places`; `ended`: the server closes the connection after them. */
function read(bytes: Buffer, places: readonly number[] = [], { ended = false, toHead = false } = {}): Read {
  const parser = new ResponseParser();
  parser.begin(toHead);
  const body: Buffer[] = [];
  const cuts = [...new Set(places.map((place) => place % (bytes.byteLength + 1)))].sort((a, b) => a - b);
  let from = 0;
  let heads = 0;
  for (const to of [...cuts, bytes.byteLength]) {
    const piece = Buffer.from(bytes.subarray(from, to));
    from = to;
    parser.parse(piece, piece.byteLength);
    if (parser.headCame) heads++;
    body.push(Buffer.from(piece.subarray(parser.bodyStart, parser.bodyEnd)));
  }
  if (ended) parser.end();
  if (heads > 1) throw new Error('two heads were delivered');
  const { state, status, fields, reusable } = parser;
  return { state, status, fields, reusable, body: Buffer.concat(body).toString('latin1') };
}

const text = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');
const everywhere = (bytes: Buffer): number[] => [...bytes.keys()];

interface Message {
  readonly bytes: Buffer;
  readonly ended: boolean;
  readonly status: number;
  readonly body: Buffer;
}

const fieldName = fc.stringMatching(/^[xX]-[!#$%&'*+.^_`|~0-9A-Za-z-]{0,12}$/);
const fieldValue = fc.stringMatching(/^(?:[!-~\xa0-\xff](?:[ -~\t\xa0-\xff]{0,20}[!-~\xa0-\xff])?)?$/);

const message: fc.Arbitrary<Message> = fc
  .record({
    status: fc.integer({ min: 200, max: 599 }).filter((status) => status !== 204 && status !== 304),
    reason: fc.constantFrom('', ' ', ' OK', ' caf\xe9 au lait'),
    early: fc.constantFrom('', 'HTTP/1.1 100 Continue\r\n\r\n', 'HTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\n'),
    fields: fc.array(fc.tuple(fieldName, fc.constantFrom('', ' ', ' \t '), fieldValue), { maxLength: 6 }),
    pieces: fc.array(fc.uint8Array({ minLength: 1, maxLength: 40 }), { maxLength: 6 }),
    framing: fc.constantFrom('length', 'chunked', 'close'),
    extension: fc.constantFrom('', ';a', ';a=b;c="d e"'),
    trailer: fc.constantFrom('', 'x-sum: 1\r\n', 'a: b\r\nc: d\r\n'),
  })
  .map(({ status, reason, early, fields, pieces, framing, extension, trailer }) => {
    const body = Buffer.concat(pieces);
    const lines = fields.map(([name, space, value]) => `${name}:${space}${value}${space}\r\n`).join('');
    const latin1 = (part: string): Buffer => Buffer.from(part, 'latin1');
    const head = `${early}HTTP/1.1 ${status}${reason}\r\n${lines}`;
    const parts =
      framing === 'length'
        ? [latin1(`Content-Length: ${body.byteLength}\r\n\r\n`), body]
        : framing === 'close'
          ? [latin1('\r\n'), body]
          : [
              latin1('Transfer-Encoding: Chunked\r\n\r\n'),
              ...pieces.flatMap((piece) => [
                latin1(`${piece.byteLength.toString(16).toUpperCase()}${extension}\r\n`),
                Buffer.from(piece),
                latin1('\r\n'),
              ]),
              latin1(`0${extension}\r\n${trailer}\r\n`),
            ];
    return { bytes: Buffer.concat([latin1(head), ...parts]), ended: framing === 'close', status, body };
  });

t.test('a response parses the same wherever the input is cut', async (t) => {
  fc.assert(
    fc.property(message, fc.array(fc.nat(), { maxLength: 12 }), ({ bytes, ended, status, body }, places) => {
      const whole = read(bytes, [], { ended });
      t.match(whole, { state: 'done', status, body: body.toString('latin1'), reusable: !ended });
      t.same(read(bytes, places, { ended }), whole);
      t.same(read(bytes, everywhere(bytes), { ended }), whole);
    }),
    { numRuns: 150 },
  );
});

/** The response that node:http parses from the same bytes. */
async function readByNode({ bytes, ended }: Message): Promise<Omit<Read, 'state' | 'reusable'>> {
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  const asked = request({ createConnection: () => socket, host: 'x', method: 'POST' }).end('x');
  const answered = once(asked, 'response');
  setImmediate(() => {
    socket.push(bytes);
    if (ended) socket.push(null);
  });
  const [answer] = (await answered) as [import('node:http').IncomingMessage];
  const body: Buffer[] = [];
  for await (const piece of answer) body.push(piece as Buffer);
  const fields = answer.rawHeaders.map((word, at) => (at % 2 === 0 ? word.toLowerCase() : word));
  socket.destroy();
  return { status: answer.statusCode ?? 0, fields, body: Buffer.concat(body).toString('latin1') };
}

t.test('a response parses as node:http parses it', async (t) => {
  await fc.assert(
    fc.asyncProperty(message, async (one) => {
      const { status, fields, body } = read(one.bytes, [], one);
      t.same({ status, fields, body }, await readByNode(one));
    }),
    { numRuns: 150 },
  );
});

t.test('on broken input the parser does not throw and delivers only bytes of the input', async (t) => {
  const mutation = fc.tuple(fc.nat(), fc.constantFrom('flip', 'cut', 'insert', 'double'), fc.nat({ max: 255 }));
  fc.assert(
    fc.property(
      message,
      fc.array(mutation, { minLength: 1, maxLength: 4 }),
      fc.array(fc.nat()),
      (one, edits, places) => {
        let { bytes } = one;
        for (const [place, kind, byte] of edits) {
          const at = place % (bytes.byteLength + 1);
          const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
          const extra = Buffer.from([byte]);
          if (kind === 'flip') bytes = Buffer.concat([before, extra, after.subarray(1)]);
          else if (kind === 'cut') bytes = before;
          else if (kind === 'insert') bytes = Buffer.concat([before, extra, after]);
          else bytes = Buffer.concat([before, after, after]);
        }
        const whole = read(bytes, [], { ended: true });
        const cut = read(bytes, places, { ended: true });
        return (
          whole.body.length <= bytes.byteLength &&
          whole.state === cut.state &&
          whole.body === cut.body &&
          !whole.reusable
        );
      },
    ),
    { numRuns: 2000 },
  );
  t.pass();
});

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

t.test('another protocol is malformed when the server closes, a truncated head is not', async (t) => {
  for (const [text, state] of [
    ['SSH-2.0-OpenSSH\r\n', 'malformed'],
    ['{"error":1}', 'malformed'],
    ['HTT', 'head'],
    ['HTTP/1.1 200 OK\r\n', 'head'],
  ] as const) {
    const parser = new ResponseParser();
    parser.begin(false);
    parser.parse(Buffer.from(text), text.length);
    parser.end();
    t.equal(parser.state, state, text);
  }
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
