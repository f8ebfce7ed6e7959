// The verdict on goals, and the page of figures that is generated from a run.
import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { benchModule } from './modules.ts';

interface Goal {
  readonly text: string;
  readonly measured: unknown;
  readonly limit: number | null;
  readonly isMet: boolean | null;
}

interface Goals {
  readonly judgeGoals: (run: unknown) => Goal[];
  readonly goalRows: (goals: readonly Goal[]) => string[][];
  readonly quietText: (run: unknown) => string;
}

interface Page {
  readonly performanceFiles: (run: unknown) => Record<string, string>;
  readonly condensed: (run: unknown) => { parts: { results: object[] }[] };
}

interface Traffic {
  readonly ANSWER: string;
  readonly requests: (load: object) => readonly Buffer[];
}

interface Formatting {
  readonly formatted: (file: string, text: string) => Promise<string>;
}

const { goalRows, judgeGoals, quietText } = await benchModule<Goals>('lib/goals.mjs');
const { METHOD } = await benchModule<{ METHOD: readonly string[] }>('lib/method.mjs');
const { ANSWER, requests } = await benchModule<Traffic>('lib/traffic.mjs');
const { formatted } = await benchModule<Formatting>('../scripts/formatted.mjs');
const { condensed, performanceFiles } = await benchModule<Page>('lib/performance-page.mjs');

/** From dist/test/bench, where tests run. */
const ROOT = new URL('../../../', import.meta.url);

const spread = (median: number): object => ({ median, min: median / 2, max: median * 2 });
const result = (title: string, figures: object): object => ({
  title,
  columns: ['peer', 'x nginx'],
  rows: [['headrace', '1.3 | 1']],
  remarks: ['Threads: <main>.'],
  plots: [
    { kind: 'bars', title: 'CPU time', unit: 'us', bars: [{ name: 'headrace', ...spread(20) }] },
    { kind: 'curves', title: 'Latency', curves: [] },
  ],
  figures,
  data: { runs: [1, 2, 3] },
});

function runOf(...figures: object[]): object {
  return {
    startedAt: '2026-11-22T10:00:00.000Z',
    seconds: 600,
    command: 'npm run bench -- goals',
    surroundings: { cpu: 'A CPU', cores: 2, memoryGb: 24, kernel: '6.1', node: 'v22.23.3', commit: 'abc1234' },
    notes: ['olla is not installed: no | module'],
    parts: [
      {
        name: 'peers',
        sentence: 'A sentence.',
        settings: {},
        results: figures.map((it, at) => result(`Table ${at}`, it)),
      },
    ],
  };
}

const json = (ratio: number, foreign = 0.01): object => ({
  scenario: 'json',
  connections: 64,
  peers: [{ name: 'headrace', ratio: spread(ratio), foreignUse: spread(foreign), errors: 0 }],
});
const events = (p50: number, p99: number, errors = 0): object => ({
  scenario: 'added to events',
  points: [
    {
      share: 0.5,
      foreignUse: 0.02,
      peers: [
        { name: 'nginx', p50: spread(0.1), p99: spread(3), errors: 0 },
        { name: 'headrace', p50: spread(p50), p99: spread(p99), errors },
      ],
    },
  ],
});

const verdicts = (run: object): (boolean | null)[] =>
  judgeGoals(run)
    .filter(({ measured }) => measured !== null)
    .map(({ isMet }) => isMet);

t.test('a goal is met at its limit, and missed above it', async (t) => {
  t.strictSame(verdicts(runOf(json(1.35))), [true]);
  t.strictSame(verdicts(runOf(json(1.36))), [false]);
});

t.test('the limit of an added p50 is what nginx adds in the same run', async (t) => {
  t.strictSame(verdicts(runOf(events(0.1, 1))), [true, true]);
  t.strictSame(verdicts(runOf(events(0.11, 1.1))), [false, false]);
});

t.test('what did not run is neither met nor missed', async (t) => {
  const rows = goalRows(judgeGoals(runOf()));
  t.equal(rows.length, 11);
  for (const row of rows) t.strictSame(row.slice(2), ['not measured', '-']);
});

t.test('errors stand beside the verdict', async (t) => {
  const rows = goalRows(judgeGoals(runOf(events(0.05, 0.5, 7))));
  t.equal(rows.filter((row) => row[3] === 'met, 7 errors').length, 2);
});

t.test('a run on a busy machine says that its figures are not to be quoted', async (t) => {
  t.match(quietText(runOf(json(1, 0.05))), /at most 5 % of the core/);
  t.match(quietText(runOf(json(1, 0.2))), /not quiet.*20 %.*not to be quoted/);
  const pages = { scenario: 'chats beside pages', peers: [{ name: '1 cleaner', more: spread(1), errors: 0 }] };
  t.match(quietText(runOf(pages)), /was not measured/, 'a gateway that uses both cores');
});

t.test('what the repository keeps has no single runs and no curves', async (t) => {
  const [part] = condensed(runOf(json(1))).parts;
  t.notMatch(JSON.stringify(part), /"data"|curves/);
  t.match(JSON.stringify(part), '"figures"');
});

t.test('the page has machine, date, goals, tables and a picture of each comparison', async (t) => {
  const files = performanceFiles(condensed(runOf(json(1.3))));
  t.strictSame(Object.keys(files).toSorted(), ['performance-json-64.svg', 'performance.md']);
  const page = files['performance.md'] ?? '';
  for (const text of [
    'A CPU, 2 cores',
    '2026-11-22',
    'abc1234',
    '| met ',
    '![CPU time, 64 at a time, in us](performance-json-64.svg)',
  ])
    t.ok(page.includes(text), text);
  t.ok(page.includes('1.3 \\| 1'), 'a bar in a cell is escaped');
  t.ok(page.includes('- olla is not installed: no \\| module'));
  t.ok(page.includes('\\<main\\>'));
});

t.test('a picture stands alone and loads nothing', async (t) => {
  const svg = performanceFiles(condensed(runOf(json(1.3))))['performance-json-64.svg'] ?? '';
  t.match(svg, /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg"/);
  t.notMatch(svg.replace('http://www.w3.org/2000/svg', ''), /https?:|var\(|<script|NaN/);
});

t.test('docs/performance.md is what bench/performance.json gives', async (t) => {
  const kept = new URL('bench/performance.json', ROOT);
  const files = performanceFiles(JSON.parse(readFileSync(kept, 'utf8')));
  for (const [name, text] of Object.entries(files)) {
    const file = new URL(`docs/${name}`, ROOT);
    t.ok(existsSync(file), name);
    const expected = name.endsWith('.md') ? await formatted(name, text) : text;
    t.equal(readFileSync(file, 'utf8'), expected, `${name}: npm run bench -- --render FILE --docs writes it`);
  }
});

t.test('the method says what is sent', async (t) => {
  const sent = requests({ port: 1, stream: false, bodyBytes: 1000 });
  const headers = sent[0]?.toString().split('\r\n\r\n')[0]?.split('\r\n').slice(1) ?? [];
  t.match(METHOD.join(), `with ${headers.length} headers and ${sent.length} different conversations`);
  t.match(METHOD.join(), `answered with ${ANSWER.length} bytes of JSON`);
});
