// What a CRN says about itself beside its health: when its process began, and how many tokens its KV cache holds. Read from Prometheus
// metrics (vLLM, SGLang, llama.cpp, `headrace host`) and from `/props` and `/slots` of llama-server. Every answer is optional and
// bounded; a value that makes no sense counts as not given.

import type { BufferedClient } from '../net/buffered-client.ts';
import { parsedJson } from '../net/json-object.ts';

export interface CrnReport {
  /** When its process began, in seconds since 1970; null when it does not say. */
  readonly startedS: number | null;
  /** Prompt tokens that it has counted since its start; null when it does not say. */
  readonly promptTokens: number | null;
  /** Tokens that its KV cache holds, over all slots and engines; null when it does not say. */
  readonly cacheTokens: number | null;
  /** False: it says that it keeps no prefixes. */
  readonly keepsPrefixes: boolean;
}

/** The report of a CRN that says nothing. */
export const NO_REPORT: CrnReport = { startedS: null, promptTokens: null, cacheTokens: null, keepsPrefixes: true };

/** vLLM with many histograms has 300 KiB. */
const METRICS_BYTES = 1024 * 1024;
/** Chat templates and old `/slots`, which repeat prompts, are long. */
const JSON_BYTES = 256 * 1024;

/** No cache holds more tokens; a larger number is a mistake. */
const MAX_TOKENS = 1e9;

const CACHE_CONFIG = 'vllm:cache_config_info';
const PROMPT_COUNTERS = ['vllm:prompt_tokens_total', 'sglang:prompt_tokens_total', 'llamacpp:prompt_tokens_total'];
const CACHE_GAUGES = ['headrace_host_cache_tokens', 'sglang:max_total_num_tokens'];
const START_TIME = 'process_start_time_seconds';

/** Asks a CRN for its report. Never rejects: what fails or is not served is not given. `apiKey`: for endpoints that need one. */
export async function readCrnReport(
  client: BufferedClient,
  url: string,
  apiKey: string | undefined,
  timeoutMs: number,
): Promise<CrnReport> {
  const get = async (path: string, maxBytes: number): Promise<string> => {
    const headers = {
      accept: '*/*',
      'user-agent': 'headrace',
      ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }),
    };
    const request = { method: 'GET', url: url + path, headers } as const;
    try {
      const { body, status } = await client.send(request, AbortSignal.timeout(timeoutMs), maxBytes);
      return status === 200 ? body.toString('utf8') : '';
    } catch {
      // Metrics and slots are extras that most servers can switch off.
      return '';
    }
  };
  const report = parseMetrics(await get('/metrics', METRICS_BYTES));
  if (report.cacheTokens !== null) return report;
  const cacheTokens =
    slotTokens(parsedJson(await get('/props', JSON_BYTES))) ?? sumOfSlots(parsedJson(await get('/slots', JSON_BYTES)));
  return { ...report, cacheTokens };
}

/** Reads what is of use from metrics in the Prometheus text format. */
export function parseMetrics(text: string): CrnReport {
  let startedS: number | null = null;
  let configured = 0;
  let keepsPrefixes = true;
  const sums = new Map<string, number>();
  for (let at = 0; at < text.length;) {
    const found = text.indexOf('\n', at);
    const end = found < 0 ? text.length : found;
    const name = nameAt(text, at, end);
    if (name === CACHE_CONFIG) {
      const labels = text.slice(at, end);
      configured += configuredTokens(labels);
      if (labelOf(labels, 'enable_prefix_caching') === 'False') keepsPrefixes = false;
    } else if (name === START_TIME) {
      startedS ??= valueOf(text.slice(at + name.length, end));
    } else if (name !== '') {
      const value = valueOf(text.slice(at + name.length, end));
      if (value !== null) sums.set(name, (sums.get(name) ?? 0) + value);
    }
    at = end + 1;
  }
  const gauge = CACHE_GAUGES.find((name) => sums.has(name));
  const counter = PROMPT_COUNTERS.find((name) => sums.has(name));
  return {
    startedS,
    promptTokens: counter === undefined ? null : (sums.get(counter) as number),
    cacheTokens: tokensOr(configured > 0 ? configured : gauge === undefined ? 0 : (sums.get(gauge) as number)),
    keepsPrefixes,
  };
}

const NAMES: readonly string[] = [CACHE_CONFIG, START_TIME, ...PROMPT_COUNTERS, ...CACHE_GAUGES];

/** The metric of the line at `[at, end)` if it is one of `NAMES`; '' otherwise. */
function nameAt(text: string, at: number, end: number): string {
  for (const name of NAMES) {
    if (!text.startsWith(name, at)) continue;
    const next = text[at + name.length];
    if (at + name.length < end && (next === ' ' || next === '{')) return name;
  }
  return '';
}

/** The value behind the labels of a line; null unless it is a finite number that is not negative. */
function valueOf(rest: string): number | null {
  const [text = ''] = rest
    .slice(rest.lastIndexOf('}') + 1)
    .trim()
    .split(/\s+/);
  const value = text === '' ? NaN : Number(text);
  return Number.isFinite(value) && value >= 0 ? value : null;
}

function labelOf(labels: string, name: string): string {
  return new RegExp(`[{,]${name}="([^"]{0,32})"`).exec(labels)?.[1] ?? '';
}

/** Tokens of one vLLM engine; 0 when its blocks are not known (yet). */
function configuredTokens(labels: string): number {
  const tokens = Number(labelOf(labels, 'num_gpu_blocks')) * Number(labelOf(labels, 'block_size'));
  return Number.isFinite(tokens) && tokens > 0 ? tokens : 0;
}

function tokensOr(tokens: number): number | null {
  return tokens >= 1 && tokens <= MAX_TOKENS ? Math.floor(tokens) : null;
}

/** Tokens of all slots by `/props`; null when it does not say. */
export function slotTokens(props: unknown): number | null {
  if (typeof props !== 'object' || props === null) return null;
  const { default_generation_settings: defaults, total_slots: slots } = props as Readonly<Record<string, unknown>>;
  if (typeof defaults !== 'object' || defaults === null || typeof slots !== 'number') return null;
  const { n_ctx: context } = defaults as Readonly<Record<string, unknown>>;
  return typeof context === 'number' ? tokensOr(slots * context) : null;
}

/** Tokens of all slots by `/slots`; null when it does not say. */
export function sumOfSlots(slots: unknown): number | null {
  if (!Array.isArray(slots)) return null;
  let tokens = 0;
  for (const slot of slots as readonly ({ readonly n_ctx?: unknown } | null)[]) {
    const context = slot?.n_ctx;
    if (typeof context !== 'number' || !(context > 0)) return null;
    tokens += context;
  }
  return tokensOr(tokens);
}

/** Identities of processes that are remembered, to tell a restart from several processes behind one address. */
const REMEMBERED = 8;

/**
 * Tells restarts by what identifies a process. An address behind which several processes answer in turn shows an earlier identity again,
 * or ever new ones: then identities say nothing any more.
 */
export class ProcessIdentity {
  readonly #seen: string[] = [];
  #quiet = 0;
  #isShared = false;

  /** Whether an identity has been seen that can be compared. */
  get isKnown(): boolean {
    return this.#seen.length > 0;
  }

  /** Whether another process answers than before. `wasAway`: the CRN has failed in between. */
  isRestart(identity: string, wasAway: boolean): boolean {
    if (wasAway) this.#quiet = 0;
    if (this.#isShared || identity === this.#seen.at(-1)) return false;
    const isFirst = this.#seen.length === 0;
    this.#isShared = this.#seen.includes(identity) || this.#quiet >= REMEMBERED;
    if (this.#isShared) return false;
    this.#seen.push(identity);
    if (this.#seen.length > REMEMBERED) this.#seen.shift();
    if (!isFirst) this.#quiet++;
    return !isFirst;
  }
}
