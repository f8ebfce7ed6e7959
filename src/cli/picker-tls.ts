// The certificate of a picker's port: PEM files, read at the start and whenever one of them has changed.

import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { type ConfigWatch, watchConfig } from '../config/watch.ts';
import { messageOf } from '../errors.ts';
import type { TlsIdentity } from '../picker/index.ts';
import type { Log } from '../telemetry/log.ts';
import { UsageError } from './io.ts';

export interface TlsFiles {
  readonly certificate: string;
  readonly key: string;
}

/** More than any chain. */
const MAX_PEM_BYTES = 1024 * 1024;

/** Rejects with `UsageError` when a file cannot be read, or the two do not belong together. */
export async function readTls(files: TlsFiles): Promise<TlsIdentity> {
  // One after the other, so that the same mistake always gives the same error.
  const certificate = await readPem(files.certificate);
  const key = await readPem(files.key);
  try {
    createSecureContext({ cert: certificate, key });
  } catch (error) {
    throw new UsageError(`${files.certificate} and ${files.key} are no certificate and its key: ${messageOf(error)}`);
  }
  return { certificate, key };
}

export interface TlsWatchOptions {
  /** What is in use: files that have changed since it was read are noticed too. */
  readonly current: TlsIdentity;
  readonly log: Log;
  readonly onChange: (identity: TlsIdentity) => void;
}

/** Calls `onChange` with each other certificate. What cannot be used is logged, as between the replacements of the two files. */
export function watchTls(files: TlsFiles, { current, log, onChange }: TlsWatchOptions): ConfigWatch {
  let used = current;
  let last = Promise.resolve();
  const read = async (): Promise<void> => {
    try {
      const identity = await readTls(files);
      if (identity.certificate.equals(used.certificate) && identity.key.equals(used.key)) return;
      used = identity;
      onChange(identity);
      log.info({ file: files.certificate }, 'new connections get the new certificate');
    } catch (error) {
      log.error({ problem: messageOf(error) }, 'the certificate cannot be used: the running one stays');
    }
  };
  // One after the other, so that what was read first does not come last.
  const readNext = (): void => void (last = last.then(read));
  const watches = [files.certificate, files.key].map((file) =>
    watchConfig(file, { maxBytes: MAX_PEM_BYTES, reportFirst: true, onChange: readNext, onError: readNext }),
  );
  return {
    close: () => {
      for (const watch of watches) watch.close();
    },
  };
}

async function readPem(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${messageOf(error)}`);
  }
}
