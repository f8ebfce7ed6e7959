// Compiles JSON Schema to GBNF, for `response_format` and for tool calls. Generated texts are compact JSON that the schema
// accepts, and every text ends. The grammar may allow less than the schema (lengths, counts and depth are bounded), never
// more, except for overlapping branches of `oneOf`. Unsupported keywords are refused by name.
import { isJsonObject } from '../../../net/json-object.ts';
import { literal, oneOf, RuleBook, SchemaError } from './grammar-rules.ts';
import { type SchemaObject, ANNOTATIONS, membersOf, mergeSchemas, refuseMalformed, textsOf } from './schema-merge.ts';
import { integerRule, numberRule } from './schema-number.ts';
import { stringRule } from './schema-string.ts';

/** How often one reference may stand within itself; what goes deeper is left out where the schema allows that. */
const MAX_RECURSION = 2;
const MAX_DEPTH = 64;
/** Schemas, listed values and least members visited in one compilation: recursive ones multiply. */
const MAX_VISITS = 20_000;
/** Characters of a pattern that take as long as a visit. */
const PATTERN_CHARACTERS = 2;
/** Characters of listed values that take as long as a visit. */
const VALUE_CHARACTERS = 100;
/** Members that merging copies in one compilation: each part of a list copies those of all before it. */
const MAX_MERGED = 250_000;

/** Keywords that are obeyed, besides the annotations. */
const OBEYED: ReadonlySet<string> = new Set(
  (
    'type enum const anyOf oneOf allOf $ref properties required additionalProperties minProperties maxProperties ' +
    'propertyNames unevaluatedProperties items prefixItems minItems maxItems uniqueItems additionalItems ' +
    'minLength maxLength pattern format minimum maximum exclusiveMinimum exclusiveMaximum multipleOf'
  ).split(' '),
);

/** Where a schema stands in its document, and which references led there. */
export interface SchemaLocation {
  /** Path for messages, such as `#/properties/city`. */
  readonly path: string;
  readonly depth: number;
  readonly references: readonly string[];
}

/** The grammar of the JSON texts that satisfy a schema. Throws a SchemaError when that is not possible. */
export function schemaGrammar(schema: unknown): string {
  const rules = new RuleBook();
  return rules.text(compileSchema(schema, rules));
}

/** GBNF of a schema, its rules added to the book. Throws a SchemaError. */
function compileSchema(schema: unknown, rules: RuleBook): string {
  const body = new SchemaCompiler(schema, rules).compile(schema, { path: '#', depth: 0, references: [] });
  if (body === null) throw new SchemaError('schema: no value satisfies it');
  return body;
}

class SchemaCompiler {
  readonly rules: RuleBook;
  readonly #root: unknown;
  #visits = 0;
  #merged = 0;

  constructor(root: unknown, rules: RuleBook) {
    this.#root = root;
    this.rules = rules;
  }

  inside(place: SchemaLocation, step: string): SchemaLocation {
    return { path: `${place.path}/${step}`, depth: place.depth + 1, references: place.references };
  }

  visit(count: number): void {
    this.#visits += count;
    if (this.#visits > MAX_VISITS) throw tooLarge();
  }

  compile(schema: unknown, place: SchemaLocation): string | null {
    this.visit(1);
    if (place.depth > MAX_DEPTH) throw new SchemaError(`schema, ${place.path}: nested too deeply`);
    if (schema === false) return null;
    if (schema === true) return this.#anything();
    if (!isJsonObject(schema)) throw new SchemaError(`schema, ${place.path}: neither an object nor a boolean`);
    for (const keyword of Object.keys(schema)) {
      if (!OBEYED.has(keyword) && !ANNOTATIONS.has(keyword) && !keyword.startsWith('x-')) {
        throw new SchemaError(`schema, ${place.path}: keyword ${keyword} is not supported`);
      }
    }
    refuseMalformed(schema, place.path);
    const body = this.#compileObject(schema, place);
    return body === null ? null : this.rules.add(body);
  }

  #compileObject(schema: SchemaObject, place: SchemaLocation): string | null {
    const { $ref: reference, allOf, anyOf, oneOf: exclusive, ...rest } = schema;
    if (typeof reference === 'string') return this.#reference(reference, { ...schema, $ref: undefined }, place);
    if (Array.isArray(allOf)) return this.#all(allOf, { ...schema, allOf: undefined }, place);
    if (Array.isArray(anyOf)) return this.#any(anyOf, { ...schema, anyOf: undefined }, place, 'anyOf');
    if (Array.isArray(exclusive)) return this.#any(exclusive, { ...schema, oneOf: undefined }, place, 'oneOf');
    const { enum: among } = rest;
    if (Object.hasOwn(rest, 'const')) return this.#values([rest['const']], Array.isArray(among) ? among : null, rest);
    if (Array.isArray(among)) return this.#values(among, null, rest);
    return this.#types(rest, place);
  }

  #reference(reference: string, rest: SchemaObject, place: SchemaLocation): string | null {
    const within = place.references.filter((other) => other === reference).length;
    if (within > MAX_RECURSION) return null;
    const target = this.#resolve(reference, place);
    const there = { ...place, depth: place.depth + 1, references: [...place.references, reference] };
    if (!isJsonObject(target)) return this.compile(target, there);
    return this.compile(this.#merge(target, withoutUndefined(rest), place.path), there);
  }

  #merge(left: SchemaObject, right: SchemaObject, where: string): SchemaObject {
    this.#countMerged(left);
    this.#countMerged(right);
    return mergeSchemas(left, right, where);
  }

  #countMerged(schema: SchemaObject): void {
    this.#merged += membersOf(schema);
    if (this.#merged > MAX_MERGED) throw tooLarge();
  }

  #resolve(reference: string, place: SchemaLocation): unknown {
    if (!reference.startsWith('#')) throw new SchemaError(`schema, ${place.path}: only local references are supported`);
    let target = this.#root;
    for (const step of reference.slice(1).split('/').slice(1)) {
      const name = step.replaceAll('%25', '%').replaceAll('~1', '/').replaceAll('~0', '~');
      const isInside = typeof target === 'object' && target !== null && Object.hasOwn(target, name);
      if (!isInside) throw new SchemaError(`schema, ${place.path}: ${reference} is not defined`);
      target = (target as Record<string, unknown>)[name];
    }
    return target;
  }

  #all(parts: readonly unknown[], rest: SchemaObject, place: SchemaLocation): string | null {
    let merged = withoutUndefined(rest);
    let there = place;
    for (const part of parts) {
      if (part === false) return null;
      let next = part;
      for (let hops = 0; isJsonObject(next) && typeof next['$ref'] === 'string'; hops++) {
        const { $ref: reference, ...beside } = next;
        if (there.references.filter((other) => other === reference).length > MAX_RECURSION || hops > MAX_DEPTH)
          return null;
        const target = this.#resolve(reference as string, place);
        there = { ...there, references: [...there.references, reference as string] };
        next = isJsonObject(target) ? this.#merge(target, beside, place.path) : target;
      }
      if (next === false) return null;
      if (isJsonObject(next)) merged = this.#merge(merged, next, place.path);
    }
    return this.compile(merged, { ...there, depth: there.depth + 1 });
  }

  #any(branches: readonly unknown[], rest: SchemaObject, place: SchemaLocation, keyword: string): string | null {
    const base = withoutUndefined(rest);
    const bodies: string[] = [];
    for (const [at, branch] of branches.entries()) {
      this.#countMerged(base);
      const merged = isJsonObject(branch) ? { ...base, allOf: [...allOfOf(base), branch] } : branch === true && base;
      const body = this.compile(merged, this.inside(place, `${keyword}/${at}`));
      if (body !== null) bodies.push(body);
    }
    return bodies.length === 0 ? null : oneOf(bodies);
  }

  /** The values that have the type of the schema and are in the list `among`, if any. */
  #values(values: readonly unknown[], among: readonly unknown[] | null, rest: SchemaObject): string | null {
    this.visit(values.length + (among?.length ?? 0));
    const types = typesOf(rest['type']);
    const allowed = among === null ? null : textsOf(among);
    const fitting = values
      .filter((value) => types === null || types.some((type) => hasType(value, type)))
      .map((value) => JSON.stringify(value))
      .filter((text) => allowed === null || allowed.has(text));
    for (const { length } of fitting) this.visit(length / VALUE_CHARACTERS);
    return fitting.length === 0 ? null : oneOf(fitting.map(literal));
  }

  #types(schema: SchemaObject, place: SchemaLocation): string | null {
    const types = typesOf(schema['type']) ?? impliedTypes(schema);
    if (types === null) return this.#anything();
    const bodies = types.map((type) => this.#type(type, schema, place)).filter((body) => body !== null);
    return bodies.length === 0 ? null : oneOf(bodies);
  }

  #type(type: string, schema: SchemaObject, place: SchemaLocation): string | null {
    if (type === 'null') return '"null"';
    if (type === 'boolean') return '("true" | "false")';
    if (type === 'string') {
      const { pattern } = schema;
      if (typeof pattern === 'string') this.visit(pattern.length / PATTERN_CHARACTERS);
      return stringRule(schema, place.path);
    }
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

function tooLarge(): SchemaError {
  return new SchemaError('schema: too large for a grammar');
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
  if (type === 'object') return isJsonObject(value);
  if (type === 'integer') return Number.isInteger(value);
  return typeof value === type;
}

/** Free properties of an object beyond those it must have. */
const FREE_PROPERTIES = 3;

interface Property {
  /** GBNF of the name, the colon and the value. */
  readonly body: string;
  readonly required: boolean;
}

/** GBNF of an object, or null when a required property cannot be had at this depth. Throws a SchemaError. */
function objectRule(compiler: SchemaCompiler, schema: SchemaObject, place: SchemaLocation): string | null {
  const named = namedProperties(compiler, schema, place);
  if (named === null) return null;
  const properties = withFree(compiler, schema, place, named);
  if (properties === null) return null;
  return `"{" ${writeProperties(compiler, properties)} "}"`;
}

function propertiesOf(schema: SchemaObject): SchemaObject {
  return isJsonObject(schema['properties']) ? schema['properties'] : {};
}

function requiredOf(schema: SchemaObject): readonly string[] {
  return Array.isArray(schema['required']) ? (schema['required'] as string[]) : [];
}

/** The schema of properties without a name of their own. */
function freeSchema(schema: SchemaObject): unknown {
  return schema['additionalProperties'] ?? schema['unevaluatedProperties'];
}

function namedProperties(compiler: SchemaCompiler, schema: SchemaObject, place: SchemaLocation): Property[] | null {
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
  compiler: SchemaCompiler,
  schema: SchemaObject,
  place: SchemaLocation,
  named: readonly Property[],
): readonly Property[] | null {
  const least = ((schema['minProperties'] as number | undefined) ?? 0) - named.length;
  const free = freeSchema(schema);
  // An object that declares properties gets others only when it describes or needs them.
  const isWanted = least > 0 || isJsonObject(free) || (schema['properties'] === undefined && named.length === 0);
  if (free === false || !isWanted) return least > 0 ? null : named;
  const most = ((schema['maxProperties'] as number | undefined) ?? Infinity) - named.length;
  const value = compiler.compile(free ?? true, compiler.inside(place, 'additionalProperties'));
  if (value === null) return least > 0 ? null : named;
  compiler.visit(Math.max(least, 0));
  const names = freeNames(schema, place, Math.min(most, Math.max(least, 0) + FREE_PROPERTIES));
  if (names.length < least) return null;
  return [...named, ...names.map((name, at) => ({ body: pairOf(name, value), required: at < least }))];
}

/** Names for free properties: those that `propertyNames` lists, else made-up ones; never a declared one. */
function freeNames(schema: SchemaObject, place: SchemaLocation, count: number): string[] {
  const rule = schema['propertyNames'];
  const taken = new Set([...Object.keys(propertiesOf(schema)), ...requiredOf(schema)]);
  const names: string[] = [];
  if (isJsonObject(rule) && Array.isArray(rule['enum'])) {
    return (rule['enum'] as string[]).filter((name) => !taken.has(name)).slice(0, Math.max(0, count));
  }
  if (isJsonObject(rule) && Object.keys(rule).some((keyword) => keyword !== 'type')) {
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
function writeProperties(compiler: SchemaCompiler, properties: readonly Property[]): string {
  let after = '""';
  let first = '""';
  for (const { body, required } of properties.toReversed()) {
    const alone = `${body} ${after}`;
    first = compiler.rules.add(required ? alone : `${alone} | ${first}`);
    after = compiler.rules.add(required ? `"," ${alone}` : `"," ${alone} | ${after}`);
  }
  return first;
}

/** How many items an array has beyond its least number, where the schema sets no limit. */
const MORE_ITEMS = 3;
const MAX_ITEMS = 500;

/** GBNF of an array, or null when its least number of items cannot be had at this depth. Throws a SchemaError. */
function arrayRule(compiler: SchemaCompiler, schema: SchemaObject, place: SchemaLocation): string | null {
  const least = (schema['minItems'] as number | undefined) ?? 0;
  let most = Math.min((schema['maxItems'] as number | undefined) ?? Infinity, MAX_ITEMS);
  if (schema['uniqueItems'] === true) {
    // One item is unique without a look at the others; a grammar has no memory for more.
    if (least > 1) throw new SchemaError(`schema, ${place.path}: uniqueItems with minItems above 1 is not supported`);
    most = Math.min(most, 1);
  }
  if (least <= most) compiler.visit(least);
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
  compiler: SchemaCompiler,
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

/** A tool as every dialect describes it. */
export interface Tool {
  readonly name: string;
  readonly description?: string;
  /** JSON schema of the arguments. Default: an object without properties. */
  readonly parameters?: unknown;
}

/** Parameters of a tool that takes none. */
const NO_PARAMETERS = { type: 'object', properties: {}, additionalProperties: false };

/**
 * The grammar of an answer that calls tools: from 1 to `maxCalls` calls (default 1), one JSON object a line. For a choice
 * that names a tool, pass that tool alone. Throws a SchemaError for parameters that cannot be a grammar.
 */
export function toolCallGrammar(tools: readonly Tool[], maxCalls: number = 1): string {
  const rules = new RuleBook();
  const calls = tools.map(({ name, parameters }) => {
    const start = literal(`{"name":${JSON.stringify(name)},"arguments":`);
    return rules.add(`${start} ${compileSchema(parameters ?? NO_PARAMETERS, rules)} "}"`);
  });
  const call = rules.add(oneOf(calls));
  return rules.text(maxCalls > 1 ? `${call} ("\\n" ${call}){0,${maxCalls - 1}}` : call);
}
