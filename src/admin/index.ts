// Public surface of the admin API: routes, the overview document, the account service.
export { AccountRoutes } from './account-routes.ts';
export { AdminClientError, createAdminClient } from './admin-client.ts';
export { type Fields, MOST_ROWS } from './admin-requests.ts';
export { type AdminService, createAdminService, MovementUnknown } from './admin-service.ts';
export { ADMIN_ROLES, AdminTokens, hashToken } from './admin-tokens.ts';
export { type Admin, type AdminRoutes, openAdmin } from './admin.ts';
export { type ExplainAnswer, type ExplainRequest, ExplainRoutes } from './explain-routes.ts';
export { type List, LISTS, nextCursor } from './lists.ts';
export { recordedService } from './recorded-service.ts';
export { cachesOf, type CrnStatus, Gauges, type ProbeStatus, statusOf } from './gauges.ts';
export { type CrnGauges, History, type HistoryDocument, type HistorySample, type RecentFigures } from './history.ts';
export { historyRoutes } from './history-routes.ts';
export { HostRoutes } from './host-routes.ts';
export { configurationRoutes } from './configuration-routes.ts';
export { type Gathered, type LivePart, type LiveRequest, RequestRoutes } from './request-routes.ts';
export { OverviewRoutes, type ReloadAnswer } from './overview-routes.ts';
export { PlaygroundRoutes } from './playground-routes.ts';
export type {
  ClusterOverview,
  CrnOverview,
  EngineOverview,
  KeptReport,
  KvEventOverview,
  Overview,
  OverviewParts,
  PlaneReport,
} from './overview.ts';
export { durationText, numberText, type Rates, ratesBetween, timeText } from './rates.ts';
export {
  ACCOUNT_COLUMNS,
  ACCOUNT_TERMS_COLUMNS,
  RESPONSES_COLUMNS,
  AUDIT_COLUMNS,
  BUDGET_COLUMNS,
  type Column,
  GRANT_COLUMNS,
  KEY_COLUMNS,
  PAYMENT_COLUMNS,
  printCsv,
  printJsonLines,
  printTable,
  textColumn,
  visible,
} from './table-format.ts';
export { trustMistakes } from './trust-settings.ts';
export type { GrantView, NewKeyView, RotationView } from './views.ts';
