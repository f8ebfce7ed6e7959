// A downstream that passes everything on unchanged, for those who read along: what was sent to the client, and how it ended.

import type { Downstream, DownstreamListener } from './relay.ts';

/** Stands between a relay and a downstream. Subclasses override what they read and call the method of this class. */
export abstract class DownstreamTap implements Downstream, DownstreamListener {
  readonly #downstream: Downstream;
  #listener: DownstreamListener | null = null;

  constructor(downstream: Downstream) {
    this.#downstream = downstream;
  }

  get listener(): DownstreamListener | null {
    return this.#listener;
  }

  set listener(listener: DownstreamListener | null) {
    this.#listener = listener;
    this.#downstream.listener = listener === null ? null : this;
  }

  get isFull(): boolean {
    return this.#listener?.isFull === true;
  }

  get handedOver(): boolean {
    return this.#downstream.handedOver;
  }

  get committed(): boolean {
    return this.#downstream.committed;
  }

  get errorCode(): string {
    return this.#downstream.errorCode;
  }

  set errorCode(code: string) {
    this.#downstream.errorCode = code;
  }

  get bytesOut(): number {
    return this.#downstream.bytesOut;
  }

  set bytesOut(bytes: number) {
    this.#downstream.bytesOut = bytes;
  }

  start(status: number, headers: readonly string[], contentLength: number): void {
    this.#downstream.start(status, headers, contentLength);
  }

  write(chunk: Uint8Array): boolean {
    return this.#downstream.write(chunk);
  }

  end(chunk?: Uint8Array): void {
    this.#downstream.end(chunk);
  }

  destroy(): void {
    this.#downstream.destroy();
  }

  onWritable(): void {
    this.#listener?.onWritable();
  }

  onCut(): void {
    this.#listener?.onCut();
  }

  onEnded(cause: 'delivered' | 'gone' | 'broken'): void {
    this.#listener?.onEnded(cause);
  }
}
