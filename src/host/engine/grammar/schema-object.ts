// Objects of a JSON schema as GBNF: the properties in the order of the schema, the optional ones present or not, then made-up
// properties where the schema asks for free ones. A property that no finite value satisfies is left out, if it is optional.
import { SchemaError } from './error.ts';
import { literal } from './rule-book.ts';
import type { SchemaObject } from './schema-merge.ts';
import { isSchemaObject } from './schema-merge.ts';
import type { Compiler, Place } from './schema.ts';

/** Free properties of an object beyond those it must have. */
const FREE_PROPERTIES = 3;

interface Property {
  /** GBNF of the name, the colon and the value. */
  readonly body: string;
  readonly required: boolean;
}

/** GBNF of an object, or null when a required property cannot be had at this depth. Throws a SchemaError. */
export function objectRule(compiler: Compiler, schema: SchemaObject, place: Place): string | null {
  const named = namedProperties(compiler, schema, place);
  if (named === null) return null;
  const properties = withFree(compiler, schema, place, named);
  if (properties === null) return null;
  return `"{" ${writeProperties(compiler, properties)} "}"`;
}

function propertiesOf(schema: SchemaObject): SchemaObject {
  return isSchemaObject(schema['properties']) ? schema['properties'] : {};
}

function requiredOf(schema: SchemaObject): readonly string[] {
  return Array.isArray(schema['required']) ? (schema['required'] as string[]) : [];
}

/** The schema of properties without a name of their own. */
function freeSchema(schema: SchemaObject): unknown {
  return schema['additionalProperties'] ?? schema['unevaluatedProperties'];
}

function namedProperties(compiler: Compiler, schema: SchemaObject, place: Place): Property[] | null {
  const declared = propertiesOf(schema);
  const required = new Set(requiredOf(schema));
  const names = new Set([...Object.keys(declared), ...required]);
  const properties: Property[] = [];
  for (const name of names) {
    const inner = Object.hasOwn(declared, name) ? declared[name] : (freeSchema(schema) ?? true);
    const value = compiler.compile(inner, compiler.inside(place, `properties/${name}`));
    if (value === null && required.has(name)) return null;
    if (value !== null) properties.push({ body: pairOf(name, value), required: required.has(name) });
  }
  return fitCount(schema, properties);
}

/** Makes as many optional properties required, or drops as many, as the bounds on the count demand. */
function fitCount(schema: SchemaObject, properties: readonly Property[]): Property[] | null {
  const least = (schema['minProperties'] as number | undefined) ?? 0;
  let needed = properties.filter(({ required }) => required).length;
  let room = ((schema['maxProperties'] as number | undefined) ?? Infinity) - needed;
  if (room < 0) return null;
  const fitted: Property[] = [];
  for (const property of properties) {
    if (property.required) fitted.push(property);
    else if (room-- > 0) {
      fitted.push({ body: property.body, required: needed < least });
      if (needed < least) needed++;
    }
  }
  return fitted;
}

function withFree(
  compiler: Compiler,
  schema: SchemaObject,
  place: Place,
  named: readonly Property[],
): readonly Property[] | null {
  const least = ((schema['minProperties'] as number | undefined) ?? 0) - named.length;
  const free = freeSchema(schema);
  // An object that declares properties gets others only when it describes or needs them.
  const isWanted = least > 0 || isSchemaObject(free) || (schema['properties'] === undefined && named.length === 0);
  if (free === false || !isWanted) return least > 0 ? null : named;
  const most = ((schema['maxProperties'] as number | undefined) ?? Infinity) - named.length;
  const value = compiler.compile(free ?? true, compiler.inside(place, 'additionalProperties'));
  if (value === null) return least > 0 ? null : named;
  const names = freeNames(schema, place, Math.min(most, Math.max(least, 0) + FREE_PROPERTIES));
  if (names.length < least) return null;
  return [...named, ...names.map((name, at) => ({ body: pairOf(name, value), required: at < least }))];
}

/** Names for free properties: those that `propertyNames` lists, else made-up ones; never a declared one. */
function freeNames(schema: SchemaObject, place: Place, count: number): string[] {
  const rule = schema['propertyNames'];
  const taken = new Set([...Object.keys(propertiesOf(schema)), ...requiredOf(schema)]);
  const names: string[] = [];
  if (isSchemaObject(rule) && Array.isArray(rule['enum'])) {
    return (rule['enum'] as string[]).filter((name) => !taken.has(name)).slice(0, Math.max(0, count));
  }
  if (isSchemaObject(rule) && Object.keys(rule).some((keyword) => keyword !== 'type')) {
    throw new SchemaError(`schema, ${place.path}: propertyNames with more than a list is not supported`);
  }
  for (let number = 1; names.length < count; number++) {
    if (!taken.has(`key${number}`)) names.push(`key${number}`);
  }
  return names;
}

function pairOf(name: string, value: string): string {
  return `${literal(`${JSON.stringify(name)}:`)} ${value}`;
}

/**
 * The properties from last to first, in two kinds of rule: for when one stands before already, so that a comma is due, and
 * for when none does.
 */
function writeProperties(compiler: Compiler, properties: readonly Property[]): string {
  let after = '""';
  let first = '""';
  for (const { body, required } of properties.toReversed()) {
    const alone = `${body} ${after}`;
    first = compiler.rules.add(required ? alone : `${alone} | ${first}`);
    after = compiler.rules.add(required ? `"," ${alone}` : `"," ${alone} | ${after}`);
  }
  return first;
}
