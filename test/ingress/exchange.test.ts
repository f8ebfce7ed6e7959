// Exchange: what it reads from request headers, the life of a response, and cookies.
import fc from 'fast-check';
import t from 'tap';
import { readCookie, setCookie } from '../../src/ingress/exchange.ts';
import { StubExchange } from './stub-exchange.ts';

t.test('header finds the first header of a lower-case name', async (t) => {
  const exchange = new StubExchange('GET', ['a', '1', 'b', '2', 'a', '3']);
  t.equal(exchange.header('a'), '1');
  t.equal(exchange.header('b'), '2');
  t.equal(exchange.header('1'), undefined, 'values are not names');
});

t.test('every response has the request id', async (t) => {
  const exchange = new StubExchange('GET');
  exchange.respond(200, ['a', 'b'], Buffer.from('x'));
  t.same(exchange.answered, { 'x-request-id': 'id', 'request-id': 'id', a: 'b' });
  t.equal(exchange.status, 200);
});

t.test('a second head is ignored once the first has been sent', async (t) => {
  const exchange = new StubExchange('GET');
  exchange.start(200, [], -1);
  exchange.write(Buffer.from('x'));
  exchange.start(500, [], -1);
  t.equal(exchange.status, 200);
});

t.test('an exchange ends once: delivered, broken off or left by its client', async (t) => {
  for (const end of ['end', 'destroy', 'leave'] as const) {
    const exchange = new StubExchange('GET');
    const seen: string[] = [];
    exchange.listener = {
      onWritable: () => undefined,
      onCut: () => undefined,
      onEnded: (cause) => seen.push(cause),
    };
    exchange.onClose = () => seen.push('close');
    exchange[end]();
    exchange[end]();
    exchange.leave();
    const cause = { end: 'delivered', destroy: 'broken', leave: 'gone' }[end];
    t.same(seen, [cause, 'close'], end);
    t.equal(exchange.aborted, end === 'leave');
  }
});

t.test('the headers that the gateway needs are read once, the first of each name', async (t) => {
  const headers = [
    'authorization',
    'Bearer a',
    'X',
    'y',
    'x-api-key',
    'b',
    'content-type',
    'c',
    'cookie',
    'd=1',
    'origin',
    'e',
  ];
  const again = headers.map((word, at) => (at % 2 === 0 ? word : 'again'));
  const { authorization, apiKey, contentType, cookie, origin } = new StubExchange('POST', [...headers, ...again]);
  t.same([authorization, apiKey, contentType, cookie, origin], ['Bearer a', 'b', 'c', 'd=1', 'e']);
  const bare = new StubExchange('POST', ['accept', 'a']);
  t.same(
    [bare.authorization, bare.apiKey, bare.contentType, bare.cookie, bare.origin, bare.session],
    Array(6).fill(undefined),
  );
});

t.test('the session is the preferred session header that is not empty', async (t) => {
  const session = (...headers: string[]): string | undefined => new StubExchange('POST', headers).session;
  t.equal(session('x-conversation-id', 'b', 'session_id', 'a', 'x-session-id', 'c'), 'a');
  t.equal(session('session_id', '', 'x-openwebui-chat-id', 'd', 'x-claude-code-session-id', 'e'), 'e');
  t.equal(session('session_id', 'first', 'session_id', 'second'), 'first');
});

const UUID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

const requestId = (headers: readonly string[]): string => new StubExchange('GET', headers, '').requestId;

t.test('the request id is x-request-id, else x-client-request-id, when it is safe', async (t) => {
  t.equal(requestId(['x-request-id', 'a']), 'a');
  t.equal(requestId(['x-client-request-id', 'b']), 'b');
  t.equal(requestId(['x-client-request-id', 'b', 'x-request-id', 'a']), 'a');
  t.equal(requestId(['x-request-id', 'not safe', 'x-client-request-id', 'b']), 'b');
  t.equal(requestId(['x-request-id', 'not safe', 'x-request-id', 'a']), 'a');
});

t.test('without a safe id each request gets a new UUID', async (t) => {
  t.match(requestId([]), UUID);
  const ids = Array.from({ length: 1000 }, () => requestId([]));
  t.equal(new Set(ids).size, ids.length);
  for (const id of ids) if (!UUID.test(id)) t.match(id, UUID);
});

t.test('a request id has only characters that are safe in headers and logs', async () => {
  fc.assert(fc.property(fc.string(), (text) => /^[\w.:/+=-]{1,128}$/.test(requestId(['x-request-id', text]))));
});

t.test('declaredBytes is the length that the headers declare', async (t) => {
  const cases: [string[], number][] = [
    [[], 0],
    [['host', 'x'], 0],
    [['content-length', '0'], 0],
    [['content-length', '007'], 7],
    [['transfer-encoding', 'chunked'], -1],
    [['content-length', '5', 'accept', '*/*', 'content-length', '5'], 5],
    [['x', 'content-length'], 0],
  ];
  for (const [headers, length] of cases) {
    const { declaredBytes, framingError } = new StubExchange('POST', headers);
    t.same([declaredBytes, framingError], [length, null], headers.join());
  }
  for (const method of ['GET', 'HEAD']) t.equal(new StubExchange(method, ['content-length', 'x']).framingError, null);
});

t.test('any Content-Length but digits, and several that differ, are 400', async () => {
  const refused = (headers: string[]): boolean => {
    const { framingError } = new StubExchange('POST', headers);
    return framingError?.code === 'HR_REQUEST_MALFORMED' && framingError.status === 400;
  };
  fc.assert(
    fc.property(
      fc.nat(1e15 - 1),
      (length) => new StubExchange('POST', ['content-length', String(length)]).declaredBytes === length,
    ),
  );
  fc.assert(
    fc.property(fc.string(), (text) => {
      const digits = text.length <= 15 && /^[0-9]+$/.test(text);
      return refused(['content-length', text]) === !digits;
    }),
  );
  fc.assert(
    fc.property(fc.nat(), fc.nat(), (one, other) => {
      return refused(['content-length', String(one), 'content-length', String(other)]) === (one !== other);
    }),
  );
});

const NAME = 'preferred_instances';

t.test('a cookie is found by its whole name, at any place', async (t) => {
  const cases: [string | undefined, string | undefined][] = [
    [undefined, undefined],
    ['', undefined],
    [`${NAME}=v`, 'v'],
    [`${NAME}=`, ''],
    [`a=1; ${NAME}=v; b=2`, 'v'],
    [`a=1;${NAME}=v`, 'v'],
    [`${NAME}=first; ${NAME}=second`, 'first'],
    [`x${NAME}=no; ${NAME}=yes`, 'yes'],
    [`${NAME}2=no`, undefined],
    [`x-${NAME}=no`, undefined],
    [`a=${NAME}; b=1`, undefined],
    [`a=${NAME}=no; ${NAME}=yes`, 'yes'],
    [NAME, undefined],
    [`${NAME.toUpperCase()}=no`, undefined],
    [`${NAME}={"a":"http://x","b":"y"}; c=1`, '{"a":"http://x","b":"y"}'],
    [`${NAME}= {"a": "b c"} `, '{"a": "b c"}'],
    [`${NAME}=%7B%22a%22%3A%22b%22%7D`, '%7B%22a%22%3A%22b%22%7D'],
    [`${NAME}=a=b=c`, 'a=b=c'],
  ];
  for (const [header, value] of cases) t.equal(readCookie(header, NAME), value, `${header}`);
});

/** A simple implementation of RFC 6265 §5.4 to compare with. */
function plainly(header: string): string | undefined {
  for (const part of header.split(';')) {
    const equals = part.indexOf('=');
    if (equals >= 0 && part.slice(0, equals).replace(/^ +/, '') === NAME) return part.slice(equals + 1).trim();
  }
  return undefined;
}

t.test('any header reads as by the simple implementation', async () => {
  const piece = fc.oneof(fc.constantFrom(NAME, '=', ';', ' ', `${NAME}=`, '"', 'x'), fc.string({ maxLength: 4 }));
  const header = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''));
  fc.assert(
    fc.property(header, (text) => readCookie(text, NAME) === plainly(text)),
    { numRuns: 2000 },
  );
});

t.test('a cookie that was set is read back', async () => {
  const value = fc.string().filter((text) => !text.includes(';') && text === text.trim());
  fc.assert(
    fc.property(value, fc.boolean(), (text, secure) => {
      return readCookie(setCookie(NAME, text, 60, secure ? 'secure' : 'plain'), NAME) === text;
    }),
  );
});

t.test('setCookie writes the attributes, Secure only when asked', async (t) => {
  t.equal(setCookie('a', 'b', 1800, 'plain'), 'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=Lax');
  t.equal(setCookie('a', 'b', 1800, 'secure'), 'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=Lax; Secure');
  t.equal(
    setCookie('a', 'b', 1800, 'cross-site'),
    'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=None; Secure; Partitioned',
  );
});
