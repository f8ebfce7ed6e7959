// A client that reads the events of a background response: those that are kept, in order and from any number on, and those to come. One
// that runs in this thread is followed live for as long as the client reads fast enough; everything else comes from the store.

import type { ResponseEvents, ResponseKey } from '../billing/index.ts';
import { brokenStreamEvent, endingEventIn } from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Exchange, ExchangeListener } from '../ingress/exchange.ts';
import { parseEvents, splitEvents } from '../net/sse.ts';
import type { BackgroundResponse, LiveFollower } from './background-response.ts';
import { numberedEvent } from './numbered-event.ts';
import type { StoredResponses } from './stored-responses.ts';

const HEADERS: readonly string[] = ['content-type', 'text/event-stream; charset=utf-8', 'cache-control', 'no-cache'];
const KEEP_ALIVE = Buffer.from(': keep-alive\n\n');

export class EventFollower implements ExchangeListener, LiveFollower {
  readonly #exchange: Exchange;
  readonly #store: Pick<StoredResponses, 'follow'>;
  readonly #key: ResponseKey;
  /** Number of the last event that was written. */
  #last: number;
  /** That event, where it came before it was kept: the store may have another one with its number. */
  #lastUnkept: Buffer | null = null;
  /** The response is followed live; null: by the store. */
  #run: BackgroundResponse | null = null;
  #onWritable: (() => void) | null = null;

  /** `after`: number of the last event that the client has; -1: none. */
  constructor(exchange: Exchange, store: Pick<StoredResponses, 'follow'>, key: ResponseKey, after: number) {
    this.#exchange = exchange;
    this.#store = store;
    this.#key = key;
    this.#last = after;
    exchange.listener = this;
    exchange.start(200, HEADERS, -1);
  }

  /** Follows a response of this thread. */
  followLive(run: BackgroundResponse): void {
    this.#run = run;
    run.follow(this);
  }

  /** Follows what the store has. */
  followStore(): void {
    this.#pull().catch((thrown: unknown) => this.#fail(thrown));
  }

  push(event: Buffer, number: number): void {
    this.#last = number;
    this.#lastUnkept = event;
    if (this.#write(event) || this.#exchange.handedOver) return;
    // The response does not wait for a client that reads slowly.
    this.#run?.unfollow(this);
    this.#run = null;
    this.#onWritable = () => this.followStore();
  }

  comment(bytes: Buffer): void {
    this.#write(bytes);
  }

  finish(): void {
    this.#exchange.end();
  }

  stopped(): void {
    this.#run = null;
    this.followStore();
  }

  onWritable(): void {
    const resume = this.#onWritable;
    this.#onWritable = null;
    resume?.();
  }

  onCut(): void {
    this.#fail(new HeadraceError('HR_DRAINING'));
  }

  onEnded(): void {
    this.#run?.unfollow(this);
    this.#run = null;
    this.onWritable();
  }

  async #pull(): Promise<void> {
    let waits = false;
    while (!this.#exchange.handedOver) {
      const { batches, ended, kept } = await this.#store.follow(this.#key, this.#last, waits);
      if (!ended && !waits && batches.length === 0) {
        waits = true;
        continue;
      }
      // Behind several batches there are more: as little as possible comes without a turn.
      waits = batches.length < 2;
      if (ended) {
        const end = batches.at(-1);
        if (end !== undefined && !this.#has(end)) this.#write(this.#endOf(end));
        this.#exchange.end();
        return;
      }
      let isFree = batches.length > 0 || this.#write(KEEP_ALIVE);
      for (const { data, first } of batches) {
        for (const [at, event] of splitEvents(Buffer.from(data)).entries()) {
          if (first + at <= this.#last) continue;
          this.#last = first + at;
          this.#lastUnkept = kept ? null : event;
          isFree = this.#write(event);
        }
      }
      if (!isFree && !this.#exchange.handedOver) {
        await new Promise<void>((resolve) => {
          this.#onWritable = resolve;
        });
      }
    }
  }

  /** Whether the client has the last event of these, which is not behind its own. */
  #has({ last }: ResponseEvents): boolean {
    return last === this.#last && (this.#lastUnkept === null || endingEventIn(this.#lastUnkept) >= 0);
  }

  /** The last event of these, as the next one of the client. */
  #endOf({ data }: ResponseEvents): Buffer {
    const { data: json = '{}', event = '' } = parseEvents(data).at(-1) ?? {};
    return Buffer.from(numberedEvent(event, Buffer.from(json), this.#last + 1, null));
  }

  #write(bytes: Buffer): boolean {
    this.#exchange.bytesOut += bytes.byteLength;
    return this.#exchange.write(bytes);
  }

  /** The client hears that the stream is not complete, by an event with the number behind which it may go on: that of its last one. */
  #fail(thrown: unknown): void {
    if (this.#exchange.handedOver) return;
    const error = thrown instanceof HeadraceError ? thrown : new HeadraceError('HR_INTERNAL', { cause: thrown });
    const { code, message, status } = error;
    this.#exchange.errorCode = code;
    this.#run?.unfollow(this);
    this.#write(Buffer.from(brokenStreamEvent({ code, message, status }, this.#last)));
    this.#exchange.end();
  }
}
