// What `Candidates` needs in tests, with the settings of a gateway that sets none.

import { BlockIndex } from '../../src/routing/block-index.ts';
import type { Board, BoardMemory } from '../../src/routing/board.ts';
import { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { CommonPrefixes } from '../../src/routing/common-prefixes.ts';
import type { AffinityHint, PickerDeps, PickerSettings, PromptHashes } from '../../src/routing/picker.ts';

export const PICKER: PickerSettings = {
  affinity: true,
  missWeight: 2,
  requestBytes: 4096,
  speedWeight: 1,
  failurePenalty: 10,
  commonShare: 0.2,
  prior: 0.5,
  sessionPrior: 0.2,
  stickiness: 4,
  slowStartMs: 10_000,
};

const NO_PROMPT: PromptHashes = { hashes: new Int32Array(0), count: 0, bytes: 0 };

/** A request of a stream that says nothing about the CRN that it should go to. */
export const NO_HINT: AffinityHint = {
  url: undefined,
  session: 0,
  holder: 0,
  stream: true,
  bytes: 0,
  blocks: () => NO_PROMPT,
};

export function pickerDeps(
  board: Board,
  memory: BoardMemory,
  now: () => number,
  random: () => number = () => 0,
): PickerDeps {
  const index = new BlockIndex(memory.blocks);
  return {
    board,
    index,
    common: new CommonPrefixes(),
    feedback: new CacheFeedback(memory, index),
    clock: { now },
    random,
  };
}
