// Jobs for the tests of the engine: tokens without words, and everything that was called, kept.

import type { Profile } from '../../../src/host/engine/profile.ts';
import { PROFILES } from '../../../src/host/engine/profiles.ts';
import type { SequenceJob, SequenceEnd } from '../../../src/host/engine/sequence.ts';
export interface Watched {
  readonly job: SequenceJob;
  readonly tokens: number[];
  readonly atUs: number[];
  readonly starts: [slotId: number, cached: number, prompt: number][];
  readonly ends: SequenceEnd[];
}

/** A job that counts up from 1000, for ever unless told otherwise; a number as prompt stands for so many tokens from 1. */
export function createJob(prompt: number | readonly number[], options: Partial<SequenceJob> = {}): Watched {
  let next = 1000;
  const watched: Omit<Watched, 'job'> = { tokens: [], atUs: [], starts: [], ends: [] };
  const job: SequenceJob = {
    prompt: Int32Array.from(typeof prompt === 'number' ? Array.from({ length: prompt }, (_, at) => at + 1) : prompt),
    maxTokens: Infinity,
    cachePrompt: true,
    slotId: -1,
    keepTokens: 0,
    whenFull: 'stop',
    mayWait: false,
    next: () => next++,
    onStart: (...start) => watched.starts.push(start),
    onToken(token, atUs) {
      watched.tokens.push(token);
      watched.atUs.push(atUs);
    },
    onDue: () => {},
    onEnd: (end) => watched.ends.push(end),
    ...options,
  };
  return { job, ...watched };
}

/** Steps of 10 ms, 1 ms more for each prompt token; blocks of four tokens. */
export function profile(changes: Partial<Profile> = {}): Profile {
  return {
    ...PROFILES.even,
    stepUs: 10_000,
    prefillTokenUs: 1000,
    maxBatchTokens: 64,
    maxSequences: 8,
    contextTokens: 256,
    memory: { kind: 'blocks', blocks: 256, blockTokens: 4 },
    ...changes,
  };
}

/** A reproducible source of whole numbers below a bound. */
export function createDice(seed: number): (below: number) => number {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}
