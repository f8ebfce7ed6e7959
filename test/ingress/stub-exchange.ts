// An exchange without a carrier: what the unit tests of this folder hand to functions that answer.

import { type BodyCallback, Exchange } from '../../src/ingress/exchange.ts';

export class StubExchange extends Exchange {
  body = '';
  answered: Record<string, string> = {};
  destroyed = false;

  constructor(method: string, headers: readonly string[] = []) {
    super({ method, path: '/', query: '', headers, requestId: 'id' }, 0);
  }

  override readBody(done: BodyCallback): void {
    done(null, Buffer.alloc(0));
  }

  override write(chunk: Uint8Array): boolean {
    this.committed = true;
    this.body += Buffer.from(chunk).toString();
    return true;
  }

  override end(chunk?: Uint8Array): void {
    this.write(chunk ?? new Uint8Array(0));
    this.finish();
  }

  override destroy(): void {
    this.destroyed = true;
    this.finish();
  }

  /** The client goes away. */
  leave(): void {
    this.abort();
  }

  protected override begin(_status: number, headers: readonly string[]): void {
    const all = [...this.standing, ...headers];
    for (let i = 0; i < all.length; i += 2) this.answered[all[i] as string] = all[i + 1] as string;
  }
}
