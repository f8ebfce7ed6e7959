// The admin listener of an embedded gateway.

import t, { type Test } from 'tap';
import { createGateway } from '../../src/gateway.ts';
import type { Host } from '../../src/host/index.ts';
import { MODEL, settingsFor, startHosts } from '../support/system.ts';

async function startAdmin(t: Test): Promise<{ adminUrl: string; host: Host; close: () => Promise<void> }> {
  const hosts = await startHosts(t);
  const gateway = createGateway(settingsFor(hosts, { admin: '127.0.0.1:0' }));
  t.teardown(() => gateway.close());
  const { adminUrl } = await gateway.listen();
  await gateway.ready();
  return { adminUrl: adminUrl ?? '', host: hosts[0] as Host, close: () => gateway.close() };
}

t.test('shows stage and CRNs', async (t) => {
  const { adminUrl, host } = await startAdmin(t);
  const answer = await fetch(`${adminUrl}/status`);
  t.equal(answer.headers.get('content-type'), 'application/json');
  t.match(await answer.json(), {
    stage: 'ready',
    crns: [{ model: MODEL, url: host.url, standing: 'up', inFlight: 0, firstByteMs: Number }],
  });
});

t.test('answers GET on its three paths and nothing else', async (t) => {
  const { adminUrl } = await startAdmin(t);
  for (const path of ['/health', '/status', '/metrics', '/health?x=1']) {
    t.equal((await fetch(adminUrl + path)).status, 200, path);
  }
  t.equal((await fetch(`${adminUrl}/v1/models`)).status, 404);
  t.equal((await fetch(`${adminUrl}/status`, { method: 'POST' })).status, 405);
});

t.test('is gone once the gateway is closed', async (t) => {
  const { adminUrl, close } = await startAdmin(t);
  await close();
  await t.rejects(fetch(adminUrl));
});
