// Finds servers of models through the sources of the setting `discovery`. Each source is an actor of its own with its last answer: one
// that fails keeps it, and no source affects another. Runs in the control plane.

import type { Behavior, Clock, Ref, System } from '../actor/index.ts';
import {
  type DiscoverySourceSettings,
  discoverySourceName,
  discoverySources,
  type Settings,
} from '../config/settings.ts';
import { messageOf } from '../errors.ts';
import type { FoundModels } from '../routing/index.ts';
import { DiscoveryMetrics } from '../telemetry/discovery-metrics.ts';
import type { Log } from '../telemetry/log.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { dnsSource } from './dns-source.ts';
import { fileSource } from './file-source.ts';
import { kubernetesSource } from './kubernetes-source.ts';
import type { SourceDeps } from './source.ts';
import { type UrlSourceDeps, urlSource } from './url-source.ts';

export interface DiscoveryDeps {
  readonly system: System;
  readonly clock: Clock;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly get: UrlSourceDeps['get'];
  /** `found` answers something else than before, other than by `configure`. */
  readonly onChange: () => void;
  /** Each source has answered or failed once. */
  readonly onAnswered: () => void;
}

/** What is known of one source. */
export interface SourceStatus {
  readonly source: string;
  readonly kind: DiscoverySourceSettings['kind'];
  /** `waiting`: neither answered nor failed yet. `failing`: the last try failed; what it found before stays in force. */
  readonly state: 'waiting' | 'ok' | 'failing';
  /** Why the last try failed; null when it did not. */
  readonly problem: string | null;
  /** Age of the last answer; null before the first. */
  readonly ageMs: number | null;
  readonly models: number;
  readonly servers: number;
  /** Answers that differed from the one before, and tries that failed. */
  readonly changes: number;
  readonly failures: number;
  /** Sentences about what is left out. */
  readonly notes: readonly string[];
}

interface Source {
  readonly name: string;
  readonly kind: DiscoverySourceSettings['kind'];
  readonly ref: Ref<never>;
  models: FoundModels;
  notes: readonly string[];
  answeredMs: number | null;
  problem: string | null;
  changes: number;
  failures: number;
}

/** A source that breaks is started again; its last answer stays meanwhile. Longer waits keep it below the default intensity. */
const RESTARTS = { backoff: { minMs: 1000, maxMs: 30_000 } };

const NO_MODELS: FoundModels = new Map();

/** URLs of servers in a line of the log. */
const MOST_LOGGED = 16;

export class Discovery {
  readonly #deps: DiscoveryDeps;
  readonly #metrics = new DiscoveryMetrics();
  /** By their settings, in their order. */
  #sources = new Map<string, Source>();
  /** What sources had found that the settings do not have any more, until those that came in their place have answered. */
  #leaving: readonly FoundModels[] = [];
  readonly #awaited = new Set<string>();

  constructor(deps: DiscoveryDeps) {
    this.#deps = deps;
  }

  /** What sources have found, in the order of the settings. */
  get found(): readonly FoundModels[] {
    return [...Array.from(this.#sources.values(), ({ models }) => models), ...this.#leaving];
  }

  /** Whether each source has answered or failed once. */
  get hasAnswered(): boolean {
    for (const source of this.#sources.values()) if (!hasReported(source)) return false;
    return true;
  }

  /** Takes over settings. Sources that stay keep their state; what the others had found stays until new ones have answered. */
  configure(settings: Pick<Settings, 'discovery' | 'discoveryIntervalMs'>): void {
    const before = this.#sources;
    this.#sources = new Map();
    if (this.#leaving.length === 0) this.#awaited.clear();
    const sources = discoverySources(settings).map(
      (source) => [JSON.stringify([source, settings.discoveryIntervalMs]), source] as const,
    );
    // Those that stay keep theirs.
    const names = new Set(sources.flatMap(([key]) => before.get(key)?.name ?? []));
    for (const [key, source] of sources) {
      const known = before.get(key);
      before.delete(key);
      if (known !== undefined) {
        this.#sources.set(key, known);
        continue;
      }
      const name = unusedName(discoverySourceName(source), names);
      names.add(name);
      this.#awaited.add(key);
      this.#sources.set(key, this.#start(key, name, source, settings.discoveryIntervalMs));
    }
    for (const [key, { ref }] of before) {
      this.#deps.system.stop(ref);
      this.#awaited.delete(key);
    }
    this.#leaving =
      this.#awaited.size === 0 ? [] : [...this.#leaving, ...Array.from(before.values(), ({ models }) => models)];
  }

  status(): SourceStatus[] {
    const nowMs = this.#deps.clock.now();
    return [...this.#sources.values()].map((source) => {
      const { answeredMs, changes, failures, kind, models, name, notes, problem } = source;
      return {
        ...{ source: name, kind, problem, changes, failures, notes },
        state: problem !== null ? 'failing' : hasReported(source) ? 'ok' : 'waiting',
        ageMs: answeredMs === null ? null : Math.round(nowMs - answeredMs),
        models: models.size,
        servers: urlsOf(models).size,
      };
    });
  }

  metrics(): MetricsSnapshot {
    this.#metrics.set(this.status());
    return this.#metrics.snapshot();
  }

  #start(key: string, name: string, settings: DiscoverySourceSettings, intervalMs: number): Source {
    const deps: SourceDeps = {
      onAnswer: (models, notes, problem = null) => this.#answered(key, models, notes, problem),
      onFailure: (problem) => this.#failed(key, problem),
    };
    const ref = this.#spawnSource(settings, intervalMs, deps);
    return {
      ...{ name, kind: settings.kind, ref, models: NO_MODELS, notes: [] },
      ...{ answeredMs: null, problem: null, changes: 0, failures: 0 },
    };
  }

  #spawnSource(settings: DiscoverySourceSettings, intervalMs: number, deps: SourceDeps): Ref<never> {
    switch (settings.kind) {
      case 'url':
        return this.#spawn(urlSource({ intervalMs, ...settings }, { ...deps, get: this.#deps.get }), deps);
      case 'dns':
        return this.#spawn(dnsSource({ intervalMs, ...settings }, deps), deps);
      case 'kubernetes':
        return this.#spawn(kubernetesSource(settings, deps), deps);
      case 'file':
        return this.#spawn(fileSource(settings, deps), deps);
    }
  }

  /** A source that cannot be made has failed too. */
  #spawn<C>(behavior: Behavior<C>, { onFailure }: SourceDeps): Ref<never> {
    const reported: Behavior<C> = (context) => {
      try {
        return behavior(context);
      } catch (error) {
        onFailure(messageOf(error));
        throw error;
      }
    };
    return this.#deps.system.spawn(reported, { supervise: RESTARTS });
  }

  #answered(key: string, models: FoundModels, notes: readonly string[], problem: string | null): void {
    const source = this.#sources.get(key);
    if (source === undefined) return;
    const { log, clock } = this.#deps;
    const isFirst = !hasReported(source);
    this.#note(source, problem);
    for (const note of notes) {
      if (!source.notes.includes(note)) log.warn({ discovery: source.name, note }, 'discovery has left something out');
    }
    source.notes = notes;
    source.answeredMs = clock.now();
    if (!sameModels(models, source.models)) {
      const [before, after] = [urlsOf(source.models), urlsOf(models)];
      const added = [...after].filter((url) => !before.has(url));
      const removed = [...before].filter((url) => !after.has(url));
      source.models = models;
      source.changes++;
      const listed = { added: briefly(added), removed: briefly(removed), servers: after.size };
      log.info({ discovery: source.name, ...listed }, 'discovery has changed');
      this.#deps.onChange();
    }
    if (this.#awaited.delete(key) && this.#awaited.size === 0 && this.#leaving.length > 0) {
      this.#leaving = [];
      this.#deps.onChange();
    }
    if (isFirst && this.hasAnswered) this.#deps.onAnswered();
  }

  #failed(key: string, problem: string): void {
    const source = this.#sources.get(key);
    if (source === undefined) return;
    const isFirst = !hasReported(source);
    this.#note(source, problem);
    if (isFirst && this.hasAnswered) this.#deps.onAnswered();
  }

  /** Notes why a try failed, or that it did not. Tries that fail for the same reason are counted, and logged once. */
  #note(source: Source, problem: string | null): void {
    const { log } = this.#deps;
    if (problem !== null) source.failures++;
    if (source.problem === problem) return;
    if (problem === null) log.info({ discovery: source.name }, 'discovery works again');
    else log.warn({ discovery: source.name, problem }, 'discovery failed');
    source.problem = problem;
  }
}

function hasReported({ answeredMs, problem }: Source): boolean {
  return answeredMs !== null || problem !== null;
}

function sameModels(a: FoundModels, b: FoundModels): boolean {
  return JSON.stringify([...a]) === JSON.stringify([...b]);
}

function urlsOf(models: FoundModels): Set<string> {
  return new Set([...models.values()].flatMap(({ servers }) => servers.map(({ url }) => url)));
}

function briefly(urls: readonly string[]): readonly string[] {
  const more = urls.length - MOST_LOGGED;
  return more > 0 ? [...urls.slice(0, MOST_LOGGED), `and ${more} more`] : urls;
}

/** The name, or the name with a number when another source has it. */
function unusedName(name: string, taken: ReadonlySet<string>): string {
  let unused = name;
  for (let count = 2; taken.has(unused); count++) unused = `${name} #${count}`;
  return unused;
}
