// A link to a real engine, with its events as promises. For tests of the connection.

import type { Test } from 'tap';
import { systemClock, systemRandom } from '../../src/actor/index.ts';
import { type ClusterEvent, type ClusterObserver, ClusterService } from '../../src/cluster/index.ts';

export interface RealLink {
  readonly link: ClusterService;
  /** What was counted of messages: `in keys ok`. */
  readonly counted: string[];
  /** Resolves with the next event of a type, or one that came before and was not waited for. */
  readonly next: (type: ClusterEvent['type']) => Promise<ClusterEvent>;
  readonly nextProblem: () => Promise<string>;
  /** Resolves when a message has been counted so. */
  readonly whenCounted: (what: string) => Promise<void>;
}

/** Opens a link that closes at the end of the test. */
export function openLink(t: Pick<Test, 'teardown'>, name: string, url: string): RealLink {
  const events: ClusterEvent[] = [];
  const problems: string[] = [];
  const counted: string[] = [];
  let changed = Promise.withResolvers<void>();
  const wake = (): void => {
    changed.resolve();
    changed = Promise.withResolvers();
  };
  const observer: ClusterObserver = {
    message: (topic, direction, result) => {
      counted.push(`${direction} ${topic} ${result}`);
      wake();
    },
    command: () => undefined,
    answered: () => undefined,
    badMessage: () => undefined,
    event: () => undefined,
    notConnected: (reason) => {
      problems.push(reason);
      wake();
    },
  };
  const link = new ClusterService({
    clock: systemClock,
    random: systemRandom,
    observer,
    report: () => ({
      ...{ name, version: '1.2.3', address: `${name}:8080`, stage: 'ready' },
      ...{ uptimeMs: 5, inFlight: 3, requestsPerS: 1.5 },
    }),
  });
  link.onChange((event) => {
    events.push(event);
    wake();
  });
  link.configure({ url, name: 'test' });
  t.teardown(() => link.close());
  return {
    link,
    counted,
    async next(type) {
      for (;;) {
        const index = events.findIndex((event) => event.type === type);
        if (index !== -1) return events.splice(0, index + 1).at(-1) as ClusterEvent;
        await changed.promise;
      }
    },
    async nextProblem() {
      while (problems.length === 0) await changed.promise;
      return problems.shift() as string;
    },
    async whenCounted(what) {
      while (!counted.includes(what)) await changed.promise;
    },
  };
}
