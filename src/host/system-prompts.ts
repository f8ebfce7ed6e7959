// The system prompts that requests set for all slots of a model: one for each account, or one for every caller. No account's
// prompt ever stands in front of another's unless the setting says so.
import { LRUCache } from 'lru-cache';
import { type SystemPrompt, invalidOption } from './completion-options.ts';

/** For whom a system prompt counts: the account that set it, every caller, or nobody, because it is refused. */
export const SYSTEM_PROMPT_SCOPES = ['account', 'all', 'off'] as const;

export type SystemPromptScope = (typeof SYSTEM_PROMPT_SCOPES)[number];

const NONE: SystemPrompt = { prompt: '', anti_prompt: '', assistant_name: '' };

/** Characters of one system prompt, and of all that are kept: beyond it, those used least recently are forgotten. */
const MAX_CHARACTERS = 1024 * 1024;
const MAX_KEPT_CHARACTERS = 64 * MAX_CHARACTERS;

export class SystemPrompts {
  readonly #scope: SystemPromptScope;
  readonly #kept = new LRUCache<string, SystemPrompt>({
    maxSize: MAX_KEPT_CHARACTERS,
    sizeCalculation: (system, key) => lengthOf(system) + key.length,
  });

  constructor(scope: SystemPromptScope) {
    this.#scope = scope;
  }

  /** The system prompt in front of a caller's prompts. `account` is null where no key is needed: one for every caller. */
  of(model: string, account: string | null): SystemPrompt {
    return this.#kept.get(this.#key(model, account)) ?? NONE;
  }

  /** Throws InvalidOptions when system prompts are off, and for one that is too long. An empty one takes it back. */
  set(model: string, account: string | null, system: SystemPrompt): void {
    if (this.#scope === 'off') throw invalidOption('system_prompt', 'this host lets nobody change the initial prompt');
    const length = lengthOf(system);
    if (length > MAX_CHARACTERS) {
      throw invalidOption('system_prompt', `it has ${length} characters, and ${MAX_CHARACTERS} is the most`);
    }
    if (length === 0) this.#kept.delete(this.#key(model, account));
    else this.#kept.set(this.#key(model, account), system);
  }

  #key(model: string, account: string | null): string {
    return JSON.stringify([model, this.#scope === 'all' ? null : account]);
  }
}

function lengthOf({ prompt, anti_prompt, assistant_name }: SystemPrompt): number {
  return prompt.length + anti_prompt.length + assistant_name.length;
}
