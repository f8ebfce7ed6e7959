// `headrace usage`: what was used and charged, summed by account, key, model and day.

import { usageColumns } from '../admin/index.ts';
import { type Action, answer, pick, runAction } from './account-command.ts';

const USAGE: Action = {
  flags: ['by', 'from', 'to', 'account', 'key', 'model'],
  async run(adminService, call) {
    const rows = await adminService.usage(pick(call, ...USAGE.flags));
    return answer(rows, usageColumns(call.fields['by']));
  },
};

export async function usage(flags: Readonly<Record<string, string>>, words: readonly string[]): Promise<number> {
  return runAction('usage', USAGE, flags, words);
}
