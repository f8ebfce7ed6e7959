// Metrics of CRNs and search engines in the control plane. Gauges are set anew at every reading; ejections are counted as they
// happen. Labels are configured CRNs and models.

import { LeftNames } from './left-names.ts';
import type { MetricsSnapshot } from './metrics.ts';
import { type Counters, Families } from './series.ts';

/** Label values of `headrace_crn_standing`; the series of one of them is 1. */
const STANDINGS = ['drained', 'down', 'probing', 'capable', 'up'] as const;

/** One model on one CRN. */
export interface CrnNumbers {
  readonly crn: string;
  readonly model: string;
  readonly standing: string;
  /** Of the CRN, whatever the model. */
  readonly inFlight: number;
  readonly firstByteMs: number;
}

/** What routing knows of the KV cache and the prefill of one model on one CRN. */
export interface CacheNumbers {
  readonly crn: string;
  readonly model: string;
  /** Bytes of prompt that its cache is expected to hold. */
  readonly capacityBytes: number;
  /** Bytes of prompt that wait to be prefilled. */
  readonly backlogBytes: number;
  /** Bytes of prompt that it prefills in a second; null while that is not known. */
  readonly bytesPerS: number | null;
  /** What a predicted hit is worth, from 0 for a CRN that never reports one to 1. */
  readonly hitFactor: number;
  /** Of the model, whatever the CRN. */
  readonly bytesPerToken: number;
}

export class CrnMetrics {
  readonly #families = new Families();
  readonly #standing = this.#families.gauge(
    'headrace_crn_standing',
    'Standing of a model on a CRN: 1 for the state it is in (drained, down, probing, capable, up), 0 for the others',
    ['crn', 'model', 'standing'],
  );
  readonly #inFlight = this.#families.gauge('headrace_crn_in_flight', 'Requests in flight at a CRN', ['crn']);
  readonly #firstByte = this.#families.gauge(
    'headrace_crn_first_byte_seconds',
    'Time to first byte by which a CRN is picked: peak-EWMA of streams, as of its last request',
    ['crn', 'model'],
  );
  readonly #ejections = this.#families.counter(
    'headrace_crn_ejections_total',
    'Ejections of a CRN, by the failure that completed the case against it',
    ['crn', 'failure'],
  );
  readonly #index = this.#families.gauge(
    'headrace_locality_index_bytes',
    'Memory of the index of prompt blocks, estimated by a sample: held by a CRN, stale (not held any more), free',
    ['state'],
  );
  readonly #restarts = this.#families.counter(
    'headrace_crn_restarts_total',
    'Restarts of a CRN that were noticed, after which its KV cache is taken for empty',
    ['crn'],
  );
  readonly #suspended = this.#families.gauge(
    'headrace_search_engine_suspended',
    '1 while a search engine is suspended for all accounts or for one, 0 while it may be asked',
    ['engine'],
  );

  readonly #capacity = this.#families.gauge(
    'headrace_locality_capacity_bytes',
    'Bytes of prompt that the KV cache of a CRN is expected to hold',
    ['crn', 'model'],
  );
  readonly #backlog = this.#families.gauge(
    'headrace_locality_backlog_bytes',
    'Bytes of prompt that wait at a CRN to be prefilled',
    ['crn', 'model'],
  );
  readonly #rate = this.#families.gauge(
    'headrace_locality_prefill_bytes_per_second',
    'Bytes of prompt that a CRN prefills in a second, as learned from streams; absent while it is not known',
    ['crn', 'model'],
  );
  readonly #hitFactor = this.#families.gauge(
    'headrace_locality_hit_factor',
    'What a predicted cache hit of a CRN is worth: 1, or less where it reports none again and again, down to 0',
    ['crn', 'model'],
  );
  readonly #bytesPerToken = this.#families.gauge(
    'headrace_locality_bytes_per_token',
    'Bytes of prompt that are one token on average, as learned from answers',
    ['model'],
  );

  readonly #left = new LeftNames();

  /** Drops the counters of CRNs that have not been among `urls` for a while. */
  keep(urls: ReadonlySet<string>, nowMs: number): void {
    const known = [...this.#ejections.firstWords, ...this.#restarts.firstWords];
    for (const url of this.#left.due(known, urls, nowMs)) this.#families.drop('crn', url);
  }

  ejected(crn: string, failure: string): void {
    this.#ejections.at(crn, failure).value++;
  }

  restarted(crn: string): void {
    this.#restarts.at(crn).value++;
  }

  /** Replaces the gauges by those of the present CRNs and engines. `index`: bytes of the index of prompt blocks by state. */
  set(
    crns: readonly CrnNumbers[],
    suspended: ReadonlyMap<string, boolean>,
    index: Readonly<Record<string, number>>,
    caches: readonly CacheNumbers[],
  ): void {
    for (const family of [this.#standing, this.#inFlight, this.#firstByte, this.#suspended]) family.clear();
    for (const family of this.#ofCaches) family.clear();
    for (const { backlogBytes, bytesPerS, bytesPerToken, capacityBytes, crn, hitFactor, model } of caches) {
      this.#capacity.at(crn, model).value = capacityBytes;
      this.#backlog.at(crn, model).value = backlogBytes;
      if (bytesPerS !== null) this.#rate.at(crn, model).value = bytesPerS;
      this.#hitFactor.at(crn, model).value = hitFactor;
      this.#bytesPerToken.at(model).value = bytesPerToken;
    }
    for (const { crn, model, standing, inFlight, firstByteMs } of crns) {
      for (const word of STANDINGS) this.#standing.at(crn, model, word).value = word === standing ? 1 : 0;
      this.#inFlight.at(crn).value = inFlight;
      this.#firstByte.at(crn, model).value = firstByteMs / 1000;
    }
    for (const [state, bytes] of Object.entries(index)) this.#index.at(state).value = bytes;
    for (const [engine, is] of suspended) this.#suspended.at(engine).value = is ? 1 : 0;
  }

  get #ofCaches(): readonly Counters[] {
    return [this.#capacity, this.#backlog, this.#rate, this.#hitFactor, this.#bytesPerToken];
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }
}
