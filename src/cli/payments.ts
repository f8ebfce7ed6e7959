// `headrace payments`: payments by x402, and the decision about those whose outcome neither the facilitator nor the chain has told.

import { type Command, Option } from 'commander';
import { LISTS, PAYMENT_COLUMNS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, answer, pick, runAction, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Payments by x402. \`submitted\`: the facilitator was asked to settle, and the outcome is not known. A payment is
named by its id or its nonce.`;

const EXAMPLE = `
For example
  headrace payments list
  headrace payments decide 0x5f…07 --transaction 0xd1…42`;

export function configurePayments(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  addAccountOptions(command);
  const list = command.command('list').description('lists payments in one state, those that changed last first');
  list
    .addOption(
      new Option('--state <state>', 'default submitted').choices(['reserved', 'submitted', 'settled', 'failed']),
    )
    .option('--payer <address>', 'only payments of this address')
    .action(async () => {
      const fields = pick(list, 'state', 'payer', 'limit', 'cursor');
      await runList(list, io, LISTS.payments, fields, (adminService, asked) => adminService.payments(asked));
    });
  addPageOptions(list);
  const show = command.command('show').description('shows all that is known of a payment');
  show.argument('<id>', 'id or nonce').action(async (id: string) =>
    runAction(show, io, async (adminService) => {
      const payment = await adminService.payment(id);
      const lines = Object.entries(payment).map(([name, value]) => `${name.padEnd(15)} ${String(value ?? '-')}\n`);
      return answer([payment], PAYMENT_COLUMNS, { value: payment, text: lines.join('') });
    }),
  );
  const decide = command.command('decide');
  decide
    .description('closes a payment without a known outcome by what you have seen on the chain')
    .argument('<id>', 'id or nonce')
    .option('--transaction <hash>', 'this transaction has moved the money, which becomes credit')
    .option('--not-settled', 'no money has moved')
    .option('--force', 'with --not-settled: also while the signature is valid and money can still move')
    .action(async (id: string, { force, notSettled }: { force?: true; notSettled?: true }) =>
      runAction(decide, io, async (adminService) => {
        const flags = { ...(notSettled && { not_settled: true }), ...(force && { force: true }) };
        const payment = await adminService.decidePayment(id, { ...pick(decide, 'transaction'), ...flags });
        const { account, amount_usd: usd, state } = payment;
        const text = state === 'settled' ? `${usd} USD are credit of ${account}\n` : `closed: no money has moved\n`;
        return answer([payment], PAYMENT_COLUMNS, { value: payment, text });
      }),
    );
}
