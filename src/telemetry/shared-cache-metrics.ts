// Metrics of the cache that gateways share: lookups of one thread, and what this gateway has written there.

import type { MetricsSnapshot } from './metrics.ts';
import { Counters } from './series.ts';

/** Lookups by cache and result since the start. Results that never came are left out. */
export function lookupMetrics(counts: Readonly<Record<string, Readonly<Record<string, number>>>>): MetricsSnapshot {
  const lookups = new Counters(
    'headrace_cluster_cache_lookups_total',
    'Lookups in the cache that gateways share: hit, miss, timeout, invalid, error, or skipped as the engine is away or slow',
    ['cache', 'result'],
  );
  for (const [cache, results] of Object.entries(counts)) {
    for (const [result, count] of Object.entries(results)) {
      if (count > 0) lookups.at(cache, result).value = count;
    }
  }
  return [lookups.json()];
}

/** Entries that this gateway has written, or not. */
export class SharedCacheMetrics {
  readonly #writes = new Counters(
    'headrace_cluster_cache_writes_total',
    'Entries for the cache that gateways share: written, large, dropped as too many came at once or the engine is away, error',
    ['cache', 'result'],
  );

  write(cache: string, result: string): void {
    this.#writes.at(cache, result).value++;
  }

  snapshot(): MetricsSnapshot {
    return [this.#writes.json()];
  }
}
