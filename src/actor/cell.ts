// The cell runs one actor: start, turns, failure, restart, stop. Handlers never nest; children end before their parent, in
// reverse order of start; a message taken from the mailbox is handled once or becomes a dead letter, and only a crash
// loses it.

import type { Actor, Behavior, Signal, SpawnOptions } from './behavior.ts';
import type { TimerHandle } from './clock.ts';
import { ActorContext } from './context.ts';
import type { ContextOwner, Notice } from './context.ts';
import type { Kernel, Runnable } from './kernel.ts';
import { DEFAULT_MAILBOX, Mailbox } from './mailbox.ts';
import type { Overflow } from './mailbox.ts';
import { ActorRef, AskList, MailboxFullError, tellUnanswered } from './ref.ts';
import type { OpenAsk, Ref, Watcher } from './ref.ts';
import { Supervisor } from './supervision.ts';
import type { Directive } from './supervision.ts';

/** A cell as its parent sees it. */
export interface Child {
  readonly name: string;
  readonly path: string;
  /** Messages waiting. */
  readonly waiting: number;
  readonly children: ReadonlyMap<string, Child>;
  stop(): void;
}

/** What stands above a cell: another cell or the system. */
export interface Parent {
  readonly path: string;
  readonly kernel: Kernel;
  /** In order of start. */
  readonly children: Map<string, Child>;
  childStopped(child: Child): void;
  childFailed(child: Child, error: unknown): void;
}

/** A child failed past what its supervision allows; `cause` is its last error. */
export class EscalatedError extends Error {
  override readonly name = 'EscalatedError';
  readonly code = 'HR_ACTOR_ESCALATED';
  /** Path of the actor that failed. */
  readonly path: string;

  constructor(path: string, cause: unknown) {
    super(`${path} failed past its supervision`, { cause });
    this.path = path;
  }
}

type Phase = 0 | 1 | 2 | 3 | 4;
const STARTING: Phase = 0;
const RUNNING: Phase = 1;
/** Between a crash and the restart that backs off. */
const WAITING: Phase = 2;
const STOPPING: Phase = 3;
const STOPPED: Phase = 4;

/** A notice that is delivered when every message before `position` has been handled. */
interface PlacedNotice<M> {
  readonly position: number;
  readonly notice: Notice<M>;
}

export class Cell<M> extends ActorRef<M> implements Parent, Child, ContextOwner<M>, Runnable, Watcher {
  readonly path: string;
  readonly kernel: Kernel;
  readonly name: string;
  readonly parent: Parent;
  readonly children: Map<string, Child> = new Map();
  scheduled = false;
  readonly #behavior: Behavior<M>;
  readonly #mailbox: Mailbox<M>;
  readonly #overflow: Overflow;
  readonly #supervisor: Supervisor;
  readonly #notices: PlacedNotice<M>[] = [];
  readonly #watching = new Set<ActorRef<never>>();
  readonly #asks = new AskList();
  #watchers: Set<Watcher> | null = null;
  #phase: Phase = STARTING;
  #busy = false;
  #actor: Actor<M> | null = null;
  #context: ActorContext<M> | null = null;
  #restartTimer: TimerHandle | null = null;

  constructor(parent: Parent, name: string, behavior: Behavior<M>, options: SpawnOptions) {
    super();
    const { capacity, overflow } = options.mailbox ?? DEFAULT_MAILBOX;
    this.parent = parent;
    this.kernel = parent.kernel;
    this.name = name;
    this.path = `${parent.path}/${name}`;
    this.#behavior = behavior;
    this.#mailbox = new Mailbox<M>(capacity);
    this.#overflow = overflow;
    this.#supervisor = new Supervisor(options.supervise ?? {});
  }

  // Towards senders

  tell(message: M): void {
    if (!this.offer(message) && this.#overflow === 'fail' && this.#phase < STOPPING) {
      throw new MailboxFullError(`the mailbox of ${this.path} is full`);
    }
  }

  offer(message: M): boolean {
    if (this.#phase >= STOPPING) return this.#refuse(message, 'stopped');
    if (!this.#mailbox.push(message)) {
      if (this.#overflow !== 'drop-old') return this.#refuse(message, 'overflow');
      this.#drop('overflow');
      this.#mailbox.push(message);
    }
    if (!this.scheduled) this.kernel.schedule(this);
    return true;
  }

  addWatcher(watcher: Watcher): void {
    if (this.#phase === STOPPED) watcher.terminated(this);
    else (this.#watchers ??= new Set()).add(watcher);
  }

  removeWatcher(watcher: Watcher): void {
    this.#watchers?.delete(watcher);
  }

  addAsk(ask: OpenAsk): void {
    this.#asks.add(ask);
    if (this.#phase === STOPPED) ask.terminated();
  }

  removeAsk(ask: OpenAsk): void {
    this.#asks.remove(ask);
  }

  // Towards its context

  get self(): Ref<M> {
    return this;
  }

  spawn<C>(behavior: Behavior<C>, options?: SpawnOptions): Ref<C> {
    if (this.#phase >= STOPPING) throw new Error(`${this.path} is stopping and starts no children`);
    return spawnCell(this, behavior, options);
  }

  stopChild(ref: Ref<never>): void {
    if (!(ref instanceof Cell) || ref.parent !== this) throw new Error(`${ref.path} is not a child of ${this.path}`);
    ref.stop();
  }

  /** Places a notice behind the messages that wait now, also when the mailbox is full. */
  notify(notice: Notice<M>): void {
    this.#notices.push({ position: this.#mailbox.end, notice });
    if (!this.scheduled && this.ready) this.kernel.schedule(this);
  }

  watch(ref: ActorRef<never>): void {
    if (this.#phase >= STOPPING || this.#watching.has(ref)) return;
    this.#watching.add(ref);
    ref.addWatcher(this);
  }

  unwatch(ref: ActorRef<never>): void {
    this.#forget(ref);
    const index = this.#notices.findIndex(({ notice }) => notice.kind === 'terminated' && notice.ref === ref);
    if (index !== -1) this.#notices.splice(index, 1);
  }

  terminated(ref: ActorRef<never>): void {
    this.#watching.delete(ref);
    this.notify({ kind: 'terminated', ref });
  }

  // Towards the run queue

  /** Messages waiting. */
  get waiting(): number {
    return this.#mailbox.size;
  }

  get ready(): boolean {
    if (this.#phase === RUNNING) return this.#mailbox.size > 0 || this.#notices.length > 0;
    return this.#phase === STARTING;
  }

  run(limit: number): number {
    let handled = limit;
    this.#busy = true;
    try {
      if (this.#phase === STARTING) this.#start();
      if (this.#actor !== null) handled = this.#work(this.#actor, limit);
      this.#busy = false;
    } catch (error) {
      this.#busy = false;
      this.fail(error);
    }
    if (this.#phase === STOPPING) this.#finishWhenAlone();
    return handled + 1;
  }

  #work(actor: Actor<M>, limit: number): number {
    const mailbox = this.#mailbox;
    const notices = this.#notices;
    let handled = 0;
    for (; this.#phase === RUNNING && handled < limit; handled++) {
      const placed = notices[0];
      if (placed !== undefined && mailbox.reached(placed.position)) {
        notices.shift();
        this.#deliver(placed.notice, actor);
      } else if (mailbox.size > 0) actor.receive(mailbox.shift());
      else break;
    }
    return handled;
  }

  #start(): void {
    const context = new ActorContext<M>(this);
    this.#context = context;
    // Running before the behavior is called: what it watches, stops or sets timers for belongs to the new incarnation.
    this.#phase = RUNNING;
    const made = this.#behavior(context);
    this.#actor = typeof made === 'function' ? { receive: made } : made;
  }

  #deliver(notice: Notice<M>, actor: Actor<M>): void {
    switch (notice.kind) {
      case 'terminated':
        actor.signal?.({ type: 'Terminated', ref: notice.ref });
        return;
      case 'timer':
        if (this.#context?.timers.take(notice.timer) === true) actor.receive(notice.timer.message as M);
        return;
      case 'piped':
        actor.receive(notice.map(notice.value as never));
    }
  }

  // Failure

  childFailed(child: Child, error: unknown): void {
    this.fail(new EscalatedError(child.path, error));
  }

  /** Carries out what the supervisor decides about an error of this actor. */
  fail(error: unknown): void {
    const { clock, random } = this.kernel;
    if (this.#phase >= STOPPING) {
      if (this.#phase === STOPPING) this.#report(error, 'stop', 0);
      return;
    }
    const decision = this.#supervisor.decide(error, clock.now(), random);
    const { delayMs } = decision;
    // An actor that has not started cannot resume.
    const directive = decision.directive === 'resume' && this.#actor === null ? 'stop' : decision.directive;
    this.#report(error, directive, delayMs);
    if (directive === 'restart') this.#restart(error, delayMs);
    else if (directive !== 'resume') this.stop();
    if (directive === 'escalate') this.parent.childFailed(this, error);
  }

  #report(error: unknown, decision: Directive, delayMs: number): void {
    this.kernel.emit({ type: 'failure', path: this.path, error, decision, delayMs });
  }

  #restart(error: unknown, delayMs: number): void {
    this.#phase = WAITING;
    this.kernel.cellRestarted();
    for (const ref of this.#watching) if (ref instanceof Cell && ref.parent === this) this.unwatch(ref);
    stopChildren(this);
    this.#endIncarnation({ type: 'PreRestart', error });
    if (this.#phase !== WAITING) this.#finishWhenAlone();
    else if (delayMs > 0) this.#restartTimer = this.kernel.clock.setTimeout(() => this.#revive(), delayMs);
    else this.#revive();
  }

  #revive(): void {
    this.#restartTimer = null;
    this.#phase = STARTING;
    if (!this.scheduled) this.kernel.schedule(this);
  }

  /** Ends the context with its timers, sends the handler its last signal, and drops both. */
  #endIncarnation(signal: Signal): void {
    const actor = this.#actor;
    this.#context?.end();
    this.#context = null;
    this.#actor = null;
    this.#busy = true;
    try {
      actor?.signal?.(signal);
    } catch (error) {
      this.kernel.emit({ type: 'signal-failure', path: this.path, error });
    }
    this.#busy = false;
    for (const placed of this.#notices.splice(0)) {
      const { notice } = placed;
      if (notice.kind === 'terminated') this.#notices.push(placed);
      else if (notice.kind === 'piped') this.kernel.deadLetter(this.path, notice.value, 'late');
    }
  }

  // Stop

  /** Stops after the current message: children first, in reverse order of start. */
  stop(): void {
    if (this.#phase >= STOPPING) return;
    this.#phase = STOPPING;
    if (this.#restartTimer !== null) this.kernel.clock.clearTimeout(this.#restartTimer);
    stopChildren(this);
    this.#finishWhenAlone();
  }

  childStopped(child: Child): void {
    this.children.delete(child.name);
    if (this.#phase === STOPPING) this.#finishWhenAlone();
  }

  #finishWhenAlone(): void {
    if (this.#phase !== STOPPING || this.#busy || this.children.size > 0) return;
    this.#phase = STOPPED;
    this.#endIncarnation({ type: 'PostStop' });
    this.#notices.length = 0;
    while (this.#mailbox.size > 0) this.#drop('stopped');
    for (const ref of this.#watching) this.#forget(ref);
    this.kernel.cellStopped();
    this.parent.childStopped(this);
    this.#asks.terminate();
    const watchers = this.#watchers;
    this.#watchers = null;
    if (watchers !== null) for (const watcher of watchers) watcher.terminated(this);
  }

  #forget(ref: ActorRef<never>): void {
    if (this.#watching.delete(ref)) ref.removeWatcher(this);
  }

  /** Takes the oldest message out of the mailbox, which nobody handles any more. */
  #drop(reason: 'stopped' | 'overflow'): void {
    const message = this.#mailbox.shift();
    this.#refuse(message, reason);
    tellUnanswered(message, reason === 'overflow');
  }

  #refuse(message: M, reason: 'stopped' | 'overflow'): false {
    this.kernel.deadLetter(this.path, message, reason);
    return false;
  }
}

/** Stops the children, last started first. One that is handling a message ends after it. */
export function stopChildren(parent: Parent): void {
  for (const child of [...parent.children.values()].toReversed()) child.stop();
}

/** Prefix of the names of actors without a name of their own. */
export const UNNAMED = '$';

/** Creates a cell under `parent` and gives it its first turn. Throws when the name is taken or reserved, or the system ended. */
export function spawnCell<C>(parent: Parent, behavior: Behavior<C>, options: SpawnOptions = {}): Cell<C> {
  const { name } = options;
  if (name?.startsWith(UNNAMED) === true)
    throw new Error(`${name} begins with ${UNNAMED}, as the names of actors without one do`);
  if (name !== undefined && parent.children.has(name)) throw new Error(`${parent.path} already has a child ${name}`);
  const ordinal = parent.kernel.cellStarted();
  const cell = new Cell<C>(parent, name ?? `${UNNAMED}${ordinal}`, behavior, options);
  parent.children.set(cell.name, cell);
  parent.kernel.schedule(cell);
  return cell;
}
