// One response that runs in the background: the sink of a request that the gateway makes itself. Its events get numbers and the id that
// the client was given; they are written in batches and pushed to clients of this thread. It ends exactly once: by the event of the
// server that ends it, by an error, or by a cancel.

import type { Clock, TimerHandle } from '../actor/index.ts';
import type { ResponseKey } from '../billing/index.ts';
import {
  arrayItemsOf,
  endsResponse,
  endTypeOf,
  membersOf,
  parsedJson,
  responseEventOf,
  type ResponseParts,
  responsePartsOf,
  withMembers,
} from '../dialect/index.ts';
import { HeadraceError } from '../errors.ts';
import type { DetachedExchange, ResponseSink } from '../ingress/detached-exchange.ts';
import { type Exchange, isEventStream } from '../ingress/exchange.ts';
import { EventSplitter, splitEvents } from '../net/sse.ts';
import { unreadError } from '../upstream/index.ts';
import { numberedEvent } from './numbered-event.ts';
import { isEnd, itemIdsIn, type ResponseOrigin, statusOf } from './response-recorder.ts';
import type { StoredResponses } from './stored-responses.ts';

/** Pause between two batches of events on their way to the store. */
const FLUSH_MS = 20;
const FLUSH_BYTES = 32 * 1024;

/** Answers that are no response: errors of servers and of the gateway. */
const REFUSAL_BYTES = 64 * 1024;

const OK = 200;
const COMMENT = 0x3a;

/** A client that gets the events as they come. */
export interface LiveFollower {
  push(event: Buffer, number: number): void;
  comment(bytes: Buffer): void;
  /** Nothing more will come. */
  finish(): void;
  /** It has stopped; how it ended is in the store. */
  stopped(): void;
}

export interface BackgroundDeps {
  readonly store: Pick<StoredResponses, 'begin' | 'end' | 'events' | 'progress' | 'stopped'>;
  readonly clock: Clock;
  /** Milliseconds since 1970. */
  readonly epochMs: () => number;
  readonly maxBytes: number;
}

export interface BackgroundRequest {
  readonly key: ResponseKey;
  /** The response object as it is queued. */
  readonly queued: Buffer;
  /** Its events are kept. */
  readonly hasEvents: boolean;
}

/** What becomes of the request: `begun` or `refused` is called, once, and behind `begun` one of the last two, once. */
export interface BackgroundHooks {
  /** It is admitted and stored: it runs from now on. */
  begun(): void;
  /** It was answered before that, with an error. */
  refused(exchange: DetachedExchange, body: Buffer): void;
  /** It has ended by itself, and its end is on its way to the store. */
  ended(): void;
  /** The store has output that whoever polls it gets. */
  delivered(): void;
  /** It has ended without. */
  undelivered(): void;
}

/** Background responses of this thread, by the exchange in which they run. */
const RUNS = new WeakMap<Exchange, BackgroundResponse>();

/** The background response that runs in an exchange. */
export function backgroundOf(exchange: Exchange): BackgroundResponse | undefined {
  return RUNS.get(exchange);
}

/** `waiting`: for admission. `asking`: for its place in the store. */
type State = 'waiting' | 'asking' | 'running' | 'ended';

export class BackgroundResponse implements ResponseSink {
  readonly #deps: BackgroundDeps;
  readonly #request: BackgroundRequest;
  readonly #hooks: BackgroundHooks;
  readonly #splitter: EventSplitter;
  readonly #live = new Set<LiveFollower>();
  #exchange: DetachedExchange | null = null;
  #state: State = 'waiting';
  /** The newest response object. */
  #object: Buffer;
  #previous: string | null = null;
  /** An answer that is no stream. */
  #parts: Buffer[] = [];
  #partBytes = 0;
  /** An event, or an answer that is no stream, was longer than what is kept. */
  #isTooLong = false;
  /** What the server said in an error event, behind which it may send no end. */
  #error: readonly [code: string, message: string] | null = null;
  #number = 0;
  #batch: { readonly first: number; last: number; data: string } | null = null;
  #keptBytes = 0;
  #timer: TimerHandle | null = null;

  constructor(deps: BackgroundDeps, request: BackgroundRequest, hooks: BackgroundHooks) {
    this.#deps = deps;
    this.#request = request;
    this.#hooks = hooks;
    this.#object = request.queued;
    this.#splitter = new EventSplitter({ maxHeldBytes: deps.maxBytes });
  }

  /** The exchange in which it is going to run. */
  runIn(exchange: DetachedExchange): void {
    this.#exchange = exchange;
    RUNS.set(exchange, this);
  }

  /** The request is admitted: `proceed` is called when the response is in the store, `refuse` when it cannot be. */
  begin(origin: ResponseOrigin, proceed: () => void, refuse: (thrown: unknown) => void): void {
    const { epochMs, store } = this.#deps;
    const { hasEvents, key, queued } = this.#request;
    const parts = responsePartsOf(queued) as ResponseParts;
    this.#state = 'asking';
    this.#previous = origin.previous;
    const record = {
      ...{ ...key, createdMs: Math.floor(epochMs()), status: 'queued' as const, model: origin.model },
      ...{
        previous: origin.previous,
        input: origin.input(),
        output: '[]',
        response: parts.rest,
        items: [],
      },
    } as const;
    store
      .begin(record, hasEvents, () => this.#cancelled())
      .then(() => {
        // It may have been refused meanwhile, by a shutdown.
        const isOver = this.#state !== 'asking';
        this.#state = 'running';
        if (isOver) {
          this.#fail('server_error', new HeadraceError('HR_DRAINING').message);
          return;
        }
        this.#hooks.begun();
        this.#emit('response.created', null, queued);
        this.#emit('response.queued', null, queued);
        proceed();
      })
      .catch(refuse);
  }

  /** Pushes the events that come from now on. */
  follow(follower: LiveFollower): void {
    if (this.#state === 'ended') follower.finish();
    else this.#live.add(follower);
  }

  unfollow(follower: LiveFollower): void {
    this.#live.delete(follower);
  }

  piece(chunk: Uint8Array): boolean {
    const bytes = Buffer.from(chunk);
    if (this.#state !== 'running' || !this.#streams) {
      this.#collect(bytes);
      return true;
    }
    const whole = this.#splitter.push(bytes);
    this.#isTooLong ||= this.#splitter.midEvent;
    if (whole === undefined) return true;
    for (const event of splitEvents(whole)) {
      if (this.#isRunning) this.#event(event);
    }
    return true;
  }

  end(): void {
    const body = Buffer.concat(this.#parts);
    if (this.#state === 'waiting' || this.#state === 'asking') {
      this.#state = 'ended';
      this.#hooks.refused(this.#exchange as DetachedExchange, body);
      return;
    }
    if (this.#state === 'ended') return;
    const { status = 0 } = this.#exchange ?? {};
    if (status === OK && this.#isTooLong) this.#failAsTooLarge();
    else if (status === OK && !this.#streams) this.#finish(endTypeOf(membersIn(body)['status']), body);
    else if (status === OK) this.#failWith('HR_STREAM_TRUNCATED');
    else this.#fail(...this.#refusalIn(body, status));
  }

  broken(): void {
    if (this.#state === 'running') this.#failWith('HR_STREAM_BROKEN');
    else if (this.#state !== 'ended') this.end();
  }

  get #streams(): boolean {
    return this.#exchange?.status === OK && isEventStream(this.#exchange.answerHeaders);
  }

  get #isRunning(): boolean {
    return this.#state === 'running';
  }

  #collect(bytes: Buffer): void {
    const most = this.#exchange?.status === OK ? this.#deps.maxBytes : REFUSAL_BYTES;
    this.#partBytes += bytes.byteLength;
    if (this.#partBytes <= most) this.#parts.push(bytes);
    else this.#isTooLong = true;
  }

  #event(bytes: Buffer): void {
    const event = responseEventOf(bytes);
    if (event === null) {
      if (bytes[0] === COMMENT) for (const follower of this.#live) follower.comment(bytes);
      return;
    }
    const { json, response } = event;
    const type = event.type === '' && isError(bytes, json) ? 'error' : event.type;
    if (endsResponse(type)) {
      this.#finish(type, response ?? json);
      return;
    }
    if (type === 'error') this.#error = errorIn(json);
    // The client has had these two.
    if (type === 'response.created' || type === 'response.queued') return;
    if (response !== null && responsePartsOf(response) !== null) {
      this.#object = this.#own(response);
      const parts = responsePartsOf(this.#object);
      if (parts !== null) this.#deps.store.progress(this.#request.key, parts.rest);
      this.#emit(type, json, this.#object);
      return;
    }
    this.#emit(type, json, null);
  }

  /** A response object of the server as one of the gateway. */
  #own(response: Buffer): Buffer {
    const previous = JSON.stringify(this.#previous);
    const id = JSON.stringify(this.#request.key.id);
    return withMembers(response, { id, background: 'true', previous_response_id: previous, store: 'true' });
  }

  /** The event that ends the response. Without a response object of its own, what is known so far has failed. */
  #finish(type: string, response: Buffer): void {
    const parts = responsePartsOf(response);
    if (parts === null) {
      this.#fail(...errorIn(response));
      return;
    }
    const own = this.#own(response);
    // Who polls would go on for ever.
    const object = isEnd(parts.status) ? own : withMembers(own, { status: JSON.stringify(type.replace(/^.*\./, '')) });
    if (object.byteLength > this.#deps.maxBytes) {
      this.#failAsTooLarge();
      return;
    }
    this.#over(type, object);
  }

  #failWith(code: 'HR_STREAM_BROKEN' | 'HR_STREAM_TRUNCATED'): void {
    this.#fail(...(this.#error ?? (['server_error', new HeadraceError(code).message] as const)));
  }

  /** Code and message of an error answer, whichever form it has. */
  #refusalIn(body: Buffer, status: number): [code: string, message: string] {
    const members = membersIn(body);
    const { code, message = members['message'] ?? members['detail'] } = membersOf(members['error']);
    return [
      typeof code === 'string' ? code : this.#exchange?.errorCode || 'server_error',
      typeof message === 'string' ? message : unreadError(status),
    ];
  }

  #failAsTooLarge(): void {
    this.#fail('response_too_large', `The response is larger than ${this.#deps.maxBytes} bytes`);
  }

  #fail(code: string, message: string): void {
    const error = JSON.stringify({ code, message });
    this.#over('response.failed', withMembers(this.#object, { status: '"failed"', error }));
  }

  #over(type: string, object: Buffer): void {
    this.#object = object;
    this.#emit(type, null, object, true);
    this.#state = 'ended';
    this.#flush();
    const { output, rest, status } = responsePartsOf(object) as ResponseParts;
    const hasOutput = type !== 'response.failed' || arrayItemsOf(Buffer.from(output)).length > 0;
    const { account, id } = this.#request.key;
    const end = { account, id, status: statusOf(status), output, response: rest, items: itemIdsIn(output) };
    this.#hooks.ended();
    // A cancel may have come to the store before this, by another thread or another gateway.
    this.#deps.store.end(end, (counts) => {
      if (counts && hasOutput) this.#hooks.delivered();
      else this.#hooks.undelivered();
    });
    for (const follower of this.#live) follower.finish();
    this.#live.clear();
  }

  /** It was cancelled, deleted or failed by somebody else; the store knows. */
  #cancelled(): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#hooks.undelivered();
    this.#flush();
    this.#deps.store.stopped(this.#request.key);
    for (const follower of this.#live) follower.stopped();
    this.#live.clear();
    this.#exchange?.leave();
  }

  /** Sends an event with its number, and with this response object if it has one. `json`: its data; null: none yet. */
  #emit(type: string, json: Buffer | null, response: Buffer | null, isLast = false): void {
    const number = this.#number++;
    if (!this.#request.hasEvents) return;
    const text = numberedEvent(type, json, number, response === null ? null : response.toString());
    const bytes = Buffer.from(text);
    for (const follower of this.#live) follower.push(bytes, number);
    // Beyond the bound only the last event is kept: it has the whole response.
    this.#keptBytes += bytes.byteLength;
    if (this.#keptBytes > this.#deps.maxBytes && !isLast) return;
    if (this.#batch !== null && this.#batch.last !== number - 1) this.#flush();
    if (this.#batch === null) this.#batch = { first: number, last: number, data: text };
    else {
      this.#batch.data += text;
      this.#batch.last = number;
    }
    if (this.#batch.data.length >= FLUSH_BYTES) this.#flush();
    else this.#timer ??= this.#deps.clock.setTimeout(this.#due, FLUSH_MS);
  }

  readonly #due = (): void => {
    this.#timer = null;
    this.#flush();
  };

  #flush(): void {
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#batch !== null) this.#deps.store.events({ ...this.#request.key, ...this.#batch });
    this.#batch = null;
  }
}

/** Whether an event is an error, without a type in its data: by its name, or as servers of chat completions write it. */
function isError(event: Buffer, json: Buffer): boolean {
  const { error } = membersIn(json);
  return NAMED_ERROR.test(event.toString('latin1', 0, 16)) || (typeof error === 'object' && error !== null);
}

const NAMED_ERROR = /^event: ?error[\r\n]/;

/** Code and message of the error in a response object, or in an error event. */
function errorIn(json: Buffer): [code: string, message: string] {
  const members = membersIn(json);
  const { error } = members;
  const { code, message } = (typeof error === 'object' && error !== null ? error : members) as Record<string, unknown>;
  return [
    typeof code === 'string' ? code : 'server_error',
    typeof message === 'string' ? message : 'The server failed',
  ];
}

function membersIn(json: Buffer): Readonly<Record<string, unknown>> {
  return membersOf(parsedJson(json.toString()));
}
