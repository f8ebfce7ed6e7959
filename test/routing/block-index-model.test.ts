// The block index over random interleavings. Threads stop after any single access to the shared memory, plain or atomic, go on later or
// die there. No reader may take a block as held that was not entered for the member, or was entered too long ago; where a line has room,
// nothing that was entered to its end is lost; and once all is quiet, whatever dead threads have left is overwritten.
//
// A call is stopped by an exception, and goes on by running it again with the recorded results of the accesses that it has done. That
// is possible because it depends on nothing else.

import t from 'tap';
import type { Test } from 'tap';
import { createSeededRandom } from '../../src/actor/index.ts';
import { BlockIndex, type BlockIndexMemory } from '../../src/routing/block-index.ts';
import { LONG } from '../support/long.ts';

const SEEDS = LONG ? 3000 : 400;
const CALLS = 40;
const THREADS = 4;
const MEMBERS = 2;
const SLOTS = 8;
const ATOMIC = ['load', 'store', 'add', 'compareExchange'] as const;
type Call = (array: object, ...args: number[]) => number;

/** Thrown out of a call that stops. */
const STOPPED = new Error('stopped');

/** Shared memory whose accesses can be stopped: while it is installed, arrays on shared memory are watched. */
class Accesses {
  /** Results of the accesses that the running call has done, the next one to be repeated, and how many more it may do. */
  results: number[] | null = null;
  /** Called with the new value of each word that `Atomics.add` changes. */
  onAdded: ((value: number) => void) | null = null;
  #cursor = 0;
  #budget = 0;
  readonly #arrays = new WeakMap<object, Int32Array>();
  readonly #atomics = new Map<string, Call>();
  readonly #Int32Array = Int32Array;

  install(): void {
    const watch = (array: Int32Array): Int32Array => this.#watch(array);
    const Watched = new Proxy(this.#Int32Array, {
      construct: (target, args: [SharedArrayBuffer]) =>
        args[0] instanceof SharedArrayBuffer ? watch(new target(args[0])) : new target(...args),
    });
    Reflect.set(globalThis, 'Int32Array', Watched);
    for (const name of ATOMIC) {
      const original = Reflect.get(Atomics, name) as Call;
      this.#atomics.set(name, original);
      const step: Call = (array, ...args) => {
        const inner = this.#arrays.get(array);
        if (inner === undefined) return original(array, ...args);
        return this.#step(() => {
          const result = original(inner, ...args);
          if (name === 'add') this.onAdded?.((result + (args[1] as number)) | 0);
          return result;
        });
      };
      Reflect.set(Atomics, name, step);
    }
  }

  remove(): void {
    Reflect.set(globalThis, 'Int32Array', this.#Int32Array);
    for (const [name, original] of this.#atomics) Reflect.set(Atomics, name, original);
  }

  /** Runs up to `budget` more accesses of a call. Undefined when it has not come to its end. */
  advance<T>(results: number[], budget: number, call: () => T): { readonly value: T } | undefined {
    this.results = results;
    this.#cursor = 0;
    this.#budget = budget;
    try {
      return { value: call() };
    } catch (error) {
      if (error !== STOPPED) throw error;
      return undefined;
    } finally {
      this.results = null;
    }
  }

  #watch(inner: Int32Array): Int32Array {
    const isIndex = (name: string | symbol): name is string => typeof name === 'string' && /^\d+$/.test(name);
    const watched = new Proxy(inner, {
      get: (array, name) => {
        if (!isIndex(name)) return Reflect.get(array, name, array) as unknown;
        return this.#step(() => array[Number(name)] as number);
      },
      set: (array, name, value: number) => {
        if (!isIndex(name)) return Reflect.set(array, name, value, array);
        this.#step(() => (array[Number(name)] = value));
        return true;
      },
    });
    this.#arrays.set(watched, inner);
    return watched;
  }

  #step(access: () => number): number {
    const { results } = this;
    if (results === null) return access();
    if (this.#cursor === results.length) {
      if (this.#budget-- === 0) throw STOPPED;
      results.push(access());
    }
    return results[this.#cursor++] as number;
  }
}

/** Memory of so many lines: fewer than the smallest index has. */
function tinyMemory(lines: number): BlockIndexMemory {
  return {
    members: MEMBERS,
    lines: new SharedArrayBuffer(48 + lines * SLOTS * 8),
    clocks: new SharedArrayBuffer(MEMBERS * 8),
  };
}

/** A prompt: hashes of its blocks. Prompts that begin alike share the first ones. */
type Chain = Int32Array;

/** Chains of three to five blocks, some of which begin with blocks of the first one. */
function makeChains(count: number, random: () => number): Chain[] {
  const word = (): number => Math.floor(random() * 2 ** 32) | 0;
  const chains: Chain[] = [];
  for (let n = 0; n < count; n++) {
    const chain = Int32Array.from({ length: 2 * (3 + Math.floor(random() * 3)) }, word);
    const [first] = chains;
    if (first !== undefined && random() < 0.5) chain.set(first.subarray(0, 2 + 2 * Math.floor(random() * 2)));
    chains.push(chain);
  }
  return chains;
}

/** A call of a thread that may be stopped. */
interface Work {
  readonly member: number;
  readonly results: number[];
  readonly run: () => unknown;
  readonly onAdded?: (clock: number) => void;
  readonly done?: (value: never) => void;
}

class Model {
  found = 0;
  died = 0;
  readonly #test: Pick<Test, 'ok' | 'equal'>;
  readonly #random: () => number;
  readonly #accesses: Accesses;
  readonly #chains: Chain[];
  readonly #memory: BlockIndexMemory;
  readonly #clocks: Int32Array;
  readonly #threads: BlockIndex[];
  readonly #work: (Work | null)[];
  /** Whether no line can be full: then nothing may be lost. */
  readonly #hasRoom: boolean;
  /** In units. */
  readonly #capacity: number;
  /** Stamps of each member and block that were written, or may be. */
  readonly #stamps = new Map<string, number[]>();
  /** What was entered to its end, unless something of the member was forgotten meanwhile or since. */
  #entered: { readonly member: number; readonly chain: Chain; readonly count: number }[] = [];
  /** Changes when something of a member is forgotten. */
  readonly #forgotten: number[] = Array.from({ length: MEMBERS }, () => 0);
  /** Withdrawals of entries that have come to their end. */
  readonly #withdrawable: Work[] = [];
  #begun = 0;

  constructor(test: Pick<Test, 'ok' | 'equal'>, accesses: Accesses, seed: number) {
    this.#test = test;
    this.#accesses = accesses;
    this.#random = createSeededRandom(seed);
    this.#hasRoom = seed % 2 === 0;
    this.#capacity = seed % 3 === 0 ? 6 : 1000;
    this.#chains = makeChains(this.#hasRoom ? 3 : 12, this.#random);
    this.#memory = tinyMemory(this.#hasRoom ? 16 : 1);
    this.#clocks = new Int32Array(this.#memory.clocks);
    this.#threads = Array.from({ length: THREADS }, () => new BlockIndex(this.#memory));
    this.#work = this.#threads.map(() => null);
    while (this.#hasRoom && this.#fullest() > SLOTS) this.#chains.pop();
    const wraps = this.#random() < 0.3;
    for (let member = 0; member < MEMBERS; member++) {
      this.#threads[0]?.setCapacity(member, this.#capacity * 512);
      if (wraps) this.#clocks[2 * member] = 2 ** 31 - 20;
    }
  }

  run(): void {
    while (this.#begun < CALLS || this.#work.some((work) => work !== null)) this.#step();
    if (this.#hasRoom && this.#capacity > CALLS * 5) this.#checkEntered();
    this.#checkQuiet();
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T;
  }

  /** Entries of the fullest line when everything is entered for every member. */
  #fullest(): number {
    const keys = new Map<number, Set<number>>();
    for (const chain of this.#chains) {
      for (let at = 0; at < chain.length; at += 2) {
        const line = (chain[at] as number) & 15;
        keys.set(line, (keys.get(line) ?? new Set()).add(chain[at + 1] as number));
      }
    }
    return MEMBERS * Math.max(...[...keys.values()].map(({ size }) => size));
  }

  #step(): void {
    const at = Math.floor(this.#random() * THREADS);
    const work = this.#work[at] ?? (this.#begun < CALLS ? this.#begin(this.#threads[at] as BlockIndex) : null);
    this.#work[at] = null;
    if (work === null) return;
    if (this.#random() < 0.01) {
      // The thread dies, and another one takes its place.
      this.#threads[at] = new BlockIndex(this.#memory);
      this.#forget(work.member);
      this.died++;
      return;
    }
    this.#accesses.onAdded = work.onAdded ?? null;
    const ended = this.#accesses.advance(work.results, 1 + Math.floor(this.#random() ** 2 * 30), work.run);
    if (ended === undefined) this.#work[at] = work;
    else work.done?.(ended.value as never);
  }

  #begin(index: BlockIndex): Work {
    this.#begun++;
    const member = Math.floor(this.#random() * MEMBERS);
    const chain = this.#pick(this.#chains);
    const count = 1 + Math.floor((this.#random() * chain.length) / 2);
    const choice = this.#random();
    if (choice < 0.5) return this.#enter(index, member, chain, count);
    const withdrawn = choice < 0.6 ? this.#withdrawable.shift() : undefined;
    if (withdrawn !== undefined) {
      this.#forget(withdrawn.member);
      return withdrawn;
    }
    if (choice < 0.95) return this.#read(index, member, chain, count);
    this.#forget(member);
    return { member, results: [], run: () => index.clear(member), done: () => this.#forget(member) };
  }

  #forget(member: number): void {
    this.#forgotten[member]!++;
    this.#entered = this.#entered.filter((entered) => entered.member !== member);
  }

  #enter(index: BlockIndex, member: number, chain: Chain, count: number): Work {
    const forgotten = this.#forgotten[member];
    return {
      member,
      results: [],
      run: () => index.enter(member, chain, count),
      onAdded: (clock) => {
        for (let block = 0; block < count; block++) {
          const key = `${member} ${chain[2 * block]}`;
          this.#stamps.set(key, [...(this.#stamps.get(key) ?? []), clock - block]);
        }
      },
      done: (enteredAt: number) => {
        if (this.#random() < 0.4) {
          const run = (): void => index.withdraw(member, chain, 0, count, enteredAt);
          this.#withdrawable.push({ member, results: [], run, done: () => this.#forget(member) });
        }
        if (this.#forgotten[member] === forgotten) this.#entered.push({ member, chain, count });
        // It may have set stamps from before a clearing on blocks that were entered after it.
        else this.#forget(member);
      },
    };
  }

  #read(index: BlockIndex, member: number, chain: Chain, count: number): Work {
    const clock = this.#clocks[2 * member] as number;
    return {
      member,
      results: [],
      run: () => index.matched(member, chain, count),
      done: (matched: number) => {
        if (matched === 0) return;
        this.found++;
        const stamps = this.#stamps.get(`${member} ${chain[2 * (matched - 1)]}`) ?? [];
        const isTrue = stamps.some((stamp) => ((clock - stamp) | 0) < this.#capacity);
        this.#test.ok(isTrue, 'a block that is held was entered, and not too long ago');
      },
    };
  }

  #checkEntered(): void {
    const index = new BlockIndex(this.#memory);
    for (const { member, chain, count } of this.#entered) {
      this.#test.equal(index.matched(member, chain, count), count, 'nothing is lost where lines have room');
    }
  }

  /** Whatever is in the lines, the next one that is entered alone is found. */
  #checkQuiet(): void {
    const index = new BlockIndex(this.#memory);
    for (let member = 0; member < MEMBERS; member++) {
      for (const chain of this.#chains) {
        const count = chain.length / 2;
        // Otherwise the last blocks of the chain may be older than what other calls have entered.
        for (let other = 0; other < MEMBERS; other++) index.clear(other);
        const enteredAt = index.enter(member, chain, count);
        this.#test.equal(index.matched(member, chain, count), count, 'what is entered last is found');
        index.withdraw(member, chain, 1, count, enteredAt);
        this.#test.equal(index.matched(member, chain, count), 1, 'what is forgotten is not');
      }
    }
  }
}

t.test('threads that stop, race and die anywhere', (t) => {
  const accesses = new Accesses();
  accesses.install();
  t.teardown(() => accesses.remove());
  let failures = 0;
  const quiet = {
    ok: (is: boolean, what: string): boolean => is || (failures++ === 0 && t.fail(what)),
    equal: (found: number, wanted: number, what: string): boolean =>
      found === wanted || (failures++ === 0 && t.equal(found, wanted, what)),
  };
  let found = 0;
  let died = 0;
  for (let seed = 1; seed <= SEEDS; seed++) {
    const before = failures;
    const model = new Model(quiet as unknown as Test, accesses, seed);
    model.run();
    if (failures > before) t.comment(`seed ${seed}`);
    found += model.found;
    died += model.died;
  }
  t.equal(failures, 0);
  t.ok(found > SEEDS * 3, `${found} readings found blocks`);
  t.ok(died > SEEDS, `${died} threads died`);
  t.end();
});
