// Encodes x402 messages of the gateway: the payment requirement, the 402 offer (version 1 in the body, version 2 in a header),
// the body of a facilitator call, and receipts. One 402 serves clients of both versions. Pure.

import { checksummed } from './typed-data.ts';
import type { MerchantConfig } from './merchant-config.ts';
import type { SignedPayment } from './signed-payment.ts';

/** Price and description of what is paid for. */
export interface Terms {
  /** Price in units of the token. */
  readonly units: bigint;
  /** URL of the request. */
  readonly resource: string;
  /** One sentence, shown by wallets. */
  readonly description: string;
  /** Validity asked of signatures, in seconds. It must outlast the work before settlement. */
  readonly timeoutS: number;
}

/** A requirement of x402 version 1. */
export interface Requirement {
  readonly scheme: 'exact';
  readonly network: string;
  readonly maxAmountRequired: string;
  readonly resource: string;
  readonly description: string;
  readonly mimeType: string;
  readonly payTo: string;
  readonly asset: string;
  readonly maxTimeoutSeconds: number;
  readonly extra: { readonly name: string; readonly version: string };
}

/** The answer 402: `document` for the body, beside `detail`; `headers` is a flat list. */
export interface Offer {
  /** Why the payment was not accepted: `payment_required` when none was sent. */
  readonly reason: string;
  readonly document: {
    readonly x402Version: 1;
    readonly error: string;
    readonly accepts: readonly Requirement[];
  };
  readonly headers: readonly string[];
}

/** Receipt of a settled payment, sent in both receipt headers. */
export interface Receipt {
  readonly success: true;
  readonly transaction: string;
  readonly network: string;
  readonly payer: string;
}

const MIME_TYPE = 'application/json';
const NOTHING_SENT = 'X-PAYMENT header is required';

function requirementV1({ asset, chain, payTo }: MerchantConfig, terms: Terms): Requirement {
  return {
    scheme: 'exact',
    network: chain.name,
    maxAmountRequired: terms.units.toString(),
    resource: terms.resource,
    description: terms.description,
    mimeType: MIME_TYPE,
    payTo: checksummed(payTo),
    asset: checksummed(asset.address),
    maxTimeoutSeconds: terms.timeoutS,
    extra: { name: asset.name, version: asset.version },
  };
}

function requirementV2(merchant: MerchantConfig, terms: Terms): object {
  const { asset, extra, maxTimeoutSeconds, payTo } = requirementV1(merchant, terms);
  const amount = terms.units.toString();
  return { scheme: 'exact', network: merchant.chain.network, amount, asset, payTo, maxTimeoutSeconds, extra };
}

function resourceV2({ description, resource }: Terms): object {
  return { url: resource, description, mimeType: MIME_TYPE };
}

function encode(document: object): string {
  return Buffer.from(JSON.stringify(document)).toString('base64');
}

/** The offer of these terms. No reason: no payment was sent. */
export function makeOffer(
  merchant: MerchantConfig,
  terms: Terms,
  reason?: string,
  more: readonly string[] = [],
): Offer {
  const error = reason ?? NOTHING_SENT;
  const v2 = { x402Version: 2, error, resource: resourceV2(terms), accepts: [requirementV2(merchant, terms)] };
  return {
    reason: reason ?? 'payment_required',
    document: { x402Version: 1, error, accepts: [requirementV1(merchant, terms)] },
    headers: ['payment-required', encode(v2), ...more],
  };
}

/** The body of `/verify` and `/settle`: built from checked fields, so that nothing unchecked is sent on. */
export function facilitatorBody(payment: SignedPayment, merchant: MerchantConfig, terms: Terms): string {
  const { authorization, signature, version } = payment;
  const payload = {
    signature,
    authorization: {
      from: authorization.from,
      to: authorization.to,
      value: authorization.value.toString(),
      validAfter: authorization.validAfter.toString(),
      validBefore: authorization.validBefore.toString(),
      nonce: authorization.nonce,
    },
  };
  if (version === 1) {
    const paymentPayload = { x402Version: 1, scheme: 'exact', network: merchant.chain.name, payload };
    return JSON.stringify({ x402Version: 1, paymentPayload, paymentRequirements: requirementV1(merchant, terms) });
  }
  const accepted = requirementV2(merchant, terms);
  const paymentPayload = { x402Version: 2, resource: resourceV2(terms), accepted, payload };
  return JSON.stringify({ x402Version: 2, paymentPayload, paymentRequirements: accepted });
}

/** Both receipt headers, as a flat list; each names the network as its version does. */
export function receiptHeaders(receipt: Receipt, { chain }: MerchantConfig): string[] {
  const v1 = encode({ ...receipt, network: chain.name });
  return ['x-payment-response', v1, 'payment-response', encode(receipt)];
}
