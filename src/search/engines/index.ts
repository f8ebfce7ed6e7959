// The door to the engines that come with the gateway.

export { createEngine, ENGINE_KINDS } from './kinds.ts';
export type { EngineKind, EngineSurroundings } from './kinds.ts';
