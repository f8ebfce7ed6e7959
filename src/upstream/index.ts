// Public surface of upstream: failover over the CRNs of a model.
export type { Attempt, AttemptTimeouts } from './attempt.ts';
export {
  type Approval,
  Failover,
  type FailoverDeps,
  unreadError,
  type UpstreamListener,
  type UpstreamRequest,
} from './failover.ts';
export {
  credentialLines,
  endToEndHeaders,
  KeptLines,
  linesFor,
  type RequestHeaderRules,
  requestLines,
  type RequestLines,
  viaName,
} from './headers.ts';
export { networkOf, Peers } from './peers.ts';
export type { ContinuationKind } from './continuation.ts';
export { type HedgeOutcome, Hedging } from './hedging.ts';
export { pathFault } from './path-fault.ts';
export { DownstreamTap } from './downstream-tap.ts';
export { type Downstream, type DownstreamListener, KEEP_ALIVE, type RelaySettings } from './relay.ts';
export { type RequestForm, translatedForm } from './request-form.ts';
export { type TokenCount, TokenCounter, type TokenCountRequest } from './token-counter.ts';
export { RunningAttempts } from './running-attempts.ts';
