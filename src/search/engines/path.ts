// Names as parts of URLs: identifiers and file names that engines put behind a base URL.

/** Percent-encodes each segment of a path; the slashes between them stay. Never throws. */
export function encodePath(path: string): string {
  return path.toWellFormed().split('/').map(encodeURIComponent).join('/');
}
