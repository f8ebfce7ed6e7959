// Child processes of the benchmarks: none outlives the one that started it, however its start ends.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Processes {
  readonly startChild: (options: {
    name: string;
    command: string;
    args: readonly string[];
    core: number;
    ready?: RegExp;
    startTimeoutMs?: number;
  }) => Promise<{ child: { pid: number }; match: RegExpExecArray | null }>;
}

const { startChild } = await benchModule<Processes>('lib/process.mjs');

/** Says its own process id, then nothing. */
const SILENT = ['-c', 'echo $$ >&2; exec sleep 60'];

t.test('a child that is not ready in time is stopped, and the start fails with what it said', async (t) => {
  const start = startChild({
    name: 'mute',
    command: 'sh',
    args: SILENT,
    core: 0,
    ready: /^ready$/,
    startTimeoutMs: 200,
  });
  const error = await start.then(
    () => t.fail('it started'),
    (cause: unknown) => cause as Error,
  );
  const [, pid] = /^mute: not ready in time\n(\d+)/.exec((error as Error).message) ?? [];
  t.ok(Number(pid) > 0, 'standard error is in the message');
  t.throws(() => process.kill(Number(pid), 0), { code: 'ESRCH' }, 'the process has ended');
});

t.test('a child that ends before it is ready fails the start with its status', async (t) => {
  const start = startChild({ name: 'brief', command: 'sh', args: ['-c', 'exit 3'], core: 0, ready: /^ready$/ });
  await t.rejects(start, { message: /^brief: ended with 3/ });
});
