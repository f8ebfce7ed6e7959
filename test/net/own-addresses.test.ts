// The addresses of this machine, also where the system refuses to tell them.

import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';
import t from 'tap';
import { createGateway } from '../../src/gateway/gateway.ts';
import { ownAddresses } from '../../src/net/own-addresses.ts';

t.test('are those of the interfaces', async (t) => {
  t.ok(ownAddresses().some(({ address, internal }) => internal && address === '127.0.0.1'));
});

t.test('a gateway that listens everywhere starts where the system does not tell them', async (t) => {
  const { networkInterfaces } = os;
  os.networkInterfaces = () => {
    throw new Error('uv_interface_addresses returned Unknown system error 97');
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    os.networkInterfaces = networkInterfaces;
    syncBuiltinESMExports();
  });
  t.same(ownAddresses(), []);
  const gateway = createGateway({
    listen: '0.0.0.0:0',
    admin: null,
    keys: { required: false },
    log: { level: 'silent' },
  });
  t.teardown(() => gateway.close());
  const { url } = await gateway.listen();
  t.equal((await fetch(`${url.replace('0.0.0.0', '127.0.0.1')}/health`)).status > 0, true);
});
