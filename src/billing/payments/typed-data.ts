// EIP-712 for one message type, `TransferWithAuthorization` of EIP-3009: its digest, and the address that signed a
// digest. Pure. Fixed fields are 32-byte words, strings their hashes.

import { secp256k1 } from '@noble/curves/secp256k1.js';
import { keccak_256 } from '@noble/hashes/sha3.js';
import type { Asset, Chain } from './merchant-config.ts';

/** A signed authorization to transfer tokens. Addresses and nonce are lower-case hexadecimal with 0x. */
export interface Authorization {
  readonly from: string;
  readonly to: string;
  /** Units of the token. */
  readonly value: bigint;
  /** Seconds since 1970; valid strictly between both. */
  readonly validAfter: bigint;
  readonly validBefore: bigint;
  readonly nonce: string;
}

const DOMAIN_TYPE = typeHash('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)');
const TRANSFER_TYPE = typeHash(
  'TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)',
);

const WORD_DIGITS = 64;

function keccak(bytes: Uint8Array): string {
  return Buffer.from(keccak_256(bytes)).toString('hex');
}

function typeHash(text: string): string {
  return keccak(Buffer.from(text));
}

function word(value: bigint | string): string {
  return (typeof value === 'bigint' ? value.toString(16) : value.slice(2)).padStart(WORD_DIGITS, '0');
}

function hashWords(...words: readonly string[]): string {
  return keccak(Buffer.from(words.join(''), 'hex'));
}

/** The domain of a token's signatures: 64 hexadecimal digits. */
export function domainSeparator(chain: Chain, asset: Asset): string {
  return hashWords(
    DOMAIN_TYPE,
    typeHash(asset.name),
    typeHash(asset.version),
    word(chain.chainId),
    word(asset.address),
  );
}

/** What is signed: 64 hexadecimal digits. */
export function transferDigest(domain: string, authorization: Authorization): string {
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const fields = [word(from), word(to), word(value), word(validAfter), word(validBefore), word(nonce)];
  return hashWords('1901', domain, hashWords(TRANSFER_TYPE, ...fields));
}

/** 0x, then r, s and v. */
const SIGNATURE = /^0x([0-9a-f]{64})([0-9a-f]{64})(00|01|1b|1c)$/i;

/**
 * The address whose key made a signature of 65 bytes, or undefined when no key can have. The upper half of the s values
 * is refused, as tokens do: otherwise every signature would have a second valid form.
 */
export function recoverSigner(digest: string, signature: string): string | undefined {
  const [, r = '', s = '', v = ''] = SIGNATURE.exec(signature) ?? [];
  if (v === '') return undefined;
  try {
    const recovery = Number.parseInt(v, 16) % 27;
    const parsed = new secp256k1.Signature(BigInt(`0x${r}`), BigInt(`0x${s}`), recovery);
    if (parsed.hasHighS()) return undefined;
    return addressOf(parsed.recoverPublicKey(Buffer.from(digest, 'hex')).toBytes(false));
  } catch {
    return undefined;
  }
}

/** The address of an uncompressed public key of 65 bytes. */
function addressOf(publicKey: Uint8Array): string {
  return `0x${keccak(publicKey.subarray(1)).slice(-40)}`;
}

/** An address in the mixed case of EIP-55, whose case is a checksum. */
export function checksummed(address: string): string {
  const digits = address.slice(2).toLowerCase();
  const hash = typeHash(digits);
  return `0x${digits.replace(/[a-f]/g, (digit, at: number) => ((hash[at] as string) >= '8' ? digit.toUpperCase() : digit))}`;
}
