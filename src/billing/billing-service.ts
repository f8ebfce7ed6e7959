// Billing in the control plane: starts the lease manager and the payment processor over the ledger of the setting `store`,
// loads the keys of the store and passes changes of keys and leases on to the threads. A store that does not answer at
// start is retried; keys of the configuration work meanwhile.

import { randomUUID } from 'node:crypto';
import { leaseManager, type LeaseManagerCommand, type LeaseManagerSettings } from './lease-manager.ts';
import { createLimitMemory, type KeyAllowance, KeyLimiter, MAX_LIMITED_KEYS } from './key-limiter.ts';
import type { KeyChange, KeyRecord } from './keys.ts';
import type { Ledger, StoredKey } from './ledger/store.ts';
import { openLedger } from './ledger/ledger.ts';
import { picoPerCall } from './prices.ts';
import { ask, type Clock, type Ref, type System } from '../actor/index.ts';
import type { Settings } from '../config/settings.ts';
import type { Log } from '../telemetry/log.ts';
import { LedgerMetrics } from '../telemetry/ledger-metrics.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import type { PaymentCommand } from './payments/payment-processor.ts';
import { type PaymentService, startPayments } from './payments/payment-service.ts';

/** A change that every data plane applies. */
export type BillingUpdate =
  | { readonly type: 'Keys'; readonly change: KeyChange }
  | { readonly type: 'Trust'; readonly untilMs: number }
  | { readonly type: 'Recall'; readonly account: string };

export interface BillingServiceOptions {
  readonly system: System;
  readonly settings: Settings;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly log: Log;
  /** Passes a change on to every data plane. */
  readonly tell: (update: BillingUpdate) => void;
  /** Keys of the store have changed, or were loaded for the first time. */
  readonly onKeys: () => void;
}

const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;
const REOPEN_MS = 2000;
const FLUSH_TIMEOUT_MS = 10_000;

/** Interval between readings of monthly spending: other gateways spend too. */
const SYNC_MS = 30_000;

/** Largest monthly limit that is exact as a number. */
const MAX_SPEND = Number.MAX_SAFE_INTEGER;

export class BillingService {
  readonly leaseManager: Ref<LeaseManagerCommand>;
  readonly limitMemory: SharedArrayBuffer = createLimitMemory();
  /** The payment processor; null where payments are off. */
  readonly payments: Ref<PaymentCommand> | null;
  readonly #options: BillingServiceOptions;
  readonly #opened: PromiseWithResolvers<Ledger> = Promise.withResolvers();
  readonly #service: PaymentService | null;
  readonly #metrics = new LedgerMetrics();
  readonly #limits = new KeyLimiter(this.limitMemory);
  readonly #keys = new Map<string, KeyRecord>();
  /** Cells of limited keys, by key id. */
  readonly #cells = new Map<string, number>();
  readonly #timers = new Set<ReturnType<Clock['setTimeout']>>();
  #ledger: Ledger | null = null;
  #loaded = false;
  #untilMs = 0;
  #closed = false;

  constructor(options: BillingServiceOptions) {
    this.#options = options;
    const { clock, epochMs, log, settings, system, tell } = options;
    const behavior = leaseManager({
      openLedger: () => this.#openLedger(),
      settings: leaseSettings(settings),
      instance: randomUUID(),
      epochMs,
      metrics: this.#metrics,
      onOpen: (ledger) => void this.#load(ledger),
      onRenewed: (untilMs) => {
        this.#untilMs = untilMs;
        tell({ type: 'Trust', untilMs });
      },
      onRecall: (account) => tell({ type: 'Recall', account }),
      onProblem: (error, what) => log.error({ problem: sentenceOf(error) }, what),
    });
    this.leaseManager = system.spawn(behavior, { name: 'leaseManager', mailbox: MAILBOX });
    const dateMs = (): number => Math.floor(epochMs());
    const ledger = this.#opened.promise;
    this.#service = startPayments({ system, ledger, settings: settings.payments, clock, dateMs, log });
    this.payments = this.#service?.ref ?? null;
  }

  /** Whether the keys of the store were loaded. */
  get loaded(): boolean {
    return this.#loaded;
  }

  /** The ledger, once it is open. */
  get ledger(): Ledger | null {
    return this.#ledger;
  }

  /** The valid keys of the store. */
  keys(): KeyRecord[] {
    return [...this.#keys.values()];
  }

  /** The updates that bring a new data plane up to date. */
  updates(): BillingUpdate[] {
    return [
      { type: 'Keys', change: { reset: true, put: this.keys(), drop: [] } },
      { type: 'Trust', untilMs: this.#untilMs },
    ];
  }

  metrics(): MetricsSnapshot {
    return this.#metrics.snapshot();
  }

  configure(settings: Settings): void {
    this.leaseManager.tell({ type: 'Configure', settings: leaseSettings(settings) });
  }

  threadGone(thread: string): void {
    this.leaseManager.tell({ type: 'ThreadGone', thread });
  }

  /** Posts the charges that threads have reported, and closes the ledger. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#timers) this.#options.clock.clearTimeout(timer);
    this.#opened.promise.catch(() => undefined);
    if (this.#ledger === null) this.#opened.reject(new Error('the gateway has closed'));
    await this.#service?.close();
    const flushed = ask<LeaseManagerCommand, 'flushed'>(this.leaseManager, (replyTo) => ({ type: 'Flush', replyTo }), {
      timeoutMs: FLUSH_TIMEOUT_MS,
    });
    await flushed.catch((error: unknown) => this.#options.log.error({ err: error }, 'charges may be lost'));
    await this.#ledger?.close();
  }

  async #openLedger(): Promise<Ledger> {
    // A lease manager that was restarted finds the ledger open.
    if (this.#ledger !== null) return this.#ledger;
    const { clock, epochMs, settings } = this.#options;
    const metrics = this.#metrics;
    const ledger = await openLedger(settings.store ?? ':memory:', { clock, dateMs: epochMs, metrics });
    if (this.#closed) {
      await ledger.close();
      throw new Error('the gateway has closed');
    }
    this.#ledger = ledger;
    this.#opened.resolve(ledger);
    return ledger;
  }

  async #load(ledger: Ledger): Promise<void> {
    if (this.#closed) return;
    try {
      await ledger.watch((change) => {
        if (change.kind === 'key') void this.#refresh(ledger, change.hash);
        else if (change.kind === 'all') void this.#reload(ledger);
      });
      await this.#reload(ledger);
      this.#syncLimits(ledger);
    } catch (error) {
      this.#options.log.error({ problem: sentenceOf(error) }, 'keys could not be loaded; it is tried again');
      this.#later(REOPEN_MS, () => void this.#load(ledger));
    }
  }

  async #reload(ledger: Ledger): Promise<void> {
    const stored = await ledger.listKeys();
    this.#keys.clear();
    for (const key of stored) if (key.disabledMs === null) this.#keys.set(key.hash, this.#recordOf(key));
    this.#loaded = true;
    this.#options.tell({ type: 'Keys', change: { reset: true, put: this.keys(), drop: [] } });
    this.#options.onKeys();
  }

  async #refresh(ledger: Ledger, hash: string): Promise<void> {
    try {
      const key = await ledger.findKey(hash);
      const record = key === undefined || key.disabledMs !== null ? undefined : this.#recordOf(key);
      if (record === undefined) this.#keys.delete(hash);
      else this.#keys.set(hash, record);
      const change = {
        reset: false,
        put: record === undefined ? [] : [record],
        drop: record === undefined ? [hash] : [],
      };
      this.#options.tell({ type: 'Keys', change });
      this.#options.onKeys();
    } catch (error) {
      this.#options.log.error({ problem: sentenceOf(error) }, 'a key could not be read; it is tried again');
      this.#later(REOPEN_MS, () => void this.#refresh(ledger, hash));
    }
  }

  #recordOf({ account, expiresMs, hash, id, limits }: StoredKey): KeyRecord {
    const { monthlySpend, requestsPerMinute, tokensPerMinute } = limits;
    const isLimited = monthlySpend !== undefined || requestsPerMinute !== undefined || tokensPerMinute !== undefined;
    const cell = isLimited ? this.#cellOf(id) : undefined;
    const allowance: KeyAllowance | undefined =
      cell === undefined
        ? undefined
        : {
            cell,
            requestsPerMinute,
            tokensPerMinute,
            monthlySpend: monthlySpend === undefined ? undefined : Math.min(Number(monthlySpend), MAX_SPEND),
          };
    return {
      hash,
      account,
      id,
      prepaid: true,
      ...(expiresMs !== null && { expiresMs }),
      ...(allowance !== undefined && { allowance }),
    };
  }

  #cellOf(id: string): number | undefined {
    const known = this.#cells.get(id);
    if (known !== undefined) return known;
    if (this.#cells.size >= MAX_LIMITED_KEYS) {
      this.#options.log.error({ key: id, most: MAX_LIMITED_KEYS }, 'too many keys with limits: this one has none');
      return undefined;
    }
    this.#cells.set(id, this.#cells.size);
    return this.#cells.size - 1;
  }

  /** Brings this month's spending of limited keys up to date, now and regularly. */
  #syncLimits(ledger: Ledger): void {
    const { epochMs, log } = this.#options;
    this.#later(SYNC_MS, () => this.#syncLimits(ledger));
    const limited = this.keys().filter(({ allowance }) => allowance?.monthlySpend !== undefined);
    if (limited.length === 0) return;
    const fromDay = `${new Date(epochMs()).toISOString().slice(0, 8)}01`;
    ledger.usage({ fromDay, by: ['key'] }).then(
      (rows) => {
        const spent = new Map(rows.map((row) => [row.key, Number(row.amount)]));
        for (const { allowance, id } of limited) {
          if (allowance !== undefined) this.#limits.sync(allowance.cell, spent.get(id) ?? 0, epochMs());
        }
      },
      (error: unknown) => log.warn({ problem: sentenceOf(error) }, 'spending of this month could not be read'),
    );
  }

  #later(delayMs: number, run: () => void): void {
    if (this.#closed) return;
    const timer = this.#options.clock.setTimeout(() => {
      this.#timers.delete(timer);
      run();
    }, delayMs);
    this.#timers.add(timer);
  }
}

function leaseSettings({ credit }: Settings): LeaseManagerSettings {
  return { leasePico: picoPerCall(credit.lease), leaseTtlMs: credit.leaseTtlMs };
}

function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
