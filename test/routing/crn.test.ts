// The health actor of one CRN on a manual clock: how probes, outcomes and overrides change its standing on the board.
import t from 'tap';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import { ask, type Ref } from '../../src/actor/ref.ts';
import { Board, createBoardMemory, STANDING, type Standing } from '../../src/routing/board.ts';
import { FailureRates } from '../../src/routing/breaker.ts';
import type { Verdict } from '../../src/routing/outcome.ts';
import {
  crn,
  type CrnCommand,
  type CrnEvent,
  type CrnOverride,
  type CrnSettings,
  type HealthSettings,
  type OverrideResult,
} from '../../src/routing/crn.ts';
import type { ProbeAnswer } from '../../src/routing/probe.ts';
import { DispatchError } from '../../src/net/client.ts';
import { answerOf, silentDeps } from '../support/crn-deps.ts';

const URL = 'http://crn';

const ANSWER = { timeoutMs: 1000 };
const { up, down, capable, probing } = STANDING;

const HEALTH: HealthSettings = { intervalMs: 1000, timeoutMs: 500, path: '/health', rise: 2, fall: 2 };

const EJECTION: CrnSettings['ejection'] = {
  consecutive: 3,
  errorRate: 0.9,
  outlierRate: 0.1,
  outlierFactor: 3,
  minRequests: 1000,
  windowMs: 10_000,
  backoffMs: 10_000,
  backoffMaxMs: 80_000,
};

interface Options {
  readonly models?: readonly string[];
  readonly health?: Partial<HealthSettings>;
  readonly mayEject?: () => boolean;
  readonly seed?: number;
  readonly drained?: boolean;
  readonly ejection?: Partial<CrnSettings['ejection']>;
  readonly peers?: () => readonly number[];
}

class Fixture {
  readonly test: TestSystem;
  readonly board: Board;
  readonly events: CrnEvent[] = [];
  readonly rates: FailureRates = new FailureRates();
  readonly probes: { url: string; atMs: number }[] = [];
  readonly ref: Ref<CrnCommand>;
  /** What `isDrained` returns. */
  drained: boolean;
  /** The status of a probe of a URL, 0 for no response, or -1 where it could not be sent. */
  answer: (url: string) => number | Promise<number> = () => 200;

  constructor(options: Options = {}) {
    const { models = ['m'], health = {}, ejection = {}, mayEject = () => true, peers = () => [], seed = 1 } = options;
    this.drained = options.drained ?? false;
    this.test = createTestSystem({ seed });
    const memory = createBoardMemory(1, models.length, 1);
    this.board = new Board(memory, 0);
    const settings: CrnSettings = {
      url: URL,
      server: 0,
      members: models.map((model, member) => ({ model, modelCell: member, member })),
      health: { ...HEALTH, ...health },
      ejection: { ...EJECTION, ...ejection },
    };
    const behavior = crn(settings, {
      board: this.board,
      ...silentDeps(memory),
      rates: this.rates,
      peers,
      probe: (url) => this.#probe(url),
      mayEject,
      isDrained: () => this.drained,
      onEvent: (event) => this.events.push(event),
    });
    this.ref = this.test.system.spawn(behavior);
  }

  async #probe(url: string): Promise<ProbeAnswer> {
    this.probes.push({ url, atMs: this.test.clock.now() });
    const status = await this.answer(url);
    if (status === 0) throw new Error('no response');
    if (status < 0) throw new DispatchError('no connection free');
    return answerOf(status);
  }

  /** Takes the trial as a request does: only a CRN that is on trial by its standing is asked. */
  takeTrial(): boolean {
    return this.standing === probing && this.board.takeTrial(0, this.test.clock.now());
  }

  get standing(): Standing {
    return this.board.standing(0);
  }

  /** Outcomes of requests of the present epoch; of a CRN on trial: of the trial. */
  async outcome(
    verdict: Verdict,
    times = 1,
    member = 0,
    failure: 'reset' | 'credentials' | 'client gone' | null = verdict === 'failed' ? 'reset' : null,
  ): Promise<void> {
    const choice = { epoch: this.board.epoch(member), trial: this.board.standing(member) === probing };
    for (let i = 0; i < times; i++) {
      this.ref.tell({ type: 'Outcome', outcome: { member, ...choice, verdict, failure, count: 1 } });
    }
    await this.test.settle();
  }

  async settle(): Promise<void> {
    await this.test.settle();
    await this.test.settle();
  }

  async override(override: CrnOverride): Promise<OverrideResult> {
    const result = ask<CrnCommand, OverrideResult>(
      this.ref,
      (replyTo) => ({ type: 'Override', override, replyTo }),
      ANSWER,
    );
    await this.settle();
    return result;
  }

  /** Advances to the next probe and its result. */
  async nextProbe(): Promise<void> {
    const count = this.probes.length;
    while (this.probes.length === count) await this.test.advance(10);
    await this.settle();
  }

  /** Advances past the end of an ejection of `ms` ± 10 %. */
  async pass(ms: number): Promise<void> {
    await this.test.advance(ms * 1.1 + 1);
    await this.settle();
  }

  kinds(): string[] {
    return this.events.map(({ type }) => type);
  }
}

t.test('the first probe sets the standing', async (t) => {
  for (const [status, standing] of [
    [200, up],
    [204, up],
    [202, capable],
    [302, down],
    [404, down],
    [503, down],
    [0, down],
  ] as const) {
    const fixture = new Fixture();
    fixture.answer = () => status;
    t.equal(fixture.standing, down);
    await fixture.settle();
    t.equal(fixture.standing, standing, `${status}`);
    t.same(fixture.probes, [{ url: 'http://crn/health', atMs: 0 }]);
    t.equal(fixture.kinds().filter((kind) => kind === 'probed').length, 1);
  }
});

t.test('consecutive bad probes take a member down, consecutive good ones bring it up', async (t) => {
  const fixture = new Fixture({ health: { rise: 2, fall: 3 } });
  const seen: Standing[] = [];
  for (const status of [200, 500, 0, 200, 500, 500, 500, 200, 500, 200, 200]) {
    fixture.answer = () => status;
    if (fixture.probes.length === 0) await fixture.settle();
    else await fixture.nextProbe();
    seen.push(fixture.standing);
  }
  t.same(seen, [up, up, up, up, up, up, down, down, down, down, up]);
});

t.test('capable is no fault and takes effect at once', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  fixture.answer = () => 202;
  await fixture.nextProbe();
  t.equal(fixture.standing, capable);
  fixture.answer = () => 200;
  await fixture.nextProbe();
  t.equal(fixture.standing, up);
});

t.test('a path with {model} is probed for every model, and each has its own standing', async (t) => {
  const fixture = new Fixture({ models: ['org/a b', 'c'], health: { path: '/health/{model}?x' } });
  fixture.answer = (url) => (url.includes('org') ? 200 : 202);
  await fixture.settle();
  t.same(
    fixture.probes.map(({ url }) => url),
    ['http://crn/health/org%2Fa%20b?x', 'http://crn/health/c?x'],
  );
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [up, capable]);
  t.equal(fixture.kinds().filter((kind) => kind === 'probed').length, 1);
});

t.test('a path without {model} counts for all models', async (t) => {
  const fixture = new Fixture({ models: ['a', 'b'] });
  await fixture.settle();
  t.equal(fixture.probes.length, 1);
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [up, up]);
});

t.test('after a bad probe, and after a failed request, the next probe comes sooner', async (t) => {
  const fixture = new Fixture({ health: { fall: 3 } });
  await fixture.settle();
  const gap = async (): Promise<number> => {
    await fixture.nextProbe();
    return (fixture.probes.at(-1)?.atMs as number) - (fixture.probes.at(-2)?.atMs as number);
  };
  const steady = await gap();
  t.ok(steady >= 900 && steady <= 1100, `${steady}`);
  fixture.answer = () => 500;
  await gap();
  const soon = await gap();
  t.ok(soon >= 180 && soon <= 220, `${soon}`);
  await gap();
  t.equal(fixture.standing, down);
  const resting = await gap();
  t.ok(resting >= 900, `${resting}: down is down`);
  const count = fixture.probes.length;
  await fixture.outcome('failed');
  t.equal(fixture.probes.length, count, 'it has just been probed');
  await fixture.test.advance(20);
  await fixture.outcome('failed');
  await fixture.outcome('failed', 100);
  t.equal(fixture.probes.length, count + 1, 'many failures are no reason for many probes');
});

t.test('probes that could not be sent say nothing about a CRN, and are repeated soon', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  fixture.answer = () => -1;
  for (let probe = 0; probe < 6; probe++) await fixture.nextProbe();
  t.equal(fixture.standing, up, 'it is not taken down');
  t.equal(fixture.board.unreachableSinceMs(0), 0, 'its running requests go on');
  const [before, last] = fixture.probes.slice(-2).map(({ atMs }) => atMs) as [number, number];
  t.ok(last - before < 0.5 * HEALTH.intervalMs, `${last - before} ms`);
  fixture.answer = () => 0;
  await fixture.nextProbe();
  t.equal(fixture.standing, up);
  await fixture.nextProbe();
  t.equal(fixture.standing, down, 'probes without a response count as ever');
});

t.test('failed requests do not start concurrent probes', async (t) => {
  const fixture = new Fixture();
  const gate = Promise.withResolvers<number>();
  fixture.answer = () => gate.promise;
  await fixture.settle();
  await fixture.outcome('failed', 100);
  t.equal(fixture.probes.length, 1);
  gate.resolve(200);
  await fixture.settle();
  t.equal(fixture.standing, down, 'ejected meanwhile');
});

t.test('CRNs that start together are not probed in step', async (t) => {
  const fixtures = [1, 2, 3, 4].map((seed) => new Fixture({ seed }));
  for (const fixture of fixtures) {
    await fixture.settle();
    for (let i = 0; i < 10; i++) await fixture.nextProbe();
  }
  for (let probe = 1; probe <= 10; probe++) {
    const times = fixtures.map(({ probes }) => probes[probe]?.atMs);
    t.equal(new Set(times).size, 4, `${times}`);
  }
  const gaps = fixtures.flatMap(({ probes }) =>
    probes.slice(1).map(({ atMs }, at) => atMs - (probes[at]?.atMs as number)),
  );
  t.ok(gaps.every((gap) => gap >= 900 && gap <= 1100));
});

t.test('consecutive failures eject, one good trial ends the ejection', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.outcome('failed', 3);
  t.equal(fixture.standing, down);
  t.match(fixture.events.at(-1), { type: 'ejected', url: URL, failure: 'reset' });
  await fixture.nextProbe();
  t.equal(fixture.standing, down, 'good probes do not end an ejection');
  await fixture.pass(10_000);
  t.equal(fixture.standing, probing);
  t.same([fixture.takeTrial(), fixture.takeTrial()], [true, false]);
  await fixture.outcome('ok');
  t.equal(fixture.standing, up);
  t.equal(fixture.events.at(-1)?.type, 'returned');
  t.ok(fixture.board.warmth(0, fixture.test.clock.now(), 10_000) < 0.2, 'it warms up');
});

t.test('refused credentials are reported once a minute, and are no failure where the key was checked', async (t) => {
  const fixture = new Fixture();
  const refused = (): number => fixture.events.filter(({ type }) => type === 'refused credentials').length;
  await fixture.settle();
  await fixture.outcome('neutral', 100, 0, 'credentials');
  t.equal(fixture.standing, up);
  t.equal(refused(), 1);
  await fixture.pass(60_000);
  await fixture.outcome('neutral', 2, 0, 'credentials');
  t.equal(refused(), 2);
});

t.test('a failed trial doubles the ejection', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.outcome('failed', 3);
  const lengths: number[] = [];
  for (const expected of [10_000, 20_000, 40_000, 80_000, 80_000]) {
    lengths.push((fixture.events.findLast(({ type }) => type === 'ejected') as { forMs: number }).forMs / expected);
    await fixture.test.advance(expected * 0.89);
    t.equal(fixture.standing, down);
    await fixture.pass(expected * 0.21);
    t.equal(fixture.standing, probing);
    fixture.takeTrial();
    await fixture.outcome('failed');
    t.equal(fixture.standing, down);
  }
  t.ok(
    lengths.every((share) => share >= 0.9 && share <= 1.1),
    `${lengths}`,
  );
});

t.test('a trial is decided by its own request: those that were sent before say nothing', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  const before = fixture.board.epoch(0);
  const tell = (verdict: Verdict, epoch: number, trial: boolean): void => {
    const failure = verdict === 'failed' ? 'reset' : null;
    fixture.ref.tell({ type: 'Outcome', outcome: { member: 0, epoch, trial, verdict, failure, count: 1 } });
  };
  await fixture.outcome('failed', 3);
  await fixture.pass(10_000);
  t.equal(fixture.takeTrial(), true);
  const now = fixture.board.epoch(0);
  for (const verdict of ['ok', 'failed'] as const) {
    tell(verdict, before, false);
    tell(verdict, before, true);
    tell(verdict, now, false);
    await fixture.settle();
    t.equal(fixture.standing, probing, `${verdict} from before, or of a last resort`);
  }
  tell('ok', now, true);
  await fixture.settle();
  t.equal(fixture.standing, up);
  for (let i = 0; i < 10; i++) {
    tell('failed', before, false);
    tell('failed', now, true);
  }
  await fixture.settle();
  t.equal(fixture.standing, up, 'failures from before the return do not eject again');
  await fixture.outcome('failed', 3);
  t.equal(fixture.standing, down);
});

t.test('every ejection, trial and return begins an epoch, for all models of the CRN', async (t) => {
  const fixture = new Fixture({ models: ['a', 'b'] });
  await fixture.settle();
  const epochs = (): number[] => [fixture.board.epoch(0), fixture.board.epoch(1)];
  const first = epochs();
  const after = (turns: number): number[] => first.map((epoch) => epoch + turns);
  await fixture.nextProbe();
  t.same(epochs(), first);
  await fixture.outcome('failed', 3);
  t.same(epochs(), after(1));
  await fixture.pass(10_000);
  t.same(epochs(), after(2));
  fixture.takeTrial();
  await fixture.outcome('neutral');
  t.same(epochs(), after(2), 'the same trial, offered again');
  await fixture.outcome('ok');
  t.same(epochs(), after(3));
});

t.test('a CRN with several models has one trial', async (t) => {
  const fixture = new Fixture({ models: ['a', 'b'] });
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.pass(10_000);
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [probing, probing]);
  t.same([fixture.takeTrial(), fixture.takeTrial()], [true, false]);
  await fixture.outcome('ok', 1, 1);
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [up, up]);
});

t.test('while probes are good an ejection never lasts longer than backoffMax', async (t) => {
  const fixture = new Fixture({ ejection: { backoffMs: 1000, backoffMaxMs: 10_000 } });
  await fixture.settle();
  await fixture.outcome('failed', 3);
  for (let i = 0; i < 20; i++) {
    await fixture.test.advance(10_000);
    t.equal(fixture.standing, probing);
    t.equal(fixture.takeTrial(), true);
    await fixture.outcome('failed');
    t.equal(fixture.standing, down);
  }
});

t.test('a trial that lasts longer than backoffMax is no obstacle: another one is offered', async (t) => {
  const fixture = new Fixture({ ejection: { backoffMaxMs: 10_000 } });
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.test.advance(15_000);
  t.equal(fixture.takeTrial(), true);
  await fixture.test.advance(9900);
  t.equal(fixture.takeTrial(), false, 'it was taken less than 10 s ago');
  await fixture.test.advance(200);
  t.equal(fixture.takeTrial(), true);
  await fixture.outcome('neutral');
  t.equal(fixture.takeTrial(), false, 'one of the two is still under way');
  await fixture.outcome('neutral');
  t.equal(fixture.takeTrial(), true);
});

t.test('trials that hang are repeated less and less often, at least every 6 times backoffMax', async (t) => {
  const fixture = new Fixture({ ejection: { backoffMaxMs: 10_000 } });
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.test.advance(15_000);
  let lastMs = 0;
  const gaps: number[] = [];
  for (let i = 0; i < 3000; i++) {
    const nowMs = fixture.test.clock.now();
    if (fixture.takeTrial()) {
      gaps.push((nowMs - lastMs) / 10_000);
      lastMs = nowMs;
    }
    await fixture.test.advance(100);
  }
  t.same(gaps.slice(1).map(Math.round), [1, 2, 4, 6, 6, 6]);
  await fixture.outcome('ok');
  t.equal(fixture.standing, up, 'whichever of them ends well brings the CRN back');
});

t.test('clients that leave silent trials do not bring about one after another', async (t) => {
  const fixture = new Fixture({ ejection: { backoffMaxMs: 10_000 } });
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.test.advance(15_000);
  let lastMs = 0;
  const gaps: number[] = [];
  for (let i = 0; i < 3000; i++) {
    const nowMs = fixture.test.clock.now();
    if (fixture.takeTrial()) {
      gaps.push((nowMs - lastMs) / 10_000);
      lastMs = nowMs;
    }
    if (nowMs - lastMs === 3000) await fixture.outcome('neutral', 1, 0, 'client gone');
    await fixture.test.advance(100);
  }
  t.same(gaps.slice(1).map(Math.round), [1, 2, 4, 6, 6, 6]);
});

t.test('a trial whose client leaves at once is offered again at once', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.pass(10_000);
  t.equal(fixture.takeTrial(), true);
  await fixture.test.advance(900);
  await fixture.outcome('neutral', 1, 0, 'client gone');
  t.equal(fixture.takeTrial(), true);
});

t.test('the trial of a thread that dies is offered again at once', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.pass(10_000);
  t.equal(fixture.takeTrial(), true);
  fixture.board.clearThread(0);
  t.equal(fixture.takeTrial(), true);
});

t.test('a CRN cannot be reached after as many probes without any response as take it down', async (t) => {
  const fixture = new Fixture({ health: { fall: 3 } });
  await fixture.settle();
  const generation = fixture.board.unreachableGeneration;
  const seen: boolean[] = [];
  for (const status of [0, 0, 503, 0, 0, 0, 0]) {
    fixture.answer = () => status;
    await fixture.nextProbe();
    seen.push(fixture.board.unreachable(0));
  }
  t.same(seen, [false, false, false, false, false, true, true], 'a bad answer is a response');
  const sent = fixture.probes.slice(-4).map(({ atMs }) => atMs);
  t.equal(fixture.board.unreachableSinceMs(0), sent[1], 'since the first of the last three');
  t.equal(fixture.board.unreachableGeneration, generation + 2, 'each further probe says more');
  fixture.answer = () => 500;
  await fixture.nextProbe();
  t.same([fixture.board.unreachable(0), fixture.board.unreachableSinceMs(0)], [false, 0]);
  t.equal(fixture.standing, down, 'it responds, but not well');
});

t.test('a CRN of which one model responds can be reached', async (t) => {
  const fixture = new Fixture({ models: ['a', 'b'], health: { path: '/health/{model}', fall: 1 } });
  fixture.answer = (url) => (url.endsWith('a') ? 0 : 200);
  await fixture.settle();
  await fixture.nextProbe();
  t.equal(fixture.board.unreachable(0), false);
  fixture.answer = () => 0;
  await fixture.nextProbe();
  t.equal(fixture.board.unreachable(0), true);
});

t.test('a CRN whose probes hang can be reached as long as it serves requests', async (t) => {
  const fixture = new Fixture({ health: { fall: 2 } });
  await fixture.settle();
  fixture.answer = () => 0;
  for (let i = 0; i < 5; i++) {
    await fixture.nextProbe();
    t.equal(fixture.board.unreachable(0), false);
    await fixture.outcome('ok');
  }
  await fixture.nextProbe();
  await fixture.nextProbe();
  t.equal(fixture.board.unreachable(0), true);
});

t.test('a good probe lets a CRN serve a model again that it did not know', async (t) => {
  const fixture = new Fixture({ models: ['a', 'b'], health: { path: '/health/{model}' } });
  await fixture.settle();
  for (const member of [0, 1]) fixture.board.noteModelUnknown(member);
  fixture.answer = (url) => (url.endsWith('a') ? 503 : 200);
  await fixture.nextProbe();
  t.same([fixture.board.modelUnknown(0), fixture.board.modelUnknown(1)], [true, false]);
});

t.test('a CRN that fails more often than its peers is ejected, if it may be', async (t) => {
  for (const allowed of [true, false]) {
    const fixture = new Fixture({ peers: () => [7], mayEject: () => allowed, ejection: { minRequests: 20 } });
    await fixture.settle();
    fixture.rates.note(7, EJECTION.windowMs, fixture.test.clock.now(), 30, 0);
    await fixture.outcome('ok', 17);
    await fixture.outcome('failed', 1);
    await fixture.outcome('ok', 1);
    t.equal(fixture.standing, up);
    await fixture.outcome('failed', 1);
    t.equal(fixture.standing, allowed ? down : up);
  }
});

t.test('a trial with a neutral outcome or without one is offered again', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.outcome('failed', 3);
  await fixture.pass(10_000);
  t.equal(fixture.takeTrial(), true);
  await fixture.outcome('neutral');
  t.equal(fixture.standing, probing);
  t.equal(fixture.takeTrial(), true);
  await fixture.test.advance(80_000);
  t.equal(fixture.takeTrial(), true);
});

t.test('a CRN whose probes are bad gets no trial until they are good', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  fixture.answer = () => 500;
  await fixture.outcome('failed', 3);
  await fixture.pass(10_000);
  t.equal(fixture.standing, down);
  t.equal(fixture.takeTrial(), false);
  fixture.answer = () => 200;
  await fixture.nextProbe();
  await fixture.nextProbe();
  t.equal(fixture.standing, probing);
  t.equal(fixture.takeTrial(), true);
});

t.test('without permission a CRN is not ejected, and asks again at the next failure', async (t) => {
  let asked = 0;
  let granted = false;
  const fixture = new Fixture({ mayEject: () => (asked++, granted) });
  await fixture.settle();
  await fixture.outcome('failed', 4);
  t.equal(fixture.standing, up);
  t.equal(asked, 2);
  granted = true;
  await fixture.outcome('failed');
  t.equal(fixture.standing, down);
});

t.test('a neutral outcome changes nothing', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.outcome('failed', 2);
  await fixture.outcome('neutral', 100);
  t.equal(fixture.standing, up);
  await fixture.outcome('ok');
  await fixture.outcome('failed', 2);
  t.equal(fixture.standing, up);
  await fixture.outcome('failed');
  t.equal(fixture.standing, down);
});

t.test('an outcome of one model counts for the CRN', async (t) => {
  const fixture = new Fixture({ models: ['a', 'b'] });
  await fixture.settle();
  await fixture.outcome('failed', 2, 0);
  await fixture.outcome('failed', 1, 1);
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [down, down]);
  await fixture.pass(10_000);
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [probing, probing]);
  await fixture.outcome('ok', 1, 1);
  t.same([fixture.board.standing(0), fixture.board.standing(1)], [up, up]);
});

t.test('a restarted actor keeps the standing and probes anew', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  t.equal(fixture.standing, up);
  const gate = Promise.withResolvers<number>();
  fixture.answer = () => gate.promise;
  fixture.ref.tell({ type: 'Outcome', outcome: null as never });
  await fixture.settle();
  t.equal(fixture.test.events.filter(({ type }) => type === 'failure').length, 1);
  t.equal(fixture.standing, up);
  t.equal(fixture.probes.length, 2);
  gate.resolve(500);
  await fixture.settle();
  t.equal(fixture.standing, up, 'a bad probe counts as it did before');
  await fixture.nextProbe();
  t.equal(fixture.standing, down);
  t.same(
    fixture.events.filter(({ type }) => type === 'probed'),
    [
      { type: 'probed', url: URL, ejected: false },
      { type: 'probed', url: URL, ejected: false },
    ],
  );
});

t.test(
  'a drained CRN stays drained whatever probes and outcomes say, and returns to what they have found',
  async (t) => {
    const fixture = new Fixture();
    await fixture.settle();
    fixture.drained = true;
    t.equal(await fixture.override({ action: 'drain' }), 'done');
    t.equal(fixture.standing, STANDING.drained);
    await fixture.nextProbe();
    t.equal(fixture.standing, STANDING.drained);
    await fixture.outcome('failed', 3);
    await fixture.pass(10_000);
    t.equal(fixture.standing, STANDING.drained, 'nor does an ejection show, or its trial');
    fixture.drained = false;
    await fixture.override({ action: 'return' });
    t.equal(fixture.standing, up, 'the ejection is over too');
    t.same(fixture.kinds().slice(-2), ['standing', 'returned']);
  },
);

t.test('an ejection by an operator lasts for the given time and ends with a trial', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.override({ action: 'eject', forMs: 60_000 });
  t.equal(fixture.standing, down);
  t.match(fixture.events.at(-1), { type: 'ejected', forMs: 60_000, failure: 'operator' });
  await fixture.test.advance(59_000);
  t.equal(fixture.standing, down);
  await fixture.test.advance(1001);
  t.equal(fixture.standing, probing);
});

t.test('without a time it lasts as long as the next ejection; return ends it at once', async (t) => {
  const fixture = new Fixture();
  await fixture.settle();
  await fixture.override({ action: 'eject', forMs: null });
  const last = fixture.events.at(-1);
  t.ok(last?.type === 'ejected' && last.forMs >= 9000 && last.forMs <= 11_000);
  await fixture.override({ action: 'return' });
  t.equal(fixture.standing, up);
  await fixture.pass(10_000);
  t.equal(fixture.standing, up, 'no release is left over');
});

t.test('a CRN that was drained before its first probe is never down', async (t) => {
  const fixture = new Fixture({ drained: true });
  fixture.answer = () => new Promise(() => undefined);
  await fixture.settle();
  t.equal(fixture.standing, STANDING.drained);
});
