// Pages of the whole gateway: the actor all threads ask, what it works with, and its numbers. Lives in the control plane.

import { type Ref, type System, systemClock } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import { createCleaningPool } from './cleaning-pool.ts';
import { createDownloader } from './download.ts';
import { pages, type PagesCommand, type Tools } from './pages.ts';
import type { Log } from '../telemetry/log.ts';
import { type MetricsSnapshot, PageMetrics } from '../telemetry/metrics.ts';

/** Requests that may wait for the actor: far more than clients there are. */
const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;

export class PageService {
  readonly ref: Ref<PagesCommand>;
  readonly #metrics = new PageMetrics();
  #tools: Tools | null = null;
  #settings: Settings['fetch'];

  constructor(system: System, settings: Settings['fetch'], log: Log) {
    this.#settings = settings;
    const behavior = pages({
      settings,
      open: (inForce) => {
        this.#tools = {
          downloader: createDownloader(inForce, { clock: systemClock }),
          pool: createCleaningPool(inForce),
        };
        return this.#tools;
      },
      onOutcome: (outcome, elapsedMs) => this.#metrics.page(outcome, elapsedMs),
      onDefect: (error) => log.error({ err: error }, 'a page could not be read'),
    });
    this.ref = system.spawn(behavior, { name: 'pages', mailbox: MAILBOX });
  }

  configure(settings: Settings['fetch']): void {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    this.#settings = settings;
    this.ref.tell({ type: 'Configure', settings });
  }

  metrics(): MetricsSnapshot {
    if (this.#tools !== null) this.#metrics.cleaners(this.#tools.pool.stats());
    return this.#metrics.snapshot();
  }
}
