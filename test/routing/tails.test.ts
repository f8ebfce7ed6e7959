// What the gateway's means against tails do with simulated engines, on a manual clock: the choice of servers by load and
// measured first bytes, ejection, and hedging.
import t from 'tap';
import { type ManualClock, createManualClock, createSeededRandom } from '../../src/actor/testkit.ts';
import type { Profile } from '../../src/host/engine/profile.ts';
import { PROFILES } from '../../src/host/engine/profiles.ts';
import { Scheduler } from '../../src/host/engine/scheduler.ts';
import { StepTimes } from '../../src/host/engine/step-times.ts';
import { Hedging } from '../../src/upstream/hedging.ts';
import type { Live, Script } from '../support/routing-simulation.ts';
import { Simulation } from '../support/routing-simulation.ts';
import { createJob } from '../host/engine/jobs.ts';

const VARIED: Profile = PROFILES['vllm-8b-h100'];
const PROMPT_TOKENS = 500;
const TOKENS = 40;
const FIRST_BYTE_TIMEOUT_MS = 2000;

interface Machine {
  /** Submits a request of the usual size; the result ends it. */
  ask(onFirst: () => void, onEnd: () => void): () => void;
}

function createMachine(clock: ManualClock, profile: Profile, seed: number, slowdown = 1): Machine {
  const scheduler = new Scheduler({ profile, clock, times: new StepTimes(profile, { seed, slowdown }) });
  return {
    ask(onFirst, onEnd) {
      let isFirst = true;
      const { job } = createJob(PROMPT_TOKENS, {
        maxTokens: TOKENS,
        cachePrompt: false,
        onToken: () => {
          if (isFirst) onFirst();
          isFirst = false;
        },
        onEnd: ({ reason }) => {
          if (reason !== 'cancelled') onEnd();
        },
      });
      scheduler.submit(job);
      return () => void scheduler.cancel(job);
    },
  };
}

/** Answers as the machine does, or times out; `firsts` gets the times to the first token. */
function scriptOf(clock: () => ManualClock, machine: () => Machine, firsts: number[]): Script {
  return (_random: () => number, live: Live) => {
    const sentMs = clock().now();
    let isOver = false;
    const cancel = machine().ask(
      () => {
        if (isOver) return;
        firsts.push(clock().now() - sentMs);
        clock().clearTimeout(timer);
        live.begun();
      },
      () => {
        if (!isOver) live.ended('ok', null);
      },
    );
    const timer = clock().setTimeout(() => {
      isOver = true;
      cancel();
      live.ended('failed', 'first byte timeout');
    }, FIRST_BYTE_TIMEOUT_MS);
    return null;
  };
}

/** Four servers; `change` of the first. */
async function simulate(change: Partial<Profile>, slowdown: number, seed: number, gapMs = 40) {
  const firsts: number[] = [];
  const machines: Machine[] = [];
  const clock = (): ManualClock => simulation.test.clock;
  const scripts = [0, 1, 2, 3].map((at) => scriptOf(clock, () => machines[at]!, firsts));
  const simulation: Simulation = new Simulation({ scripts, affinity: false, seed, gapMs });
  for (let at = 0; at < 4; at++) {
    const own = at === 0 ? { ...VARIED, ...change } : VARIED;
    machines.push(createMachine(clock(), own, at + 1, at === 0 ? slowdown : 1));
  }
  await simulation.start();
  await simulation.run(20_000 / gapMs);
  await simulation.test.advance(10_000);
  return { simulation, firsts };
}

const quantile = (values: readonly number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * share)]!;

t.test('a slow machine gets less than its share, by what is measured of it', async (t) => {
  for (const seed of [1, 2, 3]) {
    const alike = await simulate({}, 1, seed);
    const slow = await simulate({}, 4, seed);
    const [share, slowShare] = [alike, slow].map(
      ({ simulation }) => simulation.triesOn(0, 0) / simulation.tries.length,
    );
    t.ok(share! > 0.15 && share! < 0.35, `${share} of the requests of four alike`);
    t.ok(slowShare! < 0.5 * share!, `${slowShare} of the requests when it is four times slower`);
    t.equal(slow.simulation.unanswered, 0);
    t.ok(quantile(slow.firsts, 0.5) < 1.3 * quantile(alike.firsts, 0.5), 'most do not notice');
  }
});

t.test('a machine whose stalls outlast the timeout is ejected, and others with a tail are not', async (t) => {
  const stalls = { everyMs: 300, leastMs: 5000, shape: 1.5, mostMs: 20_000 };
  for (const seed of [1, 2, 3]) {
    const { simulation } = await simulate({ variation: { jitter: 0.1, stalls } }, 1, seed, 10);
    const ejected = simulation.events.filter((event) => event.type === 'ejected').map(({ url }) => url);
    t.same(new Set(ejected), new Set(['http://10.0.0.0:8000']));
    t.equal(simulation.unanswered, 0);
  }
});

/** Times to the first token of streams at random servers, hedged or not, and the hedges. */
function hedged(profile: Profile, isHedging: boolean): { firsts: number[]; hedges: number; won: number } {
  const clock = createManualClock();
  const machines = [1, 2, 3, 4].map((seed) => createMachine(clock, profile, seed));
  const random = createSeededRandom(3);
  let won = 0;
  let hedges = 0;
  const hedging = new Hedging(0.05, (outcome) => {
    if (outcome === 'won') won++;
    if (outcome !== 'refused') hedges++;
  });
  const firsts: number[] = [];
  for (let request = 0; request < 6000; request++) {
    const at = Math.floor(random() * 4);
    const sentMs = clock.now();
    const delayMs = hedging.delayMs('m', 2000);
    let cancelOther: (() => void) | null = null;
    let isOver = false;
    const first = (isSecond: boolean, cancelLoser: () => void): void => {
      if (isOver) return;
      isOver = true;
      firsts.push(clock.now() - sentMs);
      hedging.note('m', 2000, clock.now() - sentMs);
      if (cancelOther !== null) {
        hedging.ended(isSecond ? 'won' : 'lost');
        cancelLoser();
      }
    };
    const cancel = machines[at]!.ask(
      () => first(false, () => cancelOther?.()),
      () => {},
    );
    if (isHedging && delayMs !== null) {
      clock.setTimeout(() => {
        if (isOver || !hedging.withdraw()) return;
        cancelOther = machines[(at + 1) % 4]!.ask(
          () => first(true, cancel),
          () => {},
        );
      }, delayMs);
    }
    clock.advance(-120 * Math.log(1 - random()));
  }
  clock.advance(60_000);
  return { firsts, hedges, won };
}

t.test('hedging cuts the tail of machines that stall, and has nothing to win where nothing does', async (t) => {
  // A stall in two seconds of work, as before heaps were frozen.
  const stalls = { everyMs: 2000, leastMs: 100, shape: 1.5, mostMs: 2000 };
  const stalling = { ...VARIED, variation: { ...VARIED.variation!, stalls } };
  const plain = hedged(stalling, false);
  const tail = hedged(stalling, true);
  t.equal(tail.firsts.length, 6000);
  const cut = quantile(tail.firsts, 0.995) / quantile(plain.firsts, 0.995);
  t.ok(
    cut < 0.8,
    `p99.5 ${quantile(plain.firsts, 0.995).toFixed(0)} ms becomes ${quantile(tail.firsts, 0.995).toFixed(0)} ms`,
  );
  t.ok(tail.hedges <= 0.06 * 6000, `${tail.hedges} hedges`);
  t.ok(tail.won > 20, `${tail.won} were won`);
  const { variation: _, ...formula } = VARIED;
  const steady = hedged(formula, true);
  t.ok(steady.won < tail.won / 2, `${steady.won} without variation`);
});
