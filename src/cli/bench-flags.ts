// The flags of `headrace bench`, read: what they mean together, and a sentence for each that makes no sense.

import { parseDuration } from '../config/units.ts';
import type { Arrivals, Condition, Length, Limits, RunSettings } from '../load/index.ts';
import { LOAD_DIALECTS, readConditions, readLimits } from '../load/index.ts';
import { takeFlags, UsageError } from './args.ts';

const FLAGS = [
  ...['model', 'dialect', 'stream', 'key', 'headers', 'body', 'ignore-eos', 'timeout'],
  ...[
    'users',
    'rate',
    'arrivals',
    'speed',
    'ramp',
    'warm-up',
    'duration',
    'requests',
    'think',
    'max-in-flight',
    'grace',
  ],
  ...['workload', 'input-tokens', 'output-tokens', 'turns', 'prefixes', 'prefix-tokens', 'seed', 'make'],
  ...['slo', 'fail-on', 'truth', 'json', 'csv', 'html', 'progress'],
] as const;

type Flags = Readonly<Record<string, string | undefined>>;

/** What a synthetic workload is made from. */
export interface SyntheticFlags {
  readonly inputTokens: Length;
  readonly outputTokens: Length;
  readonly turns: Length;
  readonly prefixes: number;
  readonly prefixTokens: number;
}

/** A command line that makes sense. */
export interface BenchFlags {
  readonly url: URL;
  readonly run: RunSettings;
  /** The dialect as it is named on the command line. */
  readonly dialectName: string;
  readonly key: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly truth: boolean;
  readonly synthetic: SyntheticFlags;
  /** A file; undefined for a synthetic workload. */
  readonly workload: string | undefined;
  readonly seed: number;
  readonly limits: Limits;
  readonly conditions: readonly Condition[];
  /** Paths of outputs; `-` for standard output. */
  readonly json: string | undefined;
  readonly csv: string | undefined;
  readonly html: string | undefined;
  readonly progress: boolean;
}

/** What is run without any flag. */
const USERS = 8;
const DURATION_MS = 30_000;

/** Reads the command line; `key` is the one of the environment. Throws `UsageError` or `LoadError`. */
export function readBenchFlags(
  flags: Readonly<Record<string, string>>,
  address: string | undefined,
  key: string | undefined,
): BenchFlags {
  const own = ownFlags(flags);
  if (address === undefined) throw new UsageError('the URL is missing');
  if (own['model'] === undefined) throw new UsageError('--model NAME is missing');
  const dialectName = own['dialect'] ?? 'chat';
  const dialect = Object.hasOwn(LOAD_DIALECTS, dialectName) ? LOAD_DIALECTS[dialectName] : undefined;
  if (dialect === undefined) {
    throw new UsageError(`--dialect takes one of ${Object.keys(LOAD_DIALECTS).join(', ')}, not ${dialectName}`);
  }
  const requests = own['requests'] === undefined ? Infinity : whole(own, 'requests', 1, 0);
  const arrivals = arrivalsOf(own);
  const isEndless = requests === Infinity && arrivals.kind !== 'trace';
  return {
    url: urlOf(address),
    dialectName,
    run: {
      dialect,
      model: own['model'],
      stream: yes(own, 'stream', true),
      ignoreEos: yes(own, 'ignore-eos', false),
      extra: object(own, 'body'),
      arrivals,
      requests,
      warmUpMs: duration(own, 'warm-up', 0),
      durationMs: duration(own, 'duration', isEndless ? DURATION_MS : Infinity),
      thinkMs: duration(own, 'think', 0),
      graceMs: duration(own, 'grace', 30_000),
      maxInFlight: whole(own, 'max-in-flight', 1, 4096),
    },
    key: own['key'] ?? key,
    headers: headersOf(own),
    timeoutMs: duration(own, 'timeout', 600_000),
    truth: yes(own, 'truth', false),
    synthetic: readSynthetic(own),
    workload: own['workload'],
    seed: whole(own, 'seed', 0, 1),
    limits: own['slo'] === undefined ? {} : readLimits(own['slo']),
    conditions: own['fail-on'] === undefined ? [] : readConditions(own['fail-on']),
    ...{ json: own['json'], csv: own['csv'], html: own['html'] },
    progress: yes(own, 'progress', true),
  };
}

/** What `--make` writes, and how much of it. */
export interface MakeFlags {
  readonly file: string;
  readonly synthetic: SyntheticFlags;
  readonly seed: number;
  readonly entries: number;
  readonly perSecond: number;
}

/** Reads the command line of a workload that is only to be written; undefined when none is. */
export function readMakeFlags(flags: Readonly<Record<string, string>>): MakeFlags | undefined {
  const own = ownFlags(flags);
  if (own['make'] === undefined) return undefined;
  return {
    file: own['make'],
    synthetic: readSynthetic(own),
    seed: whole(own, 'seed', 0, 1),
    entries: whole(own, 'requests', 1, 1000),
    perSecond: positive(own, 'rate', 10),
  };
}

function ownFlags(flags: Readonly<Record<string, string>>): Flags {
  const { own, rest } = takeFlags(flags, FLAGS);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw new UsageError(`headrace bench has no flag --${unknown}`);
  return own;
}

function urlOf(address: string): URL {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new UsageError('the URL must begin with http:// or https://');
  if (url.username !== '' || url.password !== '') throw new UsageError('the URL may hold no password; give --key');
  return url;
}

function arrivalsOf(own: Flags): Arrivals {
  const rampMs = duration(own, 'ramp', 0);
  const kind = own['arrivals'];
  if (kind === 'trace') {
    if (own['workload'] === undefined) throw new UsageError('--arrivals trace needs --workload FILE');
    for (const other of ['rate', 'users', 'ramp']) {
      if (own[other] !== undefined) throw new UsageError(`--${other} and --arrivals trace exclude each other`);
    }
    return { kind, speed: positive(own, 'speed', 1) };
  }
  if (own['speed'] !== undefined) throw new UsageError('--speed needs --arrivals trace');
  if (own['rate'] === undefined) {
    if (kind !== undefined) throw new UsageError(`--arrivals ${kind} needs --rate N`);
    return { kind: 'closed', users: whole(own, 'users', 1, USERS), rampMs };
  }
  if (own['users'] !== undefined)
    throw new UsageError('--users (closed loop) and --rate (open loop) exclude each other');
  if (kind !== undefined && kind !== 'constant' && kind !== 'poisson') {
    throw new UsageError(`--arrivals takes constant, poisson or trace, not ${kind}`);
  }
  return { kind: kind ?? 'poisson', perSecond: positive(own, 'rate', 1), rampMs };
}

function readSynthetic(own: Flags): SyntheticFlags {
  const prefixTokens = whole(own, 'prefix-tokens', 1, 256);
  return {
    inputTokens: length(own, 'input-tokens', 128),
    outputTokens: length(own, 'output-tokens', 64),
    turns: length(own, 'turns', 1),
    // Who gives a length of prefixes wants one.
    prefixes: whole(own, 'prefixes', 0, own['prefix-tokens'] === undefined ? 0 : 1),
    prefixTokens,
  };
}

/** `128`, or `64-512` for anything between. */
function length(own: Flags, name: string, fallback: number): Length {
  const text = own[name];
  if (text === undefined) return { least: fallback, most: fallback };
  const [, least = '', most = least] = /^(\d{1,7})(?:-(\d{1,7}))?$/.exec(text) ?? [];
  if (Number(least) < 1 || Number(most) < Number(least)) {
    throw new UsageError(`--${name} takes a whole number of 1 or more, or two as in 64-512, not ${text}`);
  }
  return { least: Number(least), most: Number(most) };
}

function whole(own: Flags, name: string, least: number, fallback: number): number {
  const text = own[name];
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= least && text !== '') return value;
  throw new UsageError(`--${name} takes a whole number of ${least} or more, not ${text}`);
}

function positive(own: Flags, name: string, fallback: number): number {
  const value = Number(own[name] ?? fallback);
  if (Number.isFinite(value) && value > 0) return value;
  throw new UsageError(`--${name} takes a number above 0, not ${own[name]}`);
}

function duration(own: Flags, name: string, fallbackMs: number): number {
  const text = own[name];
  if (text === undefined) return fallbackMs;
  const valueMs = parseDuration(text);
  if (valueMs === undefined) throw new UsageError(`--${name} takes a duration such as 30s or 250ms, not ${text}`);
  return valueMs;
}

function yes(own: Flags, name: string, fallback: boolean): boolean {
  const text = own[name];
  if (text === undefined) return fallback;
  if (text !== 'true' && text !== 'false') throw new UsageError(`--${name} takes true or false, not ${text}`);
  return text === 'true';
}

function object(own: Flags, name: string): Record<string, unknown> {
  try {
    const value = JSON.parse(own[name] ?? '{}') as unknown;
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  // Not what was given: headers may hold secrets.
  throw new UsageError(`--${name} takes a JSON object`);
}

function headersOf(own: Flags): Record<string, string> {
  const headers = Object.entries(object(own, 'headers'));
  if (headers.some(([, value]) => typeof value !== 'string')) throw new UsageError('--headers takes texts as values');
  return Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value as string]));
}
