// What CRN actors are given beside their probes, for tests of everything but caches: CRNs that say nothing about themselves.
import { type CachedBlocks, CacheFeedback } from '../../src/routing/cache-feedback.ts';
import type { BoardMemory } from '../../src/routing/board.ts';
import { type CrnReport, NO_REPORT } from '../../src/routing/crn-report.ts';
import type { ProbeAnswer } from '../../src/routing/probe.ts';

const NO_BLOCKS: CachedBlocks = { capacity: () => 0, setCapacity: () => undefined, clear: () => undefined };

export function silentDeps(memory: BoardMemory): {
  feedback: CacheFeedback;
  report: () => Promise<CrnReport>;
  onProbeResult: () => undefined;
} {
  return {
    feedback: new CacheFeedback(memory, NO_BLOCKS),
    report: () => Promise.resolve(NO_REPORT),
    onProbeResult: () => undefined,
  };
}

/** An answer that says nothing but its status. */
export function answerOf(status: number): ProbeAnswer {
  const reason = status >= 200 && status < 300 ? null : `${status} at /health`;
  return { status, instance: '', isLoading: false, reason };
}
