// References to actors. `Ref` is the public interface; every ref of this kernel is an `ActorRef`, in this thread or behind a
// link; `ask` makes a ref that waits for one answer. A ref stays valid when its actor restarts.

import type { Deadlined } from './deadlines.ts';
import type { Kernel } from './kernel.ts';

/**
 * An address to tell messages to. `Ref<never>` accepts every ref.
 * Messages are values: whoever told one must not change it afterwards.
 */
export interface Ref<in M> {
  /** Names of the actor and its parents, from the system down; for logs and events. */
  readonly path: string;
  /**
   * Puts a message into the mailbox and returns at once. One sender's messages arrive in order. A stopped actor turns
   * them into dead letters. Throws `MailboxFullError` only when the mailbox is full and its overflow is `fail`.
   */
  tell(message: M): void;
}

export type ActorErrorCode = 'HR_ACTOR_ASK_TIMEOUT' | 'HR_ACTOR_TERMINATED' | 'HR_ACTOR_MAILBOX_FULL';

/** Errors of the kernel for senders. `code` is stable. */
export abstract class ActorError extends Error {
  abstract readonly code: ActorErrorCode;
}

/** No answer before the deadline of an `ask`. */
export class AskTimeoutError extends ActorError {
  override readonly name = 'AskTimeoutError';
  readonly code = 'HR_ACTOR_ASK_TIMEOUT';
}

/** The asked actor stopped, or the link to it closed, before it answered. */
export class TerminatedError extends ActorError {
  override readonly name = 'TerminatedError';
  readonly code = 'HR_ACTOR_TERMINATED';
}

/** The message met a full mailbox. */
export class MailboxFullError extends ActorError {
  override readonly name = 'MailboxFullError';
  readonly code = 'HR_ACTOR_MAILBOX_FULL';
}

/** Something that is told when the actor of a ref has stopped. */
export interface Watcher {
  terminated(ref: ActorRef<never>): void;
}

/** An ask without an answer, as an entry of the list of the actor it waits for. */
export interface OpenAsk {
  previousAsk: OpenAsk | null;
  nextAsk: OpenAsk | null;
  /** The actor has stopped, or the link to it has closed. */
  terminated(): void;
}

/** What every ref of the kernel can do besides `tell`. */
export abstract class ActorRef<in M> implements Ref<M> {
  abstract readonly path: string;
  abstract readonly kernel: Kernel;
  abstract tell(message: M): void;
  /** Like `tell`, never throws; false when the message became a dead letter at once. */
  abstract offer(message: M): boolean;
  /** Calls `watcher.terminated` once, at the end of the actor; at once when it has ended. */
  abstract addWatcher(watcher: Watcher): void;
  abstract removeWatcher(watcher: Watcher): void;
  /** As `addWatcher`, for the open asks of this ref; a remote ref reports only the end of its link. */
  abstract addAsk(ask: OpenAsk): void;
  abstract removeAsk(ask: OpenAsk): void;

  /** A message that this ref was a field of was not handled: its actor has stopped, or its mailbox is full (`full`). */
  unanswered(_full: boolean): void {}
}

/** Tells the refs of a message that it was not handled, so that asks need not wait for their deadlines. */
export function tellUnanswered(message: unknown, full: boolean): void {
  if (typeof message !== 'object' || message === null) return;
  for (const field of Object.values(message)) if (field instanceof ActorRef) field.unanswered(full);
}

/** The `ActorRef` behind a public ref. */
export function actorRef<M>(ref: Ref<M>): ActorRef<M> {
  if (ref instanceof ActorRef) return ref as ActorRef<M>;
  throw new TypeError('not a ref of this actor kernel');
}

/** Linked list of the asks that wait for one actor: O(1) add and remove, without allocation. */
export class AskList {
  #first: OpenAsk | null = null;

  add(ask: OpenAsk): void {
    const first = this.#first;
    ask.nextAsk = first;
    if (first !== null) first.previousAsk = ask;
    this.#first = ask;
  }

  /** `ask` must be in this list. */
  remove(ask: OpenAsk): void {
    const { previousAsk, nextAsk } = ask;
    if (previousAsk === null) this.#first = nextAsk;
    else previousAsk.nextAsk = nextAsk;
    if (nextAsk !== null) nextAsk.previousAsk = previousAsk;
    ask.previousAsk = null;
    ask.nextAsk = null;
  }

  /** Fails every ask with `TerminatedError`; each removes itself. */
  terminate(): void {
    while (this.#first !== null) this.#first.terminated();
  }
}

/** The `replyTo` of an ask. Takes one answer; any other is a dead letter. */
export class Ask<R> extends ActorRef<R> implements Deadlined, OpenAsk {
  readonly kernel: Kernel;
  previousAsk: OpenAsk | null = null;
  nextAsk: OpenAsk | null = null;
  dueMs = 0;
  previousDeadline: Deadlined | null = null;
  nextDeadline: Deadlined | null = null;
  readonly promise: Promise<R>;
  readonly #target: ActorRef<never>;
  #resolve!: (value: R) => void;
  #reject!: (error: ActorError) => void;
  #open = true;
  #timed = false;
  #watchers: Set<Watcher> | null = null;

  constructor(target: ActorRef<never>) {
    super();
    this.kernel = target.kernel;
    this.#target = target;
    this.promise = new Promise<R>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get path(): string {
    return `${this.#target.path}/ask`;
  }

  /** Sends the question, unless the actor has already ended. */
  start<M>(target: ActorRef<M>, question: M, timeoutMs: number): void {
    this.kernel.deadlines.add(this, timeoutMs);
    this.#timed = true;
    target.addAsk(this);
    if (!this.#open) return;
    if (!target.offer(question)) this.#fail(new MailboxFullError(`${target.path} takes no more messages`));
  }

  tell(answer: R): void {
    this.offer(answer);
  }

  offer(answer: R): boolean {
    if (!this.#open) {
      this.kernel.deadLetter(this.path, answer, 'late');
      return false;
    }
    this.#resolve(answer);
    this.#end();
    return true;
  }

  terminated(): void {
    if (this.#open) this.#fail(new TerminatedError(`${this.#target.path} ended before it answered`));
  }

  addAsk(ask: OpenAsk): void {
    if (!this.#open) ask.terminated();
  }

  removeAsk(): void {}

  override unanswered(full: boolean): void {
    if (!full) this.terminated();
    else if (this.#open) this.#fail(new MailboxFullError(`${this.#target.path} takes no more messages`));
  }

  expire(): void {
    this.#timed = false;
    this.#fail(new AskTimeoutError(`no answer from ${this.#target.path} before the deadline`));
  }

  addWatcher(watcher: Watcher): void {
    if (this.#open) (this.#watchers ??= new Set()).add(watcher);
    else watcher.terminated(this);
  }

  removeWatcher(watcher: Watcher): void {
    this.#watchers?.delete(watcher);
  }

  #fail(error: ActorError): void {
    this.#reject(error);
    this.#end();
  }

  #end(): void {
    this.#open = false;
    if (this.#timed) this.kernel.deadlines.remove(this);
    this.#target.removeAsk(this);
    if (this.#watchers === null) return;
    const watchers = this.#watchers;
    this.#watchers = null;
    for (const watcher of watchers) watcher.terminated(this);
  }
}

export interface AskOptions {
  /** How long to wait for the answer, milliseconds, more than 0. There is no ask without a deadline. */
  readonly timeoutMs: number;
}

/**
 * Sends a message that carries a ref for the answer and waits for it.
 *
 * Rejects with `AskTimeoutError` (HR_ACTOR_ASK_TIMEOUT) at the deadline, with `TerminatedError` (HR_ACTOR_TERMINATED)
 * when the actor has ended, ends first, or its link closes, and with `MailboxFullError` (HR_ACTOR_MAILBOX_FULL) when
 * the question itself met a full mailbox. An answer that comes later is a dead letter.
 *
 * ```ts
 * const count = await ask<Command, number>(counter, (replyTo) => ({ type: 'Get', replyTo }), { timeoutMs: 100 });
 * ```
 */
export function ask<M, R>(ref: Ref<M>, message: (replyTo: Ref<R>) => M, options: AskOptions): Promise<R> {
  const { timeoutMs } = options;
  if (!(timeoutMs > 0 && timeoutMs < Infinity)) return Promise.reject(new RangeError('an ask needs a deadline'));
  const target = actorRef(ref);
  const answer = new Ask<R>(target);
  answer.start(target, message(answer), timeoutMs);
  return answer.promise;
}
