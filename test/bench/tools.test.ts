// The benchmark of tools: the simulated web, which must be the same for everybody, and the part of docs/search.md that is made of a run.
import t from 'tap';
import { benchModule } from './modules.ts';

interface Delays {
  readonly ENGINE_LATENCY: object;
  readonly SITE_LATENCY: object;
  readonly latencyMs: (text: string, distribution: object) => number;
  readonly rankingOf: (query: string, engine: string, count: number) => number[];
}

interface Page {
  readonly measuredPage: (
    name: string,
    file: string,
  ) => { keep: (run: object) => object | null; write: (run: object, page: string) => Record<string, string> };
}

const { ENGINE_LATENCY, SITE_LATENCY, latencyMs, rankingOf } = await benchModule<Delays>('tools/delays.mjs');
const { measuredPage } = await benchModule<Page>('lib/measured-page.mjs');
const { keep: toolsOf, write: toolsFiles } = measuredPage('tools', 'search.md');

t.test('latencies are log-normal, and depend on the name alone', async (t) => {
  for (const [distribution, median, p95] of [
    [ENGINE_LATENCY, 400, 910],
    [SITE_LATENCY, 300, 950],
  ] as const) {
    const all = Array.from({ length: 4000 }, (_, at) => latencyMs(`page ${at}`, distribution)).sort((a, b) => a - b);
    const near = (at: number, wanted: number): boolean => Math.abs((all[at] as number) / wanted - 1) < 0.1;
    t.ok(near(2000, median), `median ${all[2000]}`);
    t.ok(near(3800, p95), `p95 ${all[3800]}`);
  }
  t.equal(latencyMs('a', ENGINE_LATENCY), latencyMs('a', ENGINE_LATENCY));
});

t.test('engines agree in part about the pages of a query', async (t) => {
  const [one, other] = [rankingOf('7', 'a', 10), rankingOf('7', 'b', 10)];
  const shared = one.filter((page) => other.includes(page)).length;
  t.ok(shared >= 3 && shared < 10, `${shared} of ten`);
  t.equal(new Set(one).size, 10);
  t.same(rankingOf('7', 'a', 10), one);
  t.notSame(rankingOf('8', 'a', 10), one);
});

t.test('the page gets the tables of a run, and keeps the rest', async (t) => {
  const result = { title: 'T', columns: ['a'], rows: [['1']], remarks: ['R.'], data: { runs: 1 }, plots: [] };
  const surroundings = { cpu: 'x', cores: 2, memoryGb: 4, kernel: '6', node: '22', commit: 'abc', load: [0, 0, 0] };
  const run = {
    ...{ startedAt: '2026-01-02T03:04:05Z', seconds: 120, command: 'npm run bench', surroundings, notes: ['N'] },
    parts: [{ name: 'tools', results: [result] }],
  };
  const kept = toolsOf(run);
  t.notMatch(kept, { parts: [{ results: [{ data: {} }] }] });
  t.equal(toolsOf({ ...run, parts: [] }), null);
  const page = 'before\n<!-- measured: written by npm run bench -- tools --docs -->\nold\n<!-- /measured -->\nafter\n';
  const written = toolsFiles(kept ?? {}, page)['search.md'];
  t.match(written, /^before\n/);
  t.match(written, /\n<!-- \/measured -->\nafter\n$/);
  t.match(written, /### T\n\n\| a *\|/);
  t.notMatch(written, 'old');
  t.throws(() => toolsFiles(kept ?? {}, 'nothing'), /has no/);
});
