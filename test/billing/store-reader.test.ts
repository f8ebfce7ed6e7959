import t from 'tap';
import { StoreReader } from '../../src/billing/store-reader.ts';

/** A store of one value whose reads take it at once and answer when the test says so, in any order. */
function openReader() {
  const state = { stored: 0, known: 0 };
  const reads: { readonly answer: () => void; readonly fail: () => void }[] = [];
  const problems: string[] = [];
  const paused: (() => void)[] = [];
  const reader = new StoreReader({
    onProblem: (_error, name) => problems.push(name),
    later: (run) => paused.push(run),
  });
  const read = async (): Promise<void> => {
    const { promise, reject, resolve } = Promise.withResolvers<number>();
    const { stored } = state;
    reads.push({ answer: () => resolve(stored), fail: () => reject(new Error('the store is away')) });
    state.known = await promise;
  };
  const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  /** Answers the reads that are under way, the newest first, until none is. */
  const answerAll = async (): Promise<void> => {
    for (await settle(); reads.length > 0; await settle()) for (const { answer } of reads.splice(0).reverse()) answer();
  };
  return { answerAll, paused, problems, read, reader, reads, settle, state };
}

t.test('of two reads that overlap the newer one counts', async (t) => {
  const { answerAll, read, reader, state } = openReader();
  reader.request('keys', read);
  state.stored = 5;
  reader.request('key', read);
  await answerAll();
  t.equal(state.known, 5);
});

t.test('what changes while it is read is read again, once', async (t) => {
  const { read, reader, reads, settle, state } = openReader();
  reader.request('key', read);
  state.stored = 5;
  reader.request('key', read);
  reader.request('key', read);
  t.equal(reads.length, 1, 'one read at a time');
  reads[0]?.answer();
  await settle();
  t.equal(state.known, 0);
  reads[1]?.answer();
  await settle();
  t.equal(state.known, 5);
  t.equal(reads.length, 2);
});

t.test('what could not be read is read after a pause, with what changed meanwhile', async (t) => {
  const { answerAll, paused, problems, read, reader, reads, settle, state } = openReader();
  reader.request('keys', read);
  reader.request('key', read);
  reads.splice(0)[0]?.fail();
  await settle();
  t.same(problems, ['keys']);
  t.equal(reads.length, 0, 'nothing is asked during the pause');
  state.stored = 5;
  for (const run of paused.splice(0)) run();
  await settle();
  t.equal(reads.length, 1);
  await answerAll();
  t.equal(state.known, 5);
});
