import { createServer, type AddressInfo } from 'node:net';
import t from 'tap';
import { listenError, settlePort } from '../../src/ingress/port.ts';

const host = '127.0.0.1';

t.test('chooses a port for 0 and leaves it free', async (t) => {
  const { port } = await settlePort({ host, port: 0 });
  t.ok(port > 0);
  t.same(await settlePort({ host, port }), { host, port });
});

t.test('refuses a port that is taken', async (t) => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  await t.rejects(settlePort({ host, port }), { message: `cannot listen on ${host}:${port}: the port is taken` });
});

t.test('refuses an address that is not of this machine', async (t) => {
  // TEST-NET-1 (RFC 5737).
  await t.rejects(settlePort({ host: '192.0.2.1', port: 0 }), {
    message: 'cannot listen on 192.0.2.1:0: this machine has no such address',
  });
});

t.test('passes on a reason it has no sentence for', (t) => {
  const error = Object.assign(new Error('listen EODD'), { code: 'EODD' });
  t.equal(listenError({ host, port: 1 }, error).message, 'cannot listen on 127.0.0.1:1: listen EODD');
  t.end();
});
