// The HTTP/1.1 request parser: what it accepts and refuses, with the input cut at every byte.
import t from 'tap';
import { RequestParser } from '../../src/net/http1-request-parser.ts';

const LIMITS = { headerBytes: 1000, maxFields: 20 };

interface Request {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: readonly string[];
  readonly minor: number;
  readonly keepAlive: boolean;
  readonly declaredBytes: number;
  readonly expectContinue: boolean;
  body: string;
  complete: boolean;
}

interface Read {
  readonly requests: readonly Request[];
  readonly status: number;
  readonly reason: string;
}

/** Parses all requests of one connection, with `bytes` cut at `places`. */
function read(bytes: Buffer, places: readonly number[] = [], limits = LIMITS): Read {
  const parser = new RequestParser(limits);
  const cuts = [...new Set(places.map((place) => place % (bytes.byteLength + 1)))].sort((a, b) => a - b);
  const requests: Request[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.byteLength]) {
    // The bytes lie in the middle of a larger buffer that is used again for the next piece.
    const piece = Buffer.concat([Buffer.from('GET'), bytes.subarray(from, to), Buffer.from('\r\n\r\n')]);
    const end = 3 + to - from;
    let at = 3;
    while (at < end && parser.state !== 'failed') {
      if (parser.state === 'done') parser.begin();
      const before = parser.state;
      at = parser.parse(piece, at, end);
      if (before === 'head' && (parser.state === 'body' || parser.state === 'done')) {
        const { method, path, query, headers, minor, keepAlive, declaredBytes, expectContinue } = parser;
        const head = { method, path, query, headers, minor, keepAlive, declaredBytes, expectContinue };
        requests.push({ ...head, body: '', complete: false });
      }
      const request = requests.at(-1);
      if (before === 'body' && request !== undefined) {
        request.body += piece.toString('latin1', parser.bodyStart, parser.bodyEnd);
      }
      if (parser.state === 'done' && request !== undefined) request.complete = true;
    }
    piece.fill('x');
    from = to;
  }
  const { status = 0, reason = '' } = parser.failure ?? {};
  return { requests, status, reason };
}

const text = (...lines: string[]): Buffer => Buffer.from(lines.join('\r\n'), 'latin1');
const everywhere = (bytes: Buffer): number[] => [...bytes.keys()];

t.test('two requests in one piece are parsed one after the other', async (t) => {
  const bytes = text(
    'POST /v1/chat/completions?a=b?c HTTP/1.1',
    'Host: example.com',
    'Content-Length: 3',
    '',
    'abcGET / HTTP/1.1',
    'host:x',
    '',
    '',
  );
  const whole = read(bytes);
  t.match(whole.requests, [
    {
      method: 'POST',
      path: '/v1/chat/completions',
      query: 'a=b?c',
      headers: ['host', 'example.com', 'content-length', '3'],
      body: 'abc',
      complete: true,
    },
    { method: 'GET', path: '/', query: '', headers: ['host', 'x'], declaredBytes: 0, complete: true },
  ]);
  t.equal(whole.status, 0);
  t.same(read(bytes, everywhere(bytes)), whole);
});

t.test('a chunked body is decoded and its trailers are dropped', async (t) => {
  const bytes = text(
    'POST / HTTP/1.1',
    'host: x',
    'transfer-encoding: Chunked',
    '',
    '1;a=b',
    'a',
    '2 ',
    'bc',
    '0',
    'xxPOST: /x',
    '',
    '',
  );
  const whole = read(bytes);
  t.match(whole, { requests: [{ declaredBytes: -1, body: 'abc', complete: true }], status: 0 });
  t.same(read(bytes, everywhere(bytes)), whole);
});
