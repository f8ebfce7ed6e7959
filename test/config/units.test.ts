import t from 'tap';
import * as fc from 'fast-check';
import {
  isLoopback,
  isPrivate,
  parseAddress,
  parseBytes,
  durationProblem,
  parseDuration,
  printAddress,
  printBytes,
  printDuration,
} from '../../src/config/units.ts';

t.test('durations are read with their unit, and only 0 needs none', async (t) => {
  const read = ['250ms', '5s', '2m', '1h', '1d', '1.5s', ' 3 s ', '0', 0, '0ms', '2M'].map(parseDuration);
  t.same(read, [250, 5_000, 120_000, 3_600_000, 86_400_000, 1_500, 3_000, 0, 0, 0, 120_000]);
  for (const wrong of [
    '',
    's',
    '5 seconds',
    '-5s',
    '5s5',
    -1,
    Number.NaN,
    1e300,
    null,
    true,
    [5],
    {},
    '40',
    40,
    1.5,
    '9007199254740991',
  ]) {
    t.equal(parseDuration(wrong), undefined, JSON.stringify(wrong));
  }
});

t.test('the complaint about a duration without a unit proposes one', async (t) => {
  for (const raw of [60, '60', ' 60 ']) {
    t.equal(durationProblem(raw), 'has no unit: write 60s for seconds or 60ms for milliseconds');
  }
  t.equal(durationProblem('5 seconds'), 'must be a duration, such as 250ms, 5s or 2m');
  t.notMatch(durationProblem('491827364501'), /4918/, 'a long number may be a secret');
});

t.test('sizes know decimal and binary units', async (t) => {
  const read = ['10MB', '100MiB', '64KiB', '64KB', '1GiB', '1GB', '512B', '512', 512].map(parseBytes);
  t.same(read, [1e7, 104_857_600, 65_536, 64_000, 1_073_741_824, 1e9, 512, 512, 512]);
  t.equal(parseBytes('10M'), undefined, 'a unit that could mean either is refused');
});

t.test('printing and reading durations and sizes are inverse', async () => {
  fc.assert(
    fc.property(fc.nat(), (value) => {
      return parseDuration(printDuration(value)) === value && parseBytes(printBytes(value)) === value;
    }),
  );
});

t.test('the largest unit that divides is printed', async (t) => {
  t.same([120_000, 90_000, 1, 0].map(printDuration), ['2m', '90s', '1ms', '0ms']);
  t.same([104_857_600, 1e7, 1000, 1001].map(printBytes), ['100MiB', '10MB', '1KB', '1001B']);
});

t.test('addresses are HOST:PORT, [IPv6]:PORT or a port alone', async (t) => {
  t.same(parseAddress('127.0.0.1:80', 'x'), { host: '127.0.0.1', port: 80 });
  t.same(parseAddress('gateway.example:0', 'x'), { host: 'gateway.example', port: 0 });
  t.same(parseAddress('[::1]:65535', 'x'), { host: '::1', port: 65_535 });
  t.same(parseAddress(8080, '0.0.0.0'), { host: '0.0.0.0', port: 8080 });
  for (const wrong of [
    '',
    'host',
    'host:',
    ':1',
    '::1:80',
    '[zz]:1',
    '[::1',
    'a b:1',
    'h:65536',
    'http://h:1',
    -1,
    null,
  ]) {
    t.equal(parseAddress(wrong, 'x'), undefined, String(wrong));
  }
  t.equal(printAddress({ host: '::1', port: 80 }), '[::1]:80');
  t.equal(printAddress({ host: 'a', port: 80 }), 'a:80');
});

t.test('hosts are classified as loopback, private or public', async (t) => {
  for (const host of ['localhost', 'a.localhost', '127.9.9.9', '::1']) t.ok(isLoopback(host), host);
  for (const host of ['0.0.0.0', '::', '10.0.0.1', 'example.org']) t.notOk(isLoopback(host), host);
  for (const host of [
    '10.1.1.1',
    '172.31.0.1',
    '192.168.1.1',
    '100.64.0.1',
    'fd00::1',
    'fe80::1',
    'gpu1',
    'a.internal',
  ]) {
    t.ok(isPrivate(host), host);
  }
  for (const host of ['8.8.8.8', '172.32.0.1', '2001:db8::1', 'example.org']) t.notOk(isPrivate(host), host);
});
