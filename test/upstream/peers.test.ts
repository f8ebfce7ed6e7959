// Addresses of peers, and which of them are trusted proxies.
import t from 'tap';
import { Peers } from '../../src/upstream/peers.ts';

t.test('blocks and addresses of both families are matched, IPv4-mapped ones as IPv4', (t) => {
  const blocks = ['10.0.0.0/8', '192.0.2.1', 'fd00::/8', '2001:db8::1', '::ffff:172.16.0.0/108', '::ffff:198.51.100.0'];
  const peers = new Peers(blocks);
  const trusted = [
    ...['10.0.0.0', '10.255.255.255', '::ffff:10.1.2.3', '0000:0000:0000:0000:0000:ffff:0a01:0203', '192.0.2.1'],
    ...['fd00::', 'fdff::1', 'fd00::1%eth0', '2001:0db8:0:0:0:0:0:1', '172.16.0.1', '172.31.255.255', '198.51.100.0'],
  ];
  for (const address of trusted) t.equal(peers.of(address).isTrusted, true, address);
  const others = [
    ...['11.0.0.0', '9.255.255.255', '192.0.2.2', 'fe00::', '2001:db8::2', '172.32.0.0', '198.51.100.1', '::1', '::'],
    ...['', 'unknown', '10.1', '::ffff:11.0.0.1', '0a01:0203::'],
  ];
  for (const address of others) t.equal(peers.of(address).isTrusted, false, address);
  t.equal(new Peers([]).of('127.0.0.1').isTrusted, false);
  t.equal(new Peers(['0.0.0.0/0']).of('203.0.113.1').isTrusted, true);
  t.equal(new Peers(['0.0.0.0/0']).of('::1').isTrusted, false);
  t.equal(new Peers(['::/0']).of('203.0.113.1').isTrusted, true, 'IPv4 is part of ::/0 in its mapped form');
  t.equal(new Peers(['::ffff:0:0/96']).of('203.0.113.1').isTrusted, true);
  t.equal(new Peers(['::ffff:0:0/80']).of('203.0.113.1').isTrusted, true);
  t.end();
});

t.test('addresses have one spelling', (t) => {
  const peers = new Peers([]);
  t.equal(peers.of('::ffff:192.0.2.1').address, '192.0.2.1');
  t.equal(peers.of('2001:0db8:0000:0000:0000:0000:0000:0001').address, '2001:db8::1');
  t.equal(peers.of('fe80::1%eth0').address, 'fe80::1');
  t.equal(peers.of('').address, '');
  t.equal(peers.of('pipe').address, '');
  t.end();
});

t.test('what is remembered of peers is bounded', (t) => {
  const peers = new Peers(['10.0.0.0/8']);
  const first = peers.of('10.0.0.1');
  t.equal(peers.of('10.0.0.1'), first);
  for (let n = 0; n < 5000; n++) peers.of(`192.0.${n >> 8}.${n & 255}`);
  t.not(peers.of('10.0.0.1'), first);
  t.same(peers.of('10.0.0.1'), first);
  t.end();
});
