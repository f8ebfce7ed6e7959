// Reads members of JSON values whose shape is not known, and JSON that pages embed.

import type { Script } from '../parse.ts';
import { jsonOf, parseLiteral } from '../state/literal.ts';

const MAX_CHARACTERS = 10_000_000;
const MAX_VALUES = 500_000;

export type Json = Readonly<Record<string, unknown>>;

/** The member at a path of names and indexes, or undefined. */
export function at(value: unknown, ...path: readonly (number | string)[]): unknown {
  let inner = value;
  for (const key of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, key)) return undefined;
    inner = (inner as Readonly<Record<number | string, unknown>>)[key];
  }
  return inner;
}

/** The text at a path; numbers become text, anything else is empty. */
export function textAt(value: unknown, ...path: readonly (number | string)[]): string {
  const found = at(value, ...path);
  return typeof found === 'string' ? found : typeof found === 'number' ? String(found) : '';
}

/** The array at a path, else an empty one. */
export function listAt(value: unknown, ...path: readonly (number | string)[]): readonly unknown[] {
  const found = at(value, ...path);
  return Array.isArray(found) ? found : [];
}

/** All members named `name`, in document order, at any depth. */
export function membersNamed(root: unknown, name: string): unknown[] {
  const found: unknown[] = [];
  const waiting: unknown[] = [root];
  for (let seen = 0; waiting.length > 0 && seen < MAX_VALUES; seen++) {
    const value = waiting.pop();
    if (typeof value !== 'object' || value === null) continue;
    if (Object.hasOwn(value, name)) found.push((value as Json)[name]);
    for (const inner of Object.values(value).toReversed()) waiting.push(inner);
  }
  return found;
}

/** The value of the first script that `isWanted` accepts; null when there is none. */
export function jsonIn(scripts: readonly Script[], isWanted: (script: Script) => boolean): unknown {
  const script = scripts.find((each) => isWanted(each) && each.text.length <= MAX_CHARACTERS);
  return script === undefined ? null : jsonOf(script.text);
}

/** The value that a script assigns to a variable, such as `var ytInitialData = {…}`; null when none does. */
export function assignedTo(variable: string, scripts: readonly Script[]): unknown {
  for (const { text } of scripts) {
    if (text.length > MAX_CHARACTERS) continue;
    const found = text.indexOf(variable);
    const assigned =
      found === -1 ? null : /^[\]"']*\s*=\s*/.exec(text.slice(found + variable.length, found + variable.length + 20));
    if (assigned === null) continue;
    const value = parseLiteral(text, found + variable.length + assigned[0].length).value;
    if (value !== undefined && value !== null) return value;
  }
  return null;
}
