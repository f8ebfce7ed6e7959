// Metrics of the link to sibling gateways, counted in the control plane. Empty while the gateway is alone by its settings.

import type { MetricsSnapshot } from './metrics.ts';
import { type Bounds, Families } from './series.ts';

/** From 0.2 ms, an engine on the same machine, to 2 s, when a connection is given up. */
const ANSWERS: Bounds = { from: -12, to: 1, perDoubling: 4 };

/** What the link is like now. */
export interface ClusterGauges {
  readonly connected: boolean;
  /** Other gateways that are alive. */
  readonly siblings: number;
  /** Of the sibling that has been silent for longest; null without siblings. */
  readonly oldestMs: number | null;
  readonly unanswered: number;
  readonly unansweredBytes: number;
}

export class ClusterMetrics {
  readonly #families = new Families();
  readonly #connected = this.#families.gauge(
    'headrace_cluster_connected',
    'Whether Redis or Valkey answers: 1 or 0; missing while cluster.url is not set',
  );
  readonly #siblings = this.#families.gauge('headrace_cluster_siblings', 'Other gateways that are alive');
  readonly #age = this.#families.gauge(
    'headrace_cluster_news_age_seconds',
    'Time since the last message of the sibling that has been silent for longest',
  );
  readonly #unanswered = this.#families.gauge(
    'headrace_cluster_unanswered',
    'Commands that the engine has not answered yet',
  );
  readonly #unansweredBytes = this.#families.gauge(
    'headrace_cluster_unanswered_bytes',
    'Bytes of the commands that the engine has not answered yet',
  );
  readonly #messages = this.#families.counter(
    'headrace_cluster_messages_total',
    'Messages between gateways by topic, direction (in, out) and result: ok, or why they were dropped or ignored',
    ['topic', 'direction', 'result'],
  );
  readonly #bytes = this.#families.counter(
    'headrace_cluster_bytes_total',
    'Bytes of the bodies of messages between gateways that were sent (out) or taken (in)',
    ['direction'],
  );
  readonly #commands = this.#families.counter(
    'headrace_cluster_commands_total',
    'Commands to the engine by result: ok, refused (it answered with an error), timeout, away, full',
    ['result'],
  );
  readonly #duration = this.#families.histogram(
    'headrace_cluster_command_duration_seconds',
    'Time from a command to the answer of the engine, heartbeats among them',
    [],
    ANSWERS,
    { showsEmpty: false },
  );
  readonly #lost = this.#families.counter(
    'headrace_cluster_connections_lost_total',
    'Connections to the engine that broke or were given up',
  );

  set(gauges: ClusterGauges | null): void {
    for (const family of [this.#connected, this.#siblings, this.#age, this.#unanswered, this.#unansweredBytes]) {
      family.clear();
    }
    if (gauges === null) return;
    this.#connected.at().value = gauges.connected ? 1 : 0;
    this.#siblings.at().value = gauges.siblings;
    this.#unanswered.at().value = gauges.unanswered;
    this.#unansweredBytes.at().value = gauges.unansweredBytes;
    if (gauges.oldestMs !== null) this.#age.at().value = gauges.oldestMs / 1000;
  }

  message(topic: string, direction: 'in' | 'out', result: string, bytes: number): void {
    this.#messages.at(topic, direction, result).value++;
    if (result === 'ok') this.#bytes.at(direction).value += bytes;
  }

  command(result: string): void {
    this.#commands.at(result).value++;
  }

  answered(durationMs: number): void {
    this.#duration.at().observe(durationMs / 1000);
  }

  lost(): void {
    this.#lost.at().value++;
  }

  snapshot(): MetricsSnapshot {
    return this.#families.json();
  }
}
