// The only file that touches `process.env`. Everything else takes the environment as an argument, so that tests and
// embedders decide what it holds.

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
