// Public names of the dialect module. Re-exports only.
export { type AnswerFailure, AnswerJudge, type AnswerState, choicesOf } from './answer.ts';
export { type Dialect, type DialectName, type Failure, sseEvent, type Usage } from './dialect.ts';
export { dialectOf, errorEvent, upstreamPath } from './dialects.ts';
export { type Scan, scanBody, type ScannedBody } from './json-scan.ts';
export { prefixHash } from './prefix.ts';
export { previousResponseId, responseIdOf } from './response-id.ts';
export { askingForUsage, estimateTokens, type Metered, type TokenEstimate, UsageWatch } from './usage.ts';
