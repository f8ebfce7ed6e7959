// Completion options of the llama-style API (docs/interface.md, section 12): defaults, parsing and validation. `null` means
// the default, an option has one value whichever of its names is used, and what is no option of the interface is kept in
// `others`. The errors of a body are reported together, up to `MAX_VALIDATION_ENTRIES` of each list.
import { type ObjectSchema, type Schema, validate } from '../api/schema.ts';
import { MAX_VALIDATION_ENTRIES, type ValidationEntry, validationText } from '../errors.ts';
import { isJsonObject } from '../net/json-object.ts';

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
  /** Members of the result to answer with, such as `content` or `timings/predicted_ms`; empty: all of them. */
  response_fields: [] as readonly string[],
  /** Whether the result has the tokens of its text. */
  return_tokens: false,
  /** Probabilities after the samplers (true) or of the model alone (false), in today's form; null: the interface's form. */
  post_sampling_probs: null as boolean | null,
  /** Options of today's llama-server beyond these, as sent; those that are switched off are left out. */
  others: {} as Readonly<Record<string, unknown>>,
};

export type CompletionOptions = Readonly<typeof DEFAULT_OPTIONS>;

/** What stands between prefix and suffix, and around them. */
export interface InfillOptions extends CompletionOptions {
  readonly input_prefix: string;
  readonly input_suffix: string;
  /** Text of other files, in front of the prefix. */
  readonly input_extra: readonly InfillExtra[];
}

/** A part of another file. */
export interface InfillExtra {
  readonly filename?: string;
  readonly text: string;
}

/** Names of today's llama-server and of OpenAI's API, with the interface's name for the same option. */
export const OPTION_ALIASES = {
  id_slot: 'slot_id',
  max_tokens: 'n_predict',
  max_completion_tokens: 'n_predict',
  logprobs: 'n_probs',
} as const satisfies Readonly<Record<string, keyof CompletionOptions>>;

/** Members of a body that are no completion options: what is asked for, by whom, and how the gateway counts it. */
const NO_OPTIONS = new Set([
  'model',
  'prompt',
  'input_prefix',
  'input_suffix',
  'input_extra',
  'metadata',
  'prompt_cache_key',
  'safety_identifier',
  'session_id',
  'stream_options',
  'user',
]);

const isAny = (): boolean => true;
const isFalse = (value: unknown): boolean => value === false;
const isZero = (value: unknown): boolean => value === 0;
const isNotPositive = (value: unknown): boolean => typeof value === 'number' && value <= 0;
const isOne = (value: unknown): boolean => value === 1;

/**
 * Options of today's llama-server with the values that change nothing; members of an option that is switched off may have
 * any value. Whatever else is sent is for the engine to know.
 */
export const TODAYS_OPTIONS: Readonly<Record<string, (value: unknown) => boolean>> = {
  adaptive_decay: isAny,
  adaptive_target: isNotPositive,
  backend_sampling: isFalse,
  dry_allowed_length: isAny,
  dry_base: isAny,
  dry_multiplier: isZero,
  dry_penalty_last_n: isAny,
  dry_sequence_breakers: isAny,
  dynatemp_exponent: isAny,
  dynatemp_range: isZero,
  json_schema: () => false,
  lora: (value) => Array.isArray(value) && value.length === 0,
  min_keep: isZero,
  n: isOne,
  n_cache_reuse: isZero,
  n_cmpl: isOne,
  n_discard: isZero,
  n_indent: isZero,
  return_progress: isFalse,
  samplers: () => false,
  sse_ping_interval: isNotPositive,
  t_max_predict_ms: isNotPositive,
  t_max_prompt_ms: isNotPositive,
  timings_per_token: isFalse,
  top_n_sigma: isNotPositive,
  xtc_probability: isZero,
  xtc_threshold: isAny,
};

/** A request that an engine or the reading of options refuses: status 422 with these entries. */
export class InvalidOptions extends Error {
  readonly entries: readonly ValidationEntry[];

  constructor(entries: readonly ValidationEntry[]) {
    super(validationText(entries));
    this.entries = entries;
  }
}

/** The entry of an option whose value has the right type and makes no sense all the same; `at` leads to the part of it. */
export function valueError(option: string, message: string, ...at: readonly (string | number)[]): ValidationEntry {
  return { loc: ['body', option, ...at], msg: `Value error, ${message}`, type: 'value_error' };
}

/** One such option. */
export function invalidOption(option: string, message: string, ...at: readonly (string | number)[]): InvalidOptions {
  return new InvalidOptions([valueError(option, message, ...at)]);
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
  response_fields: { type: 'array', items: STRING },
  return_tokens: BOOLEAN,
  post_sampling_probs: BOOLEAN,
};

const SCHEMA: ObjectSchema = { type: 'object', fields: FIELDS };

const SYSTEM_PROMPT: ObjectSchema = {
  type: 'object',
  fields: { prompt: STRING, anti_prompt: STRING, assistant_name: STRING },
};

/** Reads the options of a completion. Throws InvalidOptions. */
export function readCompletion(body: Readonly<Record<string, unknown>>): CompletionOptions {
  const entries: ValidationEntry[] = [];
  const given = withOneName(withoutNulls(body), entries);
  if (given['prompt'] === undefined && given['system_prompt'] === undefined) {
    entries.push({ loc: ['body', 'prompt'], msg: 'Field required', type: 'missing' });
  }
  const prompt = readPrompt(given['prompt'] ?? '', entries);
  const options = readShared(given, entries);
  if (entries.length > 0) throw new InvalidOptions(entries);
  return { ...options, prompt, others: othersOf(given) };
}

/**
 * Reads the options that the body of another dialect shares with this one by name, such as `temperature` or `seed`.
 * Throws InvalidOptions.
 */
export function readSampling(body: Readonly<Record<string, unknown>>): CompletionOptions {
  const entries: ValidationEntry[] = [];
  const { id_slot = null, slot_id = id_slot } = body;
  const options = readShared(withoutNulls({ ...body, slot_id, system_prompt: null, image_data: null }), entries);
  if (entries.length > 0) throw new InvalidOptions(entries);
  return options;
}

/** Reads the options of an infill, which is streamed unless its body says otherwise. Throws InvalidOptions. */
export function readInfill(body: Readonly<Record<string, unknown>>): InfillOptions {
  const entries: ValidationEntry[] = [];
  const given = withOneName(withoutNulls(body), entries);
  const [input_prefix, input_suffix, prompt] = ['input_prefix', 'input_suffix', 'prompt'].map((name) => {
    const value = given[name] ?? '';
    if (typeof value === 'string') return value;
    entries.push({ loc: ['body', name], msg: 'Input should be a valid string', type: 'string_type' });
    return '';
  }) as [string, string, string];
  const extra = validate(EXTRA, { input_extra: given['input_extra'] ?? [] }, ['body']);
  if ('errors' in extra) entries.push(...extra.errors);
  const options = readShared({ stream: true, ...given }, entries);
  if (entries.length > 0) throw new InvalidOptions(entries);
  const { input_extra } = ('value' in extra ? extra.value : {}) as Pick<InfillOptions, 'input_extra'>;
  return { ...options, prompt, input_prefix, input_suffix, input_extra, others: othersOf(given) };
}

const EXTRA: ObjectSchema = {
  type: 'object',
  fields: {
    input_extra: {
      type: 'array',
      items: { type: 'object', fields: { filename: STRING, text: { type: 'string', required: true } } },
    },
  },
};

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

/** The same body with the interface's name for every option. */
function withOneName(sent: Record<string, unknown>, entries: ValidationEntry[]): Record<string, unknown> {
  let given = sent;
  for (const [alias, name] of Object.entries(OPTION_ALIASES)) {
    const value = sent[alias];
    if (value === undefined) continue;
    given = given === sent ? { ...sent } : given;
    delete given[alias];
    if (given[name] === undefined) given[name] = value;
    else if (given[name] !== value) {
      entries.push(valueError(alias, `it is the same option as ${name}, which says ${JSON.stringify(given[name])}`));
    }
  }
  // A stop may be one text, as OpenAI's API writes it.
  return typeof given['stop'] === 'string' ? { ...given, stop: [given['stop']] } : given;
}

const NONE: Readonly<Record<string, unknown>> = {};

function othersOf(given: Record<string, unknown>): Readonly<Record<string, unknown>> {
  const isOff = (name: string, value: unknown): boolean =>
    Object.hasOwn(TODAYS_OPTIONS, name) && TODAYS_OPTIONS[name]!(value);
  const others = Object.entries(given).filter(
    ([name, value]) => !Object.hasOwn(DEFAULT_OPTIONS, name) && !NO_OPTIONS.has(name) && !isOff(name, value),
  );
  return others.length === 0 ? NONE : Object.fromEntries(others);
}

/** Throws InvalidOptions with every option that is none of the interface, for engines that know no others. */
export function refuseOthers({ others }: CompletionOptions, kind: string): void {
  const entries = Object.keys(others)
    .slice(0, MAX_VALIDATION_ENTRIES)
    .map((name) => valueError(name, `the engine of this host (${kind}) does not know this option`));
  if (entries.length > 0) throw new InvalidOptions(entries);
}

/** Tokens that engines of this process list for each generated one: a vocabulary takes 100 KB and more. */
const MAX_PROBS = 100;

/** Stop strings that this process looks for, and characters of all of them: each behind every token of every choice. */
const MAX_STOPS = 1024;
const MAX_STOP_CHARACTERS = 65_536;

/** Throws InvalidOptions for more stop strings, or longer ones, than this process looks for. */
export function refuseManyStops({ stop }: CompletionOptions): void {
  const characters = stop.reduce((sum, { length }) => sum + length, 0);
  if (stop.length <= MAX_STOPS && characters <= MAX_STOP_CHARACTERS) return;
  throw invalidOption(
    'stop',
    `this host looks for at most ${MAX_STOPS} stop strings, of ${MAX_STOP_CHARACTERS} characters in all`,
  );
}

/**
 * Throws InvalidOptions for more tokens listed and more stop strings than an engine of this process takes on, and for a slot that it
 * does not have.
 */
export function refuseBeyond(options: CompletionOptions, slots: number): void {
  const { n_probs, slot_id } = options;
  refuseManyStops(options);
  if (n_probs > MAX_PROBS) throw invalidOption('n_probs', `this host lists at most ${MAX_PROBS} tokens`);
  if (slot_id >= slots)
    throw invalidOption('slot_id', `there is no slot ${slot_id}; slots are numbered 0 to ${slots - 1}`);
}

/** Throws InvalidOptions with the numbers in a member of the body that are no tokens of a vocabulary of this size. */
export function refuseUnknownTokens(name: string, parts: readonly PromptPart[], size: number): void {
  const wrong = wrongItems(parts, (part) => typeof part !== 'number' || part < size);
  const entries = wrong.map((at) => ({
    loc: ['body', name, at],
    msg: `Input should be less than ${size}`,
    type: 'less_than',
  }));
  if (entries.length > 0) throw new InvalidOptions(entries);
}

/** Indexes of the items that are wrong, as many as an answer has entries. */
function wrongItems<T>(items: readonly T[], isGood: (item: T) => boolean): number[] {
  const wrong: number[] = [];
  for (let at = 0; at < items.length && wrong.length < MAX_VALIDATION_ENTRIES; at++) {
    if (!isGood(items[at]!)) wrong.push(at);
  }
  return wrong;
}

function isToken(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 0;
}

/** Throws InvalidOptions with the items of a member of the body that are no tokens in any vocabulary. */
export function refuseNoTokens(name: string, items: readonly unknown[]): asserts items is readonly number[] {
  const entries = wrongItems(items, isToken).map((at) => ({
    loc: ['body', name, at],
    msg: 'Input should be a valid integer',
    type: 'int_type',
  }));
  if (entries.length > 0) throw new InvalidOptions(entries);
}

const IMAGE_MARK = /\[img-(\d+)\]/g;

/** The texts of a prompt with its images between them, in order; the text behind the last image is the last item. */
export interface ImagePrompt {
  readonly images: readonly { readonly before: string; readonly image: ImageData }[];
  readonly rest: string;
}

/**
 * Reads the marks of the images in texts, each text by itself. An image stands in one place, as in llama-server: a prompt is not
 * larger than its body. Throws InvalidOptions for marks without an image and for an image that is marked again.
 */
export function readImageMarks(texts: readonly string[], images: readonly ImageData[]): ImagePrompt[] {
  // Of equal ids the first one counts.
  const unmarked = new Map(images.map((image) => [image.id, image] as const).toReversed());
  const marked = new Set<number>();
  const entries: ValidationEntry[] = [];
  const prompts = texts.map((text) => {
    const found: { before: string; image: ImageData }[] = [];
    let from = 0;
    for (const { 0: mark, 1: digits, index } of text.matchAll(IMAGE_MARK)) {
      if (entries.length === MAX_VALIDATION_ENTRIES) break;
      const id = Number(digits);
      const image = unmarked.get(id);
      if (image !== undefined) found.push({ before: text.slice(from, index), image });
      else if (marked.has(id)) entries.push(valueError('prompt', `${mark} refers to an image that is in it already`));
      else entries.push(valueError('image_data', `there is no image data for ${mark}`));
      if (unmarked.delete(id)) marked.add(id);
      from = index + mark.length;
    }
    return { images: found, rest: text.slice(from) };
  });
  if (entries.length > 0) throw new InvalidOptions(entries);
  return prompts;
}

function readPrompt(value: unknown, entries: ValidationEntry[]): string | PromptPart[] {
  if (typeof value === 'string') return value;
  if (!Array.isArray(value)) {
    const msg = 'Input should be a valid string or a list of strings and tokens';
    entries.push({ loc: ['body', 'prompt'], msg, type: 'string_type' });
    return '';
  }
  for (const at of wrongItems<unknown>(value, (part) => typeof part === 'string' || isToken(part))) {
    entries.push({ loc: ['body', 'prompt', at], msg: 'Input should be a valid string or a token', type: 'int_type' });
  }
  return value as PromptPart[];
}

/** Pairs of a token and a number or `false`; which tokens exist is for the engine to say. */
function checkBias(value: unknown, entries: ValidationEntry[]): unknown {
  const isObject = isJsonObject(value);
  if (!isObject && !Array.isArray(value)) {
    entries.push({ loc: ['body', 'logit_bias'], msg: 'Input should be a valid list', type: 'list_type' });
    return [];
  }
  const pairs = isObject ? Object.entries(value) : value;
  for (const at of wrongItems(pairs, isBias)) {
    const key = isObject ? (pairs as [string, unknown][])[at]![0] : at;
    const msg = 'Input should be a token and a number, or false';
    entries.push({ loc: ['body', 'logit_bias', key], msg, type: 'value_error' });
  }
  return value;
}

function isBias(pair: unknown): boolean {
  if (!Array.isArray(pair) || pair.length !== 2) return false;
  const [token, bias] = pair as unknown[];
  return (typeof token === 'string' || Number.isInteger(token)) && (typeof bias === 'number' || bias === false);
}

function readSystemPrompt(value: unknown, entries: ValidationEntry[]): SystemPrompt | null {
  if (value === undefined) return null;
  const given = typeof value === 'string' ? { prompt: value } : value;
  if (!isJsonObject(given)) {
    const msg = 'Input should be a valid string';
    entries.push({ loc: ['body', 'system_prompt'], msg, type: 'string_type' });
    return null;
  }
  const checked = validate(SYSTEM_PROMPT, withoutNulls(given), ['body', 'system_prompt']);
  if ('errors' in checked) entries.push(...checked.errors);
  const known = 'errors' in checked ? {} : (checked.value as Partial<SystemPrompt>);
  return { prompt: '', anti_prompt: '', assistant_name: '', ...known };
}
