import t from 'tap';
import { createManualClock } from '../../src/actor/clock.ts';
import { createGuard, type Guard } from '../../src/fetch/guard.ts';
import { GuardedConnector } from '../../src/fetch/guarded-connector.ts';
import { said, site } from '../support/site.ts';

const clock = createManualClock();

function connectorTo(guard: Guard): GuardedConnector {
  return new GuardedConnector({ guard, clock, timeoutMs: 1000 });
}

t.test('a peer at an unchecked address is refused', async (t) => {
  const web = await site(t, {});
  // Address literals are not looked up, so this connection goes to an unchecked address.
  const guard: Guard = { admit: (url) => new URL(url), resolve: async () => ['127.0.0.9'] };
  const connecting = connectorTo(guard).connect({ hostname: '127.0.0.1', protocol: 'http:', port: String(web.port) });
  await t.rejects(connecting, { code: 'HR_FETCH_BLOCKED', subject: 'private address' });
});

t.test('tries the checked addresses in turn', async (t) => {
  const web = await site(t, {}, '127.0.0.4');
  const guard = createGuard({ allow: ['127.0.0.0/8'], ports: [], lookup: async () => ['127.0.0.3', '127.0.0.4'] });
  const socket = await connectorTo(guard).connect({ hostname: 'a.test', protocol: 'http:', port: String(web.port) });
  t.equal(socket.remoteAddress, '127.0.0.4');
  socket.destroy();
});

t.test('a server without TLS is a failure', async (t) => {
  const web = await site(t, {});
  const guard = createGuard({ allow: ['127.0.0.1'], ports: [], lookup: async () => ['127.0.0.1'] });
  const connecting = connectorTo(guard).connect({ hostname: '127.0.0.1', protocol: 'https:', port: String(web.port) });
  t.equal(await connecting.catch(said), 'HR_FETCH_FAILED TLS failed');
});

t.test('closing ends connection attempts', async (t) => {
  const guard = createGuard({ allow: [], ports: [], lookup: () => new Promise(() => undefined) });
  const connector = connectorTo(guard);
  const connecting = connector.connect({ hostname: 'a.test', protocol: 'http:', port: '' }).catch(said);
  connector.close();
  t.equal(await connecting, 'HR_DRAINING');
  t.equal(clock.nextDueMs, Infinity, 'no timer is left');
});
