// A small JSON schema validator, written apart from the compiler: tests check with it what the grammars generate.

type Schema = Record<string, any>;

/** True when a value satisfies a schema; `root` is where references start. */
export function isValid(value: unknown, schema: unknown, root: unknown = schema): boolean {
  if (typeof schema === 'boolean') return schema;
  const rule = schema as Schema;
  const valid = (value: unknown, schema: unknown): boolean => isValid(value, schema, root);
  if (rule['$ref'] !== undefined && !valid(value, resolve(rule['$ref'], root))) return false;
  if (rule['allOf']?.every((part: unknown) => valid(value, part)) === false) return false;
  if (rule['anyOf']?.some((part: unknown) => valid(value, part)) === false) return false;
  if (rule['oneOf'] !== undefined && rule['oneOf'].filter((part: unknown) => valid(value, part)).length !== 1)
    return false;
  if ('const' in rule && JSON.stringify(value) !== JSON.stringify(rule['const'])) return false;
  if (rule['enum']?.some((one: unknown) => JSON.stringify(one) === JSON.stringify(value)) === false) return false;
  if (rule['type'] !== undefined && ![rule['type']].flat().some((type) => isOfType(value, type))) return false;
  if (typeof value === 'string') return isValidString(value, rule);
  if (typeof value === 'number') return isValidNumber(value, rule);
  if (Array.isArray(value)) return isValidArray(value, rule, valid);
  return typeof value !== 'object' || value === null || isValidObject(value as Schema, rule, valid);
}

function resolve(reference: string, root: unknown): unknown {
  const steps = reference.split('/').slice(1);
  return steps.reduce((inner: any, step) => inner[step], root);
}

function isOfType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'null') return value === null;
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}

function isValidString(value: string, { minLength = 0, maxLength = Infinity, pattern = '', format }: Schema): boolean {
  if (format === 'date-time' && Number.isNaN(Date.parse(value))) return false;
  if (format === 'uri' && URL.parse(value) === null) return false;
  const length = [...value].length;
  return length >= minLength && length <= maxLength && new RegExp(pattern, 'u').test(value);
}

function isValidNumber(value: number, rule: Schema): boolean {
  const { minimum = -Infinity, maximum = Infinity, exclusiveMinimum, exclusiveMaximum, multipleOf } = rule;
  if (value < minimum || value > maximum) return false;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return false;
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum) return false;
  return multipleOf === undefined || Math.abs(value / multipleOf - Math.round(value / multipleOf)) < 1e-9;
}

type Check = (value: unknown, schema: unknown) => boolean;

function isValidArray(value: readonly unknown[], rule: Schema, valid: Check): boolean {
  const { minItems = 0, maxItems = Infinity, prefixItems = [], items = true, uniqueItems = false } = rule;
  if (value.length < minItems || value.length > maxItems) return false;
  if (uniqueItems && new Set(value.map((item) => JSON.stringify(item))).size < value.length) return false;
  return value.every((item, at) => valid(item, prefixItems[at] ?? items));
}

function isValidObject(value: Schema, rule: Schema, valid: Check): boolean {
  const { properties = {}, required = [], additionalProperties = true, minProperties = 0 } = rule;
  const names = Object.keys(value);
  if (names.length < minProperties || names.length > (rule['maxProperties'] ?? Infinity)) return false;
  if (!required.every((name: string) => Object.hasOwn(value, name))) return false;
  return names.every((name) => valid(value[name], properties[name] ?? additionalProperties));
}
