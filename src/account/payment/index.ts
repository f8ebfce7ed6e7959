// The door of payments by x402; the room's own door passes on what others need.
export { openTill, type TillSettings } from './assets.ts';
export {
  type BeginAnswer,
  type CallRequest,
  Cashier,
  type CashierSettings,
  type PaymentDesk,
  type PurchaseAnswer,
  type PurchaseRequest,
  type SettleAnswer,
} from './cashier.ts';
export { Facilitator } from './facilitator.ts';
export type { Offer } from './offer.ts';
export { type CallSize, quoteCall } from './quote.ts';
export type { Round } from './recovery.ts';
