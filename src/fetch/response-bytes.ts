// What undici reads of a connection, by `read`. Lets it read `100 Continue`: it takes one that it has not asked for as a broken answer, where
// a client has to read over it (RFC 9110 §15.2). It reads over other interim answers, so the status is changed to that of one on the way.
// Bounds responses as on the wire: undici reads chunk extensions without end.

import type { Socket } from 'node:net';
import { HeadraceError } from '../errors.ts';

const LF = 0x0a;
const CR = 0x0d;
const DIGIT = 0x30;

/** Where the status stands in a status line such as `HTTP/1.1 100 Continue` (RFC 9112 §4). */
const STATUS_AT = 9;
const STATUS_END = 12;

/** The heads before the body of a response, from the request on. */
class Heads {
  /** Bytes of the status line up to its status; `null` from the head on that is not interim. */
  #place: number | null = null;
  #isContinue = false;
  #isEmptyLine = false;

  begin(): void {
    this.#place = 0;
  }

  /** Changes the status 100 in the next bytes of the connection to 103. */
  pass(bytes: Buffer): void {
    for (let at = 0; at < bytes.length && this.#place !== null; at++) {
      const byte = bytes[at] as number;
      if (this.#place < STATUS_END) {
        const digit = this.#place - STATUS_AT;
        if (digit === 0) this.#isContinue = true;
        if (digit === 0 && byte !== DIGIT + 1) {
          this.#place = null;
          return;
        }
        if (digit > 0) this.#isContinue &&= byte === DIGIT;
        if (digit === 2 && this.#isContinue) bytes[at] = DIGIT + 3;
        this.#place++;
        this.#isEmptyLine = false;
      } else if (byte === LF) {
        if (this.#isEmptyLine) this.#place = 0;
        this.#isEmptyLine = true;
      } else if (byte !== CR) {
        this.#isEmptyLine = false;
      }
    }
  }
}

/**
 * The socket, on which requests follow one another: each is written whole before its response is read. A response of more than `maxBytes`
 * ends it with `HR_FETCH_TOO_LARGE`.
 */
export function readingResponses<S extends Socket>(socket: S, maxBytes: number): S {
  const heads = new Heads();
  let length = 0;
  const read = socket.read.bind(socket);
  const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
  const readResponse = (size?: number): Buffer | null => {
    const bytes = read(size) as Buffer | null;
    if (bytes === null) return null;
    length += bytes.byteLength;
    if (length > maxBytes) {
      socket.destroy(new HeadraceError('HR_FETCH_TOO_LARGE', { subject: String(maxBytes) }));
      return null;
    }
    heads.pass(bytes);
    return bytes;
  };
  const writeRequest = (...args: unknown[]): boolean => {
    heads.begin();
    length = 0;
    return write(...args);
  };
  socket.read = readResponse;
  socket.write = writeRequest as S['write'];
  return socket;
}
