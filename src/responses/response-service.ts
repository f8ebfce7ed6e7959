// Stored responses in the control plane: the actor over the ledger of the setting `store`, or over a database in memory where there is
// none, which is lost at the end of the process.

import { randomUUID } from 'node:crypto';
import { ask, type Clock, type Ref, type System } from '../actor/index.ts';
import type { Ledger } from '../billing/index.ts';
import { openLedger } from '../billing/main-thread.ts';
import type { Settings } from '../config/settings.ts';
import { messageOf } from '../errors.ts';
import type { Log } from '../telemetry/log.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { ResponseMetrics } from '../telemetry/response-metrics.ts';
import {
  createResponseMemory,
  responseStore,
  type ResponseStoreCommand,
  type ResponseStoreSettings,
} from './response-store.ts';

export interface ResponseServiceOptions {
  readonly system: System;
  readonly settings: Settings;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly log: Log;
  /** The ledger of the setting `store`, once it is open. */
  readonly ledger: () => Ledger | null;
}

const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;

/** A shutdown waits so long for a store that does not answer. */
const FLUSH_MS = 5000;

export class ResponseService {
  readonly ref: Ref<ResponseStoreCommand>;
  readonly memory: SharedArrayBuffer = createResponseMemory();
  readonly #options: ResponseServiceOptions;
  readonly #metrics = new ResponseMetrics();
  /** In memory; null where the setting `store` has a ledger, and before it is needed. */
  #own: Promise<Ledger | null> | null = null;
  #opened: Ledger | null = null;
  #closed = false;

  constructor(options: ResponseServiceOptions) {
    const { log, settings, system } = options;
    this.#options = options;
    const behavior = responseStore({
      ledger: () => (settings.store === null ? this.#opened : options.ledger()),
      memory: this.memory,
      holder: randomUUID(),
      settings: storeSettings(settings),
      isShared: settings.store !== null && settings.store !== 'sqlite::memory:',
      metrics: this.#metrics,
      onProblem: (error, what) => log.error({ problem: messageOf(error) }, what),
      onOver: (what) => log.info(what),
    });
    this.ref = system.spawn(behavior, { name: 'responses', mailbox: MAILBOX });
    this.#open(settings);
  }

  configure(settings: Settings): void {
    this.ref.tell({ type: 'Configure', settings: storeSettings(settings) });
    this.#open(settings);
  }

  /** Fails what an ingress thread ran in the background that has ended. */
  threadGone(thread: number): void {
    this.ref.tell({ type: 'ThreadGone', thread });
  }

  metrics(): MetricsSnapshot {
    return this.#metrics.snapshot();
  }

  /** Writes what waits. To be called before the ledger is closed. */
  async close(): Promise<void> {
    this.#closed = true;
    const flush = (replyTo: Ref<'flushed'>): ResponseStoreCommand => ({ type: 'Flush', replyTo });
    await ask(this.ref, flush, { timeoutMs: FLUSH_MS }).catch((error: unknown) =>
      this.#options.log.error({ err: error }, 'responses are not stored'),
    );
    this.#options.system.stop(this.ref);
    await (await this.#own)?.close();
  }

  #open({ responses, store }: Settings): void {
    if (!responses.store || store !== null || this.#own !== null || this.#closed) return;
    const { clock, epochMs, log } = this.#options;
    this.#own = openLedger(':memory:', { clock, dateMs: epochMs }).then(
      (ledger) => (this.#opened = ledger),
      (error: unknown) => {
        log.error({ problem: messageOf(error) }, 'responses cannot be stored');
        return null;
      },
    );
  }
}

function storeSettings({ responses }: Settings): ResponseStoreSettings {
  const { accountBytes, background, backgroundPerAccount, ttlMs } = responses;
  return { accountBytes, background, backgroundPerAccount, ttlMs };
}
