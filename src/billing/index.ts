// Public surface of billing: keys and their limits, prices, credit leases, the ledger, payments.
export {
  type AccountAnswer,
  type AccountCaller,
  type AccountQuestion,
  type AccountReaderCommand,
  type RequestDocument,
  requestDocument,
} from './account-reader.ts';
export { BillingService, type BillingUpdate, type ConfiguredKey } from './billing-service.ts';
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
export { spentOf } from './limits/budget-spending.ts';
export {
  type Exceeded,
  type KeyAllowance,
  KeyLimiter,
  type LimitReservation,
  type NeedsSlice,
} from './limits/key-limiter.ts';
export type { LimitMemory, SliceUse } from './limits/limit-table.ts';
export { addRateLimitHeaders, refusalHeaders, retryHeaders } from './limits/rate-limit-headers.ts';
export { SliceClient } from './limits/slice-client.ts';
export {
  SLICE_LEASE_MS,
  type SliceClaim,
  type SliceCommand,
  type SliceGrant,
  SliceManager,
  type SliceNotice,
  type SliceStore,
} from './limits/slice-manager.ts';
export {
  createSigningKey,
  type KeySnapshot,
  MAX_SKEW_MS,
  MAX_SNAPSHOT_BYTES,
  nextVersion,
  printSigningKey,
  readSigningKey,
  readTrustedKey,
  readTrustedKeys,
  type SigningKey,
  signSnapshot,
  SNAPSHOT_TYPE,
  SnapshotError,
  type SnapshotKey,
  type TrustedKey,
  verifySnapshot,
} from './key-snapshot.ts';
export { type Credential, type GoodCredential, hashKey, type KeyRecord, KeyTable, presentedKey } from './keys.ts';
export { LeaseCache, type Reserved, type Spending } from './lease-cache.ts';
export type { LeaseManagerCommand } from './lease-manager.ts';
export type { AdminAct, AdminActor, AdminActQuery } from './ledger/admin-acts.ts';
export { openLedger } from './ledger/ledger.ts';
export { inspectStore, type StoreInspection } from './ledger/store-inspection.ts';
export { isPosition } from './ledger/reports.ts';
export type { RequestRecord, RequestRecordQuery } from './ledger/request-records.ts';
export type {
  ResponseChange,
  ResponseEnd,
  ResponseEvents,
  ResponseKey,
  ResponseRecord,
  ResponseRecords,
  ResponseStatus,
  StoredResponse,
} from './ledger/response-records.ts';
export type { WebhookDelivery, WebhookDeliveryQuery } from './ledger/webhook-records.ts';
export {
  type Account,
  type AuditReport,
  type CreditGrant,
  type HistoryQuery,
  type KeyEdit,
  type KeyLimits,
  type Ledger,
  LedgerError,
  type LedgerRefusal,
  MAX_AMOUNT,
  type Movement,
  type NewBudget,
  type NewKey,
  type Payment,
  type PaymentQuery,
  type PaymentState,
  type PageQuery,
  type Pico,
  type StoredBudget,
  type StoredKey,
  type UsageDimension,
  type UsageQuery,
  type UsageRow,
} from './ledger/store.ts';
export { parseUsd, printCredits, printUsd } from './money.ts';
export { type FinishedRecord, type RequestLogCommand, RequestRecorder } from './request-recorder.ts';
export type { Offer } from './payments/offer.ts';
export { answerOf, decidePayment, isServed, PURCHASE, submissionOf } from './payments/settlement.ts';
export { PaymentClient, type Payments } from './payments/payment-client.ts';
export type { BeginAnswer, CallRequest, PaymentCommand, SettleAnswer } from './payments/payment-processor.ts';
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
