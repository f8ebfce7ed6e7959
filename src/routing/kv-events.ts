// KV events of all servers that publish them: one subscription per server, and what follows from its events for the block index.
// Runs in the control plane. The index works without them: they only correct it.

import type { Clock } from '../actor/index.ts';
import { KvEventMetrics } from '../telemetry/kv-event-metrics.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { type KvEventCounts, KvEventSubscription } from './kv-event-subscription.ts';
import type { KvEventSource, ModelTableData } from './model-table.ts';

export interface KvEventsDeps {
  /** The part of a `BlockIndex` that events correct. */
  readonly index: { clear(member: number): void };
  /** The part of a `CacheFeedback` that events correct. `model`: its cell. */
  readonly feedback: {
    measured(model: number, member: number, tokens: number): void;
    restarted(member: number): void;
  };
  readonly clock: Clock;
  readonly log: KvEventsLog;
}

export interface KvEventsLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** What is known of one server by its events. */
export interface KvEventStatus extends Readonly<KvEventCounts> {
  readonly url: string;
  /** Tokens that are known to be in its cache. */
  readonly residentTokens: number;
  /** Tokens that its cache holds when it is full; 0 while unknown. */
  readonly capacityTokens: number;
  /** Tokens that have left its cache. */
  readonly removedTokens: number;
}

interface Subscribed {
  readonly fingerprint: string;
  readonly subscription: KvEventSubscription;
  members: readonly MemberOfModel[];
}

/** Cells of a model on a server. */
interface MemberOfModel {
  readonly model: number;
  readonly member: number;
}

export class KvEvents {
  readonly #deps: KvEventsDeps;
  readonly #subscribed = new Map<string, Subscribed>();
  readonly #metrics = new KvEventMetrics();

  constructor(deps: KvEventsDeps) {
    this.#deps = deps;
  }

  /** Subscribes to the servers of the table that have a source, and ends the subscriptions of the others. */
  configure(sources: ReadonlyMap<string, KvEventSource>, table: ModelTableData): void {
    const membersOf = membersByUrl(table);
    for (const [url, { fingerprint }] of [...this.#subscribed]) {
      const source = membersOf.has(url) ? sources.get(url) : undefined;
      if (fingerprint !== JSON.stringify(source)) this.#unsubscribe(url);
    }
    for (const [url, source] of sources) {
      const members = membersOf.get(url);
      if (members !== undefined) (this.#subscribed.get(url) ?? this.#subscribe(url, source)).members = members;
    }
  }

  status(): KvEventStatus[] {
    return [...this.#subscribed].map(([url, { subscription }]) => {
      const { residentTokens, capacityTokens, removedTokens } = subscription.residency;
      return { url, ...subscription.counts, residentTokens, capacityTokens, removedTokens };
    });
  }

  metrics(): MetricsSnapshot {
    const nowMs = this.#deps.clock.now();
    const crns = this.status().map(({ url, lastMs, ...numbers }) => {
      return { ...numbers, crn: url, ageMs: lastMs === null ? null : nowMs - lastMs };
    });
    this.#metrics.set(crns);
    return this.#metrics.snapshot();
  }

  close(): void {
    for (const url of [...this.#subscribed.keys()]) this.#unsubscribe(url);
  }

  #subscribe(url: string, source: KvEventSource): Subscribed {
    const { clock, feedback, index, log } = this.#deps;
    let cleared = 0;
    const subscription = new KvEventSubscription(source, {
      clock,
      onApplied: ({ capacityTokens: tokens }) => {
        if (tokens > 0) for (const { member, model } of subscribed.members) feedback.measured(model, member, tokens);
      },
      onCleared: (reason) => {
        for (const { member } of subscribed.members) {
          if (reason === 'restarted') feedback.restarted(member);
          else index.clear(member);
        }
        if (isPowerOfTwo(++cleared)) log.info({ crn: url, reason, cleared }, 'the KV cache of a CRN is empty');
      },
      onConnection: (connected, error) => {
        const fields = { crn: url, endpoint: source.endpoint };
        if (connected) log.info(fields, 'connected to the KV events of a CRN');
        else
          log.warn(
            { ...fields, problem: error?.message ?? 'closed by the CRN' },
            'no connection to the KV events of a CRN',
          );
      },
      onReplayFailed: ({ message: problem }) => {
        log.warn({ crn: url, endpoint: source.replay, problem }, 'no replay of the KV events of a CRN');
      },
      onRejected: (error) => {
        const { rejected } = subscription.counts;
        if (isPowerOfTwo(rejected)) {
          log.warn({ crn: url, endpoint: source.endpoint, rejected, problem: error.message }, 'KV events rejected');
        }
      },
    });
    const subscribed: Subscribed = { fingerprint: JSON.stringify(source), subscription, members: [] };
    this.#subscribed.set(url, subscribed);
    return subscribed;
  }

  #unsubscribe(url: string): void {
    this.#subscribed.get(url)?.subscription.close();
    this.#subscribed.delete(url);
  }
}

/** Whether what has happened so often is logged: a server that sends garbage sends much of it. */
function isPowerOfTwo(count: number): boolean {
  return (count & (count - 1)) === 0;
}

function membersByUrl({ models }: ModelTableData): Map<string, readonly MemberOfModel[]> {
  const byUrl = new Map<string, MemberOfModel[]>();
  for (const { budget: model, members } of models) {
    for (const { url, member } of members) {
      const cells = byUrl.get(url) ?? [];
      cells.push({ member, model });
      byUrl.set(url, cells);
    }
  }
  return byUrl;
}
