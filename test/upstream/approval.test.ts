// Answers that wait for an approval: what leaves and when, what is dropped, and what the client is told when something
// ends meanwhile. CRNs and sockets are real.

import t from 'tap';
import { HeadraceError } from '../../src/errors.ts';
import type { Approval } from '../../src/upstream/index.ts';
import { TestDownstream } from '../support/downstream.ts';
import { fakeTranslation } from '../support/fake-translation.ts';
import { Bench, type Test } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, delta, type RawCrn, rawCrn, type RawRequest } from '../support/upstream-crn.ts';

const RECEIPTS = ['x-payment-response', 'paid', 'payment-response', 'paid'];
const DONE = 'data: {"choices":[{"delta":{"content":"hi"}}]}\n\ndata: [DONE]\n\n';
const EVENTS = 'content-type: text/event-stream';

/** An approval that a test gives or refuses by hand. */
class ManualApproval implements Approval {
  asked = 0;
  /** Whether useful output has been handed over. */
  earned = false;
  readonly #verdict: PromiseWithResolvers<readonly string[] | null> = Promise.withResolvers();
  readonly #wasAsked: PromiseWithResolvers<void> = Promise.withResolvers();

  approve(): Promise<readonly string[] | null> {
    this.asked++;
    this.#wasAsked.resolve();
    return this.#verdict.promise;
  }

  delivered(): void {
    this.earned = true;
  }

  get question(): Promise<void> {
    return this.#wasAsked.promise;
  }

  give(receipts: readonly string[] | null): void {
    this.#verdict.resolve(receipts);
  }

  refuse(error: unknown): void {
    this.#verdict.reject(error as Error);
  }
}

type Script = (request: RawRequest) => void;

async function open(
  t: Test,
  ...scripts: Script[]
): Promise<{ crns: RawCrn[]; bench: Bench; approval: ManualApproval }> {
  const crns = await Promise.all(scripts.map((script) => rawCrn(t, script)));
  return { crns, bench: new Bench(t, { urls: crns.map(({ url }) => url) }), approval: new ManualApproval() };
}

/** Resolves when the CRN's socket has closed. */
function closed(crn: RawCrn | undefined): Promise<void> {
  const [socket] = crn?.sockets ?? [];
  if (socket === undefined || socket.closed) return Promise.resolve();
  return new Promise((resolve) => void socket.on('close', () => resolve()));
}

const good: Script = ({ socket }) =>
  void socket.write(answer('200 OK', '{"choices":[{}]}', 'content-type: application/json'));
const stream: Script = ({ socket }) => {
  socket.write(chunkedHead(EVENTS));
  socket.write(chunk(DONE));
  socket.write(chunk(''));
};

/** Opens a stream, with its first useful event, and goes no further. */
const begins: Script = ({ socket }) => void socket.write(chunkedHead(EVENTS) + chunk(delta('hi')).toString());

for (const [name, script, body] of [
  ['a whole answer', good, '{"choices":[{}]}'],
  ['a stream', stream, DONE],
] as const) {
  t.test(`${name} waits for its approval and goes out with the receipts`, async (t) => {
    const { bench, approval } = await open(t, script);
    const run = bench.ask({ approval });
    await approval.question;
    t.equal(run.downstream.committed, false);
    approval.give(RECEIPTS);
    await run.downstream.done();
    t.equal(run.downstream.status, 200);
    t.equal(run.downstream.text, body);
    t.same(run.downstream.values('payment-response'), ['paid']);
    t.same(run.downstream.values('x-payment-response'), ['paid']);
    t.equal(run.downstream.values('x-served-by').length, 1);
    t.same(run.attempts, [[0, 'ok', null]]);
    t.same([approval.asked, approval.earned, bench.inFlight], [1, true, 0]);
  });
}

t.test('no approval is asked for an answer that costs nothing, and nothing counts as delivered', async (t) => {
  for (const [line, status] of [
    ['422 Unprocessable', 422],
    ['501 Not Implemented', 501],
  ] as const) {
    const refusal: Script = ({ socket }) => void socket.write(answer(line, '{"detail":"no"}'));
    const { bench, approval } = await open(t, refusal);
    const run = bench.ask({ approval });
    await run.downstream.done();
    t.same([run.downstream.status, run.downstream.text], [status, '{"detail":"no"}']);
    t.equal(approval.asked, 0);
    t.equal(approval.earned, false);
  }
});

t.test('when every CRN fails nothing was asked and nothing counts as delivered', async (t) => {
  const broken: Script = ({ socket }) => void socket.write(answer('500 Oh', ''));
  const { bench, approval } = await open(t, broken, broken);
  const run = bench.ask({ approval });
  await run.downstream.done();
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
  t.equal(approval.asked, 0);
  t.equal(approval.earned, false);
});

t.test('a rejected approval is the answer, and the CRN is let go', async (t) => {
  for (const [thrown, code] of [
    [new HeadraceError('HR_PAYMENT_PENDING'), 'HR_PAYMENT_PENDING'],
    [new Error('defect'), 'HR_INTERNAL'],
  ] as const) {
    const { bench, crns, approval } = await open(t, begins);
    const run = bench.ask({ approval });
    await approval.question;
    const gone = closed(crns[0]);
    approval.refuse(thrown);
    await run.downstream.done();
    t.equal(run.error?.code, code);
    t.same(run.attempts, [[0, 'neutral', null]]);
    await gone;
    t.equal(bench.inFlight, 0);
  }
});

t.test('an approval that has answered itself leaves nothing to say', async (t) => {
  const { bench, crns, approval } = await open(t, begins);
  const run = bench.ask({ approval });
  await approval.question;
  const gone = closed(crns[0]);
  run.downstream.start(402, [], 0);
  run.downstream.end();
  approval.give(null);
  await gone;
  t.equal(run.error, null);
  t.same(run.attempts, [[0, 'neutral', null]]);
  t.equal(bench.inFlight, 0);
});

t.test('a client that leaves meanwhile takes the CRN along, and a late approval changes nothing', async (t) => {
  const { bench, crns, approval } = await open(t, begins);
  const run = bench.ask({ approval });
  await approval.question;
  const gone = closed(crns[0]);
  run.downstream.leave();
  await gone;
  t.equal(approval.earned, false);
  approval.give(RECEIPTS);
  await new Promise((resolve) => setImmediate(resolve));
  t.same(run.attempts, [[0, 'neutral', 'client gone']]);
  t.equal(run.downstream.committed, false);
  t.equal(bench.inFlight, 0);
});

t.test('a gateway that closes meanwhile says so', async (t) => {
  const { bench, approval } = await open(t, good);
  const run = bench.ask({ approval });
  await approval.question;
  run.downstream.listener?.onCut();
  t.equal(run.error?.code, 'HR_DRAINING');
  t.equal(approval.earned, false);
  approval.give(RECEIPTS);
  await run.attempted(1);
  t.equal(bench.inFlight, 0);
});

const breaksEarly: Script = ({ socket }) => {
  socket.write(chunkedHead(EVENTS));
  socket.write('ff\r\nda', () => socket.destroy());
};

const breaks: Script = ({ socket }) => {
  socket.write(chunkedHead(EVENTS) + chunk(delta('lost')).toString());
  socket.write('ff\r\nda', () => socket.destroy());
};

t.test(
  'when the CRN breaks off meanwhile another one answers, with the receipts and without a second question',
  async (t) => {
    const { bench, crns, approval } = await open(t, breaks, stream);
    const run = bench.ask({ approval });
    await approval.question;
    await run.attempted(1);
    t.equal(crns[1]?.requests.length, 0, 'no other CRN works before the money is there');
    approval.give(RECEIPTS);
    await run.downstream.done();
    t.equal(run.downstream.text, DONE);
    t.same(run.downstream.values('payment-response'), ['paid']);
    t.same(run.attempts, [
      [0, 'failed', 'truncated'],
      [1, 'ok', null],
    ]);
    t.same([approval.asked, approval.earned], [1, true]);
  },
);

t.test(
  'when nobody answers behind the money, the error carries the receipts and nothing counts as delivered',
  async (t) => {
    const { bench, approval } = await open(t, breaks, breaksEarly);
    const run = bench.ask({ approval });
    await approval.question;
    await run.attempted(1);
    approval.give(RECEIPTS);
    await run.downstream.done();
    t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
    t.same(run.downstream.values('payment-response'), ['paid']);
    t.equal(approval.asked, 1);
    t.equal(approval.earned, false);
  },
);

t.test('a refusal behind the money carries the receipts as well', async (t) => {
  for (const status of ['400 Bad', '404 Not Found', '429 Busy']) {
    const { bench, approval } = await open(t, breaks, ({ socket }) => void socket.write(answer(status, 'no')));
    const run = bench.ask({ approval });
    await approval.question;
    await run.attempted(1);
    approval.give(RECEIPTS);
    await run.downstream.done();
    t.equal(run.downstream.status, Number(status.slice(0, 3)));
    t.same(run.downstream.values('payment-response'), ['paid'], status);
    t.equal(approval.earned, false);
  }
});

t.test('a stream that ends without an event behind the money goes to the next CRN', async (t) => {
  const empty: Script = ({ socket }) => void socket.write(Buffer.concat([Buffer.from(chunkedHead(EVENTS)), chunk('')]));
  const { bench, approval } = await open(t, empty, stream);
  const run = bench.ask({ approval });
  await approval.question;
  approval.give(RECEIPTS);
  await run.downstream.done();
  t.equal(run.downstream.text, DONE);
  t.same(run.downstream.values('payment-response'), ['paid']);
  t.equal(approval.asked, 1);
});

t.test('of a long answer only its beginning is held', async (t) => {
  const body = Buffer.alloc(64 << 20, 'x');
  const { bench, crns, approval } = await open(t, ({ socket }) => void socket.write(answer('200 OK', body)));
  const run = bench.ask({ approval });
  await approval.question;
  const [socket] = crns[0]?.sockets ?? [];
  // What the CRN has got rid of stands still once the sockets between are full.
  for (let before = -1, now = 0; before !== now;) {
    before = now;
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
    now = socket?.bytesWritten === undefined ? 0 : socket.bytesWritten - socket.writableLength;
  }
  t.ok((socket?.writableLength ?? 0) > 0, 'the CRN waits');
  approval.give(RECEIPTS);
  await run.downstream.done();
  t.equal(run.downstream.bytes, body.byteLength);
});

t.test('a client that does not read keeps the CRN waiting behind an approval', async (t) => {
  const body = Buffer.alloc(8 << 20, 'x');
  const { bench, approval } = await open(t, ({ socket }) => void socket.write(answer('200 OK', body)));
  const run = bench.ask({ approval });
  run.downstream.full = true;
  await approval.question;
  approval.give(RECEIPTS);
  await run.downstream.until(() => run.downstream.bytes > 0);
  const soon = run.downstream.bytes;
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  t.ok(run.downstream.bytes < body.byteLength && soon > 0);
  run.downstream.read();
  await run.downstream.done();
  t.equal(run.downstream.bytes, body.byteLength);
});

t.test('an answer without useful output was not delivered, although its approval was given', async (t) => {
  const progress = 'data: {"choices":[],"prompt_progress":{"total":9,"cache":0,"processed":3,"time_ms":1}}\n\n';
  const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n';
  for (const [name, events] of [
    ['progress', progress],
    ['comments', ': wait\n\n'.repeat(9000)],
    ['roles', role.repeat(1000)],
  ] as const) {
    const { bench, approval } = await open(t, ({ socket }) => {
      socket.write(Buffer.concat([Buffer.from(chunkedHead(EVENTS)), chunk(events)]));
      setTimeout(() => socket.destroy(), 20);
    });
    const run = bench.ask({ approval });
    approval.give(RECEIPTS);
    await run.downstream.done();
    t.equal(approval.earned, false, name);
    t.equal(bench.inFlight, 0);
  }
});

t.test('what a client has got of a stream counts as delivered, also when it leaves or the stream breaks', async (t) => {
  for (const leaves of [false, true]) {
    const { bench, approval, crns } = await open(t, begins);
    const run = bench.ask({ approval });
    await approval.question;
    approval.give(RECEIPTS);
    await run.downstream.until(() => run.downstream.committed);
    if (leaves) run.downstream.leave();
    else for (const socket of crns[0]?.sockets ?? []) socket.destroy();
    await run.downstream.done();
    t.equal(approval.earned, true);
  }
});

t.test('nothing is paid for a whole answer that turns out to be none when it is translated', async (t) => {
  const { bench, approval } = await open(t, ({ head, socket }) => {
    const isChat = head.startsWith('POST /v1/chat/completions ');
    const [status, body] = isChat ? ['200 OK', '{"output":[1]}'] : ['404 Not Found', '{"detail":"Not Found"}'];
    socket.write(answer(status, body, 'content-type: application/json'));
  });
  const run = bench.ask({ approval, stream: false, path: '/v1/messages', translation: fakeTranslation() });
  await Promise.race([run.downstream.done(), approval.question]);
  t.same([approval.asked, approval.earned], [0, false]);
  t.equal(run.error?.code, 'HR_ROUTE_ALL_FAILED');
});

t.test('an error that should not have been costs its request alone, also behind an approval', async (t) => {
  const { crns, bench, approval } = await open(t, stream);
  const client = new TestDownstream();
  client.start = () => {
    throw new Error('defect');
  };
  bench.ask({ approval, client });
  await approval.question;
  approval.give(RECEIPTS);
  await client.done();
  t.same([client.ending, client.errorCode], ['destroyed', 'HR_INTERNAL']);
  t.equal(bench.inFlight, 0);
  t.equal(crns[0]?.requests.length, 1);
});
