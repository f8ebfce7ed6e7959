// The consent that a paid request needs before its answer goes out, and the answer that waits for it. Made by the
// endpoints that take payments; asked by failover, at most once in a request, whichever CRN serves it in the end.

import type { Failure } from '../routing/index.ts';
import type { ResponseHead } from './headers.ts';

/** Stands between the first good answer of a CRN and its first byte to the client. */
export interface Approval {
  /**
   * Called once, when a CRN has begun an answer below 300. Resolves with headers for the answer, as a flat list: they
   * also travel with whatever is answered when that CRN breaks off and another one, or none, takes over. Resolves with
   * null when the approval has answered the client itself; the CRN's answer is then dropped. A rejection is answered
   * in place of it. Must not stay open for ever: nothing else bounds the wait.
   */
  approve(head: ResponseHead): Promise<readonly string[] | null>;
  /** Set once the head of a good answer leaves. The money is kept from then on; until then the request has delivered nothing. */
  delivered: boolean;
}

/** Bytes after which the CRN of a held answer is asked to wait; what its connection has read by then comes on top. */
const HELD_BYTES = 64 * 1024;

/** What has come of an answer whose approval is awaited. */
export class HeldAnswer {
  readonly head: ResponseHead;
  readonly pieces: Buffer[] = [];
  ended = false;
  failure: Failure | null = null;
  #bytes = 0;

  constructor(head: ResponseHead) {
    this.head = head;
  }

  /** Keeps a piece; true when the CRN shall wait. */
  keep(chunk: Buffer): boolean {
    // A chunk may pin a larger buffer, and money takes seconds to arrive.
    this.pieces.push(Buffer.from(chunk));
    this.#bytes += chunk.byteLength;
    return this.#bytes >= HELD_BYTES;
  }
}
