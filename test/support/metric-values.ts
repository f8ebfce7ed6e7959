// Values of a metric in a snapshot, and the figures of a time in which nothing happened.

import type { RecentFigures } from '../../src/admin/history.ts';
import type { MetricsSnapshot } from '../../src/telemetry/metrics.ts';
import type { Labels } from '../../src/telemetry/series.ts';

/** The series of a family; of a histogram, the numbers of observations. */
export function valuesOf(
  metrics: MetricsSnapshot,
  name: string,
): { readonly labels: Labels; readonly value: number }[] {
  return metrics.flatMap((family) => {
    if (family.name !== name) return [];
    if (family.type !== 'histogram') return [...family.values];
    return family.values.map(({ counts, labels }) => ({ labels, value: counts.reduce((sum, one) => sum + one, 0) }));
  });
}

const NO_QUANTILES = { p50: null, p95: null, p99: null };

export const NO_FIGURES: RecentFigures = {
  ...{ seconds: 60, requestsPerS: 0, errorsPerS: 0, abortedPerS: 0 },
  ...{ latencyMs: NO_QUANTILES, firstByteMs: NO_QUANTILES, gapMs: NO_QUANTILES },
  ...{ inputTokensPerS: 0, cachedTokensPerS: 0, outputTokensPerS: 0, usdPerHour: 0 },
  ...{ cachedShare: null, predictedShare: null },
};
