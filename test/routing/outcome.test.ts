// Verdicts on statuses, refusals of long prompts, and the batching of outcomes on a manual clock.
import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import { failsOver, namesContextLength, type Outcome, Reporter, verdictOf } from '../../src/routing/outcome.ts';

t.test('fails over on every 5xx and on 429 only', async (t) => {
  for (const status of [500, 501, 502, 503, 504, 529, 599, 429]) t.equal(failsOver(status), true, String(status));
  for (const status of [200, 204, 301, 400, 401, 403, 404, 408, 413, 422, 499]) {
    t.equal(failsOver(status), false, String(status));
  }
});

t.test('a 5xx is failed, a 4xx neutral, any other status ok', async (t) => {
  t.same([200, 204, 304].map(verdictOf), ['ok', 'ok', 'ok']);
  t.same([400, 404, 422, 429].map(verdictOf), ['neutral', 'neutral', 'neutral', 'neutral']);
  t.same([500, 503].map(verdictOf), ['failed', 'failed']);
});

t.test('recognizes the phrases of engines for a prompt that is too long', async (t) => {
  for (const body of [
    '{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}',
    `{"error":{"message":"This model's maximum context length is 4096 tokens"}}`,
    '{"error":{"code":"context_length_exceeded"}}',
    '{"detail":"prompt is longer than MAX_MODEL_LEN"}',
    'input exceeds the Context Window',
  ]) {
    t.equal(namesContextLength(Buffer.from(body)), true, body);
  }
  for (const body of ['', '{"error":{"message":"temperature must be positive"}}', '\xff\xfe']) {
    t.equal(namesContextLength(Buffer.from(body)), false);
  }
});

function open(): { board: Board; clock: ReturnType<typeof createManualClock>; sent: Outcome[]; reporter: Reporter } {
  const clock = createManualClock();
  const board = new Board(createBoardMemory(3, 3, 1), 0);
  const sent: Outcome[] = [];
  return { board, clock, sent, reporter: new Reporter(board, clock, (outcome) => sent.push(outcome)) };
}

const ok = (member: number, count: number): Outcome => ({ member, verdict: 'ok', failure: null, count });

t.test('successes are counted and sent in batches', async (t) => {
  const { reporter, sent, clock } = open();
  for (let i = 0; i < 1000; i++) reporter.report(i % 2, 'ok', null);
  clock.advance(249);
  t.same(sent, []);
  clock.advance(1);
  t.same(sent, [ok(0, 500), ok(1, 500)]);
  clock.advance(10_000);
  t.equal(sent.length, 2);
  t.equal(clock.nextDueMs, Infinity, 'no timer without outcomes');
  reporter.report(0, 'ok', null);
  clock.advance(250);
  t.same(sent[2], ok(0, 1));
});

t.test('a failure is sent at once, after the successes before it', async (t) => {
  const { reporter, sent, clock } = open();
  reporter.report(0, 'ok', null);
  reporter.report(1, 'ok', null);
  reporter.report(0, 'failed', 'reset');
  t.same(sent, [ok(0, 1), { member: 0, verdict: 'failed', failure: 'reset', count: 1 }]);
  clock.advance(250);
  t.same(sent[2], ok(1, 1));
  t.equal(sent.length, 3);
});

t.test('neutral outcomes are not sent, except those of a CRN on trial', async (t) => {
  const { reporter, sent, board } = open();
  reporter.report(0, 'neutral', 'client gone');
  t.same(sent, []);
  board.setStanding(0, STANDING.probing, 0);
  reporter.report(0, 'neutral', 'client gone');
  reporter.report(0, 'ok', null);
  t.same(
    sent.map(({ verdict }) => verdict),
    ['neutral', 'ok'],
  );
});

t.test('flush sends what is left', async (t) => {
  const { reporter, sent } = open();
  reporter.report(2, 'ok', null);
  reporter.flush();
  reporter.flush();
  t.same(sent, [ok(2, 1)]);
});
