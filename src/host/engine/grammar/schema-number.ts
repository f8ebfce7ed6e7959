// Numbers of a JSON schema as GBNF: integers and decimals within bounds, by their digits. Where a bound is missing, the range
// is ten thousand wide.
import { literal, oneOf, SchemaError } from './grammar-rules.ts';
/** Bounds of a number in a schema. */
export interface NumberBounds {
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly exclusiveMinimum?: number | undefined;
  readonly exclusiveMaximum?: number | undefined;
  readonly multipleOf?: number | undefined;
}

/** Width of the range where a bound is missing. */
const DEFAULT_SPAN = 9999;
/** Multiples are written out; this many at most. */
const MAX_MULTIPLES = 256;
/** Of a step between integers: what has more is made of rounding. */
const MAX_DECIMALS = 15;
/** Decimals that are tried, in this order, until some number lies within the bounds. */
const DECIMALS = [2, 1, 0, 3, 4, 5, 6];

/** GBNF of the integers within the bounds. Throws a SchemaError when there is none. */
export function integerRule(bounds: NumberBounds, where: string): string {
  if (bounds.multipleOf !== undefined) return multiplesRule(bounds, bounds.multipleOf, true, where);
  return scaledRule(bounds, 0) ?? refuse(where);
}

/** GBNF of numbers within the bounds, most with two decimals. Throws a SchemaError when none of up to six fits. */
export function numberRule(bounds: NumberBounds, where: string): string {
  if (bounds.multipleOf !== undefined) return multiplesRule(bounds, bounds.multipleOf, false, where);
  for (const decimals of DECIMALS) {
    const rule = scaledRule(bounds, decimals);
    if (rule !== null) return rule;
  }
  return refuse(where);
}

function refuse(where: string): never {
  throw new SchemaError(`schema, ${where}: no number lies within the bounds`);
}

/** Ends of the range in units of 10^-decimals, both included. */
function endsOf(bounds: NumberBounds, unit: number): readonly [low: number, high: number] {
  const above = (bound: number | undefined, inclusive: boolean): number => {
    if (bound === undefined) return -Infinity;
    const scaled = Math.ceil(bound * unit);
    return !inclusive && scaled === bound * unit ? scaled + 1 : scaled;
  };
  const below = (bound: number | undefined, inclusive: boolean): number => {
    if (bound === undefined) return Infinity;
    const scaled = Math.floor(bound * unit);
    return !inclusive && scaled === bound * unit ? scaled - 1 : scaled;
  };
  const low = Math.max(above(bounds.minimum, true), above(bounds.exclusiveMinimum, false));
  const high = Math.min(below(bounds.maximum, true), below(bounds.exclusiveMaximum, false));
  const span = DEFAULT_SPAN * unit;
  if (low === -Infinity && high === Infinity) return [0, span];
  if (low === -Infinity) return [high >= 0 ? 0 : high - span, high];
  return [low, Math.min(high, low + Math.max(span, high === Infinity ? span : high - low))];
}

function scaledRule(bounds: NumberBounds, decimals: number): string | null {
  const [low, high] = endsOf(bounds, 10 ** decimals);
  // Past this, digits would be made of rounding.
  const limit = Number.MAX_SAFE_INTEGER;
  if (low > high || low > limit || high < -limit) return null;
  const [from, to] = [Math.max(low, -limit), Math.min(high, limit)];
  const bodies: string[] = [];
  if (from < 0) bodies.push(`"-" ${oneOf(digitRules(Math.max(1, -to), -from, decimals))}`);
  if (to >= 0) bodies.push(oneOf(digitRules(Math.max(0, from), to, decimals)));
  return oneOf(bodies);
}

/** GBNF alternatives of the numbers from `low` to `high`, neither negative, with a point before the last decimals. */
function digitRules(low: number, high: number, decimals: number): string[] {
  const rules: string[] = [];
  const shortest = Math.max(String(low).length, decimals + 1);
  for (let width = shortest; width <= Math.max(String(high).length, decimals + 1); width++) {
    const least = width === shortest ? low : 10 ** (width - 1);
    const most = Math.min(high, 10 ** width - 1);
    const digits = (value: number): string => String(value).padStart(width, '0');
    for (const classes of sameWidth(digits(least), digits(most))) {
      if (decimals > 0) classes.splice(width - decimals, 0, '"."');
      rules.push(classes.join(' '));
    }
  }
  return rules;
}

/** Splits a range of equally long numbers into products of digit classes. */
function sameWidth(low: string, high: string): string[][] {
  if (low === '') return [[]];
  const digit = (from: number, to: number): string => (from === to ? `"${from}"` : `[${from}-${to}]`);
  const [first, last] = [Number(low[0]), Number(high[0])];
  const [lowRest, highRest] = [low.slice(1), high.slice(1)];
  if (first === last) return sameWidth(lowRest, highRest).map((rest) => [digit(first, first), ...rest]);
  const nines = '9'.repeat(lowRest.length);
  const zeros = '0'.repeat(lowRest.length);
  const from = lowRest === zeros ? first : first + 1;
  const to = highRest === nines ? last : last - 1;
  return [
    ...(from === first ? [] : sameWidth(lowRest, nines).map((rest) => [digit(first, first), ...rest])),
    ...(from > to ? [] : [[digit(from, to), ...Array.from(zeros, () => '[0-9]')]]),
    ...(to === last ? [] : sameWidth(zeros, highRest).map((rest) => [digit(last, last), ...rest])),
  ];
}

function multiplesRule(bounds: NumberBounds, given: number, integersOnly: boolean, where: string): string {
  if (!(given > 0)) throw new SchemaError(`schema, ${where}: multipleOf must be above 0`);
  const step = integersOnly ? integerStep(given, where) : given;
  const scaled: NumberBounds = {
    minimum: divided(bounds.minimum, step),
    maximum: divided(bounds.maximum, step),
    exclusiveMinimum: divided(bounds.exclusiveMinimum, step),
    exclusiveMaximum: divided(bounds.exclusiveMaximum, step),
  };
  const [low, high] = endsOf(scaled, 1);
  // Past this, counting by one does not go on.
  const limit = Number.MAX_SAFE_INTEGER;
  const found: string[] = [];
  for (let times = Math.max(low, -limit); times <= Math.min(high, limit) && found.length < MAX_MULTIPLES; times++) {
    // Fifteen digits hide what binary fractions add.
    found.push(literal(JSON.stringify(Number((times * step).toPrecision(15)))));
  }
  return found.length === 0 ? refuse(where) : oneOf(found);
}

/** The least integer that is a multiple of the step: all integers that are multiples of it are multiples of this one. */
function integerStep(step: number, where: string): number {
  for (let decimals = 0; decimals <= MAX_DECIMALS; decimals++) {
    const unit = 10 ** decimals;
    const scaled = Number((step * unit).toPrecision(15));
    if (Number.isInteger(scaled)) return scaled / commonDivisor(scaled, unit);
  }
  throw new SchemaError(`schema, ${where}: integers that are multiples of ${step} are not supported`);
}

function commonDivisor(a: number, b: number): number {
  return b === 0 ? a : commonDivisor(b, a % b);
}

function divided(bound: number | undefined, step: number): number | undefined {
  return bound === undefined ? undefined : Number((bound / step).toPrecision(15));
}
