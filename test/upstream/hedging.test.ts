// Streams whose first useful event is late are asked of a second CRN within a budget; the first answer that begins is given, and the
// other CRN is let go without blame. Sockets are real, time is a manual clock.
import t from 'tap';
import { STANDING } from '../../src/routing/board.ts';
import { Hedging } from '../../src/upstream/index.ts';
import { Bench, type Run, type Test } from '../support/upstream-bench.ts';
import { answer, chunk, chunkedHead, delta, type RawCrn, rawCrn, type RawRequest } from '../support/upstream-crn.ts';

const SSE = 'content-type: text/event-stream';
const BODY = Buffer.from(JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hello' }] }));

const says =
  (text: string) =>
  ({ socket }: RawRequest): void =>
    void socket.write(
      Buffer.concat([Buffer.from(chunkedHead(SSE)), chunk(`${delta(text)}data: [DONE]\n\n`), chunk('')]),
    );
const silent = (): void => undefined;

interface Opened {
  readonly b: Bench;
  readonly crns: readonly RawCrn[];
  readonly outcomes: string[];
}

/** Every request so far has begun after `usualMs`. */
async function open(t: Test, scripts: readonly ((request: RawRequest) => void)[], samples = 40): Promise<Opened> {
  const outcomes: string[] = [];
  const hedging = new Hedging(0.05, (outcome) => void outcomes.push(outcome));
  for (let at = 0; at < samples; at++) {
    hedging.delayMs('m', BODY.byteLength);
    hedging.note('m', BODY.byteLength, 100 + at);
  }
  const crns = await Promise.all(scripts.map((script) => rawCrn(t, script)));
  return { b: new Bench(t, { urls: crns.map(({ url }) => url), hedging }), crns, outcomes };
}

async function lateBy(b: Bench, crn: RawCrn | undefined, ms: number): Promise<void> {
  await crn?.arrived(1);
  b.clock.advance(ms);
}

const ask = (b: Bench): Run => b.ask({ body: BODY });

t.test('a second CRN is asked at the p95 of its size, and the first answer that begins is given', async (t) => {
  const { b, crns, outcomes } = await open(t, [silent, says('b')]);
  const run = ask(b);
  await lateBy(b, crns[0], 130);
  t.equal(crns[1]?.requests.length, 0, 'not yet');
  b.clock.advance(10);
  await run.downstream.done();
  t.match(run.downstream.text, '"b"');
  t.same(run.downstream.values('x-served-by'), [crns[1]?.url]);
  t.same(run.attempts, [
    [0, 'neutral', 'hedged'],
    [1, 'ok', null],
  ]);
  t.same(outcomes, ['won']);
  t.equal(b.inFlight, 0);
});

t.test('the first CRN may still be the first to begin', async (t) => {
  const { b, crns, outcomes } = await open(t, [silent, silent]);
  const run = ask(b);
  await lateBy(b, crns[0], 140);
  await crns[1]?.arrived(1);
  says('a')(crns[0]?.requests[0] as RawRequest);
  await run.downstream.done();
  t.match(run.downstream.text, '"a"');
  t.same(run.attempts, [
    [1, 'neutral', 'hedged'],
    [0, 'ok', null],
  ]);
  t.same(outcomes, ['lost']);
  t.equal(b.inFlight, 0);
});

t.test('when one of the two fails the other one goes on', async (t) => {
  const fails = ({ socket }: RawRequest): void => void socket.write(answer('500 Oh', ''));
  const { b, crns, outcomes } = await open(t, [silent, fails]);
  const run = ask(b);
  await lateBy(b, crns[0], 140);
  await run.attempted(1);
  t.same(run.attempts, [[1, 'failed', 'status 500']]);
  says('a')(crns[0]?.requests[0] as RawRequest);
  await run.downstream.done();
  t.match(run.downstream.text, '"a"');
  t.same(outcomes, ['failed']);
});

t.test('a second CRN that goes on when the first one has failed has won, or failed, too', async (t) => {
  const fails = ({ socket }: RawRequest): void => void socket.write(answer('500 Oh', ''));
  const refuses = ({ socket }: RawRequest): void => void socket.write(answer('422 Unprocessable', '{"detail":"no"}'));
  for (const [ends, outcome] of [
    [says('b'), 'won'],
    [fails, 'failed'],
    [refuses, 'failed'],
  ] as const) {
    const { b, crns, outcomes } = await open(t, [silent, silent]);
    const run = ask(b);
    await lateBy(b, crns[0], 140);
    await crns[1]?.arrived(1);
    fails(crns[0]?.requests[0] as RawRequest);
    await run.attempted(1);
    t.same(run.attempts, [[0, 'failed', 'status 500']]);
    t.same(outcomes, []);
    ends(crns[1]?.requests[0] as RawRequest);
    await run.attempted(2);
    t.same(outcomes, [outcome]);
  }
});

t.test('a client that leaves ends both', async (t) => {
  const { b, crns } = await open(t, [silent, silent]);
  const run = ask(b);
  await lateBy(b, crns[0], 140);
  await crns[1]?.arrived(1);
  run.downstream.leave();
  t.same(run.attempts, [
    [0, 'neutral', 'client gone'],
    [1, 'neutral', 'client gone'],
  ]);
  t.equal(b.inFlight, 0);
  for (const { url } of crns) t.equal(b.pools.get(url)?.openConnections, 0);
});

t.test('nothing is hedged with too few samples, without a budget, or whole', async (t) => {
  for (const [samples, stream] of [
    [19, true],
    [40, false],
  ] as const) {
    const { b, crns, outcomes } = await open(t, [silent, says('b')], samples);
    const run = b.ask({ body: BODY, stream });
    await lateBy(b, crns[0], 4000);
    t.equal(crns[1]?.requests.length, 0);
    t.same(outcomes, []);
    run.downstream.leave();
  }
  const { b, crns, outcomes } = await open(t, [silent, silent]);
  for (let at = 0; at < 3; at++) {
    const run = ask(b);
    await crns[0]?.arrived(at + 1);
    b.clock.advance(150);
    run.downstream.leave();
  }
  t.same(outcomes, ['refused'], '40 requests have earned two');
});

t.test('a refusal does not win over a CRN that still works, and passes on when that one fails', async (t) => {
  for (const line of ['401 Unauthorized', '404 Not Found', '422 Unprocessable', '501 Not Implemented']) {
    const refuses = ({ socket }: RawRequest): void =>
      void socket.write(answer(line, '{"detail":"no"}', 'content-type: application/json'));
    const { b, crns } = await open(t, [silent, refuses]);
    const run = ask(b);
    await lateBy(b, crns[0], 140);
    await run.attempted(1);
    t.equal(run.downstream.committed, false, line);
    says('a')(crns[0]?.requests[0] as RawRequest);
    await run.downstream.done();
    t.same([run.downstream.status, /"a"/.test(run.downstream.text)], [200, true]);
    t.equal(b.inFlight, 0);

    const other = await open(t, [silent, refuses]);
    const refused = ask(other.b);
    await lateBy(other.b, other.crns[0], 140);
    await refused.attempted(1);
    for (const socket of other.crns[0]?.sockets ?? []) socket.destroy();
    await refused.downstream.done();
    t.same([refused.downstream.status, refused.downstream.text], [Number(line.slice(0, 3)), '{"detail":"no"}']);
    t.equal(other.b.inFlight, 0);
  }
});

t.test('a CRN that is down is no second one, and stays for when the first one fails', async (t) => {
  const { b, crns, outcomes } = await open(t, [silent, says('b')]);
  const run = ask(b);
  await crns[0]?.arrived(1);
  b.board.setStanding(1, STANDING.down, b.clock.now());
  b.clock.advance(150);
  t.equal(crns[1]?.requests.length, 0);
  for (const socket of crns[0]?.sockets ?? []) socket.destroy();
  await run.downstream.done();
  t.match(run.downstream.text, '"b"');
  t.same(outcomes, []);
  t.equal(b.inFlight, 0);
});

t.test('the times of 1,024 models are remembered: those that were asked for last', (t) => {
  const hedging = new Hedging(0.05, () => undefined);
  for (let model = 0; model < 1025; model++) {
    for (let at = 0; at < 20; at++) hedging.note(`m${model}`, BODY.byteLength, 100);
    hedging.delayMs('m0', BODY.byteLength);
  }
  const delays = ['m0', 'm1', 'm2', 'm1024'].map((model) => hedging.delayMs(model, BODY.byteLength));
  t.same(delays, [100, null, 100, 100]);
  t.end();
});
