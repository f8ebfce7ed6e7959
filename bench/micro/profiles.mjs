// Draws the profiles of the simulated engine for docs/simulated-engine.md, on simulated time: the median of decode steps with their p99
// over the sequences in a batch, and the time to the first token over the length of a prompt. The same on every machine.
// Run after a build: node bench/micro/profiles.mjs.

import { writeFileSync } from 'node:fs';
import { PROFILES, figuresOf } from '../../dist/src/host/engine/profiles.js';
import { StepTimes } from '../../dist/src/host/engine/step-times.js';
import { drawCurvesFile } from '../lib/plot.mjs';

const STEPS = 4000;
const CONTEXT_TOKENS = 1000;
const BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const PROMPTS = [128, 256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536, 131_071];
const DOCS = new URL('../../docs/', import.meta.url);

/** Machines; the steady profiles follow their formula. */
const shown = Object.entries(PROFILES).filter(([, { variation }]) => variation !== undefined);

function quantile(values, share) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length * share)];
}

/** Milliseconds of steps that decode so many sequences. */
function stepsMs(profile, sequences) {
  // Machines differ by their seeds; here each is as its formula says but for jitter and stalls.
  const { machines: _, ...variation } = profile.variation;
  const times = new StepTimes({ ...profile, variation }, { seed: 1 });
  const work = {
    decodingCount: sequences,
    memoryTokens: sequences * CONTEXT_TOKENS,
    prefillTokens: 0,
    prefillPairs: 0,
  };
  let nowUs = 0;
  return Array.from({ length: STEPS }, () => {
    const us = times.next(nowUs, work);
    nowUs += us;
    return us / 1000;
  });
}

const steps = shown.map(([name, profile]) => {
  const batches = BATCHES.filter((sequences) => sequences <= profile.maxSequences);
  const measured = batches.map((sequences) => ({ sequences, ms: stepsMs(profile, sequences) }));
  return { name, points: measured.map(({ sequences, ms }) => [sequences, quantile(ms, 0.5)]), measured };
});
const firsts = shown.map(([name, profile]) => ({
  name,
  points: PROMPTS.filter((tokens) => tokens < profile.contextTokens).map((tokens) => [
    tokens,
    figuresOf(profile).firstTokenMs(tokens) / 1000,
  ]),
}));

const scales = { isLog: true, isLogY: true };
writeFileSync(
  new URL('simulated-steps.svg', DOCS),
  drawCurvesFile({
    ...scales,
    title: 'Decode step',
    yLabel: 'ms, median',
    xLabel: 'sequences with 1000 tokens each',
    curves: steps,
  }),
);
writeFileSync(
  new URL('simulated-first-token.svg', DOCS),
  drawCurvesFile({
    ...scales,
    title: 'First token of an idle engine',
    yLabel: 'seconds',
    xLabel: 'prompt tokens',
    curves: firsts,
  }),
);
for (const { name, measured } of steps) {
  const said = measured.map(
    ({ sequences, ms }) =>
      `${sequences}: ${[0.5, 0.99, 1 - 1e-9].map((share) => quantile(ms, share).toFixed(1)).join(' / ')}`,
  );
  console.log(`${name.padEnd(16)} ms p50 / p99 / most with ${said.join(', ')}`);
}
