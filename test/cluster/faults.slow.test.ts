// The faults of `npm run test:cluster` in short, on loopback: under load a gateway is restarted, the engine is cut off, PostgreSQL is
// stopped and a gateway is killed. No request fails but those in flight on the killed gateway, and the ledger is right at the end.

import t from 'tap';
import { Cluster, startDatabase } from '../support/cluster.ts';
import { loopbackNetwork } from '../support/cluster-network.ts';
import { faultsOf, runScenario, SHORT } from './scenarios.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

t.test('three gateways under load survive one fault after the other', { timeout: 240_000 }, async (t) => {
  const network = loopbackNetwork();
  t.teardown(() => network.close());
  const postgres = await startDatabase(network);
  const cluster = await Cluster.start({ network, postgres, folder: temporaryFolder(t), ...SHORT.options });
  t.teardown(() => cluster.close());
  const result = await runScenario(SHORT, cluster, { beforeMs: 1500, afterMs: 500 });
  t.comment(`${result.sent} requests, ${result.lost} lost in flight, recovered within ${result.recoveryMs} ms`);
  t.same(faultsOf(result), []);
  t.ok(result.sent > 100, `${result.sent} requests`);
});
