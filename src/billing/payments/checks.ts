// Checks of a signed payment that need no access to the chain, in the order of the x402 specification for `exact` on EVM
// chains. Two steps, because a repeat of a settled payment passes the first and not the second. Pure.

import { MAX_AMOUNT } from '../ledger/ledger.ts';
import { picoOf, type MerchantConfig } from './merchant-config.ts';
import { isContractSignature, type SignedPayment } from './signed-payment.ts';
import { domainSeparator, recoverSigner, transferDigest } from './typed-data.ts';

/** Stable reason why a payment is not accepted; from the x402 specification where it has one. */
export type PaymentReason =
  | 'unsupported_scheme'
  | 'invalid_network'
  | 'invalid_payment_requirements'
  | 'invalid_exact_evm_payload_signature'
  | 'invalid_exact_evm_payload_recipient_mismatch'
  | 'invalid_exact_evm_payload_authorization_valid_before'
  | 'invalid_exact_evm_payload_authorization_valid_after'
  | 'invalid_exact_evm_payload_authorization_value'
  | 'invalid_exact_evm_payload_authorization_value_mismatch'
  | 'insufficient_funds'
  | 'duplicate_settlement'
  | 'payment_refused';

/** Seconds that a signature must stay valid, as facilitators require: it has to be mined. */
const SETTLE_TIME_S = 6;

/** What is wrong with a payment regardless of price and time. */
export function checkOrigin(payment: SignedPayment, merchant: MerchantConfig): PaymentReason | undefined {
  const { accepted, authorization, network, scheme } = payment;
  if (scheme !== 'exact') return 'unsupported_scheme';
  if (network !== merchant.chain.network && network !== merchant.chain.name) return 'invalid_network';
  if (accepted !== null && (accepted.asset !== merchant.asset.address || accepted.payTo !== merchant.payTo)) {
    return 'invalid_payment_requirements';
  }
  if (!isSigned(payment, merchant)) return 'invalid_exact_evm_payload_signature';
  return authorization.to === merchant.payTo ? undefined : 'invalid_exact_evm_payload_recipient_mismatch';
}

/** Why a payment does not buy what costs `units` now. `dateMs`: milliseconds since 1970. */
export function checkTerms(
  payment: SignedPayment,
  merchant: MerchantConfig,
  units: bigint,
  dateMs: number,
): PaymentReason | undefined {
  const { validAfter, validBefore } = payment.authorization;
  const nowS = BigInt(Math.floor(dateMs / 1000));
  if (validBefore < nowS + BigInt(SETTLE_TIME_S)) return 'invalid_exact_evm_payload_authorization_valid_before';
  if (validAfter > nowS) return 'invalid_exact_evm_payload_authorization_valid_after';
  return checkValue(payment, merchant, units);
}

/** Version 1 accepts more than the price, version 2 the exact amount. */
function checkValue(
  { accepted, authorization }: SignedPayment,
  merchant: MerchantConfig,
  units: bigint,
): PaymentReason | undefined {
  const { value } = authorization;
  if (accepted !== null && (value !== units || accepted.amount !== units.toString())) {
    return 'invalid_exact_evm_payload_authorization_value_mismatch';
  }
  const fits = value >= units && picoOf(value, merchant.asset) <= MAX_AMOUNT;
  return fits ? undefined : 'invalid_exact_evm_payload_authorization_value';
}

function isSigned({ authorization, signature }: SignedPayment, { asset, chain }: MerchantConfig): boolean {
  if (isContractSignature(signature)) return true;
  return recoverSigner(transferDigest(domainSeparator(chain, asset), authorization), signature) === authorization.from;
}
