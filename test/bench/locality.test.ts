// The locality benchmark: its command line, the speed of its hosts, its goals, and the page made of a run.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Part {
  readonly readPolicy: (name: string) => object;
  readonly readTraceFlag: (text: string) => { name: string; trace: string; shares: number[] };
}

interface Calibration {
  readonly calibrate: (requests: readonly object[], settings: object) => number;
}

interface Traces {
  readonly generate: (name: string, settings: object) => object[];
  readonly spread: (requests: readonly object[], durationMs: number) => object[];
}

interface Page {
  readonly localityGoals: (scenarios: readonly object[], cpu: object | null) => { rows: string[][] };
  readonly localityPlots: (scenarios: readonly object[]) => { title: string; groups: object[] }[];
  readonly localityOf: (run: object) => object | null;
  readonly localityFiles: (run: object, page: string) => Record<string, string>;
}

const { readPolicy, readTraceFlag } = await benchModule<Part>('load/locality.mjs');
const { calibrate } = await benchModule<Calibration>('locality/calibration.mjs');
const { generate, spread } = await benchModule<Traces>('locality/traces.mjs');
const page = await benchModule<Page>('lib/locality-page.mjs');

t.test('a policy names its gateway, how many there are and their threads', async (t) => {
  t.strictSame(readPolicy('headrace'), { copies: 1, base: 'headrace', threads: 1 });
  t.strictSame(readPolicy('2xheadrace*4'), { copies: 2, base: 'headrace', threads: 4 });
  t.strictSame(readPolicy('2xsmg'), { copies: 2, base: 'smg', threads: 1 });
});

t.test('a trace has a name, a file and cache sizes', async (t) => {
  t.match(readTraceFlag('agents=/data/a.jsonl@0.6/0.5'), {
    name: 'agents',
    trace: '/data/a.jsonl',
    shares: [0.6, 0.5],
  });
  t.match(readTraceFlag('/data/chats.v1.jsonl'), { name: 'chats', shares: [0.5] });
  t.throws(() => readTraceFlag('/data/a.jsonl@0'), /"0" is no cache size/);
});

t.test('hosts are as fast as the wanted use of the fleet takes, the same each time', async (t) => {
  const requests = spread(generate('documents', { requests: 300 }), 2000);
  const speed = { stepUs: 1000, sequenceUs: 50, memoryTokenUs: 0, maxBatchTokens: 4096 };
  const settings = { hosts: 4, cacheBlocks: 400, blockBytes: 1024, speed };
  const at = (use: number): number => calibrate(requests, { ...settings, use });
  t.equal(at(0.6), at(0.6));
  t.ok(at(0.3) < at(0.6), `${at(0.3)} and ${at(0.6)} us a token`);
});

const value = (median: number): object => ({ median, min: median, max: median });
const peer = (name: string, hitRate: number, ofOracle: number, more: object = {}): object => ({
  ...{ name, hitRate: value(hitRate), ofOracle: value(ofOracle), p99OfOracle: value(1.2), busy: value(1.1) },
  ...{ p90: value(40), foreignUse: value(0), errors: 0 },
  ...more,
});
const scenario = (workload: string, peers: object[]): object => ({ title: `${workload}, 9 blocks`, workload, peers });

t.test('every workload is judged by its own goals', async (t) => {
  const peers = [peer('oracle', 0.5, 1), peer('headrace', 0.48, 0.96), peer('headrace*4', 0.485, 0.97)];
  const scenarios = ['agents', 'tenants', 'hot', 'my-trace'].map((name) => scenario(name, peers));
  const calls = [
    { name: 'choice of 8, 1 KB', ns: value(2400) },
    { name: 'choice of 8, 100 KB', ns: value(41_000) },
    { name: 'choice of 8, 1 KB', ns: value(Number.NaN) },
    { name: 'another', ns: value(1) },
  ];
  const { rows } = page.localityGoals(scenarios, { added: value(2.5), calls });
  const verdicts = rows.map(([goal, , , verdict]) => `${goal}: ${verdict}`);
  t.strictSame(verdicts, [
    'agents, 9 blocks: hit rate, of the oracle: missed',
    'agents, 9 blocks: first token p99, of the oracle: missed',
    'agents, 9 blocks: hit rate of 4 threads, of 1 thread: met',
    'tenants, 9 blocks: hit rate, of the oracle: met',
    'tenants, 9 blocks: hit rate of 4 threads, of 1 thread: met',
    'hot, 9 blocks: busiest host, of the mean: met',
    'hot, 9 blocks: hit rate of 4 threads, of 1 thread: met',
    'my-trace, 9 blocks: hit rate, of the oracle: missed',
    'my-trace, 9 blocks: first token p99, of the oracle: missed',
    'my-trace, 9 blocks: hit rate of 4 threads, of 1 thread: met',
    'CPU time that affinity adds to a request of 1 KB: met',
    'choice of 8, 1 KB: met',
    'choice of 8, 100 KB: missed',
    'choice of 8, 1 KB: -',
  ]);
  t.strictSame(page.localityGoals([scenario('agents', [peer('oracle', 0.5, 1)])], null).rows, []);
});

const RUN = {
  startedAt: '2026-11-22T16:10:00.000Z',
  seconds: 500,
  command: 'npm run bench -- locality',
  surroundings: { cpu: 'A CPU', cores: 2, memoryGb: 8, kernel: '6.1', node: 'v22', commit: 'abc' },
  notes: ['smg is <not> installed'],
  parts: [
    { name: 'proxy', sentence: '', settings: {}, results: [] },
    {
      name: 'locality',
      sentence: '',
      settings: {},
      results: [
        {
          title: 'agents, 9 blocks, 1 round',
          columns: ['policy', 'hit rate'],
          rows: [['2xheadrace*4', '0.5']],
          remarks: ['10 requests.'],
          plots: [],
          figures: scenario('agents', [peer('headrace', 0.4, 0.9)]),
          data: { runs: ['left out'] },
        },
        {
          title: 'Goals of locality',
          columns: ['goal', 'limit', 'measured', ''],
          rows: [['a goal', 'at least 0.97', '0.98', 'met']],
          remarks: [],
          plots: page.localityPlots([
            scenario('agents', [peer('oracle', 0.5, 1), peer('headrace', 0.4, 0.9), peer('smg', 0.45, 0.95)]),
          ]),
          data: {},
        },
      ],
    },
  ],
};

const WRITTEN =
  'By hand.\n\n<!-- measured: written by npm run bench -- locality --docs -->\n\nold\n\n<!-- /measured -->\n\nBehind.\n';

t.test('a run renews the measured part of the page and its pictures, and nothing else', async (t) => {
  const kept = page.localityOf(RUN)!;
  t.notMatch(JSON.stringify(kept), 'left out');
  const files = page.localityFiles(kept, WRITTEN);
  t.strictSame(Object.keys(files).toSorted(), ['locality-first-token.svg', 'locality-hits.svg', 'locality.md']);
  const text = files['locality.md']!;
  t.match(text, /^By hand\.\n\n<!-- measured/);
  t.match(text, /<!-- \/measured -->\n\nBehind\.\n$/);
  t.notMatch(text, 'old');
  for (const part of [
    '| a goal ',
    'smg is \\<not\\> installed',
    '2xheadrace\\*4',
    '(locality-hits.svg)',
    '10 requests.',
  ]) {
    t.ok(text.includes(part), part);
  }
  t.equal(page.localityFiles(kept, text)['locality.md'], text, 'written again, the page is the same');
  t.match(files['locality-hits.svg'], /<svg [^]*headrace[^]*smg[^]*<\/svg>/);
  t.notMatch(files['locality-hits.svg'], '>oracle<');
  t.match(files['locality-first-token.svg'], '>oracle<');
  t.throws(() => page.localityFiles(kept, 'no comments'), /docs\/locality.md has no/);
  t.equal(page.localityOf({ ...RUN, parts: [] }), null);
});
