// Links of several gateways in one process, over an engine in memory, on a manual clock: messages with lag and loss, and cuts.
// The links are real ones; only the engine is not.

import { createManualClock, createSeededRandom, type ManualClock } from '../../src/actor/index.ts';
import { ClusterError, type ClusterObserver, ClusterService, type CommandArgument } from '../../src/cluster/index.ts';
import type { EngineConnector } from '../../src/cluster/connection.ts';
import { advance } from './advance.ts';

export interface FakeClusterOptions {
  readonly clock?: ManualClock;
  readonly seed?: number;
  /** Answers to commands other than PING and PUBLISH; an `Error` that it throws is an error of the engine. Default: all are refused. */
  readonly answer?: (args: readonly CommandArgument[]) => unknown;
}

export interface FakeLink extends ClusterService {
  /** Everything that was counted: `in placements ok`. */
  readonly counted: string[];
  /** Errors of handlers. */
  readonly badMessages: unknown[];
}

interface Subscriber {
  readonly channels: readonly string[];
  readonly take: (message: Buffer) => void;
}

export interface FakeCluster {
  readonly clock: ManualClock;
  /** Time from a command to the engine and, again, of an answer or a message from it. Default 0. */
  lagMs: number;
  /** Share of the messages that do not arrive. Commands always do. Default 0. */
  loss: number;
  /** Opens a link that is connected after the next `advance`. */
  link(name?: string): FakeLink;
  /** The engine ends: connections break at once, and cannot be opened until `start`. */
  stop(): void;
  start(): void;
  /** Packets of a link are dropped, or are not any more: it learns nothing but by its own deadlines. */
  cut(link: ClusterService, isCut?: boolean): void;
  /** Puts a message on a channel as a stranger may; the channel without `{name}:`. */
  inject(channel: string, message: Buffer): void;
  /** Advances the clock; promises settle between any two timers. */
  advance(ms: number): Promise<void>;
}

const NAME = 'test';

export function createFakeCluster(options: FakeClusterOptions = {}): FakeCluster {
  const clock = options.clock ?? createManualClock(1000);
  const random = createSeededRandom(options.seed ?? 1);
  const subscribers = new Set<Subscriber>();
  const breakers = new Set<() => void>();
  const cut = new Set<string>();
  let running = true;
  let links = 0;

  const publish = (channel: string, message: Buffer): number => {
    let receivers = 0;
    for (const { channels, take } of subscribers) {
      if (!channels.includes(channel)) continue;
      receivers++;
      if (cluster.loss === 0 || random() >= cluster.loss) take(message);
    }
    return receivers;
  };

  const answer = (args: readonly CommandArgument[]): unknown => {
    const [command, channel, message] = args;
    if (command === 'PING') return 'PONG';
    if (command === 'PUBLISH') return publish(String(channel), message as Buffer);
    if (options.answer === undefined) throw new Error(`ERR unknown command '${String(command)}'`);
    return options.answer(args);
  };

  /** Runs `act` after the lag unless the link is cut then. In order for each link, as TCP has it. */
  const later = (instance: string, act: () => void): void => {
    clock.setTimeout(() => {
      if (!cut.has(instance)) act();
    }, cluster.lagMs);
  };

  const connector =
    (instance: string): EngineConnector =>
    (target) =>
      new Promise((resolve, reject) => {
        if (!running) {
          reject(new Error('connect ECONNREFUSED'));
          return;
        }
        clock.setTimeout(() => reject(new Error('no answer in time')), target.timeoutMs);
        let open = true;
        const waiting = new Set<(error: Error) => void>();
        const subscriber: Subscriber = {
          channels: target.channels,
          take: (message) =>
            later(instance, () => {
              if (open) target.onMessage(Buffer.from(message));
            }),
        };
        const close = (): void => {
          if (!open) return;
          open = false;
          subscribers.delete(subscriber);
          breakers.delete(breakOff);
          for (const fail of waiting) fail(new ClusterError('away', 'the engine is away'));
        };
        const breakOff = (): void => {
          close();
          target.onLost('Socket closed unexpectedly');
        };
        const send = (args: readonly CommandArgument[]): Promise<unknown> =>
          new Promise((done, fail) => {
            waiting.add(fail);
            later(instance, () => {
              if (!open) return;
              let settle: () => void;
              try {
                const result = answer(args);
                settle = () => done(result);
              } catch (error) {
                const { message } = error as Error;
                settle = () => fail(new ClusterError('refused', message, /^[A-Z]+/.exec(message)?.[0]));
              }
              later(instance, () => {
                waiting.delete(fail);
                settle();
              });
            });
          });
        later(instance, () => {
          subscribers.add(subscriber);
          breakers.add(breakOff);
          resolve({ send, close });
        });
      });

  const cluster: FakeCluster = {
    clock,
    lagMs: 0,
    loss: 0,
    link(name = `gateway-${links + 1}`) {
      const instance = (++links).toString(16).padStart(16, '0');
      const counted: string[] = [];
      const badMessages: unknown[] = [];
      const observer: ClusterObserver = {
        message: (topic, direction, result) => void counted.push(`${direction} ${topic} ${result}`),
        command: () => undefined,
        answered: () => undefined,
        badMessage: (_topic, _from, error) => void badMessages.push(error),
        event: () => undefined,
        notConnected: () => undefined,
      };
      const startedMs = clock.now();
      const report = (): ReturnType<ConstructorParameters<typeof ClusterService>[0]['report']> => ({
        ...{ name, version: '0.0.0', address: `${name}:8080`, stage: 'ready' },
        ...{ uptimeMs: clock.now() - startedMs, inFlight: 0, requestsPerS: 0 },
      });
      const service = new ClusterService({ clock, random, instance, observer, report, connect: connector(instance) });
      service.configure({ url: 'redis://engine.test', name: NAME });
      return Object.assign(service, { counted, badMessages });
    },
    stop() {
      running = false;
      for (const breakOff of breakers) breakOff();
    },
    start() {
      running = true;
    },
    cut({ instance }, isCut = true) {
      if (isCut) cut.add(instance);
      else cut.delete(instance);
    },
    inject(channel, message) {
      publish(`{${NAME}}:${channel}`, message);
    },
    advance: (ms) => advance(clock, ms),
  };
  return cluster;
}
