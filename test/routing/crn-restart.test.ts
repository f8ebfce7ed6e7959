// How the health actor of a CRN notices restarts, and what it does not take for one, on a manual clock; and with a real host.
import t from 'tap';
import { DIALECT_BITS } from '../../src/config/dialect-bits.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { Ref } from '../../src/actor/ref.ts';
import { createHost } from '../../src/host/index.ts';
import { BufferedClient } from '../../src/net/buffered-client.ts';
import { DispatchError } from '../../src/net/client.ts';
import { BlockIndex } from '../../src/routing/block-index.ts';
import { Board, type BoardMemory, createBoardMemory, STANDING } from '../../src/routing/board.ts';
import { FailureRates } from '../../src/routing/breaker.ts';
import { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { crn, type CrnCommand, type CrnDeps, type CrnEvent, type CrnSettings } from '../../src/routing/crn.ts';
import { type CrnReport, NO_REPORT, readCrnReport } from '../../src/routing/crn-report.ts';
import type { Failure } from '../../src/routing/outcome.ts';
import { probe, type ProbeAnswer } from '../../src/routing/probe.ts';
import { freePort } from '../support/free-port.ts';

const HASHES: Int32Array = Int32Array.from({ length: 16 }, (_, at) => Math.imul(at + 1, 0x9e3779b1));
const UP: ProbeAnswer = { status: 200, instance: '', isLoading: false, reason: null };
const REPORT_MS = 5 * 60_000;

const REFUSED: DispatchError = new DispatchError(
  'connect',
  Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }),
);
const SILENT: Error = new Error('no response');

const SETTINGS: CrnSettings = {
  url: 'http://crn',
  server: 0,
  members: [
    { model: 'a', modelCell: 0, member: 0 },
    { model: 'b', modelCell: 1, member: 1 },
  ],
  health: { intervalMs: 1000, timeoutMs: 500, path: '/health', rise: 1, fall: 1 },
  ejection: {
    ...{ consecutive: 1000, errorRate: 1, outlierRate: 1, outlierFactor: 100, minRequests: 1000 },
    ...{ windowMs: 10_000, backoffMs: 1000, backoffMaxMs: 1000 },
  },
};

/** A CRN actor, and an index in which both of its models hold a prompt. */
class Fixture {
  readonly test: TestSystem = createTestSystem();
  readonly memory: BoardMemory = createBoardMemory(1, 2, 1);
  readonly board: Board = new Board(this.memory, 0);
  readonly blocks: BlockIndex = new BlockIndex(this.memory.blocks);
  readonly events: CrnEvent[] = [];
  reports = 0;
  answer: ProbeAnswer | Error = UP;
  report: CrnReport | Promise<CrnReport> = NO_REPORT;
  #ref: Ref<CrnCommand> | null = null;

  spawn(deps: Partial<CrnDeps> = {}, settings: Partial<CrnSettings> = {}): Ref<CrnCommand> {
    this.#ref = this.test.system.spawn(
      crn(
        { ...SETTINGS, ...settings },
        {
          board: this.board,
          feedback: new CacheFeedback(this.memory, this.blocks),
          rates: new FailureRates(),
          peers: () => [],
          mayEject: () => false,
          isDrained: () => false,
          probe: async () => {
            if (this.answer instanceof Error) throw this.answer;
            return this.answer;
          },
          report: () => {
            this.reports++;
            return Promise.resolve(this.report);
          },
          onEvent: (event) => this.events.push(event),
          onProbeResult: () => undefined,
          ...deps,
        },
      ),
    );
    return this.#ref;
  }

  /** Starts the actor; both models hold a prompt once it serves. */
  async start(): Promise<void> {
    this.spawn();
    await this.settle();
    this.fill();
  }

  fill(): void {
    for (const member of [0, 1]) this.blocks.enter(member, HASHES, 8);
  }

  async settle(): Promise<void> {
    for (let i = 0; i < 4; i++) await this.test.settle();
  }

  /** Probes with this answer until it is noticed. */
  async probed(answer: ProbeAnswer | Error): Promise<void> {
    this.answer = answer;
    await this.test.advance(1200);
    await this.settle();
  }

  async failed(failure: Failure): Promise<void> {
    const outcome = {
      member: 0,
      epoch: this.board.epoch(0),
      trial: false,
      verdict: 'failed',
      failure,
      count: 1,
    } as const;
    this.#ref?.tell({ type: 'Outcome', outcome });
    await this.settle();
  }

  /** Comes back for good, and time enough for another report has passed. */
  async back(): Promise<void> {
    await this.probed(UP);
    await this.test.advance(12_000);
    await this.settle();
  }

  get restarts(): number {
    return this.events.filter(({ type }) => type === 'restarted').length;
  }

  /** Blocks that the members hold. */
  get held(): readonly number[] {
    return [0, 1].map((member) => this.blocks.matched(member, HASHES, 8));
  }
}

t.test('another instance in an answer of /health is a restart at once', async (t) => {
  const fixture = new Fixture();
  fixture.answer = { ...UP, instance: 'first' };
  await fixture.start();
  await fixture.probed({ ...UP, instance: 'first' });
  t.same(fixture.held, [8, 8]);
  const { reports } = fixture;
  await fixture.probed({ ...UP, instance: 'second' });
  t.same(fixture.held, [0, 0]);
  t.equal(fixture.restarts, 1);
  t.ok(fixture.reports > reports, 'it may have another size now');
  fixture.fill();
  await fixture.probed(SILENT);
  await fixture.probed(REFUSED);
  fixture.answer = { ...UP, instance: 'second' };
  await fixture.test.advance(12_000);
  await fixture.settle();
  t.same(fixture.held, [8, 8], 'down, but the same process');
});

t.test('what a CRN was found to lack is forgotten when its process changes, and when it comes up again', async (t) => {
  const fixture = new Fixture();
  const { messages } = DIALECT_BITS;
  const { clock } = fixture.test;
  const learn = (): void => fixture.board.noteLack(0, messages, clock.now(), clock.now());
  const lacks = (): boolean => fixture.board.lackedSinceMs(0, messages, clock.now()) > 0;
  fixture.answer = { ...UP, instance: 'first' };
  await fixture.start();
  await fixture.probed({ ...UP, instance: 'first' });
  learn();
  await fixture.probed({ ...UP, instance: 'first' });
  t.equal(lacks(), true);
  await fixture.probed({ ...UP, instance: 'second' });
  t.equal(lacks(), false);
  await fixture.test.advance(1);
  learn();
  await fixture.probed(SILENT);
  t.equal(lacks(), true);
  await fixture.probed({ ...UP, instance: 'second' });
  t.equal(lacks(), false, 'a proxy may have answered in its place');
});

t.test('another start time in the metrics is a restart', async (t) => {
  const fixture = new Fixture();
  fixture.report = { ...NO_REPORT, startedS: 1000 };
  await fixture.start();
  await fixture.probed(SILENT);
  await fixture.back();
  t.same(fixture.held, [8, 8], 'it was away, but is the same process');
  await fixture.probed(SILENT);
  fixture.report = { ...NO_REPORT, startedS: 2000 };
  await fixture.back();
  t.same([fixture.held, fixture.restarts], [[0, 0], 1]);
  fixture.fill();
  fixture.report = { ...NO_REPORT, startedS: 3000 };
  await fixture.test.advance(REPORT_MS - 60_000);
  await fixture.settle();
  t.equal(fixture.restarts, 1, 'nobody has asked');
  await fixture.test.advance(120_000);
  await fixture.settle();
  t.equal(fixture.restarts, 2, 'a restart between two probes is seen later');
});

t.test('connections that break are no restart', async (t) => {
  const fixture = new Fixture();
  fixture.report = { ...NO_REPORT, promptTokens: 500 };
  await fixture.start();
  for (const failure of ['reset', 'truncated', 'stale', 'connect', 'status 500'] as const)
    await fixture.failed(failure);
  await fixture.back();
  t.ok(fixture.reports >= 2, 'it is asked');
  t.same([fixture.held, fixture.restarts], [[8, 8], 0]);
});

t.test('a CRN without identity: a counter that began anew, or a process that had ended', async (t) => {
  for (const [what, before, after, absences, restarts] of [
    ['silence', null, null, [SILENT, SILENT], 0],
    ['an error', null, null, [{ ...UP, status: 500 }], 0],
    ['nothing listened', null, null, [SILENT, REFUSED], 1],
    ['it loads its model', null, null, [{ ...UP, status: 503, isLoading: true }], 1],
    ['a smaller counter', 500, 20, [SILENT], 1],
    ['a larger counter', 500, 700, [REFUSED], 0],
    ['a counter that was 0', 0, 0, [REFUSED], 1],
    ['a smaller counter of a CRN that was not away', 500, 20, [], 0],
  ] as const) {
    const fixture = new Fixture();
    fixture.report = { ...NO_REPORT, promptTokens: before };
    await fixture.start();
    for (const absence of absences) await fixture.probed(absence);
    fixture.report = { ...NO_REPORT, promptTokens: after };
    await fixture.back();
    t.same([fixture.held, fixture.restarts], restarts === 1 ? [[0, 0], 1] : [[8, 8], 0], what);
  }
});

t.test('a CRN that has never served was not restarted', async (t) => {
  const fixture = new Fixture();
  fixture.answer = REFUSED;
  fixture.spawn();
  await fixture.settle();
  await fixture.back();
  t.equal(fixture.restarts, 0);
  t.equal(fixture.board.standing(0), STANDING.up);
});

t.test('a model that is not loaded any more has no cache; the others keep theirs', async (t) => {
  const fixture = new Fixture();
  let ofA = UP;
  fixture.spawn(
    { probe: (url) => Promise.resolve(url.endsWith('/a') ? ofA : UP) },
    { health: { ...SETTINGS.health, path: '/health/{model}' } },
  );
  await fixture.settle();
  fixture.fill();
  ofA = { ...UP, status: 202 };
  await fixture.probed(UP);
  t.same(fixture.held, [0, 8]);
});

t.test('reports are seldom, never overlap, and hold up no probe', async (t) => {
  const fixture = new Fixture();
  await fixture.start();
  t.equal(fixture.reports, 1);
  for (let i = 0; i < 100; i++) await fixture.probed(UP);
  t.equal(fixture.reports, 1);
  for (let i = 0; i < 250; i++) await fixture.probed(UP);
  t.equal(fixture.reports, 2);
  const gate = Promise.withResolvers<CrnReport>();
  fixture.report = gate.promise;
  await fixture.probed(SILENT);
  await fixture.back();
  const { reports } = fixture;
  for (let i = 0; i < 30; i++) {
    await fixture.probed(SILENT);
    t.equal(fixture.board.standing(0), STANDING.down);
    await fixture.probed(UP);
    t.equal(fixture.board.standing(0), STANDING.up);
  }
  t.equal(fixture.reports, reports);
  gate.resolve(NO_REPORT);
});

t.test('a CRN that comes and goes is asked every 10 seconds at most', async (t) => {
  const fixture = new Fixture();
  await fixture.start();
  const begunMs = fixture.test.clock.now();
  for (let i = 0; i < 50; i++) {
    await fixture.probed(SILENT);
    await fixture.probed(UP);
  }
  t.ok(fixture.reports <= 2 + (fixture.test.clock.now() - begunMs) / 10_000, `${fixture.reports}`);
});

t.test('the size that it reports is the capacity of its members', async (t) => {
  const fixture = new Fixture();
  fixture.report = { ...NO_REPORT, cacheTokens: 100_000 };
  await fixture.start();
  t.same([fixture.blocks.capacity(0), fixture.blocks.capacity(1)], [400_000, 400_000]);
});

t.test('a real host: its size, its restart on the same port, and a pause that is none', async (t) => {
  const client = new BufferedClient(4);
  const first = createHost({
    models: ['a', 'b'],
    listen: `127.0.0.1:${await freePort()}`,
    engine: { slots: 2, contextTokens: 8192 },
  });
  await first.listen();
  const url = first.url;
  t.teardown(() => client.close());
  const fixture = new Fixture();
  const probes: Promise<unknown>[] = [];
  const reports: Promise<unknown>[] = [];
  const ref = fixture.spawn(
    {
      probe: (asked, timeoutMs) => {
        const answer = probe(client, asked, timeoutMs);
        probes.push(answer);
        return answer;
      },
      report: (timeoutMs) => {
        const report = readCrnReport(client, url, undefined, timeoutMs);
        reports.push(report);
        return report;
      },
    },
    { url, health: { ...SETTINGS.health, timeoutMs: 5000 } },
  );
  /** The last probe and the last report have arrived. */
  const arrived = async (): Promise<void> => {
    await fixture.settle();
    await Promise.allSettled(probes);
    await fixture.settle();
    await Promise.allSettled(reports);
    await fixture.settle();
  };
  const probeAgain = async (): Promise<void> => {
    ref.tell({ type: 'Probe' });
    await arrived();
  };
  await arrived();
  t.equal(fixture.blocks.capacity(0), 2 * 8192 * 4);
  fixture.fill();
  await first.setFault([{ fault: { refuse: true } }]);
  await probeAgain();
  t.equal(fixture.board.standing(0), STANDING.down);
  await first.setFault(null);
  await probeAgain();
  t.same([fixture.held, fixture.restarts], [[8, 8], 0], 'the same process after a pause');
  await first.kill();
  await probeAgain();
  t.equal(fixture.board.standing(0), STANDING.down);
  const again = createHost({
    models: ['a', 'b'],
    listen: new URL(url).host,
    engine: { slots: 2, contextTokens: 8192 },
  });
  await again.listen();
  t.teardown(() => again.kill());
  await probeAgain();
  t.equal(fixture.board.standing(0), STANDING.up);
  t.same([fixture.held, fixture.restarts], [[0, 0], 1], 'another process');
});
