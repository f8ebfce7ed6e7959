// The address of an actor in another thread. Made by a link whenever a ref arrives in a message or is asked for by name;
// all it does is done by the link, its way to the actor. The end of the way is the end of the actor to this side.

import type { Kernel } from './kernel.ts';
import { ActorRef } from './ref.ts';
import type { OpenAsk, Watcher } from './ref.ts';
import type { Address } from './wire.ts';

/** The link as its refs see it. */
export interface Way {
  readonly kernel: Kernel;
  send(to: RemoteRef<never>, message: unknown): boolean;
  addWatcher(ref: RemoteRef<never>, watcher: Watcher): void;
  removeWatcher(ref: RemoteRef<never>, watcher: Watcher): void;
  addAsk(ask: OpenAsk): void;
  removeAsk(ask: OpenAsk): void;
}

export class RemoteRef<M> extends ActorRef<M> {
  readonly path: string;
  readonly kernel: Kernel;
  readonly address: Address;
  readonly way: Way;
  readonly watchers: Set<Watcher> = new Set();
  /** Number of the watch at the peer while there are watchers, else 0. */
  watch = 0;

  constructor(way: Way, address: Address, path: string) {
    super();
    this.way = way;
    this.kernel = way.kernel;
    this.address = address;
    this.path = path;
  }

  tell(message: M): void {
    this.offer(message);
  }

  offer(message: M): boolean {
    return this.way.send(this, message);
  }

  addWatcher(watcher: Watcher): void {
    this.way.addWatcher(this, watcher);
  }

  removeWatcher(watcher: Watcher): void {
    this.way.removeWatcher(this, watcher);
  }

  // An ask crosses with its message; a watch of its own at the peer would double the traffic.
  addAsk(ask: OpenAsk): void {
    this.way.addAsk(ask);
  }

  removeAsk(ask: OpenAsk): void {
    this.way.removeAsk(ask);
  }

  /** Tells everyone who watches that the actor has ended. */
  end(): void {
    this.watch = 0;
    const watchers = [...this.watchers];
    this.watchers.clear();
    for (const watcher of watchers) watcher.terminated(this);
  }
}
