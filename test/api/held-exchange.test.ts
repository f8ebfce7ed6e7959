import t from 'tap';
import { callerOf } from '../../src/api/held-exchange.ts';
import { Peers } from '../../src/upstream/index.ts';
import { StubExchange } from '../ingress/stub-exchange.ts';

const PEERS = new Peers(['10.9.0.0/16']);

function callerAt(remoteAddress: string, headers: readonly string[] = [], account = ''): string {
  const exchange = Object.assign(new StubExchange('POST', headers), { account });
  return callerOf(Object.create(exchange, { remoteAddress: { value: remoteAddress } }) as StubExchange, PEERS);
}

t.test('a caller is its account, whatever its address', (t) => {
  t.equal(callerAt('10.0.0.1', [], 'acme'), 'acme');
  t.end();
});

t.test('a caller without an account is its address, or its network of IPv6', (t) => {
  t.equal(callerAt('10.0.0.1'), '@10.0.0.1');
  t.equal(callerAt('::ffff:10.0.0.1'), '@10.0.0.1');
  t.equal(callerAt('2001:db8:1:2:3:4:5:6'), callerAt('2001:db8:1:2:ffff::1'));
  t.not(callerAt('2001:db8:1:2::1'), callerAt('2001:db8:1:3::1'));
  t.equal(callerAt('::1'), '@0:0:0:0');
  t.equal(callerAt(''), '@', 'all whose address is unknown are one caller');
  t.end();
});

t.test('a trusted proxy says for whom it asks, others do not', (t) => {
  const said = ['x-forwarded-for', '192.0.2.1, 192.0.2.7'];
  t.equal(callerAt('10.9.0.1', said), '@192.0.2.7', 'the address that the proxy has seen');
  t.equal(callerAt('10.0.0.1', said), '@10.0.0.1');
  t.equal(callerAt('10.9.0.1'), '@10.9.0.1');
  const fields = ['x-forwarded-for', '198.51.100.9', 'a', 'x-forwarded-for', ...said, 'b', 'x-forwarded-for', 'c', 'd'];
  t.equal(callerAt('10.9.0.1', fields), '@192.0.2.7', 'a field that the proxy has added behind that of the client');
  t.end();
});

t.test('one client is one caller, however its proxy writes the address', (t) => {
  const behindProxy = (address: string): string => callerAt('10.9.0.1', ['x-forwarded-for', address]);
  for (const spelling of ['::ffff:192.0.2.7', '192.0.2.7:50001', '[::ffff:192.0.2.7]:50001']) {
    t.equal(behindProxy(spelling), '@192.0.2.7', spelling);
  }
  for (const spelling of ['2001:0DB8:1:2::1', '[2001:db8:1:2::5]', '[2001:db8:1:2:3:4:5:6]:50001']) {
    t.equal(behindProxy(spelling), callerAt('2001:db8:1:2::1'), spelling);
  }
  t.not(callerAt('2001:0:0:2:3:4:5:6'), callerAt('2001:0:0:9:3:4:5:6'), 'zeros in the middle of the network');
  t.not(behindProxy('_gazonk'), behindProxy('_other'), 'names that are no addresses');
  t.end();
});
