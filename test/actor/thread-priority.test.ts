// Nice values of threads, as the kernel has them: of cleaning threads, and of one that has nothing to do with the gateway.
import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { lowerPriority } from '../../src/actor/thread-priority.ts';
import { resolveSettings } from '../../src/config/load.ts';
import { createCleaningPool } from '../../src/fetch/cleaning-pool.ts';

const isLinux = process.platform === 'linux';
const skip = isLinux ? false : 'priorities of threads need Linux';

/** Field `nice` of /proc/PID/task/TID/stat (proc(5)), counted behind the name of the command. */
const NICE_FIELD = 16;

/** Nice values of the threads of this process, by their ids. */
function niceValues(): Map<string, number> {
  const values = new Map<string, number>();
  for (const id of readdirSync('/proc/self/task')) {
    const text = readFileSync(`/proc/self/task/${id}/stat`, 'latin1');
    values.set(id, Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[NICE_FIELD]));
  }
  return values;
}

const lower = new URL('../../src/actor/thread-priority.js', import.meta.url).href;

t.test('a thread lowers its own priority, and that of no other', { skip }, async (t) => {
  const before = niceValues();
  const worker = new Worker(
    `import { parentPort } from 'node:worker_threads';
     import { lowerPriority } from ${JSON.stringify(lower)};
     parentPort.on('message', () => { lowerPriority(); parentPort.postMessage('lowered'); });`,
    { eval: true, execArgv: ['--input-type=module'] },
  );
  t.teardown(() => worker.terminate());
  const own = getPriority();
  for (const expected of [Math.min(own + 10, 19), Math.min(own + 20, 19)]) {
    const lowered = new Promise((resolve) => worker.once('message', resolve));
    worker.postMessage('lower');
    await lowered;
    const changed = [...niceValues()].filter(([id, value]) => value !== (before.get(id) ?? own));
    t.same(
      changed.map(([id, value]) => [before.has(id), value]),
      [[false, expected]],
    );
  }
});

t.test('the main thread keeps its priority', { skip }, async (t) => {
  const before = niceValues();
  lowerPriority();
  t.same(niceValues(), before);
});

t.test('cleaning threads have a lower priority than the thread that starts them', { skip }, async (t) => {
  const before = niceValues();
  const resolution = resolveSettings({ fetch: { cleaners: 2 } });
  if ('mistakes' in resolution) throw new Error(JSON.stringify(resolution.mistakes));
  const pool = createCleaningPool(resolution.settings.fetch);
  t.teardown(() => pool.close());
  const { signal } = new AbortController();
  const read = (text: string): Promise<unknown> =>
    pool.read({ bytes: new Uint8Array(Buffer.from(text)), mediaType: 'text/html', charset: null }, 'a', signal);
  await Promise.all(['<p>One</p>', '<p>Two</p>'].map(read));
  const own = getPriority();
  const lowered = [...niceValues()].filter(([id, value]) => !before.has(id) && value !== own);
  t.ok(lowered.length > 0 && lowered.every(([, value]) => value === Math.min(own + 10, 19)), lowered.join(' '));
  t.equal(getPriority(), own);
});
