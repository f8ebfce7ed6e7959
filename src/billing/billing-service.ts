// Billing in the control plane: starts the lease manager and the payment processor over the ledger of the setting `store`,
// loads the keys of the store and passes changes of keys and leases on to the threads. A store that does not answer at
// start is retried; keys of the configuration work meanwhile.

import { existsSync } from 'node:fs';
import { storeFile, storeName } from '../config/store-url.ts';
import { randomUUID } from 'node:crypto';
import { leaseManager, type LeaseManagerCommand, type LeaseManagerSettings } from './lease-manager.ts';
import { createLeaseMemory } from './lease-table.ts';
import { accountReader, type AccountReaderCommand } from './account-reader.ts';
import { costLog, type CostLogCommand, type CostLogSettings } from './cost-log.ts';
import type { ReportedCharge } from './unposted-charges.ts';
import type { KeyChange, KeyRecord } from './keys.ts';
import type { Change, KeyLimits, Ledger, StoredKey } from './ledger/ledger.ts';
import type { NewWebhookEvent } from './ledger/webhook-records.ts';
import type { BudgetChange, BudgetEvent } from './limits/budgets.ts';
import { LimitRegistry } from './limits/limit-registry.ts';
import { createLimitMemory, type LimitMemory, LimitTable } from './limits/limit-table.ts';
import { type SliceCommand, SliceManager } from './limits/slice-manager.ts';
import { openLedger } from './ledger/open-ledger.ts';
import { printUsd } from './money.ts';
import { picoPerCall, usdText } from './prices.ts';
import { ask, type Clock, type Ref, type System, type TimerHandle } from '../actor/index.ts';
import { atMost } from '../net/abortable.ts';
import type { Settings } from '../config/settings.ts';
import { messageOf } from '../errors.ts';
import { TimerSet } from '../net/timer-set.ts';
import type { Log } from '../telemetry/log.ts';
import { LedgerMetrics } from '../telemetry/ledger-metrics.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import type { PaymentCommand } from './payments/payment-commands.ts';
import { type PaymentService, startPayments } from './payments/payment-service.ts';
import { StoreReader } from './store-reader.ts';

/** A change that every data plane applies. */
export type BillingUpdate =
  | { readonly type: 'Keys'; readonly change: KeyChange }
  | { readonly type: 'Budgets'; readonly change: BudgetChange };

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
  /** The limits of keys of the configuration have got a place: `limitConfigured` answers anew. */
  readonly onPlaced: () => void;
}

/** A key of the configuration and its limits. */
export interface ConfiguredKey {
  readonly record: KeyRecord & { readonly id: string };
  readonly limits: KeyLimits;
}

const MAILBOX = { capacity: 65_536, overflow: 'drop-new' } as const;
const REOPEN_MS = 2000;

/** A shutdown waits so long for a store that does not answer; what is not posted then is lost, and logged. */
const FLUSH_MS = 10_000;
const CLOSE_MS = 5000;
const ANSWER_MS = 1000;

/** Interval between readings of what other gateways have spent of budgets. */
const READ_MS = 5000;

/** Interval between looks at the thresholds that threads have crossed. */
const REPORT_MS = 500;

export class BillingService {
  readonly leaseManager: Ref<LeaseManagerCommand>;
  readonly leaseMemory: SharedArrayBuffer;
  readonly limitMemory: LimitMemory;
  /** Shares limits with sibling gateways, once it is given what they share. */
  readonly slices: SliceManager;
  readonly sliceManager: Ref<SliceCommand>;
  readonly accountReader: Ref<AccountReaderCommand>;
  readonly costLog: Ref<CostLogCommand>;
  /** The payment processor; null where payments are off. */
  readonly payments: Ref<PaymentCommand> | null;
  readonly #options: BillingServiceOptions;
  readonly #opened: PromiseWithResolvers<Ledger> = Promise.withResolvers();
  readonly #service: PaymentService | null;
  readonly #metrics = new LedgerMetrics();
  readonly #limits: LimitRegistry;
  readonly #reader: StoreReader;
  readonly #keys = new Map<string, KeyRecord>();
  /** Keys, by hash, that wait until it is known what was spent of their budgets. */
  readonly #unread = new Map<string, KeyRecord>();
  /** Hashes of the keys of the configuration. */
  #configured: ReadonlySet<string> = new Set();
  readonly #timers: TimerSet;
  /** Called with the hash of each key that the store has revoked while it was known here. */
  onRevoked: ((hash: string) => void) | null = null;
  #retention: Settings['retention'];
  /** Of the next audit. */
  #maintenance: TimerHandle | null = null;
  #ledger: Ledger | null = null;
  #loaded = false;
  /** The date by which keys were last found valid or expired. */
  #dateMs = 0;
  #closed = false;

  constructor(options: BillingServiceOptions) {
    this.#options = options;
    this.#retention = options.settings.retention;
    const { clock, epochMs, log, settings, system, tell, threads } = options;
    this.#timers = new TimerSet(clock);
    this.leaseMemory = createLeaseMemory(threads);
    this.limitMemory = createLimitMemory(threads);
    this.#reader = new StoreReader({
      onProblem: (error, name) =>
        log.error({ problem: messageOf(error) }, `${name} could not be read; it is tried again`),
      later: (run) => this.#later(REOPEN_MS, run),
    });
    this.slices = new SliceManager({
      table: new LimitTable(this.limitMemory, 0),
      clock,
      epochMs,
      onState: (state, reason) => {
        if (state === 'shared') log.info('limits of keys and budgets are shared with sibling gateways');
        else log.warn({ reason }, 'limits of keys and budgets are counted by this gateway alone');
      },
    });
    this.sliceManager = system.spawn<SliceCommand>(() => (command) => this.slices.receive(command), {
      name: 'sliceManager',
      mailbox: MAILBOX,
    });
    this.#limits = new LimitRegistry({
      memory: this.limitMemory,
      slices: this.slices,
      epochMs,
      tell: (change) => tell({ type: 'Budgets', change }),
      onCrossed: (event) => void this.#alert(event),
      onFull: (kind, id) =>
        log.error({ [kind]: id }, `too many limited ${kind}s: this one is refused until another one goes`),
    });
    const store = storeName(settings.store ?? 'sqlite::memory:');
    const onProblem = (error: unknown, what: string): void => log.error({ store, problem: messageOf(error) }, what);
    const onOver = (what: string): void => log.info(what);
    const behavior = leaseManager({
      openLedger: () => this.#openLedger(),
      settings: leaseSettings(settings),
      memory: this.leaseMemory,
      instance: randomUUID(),
      epochMs,
      metrics: this.#metrics,
      onOpen: (ledger) => void this.#load(ledger),
      onPosted: (charge) => this.#limits.posted(charge),
      onProblem,
      onOver,
    });
    this.leaseManager = system.spawn(behavior, { name: 'leaseManager', mailbox: MAILBOX });
    const ledgerNow = (): Ledger | null => this.#ledger;
    this.accountReader = system.spawn(accountReader({ ledger: ledgerNow, onProblem }), { name: 'accountReader' });
    const costs = costLog({
      ledger: ledgerNow,
      settings: costLogSettings(settings),
      tag: randomUUID().replaceAll('-', ''),
      metrics: this.#metrics,
      onProblem,
      onOver,
    });
    this.costLog = system.spawn(costs, { name: 'costLog', mailbox: MAILBOX });
    const dateMs = (): number => this.#ledger?.dateMs() ?? Math.floor(epochMs());
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
    const budgets = { type: 'Budgets', change: this.#limits.budgets() } as const;
    return this.#loaded ? [{ type: 'Keys', change: { reset: true, put: this.keys(), drop: [] } }, budgets] : [budgets];
  }

  metrics(): MetricsSnapshot {
    return [...this.#metrics.snapshot(), ...(this.#service?.metrics.snapshot() ?? [])];
  }

  /** Forgets what was counted of models that have no servers any more. */
  keep(models: ReadonlySet<string>): void {
    this.#metrics.keep(models, this.#options.clock.now());
  }

  configure(settings: Settings): void {
    this.leaseManager.tell({ type: 'Configure', settings: leaseSettings(settings) });
    this.costLog.tell({ type: 'Configure', settings: costLogSettings(settings) });
    const { auditMs } = this.#retention;
    this.#retention = settings.retention;
    if (auditMs !== settings.retention.auditMs && this.#ledger !== null) this.#maintain(this.#ledger);
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

  threadGone(thread: number): void {
    this.leaseManager.tell({ type: 'ThreadGone', thread });
  }

  /**
   * Posts the charges that threads have reported, gives all credit back, and closes the ledger. A store that does not answer is
   * waited for so long only; every charge that it does not have then is logged.
   */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timers.cancelAll();
    this.#opened.promise.catch(() => undefined);
    if (this.#ledger === null) this.#opened.reject(new Error('the gateway has closed'));
    await this.slices.close();
    await this.#service?.close();
    const { log } = this.#options;
    const flush = (replyTo: Ref<'flushed'>): LeaseManagerCommand => ({ type: 'Flush', withinMs: FLUSH_MS, replyTo });
    const giveUp = (replyTo: Ref<readonly ReportedCharge[]>): LeaseManagerCommand => ({ type: 'GiveUp', replyTo });
    try {
      await ask(this.leaseManager, flush, { timeoutMs: FLUSH_MS + ANSWER_MS });
      await this.#flushRecords();
      await this.#closeLedger();
      this.#logLost(await ask(this.leaseManager, giveUp, { timeoutMs: ANSWER_MS }));
    } catch (error) {
      log.error({ err: error }, 'charges may be lost: the lease manager does not answer');
    }
  }

  async #flushRecords(): Promise<void> {
    const flush = (replyTo: Ref<'flushed'>): CostLogCommand => ({ type: 'Flush', replyTo });
    await ask(this.costLog, flush, { timeoutMs: ANSWER_MS }).catch((error: unknown) =>
      this.#options.log.error({ err: error }, 'records of requests are lost'),
    );
  }

  /** A ledger that is closed commits what waits, which a store that does not answer delays. */
  async #closeLedger(): Promise<void> {
    const { clock, log } = this.#options;
    const closed = Promise.resolve(this.#ledger?.close()).catch((error: unknown) =>
      log.error({ problem: messageOf(error) }, 'the ledger could not be closed'),
    );
    await atMost(clock, CLOSE_MS, closed);
  }

  #logLost(charges: readonly ReportedCharge[]): void {
    if (charges.length === 0) return;
    const { log } = this.#options;
    let total = 0n;
    for (const { account, amount, usage } of charges) {
      total += BigInt(amount);
      const { key, model, requests = 1 } = usage;
      log.error({ account, key, model, requests, usd: printUsd(BigInt(amount)) }, 'a charge is lost');
    }
    log.error({ charges: charges.length, usd: printUsd(total) }, 'charges are lost: the store did not answer');
  }

  async #openLedger(): Promise<Ledger> {
    const { clock, epochMs, settings } = this.#options;
    const metrics = this.#metrics;
    const { lowBalance: low } = settings.webhooks;
    const lowBalance = low === null ? null : BigInt(picoPerCall(low));
    const store = settings.store ?? 'sqlite::memory:';
    const file = storeFile(store);
    const isNew = file !== null && !existsSync(file);
    const ledger = await openLedger(settings.store ?? ':memory:', { clock, dateMs: epochMs, lowBalance, metrics });
    if (this.#closed) {
      await ledger.close();
      throw new Error('the gateway has closed');
    }
    const { log } = this.#options;
    log.info({ store: storeName(store) }, isNew ? 'the store did not exist and was made' : 'the store is open');
    this.#ledger = ledger;
    this.#opened.resolve(ledger);
    return ledger;
  }

  async #load(ledger: Ledger): Promise<void> {
    if (this.#closed) return;
    try {
      await ledger.watch((change) => this.#changed(ledger, change));
      this.#readAll(ledger);
      this.#later(READ_MS, () => void this.#readSpending(ledger));
      this.#maintain(ledger);
    } catch (error) {
      this.#options.log.error({ problem: messageOf(error) }, 'the store could not be watched; it is tried again');
      this.#later(REOPEN_MS, () => void this.#load(ledger));
    }
  }

  #changed(ledger: Ledger, change: Change): void {
    if (change.kind === 'key') this.#reader.request(`key ${change.hash}`, () => this.#readKey(ledger, change.hash));
    else if (change.kind === 'budget') {
      this.#reader.request(`budget ${change.budget}`, () => this.#readBudget(ledger, change.budget));
    } else {
      this.leaseManager.tell({ type: 'Changed', change });
      if (change.kind === 'all') this.#readAll(ledger);
    }
  }

  #readAll(ledger: Ledger): void {
    this.#reader.request('the list of keys', () => this.#readKeys(ledger));
  }

  async #readKeys(ledger: Ledger): Promise<void> {
    this.#dateMs = this.#options.epochMs();
    const stored = await ledger.listKeys();
    const budgets = await ledger.budgets.list();
    const gone = new Set([...this.#keys.keys(), ...this.#unread.keys()]);
    this.#keys.clear();
    this.#unread.clear();
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

  async #readKey(ledger: Ledger, hash: string): Promise<void> {
    const key = await ledger.findKey(hash);
    if (key === undefined || !this.#isValid(key)) {
      const wasKnown = this.#keys.has(hash);
      this.#dropKey(hash);
      if (wasKnown) this.onRevoked?.(hash);
      return;
    }
    const record = this.#recordOf(key);
    if (!this.#limits.hasNew) {
      this.#putKeys([record]);
      return;
    }
    // A reading for all keys that come together, so that none of them, and no revocation, waits for those of the others.
    this.#unread.set(hash, record);
    this.#reader.request('spending of new budgets', () => this.#readNewBudgets(ledger));
  }

  async #readNewBudgets(ledger: Ledger): Promise<void> {
    await this.#limits.readNew((query) => ledger.budgets.spending(query));
    this.#putKeys([...this.#unread.values()]);
  }

  #putKeys(records: readonly KeyRecord[]): void {
    if (records.length === 0) return;
    for (const record of records) {
      this.#keys.set(record.hash, record);
      // What waited is older than what is put now.
      this.#unread.delete(record.hash);
    }
    this.#options.tell({ type: 'Keys', change: { reset: false, put: records, drop: [] } });
    this.#options.onKeys();
  }

  #dropKey(hash: string): void {
    this.#keys.delete(hash);
    this.#unread.delete(hash);
    this.#limits.dropKey(hash);
    this.#options.tell({ type: 'Keys', change: { reset: false, put: [], drop: [hash] } });
    this.#options.onKeys();
  }

  /**
   * A gateway of the cluster says that a key was revoked. It is refused from now on; the store is asked as soon as it answers, and brings
   * the key back if it is valid.
   */
  revoked(hash: string): void {
    const ledger = this.#ledger;
    if (ledger === null || !(this.#keys.has(hash) || this.#unread.has(hash))) return;
    this.#dropKey(hash);
    this.#changed(ledger, { kind: 'key', hash });
  }

  async #readBudget(ledger: Ledger, id: string): Promise<void> {
    const budget = await ledger.budgets.find(id);
    if (budget === undefined) this.#limits.dropBudget(id);
    else this.#limits.putBudget(budget);
    await this.#limits.readNew((query) => ledger.budgets.spending(query));
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

  /** What found no place for its limits before gets one that is free now. */
  #placeWaiting(): void {
    const placed = this.#limits.placeWaiting();
    const records: KeyRecord[] = [];
    for (const { allowance, hash } of placed) {
      const known = this.#keys.get(hash);
      const unread = this.#unread.get(hash);
      if (unread !== undefined) this.#unread.set(hash, { ...unread, allowance });
      else if (known !== undefined) records.push({ ...known, allowance });
    }
    this.#putKeys(records);
    if (placed.some(({ hash }) => this.#configured.has(hash))) this.#options.onPlaced();
  }

  /**
   * Brings in what other gateways have spent, now and regularly; and forgets keys that have expired. When the wall clock was set back,
   * some of those that were forgotten are valid.
   */
  async #readSpending(ledger: Ledger): Promise<void> {
    const { epochMs, log, tell } = this.#options;
    if (epochMs() < this.#dateMs) this.#readAll(ledger);
    this.#dateMs = epochMs();
    this.#placeWaiting();
    try {
      await this.#limits.read((query) => ledger.budgets.spending(query), false);
    } catch (error) {
      log.warn({ problem: messageOf(error) }, 'spending of budgets could not be read');
    }
    const nowMs = epochMs();
    const drop: string[] = [];
    for (const { expiresMs, hash } of this.#keys.values()) {
      if (expiresMs !== undefined && expiresMs <= nowMs) drop.push(hash);
    }
    for (const hash of drop) this.#keys.delete(hash);
    for (const hash of drop) this.#limits.dropKey(hash);
    if (drop.length > 0) tell({ type: 'Keys', change: { reset: false, put: [], drop } });
    this.#later(READ_MS, () => void this.#readSpending(ledger));
  }

  /** Audits the ledger and removes what is too old. Gateways that share a store repeat little: audited days are not read again. */
  #maintain(ledger: Ledger): void {
    const { log } = this.#options;
    const { auditMs } = this.#retention;
    if (this.#maintenance !== null) this.#timers.cancel(this.#maintenance);
    this.#maintenance = null;
    if (auditMs === null || this.#closed) return;
    this.#maintenance = this.#timers.after(auditMs, () => {
      this.#maintenance = null;
      const maintained = async (): Promise<void> => {
        const { chargesMs } = this.#retention;
        const { movements, problems, sound } = await ledger.audit();
        if (sound) log.info({ movements: Number(movements) }, 'the ledger was audited: it is sound');
        else log.error({ problems }, 'the ledger was audited: it does not add up');
        const { kept, leases, months } = await ledger.prune(chargesMs === null ? null : ledger.dateMs() - chargesMs);
        if (months.length > 0 || leases > 0) log.info({ months, leases }, 'old charges and leases were removed');
        if (kept.length > 0) log.warn({ months: kept }, 'old charges are kept: their days were not found sound');
      };
      maintained()
        .catch((error: unknown) => {
          if (!this.#closed) log.warn({ problem: messageOf(error) }, 'the ledger could not be audited');
        })
        .finally(() => {
          // Another interval may have been set meanwhile.
          if (this.#maintenance === null) this.#maintain(ledger);
        });
    });
  }

  #reportBudgets(): void {
    this.#limits.report();
    this.#later(REPORT_MS, () => this.#reportBudgets());
  }

  async #alert(event: BudgetEvent): Promise<void> {
    const { log } = this.#options;
    try {
      if (this.#ledger === null) throw new Error('the store is not open');
      if (!(await this.#ledger.budgets.noteAlert(event, budgetEvent(event)))) return;
    } catch (error) {
      log.warn(
        { problem: messageOf(error), budget: event.budget },
        'an alert of a budget could not be recorded; it is tried again',
      );
      this.#later(REOPEN_MS, () => void this.#alert(event));
      return;
    }
    const { account, budget, key, limit, model, period, spent, threshold } = event;
    const words = threshold === 'soft' ? 'a budget has reached its alert threshold' : 'a budget is used up';
    log.warn({ budget, account, key, model, period, spentUsd: usdText(spent), limitUsd: usdText(limit) }, words);
    this.#metrics.budgetCrossed(threshold);
  }

  #later(delayMs: number, run: () => void): void {
    if (!this.#closed) this.#timers.after(delayMs, run);
  }
}

function budgetEvent({
  account,
  budget,
  endsMs,
  key,
  limit,
  model,
  period,
  soft,
  spent,
  threshold,
}: BudgetEvent): NewWebhookEvent {
  const usd = (pico: number): string => printUsd(BigInt(Math.floor(pico)));
  return {
    type: 'budget.reached',
    account: account ?? '',
    data: {
      budget,
      threshold,
      key,
      model,
      period,
      limit_usd: usd(limit),
      soft_usd: soft === null ? null : usd(soft),
      spent_usd: usd(spent),
      ends_at: new Date(endsMs).toISOString(),
    },
  };
}

function costLogSettings({ costLog: { retentionMs, rows } }: Settings): CostLogSettings {
  return { retentionMs, rows };
}

function leaseSettings({ credit }: Settings): LeaseManagerSettings {
  return { leasePico: picoPerCall(credit.lease), leaseTtlMs: credit.leaseTtlMs };
}
