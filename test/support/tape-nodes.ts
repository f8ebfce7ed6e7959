// The values of a tape as tests compare them.

import { NODE } from '../../src/dialect/json-scan-module.ts';
import { JsonTape } from '../../src/dialect/json-tape.ts';

/** Start, end, next node and name of each value, in order. */
export function nodesOf(tape: JsonTape): number[] {
  const all: number[] = [];
  const end = tape.next(JsonTape.ROOT);
  for (let node = JsonTape.ROOT; node < end; node += NODE) {
    all.push(tape.start(node), tape.end(node), tape.next(node), tape.name(node));
  }
  return all;
}
