// Public surface of billing for all threads: keys and their limits, prices, credit leases, payments. The ledger is in main-thread.ts.
export type {
  AccountAnswer,
  AccountCaller,
  AccountQuestion,
  AccountReaderCommand,
  RequestDocument,
} from './account-reader.ts';
export type { BillingUpdate, ConfiguredKey } from './billing-service.ts';
export { DAY_MS, dayOf, startOfDay } from './days.ts';
export {
  type Budget,
  BUDGET_PERIODS,
  type BudgetChange,
  type BudgetEvent,
  type BudgetPeriod,
  periodOf,
  startOf,
} from './limits/budgets.ts';
export {
  type Exceeded,
  type KeyAllowance,
  KeyLimiter,
  type LimitReservation,
  type NeedsSlice,
  type RequestBound,
} from './limits/key-limiter.ts';
export type { LimitMemory, SliceUse } from './limits/limit-table.ts';
export { addRateLimitHeaders, refusalHeaders, retryHeaders } from './limits/rate-limit-headers.ts';
export { SliceClient } from './limits/slice-client.ts';
export type { SliceCommand, SliceNotice } from './limits/slice-manager.ts';
export type { SliceClaim, SliceGrant, SliceStore } from './limits/slice-store.ts';
export type { KeySnapshot, SigningKey, SnapshotKey, TrustedKey } from './key-snapshot.ts';
export { type Credential, type GoodCredential, hashKey, type KeyRecord, KeyTable, presentedKey } from './keys.ts';
export { LeaseCache, type LeaseCacheSettings, type Reserved, type Spending } from './lease-cache.ts';
export type { LeaseManagerCommand } from './lease-manager.ts';
export type { AdminAct, AdminActor, AdminActQuery } from './ledger/admin-acts.ts';
export type { StoreInspection } from './ledger/store-inspection.ts';
export type { RequestRecord, RequestRecordQuery } from './ledger/request-records.ts';
export type {
  ConversationLink,
  ResponseChange,
  ResponseEnd,
  ResponseEvents,
  ResponseKey,
  ResponseRecord,
  ResponseRecords,
  ResponseSize,
  ResponseState,
  ResponseStatus,
  StoredResponse,
} from './ledger/response-records.ts';
export type { WebhookDelivery, WebhookDeliveryQuery, WebhookOutcome } from './ledger/webhook-records.ts';
export type {
  Account,
  AuditReport,
  CreditGrant,
  HistoryQuery,
  KeyEdit,
  KeyLimits,
  Ledger,
  LedgerRefusal,
  Moved,
  Movement,
  NewBudget,
  NewKey,
  Payment,
  PaymentQuery,
  PaymentState,
  PageQuery,
  Pico,
  StoredBudget,
  StoredKey,
  UsageDimension,
  UsageQuery,
  UsageRow,
} from './ledger/ledger.ts';
export { accountId } from './ledger/ledger.ts';
export { parseUsd, printCredits, printUsd } from './money.ts';
export { type FinishedRecord, type CostLogCommand, CostLogClient } from './cost-log.ts';
export type { Offer } from './payments/offer.ts';
export { PaymentClient, type Payments } from './payments/payment-client.ts';
export type {
  BeginAnswer,
  CallRequest,
  Offered,
  PaymentCommand,
  Refused,
  SettleAnswer,
} from './payments/payment-commands.ts';
export {
  costOf,
  exactUsdText,
  type ModelPrice,
  modelPriceOf,
  picoLimit,
  picoPerCall,
  type Tokens,
  usdText,
} from './prices.ts';
