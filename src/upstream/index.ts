// The door of the upstream room.
export type { AttemptTimeouts } from './attempt.ts';
export type { Downstream } from './downstream.ts';
export { Failover, type FailoverWorld, type Job, type Progress } from './failover.ts';
export { requestHeaders } from './headers.ts';
export type { RelaySettings } from './relay.ts';
export { RetryBudget } from './retry-budget.ts';
