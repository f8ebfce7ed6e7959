// The types for writing actors: a behavior makes the state and returns the handler, which acts through its context.
// Handlers are synchronous; an actor waits with `pipe` and timers.

import type { Clock } from './clock.ts';
import type { MailboxOptions } from './mailbox.ts';
import type { Ref } from './ref.ts';
import type { Supervision } from './supervision.ts';
import type { Timers } from './timers.ts';

/**
 * What the kernel tells an actor about its life and the refs it watches.
 * - `PostStop`: the actor has stopped, its children before it; the last call this incarnation sees
 * - `PreRestart`: the incarnation ends because of `error`; its children have stopped, the next one starts fresh
 * - `Terminated`: a watched actor has stopped, or the link to it was lost
 */
export type Signal =
  | { readonly type: 'PostStop' }
  | { readonly type: 'PreRestart'; readonly error: unknown }
  | { readonly type: 'Terminated'; readonly ref: Ref<never> };

/** The handler of one incarnation. A throw in either method is a failure, answered by the supervisor. */
export interface Actor<M> {
  receive(message: M): void;
  signal?(signal: Signal): void;
}

/**
 * Makes one incarnation. Called on the actor's own turn after `spawn`, and again at every restart; a throw in here is
 * a failure like any other. State inside is lost in a crash; state outside survives it.
 *
 * ```ts
 * const counter: Behavior<Command> = () => {
 *   let count = 0;
 *   return (command) => (command.type === 'Add' ? (count += command.by) : command.replyTo.tell(count));
 * };
 * ```
 */
export type Behavior<M> = (context: Context<M>) => Actor<M> | ((message: M) => void);

export interface SpawnOptions {
  /** Unique among living siblings; does not begin with `$`. Default: a number of its own, `$1`, `$2`, … */
  readonly name?: string;
  /** Default: 8192 messages, `drop-new`. */
  readonly mailbox?: MailboxOptions;
  /** What the parent does when the actor fails. Default: restart at once, at most 10 times within a minute. */
  readonly supervise?: Supervision;
}

/** What an actor can do in the system; valid for one incarnation. */
export interface Context<M> {
  readonly self: Ref<M>;
  readonly path: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly timers: Timers<M>;
  /** Starts a child. It stops with its parent, also when the parent restarts. Throws once this incarnation has ended. */
  spawn<C>(behavior: Behavior<C>, options?: SpawnOptions): Ref<C>;
  /** Stops a child, or the actor itself after the current message. What waits in the mailbox becomes dead letters. */
  stop(ref?: Ref<never>): void;
  /** Asks for one `Terminated` when `ref` ends, after all messages told before. Watches outlive a restart. */
  watch(ref: Ref<never>): void;
  /** Ends a watch; a `Terminated` that already waits is not delivered. */
  unwatch(ref: Ref<never>): void;
  /**
   * Tells the actor itself the outcome of a promise. Never lost to a full mailbox; a result that finds its incarnation
   * ended is a dead letter.
   */
  pipe<T>(promise: Promise<T>, ok: (value: T) => M, failed: (error: unknown) => M): void;
}
