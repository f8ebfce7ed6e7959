// The completion options that each kind of attached engine does not support. Such an option may keep its default
// (docs/interface.md, section 12) or a value that turns it off; anything else is refused with status 422 before the request
// is sent.
import type { ValidationEntry } from '../../errors.ts';
import { type CompletionOptions, DEFAULT_OPTIONS, InvalidOptions, valueError } from '../completion-options.ts';
import type { DetectedEngine, AttachedEngineKind } from './detect.ts';

type OptionName = keyof CompletionOptions;

const NOT_OF_OPENAI_STYLE: readonly OptionName[] = [
  'tfs_z',
  'typical_p',
  'penalize_nl',
  'mirostat',
  'grammar',
  'n_keep',
  'image_data',
  'slot_id',
];

const NOT_OF_OPENAI: readonly OptionName[] = ['top_k', 'min_p', 'repeat_penalty', 'repeat_last_n', 'ignore_eos'];

const MISSING: Readonly<Record<AttachedEngineKind, readonly OptionName[]>> = {
  'llama-server': ['tfs_z', 'penalize_nl'],
  // Its penalties look at the whole sequence: a window of another length is refused, no window at all can be had.
  vllm: [...NOT_OF_OPENAI_STYLE, 'repeat_last_n'],
  openai: [...NOT_OF_OPENAI_STYLE, ...NOT_OF_OPENAI],
  // It ignores them in silence.
  ollama: [...NOT_OF_OPENAI_STYLE, ...NOT_OF_OPENAI, 'logit_bias', 'n_probs'],
};

/** Values, besides the default, with which an option does nothing or what the engine does anyway. */
const HARMLESS: Partial<Record<OptionName, (value: number) => boolean>> = {
  tfs_z: (value) => value >= 1,
  typical_p: (value) => value >= 1,
  top_k: (value) => value <= 0,
  min_p: (value) => value <= 0,
  repeat_penalty: (value) => value === 1,
  // No window at all means that the other penalties are not sent.
  repeat_last_n: (value) => value === 0 || value === -1,
};

/** Options that this engine has no counterpart for. */
export function missingOptions({ kind, isMultimodal }: DetectedEngine): readonly OptionName[] {
  return isMultimodal ? MISSING[kind] : [...new Set<OptionName>([...MISSING[kind], 'image_data'])];
}

/** Throws InvalidOptions with every option of the request that this engine has no counterpart for. */
export function refuseUnsupportedOptions(engine: DetectedEngine, options: CompletionOptions): void {
  const entries: ValidationEntry[] = missingOptions(engine)
    .filter((name) => !isAccepted(name, options[name]))
    .map((name) => entryOf(engine, name));
  entries.push(...slotMistakes(engine, options));
  if (entries.length > 0) throw new InvalidOptions(entries);
}

function isAccepted(name: OptionName, value: unknown): boolean {
  return JSON.stringify(value) === JSON.stringify(DEFAULT_OPTIONS[name]) || HARMLESS[name]?.(value as number) === true;
}

function entryOf({ kind }: DetectedEngine, name: OptionName): ValidationEntry {
  const only = JSON.stringify(DEFAULT_OPTIONS[name]);
  return valueError(name, `the engine behind this host (${kind}) has no ${name}; only ${only} is accepted`);
}

function slotMistakes({ kind, slots }: DetectedEngine, { slot_id }: CompletionOptions): ValidationEntry[] {
  if (kind !== 'llama-server' || slot_id < slots) return [];
  return [valueError('slot_id', `there is no slot ${slot_id}; slots are numbered 0 to ${slots - 1}`)];
}
