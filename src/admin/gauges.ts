// Metrics and status of CRNs, search engines and the process, as the control plane knows them.

import type { Clock } from '../actor/index.ts';
import type { ApiDeps } from '../api/deps.ts';
import { type DialectWord, dialectWords } from '../config/dialect-bits.ts';
import {
  type BlockIndex,
  type Board,
  type CrnEvent,
  STANDING_WORDS,
  type ModelTableData,
  type ProbeResult,
} from '../routing/index.ts';
import { EngineBoard } from '../search/index.ts';
import { type CacheNumbers, CrnMetrics } from '../telemetry/crn-metrics.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { ProcessMetrics } from '../telemetry/runtime-metrics.ts';
import type { EngineCells } from '../search/index.ts';

/** A CRN and a model on it, as the status shows them. */
export interface CrnStatus {
  readonly model: string;
  readonly url: string;
  /** `up`, `capable` (up without the model), `probing` (after an ejection), `down` or `drained`. */
  readonly standing: string;
  /** Requests of this gateway under way. */
  readonly inFlight: number;
  /** Peak-EWMA of the time to first byte. */
  readonly firstByteMs: number;
  /** Dialects that it is declared to speak, as settings name them; null: not declared. */
  readonly dialects: readonly DialectWord[] | null;
  /** Dialects that it was found to lack, where none are declared. */
  readonly lacks: readonly DialectWord[];
  /** Of the last probe of the CRN; null before the first. */
  readonly lastProbe: ProbeStatus | null;
}

/** What a CRN answered to its last probe. */
export interface ProbeStatus extends ProbeResult {
  /** When its answer came, in milliseconds since 1970. */
  readonly dateMs: number;
}

/** Every model on every CRN of the table. `probes`: by base URL. `nowMs`: by the clock of the thread. */
export function statusOf(
  table: ModelTableData,
  board: Board,
  probes: ReadonlyMap<string, ProbeStatus>,
  nowMs: number,
): CrnStatus[] {
  return table.models.flatMap((model) =>
    model.members.map((member) => ({
      model: model.id,
      url: member.url,
      standing: STANDING_WORDS.get(board.standing(member.member)) ?? 'unknown',
      inFlight: board.ownInFlight(member.server),
      firstByteMs: board.firstByteMs(member.member),
      dialects: member.dialects === 0 ? null : dialectWords(member.dialects),
      lacks: member.dialects === 0 ? dialectWords(board.lacks(member.server, nowMs)) : [],
      lastProbe: probes.get(member.url) ?? null,
    })),
  );
}

/** What routing knows of every model on every CRN of the table. `nowMs`: by the clock of the thread. */
export function cachesOf(
  table: ModelTableData,
  { blockIndex, board, feedback }: Pick<ApiDeps, 'blockIndex' | 'board' | 'feedback'>,
  nowMs: number,
): CacheNumbers[] {
  return table.models.flatMap(({ budget, id, members }) =>
    members.map(({ member, url }) => {
      const msPerByte = board.loads.msPerByte(member);
      return {
        crn: url,
        model: id,
        capacityBytes: blockIndex.capacity(member),
        backlogBytes: Math.max(board.loads.backlog(member, nowMs) - board.loads.siblingsBytes(member), 0),
        bytesPerS: msPerByte === 0 ? null : 1000 / msPerByte,
        hitFactor: feedback.hitFactor(member),
        bytesPerToken: feedback.bytesPerToken(budget),
      };
    }),
  );
}

export class Gauges {
  readonly #crns = new CrnMetrics();
  readonly #process = new ProcessMetrics();
  readonly #cells: EngineCells;
  readonly #engines: EngineBoard;
  readonly #clock: Pick<Clock, 'now'>;
  readonly #epochMs: () => number;
  /** By the clock: ejections and suspensions do not follow the date. */
  readonly #ejectedUntilMs = new Map<string, number>();
  readonly #probes = new Map<string, ProbeStatus>();

  /** `clock`: that of health actors and engines. `epochMs`: milliseconds since 1970. */
  constructor(cells: EngineCells, clock: Pick<Clock, 'now'>, epochMs: () => number) {
    this.#cells = cells;
    this.#clock = clock;
    this.#epochMs = epochMs;
    this.#engines = new EngineBoard(cells.memory);
  }

  /** Counts an event of a CRN. */
  note(event: CrnEvent): void {
    if (event.type === 'ejected') {
      this.#crns.ejected(event.url, event.failure);
      this.#ejectedUntilMs.set(event.url, this.#clock.now() + event.forMs);
    } else if (event.type === 'restarted') {
      this.#crns.restarted(event.url);
    } else if (event.type === 'returned' || (event.type === 'probed' && !event.ejected)) {
      this.#ejectedUntilMs.delete(event.url);
    }
  }

  /** A round of probes of a CRN is over. */
  probed(url: string, result: ProbeResult): void {
    const latencyMs = Math.round(result.latencyMs * 10) / 10;
    this.#probes.set(url, { ...result, latencyMs, dateMs: this.#epochMs() });
  }

  /** The last probe of each CRN, by base URL. */
  get probes(): ReadonlyMap<string, ProbeStatus> {
    return this.#probes;
  }

  /** Forgets CRNs that are no more. */
  keep(urls: ReadonlySet<string>): void {
    this.#crns.keep(urls, this.#clock.now());
    for (const url of this.#probes.keys()) if (!urls.has(url)) this.#probes.delete(url);
  }

  /** Ends of the ejections of these CRNs, in milliseconds since 1970; one in the past waits for its trial. */
  ejections(crns: readonly CrnStatus[]): ReadonlyMap<string, number> {
    const urls = new Set(crns.map(({ url }) => url));
    for (const url of this.#ejectedUntilMs.keys()) if (!urls.has(url)) this.#ejectedUntilMs.delete(url);
    return new Map(Array.from(this.#ejectedUntilMs, ([url, untilMs]) => [url, this.#dateOf(untilMs)]));
  }

  /** These engines with the end of their suspension in milliseconds since 1970; 0 without one. */
  engines(ids: readonly string[]): (readonly [id: string, suspendedUntilMs: number])[] {
    const cells = this.#cells.of(ids);
    return ids.map((id) => [id, this.#dateOf(this.#engines.suspendedUntilMs(cells[id] ?? 0))] as const);
  }

  #dateOf(clockMs: number): number {
    return clockMs === 0 ? 0 : clockMs - this.#clock.now() + this.#epochMs();
  }

  /** The present metrics. `engines`: ids of the configured ones. */
  snapshot(
    crns: readonly CrnStatus[],
    engines: readonly string[],
    blocks: BlockIndex,
    caches: readonly CacheNumbers[],
  ): MetricsSnapshot {
    const nowMs = this.#epochMs();
    const suspended = this.engines(engines).map(([id, untilMs]) => [id, untilMs > nowMs] as const);
    this.#crns.set(
      crns.map(({ url, ...numbers }) => ({ crn: url, ...numbers })),
      new Map(suspended),
      blocks.use(),
      caches,
    );
    return [...this.#crns.snapshot(), ...this.#process.snapshot()];
  }
}
