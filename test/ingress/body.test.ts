import fc from 'fast-check';
import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import { Body, BodyBudget, type BodyLimits, declaredLength } from '../../src/ingress/body.ts';

const LIMITS: BodyLimits = { maxBodyBytes: 1000, bodyIdleMs: 50 };

/** What a wait has come to; undefined while it waits. */
function outcome(body: Body): { code: string; text: string } | undefined {
  let seen: { code: string; text: string } | undefined;
  body.wait((error, bytes) => {
    seen = { code: error?.code ?? '', text: bytes.toString('latin1') };
  });
  return seen;
}

t.test('a body comes together from its pieces, whose memory may be used again', async (t) => {
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

t.test('whoever waits first is called once the body is there', async (t) => {
  const body = new Body(new BodyBudget(1000), LIMITS, 1, 0);
  const seen: string[] = [];
  body.wait((_, bytes) => seen.push(bytes.toString()));
  body.append(Buffer.from('a'), true, 0);
  body.append(Buffer.from('b'), true, 0);
  t.same(seen, ['a']);
});

t.test('pieces of any size give the bytes that were sent, and the budget is whole again', async () => {
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

t.test('a declared length over the cap fails before a byte has come', async (t) => {
  const body = new Body(new BodyBudget(1e9), LIMITS, 1001, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE', text: '' });
  t.match(outcome(new Body(new BodyBudget(1e9), LIMITS, 1000, 0)) ?? 'waits', 'waits');
});

t.test('a body of unknown length fails with the byte over the cap', async (t) => {
  const body = new Body(new BodyBudget(1e9), LIMITS, -1, 0);
  body.append(Buffer.alloc(1000), false, 0);
  t.equal(body.settled, false);
  body.append(Buffer.alloc(1), false, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE' });
});

t.test('bodies share one budget; a refused body takes nothing from it', async (t) => {
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

t.test('what comes after a release is dropped', async (t) => {
  const budget = new BodyBudget(100);
  const body = new Body(budget, LIMITS, 10, 0);
  body.append(Buffer.alloc(5), false, 0);
  body.release();
  body.append(Buffer.alloc(5), true, 0);
  t.equal(budget.usedBytes, 0);
  t.ok(body.complete);
});

t.test('a body that stalls is 408, unless it has failed otherwise', async (t) => {
  const body = new Body(new BodyBudget(100), LIMITS, 10, 0);
  body.stall();
  t.match(outcome(body), { code: 'HR_REQUEST_TIMEOUT' });
  t.equal(body.stalled, true);
  const refused = new Body(new BodyBudget(100), LIMITS, 2000, 0);
  refused.stall();
  t.match(outcome(refused), { code: 'HR_REQUEST_TOO_LARGE' });
  t.equal(refused.stalled, false);
});

t.test('a connection is given up when much of a body is still to come, and only then', async (t) => {
  const started = (length: number): Body => new Body(new BodyBudget(1e9), LIMITS, length, 0);
  t.equal(started(64 * 1024).abandoned, false);
  t.equal(started(64 * 1024 + 1).abandoned, true);
  t.equal(started(-1).abandoned, true, 'who knows how much');
  const complete = started(-1);
  complete.append(new Uint8Array(0), true, 0);
  t.equal(complete.abandoned, false);
  const stalled = started(1000);
  stalled.stall();
  t.equal(stalled.abandoned, false, 'nothing comes that could be reset');
});

t.test('the length of a request is what its headers declare', async (t) => {
  const cases: [string[], number][] = [
    [[], 0],
    [['host', 'x'], 0],
    [['content-length', '0'], 0],
    [['content-length', '007'], 7],
    [['transfer-encoding', 'chunked'], -1],
    [['content-length', '5', 'accept', '*/*', 'content-length', '5'], 5],
    [['x', 'content-length'], 0],
  ];
  for (const [headers, length] of cases) t.equal(declaredLength(headers), length, headers.join());
});

t.test('every length of digits is read, everything else is refused', async () => {
  const refused = (headers: string[]): boolean => {
    try {
      declaredLength(headers);
      return false;
    } catch (error) {
      return error instanceof HeadraceError && error.code === 'HR_REQUEST_MALFORMED' && error.status === 400;
    }
  };
  fc.assert(fc.property(fc.nat(1e15 - 1), (length) => declaredLength(['content-length', String(length)]) === length));
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
