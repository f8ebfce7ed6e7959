// Links connect the actor systems of two threads over a MessagePort, so that refs work on both sides. Messages of one sender
// stay in order; one frame leaves in a turn of the event loop; unacknowledged entries are bounded by a window, waiting ones
// by `maxQueued`. Table entries end with the refs, watches and asks they serve.

import type { Kernel } from './kernel.ts';
import { ActorRef, actorRef, Ask, AskList, tellUnanswered } from './ref.ts';
import type { OpenAsk, Ref, Watcher } from './ref.ts';
import { kernelOf } from './system.ts';
import type { System } from './system.ts';
import { decodeFrame, encodeFrame, ENDED, isLarge, TELL, UNANSWERED, UNWATCH, WATCH } from './wire.ts';
import type { Address, Entry, Frame, RefCodec, WireRef } from './wire.ts';

/** The part of a `node:worker_threads` MessagePort that a link uses. */
export interface MessagePortLike {
  postMessage(value: unknown, moved?: readonly ArrayBuffer[]): void;
  on(event: 'message', listener: (value: unknown) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  close(): void;
}

export interface LinkOptions {
  /** Messages that may wait for the port; more become dead letters. Default 16 384. */
  readonly maxQueued?: number;
}

export interface LinkStats {
  readonly queued: number;
  readonly exports: number;
  readonly watches: number;
}

/**
 * One side of a connection between two systems. Refs inside messages cross and work on the other side; the ref an
 * actor has over there is a new object every time, so compare them by `path`. Bytes arrive as a `Uint8Array` copy;
 * class instances other than dates, maps, sets, errors and typed arrays arrive as plain objects; functions and symbols
 * cannot travel and make the message a dead letter. Zero may lose its sign, and a key `__proto__` its name.
 */
export interface Link {
  /** Makes an actor reachable from the other side under a name, until it stops. A name used again is replaced. */
  expose<M>(name: string, ref: Ref<M>): void;
  /** The actor the other side exposes under a name, now or by the time a message arrives. */
  ref<M>(name: string): Ref<M>;
  /** Sends what waits, then closes the port: watchers on both sides get `Terminated`, open asks fail. */
  close(): void;
  /** Sizes of its tables: messages waiting, own refs the peer holds, watches in both directions. */
  stats(): LinkStats;
  /** Resolves when the port has closed, from whichever side, also by the end of the other thread. */
  readonly closed: Promise<void>;
}

const DEFAULT_MAX_QUEUED = 16_384;
/** Most unacknowledged entries: what a stalled peer can make the port hold. */
const WINDOW = 8192;
/** Well below the window, so that the sender does not wait; one number acknowledges thousands of entries. */
const ACKNOWLEDGE_EVERY = 2048;

/** Address of no actor of either side: messages to it are dead letters of the peer. */
const NOBODY = 0;

/** Connects `system` with the system at the other end of `port`. Both ends must call it. */
export function link(system: System, port: MessagePortLike, options: LinkOptions = {}): Link {
  return new PortLink(kernelOf(system), port, options.maxQueued ?? DEFAULT_MAX_QUEUED);
}

/** A watch the peer holds on something of this side. */
interface PeerWatch extends Watcher {
  readonly target: ActorRef<never>;
}

class PortLink implements Link, RefCodec {
  readonly kernel: Kernel;
  readonly closed: Promise<void>;
  readonly #port: MessagePortLike;
  readonly #maxQueued: number;
  readonly #exposed = new Map<string, ActorRef<never>>();
  readonly #exports = new Map<number, ActorRef<never>>();
  readonly #exportIds = new Map<ActorRef<never>, number>();
  readonly #watches = new Map<number, RemoteRef<never>>();
  /** Those of `#watches` by address. */
  readonly #watched = new Map<Address, RemoteRef<never>>();
  readonly #peerWatches = new Map<number, PeerWatch>();
  readonly #asks = new AskList();
  readonly #resolveClosed: () => void;
  #queue: Entry[] = [];
  #scheduled = false;
  #underWay = 0;
  #unacknowledged = 0;
  #lastId = 0;
  #open = true;

  constructor(kernel: Kernel, port: MessagePortLike, maxQueued: number) {
    this.kernel = kernel;
    this.#port = port;
    this.#maxQueued = maxQueued;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.closed = promise;
    this.#resolveClosed = resolve;
    port.on('message', (frame) => this.#receive(frame as Frame));
    port.on('close', () => this.#end());
  }

  expose<M>(name: string, ref: Ref<M>): void {
    const target = actorRef(ref);
    this.#exposed.set(name, target);
    target.addWatcher(this.#onExposedEnd);
  }

  ref<M>(name: string): Ref<M> {
    return new RemoteRef<M>(this, name, `link/${name}`);
  }

  close(): void {
    if (!this.#open) return;
    this.#flush();
    this.#port.close();
    this.#end();
  }

  stats(): LinkStats {
    return {
      queued: this.#queue.length,
      exports: this.#exports.size,
      watches: this.#watches.size + this.#peerWatches.size,
    };
  }

  // For its refs

  send(to: RemoteRef<never>, message: unknown): boolean {
    if (!this.#open || this.#queue.length >= this.#maxQueued) {
      this.kernel.deadLetter(to.path, message, this.#open ? 'overflow' : 'stopped');
      return false;
    }
    this.#push([TELL, to.address, message]);
    return true;
  }

  addWatcher(ref: RemoteRef<never>, watcher: Watcher): void {
    if (!this.#open) {
      watcher.terminated(ref);
      return;
    }
    ref.watchers.add(watcher);
    if (ref.watch !== 0) return;
    ref.watch = ++this.#lastId;
    this.#watches.set(ref.watch, ref);
    this.#watched.set(ref.address, ref);
    this.#push([WATCH, ref.address, ref.watch]);
  }

  removeWatcher(ref: RemoteRef<never>, watcher: Watcher): void {
    if (!ref.watchers.delete(watcher) || ref.watchers.size > 0) return;
    this.#unwatched(ref);
    this.#push([UNWATCH, ref.watch]);
    ref.watch = 0;
  }

  /** The ref of the same actor that is watched already: each message brings a new one, and a second link would export all of them. */
  watched(ref: RemoteRef<never>): RemoteRef<never> {
    return this.#watched.get(ref.address) ?? ref;
  }

  #unwatched(ref: RemoteRef<never>): void {
    this.#watches.delete(ref.watch);
    if (this.#watched.get(ref.address) === ref) this.#watched.delete(ref.address);
  }

  addAsk(ask: OpenAsk): void {
    this.#asks.add(ask);
    if (!this.#open) ask.terminated();
  }

  removeAsk(ask: OpenAsk): void {
    this.#asks.remove(ask);
  }

  // Refs inside messages

  encodeRef(given: ActorRef<never>): WireRef {
    if (given instanceof RemoteRef && given.link === this) return [true, given.address, given.path];
    const ref = given instanceof RemoteRef ? given.link.watched(given) : given;
    let id = this.#exportIds.get(ref);
    if (id === undefined) {
      id = ++this.#lastId;
      this.#exportIds.set(ref, id);
      this.#exports.set(id, ref);
      ref.addWatcher(this.#onExportEnd);
    }
    return [false, id, ref.path];
  }

  decodeRef([yours, address, path]: WireRef): ActorRef<never> {
    // A ref of this side that has ended: its address may be that of another actor of the peer.
    if (yours) return this.#resolve(address) ?? new RemoteRef<never>(this, NOBODY, path);
    return new RemoteRef<never>(this, address, path);
  }

  readonly #onExportEnd: Watcher = {
    terminated: (ref) => {
      const id = this.#exportIds.get(ref);
      if (id === undefined) return;
      this.#exportIds.delete(ref);
      this.#exports.delete(id);
    },
  };

  readonly #onExposedEnd: Watcher = {
    terminated: (ref) => {
      for (const [name, target] of this.#exposed) if (target === ref) this.#exposed.delete(name);
    },
  };

  #resolve(address: Address): ActorRef<never> | undefined {
    return typeof address === 'string' ? this.#exposed.get(address) : this.#exports.get(address);
  }

  // Sending

  #push(entry: Entry): void {
    if (!this.#open) return;
    this.#queue.push(entry);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      if (this.#open) this.#flush();
    });
  }

  #flush(): void {
    const room = WINDOW - this.#underWay;
    if (this.#queue.length === 0 || room <= 0) return;
    const entries = this.#queue.length <= room ? this.#queue : this.#queue.slice(0, room);
    this.#queue = this.#queue.slice(entries.length);
    this.#post(entries);
  }

  /** Of several entries of which one cannot be sent, each is sent by itself. */
  #post(entries: readonly Entry[]): void {
    try {
      const frame = encodeFrame(entries, this);
      if (isLarge(frame)) this.#port.postMessage(frame, [frame.buffer]);
      else this.#port.postMessage(frame);
      this.#underWay += entries.length;
    } catch {
      if (entries.length > 1) for (const entry of entries) this.#post([entry]);
      else this.#unsendable(entries[0] as Entry);
    }
  }

  #unsendable(entry: Entry): void {
    if (entry[0] === TELL) this.kernel.deadLetter(`link/${entry[1]}`, entry[2], 'unsendable');
  }

  // Receiving

  #receive(frame: Frame): void {
    if (!this.#open) return;
    if (typeof frame === 'number') {
      this.#underWay -= frame;
      if (this.#queue.length > 0) this.#schedule();
      return;
    }
    let entries: Entry[];
    try {
      entries = decodeFrame(frame, this);
      // V8 does not see what it is worth to collect it.
      if (isLarge(frame)) frame.buffer.transfer(0);
    } catch (error) {
      this.kernel.emit({ type: 'link-failure', error });
      this.close();
      return;
    }
    for (const entry of entries) this.#handle(entry);
    this.#unacknowledged += entries.length;
    if (this.#unacknowledged < ACKNOWLEDGE_EVERY) return;
    this.#port.postMessage(this.#unacknowledged);
    this.#unacknowledged = 0;
  }

  #handle(entry: Entry): void {
    switch (entry[0]) {
      case TELL:
        this.#deliver(entry[1], entry[2]);
        return;
      case WATCH:
        this.#watchFor(entry[1], entry[2]);
        return;
      case UNWATCH: {
        const watch = this.#peerWatches.get(entry[1]);
        this.#peerWatches.delete(entry[1]);
        watch?.target.removeWatcher(watch);
        return;
      }
      case ENDED: {
        const ref = this.#watches.get(entry[1]);
        if (ref === undefined) return;
        this.#unwatched(ref);
        ref.end();
        return;
      }
      case UNANSWERED: {
        this.#exports.get(entry[1])?.unanswered(entry[2]);
      }
    }
  }

  #deliver(address: Address, message: unknown): void {
    const target = this.#resolve(address) as ActorRef<unknown> | undefined;
    if (target?.offer(message) === true) return;
    if (target === undefined) {
      this.kernel.deadLetter(`link/${address}`, message, typeof address === 'string' ? 'stopped' : 'late');
    }
    tellUnanswered(message, target !== undefined);
  }

  unanswered({ address }: RemoteRef<never>, full: boolean): void {
    if (typeof address === 'number') this.#push([UNANSWERED, address, full]);
  }

  #watchFor(address: Address, id: number): void {
    const target = this.#resolve(address);
    if (target === undefined) {
      this.#push([ENDED, id]);
      return;
    }
    const watch: PeerWatch = {
      target,
      terminated: () => {
        this.#peerWatches.delete(id);
        this.#push([ENDED, id]);
      },
    };
    this.#peerWatches.set(id, watch);
    target.addWatcher(watch);
  }

  // The end

  #end(): void {
    if (!this.#open) return;
    this.#open = false;
    for (const entry of this.#queue) {
      if (entry[0] === TELL) this.kernel.deadLetter(`link/${entry[1]}`, entry[2], 'stopped');
    }
    this.#queue = [];
    for (const watch of this.#peerWatches.values()) watch.target.removeWatcher(watch);
    this.#peerWatches.clear();
    for (const ref of this.#exposed.values()) ref.removeWatcher(this.#onExposedEnd);
    this.#exposed.clear();
    for (const ref of this.#exports.values()) {
      ref.removeWatcher(this.#onExportEnd);
      // The answer to a question that was sent over this link cannot come back.
      if (ref instanceof Ask) ref.terminated();
    }
    this.#exports.clear();
    this.#exportIds.clear();
    this.#asks.terminate();
    for (const ref of this.#watches.values()) ref.end();
    this.#watches.clear();
    this.#watched.clear();
    this.#resolveClosed();
  }
}

/** A ref to an actor in another thread. The end of its link is the end of the actor for this side. */
class RemoteRef<M> extends ActorRef<M> {
  readonly path: string;
  readonly kernel: Kernel;
  readonly address: Address;
  readonly link: PortLink;
  readonly watchers: Set<Watcher> = new Set();
  /** Number of the watch at the peer while there are watchers, else 0. */
  watch = 0;

  constructor(link: PortLink, address: Address, path: string) {
    super();
    this.link = link;
    this.kernel = link.kernel;
    this.address = address;
    this.path = path;
  }

  tell(message: M): void {
    this.offer(message);
  }

  offer(message: M): boolean {
    return this.link.send(this, message);
  }

  addWatcher(watcher: Watcher): void {
    this.link.addWatcher(this, watcher);
  }

  removeWatcher(watcher: Watcher): void {
    this.link.removeWatcher(this, watcher);
  }

  // An ask crosses with its message; a watch of its own at the peer would double the traffic.
  addAsk(ask: OpenAsk): void {
    this.link.addAsk(ask);
  }

  removeAsk(ask: OpenAsk): void {
    this.link.removeAsk(ask);
  }

  override unanswered(full: boolean): void {
    this.link.unanswered(this, full);
  }

  /** Tells everyone who watches that the actor has ended. */
  end(): void {
    this.watch = 0;
    const watchers = [...this.watchers];
    this.watchers.clear();
    for (const watcher of watchers) watcher.terminated(this);
  }
}
