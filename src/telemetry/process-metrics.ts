// The process as a whole, under the names that every Prometheus client library uses. Read by the control plane alone:
// threads share these numbers, and merging would count them twice.

import type { MetricsSnapshot } from './metrics.ts';
import { Counters } from './series.ts';

export class ProcessMetrics {
  readonly #cpu = new Counters('process_cpu_seconds_total', 'CPU time of the process, user and system', []);
  readonly #memory = new Counters('process_resident_memory_bytes', 'Resident memory of the process', [], 'gauge');
  readonly #start = new Counters(
    'process_start_time_seconds',
    'Start of the process in seconds since 1970',
    [],
    'gauge',
  );

  snapshot(): MetricsSnapshot {
    const { user, system } = process.cpuUsage();
    this.#cpu.at().value = (user + system) / 1e6;
    this.#memory.at().value = process.memoryUsage.rss();
    this.#start.at().value = performance.timeOrigin / 1000;
    return this.declared();
  }

  /** The families as they stand. */
  declared(): MetricsSnapshot {
    return [this.#cpu.json(), this.#memory.json(), this.#start.json()];
  }
}
