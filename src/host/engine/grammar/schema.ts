// JSON schema to GBNF: texts of the grammar are compact JSON that the schema accepts, and every one of them ends. Used for
// `response_format` with a schema and, through tool-calls.ts, for the arguments of tool calls.
// The grammar may allow less than the schema (lengths, counts and depth are bounded), never more, with one exception:
// branches of `oneOf` that overlap. A keyword that cannot be obeyed is refused by name, never dropped.
import { SchemaError } from './error.ts';
import { literal, oneOf, RuleBook } from './rule-book.ts';
import { arrayRule } from './schema-array.ts';
import type { SchemaObject } from './schema-merge.ts';
import { ANNOTATIONS, isSchemaObject, mergeSchemas, refuseMalformed } from './schema-merge.ts';
import { integerRule, numberRule } from './schema-number.ts';
import { objectRule } from './schema-object.ts';
import { stringRule } from './schema-string.ts';

/** How often one reference may stand within itself; what goes deeper is left out where the schema allows that. */
const MAX_RECURSION = 2;
const MAX_DEPTH = 64;
/** Schemas visited in one compilation: recursive ones multiply. */
const MAX_VISITS = 20_000;

/** Keywords that are obeyed, besides the annotations. */
const OBEYED: ReadonlySet<string> = new Set(
  (
    'type enum const anyOf oneOf allOf $ref properties required additionalProperties minProperties maxProperties ' +
    'propertyNames unevaluatedProperties items prefixItems minItems maxItems uniqueItems additionalItems ' +
    'minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf'
  ).split(' '),
);

/** Where a schema stands in its document, and which references led there. */
export interface Place {
  /** Path for messages, such as `#/properties/city`. */
  readonly path: string;
  readonly depth: number;
  readonly references: readonly string[];
}

/** What the parts of the compiler call back for the schemas inside of theirs. */
export interface Compiler {
  readonly rules: RuleBook;
  /** GBNF of a schema, or null when nothing finite satisfies it at this depth. */
  compile(schema: unknown, place: Place): string | null;
  /** The place of a schema inside of another one. */
  inside(place: Place, step: string): Place;
}

/** The grammar of the JSON texts that satisfy a schema. Throws a SchemaError when that is not possible. */
export function schemaGrammar(schema: unknown): string {
  const rules = new RuleBook();
  return rules.text(compileSchema(schema, rules));
}

/** GBNF of a schema, its rules added to the book. Throws a SchemaError. */
export function compileSchema(schema: unknown, rules: RuleBook): string {
  const body = new SchemaCompiler(schema, rules).compile(schema, { path: '#', depth: 0, references: [] });
  if (body === null) throw new SchemaError('schema: nothing satisfies it');
  return body;
}

class SchemaCompiler implements Compiler {
  readonly rules: RuleBook;
  readonly #root: unknown;
  #visits = 0;

  constructor(root: unknown, rules: RuleBook) {
    this.#root = root;
    this.rules = rules;
  }

  inside(place: Place, step: string): Place {
    return { path: `${place.path}/${step}`, depth: place.depth + 1, references: place.references };
  }

  compile(schema: unknown, place: Place): string | null {
    if (++this.#visits > MAX_VISITS) throw new SchemaError('schema: too large for a grammar');
    if (place.depth > MAX_DEPTH) throw new SchemaError(`schema, ${place.path}: nested too deeply`);
    if (schema === false) return null;
    if (schema === true) return this.#anything();
    if (!isSchemaObject(schema)) throw new SchemaError(`schema, ${place.path}: neither an object nor a boolean`);
    for (const keyword of Object.keys(schema)) {
      if (!OBEYED.has(keyword) && !ANNOTATIONS.has(keyword) && !keyword.startsWith('x-')) {
        throw new SchemaError(`schema, ${place.path}: keyword ${keyword} is not supported`);
      }
    }
    refuseMalformed(schema, place.path);
    const body = this.#compileObject(schema, place);
    return body === null ? null : this.rules.add(body);
  }

  #compileObject(schema: SchemaObject, place: Place): string | null {
    const { $ref: reference, allOf, anyOf, oneOf: exclusive, ...rest } = schema;
    if (typeof reference === 'string') return this.#reference(reference, { ...schema, $ref: undefined }, place);
    if (Array.isArray(allOf)) return this.#all(allOf, { ...schema, allOf: undefined }, place);
    if (Array.isArray(anyOf)) return this.#any(anyOf, { ...schema, anyOf: undefined }, place, 'anyOf');
    if (Array.isArray(exclusive)) return this.#any(exclusive, { ...schema, oneOf: undefined }, place, 'oneOf');
    if (Object.hasOwn(rest, 'const')) return this.#values([rest['const']], rest);
    if (Array.isArray(rest['enum'])) return this.#values(rest['enum'], rest);
    return this.#types(rest, place);
  }

  #reference(reference: string, rest: SchemaObject, place: Place): string | null {
    const within = place.references.filter((other) => other === reference).length;
    if (within > MAX_RECURSION) return null;
    const target = this.#resolve(reference, place);
    const there = { ...place, depth: place.depth + 1, references: [...place.references, reference] };
    if (!isSchemaObject(target)) return this.compile(target, there);
    return this.compile(mergeSchemas(target, withoutUndefined(rest), place.path), there);
  }

  #resolve(reference: string, place: Place): unknown {
    if (!reference.startsWith('#')) throw new SchemaError(`schema, ${place.path}: only local references are supported`);
    let target = this.#root;
    for (const step of reference.slice(1).split('/').slice(1)) {
      const name = step.replaceAll('%25', '%').replaceAll('~1', '/').replaceAll('~0', '~');
      const isInside = typeof target === 'object' && target !== null && Object.hasOwn(target, name);
      if (!isInside) throw new SchemaError(`schema, ${place.path}: ${reference} leads nowhere`);
      target = (target as Record<string, unknown>)[name];
    }
    return target;
  }

  #all(parts: readonly unknown[], rest: SchemaObject, place: Place): string | null {
    let merged = withoutUndefined(rest);
    let there = place;
    for (const part of parts) {
      if (part === false) return null;
      let next = part;
      for (let hops = 0; isSchemaObject(next) && typeof next['$ref'] === 'string'; hops++) {
        const { $ref: reference, ...beside } = next;
        if (there.references.filter((other) => other === reference).length > MAX_RECURSION || hops > MAX_DEPTH)
          return null;
        const target = this.#resolve(reference as string, place);
        there = { ...there, references: [...there.references, reference as string] };
        next = isSchemaObject(target) ? mergeSchemas(target, beside, place.path) : target;
      }
      if (next === false) return null;
      if (isSchemaObject(next)) merged = mergeSchemas(merged, next, place.path);
    }
    return this.compile(merged, { ...there, depth: there.depth + 1 });
  }

  #any(branches: readonly unknown[], rest: SchemaObject, place: Place, keyword: string): string | null {
    const base = withoutUndefined(rest);
    const bodies: string[] = [];
    for (const [at, branch] of branches.entries()) {
      const merged = isSchemaObject(branch) ? { ...base, allOf: [...allOfOf(base), branch] } : branch === true && base;
      const body = this.compile(merged, this.inside(place, `${keyword}/${at}`));
      if (body !== null) bodies.push(body);
    }
    return bodies.length === 0 ? null : oneOf(bodies);
  }

  #values(values: readonly unknown[], rest: SchemaObject): string | null {
    const types = typesOf(rest['type']);
    const among = rest['enum'];
    const fitting = values.filter(
      (value) =>
        (types === null || types.some((type) => hasType(value, type))) &&
        (!Array.isArray(among) || among.some((other) => JSON.stringify(other) === JSON.stringify(value))),
    );
    return fitting.length === 0 ? null : oneOf(fitting.map((value) => literal(JSON.stringify(value))));
  }

  #types(schema: SchemaObject, place: Place): string | null {
    const types = typesOf(schema['type']) ?? impliedTypes(schema);
    if (types === null) return this.#anything();
    const bodies = types.map((type) => this.#type(type, schema, place)).filter((body) => body !== null);
    return bodies.length === 0 ? null : oneOf(bodies);
  }

  #type(type: string, schema: SchemaObject, place: Place): string | null {
    if (type === 'null') return '"null"';
    if (type === 'boolean') return '("true" | "false")';
    if (type === 'string') return stringRule(schema, place.path);
    if (type === 'integer') return integerRule(schema, place.path);
    if (type === 'number') return numberRule(schema, place.path);
    if (type === 'array') return arrayRule(this, schema, place);
    if (type === 'object') return objectRule(this, schema, place);
    throw new SchemaError(`schema, ${place.path}: there is no type '${type}'`);
  }

  /** Any JSON value, of which the plain ones are enough. */
  #anything(): string {
    return this.rules.add(oneOf([stringRule({}, '#'), integerRule({}, '#'), '"true"', '"false"', '"null"']));
  }
}

function allOfOf(schema: SchemaObject): readonly unknown[] {
  return Array.isArray(schema['allOf']) ? schema['allOf'] : [];
}

function withoutUndefined(schema: SchemaObject): SchemaObject {
  return Object.fromEntries(Object.entries(schema).filter(([, value]) => value !== undefined));
}

function typesOf(type: unknown): readonly string[] | null {
  return type === undefined ? null : ([type].flat() as string[]);
}

/** The type that the keywords are about, where none is named; null: any. */
function impliedTypes(schema: SchemaObject): readonly string[] | null {
  const has = (...keywords: readonly string[]): boolean => keywords.some((keyword) => schema[keyword] !== undefined);
  if (has('properties', 'required', 'additionalProperties', 'minProperties', 'maxProperties')) return ['object'];
  if (has('items', 'prefixItems', 'minItems', 'maxItems')) return ['array'];
  if (has('pattern', 'format', 'minLength', 'maxLength')) return ['string'];
  if (has('minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf')) return ['number'];
  return null;
}

function hasType(value: unknown, type: string): boolean {
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return isSchemaObject(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}
