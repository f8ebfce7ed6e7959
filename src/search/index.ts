// The door of the search room.
export { type Configured, type ConfiguredEngine, configureEngines, isPlugIn } from './configure.ts';
export { coordinator, type CoordinatorCommand, type Report } from './coordinator.ts';
export {
  type Engine,
  EngineError,
  type EngineHit,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type HttpEngine,
  type InProcessEngine,
  type ParseContext,
  SEARCH_TYPES,
  type SearchType,
} from './engine.ts';
export { engineActor, type EngineCommand } from './engine-actor.ts';
export { createEngine } from './engines/kinds.ts';
export { createEngineMemory, EngineBoard } from './engine-board.ts';
export type { SearchAnswer, SearchMeta, SearchQuery, SearchResult } from './query.ts';
export { SearchService } from './search.ts';
export { createTransport, type Transport } from './transport.ts';
export { EngineCells } from './engine-cells.ts';
