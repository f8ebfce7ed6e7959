// Runs the case files of the micro benchmarks on one build, or on several in alternation, each in a process of its own on core 0.

import { fileURLToPath } from 'node:url';
import { PROXY_CORE } from '../lib/cores.mjs';
import { runChild } from '../lib/process.mjs';

const MEASURE = fileURLToPath(new URL('measure.mjs', import.meta.url));

/** Files of `cases`, in the order in which a request passes their code; the last one is of the simulated engine. */
export const CASES = [
  'keys',
  'heads',
  'scan',
  'translate',
  'prompt',
  'blocks',
  'pick',
  'forward',
  'client',
  'mailbox',
  'sse',
  'answer',
  'merge',
  'clean',
  'observe',
  'sample',
];

/**
 * Measures `files` on every build (`{ NAME: DIST }`) `rounds` times, the builds alternating in an order that rotates. Resolves
 * with a row for each case: `{ file, name, samples: { BUILD: [ns, …] } }`. `warn(text)` gets the files that a build cannot run as a whole.
 */
export async function measureSuite(builds, files, { rounds, batchMs, batches, step, warn }) {
  const unknown = files.find((file) => !CASES.includes(file));
  if (unknown !== undefined) throw new Error(`there are no cases "${unknown}"; there are ${CASES.join(', ')}`);
  const rows = new Map();
  const names = Object.keys(builds);
  const warned = new Set();
  for (let round = 0; round < rounds; round++) {
    for (const file of files) {
      for (let turn = 0; turn < names.length; turn++) {
        const build = names[(turn + round) % names.length];
        step(`${file}, round ${round + 1}/${rounds}${names.length > 1 ? ` ${build}` : ''}`);
        const { figures, why } = await measureFile(builds[build], file, batchMs, batches);
        const warning = `${file} does not run as a whole on ${build}: ${why}`;
        if (why !== '' && !warned.has(warning)) warn(warning);
        warned.add(warning);
        for (const [name, ns] of Object.entries(figures)) {
          if (!rows.has(name)) rows.set(name, { file, name, samples: {} });
          if (ns !== null) (rows.get(name).samples[build] ??= []).push(ns);
        }
      }
    }
  }
  return [...rows.values()];
}

function measureFile(dist, file, batchMs, batches) {
  const args = [MEASURE, dist, file, String(batchMs), String(batches)];
  return runChild({ name: `micro ${file}`, command: process.execPath, args, core: PROXY_CORE });
}
