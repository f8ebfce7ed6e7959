// Fault injection. A fault is a plain record, read from the request header `x-headrace-fault`, from a plan given to
// `setFault`, or from `POST /sim/faults`. Parts combine: `split,crlf,reset-after=3`.
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { isJsonObject } from '../net/json-object.ts';

/**
 * One fault; absent parts do nothing. `…After` counts whole server-sent events that go out before it happens, 0 is
 * right after the headers. On an answer that is not a stream they act in the middle of the body instead.
 */
export interface Fault {
  /** The socket is destroyed when the request arrives; as an unconditional plan rule: the listening socket is closed. */
  readonly refuse?: boolean;
  /** The request is read and never answered. */
  readonly hang?: boolean;
  /** Delay before the headers of the answer, in milliseconds. */
  readonly slowHeadersMs?: number;
  /** This status is answered, with `body` and `headers`, instead of the real answer. */
  readonly status?: number;
  /** Body of `status`; a JSON error in the shape of the path when absent. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** The connection is reset (TCP RST) once the request is read, before any header. */
  readonly reset?: boolean;
  /** The connection is reset. */
  readonly resetAfter?: number;
  /** The socket ends (FIN) without the terminating chunk. */
  readonly truncateAfter?: number;
  /** The connection stays open and silent. */
  readonly stallAfter?: number;
  /** The body ends cleanly, without a finish. */
  readonly endAfter?: number;
  /** An error event of the dialect, then the body ends; not a stream: a 500. */
  readonly errorAfter?: number;
  /** The next event contains broken JSON; the stream continues after it. */
  readonly malformedAfter?: number;
  /** With reset, truncate and stall: half of the next event goes out first. */
  readonly partial?: boolean;
  /** The event that closes the dialect's stream (`[DONE]`, `message_stop`, `response.completed`) is left out. */
  readonly noDone?: boolean;
  /** Every byte of the body travels as a write and a chunk of its own. */
  readonly split?: boolean;
  /** Lines of the stream end in CRLF. */
  readonly crlf?: boolean;
  /** Writes end within every character that has more than one byte. */
  readonly splitUtf8?: boolean;
  /**
   * The engine runs out of memory: every generation of the host ends with an error, also those of other requests. Acts on
   * hosts with an engine; an answer that is not a stream counts what would be its events, and is a 500.
   */
  readonly oomAfter?: number;
  /** The host loads its model again for this many milliseconds, from this request on: all requests are answered 503. */
  readonly loadingMs?: number;
  /** As an unconditional plan rule: the host listens for so long and then does not for as long, again and again. */
  readonly flapMs?: number;
}

/** Which requests a rule applies to: all conditions must hold. `nth` counts, from 1, the requests for which the others hold. */
export interface FaultMatch {
  /** Path without query, compared whole. A rule without it meets POST requests alone, so probes do not spend it. */
  readonly path?: string;
  readonly model?: string;
  readonly nth?: number;
}

/** A fault for the requests that match (all, by default), at most `times` times (no bound by default). */
export interface FaultRule {
  readonly match?: FaultMatch;
  readonly times?: number;
  readonly fault: Fault;
}

/** Rules in order; the first that meets a request decides it. */
export type FaultPlan = readonly FaultRule[];

type Kind = 'switch' | 'number' | 'text' | 'header';

const PARTS: Readonly<Record<string, readonly [keyof Fault, Kind]>> = {
  refuse: ['refuse', 'switch'],
  hang: ['hang', 'switch'],
  'slow-headers': ['slowHeadersMs', 'number'],
  status: ['status', 'number'],
  body: ['body', 'text'],
  header: ['headers', 'header'],
  reset: ['reset', 'switch'],
  'reset-after': ['resetAfter', 'number'],
  'truncate-after': ['truncateAfter', 'number'],
  'stall-after': ['stallAfter', 'number'],
  'end-after': ['endAfter', 'number'],
  'error-after': ['errorAfter', 'number'],
  'malformed-after': ['malformedAfter', 'number'],
  partial: ['partial', 'switch'],
  'no-done': ['noDone', 'switch'],
  split: ['split', 'switch'],
  crlf: ['crlf', 'switch'],
  'split-utf8': ['splitUtf8', 'switch'],
  'oom-after': ['oomAfter', 'number'],
  loading: ['loadingMs', 'number'],
  flap: ['flapMs', 'number'],
};

/**
 * Reads a fault: parts separated by commas, each `name` or `name=value`. Names: refuse, hang, slow-headers=ms,
 * status=code, body=text, header=name:value, reset, reset-after=n, truncate-after=n, stall-after=n, end-after=n,
 * error-after=n, malformed-after=n, partial, no-done, split, crlf, split-utf8, oom-after=n, loading=ms, flap=ms. `body` and the value of `header` are
 * percent-decoded. Throws an Error that names the part it does not understand.
 */
export function parseFault(spec: string): Fault {
  const fault: Record<string, unknown> = {};
  for (const part of spec.split(',').map((text) => text.trim())) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = equals === -1 ? part : part.slice(0, equals);
    const value = equals === -1 ? undefined : part.slice(equals + 1);
    const known = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
    if (known === undefined) throw new Error(`unknown fault '${name}'; known: ${Object.keys(PARTS).join(', ')}`);
    const [key, kind] = known;
    const read = readPart(kind, value);
    if (read === undefined) throw new Error(`cannot read the fault '${part}'`);
    fault[key] = kind === 'header' ? { ...(fault[key] as object | undefined), ...(read as object) } : read;
  }
  return checkFault(fault);
}

function readPart(kind: Kind, value: string | undefined): unknown {
  if (kind === 'switch') return value === undefined ? true : undefined;
  if (value === undefined || value === '') return undefined;
  if (kind === 'number') return Number(value);
  if (kind === 'text') return decoded(value);
  const colon = value.indexOf(':');
  const text = decoded(value.slice(colon + 1));
  return colon < 1 || text === undefined ? undefined : { [value.slice(0, colon).toLowerCase()]: text };
}

/** Undefined for text that is not percent-encoded, such as a lone `%`. */
function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * Checks a plan that came as JSON: an array of rules whose `fault` is a record or a text in the header's grammar;
 * null is no plan. Throws an Error that names the rule and what is wrong with it.
 */
export function parsePlan(value: unknown): FaultPlan | null {
  if (value === null) return null;
  if (!Array.isArray(value)) throw new Error('a plan is an array of rules, or null');
  return value.map((rule: unknown, at) => {
    try {
      return parseRule(rule);
    } catch (error) {
      throw new Error(`rule ${at}: ${(error as Error).message}`, { cause: error });
    }
  });
}

function parseRule(value: unknown): FaultRule {
  if (!isJsonObject(value)) throw new Error('a rule is an object');
  const { match, times, fault } = value;
  if (match !== undefined) {
    if (!isJsonObject(match)) throw new Error('match is an object');
    checkKeys(match, { path: 'string', model: 'string', nth: 'number' });
  }
  if (times !== undefined && typeof times !== 'number') throw new Error('times is a number');
  return {
    ...(match === undefined ? {} : { match: match as FaultMatch }),
    ...(times === undefined ? {} : { times }),
    fault: typeof fault === 'string' ? parseFault(fault) : checkFault(fault),
  };
}

const TYPES: Readonly<Record<Kind, string>> = { switch: 'boolean', number: 'number', text: 'string', header: 'object' };

function checkFault(value: unknown): Fault {
  if (!isJsonObject(value)) throw new Error('a fault is an object or a text');
  checkKeys(value, Object.fromEntries(Object.values(PARTS).map(([key, kind]) => [key, TYPES[kind]])));
  const { status } = value;
  if (status !== undefined && !(Number.isInteger(status) && Number(status) >= 200 && Number(status) <= 599)) {
    throw new Error('status is a whole number from 200 to 599');
  }
  for (const [name, text] of Object.entries((value['headers'] as Record<string, unknown> | undefined) ?? {})) {
    validateHeaderName(name);
    if (typeof text !== 'string') throw new Error(`header ${name} is a text`);
    validateHeaderValue(name, text);
  }
  return value;
}

function checkKeys(record: Record<string, unknown>, types: Readonly<Record<string, string>>): void {
  for (const [key, value] of Object.entries(record)) {
    if (!Object.hasOwn(types, key)) throw new Error(`unknown key '${key}'`);
    if (typeof value !== types[key] || value === null) throw new Error(`${key} is a ${types[key]}`);
    if (typeof value === 'number' && !(value >= 0)) throw new Error(`${key} is a number from 0`);
  }
}

/** An active fault plan; counts the requests its rules matched and the faults they produced. */
export class FaultSchedule {
  readonly #rules: { rule: FaultRule; met: number; spent: number }[];

  constructor(plan: FaultPlan | null) {
    this.#rules = (plan ?? []).map((rule) => ({ rule, met: 0, spent: 0 }));
  }

  /** Whether all connections are refused: the first rule is `refuse` without condition. */
  get refusesConnections(): boolean {
    const first = this.#rules[0]?.rule;
    return first?.fault.refuse === true && first.match === undefined && first.times === undefined;
  }

  /** Milliseconds of a plan that makes the host come and go; undefined for others. */
  get flapMs(): number | undefined {
    const first = this.#rules[0]?.rule;
    return first?.match === undefined && first?.times === undefined ? first?.fault.flapMs : undefined;
  }

  /** The fault for a request, or undefined; counts the request. */
  pick(method: string, path: string, model: string | undefined): Fault | undefined {
    let picked: Fault | undefined;
    for (const state of this.#rules) {
      const { match, times, fault } = state.rule;
      if (match?.path === undefined ? method !== 'POST' : match.path !== path) continue;
      if (match?.model !== undefined && match.model !== model) continue;
      state.met++;
      if (picked !== undefined || (match?.nth !== undefined && match.nth !== state.met)) continue;
      if (times !== undefined && state.spent >= times) continue;
      state.spent++;
      picked = fault;
    }
    return picked;
  }
}
