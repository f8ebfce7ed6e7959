import { createManualClock } from '../../src/actor/clock.ts';
import { createSeededRandom } from '../../src/actor/testkit.ts';
import type { Sender } from '../../src/load/load-client.ts';
import { type RunSettings, LoadRun } from '../../src/load/load-run.ts';
import { Recorder } from '../../src/load/recorder.ts';
import type { Sample } from '../../src/load/sample.ts';
import { syntheticWorkload } from '../../src/load/synthetic.ts';
import type { Script, Workload } from '../../src/load/workload.ts';
import { type ServerSettings, SimulatedServer } from './simulated-server.ts';

import t from 'tap';

const one = { least: 1, most: 1 };
const SETTINGS: RunSettings = {
  ...{ dialect: 'chat-completions', model: 'm', stream: true, ignoreEos: false, extra: {} },
  arrivals: { kind: 'closed', users: 1, rampMs: 0 },
  ...{ warmUpMs: 0, durationMs: Infinity, requests: Infinity, thinkMs: 0, maxInFlight: 1000, graceMs: 1000 },
};

interface Played {
  readonly run: LoadRun;
  readonly recorder: Recorder;
  readonly samples: readonly Sample[];
  readonly server: SimulatedServer;
  readonly isOver: boolean;
}

/** Runs it on a manual clock for so long. */
async function play(
  settings: Partial<RunSettings>,
  service: ServerSettings,
  totalMs: number,
  workload?: Workload,
): Promise<Played> {
  const clock = createManualClock();
  const server = new SimulatedServer(clock, service);
  const recorder = new Recorder({});
  const samples: Sample[] = [];
  const run = new LoadRun(
    { ...SETTINGS, ...settings },
    {
      clock,
      random: createSeededRandom(3),
      sender: server,
      workload:
        workload ??
        syntheticWorkload({ seed: 1, inputTokens: one, outputTokens: one, turns: one, prefixes: 0, prefixTokens: 1 }),
      onSample(sample, answer) {
        samples.push(sample);
        recorder.add(sample, answer);
      },
    },
  );
  let isOver = false;
  const ended = run.run().then(() => (isOver = true));
  clock.advance(totalMs);
  if (run.endMs > 0) await ended;
  return { run, recorder, samples, server, isOver };
}

const SCRIPT: Script = { system: '', turns: [{ text: 'x', outputTokens: 1 }] };

const ANSWERED = {
  ...{
    status: 200,
    outcome: 'ok',
    headMs: 0,
    firstEventMs: 0,
    textMs: [],
    bytes: 0,
    text: '',
    serverTimings: undefined,
  },
  ...{ promptTokens: undefined, cachedTokens: undefined, outputTokens: undefined },
};

function scripts(all: readonly Script[]): Workload {
  const left = [...all];
  return { description: 'given', next: () => left.shift() };
}

t.test('a stall of a second shows in an open loop and hides in a closed one', async (t) => {
  const service = { serviceMs: 5, stall: { fromMs: 5000, toMs: 6000 } };
  const open = await play(
    { arrivals: { kind: 'constant', perSecond: 100, rampMs: 0 }, durationMs: 10_000 },
    service,
    20_000,
  );
  const closed = await play({ durationMs: 10_000 }, service, 20_000);
  const ofOpen = open.recorder.measures.e2e.distribution();
  const ofClosed = closed.recorder.measures.e2e.distribution();
  // A tenth of those who would have come in the open loop came into the stall, and the queue behind it is as long again.
  t.ok(ofOpen.p90 > 450, `p90 ${ofOpen.p90}`);
  t.ok(ofOpen.p99 > 900, `p99 ${ofOpen.p99}`);
  t.ok(ofOpen.max >= 1000);
  // One user of some two thousand met it.
  t.ok(ofClosed.p99 < 6, `closed p99 ${ofClosed.p99}`);
  t.equal(ofClosed.max, 1005);
});

t.test('latencies count from the intended time when the client itself is late, and that is told', async (t) => {
  const clock = createManualClock();
  const server = new SimulatedServer(clock, { serviceMs: 5, workers: 100 });
  const recorder = new Recorder({});
  // A busy process: every timer comes 40 ms after its time.
  const lazy = {
    ...clock,
    now: () => clock.now(),
    setTimeout: (run: () => void, ms: number) => clock.setTimeout(run, ms + 40),
  };
  const run = new LoadRun(
    { ...SETTINGS, arrivals: { kind: 'constant', perSecond: 100, rampMs: 0 }, requests: 50 },
    {
      clock: lazy,
      random: () => 0,
      sender: server,
      workload: { description: '', next: () => ({ system: '', turns: [{ text: 'x', outputTokens: 1 }] }) },
      onSample: (sample, answer) => recorder.add(sample, answer),
    },
  );
  void run.run();
  clock.advance(5000);
  const { e2e, service } = recorder.measures;
  t.equal(service.distribution().max, 5);
  t.ok(e2e.distribution().mean > 20, `mean ${e2e.distribution().mean}`);
  t.ok(run.late > 30);
  t.ok(recorder.lateness.distribution().max >= 40);
});

t.test('a closed loop keeps as many requests under way as there are users', async (t) => {
  const { server, run, isOver } = await play(
    { arrivals: { kind: 'closed', users: 3, rampMs: 300 }, requests: 30 },
    { serviceMs: 50, workers: 10 },
    10_000,
  );
  t.strictSame(
    server.requests.slice(0, 3).map(({ atMs }) => atMs),
    [0, 50, 100],
  );
  t.equal(server.requests.length, 30);
  t.equal(run.inFlight, 0);
  t.ok(isOver);
  // 12, 10 and 8 of them, the last ones from 550 on.
  t.equal(run.endMs, 600);
});

t.test('what leaves in the warm-up is not told of, and does not count', async (t) => {
  const { samples, server, run } = await play(
    { arrivals: { kind: 'constant', perSecond: 10, rampMs: 0 }, warmUpMs: 1000, requests: 20 },
    { serviceMs: 1 },
    10_000,
  );
  t.equal(server.requests.length, 30);
  t.equal(samples.length, 20);
  t.equal(samples[0]?.intendedMs, 1000);
  t.equal(run.sent, 30);
});

t.test('what would be too many under way is dropped and counted', async (t) => {
  const { run, server, recorder } = await play(
    { arrivals: { kind: 'constant', perSecond: 100, rampMs: 0 }, maxInFlight: 5, durationMs: 995 },
    { serviceMs: 100 },
    5000,
  );
  t.equal(run.dropped + server.requests.length, 100);
  t.ok(run.dropped > 80);
  t.equal(recorder.requests, server.requests.length);
});

t.test(
  'a rate that is too high for the client neither stops the clock nor the reading, and what never left is dropped',
  async (t) => {
    const clock = createManualClock();
    let answered = 0;
    const sender: Sender = {
      send(_request, _keepsText, done) {
        const sentMs = clock.now();
        // To send a request takes 2 ms, in which two are due.
        clock.advance(2);
        clock.setTimeout(() => {
          answered++;
          done({ ...ANSWERED, sentMs, endedMs: clock.now() });
        }, 1);
      },
      close: () => undefined,
    };
    const arrivals = { kind: 'constant', perSecond: 1000, rampMs: 0 } as const;
    const run = new LoadRun(
      { ...SETTINGS, arrivals, durationMs: 200, maxInFlight: 10 },
      { clock, sender, random: () => 0, workload: { description: '', next: () => SCRIPT }, onSample: () => undefined },
    );
    void run.run();
    t.ok(clock.now() < 20, 'the first slice of the run is short');
    clock.advance(300);
    t.equal(answered, run.sent);
    t.ok(run.sent <= 100, `${run.sent} sent`);
    t.equal(run.sent + run.dropped, 200, 'all that were due in the time are counted');
    t.ok(run.endMs >= 200 && run.endMs < 210, `ended at ${run.endMs}`);
  },
);

t.test('at the end requests under way may end, for so long; then they are cut and have failed', async (t) => {
  const arrivals = { kind: 'constant', perSecond: 10, rampMs: 0 } as const;
  const patient = await play({ arrivals, durationMs: 950, graceMs: 1000 }, { serviceMs: 300, workers: 20 }, 5000);
  t.equal(patient.recorder.ok, 10);
  t.equal(patient.run.unfinished, 0);
  t.equal(patient.run.endMs, 1200);
  const hasty = await play({ arrivals, durationMs: 950, graceMs: 100 }, { serviceMs: 300, workers: 20 }, 5000);
  t.equal(hasty.recorder.ok, 8);
  t.same([...hasty.recorder.outcomes], [['cut', 2]]);
  t.equal(hasty.run.unfinished, 0);
  t.equal(hasty.run.endMs, 1000, 'rates count until the last answer, not until the cut');
  t.ok(hasty.server.closed && hasty.isOver);
  const idle = await play({ arrivals, durationMs: 2000, graceMs: 5000 }, { serviceMs: 1e6, workers: 20 }, 10_000);
  t.same([...idle.recorder.outcomes], [['cut', 20]]);
  t.equal(idle.run.endMs, 2000, 'nor less than requests were sent');
});

t.test('rates count until the last answer, not until the last timeout', async (t) => {
  const arrivals = { kind: 'constant', perSecond: 10, rampMs: 0 } as const;
  const { run, isOver } = await play(
    { arrivals, durationMs: 950, graceMs: 60_000 },
    { serviceMs: 20_000, workers: 20, outcome: () => 'timeout' },
    30_000,
  );
  t.ok(isOver);
  t.equal(run.endMs, 950);
});

t.test('stopped by hand it ends at once with what there is', async (t) => {
  const { run, recorder, isOver } = await play({}, { serviceMs: 100 }, 1050);
  t.notOk(isOver);
  run.stop();
  run.stop();
  t.equal(recorder.ok, 10);
  t.equal(run.unfinished, 1);
  t.equal(run.endMs, 1050);
});

t.test('turns carry all that was said, with the answers of the model, after a pause', async (t) => {
  const turns = ['a', 'b', 'c'].map((text) => ({ text, outputTokens: 9 }));
  const { server, samples, isOver } = await play(
    { thinkMs: 500 },
    { serviceMs: 100 },
    5000,
    scripts([{ system: 's', turns }]),
  );
  t.strictSame(
    server.requests.map(({ atMs }) => atMs),
    [0, 600, 1200],
  );
  t.strictSame(server.requests[2]?.body['messages'], [
    { role: 'system', content: 's' },
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'answer 0' },
    { role: 'user', content: 'b' },
    { role: 'assistant', content: 'answer 1' },
    { role: 'user', content: 'c' },
  ]);
  t.strictSame(
    samples.map(({ turn, e2eMs }) => [turn, e2eMs]),
    [
      [0, 100],
      [1, 100],
      [2, 100],
    ],
  );
  t.ok(isOver, 'a workload that has ended ends the run');
});

t.test('a conversation that broke goes no further', async (t) => {
  const turns = ['a', 'b'].map((text) => ({ text, outputTokens: 9 }));
  const outcome = (index: number): string => (index === 0 ? '503' : 'ok');
  const { recorder, server } = await play(
    {},
    { serviceMs: 1, outcome },
    100,
    scripts([
      { system: '', turns },
      { system: '', turns },
    ]),
  );
  t.equal(server.requests.length, 3);
  t.strictSame([...recorder.outcomes], [['503', 1]]);
});

t.test('a trace leaves at its times', async (t) => {
  const at = (atMs: number): Script => ({ system: '', turns: [{ text: 'x', outputTokens: 1 }], atMs });
  const { server, isOver } = await play(
    { arrivals: { kind: 'trace', speed: 2 } },
    { serviceMs: 10, workers: 3 },
    5000,
    scripts([at(0), at(100), at(100), at(2000)]),
  );
  t.strictSame(
    server.requests.map(({ atMs }) => atMs),
    [0, 50, 50, 1000],
  );
  t.ok(isOver);
});

t.test('the grace time begins with the last request of a trace', async (t) => {
  const at = (atMs: number): Script => ({ system: '', turns: [{ text: 'x', outputTokens: 1 }], atMs });
  const { recorder, run, isOver } = await play(
    { arrivals: { kind: 'trace', speed: 1 }, graceMs: 500 },
    { serviceMs: 1e6, workers: 2 },
    700,
    scripts([at(0), at(100)]),
  );
  t.ok(isOver);
  t.same([...recorder.outcomes], [['cut', 2]]);
  t.equal(run.endMs, 100);
});
