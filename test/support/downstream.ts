// A client for the tests of failover and relay: it records what is written to it, and stops reading or disconnects when the test
// says so. As in an exchange, nothing counts after it was handed over, and the listener hears the end once.

import type { Downstream, DownstreamListener } from '../../src/upstream/index.ts';

export class TestDownstream implements Downstream {
  handedOver = false;
  committed = false;
  errorCode = '';
  bytesOut = 0;
  listener: DownstreamListener | null = null;
  status = 0;
  headers: readonly string[] = [];
  contentLength = -2;
  readonly pieces: Buffer[] = [];
  bytes = 0;
  /** How it ended; empty while it has not. */
  ending: 'complete' | 'destroyed' | 'aborted' | '' = '';
  /** While true every write asks to wait. */
  full = false;
  readonly #waiting: { readonly holds: () => boolean; readonly resolve: () => void }[] = [];

  get body(): Buffer {
    return Buffer.concat(this.pieces);
  }

  get text(): string {
    return this.body.toString();
  }

  /** Every value of a header. */
  values(name: string): string[] {
    return this.headers.flatMap((value, index) => (index % 2 === 1 && this.headers[index - 1] === name ? [value] : []));
  }

  start(status: number, headers: readonly string[], contentLength: number): void {
    if (this.committed || this.handedOver) return;
    this.status = status;
    this.headers = headers;
    this.contentLength = contentLength;
  }

  write(chunk: Uint8Array): boolean {
    if (this.handedOver) return true;
    this.committed = true;
    this.pieces.push(Buffer.from(chunk));
    this.bytes += chunk.byteLength;
    this.#changed();
    return !this.full;
  }

  end(chunk?: Uint8Array): void {
    if (this.handedOver) return;
    this.write(chunk ?? new Uint8Array(0));
    this.#finish('complete');
  }

  destroy(): void {
    if (!this.handedOver) this.#finish('destroyed');
  }

  /** The client goes away. */
  leave(): void {
    if (!this.handedOver) this.#finish('aborted');
  }

  /** The client reads on. */
  read(): void {
    this.full = false;
    this.listener?.onWritable();
  }

  /** Resolves once the condition holds; it is looked at whenever something is written or ends. */
  until(holds: () => boolean): Promise<void> {
    if (holds()) return Promise.resolve();
    return new Promise((resolve) => this.#waiting.push({ holds, resolve }));
  }

  /** Resolves once the answer has ended, whichever way. */
  done(): Promise<void> {
    return this.until(() => this.handedOver);
  }

  #finish(ending: TestDownstream['ending']): void {
    this.handedOver = true;
    this.ending = ending;
    this.listener?.onEnded(ending === 'complete' ? 'delivered' : ending === 'aborted' ? 'gone' : 'broken');
    this.#changed();
  }

  #changed(): void {
    for (const entry of [...this.#waiting]) {
      if (!entry.holds()) continue;
      this.#waiting.splice(this.#waiting.indexOf(entry), 1);
      entry.resolve();
    }
  }
}
