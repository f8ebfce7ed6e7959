// `headrace usage`: what was used and charged, summed by account, key, model and day.

import type { Command } from 'commander';
import { LISTS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, pick, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `What was used and charged, summed. \`estimated\` counts requests whose charge rests on an estimate, as after a broken
stream; an empty key stands for charges without one.`;

const EXAMPLE = `
For example
  headrace usage --by account,model --from 2030-01-01 --to 2030-01-31 --format csv`;

export function configureUsage(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .option('--by <list>', 'one row per combination of account, key, model, day (default: all four); --by= for totals')
    .option('--from <day>', 'first day in UTC, such as 2030-01-01')
    .option('--to <day>', 'last day, included')
    .option('--account <name>', 'only this account')
    .option('--key <id>', 'only this key')
    .option('--model <name>', 'only this model')
    .addHelpText('after', EXAMPLE)
    .action(async () => {
      const fields = pick(command, 'by', 'from', 'to', 'account', 'key', 'model', 'limit', 'cursor');
      await runList(command, io, LISTS.usage, fields, (adminService, asked) => adminService.usage(asked));
    });
  addPageOptions(command);
  addAccountOptions(command);
}
