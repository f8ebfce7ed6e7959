// What sources have in common: waits between tries, and base URLs.
import t from 'tap';
import { Backoff, baseUrl } from '../../src/discovery/source.ts';

t.test('waits double up to half a minute, are spread, and begin anew', (t) => {
  for (const random of [0, 0.999]) {
    const backoff = new Backoff(() => random);
    const share = 0.5 + 0.5 * random;
    const waits = Array.from({ length: 8 }, () => backoff.next() / share);
    t.same(waits.map(Math.round), [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    backoff.reset();
    t.equal(backoff.next(), 500 * share);
    t.equal(backoff.next(7000), 7000, 'at least what is asked for');
  }
  t.end();
});

t.test('base URLs are those that settings have', (t) => {
  t.equal(baseUrl('http', '10.0.0.1', 8000), 'http://10.0.0.1:8000');
  t.equal(baseUrl('http', '10.0.0.1', 80), 'http://10.0.0.1');
  t.equal(baseUrl('https', 'FD00::0:1', 8443), 'https://[fd00::1]:8443');
  t.equal(baseUrl('https', 'a.example', 443), 'https://a.example');
  t.end();
});
