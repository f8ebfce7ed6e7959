// Samples and answers for tests that are about a few of their members.

import type { LoadResponse } from '../../src/load/load-client.ts';
import type { Sample } from '../../src/load/sample.ts';
export function sampleFor(own: Partial<Sample> = {}): Sample {
  return {
    ...{ conversation: 0, turn: 0, intendedMs: 0, lateMs: 0, status: 200, outcome: 'ok', e2eMs: 100, serviceMs: 100 },
    ...{ headMs: 10, ttfeMs: 10, ttftMs: 20, gapsMs: [], tpotMs: NaN, bytes: 10 },
    ...{ promptTokens: 5, cachedTokens: 0, outputTokens: 1 },
    ...own,
  };
}

export function answerFor(own: Partial<LoadResponse> = {}): LoadResponse {
  return {
    ...{ status: 200, outcome: 'ok', sentMs: 0, headMs: 10, firstEventMs: 10, textMs: [20], endedMs: 100, bytes: 10 },
    ...{ text: '', serverTimings: undefined, promptTokens: 5, cachedTokens: 0, outputTokens: 1 },
    ...own,
  };
}
