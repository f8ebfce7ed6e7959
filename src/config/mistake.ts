// Mistakes of a configuration: where and what, made from the issues that zod finds. No message repeats a value, since any
// value may be a secret in the wrong place.

import type { core } from 'zod/mini';
import type { Problems } from './expansion.ts';
import { nearest } from './spelling.ts';
import type { AnyType, Fields } from './value-types.ts';

/** One thing wrong with a configuration. */
export interface Mistake {
  /** Where: a path in the file (`timeouts.connect`), a variable, a flag, or `FILE:LINE:COLUMN` for syntax. */
  readonly path: string;
  /** What, as the end of a sentence that begins with the path. Holds no value of the configuration. */
  readonly message: string;
}

/** What zod found at a value. */
export interface Reading {
  readonly issues: readonly core.$ZodIssue[];
  readonly type: AnyType;
  /** Name of the value: empty for the whole file, else the path of a setting, a variable or a flag. */
  readonly name: string;
  /** What is wrong with the values that symbols stand for. */
  readonly problems: Problems;
}

/** The mistakes of one value, in the order of the schema. */
export function mistakesOf({ issues, type, name, problems }: Reading): Mistake[] {
  return issues.flatMap((issue): Mistake[] => {
    const path = issue.path.reduce<string>(entryPath, name);
    const refused = problems.get(issue.input);
    if (refused !== undefined) return refused.map((message) => ({ path: path || ROOT, message }));
    const at = issue.path.reduce<AnyType | undefined>(typeInside, type);
    if (issue.code === 'unrecognized_keys') {
      return at?.variants === undefined
        ? unknownNames(issue.keys, path, at?.fields ?? {})
        : unknownInVariant(issue.keys, path, at.variants, issue.input);
    }
    const message = issue.input === undefined ? 'is required' : issue.message;
    return [{ path: path || ROOT, message: at?.nullable === true ? `${message}, or null` : message }];
  });
}

const ROOT = '(root)';

/** The path of an entry of a section, map or list. A name that holds other characters than words do is put in brackets. */
export function entryPath(path: string, name: PropertyKey): string {
  if (typeof name === 'number') return `${path}[${name}]`;
  const text = String(name);
  if (!/^[\w-]+$/.test(text)) return `${path}[${JSON.stringify(text)}]`;
  return path === '' ? text : `${path}.${text}`;
}

function typeInside(type: AnyType | undefined, name: PropertyKey): AnyType | undefined {
  return type?.fields?.[String(name)] ?? type?.items;
}

function unknownNames(names: readonly string[], path: string, fields: Fields): Mistake[] {
  const known = Object.keys(fields);
  const holdsSecrets = Object.values(fields).some(({ secret, presence }) => secret === true && presence === 'required');
  return names.map((name) => {
    const near = nearest(name, known) ?? (path === '' ? findInSections(name, fields, '') : undefined);
    // Where keys are listed, an unknown name may be a key in the wrong place.
    if (holdsSecrets && near === undefined) {
      return { path, message: `holds an unknown name; it may hold ${known.join(' and ')}` };
    }
    return { path: entryPath(path, name), message: unknownMessage(near) };
  });
}

/** Names that a record does not have whose fields depend on its kind: another kind may have them. */
function unknownInVariant(
  names: readonly string[],
  path: string,
  variants: NonNullable<AnyType['variants']>,
  raw: unknown,
): Mistake[] {
  const { kind } = raw as { readonly kind: string };
  return names.flatMap((name) => {
    const others = Object.keys(variants).filter((word) => Object.hasOwn(variants[word]?.fields ?? {}, name));
    if (others.length === 0) return unknownNames([name], path, variants[kind]?.fields ?? {});
    return [{ path: entryPath(path, name), message: `is not for kind ${kind}, but for ${others.join(' and ')}` }];
  });
}

/** The path of the setting that has this name inside a section. */
function findInSections(name: string, fields: Fields, prefix: string): string | undefined {
  for (const [section, { fields: inner = {} }] of Object.entries(fields)) {
    const path = `${prefix}${section}.`;
    const found = Object.hasOwn(inner, name) ? path + name : findInSections(name, inner, path);
    if (found !== undefined) return found;
  }
  return undefined;
}

export function unknownMessage(near: string | undefined): string {
  return near === undefined ? 'is unknown' : `is unknown; did you mean ${near}?`;
}

/** What to write in place of an unknown name: the known one that it is near to, or any. */
export function hintFor(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  return near === undefined ? `it takes ${known.join(', ') || 'none'}` : `did you mean ${near}?`;
}

/** A value as its type reads it. Throws an `Error` that says by this name what it must be, and never what it is. */
export function readValue({ schema }: AnyType, name: string, raw: unknown): unknown {
  const result = schema.safeParse(raw);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  throw new Error(`${issue?.path.reduce(entryPath, name)} ${issue?.message}`);
}
