// Reads values of the request that is being translated. A value of another type than its field is refused by name: without it, or with
// another one in its place, the request would be another one.

import { bodyTape as tape } from '../body-scan.ts';
import { nameOf } from '../json-names.ts';
import { JsonTape } from '../json-tape.ts';
import { untranslatable } from './untranslatable.ts';

const { NONE } = JsonTape;

/** The value of a member that is there and not null; else `NONE`. */
export function present(object: number, name: number): number {
  const value = tape.member(object, name);
  return value === NONE || tape.isNull(value) ? NONE : value;
}

/** A string that an object must have. */
export function stringIn(object: number, name: number): number {
  const value = optionalString(object, name);
  if (value === NONE) throw untranslatable(tape, object, `It has no \`${nameOf(name)}\`.`);
  return value;
}

/** A string that an object may have; else `NONE`. */
export function optionalString(object: number, name: number): number {
  const value = present(object, name);
  if (value !== NONE && !tape.isString(value)) throw untranslatable(tape, value, 'It is no text.');
  return value;
}

/** Whether a member is true; it may be absent. */
export function isTrueIn(object: number, name: number): boolean {
  const value = present(object, name);
  if (value === NONE || tape.isFalse(value)) return false;
  if (!tape.isTrue(value)) throw untranslatable(tape, value, 'It is neither true nor false.');
  return true;
}

/** Calls `visit` for each element of a list. */
export function each(list: number, visit: (element: number) => void): void {
  if (!tape.isArray(list)) throw untranslatable(tape, list, 'It is no list.');
  for (let item = tape.first(list), end = tape.next(list); item < end; item = tape.next(item)) visit(item);
}
