// Loads: backlogs over threads, what a speed makes of them, and what is left of a dead thread.
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import t from 'tap';
import { createLoadsMemory, Loads } from '../../src/routing/loads.ts';

const MS = 1_000_000;

const open = (members = 2, threads = 3): Loads[] => {
  const memory = createLoadsMemory(members, threads);
  return Array.from({ length: threads }, (_, thread) => new Loads(memory, thread));
};

const only = (): Loads => open(2, 1)[0] as Loads;

/** A member that prefills `bytes` in a millisecond. */
function measure(loads: Loads, member: number, bytes: number, nowMs: number = MS): void {
  for (let at = 0; at < 200; at++) loads.noteFirst(member, 1000 * bytes, 1000, nowMs);
}

t.test('threads see the sum of what all have charged', async (t) => {
  const [one, two, three] = open() as [Loads, Loads, Loads];
  one.charge(0, 1000, MS);
  two.charge(0, 500, MS);
  two.charge(1, 7, MS);
  t.same([three.backlog(0, MS), three.backlog(1, MS)], [1500, 7]);
  one.discharge(0, 1000);
  t.equal(three.backlog(0, MS), 500);
  one.clearThread(1);
  t.same([three.backlog(0, MS), three.backlog(1, MS)], [0, 0], 'a dead thread');
});

t.test('charges and discharges in any order leave nothing', async () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ thread: fc.nat(2), bytes: fc.nat(2 ** 30), wait: fc.nat(5) }), { maxLength: 40 }),
      (rows) => {
        const all = open();
        const due: { thread: Loads; bytes: number; at: number }[] = [];
        rows.forEach(({ thread, bytes, wait }, at) => {
          const loads = all[thread] as Loads;
          loads.charge(0, bytes, MS);
          due.push({ thread: loads, bytes, at: at + wait });
          for (const each of due.filter((row) => row.at === at)) each.thread.discharge(0, each.bytes);
        });
        for (const each of due.filter((row) => row.at >= rows.length)) each.thread.discharge(0, each.bytes);
        return all[0]?.backlog(0, MS) === 0;
      },
    ),
  );
});

t.test('the time per byte is that of the last samples, large ones weighing more', async (t) => {
  const loads = only();
  t.same([loads.msPerByte(0), loads.waitMs(0, MS), loads.recency(0, MS)], [0, 0, 0]);
  measure(loads, 0, 40);
  t.ok(Math.abs(loads.msPerByte(0) - 1 / 40) < 1e-9);
  loads.noteFirst(0, 10, 5, MS);
  t.ok(loads.msPerByte(0) < 1.001 / 40, 'a small prompt says little');
  loads.noteFirst(0, 100_000, 60_000, MS);
  t.ok(loads.msPerByte(0) > 1.5 / 40, 'a CRN that has become slow is seen at once');
  t.equal(loads.recency(0, MS), 1);
  t.equal(loads.recency(0, MS + 15_000), 0.5);
  t.equal(loads.recency(0, MS + 60_000), 0);
  loads.resetMember(0);
  t.equal(loads.msPerByte(0), 0);
});

t.test('a speed of few samples counts less', async (t) => {
  const loads = only();
  for (const [more, evidence] of [
    [1, 0],
    [11, 0.4],
    [12, 0.7],
    [30, 1],
  ] as const) {
    t.ok(loads.recency(0, MS) <= evidence, `before ${more} more: ${loads.recency(0, MS)}`);
    for (let sample = 0; sample < more; sample++) loads.noteFirst(0, 10_000, 100, MS);
  }
  t.equal(loads.recency(0, MS), 1);
  loads.resetMember(0);
  t.equal(loads.recency(0, MS), 0);
});

t.test('a first event in no time is a high speed, but not an unknown one', async (t) => {
  const loads = only();
  loads.noteFirst(0, 4096, 0, MS);
  loads.noteFirst(1, 4096, -5, MS);
  for (const member of [0, 1]) t.ok(loads.msPerByte(member) > 0);
});

t.test('the first prompt of a backlog is taken to be under way, but never to be over', async (t) => {
  const loads = only();
  measure(loads, 0, 40, MS - 1000);
  loads.charge(0, 40_000, MS);
  loads.charge(0, 40_000, MS);
  t.equal(loads.backlog(0, MS), 80_000);
  t.equal(Math.round(loads.waitMs(0, MS)), 2000);
  t.equal(Math.round(loads.backlog(0, MS + 500)), 60_000);
  t.equal(Math.round(loads.backlog(0, MS + 5000)), 44_000, 'a tenth of the first one is left');
  loads.noteFirst(0, 40_000, 1000, MS + 5000);
  loads.discharge(0, 40_000);
  t.equal(Math.round(loads.backlog(0, MS + 5000)), 40_000, 'the next one begins with its first event');
});

t.test('an answer that is no stream counts for as long as its prefill should take', async (t) => {
  const loads = only();
  loads.chargeWhole(0, 40_000, MS);
  t.equal(loads.backlog(0, MS), 0, 'an unknown time is none');
  measure(loads, 0, 40);
  loads.chargeWhole(0, 40_000, MS);
  loads.chargeWhole(0, 20_000, MS);
  t.equal(Math.round(loads.backlog(0, MS)), 60_000);
  t.equal(Math.round(loads.backlog(0, MS + 1000)), 20_000);
  t.equal(loads.backlog(0, MS + 2000), 0);
});

t.test('an answer that is no stream counts until it has come or is given up', async (t) => {
  const [one, two] = open() as [Loads, Loads];
  measure(one, 0, 40);
  one.chargeWhole(0, 40_000, MS);
  two.chargeWhole(0, 400_000_000, MS);
  t.equal(Math.round(one.backlog(0, MS)), 400_040_000);
  two.dischargeWhole(0, 400_000_000);
  t.equal(Math.round(one.backlog(0, MS)), 40_000, 'the long one was refused');
  one.chargeWhole(0, 40_000, MS + 500);
  t.equal(Math.round(one.backlog(0, MS + 500)), 80_000, 'what was given back delays nothing');
  t.equal(one.backlog(0, MS + 2500), 0);
  one.chargeWhole(0, 20_000, MS + 2500);
  one.clearThread(0);
  t.equal(two.backlog(0, MS + 2500), 0, 'a dead thread');
});

t.test('four threads charge at the same time, and one that dies is cleared', async (t) => {
  const memory = createLoadsMemory(3, 5);
  const url = new URL('../../src/routing/loads.js', import.meta.url).href;
  const source = `
    import { parentPort, workerData } from 'node:worker_threads';
    const { Loads } = await import(workerData.url);
    const loads = new Loads(workerData.memory, workerData.thread);
    for (let round = 0; round < 20_000; round++) {
      const member = round % 3;
      loads.charge(member, 1000 + round, 0);
      if (round % 1000 !== workerData.thread) loads.discharge(member, 1000 + round);
    }
    parentPort.postMessage('done');
    setInterval(() => undefined, 1000);
  `;
  const code = new URL(`data:text/javascript,${encodeURIComponent(source)}`);
  const workers = [1, 2, 3, 4].map((thread) => new Worker(code, { workerData: { memory, thread, url } }));
  await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
  const control = new Loads(memory, 0);
  const expected = (threads: readonly number[], member: number): number => {
    let bytes = 0;
    for (const thread of threads) {
      for (let round = thread; round < 20_000; round += 1000) if (round % 3 === member) bytes += 1000 + round;
    }
    return bytes;
  };
  const backlogs = (): number[] => [0, 1, 2].map((member) => control.backlog(member, 0));
  t.same(
    backlogs(),
    [0, 1, 2].map((member) => expected([1, 2, 3, 4], member)),
  );
  await Promise.all(workers.map(async (worker) => worker.terminate()));
  control.clearThread(2);
  t.same(
    backlogs(),
    [0, 1, 2].map((member) => expected([1, 3, 4], member)),
  );
  for (const thread of [1, 3, 4]) control.clearThread(thread);
  t.same(backlogs(), [0, 0, 0]);
});
