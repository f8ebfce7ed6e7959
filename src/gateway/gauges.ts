// What the control plane counts and shows of CRNs, search engines and the process, beside the numbers of the threads.

import { type Board, type CrnEvent, STANDING, type TableData } from '../routing/index.ts';
import { EngineBoard } from '../search/index.ts';
import { CrnMetrics } from '../telemetry/crn-metrics.ts';
import type { MetricsSnapshot } from '../telemetry/metrics.ts';
import { ProcessMetrics } from '../telemetry/process-metrics.ts';
import type { EngineCells } from './engine-cells.ts';

/** A CRN and a model on it, as the status shows them. */
export interface CrnStatus {
  readonly model: string;
  readonly url: string;
  readonly standing: string;
  readonly inFlight: number;
  /** Peak-EWMA of the time to first byte. */
  readonly firstByteMs: number;
}

/** Standings in words. */
export const STANDING_WORDS: ReadonlyMap<number, string> = new Map(
  Object.entries(STANDING).map(([word, standing]) => [standing, word]),
);

/** Every model on every CRN of the table. */
export function statusOf(table: TableData, board: Board): CrnStatus[] {
  return table.models.flatMap((model) =>
    model.members.map((member) => ({
      model: model.id,
      url: member.url,
      standing: STANDING_WORDS.get(board.standing(member.member)) ?? 'unknown',
      inFlight: board.inFlight(member.server),
      firstByteMs: board.firstByteMs(member.member),
    })),
  );
}

export class Gauges {
  readonly #crns = new CrnMetrics();
  readonly #process = new ProcessMetrics();
  readonly #cells: EngineCells;
  readonly #engines: EngineBoard;

  constructor(cells: EngineCells) {
    this.#cells = cells;
    this.#engines = new EngineBoard(cells.memory);
  }

  /** Counts what is to be counted about a CRN. */
  note(event: CrnEvent): void {
    if (event.type === 'ejected') this.#crns.ejected(event.url, event.failure);
  }

  /** The numbers of now. `engines`: ids of the configured ones. */
  snapshot(crns: readonly CrnStatus[], engines: readonly string[]): MetricsSnapshot {
    const epochMs = performance.timeOrigin + performance.now();
    const cells = this.#cells.of(engines);
    const suspended = engines.map((id) => [id, this.#engines.suspendedUntilMs(cells[id] ?? 0) > epochMs] as const);
    this.#crns.set(
      crns.map(({ url, ...numbers }) => ({ crn: url, ...numbers })),
      new Map(suspended),
    );
    return [...this.#crns.snapshot(), ...this.#process.snapshot()];
  }
}
