// Trials of suspended engines, one for all gateways: what threads ask of the actor that speaks with the other gateways.

import { ask, type Ref } from '../actor/index.ts';

export interface TrialCommand {
  readonly type: 'Claim';
  /** The engine's place on the board. */
  readonly cell: number;
  /** Whether the trial is for this gateway. */
  readonly replyTo: Ref<boolean>;
}

/** Longest wait for the word of the engine of the cluster. */
const CLAIM_MS = 50;

/** Whether the trial of an engine is for this gateway; true where it cannot be told. */
export async function claimTrial(trials: Ref<TrialCommand>, cell: number): Promise<boolean> {
  const message = (replyTo: Ref<boolean>): TrialCommand => ({ type: 'Claim', cell, replyTo });
  return await ask(trials, message, { timeoutMs: CLAIM_MS }).catch(() => true);
}
