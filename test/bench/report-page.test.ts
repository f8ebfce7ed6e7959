// The HTML report of a benchmark run: self-contained, and free of markup from the figures that it shows.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { benchModule } from './modules.ts';

interface Page {
  readonly pageOf: (run: unknown) => string;
}

interface Plot {
  readonly drawPlot: (plot: unknown) => string;
  readonly formatNumber: (value: number) => string;
}

interface ProgressModule {
  readonly barText: (done: number, total: number, elapsedMs: number, text: string) => string;
  readonly Progress: new (
    total: number,
    stream: { isTTY: boolean; write: (text: string) => void },
    nowMs: () => number,
  ) => { step: (part: string, text: string) => void };
}

const { pageOf } = await benchModule<Page>('lib/report-page.mjs');
const { drawPlot, formatNumber } = await benchModule<Plot>('lib/plot.mjs');
const { barText, Progress } = await benchModule<ProgressModule>('lib/progress.mjs');

const HOSTILE = '<script src="//x">&"\'';

const BARS = {
  kind: 'bars',
  title: 'CPU time',
  unit: 'us',
  bars: [
    { name: 'nginx', median: 20, min: 10, max: 40 },
    { name: HOSTILE, median: 10, min: 10, max: 10 },
  ],
};
const CURVES = {
  kind: 'curves',
  title: 'Latency',
  xLabel: 'ms',
  yLabel: 'share',
  isLog: true,
  curves: [
    {
      name: HOSTILE,
      points: [
        [0, 0.1],
        [0.5, 0.5],
        [300, 0.99],
      ],
    },
  ],
};

const RUN = {
  startedAt: '2026-11-21T10:45:00.000Z',
  seconds: 600,
  command: `npm run bench -- --out ${HOSTILE}`,
  surroundings: { cpu: 'A CPU', cores: 2, node: 'v22.0.0', nginx: null, commit: 'abc1234 with changes' },
  notes: [HOSTILE],
  parts: [
    {
      name: 'proxy',
      sentence: HOSTILE,
      settings: { rounds: 5, peers: ['nginx', HOSTILE], out: '' },
      results: [
        { title: HOSTILE, columns: ['peer', 'x'], rows: [[HOSTILE, '1.0']], remarks: [HOSTILE], plots: [BARS, CURVES] },
      ],
    },
  ],
};

t.test('the page loads no external resource', async (t) => {
  const page = pageOf(RUN);
  t.notMatch(page, /<script|<link|<img|<iframe|@import|url\(|https?:/);
  t.notMatch(page, /<[^>]*\s(src|on[a-z]+)=/);
  t.match(page, '<!doctype html>');
  t.equal(page.match(/<svg/g)?.length, 2);
});

t.test('a kept run is rendered again into a folder that is not there yet', async (t) => {
  const command = fileURLToPath(new URL('../../../bench/run.mjs', import.meta.url));
  const folder = t.testdir({ 'run.json': JSON.stringify(RUN) });
  const out = join(folder, 'pages');
  const args = [command, '--render', join(folder, 'run.json'), '--out', out];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 20_000 });
  t.equal(status, 0);
  t.equal(stdout, `${join(out, 'report.html')}\n`);
  t.equal(readFileSync(join(out, 'report.html'), 'utf8'), pageOf(RUN));
});

t.test('names are escaped', async (t) => {
  const page = pageOf(RUN);
  t.notMatch(page, HOSTILE);
  t.ok(page.split('&#60;script src=&#34;//x&#34;&#62;&#38;&#34;&#39;').length > 8);
});

t.test('the page shows machine, versions, commit, date, settings and command', async (t) => {
  const page = pageOf(RUN);
  for (const text of [
    'A CPU',
    'v22.0.0',
    'abc1234 with changes',
    '2026-11-21 10:45 UTC',
    '10 minutes',
    'npm run bench',
  ]) {
    t.match(page, text);
  }
  t.match(page, '<dt>rounds</dt><dd>5</dd>');
  t.notMatch(page, '<dt>nginx</dt>', 'what is not installed is not listed');
});

t.test('the page adapts to narrow screens and to light and dark themes', async (t) => {
  const page = pageOf(RUN);
  t.match(page, 'width=device-width');
  t.match(page, 'prefers-color-scheme:dark');
  t.match(page, '<div class="scroll"><table>');
});

t.test('tables stand beside plots as text', async (t) => {
  t.match(pageOf(RUN), /<td>1\.0<\/td><\/tr><\/table><\/div>.*<figure>/s);
});

t.test('the length of a bar is proportional to its median', async (t) => {
  const widths = [...drawPlot(BARS).matchAll(/<rect [^>]*width="([\d.]+)"/g)].map(([, width]) => Number(width));
  t.equal(widths.length, 2);
  t.equal(widths[0], 2 * (widths[1] ?? 0));
});

t.test('a bar far beyond the others is cut, and keeps its figure', async (t) => {
  const bar = (name: string, median: number): object => ({ name, median, min: median, max: median });
  const drawn = drawPlot({ ...BARS, bars: [bar('a', 10), bar('b', 20), bar('c', 5000)] });
  const widths = [...drawn.matchAll(/<rect [^>]*width="([\d.]+)"/g)].map(([, width]) => Number(width));
  t.equal(Math.round((widths[2] ?? 0) / (widths[1] ?? 1)), 8);
  t.match(drawn, '5,000');
});

t.test('curves stay inside the plot, also at zero on a logarithmic axis', async (t) => {
  const points = /points="([^"]+)"/.exec(drawPlot(CURVES))?.[1]?.split(/[ ,]/).map(Number) ?? [];
  t.equal(points.length, 6);
  t.ok(points.every((value) => value >= 0 && value <= 420));
});

t.test('a plot without data is empty', async (t) => {
  t.equal(drawPlot({ ...BARS, bars: [] }), '');
  t.equal(drawPlot({ ...CURVES, curves: [{ name: 'one point', points: [[1, 1]] }] }), '');
  t.notMatch(drawPlot({ ...BARS, bars: [{ name: 'zero', median: 0, min: 0, max: 0 }] }), 'NaN');
});

t.test('figures on a plot have three significant digits', async (t) => {
  t.strictSame([0, 0.01234, 1.234, 123.4, 12_345].map(formatNumber), ['0', '0.0123', '1.23', '123', '12,345']);
});

t.test('the progress bar shows the share done and an estimate of the time left', async (t) => {
  t.match(barText(0, 10, 0, 'proxy'), /^\[-+\] +0 % {2}proxy$/);
  t.match(barText(5, 10, 60_000, 'proxy'), /^\[#+-+\] +50 % {2}proxy {2}about 60 s left$/);
  t.match(barText(5, 10, 300_000, 'proxy'), /about 5 min left$/);
});

t.test('without a terminal progress is a line per part and one every 15 seconds', async (t) => {
  const lines: string[] = [];
  let nowMs = 0;
  const progress = new Progress(4, { isTTY: false, write: (text) => lines.push(text) }, () => nowMs);
  progress.step('proxy', 'one');
  progress.step('proxy', 'two');
  nowMs = 20_000;
  progress.step('proxy', 'three');
  progress.step('stream', 'four');
  t.equal(lines.length, 3);
  t.match(lines.join(''), /proxy: one\n.*proxy: three.*\n.*stream: four/);
});
