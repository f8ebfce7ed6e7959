// The context of one incarnation of an actor. It ends with the crash or stop, so that nothing an old incarnation left
// behind (a promise, a closure) can act for the new one.

import type { Behavior, Context, SpawnOptions } from './behavior.ts';
import type { Clock } from './clock.ts';
import type { Kernel } from './kernel.ts';
import { actorRef } from './ref.ts';
import type { ActorRef, Ref } from './ref.ts';
import { ActorTimers } from './timers.ts';
import type { Timer } from './timers.ts';

/** What is delivered to an actor past its mailbox, which may be full. */
export type Notice<M> =
  | { readonly kind: 'terminated'; readonly ref: ActorRef<never> }
  | { readonly kind: 'timer'; readonly timer: Timer }
  | { readonly kind: 'piped'; readonly value: unknown; readonly map: (value: never) => M };

/** The actor that a context belongs to. */
export interface ContextOwner<M> {
  readonly self: Ref<M>;
  readonly path: string;
  readonly kernel: Kernel;
  spawn<C>(behavior: Behavior<C>, options: SpawnOptions | undefined): Ref<C>;
  stop(): void;
  stopChild(ref: Ref<never>): void;
  watch(ref: ActorRef<never>): void;
  unwatch(ref: ActorRef<never>): void;
  notify(notice: Notice<M>): void;
}

export class ActorContext<M> implements Context<M> {
  readonly timers: ActorTimers<M>;
  readonly #owner: ContextOwner<M>;
  #ended = false;

  constructor(owner: ContextOwner<M>) {
    this.#owner = owner;
    this.timers = new ActorTimers<M>(owner.kernel.clock, (timer) => owner.notify({ kind: 'timer', timer }));
  }

  get self(): Ref<M> {
    return this.#owner.self;
  }

  get path(): string {
    return this.#owner.path;
  }

  get clock(): Clock {
    return this.#owner.kernel.clock;
  }

  get random(): () => number {
    return this.#owner.kernel.random;
  }

  spawn<C>(behavior: Behavior<C>, options?: SpawnOptions): Ref<C> {
    if (this.#ended) throw new Error(`this incarnation of ${this.path} has ended and starts no children`);
    return this.#owner.spawn(behavior, options);
  }

  stop(ref?: Ref<never>): void {
    if (this.#ended) return;
    if (ref === undefined || ref === this.self) this.#owner.stop();
    else this.#owner.stopChild(ref);
  }

  watch(ref: Ref<never>): void {
    if (!this.#ended) this.#owner.watch(actorRef(ref));
  }

  unwatch(ref: Ref<never>): void {
    if (!this.#ended) this.#owner.unwatch(actorRef(ref));
  }

  pipe<T>(promise: Promise<T>, ok: (value: T) => M, failed: (error: unknown) => M): void {
    promise.then(
      (value) => this.#piped(value, ok),
      (error: unknown) => this.#piped(error, failed),
    );
  }

  /** Ends the incarnation: cancels its timers; whatever else it calls has no effect. */
  end(): void {
    this.#ended = true;
    this.timers.end();
  }

  #piped<T>(value: T, map: (value: T) => M): void {
    if (this.#ended) this.#owner.kernel.deadLetter(this.path, value, 'late');
    else this.#owner.notify({ kind: 'piped', value, map });
  }
}
