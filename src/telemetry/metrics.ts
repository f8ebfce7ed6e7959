// Metrics of one data plane. Every ingress thread counts for itself; the admin listener merges the threads' numbers. Label
// values are configured words only: endpoints of the route table, model ids and CRN URLs of the configuration, error codes.

import { BUCKETS } from './exponential-buckets.ts';
import { LeftNames, type PresentNames } from './left-names.ts';
import type { Part } from './parts.ts';
import {
  type Bounds,
  type Cell,
  type Counters,
  type Distribution,
  type FamilyJson,
  Families,
  type Histograms,
  spanOf,
} from './series.ts';
import {
  CRN_COUNTS,
  MODEL_COUNTS,
  MODEL_HISTOGRAMS,
  MODELS_PER_PART,
  type ModelTotals,
  partOf,
  type TotalsPart,
} from './totals.ts';

/** Metrics of one thread; can be posted to another. */
export type MetricsSnapshot = readonly FamilyJson[];

/** A part of the metrics of a thread: all of them would take it too long for one turn of its event loop. */
export interface MetricsPart extends Part {
  readonly families: MetricsSnapshot;
}

/** From 1 ms, a cached token list, to 512 s, a long generation. Neighbours differ by 9 %. */
const DURATIONS: Bounds = { from: -10, to: 9, perDoubling: 8 };

/** From 1 ms to 128 s; who waits longer has given up or is beyond help. */
const FIRST_BYTES: Bounds = { from: -10, to: 7, perDoubling: 8 };

/** Between two pieces of a stream: from 1 ms, hundreds of tokens a second, to 32 s. */
const GAPS: Bounds = { from: -10, to: 5, perDoubling: 8 };

/** Of what is asked less often and has a limit in seconds: 4 ms to 64 s. Neighbours differ by 19 %. */
export const COARSE: Bounds = { from: -8, to: 6, perDoubling: 4 };

/** For series that are looked up before it is known whether they are needed. */
const LOOKED_UP_EARLY = { showsEmpty: false } as const;

/** The series of one model on one endpoint, looked up once a request. */
export class RequestCells {
  /** Seconds from the head of a request to the end of its answer. */
  readonly duration: Distribution;
  /** Seconds from the head of a request to the first piece of its stream handed to the client. */
  readonly firstPiece: Distribution;
  /** Seconds between two pieces of a stream; of the model, whatever the endpoint. */
  readonly gaps: Distribution;
  /** Seconds from a request sent to a CRN to the first byte of its stream; of the model, whatever the endpoint. */
  readonly firstByte: Distribution;
  readonly #requests: Counters;
  readonly #use: ModelUse;
  readonly #endpoint: string;
  readonly #model: string;
  readonly #sums: ModelSums;
  /** Requests that did not end as an error of the gateway, by status. */
  readonly #answered = new Map<number, Cell>();

  constructor(requests: Counters, histograms: RequestHistograms, use: ModelUse, endpoint: string, sums: ModelSums) {
    const { model } = sums;
    this.#requests = requests;
    this.#use = use;
    this.#endpoint = endpoint;
    this.#model = model;
    this.#sums = sums;
    this.duration = histograms.duration.at(endpoint, model);
    this.firstPiece = histograms.firstPiece.at(endpoint, model);
    this.gaps = histograms.gaps.at(model);
    this.firstByte = histograms.firstByte.at(model);
    sums.latency.push(this.duration);
    sums.firstByte.push(this.firstPiece);
    sums.gaps[0] = this.gaps;
  }

  /** Counts a request that has ended. `code` is empty unless the gateway made the error. */
  count(status: number, code: string): void {
    let cell = code === '' ? this.#answered.get(status) : undefined;
    if (cell === undefined) {
      cell = this.#requests.at(this.#endpoint, this.#model, String(status), code);
      if (code === '') {
        this.#answered.set(status, cell);
        this.#sums.answered.push({ cell, isError: isError(status, code) });
      }
    }
    cell.value++;
    if (code === '') return;
    this.#sums.add(MODEL.requests, 1);
    if (isError(status, code)) this.#sums.add(MODEL.errors, 1);
  }

  /** Its client left before the answer was complete. */
  countAborted(): void {
    this.#sums.add(MODEL.aborted, 1);
  }

  /** Counts the tokens of a request that has ended. `cached` is a part of `input`. */
  countTokens(input: number, cached: number, output: number): void {
    const cells = (this.#sums.tokens ??= {
      input: this.#use.tokens.at(this.#model, 'input'),
      cached: this.#use.tokens.at(this.#model, 'cached'),
      output: this.#use.tokens.at(this.#model, 'output'),
    });
    cells.input.value += input;
    cells.cached.value += cached;
    cells.output.value += output;
  }

  /** Counts what a request has cost, in pico-USD. */
  countCost(pico: number): void {
    const cell = (this.#sums.cost ??= this.#use.cost.at(this.#model));
    cell.value += pico / PICO_PER_USD;
  }
}

const PICO_PER_USD = 1e12;

interface TokenCells {
  readonly input: Cell;
  readonly cached: Cell;
  readonly output: Cell;
}

/** What the answers of a model took, whatever the endpoint. */
interface ModelUse {
  readonly tokens: Counters;
  readonly cost: Counters;
}

/** Whether a request counts as an error: answered with 500 and above, or broken behind its status. */
export function isError(status: number, code: string): boolean {
  return status >= 500 || (status < 400 && code !== '');
}

/** Places of counts by their names. */
function placesOf<Name extends string>(names: readonly Name[]): Readonly<Record<Name, number>> {
  return Object.fromEntries(names.map((name, at) => [name, at])) as Record<Name, number>;
}

const MODEL = placesOf(MODEL_COUNTS);
const CRN = placesOf(CRN_COUNTS);

/** What the history has of a model: its series, and counts beside them of what is in many. */
class ModelSums {
  readonly model: string;
  readonly #counts = new Float64Array(MODEL_COUNTS.length);
  /** Of requests that did not end as an error of the gateway, by endpoint and status. */
  readonly answered: { readonly cell: Cell; readonly isError: boolean }[] = [];
  /** Made with the first tokens. */
  tokens: TokenCells | null = null;
  cost: Cell | null = null;
  /** By endpoint. */
  readonly latency: Distribution[] = [];
  readonly firstByte: Distribution[] = [];
  /** Of the model, whatever the endpoint. */
  readonly gaps: Distribution[] = [];
  waiting = 0;

  constructor(model: string) {
    this.model = model;
  }

  add(place: number, value: number): void {
    this.#counts[place]! += value;
  }

  get requests(): number {
    return this.answered.reduce((sum, { cell }) => sum + cell.value, this.#counts[MODEL.requests] as number);
  }

  /** By `MODEL_COUNTS`. */
  counts(): Float64Array {
    const counts = this.#counts.slice();
    counts[MODEL.requests] = this.requests;
    for (const { cell, isError } of this.answered) if (isError) counts[MODEL.errors]! += cell.value;
    counts[MODEL.input] = this.tokens?.input.value ?? 0;
    counts[MODEL.cached] = this.tokens?.cached.value ?? 0;
    counts[MODEL.output] = this.tokens?.output.value ?? 0;
    counts[MODEL.usd] = this.cost?.value ?? 0;
    return counts;
  }
}

/** Sums of a part, one behind the other. */
const SUMS = new Float64Array(MODELS_PER_PART * MODEL_HISTOGRAMS.length * BUCKETS);

/**
 * Totals of models, whose numbers are in two pieces of memory: an array for each histogram would be memory outside of the heap, for which V8 marks
 * all of it.
 */
function totalsOf(models: readonly ModelSums[], inFlight: ReadonlyMap<string, number>): ModelTotals[] {
  const width = MODEL_COUNTS.length;
  const counts = new Float64Array(models.length * width);
  const spans: { first: number; at: number; end: number; sum: number }[] = [];
  let at = 0;
  for (const [index, sums] of models.entries()) {
    const { firstByte, gaps, latency } = sums;
    counts.set(sums.counts(), index * width);
    for (const distributions of [latency, firstByte, gaps]) {
      const span = { first: 0, at, end: at, sum: 0 };
      if (distributions.length > 0) {
        const buckets = SUMS.subarray(at, at + BUCKETS).fill(0);
        for (const distribution of distributions) span.sum += distribution.addTo(buckets);
        const { end, first } = spanOf(buckets);
        buckets.copyWithin(0, first, end);
        span.first = first;
        span.end = at + end - first;
      }
      at = span.end;
      spans.push(span);
    }
  }
  const buckets = SUMS.slice(0, at);
  const histograms = spans.map(({ first, at, end, sum }) => ({ first, counts: buckets.subarray(at, end), sum }));
  return models.map(({ model, waiting }, index) => ({
    ...{ model, waiting, inFlight: inFlight.get(model) ?? 0 },
    counts: counts.subarray(index * width, (index + 1) * width),
    histograms: histograms.slice(index * MODEL_HISTOGRAMS.length, (index + 1) * MODEL_HISTOGRAMS.length),
  }));
}

interface RequestHistograms {
  readonly duration: Histograms;
  readonly firstPiece: Histograms;
  readonly gaps: Histograms;
  readonly firstByte: Histograms;
}

export class Metrics {
  readonly #families = new Families();
  readonly #requests = this.#families.counter(
    'headrace_requests_total',
    'Requests answered; code is that of an error of the gateway, also of a stream that broke behind its status',
    ['endpoint', 'model', 'status', 'code'],
  );
  readonly #histograms: RequestHistograms = {
    duration: this.#families.histogram(
      'headrace_request_duration_seconds',
      'Time from the head of a request to the end of its answer',
      ['endpoint', 'model'],
      DURATIONS,
      LOOKED_UP_EARLY,
    ),
    firstByte: this.#families.histogram(
      'headrace_upstream_first_byte_seconds',
      'Time from a request sent to a CRN to the first byte of its stream',
      ['model'],
      FIRST_BYTES,
      LOOKED_UP_EARLY,
    ),
    firstPiece: this.#families.histogram(
      'headrace_stream_first_byte_seconds',
      'Time from the head of a request to the first piece of its stream handed to the client',
      ['endpoint', 'model'],
      FIRST_BYTES,
      LOOKED_UP_EARLY,
    ),
    gaps: this.#families.histogram(
      'headrace_stream_gap_seconds',
      'Time between two pieces of a stream handed to the client: inter-token time where a CRN sends a token a piece',
      ['model'],
      GAPS,
      LOOKED_UP_EARLY,
    ),
  };
  readonly #use: ModelUse = {
    tokens: this.#families.counter(
      'headrace_tokens_total',
      'Tokens of delivered answers by type: input (prompts), cached (the part of input that the CRN had in its cache), output',
      ['model', 'type'],
    ),
    cost: this.#families.counter(
      'headrace_cost_usd_total',
      'Cost of delivered answers in USD: what was charged or paid, without a ledger what the prices of the model come to',
      ['model'],
    ),
  };
  readonly #cells = new Map<string, Map<string, RequestCells>>();
  /** What the history has of models, by their ids and in the order of parts. A model keeps its place between two parts: null is a free one. */
  readonly #models = new Map<string, ModelSums>();
  readonly #modelList: (ModelSums | null)[] = [];
  readonly #leftModels = new LeftNames();
  /** Requests answered of models that were dropped. */
  #answeredBefore = 0;
  /** What it has of CRNs, by `CRN_COUNTS`. */
  readonly #crns = new Map<string, Float64Array>();
  readonly #leftCrns = new LeftNames();
  readonly #streams = this.#families.gauge(
    'headrace_streams_in_flight',
    'Streams of which a piece has been handed to the client and that have not ended',
  );
  readonly #attempts = this.#families.counter(
    'headrace_upstream_attempts_total',
    'Tries on CRNs by verdict; failure says why, and is empty when there was none',
    ['crn', 'verdict', 'failure'],
  );
  readonly #failovers = this.#families.counter(
    'headrace_failovers_total',
    'Second and later tries of a request, by what the try before them came to',
    ['model', 'cause'],
  );
  readonly #translated = this.#families.counter(
    'headrace_translated_total',
    'Tries that sent a request in another dialect than that of the client: messages-chat, responses-chat',
    ['translation', 'model'],
  );
  readonly #retries = this.#families.gauge(
    'headrace_retry_budget',
    'Retries left in the budget of a model',
    ['model'],
    'first',
  );
  readonly #retriesRefused = this.#families.counter(
    'headrace_retry_budget_exhausted_total',
    'Requests given up because the retry budget of their model was spent',
    ['model'],
  );
  readonly #hedges = this.#families.counter(
    'headrace_hedges_total',
    'Second attempts beside a late first one: won, lost, failed; refused where the budget was spent',
    ['outcome'],
  );
  readonly #waiting = this.#families.gauge(
    'headrace_held_requests',
    'Requests that wait because every CRN of their model has a backlog longer than routing.hold',
    ['model'],
  );
  readonly #held = this.#families.counter(
    'headrace_held_requests_total',
    'Waits that have ended: admitted, timeout, gone (client left), draining, removed (model); full: refused without a wait',
    ['model', 'outcome'],
  );
  readonly #heldTimes = this.#families.histogram(
    'headrace_held_seconds',
    'Time that a request waited for a CRN with a short backlog, however the wait ended',
    ['model'],
    COARSE,
  );
  readonly #picks = this.#families.counter(
    'headrace_routing_picks_total',
    'First choices by how they were made: response, cookie, cache, prior, moved (from the cookie), spilled (from a cache), none (by load)',
    ['affinity'],
  );
  readonly #promptBytes = this.#families.counter(
    'headrace_locality_prompt_bytes_total',
    'Bytes of the prompts sent to a CRN, by whether it was expected to have them in its KV cache: hit, miss',
    ['crn', 'model', 'predicted'],
  );
  readonly #promptTokens = this.#families.counter(
    'headrace_locality_prompt_tokens_total',
    'Prompt tokens of answers in which the CRN reports cached tokens: of all that are charged, else of a sample',
    ['crn', 'model'],
  );
  readonly #cachedTokens = this.#families.counter(
    'headrace_locality_cached_tokens_total',
    'Cached prompt tokens of the same answers: predicted when the CRN was chosen, and reported by it',
    ['crn', 'model', 'source'],
  );
  readonly #engines = this.#families.histogram(
    'headrace_search_engine_duration_seconds',
    'Time of a search engine from question to report, by engine and outcome',
    ['engine', 'outcome'],
    COARSE,
  );
  readonly #tools = this.#families.histogram(
    'headrace_tool_request_duration_seconds',
    'Time of searches and pages by endpoint, tool (mcp, tavily, ...; direct: none) and outcome: ok, aborted, or a code of the error table',
    ['endpoint', 'tool', 'outcome'],
    COARSE,
  );
  readonly #searches = this.#families.gauge(
    'headrace_searches',
    'Searches under way: running, with slow engines of answered ones, and waiting for a place of their account',
    ['state'],
  );
  readonly #inFlight = this.#families.gauge('headrace_requests_in_flight', 'Requests that have no complete answer yet');
  readonly #connections = this.#families.gauge(
    'headrace_connections',
    'Open connections of clients; 0 with uWebSockets.js',
  );
  readonly #connectionsRefused = this.#families.counter(
    'headrace_connections_refused_total',
    'Connections closed as they came because limits.connections were open',
  );
  readonly #aborted = this.#families.counter(
    'headrace_requests_aborted_total',
    'Requests whose client left before the answer was complete',
    ['endpoint'],
  );

  /** The series of a model on an endpoint; `model` is empty where the request names none. */
  of(endpoint: string, model: string): RequestCells {
    let models = this.#cells.get(endpoint);
    if (models === undefined) {
      models = new Map();
      this.#cells.set(endpoint, models);
    }
    let cells = models.get(model);
    if (cells === undefined) {
      cells = new RequestCells(this.#requests, this.#histograms, this.#use, endpoint, this.#sumsOf(model));
      models.set(model, cells);
    }
    return cells;
  }

  /** The client of a request left before its answer was complete. */
  aborted(endpoint: string, cells: RequestCells): void {
    this.#aborted.at(endpoint).value++;
    cells.countAborted();
  }

  attempt(crn: string, verdict: string, failure: string): void {
    this.#attempts.at(crn, verdict, failure).value++;
    const counts = this.#countsOf(crn);
    counts[CRN.attempts]!++;
    if (verdict === 'failed') counts[CRN.failures]!++;
  }

  pick(affinity: string): void {
    this.#picks.at(affinity).value++;
  }

  /** A prompt is sent to a CRN. */
  prompt(crn: string, model: string, hitBytes: number, missBytes: number): void {
    this.#promptBytes.at(crn, model, 'hit').value += hitBytes;
    this.#promptBytes.at(crn, model, 'miss').value += missBytes;
    const sums = this.#sumsOf(model);
    sums.add(MODEL.promptBytes, hitBytes + missBytes);
    sums.add(MODEL.predictedBytes, hitBytes);
    const counts = this.#countsOf(crn);
    counts[CRN.hitBytes]! += hitBytes;
    counts[CRN.missBytes]! += missBytes;
  }

  /** A CRN has reported the cached tokens of an answer. */
  cached(crn: string, model: string, promptTokens: number, predicted: number, reported: number): void {
    this.#promptTokens.at(crn, model).value += promptTokens;
    this.#cachedTokens.at(crn, model, 'predicted').value += predicted;
    this.#cachedTokens.at(crn, model, 'reported').value += reported;
    const counts = this.#countsOf(crn);
    counts[CRN.promptTokens]! += promptTokens;
    counts[CRN.cachedTokens]! += reported;
  }

  failover(model: string, cause: string): void {
    this.#failovers.at(model, cause).value++;
  }

  /** A CRN is asked in another dialect. */
  translated(translation: string, model: string): void {
    this.#translated.at(translation, model).value++;
  }

  /** Sets the budgets of models that this thread has served. All threads have the same ones. */
  retryBudgets(budgets: ReadonlyMap<string, { readonly balance: number }>): void {
    this.#retries.clear();
    for (const [model, { balance }] of budgets) {
      this.#retries.at(model).value = balance;
      // A series that begins at 0 shows its first increase.
      this.#retriesRefused.at(model);
    }
  }

  hedge(outcome: string): void {
    this.#hedges.at(outcome).value++;
  }

  /** Sets the number of requests of a model that wait in this thread. */
  waiting(model: string, count: number): void {
    this.#waiting.at(model).value = count;
    this.#sumsOf(model).waiting = count;
  }

  /** A wait has ended, or was refused as `full` before it began. */
  held(model: string, outcome: string, waitedMs: number): void {
    this.#held.at(model, outcome).value++;
    if (outcome !== 'full') this.#heldTimes.at(model).observe(waitedMs / 1000);
  }

  retryRefused(model: string): void {
    this.#retriesRefused.at(model).value++;
  }

  /** A search engine has reported. `outcome`: `ok`, `slow` for hits after the answer, or the reason in the words of the API. */
  engine(engine: string, outcome: string, elapsedMs: number): void {
    this.#engines.at(engine, outcome).observe(elapsedMs / 1000);
  }

  /** A search or a page has been answered. `tool` is '' where it was asked by its own endpoint. */
  tool(endpoint: string, tool: string, outcome: string, elapsedMs: number): void {
    this.#tools.at(endpoint, tool === '' ? 'direct' : tool, outcome).observe(elapsedMs / 1000);
  }

  searches({ running, waiting }: { readonly running: number; readonly waiting: number }): void {
    this.#searches.at('running').value = running;
    this.#searches.at('waiting').value = waiting;
  }

  /** Drops the series of CRNs and models that have not been among the present ones for a while. */
  keep({ crns, models }: PresentNames, nowMs: number): void {
    for (const url of this.#leftCrns.due(this.#crns.keys(), crns, nowMs)) {
      this.#families.drop('crn', url);
      this.#crns.delete(url);
    }
    for (const model of this.#leftModels.due(this.#models.keys(), models, nowMs)) this.#dropModel(model);
  }

  #dropModel(model: string): void {
    const sums = this.#models.get(model) as ModelSums;
    this.#answeredBefore += sums.requests;
    this.#families.drop('model', model);
    for (const cells of this.#cells.values()) cells.delete(model);
    this.#models.delete(model);
    this.#modelList[this.#modelList.indexOf(sums)] = null;
  }

  streamsInFlight(count: number): void {
    this.#streams.at().value = count;
  }

  inFlight(count: number): void {
    this.#inFlight.at().value = count;
  }

  connections({ open, refused }: { readonly open: number; readonly refused: number }): void {
    this.#connections.at().value = open;
    this.#connectionsRefused.at().value = refused;
  }

  /** A part of the counts since the start, from 0, for the history. `inFlight`: requests without a complete answer by model. */
  totals(
    part: number,
    inFlight: ReadonlyMap<string, number>,
  ): Pick<TotalsPart, 'models' | 'crns' | 'crnCounts' | 'isLast'> {
    for (const model of inFlight.keys()) this.#sumsOf(model);
    const { entries, isLast } = partOf(this.#modelList, part);
    const models = totalsOf(
      entries.filter((sums) => sums !== null),
      inFlight,
    );
    const crns = part === 0 ? [...this.#crns] : [];
    const crnCounts = new Float64Array(crns.length * CRN_COUNTS.length);
    for (const [at, [, counts]] of crns.entries()) crnCounts.set(counts, at * CRN_COUNTS.length);
    return { models, crns: crns.map(([url]) => url), crnCounts, isLast };
  }

  /** Requests answered since the start. */
  get answered(): number {
    let count = this.#answeredBefore;
    for (const { requests } of this.#models.values()) count += requests;
    return count;
  }

  #sumsOf(model: string): ModelSums {
    let sums = this.#models.get(model);
    if (sums === undefined) {
      sums = new ModelSums(model);
      this.#models.set(model, sums);
      const free = this.#modelList.indexOf(null);
      this.#modelList[free === -1 ? this.#modelList.length : free] = sums;
    }
    return sums;
  }

  #countsOf(crn: string): Float64Array {
    let counts = this.#crns.get(crn);
    if (counts === undefined) {
      counts = new Float64Array(CRN_COUNTS.length);
      this.#crns.set(crn, counts);
    }
    return counts;
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }

  /** Without the times of requests, most of all that is counted, which `totals` has. */
  withoutTimes(): MetricsSnapshot {
    return this.#families.json(Object.values(this.#histograms));
  }

  /** One family, counted from 0; undefined behind the last one. */
  family(at: number): FamilyJson | undefined {
    return this.#families.one(at);
  }
}
