// Simulations of routing with a CRN that does not answer well beside good ones: how soon it loses its traffic, and that it gets it
// back. Requests arrive every 50 ms on average; the settings are the defaults.
import t from 'tap';
import { STANDING } from '../../src/routing/board.ts';
import { failing, GOOD, type Script, Simulation } from '../support/routing-simulation.ts';

const SEEDS = [1, 2, 3, 4, 5];
const REQUESTS = 400;

/** Requests after which a black hole must have lost its traffic. */
const SOON = 20;

async function simulate(bad: Script, crns: number, affinity: boolean, seed: number): Promise<Simulation> {
  const good = Array.from({ length: crns - 1 }, () => GOOD);
  const simulation = new Simulation({ scripts: [bad, ...good], affinity, seed });
  await simulation.start();
  return simulation;
}

for (const crns of [2, 5]) {
  for (const affinity of [true, false]) {
    const where = `${crns} CRNs ${affinity ? 'with' : 'without'} affinity`;

    for (const failure of ['error answer', 'only done', 'status 500', 'redirect', 'credentials', 'connect'] as const) {
      t.test(`a CRN that fails fast (${failure}) loses its traffic within 20 requests: ${where}`, async (t) => {
        for (const seed of SEEDS) {
          const simulation = await simulate(failing(failure, 2), crns, affinity, seed);
          await simulation.run(REQUESTS);
          await simulation.test.advance(1000);
          t.ok(simulation.triesOn(0, 0) <= 5, `${simulation.triesOn(0, 0)} requests before the ejection`);
          // The failures that are missing for an ejection may come late, since it is hardly ever chosen.
          t.ok(simulation.triesOn(0, SOON) <= 4, `${simulation.triesOn(0, SOON)} after the first ${SOON}`);
          // Ejections of 1, 2, 4 and 8 s within 20 s, and one trial after each.
          t.ok(simulation.trialsOn(0) <= 5, `${simulation.trialsOn(0)} trials`);
          t.same([simulation.answered, simulation.unanswered], [REQUESTS, 0], 'no client notices');
        }
      });
    }

    t.test(`a CRN that never begins to answer loses its traffic within 20 requests: ${where}`, async (t) => {
      for (const seed of SEEDS) {
        const timingOut = await simulate(failing('first byte timeout', 2000), crns, affinity, seed);
        await timingOut.run(REQUESTS);
        t.ok(timingOut.triesOn(0, SOON) <= 5, `${timingOut.triesOn(0, SOON)} after the first ${SOON}`);
        t.ok(timingOut.triesOn(0, 3 * SOON) <= 3, `${timingOut.triesOn(0, 3 * SOON)} after the first ${3 * SOON}`);
        // Without an outcome, only its requests in flight tell.
        const silent = await simulate(failing('headers timeout', 600_000), crns, affinity, seed);
        await silent.run(REQUESTS);
        t.ok(silent.triesOn(0, SOON) <= 5, `${silent.triesOn(0, SOON)} after the first ${SOON}`);
        t.ok(silent.triesOn(0, 0) <= 12, `${silent.triesOn(0, 0)} of ${REQUESTS}`);
      }
    });

    t.test(`a CRN without the model gets one request or two per good probe: ${where}`, async (t) => {
      for (const seed of SEEDS) {
        const simulation = await simulate(failing('model unknown', 2, 'neutral'), crns, affinity, seed);
        await simulation.run(REQUESTS);
        await simulation.test.advance(1000);
        // 20 s with a probe every 4.5 to 5.5 s. Two requests may meet before the first is answered.
        t.ok(simulation.triesOn(0, 0) <= 7, `${simulation.triesOn(0, 0)} tries`);
        t.same([simulation.answered, simulation.unanswered], [REQUESTS, 0]);
        t.ok(simulation.isUp(0), 'it is healthy');
        t.equal(simulation.events.filter(({ type }) => type === 'ejected').length, 0);
      }
    });

    t.test(`a CRN that cuts 30 % of its streams loses most of its traffic: ${where}`, async (t) => {
      const cutting: Script = (random) =>
        random() < 0.3 ? { firstByteMs: 60, endMs: 120, verdict: 'failed', failure: 'truncated' } : GOOD(random);
      let tries = 0;
      for (const seed of SEEDS) {
        const simulation = await simulate(cutting, crns, affinity, seed);
        await simulation.run(1000);
        tries += simulation.triesOn(0, 500);
      }
      const share = tries / (SEEDS.length * 500);
      t.ok(share < 0.5 / crns, `${(share * 100).toFixed(1)} % of the requests, of ${(100 / crns).toFixed(0)} %`);
    });

    t.test(`a CRN that works again is back within 10 s of good probes: ${where}`, async (t) => {
      for (const seed of SEEDS) {
        const simulation = await simulate(failing('error answer', 2), crns, affinity, seed);
        await simulation.run(1200);
        if (affinity && simulation.isUp(0)) {
          t.ok(simulation.triesOn(0, SOON) <= 4, 'it has lost its traffic before it was ejected');
          continue;
        }
        t.not(simulation.standing(0), STANDING.up);
        simulation.scripts[0] = GOOD;
        await simulation.test.advance(10_000);
        await simulation.run(5);
        await simulation.test.advance(100);
        t.ok(simulation.isUp(0), `standing ${simulation.standing(0)}`);
        // Conversations that have moved stay where they are.
        if (affinity) continue;
        // Its failures are forgotten by then.
        await simulation.test.advance(30_000);
        const before = simulation.triesOn(0, 0);
        await simulation.run(200);
        const share = (simulation.triesOn(0, 0) - before) / 200;
        t.ok(share > 0.6 / crns && share < 1.4 / crns, `it has its share again: ${share}`);
      }
    });
  }
}

t.test('a busy CRN that refuses fast attracts nothing, and is asked about once a second', async (t) => {
  for (const seed of SEEDS) {
    for (const [affinity, most] of [
      [false, 12],
      [true, 25],
    ] as const) {
      const simulation = await simulate(failing('busy', 2, 'neutral'), 2, affinity, seed);
      await simulation.run(REQUESTS);
      t.ok(simulation.triesOn(0, 0) <= most, `${simulation.triesOn(0, 0)} of ${REQUESTS}`);
      t.ok(simulation.isUp(0));
    }
  }
});

t.test('a black hole that may not be ejected, since others are, gets next to nothing', async (t) => {
  for (const seed of SEEDS) {
    for (const affinity of [true, false]) {
      const blackHole = failing('error answer', 2);
      const simulation = new Simulation({ scripts: [blackHole, blackHole, GOOD], affinity, seed });
      await simulation.start();
      await simulation.run(REQUESTS);
      await simulation.test.advance(1000);
      const tries = simulation.triesOn(0, SOON) + simulation.triesOn(1, SOON);
      t.ok(tries <= 30, `${tries} of ${REQUESTS - SOON}`);
      t.same([simulation.answered, simulation.unanswered], [REQUESTS, 0], 'no client notices');
    }
  }
});

t.test('a few failures among many requests cost a CRN neither its standing nor its share', async (t) => {
  for (const seed of SEEDS) {
    const script: Script = (random) => (random() < 0.01 ? failing('reset', 20)(random) : GOOD(random));
    const simulation = new Simulation({ scripts: [script, GOOD], affinity: false, seed, gapMs: 5 });
    await simulation.start();
    await simulation.run(4000);
    const share = simulation.triesOn(0, 0) / 4000;
    t.ok(share > 0.42, `${share}`);
    t.ok(simulation.isUp(0));
  }
});
