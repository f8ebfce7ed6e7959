// Micro benchmark of the actor kernel within one thread and over a link: nanoseconds per message, median of rounds.
// Run after a build: `node bench/micro/actor.mjs [rounds]`. Compare figures of one machine only.

import { MessageChannel } from 'node:worker_threads';
import { ask, createSystem, link } from '../../dist/src/actor/index.js';

const rounds = Number(process.argv[2] ?? 9);
const system = createSystem({ name: 'bench' });
const mailbox = { capacity: 1 << 20, overflow: 'drop-new' };
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** An actor that counts messages; `arrivalOf(count)` resolves after so many. */
function createSink() {
  let seen = 0;
  let expected = 0;
  let done = () => {};
  const ref = system.spawn(
    () => () => {
      if (++seen === expected) done();
    },
    { mailbox },
  );
  return {
    ref,
    arrivalOf(count) {
      seen = 0;
      expected = count;
      return new Promise((resolve) => (done = resolve));
    },
  };
}

const echo = system.spawn(
  () => (message) => {
    message.replyTo.tell(message.value);
  },
  { mailbox },
);

async function burst(sink, count) {
  const arrived = sink.arrivalOf(count);
  const message = { type: 'Add', by: 1 };
  const startMs = performance.now();
  for (let index = 0; index < count; index++) sink.ref.tell(message);
  await arrived;
  return ((performance.now() - startMs) * 1e6) / count;
}

async function wokenTell(sink, count) {
  const startMs = performance.now();
  for (let index = 0; index < count; index++) {
    const arrived = sink.arrivalOf(1);
    sink.ref.tell(index);
    await arrived;
  }
  return ((performance.now() - startMs) * 1e6) / count;
}

async function askInTurn(target, count) {
  const options = { timeoutMs: 5000 };
  const startMs = performance.now();
  for (let value = 0; value < count; value++) await ask(target, (replyTo) => ({ value, replyTo }), options);
  return ((performance.now() - startMs) * 1e6) / count;
}

async function askTogether(target, count, concurrency) {
  const options = { timeoutMs: 5000 };
  const startMs = performance.now();
  for (let value = 0; value < count; value += concurrency) {
    const answers = [];
    for (let slot = 0; slot < concurrency; slot++) {
      answers.push(ask(target, (replyTo) => ({ value, replyTo }), options));
    }
    await Promise.all(answers);
  }
  return ((performance.now() - startMs) * 1e6) / count;
}

async function spawnAndStop(count) {
  const startMs = performance.now();
  for (let index = 0; index < count; index++) {
    const ref = system.spawn((context) => () => context.stop());
    ref.tell(index);
    if (index % 64 === 63) await turn();
  }
  while (system.stats().runnable > 0) await turn();
  return ((performance.now() - startMs) * 1e6) / count;
}

const { port1, port2 } = new MessageChannel();
const near = link(system, port1);
const far = link(system, port2);
far.expose('echo', echo);
const remoteEcho = near.ref('echo');

async function burstOverLink(sink, count) {
  far.expose('sink', sink.ref);
  const ref = near.ref('sink');
  const startMs = performance.now();
  for (let sent = 0; sent < count; sent += 1000) {
    const arrived = sink.arrivalOf(1000);
    for (let index = 0; index < 1000; index++) {
      ref.tell({ type: 'Outcome', crn: 'crn-7', status: 200, durationMs: 12.5, index });
    }
    await arrived;
  }
  return ((performance.now() - startMs) * 1e6) / count;
}

const sink = createSink();
const cases = {
  'tell, burst of 10 000': () => burst(sink, 10_000),
  'tell, burst of 500 000': () => burst(sink, 500_000),
  'tell with a wake-up each': () => wokenTell(sink, 200_000),
  'ask with deadline, one at a time': () => askInTurn(echo, 200_000),
  'ask with deadline, 64 at a time': () => askTogether(echo, 256_000, 64),
  'spawn, one message, stop': () => spawnAndStop(50_000),
  'link: tell, batches of 1000 (both ends here)': () => burstOverLink(sink, 100_000),
  'link: ask, one at a time (both ends here)': () => askInTurn(remoteEcho, 10_000),
};

const results = Object.fromEntries(Object.keys(cases).map((name) => [name, []]));
for (let round = -1; round < rounds; round++) {
  for (const [name, measure] of Object.entries(cases)) {
    const figure = await measure();
    if (round >= 0) results[name].push(figure);
  }
}
for (const [name, figures] of Object.entries(results)) {
  figures.sort((a, b) => a - b);
  const median = figures[Math.floor(figures.length / 2)];
  console.log(`${name.padEnd(48)} ${median.toFixed(1).padStart(9)} ns   (min ${figures[0].toFixed(1)})`);
}
near.close();
await system.terminate();
