// Entry of an ingress thread: a data plane of its own behind the shared port. A thread that exits with an open
// uWebSockets.js app aborts the whole process, so every way out closes it first.

import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { createSystem, link, systemClock, systemRandom } from '../src/actor/index.ts';
import type {
  AccountReaderCommand,
  LeaseManagerCommand,
  PaymentCommand,
  CostLogCommand,
  SliceCommand,
} from '../src/billing/index.ts';
import type { SharedCacheCommand } from '../src/net/shared-cache.ts';
import { type IndexesCommand, moduleOf, type TrialCommand } from '../src/search/index.ts';
import { DataPlane } from '../src/gateway/data-plane.ts';
import type { PagesCommand } from '../src/fetch/index.ts';
import { createServer, ingress } from '../src/gateway/ingress.ts';
import { type ThreadData, type ThreadMessage } from '../src/gateway/ingress-thread.ts';
import type { CancelCommand } from '../src/mcp/index.ts';
import type { Server } from '../src/ingress/server.ts';
import type { ResponseStoreCommand } from '../src/responses/index.ts';
import type { CrnRegistryCommand } from '../src/routing/index.ts';
import { describeEvent } from '../src/telemetry/system-events.ts';
import { stackOf } from '../src/errors.ts';

const data = workerData as ThreadData;
const parent = parentPort as MessagePort;
const system = createSystem({
  name: `ingress-${data.thread}`,
  onEvent: (event) => post({ type: 'Event', text: describeEvent(event) }),
});
const control = link(system, data.port);
const registry = control.ref<CrnRegistryCommand>('crns');
const pages = control.ref<PagesCommand>('pages');
const indexes = control.ref<IndexesCommand>('indexes');
const cancellations = control.ref<CancelCommand>('cancellations');
const responses = control.ref<ResponseStoreCommand>('responses');
const caches = {
  cache: control.ref<SharedCacheCommand>('sharedCache'),
  trials: control.ref<TrialCommand>('engineTrials'),
};

const { leaseMemory, limitMemory, paid } = data;
const leaseManager = control.ref<LeaseManagerCommand>('leaseManager');
const accountReader = control.ref<AccountReaderCommand>('accountReader');
const costLog = control.ref<CostLogCommand>('costLog');
const sliceManager = control.ref<SliceCommand>('sliceManager');
const payments = paid ? control.ref<PaymentCommand>('payments') : null;

const plane = new DataPlane({
  system,
  memory: data.memory,
  engineMemory: data.engineMemory,
  searchMemory: data.searchMemory,
  bodyMemory: data.bodyMemory,
  thread: data.thread,
  clock: systemClock,
  random: systemRandom,
  tellOutcome: (outcome) => registry.tell({ type: 'Outcome', outcome }),
  tellCancelled: (command) => cancellations.tell(command),
  onEngineThrew: (engine, thrown) => post({ type: 'EngineThrew', engine, thrown }),
  pages,
  indexes,
  accounts:
    limitMemory === null || leaseMemory === null
      ? null
      : { accountReader, leaseManager, leaseMemory, limitMemory, payments, costLog, sliceManager },
  responses: { ref: responses, memory: data.responseMemory },
  caches,
  snapshot: data.snapshot,
});
let server: Server | null = null;
process.on('exit', () => server?.close());
process.on('uncaughtException', leave);
process.on('unhandledRejection', leave);

server = await createServer(plane, systemClock, data.server, (error) =>
  post({ type: 'Error', message: stackOf(error) }),
);
control.expose('ingress', system.spawn(ingress({ plane, server }), { name: 'ingress' }));
parent.on('message', (message: ThreadMessage) => {
  if (message.type === 'Ping') post({ type: 'Pong' });
  if (message.type !== 'Close') return;
  server?.close();
  plane.close();
  control.close();
  process.exit(0);
});

const address = await server.listen(data.address);
post({ type: 'Listening', address, server: server.name });

/** Ends the thread as failed, once the message about it and the charges of its requests have left. What the module of an engine throws on its own is logged only. */
function leave(error: unknown): void {
  const module = moduleOf(error);
  if (module !== undefined) {
    post({ type: 'EngineModule', module, message: stackOf(error) });
    return;
  }
  server?.close();
  post({ type: 'Failed', message: stackOf(error) });
  // What was delivered up to now is charged.
  plane.closeLeases();
  setImmediate(() => process.exit(1));
}

function post(message: ThreadMessage): void {
  parent.postMessage(message);
}
