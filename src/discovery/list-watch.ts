// Keeps a copy of the objects of one kind in one namespace of Kubernetes: lists them in pages, then watches their changes from the
// version of the list on. A watch that ends goes on where it was; one that is too old (410 Gone) begins with a new list. What is
// known stays while the API server cannot be reached.

import type { Behavior, Context } from '../actor/index.ts';
import { parseJson } from '../config/json-text.ts';
import { messageOf } from '../errors.ts';
import { joinedSignal } from '../net/abortable.ts';
import { DispatchError } from '../net/client.ts';
import { errorReason } from '../routing/index.ts';
import type { ApiAnswer, KubernetesApi } from './kubernetes-api.ts';
import { Backoff } from './source.ts';

export interface ListWatchSettings<Item> {
  /** Path below `/api` or `/apis`, with `{namespace}`. */
  readonly path: string;
  /** Label selector; '' for all objects. */
  readonly selector: string;
  /** Without one that of the pod. */
  readonly namespace: string | undefined;
  /** Whether names and labels of objects are enough. */
  readonly metadataOnly: boolean;
  /** What is kept of an object; null when it makes no sense. */
  readonly read: (object: Readonly<Record<string, unknown>>) => Item | null;
  /** More objects than this are a failure. */
  readonly mostItems: number;
}

export interface ListWatchDeps<Item> {
  readonly api: KubernetesApi;
  /** The objects by their names, complete and up to date as far as the API server has told; also when nothing has changed. */
  readonly onItems: (items: ReadonlyMap<string, Item>) => void;
  readonly onFailure: (problem: string) => void;
}

type Command<Item> =
  | { readonly type: 'List' }
  | { readonly type: 'Listed'; readonly list: List<Item> }
  | { readonly type: 'Watch' }
  | { readonly type: 'Started' }
  | { readonly type: 'Received' }
  | { readonly type: 'Ended'; readonly answer: ApiAnswer }
  | { readonly type: 'Failed'; readonly problem: Problem }
  | { readonly type: 'Silent' }
  | { readonly type: 'Publish' };

interface List<Item> {
  readonly version: string;
  readonly items: Map<string, Item>;
}

/** Objects of one page, as client-go and kubectl ask for. */
const PAGE = 500;
/** An API server may answer pages without objects, but a list must end. */
const MOST_PAGES = 1000;
const MAX_PAGE_BYTES = 32 * 1024 * 1024;
const LIST_TIMEOUT_MS = 30_000;
/** Largest event: an EndpointSlice with 1,000 endpoints, the most that there may be, has half a MiB. */
const MAX_EVENT_BYTES = 4 * 1024 * 1024;
const MAX_STATUS_BYTES = 256 * 1024;
/** Time after which the API server ends a watch, spread so that gateways do not come back in step. */
const WATCH_S = 120;
/** A watch that has not ended by then is silent because its connection is dead. */
const SILENT_MS = 15_000;
/** A watch that ends sooner is tried again with a wait. */
const SHORT_WATCH_MS = 1000;
/** The longest wait that an API server may ask for: pages of proxies ask for hours, in which pods come and go. */
const LONGEST_ASKED_MS = 60_000;
/** Changes within this time are told together. */
const TOGETHER_MS = 20;

/** What follows from a failure. `expired`: the version is too old. `lost`: events may be lost. Both need a new list. */
type Consequence = 'again' | 'expired' | 'lost';

class Problem extends Error {
  override readonly name = 'Problem';
  readonly consequence: Consequence;
  /** Shortest wait before the next try. */
  readonly retryAfterMs: number;

  constructor(message: string, consequence: Consequence = 'again', retryAfterMs = 0) {
    super(message);
    this.consequence = consequence;
    this.retryAfterMs = Math.min(retryAfterMs, LONGEST_ASKED_MS);
  }
}

/** Makes the behaviour of the actor. */
export function listWatch<Item>(settings: ListWatchSettings<Item>, deps: ListWatchDeps<Item>): Behavior<Command<Item>> {
  return (context) => {
    const state = new ListWatch(settings, deps, context);
    state.receive({ type: 'List' });
    return {
      receive: (command) => {
        state.receive(command);
      },
      signal: () => state.close(),
    };
  };
}

class ListWatch<Item> {
  readonly #settings: ListWatchSettings<Item>;
  readonly #deps: ListWatchDeps<Item>;
  readonly #context: Context<Command<Item>>;
  readonly #backoff: Backoff;
  #items = new Map<string, Item>();
  /** Events that wait for their turn. */
  readonly #lines: Buffer[] = [];
  #version = '';
  #watchedMs = 0;
  /** Why the present watch cannot go on. */
  #broken: Problem | null = null;
  #abort: AbortController | null = null;
  readonly #closing = new AbortController();

  constructor(settings: ListWatchSettings<Item>, deps: ListWatchDeps<Item>, context: Context<Command<Item>>) {
    this.#settings = settings;
    this.#deps = deps;
    this.#context = context;
    this.#backoff = new Backoff(context.random);
  }

  close(): void {
    this.#closing.abort();
    this.#abort?.abort();
    this.#abort = null;
  }

  receive(command: Command<Item>): void {
    switch (command.type) {
      case 'List':
        this.#list();
        break;
      case 'Listed':
        this.#listed(command.list);
        break;
      case 'Watch':
        this.#watch();
        break;
      case 'Started':
        // The API server answers again: what is known is up to date as soon as it has sent what it has.
        this.#publishSoon();
        break;
      case 'Received':
        this.#received();
        break;
      case 'Ended':
        this.#ended(command.answer);
        break;
      case 'Failed':
        this.#failed(command.problem);
        break;
      case 'Silent':
        this.#abort?.abort(new Problem('the watch is silent: its connection is taken for dead'));
        break;
      case 'Publish':
        this.#deps.onItems(this.#items);
        break;
    }
  }

  #list(): void {
    this.#context.pipe(
      this.#readPages(),
      (list) => ({ type: 'Listed', list }),
      (error) => ({ type: 'Failed', problem: problemOf(error) }),
    );
  }

  /** Each page is read as it comes: what is kept of an object is a small part of it. */
  async #readPages(): Promise<List<Item>> {
    const { mostItems } = this.#settings;
    const kept = new Map<string, Item>();
    let count = 0;
    let next = '';
    for (let page = 0; page < MOST_PAGES; page++) {
      const query = `limit=${PAGE}${next === '' ? '' : `&continue=${encodeURIComponent(next)}`}`;
      const path = await this.#path(query);
      const { release, signal } = joinedSignal(this.#closing.signal, AbortSignal.timeout(LIST_TIMEOUT_MS));
      const request = { path, accept: this.#accept('List'), signal, maxBytes: MAX_PAGE_BYTES };
      const answer = await this.#deps.api.request(request).finally(release);
      if (answer.status !== 200) throw refusal(answer);
      const { items, metadata } = readPage(answer.body);
      count += items.length;
      if (count > mostItems) throw new Problem(tooMany(mostItems));
      for (const item of items) this.#put(item, kept);
      next = metadata.continue ?? '';
      if (next === '') return { version: metadata.resourceVersion ?? '', items: kept };
    }
    throw new Problem(`answered a list of more than ${MOST_PAGES} pages`);
  }

  #listed({ items, version }: List<Item>): void {
    // The waits stay as long as they are until a watch has lasted: a list whose version no watch takes would be read again at once.
    this.#items = items;
    this.#version = version;
    this.#context.timers.cancel('publish');
    this.#deps.onItems(this.#items);
    this.#watch();
  }

  #watch(): void {
    const { context, deps } = { context: this.#context, deps: this.#deps };
    const seconds = Math.round(WATCH_S * (0.75 + 0.5 * context.random()));
    const abort = new AbortController();
    this.#abort = abort;
    this.#watchedMs = context.clock.now();
    this.#lines.length = 0;
    this.#broken = null;
    const query =
      `watch=1&allowWatchBookmarks=true&timeoutSeconds=${seconds}` +
      `&resourceVersion=${encodeURIComponent(this.#version)}`;
    const lines = new Lines((line) => {
      this.#lines.push(line);
      if (this.#lines.length === 1) context.self.tell({ type: 'Received' });
    });
    const ask = async (): Promise<ApiAnswer> =>
      deps.api.request({
        path: await this.#path(query),
        accept: this.#accept('Event'),
        signal: abort.signal,
        maxBytes: MAX_STATUS_BYTES,
        onStart: () => context.self.tell({ type: 'Started' }),
        onData: (piece) => {
          if (!lines.add(piece)) abort.abort(new Problem(`an event is longer than ${MAX_EVENT_BYTES} bytes`, 'lost'));
        },
      });
    context.timers.once('silent', seconds * 1000 + SILENT_MS, { type: 'Silent' });
    context.pipe(
      ask(),
      (answer) => ({ type: 'Ended', answer }),
      (error) => ({ type: 'Failed', problem: problemOf(error) }),
    );
  }

  /** Works on the events that have come, up to one that cannot be worked on. */
  #received(): void {
    for (const line of this.#lines.splice(0)) {
      this.#broken ??= this.#apply(line);
      if (this.#broken === null) continue;
      this.#abort?.abort(this.#broken);
      return;
    }
  }

  /** Applies one event. Returns why the watch cannot go on. */
  #apply(line: Buffer): Problem | null {
    let event: { readonly type?: unknown; readonly object?: unknown } | null;
    try {
      event = parseJson(line.toString()) as typeof event;
    } catch {
      return new Problem('sent an event that is not JSON', 'lost');
    }
    const { object, type } = event ?? {};
    if (type === 'ERROR') return errorOf(object);
    const version = metadataOf(object).resourceVersion;
    if (typeof version !== 'string') return new Problem('sent an event without a resourceVersion', 'lost');
    // What is older than the copy has been seen.
    if (isOlder(version, this.#version)) return null;
    this.#version = version;
    if (type === 'ADDED' || type === 'MODIFIED') {
      this.#put(object, this.#items);
      if (this.#items.size > this.#settings.mostItems) {
        return new Problem(tooMany(this.#settings.mostItems), 'lost');
      }
    } else if (type === 'DELETED') {
      this.#items.delete(String(metadataOf(object).name));
    }
    this.#publishSoon();
    return null;
  }

  #put(object: unknown, items: Map<string, Item>): void {
    const { name } = metadataOf(object);
    if (typeof name !== 'string') return;
    const item = this.#settings.read(object as Readonly<Record<string, unknown>>);
    if (item === null) items.delete(name);
    else items.set(name, item);
  }

  #publishSoon(): void {
    if (!this.#context.timers.has('publish')) this.#context.timers.once('publish', TOGETHER_MS, { type: 'Publish' });
  }

  /** The API server has ended the watch, or refused it. */
  #ended(answer: ApiAnswer): void {
    this.#received();
    const problem = answer.status === 200 ? this.#broken : refusal(answer);
    if (problem !== null) {
      this.#failed(problem);
      return;
    }
    this.#leaveWatch();
    const lastedMs = this.#context.clock.now() - this.#watchedMs;
    if (lastedMs >= SHORT_WATCH_MS) this.#backoff.reset();
    this.#again('Watch', lastedMs >= SHORT_WATCH_MS ? 0 : this.#backoff.next());
  }

  #failed(problem: Problem): void {
    this.#received();
    const { consequence, message, retryAfterMs } = this.#broken ?? problem;
    const isWatch = this.#abort !== null;
    this.#leaveWatch();
    // What came before the failure is told before it.
    if (this.#context.timers.has('publish')) {
      this.#context.timers.cancel('publish');
      this.#deps.onItems(this.#items);
    }
    // That the version of a watch is too old is a part of the protocol, and no failure.
    if (consequence !== 'expired' || !isWatch) this.#deps.onFailure(message);
    if (isWatch && this.#context.clock.now() - this.#watchedMs >= SHORT_WATCH_MS) this.#backoff.reset();
    this.#again(isWatch && consequence === 'again' ? 'Watch' : 'List', this.#backoff.next(retryAfterMs));
  }

  #leaveWatch(): void {
    this.#abort = null;
    this.#broken = null;
    this.#context.timers.cancel('silent');
  }

  #again(type: 'List' | 'Watch', delayMs: number): void {
    this.#context.timers.once('again', delayMs, { type });
  }

  async #path(query: string): Promise<string> {
    const { namespace = await this.#deps.api.namespace(), path, selector } = this.#settings;
    const filter = selector === '' ? '' : `&labelSelector=${encodeURIComponent(selector)}`;
    return `${path.replace('{namespace}', encodeURIComponent(namespace))}?${query}${filter}`;
  }

  #accept(what: 'List' | 'Event'): string {
    if (!this.#settings.metadataOnly) return 'application/json';
    const kind = what === 'List' ? 'PartialObjectMetadataList' : 'PartialObjectMetadata';
    return `application/json;as=${kind};g=meta.k8s.io;v=v1,application/json`;
  }
}

interface Metadata {
  readonly name?: unknown;
  readonly resourceVersion?: unknown;
}

function tooMany(most: number): string {
  return `there are more than ${most} objects; name a service or a narrower selector`;
}

function metadataOf(object: unknown): Metadata {
  const { metadata } = (object ?? {}) as { readonly metadata?: Metadata | null };
  return metadata ?? {};
}

interface Page {
  readonly items: readonly unknown[];
  readonly metadata: { readonly resourceVersion?: string; readonly continue?: string };
}

function readPage(body: Buffer): Page {
  let page: { readonly items?: unknown; readonly metadata?: Page['metadata'] | null } | null;
  try {
    page = parseJson(body.toString()) as typeof page;
  } catch {
    throw new Problem('answered with a list that is not JSON');
  }
  const { items, metadata } = page ?? {};
  // A list without objects is null in some versions.
  if (metadata == null || (items != null && !Array.isArray(items)))
    throw new Problem('answered with something else than a list');
  return { items: (items as readonly unknown[] | null) ?? [], metadata };
}

/** Versions are opaque, but where both are numbers the order is known (KEP-5504). */
function isOlder(version: string, than: string): boolean {
  const numbers = /^\d{1,19}$/;
  return numbers.test(version) && numbers.test(than) && BigInt(version) < BigInt(than);
}

const ADVICE: Readonly<Record<number, string>> = {
  401: ': the token of the service account is not accepted',
  403: ': the service account needs a Role that allows get, list and watch of this resource',
  404: ': there is no such resource at this API server',
  410: ': the version is too old',
  429: ': too many requests',
};

function refusal({ retryAfterMs, status }: ApiAnswer): Problem {
  return new Problem(
    `the API server answered ${status}${ADVICE[status] ?? ''}`,
    status === 410 ? 'expired' : 'again',
    retryAfterMs,
  );
}

/** Of an event of type ERROR, which carries a Status. */
function errorOf(object: unknown): Problem {
  const { code, details } = (object ?? {}) as {
    readonly code?: unknown;
    readonly details?: { readonly retryAfterSeconds?: unknown } | null;
  };
  const status = typeof code === 'number' ? code : 0;
  const seconds = Number(details?.retryAfterSeconds ?? 0);
  const retryAfterMs = seconds > 0 ? seconds * 1000 : 0;
  const consequence = status === 410 ? 'expired' : 'lost';
  return new Problem(`the watch ended with error ${status}${ADVICE[status] ?? ''}`, consequence, retryAfterMs);
}

function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  // A list ends with its time; a watch has none.
  if (error instanceof DispatchError || (error instanceof Error && error.name === 'TimeoutError'))
    return new Problem(`the API server cannot be reached (${errorReason(error, LIST_TIMEOUT_MS)})`);
  return new Problem(messageOf(error));
}

/** Cuts a stream of bytes into lines. */
class Lines {
  readonly #onLine: (line: Buffer) => void;
  #pieces: Buffer[] = [];
  #bytes = 0;

  constructor(onLine: (line: Buffer) => void) {
    this.#onLine = onLine;
  }

  /** False when the present line is too long. */
  add(piece: Buffer): boolean {
    let from = 0;
    for (let end = piece.indexOf(10); end >= 0; end = piece.indexOf(10, from)) {
      const line = Buffer.concat([...this.#pieces, piece.subarray(from, end)]);
      this.#pieces = [];
      this.#bytes = 0;
      from = end + 1;
      if (line.byteLength > 0) this.#onLine(line);
    }
    if (from < piece.byteLength) {
      this.#pieces.push(Buffer.from(piece.subarray(from)));
      this.#bytes += piece.byteLength - from;
    }
    return this.#bytes <= MAX_EVENT_BYTES;
  }
}
