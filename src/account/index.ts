// The door of the account room.
export { bank, type BankCommand, type BankSettings, type Charge } from './bank.ts';
export { createLimitMemory, type Exceeded, type KeyAllowance, KeyLimits, MAX_LIMITED_KEYS } from './key-limits.ts';
export {
  type Credential,
  type GoodCredential,
  hashKey,
  type KeyNews,
  type KeyRecord,
  KeyRing,
  presentedKey,
} from './keys.ts';
export { openLedger } from './ledger/open.ts';
export type { Ledger, StoredKey } from './ledger/store.ts';
export {
  type BeginAnswer,
  type CallRequest,
  type CallSize,
  Cashier,
  type CashierSettings,
  Facilitator,
  type Offer,
  openTill,
  type PaymentDesk,
  type PurchaseAnswer,
  type PurchaseRequest,
  quoteCall,
  type Round,
  type SettleAnswer,
  type TillSettings,
} from './payment/index.ts';
export { type Payer, Purses, type Reserved, type Spending } from './purses.ts';
export { costOf, picoPerCall, type Tariff, tariffOf, type Tokens, usdText } from './tariff.ts';
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
  type SnapshotProblem,
  type TrustedKey,
  verifySnapshot,
} from './key-snapshot.ts';
export {
  ACCOUNT_COLUMNS,
  AUDIT_COLUMNS,
  GRANT_COLUMNS,
  KEY_COLUMNS,
  MOVEMENT_COLUMNS,
  usageColumns,
} from './columns.ts';
export { LedgerError, type LedgerRefusal } from './ledger/store.ts';
export { createOffice, type Office, type OfficeWorld } from './office.ts';
export type { Fields } from './orders.ts';
export { type Column, printCsv, printTable } from './sheet.ts';
export type {
  AccountStatement,
  AuditStatement,
  KeyStatement,
  MovementStatement,
  NewKeyStatement,
  RotationStatement,
  UsageStatement,
} from './statements.ts';
