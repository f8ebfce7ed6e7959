// Gateways that share limits through an engine, over random requests, deaths, outages and clocks: no minute has more than the limit,
// and what was reserved comes back.

import t from 'tap';
import { createManualClock } from '../../../src/actor/index.ts';
import type { Budget } from '../../../src/billing/limits/budgets.ts';
import { periodOf } from '../../../src/billing/limits/budgets.ts';
import type { LimitReservation } from '../../../src/billing/limits/key-limiter.ts';
import { LimitEngine } from '../../support/limit-engine.ts';
import { type KeyBoundsOf, LimitGateway, LimitNetwork } from '../../support/limit-gateway.ts';
import { Random } from '../../support/random.ts';

const START = Date.UTC(2026, 10, 23);
const MINUTE_MS = 60_000;
const FREE: KeyBoundsOf = { runningRequests: undefined, requestsPerMinute: undefined, tokensPerMinute: undefined };

interface Truth {
  readonly gateway: LimitGateway;
  readonly atMs: number;
  tokens: number;
  /** Null: settled. */
  reservation: LimitReservation | null;
}

/** Everything that all gateways have admitted. */
class Ledger {
  readonly admitted: Truth[] = [];
  refused = 0;
  readonly #network: LimitNetwork;

  constructor(network: LimitNetwork) {
    this.#network = network;
  }

  ask(gateway: LimitGateway, tokens = 1): void {
    gateway.request({ least: 0, most: 0, leastTokens: tokens, mostTokens: tokens }, (admission) => {
      if (admission.kind !== 'reserved') {
        this.refused++;
        return;
      }
      this.admitted.push({ gateway, atMs: this.#network.clock.now(), tokens, reservation: admission });
    });
  }

  settle(random: Random): void {
    const running = this.running;
    if (running.length === 0) return;
    const truth = random.pick(running);
    const used = random.below(truth.tokens + 1);
    truth.gateway.settle(truth.reservation as LimitReservation, used, 0);
    truth.reservation = null;
    truth.tokens = used;
  }

  /** The dead run no requests. */
  get running(): Truth[] {
    return this.admitted.filter(({ gateway, reservation }) => reservation !== null && gateway.isAlive);
  }

  within(windowMs: number): Truth[] {
    const sinceMs = this.#network.clock.now() - windowMs;
    return this.admitted.filter(({ atMs }) => atMs > sinceMs);
  }
}

function networkOf(seed: number): { random: Random; network: LimitNetwork; ledger: Ledger } {
  const random = new Random(seed);
  const network = new LimitNetwork(createManualClock(random.below(10_000)), new LimitEngine(), START);
  return { random, network, ledger: new Ledger(network) };
}

t.test('no minute has more than the limit, over random requests, lags, deaths and clocks a minute apart', async (t) => {
  let admitted = 0;
  let refused = 0;
  for (let seed = 1; seed <= 10; seed++) {
    const { ledger, network, random } = networkOf(seed);
    const bounds = {
      runningRequests: 1 + random.below(seed % 2 === 0 ? 4 : 200),
      requestsPerMinute: 1 + random.below(seed % 3 === 0 ? 8 : 400),
      tokensPerMinute: 50 + random.below(20_000),
    };
    const join = (): LimitGateway =>
      new LimitGateway(network, `gateway-${network.gateways.length}`, bounds, random.below(120_000) - 60_000);
    let alive = [join(), join(), join()];
    for (let step = 0; step < 1000; step++) {
      network.lagMs = random.chance(0.02) ? random.below(15) : network.lagMs;
      if (random.chance(0.004)) {
        const dead = random.pick(alive);
        dead.kill();
        alive = [...alive.filter((gateway) => gateway !== dead), join()];
      }
      const burst = random.chance(0.1) ? random.below(30) : random.below(3);
      const gateway = random.pick(alive);
      for (let count = 0; count < burst; count++) ledger.ask(gateway, 1 + random.below(bounds.tokensPerMinute / 20));
      for (let count = random.below(burst + 2); count > 0; count--) ledger.settle(random);
      await network.advance(random.chance(0.02) ? random.below(4000) : random.below(120));
      const minute = ledger.within(MINUTE_MS);
      const tokens = minute.reduce((sum, request) => sum + request.tokens, 0);
      const label = `seed ${seed}, step ${step}, ${JSON.stringify(bounds)}`;
      if (minute.length > bounds.requestsPerMinute) return t.fail(`${label}: ${minute.length} requests`);
      if (tokens > bounds.tokensPerMinute) return t.fail(`${label}: ${tokens} tokens`);
      if (ledger.running.length > bounds.runningRequests) return t.fail(`${label}: ${ledger.running.length} running`);
    }
    admitted += ledger.admitted.length;
    refused += ledger.refused;
  }
  t.ok(admitted > 1000 && refused > 1000, `${admitted} admitted, ${refused} refused`);
});

for (const limit of [1, 3, 16, 100, 1000]) {
  t.test(
    `of three gateways that are all asked for more, exactly ${limit} requests a minute are admitted`,
    async (t) => {
      const { ledger, network } = networkOf(limit);
      const bounds = { ...FREE, requestsPerMinute: limit };
      const gateways = [0, -60_000, 60_000].map((skew, at) => new LimitGateway(network, `g${at}`, bounds, skew));
      const burst = Math.ceil(limit / 20);
      for (let round = 0; round < 60; round++) {
        for (const gateway of gateways) for (let count = 0; count < burst; count++) ledger.ask(gateway);
        await network.advance(100);
      }
      t.equal(ledger.admitted.length, limit);
      const [first] = gateways as [LimitGateway];
      // Everything comes back, and to a single gateway if it is the one that is asked.
      await network.advance(62_500);
      for (let round = 0; round < 40; round++) {
        for (let count = 0; count < 3 * burst; count++) ledger.ask(first);
        await network.advance(50);
      }
      t.equal(ledger.within(10_000).length, limit, 'a minute later all of them are admitted again');
    },
  );
}

for (const limit of [1, 3, 64]) {
  t.test(
    `of ${limit} running requests, exactly ${limit} run on three gateways, and each end makes place on every gateway`,
    async (t) => {
      const { ledger, network, random } = networkOf(limit);
      const bounds = { ...FREE, runningRequests: limit };
      const gateways = ['a', 'b', 'c'].map((name) => new LimitGateway(network, name, bounds, 0));
      for (let round = 0; round < 20; round++) {
        for (const gateway of gateways) for (let count = 0; count < limit; count++) ledger.ask(gateway);
        await network.advance(60);
      }
      t.equal(ledger.running.length, limit);
      for (let turn = 0; turn < 12; turn++) {
        ledger.settle(random);
        const before = ledger.admitted.length;
        await network.advance(30);
        ledger.ask(gateways[turn % 3] as LimitGateway);
        await network.advance(60);
        t.equal(ledger.admitted.length, before + 1, `turn ${turn}`);
        t.equal(ledger.running.length, limit);
      }
    },
  );
}

t.test('steady traffic of a large limit does not wait', async (t) => {
  const { ledger, network } = networkOf(1);
  const gateways = ['a', 'b', 'c'].map(
    (name) => new LimitGateway(network, name, { ...FREE, requestsPerMinute: 60_000 }, 0),
  );
  for (let ms = 0; ms < 5000; ms += 5) {
    for (const gateway of gateways) ledger.ask(gateway);
    await network.advance(5);
  }
  t.equal(ledger.refused, 0);
  t.equal(ledger.admitted.length, 3000);
  const waits = gateways.reduce((sum, gateway) => sum + gateway.waits, 0);
  t.ok(waits < 60, `${waits} of 3000 have waited`);
  t.ok(network.claims < 300, `${network.claims} claims`);
});

t.test(
  'while the engine is away each gateway counts alone; when it is back, what was used meanwhile counts',
  async (t) => {
    const { ledger, network } = networkOf(2);
    const bounds = { ...FREE, requestsPerMinute: 100 };
    const gateways = ['a', 'b', 'c'].map((name) => new LimitGateway(network, name, bounds, 0));
    const flood = async (rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round++) {
        for (const gateway of gateways) for (let count = 0; count < 5; count++) ledger.ask(gateway);
        await network.advance(50);
      }
    };
    await flood(4);
    network.stop();
    await flood(40);
    t.equal(ledger.admitted.length, 300, 'three times the limit');
    network.start();
    await network.advance(100);
    const before = ledger.admitted.length;
    for (let second = 0; second < 55; second++) {
      for (const gateway of gateways) ledger.ask(gateway);
      await network.advance(1000);
    }
    t.equal(ledger.admitted.length, before, 'nothing is admitted until it does not exceed the limit');
    await network.advance(10_000);
    await flood(40);
    t.equal(ledger.within(5000).length, 100, 'then the limit holds again');
  },
);

t.test('an engine that does not answer within 50 ms is away', async (t) => {
  const { ledger, network } = networkOf(3);
  const gateway = new LimitGateway(network, 'a', { ...FREE, requestsPerMinute: 3 }, 0);
  network.lagMs = 200;
  for (let count = 0; count < 5; count++) ledger.ask(gateway);
  await network.advance(51);
  t.equal(gateway.manager.mode, 'away');
  t.equal(ledger.admitted.length, 3, 'the whole limit');
  network.lagMs = 1;
  await network.advance(1100);
  t.equal(gateway.manager.mode, 'shared');
  ledger.ask(gateway);
  await network.advance(60);
  t.equal(ledger.admitted.length, 3);
});

t.test('the slices of a gateway that dies count until they lapse, and then no more', async (t) => {
  const { ledger, network } = networkOf(4);
  const bounds = { ...FREE, requestsPerMinute: 320, runningRequests: 320 };
  const [dying, other] = ['a', 'b'].map((name) => new LimitGateway(network, name, bounds, 0)) as [
    LimitGateway,
    LimitGateway,
  ];
  for (let round = 0; round < 20; round++) {
    for (let count = 0; count < 5; count++) ledger.ask(dying);
    await network.advance(50);
  }
  t.equal(ledger.admitted.length, 100);
  dying.kill();
  const flood = async (): Promise<void> => {
    for (let round = 0; round < 20; round++) {
      for (let count = 0; count < 20; count++) ledger.ask(other);
      await network.advance(60);
    }
  };
  await flood();
  const admitted = ledger.admitted.length;
  t.ok(admitted <= 320 && admitted >= 300, `${admitted} in the minute: all but one slice of the dead`);
  await network.advance(70_000);
  for (const truth of ledger.running) {
    other.settle(truth.reservation as LimitReservation, 0, 0);
    truth.reservation = null;
  }
  await network.advance(1000);
  await flood();
  t.equal(ledger.within(30_000).length, 320, 'later all of the limit belongs to the living');
});

t.test('a gateway whose clock is set back an hour admits what the limit has left', async (t) => {
  const { ledger, network } = networkOf(6);
  const gateways = ['a', 'b'].map((name) => new LimitGateway(network, name, { ...FREE, requestsPerMinute: 20 }, 0));
  const flood = async (): Promise<void> => {
    for (let count = 0; count < 30; count++) for (const gateway of gateways) ledger.ask(gateway);
    await network.advance(200);
  };
  await flood();
  t.equal(ledger.admitted.length, 20);
  await network.advance(300_000);
  for (const gateway of gateways) gateway.skewMs = -3_600_000;
  await flood();
  t.equal(ledger.within(1000).length, 20);
});

t.test('one key that is flooded does not make another wait', async (t) => {
  const { ledger, network } = networkOf(5);
  const gateway = new LimitGateway(network, 'a', { ...FREE, requestsPerMinute: 10 }, 0);
  for (let count = 0; count < 2000; count++) ledger.ask(gateway);
  await network.advance(60);
  const { waits } = gateway;
  const { claims } = network;
  for (let round = 0; round < 100; round++) {
    for (let count = 0; count < 100; count++) ledger.ask(gateway);
    await network.advance(5);
  }
  t.equal(ledger.admitted.length, 10);
  t.ok(network.claims - claims < 40, `${network.claims - claims} claims in half a second`);
  t.ok(gateway.waits - waits < 2000, `${gateway.waits - waits} of 10000 have waited`);
});

const BUDGET: Budget = {
  ...{ id: 'b', account: 'a', key: null, model: null, period: 'day', limit: 1e12, soft: null },
  cell: { index: 0, generation: 1 },
};

t.test(
  'three gateways together never exceed a budget, and use it up, whatever they have read of the ledger',
  async (t) => {
    for (let seed = 1; seed <= 6; seed++) {
      const { network, random } = networkOf(seed);
      const gateways = ['a', 'b', 'c'].map((name) => new LimitGateway(network, name, FREE, random.below(2000), BUDGET));
      const period = periodOf('day', START);
      const spent = new Map(gateways.map((gateway) => [gateway, 0]));
      const posted = new Map(gateways.map((gateway) => [gateway, 0]));
      const total = (sums: ReadonlyMap<LimitGateway, number>): number =>
        [...sums.values()].reduce((sum, each) => sum + each, 0);
      let held = 0;
      let refused = 0;
      const running: (() => void)[] = [];
      for (let step = 0; step < 1500; step++) {
        const gateway = random.pick(gateways);
        const most = 1e9 + random.below(5e9);
        gateway.request({ least: 1e9, most, leastTokens: 0, mostTokens: 0 }, (admission) => {
          if (admission.kind !== 'reserved') {
            refused++;
            return;
          }
          const { amount } = admission;
          held += amount;
          running.push(() => {
            const cost = Math.floor(amount * random.next());
            gateway.settle(admission, 0, cost);
            held -= amount;
            spent.set(gateway, (spent.get(gateway) as number) + cost);
          });
        });
        if (running.length > random.below(20)) running.splice(random.below(running.length), 1)[0]?.();
        await network.advance(random.below(60));
        const sum = total(spent) + held;
        if (sum > BUDGET.limit) return t.fail(`seed ${seed}, step ${step}: ${sum} of ${BUDGET.limit}`);
        // What is settled is in the ledger some time later, and each reads it when it does.
        if (random.chance(0.2)) for (const [each, amount] of spent) if (random.chance(0.5)) posted.set(each, amount);
        if (random.chance(0.03)) {
          const reader = random.pick(gateways);
          const here = posted.get(reader) as number;
          reader.table.setBase({ index: 0, generation: 1 }, period, total(posted) - here);
          reader.manager.readBudget(BUDGET.id, period, total(posted), here);
        }
      }
      for (const end of running) end();
      t.ok(
        total(spent) > 0.97 * BUDGET.limit && refused > 0,
        `seed ${seed}: ${total(spent)} spent, ${refused} refused`,
      );
    }
  },
);

t.test('what is spent of a budget counts at a gateway that reads of it minutes later', async (t) => {
  const { network } = networkOf(8);
  const [a, b] = ['a', 'b'].map((name) => new LimitGateway(network, name, FREE, 0, BUDGET)) as [
    LimitGateway,
    LimitGateway,
  ];
  const spend = async (gateway: LimitGateway, amount: number): Promise<string> => {
    let verdict = '';
    gateway.request({ least: amount, most: amount, leastTokens: 0, mostTokens: 0 }, (admission) => {
      verdict = admission.kind;
      if (admission.kind === 'reserved') gateway.settle(admission, 0, amount);
    });
    await network.advance(100);
    return verdict;
  };
  const read = (gateway: LimitGateway, ledger: number, here: number): void => {
    const period = periodOf('day', START);
    gateway.table.setBase({ index: 0, generation: 1 }, period, ledger - here);
    gateway.manager.readBudget(BUDGET.id, period, ledger, here);
  };
  t.equal(await spend(a, 9e11), 'reserved');
  read(a, 9e11, 9e11);
  // With thousands of budgets those without traffic are read in turn.
  await network.advance(10 * MINUTE_MS);
  t.not(await spend(b, 2e11), 'reserved');
  t.equal(await spend(b, 1e11), 'reserved', 'what is left is for all');
  read(b, 10e11, 1e11);
  t.equal(await spend(b, 1e9), 'spent');
});

t.test('a budget is admitted again when the clock of a gateway was a day ahead', async (t) => {
  const { network } = networkOf(7);
  const gateway = new LimitGateway(network, 'a', FREE, 0, BUDGET);
  const verdicts: string[] = [];
  const spend = async (): Promise<void> => {
    gateway.request({ least: 1e9, most: 1e9, leastTokens: 0, mostTokens: 0 }, (admission) => {
      verdicts.push(admission.kind);
      if (admission.kind === 'reserved') gateway.settle(admission, 0, 1e9);
    });
    await network.advance(100);
  };
  await spend();
  gateway.skewMs = 86_400_000;
  await spend();
  gateway.skewMs = 0;
  await spend();
  t.same(verdicts, ['reserved', 'reserved', 'reserved']);
});
