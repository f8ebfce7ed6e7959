// Paging by the number of the first result, as most APIs count: which results a request asks for, and whether another
// request is worth sending. Called by the engines whose state is an offset.

import { wantsMore } from '../answer.ts';
import type { EngineHit, EngineQuery, ParseContext } from '../engine.ts';

/** Results asked for: `count` of them from number `offset` on, counted from 0. */
export interface Span {
  readonly offset: number;
  readonly count: number;
}

/** What the request for `state` asks for; `maxCount` is the most the API gives at once. The same count on every page. */
export function span(query: EngineQuery, state: unknown, maxCount: number): Span {
  return { offset: typeof state === 'number' ? state : 0, count: Math.min(query.maxResults, maxCount) };
}

/** What came back for a span. */
export interface Received {
  /** Results in the answer, usable or not. */
  readonly results: number;
  /** Made of them. */
  readonly hits: readonly EngineHit[];
  /** Results that can be reached in all, where the answer or the API's rules say so. */
  readonly reachable?: number | undefined;
}

/**
 * The offset to go on with; undefined when enough is collected, the page was short, or nothing in it was usable (a
 * service that went bad would be asked on and on).
 */
export function nextOffset(context: ParseContext, maxCount: number, received: Received): number | undefined {
  const { offset, count } = span(context.query, context.state, maxCount);
  const exhausted = received.results < count || received.hits.length === 0;
  if (exhausted || !wantsMore(context, received.hits)) return undefined;
  return offset + count < (received.reachable ?? Infinity) ? offset + count : undefined;
}
