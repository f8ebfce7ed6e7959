// A signed snapshot of key hashes: how a gateway tells model hosts which keys are good, so that the same key works on
// both (docs/interface.md, section 2). The gateway signs, the host verifies; neither ever sends a key. Nothing of a
// snapshot is read before its signature holds, and a snapshot is good once: a host takes only a higher version.
//
// On the wire: `headrace-keys-1 ISSUER SIGNATURE LF JSON`; the signature (base64url, RFC 8032 Ed25519) covers
// `headrace-keys-1 ISSUER LF JSON`, so that a signature for something else never passes for one of these.

import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto';
import { type KeyObject, sign, verify } from 'node:crypto';
import type { KeyRecord } from './keys.ts';
import { parseJson } from '../config/json-text.ts';

/** A key in a snapshot. */
export interface SnapshotKey extends KeyRecord {
  /** The key is bad from this moment on, in milliseconds since 1970. Default: it does not expire. */
  readonly expiresMs?: number;
}

/** Content of a verified snapshot. */
export interface KeySnapshot {
  /** Grows with every snapshot of an issuer, also over its restarts: see `nextVersion`. */
  readonly version: number;
  /** When it was signed, in milliseconds since 1970. */
  readonly issuedAtMs: number;
  /** Id of the signing key. */
  readonly issuer: string;
  /** Every good key; a key that is not in here is bad. */
  readonly keys: readonly SnapshotKey[];
}

/** The secret half, held by gateways. */
export interface SigningKey {
  /** First 16 hex digits of the SHA-256 of the public key. */
  readonly id: string;
  /** What hosts are given: the 32 bytes in base64. */
  readonly publicKey: string;
  readonly privateKey: KeyObject;
}

/** The public half, held by hosts. */
export interface TrustedKey {
  readonly id: string;
  readonly publicKey: KeyObject;
}

/**
 * Why a snapshot is refused.
 * - `oversize`: longer than a snapshot may be
 * - `malformed`: not a snapshot, or a signed one that breaks the format
 * - `untrusted`: signed by a key that is not among the trusted ones
 * - `forged`: the signature does not hold
 * - `replayed`: not newer than the one held
 * - `stale`, `early`: signed too long ago, or in the future
 */
export type SnapshotProblem = 'oversize' | 'malformed' | 'untrusted' | 'forged' | 'replayed' | 'stale' | 'early';

/** A snapshot that is refused; the message is a sentence without anything the snapshot holds. */
export class SnapshotError extends Error {
  override readonly name = 'SnapshotError';
  readonly problem: SnapshotProblem;

  constructor(problem: SnapshotProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/** Largest snapshot: more than 100,000 keys with names of usual length. */
export const MAX_SNAPSHOT_BYTES: number = 16 * 1024 * 1024;

/** Media type of a snapshot. */
export const SNAPSHOT_TYPE = 'application/vnd.headrace.keys';

/** How far the clocks of a gateway and a host may be apart. */
export const MAX_SKEW_MS: number = 60_000;

/** How old a snapshot may be on arrival: far above any delay, far below what a recording is worth. */
const MAX_AGE_MS = 300_000;

const MAX_KEYS = 200_000;

const FORMAT = 'headrace-keys-1';
const HEAD = /^headrace-keys-1 ([0-9a-f]{16}) ([A-Za-z0-9_-]{86})$/;
const HEAD_BYTES = FORMAT.length + 1 + 16 + 1 + 86;
const LINE_FEED = 10;

/** Fixed beginnings of an Ed25519 key in DER (RFC 8410), before its 32 bytes. */
const PRIVATE_DER = Buffer.from('302e020100300506032b657004220420', 'hex');
const PUBLIC_DER = Buffer.from('302a300506032b6570032100', 'hex');

/** Makes a signing key of its own. */
export function createSigningKey(): SigningKey {
  return signingKeyOf(generateKeyPairSync('ed25519').privateKey);
}

/** Reads a signing key: PEM (PKCS #8), or the 32 bytes of its seed in base64. Throws a sentence without the text. */
export function readSigningKey(text: string): SigningKey {
  const trimmed = text.trim();
  try {
    const der = trimmed.startsWith('-----') ? undefined : Buffer.concat([PRIVATE_DER, rawKey(trimmed)]);
    const key = createPrivateKey(der === undefined ? trimmed : { key: der, format: 'der', type: 'pkcs8' });
    if (key.asymmetricKeyType === 'ed25519') return signingKeyOf(key);
  } catch {
    // The reasons of the library may quote the key.
  }
  throw new Error('is no Ed25519 private key (PEM, or 32 bytes in base64)');
}

/** The key as PEM (PKCS #8), as `readSigningKey` takes it. */
export function printSigningKey(key: SigningKey): string {
  return key.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
}

/** Reads a public key: PEM (SPKI), or its 32 bytes in base64. Throws a sentence. */
export function readTrustedKey(text: string): TrustedKey {
  const trimmed = text.trim();
  try {
    const der = trimmed.startsWith('-----') ? undefined : Buffer.concat([PUBLIC_DER, rawKey(trimmed)]);
    // A private key in PEM would be accepted too; it is refused because it was pasted by mistake.
    const key = createPublicKey(der === undefined ? trimmed : { key: der, format: 'der', type: 'spki' });
    if (key.asymmetricKeyType === 'ed25519' && !trimmed.includes('PRIVATE')) {
      return { id: idOf(rawPublicKey(key)), publicKey: key };
    }
  } catch {
    // As above.
  }
  throw new Error('is no Ed25519 public key (PEM, or 32 bytes in base64)');
}

/** Reads the public keys a host trusts, separated by commas: two while a gateway changes from one to the other. */
export function readTrustedKeys(text: string): TrustedKey[] {
  return text.split(',').map(readTrustedKey);
}

/**
 * The version after `last`, in a count that follows the date: it keeps growing when a gateway restarts, or when a second
 * one signs with the same key, as long as their clocks agree. It is less than `last` when the clock was set back so far that no host
 * would take a later one.
 */
export function nextVersion(last: number, nowMs: number): number {
  return last > nowMs + MAX_SKEW_MS ? Math.floor(nowMs) : Math.max(last + 1, Math.floor(nowMs));
}

/** Signs a snapshot. Keys are put in order, so that the same keys are the same text. Throws `SnapshotError` `oversize`. */
export function signSnapshot(content: Omit<KeySnapshot, 'issuer'>, key: SigningKey): Buffer {
  const rows = content.keys
    .toSorted((a, b) => (a.hash < b.hash ? -1 : 1))
    .map(({ hash, account, expiresMs }) => (expiresMs === undefined ? [hash, account] : [hash, account, expiresMs]));
  const { version, issuedAtMs } = content;
  const payload = Buffer.from(JSON.stringify({ version, issuedAtMs, keys: rows }));
  const signature = sign(null, signedBytes(key.id, payload), key.privateKey).toString('base64url');
  const body = Buffer.concat([Buffer.from(`${FORMAT} ${key.id} ${signature}\n`), payload]);
  if (body.length > MAX_SNAPSHOT_BYTES || rows.length > MAX_KEYS) {
    throw new SnapshotError('oversize', `${rows.length} keys are more than a snapshot holds`);
  }
  return body;
}

/** What a snapshot is held against. */
export interface SnapshotTest {
  readonly trusted: readonly TrustedKey[];
  /** Milliseconds since 1970. */
  readonly nowMs: number;
  /** Version held already; 0 when there is none. */
  readonly held: number;
  /** False for a snapshot from the host's own disk, which may have any age. Default true. */
  readonly fresh?: boolean;
}

/** Reads and verifies a snapshot. Throws `SnapshotError`, and nothing else, for whatever the bytes are. */
export function verifySnapshot(body: Uint8Array, { trusted, nowMs, held, fresh = true }: SnapshotTest): KeySnapshot {
  if (body.length > MAX_SNAPSHOT_BYTES) throw new SnapshotError('oversize', 'is longer than a snapshot may be');
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const [, issuer = '', signature = ''] = HEAD.exec(bytes.toString('latin1', 0, HEAD_BYTES)) ?? [];
  if (issuer === '' || bytes[HEAD_BYTES] !== LINE_FEED) throw new SnapshotError('malformed', 'is no key snapshot');
  const key = trusted.find(({ id }) => id === issuer);
  if (key === undefined) throw new SnapshotError('untrusted', `is signed by ${issuer}, which is not trusted here`);
  const payload = bytes.subarray(HEAD_BYTES + 1);
  const isOurs = verify(null, signedBytes(issuer, payload), key.publicKey, Buffer.from(signature, 'base64url'));
  if (!isOurs) throw new SnapshotError('forged', 'has a signature that does not hold');
  const snapshot = { ...readPayload(payload), issuer };
  const { version, issuedAtMs } = snapshot;
  if (version <= held) throw new SnapshotError('replayed', `has version ${version}, not above ${held}`);
  // The version runs with the date: one far ahead would lock out every snapshot after it.
  if (Math.max(issuedAtMs, version) > nowMs + MAX_SKEW_MS) {
    throw new SnapshotError('early', 'is dated in the future; do the clocks agree?');
  }
  if (fresh && issuedAtMs < nowMs - MAX_AGE_MS) throw new SnapshotError('stale', 'was signed too long ago');
  return snapshot;
}

function readPayload(payload: Buffer): Omit<KeySnapshot, 'issuer'> {
  let value: unknown;
  try {
    value = parseJson(payload.toString());
  } catch {
    throw new SnapshotError('malformed', 'is signed, but holds no JSON');
  }
  const { version, issuedAtMs, keys } = (value ?? {}) as Record<string, unknown>;
  if (!isCount(version) || !isCount(issuedAtMs) || !Array.isArray(keys) || keys.length > MAX_KEYS) {
    throw new SnapshotError('malformed', 'is signed, but lacks a version, a date or a list of keys');
  }
  return { version, issuedAtMs, keys: keys.map(readKey) };
}

function readKey(row: unknown): SnapshotKey {
  const [hash, account, expiresMs] = Array.isArray(row) ? (row as unknown[]) : [];
  const isRight =
    typeof hash === 'string' &&
    /^[0-9a-f]{64}$/.test(hash) &&
    typeof account === 'string' &&
    (expiresMs === undefined || isCount(expiresMs));
  if (!isRight) throw new SnapshotError('malformed', 'is signed, but holds a key that is none');
  return expiresMs === undefined ? { hash, account } : { hash, account, expiresMs };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function signedBytes(issuer: string, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${FORMAT} ${issuer}\n`), payload]);
}

function signingKeyOf(privateKey: KeyObject): SigningKey {
  const raw = rawPublicKey(createPublicKey(privateKey));
  return { id: idOf(raw), publicKey: raw.toString('base64'), privateKey };
}

function rawPublicKey(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'spki' }).subarray(PUBLIC_DER.length);
}

function idOf(raw: Buffer): string {
  return createHash('sha256').update(raw).digest('hex').slice(0, 16);
}

/** 32 bytes in either alphabet of base64. */
function rawKey(text: string): Buffer {
  const raw = Buffer.from(text, 'base64');
  if (raw.length !== 32 || !/^[\w+/-]{43}=?$/.test(text)) throw new Error('not 32 bytes');
  return raw;
}
