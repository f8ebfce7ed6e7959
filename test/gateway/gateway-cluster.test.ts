// What a gateway reads of its own load for its siblings.

import t from 'tap';
import { createManualClock } from '../../src/actor/index.ts';
import { GatewayCluster } from '../../src/gateway/gateway-cluster.ts';
import { createLog } from '../../src/telemetry/log.ts';
import type { ThreadLoad } from '../../src/telemetry/totals.ts';

t.test('the load is read once a second, also when the cluster was off and on during a reading', async (t) => {
  const clock = createManualClock();
  const first = Promise.withResolvers<readonly ThreadLoad[]>();
  let readings = 0;
  const cluster = new GatewayCluster({
    ...{ clock, random: () => 0.5, log: createLog('fatal', { write: () => undefined }) },
    stage: () => 'ready',
    load: () => (++readings === 1 ? first.promise : Promise.resolve([])),
    onStatus: () => undefined,
    override: async () => 'done',
    onSettled: () => undefined,
  });
  t.teardown(() => cluster.close());
  // Nothing listens there.
  const on = { cluster: { url: 'redis://127.0.0.1:1', name: 'headrace' } };
  const off = { cluster: { url: null, name: 'headrace' } };
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
  cluster.configure(on);
  clock.advance(1000);
  t.equal(readings, 1);
  cluster.configure(off);
  cluster.configure(on);
  first.resolve([]);
  await turn();
  clock.advance(1000);
  await turn();
  t.equal(readings, 2);
  clock.advance(1000);
  await turn();
  t.equal(readings, 3);
  cluster.configure(off);
  clock.advance(1000);
  await turn();
  t.equal(readings, 3);
});
