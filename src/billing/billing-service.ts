// Billing in the control plane: starts the lease manager and the payment processor over the ledger of the setting `store`,
// loads the keys of the store and passes changes of keys and leases on to the threads. A store that does not answer at
// start is retried; keys of the configuration work meanwhile.

import { randomUUID } from 'node:crypto';
import { leaseManager, type LeaseManagerCommand, type LeaseManagerSettings } from './lease-manager.ts';
import type { KeyChange, KeyRecord } from './keys.ts';
import type { KeyLimits, Ledger, StoredKey } from './ledger/store.ts';
import type { BudgetChange, BudgetEvent } from './limits/budgets.ts';
import { LimitRegistry } from './limits/limit-registry.ts';
import { createLimitMemory, type LimitMemory } from './limits/limit-table.ts';
import { openLedger } from './ledger/ledger.ts';
import { picoPerCall, usdText } from './prices.ts';
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
  | { readonly type: 'Budgets'; readonly change: BudgetChange }
  | { readonly type: 'Trust'; readonly untilMs: number }
  | { readonly type: 'Recall'; readonly account: string };

export interface BillingServiceOptions {
  readonly system: System;
  readonly settings: Settings;
  /** Data planes: the one of this thread and those of the ingress threads. */
  readonly threads: number;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly log: Log;
  /** Passes a change on to every data plane. */
  readonly tell: (update: BillingUpdate) => void;
  /** Keys of the store have changed, or were loaded for the first time. */
  readonly onKeys: () => void;
  /** Spending has crossed a threshold of a budget; once per budget, threshold and period over all gateways. */
  readonly onBudget?: (event: BudgetEvent) => void;
}

/** A key of the configuration and its limits. */
export interface ConfiguredKey {
  readonly record: KeyRecord & { readonly id: string };
  readonly limits: KeyLimits;
}

const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;
const REOPEN_MS = 2000;
const FLUSH_TIMEOUT_MS = 10_000;

/** Interval between readings of what other gateways have spent of budgets. */
const READ_MS = 5000;

/** Interval between looks at the thresholds that threads have crossed. */
const REPORT_MS = 500;

export class BillingService {
  readonly leaseManager: Ref<LeaseManagerCommand>;
  readonly limitMemory: LimitMemory;
  /** The payment processor; null where payments are off. */
  readonly payments: Ref<PaymentCommand> | null;
  readonly #options: BillingServiceOptions;
  readonly #opened: PromiseWithResolvers<Ledger> = Promise.withResolvers();
  readonly #service: PaymentService | null;
  readonly #metrics = new LedgerMetrics();
  readonly #limits: LimitRegistry;
  readonly #keys = new Map<string, KeyRecord>();
  /** Hashes of the keys of the configuration. */
  #configured: ReadonlySet<string> = new Set();
  readonly #timers = new Set<ReturnType<Clock['setTimeout']>>();
  #ledger: Ledger | null = null;
  #loaded = false;
  #untilMs = 0;
  #closed = false;

  constructor(options: BillingServiceOptions) {
    this.#options = options;
    const { clock, epochMs, log, settings, system, tell, threads } = options;
    this.limitMemory = createLimitMemory(threads);
    this.#limits = new LimitRegistry({
      memory: this.limitMemory,
      epochMs,
      tell: (change) => tell({ type: 'Budgets', change }),
      onCrossed: (event) => void this.#alert(event),
      onFull: (kind, id) => log.error({ [kind]: id }, `too many limited ${kind}s: this one is refused`),
    });
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
      onPosted: ({ account, amount, usage }) => this.#limits.posted(account, usage.key, usage.model, amount),
      onRecall: (account) => tell({ type: 'Recall', account }),
      onProblem: (error, what) => log.error({ problem: sentenceOf(error) }, what),
    });
    this.leaseManager = system.spawn(behavior, { name: 'leaseManager', mailbox: MAILBOX });
    const dateMs = (): number => Math.floor(epochMs());
    const ledger = this.#opened.promise;
    this.#service = startPayments({ system, ledger, settings: settings.payments, clock, dateMs, log });
    this.payments = this.#service?.ref ?? null;
    this.#reportBudgets();
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
      { type: 'Budgets', change: this.#limits.budgets() },
      { type: 'Trust', untilMs: this.#untilMs },
    ];
  }

  metrics(): MetricsSnapshot {
    return this.#metrics.snapshot();
  }

  configure(settings: Settings): void {
    this.leaseManager.tell({ type: 'Configure', settings: leaseSettings(settings) });
  }

  /** The keys of the configuration with the places of their limits; those that were given before and not now are forgotten. */
  limitConfigured(keys: readonly ConfiguredKey[]): KeyRecord[] {
    const hashes = new Set(keys.map(({ record }) => record.hash));
    for (const hash of this.#configured) if (!hashes.has(hash)) this.#limits.dropKey(hash);
    this.#configured = hashes;
    return keys.map(({ limits, record }) => {
      const { account, hash, id } = record;
      const allowance = this.#limits.putKey({ hash, id, lineage: id, account, createdMs: 0, limits });
      return allowance === undefined ? record : { ...record, allowance };
    });
  }

  /** Returns what a thread has reserved of limits that has ended, before another takes its place. */
  clearLimits(thread: number): void {
    this.#limits.clearThread(thread);
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
        else if (change.kind === 'budget') void this.#refreshBudget(ledger, change.budget);
        else if (change.kind === 'all') void this.#reload(ledger);
      });
      await this.#reload(ledger);
      this.#later(READ_MS, () => void this.#readSpending(ledger));
    } catch (error) {
      this.#options.log.error({ problem: sentenceOf(error) }, 'keys could not be loaded; it is tried again');
      this.#later(REOPEN_MS, () => void this.#load(ledger));
    }
  }

  async #reload(ledger: Ledger): Promise<void> {
    const stored = await ledger.listKeys();
    const budgets = await ledger.budgets.list();
    const gone = new Set(this.#keys.keys());
    this.#keys.clear();
    for (const key of stored) if (this.#isValid(key)) this.#keys.set(key.hash, this.#recordOf(key));
    for (const hash of gone) if (!this.#keys.has(hash)) this.#limits.dropKey(hash);
    for (const budget of budgets) this.#limits.putBudget(budget);
    this.#limits.keepBudgets(new Set(budgets.map(({ id }) => id)));
    // No request is admitted with a key before it is known what was spent of its budgets.
    await this.#limits.read((query) => ledger.budgets.spending(query), true);
    this.#loaded = true;
    this.#options.tell({ type: 'Keys', change: { reset: true, put: this.keys(), drop: [] } });
    this.#options.onKeys();
  }

  async #refresh(ledger: Ledger, hash: string): Promise<void> {
    try {
      const key = await ledger.findKey(hash);
      const record = key === undefined || !this.#isValid(key) ? undefined : this.#recordOf(key);
      if (record === undefined) this.#limits.dropKey(hash);
      else await this.#limits.read((query) => ledger.budgets.spending(query), false);
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

  async #refreshBudget(ledger: Ledger, id: string): Promise<void> {
    try {
      const budget = await ledger.budgets.find(id);
      if (budget === undefined) this.#limits.dropBudget(id);
      else this.#limits.putBudget(budget);
      await this.#limits.read((query) => ledger.budgets.spending(query), false);
    } catch (error) {
      this.#options.log.error({ problem: sentenceOf(error) }, 'a budget could not be read; it is tried again');
      this.#later(REOPEN_MS, () => void this.#refreshBudget(ledger, id));
    }
  }

  #isValid({ disabledMs, expiresMs }: StoredKey): boolean {
    return disabledMs === null && (expiresMs === null || expiresMs > this.#options.epochMs());
  }

  #recordOf(key: StoredKey): KeyRecord {
    const { account, expiresMs, hash, id, lineage } = key;
    const allowance = this.#limits.putKey(key);
    return {
      hash,
      account,
      id,
      lineage,
      prepaid: true,
      ...(expiresMs !== null && { expiresMs }),
      ...(allowance !== undefined && { allowance }),
    };
  }

  /** Brings in what other gateways have spent, now and regularly; and forgets keys that have expired. */
  async #readSpending(ledger: Ledger): Promise<void> {
    const { epochMs, log, tell } = this.#options;
    try {
      await this.#limits.read((query) => ledger.budgets.spending(query), false);
    } catch (error) {
      log.warn({ problem: sentenceOf(error) }, 'spending of budgets could not be read');
    }
    const drop = this.keys().flatMap(({ expiresMs = Infinity, hash }) => (expiresMs <= epochMs() ? [hash] : []));
    for (const hash of drop) this.#keys.delete(hash);
    for (const hash of drop) this.#limits.dropKey(hash);
    if (drop.length > 0) tell({ type: 'Keys', change: { reset: false, put: [], drop } });
    this.#later(READ_MS, () => void this.#readSpending(ledger));
  }

  #reportBudgets(): void {
    this.#limits.report();
    this.#later(REPORT_MS, () => this.#reportBudgets());
  }

  async #alert(event: BudgetEvent): Promise<void> {
    const { log, onBudget } = this.#options;
    try {
      const isNew = (await this.#ledger?.budgets.noteAlert(event)) ?? true;
      if (!isNew) return;
    } catch (error) {
      log.warn(
        { problem: sentenceOf(error), budget: event.budget },
        'an alert of a budget could not be recorded; it is tried again',
      );
      this.#later(REOPEN_MS, () => void this.#alert(event));
      return;
    }
    const { account, budget, key, limit, model, period, spent, threshold } = event;
    const words = threshold === 'soft' ? 'a budget has reached its alert threshold' : 'a budget is used up';
    log.warn({ budget, account, key, model, period, spentUsd: usdText(spent), limitUsd: usdText(limit) }, words);
    this.#metrics.budgetCrossed(threshold);
    onBudget?.(event);
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
