// Runs one source of servers on a manual clock and collects what it reports.

import { EventEmitter, once } from 'node:events';
import type { System } from '../../src/actor/index.ts';
import { createTestSystem, type TestSystem } from '../../src/actor/testkit.ts';
import type { SourceDeps } from '../../src/discovery/source.ts';
import type { FoundModels, ServerDetails } from '../../src/routing/index.ts';

interface Scope {
  teardown(end: () => unknown): void;
}

/** Waits between tries are shorter, and the times of watches and of idle connections longer. */
const SOON_MS = 5000;

export class SourceRun {
  readonly test: TestSystem = createTestSystem();
  /** Reports that have not been taken: models, or a problem; an answer with a problem is both. */
  readonly reports: (FoundModels | string)[] = [];
  models: FoundModels = new Map();
  notes: readonly string[] = [];
  readonly #events = new EventEmitter();

  constructor(t: Scope, start: (system: System, deps: SourceDeps) => void) {
    start(this.test.system, {
      onAnswer: (models, notes, problem = null) => {
        this.models = models;
        this.notes = notes;
        this.#note(models);
        if (problem !== null) this.#note(problem);
      },
      onFailure: (problem) => this.#note(problem),
    });
    t.teardown(() => this.test.system.terminate());
  }

  /** The next report: the models that were found, as a list of URLs, or the problem. */
  async next(): Promise<readonly string[] | string> {
    while (this.reports.length === 0) await once(this.#events, 'report');
    const report = this.reports.shift();
    return typeof report === 'object' ? urlsIn(report) : String(report);
  }

  /**
   * Waits until a report is this list of servers, or a problem that matches. Lets the clock run to timers that are due soon, since what
   * comes over the network comes between its turns.
   */
  async reach(expected: readonly string[] | RegExp): Promise<void> {
    for (;;) {
      const report = this.reports.shift();
      if (report === undefined) {
        await new Promise((resolve) => void setImmediate(resolve));
        const { clock } = this.test;
        if (this.reports.length === 0 && clock.nextDueMs - clock.now() <= SOON_MS) await this.turn();
      } else if (typeof report === 'string') {
        if (expected instanceof RegExp && expected.test(report)) return;
      } else if (!(expected instanceof RegExp) && String(urlsIn(report)) === String(expected)) {
        return;
      }
    }
  }

  servers(model: string): readonly ServerDetails[] {
    return this.models.get(model)?.servers ?? [];
  }

  get urls(): readonly string[] {
    return urlsIn(this.models);
  }

  /** Moves the clock to the next timer. */
  async turn(): Promise<number> {
    const { clock, settle } = this.test;
    const delayMs = clock.nextDueMs - clock.now();
    clock.advance(delayMs);
    await settle();
    return delayMs;
  }

  #note(report: FoundModels | string): void {
    this.reports.push(report);
    this.#events.emit('report');
  }
}

function urlsIn(models: FoundModels): string[] {
  return [...models].flatMap(([id, { servers }]) => servers.map(({ url }) => `${id} ${url}`));
}
