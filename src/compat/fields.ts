// Reads the members of requests in the forms of other products. A member that is null or '' counts as absent, as their servers take it;
// what has no meaning here is ignored, unless the answer would be another one than was asked for.

import { HeadraceError } from '../errors.ts';
import { parseJson } from '../config/json-text.ts';

/** 422 with one mistake, which each product writes in its own form. */
export function mistake(field: string, message: string, type = 'value_error'): HeadraceError {
  return new HeadraceError('HR_REQUEST_INVALID', { validation: [{ loc: ['body', field], msg: message, type }] });
}

/** The mistakes of our document, by what the request calls its fields. */
export function renamedMistakes(error: unknown, names: Readonly<Record<string, string>>): unknown {
  if (!(error instanceof HeadraceError) || error.validation === undefined) return error;
  const validation = error.validation.map(({ loc, ...rest }) => {
    const [field = '', inner = '', ...others] = loc.filter((part) => part !== 'body');
    const whole = names[`${field}.${inner}`];
    const path = whole === undefined ? [names[field] ?? field, inner, ...others] : [whole, ...others];
    return { ...rest, loc: ['body', ...path.filter((part) => part !== '')] };
  });
  return new HeadraceError(error.code, { validation });
}

/** Most values of a list that are read; ours have fewer. */
const MOST_VALUES = 1000;

/** The members of one object, each converted when it is read. */
export class Fields {
  readonly #values: Readonly<Record<string, unknown>>;

  constructor(values: Readonly<Record<string, unknown>>) {
    this.#values = values;
  }

  /** Undefined where it is absent. */
  get(name: string): unknown {
    const value = Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
    return value === null || value === '' ? undefined : value;
  }

  text(name: string): string | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (typeof value === 'string') return value;
    if (typeof value === 'number') return String(value);
    throw mistake(name, 'Input should be a string', 'string_type');
  }

  /** A text that has to be there, without white space around it. */
  required(name: string): string {
    const text = this.text(name)?.trim();
    if (text === undefined || text === '') throw mistake(name, 'Field required', 'missing');
    return text;
  }

  integer(name: string, least: number, most: number): number | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    const number = typeof value === 'string' && /^ *\d{1,15} *$/.test(value) ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isInteger(number) || number < least || number > most) {
      throw mistake(name, `Input should be an integer from ${least} to ${most}`);
    }
    return number;
  }

  /** Whether a switch is on: `true`, 1, or a word for it. */
  flag(name: string): boolean {
    const value = this.get(name);
    if (value === undefined) return false;
    if (typeof value === 'string') return !/^(?:false|0|no|off)$/i.test(value.trim());
    return value !== false && value !== 0;
  }

  /** One of the words of `meanings`, by what it means. */
  word<Meaning>(name: string, meanings: ReadonlyMap<string, Meaning>): Meaning | undefined {
    const text = this.text(name)?.trim().toLowerCase();
    if (text === undefined || text === '') return undefined;
    if (!meanings.has(text)) throw mistake(name, `Input should be ${[...meanings.keys()].join(', ')}`, 'literal_error');
    return meanings.get(text);
  }

  /** A list of texts; one text counts as a list of it. Undefined where it is absent or empty. */
  texts(name: string): string[] | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    const list: unknown[] = Array.isArray(value) ? value : [value];
    if (list.length > MOST_VALUES) throw mistake(name, `List should have at most ${MOST_VALUES} items`, 'too_long');
    for (const each of list) {
      if (typeof each !== 'string') throw mistake(name, 'Input should be a list of strings', 'string_type');
    }
    return list.length === 0 ? undefined : (list as string[]);
  }

  /** A nested object. */
  object(name: string): Fields | undefined {
    const value = this.get(name);
    if (value === undefined) return undefined;
    if (typeof value !== 'object' || Array.isArray(value))
      throw mistake(name, 'Input should be an object', 'dict_type');
    return new Fields(value as Record<string, unknown>);
  }

  /** Throws for members that ask for something that the gateway does not do, and that are not empty or off. */
  refuse(reasons: Readonly<Record<string, string>>): void {
    for (const [name, reason] of Object.entries(reasons)) {
      const value = this.get(name);
      if (value === undefined || value === false) continue;
      if (typeof value === 'object' && Object.keys(value as object).length === 0) continue;
      throw mistake(name, `not supported: ${reason}`);
    }
  }
}

/** The JSON object in a body, whatever its content type says: these clients always send JSON. */
export function jsonFields(body: Buffer): Fields {
  let value: unknown;
  try {
    value = parseJson(new TextDecoder().decode(body));
  } catch {
    throw new HeadraceError('HR_REQUEST_INVALID', {
      validation: [{ loc: ['body'], msg: 'The body should be JSON', type: 'json_invalid' }],
    });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new HeadraceError('HR_REQUEST_INVALID', {
      validation: [{ loc: ['body'], msg: 'The body should be a JSON object', type: 'model_attributes_type' }],
    });
  }
  return new Fields(value as Record<string, unknown>);
}

/** Parameters of a query or a form; the last value of a name counts. */
export function formFields(...texts: readonly string[]): Fields {
  const values: Record<string, unknown> = {};
  for (const text of texts) for (const [name, value] of new URLSearchParams(text)) values[name] = value;
  return new Fields(values);
}

const DAY_MS = 86_400_000;

/** A day, `days` before `nowMs`, as YYYY-MM-DD. */
export function dayBefore(nowMs: number, days: number): string {
  return new Date(nowMs - days * DAY_MS).toISOString().slice(0, 10);
}

/** Host names of a list that may have addresses, paths and wildcards, in which some products take them. */
export function hostsOf(domains: readonly string[] | undefined): string[] | undefined {
  const hosts = domains?.map((domain) =>
    domain
      .trim()
      .replace(/^[a-z]+:\/\//i, '')
      .replace(/[/?#].*$/s, '')
      .replace(/^\*\./, ''),
  );
  return hosts?.length === 0 ? undefined : hosts;
}

/** A URL as it is given; one that has no scheme is one of `scheme`. */
export function withScheme(scheme: string, url: string): string {
  return /^[a-z][a-z\d+.-]*:\/\//i.test(url) ? url : `${scheme}://${url}`;
}

/** Leaves out members that are undefined. */
export function present<T extends object>(members: T): T {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as T;
}

/**
 * A number from 1 down that says the place in the merged list, from 0, and nothing else: clients sort by it. It falls as the share of a
 * single engine does in the merge.
 */
export function placeScore(place: number): number {
  return Math.round((11 / (11 + place)) * 10_000) / 10_000;
}
