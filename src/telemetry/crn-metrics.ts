// Metrics of CRNs and search engines in the control plane. Gauges are set anew at every reading; ejections are counted as they
// happen. Labels are configured CRNs and models.

import type { MetricsSnapshot } from './metrics.ts';
import { Counters } from './series.ts';

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

export class CrnMetrics {
  readonly #standing = new Counters(
    'headrace_crn_standing',
    'Standing of a model on a CRN: 1 for the state it is in (drained, down, probing, capable, up), 0 for the others',
    ['crn', 'model', 'standing'],
    'gauge',
  );
  readonly #inFlight = new Counters('headrace_crn_in_flight', 'Requests in flight at a CRN', ['crn'], 'gauge');
  readonly #firstByte = new Counters(
    'headrace_crn_first_byte_seconds',
    'Time to first byte by which a CRN is picked: peak-EWMA of streams, as of its last request',
    ['crn', 'model'],
    'gauge',
  );
  readonly #ejections = new Counters(
    'headrace_crn_ejections_total',
    'Ejections of a CRN, by the failure that completed the case against it',
    ['crn', 'failure'],
  );
  readonly #index = new Counters(
    'headrace_locality_index_bytes',
    'Memory of the index of prompt blocks, estimated by a sample: held by a CRN, stale (not held any more), free',
    ['state'],
    'gauge',
  );
  readonly #restarts = new Counters(
    'headrace_crn_restarts_total',
    'Restarts of a CRN that were noticed, after which its KV cache is taken for empty',
    ['crn'],
  );
  readonly #suspended = new Counters(
    'headrace_search_engine_suspended',
    '1 while a search engine is suspended, 0 while it may be asked',
    ['engine'],
    'gauge',
  );

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
  ): void {
    for (const family of [this.#standing, this.#inFlight, this.#firstByte, this.#suspended]) family.clear();
    for (const { crn, model, standing, inFlight, firstByteMs } of crns) {
      for (const word of STANDINGS) this.#standing.at(crn, model, word).value = word === standing ? 1 : 0;
      this.#inFlight.at(crn).value = inFlight;
      this.#firstByte.at(crn, model).value = firstByteMs / 1000;
    }
    for (const [state, bytes] of Object.entries(index)) this.#index.at(state).value = bytes;
    for (const [engine, is] of suspended) this.#suspended.at(engine).value = is ? 1 : 0;
  }

  snapshot(): MetricsSnapshot {
    return [
      this.#standing.json(),
      this.#inFlight.json(),
      this.#firstByte.json(),
      this.#ejections.json(),
      this.#restarts.json(),
      this.#index.json(),
      this.#suspended.json(),
    ];
  }
}
