// Checks the options of an engine module by what the module says about them, with the types and sentences of other settings.

import { hintFor, readValue } from '../../config/mistake.ts';
import {
  type AnyType,
  boolean,
  choice,
  duration,
  integer,
  list,
  number,
  string,
  url,
} from '../../config/value-types.ts';
import { isJsonObject } from '../../net/json-object.ts';
import type { EngineOption } from './module.ts';

const TYPES: Readonly<Record<EngineOption['type'], (range: { min?: number; max?: number }) => AnyType>> = {
  string: () => string(),
  number,
  integer,
  boolean,
  url: () => url(),
  duration,
  strings: () => list(string()),
};

function typeOf(name: string, { max, min, oneOf, type }: EngineOption): AnyType {
  const make = Object.hasOwn(TYPES, type) ? TYPES[type] : undefined;
  if (make === undefined)
    throw new Error(`declares option ${name} with an unknown type; the types are ${Object.keys(TYPES).join(', ')}`);
  if (oneOf !== undefined) return choice(oneOf);
  return make({ ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) });
}

/**
 * The options as a module takes them. All that is written where the module declares none. Throws an `Error` that names the
 * option and what it must be, never its value.
 */
export function readOptions(
  declared: Readonly<Record<string, EngineOption>> | undefined,
  given: unknown,
): Readonly<Record<string, unknown>> {
  if (!isJsonObject(given)) throw new Error('options must be a mapping of names to values');
  if (declared === undefined) return given;
  const names = Object.keys(declared);
  const stray = Object.keys(given).find((name) => !names.includes(name));
  if (stray !== undefined) throw new Error(`has no option ${stray}; ${hintFor(stray, names)}`);
  const read: Record<string, unknown> = {};
  for (const [name, option] of Object.entries(declared)) {
    const optionType = typeOf(name, option);
    if (given[name] === undefined) {
      if (option.required === true) throw new Error(`needs option ${name}`);
      continue;
    }
    const value = readValue(optionType, `option ${name}`, given[name]);
    read[name] = option.type === 'url' ? withoutClosingSlash(String(value)) : value;
  }
  return read;
}

/** A module adds paths to it. One with a query is whole. */
function withoutClosingSlash(url: string): string {
  return url.includes('?') ? url : url.replace(/\/+$/, '');
}
