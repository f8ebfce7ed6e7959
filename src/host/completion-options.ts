// Completion options of the llama-style API (docs/interface.md, section 12): defaults, parsing and validation. `null` means
// the default, unknown members are ignored, and all errors of a body are reported together.
import { type ObjectSchema, type Schema, validate } from '../api/schema.ts';
import type { ValidationEntry } from '../errors.ts';

/** A prompt's text and tokens in order; tokens are numbers. */
export type PromptPart = string | number;

/** One image that a prompt refers to as `[img-<id>]`. */
export interface ImageData {
  /** Base64. */
  readonly data: string;
  readonly id: number;
}

/** A new initial prompt for all slots, and what clients need to build prompts after it. */
export interface SystemPrompt {
  readonly prompt: string;
  /** What a user's turn begins with; a stop string for clients. */
  readonly anti_prompt: string;
  readonly assistant_name: string;
}

/** Every completion option, named as on the wire, with its default (docs/interface.md, section 12). */
export const DEFAULT_OPTIONS = {
  prompt: '' as string | readonly PromptPart[],
  temperature: 0.8,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
  n_predict: -1,
  n_keep: 0,
  stream: false,
  stop: [] as readonly string[],
  tfs_z: 1,
  typical_p: 1,
  repeat_penalty: 1.1,
  repeat_last_n: 64,
  penalize_nl: true,
  presence_penalty: 0,
  frequency_penalty: 0,
  mirostat: 0 as 0 | 1 | 2,
  mirostat_tau: 5,
  mirostat_eta: 0.1,
  /** Empty: none. */
  grammar: '',
  seed: -1,
  ignore_eos: false,
  /** As sent: pairs, or an object of biases by token. */
  logit_bias: [] as unknown,
  n_probs: 0,
  image_data: [] as readonly ImageData[],
  slot_id: -1,
  cache_prompt: false,
  system_prompt: null as SystemPrompt | null,
};

export type CompletionOptions = Readonly<typeof DEFAULT_OPTIONS>;

/** What an infill request adds; its prompt and `stream` are not read. */
export interface InfillOptions extends CompletionOptions {
  readonly input_prefix: string;
  readonly input_suffix: string;
}

/** A request that an engine or the reading of options refuses: status 422 with these entries. */
export class InvalidOptions extends Error {
  readonly entries: readonly ValidationEntry[];

  constructor(entries: readonly ValidationEntry[]) {
    super(entries.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; '));
    this.entries = entries;
  }
}

/** One option whose value has the right type and makes no sense all the same. */
export function invalidOption(option: string, message: string): InvalidOptions {
  return new InvalidOptions([{ loc: ['body', option], msg: `Value error, ${message}`, type: 'value_error' }]);
}

const NUMBER: Schema = { type: 'number' };
const FROM_MINUS_ONE: Schema = { type: 'integer', minimum: -1 };
const BOOLEAN: Schema = { type: 'boolean' };
const STRING: Schema = { type: 'string' };

const FIELDS: Readonly<Record<string, Schema>> = {
  temperature: NUMBER,
  top_k: { type: 'integer' },
  top_p: NUMBER,
  min_p: NUMBER,
  n_predict: FROM_MINUS_ONE,
  n_keep: FROM_MINUS_ONE,
  stream: BOOLEAN,
  stop: { type: 'array', items: STRING },
  tfs_z: NUMBER,
  typical_p: NUMBER,
  repeat_penalty: { type: 'number', exclusiveMinimum: 0 },
  repeat_last_n: FROM_MINUS_ONE,
  penalize_nl: BOOLEAN,
  presence_penalty: NUMBER,
  frequency_penalty: NUMBER,
  mirostat: { type: 'integer', minimum: 0, maximum: 2 },
  mirostat_tau: NUMBER,
  mirostat_eta: NUMBER,
  grammar: STRING,
  seed: { type: 'integer' },
  ignore_eos: BOOLEAN,
  n_probs: { type: 'integer', minimum: 0 },
  image_data: {
    type: 'array',
    items: {
      type: 'object',
      fields: { data: { type: 'string', required: true }, id: { type: 'integer', required: true } },
    },
  },
  slot_id: FROM_MINUS_ONE,
  cache_prompt: BOOLEAN,
};

const SCHEMA: ObjectSchema = { type: 'object', fields: FIELDS };

const SYSTEM_PROMPT: ObjectSchema = {
  type: 'object',
  fields: { prompt: STRING, anti_prompt: STRING, assistant_name: STRING },
};

/** Reads the options of a completion. Throws InvalidOptions. */
export function readCompletion(body: Readonly<Record<string, unknown>>): CompletionOptions {
  const entries: ValidationEntry[] = [];
  const given = withoutNulls(body);
  if (given['prompt'] === undefined && given['system_prompt'] === undefined) {
    entries.push({ loc: ['body', 'prompt'], msg: 'Field required', type: 'missing' });
  }
  const prompt = readPrompt(given['prompt'] ?? '', entries);
  const options = readShared(given, entries);
  if (entries.length > 0) throw new InvalidOptions(entries);
  return { ...options, prompt };
}

/**
 * Reads the options that the body of another dialect shares with this one by name, such as `temperature` or `seed`.
 * Throws InvalidOptions.
 */
export function readSampling(body: Readonly<Record<string, unknown>>): CompletionOptions {
  const entries: ValidationEntry[] = [];
  const options = readShared(withoutNulls({ ...body, system_prompt: null, image_data: null }), entries);
  if (entries.length > 0) throw new InvalidOptions(entries);
  return options;
}

/** Reads the options of an infill, which is always streamed. Throws InvalidOptions. */
export function readInfill(body: Readonly<Record<string, unknown>>): InfillOptions {
  const entries: ValidationEntry[] = [];
  const given = withoutNulls(body);
  const parts = ['input_prefix', 'input_suffix'].map((name) => {
    const value = given[name] ?? '';
    if (typeof value === 'string') return value;
    entries.push({ loc: ['body', name], msg: 'Input should be a valid string', type: 'string_type' });
    return '';
  });
  const options = readShared(given, entries);
  if (entries.length > 0) throw new InvalidOptions(entries);
  return { ...options, stream: true, input_prefix: parts[0]!, input_suffix: parts[1]! };
}

function withoutNulls(body: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null && value !== undefined));
}

function readShared(given: Record<string, unknown>, entries: ValidationEntry[]): CompletionOptions {
  const checked = validate(SCHEMA, given, ['body']);
  if ('errors' in checked) entries.push(...checked.errors);
  const known = 'errors' in checked ? {} : (checked.value as Partial<CompletionOptions>);
  return {
    ...DEFAULT_OPTIONS,
    ...known,
    stop: (known.stop ?? []).filter((stop) => stop !== ''),
    logit_bias: checkBias(given['logit_bias'] ?? [], entries),
    system_prompt: readSystemPrompt(given['system_prompt'], entries),
  };
}

function readPrompt(value: unknown, entries: ValidationEntry[]): string | PromptPart[] {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) {
    const msg = 'Input should be a valid string or a list of strings and tokens';
    entries.push({ loc: ['body', 'prompt'], msg, type: 'string_type' });
    return '';
  }
  value.forEach((part: unknown, at) => {
    if (typeof part === 'string' || (Number.isInteger(part) && Number(part) >= 0)) return;
    entries.push({ loc: ['body', 'prompt', at], msg: 'Input should be a valid string or a token', type: 'int_type' });
  });
  return value as PromptPart[];
}

/** Pairs of a token and a number or `false`; which tokens exist is for the engine to say. */
function checkBias(value: unknown, entries: ValidationEntry[]): unknown {
  const isObject = typeof value === 'object' && !Array.isArray(value);
  if (!isObject && !Array.isArray(value)) {
    entries.push({ loc: ['body', 'logit_bias'], msg: 'Input should be a valid list', type: 'list_type' });
    return [];
  }
  const pairs: [string | number, unknown][] = isObject
    ? Object.entries(value as object)
    : (value as unknown[]).map((pair, at) => [at, pair]);
  for (const [at, given] of pairs) {
    const pair: unknown[] = isObject ? [at, given] : Array.isArray(given) ? given : [];
    const [token, bias] = pair;
    const isToken = typeof token === 'string' || Number.isInteger(token);
    if (pair.length === 2 && isToken && (typeof bias === 'number' || bias === false)) continue;
    const msg = 'Input should be a token and a number, or false';
    entries.push({ loc: ['body', 'logit_bias', at], msg, type: 'value_error' });
  }
  return value;
}

function readSystemPrompt(value: unknown, entries: ValidationEntry[]): SystemPrompt | null {
  if (value === undefined) return null;
  const given = typeof value === 'string' ? { prompt: value } : value;
  const isObject = typeof given === 'object' && given !== null && !Array.isArray(given);
  if (!isObject) {
    const msg = 'Input should be a valid string';
    entries.push({ loc: ['body', 'system_prompt'], msg, type: 'string_type' });
    return null;
  }
  const checked = validate(SYSTEM_PROMPT, withoutNulls(given as Record<string, unknown>), ['body', 'system_prompt']);
  if ('errors' in checked) entries.push(...checked.errors);
  const known = 'errors' in checked ? {} : (checked.value as Partial<SystemPrompt>);
  return { prompt: '', anti_prompt: '', assistant_name: '', ...known };
}
