// The door of models that run in this process. Re-exports only.
export type { GgufSettings } from './gguf-engine.ts';
export { describeGguf, GgufEngine, loadGguf } from './gguf-engine.ts';
export type { GgufHeader } from './header.ts';
export { readGgufHeader } from './header.ts';
