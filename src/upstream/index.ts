// The door of the upstream room.
export type { Approval } from './approval.ts';
export type { AttemptTimeouts } from './attempt.ts';
export type { Downstream } from './downstream.ts';
export { Failover, type FailoverDeps } from './failover.ts';
export { requestHeaders } from './headers.ts';
export type { Job, Progress } from './job.ts';
export type { RelaySettings } from './relay.ts';
export { RetryBudget } from './retry-budget.ts';
