// Counters of one data plane. Every ingress thread counts for itself; the admin listener asks the threads for their
// numbers and merges them. Labels come only from configured words: endpoints of the route table, configured model ids and
// CRN URLs, codes of the error table.

import { AggregatorRegistry, Registry } from 'prom-client';
import { Counters, type FamilyJson, Histograms } from './series.ts';

/** Upper bounds in seconds, from a cached token list to a long generation. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** The numbers of one thread, ready to be posted to another. */
export type MetricsSnapshot = readonly FamilyJson[];

/** Statuses in words, made once each. */
const STATUS_WORDS = new Map<number, string>();

function statusWord(status: number): string {
  let word = STATUS_WORDS.get(status);
  if (word === undefined) {
    word = String(status);
    STATUS_WORDS.set(status, word);
  }
  return word;
}

export class Metrics {
  readonly #requests = new Counters(
    'headrace_requests_total',
    'Requests answered, by endpoint, model, status and error code of the gateway',
    ['endpoint', 'model', 'status', 'code'],
  );
  readonly #duration = new Histograms(
    'headrace_request_duration_seconds',
    'Time from the head of a request to the end of its answer',
    ['endpoint', 'model'],
    DURATION_BUCKETS,
  );
  readonly #firstByte = new Histograms(
    'headrace_upstream_first_byte_seconds',
    'Time from a request sent to a CRN to the first byte of its stream',
    ['model'],
    DURATION_BUCKETS,
  );
  readonly #attempts = new Counters(
    'headrace_upstream_attempts_total',
    'Tries on CRNs by verdict; failure says why, and is empty when there was none',
    ['crn', 'verdict', 'failure'],
  );
  readonly #picks = new Counters(
    'headrace_routing_picks_total',
    'First choices by how they were made: cookie, hash, moved (affinity yielded), none (by load)',
    ['affinity'],
  );
  readonly #engines = new Histograms(
    'headrace_search_engine_duration_seconds',
    'Time of a search engine from question to report, by engine and outcome',
    ['engine', 'outcome'],
    DURATION_BUCKETS,
  );
  readonly #inFlight = new Counters(
    'headrace_requests_in_flight',
    'Requests that have no complete answer yet',
    [],
    'gauge',
  );
  readonly #aborted = new Counters(
    'headrace_requests_aborted_total',
    'Requests whose client left before the answer was complete',
    ['endpoint'],
  );

  /** A request has come to its end. `code` is empty unless the gateway made the error. */
  request(endpoint: string, model: string, status: number, code: string, elapsedMs: number): void {
    this.#requests.at(endpoint, model, statusWord(status), code).value++;
    this.#duration.at(endpoint, model).observe(elapsedMs / 1000);
  }

  aborted(endpoint: string): void {
    this.#aborted.at(endpoint).value++;
  }

  attempt(crn: string, verdict: string, failure: string): void {
    this.#attempts.at(crn, verdict, failure).value++;
  }

  pick(affinity: string): void {
    this.#picks.at(affinity).value++;
  }

  firstByte(model: string, elapsedMs: number): void {
    this.#firstByte.at(model).observe(elapsedMs / 1000);
  }

  /** A search engine has reported. `outcome`: `ok`, or the reason as clients read it. */
  engine(engine: string, outcome: string, elapsedMs: number): void {
    this.#engines.at(engine, outcome).observe(elapsedMs / 1000);
  }

  inFlight(count: number): void {
    this.#inFlight.at().value = count;
  }

  snapshot(): MetricsSnapshot {
    return [
      this.#requests.json(),
      this.#duration.json(),
      this.#firstByte.json(),
      this.#attempts.json(),
      this.#picks.json(),
      this.#engines.json(),
      this.#inFlight.json(),
      this.#aborted.json(),
    ];
  }
}

/** Numbers of the cleaning pool, as they stand. */
export interface CleanerNumbers {
  readonly threads: number;
  readonly running: number;
  readonly queued: number;
  /** Threads replaced since the start. */
  readonly replaced: number;
}

/** Counters of the one actor that fetches pages. */
export class PageMetrics {
  readonly #pages = new Histograms(
    'headrace_fetch_page_duration_seconds',
    'Time of a page from request to clean text, by outcome: fetched, cached, shared, or a code of the error table',
    ['outcome'],
    DURATION_BUCKETS,
  );
  readonly #cleaners = new Counters(
    'headrace_fetch_cleaners',
    'The cleaning pool: threads, pages being cleaned, pages waiting',
    ['state'],
    'gauge',
  );
  readonly #replaced = new Counters(
    'headrace_fetch_cleaners_replaced_total',
    'Cleaner threads replaced: past a limit of time or memory, crashed, or after their number of pages',
    [],
  );

  page(outcome: string, elapsedMs: number): void {
    this.#pages.at(outcome).observe(elapsedMs / 1000);
  }

  cleaners({ threads, running, queued, replaced }: CleanerNumbers): void {
    this.#cleaners.at('threads').value = threads;
    this.#cleaners.at('running').value = running;
    this.#cleaners.at('queued').value = queued;
    this.#replaced.at().value = replaced;
  }

  snapshot(): MetricsSnapshot {
    return [this.#pages.json(), this.#cleaners.json(), this.#replaced.json()];
  }
}

/** Merges the numbers of threads into one Prometheus text. */
export function mergeMetrics(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  return AggregatorRegistry.aggregate(snapshots.map((snapshot) => [...snapshot])).metrics();
}

/** Content type of the text. */
export const METRICS_CONTENT_TYPE: string = Registry.PROMETHEUS_CONTENT_TYPE;
