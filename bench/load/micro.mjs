// Runs the micro benchmarks of the hot functions on the built tree as a part of ../run.mjs: nanoseconds of one call. To compare
// two versions use ../micro/compare.mjs.

import { fileURLToPath } from 'node:url';
import { roundsText } from '../lib/report.mjs';
import { formatNs, spread } from '../lib/statistics.mjs';
import { CASES, measureSuite } from '../micro/suite.mjs';

const DIST = fileURLToPath(new URL('../../dist', import.meta.url));

export const part = {
  name: 'micro',
  sentence:
    'Time of one call of the hot functions: key check, heads, scan of a body, pick, headers for a CRN, client, mailbox, events, merge, clean.',
  peers: [],
  flags: {
    rounds: { type: 'number', default: 5, quick: 1, least: 1, help: 'rounds, each in a new process' },
    cases: { type: 'words', default: CASES, help: 'what to measure' },
    batchMs: { type: 'number', default: 5, quick: 2, help: 'milliseconds of one batch; a figure is the median of 7' },
  },
  steps: ({ rounds, cases }) => rounds * cases.length,
  measure,
};

async function measure({ rounds, cases, batchMs }, rig) {
  const rows = await measureSuite({ built: DIST }, cases, {
    rounds,
    batchMs,
    batches: 7,
    step: rig.step,
    warn: (text) => {
      throw new Error(text);
    },
  });
  const all = rows.map(({ file, name, samples }) => ({ file, name, ns: spread(samples.built ?? [Number.NaN]) }));
  rig.result({
    title: `Time of one call, ${roundsText({ rounds })}: median (min-max)`,
    columns: ['part', 'call', 'median', 'least', 'most'],
    rows: all.map(({ file, name, ns }) => [file, name, formatNs(ns.median), formatNs(ns.min), formatNs(ns.max)]),
    remarks: [],
    plots: [],
    data: { rows },
  });
}
