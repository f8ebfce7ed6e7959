// Journal of the requests to a host: a bounded list, and promises for what happens to each, so that tests wait for events
// instead of time.
import { hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** One request as the host saw it. Fields change until the request is closed. */
export type HostRequest = Readonly<Omit<JournalEntry, 'setBody' | 'close'>>;

/** The writable side of a HostRequest, for the host alone. */
export class JournalEntry {
  /** 1 for the first request of the host, and so on. */
  readonly id: number;
  readonly method: string;
  /** Path without query. */
  readonly path: string;
  /** `?` and what follows, or an empty string. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  /** The `model` of the body, once read. */
  model: string | undefined;
  bodyBytes = 0;
  /** SHA-256 of the body in hex, of no bytes when there is none; empty until the body is read. */
  bodySha256 = '';
  /** Status answered; 0 before the headers. */
  status = 0;
  /** Server-sent events generated for this request so far. */
  events = 0;
  /** The answer was sent to its regular end. */
  finished = false;
  /** The client closed the connection before the answer ended. Never set by a fault that cuts it, nor by `kill`. */
  aborted = false;
  #closed = false;
  #waiting: (() => void)[] = [];

  constructor(id: number, method: string, target: string, headers: IncomingHttpHeaders) {
    // RFC 9112, section 3.2.2: clients may name the host in the request line too.
    const url = target.startsWith('/') ? target : target.replace(/^https?:\/\/[^/?]*\/?/i, '/');
    const mark = url.indexOf('?');
    this.id = id;
    this.method = method;
    this.path = mark === -1 ? url : url.slice(0, mark);
    this.query = mark === -1 ? '' : url.slice(mark);
    this.headers = headers;
  }

  setBody(body: Buffer): void {
    this.bodyBytes = body.length;
    this.bodySha256 = hash('sha256', body);
  }

  /** Resolves when the request is over, whichever way. */
  whenClosed(): Promise<void> {
    return this.#closed ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Resolves when the client closes the connection before the end; stays pending when it does not. */
  async whenAborted(): Promise<void> {
    await this.whenClosed();
    if (!this.aborted) await new Promise(() => {});
  }

  /** Sets exactly one of the flags, or none when the host itself cut the connection. */
  close(end: 'finished' | 'aborted' | 'cut'): void {
    if (this.#closed) return;
    this.#closed = true;
    this.finished = end === 'finished';
    this.aborted = end === 'aborted';
    for (const resolve of this.#waiting) resolve();
    this.#waiting = [];
  }
}

/** Keeps the last `capacity` requests and hands out arrivals in order. */
export class Journal {
  readonly entries: JournalEntry[] = [];
  readonly #capacity: number;
  readonly #arrived: JournalEntry[] = [];
  readonly #waiting: { where: (request: HostRequest) => boolean; resolve: (request: HostRequest) => void }[] = [];

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  /** Adds a request whose head was received. */
  add(entry: JournalEntry): void {
    append(this.entries, entry, this.#capacity);
  }

  /** Marks the request as complete: resolves a waiting `next`, or keeps it for a later one. */
  arrive(entry: JournalEntry): void {
    const at = this.#waiting.findIndex(({ where }) => where(entry));
    if (at === -1) append(this.#arrived, entry, this.#capacity);
    else this.#waiting.splice(at, 1)[0]!.resolve(entry);
  }

  /** The earliest complete request that was not returned before and that `where` accepts; waits for one if there is none. */
  next(where: (request: HostRequest) => boolean): Promise<HostRequest> {
    const at = this.#arrived.findIndex(where);
    if (at !== -1) return Promise.resolve(this.#arrived.splice(at, 1)[0]!);
    return new Promise((resolve) => this.#waiting.push({ where, resolve }));
  }
}

function append(list: JournalEntry[], entry: JournalEntry, capacity: number): void {
  list.push(entry);
  if (list.length > capacity) list.shift();
}
