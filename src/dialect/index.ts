// The door of the dialect room: everything other layers may use. Re-exports only.
export type { Dialect, DialectName, Failure, Usage } from './dialect.ts';
export { prefixHash } from './prefix.ts';
export { scanBody } from './scan.ts';
export type { MemberName, RejectedBody, Scan, ScannedBody, ScanOptions } from './scan.ts';
export { DIALECTS, dialectOf, endsWell, errorEvent, upstreamPath } from './table.ts';
