// A server on a manual clock for tests of runs: one request after the other, each so long, with pauses in which it does
// nothing. No sockets. It notes when requests came.

import type { ManualClock } from '../../src/actor/clock.ts';
import type { LoadResponse, Sender } from '../../src/load/load-client.ts';
import type { LoadRequest } from '../../src/load/load-request.ts';
export interface ServerSettings {
  /** How long a request takes. */
  readonly serviceMs: number;
  /** Requests under way at a time; default 1. */
  readonly workers?: number;
  /** A stretch in which nothing is begun or ended. */
  readonly stall?: { readonly fromMs: number; readonly toMs: number };
  /** Default: every request goes well. */
  readonly outcome?: (index: number) => string;
}

export class SimulatedServer implements Sender {
  readonly requests: { readonly atMs: number; readonly body: Record<string, unknown> }[] = [];
  closed = false;
  readonly #clock: ManualClock;
  readonly #settings: ServerSettings;
  readonly #freeMs: number[];
  readonly #live = new Set<(outcome: string) => void>();

  constructor(clock: ManualClock, settings: ServerSettings) {
    this.#clock = clock;
    this.#settings = settings;
    this.#freeMs = new Array<number>(settings.workers ?? 1).fill(0);
  }

  send(request: LoadRequest, _: boolean, done: (answer: LoadResponse) => void): void {
    const sentMs = this.#clock.now();
    const index = this.requests.push({ atMs: sentMs, body: JSON.parse(request.body.toString()) }) - 1;
    const { serviceMs, stall, outcome = () => 'ok' } = this.#settings;
    const worker = this.#freeMs.indexOf(Math.min(...this.#freeMs));
    let endMs = Math.max(sentMs, this.#freeMs[worker]!) + serviceMs;
    // What would end in the pause takes longer by all of it.
    if (stall !== undefined && endMs > stall.fromMs && endMs - serviceMs < stall.toMs) {
      endMs += stall.toMs - Math.max(stall.fromMs, endMs - serviceMs);
    }
    this.#freeMs[worker] = endMs;
    const end = (outcome: string): void => {
      if (!this.#live.delete(end)) return;
      const atMs = this.#clock.now();
      done({
        ...{ status: 200, outcome, sentMs, headMs: atMs, firstEventMs: atMs, textMs: [atMs], endedMs: atMs },
        ...{ bytes: 10, text: `answer ${index}`, serverTimings: undefined },
        ...{ promptTokens: 4, cachedTokens: 0, outputTokens: 1 },
      });
    };
    this.#live.add(end);
    this.#clock.setTimeout(() => end(outcome(index)), endMs - sentMs);
  }

  close(): void {
    this.closed = true;
    for (const end of this.#live) end('cut');
  }
}
