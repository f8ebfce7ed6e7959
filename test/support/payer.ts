// A client that pays, for tests: a private key that signs EIP-3009 authorizations, and the x402 headers made of them. Its EIP-712
// encoding is written independently of the gateway's, so that each checks the other.

import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';

export interface Token {
  readonly chainId: bigint;
  readonly address: string;
  readonly name: string;
  readonly version: string;
}

export const SEPOLIA_USDC: Token = {
  chainId: 84532n,
  address: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
  name: 'USDC',
  version: '2',
};

export interface Authorization {
  readonly from: string;
  readonly to: string;
  readonly value: string;
  readonly validAfter: string;
  readonly validBefore: string;
  readonly nonce: string;
}

type Field = readonly [type: string, name: string];

const DOMAIN: readonly Field[] = [
  ['string', 'name'],
  ['string', 'version'],
  ['uint256', 'chainId'],
  ['address', 'verifyingContract'],
];

const TRANSFER: readonly Field[] = [
  ['address', 'from'],
  ['address', 'to'],
  ['uint256', 'value'],
  ['uint256', 'validAfter'],
  ['uint256', 'validBefore'],
  ['bytes32', 'nonce'],
];

function hash(...parts: readonly Uint8Array[]): Buffer {
  return Buffer.from(keccak_256(Buffer.concat(parts)));
}

function encoded(type: string, value: string): Buffer {
  if (type === 'string') return hash(Buffer.from(value));
  const word = Buffer.alloc(32);
  const digits = BigInt(value).toString(16);
  Buffer.from(digits.padStart(64, '0'), 'hex').copy(word);
  return word;
}

function hashStruct(name: string, fields: readonly Field[], values: Readonly<Record<string, string>>): Buffer {
  const type = `${name}(${fields.map(([kind, field]) => `${kind} ${field}`).join(',')})`;
  return hash(hash(Buffer.from(type)), ...fields.map(([kind, field]) => encoded(kind, values[field] ?? '')));
}

function digestOf(token: Token, authorization: Authorization): Buffer {
  const { address, chainId, name, version } = token;
  const domain = hashStruct('EIP712Domain', DOMAIN, {
    name,
    version,
    chainId: chainId.toString(),
    verifyingContract: address,
  });
  const message = hashStruct('TransferWithAuthorization', TRANSFER, { ...authorization });
  return hash(Buffer.from([0x19, 0x01]), domain, message);
}

function addressOf(publicKey: Uint8Array): string {
  return `0x${hash(publicKey.subarray(1)).toString('hex').slice(-40)}`;
}

/** Address of the signer, or undefined. */
export function signerOf(token: Token, authorization: Authorization, signature: string): string | undefined {
  try {
    const bytes = Buffer.from(signature.slice(2), 'hex');
    if (bytes.length !== 65) return undefined;
    const parsed = secp256k1.Signature.fromBytes(bytes.subarray(0, 64), 'compact').addRecoveryBit(
      (bytes[64] as number) - 27,
    );
    return addressOf(parsed.recoverPublicKey(digestOf(token, authorization)).toBytes(false));
  } catch {
    return undefined;
  }
}

export class Payer {
  readonly address: string;
  readonly #key: Uint8Array;

  /** `seed`: any number above 0; the same one is the same payer. */
  constructor(seed: bigint) {
    this.#key = Buffer.from(seed.toString(16).padStart(64, '0'), 'hex');
    this.address = addressOf(secp256k1.getPublicKey(this.#key, false));
  }

  sign(token: Token, authorization: Authorization): string {
    const bytes = secp256k1.sign(digestOf(token, authorization), this.#key, { prehash: false, format: 'recovered' });
    return `0x${Buffer.from(bytes.subarray(1)).toString('hex')}${((bytes[0] as number) + 27).toString(16)}`;
  }
}

/** What a client reads from an offer of version 1. */
export interface Wanted {
  readonly maxAmountRequired: string;
  readonly payTo: string;
  readonly network: string;
}

export interface Wish {
  readonly nonce: number;
  readonly nowS: number;
  readonly validS?: number;
  /** Changes the authorization before it is signed. */
  readonly authorization?: Partial<Authorization>;
}

export function signedPayload(
  payer: Payer,
  wanted: Wanted,
  wish: Wish,
): { authorization: Authorization; signature: string } {
  const authorization = {
    from: payer.address,
    to: wanted.payTo,
    value: wanted.maxAmountRequired,
    validAfter: `${wish.nowS - 600}`,
    validBefore: `${wish.nowS + (wish.validS ?? 300)}`,
    nonce: `0x${wish.nonce.toString(16).padStart(64, '0')}`,
    ...wish.authorization,
  };
  return { authorization, signature: payer.sign(SEPOLIA_USDC, authorization) };
}

export function encodeHeader(document: object): string {
  return Buffer.from(JSON.stringify(document)).toString('base64');
}

/** The header of version 1. */
export function headerV1(payer: Payer, wanted: Wanted, wish: Wish): string {
  const payload = signedPayload(payer, wanted, wish);
  return encodeHeader({ x402Version: 1, scheme: 'exact', network: wanted.network, payload });
}
