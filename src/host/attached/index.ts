// The door of attached engines: other servers behind a host. Re-exports only.
export type { AttachedSettings } from './attached-engine.ts';
export { AttachedEngine, attachEngine } from './attached-engine.ts';
export type { DetectedEngine, DetectedModel, EngineKind } from './detect.ts';
export { describeEngine } from './detect.ts';
