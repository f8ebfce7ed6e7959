// Reads the finished response from an answer that passes to a client, and has it stored. The answer passes unchanged and without
// delay; of a stream nothing is collected but its last event. A response that was not delivered is not kept.

import type { ResponseEnd, ResponseRecord, ResponseStatus } from '../billing/index.ts';
import {
  arrayItemsOf,
  endingEventIn,
  endsResponse,
  itemNameOf,
  responseEventOf,
  type ResponseParts,
  responsePartsOf,
  withMembers,
} from '../dialect/index.ts';
import { type Exchange, isEventStream } from '../ingress/exchange.ts';
import { DownstreamTap } from '../upstream/index.ts';
import type { StoredResponses } from './stored-responses.ts';

/** Says that a response is answered and not stored, because too much waits for the store. */
const STORED_HEADER = 'x-headrace-stored';

/** What a response continues, and the input that it is the first to have. */
export interface ResponseOrigin {
  readonly account: string;
  readonly model: string;
  readonly previous: string | null;
  /** The new input items as a JSON array. */
  readonly input: () => string;
}

export interface RecorderDeps {
  readonly store: Pick<StoredResponses, 'isOpen' | 'put' | 'forget'>;
  readonly maxBytes: number;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
}

const STATUSES: ReadonlySet<string> = new Set([
  'completed',
  'incomplete',
  'failed',
  'cancelled',
] satisfies ResponseStatus[]);

/** The record of a finished response. */
function recordOf(
  { id, model, output, rest, status }: ResponseParts,
  origin: ResponseOrigin,
  createdMs: number,
): ResponseRecord {
  const { account, previous } = origin;
  // A CRN that got the whole conversation knows of no earlier response.
  const response =
    previous === null ? rest : withMembers(Buffer.from(rest), { previous_response_id: JSON.stringify(previous) });
  return {
    account,
    id,
    createdMs: Math.floor(createdMs),
    status: statusOf(status),
    model: model || origin.model,
    previous,
    input: origin.input(),
    output,
    response: response.toString(),
    items: itemIdsIn(output),
  };
}

/** How a response has ended, as its object says it. */
export function statusOf(status: string): ResponseEnd['status'] {
  return isEnd(status) ? status : 'completed';
}

export function isEnd(status: string): status is ResponseEnd['status'] {
  return STATUSES.has(status);
}

/** Ids of the items of a JSON array. */
export function itemIdsIn(output: string): string[] {
  return arrayItemsOf(Buffer.from(output)).flatMap((item) => itemNameOf(item).id || []);
}

const OK = 200;
const LF = 0x0a;
const CR = 0x0d;

/** How the answer comes; `none`: nothing of it is to be stored, or it has been. */
type Form = 'unknown' | 'stream' | 'whole' | 'none';

export class ResponseRecorder extends DownstreamTap {
  readonly #deps: RecorderDeps;
  readonly #origin: ResponseOrigin;
  #form: Form = 'unknown';
  /** Parts of the last event of a stream, or of a whole answer. */
  #parts: Buffer[] = [];
  #bytes = 0;
  #stored: ResponseRecord | null = null;

  constructor(exchange: Exchange, deps: RecorderDeps, origin: ResponseOrigin) {
    super(exchange);
    this.#deps = deps;
    this.#origin = origin;
  }

  override start(status: number, headers: readonly string[], contentLength: number): void {
    const { maxBytes, store } = this.#deps;
    this.#form = status !== OK || contentLength > maxBytes ? 'none' : isEventStream(headers) ? 'stream' : 'whole';
    if (this.#form === 'none' || store.isOpen) {
      super.start(status, headers, contentLength);
      return;
    }
    this.#form = 'none';
    super.start(status, [...headers, STORED_HEADER, 'false'], contentLength);
  }

  override write(chunk: Uint8Array): boolean {
    if (this.#form !== 'none') this.#read(asBuffer(chunk));
    return super.write(chunk);
  }

  override end(chunk?: Uint8Array): void {
    if (this.#form !== 'none' && chunk !== undefined && chunk.byteLength > 0) this.#read(asBuffer(chunk));
    if (this.#form === 'whole') this.#keep(this.#taken());
    super.end(chunk);
  }

  override onEnded(cause: 'delivered' | 'gone' | 'broken'): void {
    if (cause !== 'delivered' && this.#stored !== null) this.#deps.store.forget(this.#stored);
    super.onEnded(cause);
  }

  /** Looks at a piece before it leaves: its memory may be used again after that. */
  #read(piece: Buffer): void {
    if (this.#form === 'whole') {
      this.#collect(piece);
      return;
    }
    const isFirst = this.#parts.length === 0;
    if (isFirst) {
      const at = endingEventIn(piece);
      if (at < 0) return;
      piece = piece.subarray(at);
    }
    this.#collect(piece);
    const last = piece.at(-1);
    if (this.#form === 'none' || (last !== LF && last !== CR)) return;
    const taken = this.#taken();
    const at = isFirst ? 0 : endingEventIn(taken);
    const event = at < 0 ? null : responseEventOf(taken.subarray(at));
    // The rest of an event that is cut in parts comes with the next pieces.
    if (at >= 0 && event === null) return;
    if (event !== null && endsResponse(event.type) && event.response !== null) this.#keep(event.response);
    else this.#drop();
  }

  #collect(piece: Buffer): void {
    this.#bytes += piece.byteLength;
    if (this.#bytes > this.#deps.maxBytes) {
      this.#drop();
      this.#form = 'none';
      return;
    }
    this.#parts.push(Buffer.from(piece));
  }

  #taken(): Buffer {
    if (this.#parts.length > 1) this.#parts = [Buffer.concat(this.#parts)];
    return this.#parts[0] ?? Buffer.alloc(0);
  }

  #drop(): void {
    this.#parts = [];
    this.#bytes = 0;
  }

  #keep(response: Buffer): void {
    this.#form = 'none';
    const parts = responsePartsOf(response);
    this.#drop();
    if (parts === null) return;
    this.#stored = recordOf(parts, this.#origin, this.#deps.epochMs());
    this.#deps.store.put(this.#stored);
  }
}

function asBuffer(chunk: Uint8Array): Buffer {
  return Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}
