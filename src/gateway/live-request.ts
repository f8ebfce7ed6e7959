// What is shown of a request that is under way, read from its exchange when it is asked for.

import type { LiveRequest } from '../admin/index.ts';
import { dialectOf } from '../dialect/index.ts';
import type { Exchange } from '../ingress/exchange.ts';

/** `nowMs`: of the clock of the thread. `dateMs`: the same moment in milliseconds since 1970. */
export function liveRequest(exchange: Exchange, nowMs: number, dateMs: number, thread: number): LiveRequest {
  const { attempt, endpoint, failures, firstPieceMs, path, receivedMs, span } = exchange;
  const since = (ms: number): number | null => (ms > 0 ? tenths(ms - receivedMs) : null);
  return {
    requestId: exchange.requestId,
    thread,
    sinceMs: Math.round(dateMs - (nowMs - receivedMs)),
    ageMs: tenths(nowMs - receivedMs),
    phase: exchange.phase,
    method: exchange.method,
    endpoint,
    path: path === endpoint ? null : path.slice(0, MAX_PATH),
    dialect: dialectOf(endpoint)?.name ?? null,
    model: exchange.model || null,
    alias: exchange.alias || null,
    tool: exchange.tool || null,
    account: exchange.account || null,
    key: exchange.credential,
    crn: exchange.crn || null,
    attempts: exchange.attempts,
    lastFailure: failures?.at(-1)?.failure ?? null,
    heldMs: tenths(exchange.heldMs),
    sentMs: since(attempt?.sentMs ?? 0),
    begunMs: since(attempt?.begunMs ?? 0),
    firstByteMs: since(firstPieceMs),
    bytesIn: Math.max(exchange.receivedBytes, exchange.bytesIn),
    bytesOut: exchange.committed ? exchange.bytesOut : 0,
    translation: exchange.translation || null,
    predictedHit: exchange.predictedHit < 0 ? null : Math.round(exchange.predictedHit * 100) / 100,
    affinity: exchange.affinity || null,
    traceId: span?.traceId ?? null,
  };
}

const MAX_PATH = 200;

function tenths(ms: number): number {
  return Math.round(ms * 10) / 10;
}
