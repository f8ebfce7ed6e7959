// Values that the JSON of another program gives: unchecked, whatever they are.

import { parseJson } from '../config/json-text.ts';

/** The value of a JSON text; undefined when it is none. */
export function parsedJson(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Whether a value is an object: not null, and not an array. */
export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A value whose members can be asked for: it has none unless it is an object. */
export function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return isJsonObject(value) ? value : NO_MEMBERS;
}

const NO_MEMBERS: Readonly<Record<string, unknown>> = Object.freeze({});
