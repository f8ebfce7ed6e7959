// When messages wait for the end of their turn, and that all of them leave.
import t from 'tap';
import { type BatchedWriter, WriteBatch } from '../../src/net/write-batch.ts';

const endOfTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Notes the names of writers in the order in which they write. */
class Bench {
  readonly batch = new WriteBatch();
  readonly written: string[] = [];

  /** Writes so many messages in this turn. */
  async writeMany(count: number): Promise<void> {
    for (let message = 0; message < count; message++) this.write('many');
    await endOfTurn();
  }

  write(name: string, writer: BatchedWriter = { sendBatched: () => void this.written.push(name) }): void {
    if (this.batch.collects()) this.batch.add(writer);
    else writer.sendBatched();
  }
}

t.test('messages are written at once where a turn has few', async (t) => {
  const bench = new Bench();
  for (let turn = 0; turn < 100; turn++) {
    for (const name of ['a', 'b', 'c']) bench.write(name);
    t.equal(bench.written.splice(0).join(), 'a,b,c');
    await endOfTurn();
  }
});

t.test('behind a turn with many they wait for the end of their turn, in order', async (t) => {
  const bench = new Bench();
  await bench.writeMany(200);
  t.equal(bench.written.splice(0).length, 200);
  for (const name of ['a', 'b', 'c']) bench.write(name);
  t.same(bench.written, []);
  await endOfTurn();
  t.same(bench.written, ['a', 'b', 'c']);
});

t.test('no more than 32 wait', async (t) => {
  const bench = new Bench();
  await bench.writeMany(200);
  bench.written.length = 0;
  for (let message = 0; message < 40; message++) bench.write(`${message}`);
  t.equal(bench.written.length, 32);
  await endOfTurn();
  t.equal(bench.written.length, 40);
});

t.test('a writer that throws holds up no other one, and its error is an uncaught one', async (t) => {
  const bench = new Bench();
  await bench.writeMany(200);
  bench.written.length = 0;
  const caught: unknown[] = [];
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.once('uncaughtException', (error) => void caught.push(error));
  bench.write('a');
  bench.write('b', {
    sendBatched: () => {
      throw new Error('no');
    },
  });
  bench.write('c');
  bench.batch.flush();
  await endOfTurn();
  await endOfTurn();
  for (const listener of before) process.on('uncaughtException', listener);
  t.same(bench.written, ['a', 'c']);
  t.match(caught, [{ message: 'no' }]);
});

t.test('what is written while a batch leaves is part of the next one, and keeps its memory', async (t) => {
  const bench = new Bench();
  await bench.writeMany(200);
  bench.written.length = 0;
  bench.batch.used = 10;
  bench.write('a', { sendBatched: () => bench.write('b') });
  bench.batch.flush();
  t.same([bench.written, bench.batch.used], [[], 10]);
  await endOfTurn();
  t.same([bench.written, bench.batch.used], [['b'], 0]);
});

t.test('a batch leaves when its memory is full, which is free again when all have written', async (t) => {
  const bench = new Bench();
  await bench.writeMany(200);
  bench.written.length = 0;
  const bytes = bench.batch.memory.byteLength;
  bench.batch.used = 100;
  bench.write('a');
  t.same([bench.batch.hasRoom(bytes - 100), bench.batch.hasRoom(bytes - 99), bench.written], [true, false, []]);
  bench.batch.used = bytes - 10;
  const found: boolean[] = [];
  bench.write('b', { sendBatched: () => void found.push(bench.batch.hasRoom(11)) });
  t.same([bench.written, found, bench.batch.used], [['a'], [false], 0]);
});

t.test('when turns have few for a while, messages are written at once again', async (t) => {
  const bench = new Bench();
  await bench.writeMany(200);
  for (let turn = 0; turn < 63; turn++) {
    bench.write('a');
    await endOfTurn();
  }
  t.equal(bench.batch.collects(), true);
  await bench.writeMany(20);
  for (let turn = 0; turn < 64; turn++) {
    bench.write('a');
    await endOfTurn();
  }
  t.equal(bench.batch.collects(), false);
});
