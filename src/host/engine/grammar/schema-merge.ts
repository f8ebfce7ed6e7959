// Merges two JSON schemas into one that requires both, for `allOf`, for keywords beside `$ref`, and for the branches of
// `anyOf` and `oneOf`.
import { isJsonObject } from '../../../net/json-object.ts';
import { SchemaError } from './grammar-rules.ts';
/** A schema that is an object. */
export type SchemaObject = Readonly<Record<string, unknown>>;

/** Keywords that describe and demand nothing. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([
  'title',
  'description',
  'default',
  'examples',
  'example',
  'deprecated',
  'readOnly',
  'writeOnly',
  'contentEncoding',
  'contentMediaType',
  'nullable',
  'strict',
  '$schema',
  '$id',
  '$anchor',
  '$comment',
  '$defs',
  'definitions',
]);

const LARGER = new Set(['minimum', 'exclusiveMinimum', 'minLength', 'minItems', 'minProperties']);
const SMALLER = new Set(['maximum', 'exclusiveMaximum', 'maxLength', 'maxItems', 'maxProperties']);

/** Keywords whose value is a number. */
const NUMERIC = /^(min|max|exclusiveM|multipleOf)/;
const LISTS = new Set(['enum', 'allOf', 'anyOf', 'oneOf', 'prefixItems']);
const TEXTS = new Set(['$ref', 'pattern', 'format']);

/** Throws a SchemaError for a keyword whose value has the wrong type. */
export function refuseMalformed(schema: SchemaObject, where: string): void {
  for (const [keyword, value] of Object.entries(schema)) {
    if (value === undefined) continue;
    let wanted: string | null = null;
    if (NUMERIC.test(keyword) && !Number.isFinite(value)) wanted = 'a number';
    if (LISTS.has(keyword) && !Array.isArray(value)) wanted = 'an array';
    if (keyword === 'properties' && !isJsonObject(value)) wanted = 'an object';
    if (TEXTS.has(keyword) && typeof value !== 'string') wanted = 'a string';
    if (keyword === 'required' && !isTextList(value)) wanted = 'an array of strings';
    if (keyword === 'type' && !isTextList([value].flat())) wanted = 'a string or an array of strings';
    if (wanted !== null) throw new SchemaError(`schema, ${where}: ${keyword} must be ${wanted}`);
  }
}

function isTextList(value: unknown): boolean {
  return Array.isArray(value) && value.every((text) => typeof text === 'string');
}

/** A schema that demands what both demand. Throws a SchemaError when one keyword says two things that do not combine. */
export function mergeSchemas(left: SchemaObject, right: SchemaObject, where: string): SchemaObject {
  refuseMalformed(left, where);
  refuseMalformed(right, where);
  const merged: Record<string, unknown> = { ...left };
  for (const [keyword, value] of Object.entries(right)) {
    const present = merged[keyword];
    merged[keyword] =
      present === undefined || ANNOTATIONS.has(keyword) ? value : mergeKeyword(keyword, present, value, where);
  }
  return merged;
}

function mergeKeyword(keyword: string, left: unknown, right: unknown, where: string): unknown {
  if (LARGER.has(keyword)) return Math.max(left as number, right as number);
  if (SMALLER.has(keyword)) return Math.min(left as number, right as number);
  if (keyword === 'properties') return mergeProperties(left as SchemaObject, right as SchemaObject);
  if (keyword === 'required') return [...new Set([...(left as string[]), ...(right as string[])])];
  if (keyword === 'allOf') return [...(left as unknown[]), ...(right as unknown[])];
  if (keyword === 'type') return commonTypes(left, right);
  if (keyword === 'enum') {
    const allowed = textsOf(right as unknown[]);
    return (left as unknown[]).filter((value) => allowed.has(JSON.stringify(value)));
  }
  if (keyword === 'items' || keyword === 'additionalProperties') return { allOf: [left, right] };
  if (JSON.stringify(left) === JSON.stringify(right)) return left;
  throw new SchemaError(`schema, ${where}: two different values of ${keyword} together are not supported`);
}

function mergeProperties(left: SchemaObject, right: SchemaObject): SchemaObject {
  const added = Object.entries(right).map(([name, schema]) => [
    name,
    Object.hasOwn(left, name) ? { allOf: [left[name], schema] } : schema,
  ]);
  return { ...left, ...Object.fromEntries(added) };
}

/** Types that both lists allow; every integer is a number. */
function commonTypes(left: unknown, right: unknown): unknown[] {
  const rights = [right].flat();
  return [left].flat().flatMap((type) => {
    if (rights.includes(type)) return [type];
    if (type === 'number' && rights.includes('integer')) return ['integer'];
    return type === 'integer' && rights.includes('number') ? ['integer'] : [];
  });
}

/** Values as JSON, for a look-up. */
export function textsOf(values: readonly unknown[]): ReadonlySet<string> {
  return new Set(values.map((value) => JSON.stringify(value)));
}

/** How many members a merge of the schema copies: its own, its properties and those of its lists. */
export function membersOf(schema: SchemaObject): number {
  let count = 0;
  for (const [keyword, value] of Object.entries(schema)) {
    count++;
    if (Array.isArray(value)) count += value.length;
    else if (keyword === 'properties' && isJsonObject(value)) count += Object.keys(value).length;
  }
  return count;
}
