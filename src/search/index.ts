// Public names of the search module: engines, the coordinator that asks several at once, and the merged response. Re-exports only.
export { checkedRequest } from './checked-answers.ts';
export { checkModules, type Configured, configureEngines, foldersOf, isPlugIn } from './configure.ts';
export { Coordinator } from './coordinator.ts';
export {
  type Engine,
  EngineError,
  type EngineFailure,
  type EngineFilters,
  type EngineHit,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type FilterName,
  type FilterSupport,
  type HttpEngine,
  type InProcessEngine,
  isLasting,
  type ParseContext,
  type RateLimit,
  SEARCH_TYPES,
  type SearchType,
} from './engine.ts';
export { createEngineMemory, EngineBoard, EngineCells, type EngineStanding } from './engine-board.ts';
export { claimTrial, type TrialCommand } from './engine-trials.ts';
export { CONNECTIONS, EngineClient, type EngineReport, type EngineSpec, type Transport } from './engine-client.ts';
export { isBeyondReading } from './msgpack-containers.ts';
export { type DateRange, FILTER_NAMES, SAFE_SEARCH, type SearchFilters, TIME_RANGES } from './filters.ts';
export { createEngine } from './engines/kinds.ts';
export { type IndexesCommand, IndexClient, IndexService } from './engines/local/index-service.ts';
export { IndexThread } from './engines/local/index-thread.ts';
export { type EngineModule, type EngineOption, type EngineTools, moduleOf } from './engines/module.ts';
export type { SearchAnswer, SearchMeta, SearchQuery, SearchResult } from './query.ts';
export { type SearchExplanation, SearchTrace } from './search-trace.ts';
export {
  type AnsweredSearch,
  mostUnits,
  type SearchCaller,
  type SearchProgress,
  SearchService,
  type SearchWatcher,
} from './search-service.ts';
export { ACCOUNT_HEADER, SCOPE_HEADER } from './engines/worker.ts';
