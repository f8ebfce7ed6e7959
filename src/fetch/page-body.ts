// The body of an answer as its reader takes it: at its own pace, and in pieces of a useful size whatever the pieces on the
// wire. The page client writes, the fetch room reads.

import { GrowingBytes } from './growing-bytes.ts';

/** What may wait for the reader before the server is paused. */
const MAX_WAITING_BYTES = 65_536;

export interface BodySource {
  pause(): void;
  resume(): void;
  /** The reader wants no more. */
  abort(): void;
}

/** Read by one reader, once. Ending the iteration early ends the connection. */
export class PageBody implements AsyncIterableIterator<Uint8Array<ArrayBuffer>, undefined> {
  readonly #source: BodySource;
  readonly #waiting = new GrowingBytes();
  #reader: PromiseWithResolvers<void> | null = null;
  #state: 'open' | 'ended' | 'left' | { readonly error: Error } = 'open';
  #paused = false;

  constructor(source: BodySource) {
    this.#source = source;
  }

  write(piece: Uint8Array): void {
    this.#waiting.append(piece);
    if (!this.#paused && this.#waiting.length >= MAX_WAITING_BYTES) {
      this.#paused = true;
      this.#source.pause();
    }
    this.#wake();
  }

  end(): void {
    if (this.#state === 'open') this.#state = 'ended';
    this.#wake();
  }

  /** What has not been read yet is dropped. */
  fail(error: Error): void {
    if (this.#state !== 'left') this.#state = { error };
    this.#wake();
  }

  async next(): Promise<IteratorResult<Uint8Array<ArrayBuffer>, undefined>> {
    for (;;) {
      if (typeof this.#state === 'object') throw this.#state.error;
      if (this.#state === 'left') return { done: true, value: undefined };
      if (this.#waiting.length > 0) return { done: false, value: this.#take() };
      if (this.#state === 'ended') return { done: true, value: undefined };
      this.#reader = Promise.withResolvers();
      await this.#reader.promise;
    }
  }

  async return(): Promise<IteratorResult<Uint8Array<ArrayBuffer>, undefined>> {
    if (this.#state === 'open') this.#source.abort();
    this.#state = 'left';
    this.#waiting.take();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#waiting.take();
    if (this.#paused) {
      this.#paused = false;
      this.#source.resume();
    }
    return bytes;
  }

  #wake(): void {
    this.#reader?.resolve();
    this.#reader = null;
  }
}
