// `headrace budgets`: sets, lists and removes what accounts, keys and models may spend in a day, a week or a month.

import type { Command } from 'commander';
import { BUDGET_COLUMNS, LISTS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, answer, pick, runAction, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Budgets: most money of an account, a key, a model, or a combination of them, in a day, a week or a month (UTC; weeks
begin on Mondays). Running gateways apply a change within about a second. A budget of a key goes on with the keys
that replace it.`;

const EXAMPLE = `
For example
  headrace budgets set --account acme --model atlas-27b --period day --limit 5.00 --alert 80%`;

export function configureBudgets(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  addAccountOptions(command);
  const set = command.command('set').description('sets a budget, or changes the one for the same things and period');
  set
    .option('--account <name>', 'the account; default all, or that of the key')
    .option('--key <id>', 'id of a key; default all')
    .option('--model <id>', 'id of a model; default all, with searches and pages')
    .option('--period <period>', 'day, week or month')
    .option('--limit <usd>', 'such as 25.00')
    .option('--alert <usd>', 'spending that alerts: USD, or a part of the limit such as 80%')
    .action(async () =>
      runAction(set, io, async (adminService) => {
        const fields = pick(set, 'account', 'key', 'model', 'period', 'limit', 'alert');
        const budget = await adminService.setBudget(fields);
        return answer([budget], BUDGET_COLUMNS, { value: budget });
      }),
    );
  const list = command.command('list').description('lists budgets and what is spent of them');
  list
    .option('--account <name>', 'only the budgets of this account and its keys')
    .action(async () =>
      runList(list, io, LISTS.budgets, pick(list, 'account', 'limit', 'cursor'), (adminService, asked) =>
        adminService.listBudgets(asked),
      ),
    );
  addPageOptions(list);
  const remove = command.command('remove').description('removes a budget');
  remove.argument('<id>', 'id of the budget').action(async (id: string) =>
    runAction(remove, io, async (adminService) => {
      const budget = await adminService.removeBudget(id);
      return answer([budget], BUDGET_COLUMNS, { value: budget, text: `${budget.id} is removed\n` });
    }),
  );
}
