// Probes, the test system and hold gates, which must also fail where a test should.

import t from 'tap';
import { createProbe, createSeededRandom, createTestSystem, holdGate, ProbeError } from '../../src/actor/testkit.ts';

t.test('a probe hands out messages in order, those that came and those to come', async (t) => {
  const { system } = createTestSystem();
  const probe = createProbe<number>(system, 'probe');
  t.equal(probe.ref.path, 'test/probe');
  const first = probe.next();
  const second = probe.next();
  probe.ref.tell(1);
  probe.ref.tell(2);
  t.same([await first, await second], [1, 2]);
  probe.ref.tell(3);
  t.equal(await probe.expect(3), 3);
  t.same(probe.received, [1, 2, 3]);
  await probe.expectNone();
});

t.test('a probe fails on silence, on other messages, and on unexpected ones', async (t) => {
  const { system } = createTestSystem();
  const probe = createProbe<{ a: number }>(system);
  await t.rejects(probe.next({ timeoutMs: 1 }), ProbeError);
  probe.ref.tell({ a: 1 });
  await t.rejects(probe.expect({ a: 2 }), /different message/);
  probe.ref.tell({ a: 3 });
  await t.rejects(probe.expectNone(), /unexpected/);
  t.same(await probe.next(), { a: 3 }, 'a missed deadline consumes nothing');
});

t.test('a message goes to the next reader that still waits', async (t) => {
  const { system } = createTestSystem();
  const probe = createProbe<number>(system);
  const early = probe.next({ timeoutMs: 1 });
  const late = probe.next();
  await t.rejects(early, ProbeError);
  probe.ref.tell(1);
  t.equal(await late, 1);
  await probe.expectNone();
});

t.test('a probe watches before and after it has started', async (t) => {
  const { system, settle } = createTestSystem();
  const probe = createProbe(system);
  const [one, two] = [system.spawn(() => () => {}), system.spawn(() => () => {})];
  probe.watch(one);
  await settle();
  probe.watch(two);
  system.stop(one);
  t.equal(await probe.nextTerminated(), one);
  system.stop(two);
  t.equal(await probe.nextTerminated(), two);
  t.same(probe.terminated, [one, two]);
});

t.test('the seeded random source repeats itself, per seed', (t) => {
  const draw = (seed: number): number[] => Array.from({ length: 1000 }, createSeededRandom(seed));
  t.same(draw(7), draw(7));
  t.notSame(draw(7), draw(8));
  t.ok(draw(1).every((value) => value >= 0 && value < 1));
  const mean = draw(3).reduce((sum, value) => sum + value, 0) / 1000;
  t.ok(mean > 0.45 && mean < 0.55);
  t.end();
});

t.test('advance moves from timer to timer and lets actors answer in between', async (t) => {
  const { system, clock, advance } = createTestSystem({ seed: 5 });
  const seen: number[] = [];
  system.spawn<string>((context) => {
    context.timers.once('tick', 10, 'tick');
    return () => {
      seen.push(clock.now());
      if (seen.length < 3) context.timers.once('tick', 10, 'tick');
    };
  });
  await advance(100);
  t.same(seen, [10, 20, 30]);
  t.equal(clock.now(), 100);
});

t.test('a gate holds what arrives until it is released', async (t) => {
  const gate = holdGate();
  let through = false;
  const held = gate.wait().then(() => (through = true));
  await gate.arrived;
  t.notOk(through);
  gate.release();
  await held;
  t.ok(through);
  await gate.wait();
});
