// `headrace credits`: grants credit, shows balances and movements. Amounts are USD, shown in credits, too.

import type { Command } from 'commander';
import { ACCOUNT_COLUMNS, GRANT_COLUMNS, MOVEMENT_COLUMNS } from '../admin/index.ts';
import { addAccountOptions, answer, pick, runAction } from './account-command.ts';
import type { CliIo } from './io.ts';

/** Movements of a page unless --limit says otherwise: the default of the admin interface. */
const DEFAULT_LIMIT = 50;

const DESCRIPTION = `Credit of accounts. Amounts are USD as plain decimals with at most 12 digits behind the point, shown in USD and in
credits: 1 USD is 1,000,000 credits.`;

const EXAMPLE = `
For example
  headrace credits grant acme 25.00 --id invoice-17`;

export function configureCredits(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  addAccountOptions(command);
  const grant = command.command('grant').description('gives credit to an account that exists');
  grant
    .argument('<account>', 'the account')
    .argument('<amount_usd>', 'such as 25.00')
    .option('--id <id>', 'makes the grant idempotent: a repeat moves nothing; default a new id')
    .option('--memo <text>', 'for people, kept in the history')
    .action(async (account: string, amount: string) =>
      runAction(grant, io, async (adminService) => {
        const made = await adminService.grant(account, { ...pick(grant, 'id', 'memo'), amount });
        const money = `${made.amount_usd} USD (${made.amount_credits} credits)`;
        const text = [
          made.repeated ? `grant ${made.id} had been made before: nothing moved\n` : `granted ${money} to ${account}\n`,
          `balance ${made.balance_usd} USD (${made.balance_credits} credits), grant id ${made.id}\n`,
        ].join('');
        return answer([made], GRANT_COLUMNS, { value: made, text });
      }),
    );
  const balance = command.command('balance').description('shows the balance of an account, or of all');
  balance.argument('[account]').action(async (id: string | undefined) =>
    runAction(balance, io, async (adminService) => {
      if (id === undefined) return answer(await adminService.listAccounts(), ACCOUNT_COLUMNS);
      const account = await adminService.account(id);
      return answer([account], ACCOUNT_COLUMNS, { value: account });
    }),
  );
  const history = command.command('history').description('shows grants, payments and charges, the newest first');
  history
    .argument('<account>')
    .option('--limit <n>', `most movements, default ${DEFAULT_LIMIT}, at most 1000`)
    .option('--before <seq>', 'only those before this one: the next page')
    .action(async (account: string, { limit }: { limit?: string }) =>
      runAction(history, io, async (adminService) => {
        const movements = await adminService.history(account, pick(history, 'limit', 'before'));
        const oldest = movements.at(-1);
        const mayHaveMore = movements.length >= Number(limit ?? DEFAULT_LIMIT);
        const note = mayHaveMore && oldest !== undefined ? `\nolder ones: --before ${oldest.seq}\n` : '';
        return answer(movements, MOVEMENT_COLUMNS, { note });
      }),
    );
}
