// Micro benchmark of the simulated engine's scheduler without sampling, tokenizing or HTTP: nanoseconds per token with 2000
// sequences in each step on a virtual clock, and on the real clock how far 2000 streams at 50 tokens per second fall behind.
// Run after a build: node bench/micro/engine.mjs.
import { systemClock } from '../../dist/src/actor/clock.js';
import { createVirtualClock } from '../../dist/src/host/engine/engine-clock.js';
import { PROFILES } from '../../dist/src/host/engine/profiles.js';
import { Scheduler } from '../../dist/src/host/engine/scheduler.js';

const STREAMS = 2000;
const PROMPT_TOKENS = 200;
const STEPS = 300;
const ROUNDS = 9;
const REAL_MS = 5000;

const SHAPES = {
  'shared blocks': PROFILES.even,
  'shared blocks, cache off': PROFILES.even,
  slots: { ...PROFILES.even, memory: { kind: 'slots', capacityTokens: 4_194_304, choice: 'least-recent' } },
};

let published = 0;

function createJob(stream, maxTokens, cachePrompt) {
  let last = stream;
  return {
    prompt: Int32Array.from({ length: PROMPT_TOKENS }, (_, at) => (at < 100 ? at : stream)),
    maxTokens,
    cachePrompt,
    slotId: -1,
    keepTokens: 0,
    whenFull: 'stop',
    next: () => (last = (last * 31 + 7) & 0x7fff),
    onStart() {},
    onToken() {
      published++;
    },
    onEnd() {},
  };
}

function createJobs(maxTokens, cachePrompt = true) {
  return Array.from({ length: STREAMS }, (_, stream) => createJob(stream, maxTokens, cachePrompt));
}

function start(profile, clock, jobs) {
  const scheduler = new Scheduler({ profile, clock });
  submitAll(scheduler, jobs);
  return scheduler;
}

function submitAll(scheduler, jobs) {
  for (const job of jobs) scheduler.submit(job);
}

for (const [name, profile] of Object.entries(SHAPES)) {
  const samples = [];
  for (let round = 0; round < ROUNDS; round++) {
    const clock = createVirtualClock();
    const scheduler = start(profile, clock, createJobs(Infinity, !name.endsWith('off')));
    while (scheduler.state().counts.generatedTokens < STREAMS) clock.step();
    const before = published;
    const startNs = process.hrtime.bigint();
    for (let step = 0; step < STEPS; step++) clock.step();
    samples.push(Number(process.hrtime.bigint() - startNs) / (published - before));
    scheduler.close();
  }
  console.log(
    `${name}, ${STREAMS} sequences a step | ${samples.sort((a, b) => a - b)[ROUNDS >> 1].toFixed(0)} ns a token`,
  );
}

const jobSamples = [];
for (let round = 0; round < ROUNDS; round++) {
  const clock = createVirtualClock();
  const jobs = createJobs(1);
  const scheduler = new Scheduler({ profile: PROFILES.even, clock });
  const startNs = process.hrtime.bigint();
  submitAll(scheduler, jobs);
  clock.run();
  jobSamples.push(Number(process.hrtime.bigint() - startNs) / STREAMS);
}
console.log(
  `a job of ${PROMPT_TOKENS} + 1 tokens | ${jobSamples.sort((a, b) => a - b)[ROUNDS >> 1].toFixed(0)} ns a job`,
);

const jobs = createJobs(Infinity);
const cpu = process.cpuUsage();
const scheduler = start(PROFILES.even, systemClock, jobs);
setTimeout(() => {
  const { user, system } = process.cpuUsage(cpu);
  const { counts, mostBehindUs, lateSteps } = scheduler.state();
  const tokensPerSecond = (counts.generatedTokens * 1000) / REAL_MS;
  scheduler.close();
  console.log(
    `real clock, ${STREAMS} streams, ${REAL_MS} ms | ${tokensPerSecond.toFixed(0)} tokens/s, ${counts.steps} steps, ` +
      `${lateSteps} late, at most ${(mostBehindUs / 1000).toFixed(1)} ms behind, ` +
      `${(((user + system) / 1000 / REAL_MS) * 100).toFixed(1)} % of a core`,
  );
}, REAL_MS);
