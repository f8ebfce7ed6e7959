// Random interleavings of what CRNs, the client, the clock and approvals do: whatever happens, every place, connection, deadline and
// approval returns exactly once, every attempt has one outcome, and the client sees a whole answer, an honest error, or nothing.
// HEADRACE_MODEL_SEEDS sets how many seeds are run, HEADRACE_MODEL_FIRST the first one.

import t from 'tap';
import { Model } from '../support/upstream-model.ts';

const { HEADRACE_MODEL_FIRST: first = '1', HEADRACE_MODEL_SEEDS: seeds = '12000' } = process.env;

/** What the runs must have seen at least once: otherwise they prove nothing about it. */
const EXPECTED = [
  ...['ok null', 'neutral null', 'neutral client gone', 'neutral busy', 'neutral stale', 'neutral context length'],
  ...['neutral model unknown', 'failed connect', 'failed connect timeout', 'failed headers timeout'],
  ...['failed first byte timeout', 'failed idle timeout', 'failed reset', 'failed truncated', 'failed malformed'],
  ...['failed unreachable', 'failed redirect', 'failed credentials', 'failed empty answer', 'failed not an answer'],
  ...['failed error answer', 'failed error event', 'failed only done', 'failed not begun', 'failed status 500'],
  ...[
    'neutral hedged',
    'hedge won',
    'hedge lost',
    'hedge failed',
    'continued complete ',
    'continued complete HR_STREAM_BROKEN',
  ],
  ...['held admitted', 'held timeout', 'held gone', 'held draining', 'held removed'],
  ...['client complete 200 ', 'client complete 200 HR_STREAM_BROKEN', 'client complete 200 HR_STREAM_STALLED'],
  ...[
    'client complete 200 HR_STREAM_TRUNCATED',
    'client complete 200 HR_DRAINING',
    'client gone 200 ',
    'client gone 0 ',
  ],
  ...[
    'neutral dialect unknown',
    'neutral untranslatable',
    'translated stream',
    'translated whole',
    'translated refusal',
  ],
  ...['hedge across forms', 'failover across forms', 'client complete 422 ', 'client complete 502 '],
  ...['client complete 200 HR_ANSWER_UNTRANSLATABLE'],
  ...['client destroyed 200 HR_STREAM_BROKEN', 'client complete 503 ', 'client complete 429 ', 'client complete 402 '],
];

t.test('whatever happens, everything returns once and the client sees nothing false', async (t) => {
  const model = new Model();
  const seen = new Map<string, number>();
  for (let seed = Number(first); seed < Number(first) + Number(seeds); seed++) {
    const findings = await model.run(seed);
    if (findings.wrong.length > 0) {
      t.fail(`seed ${seed}: ${findings.wrong.join('; ')}`, { log: findings.log });
      return;
    }
    for (const what of findings.seen) seen.set(what, (seen.get(what) ?? 0) + 1);
  }
  t.same(
    EXPECTED.filter((what) => !seen.has(what)),
    [],
    'everything was seen',
  );
  t.comment([...seen].map(([what, count]) => `${what}: ${count}`).join(', '));
});
