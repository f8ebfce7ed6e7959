// Checks the keys in the section `trust` of the settings and reads the signing key. Messages never repeat a key.

import { readFileSync } from 'node:fs';
import type { SigningKey } from '../billing/index.ts';
import { readSigningKey, readTrustedKeys } from '../billing/main-thread.ts';
import { KEY_FILE, type Mistake } from '../config/load.ts';
import type { Settings } from '../config/settings.ts';

/** Everything that is wrong with the section. */
export function trustMistakes({ signingKey, publicKey, gateway, token, announce }: Settings['trust']): Mistake[] {
  const mistakes: Mistake[] = [];
  const attempt = (path: string, read: () => unknown): void => {
    try {
      read();
    } catch (error) {
      mistakes.push({ path, message: (error as Error).message });
    }
  };
  if (signingKey !== null) attempt('trust.signingKey', () => readConfiguredKey(signingKey));
  if (publicKey !== null) attempt('trust.publicKey', () => readTrustedKeys(publicKey));
  if (announce !== null && (gateway === null || token === null)) {
    mistakes.push({ path: 'trust.announce', message: 'needs trust.gateway and trust.token' });
  }
  return mistakes;
}

/** Reads `trust.signingKey`: the key itself, or `file:PATH`. Throws a readable message. */
export function readConfiguredKey(text: string): SigningKey {
  if (!text.startsWith(KEY_FILE)) return readSigningKey(text);
  const path = text.slice(KEY_FILE.length);
  let content: string;
  try {
    content = readFileSync(path, 'utf8');
  } catch (error) {
    throw new Error(`names a file that cannot be read (${(error as NodeJS.ErrnoException).code})`, { cause: error });
  }
  return readSigningKey(content);
}
