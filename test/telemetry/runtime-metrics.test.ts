// How a thread is: its event loop, its memory, its actors.

import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { createSystem } from '../../src/actor/index.ts';
import { metricsText } from '../../src/telemetry/exposition.ts';
import { ProcessMetrics, ThreadMetrics } from '../../src/telemetry/runtime-metrics.ts';

async function read(metrics: { snapshot(): ReturnType<ThreadMetrics['snapshot']> }): Promise<Map<string, number>> {
  const lines = metricsText([metrics.snapshot()])
    .split('\n')
    .filter((line) => /^\w/.test(line));
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]));
}

/** Waits until the event loop has run every timer that is due: other timers of Node.js may run before the monitor's. */
async function runDueTimers(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate);
}

/** Holds up the event loop. */
function spin(forMs: number): void {
  const endMs = performance.now() + forMs;
  while (performance.now() < endMs);
}

t.test('a blocked event loop shows as delay, and is forgotten after the reading', async (t) => {
  const metrics = new ThreadMetrics(3, createSystem({ clock: createManualClock() }));
  t.teardown(() => metrics.close());
  const before = await read(metrics);
  t.equal(before.get('headrace_event_loop_delay_seconds{thread="3",percentile="100"}'), 0, 'nothing was watched yet');
  // The monitor looks from the event loop: it must have begun before the loop is held up, and look again after.
  for (let turn = 0; turn < 2; turn++) {
    await new Promise((resolve) => setTimeout(resolve, 15));
    await runDueTimers();
  }
  spin(200);
  await runDueTimers();
  const held = await read(metrics);
  const longest = held.get('headrace_event_loop_delay_seconds{thread="3",percentile="100"}') ?? 0;
  t.ok(longest > 0.15, `${longest} s`);
  t.ok((held.get('headrace_event_loop_delay_seconds{thread="3",percentile="50"}') ?? 1) <= longest);
  t.equal((await read(metrics)).get('headrace_event_loop_delay_seconds{thread="3",percentile="100"}'), 0);
});

t.test('shows work and memory', async (t) => {
  const metrics = new ThreadMetrics(0, createSystem({ clock: createManualClock() }));
  t.teardown(() => metrics.close());
  const before = await read(metrics);
  spin(50);
  await new Promise(setImmediate);
  const after = await read(metrics);
  const busy = 'headrace_thread_busy_seconds_total{thread="0"}';
  t.ok((after.get(busy) ?? 0) - (before.get(busy) ?? 0) > 0.04);
  t.ok((after.get('headrace_thread_heap_bytes{thread="0"}') ?? 0) > 1_000_000);
});

t.test('shows waiting messages of named actors, dead letters and restarts', async (t) => {
  const system = createSystem({ name: 'test', clock: createManualClock() });
  const metrics = new ThreadMetrics(0, system);
  t.teardown(() => metrics.close());
  const named = system.spawn<number>(() => () => undefined, { name: 'pages' });
  const unnamed = system.spawn<number>(() => () => undefined);
  for (let message = 0; message < 5; message++) named.tell(message);
  unnamed.tell(1);
  const waiting = await read(metrics);
  t.equal(waiting.get('headrace_mailbox_depth{thread="0",actor="pages"}'), 5);
  t.same(
    [...waiting.keys()].filter((name) => name.startsWith('headrace_mailbox_depth')),
    ['headrace_mailbox_depth{thread="0",actor="pages"}'],
    'actors without a name make no series',
  );
  system.stop(named);
  await new Promise(setImmediate);
  named.tell(6);
  const stopped = await read(metrics);
  t.notOk(stopped.has('headrace_mailbox_depth{thread="0",actor="pages"}'));
  t.ok((stopped.get('headrace_dead_letters_total{thread="0"}') ?? 0) >= 1);
  t.equal(stopped.get('headrace_actor_restarts_total{thread="0"}'), 0);
});

t.test('messages for a child wait at the named actor above it', async (t) => {
  const system = createSystem({ clock: createManualClock() });
  const seen = Promise.withResolvers<ReadonlyMap<string, number>>();
  const parent = system.spawn<number>(
    (context) => {
      const child = context.spawn<number>(() => () => undefined);
      return (count) => {
        for (let message = 0; message < count; message++) child.tell(message);
        seen.resolve(system.mailboxes());
      };
    },
    { name: 'parent' },
  );
  parent.tell(3);
  t.same([...(await seen.promise)], [['parent', 3]]);
});

t.test('the process shows CPU, memory and its start', async (t) => {
  const metrics = new ProcessMetrics();
  spin(20);
  const series = await read(metrics);
  t.ok((series.get('process_cpu_seconds_total') ?? 0) > 0.02);
  t.ok((series.get('process_resident_memory_bytes') ?? 0) > 10_000_000);
  t.ok(Math.abs((series.get('process_start_time_seconds') ?? 0) - Date.now() / 1000) < 3600);
});

t.test('the event loop is monitored while somebody reads', async (t) => {
  const clock = createManualClock();
  const metrics = new ThreadMetrics(0, createSystem({ clock }), clock);
  t.teardown(() => metrics.close());
  t.equal(metrics.monitors, false);
  metrics.snapshot();
  clock.advance(60_000);
  metrics.snapshot();
  clock.advance(100_000);
  t.equal(metrics.monitors, true);
  clock.advance(30_000);
  t.equal(metrics.monitors, false, 'no reading for two minutes');
  t.equal(clock.nextDueMs, Infinity);
  metrics.snapshot();
  t.equal(metrics.monitors, true, 'the next reading begins it again');
});
