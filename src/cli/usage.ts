// `headrace usage`: what was used and charged, summed by account, key, model and day.

import { usageColumns } from '../account/index.ts';
import { type Action, answer, pick, runAction } from './office.ts';

const USAGE: Action = {
  flags: ['by', 'from', 'to', 'account', 'key', 'model'],
  async run(office, call) {
    const rows = await office.usage(pick(call, ...USAGE.flags));
    return answer(rows, usageColumns(call.fields['by']));
  },
};

export async function usage(flags: Readonly<Record<string, string>>, words: readonly string[]): Promise<number> {
  return runAction('usage', USAGE, flags, words);
}
