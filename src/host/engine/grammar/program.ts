// Compiles a parsed grammar into a flat list of instructions over UTF-8 bytes, and refuses left-recursive rules. A position
// is an index into the list; a sequence is a run of positions that ends with `end`.
import type { CodeRange, Element, Grammar } from './gbnf.ts';
import { GrammarError } from './grammar-rules.ts';

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

  /** Position that reads the rests of characters; equal ones are shared. */
  function tailOf(rests: readonly (readonly ByteRange[])[]): number {
    if (rests[0]!.length === 0) return -1;
    const key = rests.map((rest) => rest.map(({ from, to }) => `${from}-${to}`).join(' ')).join(',');
    let position = tails.get(key);
    if (position === undefined) {
      const instruction = byteOf(rests);
      position = code.push(instruction, END) - 2;
      tails.set(key, position);
    }
    return position;
  }

  /** One branch for each first byte, however many characters begin with it: branches of an instruction do not overlap. */
  function byteOf(sequences: readonly (readonly ByteRange[])[]): Instruction {
    const branches: Branch[] = [];
    for (let at = 0; at < sequences.length;) {
      const { from, to } = sequences[at]![0]!;
      let end = at + 1;
      while (end < sequences.length && sequences[end]![0]!.from === from) end++;
      branches.push({ from, to, rest: tailOf(sequences.slice(at, end).map((sequence) => sequence.slice(1))) });
      at = end;
    }
    return { op: 'byte', branches };
  }

  function instructionOf(element: Element): Instruction {
    if (element.kind === 'rule') return { op: 'call', starts: starts[element.rule]! };
    let instruction = sets.get(element.ranges);
    if (instruction === undefined) {
      instruction = byteOf(disjoint(element.ranges).flatMap(encodeRange));
      sets.set(element.ranges, instruction);
    }
    return instruction;
  }

  for (const [index, alternatives] of grammar.rules.entries()) {
    for (const sequence of alternatives) {
      // Tails are written while instructions are made, so all of them are made before the run begins.
      const instructions = sequence.map(instructionOf);
      starts[index]!.push(code.length);
      for (const instruction of instructions) code.push(instruction);
      code.push(END);
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

/** Throws a GrammarError that names a left-recursive rule, when there is one. */
function refuseLeftRecursion(grammar: Grammar): void {
  const edges = leftEdges(grammar);
  const cycleOf = cyclesOf(edges);
  for (const [from, targets] of edges.entries()) {
    if (targets.some(({ rule, last }) => !last && cycleOf[rule] === cycleOf[from])) {
      throw new GrammarError(`grammar: rule '${grammar.names[from]}' begins with itself`);
    }
  }
}

interface Edge {
  readonly rule: number;
  /** Whether the reference ends its sequence. */
  readonly last: boolean;
}

/** For every rule, the rules that can stand at the begin of it. */
function leftEdges(grammar: Grammar): Edge[][] {
  const nullable = nullableRules(grammar);
  return grammar.rules.map((alternatives) => {
    const edges: Edge[] = [];
    for (const sequence of alternatives) {
      for (const [at, element] of sequence.entries()) {
        if (element.kind !== 'rule') break;
        edges.push({ rule: element.rule, last: at === sequence.length - 1 });
        if (!nullable.has(element.rule)) break;
      }
    }
    return edges;
  });
}

/** Rules that match nothing at all. Each reference is looked at once, so that the order of the rules does not matter. */
function nullableRules({ rules }: Grammar): Set<number> {
  const nullable = new Set<number>();
  const open: number[] = [];
  const add = (rule: number): void => {
    if (nullable.has(rule)) return;
    nullable.add(rule);
    open.push(rule);
  };
  /** By rule, the sequences it stands in that have nothing but rules. */
  const places = rules.map((): { readonly owner: number; left: number }[] => []);
  for (const [owner, alternatives] of rules.entries()) {
    for (const sequence of alternatives) {
      if (sequence.length === 0) add(owner);
      if (sequence.some(({ kind }) => kind !== 'rule')) continue;
      const place = { owner, left: sequence.length };
      for (const element of sequence) if (element.kind === 'rule') places[element.rule]!.push(place);
    }
  }
  for (let rule = open.pop(); rule !== undefined; rule = open.pop())
    for (const place of places[rule]!) if (--place.left === 0) add(place.owner);
  return nullable;
}

/** A number for every rule; two rules that reach each other have the same one. By Tarjan's algorithm, in linear time. */
function cyclesOf(edges: readonly (readonly Edge[])[]): Int32Array {
  const numbers = new Int32Array(edges.length).fill(-1);
  const lowest = new Int32Array(edges.length);
  const cycleOf = new Int32Array(edges.length).fill(-1);
  const next = new Int32Array(edges.length);
  const pending: number[] = [];
  let count = 0;
  for (const root of edges.keys()) {
    if (numbers[root] !== -1) continue;
    // Not by recursion: rules refer to one another in chains as long as the grammar.
    const path = [root];
    for (let rule = path.at(-1); rule !== undefined; rule = path.at(-1)) {
      if (numbers[rule] === -1) {
        numbers[rule] = lowest[rule] = count++;
        pending.push(rule);
      }
      const target = edges[rule]![next[rule]!++]?.rule;
      if (target !== undefined) {
        if (numbers[target] === -1) path.push(target);
        else if (cycleOf[target] === -1) lowest[rule] = Math.min(lowest[rule]!, numbers[target]!);
        continue;
      }
      path.pop();
      const above = path.at(-1);
      if (above !== undefined) lowest[above] = Math.min(lowest[above]!, lowest[rule]!);
      if (lowest[rule] !== numbers[rule]) continue;
      let member: number;
      do {
        member = pending.pop()!;
        cycleOf[member] = rule;
      } while (member !== rule);
    }
  }
  return cycleOf;
}

/** The same characters in ranges that are in order and apart. */
function disjoint(ranges: readonly CodeRange[]): CodeRange[] {
  const apart: { from: number; to: number }[] = [];
  for (const { from, to } of ranges.toSorted((a, b) => a.from - b.from)) {
    const last = apart.at(-1);
    if (last !== undefined && from <= last.to + 1) last.to = Math.max(last.to, to);
    else apart.push({ from, to });
  }
  return apart;
}

/** Bytes from `from` to `to`, both included. */
export interface ByteRange {
  readonly from: number;
  readonly to: number;
}

/** Last code point of each encoded length, and the two ends of the surrogates. */
const BORDERS = [0x7f, 0x7ff, 0xd7ff, 0xdfff, 0xffff, 0x10ffff];
const isSurrogate = (code: number): boolean => code >= 0xd800 && code <= 0xdfff;

/** Byte sequences that encode exactly the characters of a range. */
function encodeRange({ from, to }: CodeRange): ByteRange[][] {
  const sequences: ByteRange[][] = [];
  let start = from;
  for (const border of BORDERS) {
    if (start > to) break;
    const end = Math.min(border, to);
    if (start > end) continue;
    if (!isSurrogate(start)) sequences.push(...encodeSameLength(bytesOf(start), bytesOf(end)));
    start = end + 1;
  }
  return sequences;
}

/** Splits a range whose ends have equally many bytes until each part is a product of byte ranges. */
function encodeSameLength(low: readonly number[], high: readonly number[]): ByteRange[][] {
  const [first, ...lowRest] = low as [number, ...number[]];
  const [last, ...highRest] = high as [number, ...number[]];
  if (lowRest.length === 0) return [[{ from: first, to: last }]];
  const before = (byte: ByteRange, rests: ByteRange[][]): ByteRange[][] => rests.map((rest) => [byte, ...rest]);
  if (first === last) return before({ from: first, to: first }, encodeSameLength(lowRest, highRest));
  const least = lowRest.map(() => 0x80);
  const most = lowRest.map(() => 0xbf);
  const lowIsFull = lowRest.every((byte) => byte === 0x80);
  const highIsFull = highRest.every((byte) => byte === 0xbf);
  const middle = { from: lowIsFull ? first : first + 1, to: highIsFull ? last : last - 1 };
  return [
    ...(lowIsFull ? [] : before({ from: first, to: first }, encodeSameLength(lowRest, most))),
    ...(middle.from <= middle.to ? before(middle, encodeSameLength(least, most)) : []),
    ...(highIsFull ? [] : before({ from: last, to: last }, encodeSameLength(least, highRest))),
  ];
}

function bytesOf(code: number): number[] {
  const tail = (shift: number): number => 0x80 | ((code >> shift) & 0x3f);
  if (code < 0x80) return [code];
  if (code < 0x800) return [0xc0 | (code >> 6), tail(0)];
  if (code < 0x1_0000) return [0xe0 | (code >> 12), tail(6), tail(0)];
  return [0xf0 | (code >> 18), tail(12), tail(6), tail(0)];
}
