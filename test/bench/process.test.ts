// Child processes of the benchmarks: none outlives the one that started it, however its start ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import t from 'tap';
import { until } from '../support/system.ts';
import { benchModule } from './modules.ts';

interface Processes {
  readonly startChild: (options: {
    name: string;
    command: string;
    args: readonly string[];
    core: number;
    ready?: RegExp;
    startTimeoutMs?: number;
  }) => Promise<{ child: Child; match: RegExpExecArray | null }>;
  readonly stopChild: (child: Child) => Promise<void>;
  readonly threadCpuUs: (pid: number) => Record<string, number>;
}

interface Child {
  readonly pid: number;
}

const { startChild, stopChild, threadCpuUs } = await benchModule<Processes>('lib/process.mjs');

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

t.test('a child that leaves a process of its own behind is stopped with it', async (t) => {
  // The process holds the output of its parent open.
  const args = ['-c', 'sleep 60 & echo $!; wait'];
  const { child, match } = await startChild({ name: 'parent', command: 'sh', args, core: 0, ready: /^\d+$/ });
  const pid = Number(match?.[0]);
  t.teardown(() => {
    if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
  });
  await stopChild(child);
  await until('the process has ended', () => !existsSync(`/proc/${pid}`));
  t.strictSame(threadCpuUs(child.pid), {}, 'a process that has ended has no threads');
});

/** A benchmark with a folder and a child that goes on at SIGHUP, as nginx and the gateway do; prints both. */
const BENCHMARK = `
  const { startChild, temporaryFolder } = await import(process.argv[1]);
  const folder = temporaryFolder();
  const args = ['-c', 'trap "" HUP; echo ready; exec sleep 60'];
  const { child } = await startChild({ name: 'deaf', command: 'sh', args, core: 0, ready: /^ready$/ });
  console.log(JSON.stringify({ pid: child.pid, folder }));
`;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  t.test(`no child and no folder outlives a benchmark that ends by ${signal}`, async (t) => {
    const file = new URL('../../../bench/lib/process.mjs', import.meta.url).href;
    const benchmark = spawn(process.execPath, ['--input-type=module', '-e', BENCHMARK, file], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => benchmark.kill('SIGKILL'));
    const [line] = (await once(createInterface(benchmark.stdout), 'line')) as [string];
    const { folder, pid } = JSON.parse(line) as { folder: string; pid: number };
    t.teardown(() => {
      if (existsSync(`/proc/${pid}`)) process.kill(pid, 'SIGKILL');
    });
    t.ok(existsSync(folder));
    const exited = once(benchmark, 'exit');
    benchmark.kill(signal);
    t.same(await exited, [130, null]);
    await until('the child has ended', () => !existsSync(`/proc/${pid}`));
    t.notOk(existsSync(folder));
  });
}
