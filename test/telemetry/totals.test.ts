// The totals of a thread: parts of few models, and counts that do not fall back.

import t from 'tap';
import { Metrics } from '../../src/telemetry/metrics.ts';
import { allTotals, MODEL_COUNTS, type TotalsPart } from '../../src/telemetry/totals.ts';

const CHAT = '/v1/chat/completions';
const MESSAGES = '/v1/messages';
const NOBODY: ReadonlyMap<string, number> = new Map();

/** What a thread answers to a question for a part. */
function partOf(metrics: Metrics, part: number, generation = 1): TotalsPart {
  return { thread: 1, generation, sequence: part, ...metrics.totals(part, NOBODY) };
}

t.test('the totals of thousands of models come in parts of few', async (t) => {
  const metrics = new Metrics();
  for (let model = 0; model < 1000; model++) {
    for (const endpoint of [CHAT, MESSAGES]) {
      const cells = metrics.of(endpoint, `m${model}`);
      cells.count(200, '');
      cells.duration.observe(1);
    }
    metrics.prompt(`http://${model % 3}`, `m${model}`, 1, 2);
  }
  const sizes: number[] = [];
  const all = await allTotals(async (part) => {
    const answer = partOf(metrics, part);
    sizes.push(answer.models.length);
    return answer;
  });
  t.ok(Math.max(...sizes) <= 64, `${Math.max(...sizes)} models in a part`);
  t.same(
    all?.models.map(({ model }) => model),
    Array.from({ length: 1000 }, (_, model) => `m${model}`),
  );
  for (const { counts, histograms } of all?.models ?? []) {
    t.equal(counts[MODEL_COUNTS.indexOf('requests')], 2);
    t.equal(histograms[0]?.sum, 2, 'of both endpoints');
  }
  t.same([all?.crns, all?.sequence], [['http://0', 'http://1', 'http://2'], 0]);
  t.equal(metrics.answered, 2000);
});

t.test('a thread that is started anew, or falls silent, between two parts is left out', async (t) => {
  const metrics = new Metrics();
  for (let model = 0; model < 100; model++) metrics.of(CHAT, `m${model}`);
  t.equal(await allTotals(async (part) => partOf(metrics, part, part)), null);
  t.equal(await allTotals(async (part) => (part === 0 ? partOf(metrics, part) : null)), null);
});

t.test('what a model has sent to a CRN that is gone stays in its counts', async (t) => {
  const metrics = new Metrics();
  metrics.of(CHAT, 'm');
  metrics.prompt('http://gone', 'm', 30, 10);
  metrics.keep({ crns: new Set(), models: new Set(['m']) }, 0);
  metrics.keep({ crns: new Set(), models: new Set(['m']) }, 10 * 60_000);
  const { crns, models } = partOf(metrics, 0);
  t.same(crns, []);
  t.equal(models[0]?.counts[MODEL_COUNTS.indexOf('promptBytes')], 40);
});

t.test(
  'a model that has left goes with its series five minutes later, and what it answered stays in the sum',
  async (t) => {
    const metrics = new Metrics();
    const count = (model: string): void => {
      const cells = metrics.of(CHAT, model);
      cells.count(200, '');
      cells.countTokens(3, 2, 1);
      cells.duration.observe(1);
      metrics.prompt('http://a', model, 1, 2);
      metrics.failover(model, 'reset');
    };
    const shown = (): unknown[] => [
      ...new Set(metrics.snapshot().flatMap(({ values }) => values.flatMap(({ labels }) => labels['model'] ?? []))),
    ];
    const listed = (part: number): unknown[] => partOf(metrics, part).models.map(({ model }) => model);
    for (let model = 0; model < 100; model++) count(`m${model}`);
    count('');
    const crns = new Set(['http://a']);
    const models = new Set(Array.from({ length: 100 }, (_, model) => `m${model}`).filter((model) => model !== 'm1'));
    metrics.keep({ crns, models }, 0);
    metrics.keep({ crns, models }, 299_999);
    t.equal(shown().length, 101, 'it may come back');
    const before = listed(1);
    metrics.keep({ crns, models }, 300_000);
    t.same([shown().length, shown().includes('m1'), shown().includes('')], [100, false, true]);
    t.notOk(listed(0).includes('m1'));
    t.same(listed(1), before, 'the others keep their places: a reader is between two parts');
    t.equal(metrics.answered, 101);
    count('m1');
    t.same([shown().length, metrics.answered], [101, 102], 'it is back');
    t.equal(partOf(metrics, 0).models.find(({ model }) => model === 'm1')?.counts[MODEL_COUNTS.indexOf('requests')], 1);
  },
);
