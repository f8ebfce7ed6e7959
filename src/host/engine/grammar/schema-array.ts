// Arrays of a JSON schema as GBNF: a tuple of `prefixItems`, then items of one kind, between two counts.
import { SchemaError } from './error.ts';
import type { SchemaObject } from './schema-merge.ts';
import type { Compiler, Place } from './schema.ts';

/** How many items an array has beyond its least number, where the schema sets no limit. */
const MORE_ITEMS = 3;
const MAX_ITEMS = 500;

/** GBNF of an array, or null when its least number of items cannot be had at this depth. Throws a SchemaError. */
export function arrayRule(compiler: Compiler, schema: SchemaObject, place: Place): string | null {
  const least = (schema['minItems'] as number | undefined) ?? 0;
  let most = Math.min((schema['maxItems'] as number | undefined) ?? Infinity, MAX_ITEMS);
  if (schema['uniqueItems'] === true) {
    // One item is unique without a look at the others; a grammar has no memory for more.
    if (least > 1) throw new SchemaError(`schema, ${place.path}: uniqueItems with minItems above 1 is not supported`);
    most = Math.min(most, 1);
  }
  const { first, further } = itemsOf(schema);
  most = Math.min(most, Math.max(least, first.length) + (further === false ? 0 : MORE_ITEMS));
  const bodies = first
    .slice(0, most)
    .map((item, at) => compiler.compile(item, compiler.inside(place, `prefixItems/${at}`)));
  const end = bodies.indexOf(null);
  const tuple = (end < 0 ? bodies : bodies.slice(0, end)) as string[];
  const rest = end < 0 && most > tuple.length ? compiler.compile(further, compiler.inside(place, 'items')) : null;
  if (rest === null) most = Math.min(most, tuple.length);
  if (least > most) return null;
  return `"[" ${sequence(compiler, tuple, rest, least, most)} "]"`;
}

/** The tuple and the schema of what follows it, in both spellings of the drafts. */
function itemsOf(schema: SchemaObject): { first: readonly unknown[]; further: unknown } {
  const { prefixItems, items, additionalItems } = schema;
  if (Array.isArray(items)) return { first: items, further: additionalItems ?? false };
  // Without `items` anything may follow a tuple; nothing is the sane choice.
  if (Array.isArray(prefixItems)) return { first: prefixItems, further: items ?? false };
  return { first: [], further: items ?? true };
}

/** The items from last to first: each is followed by the rest, which is optional past the least count. */
function sequence(
  compiler: Compiler,
  tuple: readonly string[],
  rest: string | null,
  least: number,
  most: number,
): string {
  let tail = '""';
  for (let at = most - 1; at >= 0; at--) {
    const item = tuple[at] ?? rest!;
    const body = `${at === 0 ? '' : '"," '}${item} ${tail}`;
    tail = compiler.rules.add(at >= least ? `(${body})?` : body);
  }
  return tail;
}
