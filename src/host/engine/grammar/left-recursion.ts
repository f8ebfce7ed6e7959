// Finds rules that come back to themselves before reading anything. Such a rule would grow the stack of the matcher for
// ever. A rule that comes back as the last thing of its sequence does not: nothing is left to be stacked.
import { GrammarError } from './error.ts';
import type { Grammar } from './gbnf.ts';

/** Throws a GrammarError that names a left-recursive rule, when there is one. */
export function refuseLeftRecursion(grammar: Grammar): void {
  const edges = leftEdges(grammar);
  for (const [from, targets] of edges.entries()) {
    for (const { rule, last } of targets) {
      if (!last && reaches(edges, rule, from)) {
        throw new GrammarError(`grammar: rule '${grammar.names[from]}' begins with itself`);
      }
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

/** Rules that match nothing at all. */
function nullableRules({ rules }: Grammar): Set<number> {
  const nullable = new Set<number>();
  for (let before = -1; before < nullable.size;) {
    before = nullable.size;
    // Made-up rules refer to earlier ones, so going backwards and forwards settles chains in few rounds.
    for (const [index, alternatives] of rules.entries()) {
      const isEmpty = alternatives.some((sequence) =>
        sequence.every((element) => element.kind === 'rule' && nullable.has(element.rule)),
      );
      if (isEmpty) nullable.add(index);
    }
  }
  return nullable;
}

function reaches(edges: readonly (readonly Edge[])[], from: number, to: number): boolean {
  const seen = new Set([from]);
  const open = [from];
  for (let rule = open.pop(); rule !== undefined; rule = open.pop()) {
    if (rule === to) return true;
    for (const edge of edges[rule]!) {
      if (seen.has(edge.rule)) continue;
      seen.add(edge.rule);
      open.push(edge.rule);
    }
  }
  return false;
}
