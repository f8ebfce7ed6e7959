// The file that keeps a host's last key snapshot over a restart. It holds hashes, never keys, and is signed: whoever
// changes it makes it useless. Written beside and renamed, so that a crash leaves the old one or the new one.

import { readFile, rename, writeFile } from 'node:fs/promises';
import type { SnapshotStore } from './trust.ts';

/** Keeps the snapshot in `path`; its folder must exist. */
export function snapshotFile(path: string): SnapshotStore {
  return {
    load: () =>
      readFile(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      }),
    save: async (body) => {
      await writeFile(`${path}.new`, body, { mode: 0o600 });
      await rename(`${path}.new`, path);
    },
  };
}
