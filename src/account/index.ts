// The door of the account room.
export { type Credential, hashKey, type KeyRecord, KeyRing, presentedKey } from './keys.ts';
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
