// Exchange: what it reads from request headers, the life of a response, bodies within their limits, and cookies.
import fc from 'fast-check';
import t from 'tap';
import { Body, BodyBudget, type BodyLimits, readCookie, setCookie } from '../../src/ingress/exchange.ts';
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
  t.not(requestId([]), requestId([]));
});

t.test('a request id has only characters that are safe in headers and logs', async () => {
  fc.assert(fc.property(fc.string(), (text) => /^[\w.:/+=-]{1,128}$/.test(requestId(['x-request-id', text]))));
});

const LIMITS: BodyLimits = { maxBodyBytes: 1000, bodyIdleMs: 50 };

/** The outcome of `wait`; undefined while it waits. */
function outcome(body: Body): { code: string; text: string } | undefined {
  let seen: { code: string; text: string } | undefined;
  body.wait((error, bytes) => {
    seen = { code: error?.code ?? '', text: bytes.toString('latin1') };
  });
  return seen;
}

t.test('a body is the copies of its pieces', async (t) => {
  const body = new Body(new BodyBudget(1000), LIMITS, -1, 0);
  const piece = Buffer.from('abc');
  body.append(piece, false, 1);
  piece.fill('x');
  t.equal(outcome(body), undefined);
  body.append(Buffer.from('def'), true, 2);
  t.same(outcome(body), { code: '', text: 'abcdef' });
  t.equal(body.lastPieceMs, 2);
  t.ok(body.settled && body.complete);
});

t.test('a body in one piece is copied, whether waited for before or after', async (t) => {
  for (const early of [true, false]) {
    const budget = new BodyBudget(1000);
    const body = new Body(budget, LIMITS, 3, 0);
    const seen: string[] = [];
    const wait = (): void => body.wait((_, bytes) => seen.push(bytes.toString()));
    const piece = Buffer.from('abc');
    if (early) wait();
    body.append(piece, true, 1);
    piece.fill('x');
    if (!early) wait();
    t.same([seen, budget.usedBytes, body.abandoned], [['abc'], 3, false]);
    body.release();
    t.equal(budget.usedBytes, 0);
  }
});

t.test('wait calls back once when the body is complete', async (t) => {
  const body = new Body(new BodyBudget(1000), LIMITS, 1, 0);
  const seen: string[] = [];
  body.wait((_, bytes) => seen.push(bytes.toString()));
  body.append(Buffer.from('a'), true, 0);
  body.append(Buffer.from('b'), true, 0);
  t.same(seen, ['a']);
});

t.test('pieces of any size give the bytes that were sent, and release returns them to the budget', async () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 300 }), { maxLength: 20 });
  fc.assert(
    fc.property(pieces, fc.boolean(), (list, declares) => {
      const budget = new BodyBudget(6000);
      const whole = Buffer.concat(list);
      const limits = { maxBodyBytes: 6000, bodyIdleMs: 1 };
      const body = new Body(budget, limits, declares ? whole.byteLength : -1, 0);
      for (const piece of list) body.append(piece, false, 0);
      body.append(new Uint8Array(0), true, 0);
      const held = budget.usedBytes;
      const found = outcome(body);
      body.release();
      return held === whole.byteLength && found?.text === whole.toString('latin1') && budget.usedBytes === 0;
    }),
  );
});

t.test('a declared length over the limit fails at once', async (t) => {
  const body = new Body(new BodyBudget(1e9), LIMITS, 1001, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE', text: '' });
  t.match(outcome(new Body(new BodyBudget(1e9), LIMITS, 1000, 0)) ?? 'waits', 'waits');
});

t.test('a body of unknown length fails with the first byte over the limit', async (t) => {
  const body = new Body(new BodyBudget(1e9), LIMITS, -1, 0);
  body.append(Buffer.alloc(1000), false, 0);
  t.equal(body.settled, false);
  body.append(Buffer.alloc(1), false, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE' });
});

t.test('bodies share one budget; a refused piece takes nothing from it', async (t) => {
  const budget = new BodyBudget(100);
  const first = new Body(budget, LIMITS, 80, 0);
  const second = new Body(budget, LIMITS, 80, 0);
  first.append(Buffer.alloc(80), true, 0);
  second.append(Buffer.alloc(21), false, 0);
  t.match(outcome(second), { code: 'HR_OVERLOADED' });
  t.equal(budget.usedBytes, 80);
  first.release();
  second.release();
  t.equal(budget.usedBytes, 0);
});

t.test('pieces after a release are dropped', async (t) => {
  const budget = new BodyBudget(100);
  const body = new Body(budget, LIMITS, 10, 0);
  body.append(Buffer.alloc(5), false, 0);
  body.release();
  body.append(Buffer.alloc(5), true, 0);
  t.equal(budget.usedBytes, 0);
  t.ok(body.complete);
});

t.test('a stalled body fails with 408, unless it has failed before', async (t) => {
  const body = new Body(new BodyBudget(100), LIMITS, 10, 0);
  body.stall();
  t.match(outcome(body), { code: 'HR_REQUEST_TIMEOUT' });
  t.equal(body.stalled, true);
  const refused = new Body(new BodyBudget(100), LIMITS, 2000, 0);
  refused.stall();
  t.match(outcome(refused), { code: 'HR_REQUEST_TOO_LARGE' });
  t.equal(refused.stalled, false);
});

t.test('a body is abandoned when more than 64 KiB are still to come', async (t) => {
  const started = (length: number): Body => new Body(new BodyBudget(1e9), LIMITS, length, 0);
  t.equal(started(64 * 1024).abandoned, false);
  t.equal(started(64 * 1024 + 1).abandoned, true);
  t.equal(started(-1).abandoned, true, 'its length is unknown');
  const complete = started(-1);
  complete.append(new Uint8Array(0), true, 0);
  t.equal(complete.abandoned, false);
  const stalled = started(1000);
  stalled.stall();
  t.equal(stalled.abandoned, false, 'the client sends nothing that a close could reset');
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
      return readCookie(setCookie(NAME, text, 60, secure), NAME) === text;
    }),
  );
});

t.test('setCookie writes the attributes, Secure only when asked', async (t) => {
  t.equal(setCookie('a', 'b', 1800, false), 'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=Lax');
  t.equal(setCookie('a', 'b', 1800, true), 'a=b; Max-Age=1800; Path=/; HttpOnly; SameSite=Lax; Secure');
});
