// `headrace requests`: what single requests used and cost, as a table or an export.

import type { Command } from 'commander';
import { LISTS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, pick, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Single requests with their tokens and cost, the newest first, where the setting \`costLog.requests\` keeps them.`;

const EXAMPLE = `
For example
  headrace requests --account acme --from 2030-01-01 --to 2030-01-31 --format csv > january.csv`;

export function configureRequests(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .option('--account <name>', 'only this account')
    .option('--key <id>', 'only this key')
    .option('--model <name>', 'only this model')
    .option('--from <date>', 'first day in UTC (2030-01-01), or a time (2030-01-01T12:00:00Z)')
    .option('--to <date>', 'last day, included; or a time, not included')
    .addHelpText('after', EXAMPLE)
    .action(async () => {
      const fields = pick(command, 'account', 'key', 'model', 'from', 'to', 'limit', 'cursor');
      await runList(command, io, LISTS.requests, fields, (adminService, asked) => adminService.requests(asked));
    });
  addPageOptions(command);
  addAccountOptions(command);
}
