import { Histogram } from '../../src/load/histogram.ts';
import { type RunFigures, failures, meets, readConditions, readLimits } from '../../src/load/load-limits.ts';
import { LoadError } from '../../src/load/workload.ts';
import { sampleFor } from './samples.ts';

import t from 'tap';

t.test('a request is good when it went well and kept to every limit', (t) => {
  const limits = readLimits('ttft:500ms, itl:50ms,e2e:10s,stall:80ms,tpot:60ms');
  t.strictSame(limits, { ttft: 500, itl: 50, e2e: 10_000, stall: 80, tpot: 60 });
  const good = sampleFor({ ttftMs: 500, gapsMs: [20, 80], e2eMs: 600, tpotMs: 50 });
  t.ok(meets(limits, good));
  t.notOk(meets(limits, { ...good, outcome: 'truncated' }));
  t.notOk(meets(limits, { ...good, ttftMs: 501 }));
  t.notOk(meets(limits, { ...good, ttftMs: NaN }), 'no text at all');
  t.notOk(meets(limits, { ...good, gapsMs: [10, 10, 10, 81] }), 'one long gap');
  t.notOk(meets(limits, { ...good, gapsMs: [60, 60] }), 'the mean gap');
  t.notOk(meets(limits, { ...good, tpotMs: 61 }));
  t.ok(meets(limits, { ...good, gapsMs: [], tpotMs: NaN }), 'a single token has no gaps');
  t.end();
});

t.test('limits and conditions that make no sense are refused by name', (t) => {
  for (const text of ['ttft', 'ttft:fast', 'wait:5s', 'ttft:1s,', 'toString:1s']) {
    t.throws(() => readLimits(text), LoadError, text);
  }
  for (const text of [
    'errors',
    'errors>x',
    'errors>1ms',
    'errors>5',
    'goodput<950%',
    'rps<10%',
    'ttft>5ms',
    'ttft.p98>5ms',
    'ttft.p99>5%',
    'x.p99>1s',
  ]) {
    t.throws(() => readConditions(text), { message: `"${text}" is no condition` }, text);
  }
  t.end();
});

t.test('conditions that came true are told with the figure', (t) => {
  const histogram = new Histogram();
  for (let ms = 1; ms <= 100; ms++) histogram.record(ms);
  const figures: RunFigures = {
    shares: { errors: 0.02, goodput: 0.9 },
    numbers: { rps: 12, dropped: 0, late: 3, unfinished: 0 },
    latency: { ttft: histogram.distribution(), itl: new Histogram().distribution(), added: histogram.distribution() },
  };
  const failed = (text: string): string[] => failures(readConditions(text), figures);
  t.strictSame(failed('errors>5%,goodput<80%,rps<10,dropped>0,ttft.max>100ms'), []);
  t.strictSame(failed('errors>1%,goodput<0.95,late>2'), [
    'errors>1%: it is 0.02',
    'goodput<0.95: it is 0.9',
    'late>2: it is 3',
  ]);
  t.match(failed('ttft.p99>50ms,ttft.p99.9>1s'), [/^ttft\.p99>50ms: it is 9/]);
  t.strictSame(failed('added.max>99ms'), ['added.max>99ms: it is 100']);
  t.strictSame(failed('itl.p50>1s,delay.p50>1s'), [
    'itl.p50>1s: nothing was measured',
    'delay.p50>1s: nothing was measured',
  ]);
  t.end();
});
