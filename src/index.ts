// Public API of the package `headrace`: the gateway, the model host, types of search engines and pages, and the error table.
// Re-exports only.
import './node-version.ts';
export type { Settings, SettingsInput } from './config/settings.ts';
export type { Mistake } from './config/load.ts';
export {
  type ErrorCode,
  type ErrorEntry,
  ERRORS,
  type ErrorSource,
  HeadraceError,
  type ValidationEntry,
} from './errors.ts';
export type { CrnStatus, ProbeStatus } from './admin/index.ts';
export {
  ConfigError,
  createGateway,
  type FetchPageOptions,
  type Gateway,
  type GatewayOptions,
  type Listening,
  type Reloaded,
  type SearchInput,
} from './gateway/gateway.ts';
export {
  type Engine,
  EngineError,
  type EngineFailure,
  type EngineFilters,
  type EngineHit,
  type EngineModule,
  type EngineOption,
  type EnginePage,
  type EngineQuery,
  type EngineRequest,
  type EngineResponse,
  type EngineTools,
  type DateRange,
  type FilterName,
  type FilterSupport,
  type HttpEngine,
  type InProcessEngine,
  type ParseContext,
  type RateLimit,
  type SearchAnswer,
  type SearchFilters,
  type SearchMeta,
  type SearchResult,
  type SearchType,
} from './search/index.ts';
export type { PageFailure, PageResult } from './api/fetch.ts';
export type { PageAnswer, PageExtra, PageFormat, PageImage, PageLink, PageMetadata } from './fetch/index.ts';
export type { InjectRequest, InjectResponse } from './ingress/inject.ts';
export { createHost, type Host, type HostSettings } from './host/index.ts';
