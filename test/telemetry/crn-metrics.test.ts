import t from 'tap';
import { CrnMetrics } from '../../src/telemetry/crn-metrics.ts';

t.test('ejections and restarts of CRNs that have left are dropped after a while', (t) => {
  const metrics = new CrnMetrics();
  for (const url of ['http://a', 'http://b']) {
    metrics.ejected(url, 'connect');
    metrics.restarted(url);
  }
  const shown = (): unknown[] => metrics.snapshot().flatMap(({ values }) => values.map(({ labels }) => labels['crn']));
  metrics.keep(new Set(['http://a']), 0);
  metrics.keep(new Set(['http://a']), 299_999);
  t.same(shown(), ['http://a', 'http://b', 'http://a', 'http://b'], 'it may come back');
  metrics.keep(new Set(['http://a']), 300_000);
  t.same(shown(), ['http://a', 'http://a']);
  t.end();
});
