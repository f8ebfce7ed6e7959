// Whether a signed payment is worth asking the facilitator about: everything that can be judged without the chain, in
// the order of the x402 specification for `exact` on EVM chains. Pure; called by the cashier, which looks for an earlier use
// of the payment between the two steps.

import { MAX_AMOUNT } from '../ledger/store.ts';
import { picoOf, type Till } from './assets.ts';
import type { SignedPayment } from './signed-payment.ts';
import { domainSeparator, recoverSigner, transferDigest } from './typed-data.ts';

/** Why a payment is not taken; stable. The words of the x402 specification where it has one. */
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

/** Seconds that a signature must still be good for, as facilitators ask: a block has to take it in. */
const SETTLE_TIME_S = 6;

const PLAIN_SIGNATURE_LENGTH = 2 + 65 * 2;

/** What is wrong with a payment whatever is bought, whenever: a repeat of a settled one still passes. */
export function checkOrigin(payment: SignedPayment, till: Till): PaymentReason | undefined {
  const { accepted, authorization, network, scheme } = payment;
  if (scheme !== 'exact') return 'unsupported_scheme';
  if (network !== till.chain.network && network !== till.chain.name) return 'invalid_network';
  if (accepted !== null && (accepted.asset !== till.asset.address || accepted.payTo !== till.payTo)) {
    return 'invalid_payment_requirements';
  }
  if (!isSigned(payment, till)) return 'invalid_exact_evm_payload_signature';
  return authorization.to === till.payTo ? undefined : 'invalid_exact_evm_payload_recipient_mismatch';
}

/** Why a payment does not buy what costs `units` now. `dateMs`: milliseconds since 1970. */
export function checkTerms(
  payment: SignedPayment,
  till: Till,
  units: bigint,
  dateMs: number,
): PaymentReason | undefined {
  const { validAfter, validBefore } = payment.authorization;
  const nowS = BigInt(Math.floor(dateMs / 1000));
  if (validBefore < nowS + BigInt(SETTLE_TIME_S)) return 'invalid_exact_evm_payload_authorization_valid_before';
  if (validAfter > nowS) return 'invalid_exact_evm_payload_authorization_valid_after';
  return checkValue(payment, till, units);
}

/** Version 1 takes more than was asked for, version 2 the exact amount. */
function checkValue({ accepted, authorization }: SignedPayment, till: Till, units: bigint): PaymentReason | undefined {
  const { value } = authorization;
  if (accepted !== null && (value !== units || accepted.amount !== units.toString())) {
    return 'invalid_exact_evm_payload_authorization_value_mismatch';
  }
  const fits = value >= units && picoOf(value, till.asset) <= MAX_AMOUNT;
  return fits ? undefined : 'invalid_exact_evm_payload_authorization_value';
}

/** What a contract wallet signed can only be judged on the chain. */
function isSigned({ authorization, signature }: SignedPayment, { asset, chain }: Till): boolean {
  if (signature.length > PLAIN_SIGNATURE_LENGTH) return true;
  return recoverSigner(transferDigest(domainSeparator(chain, asset), authorization), signature) === authorization.from;
}
