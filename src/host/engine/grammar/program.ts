// Compiles a parsed grammar into one flat list of instructions over bytes, which matcher.ts runs.
// A position is an index into the list; a sequence is a run of positions that closes with an `end`.
import type { CodeRange, Element, Grammar } from './gbnf.ts';
import { refuseLeftRecursion } from './left-recursion.ts';
import type { ByteRange } from './utf8.ts';
import { encodeRange } from './utf8.ts';

/** A byte range with what follows it: the next position (`rest` -1), or first the rest of the character at `rest`. */
export interface Branch {
  readonly from: number;
  readonly to: number;
  readonly rest: number;
}

/** One instruction: read a byte, call one of several sequences, or return. */
export type Instruction =
  | { readonly op: 'byte'; readonly branches: readonly Branch[] }
  | { readonly op: 'call'; readonly starts: readonly number[] }
  | { readonly op: 'end' };

/** A compiled grammar. */
export interface Program {
  readonly code: readonly Instruction[];
  /** Starts of the alternatives of the root. */
  readonly starts: readonly number[];
  /** Class of each byte: bytes of one class are treated alike everywhere. */
  readonly classOf: Uint8Array;
  readonly classCount: number;
}

const END: Instruction = { op: 'end' };

/** Compiles a grammar. Throws a GrammarError when it is left-recursive. */
export function compileGrammar(grammar: Grammar): Program {
  refuseLeftRecursion(grammar);
  const code: Instruction[] = [];
  const starts = grammar.rules.map((): number[] => []);
  const tails = new Map<string, number>();
  const sets = new Map<readonly CodeRange[], Instruction>();

  /** Position that reads the rest of a character; equal rests are shared. */
  function tailOf(rest: readonly ByteRange[]): number {
    if (rest.length === 0) return -1;
    const key = rest.map(({ from, to }) => `${from}-${to}`).join(' ');
    let position = tails.get(key);
    if (position === undefined) {
      const [{ from, to }, ...after] = rest as [ByteRange, ...ByteRange[]];
      const instruction: Instruction = { op: 'byte', branches: [{ from, to, rest: tailOf(after) }] };
      position = code.push(instruction, END) - 2;
      tails.set(key, position);
    }
    return position;
  }

  function instructionOf(element: Element): Instruction {
    if (element.kind === 'rule') return { op: 'call', starts: starts[element.rule]! };
    let instruction = sets.get(element.ranges);
    if (instruction === undefined) {
      const sequences = element.ranges.flatMap(encodeRange);
      const branches = sequences.map(([first, ...rest]) => ({ ...first!, rest: tailOf(rest) }));
      instruction = { op: 'byte', branches };
      sets.set(element.ranges, instruction);
    }
    return instruction;
  }

  for (const [index, alternatives] of grammar.rules.entries()) {
    for (const sequence of alternatives) {
      // Tails are written while instructions are made, so all of them are made before the run begins.
      const instructions = sequence.map(instructionOf);
      starts[index]!.push(code.length);
      code.push(...instructions, END);
    }
  }
  return { code, starts: starts[grammar.root]!, ...classesOf(code) };
}

function classesOf(code: readonly Instruction[]): { classOf: Uint8Array; classCount: number } {
  const isBorder = new Uint8Array(257);
  for (const instruction of code) {
    if (instruction.op !== 'byte') continue;
    for (const { from, to } of instruction.branches) {
      isBorder[from] = 1;
      isBorder[to + 1] = 1;
    }
  }
  const classOf = new Uint8Array(256);
  let current = 0;
  for (let byte = 1; byte < 256; byte++) {
    current += isBorder[byte]!;
    classOf[byte] = current;
  }
  return { classOf, classCount: current + 1 };
}
