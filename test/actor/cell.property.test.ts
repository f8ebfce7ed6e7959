// Under any interleaving of messages, crashes, back-offs and stops: every message is handled once, or was the one that
// crashed its actor, or is a dead letter; and what one sender told arrives in the order it was told.

import fc from 'fast-check';
import t from 'tap';
import type { Directive } from '../../src/actor/supervision.ts';
import { createTestSystem } from '../../src/actor/testkit.ts';

interface Numbered {
  sender: number;
  sequence: number;
  crash: boolean;
}

const SENDERS = 3;
const TARGETS = 3;

const step = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({ kind: fc.constant('tell'), sender: fc.nat(SENDERS - 1), target: fc.nat(TARGETS - 1) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('crash'), sender: fc.nat(SENDERS - 1), target: fc.nat(TARGETS - 1) }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('settle') }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('advance'), ms: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('stop'), target: fc.nat(TARGETS - 1) }) },
);

const setting = fc.record({
  directive: fc.constantFrom<Directive>('restart', 'resume'),
  backoffMs: fc.constantFrom(0, 20),
  capacity: fc.constantFrom(4, 1000),
  overflow: fc.constantFrom('drop-new' as const, 'drop-old' as const),
});

t.test('no message is lost or reordered by crashes, restarts and stops', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 150 }),
      fc.array(setting, { minLength: TARGETS, maxLength: TARGETS }),
      async (steps, settings) => {
        const { system, clock, events, settle, advance } = createTestSystem();
        const handled: Numbered[][] = settings.map(() => []);
        const crashes: Numbered[][] = settings.map(() => []);
        const targets = settings.map(({ directive, backoffMs, capacity, overflow }, index) =>
          system.spawn<Numbered>(
            (context) => {
              context.spawn<Numbered>(() => () => {});
              return (message) => {
                if (message.crash) {
                  crashes[index]?.push(message);
                  throw new Error('crash');
                }
                handled[index]?.push(message);
              };
            },
            {
              name: `t${index}`,
              mailbox: { capacity, overflow },
              supervise: {
                onFailure: directive,
                maxRestarts: Infinity,
                ...(backoffMs > 0 ? { backoff: { minMs: backoffMs, maxMs: 100 } } : {}),
              },
            },
          ),
        );
        const senders = Array.from({ length: SENDERS }, () =>
          system.spawn<{ target: number; message: Numbered }>(
            () =>
              ({ target, message }) =>
                targets[target]?.tell(message),
          ),
        );
        let sequence = 0;
        for (const action of steps) {
          if (action.kind === 'settle') await settle();
          else if (action.kind === 'advance' && 'ms' in action) clock.advance(action.ms);
          else if (action.kind === 'stop' && 'target' in action) system.stop(targets[action.target] as never);
          else if ('sender' in action) {
            const { sender, target, kind } = action;
            senders[sender]?.tell({ target, message: { sender, sequence: sequence++, crash: kind === 'crash' } });
          }
        }
        await advance(100 * (sequence + 1));
        const dead = events.filter((event) => event.type === 'dead-letter').length;
        const seen = [...handled, ...crashes].flat();
        if (seen.length + dead !== sequence) return false;
        if (new Set(seen.map((message) => message.sequence)).size !== seen.length) return false;
        if (system.stats().deadLetters !== dead || system.stats().deepestMailbox !== 0) return false;
        for (const list of [...handled, ...crashes]) {
          for (let sender = 0; sender < SENDERS; sender++) {
            const own = list.filter((message) => message.sender === sender).map((message) => message.sequence);
            if (own.some((value, index) => index > 0 && value < (own[index - 1] as number))) return false;
          }
        }
        await system.terminate();
        return system.stats().actors === 0 && clock.nextDueMs === Infinity;
      },
    ),
    { numRuns: 300 },
  );
});
