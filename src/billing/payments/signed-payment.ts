// Decodes the header `X-PAYMENT` or `PAYMENT-SIGNATURE`: base64 or raw JSON, x402 version 1, version 2, or the mix of both
// that some clients send. Decoding checks the form only; `checks.ts` checks whether the payment is valid.

import type { Authorization } from './typed-data.ts';
import { parseJson } from '../../config/json-text.ts';

/** A payment of scheme `exact` as the client signed it. */
export interface SignedPayment {
  /** 2 when the client repeats the requirement it accepted; else 1, whatever number it wrote. */
  readonly version: 1 | 2;
  readonly scheme: string;
  /** As written: a version 1 name or CAIP-2. */
  readonly network: string;
  readonly authorization: Authorization;
  /** Hexadecimal with 0x; longer than 65 bytes when a contract wallet signed. */
  readonly signature: string;
  /** The requirement that a client of version 2 accepted. */
  readonly accepted: AcceptedTerms | null;
}

export interface AcceptedTerms {
  readonly asset: string;
  readonly payTo: string;
  readonly amount: string;
}

/** Of the header, in characters. Signatures of contract wallets are the longest part: some kilobytes. */
export const MAX_PAYMENT_LENGTH: number = 16_384;

const MAX_NAME_LENGTH = 64;

/** In characters, of the signature of a key: 65 bytes. */
const PLAIN_SIGNATURE_LENGTH = 2 + 65 * 2;

const ADDRESS = /^0x[0-9a-f]{40}$/i;
const NONCE = /^0x[0-9a-f]{64}$/i;
const SIGNATURE = /^0x(?:[0-9a-f]{2}){65,}$/i;
/** At most 78 digits, as many as 2^256 has; leading zeros would give one number many spellings. */
const UINT = /^(?:0|[1-9]\d{0,77})$/;
const UINT_LIMIT = 1n << 256n;
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** The header has the wrong form. The message is for the client and repeats nothing of the header. */
export class PaymentFormatError extends Error {
  override readonly name = 'PaymentFormatError';
}

/** Whether a contract wallet made a signature: only the chain can check it. */
export function isContractSignature(signature: string): boolean {
  return signature.length > PLAIN_SIGNATURE_LENGTH;
}

/** Reads the value of either header. Throws `PaymentFormatError`. */
export function decodePayment(header: string): SignedPayment {
  if (header.length > MAX_PAYMENT_LENGTH) refuse(`longer than ${MAX_PAYMENT_LENGTH} characters`);
  const payment = record(parse(header.trim()), 'the payment');
  const version = payment['x402Version'];
  if (version !== 1 && version !== 2) refuse('x402Version is neither 1 nor 2');
  const terms = version === 2 && payment['accepted'] !== undefined ? record(payment['accepted'], 'accepted') : null;
  const payload = record(payment['payload'], 'payload');
  return {
    version: terms === null ? 1 : 2,
    scheme: name(terms ?? payment, 'scheme'),
    network: name(terms ?? payment, 'network'),
    authorization: authorizationOf(record(payload['authorization'], 'payload.authorization')),
    signature: matching(payload, 'signature', SIGNATURE).toLowerCase(),
    accepted:
      terms === null
        ? null
        : {
            asset: matching(terms, 'asset', ADDRESS).toLowerCase(),
            payTo: matching(terms, 'payTo', ADDRESS).toLowerCase(),
            amount: matching(terms, 'amount', UINT),
          },
  };
}

function refuse(message: string): never {
  throw new PaymentFormatError(message);
}

function parse(text: string): unknown {
  const raw = text.startsWith('{');
  if (!raw && !BASE64.test(text)) refuse('neither base64 nor a JSON object');
  try {
    return parseJson(raw ? text : Buffer.from(text, 'base64').toString());
  } catch {
    return refuse('not JSON');
  }
}

type Fields = Readonly<Record<string, unknown>>;

function record(value: unknown, what: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) refuse(`${what} is not an object`);
  return value as Fields;
}

function name(fields: Fields, field: string): string {
  const value = fields[field];
  if (typeof value !== 'string' || value === '' || value.length > MAX_NAME_LENGTH) refuse(`${field} is not a name`);
  return value;
}

function matching(fields: Fields, field: string, pattern: RegExp): string {
  const value = fields[field];
  if (typeof value !== 'string' || !pattern.test(value)) refuse(`${field} has the wrong form`);
  return value;
}

function uint(fields: Fields, field: string): bigint {
  const value = BigInt(matching(fields, field, UINT));
  if (value >= UINT_LIMIT) refuse(`${field} has the wrong form`);
  return value;
}

function authorizationOf(fields: Fields): Authorization {
  return {
    from: matching(fields, 'from', ADDRESS).toLowerCase(),
    to: matching(fields, 'to', ADDRESS).toLowerCase(),
    value: uint(fields, 'value'),
    validAfter: uint(fields, 'validAfter'),
    validBefore: uint(fields, 'validBefore'),
    nonce: matching(fields, 'nonce', NONCE).toLowerCase(),
  };
}
