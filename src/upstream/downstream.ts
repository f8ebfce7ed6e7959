// What the relay needs of the client side. `ingress` exchanges have this shape; the rooms do not know them.

export interface Downstream {
  /** The answer is complete, broken off, or the client has gone. */
  readonly finished: boolean;
  /** The head of the answer has left: too late for another status. */
  readonly committed: boolean;
  /** Code of the error table when the answer comes to its end as an error of the gateway's own; empty otherwise. */
  errorCode: string;
  /** Called once when the client leaves before the end. */
  onAbort: (() => void) | null;
  /** Called when the gateway ends before the answer does. */
  onCut: (() => void) | null;
  /** Called when the client can take more after a `write` returned false. */
  onWritable: (() => void) | null;
  /** Sets the head; it leaves with the first byte. `contentLength` -1: unknown. */
  start(status: number, headers: readonly string[], contentLength: number): void;
  /** False asks to wait for `onWritable`. */
  write(chunk: Uint8Array): boolean;
  end(chunk?: Uint8Array): void;
  /** Breaks the connection so that the client sees an incomplete answer. */
  destroy(): void;
}
