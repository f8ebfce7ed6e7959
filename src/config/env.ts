// What this process was started with: environment and version. This is the only file that reads `process.env`; all others
// take the environment as an argument.

import { readFileSync } from 'node:fs';

/** A frozen copy of the environment of the process. */
export function environment(): Readonly<Record<string, string | undefined>> {
  return Object.freeze({ ...process.env });
}

/**
 * Sets the largest request head, in bytes, that uWebSockets.js accepts.
 * The addon reads it once, when it is loaded: call this before the first import of it in the process.
 */
export function setHeaderLimit(maxHeaderBytes: number): void {
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] = String(maxHeaderBytes);
}

/** The version of the package, for example `0.1.0`. */
export function packageVersion(): string {
  // dist/src/config/env.js lies three folders below the package.
  const manifest = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
