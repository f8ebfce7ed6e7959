// Under any interleaving of messages, crashes, back-offs and stops: every message is handled once, or was the one that
// crashed its actor, or is a dead letter; and what one sender told arrives in the order it was told.

import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import t from 'tap';
import type { Behavior, SpawnOptions } from '../../src/actor/behavior.ts';
import type { Overflow } from '../../src/actor/mailbox.ts';
import type { Ref } from '../../src/actor/ref.ts';
import type { Directive } from '../../src/actor/supervision.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';
import type { TestSystem } from '../../src/actor/testkit.ts';

interface Numbered {
  sender: number;
  sequence: number;
  crash: boolean;
}

const SENDERS = 3;
const TARGETS = 3;

const sender = fc.nat(SENDERS - 1);
const target = fc.nat(TARGETS - 1);
const step = fc.oneof(
  { weight: 20, arbitrary: fc.record({ kind: fc.constant('tell' as const), sender, target }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('crash' as const), sender, target }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('settle' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('advance' as const), ms: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('stop' as const), target }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

const setting = fc.record({
  onFailure: fc.constantFrom<Directive[]>('restart', 'resume'),
  backoffMs: fc.constantFrom(0, 20),
  capacity: fc.constantFrom(4, 1000),
  overflow: fc.constantFrom<Overflow[]>('drop-new', 'drop-old'),
});
type Setting = typeof setting extends fc.Arbitrary<infer S> ? S : never;

/** What an actor did with its messages, over all its incarnations. */
interface Fate {
  readonly handled: Numbered[];
  readonly crashed: Numbered[];
}

function recorder({ handled, crashed }: Fate): Behavior<Numbered> {
  return (context) => {
    context.spawn<Numbered>(() => () => {});
    return (message) => {
      (message.crash ? crashed : handled).push(message);
      if (message.crash) throw new Error('crash');
    };
  };
}

function optionsOf({ onFailure, backoffMs, capacity, overflow }: Setting): SpawnOptions {
  const backoff = { minMs: backoffMs, maxMs: 100 };
  return { mailbox: { capacity, overflow }, supervise: { onFailure, maxRestarts: Infinity, backoff } };
}

/** Plays the steps; returns how many messages were told. */
async function play(kit: TestSystem, targets: Ref<Numbered>[], steps: Step[]): Promise<number> {
  const { system, clock, settle, advance } = kit;
  const senders = Array.from({ length: SENDERS }, () =>
    system.spawn<[Ref<Numbered>, Numbered]>(
      () =>
        ([to, message]) =>
          to.tell(message),
    ),
  );
  let told = 0;
  for (const action of steps) {
    if (action.kind === 'settle') await settle();
    else if (action.kind === 'advance') clock.advance(action.ms);
    else if (action.kind === 'stop') system.stop(targets[action.target] as Ref<never>);
    else {
      const message = { sender: action.sender, sequence: told++, crash: action.kind === 'crash' };
      senders[action.sender]?.tell([targets[action.target] as Ref<Numbered>, message]);
    }
  }
  await advance(100 * (told + 1));
  return told;
}

function isOrderedPerSender(messages: Numbered[]): boolean {
  const last = new Map<number, number>();
  return messages.every((message) => {
    const previous = last.get(message.sender) ?? -1;
    last.set(message.sender, message.sequence);
    return previous < message.sequence;
  });
}

t.test('no message is lost or reordered by crashes, restarts and stops', async () => {
  const settings = fc.array(setting, { minLength: TARGETS, maxLength: TARGETS });
  const property = fc.asyncProperty(
    fc.array(step, { maxLength: 200, size: 'max' }),
    settings,
    async (steps, chosen) => {
      const kit = createTestSystem();
      const records = chosen.map((): Fate => ({ handled: [], crashed: [] }));
      const targets = records.map((record, index) =>
        kit.system.spawn(recorder(record), optionsOf(chosen[index] as Setting)),
      );
      const told = await play(kit, targets, steps);
      const seen = records.flatMap(({ handled, crashed }) => [...handled, ...crashed]);
      const dead = kit.events.filter((event) => event.type === 'dead-letter').length;
      const failures = kit.events.filter((event) => event.type === 'failure').length;
      assert.equal(seen.length + dead, told, 'every message has one fate');
      assert.equal(new Set(seen.map((message) => message.sequence)).size, seen.length, 'none is handled twice');
      assert.equal(failures, records.flatMap(({ crashed }) => crashed).length, 'every crash is reported');
      assert.ok(records.every(({ handled }) => isOrderedPerSender(handled)));
      await kit.system.terminate();
      assert.equal(kit.system.stats().actors, 0);
      assert.equal(kit.clock.nextDueMs, Infinity, 'no timer is left');
    },
  );
  await fc.assert(property, { numRuns: 300 });
});
