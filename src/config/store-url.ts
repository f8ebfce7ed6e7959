// URLs of stores: where the file of SQLite is, and how messages name a store, without credentials.

import { accessSync, constants, existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';

const SQLITE = 'sqlite:';
const MEMORY = ':memory:';

/** The URL with the path of its SQLite file made absolute from `folder`; any other URL as it is. */
export function absoluteStore(url: string, folder: string): string {
  const path = pathIn(url);
  return path === null ? url : SQLITE + resolve(folder, path);
}

/** The SQLite file of a store; null for memory and PostgreSQL. */
export function storeFile(url: string): string | null {
  const path = pathIn(url);
  return path === null ? null : resolve(path);
}

/** A store as messages name it: a path, or a PostgreSQL URL without user, password and query. */
export function storeName(url: string): string {
  const file = storeFile(url);
  if (file !== null) return SQLITE + file;
  if (url.startsWith(SQLITE)) return url;
  // A user without a host, which is in the query then, stands in URLs of PostgreSQL alone.
  const { host, pathname, protocol } = URL.parse(url.replace(/\/\/[^/]*@\//, '///')) ?? {};
  return protocol === undefined ? 'PostgreSQL' : `${protocol}//${host}${pathname}`;
}

/**
 * A store of the same name in the working folder where there is none beside the configuration in `folder`: relative paths began at the
 * working folder in earlier versions. Null when all is well.
 */
export function misplacedStore(url: string, folder: string): string | null {
  const file = storeFile(url);
  if (file === null || existsSync(file)) return null;
  const other = resolve(relative(folder, file));
  return other !== file && existsSync(other) ? other : null;
}

/** The folder in which a store that does not exist cannot be made; null where it exists or can be. */
export function unwritableFolder(url: string): string | null {
  const file = storeFile(url);
  if (file === null || existsSync(file)) return null;
  try {
    accessSync(dirname(file), constants.W_OK);
    return null;
  } catch {
    return dirname(file);
  }
}

function pathIn(url: string): string | null {
  if (!url.startsWith(SQLITE)) return null;
  const path = url.slice(SQLITE.length);
  return path === MEMORY ? null : path;
}
