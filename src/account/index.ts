// The door of the account room.
export { type Credential, hashKey, type KeyRecord, KeyRing, presentedKey } from './keys.ts';
