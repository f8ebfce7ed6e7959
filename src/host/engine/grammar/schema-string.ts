// Strings of a JSON schema as GBNF: any text between two lengths, and the common formats. schema.ts calls it.
// Text is words and simple punctuation, so that it needs no escapes and reads well, and bounded, so that a string ends.
import { SchemaError } from './error.ts';
import { patternRule } from './schema-pattern.ts';

/** What a schema says about a string. */
export interface StringBounds {
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  readonly pattern?: string | undefined;
  readonly format?: string | undefined;
}

/** Longest text where the schema does not say; also how far a string goes beyond its least length. */
const DEFAULT_LENGTH = 40;
/** Repetitions of the grammar notation end here. */
const MAX_LENGTH = 2000;

const OCTET = '(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]\\d|\\d)';
const DATE = '(19|20)\\d\\d-(0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])';
const TIME = '([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\dZ';
const HOST = '[a-z]{2,10}\\.(com|org|net)';

/** The formats that are obeyed, as patterns; every other format only describes. */
const FORMATS: Readonly<Record<string, string>> = {
  date: DATE,
  time: TIME,
  'date-time': `${DATE}T${TIME}`,
  duration: 'P[1-9]\\d?D',
  email: `[a-z]{2,10}@${HOST}`,
  hostname: HOST,
  ipv4: `${OCTET}\\.${OCTET}\\.${OCTET}\\.${OCTET}`,
  ipv6: '([0-9a-f]{4}:){7}[0-9a-f]{4}',
  uri: `https://${HOST}/[a-z]{1,10}`,
  uuid: '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}',
};

/** GBNF of a string with its quotes. Throws a SchemaError for bounds that no string keeps, or none this compiler finds. */
export function stringRule(bounds: StringBounds, where: string): string {
  const minLength = bounds.minLength ?? 0;
  const maxLength = bounds.maxLength ?? Infinity;
  if (minLength > Math.min(maxLength, MAX_LENGTH)) {
    throw new SchemaError(`schema, ${where}: no string is that long`);
  }
  const format = bounds.format === undefined ? undefined : FORMATS[bounds.format];
  if (bounds.pattern !== undefined && format !== undefined) {
    throw new SchemaError(`schema, ${where}: pattern and format together are not supported`);
  }
  const pattern = bounds.pattern ?? format;
  if (pattern !== undefined) return `"\\"" ${patternRule(pattern, minLength, maxLength, where)} "\\""`;
  // An empty string says nothing, so there is one only where nothing else fits.
  const shortest = Math.max(minLength, Math.min(1, maxLength));
  const longest = Math.min(maxLength, MAX_LENGTH, shortest + DEFAULT_LENGTH);
  if (longest < 1) return '"\\"\\""';
  return `"\\"" [A-Za-z0-9] [ A-Za-z0-9.,'!?-]{${Math.floor(shortest) - 1},${Math.floor(longest) - 1}} "\\""`;
}
