// `headrace webhooks`: secrets for the configuration, deliveries, and repeats of deliveries.

import { randomBytes } from 'node:crypto';
import { type Command, Option } from 'commander';
import { LISTS, textColumn } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, answer, pick, runAction, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Webhooks: deliveries of events to the endpoints of the configuration.`;

const EXAMPLE = `
For example
  headrace webhooks list --state failed
  headrace webhooks redeliver msg_2b1f --endpoint billing`;

/** Standard Webhooks: 24 to 64 bytes. */
const SECRET_BYTES = 32;

export function configureWebhooks(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  const secret = command.command('secret').description('prints a new secret for webhooks.endpoints.NAME.secret');
  secret.action(() => void io.stdout.write(`whsec_${randomBytes(SECRET_BYTES).toString('base64')}\n`));
  const list = command.command('list').description('lists deliveries, the newest first');
  list
    .option('--endpoint <name>', 'only deliveries to this endpoint')
    .addOption(
      new Option('--state <state>', 'only deliveries in this state').choices(['pending', 'delivered', 'failed']),
    )
    .action(async () => {
      const fields = pick(list, 'endpoint', 'state', 'limit', 'cursor');
      await runList(list, io, LISTS.deliveries, fields, (adminService, asked) => adminService.deliveries(asked));
    });
  addPageOptions(list);
  addAccountOptions(list);
  const redeliver = command.command('redeliver').description('sends a message again');
  redeliver
    .argument('<message>', 'id of the message')
    .requiredOption('--endpoint <name>', 'where to')
    .action(async (message: string) =>
      runAction(redeliver, io, async (adminService) => {
        const due = await adminService.redeliver(message, pick(redeliver, 'endpoint'));
        const text = `${message} is sent to ${due.endpoint} again\n`;
        const columns = [textColumn('message', () => due.message), textColumn('endpoint', () => due.endpoint)];
        return answer([due], columns, { value: due, text });
      }),
    );
  addAccountOptions(redeliver);
}
