// The lease table and the lease manager over random interleavings. Threads stop after any single atomic operation, also inside of
// the lease manager's own functions, go on later or die there; answers of the ledger come late, out of order or never; accounts
// share too few cells. At every step nobody may hold credit that the ledger has not leased for the account, and at the end every
// pico-USD is back or charged.
//
// A function of the table is stopped by an exception, and goes on by running it again with the recorded results of the atomic
// operations that it has done. That is possible because it depends on nothing else.

import t from 'tap';
import { createManualClock, createSeededRandom, type Ref } from '../../src/actor/index.ts';
import type { Context } from '../../src/actor/behavior.ts';
import type { Account, Charge, HoldAnswer, HoldRequest, Ledger, OpenHold } from '../../src/billing/ledger/ledger.ts';
import { leaseManager, type LeaseManagerCommand, type LeaseNotice } from '../../src/billing/lease-manager.ts';
import { createLeaseMemory, LeaseTable } from '../../src/billing/lease-table.ts';
import { LedgerError } from '../../src/billing/ledger/ledger.ts';
import { LedgerMetrics } from '../../src/telemetry/ledger-metrics.ts';
import { LONG } from '../support/long.ts';

const SEEDS = LONG ? 100 : 25;
const STEPS = 800;
/** Of so many steps, threads begin requests in the first half, and end them in the second, in every third run. */
const PHASE = 160;
const THREADS = 3;
const CREDIT = 20_000n;
const ACCOUNTS = ['a', 'b', 'c'];
const TTL_MS = 60_000;
const SECOND_MS = 1000;

type Step = (...args: unknown[]) => unknown;
const STEP_NAMES = ['load', 'store', 'add', 'sub', 'exchange', 'compareExchange'] as const;

/** Thrown out of a function of the table that stops. */
const STOPPED = new Error('stopped');

/** The steps of a thread's function that are done. */
interface Recording {
  readonly results: unknown[];
  cursor: number;
}

/** Atomic operations of whoever runs at present: a thread's are recorded, one at a time; others may happen before the manager's. */
class Steps {
  recording: Recording | null = null;
  /** Called before each atomic operation of the lease manager. */
  interleave: (() => void) | null = null;
  #budget = 0;
  readonly #original = new Map<string, Step>();

  install(): void {
    for (const name of STEP_NAMES) {
      const original = Reflect.get(Atomics, name) as Step;
      this.#original.set(name, original);
      Reflect.set(Atomics, name, (...args: unknown[]) => this.#step(original, args));
    }
  }

  remove(): void {
    for (const [name, original] of this.#original) Reflect.set(Atomics, name, original);
  }

  /** Runs one more step of a function. Undefined when it has not come to its end. */
  advance<T>(recording: Recording, work: () => T): { readonly value: T } | undefined {
    const { interleave } = this;
    this.interleave = null;
    this.recording = recording;
    recording.cursor = 0;
    this.#budget = 1;
    try {
      return { value: work() };
    } catch (error) {
      if (error !== STOPPED) throw error;
      return undefined;
    } finally {
      this.recording = null;
      this.interleave = interleave;
    }
  }

  #step(original: Step, args: unknown[]): unknown {
    const { interleave, recording } = this;
    if (recording === null) {
      interleave?.();
      return original(...args);
    }
    if (recording.cursor < recording.results.length) return recording.results[recording.cursor++];
    if (this.#budget === 0) throw STOPPED;
    this.#budget--;
    const result = original(...args);
    recording.results.push(result);
    recording.cursor++;
    return result;
  }
}

interface ModelLease {
  readonly account: string;
  left: bigint;
  isOpen: boolean;
}

/** A call of the ledger that has not been answered. */
interface Call {
  readonly run: () => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** A ledger that does what it is asked when the schedule says so. */
class ModelLedger {
  readonly balances = new Map<string, bigint>();
  readonly charged = new Map<string, bigint>();
  readonly leases = new Map<string, ModelLease>();
  readonly calls: Call[] = [];
  readonly #chargeIds = new Set<string>();
  readonly #onChange: (account: string) => void;

  constructor(onChange: (account: string) => void) {
    this.#onChange = onChange;
    for (const account of ACCOUNTS) this.balances.set(account, CREDIT);
  }

  held(account: string): bigint {
    let held = 0n;
    for (const lease of this.leases.values()) if (lease.isOpen && lease.account === account) held += lease.left;
    return held;
  }

  /** Answers one call. `lost`: it was done, and nobody hears of it. */
  answer(at: number, outcome: 'ok' | 'lost' | 'failed'): void {
    const [call] = this.calls.splice(at, 1) as [Call];
    const away = new Error('the store is away');
    if (outcome === 'failed') call.reject(away);
    else {
      try {
        const value = call.run();
        if (outcome === 'ok') call.resolve(value);
        else call.reject(away);
      } catch (error) {
        call.reject(error);
      }
    }
  }

  asLedger(): Ledger {
    const call = <T>(run: () => T): Promise<T> =>
      new Promise((resolve, reject) => this.calls.push({ run, resolve: resolve as Call['resolve'], reject }));
    const part: Partial<Ledger> = {
      account: (id) => call(() => this.#account(id)),
      lease: (request) => call(() => this.#lease(request)),
      extend: (id, _operation, amount) => call(() => this.#extend(id, amount)),
      giveBack: (id, _operation, amount) => call(() => this.#giveBack(id, amount)),
      release: (id) => call(() => this.#release(id)),
      renew: () => call(() => this.#open()),
      expire: () => Promise.resolve(0),
      want: () => Promise.resolve(),
      charge: (charges) => call(() => charges.map((charge) => this.#charge(charge))),
    };
    return part as Ledger;
  }

  #move(account: string, amount: bigint): void {
    this.balances.set(account, (this.balances.get(account) ?? 0n) + amount);
  }

  #account(id: string): Account {
    return {
      id,
      balance: this.balances.get(id) ?? 0n,
      held: this.held(id),
      organisation: null,
      creditLimit: 0n,
    } as Account;
  }

  #lease({ account, amount, id }: HoldRequest): HoldAnswer {
    const balance = this.balances.get(account) ?? 0n;
    const taken = amount < balance ? amount : balance;
    if (taken <= 0n) return { kind: 'short', balance };
    this.#move(account, -taken);
    this.leases.set(id, { account, left: taken, isOpen: true });
    return { kind: 'held', amount: taken, repeated: false };
  }

  #opened(id: string): ModelLease {
    const lease = this.leases.get(id);
    if (lease?.isOpen !== true) throw new LedgerError('hold-closed', `'${id}' was closed`);
    return lease;
  }

  #extend(id: string, amount: bigint): HoldAnswer {
    const lease = this.#opened(id);
    const balance = this.balances.get(lease.account) ?? 0n;
    const taken = amount < balance ? amount : balance;
    if (taken <= 0n) return { kind: 'short', balance };
    this.#move(lease.account, -taken);
    lease.left += taken;
    return { kind: 'held', amount: taken, repeated: false };
  }

  #giveBack(id: string, amount: bigint): bigint {
    const lease = this.#opened(id);
    const moved = amount < lease.left ? amount : lease.left;
    lease.left -= moved;
    this.#move(lease.account, moved);
    this.#onChange(lease.account);
    return moved;
  }

  #release(id: string): boolean {
    const lease = this.leases.get(id);
    if (lease?.isOpen !== true) return false;
    lease.isOpen = false;
    this.#move(lease.account, lease.left);
    return true;
  }

  #open(): OpenHold[] {
    return [...this.leases].flatMap(([id, { isOpen, left }]) => (isOpen ? [{ id, left }] : []));
  }

  #charge({ account, amount, id, lease: leaseId }: Charge): PromiseSettledResult<{ late: boolean; repeated: boolean }> {
    const repeated = this.#chargeIds.has(id);
    this.#chargeIds.add(id);
    const lease = leaseId === undefined ? undefined : this.leases.get(leaseId);
    if (!repeated) {
      const left = lease?.isOpen === true ? lease.left : 0n;
      const fromLease = amount < left ? amount : left;
      if (lease !== undefined) lease.left -= fromLease;
      this.#move(account, fromLease - amount);
      this.charged.set(account, (this.charged.get(account) ?? 0n) + amount);
    }
    return { status: 'fulfilled', value: { late: false, repeated } };
  }
}

/** What a thread does of the table's functions, and what follows. */
interface Work {
  readonly recording: Recording;
  readonly run: () => unknown;
  readonly done: (value: never) => void;
}

interface Held {
  readonly account: string;
  readonly amount: number;
}

/** A thread as `LeaseCache` is one, which can stop and die at any atomic operation. */
class ModelThread {
  readonly index: number;
  readonly inbox: LeaseNotice[] = [];
  readonly outbox: LeaseManagerCommand[] = [];
  held: Held[] = [];
  /** Spent and not reported. */
  unreported: Held[] = [];
  work: Work | null = null;
  readonly #table: LeaseTable;
  readonly #cells = new Map<string, { readonly cell: number; readonly generation: number }>();
  #ids = 0;

  /** `onNotice` hears what arrives. */
  constructor(memory: SharedArrayBuffer, index: number, onNotice: (notice: LeaseNotice) => void) {
    this.index = index;
    this.#table = new LeaseTable(memory, index);
    const tell = (notice: LeaseNotice): void => {
      this.inbox.push(notice);
      onNotice(notice);
    };
    const replyTo: Ref<LeaseNotice> = { path: `thread-${index}`, tell };
    this.outbox.push({ type: 'Join', thread: index, replyTo });
  }

  /** One atomic operation, or a message. */
  step(steps: Steps, random: () => number, isCalm: boolean): void {
    if (this.work !== null) {
      const { done, recording, run } = this.work;
      const ended = steps.advance(recording, run);
      if (ended === undefined) return;
      this.work = null;
      done(ended.value as never);
      return;
    }
    const notice = this.inbox.shift();
    if (notice !== undefined) this.#receive(notice);
    else this.#begin(random, isCalm);
  }

  #receive(notice: LeaseNotice): void {
    if (notice.type === 'Sync') this.outbox.push({ type: 'Synced', thread: this.index, round: notice.round });
    if (notice.type !== 'Granted') return;
    const { account, amount, cell, generation } = notice;
    this.#cells.set(account, { cell, generation });
    this.held.push({ account, amount });
  }

  #begin(random: () => number, isCalm: boolean): void {
    const choice = isCalm ? 0.5 + random() / 2 : random();
    const account = ACCOUNTS[Math.floor(random() * ACCOUNTS.length)] as string;
    const place = this.#cells.get(account);
    const amount = 1 + Math.floor(random() * random() * 9000);
    if (choice < 0.35 && place !== undefined) {
      const { cell, generation } = place;
      const draw = (): number => (this.#table.generation(cell) === generation ? this.#table.draw(cell, amount) : -2);
      this.#start(draw, (rest) => {
        if (rest >= 0) this.held.push({ account, amount });
        if (rest >= 0 && rest < 500) this.outbox.push({ type: 'Refill', account });
      });
    } else if (choice < 0.5) {
      const id = ++this.#ids;
      const least = random() < 0.5 ? amount : Math.ceil(amount / 4);
      this.outbox.push({ type: 'Fund', thread: this.index, id, account, least, most: amount });
    } else if (choice < 0.8) this.#settle(Math.floor(this.held.length * random()), random());
    else this.#report();
  }

  /** Ends a request: a part of what it held is spent, the rest goes back. */
  #settle(at: number, share: number): void {
    const [ended] = this.held.splice(at, 1);
    if (ended === undefined) return;
    const { account, amount } = ended;
    const cost = share < 0.3 ? 0 : Math.floor(amount * share);
    if (cost > 0) this.unreported.push({ account, amount: cost });
    if (cost === amount) return;
    const { cell } = this.#cells.get(account) as { cell: number };
    this.#start(
      () => this.#table.restore(cell, amount - cost),
      (told: boolean) => told && this.outbox.push({ type: 'Freed', account }),
    );
  }

  #report(): void {
    if (this.unreported.length === 0) return;
    const usage = { key: null, model: 'm', inputTokens: 1, cachedTokens: 0, outputTokens: 1, measured: true };
    const charges = this.unreported.map(({ account, amount }) => ({
      ...{ account, amount, covered: amount, prepaid: true, usage },
    }));
    this.unreported = [];
    this.outbox.push({ type: 'Charges', thread: this.index, charges });
  }

  #start<T>(run: () => T, done: (value: T) => void): void {
    this.work = { recording: { results: [], cursor: 0 }, run, done };
  }
}

const steps = new Steps();

/** One random run. Throws what does not add up. */
class Run {
  readonly #random: () => number;
  readonly #clock = createManualClock();
  readonly #memory: SharedArrayBuffer;
  readonly #table: LeaseTable;
  readonly #ledger: ModelLedger;
  readonly #timers = new Map<string, { readonly dueMs: number; readonly message: LeaseManagerCommand }>();
  /** Messages to the lease manager, in the order in which they arrive. */
  readonly #mailbox: LeaseManagerCommand[] = [];
  readonly #restart: () => void;
  #manager: { receive(message: LeaseManagerCommand): void };
  readonly #cells = new Map<string, { readonly cell: number; readonly generation: number }>();
  /** Reported, by account. */
  readonly #reported = new Map<string, bigint>();
  #threads: ModelThread[];
  kills = 0;
  /** How often a cell was used for another account. */
  reuses = 0;
  /** In every third run. In the others no lease is idle. */
  readonly #hasPhases: boolean;
  #isCalm = false;
  #isEnding = false;

  constructor(seed: number) {
    this.#random = createSeededRandom(seed);
    // In every other run the accounts share too few cells.
    this.#memory = createLeaseMemory(THREADS, ACCOUNTS.length - (seed % 2));
    this.#table = new LeaseTable(this.#memory, 0);
    this.#hasPhases = seed % 3 === 0;
    this.#ledger = new ModelLedger((account) =>
      this.#mailbox.push({ type: 'Changed', change: { kind: 'account', account } }),
    );
    this.#threads = Array.from({ length: THREADS }, (_, index) => this.#startThread(index));
    const behavior = leaseManager({
      openLedger: () => Promise.resolve(this.#ledger.asLedger()),
      settings: { leasePico: 1000, leaseTtlMs: TTL_MS },
      memory: this.#memory,
      instance: 'i',
      epochMs: () => this.#clock.now(),
      metrics: new LedgerMetrics(),
      onOpen: () => undefined,
      onPosted: () => undefined,
      onProblem: () => undefined,
    });
    const timers = {
      once: (key: string, delayMs: number, message: LeaseManagerCommand) =>
        void this.#timers.set(key, { dueMs: this.#clock.now() + delayMs, message }),
      has: (key: string) => this.#timers.has(key),
      cancel: (key: string) => void this.#timers.delete(key),
    };
    const context = { clock: this.#clock, timers } as unknown as Context<LeaseManagerCommand>;
    this.#manager = behavior(context) as { receive(message: LeaseManagerCommand): void };
    this.#restart = () => {
      this.#timers.clear();
      this.#manager = behavior(context) as { receive(message: LeaseManagerCommand): void };
    };
  }

  async go(): Promise<void> {
    steps.interleave = () => this.#interleave();
    for (let step = 0; step < STEPS; step++) {
      this.#isCalm = this.#hasPhases && step % PHASE >= PHASE / 2;
      await this.#step();
    }
    this.reuses = this.#generations();
    this.#isCalm = true;
    this.#isEnding = true;
    // Requests, messages and calls come to their end, with one sweep and one renewal.
    await this.#finish(6);
    this.#mailbox.push({ type: 'Renew' });
    await this.#finish(1);
    steps.interleave = null;
    let free = 0n;
    let leased = 0n;
    for (let cell = 0; cell < this.#table.cells; cell++) free += this.#table.free(cell);
    for (const account of ACCOUNTS) leased += this.#ledger.held(account);
    if (free !== leased) throw new Error(`${leased} are leased, but ${free} can be drawn`);
    // Idle leases are closed.
    await this.#finish((3 * TTL_MS) / SECOND_MS);
    this.#checkEnd();
  }

  async #finish(seconds: number): Promise<void> {
    while (this.#isUnderWay()) await this.#step();
    for (let second = 0; second < seconds; second++) {
      this.#pass(SECOND_MS);
      while (this.#isUnderWay()) await this.#step();
    }
  }

  #isUnderWay(): boolean {
    return (
      this.#mailbox.length > 0 ||
      this.#ledger.calls.length > 0 ||
      this.#threads.some(
        ({ held, inbox, unreported, work }) => held.length + inbox.length + unreported.length > 0 || work !== null,
      )
    );
  }

  /** Mostly little time passes. In a calm phase it may be two sweeps, so that idle leases are closed. */
  async #passSome(): Promise<void> {
    if (this.#isEnding) return;
    this.#pass(this.#random() * 400);
    if (!this.#isCalm || this.#random() > 0.2) return;
    this.#isEnding = true;
    await this.#finish(16);
    this.#isEnding = false;
  }

  async #step(): Promise<void> {
    const choice = this.#random();
    if (choice < 0.6) this.#stepThread();
    else if (choice < 0.8) this.#deliver();
    else if (choice < 0.95) this.#answer();
    else if (choice < 0.985) await this.#passSome();
    else if (choice < 0.99) this.#restart();
    else this.#kill();
    // What follows an answer of the ledger.
    for (let turn = 0; turn < 6; turn++) await Promise.resolve();
    this.#check();
  }

  /** Before an atomic operation of the lease manager, threads may do some of theirs. */
  #interleave(): void {
    while (this.#random() < 0.3) {
      if (this.#random() < 0.02) this.#kill();
      else this.#stepThread();
    }
  }

  #stepThread(): void {
    const thread = this.#threads[Math.floor(this.#random() * THREADS)] as ModelThread;
    thread.step(steps, this.#random, this.#isCalm);
    for (const command of thread.outbox.splice(0)) this.#send(command);
  }

  #send(command: LeaseManagerCommand): void {
    this.#mailbox.push(command);
    if (command.type !== 'Charges') return;
    for (const { account, amount } of command.charges) {
      this.#reported.set(account, (this.#reported.get(account) ?? 0n) + BigInt(amount));
    }
  }

  #generations(): number {
    let sum = 0;
    for (let cell = 0; cell < this.#table.cells; cell++) sum += this.#table.generation(cell);
    return sum;
  }

  #deliver(): void {
    const command = this.#mailbox.shift();
    if (command !== undefined) this.#manager.receive(command);
  }

  #answer(): void {
    const { calls } = this.#ledger;
    if (calls.length === 0) return;
    const choice = this.#isEnding ? 1 : this.#random();
    // Commits are made in order; that reads overtake them changes nothing more.
    this.#ledger.answer(0, choice < 0.04 ? 'lost' : choice < 0.08 ? 'failed' : 'ok');
  }

  #pass(ms: number): void {
    this.#clock.advance(ms);
    for (const [key, { dueMs, message }] of [...this.#timers]) {
      if (dueMs > this.#clock.now()) continue;
      this.#timers.delete(key);
      this.#mailbox.push(message);
    }
  }

  #startThread(index: number): ModelThread {
    return new ModelThread(this.#memory, index, (notice) => {
      if (notice.type === 'Granted') this.#cells.set(notice.account, notice);
    });
  }

  /** A thread dies where it is. What it has sent arrives; then another one starts. */
  #kill(): void {
    if (this.#isEnding) return;
    const index = Math.floor(this.#random() * THREADS);
    this.kills++;
    this.#mailbox.push({ type: 'ThreadGone', thread: index });
    const successor = this.#startThread(index);
    for (const command of successor.outbox.splice(0)) this.#mailbox.push(command);
    this.#threads = this.#threads.map((thread) => (thread.index === index ? successor : thread));
  }

  /** Nobody holds credit of an account that the ledger has not leased. */
  #check(): void {
    const { interleave } = steps;
    steps.interleave = null;
    for (const account of ACCOUNTS) {
      const { claimed, leased } = this.#claims(account);
      if (claimed > leased) throw new Error(`${claimed} are held of '${account}', but ${leased} leased`);
    }
    steps.interleave = interleave;
  }

  /** What may be drawn of an account, is held, or is spent and not posted; and what the ledger has leased. */
  #claims(account: string): { claimed: bigint; leased: bigint } {
    let claimed = (this.#reported.get(account) ?? 0n) - (this.#ledger.charged.get(account) ?? 0n);
    const place = this.#cells.get(account);
    if (place !== undefined && this.#table.generation(place.cell) === place.generation) {
      claimed += this.#table.free(place.cell);
    }
    for (const { held, inbox, unreported } of this.#threads) {
      for (const each of [...held, ...unreported]) if (each.account === account) claimed += BigInt(each.amount);
      for (const notice of inbox) {
        if (notice.type === 'Granted' && notice.account === account) claimed += BigInt(notice.amount);
      }
    }
    return { claimed, leased: this.#ledger.held(account) };
  }

  #checkEnd(): void {
    for (const account of ACCOUNTS) {
      const charged = this.#ledger.charged.get(account) ?? 0n;
      const reported = this.#reported.get(account) ?? 0n;
      const balance = this.#ledger.balances.get(account) ?? 0n;
      const held = this.#ledger.held(account);
      if (charged !== reported) throw new Error(`${reported} of '${account}' were reported, ${charged} charged`);
      if (held !== 0n) throw new Error(`${held} of '${account}' did not come back`);
      if (balance !== CREDIT - charged) throw new Error(`'${account}' has ${balance} after ${charged} were charged`);
    }
  }
}

t.test('credit is neither created nor lost, whatever the interleaving and wherever threads die', async (t) => {
  let kills = 0;
  let reuses = 0;
  steps.install();
  try {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const run = new Run(seed);
      try {
        await run.go();
      } catch (error) {
        throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error });
      }
      kills += run.kills;
      reuses += run.reuses;
    }
  } finally {
    steps.interleave = null;
    steps.remove();
  }
  t.ok(kills > SEEDS, `${kills} threads died in ${SEEDS} runs`);
  t.ok(reuses > SEEDS / 2, `${reuses} cells were used again`);
});
