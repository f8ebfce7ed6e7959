// The door of the search room.
export { type Configured, configureEngines, isPlugIn, MAX_ENGINES } from './configure.ts';
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
  type SearchType,
} from './engine.ts';
export { createEngineMemory } from './engine-board.ts';
export type { SearchAnswer, SearchMeta, SearchQuery, SearchResult } from './query.ts';
export { SearchRoom } from './search.ts';
