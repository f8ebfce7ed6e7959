// Request bodies within their limits, and the memory that they take, counted for the whole process.
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import t from 'tap';
import { Body, BodyBudget, type BodyLimits, createBodyMemory } from '../../src/ingress/body.ts';
import { bodyTurns } from '../../src/routing/index.ts';
import { freedBlocks } from '../support/freed-blocks.ts';

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
    t.same([seen, budget.usedBytes, body.abandoned], [['abc'], 1024, false]);
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

t.test('memory for bodies that are made of one is counted until that one is released', async (t) => {
  const budget = new BodyBudget(8192);
  const body = new Body(budget, LIMITS, 3, 0);
  body.append(Buffer.from('abc'), true, 0);
  t.equal(body.reserveAdded(16_384), false, 'more than there is');
  t.equal(budget.usedBytes, 1024);
  t.equal(body.reserveAdded(4000), true);
  t.equal(budget.usedBytes, 1024 + 4096);
  t.equal(body.reserveAdded(1), true);
  t.equal(body.reserveAdded(1), true);
  t.equal(budget.usedBytes, 1024 + 4096 + 2048);
  t.equal(body.reserveAdded(1025), false);
  body.release();
  t.equal(budget.usedBytes, 0);
});

t.test('pieces of any size give the bytes that were sent, and all memory returns to the budget', async () => {
  const pieces = fc.array(fc.uint8Array({ maxLength: 30_000 }), { maxLength: 20 });
  fc.assert(
    fc.property(pieces, fc.boolean(), fc.boolean(), (list, declares, keyless) => {
      const budget = new BodyBudget(1e8);
      const whole = Buffer.concat(list);
      const limits = { maxBodyBytes: 1e6, bodyIdleMs: 1 };
      const body = new Body(budget, limits, declares ? whole.byteLength : -1, 0);
      let found: Buffer | null = null;
      body.wait((_, bytes) => (found = bytes), '', keyless);
      let received = 0;
      for (const piece of list) {
        body.append(piece, false, 0);
        received += piece.byteLength;
        // What is taken follows what has come: at most twice as much, and the first allocation.
        if (budget.usedBytes > Math.max(2 * received, 16 * 1024) + 1024) return false;
      }
      body.append(new Uint8Array(0), true, 0);
      const same = whole.equals(found ?? Buffer.from('none'));
      body.release();
      return same && budget.usedBytes === 0;
    }),
  );
});

t.test('a declared length over the limit fails at once', async (t) => {
  const body = new Body(new BodyBudget(1e9), LIMITS, 1001, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE', text: '' });
  t.match(outcome(new Body(new BodyBudget(1e9), LIMITS, 1000, 0)) ?? 'waits', 'waits');
});

t.test('a lower limit holds for what is declared, has come, or comes later', async (t) => {
  const tooLarge = { code: 'HR_REQUEST_TOO_LARGE', text: '' };
  const of = (declared: number, limit: number, ...pieces: string[]): ReturnType<typeof outcome> => {
    const budget = new BodyBudget(8192);
    const body = new Body(budget, LIMITS, declared, 0);
    const [first, ...later] = pieces;
    if (first !== undefined) body.append(Buffer.from(first), later.length === 0, 0);
    body.limit(limit);
    later.forEach((piece, at) => body.append(Buffer.from(piece), at === later.length - 1, 0));
    const seen = outcome(body);
    t.equal(seen?.code === '' ? 0 : budget.usedBytes, 0);
    return seen;
  };
  t.same(of(6, 5), tooLarge, 'declared');
  t.same(of(6, 5, 'abcdef'), tooLarge, 'has come');
  t.same(of(-1, 5, 'abc', 'def'), tooLarge, 'comes later');
  t.same(of(5, 5, 'abc', 'de'), { code: '', text: 'abcde' });
  t.same(of(5, 5000, 'abcde'), { code: '', text: 'abcde' });
  t.same(of(1001, 5000), tooLarge, 'the limit of the server holds');
});

t.test('a body of unknown length fails with the first byte over the limit', async (t) => {
  const body = new Body(new BodyBudget(1e9), LIMITS, -1, 0);
  body.append(Buffer.alloc(1000), false, 0);
  t.equal(body.settled, false);
  body.append(Buffer.alloc(1), false, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE' });
});

t.test('bodies share one budget; a refused piece takes nothing from it', async (t) => {
  const budget = new BodyBudget(100 * 1024);
  const limits = { ...LIMITS, maxBodyBytes: 1e6 };
  const first = new Body(budget, limits, 80_000, 0);
  const second = new Body(budget, limits, 80_000, 0);
  first.append(Buffer.alloc(80_000), true, 0);
  const held = budget.usedBytes;
  second.append(Buffer.alloc(30_000), false, 0);
  t.match(outcome(second), { code: 'HR_OVERLOADED' });
  t.equal(budget.usedBytes, held);
  first.release();
  second.release();
  t.equal(budget.usedBytes, 0);
});

t.test('a declared length takes no memory, and memory grows with what has come', async (t) => {
  const budget = new BodyBudget(2 ** 30);
  const limits = { ...LIMITS, maxBodyBytes: 100 * 2 ** 20 };
  const body = new Body(budget, limits, 100 * 2 ** 20, 0);
  t.equal(budget.usedBytes, 0);
  body.append(Buffer.alloc(1), false, 0);
  t.equal(budget.usedBytes, 16 * 1024);
  body.append(Buffer.alloc(100_000), false, 0);
  t.ok(budget.usedBytes < 200_100);
  body.release();
});

const MIB = 2 ** 20;
const LARGE: BodyLimits = { ...LIMITS, maxBodyBytes: 100 * MIB };

/** Behind the bodies that have come. */
const handedOver = (): Promise<void> => new Promise((resolve) => bodyTurns.add('', 1, resolve));

t.test('a large body is handed over in a turn of its own, unless it is released before', async (t) => {
  const whole = Buffer.alloc(3 * MIB, 'body ');
  for (const isReleased of [false, true]) {
    const body = new Body(new BodyBudget(1e9), LARGE, whole.byteLength, 0);
    const seen: Buffer[] = [];
    body.wait((_, bytes) => seen.push(bytes));
    body.append(whole.subarray(0, 2 * MIB), false, 0);
    body.append(whole.subarray(2 * MIB), true, 0);
    t.same([seen.length, body.complete, body.settled], [0, true, false]);
    if (isReleased) body.release();
    await handedOver();
    t.equal(seen.length, isReleased ? 0 : 1);
    if (!isReleased) t.ok(seen[0]?.equals(whole));
  }
});

t.test('a large body that was encoded is handed over in a turn too, unless it is released before', async (t) => {
  const encoded = gzipSync(Buffer.alloc(100_000, 'body '));
  t.teardown(() => Reflect.deleteProperty(bodyTurns, 'add'));
  for (const isReleased of [false, true]) {
    const body = new Body(new BodyBudget(1e9), LARGE, encoded.byteLength, 0);
    const seen: Buffer[] = [];
    const { promise, resolve } = Promise.withResolvers<() => void>();
    bodyTurns.add = (_, bytes, handOver) => {
      t.equal(bytes, 100_000);
      resolve(handOver);
    };
    body.wait(() => body.decode(encoded, ['gzip'], (_, decoded) => seen.push(decoded)));
    body.append(encoded, true, 0);
    const handOver = await promise;
    if (isReleased) body.release();
    handOver();
    t.equal(seen.length, isReleased ? 0 : 1);
  }
});

t.test('a large body is seldom copied while it comes, and counts as what has come', async (t) => {
  // Each copy frees the block before.
  const copies = freedBlocks(t);
  for (const declared of [40 * MIB, -1]) {
    copies.length = 0;
    const budget = new BodyBudget(1e9);
    const body = new Body(budget, LARGE, declared, 0);
    const piece = Buffer.alloc(64 * 1024, 'piece');
    for (let at = 0; at < 40 * MIB; at += piece.byteLength) {
      body.append(piece, false, 0);
      if (budget.usedBytes > 2 * (at + piece.byteLength)) t.fail(`${budget.usedBytes} counted at ${at}`);
    }
    t.ok(copies.length <= (declared < 0 ? 5 : 4), copies.join());
    body.append(new Uint8Array(0), true, 0);
    body.release();
    t.equal(budget.usedBytes, 0);
  }
});

t.test('the memory of a large body is freed when it is over, unless somebody reads it', async (t) => {
  for (const size of [20_000, 2 * MIB])
    for (const isRead of [true, false]) {
      const body = new Body(new BodyBudget(1e9), LARGE, size, 0);
      let bytes: Buffer = Buffer.alloc(0);
      body.wait((_, whole) => (bytes = whole));
      body.append(Buffer.alloc(size), true, 0);
      await handedOver();
      body.release(isRead);
      t.equal(bytes.byteLength, isRead ? size : 0);
    }
});

t.test('the memory of bodies that were made of it is freed with it', async (t) => {
  for (const isRead of [false, true]) {
    const body = new Body(new BodyBudget(2 ** 20), { ...LIMITS, maxBodyBytes: 100_000 }, 5, 0);
    body.append(Buffer.from('hello'), true, 1);
    t.same(outcome(body), { code: '', text: 'hello' });
    const made = [Buffer.allocUnsafeSlow(20_000), Buffer.allocUnsafeSlow(30_000)];
    for (const each of made) body.adopt(each);
    body.release(isRead);
    t.strictSame(
      made.map(({ byteLength }) => byteLength),
      isRead ? [20_000, 30_000] : [0, 0],
    );
  }
});

t.test('the memory of a large body that nobody got is freed: it failed, or its client has gone', async (t) => {
  for (const ends of [
    (body: Body): void => body.stall(),
    (body: Body): void => body.append(Buffer.alloc(1), false, 0),
    (body: Body): void => body.release(),
  ]) {
    const freed = freedBlocks(t);
    const body = new Body(new BodyBudget(1e9), { ...LARGE, maxBodyBytes: MIB }, -1, 0);
    for (let at = 0; at < MIB; at += MIB / 16) body.append(Buffer.alloc(MIB / 16), false, 0);
    freed.length = 0;
    ends(body);
    t.strictSame(freed, [MIB]);
  }
});

t.test('a body that fails gives its memory back at once', async (t) => {
  const budget = new BodyBudget(1e6);
  const body = new Body(budget, LIMITS, -1, 0);
  body.append(Buffer.alloc(900), false, 0);
  t.ok(budget.usedBytes > 0);
  body.append(Buffer.alloc(200), false, 0);
  t.match(outcome(body), { code: 'HR_REQUEST_TOO_LARGE' });
  t.equal(budget.usedBytes, 0);
});

t.test('threads count in one memory: any of them may take all, and a dead one takes nothing', async (t) => {
  const memory = createBodyMemory(64);
  const budgets = Array.from({ length: 64 }, (_, thread) => new BodyBudget(200 * 2 ** 20, memory, thread));
  const [main, ...others] = budgets as [BodyBudget, ...BodyBudget[]];
  const last = others.at(-1) as BodyBudget;
  t.ok(last.take(150 * 2 ** 20, false), 'one thread may use what all may');
  t.equal(main.usedBytes, 150 * 2 ** 20);
  t.notOk(main.take(100 * 2 ** 20, false));
  t.ok(last.take(2 ** 20, true));
  main.clearThread(63);
  t.equal(main.usedBytes, 0);
  t.ok(main.take(25 * 2 ** 20, true), 'the part of requests without a key has returned too');
  main.give(25 * 2 ** 20, true);
  t.equal(main.usedBytes, 0);
});

t.test('requests without a key take an eighth of the memory at most', async (t) => {
  const budget = new BodyBudget(80 * 1024);
  t.ok(budget.take(10 * 1024, true));
  t.notOk(budget.take(1, true));
  t.ok(budget.take(70 * 1024, false), 'the rest is for others');
  t.notOk(budget.take(1, false));
  budget.give(10 * 1024, true);
  t.ok(budget.take(10 * 1024, true));
});

t.test('a body without a key is 408 when it trickles for more than ten seconds; one with a key is not', async (t) => {
  for (const keyless of [true, false]) {
    const body = new Body(new BodyBudget(1e9), { ...LIMITS, maxBodyBytes: 1e6 }, 1e6, 0);
    let code = '';
    body.wait((error) => (code = error?.code ?? ''), '', keyless);
    body.append(Buffer.alloc(1000), false, 9_000);
    body.append(Buffer.alloc(1000), false, 10_030);
    t.equal(code, '', 'the first ten seconds do not count, and 64 KB a second are enough');
    body.append(Buffer.alloc(1000), false, 11_000);
    t.equal(code, keyless ? 'HR_REQUEST_TIMEOUT' : '');
    body.release();
  }
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
