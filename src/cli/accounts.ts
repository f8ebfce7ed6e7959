// `headrace accounts`: accounts with their credit limits, organisations and thresholds.

import type { Command } from 'commander';
import { ACCOUNT_TERMS_COLUMNS, LISTS, RESPONSES_COLUMNS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, answer, pick, runAction, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Accounts. Members of an organisation spend its credit; their usage is counted for each of them. A credit limit says
how far below zero an account may go: it pays later.`;

const EXAMPLE = `
For example
  headrace accounts create acme-research --label "Research at Acme"
  headrace accounts set acme-research --organisation acme
  headrace accounts forget acme-research
  headrace accounts set acme --credit-limit 500.00 --low-balance 20.00`;

export function configureAccounts(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  addAccountOptions(command);
  const list = command.command('list').description('lists accounts');
  list.option('--organisation <id>', 'only the members of this organisation').action(async () => {
    const fields = pick(list, 'organisation', 'limit', 'cursor');
    const shown = { ...LISTS.accounts, columns: () => ACCOUNT_TERMS_COLUMNS };
    await runList(list, io, shown, fields, (adminService, asked) => adminService.listAccounts(asked));
  });
  addPageOptions(list);
  const create = command.command('create').description('creates an empty account; one that exists stays as it is');
  create
    .argument('<id>', 'name of the account')
    .option('--label <text>', 'for people')
    .action(async (id: string) =>
      runAction(create, io, async (adminService) => {
        const account = await adminService.createAccount({ ...pick(create, 'label'), id });
        return answer([account], ACCOUNT_TERMS_COLUMNS, { value: account });
      }),
    );
  const forget = command.command('forget').description('removes the stored responses of an account');
  forget.argument('<id>', 'the account').action(async (id: string) =>
    runAction(forget, io, async (adminService) => {
      const removed = await adminService.removeResponses(id);
      return answer([removed], RESPONSES_COLUMNS, { value: removed });
    }),
  );
  const set = command.command('set').description('changes what an account may spend, and of whose credit');
  set
    .argument('<id>', 'the account')
    .option('--credit-limit <usd>', 'how far below zero the balance may go; 0 for prepaid accounts')
    .option('--organisation <id>', 'account whose credit is spent; none for its own')
    .option('--low-balance <usd>', 'threshold of the event credit.low; none for the default of the gateway')
    .action(async (id: string) =>
      runAction(set, io, async (adminService) => {
        const fields = pick(set, 'credit_limit', 'organisation', 'low_balance');
        const account = await adminService.changeAccount(id, fields);
        return answer([account], ACCOUNT_TERMS_COLUMNS, { value: account });
      }),
    );
}
