// A thread that reserves and settles until it is killed or told to stop; started by `lease-threads.slow.test.ts`.
// It counts what it delivers before it settles it, and tells its parent when it has settled something for the first time.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { createSystem, link, systemClock, systemEpochMs } from '../../src/actor/index.ts';
import { LeaseCache } from '../../src/billing/lease-cache.ts';
import type { LeaseManagerCommand } from '../../src/billing/lease-manager.ts';
import { createSeededRandom } from '../../src/actor/clock.ts';
import { spend } from './lease-fixture.ts';

export interface LeaseThreadData {
  readonly memory: SharedArrayBuffer;
  /** Delivered pico-USD by account, as 64-bit integers. */
  readonly delivered: SharedArrayBuffer;
  readonly accounts: readonly string[];
  readonly thread: number;
  readonly seed: number;
  readonly leasePico: number;
  /** Link to the lease manager. */
  readonly port: MessagePort;
}

const data = workerData as LeaseThreadData;
const { accounts, leasePico, memory, thread } = data;
const random = createSeededRandom(data.seed);
const system = createSystem({ name: `thread-${thread}` });
const control = link(system, data.port);
const leaseManager = control.ref<LeaseManagerCommand>('leaseManager');
const leases = new LeaseCache({
  ...{ system, leaseManager, memory, thread, leasePico },
  ...{ clock: systemClock, epochMs: systemEpochMs, flushMs: 5 },
});
const delivered = new BigInt64Array(data.delivered);
let isStopping = false;
parentPort?.on('message', () => {
  isStopping = true;
});

let hasServed = false;

/** Requests that last for a turn of the event loop or longer. */
const running: (() => void)[] = [];

function serve(at: number): void {
  const payer = { account: accounts[at] as string, key: null, prepaid: true };
  const most = 1 + Math.floor(random() * 2000);
  const begin = (held: number): void => {
    const cost = random() < 0.2 ? 0 : Math.floor(held * random());
    running.push(() => {
      Atomics.add(delivered, at, BigInt(cost));
      if (cost === 0) leases.cancel(payer, held);
      else leases.settle(payer, held, spend(cost));
      if (cost === 0 || hasServed) return;
      hasServed = true;
      parentPort?.postMessage('served');
    });
  };
  const held = leases.reserve(payer, most);
  if (held > 0) begin(held);
  else if (running.length < 20)
    leases.fund(payer, 1, most, (reserved) => reserved.kind === 'reserved' && begin(reserved.amount));
}

function turn(): void {
  for (let request = 0; request < 200; request++) {
    serve(Math.floor(random() * accounts.length));
    if (running.length > 5 + random() * 10) running.shift()?.();
  }
  if (!isStopping) {
    // Threads that start get the core in between.
    setTimeout(turn, 1);
    return;
  }
  for (const end of running.splice(0)) end();
  leases.close();
  control.close();
  // Nothing else keeps the thread alive.
  parentPort?.close();
  void system.terminate();
}
turn();
