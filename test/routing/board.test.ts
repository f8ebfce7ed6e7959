// Board: standings, trials, times, and counts that stay exact when several threads write.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import t from 'tap';
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
    if (board.takeTrial(0)) trials++;
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
  t.equal(board.takeTrial(0), false);
  board.offerTrial(0);
  t.same([board.takeTrial(0), board.takeTrial(0), board.takeTrial(1)], [true, false, false]);
  board.offerTrial(0);
  t.equal(board.takeTrial(0), true);
  board.offerTrial(0);
  board.endTrial(0);
  t.equal(board.takeTrial(0), false);
});

t.test('a worse time counts at once, a better one gradually', async (t) => {
  const board = new Board(createBoardMemory(1, 1, 1), 0);
  t.equal(board.firstByteMs(0), 1, 'not measured: as if quick');
  board.noteFirstByte(0, 100, 0);
  board.noteFirstByte(0, 400, 1);
  t.equal(board.firstByteMs(0), 400);
  board.noteFirstByte(0, 100, 10_001);
  const keep = Math.exp(-1);
  t.ok(Math.abs(board.firstByteMs(0) - (400 * keep + 100 * (1 - keep))) < 0.001);
  board.noteFirstByte(0, 200, 5000);
  t.ok(Number.isFinite(board.firstByteMs(0)), 'a date from the past does no harm');
});

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
  t.same([board.standing(1), board.firstByteMs(1)], [STANDING.up, 700]);
});
