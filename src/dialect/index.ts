// The door of the dialect room: everything other layers may use. Re-exports only.
export type { Dialect, DialectName, Failure, Usage } from './dialect.ts';
export { prefixHash } from './prefix.ts';
export { scanBody } from './scan.ts';
export type { MemberName, RejectedBody, Scan, ScannedBody, ScanOptions } from './scan.ts';
export { dialectOf, endsWell, errorEvent, upstreamPath } from './dialects.ts';
export { askingForUsage, estimateTokens, type TokenEstimate } from './usage-request.ts';
export { type Metered, UsageWatch } from './usage-watch.ts';
