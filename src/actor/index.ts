// The public names of the actor kernel, published as `headrace/actor`. Test aids are in `testkit.ts`.

import '../node-version.ts';

export type { Actor, Behavior, Context, Signal, SpawnOptions } from './behavior.ts';
export { EscalatedError } from './cell.ts';
export {
  createManualClock,
  createSeededRandom,
  systemClock,
  systemEpochMs,
  systemRandom,
  unreferenced,
} from './clock.ts';
export type { Clock, ManualClock, TimerHandle } from './clock.ts';
export type { DeadLetterReason, SystemEvent } from './kernel.ts';
export type { MailboxOptions, Overflow } from './mailbox.ts';
export { ActorError, ask, AskTimeoutError, MailboxFullError, TerminatedError } from './ref.ts';
export type { ActorErrorCode, AskOptions, Ref } from './ref.ts';
export { link } from './remote.ts';
export type { Link, LinkOptions, LinkStats, MessagePortLike } from './remote.ts';
export { backoffMs } from './supervision.ts';
export type { Backoff, Directive, Supervision } from './supervision.ts';
export { createSystem } from './system.ts';
export type { System, SystemOptions, SystemStats } from './system.ts';
export type { Timers } from './timers.ts';
