// The version of the package, as its manifest says. Asked by the command line and the gateway.

import { readFileSync } from 'node:fs';

/** For example `0.1.0`. */
export function packageVersion(): string {
  // dist/src/config/version.js lies three folders below the package.
  const manifest = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
