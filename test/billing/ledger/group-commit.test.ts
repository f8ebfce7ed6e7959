import t from 'tap';
import { createManualClock } from '../../../src/actor/clock.ts';
import type { Blame } from '../../../src/billing/ledger/database.ts';
import { turnsOf } from './stores.ts';
import { GroupCommit, type GroupCommitOptions, type Outcome } from '../../../src/billing/ledger/group-commit.ts';

type Options = Partial<GroupCommitOptions<string>>;

function setUp(options: Options = {}) {
  const clock = createManualClock();
  const batches: (readonly string[])[] = [];
  const commits = new GroupCommit<string>({
    clock,
    lingerMs: 20,
    maxBatch: 100,
    maxWaiting: 1000,
    maxBatchMs: 10_000,
    blame: (error) => (error as { blame: Blame }).blame,
    async commit(commands) {
      batches.push(commands);
      return commands.map((command): Outcome => ({ status: 'fulfilled', value: `${command}!` }));
    },
    ...options,
  });
  return { clock, batches, commits };
}

/** One command; rejects as it was refused. */
async function submit(commits: GroupCommit<string>, command: string): Promise<unknown> {
  const [outcome] = await commits.submit([command]);
  if (outcome?.status !== 'fulfilled') throw outcome?.reason;
  return outcome.value;
}

const failure = (blame: Blame): Error => Object.assign(new Error(blame), { blame });

t.test('what is submitted in one turn goes into one commit at once', async (t) => {
  const { commits, batches } = setUp();
  t.same(await Promise.all(['a', 'b', 'c'].map((command) => submit(commits, command))), ['a!', 'b!', 'c!']);
  t.same(batches, [['a', 'b', 'c']]);
});

t.test('the next commit waits until the pause has passed and takes all that came', async (t) => {
  const { commits, batches, clock } = setUp();
  await submit(commits, 'a');
  const later = [submit(commits, 'b'), submit(commits, 'c')];
  clock.advance(19);
  t.equal(batches.length, 1);
  clock.advance(1);
  await Promise.all(later);
  t.same(batches, [['a'], ['b', 'c']]);
});

t.test('a submission is answered when its commit is done, not before', async (t) => {
  const gates: (() => void)[] = [];
  const { commits } = setUp({
    async commit(commands) {
      await new Promise<void>((resolve) => gates.push(resolve));
      return commands.map((): Outcome => ({ status: 'fulfilled', value: 'durable' }));
    },
  });
  let answered = false;
  const submitted = submit(commits, 'a').then(() => (answered = true));
  while (gates.length === 0) await Promise.resolve();
  t.equal(answered, false);
  gates[0]?.();
  await submitted;
  t.equal(answered, true);
});

t.test('a commit has at most `maxBatch` commands', async (t) => {
  const { commits, batches, clock } = setUp({ maxBatch: 2 });
  const all = ['a', 'b', 'c'].map((command) => submit(commits, command));
  await all[1];
  await Promise.resolve();
  clock.advance(20);
  await Promise.all(all);
  t.same(batches, [['a', 'b'], ['c']]);
});

t.test('everything else has its turn between the commits of a backlog, however long each takes', async (t) => {
  const { commits, batches, clock } = setUp({
    maxBatch: 1,
    async commit(commands) {
      batches.push(commands);
      clock.advance(30);
      return commands.map((command): Outcome => ({ status: 'fulfilled', value: command }));
    },
  });
  const turns = await turnsOf(() => Promise.all(['a', 'b', 'c', 'd'].map((command) => submit(commits, command))));
  t.same(batches, [['a'], ['b'], ['c'], ['d']]);
  t.ok(turns >= 3, `${turns} turns of the event loop`);
});

t.test('a command that fails its commit fails alone', async (t) => {
  const batches: (readonly string[])[] = [];
  const { commits } = setUp({
    async commit(commands) {
      batches.push(commands);
      if (commands.includes('bad')) throw failure('command');
      return commands.map((command): Outcome => ({ status: 'fulfilled', value: command }));
    },
  });
  const outcomes = await Promise.allSettled(['a', 'bad', 'c'].map((command) => submit(commits, command)));
  t.same(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  t.same(batches, [['a', 'bad', 'c'], ['a', 'bad'], ['a'], ['bad'], ['c']]);
});

t.test('a command among many that fails its commit is found by halves', async (t) => {
  let commits = 0;
  const { commits: group } = setUp({
    maxBatch: 2000,
    maxWaiting: 3000,
    async commit(commands) {
      commits++;
      if (commands.includes('1234')) throw failure('command');
      return commands.map((command): Outcome => ({ status: 'fulfilled', value: command }));
    },
  });
  const outcomes = await group.submit(Array.from({ length: 2000 }, (_, at) => `${at}`));
  t.equal(outcomes.filter(({ status }) => status === 'rejected').length, 1);
  t.equal(outcomes[1234]?.status, 'rejected');
  t.ok(commits <= 24, `${commits} commits`);
});

t.test('what is left of a batch is rejected when its time is over', async (t) => {
  const { clock, commits } = setUp({
    maxBatchMs: 50,
    async commit() {
      clock.advance(20);
      throw failure('conflict');
    },
  });
  const outcomes = await commits.submit(['a', 'b', 'c', 'd']);
  t.same(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected', 'rejected'],
  );
  t.equal(clock.now(), 60, 'the try that was under way is the last');
});

/** Commands are `ACCOUNT NUMBER`; accounts in `locked` are left out, or waited for in their lane until the gate opens. */
function setUpLanes(locked: Set<string>) {
  const done: string[] = [];
  const gate = Promise.withResolvers<void>();
  const accountOf = (command: string): string => command.split(' ')[0] as string;
  const { commits } = setUp({
    lingerMs: 0,
    async commit(commands, { lane, lanes }) {
      if (lane !== null) await gate.promise;
      const busy = new Set([...locked, ...lanes]);
      return commands.map((command) => {
        const account = accountOf(command);
        if (lane === null && busy.has(account)) return { status: 'deferred', account };
        done.push(command);
        return { status: 'fulfilled', value: command };
      });
    },
  });
  return { commits, done, gate };
}

t.test('commands on a locked account wait in their order, all others go on', async (t) => {
  const locked = new Set(['a']);
  const { commits, done, gate } = setUpLanes(locked);
  const first = commits.submit(['a 1', 'b 1', 'a 2', 'c 1']);
  await submit(commits, 'b 2');
  locked.clear();
  const later = submit(commits, 'a 3');
  await submit(commits, 'b 3');
  t.same(done, ['b 1', 'c 1', 'b 2', 'b 3'], 'a command does not pass those that wait for its account');
  gate.resolve();
  await first;
  await later;
  t.same(done.slice(4), ['a 1', 'a 2', 'a 3']);
  await submit(commits, 'a 4');
  t.same(done.at(-1), 'a 4', 'the lane is gone');
});

t.test('closing waits for the lanes', async (t) => {
  const { commits, done, gate } = setUpLanes(new Set(['a']));
  const waiting = commits.submit(['a 1', 'b 1']);
  while (done.length === 0) await Promise.resolve();
  const closed = commits.close();
  gate.resolve();
  await closed;
  t.same(done, ['b 1', 'a 1']);
  t.equal((await waiting).length, 2);
});

t.test('a conflict with another process is tried again', async (t) => {
  let tries = 0;
  const { commits } = setUp({
    async commit() {
      if (++tries < 4) throw failure('conflict');
      return [{ status: 'fulfilled', value: 'in the end' }];
    },
  });
  t.equal(await submit(commits, 'a'), 'in the end');
  t.equal(tries, 4);
});

t.test('a store that is down refuses all that waited, after a second try', async (t) => {
  let tries = 0;
  const { commits } = setUp({
    async commit() {
      tries++;
      throw failure('store');
    },
  });
  const outcomes = await Promise.allSettled(['a', 'b'].map((command) => submit(commits, command)));
  t.same(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  t.equal(tries, 2);
});

t.test('too many that wait are refused, and after closing all are', async (t) => {
  const { commits, batches } = setUp({ maxWaiting: 2 });
  await submit(commits, 'a');
  const waiting = [submit(commits, 'b'), submit(commits, 'c')];
  await t.rejects(submit(commits, 'd'), { name: 'LedgerError', refusal: 'queue-full' });
  await commits.close();
  t.same(await Promise.all(waiting), ['b!', 'c!'], 'closing commits what waits');
  t.equal(batches.length, 2);
  await t.rejects(submit(commits, 'e'), { name: 'LedgerError', refusal: 'closed' });
});

t.test('commands of one submission are answered together, each with its own outcome', async (t) => {
  const { batches, clock, commits } = setUp({
    maxBatch: 2,
    async commit(commands) {
      batches.push(commands);
      return commands.map((command): Outcome =>
        command === 'bad' ? { status: 'rejected', reason: 'refused' } : { status: 'fulfilled', value: command },
      );
    },
  });
  const submitted = commits.submit(['a', 'bad', 'c']);
  while (batches.length < 1) await Promise.resolve();
  while (clock.nextDueMs === Infinity) await Promise.resolve();
  clock.advance(20);
  t.same(await submitted, [
    { status: 'fulfilled', value: 'a' },
    { status: 'rejected', reason: 'refused' },
    { status: 'fulfilled', value: 'c' },
  ]);
  t.same(batches, [['a', 'bad'], ['c']], 'more than one commit takes');
  t.same(await commits.submit([]), []);
});
