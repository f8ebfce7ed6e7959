// The context a behavior is given, one per incarnation: it ends with the crash or stop, so nothing that an old
// incarnation left behind (a promise, a closure) can act in the name of the new one. Made and ended by `cell.ts`.

import type { Behavior, Context, SpawnOptions } from './behavior.ts';
import type { Clock } from './clock.ts';
import type { Kernel } from './kernel.ts';
import { actorRef } from './ref.ts';
import type { ActorRef, Ref } from './ref.ts';
import { ActorTimers } from './timers.ts';
import type { Timer } from './timers.ts';

/** What reaches an actor beside its mailbox. */
export type News<M> =
  | { readonly kind: 'terminated'; readonly ref: ActorRef<never> }
  | { readonly kind: 'timer'; readonly timer: Timer }
  | { readonly kind: 'piped'; readonly value: unknown; readonly map: (value: never) => M };

/** The actor a context acts for. */
export interface Host<M> {
  readonly self: Ref<M>;
  readonly path: string;
  readonly kernel: Kernel;
  spawn<C>(behavior: Behavior<C>, options: SpawnOptions | undefined): Ref<C>;
  stop(): void;
  stopChild(ref: Ref<never>): void;
  watch(ref: ActorRef<never>): void;
  unwatch(ref: ActorRef<never>): void;
  notify(news: News<M>): void;
}

export class ActorContext<M> implements Context<M> {
  readonly timers: ActorTimers<M>;
  readonly #host: Host<M>;
  #ended = false;

  constructor(host: Host<M>) {
    this.#host = host;
    this.timers = new ActorTimers<M>(host.kernel.clock, (timer) => host.notify({ kind: 'timer', timer }));
  }

  get self(): Ref<M> {
    return this.#host.self;
  }

  get path(): string {
    return this.#host.path;
  }

  get clock(): Clock {
    return this.#host.kernel.clock;
  }

  get random(): () => number {
    return this.#host.kernel.random;
  }

  spawn<C>(behavior: Behavior<C>, options?: SpawnOptions): Ref<C> {
    if (this.#ended) throw new Error(`this incarnation of ${this.path} has ended and starts no children`);
    return this.#host.spawn(behavior, options);
  }

  stop(ref?: Ref<never>): void {
    if (this.#ended) return;
    if (ref === undefined || ref === this.self) this.#host.stop();
    else this.#host.stopChild(ref);
  }

  watch(ref: Ref<never>): void {
    if (!this.#ended) this.#host.watch(actorRef(ref));
  }

  unwatch(ref: Ref<never>): void {
    if (!this.#ended) this.#host.unwatch(actorRef(ref));
  }

  pipe<T>(promise: Promise<T>, ok: (value: T) => M, failed: (error: unknown) => M): void {
    promise.then(
      (value) => this.#piped(value, ok),
      (error: unknown) => this.#piped(error, failed),
    );
  }

  /** Ends the incarnation: its timers are cancelled and what it still does has no effect. */
  end(): void {
    this.#ended = true;
    this.timers.end();
  }

  #piped<T>(value: T, map: (value: T) => M): void {
    if (this.#ended) this.#host.kernel.deadLetter(this.path, value, 'late');
    else this.#host.notify({ kind: 'piped', value, map });
  }
}
