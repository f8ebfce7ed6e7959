// Requests of a thread that wait for slices of limits, where the thread stands still meanwhile.

import { MessageChannel } from 'node:worker_threads';
import t from 'tap';
import { systemClock } from '../../../src/actor/clock.ts';
import type { Behavior, Ref, System } from '../../../src/actor/index.ts';
import { SliceClient, type SliceCommand } from '../../../src/billing/index.ts';
import type { SliceNotice } from '../../../src/billing/limits/slice-manager.ts';

const WAIT_MS = 5;
const NEED = { key: { cell: 1, requests: 1, tokens: 1, leastTokens: 1 } as const, budgets: [] };

/** A client whose manager answers in the way of another thread: by a message that the event loop reads. `answers`: whether it does. */
function openClient(answers: boolean): { readonly client: SliceClient; readonly close: () => void } {
  const { port1, port2 } = new MessageChannel();
  const system = {
    spawn: (behavior: Behavior<SliceNotice>) => {
      const receive = (behavior as unknown as () => (notice: SliceNotice) => void)();
      port2.on('message', (notice: SliceNotice) => receive(notice));
    },
  } as unknown as System;
  const manager = {
    tell: (command: SliceCommand) => {
      if (answers && command.type === 'Wait') port1.postMessage({ id: command.id, use: 'granted' });
    },
  } as unknown as Ref<SliceCommand>;
  const client = new SliceClient({ system, manager, thread: 1, clock: systemClock, waitMs: WAIT_MS });
  return { client, close: () => port1.close() };
}

function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

t.test('an answer that came while the thread stood still counts, not the time that has passed', async (t) => {
  const { client, close } = openClient(true);
  t.teardown(close);
  const uses = Array.from({ length: 3 }, () => new Promise((resolve) => client.wait(NEED, resolve)));
  standStill(10 * WAIT_MS);
  t.strictSame(await Promise.all(uses), ['granted', 'granted', 'granted']);
});

t.test('without an answer in time the whole limit belongs to this process', async (t) => {
  const { client, close } = openClient(false);
  t.teardown(close);
  t.equal(await new Promise((resolve) => client.wait(NEED, resolve)), 'whole');
});
