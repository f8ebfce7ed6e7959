// `headrace credits`: grants credit, shows balances and movements. Amounts are USD, shown in credits, too.

import type { Command } from 'commander';
import { ACCOUNT_COLUMNS, GRANT_COLUMNS, type GrantView, LISTS, MOST_ROWS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, type Answer, answer, pick, runAction, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Credit of accounts. Amounts are USD as plain decimals with at most 12 digits behind the point, shown in USD and in
credits: 1 USD is 1,000,000 credits.`;

const EXAMPLE = `
For example
  headrace credits grant acme 25.00 --id invoice-17`;

function moneyOf({ amount_credits: credits, amount_usd: usd }: GrantView): string {
  return `${usd} USD (${credits} credits)`;
}

function movedAnswer(made: GrantView, what: string, sentence: string): Answer {
  const { balance_credits: credits, balance_usd: usd, id, repeated } = made;
  const text = [
    repeated ? `${what} ${id} had been made before: nothing moved\n` : `${sentence}\n`,
    `balance ${usd} USD (${credits} credits), ${what} id ${id}\n`,
  ].join('');
  return answer([made], GRANT_COLUMNS, { value: made, text });
}

export function configureCredits(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  addAccountOptions(command);
  const grant = command.command('grant').description('gives credit to an account that exists');
  grant
    .argument('<account>', 'the account')
    .argument('<amount_usd>', 'such as 25.00')
    .option('--id <id>', 'makes the grant idempotent: a repeat moves nothing; default a new id')
    .option('--memo <text>', 'for people, kept in the history')
    .option('--expires <when>', 'takes back what is unspent then: from now (30d) or a date (2030-01-31); default never')
    .action(async (account: string, amount: string) =>
      runAction(grant, io, async (adminService) => {
        const made = await adminService.grant(account, { ...pick(grant, 'id', 'memo', 'expires'), amount });
        return movedAnswer(made, 'grant', `granted ${moneyOf(made)} to ${account}`);
      }),
    );
  const adjust = command.command('adjust').description('corrects the credit of an account, upwards or downwards');
  adjust
    .argument('<account>', 'the account')
    .argument('<amount_usd>', 'such as 5.00 or -5.00; takes no more than the account may spend')
    .option('--id <id>', 'makes the adjustment idempotent: a repeat moves nothing; default a new id')
    .option('--memo <text>', 'for people, kept in the history')
    .action(async (account: string, amount: string) =>
      runAction(adjust, io, async (adminService) => {
        const made = await adminService.adjust(account, { ...pick(adjust, 'id', 'memo'), amount });
        return movedAnswer(made, 'adjustment', `adjusted ${account} by ${moneyOf(made)}`);
      }),
    );
  const refund = command.command('refund').description('gives back what was charged, as credit');
  refund
    .argument('<account>', 'the account')
    .argument('[amount_usd]', 'such as 0.50; default all of the charge or request')
    .option('--charge <id>', 'id of a charge in the history: at most what is left of it is given back')
    .option('--request <id>', 'id of a request in `headrace requests`: it is given back once')
    .option('--id <id>', 'makes the refund idempotent: a repeat moves nothing; default a new id, or that of the charge')
    .option('--memo <text>', 'for people, kept in the history')
    .action(async (account: string, amount: string | undefined) =>
      runAction(refund, io, async (adminService) => {
        const fields = pick(refund, 'charge', 'request', 'id', 'memo');
        const made = await adminService.refund(account, { ...fields, ...(amount !== undefined && { amount }) });
        return movedAnswer(made, 'refund', `refunded ${moneyOf(made)} to ${account}`);
      }),
    );
  const grants = command
    .command('grants')
    .description('shows credit of an account that expires, and what is left of it');
  grants
    .argument('<account>')
    .action(async (account: string) =>
      runList(grants, io, LISTS.openGrants, {}, (adminService) => adminService.openGrants(account)),
    );
  const balance = command.command('balance').description('shows the balance of an account, or of all');
  balance.argument('[account]').action(async (id: string | undefined) => {
    if (id === undefined) {
      await runList(balance, io, LISTS.accounts, {}, (adminService, asked) => adminService.listAccounts(asked));
      return;
    }
    await runAction(balance, io, async (adminService) => {
      const account = await adminService.account(id);
      return answer([account], ACCOUNT_COLUMNS, { value: account });
    });
  });
  const history = command.command('history').description('shows grants, payments and charges, the newest first');
  history
    .argument('<account>')
    .option('--before <seq>', 'only those before this one, as --cursor')
    .action(async (account: string) => {
      const { before, ...fields } = pick(history, 'limit', 'cursor', 'before');
      await runList(
        history,
        io,
        LISTS.history,
        before === undefined ? fields : { cursor: before, ...fields },
        (adminService, asked) => adminService.history(account, { limit: `${MOST_ROWS}`, ...asked }),
      );
    });
  addPageOptions(history);
}
