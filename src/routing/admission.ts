// Admission to the CRNs of a model: while every one of them has more work waiting than it does in `holdMs`, requests wait here, in a
// queue that is fair by account, instead of at the CRNs. Every thread has its own queues, and all of them take turns by tags in shared
// memory. A request leaves its queue exactly once: admitted, refused, or by itself.

import type { Clock, TimerHandle } from '../actor/index.ts';
import { HeadraceError } from '../errors.ts';
import type { Deadline, DeadlineQueue, Expirable } from '../net/deadline.ts';
import { type AdmissionMemory, AdmissionTurns, MAX_WORK } from './admission-memory.ts';
import { type Board, RANK } from './board.ts';
import { type FairEntry, FairQueue, type VirtualTime } from './fair-queue.ts';
import type { Member, Model, ModelTable } from './model-table.ts';

export interface AdmissionSettings {
  /** A CRN whose backlog takes longer gets no more requests; 0: nothing is held. */
  readonly holdMs: number;
  /** Longest wait. */
  readonly timeoutMs: number;
  /** Most requests of a model that wait, of all threads. */
  readonly requests: number;
  /** Most bytes of their bodies. */
  readonly bytes: number;
}

/** What is known of the work that CRNs have waiting. */
export interface ExpectedWait {
  /** Milliseconds in which a member will have prefilled its backlog; 0 while its speed is unknown. */
  waitMs(member: number, nowMs: number): number;
  /** Milliseconds that a member needs for a byte of prompt; 0 while its speed is unknown. */
  msPerByte(member: number): number;
}

/** How a wait ended. `gone`: the client left. `removed`: the model is not configured any more. */
export type HoldOutcome = 'admitted' | 'full' | 'timeout' | 'gone' | 'draining' | 'removed';

export interface AdmissionDeps {
  readonly board: Board;
  readonly memory: AdmissionMemory;
  /** The row of this thread. */
  readonly thread: number;
  readonly expected: ExpectedWait;
  readonly clock: Clock;
  readonly deadlines: DeadlineQueue;
  /** The requests of a model that wait in this thread are more or fewer than before. */
  readonly onWaiting: (model: string, count: number) => void;
  /** A request that had to wait waits no more; or is refused, `full`, before it waits. */
  readonly onOutcome: (model: string, outcome: HoldOutcome, waitedMs: number) => void;
}

/** A request that may have to wait. */
export interface HeldRequest {
  /** Requests of one account share its turns. */
  readonly account: string;
  /** Bytes of prompt that a CRN would have to prefill. */
  readonly work: number;
  /** Memory that the request takes while it waits. */
  readonly bytes: number;
  /** `Member.hash` of the one CRN that can serve it, for which it then waits; 0: every CRN can. */
  readonly holder: number;
  /** Goes to a CRN now. Must not throw. `model`: as it is configured at present. */
  onAdmitted(model: Model, waitedMs: number): void;
  /** Is to be answered with this error. Must not throw. */
  onRefused(error: HeadraceError, waitedMs: number): void;
}

/** A wait, for the one who waits. */
export interface Hold {
  /** Ends the wait: nothing is called any more. False when it has ended before. */
  leave(outcome: 'gone' | 'draining'): boolean;
}

/**
 * Milliseconds between two looks at the backlogs while something waits. What another thread, a probe or a reload does is seen by the
 * next look; a CRN that has room by then has `holdMs` of work left, so that it does not run dry. A look takes from 0.3 µs (one account)
 * to 9 µs (500 accounts) of CPU time; to wake waiters in other threads would cost every request that ends.
 */
const LOOK_MS = 2;

/** Work of a request at least, in bytes: a prompt that is cached takes a turn too. */
const MIN_WORK = 512;

/** Longest `Retry-After` in seconds. */
const MAX_RETRY_S = 600;

/** What waits of one model in this thread. */
class ModelQueue {
  readonly model: Model;
  readonly waits: FairQueue<Wait>;
  /** Requests that wait for one CRN. */
  bound = 0;
  /** There was room for all since the last request that had to wait. */
  hadRoom = true;

  constructor(model: Model, time: VirtualTime) {
    this.model = model;
    this.waits = new FairQueue(time);
  }
}

class Wait implements Expirable, Hold {
  readonly request: HeldRequest;
  readonly sinceMs: number;
  readonly deadline: Deadline;
  queue: ModelQueue;
  /** Null when the wait has ended. */
  entry: FairEntry<Wait> | null = null;
  /** It was not its turn as it came. */
  hasWaited = false;
  readonly #admission: Admission;

  constructor(
    admission: Admission,
    request: HeldRequest,
    queue: ModelQueue,
    sinceMs: number,
    deadlines: DeadlineQueue,
  ) {
    this.#admission = admission;
    this.request = request;
    this.queue = queue;
    this.sinceMs = sinceMs;
    this.deadline = deadlines.deadline(this);
  }

  leave(outcome: 'gone' | 'draining'): boolean {
    return this.#admission.end(this, outcome);
  }

  expire(): void {
    this.#admission.expire(this);
  }
}

export class Admission {
  readonly #deps: AdmissionDeps;
  readonly #turns: AdmissionTurns;
  readonly #queues = new Map<string, ModelQueue>();
  #settings: AdmissionSettings;
  /** Null before the first reload. */
  #table: ModelTable | null = null;
  #timer: TimerHandle | null = null;

  constructor(deps: AdmissionDeps, settings: AdmissionSettings) {
    this.#deps = deps;
    this.#turns = new AdmissionTurns(deps.memory, deps.thread);
    this.#settings = settings;
  }

  /**
   * Takes over settings and a table. What waits for a model that is gone is refused, and everything is admitted when nothing is to be
   * held any more. A new timeout is that of new waits.
   */
  configure(settings: AdmissionSettings, table: ModelTable): void {
    this.#settings = settings;
    this.#table = table;
    const former = [...this.#queues.values()];
    // An id may be an alias of another one now: nothing may join a queue that has the model of the former table.
    this.#queues.clear();
    for (const queue of former) {
      const model = table.find(queue.model.id);
      this.#publish(queue, Infinity);
      if (model === undefined) this.#refuseAll(queue);
      else this.#moveAll(queue, model);
    }
  }

  /** Whether a request goes to a CRN at once: one has room, and nobody waits for it. */
  admits(model: Model, holder: number): boolean {
    const queue = this.#queues.get(model.id);
    const isFree =
      (queue === undefined || queue.waits.size === 0) && this.#isFirst(model) && this.#hasRoom(model, holder);
    if (isFree && holder === 0 && queue !== undefined) queue.hadRoom = true;
    return isFree;
  }

  /** Whether nothing waits in other threads. */
  #isFirst({ budget }: Model): boolean {
    return this.#turns.leastElsewhere(budget, this.#deps.clock.now()) === Infinity;
  }

  /**
   * Lets a request wait until it is its turn and a CRN has room. That may be at once: `onAdmitted` is then called before this returns.
   * Throws 429 when too much waits.
   */
  hold(given: Model, request: HeldRequest): Hold {
    // A request that began before a reload has the model of the former table.
    const model = this.#table?.find(given.id) ?? given;
    const queue = this.#queueOf(model);
    this.#checkBounds(queue, request);
    const { clock, deadlines } = this.#deps;
    const wait = new Wait(this, request, queue, clock.now(), deadlines);
    // All have had room since: what an account was served before takes no turn from it.
    if (queue.hadRoom && queue.waits.size === 0 && this.#isFirst(model)) this.#turns.beginPeriod(model.budget);
    queue.hadRoom = false;
    this.#enqueue(wait);
    wait.deadline.set(this.#settings.timeoutMs);
    this.#serve(queue);
    wait.hasWaited = true;
    return wait;
  }

  /** Requests of a model that wait in this thread. */
  waiting(model: string): number {
    return this.#queues.get(model)?.waits.size ?? 0;
  }

  /** Stops looking: what waits is not admitted any more. */
  close(): void {
    if (this.#timer !== null) this.#deps.clock.clearTimeout(this.#timer);
    this.#timer = null;
  }

  /** @internal Takes a wait out of its queue. False when it has ended before. */
  end(wait: Wait, outcome: HoldOutcome): boolean {
    if (wait.entry === null) return false;
    wait.queue.waits.remove(wait.entry);
    this.#ended(wait, outcome);
    return true;
  }

  /** @internal A wait has reached its timeout. */
  expire(wait: Wait): void {
    const { queue, request } = wait;
    if (!this.end(wait, 'timeout')) return;
    request.onRefused(this.#refusal(queue, request.account), this.#waitedMs(wait));
  }

  #queueOf(model: Model): ModelQueue {
    let queue = this.#queues.get(model.id);
    if (queue === undefined) {
      queue = new ModelQueue(model, this.#turns.timeOf(model.budget));
      this.#queues.set(model.id, queue);
    }
    return queue;
  }

  /**
   * Throws 429 when the queue is full for an account. It may have as many requests and bytes waiting as are still free (dynamic
   * thresholds, Choudhury and Hahne, 1998): one account gets half of the queue, two get a third each, and the next one finds room.
   */
  #checkBounds(queue: ModelQueue, { account, bytes }: HeldRequest): void {
    const { model, waits } = queue;
    const own = waits.of(account);
    const elsewhere = this.#turns.waitingElsewhere(model.budget, this.#deps.clock.now());
    const freeRequests = this.#settings.requests - waits.size - elsewhere.requests;
    const freeBytes = this.#settings.bytes - waits.bytes - elsewhere.bytes;
    if (own.count < freeRequests && own.bytes + bytes <= freeBytes) return;
    this.#deps.onOutcome(model.id, 'full', 0);
    throw this.#refusal(queue, account);
  }

  #enqueue(wait: Wait): void {
    const { queue, request } = wait;
    const work = Math.min(Math.max(request.work, MIN_WORK), MAX_WORK);
    wait.entry = queue.waits.add(request.account, wait, work, request.bytes);
    if (request.holder !== 0) queue.bound++;
    this.#deps.onWaiting(queue.model.id, queue.waits.size);
    this.#timer ??= this.#deps.clock.setTimeout(this.#look, LOOK_MS);
  }

  readonly #look = (): void => {
    this.#timer = null;
    let isWaiting = false;
    for (const queue of this.#queues.values()) {
      if (queue.waits.size > 0) this.#serve(queue);
      isWaiting ||= queue.waits.size > 0;
    }
    if (isWaiting) this.#timer ??= this.#deps.clock.setTimeout(this.#look, LOOK_MS);
  };

  /** Admits what has room, in the order of the tags of all threads. */
  #serve(queue: ModelQueue): void {
    const { model, waits } = queue;
    for (;;) {
      const shared = waits.peek(isForAny);
      const tag = shared === null ? Infinity : waits.tagOf(shared);
      this.#publish(queue, tag);
      const hasRoom = this.#hasRoom(model, 0);
      if (!hasRoom && queue.bound === 0) return;
      // Many may wait for one CRN: it is looked at once.
      const rooms = new Map([[0, hasRoom]]);
      const next = waits.peek(({ request: { holder } }) => {
        const known = rooms.get(holder);
        if (known !== undefined) return known;
        const room = this.#hasRoom(model, holder);
        rooms.set(holder, room);
        return room;
      });
      if (next === null) return;
      // A request that waits for one CRN takes no turn of the others: they must not wait for it either.
      const isTurn = next !== shared || tag <= this.#turns.leastElsewhere(model.budget, this.#deps.clock.now());
      if (!isTurn && this.#settings.holdMs > 0) return;
      waits.take(next);
      this.#ended(next.item, 'admitted');
      next.item.request.onAdmitted(model, this.#waitedMs(next.item));
    }
  }

  /** The wait is in no queue any more. */
  #ended(wait: Wait, outcome: HoldOutcome): void {
    const { hasWaited, queue, request } = wait;
    const { model, waits } = queue;
    wait.entry = null;
    wait.deadline.clear();
    if (request.holder !== 0) queue.bound--;
    if (waits.size === 0) this.#publish(queue, Infinity);
    this.#deps.onWaiting(model.id, waits.size);
    if (hasWaited) this.#deps.onOutcome(model.id, outcome, this.#waitedMs(wait));
  }

  #waitedMs({ sinceMs }: Wait): number {
    return this.#deps.clock.now() - sinceMs;
  }

  #refuseAll({ model, waits }: ModelQueue): void {
    for (const wait of waits.list()) {
      const error = new HeadraceError('HR_ROUTE_UNKNOWN_MODEL', { subject: model.id });
      if (this.end(wait, 'removed')) wait.request.onRefused(error, this.#waitedMs(wait));
    }
  }

  /** The model may have another cell, and with it another virtual time. */
  #moveAll({ model: { id }, waits }: ModelQueue, model: Model): void {
    if (waits.size === 0) return;
    // Its id may be an alias of the other one now.
    this.#deps.onWaiting(id, 0);
    const queue = this.#queueOf(model);
    for (const wait of waits.list()) {
      waits.remove(wait.entry as FairEntry<Wait>);
      wait.queue = queue;
      this.#enqueue(wait);
    }
    this.#serve(queue);
  }

  /**
   * Whether one of the CRNs that the picker would choose from has room; with a `holder` among them, whether that one has. True when none
   * is up: failover says what is wrong then.
   */
  #hasRoom({ members }: Model, holder: number): boolean {
    const { board, clock, expected } = this.#deps;
    const { holdMs } = this.#settings;
    const nowMs = clock.now();
    const best = bestRank(board, members);
    if (best === RANK.none || holdMs === 0) return true;
    let hasRoom = false;
    for (const member of members) {
      if (board.rank(member.member) !== best) continue;
      const fits = expected.waitMs(member.member, nowMs) <= holdMs;
      if (holder !== 0 && member.hash === holder) return fits;
      hasRoom ||= fits;
    }
    return hasRoom;
  }

  #publish({ model, waits }: ModelQueue, tag: number): void {
    const waiting = { requests: waits.size, bytes: waits.bytes, work: waits.cost };
    this.#turns.publish(model.budget, waiting, tag, this.#deps.clock.now());
  }

  /** 429 with the seconds in which the CRNs, at their learned rates, will have done the work that is ahead of this account. */
  #refusal({ model, waits }: ModelQueue, account: string): HeadraceError {
    const { board, clock, expected } = this.#deps;
    const nowMs = clock.now();
    const elsewhere = this.#turns.waitingElsewhere(model.budget, nowMs).work;
    // The other threads are taken to have the same mix of accounts.
    const ahead = waits.cost === 0 ? elsewhere : waits.workAhead(account) * ((waits.cost + elsewhere) / waits.cost);
    const best = bestRank(board, model.members);
    let rate = 0;
    let leastMs = Infinity;
    for (const member of model.members) {
      if (best === RANK.none || board.rank(member.member) !== best) continue;
      const msPerByte = expected.msPerByte(member.member);
      if (msPerByte > 0) rate += 1 / msPerByte;
      leastMs = Math.min(leastMs, expected.waitMs(member.member, nowMs));
    }
    const excessMs = leastMs === Infinity ? 0 : Math.max(leastMs - this.#settings.holdMs, 0);
    const seconds = Math.ceil((excessMs + (rate === 0 ? 0 : ahead / rate)) / 1000);
    const retryAfter = String(Math.min(Math.max(seconds, 1), MAX_RETRY_S));
    return new HeadraceError('HR_ROUTE_BACKLOG', { subject: model.id, headers: ['retry-after', retryAfter] });
  }
}

function isForAny({ request }: Wait): boolean {
  return request.holder === 0;
}

/** The rank of the members that requests go to; `RANK.none` when all are down. */
function bestRank(board: Board, members: readonly Member[]): number {
  let best: number = RANK.none;
  for (const { member } of members) best = Math.max(best, board.rank(member));
  return best > RANK.down ? best : RANK.none;
}
