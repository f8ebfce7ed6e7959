// The overview: one JSON document of everything the dashboard and `headrace top` show. Built from the counters of every
// thread, so it agrees with /metrics. Counts only ever go up; rates and quantiles of the last minute come with it. Pure.

import type { DialectWord } from '../config/dialect-bits.ts';
import type { Stage } from '../api/deps.ts';
import type { Sibling } from '../cluster/index.ts';
import type { SourceStatus } from '../discovery/index.ts';
import type { CacheNumbers } from '../telemetry/crn-metrics.ts';
import { isError, type MetricsSnapshot } from '../telemetry/metrics.ts';
import type { Labels } from '../telemetry/series.ts';
import type { ThreadTotals } from '../telemetry/totals.ts';
import { type RecentFigures, shareOf } from './history.ts';
import type { CrnStatus, ProbeStatus } from './gauges.ts';
import { type CrnFailure, mergedRecent, type RecentError, type RecentReport, UNASKED } from '../telemetry/recent.ts';

/** Answer of `GET /overview`. Dates in milliseconds since 1970, counts since the start of the process. */
export interface Overview {
  readonly dateMs: number;
  readonly uptimeMs: number;
  readonly version: string;
  readonly stage: Stage;
  /** Whether admin actions are enabled: `adminToken` is set. */
  readonly orders: boolean;
  /** Whether there is a configuration file to read again. */
  readonly reloadable: boolean;
  /** Base URL of the public port, as it listens; null while it does not. */
  readonly publicUrl: string | null;
  /** The last minute of the whole gateway; quantiles are of requests that name a model. */
  readonly recent: RecentFigures;
  /** Streams of which the client has a piece. */
  readonly streams: number;
  readonly threads: readonly ThreadOverview[];
  readonly crns: readonly CrnOverview[];
  readonly models: readonly ModelOverview[];
  readonly engines: readonly EngineOverview[];
  readonly fetch: FetchOverview;
  /** Searches and pages by endpoint and tool, those asked most first. */
  readonly tools: readonly ToolOverview[];
  /** Null without a ledger. */
  readonly ledger: LedgerOverview | null;
  readonly responses: ResponsesOverview;
  /** Null for a gateway that is alone by its settings. */
  readonly cluster: ClusterOverview | null;
  /** Sources of servers, in the order of the settings. */
  readonly discovery: readonly SourceStatus[];
  /** The last ones, the newest first. */
  readonly errors: readonly RecentError[];
}

export interface ThreadOverview {
  /** 0 is the control thread. */
  readonly thread: number;
  readonly inFlight: number;
  /** Delay of the event loop since the document before: median, 99th percentile, longest. */
  readonly delayMs: readonly [p50: number, p99: number, longest: number];
  /** Time in which the event loop was not waiting for events. */
  readonly busyMs: number;
  readonly heapBytes: number;
}

export interface CrnOverview {
  readonly url: string;
  readonly inFlight: number;
  readonly attempts: number;
  /** Attempts that failed. */
  readonly failures: number;
  /** Requests that left it for another. */
  readonly failovers: number;
  /** End of its ejection; null when it is not ejected. */
  readonly ejectedUntilMs: number | null;
  /** What it answered to its last probe; null before the first. */
  readonly lastProbe: ProbeStatus | null;
  /** Why a request failed there last, or was refused; null when none has. */
  readonly lastFailure: CrnFailure | null;
  /** What its KV events tell; null without events. */
  readonly kvEvents: KvEventOverview | null;
  /** Share of the bytes of prompts that it was expected to have in its cache, since the start; null without requests. */
  readonly predictedHit: number | null;
  /** Share of prompt tokens that it has reported as cached; null while it reports none. */
  readonly reportedHit: number | null;
  /** Bytes of prompt that wait to be prefilled, of all models. */
  readonly backlogBytes: number;
  /** Dialects that it was found to lack: requests of these are translated where they can be. */
  readonly lacks: readonly DialectWord[];
  readonly models: readonly {
    readonly model: string;
    /** `drained`, `down`, `probing`, `capable` or `up`. */
    readonly standing: string;
    /** Peak-EWMA of the time to first byte. */
    readonly firstByteMs: number;
    /** Bytes of prompt that its cache is expected to hold, and that it prefills in a second; null while that is not known. */
    readonly capacityBytes: number;
    readonly bytesPerS: number | null;
    /** Dialects that it is declared to speak; null: not declared. */
    readonly dialects: readonly DialectWord[] | null;
  }[];
}

export interface KvEventOverview {
  readonly connected: boolean;
  /** When its last batch was applied; null before the first. */
  readonly lastMs: number | null;
  /** Batches that did not arrive. */
  readonly lost: number;
  /** Tokens that are known to be in its cache. */
  readonly residentTokens: number;
  /** Tokens that its cache holds when it is full; 0 while unknown. */
  readonly capacityTokens: number;
}

export interface ModelOverview {
  /** Configured id; empty for requests without one: searches, lists, health. */
  readonly model: string;
  readonly requests: number;
  /** Requests answered with 500 and above, or broken behind their status. */
  readonly errors: number;
  /** Second and later tries. */
  readonly failovers: number;
  /** Requests that wait for a CRN with a short backlog. */
  readonly waiting: number;
  /** Of delivered answers; `cached` is a part of `input`. */
  readonly tokens: TokenOverview;
  /** What delivered answers have cost in USD: charged or paid, without a ledger by the prices of the model. */
  readonly costUsd: number;
  /** Bytes of prompts sent to CRNs, and those of them that the CRN was expected to have in its cache. */
  readonly promptBytes: number;
  readonly predictedBytes: number;
  /** The last minute. */
  readonly recent: RecentFigures;
}

export interface TokenOverview {
  readonly input: number;
  readonly cached: number;
  readonly output: number;
}

export interface EngineOverview {
  readonly engine: string;
  /** `trial`: its suspension is over, and one search will try it. */
  readonly standing: 'ready' | 'suspended' | 'trial';
  /** 0 when it is ready. */
  readonly suspendedUntilMs: number;
  /** Why it failed last, as clients read it; empty when it never has. */
  readonly reason: string;
  readonly answered: number;
  /** Of the times it was asked. */
  readonly failed: number;
}

/** Searches and pages that were asked for in one way. Counts since the start. */
export interface ToolOverview {
  readonly endpoint: string;
  /** `direct`: by the endpoint itself. */
  readonly tool: string;
  readonly answered: number;
  /** Refused ones too. */
  readonly failed: number;
  /** The client left before the answer. */
  readonly aborted: number;
}

/** The cleaning pool, and pages asked for. */
export interface FetchOverview {
  readonly threads: number;
  readonly running: number;
  readonly queued: number;
  readonly replaced: number;
  readonly pages: number;
}

export interface LedgerOverview {
  /** USD as a decimal text, of this day in UTC; null while the ledger does not answer. */
  readonly spentTodayUsd: string | null;
  /** Charges that wait for their commit. */
  readonly waiting: number;
}

/** Stored responses, as this gateway has counted them since its start. */
export interface ResponsesOverview {
  readonly stored: number;
  /** Answered and not stored. */
  readonly notStored: number;
  /** Bytes that wait to be stored. */
  readonly waitingBytes: number;
  /** Responses that run in the background. */
  readonly background: number;
}

/** The roll call of gateways, as this one heard it. */
export interface ClusterOverview {
  /** Whether Redis or Valkey answers this gateway. */
  readonly connected: boolean;
  /** Gateways that are alive, this one first. */
  readonly gateways: readonly GatewayOverview[];
}

export type GatewayOverview = Omit<Sibling, 'index'>;

/** The report of one data plane. */
export interface PlaneReport {
  readonly thread: number;
  readonly metrics: MetricsSnapshot;
  readonly recent: RecentReport;
}

/** What stays of the report of a thread that does not answer or has ended: its counts without gauges, and its failures. */
export type KeptReport = Omit<PlaneReport, 'thread'>;

/** What the control plane gathers. */
export interface OverviewParts {
  readonly stage: Stage;
  readonly planes: readonly PlaneReport[];
  /** What threads that do not answer, or have ended, had counted: no sum falls without them. */
  readonly kept: readonly KeptReport[];
  /** Of each thread that has answered. */
  readonly totals: readonly ThreadTotals[];
  readonly crns: readonly CrnStatus[];
  readonly caches: readonly CacheNumbers[];
  /** Ends of ejections by base URL. */
  readonly ejectedUntilMs: ReadonlyMap<string, number>;
  /** What KV events tell, by base URL. */
  readonly kvEvents: ReadonlyMap<string, KvEventOverview>;
  /** Configured engines with the end of their suspension, 0 without one. */
  readonly engines: readonly (readonly [engine: string, suspendedUntilMs: number])[];
  readonly pages: MetricsSnapshot;
  /** Null without a ledger. */
  readonly accounts: MetricsSnapshot | null;
  readonly responses: MetricsSnapshot;
  readonly cluster: ClusterOverview | null;
  readonly discovery: readonly SourceStatus[];
}

/** What is known elsewhere. */
export type OverviewFrame = Pick<
  Overview,
  'dateMs' | 'uptimeMs' | 'version' | 'orders' | 'publicUrl' | 'reloadable'
> & {
  readonly spentTodayUsd: string | null;
  /** The last minute of a model; null: of the gateway. */
  readonly recent: (model: string | null) => RecentFigures;
};

/** Builds the document. */
export function buildOverview(parts: OverviewParts, { recent, spentTodayUsd, ...frame }: OverviewFrame): Overview {
  const { stage, planes, accounts } = parts;
  const reports = [...planes, ...parts.kept];
  const all = new Numbers(reports.flatMap(({ metrics }) => metrics));
  const failures = mergedRecent(reports.map((report) => report.recent));
  return {
    ...frame,
    stage,
    recent: recent(null),
    streams: all.sum('headrace_streams_in_flight'),
    threads: planes.map(threadOf),
    crns: crnsOf(parts, failures, all),
    models: modelsOf(parts.crns, all, recent),
    engines: parts.engines.map(([engine, untilMs]) => engineOf(engine, untilMs, frame.dateMs, failures, all)),
    fetch: fetchOf(new Numbers(parts.pages)),
    tools: toolsOf(all),
    ledger: accounts === null ? null : { spentTodayUsd, waiting: new Numbers(accounts).sum('headrace_ledger_waiting') },
    responses: responsesOf(new Numbers(parts.responses)),
    cluster: parts.cluster,
    discovery: parts.discovery,
    errors: failures.errors.toReversed(),
  };
}

function responsesOf(numbers: Numbers): ResponsesOverview {
  return {
    stored: numbers.sum('headrace_responses_stored_total'),
    notStored: numbers.sum('headrace_responses_not_stored_total'),
    waitingBytes: numbers.sum('headrace_responses_waiting_bytes'),
    background: numbers.sum('headrace_responses_background'),
  };
}

type Matches = (labels: Labels) => boolean;

interface Value {
  readonly labels: Labels;
  readonly value: number;
}

/** Questions to the numbers of several threads. */
class Numbers {
  readonly #values = new Map<string, Value[]>();
  /** By series and label: with thousands of models, reading all values for each of them would take seconds. */
  readonly #byWord = new Map<string, ReadonlyMap<string, readonly Value[]>>();

  constructor(families: MetricsSnapshot) {
    for (const family of families) {
      const values: readonly Value[] =
        family.type === 'histogram'
          ? family.values.map(({ counts, labels }) => ({
              labels,
              value: counts.reduce((sum, count) => sum + count, 0),
            }))
          : family.values;
      const known = this.#values.get(family.name);
      if (known === undefined) this.#values.set(family.name, [...values]);
      else for (const value of values) known.push(value);
    }
  }

  /** The sum of a family; of a histogram, the number of observations. */
  sum(series: string, matches?: Matches): number {
    return sumOf(this.#of(series), matches);
  }

  /** The same of the values whose `label` is `word`. */
  sumWhere(series: string, label: string, word: string, matches?: Matches): number {
    return sumOf(this.#with(series, label).get(word) ?? [], matches);
  }

  /** The values that a label has. */
  words(series: string, label: string): string[] {
    return [...this.#with(series, label).keys()];
  }

  #with(series: string, label: string): ReadonlyMap<string, readonly Value[]> {
    const key = `${series} ${label}`;
    const known = this.#byWord.get(key);
    if (known !== undefined) return known;
    const grouped = Map.groupBy(this.#of(series), ({ labels }) => String(labels[label]));
    this.#byWord.set(key, grouped);
    return grouped;
  }

  #of(series: string): readonly Value[] {
    return this.#values.get(series) ?? [];
  }
}

function sumOf(values: readonly Value[], matches: Matches = () => true): number {
  return values.reduce((sum, { labels, value }) => (matches(labels) ? sum + value : sum), 0);
}

function threadOf({ thread, metrics }: PlaneReport): ThreadOverview {
  const numbers = new Numbers(metrics);
  const delayMs = (percentile: string): number =>
    numbers.sum('headrace_event_loop_delay_seconds', (labels) => labels['percentile'] === percentile) * 1000;
  return {
    thread,
    inFlight: numbers.sum('headrace_requests_in_flight'),
    delayMs: [delayMs('50'), delayMs('99'), delayMs('100')],
    busyMs: numbers.sum('headrace_thread_busy_seconds_total') * 1000,
    heapBytes: numbers.sum('headrace_thread_heap_bytes'),
  };
}

function crnsOf(
  { caches, crns, ejectedUntilMs, kvEvents }: OverviewParts,
  { crnFailures, failovers }: RecentReport,
  all: Numbers,
): CrnOverview[] {
  const cacheOf = new Map(caches.map((cache) => [`${cache.crn} ${cache.model}`, cache]));
  const cachesOf = Map.groupBy(caches, ({ crn }) => crn);
  const failoversOf = new Map(failovers);
  const failureOf = new Map(crnFailures);
  const sumOf = (series: string, url: string, label = '', word = ''): number =>
    all.sumWhere(series, 'crn', url, (labels) => label === '' || labels[label] === word);
  return Array.from(
    Map.groupBy(crns, ({ url }) => url),
    ([url, members]) => ({
      url,
      predictedHit: shareOf(
        sumOf('headrace_locality_prompt_bytes_total', url, 'predicted', 'hit'),
        sumOf('headrace_locality_prompt_bytes_total', url),
      ),
      reportedHit: shareOf(
        sumOf('headrace_locality_cached_tokens_total', url, 'source', 'reported'),
        sumOf('headrace_locality_prompt_tokens_total', url),
      ),
      backlogBytes: (cachesOf.get(url) ?? []).reduce((sum, { backlogBytes }) => sum + backlogBytes, 0),
      inFlight: members[0]?.inFlight ?? 0,
      attempts: sumOf('headrace_upstream_attempts_total', url),
      failures: sumOf('headrace_upstream_attempts_total', url, 'verdict', 'failed'),
      failovers: failoversOf.get(url) ?? 0,
      ejectedUntilMs: ejectedUntilMs.get(url) ?? null,
      lastProbe: members[0]?.lastProbe ?? null,
      lastFailure: failureOf.get(url) ?? null,
      kvEvents: kvEvents.get(url) ?? null,
      lacks: [...new Set(members.flatMap(({ lacks }) => lacks))],
      models: members.map(({ dialects, model, standing, firstByteMs }) => {
        const { bytesPerS = null, capacityBytes = 0 } = cacheOf.get(`${url} ${model}`) ?? {};
        return { model, standing, firstByteMs, capacityBytes, bytesPerS, dialects };
      }),
    }),
  );
}

function modelsOf(crns: readonly CrnStatus[], all: Numbers, recent: OverviewFrame['recent']): ModelOverview[] {
  const ids = new Set([...crns.map(({ model }) => model), ...all.words('headrace_requests_total', 'model')]);
  return Array.from(ids, (model) => {
    const sumOf = (series: string, matches?: Matches): number => all.sumWhere(series, 'model', model, matches);
    const tokensOf = (type: keyof TokenOverview): number =>
      sumOf('headrace_tokens_total', (labels) => labels['type'] === type);
    return {
      model,
      requests: sumOf('headrace_requests_total'),
      errors: sumOf('headrace_requests_total', ({ code = '', status }) => isError(Number(status), code)),
      failovers: sumOf('headrace_failovers_total'),
      waiting: sumOf('headrace_held_requests'),
      tokens: { input: tokensOf('input'), cached: tokensOf('cached'), output: tokensOf('output') },
      costUsd: sumOf('headrace_cost_usd_total'),
      promptBytes: sumOf('headrace_locality_prompt_bytes_total'),
      predictedBytes: sumOf('headrace_locality_prompt_bytes_total', ({ predicted }) => predicted === 'hit'),
      recent: recent(model),
    };
  });
}

function engineOf(
  engine: string,
  suspendedUntilMs: number,
  dateMs: number,
  { troubles }: RecentReport,
  all: Numbers,
): EngineOverview {
  const outcomes = (matches: (outcome: string) => boolean): number =>
    all.sum(
      'headrace_search_engine_duration_seconds',
      (labels) => labels['engine'] === engine && matches(String(labels['outcome'])),
    );
  const last = troubles.find((trouble) => trouble.engine === engine);
  return {
    engine,
    standing: suspendedUntilMs === 0 ? 'ready' : suspendedUntilMs > dateMs ? 'suspended' : 'trial',
    suspendedUntilMs,
    reason: last?.reason ?? '',
    answered: outcomes((outcome) => outcome === 'ok'),
    failed: outcomes((outcome) => outcome !== 'ok' && outcome !== UNASKED),
  };
}

const TOOLS = 'headrace_tool_request_duration_seconds';

function toolsOf(all: Numbers): ToolOverview[] {
  const tools = all.words(TOOLS, 'endpoint').flatMap((endpoint) =>
    all.words(TOOLS, 'tool').map((tool): ToolOverview => {
      const sumOf = (matches: (outcome: unknown) => boolean): number =>
        all.sum(
          TOOLS,
          (labels) => labels['endpoint'] === endpoint && labels['tool'] === tool && matches(labels['outcome']),
        );
      return {
        endpoint,
        tool,
        answered: sumOf((outcome) => outcome === 'ok'),
        failed: sumOf((outcome) => outcome !== 'ok' && outcome !== 'aborted'),
        aborted: sumOf((outcome) => outcome === 'aborted'),
      };
    }),
  );
  const askedOf = ({ aborted, answered, failed }: ToolOverview): number => answered + failed + aborted;
  return tools.filter((tool) => askedOf(tool) > 0).sort((one, other) => askedOf(other) - askedOf(one));
}

function fetchOf(pages: Numbers): FetchOverview {
  const state = (word: string): number => pages.sum('headrace_fetch_cleaners', (labels) => labels['state'] === word);
  return {
    threads: state('threads'),
    running: state('running'),
    queued: state('queued'),
    replaced: pages.sum('headrace_fetch_cleaners_replaced_total'),
    pages: pages.sum('headrace_fetch_page_duration_seconds'),
  };
}
