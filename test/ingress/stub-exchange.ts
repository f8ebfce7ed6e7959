// An exchange without a server adapter, whose response can be read; for tests of functions that respond.

import type { BodyCallback } from '../../src/ingress/body.ts';
import { Exchange } from '../../src/ingress/exchange.ts';

export class StubExchange extends Exchange {
  body = '';
  answered: Record<string, string> = {};
  destroyed = false;

  /** `requestId`: sent as the last header; '' for none. */
  constructor(method: string, headers: readonly string[] = [], requestId = 'id') {
    const all = requestId === '' ? headers : [...headers, 'x-request-id', requestId];
    super({ method, path: '/', query: '', headers: all, remoteAddress: '' }, 0);
  }

  override readBody(done: BodyCallback): void {
    done(null, Buffer.alloc(0));
  }

  override write(chunk: Uint8Array): boolean {
    if (!this.committed) {
      const all = [...this.commonHeaders, ...this.responseHeaders];
      for (let i = 0; i < all.length; i += 2) this.answered[all[i] as string] = all[i + 1] as string;
    }
    this.committed = true;
    this.body += Buffer.from(chunk).toString();
    return true;
  }

  override end(chunk?: Uint8Array): void {
    this.write(chunk ?? new Uint8Array(0));
    this.ended('delivered');
  }

  override destroy(): void {
    this.destroyed = true;
    this.ended('broken');
  }

  /** The client closes the connection. */
  leave(): void {
    this.ended('gone');
  }
}
