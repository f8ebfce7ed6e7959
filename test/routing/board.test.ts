// Board: standings, trials, times, and counts that stay exact when several threads write.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import { DIALECT_BITS } from '../../src/config/dialect-bits.ts';
import type * as Tap from 'tap';
import { Board, createBoardMemory, STANDING } from '../../src/routing/board.ts';

t.test('two boards on one memory share their state', async (t) => {
  const memory = createBoardMemory(2, 2, 2);
  const [one, two] = [new Board(memory, 0), new Board(memory, 1)];
  one.enter(0);
  two.enter(0);
  two.enter(1);
  one.setStanding(1, STANDING.capable, 0);
  t.same([one.inFlight(0), one.inFlight(1), two.standing(0), two.standing(1)], [2, 1, STANDING.down, STANDING.capable]);
  one.leave(0);
  two.leave(0);
  two.leave(1);
  t.same([one.inFlight(0), one.inFlight(1)], [0, 0]);
});

/** Counts requests in and out as fast as possible; `kept` requests stay counted in on every server. */
const HAMMER = `
const { parentPort, workerData } = require('node:worker_threads');
import(workerData.board).then(({ Board }) => {
  const board = new Board(workerData.memory, workerData.thread);
  const gate = new Int32Array(workerData.gate);
  Atomics.add(gate, 0, 1);
  Atomics.notify(gate, 0);
  while (Atomics.load(gate, 0) < 2) Atomics.wait(gate, 0, 1, 50);
  let trials = 0;
  for (let i = 0; i < 200000; i++) {
    board.enter(i % 3);
    if (board.takeTrial(0, 0)) trials++;
    board.leave(i % 3);
  }
  for (let i = 0; i < workerData.kept * 3; i++) board.enter(i % 3);
  parentPort.postMessage(trials);
});
`;

t.test('counts of two concurrent threads are exact, and those of a dead one can be removed', async (t) => {
  const memory = createBoardMemory(3, 1, 3);
  const board = new Board(memory, 0);
  board.offerTrial(0);
  const gate = new SharedArrayBuffer(4);
  const url = new URL('../../src/routing/board.js', import.meta.url).href;
  const workers = [1, 2].map((thread) => {
    const workerData = { board: url, memory, thread, gate, kept: thread * 10 };
    return new Worker(HAMMER, { eval: true, workerData });
  });
  const trials = await Promise.all(workers.map((worker) => once(worker, 'message')));
  await Promise.all(workers.map((worker) => worker.terminate()));
  t.equal(
    trials.flat().reduce((sum: number, count: number) => sum + count, 0),
    1,
    'one trial for one of them',
  );
  t.same(
    [0, 1, 2].map((server) => board.inFlight(server)),
    [30, 30, 30],
  );
  board.enter(1);
  board.clearThread(2);
  t.same(
    [0, 1, 2].map((server) => board.inFlight(server)),
    [10, 11, 10],
  );
  board.clearThread(2);
  board.clearThread(1);
  t.same(
    [0, 1, 2].map((server) => board.inFlight(server)),
    [0, 1, 0],
  );
});

t.test('a CRN has one trial, which can be offered again', async (t) => {
  const board = new Board(createBoardMemory(2, 2, 1), 0);
  t.equal(board.takeTrial(0, 0), false);
  board.offerTrial(0);
  t.same([board.takeTrial(0, 0), board.takeTrial(0, 0), board.takeTrial(1, 0)], [true, false, false]);
  board.offerTrial(0);
  t.equal(board.takeTrial(0, 0), true);
  board.offerTrial(0);
  board.endTrial(0);
  t.equal(board.takeTrial(0, 0), false);
});

t.test('a worse time counts at once, a better one gradually', async (t) => {
  const board = new Board(createBoardMemory(1, 1, 1), 0);
  t.equal(board.firstByteMs(0), 1, 'not measured: as if quick');
  board.noteFirstByte(0, 100, 1);
  board.noteFirstByte(0, 400, 2);
  near(t, board.firstByteMs(0), 400);
  board.noteFirstByte(0, 100, 10_002);
  const keep = Math.exp(-1);
  t.ok(Math.abs(board.firstByteMs(0) - (400 * keep + 100 * (1 - keep))) < 0.001);
  board.noteFirstByte(0, 200, 5000);
  t.ok(Number.isFinite(board.firstByteMs(0)), 'a date from the past does no harm');
});

const near = (t: Tap.Test, found: number, wanted: number): boolean =>
  t.ok(Math.abs(found / wanted - 1) < 1e-9, `${found}, expected ${wanted}`);

t.test('failures raise the failure share; good answers and time bring it back', async (t) => {
  const board = new Board(createBoardMemory(3, 3, 1), 0);
  board.noteFirstByte(0, 50, 1);
  board.noteFailure(0, 1);
  near(t, board.failureShare(0, 1), 1 / 8);
  board.noteFailure(0, 1);
  near(t, board.failureShare(0, 1), 1 / 8 + 7 / 64);
  near(t, board.failureShare(0, 10_001), (15 / 64) * Math.exp(-1));
  for (let i = 0; i < 200; i++) board.noteFailure(0, 1);
  near(t, board.failureShare(0, 1), 1);
  near(t, board.firstByteMs(0), 50);
  board.noteSuccess(0, 1);
  near(t, board.failureShare(0, 1), 7 / 8);
  for (let i = 0; i < 60; i++) board.noteSuccess(0, 1);
  t.same([board.failureShare(0, 1), board.failureShare(1, 1)], [0, 0]);
});

t.test('no failed answer ever lowers the failure share', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.record({ failed: fc.boolean(), gapMs: fc.nat(20_000) })), async (samples) => {
      const board = new Board(createBoardMemory(1, 1, 1), 0);
      let now = 0;
      for (const { failed, gapMs } of samples) {
        now += gapMs;
        const before = board.failureShare(0, now);
        if (failed) board.noteFailure(0, now);
        else board.noteSuccess(0, now);
        const after = board.failureShare(0, now);
        if (failed ? after < before : after > before) throw new Error(`${before} became ${after}`);
      }
    }),
  );
});

t.test('an epoch begins with each reset of a cell and whenever the actor says so', async (t) => {
  const board = new Board(createBoardMemory(1, 2, 1), 0);
  board.raiseEpoch(0);
  board.resetMember(0);
  t.same([board.epoch(0), board.epoch(1)], [2, 0]);
});

t.test('the trial of a dead thread is offered again, that of another one is not', async (t) => {
  const memory = createBoardMemory(3, 3, 3);
  const [one, two] = [new Board(memory, 1), new Board(memory, 2)];
  for (const server of [0, 1, 2]) one.offerTrial(server);
  t.same([one.trialTakenMs(0), one.takeTrial(0, 50), two.takeTrial(1, 60)], [null, true, true]);
  t.same([two.trialTakenMs(0), one.trialTakenMs(1)], [50, 60]);
  new Board(memory, 0).clearThread(1);
  t.same([one.trialTakenMs(0), one.trialTakenMs(1)], [null, 60]);
  t.same([two.takeTrial(0, 70), two.takeTrial(1, 70), two.takeTrial(2, 70)], [true, false, true]);
});

t.test(
  'a CRN is unreachable since a time that may move, until it responds; every change is a generation',
  async (t) => {
    const board = new Board(createBoardMemory(2, 1, 1), 0);
    const first = board.unreachableGeneration;
    t.same([board.unreachable(0), board.unreachableSinceMs(0)], [false, 0]);
    board.setUnreachable(0, 500);
    t.same([board.unreachable(0), board.unreachableSinceMs(0), board.unreachable(1)], [true, 500, false]);
    board.setUnreachable(0, 900);
    t.same([board.unreachableSinceMs(0), board.unreachableGeneration - first], [900, 2]);
    board.setUnreachable(0, null);
    board.setUnreachable(0, null);
    t.same([board.unreachable(0), board.unreachableGeneration - first], [false, 2], 'good news ends nothing');
    board.setUnreachable(0, 500);
    board.noteHeard(0, 499);
    t.equal(board.unreachable(0), true);
    board.noteHeard(0, 600);
    board.noteHeard(0, 550);
    t.same([board.unreachable(0), board.unreachableSinceMs(0)], [false, 0], 'a CRN that sends answers can be reached');
    board.setUnreachable(0, 700);
    t.equal(board.unreachableSinceMs(0), 700);
    board.setUnreachable(1, 900);
    board.resetServer(1);
    t.equal(board.unreachable(1), false);
  },
);

t.test('a member that comes up starts slowly', async (t) => {
  const board = new Board(createBoardMemory(1, 1, 1), 0);
  board.setStanding(0, STANDING.up, 1000);
  t.same(
    [1000, 1050, 1500, 2000, 9000].map((now) => board.warmth(0, now, 1000)),
    [0.1, 0.1, 0.5, 1, 1],
  );
  board.setStanding(0, STANDING.up, 1900);
  t.equal(board.warmth(0, 2000, 1000), 1, 'staying up is no coming up');
  t.equal(board.warmth(0, 1000, 0), 1);
});

t.test('a reset cell has no state of its last member', async (t) => {
  const board = new Board(createBoardMemory(1, 2, 1), 0);
  for (const member of [0, 1]) {
    board.setStanding(member, STANDING.up, 1000);
    board.noteFirstByte(member, 700, 1000);
  }
  board.resetMember(0);
  t.same([board.standing(0), board.firstByteMs(0), board.warmth(0, 1000, 100)], [STANDING.down, 1, 1]);
  t.equal(board.standing(1), STANDING.up);
  near(t, board.firstByteMs(1), 700);
});

t.test('what a server lacks is known to all threads, for an hour', async (t) => {
  const memory = createBoardMemory(2, 2, 2);
  const [one, other] = [new Board(memory, 0), new Board(memory, 1)];
  const { chat, messages } = DIALECT_BITS;
  const auto = { dialects: 0, server: 0 };
  one.noteLack(0, messages, 1000, 2000);
  new Board(memory, 1).clearThread(0);
  t.equal(other.lackedSinceMs(0, messages, 2000), 2000, 'the death of the thread that learned it changes nothing');
  t.same([other.speaks(auto, messages, 2000), other.speaks(auto, chat, 2000)], [false, true]);
  t.equal(other.speaks({ dialects: 0, server: 1 }, messages, 2000), true);
  t.equal(other.speaks(auto, messages, 3_601_999), false);
  t.equal(other.speaks(auto, messages, 3_602_000), true);
});

t.test('declared dialects count, whatever was learned', async (t) => {
  const board = new Board(createBoardMemory(1, 1, 1), 0);
  const { chat, messages } = DIALECT_BITS;
  board.noteLack(0, messages, 1000, 1000);
  t.equal(board.speaks({ dialects: messages, server: 0 }, messages, 1000), true);
  t.equal(board.speaks({ dialects: messages, server: 0 }, chat, 1000), false);
});

t.test('a lack is forgotten with the process, with an answer, and with the cell', async (t) => {
  const board = new Board(createBoardMemory(1, 1, 1), 0);
  const { chat, messages } = DIALECT_BITS;
  const lacks = (): boolean[] => [chat, messages].map((bit) => board.lackedSinceMs(0, bit, 5000) > 0);
  for (const bit of [chat, messages]) board.noteLack(0, bit, 1000, 2000);
  board.noteSpoken(0, messages);
  t.same(lacks(), [true, false]);
  board.clearLacks(0, 3000);
  t.same(lacks(), [false, false]);
  board.noteLack(0, chat, 3000, 4000);
  t.same(lacks(), [false, false], 'the request was sent before');
  board.noteSpoken(0, chat);
  board.noteLack(0, chat, 2999, 4000);
  t.same(lacks(), [false, false], 'an answer does not make it forget when it was cleared');
  board.noteLack(0, chat, 3001, 4000);
  t.same(lacks(), [true, false]);
  board.resetServer(0);
  t.same(lacks(), [false, false]);
  board.noteLack(0, chat, 1, 4000);
  t.same(lacks(), [true, false], 'times of an earlier server in the cell say nothing');
});
