// The limits against a model that keeps every request: random admissions, settlements and times over several threads, whose rows
// are in one memory; and threads that end at every step of every operation.

import t from 'tap';
import {
  BUCKET_MS,
  createLimitMemory,
  type KeyBounds,
  type LimitCell,
  type LimitMemory,
  LimitTable,
  WINDOW_BUCKETS,
} from '../../../src/billing/limits/limit-table.ts';
import { Random } from '../../support/random.ts';

const THREADS = 3;
const CELL: LimitCell = { index: 0, generation: 1 };
const START = Date.UTC(2026, 10, 22);
const MINUTE_MS = 60_000;
const LONGEST_MS = WINDOW_BUCKETS * BUCKET_MS;

interface Request {
  readonly thread: number;
  readonly atMs: number;
  readonly bucket: number;
  readonly reserved: number;
  tokens: number;
  running: boolean;
}

/** Every request that was admitted, and the rules in their simplest form. */
class Model {
  readonly requests: Request[] = [];

  readonly bounds: { readonly [Name in keyof KeyBounds]: number };

  constructor(bounds: { readonly [Name in keyof KeyBounds]: number }) {
    this.bounds = bounds;
  }

  get running(): number {
    return this.requests.filter(({ running }) => running).length;
  }

  /** Requests that count at a time, by the buckets of the window. */
  counted(nowMs: number): Request[] {
    const now = Math.floor(nowMs / BUCKET_MS);
    return this.requests.filter(({ bucket }) => bucket > now - WINDOW_BUCKETS);
  }

  /** Requests in the last `windowMs`. */
  within(nowMs: number, windowMs: number): Request[] {
    return this.requests.filter(({ atMs }) => atMs > nowMs - windowMs);
  }

  /** Whether these tokens have place among the others; undefined: a request is granted less than it asks for. */
  grant(others: readonly Request[], least: number, most: number): number {
    const { requestsPerMinute, runningRequests, tokensPerMinute } = this.bounds;
    if (least > tokensPerMinute || this.running >= runningRequests || others.length >= requestsPerMinute) return -1;
    const left = tokensPerMinute - sum(others);
    if (most <= tokensPerMinute) return left >= most ? most : -1;
    if (left === tokensPerMinute) return tokensPerMinute;
    return left >= least && left >= Math.ceil(tokensPerMinute / 2) ? left : -1;
  }
}

function sum(requests: readonly Request[]): number {
  return requests.reduce((total, { tokens }) => total + tokens, 0);
}

t.test('every decision is that of the model, for every key of 200 random histories', async (t) => {
  let admitted = 0;
  let refused = 0;
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const memory = createLimitMemory(THREADS, 1);
    const tables = Array.from({ length: THREADS }, (_, thread) => new LimitTable(memory, thread));
    const bounds = {
      runningRequests: 1 + random.below(8),
      requestsPerMinute: 1 + random.below(12),
      tokensPerMinute: 20 + random.below(200),
    };
    const model = new Model(bounds);
    let nowMs = START + random.below(BUCKET_MS);
    for (let step = 0; step < 300; step++) {
      nowMs += random.below(4) === 0 ? random.below(20_000) : random.below(400);
      const running = model.requests.filter((request) => request.running);
      if (running.length > 0 && random.below(3) === 0) {
        const request = running[random.below(running.length)] as Request;
        const used = random.below(request.reserved + 1);
        (tables[request.thread] as LimitTable).settleKey(CELL, request.bucket, request.reserved, used);
        request.running = false;
        request.tokens = used;
        continue;
      }
      const thread = random.below(THREADS);
      const table = tables[thread] as LimitTable;
      const most = 1 + random.below(bounds.tokensPerMinute * (random.below(4) === 0 ? 3 : 1));
      const least = 1 + random.below(most);
      const expected = model.grant(model.counted(nowMs), least, most);
      const verdict = table.admitKey(CELL, bounds, least, most, nowMs);
      const context = `seed ${seed}, step ${step}`;
      if ((verdict === 'admitted') !== expected >= 0) return t.fail(`${context}: ${verdict}, not ${expected}`);
      // An exact window of 62 s that would admit means that this one does.
      if (expected < 0 && model.grant(model.within(nowMs, LONGEST_MS), least, most) >= 0) {
        return t.fail(`${context}: refused although 62 s have place`);
      }
      if (verdict !== 'admitted') {
        refused++;
        if (verdict !== 'requests' && verdict !== 'tokens') continue;
        if (model.running >= bounds.runningRequests) continue;
        const { retryMs } = table;
        const then = (atMs: number): boolean => model.grant(model.counted(atMs), least, most) >= 0;
        if (!then(nowMs + retryMs) || then(nowMs + retryMs - 1)) return t.fail(`${context}: retry after ${retryMs} ms`);
        continue;
      }
      admitted++;
      if (table.tokens !== expected) return t.fail(`${context}: ${table.tokens} tokens, not ${expected}`);
      const { bucket, tokens } = table;
      model.requests.push({ thread, atMs: nowMs, bucket, reserved: tokens, tokens, running: true });
      const minute = model.within(nowMs, MINUTE_MS);
      if (minute.length > bounds.requestsPerMinute || sum(minute) > bounds.tokensPerMinute) {
        return t.fail(`${context}: a minute has more than the limit`);
      }
      const left = bounds.tokensPerMinute - sum(model.counted(nowMs));
      if (table.remainingTokens !== left) return t.fail(`${context}: ${table.remainingTokens} left, not ${left}`);
    }
  }
  t.ok(admitted > 5000 && refused > 5000, `${admitted} admitted, ${refused} refused`);
});

interface Spender {
  spent: number;
  readonly held: number[];
}

t.test('every decision about money is that of the model, over periods', async (t) => {
  let admitted = 0;
  for (let seed = 1; seed <= 200; seed++) {
    const random = new Random(seed);
    const memory = createLimitMemory(THREADS, 1);
    const tables = Array.from({ length: THREADS }, (_, thread) => new LimitTable(memory, thread));
    const limit = 100 + random.below(1000);
    const spenders: Spender[] = tables.map(() => ({ spent: 0, held: [] }));
    let base = 0;
    let period = 600;
    for (let step = 0; step < 300; step++) {
      if (random.below(60) === 0) {
        period++;
        base = 0;
        for (const spender of spenders) spender.spent = 0;
      }
      if (random.below(40) === 0) {
        base += random.below(limit / 4);
        (tables[0] as LimitTable).setBase(CELL, period, base);
      }
      const thread = random.below(THREADS);
      const table = tables[thread] as LimitTable;
      const spender = spenders[thread] as Spender;
      if (spender.held.length > 0 && random.below(2) === 0) {
        const held = spender.held.splice(random.below(spender.held.length), 1)[0] as number;
        const cost = random.below(held + 1);
        table.spendBudget(CELL, cost, period, false);
        table.releaseBudget(CELL, held);
        spender.spent += cost;
        continue;
      }
      const most = 1 + random.below(limit / 2);
      const least = 1 + random.below(most);
      const spent = base + spenders.reduce((total, each) => total + each.spent, 0);
      const held = spenders.flatMap((each) => each.held).reduce((total, amount) => total + amount, 0);
      const left = limit - spent - held;
      const expected =
        left >= most ? most : spent + least > limit ? 'spent' : spent + most > limit && left >= least ? left : 'held';
      const verdict = table.admitBudget(CELL, limit, least, most, period);
      const actual = verdict === 'admitted' ? table.amount : verdict;
      if (actual !== expected) return t.fail(`seed ${seed}, step ${step}: ${actual}, not ${expected}`);
      if (table.spent(CELL, period) !== spent) return t.fail(`seed ${seed}, step ${step}: spent`);
      if (verdict !== 'admitted') continue;
      admitted++;
      spender.held.push(table.amount);
    }
  }
  t.ok(admitted > 5000, `${admitted} admitted`);
});

class Killed extends Error {}

/** Steps of a table that are left before its thread ends, and on which side of the last one. */
const death = { left: Infinity, when: 'before' as 'before' | 'after' };

function step<Result>(run: () => Result): Result {
  const ends = --death.left === 0;
  if (ends && death.when === 'before') throw new Killed();
  const result = run();
  if (ends) throw new Killed();
  return result;
}

type View = Int32Array<SharedArrayBuffer> | Float64Array<SharedArrayBuffer>;

const ATOMICS = ['add', 'compareExchange', 'exchange', 'store', 'load'] as const;

/** A table each of whose writes to the shared memory is a step, atomic or not. */
function mortalTable(memory: LimitMemory, thread: number): LimitTable {
  const mortal = new WeakMap<object, View>();
  const wrap = (view: View): View => {
    const proxy = new Proxy(view, {
      get(target, name) {
        const value = Reflect.get(target, name, target) as unknown;
        return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value;
      },
      set: (target, name, value) => step(() => Reflect.set(target, name, value, target)),
    });
    mortal.set(proxy, view);
    return proxy;
  };
  const views = { Int32Array, Float64Array };
  for (const name of ATOMICS) {
    const original = Atomics[name] as (view: object, ...args: unknown[]) => number;
    const stepping = (view: object, ...args: unknown[]): number => {
      const real = mortal.get(view);
      return real === undefined ? original(view, ...args) : step(() => original(real, ...args));
    };
    Object.assign(Atomics, { [name]: stepping });
  }
  function Integers(buffer: SharedArrayBuffer): View {
    return wrap(new views.Int32Array(buffer));
  }
  function Floats(buffer: SharedArrayBuffer): View {
    return wrap(new views.Float64Array(buffer));
  }
  Object.assign(globalThis, { Int32Array: Integers, Float64Array: Floats });
  try {
    return new LimitTable(memory, thread);
  } finally {
    Object.assign(globalThis, views);
  }
}

const atomics = Object.fromEntries(ATOMICS.map((name) => [name, Atomics[name]]));
t.afterEach(() => void Object.assign(Atomics, atomics));

/** Runs an operation that ends before or after its `count`th step. False: it has fewer. */
function killAt(count: number, when: 'before' | 'after', run: () => void): boolean {
  Object.assign(death, { left: count, when });
  try {
    run();
    return false;
  } catch (error) {
    if (error instanceof Killed) return true;
    throw error;
  } finally {
    death.left = Infinity;
    Object.assign(Atomics, atomics);
  }
}

const BOUNDS = { runningRequests: 10, requestsPerMinute: 100, tokensPerMinute: 1000 };

t.test('a thread that ends at any step leaves nothing reserved, and no lock that stops others', async (t) => {
  const reserve = (random: Random, table: LimitTable, nowMs: number): number => {
    if (table.admitKey(CELL, BOUNDS, 1, 1 + random.below(90), nowMs) !== 'admitted') throw new Error('refused');
    return table.bucket;
  };
  let kills = 0;
  for (const operation of ['admit', 'refuse', 'settle', 'advance', 'first'] as const) {
    for (const when of ['before', 'after'] as const) {
      for (let count = 1; ; count++) {
        const random = new Random(count);
        const memory = createLimitMemory(2, 1);
        const dying = mortalTable(memory, 0);
        const other = new LimitTable(memory, 1);
        let nowMs = START;
        // What is settled stays; what is under way returns.
        let bucket = 0;
        if (operation !== 'first') {
          bucket = reserve(random, dying, nowMs);
          dying.settleKey(CELL, bucket, dying.tokens, 7);
          bucket = reserve(random, dying, nowMs);
        }
        const reserved = dying.tokens;
        const kept = operation === 'first' ? 0 : 7;
        const ended = killAt(count, when, () => {
          if (operation === 'settle') dying.settleKey(CELL, bucket, reserved, 5);
          else if (operation === 'refuse') dying.admitKey(CELL, BOUNDS, 1, 999, nowMs);
          else if (operation === 'advance') dying.admitKey(CELL, BOUNDS, 1, 50, (nowMs += 9000));
          else dying.admitKey(CELL, BOUNDS, 1, 50, nowMs);
        });
        if (!ended) break;
        kills++;
        other.clearThread(0);
        // The truth of a settlement is its second write. Of a request that is admitted, the request itself may stay counted.
        const label = `${operation}, ${when} step ${count}`;
        const settled = operation === 'settle' && (when === 'after' ? count >= 2 : count >= 3) ? 5 : 0;
        const most = BOUNDS.tokensPerMinute - kept - settled;
        t.equal(other.admitKey(CELL, BOUNDS, most, most, nowMs), 'admitted', label);
        t.equal(other.remainingTokens, 0, label);
        t.ok(other.remainingRequests >= BOUNDS.requestsPerMinute - (operation === 'first' ? 2 : 4), label);
        other.settleKey(CELL, other.bucket, other.tokens, 0);
        for (let running = 0; running < BOUNDS.runningRequests; running++) {
          t.equal(other.admitKey(CELL, BOUNDS, 0, 0, nowMs), 'admitted', `${label}, running ${running}`);
        }
        t.equal(other.admitKey(CELL, BOUNDS, 0, 0, nowMs), 'running', label);
        // The next thread in the row goes on.
        const next = new LimitTable(memory, 0);
        t.equal(next.admitKey(CELL, { ...BOUNDS, runningRequests: 11 }, 0, 0, nowMs), 'admitted', label);
      }
    }
  }
  t.ok(kills >= 20, `${kills} kills`);
});

t.test('a thread that ends at any step leaves the money that is spent, and nothing that it held', async (t) => {
  const LIMIT = 1000;
  let kills = 0;
  for (const operation of ['admit', 'refuse', 'settle', 'period', 'first'] as const) {
    for (const when of ['before', 'after'] as const) {
      for (let count = 1; ; count++) {
        const memory = createLimitMemory(2, 1);
        const dying = mortalTable(memory, 0);
        const other = new LimitTable(memory, 1);
        let period = 600;
        if (operation !== 'first') {
          dying.admitBudget(CELL, LIMIT, 300, 300, period);
          dying.spendBudget(CELL, 100, period, false);
          dying.releaseBudget(CELL, 300);
          dying.admitBudget(CELL, LIMIT, 200, 200, period);
        }
        const ended = killAt(count, when, () => {
          if (operation === 'settle') {
            dying.spendBudget(CELL, 50, period, false);
            dying.releaseBudget(CELL, 200);
            dying.cross(CELL, 'soft', period);
          } else if (operation === 'refuse') dying.admitBudget(CELL, LIMIT, 900, 900, period);
          else if (operation === 'period') dying.admitBudget(CELL, LIMIT, 10, 10, ++period);
          else dying.admitBudget(CELL, LIMIT, 10, 10, period);
        });
        if (!ended) break;
        kills++;
        other.clearThread(0);
        const label = `${operation}, ${when} step ${count}`;
        // The money of the last period is gone with it, whether or not the row has noticed.
        const settled = operation === 'settle' && (when === 'after' || count >= 2) ? 50 : 0;
        const spent = operation === 'first' || operation === 'period' ? 0 : 100 + settled;
        t.equal(other.spent(CELL, period), spent, label);
        t.equal(other.admitBudget(CELL, LIMIT, LIMIT - spent, LIMIT - spent, period), 'admitted', label);
        t.equal(other.admitBudget(CELL, LIMIT, 1, 1, period), 'held', label);
      }
    }
  }
  t.ok(kills >= 15, `${kills} kills`);
});
