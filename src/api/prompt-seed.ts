// What the chain of a prompt's blocks begins with, before the prompt itself: the model, and the account where accounts share nothing.

import type { Settings } from '../config/settings.ts';
import { hashText } from '../routing/index.ts';

/**
 * A uint32 that is the same on every gateway.
 * @param account '' for clients without one, who share their prompts
 */
export function promptSeed(isolate: Settings['routing']['isolate'], model: string, account: string): number {
  return hashText(isolate === 'account' && account !== '' ? `${account} ${model}` : model);
}
