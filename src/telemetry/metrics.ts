// Counters of one data plane, as Prometheus metrics. Every ingress thread counts for itself; the admin listener asks the
// threads for their numbers and merges them. Labels come only from configured words: endpoints of the route table,
// configured model ids and CRN URLs, codes of the error table. Children are looked up once and kept: counting a
// request costs two additions.

import { AggregatorRegistry, Counter, Gauge, Histogram, type MetricObjectWithValues, Registry } from 'prom-client';

/** Upper bounds in seconds, from a cached token list to a long generation. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** The numbers of one thread, ready to be posted to another. */
export type MetricsSnapshot = readonly MetricObjectWithValues<never>[];

interface RequestChildren {
  count(): void;
  observe(seconds: number): void;
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #requests: Counter<'endpoint' | 'model' | 'status' | 'code'>;
  readonly #duration: Histogram<'endpoint' | 'model'>;
  readonly #firstByte: Histogram<'model'>;
  readonly #attempts: Counter<'crn' | 'verdict' | 'failure'>;
  readonly #picks: Counter<'affinity'>;
  readonly #inFlight: Gauge;
  readonly #aborted: Counter<'endpoint'>;
  readonly #requestChildren = new Map<string, RequestChildren>();
  readonly #attemptChildren = new Map<string, Counter.Internal>();
  readonly #pickChildren = new Map<string, Counter.Internal>();

  constructor() {
    const registers = [this.#registry];
    this.#requests = new Counter({
      name: 'headrace_requests_total',
      help: 'Requests answered, by endpoint, model, status and error code of the gateway',
      labelNames: ['endpoint', 'model', 'status', 'code'],
      registers,
    });
    this.#duration = new Histogram({
      name: 'headrace_request_duration_seconds',
      help: 'Time from the head of a request to the end of its answer',
      labelNames: ['endpoint', 'model'],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.#firstByte = new Histogram({
      name: 'headrace_upstream_first_byte_seconds',
      help: 'Time from a request sent to a CRN to the first byte of its stream',
      labelNames: ['model'],
      buckets: DURATION_BUCKETS,
      registers,
    });
    this.#attempts = new Counter({
      name: 'headrace_upstream_attempts_total',
      help: 'Tries on CRNs by verdict; failure says why, and is empty when there was none',
      labelNames: ['crn', 'verdict', 'failure'],
      registers,
    });
    this.#picks = new Counter({
      name: 'headrace_routing_picks_total',
      help: 'First choices by how they were made: cookie, hash, moved (affinity yielded), none (by load)',
      labelNames: ['affinity'],
      registers,
    });
    this.#inFlight = new Gauge({
      name: 'headrace_requests_in_flight',
      help: 'Requests that have no complete answer yet',
      registers,
    });
    this.#aborted = new Counter({
      name: 'headrace_requests_aborted_total',
      help: 'Requests whose client left before the answer was complete',
      labelNames: ['endpoint'],
      registers,
    });
  }

  /** A request has come to its end. `code` is empty unless the gateway made the error. */
  request(endpoint: string, model: string, status: number, code: string, elapsedMs: number): void {
    const key = `${endpoint}|${model}|${status}|${code}`;
    let children = this.#requestChildren.get(key);
    if (children === undefined) {
      const counter = this.#requests.labels(endpoint, model, String(status), code);
      const histogram = this.#duration.labels(endpoint, model);
      children = { count: () => counter.inc(), observe: (seconds) => histogram.observe(seconds) };
      this.#requestChildren.set(key, children);
    }
    children.count();
    children.observe(elapsedMs / 1000);
  }

  aborted(endpoint: string): void {
    this.#aborted.labels(endpoint).inc();
  }

  attempt(crn: string, verdict: string, failure: string): void {
    const key = `${crn}|${verdict}|${failure}`;
    let child = this.#attemptChildren.get(key);
    if (child === undefined) {
      child = this.#attempts.labels(crn, verdict, failure);
      this.#attemptChildren.set(key, child);
    }
    child.inc();
  }

  pick(affinity: string): void {
    let child = this.#pickChildren.get(affinity);
    if (child === undefined) {
      child = this.#picks.labels(affinity);
      this.#pickChildren.set(affinity, child);
    }
    child.inc();
  }

  firstByte(model: string, elapsedMs: number): void {
    this.#firstByte.labels(model).observe(elapsedMs / 1000);
  }

  inFlight(count: number): void {
    this.#inFlight.set(count);
  }

  async snapshot(): Promise<MetricsSnapshot> {
    return (await this.#registry.getMetricsAsJSON()) as unknown as MetricsSnapshot;
  }
}

/** Merges the numbers of threads into one Prometheus text. */
export function mergeMetrics(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  return AggregatorRegistry.aggregate(snapshots.map((snapshot) => [...snapshot])).metrics();
}

/** Content type of the text. */
export const METRICS_CONTENT_TYPE: string = Registry.PROMETHEUS_CONTENT_TYPE;
