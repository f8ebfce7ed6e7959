// An API server of Kubernetes on loopback that speaks list and watch for EndpointSlices and pods: pages, label selectors, resource
// versions, bookmarks, 410 Gone, tokens, and faults that a test orders.

import { EventEmitter, once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { temporaryFolder } from './temporary-folder.ts';

export interface KubernetesObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly resourceVersion?: string;
  };
}

type Kind = 'endpointslices' | 'pods';

interface Event {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly kind: Kind;
  readonly version: number;
  readonly object: KubernetesObject;
  readonly before: KubernetesObject | undefined;
}

interface Watch {
  readonly kind: Kind;
  readonly selector: string;
  readonly response: ServerResponse;
}

export interface Pod {
  readonly name: string;
  readonly uid?: string;
  readonly address: string;
  readonly ready?: boolean | null;
  readonly serving?: boolean;
  readonly terminating?: boolean;
}

/** An EndpointSlice of a service as its controller makes them. */
export function sliceOf(
  name: string,
  service: string,
  pods: readonly Pod[],
  {
    addressType = 'IPv4',
    labels = {},
    ports = [{ name: 'http', port: 8000, protocol: 'TCP' }],
  }: { addressType?: string; labels?: Readonly<Record<string, string>>; ports?: readonly object[] | null } = {},
): KubernetesObject {
  const object = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name, namespace: 'default', labels: { ...labels, 'kubernetes.io/service-name': service } },
    addressType,
    ports,
    endpoints: pods.map(
      ({ address, name, ready = true, serving = ready === true, terminating = false, uid = `uid-${name}` }) => ({
        addresses: [address],
        conditions: ready === null ? {} : { ready, serving, terminating },
        targetRef: { kind: 'Pod', namespace: 'default', name, uid },
      }),
    ),
  };
  return object;
}

export function podOf(name: string, labels: Readonly<Record<string, string>>, uid = `uid-${name}`): KubernetesObject {
  return { metadata: { name, namespace: 'default', uid, labels } };
}

export class FakeKubernetes {
  /** Base URL of the API server. */
  url = '';
  /** What stands before all paths, as behind a proxy of several clusters. */
  prefix = '';
  /** Folder of the service account. */
  readonly account: string;
  /** Path and query of each request, in order. */
  readonly asked: string[] = [];
  readonly accepted: string[] = [];
  /** The token that is accepted; null: any or none. */
  token: string | null = null;
  /** Whether lists are pages without objects, and without an end. */
  isEndless = false;
  /** Whether lists are not answered. */
  holdsLists = false;
  /** Lists that wait for their answer. */
  readonly heldLists = new Set<ServerResponse>();
  /** Answers the next requests of this kind with a status in place of an answer. */
  readonly refusals: { readonly watch: boolean; readonly status: number; readonly retryAfter?: number }[] = [];
  /** Lists and watches with an older version are gone. */
  oldest = 0;
  #version = 100;
  readonly #objects = {
    endpointslices: new Map<string, KubernetesObject>(),
    pods: new Map<string, KubernetesObject>(),
  };
  readonly #history: Event[] = [];
  readonly #watches = new Set<Watch>();
  readonly #events = new EventEmitter();
  readonly #server: Server;

  constructor(t: Test, tls?: { readonly cert: string; readonly key: string }) {
    this.account = temporaryFolder(t);
    this.write('namespace', 'default');
    this.write('token', 'first');
    const onRequest = (request: IncomingMessage, response: ServerResponse): void => this.#serve(request, response);
    this.#server = tls === undefined ? createServer(onRequest) : createTlsServer(tls, onRequest);
    t.teardown(() => {
      this.#server.close();
      this.#server.closeAllConnections();
    });
  }

  async listen(): Promise<this> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const scheme = 'setSecureContext' in this.#server ? 'https' : 'http';
    this.url = `${scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  /** Writes a file of the service account. */
  write(name: string, text: string): void {
    writeFileSync(`${this.account}/${name}`, text);
  }

  get version(): number {
    return this.#version;
  }

  /** Watches that are open. */
  get watches(): number {
    return this.#watches.size;
  }

  /** Waits until so many watches are open. */
  async watched(count = 1): Promise<void> {
    while (this.#watches.size < count) await once(this.#events, 'watch');
  }

  /** Waits for a request from now on. */
  async requested(): Promise<void> {
    await once(this.#events, 'request');
  }

  /** Adds or changes an object, and tells the watches that select it. */
  put(object: KubernetesObject, kind: Kind = 'endpointslices'): void {
    const { name } = object.metadata;
    const before = this.#objects[kind].get(name);
    const version = ++this.#version;
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    this.#objects[kind].set(name, stored);
    this.#tell({ type: before === undefined ? 'ADDED' : 'MODIFIED', kind, version, object: stored, before });
  }

  delete(name: string, kind: Kind = 'endpointslices'): void {
    const before = this.#objects[kind].get(name);
    if (before === undefined) return;
    const version = ++this.#version;
    this.#objects[kind].delete(name);
    const object = { ...before, metadata: { ...before.metadata, resourceVersion: String(version) } };
    this.#tell({ type: 'DELETED', kind, version, object, before });
  }

  /** Sends a bookmark to all watches. Default: of the present version. */
  bookmark(version = this.#version): void {
    const object = { kind: 'EndpointSlice', metadata: { resourceVersion: String(version) } };
    this.send(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
  }

  /** Sends an error event, and ends the watches, as API servers do. */
  fail(code: number): void {
    this.send(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', status: 'Failure', code } })}\n`);
    this.end();
  }

  /** Sends text to all watches as it is. */
  send(text: string | Buffer): void {
    for (const { response } of this.#watches) response.write(text);
  }

  /** Gives both sides the turns of the event loop in which they write and read what is under way. */
  async written(): Promise<void> {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => void setImmediate(resolve));
  }

  /** Ends the watches, as after their time. */
  end(): void {
    for (const { response } of this.#watches) response.end();
    this.#watches.clear();
  }

  /** Cuts the connections of the watches. */
  cut(): void {
    for (const { response } of this.#watches) response.destroy();
    this.#watches.clear();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://api');
    this.asked.push(request.url ?? '');
    this.accepted.push(request.headers.accept ?? '');
    const isWatch = searchParams.get('watch') === '1';
    const kind =
      /^\/apis\/discovery\.k8s\.io\/v1\/namespaces\/default\/(endpointslices)$|^\/api\/v1\/namespaces\/default\/(pods)$/.exec(
        pathname.startsWith(this.prefix) ? pathname.slice(this.prefix.length) : '',
      );
    const at = this.refusals.findIndex(({ watch }) => watch === isWatch);
    const [refusal] = at < 0 ? [] : this.refusals.splice(at, 1);
    if (refusal !== undefined) refuse(response, refusal.status, refusal.retryAfter);
    else if (this.token !== null && request.headers.authorization !== `Bearer ${this.token}`) refuse(response, 401);
    else if (kind === null) refuse(response, 404);
    else if (isWatch) this.#watch((kind[1] ?? kind[2]) as Kind, searchParams, response);
    else this.#list((kind[1] ?? kind[2]) as Kind, searchParams, response);
    this.#events.emit('request');
  }

  #list(kind: Kind, query: URLSearchParams, response: ServerResponse): void {
    if (this.holdsLists) {
      this.heldLists.add(response);
      response.on('close', () => this.heldLists.delete(response));
      return;
    }
    const limit = Number(query.get('limit') ?? Infinity);
    const [version = String(this.#version), from = '0'] = query.get('continue')?.split('/') ?? [];
    if (Number(version) < this.oldest) {
      refuse(response, 410);
      return;
    }
    const all = [...this.#objects[kind].values()].filter((object) => matches(object, query.get('labelSelector') ?? ''));
    const start = Number(from);
    const next = this.isEndless || start + limit < all.length ? `${version}/${start + limit}` : undefined;
    response.writeHead(200, { 'content-type': 'application/json' });
    const metadata = { resourceVersion: version, ...(next !== undefined && { continue: next }) };
    response.end(
      JSON.stringify({ kind: 'List', metadata, items: this.isEndless ? [] : all.slice(start, start + limit) }),
    );
  }

  #watch(kind: Kind, query: URLSearchParams, response: ServerResponse): void {
    const from = Number(query.get('resourceVersion'));
    if (from < this.oldest) {
      refuse(response, 410);
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const watch = { kind, selector: query.get('labelSelector') ?? '', response };
    for (const event of this.#history) if (event.version > from) write(watch, event);
    this.#watches.add(watch);
    response.on('close', () => this.#watches.delete(watch));
    this.#events.emit('watch');
  }

  #tell(event: Event): void {
    this.#history.push(event);
    for (const watch of this.#watches) write(watch, event);
  }
}

/** An object that comes to match is added for the watch, one that no longer matches is deleted. */
function write({ kind, response, selector }: Watch, event: Event): void {
  if (event.kind !== kind) return;
  const was = event.before !== undefined && matches(event.before, selector);
  const is = event.type !== 'DELETED' && matches(event.object, selector);
  if (!was && !is) return;
  const type = !was ? 'ADDED' : is ? 'MODIFIED' : 'DELETED';
  response.write(`${JSON.stringify({ type, object: event.object })}\n`);
}

/** Requirements of equality, separated by commas. */
function matches({ metadata: { labels = {} } }: KubernetesObject, selector: string): boolean {
  if (selector === '') return true;
  return selector.split(',').every((requirement) => {
    const [name = '', value] = requirement.split('=');
    return labels[name] === value;
  });
}

function refuse(response: ServerResponse, code: number, retryAfter?: number): void {
  response.writeHead(code, {
    'content-type': 'application/json',
    ...(retryAfter !== undefined && { 'retry-after': String(retryAfter) }),
  });
  response.end(JSON.stringify({ kind: 'Status', status: 'Failure', code }));
}
