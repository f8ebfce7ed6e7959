// Runs a compiled grammar over bytes. A state is the set of stacks that a text can have led to; states and transitions are
// created on first use and cached, so that a grammar in use behaves like a finite automaton. Stacks share their lower frames.
import type { Grammar } from './gbnf.ts';
import { type Program, compileGrammar } from './program.ts';

/** Where a text stands in a grammar. */
export interface GrammarState {
  /** Whether the text may end here. */
  readonly accepting: boolean;
}

/** A grammar that can be run; shared by all sequences under it. */
export interface Matcher {
  readonly start: GrammarState;
  /** About how much memory it takes, where one instruction is 1; grows with use. */
  readonly size: number;
  /** The state after one more byte, or null when the grammar does not allow it. */
  step(state: GrammarState, byte: number): GrammarState | null;
}

/** A position with the frames to return to. */
interface Frame {
  readonly id: number;
  readonly position: number;
  readonly below: Frame | null;
}

interface State extends GrammarState {
  readonly frames: readonly Frame[];
  /** By class of byte; undefined until computed. */
  readonly next: (State | null | undefined)[];
}

/** Stacks of one state. A grammar that is more ambiguous loses readings: what is left still matches it. */
const MAX_STACKS = 2048;
/** Frames, stacks and states that are kept; past this the tables begin anew, so that long nested texts do not fill the memory. */
const MAX_FRAMES = 200_000;
const MAX_STATES = 8192;
/** A state has transitions, and most have a mask of the vocabulary. */
const STATE_SIZE = 32;

/** Prepares a grammar. Throws a GrammarError when it is left-recursive. */
export function createMatcher(grammar: Grammar): Matcher {
  const tables = new Tables(compileGrammar(grammar));
  return {
    get start() {
      return tables.start;
    },
    get size() {
      return tables.size;
    },
    step: (state, byte) => tables.step(state as State, byte),
  };
}

/** True when the bytes are a whole text of the grammar. */
export function matches(matcher: Matcher, bytes: Iterable<number>): boolean {
  let state: GrammarState | null = matcher.start;
  for (const byte of bytes) {
    state = matcher.step(state, byte);
    if (state === null) return false;
  }
  return state.accepting;
}

class Tables {
  readonly #program: Program;
  readonly #frames = new Map<number, Frame>();
  readonly #states = new Map<string, State>();
  /** Frames in all states. */
  #stacks = 0;
  #nextId = 1;
  /** Transitions lead from it to every other state: it goes with them. */
  #start: State | null = null;

  constructor(program: Program) {
    this.#program = program;
  }

  get start(): State {
    this.#start ??= this.stateOf((closing) => {
      for (const position of this.#program.starts) closing.add(position, null);
    });
    return this.#start;
  }

  get size(): number {
    return this.#program.code.length + this.#frames.size + this.#stacks + STATE_SIZE * this.#states.size;
  }

  step(state: State, byte: number): State | null {
    const at = this.#program.classOf[byte]!;
    const known = state.next[at];
    if (known !== undefined) return known;
    const { code } = this.#program;
    const next = this.stateOf((closing) => {
      for (const { position, below } of state.frames) {
        const instruction = code[position]!;
        if (instruction.op !== 'byte') continue;
        for (const { from, to, rest } of instruction.branches) {
          if (byte < from || byte > to) continue;
          if (rest < 0) closing.add(position + 1, below);
          else closing.add(rest, closing.stacked(position + 1, below));
        }
      }
    });
    state.next[at] = next.frames.length === 0 && !next.accepting ? null : next;
    return state.next[at]!;
  }

  /** The state of the stacks that `fill` adds, after everything that reads nothing was done. */
  stateOf(fill: (closing: Closing) => void): State {
    if (Math.max(this.#frames.size, this.#stacks) > MAX_FRAMES || this.#states.size > MAX_STATES) this.#forget();
    const closing = new Closing(this.#program, (position, below) => this.#frameOf(position, below));
    fill(closing);
    const frames = closing.close();
    const key = `${closing.accepting ? '+' : '-'}${frames.map(({ id }) => id).join(',')}`;
    let state = this.#states.get(key);
    if (state === undefined) {
      state = { accepting: closing.accepting, frames, next: [] };
      this.#states.set(key, state);
      this.#stacks += frames.length;
    }
    return state;
  }

  #forget(): void {
    this.#frames.clear();
    this.#states.clear();
    this.#stacks = 0;
    this.#start = null;
  }

  #frameOf(position: number, below: Frame | null): Frame {
    const key = (below?.id ?? 0) * this.#program.code.length + position;
    let frame = this.#frames.get(key);
    if (frame === undefined) {
      frame = { id: this.#nextId++, position, below };
      this.#frames.set(key, frame);
    }
    return frame;
  }
}

/** Follows calls and returns until every stack expects a byte. */
class Closing {
  readonly #program: Program;
  readonly #frameOf: (position: number, below: Frame | null) => Frame;
  readonly #seen = new Set<Frame>();
  readonly #open: Frame[] = [];
  accepting: boolean = false;

  constructor(program: Program, frameOf: (position: number, below: Frame | null) => Frame) {
    this.#program = program;
    this.#frameOf = frameOf;
  }

  add(position: number, below: Frame | null): void {
    if (this.#seen.size >= MAX_STACKS) return;
    const frame = this.#frameOf(position, below);
    if (this.#seen.has(frame)) return;
    this.#seen.add(frame);
    this.#open.push(frame);
  }

  /** The stack with a position to return to; nothing is stacked when only the return would be left to do there. */
  stacked(position: number, below: Frame | null): Frame | null {
    return this.#program.code[position]!.op === 'end' ? below : this.#frameOf(position, below);
  }

  /** The stacks that wait for a byte, in the order of their ids. */
  close(): Frame[] {
    const waiting: Frame[] = [];
    for (let frame = this.#open.pop(); frame !== undefined; frame = this.#open.pop()) {
      const { position, below } = frame;
      const instruction = this.#program.code[position]!;
      if (instruction.op === 'byte') waiting.push(frame);
      else if (instruction.op === 'call') {
        const back = this.stacked(position + 1, below);
        for (const start of instruction.starts) this.add(start, back);
      } else if (below === null) this.accepting = true;
      else this.add(below.position, below.below);
    }
    return waiting.sort((a, b) => a.id - b.id);
  }
}
