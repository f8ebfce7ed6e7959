// Standard error as the place of log lines. What it does not take, because the disk is full or nobody reads, is lost: a log neither
// ends nor stops what it reports on.

import { write, writeSync } from 'node:fs';

const STANDARD_ERROR = 2;

/** A pipe that is full and does not block is tried again after this time. */
const RETRY_MS = 100;
/** Retries of a line that is written at once: they hold up the thread. */
const RETRIES = 10;

/** Pipes take lines of several threads whole up to this size (POSIX, PIPE_BUF). */
const WRITE_BYTES = 4096;

/** Bytes of lines that wait; beyond this, lines are dropped. */
const WAITING_BYTES = 4 * 1024 * 1024;

/** Places that have taken nothing for all retries. */
const stuck = new Set<number>();

const NEVER = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes synchronously, so that the last line before an exit is not lost. Returns whether all of it was taken. Where nobody reads, only the
 * first text waits for the retries.
 */
export function writeNow(text: string, fd: number = STANDARD_ERROR): boolean {
  let rest = Buffer.from(text);
  let retries = stuck.has(fd) ? RETRIES : 0;
  while (rest.byteLength > 0) {
    try {
      rest = rest.subarray(writeSync(fd, rest));
    } catch (error) {
      if (!isBusy(error)) return false;
      if (retries++ === RETRIES) {
        stuck.add(fd);
        return false;
      }
      Atomics.wait(NEVER, 0, 0, RETRY_MS);
    }
  }
  stuck.delete(fd);
  return true;
}

/** Writes asynchronously and in order: no answer waits for a reader of standard error. */
export class LateLines {
  readonly #fd: number;
  /** Whole lines, joined up to the size of one write. */
  readonly #chunks: string[] = [];
  /** Bytes of the last chunk, and of all. */
  #lastBytes = 0;
  #bytes = 0;
  #isWriting = false;

  constructor(fd: number = STANDARD_ERROR) {
    this.#fd = fd;
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#bytes + bytes > WAITING_BYTES) return;
    const last = this.#chunks.length - 1;
    const fits = last >= 0 && this.#lastBytes + bytes <= WRITE_BYTES;
    if (fits) this.#chunks[last] += line;
    else this.#chunks.push(line);
    this.#lastBytes = fits ? this.#lastBytes + bytes : bytes;
    this.#bytes += bytes;
    if (!this.#isWriting) this.#writeNext();
  }

  /** Writes synchronously what waits, up to what is not taken. */
  flush(): void {
    this.#chunks.splice(0).every((chunk) => writeNow(chunk, this.#fd));
    this.#bytes = 0;
  }

  #writeNext(): void {
    const chunk = this.#chunks.shift();
    this.#isWriting = chunk !== undefined;
    if (chunk === undefined) return;
    const bytes = Buffer.from(chunk);
    this.#bytes -= bytes.byteLength;
    this.#write(bytes);
  }

  #write(bytes: Uint8Array): void {
    write(this.#fd, bytes, (error, written) => {
      if (isBusy(error)) setTimeout(() => this.#write(bytes), RETRY_MS);
      else if (error === null && written < bytes.byteLength) this.#write(bytes.subarray(written));
      else this.#writeNext();
    });
  }
}

function isBusy(error: unknown): boolean {
  return (error as NodeJS.ErrnoException | null)?.code === 'EAGAIN';
}
