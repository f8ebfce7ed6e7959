// Names of billing for main threads: the ledger, its actors, signed copies of keys. Ingress threads load none of it.
export { requestDocument } from './account-reader.ts';
export { BillingService } from './billing-service.ts';
export { spentOf } from './limits/budget-spending.ts';
export { SliceManager } from './limits/slice-manager.ts';
export { SLICE_LEASE_MS } from './limits/slice-store.ts';
export {
  createSigningKey,
  MAX_SKEW_MS,
  MAX_SNAPSHOT_BYTES,
  nextVersion,
  printSigningKey,
  readSigningKey,
  readTrustedKey,
  readTrustedKeys,
  signSnapshot,
  SNAPSHOT_TYPE,
  SnapshotError,
  verifySnapshot,
} from './key-snapshot.ts';
export { openLedger } from './ledger/open-ledger.ts';
export { inspectStore } from './ledger/store-inspection.ts';
export { isPosition } from './ledger/reports.ts';
export { LedgerError, MAX_AMOUNT } from './ledger/ledger.ts';
export { OPEN_PAYMENT } from './ledger/webhook-records.ts';
export { answerOf, decidePayment, isServed, PURCHASE, submissionOf } from './payments/settlement.ts';
