// What `Candidates` needs in tests, with the settings of a gateway that sets none.

import { resolveSettings } from '../../src/config/load.ts';
import type { Settings, SettingsInput } from '../../src/config/settings.ts';
import { BlockIndex } from '../../src/routing/block-index.ts';
import type { Board, BoardMemory } from '../../src/routing/board.ts';
import { CacheFeedback } from '../../src/routing/cache-feedback.ts';
import { CommonPrefixes } from '../../src/routing/common-prefixes.ts';
import type { AffinityHint, PickerDeps, PickerSettings, PromptHashes } from '../../src/routing/picker.ts';

const { ejection, routing } = settingsOf({});

export const PICKER: PickerSettings = { ...routing, slowStartMs: ejection.slowStartMs };

function settingsOf(input: SettingsInput): Settings {
  const resolved = resolveSettings(input);
  if ('mistakes' in resolved) throw new Error(JSON.stringify(resolved.mistakes));
  return resolved.settings;
}

const NO_PROMPT: PromptHashes = { hashes: new Int32Array(0), count: 0, bytes: 0 };

/** A request of a stream that says nothing about the CRN that it should go to. */
export const NO_HINT: AffinityHint = {
  url: undefined,
  session: 0,
  holder: 0,
  stream: true,
  bytes: 0,
  dialectBit: 0,
  translatedBit: 0,
  isUntranslatable: false,
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
