import { htmlOf } from '../../src/load/html-report.ts';
import { LiveView } from '../../src/load/live-view.ts';
import { readConditions, readLimits } from '../../src/load/load-limits.ts';
import { type LoadReport, type RunDescription, loadReport } from '../../src/load/load-report.ts';
import type { LoadRun } from '../../src/load/load-run.ts';
import { Recorder } from '../../src/load/recorder.ts';
import { CSV_HEAD, csvLine } from '../../src/load/sample.ts';
import { tableOf } from '../../src/load/text-report.ts';
import { answerFor, sampleFor } from './samples.ts';

import t from 'tap';

const RUN: RunDescription = {
  ...{ url: 'http://127.0.0.1:1/a?b=<c>&d', model: '<b>"m"</b>', dialect: 'chat', stream: true, seed: 1 },
  arrivals: { kind: 'poisson', perSecond: 20, rampMs: 5000 },
  workload: "somebody's file",
  warmUpMs: 1000,
  limits: readLimits('ttft:50ms'),
  startedAt: '2030-01-01T00:00:00.000Z',
};

const DONE = { sent: 25, late: 1, dropped: 2, unfinished: 1, startMs: 0, endMs: 11_000, inFlight: 0 } as LoadRun;

function filled(): Recorder {
  const recorder = new Recorder(RUN.limits);
  for (let at = 0; at < 18; at++) {
    const truth = '{"arrivedUs":1000000,"startedUs":1000000,"handedUs":[1010000,1020000,1030000]}';
    const sample = sampleFor({
      intendedMs: 1000 + at * 500,
      e2eMs: 100 + at,
      ttftMs: 45 + at,
      gapsMs: [10, 12],
      tpotMs: 11,
      cachedTokens: 3,
    });
    recorder.add(
      sample,
      answerFor({
        sentMs: 1000,
        textMs: [1020, 1030, 1042],
        serverTimings: truth,
        outputTokens: at === 0 ? undefined : 3,
      }),
    );
  }
  for (const outcome of ['reset', '503 HR_ROUTE_ALL_FAILED', 'reset'])
    recorder.add(sampleFor({ outcome }), answerFor({ outcome }));
  return recorder;
}

function report(): LoadReport {
  return loadReport(RUN, DONE, filled(), readConditions('errors>1%,goodput<10%,added.p50>9ms'));
}

t.test('sums a run up: what was lost counts against goodput, what went wrong is named', (t) => {
  const all = report();
  t.match(all.counts, { sent: 25, requests: 21, ok: 18, errors: 3, good: 6, late: 1, dropped: 2, unfinished: 1 });
  t.equal(all.shares.errors, 3 / 21);
  t.equal(all.shares.goodput, 6 / 24);
  t.equal(all.measuredMs, 10_000);
  t.match(all.rates, { requestsPerSecond: 1.8, goodPerSecond: 0.6 });
  t.strictSame(all.outcomes, { reset: 2, '503 HR_ROUTE_ALL_FAILED': 1 });
  t.match(all.latency, { e2e: { count: 18, min: 100, max: 117 }, itl: { count: 36 }, tpot: { count: 18 } });
  t.match(all.tokens, { prompt: 90, cached: 54, countedShare: 17 / 18 });
  t.match(all.truth, { requests: 18, addedTtft: { count: 18, max: 10 } });
  t.match(all.failed, [/^errors>1%: it is 0\.14/, 'added.p50>9ms: it is 10']);
  t.strictSame(JSON.parse(JSON.stringify(all)).counts, all.counts);
  t.end();
});

t.test('what went wrong stands in the order of its frequency, also a bare status', (t) => {
  const recorder = new Recorder({});
  for (const outcome of ['429', '500', 'reset', 'reset', 'reset', '500'])
    recorder.add(sampleFor({ outcome }), answerFor({ outcome }));
  const all = loadReport(RUN, DONE, recorder, []);
  t.match(tableOf(all), '    3 × reset\n    2 × 500\n    1 × 429\n');
  t.match(htmlOf(all), /reset<.*500<.*429</);
  t.end();
});

t.test('a run without any answer is summed up, too', (t) => {
  const none = loadReport(RUN, { ...DONE, endMs: 500 } as LoadRun, new Recorder({}), []);
  t.match(none, { measuredMs: 0, shares: { errors: 0, goodput: 0 }, rates: { requestsPerSecond: 0 } });
  const nothing = 'No request succeeded: there are no times of answers.';
  t.match(tableOf(none), '0 ok, 0 failed');
  t.match(tableOf(none), `\n\n  ${nothing}\n`);
  t.notMatch(tableOf(none), /milliseconds|p50/);
  t.match(htmlOf(none), '</html>');
  t.match(htmlOf(none), `<p>${nothing}</p>`);
  t.notMatch(htmlOf(none), '<th>p50</th>');
  t.equal(none.truth, undefined);
  t.end();
});

t.test('a run in which all failed says so, and how late its requests were sent', (t) => {
  const recorder = new Recorder({});
  recorder.add(sampleFor({ outcome: 'reset' }), answerFor({ outcome: 'reset' }));
  const text = tableOf(loadReport(RUN, DONE, recorder, []));
  t.match(
    text,
    /No request succeeded: there are no times of answers\.\n\n {2}milliseconds .*\n {2}sent later than intended /,
  );
  t.match(text, '1 × reset');
  t.end();
});

t.test('the table says it in lines of at most 120 cells', (t) => {
  const text = tableOf(report());
  t.match(text, /open loop, 20 a second, Poisson, ramp of 5s; somebody's file; 10\.0 s measured/);
  t.match(text, /requests {3}18 ok, 3 failed \(14\.3 %\), 2 dropped, 1 unfinished, 1 sent late/);
  t.match(text, /goodput {4}25\.0 % within ttft 50ms: 0\.60 a second/);
  t.match(text, /first text +53\.\d+ +5\d/);
  t.match(text, /added to first text +10\.00/);
  t.match(text, /2 × reset\n {4}1 × 503 HR_ROUTE_ALL_FAILED/);
  t.match(text, /not as wanted\n {4}errors>1%/);
  for (const line of text.split('\n').slice(2)) t.ok(line.length <= 120, line);
  t.end();
});

t.test('the page needs nothing else: no address, no script, every text escaped, light and dark', (t) => {
  const page = htmlOf(report());
  const text = page.replaceAll('http://127.0.0.1:1/a?b=&#60;c&#62;&#38;d', '');
  t.notMatch(text, /https?:|\/\/|<script|<link|<img|<iframe|@import|url\(/i);
  t.notMatch(page, '<b>');
  t.match(page, '&#60;b&#62;&#34;m&#34;&#60;/b&#62;');
  t.match(page, 'prefers-color-scheme:dark');
  t.ok(page.split('<svg').length - 1 >= 5, 'plots');
  t.notMatch(page, /NaN|Infinity|undefined/);
  t.equal(page.split('<polyline').length, page.split('points="').length);
  t.end();
});

t.test('a request is one CSV line, with empty cells for missing values', (t) => {
  const cells = (line: string): string[] => line.trimEnd().split(',');
  const line = csvLine(
    sampleFor({ ttftMs: NaN, ttfeMs: NaN, promptTokens: undefined, outcome: 'a "b", c', e2eMs: 1.23456 }),
  );
  t.match(line, ',"a ""b"", c",1.235,');
  t.ok(line.endsWith('\r\n'));
  const plain = cells(csvLine(sampleFor({ gapsMs: [5, 9, 7] })));
  t.equal(plain.length, cells(CSV_HEAD).length);
  const value = (name: string): string | undefined => plain[cells(CSV_HEAD).indexOf(name)];
  t.strictSame(
    [value('longest_gap_ms'), value('texts'), value('per_token_ms'), value('first_text_ms')],
    ['9', '4', '', '20'],
  );
  t.end();
});

t.test('the live view renews its lines on a terminal and writes plain ones elsewhere', (t) => {
  for (const isTerminal of [true, false]) {
    const written: string[] = [];
    const settings = { isTerminal, warmUpMs: 1000, columns: 60, write: (text: string) => void written.push(text) };
    const view = new LiveView(settings, { ...DONE, inFlight: 4 } as LoadRun, filled());
    view.show(400);
    view.show(2400);
    view.clear();
    view.clear();
    t.match(written[0], /^0 s, warming up: 25 sent, 4 under way, 18 ok, 3 failed/);
    if (isTerminal) {
      t.equal(written.length, 3);
      t.ok(written[1]?.startsWith('\u001b[1A\r\u001b[J2 s: 25 sent'), JSON.stringify(written[1]));
      t.equal(written[2], '\u001b[1A\r\u001b[J');
      for (const line of written[0]!.split('\n')) t.ok(line.length < 60);
    } else {
      t.equal(written.length, 2);
      t.match(
        written[1],
        /2 dropped, 1 late, 0\.00 a second; ms: response p50 10\d\.\d p99 11\d\.\d, first text p50 .*gap p99 .*\n$/,
      );
      t.match(written[1], '(reset, 503 HR_ROUTE_ALL_FAILED)');
    }
  }
  t.end();
});
