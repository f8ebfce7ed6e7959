// `headrace admins`: tokens of operators for the configuration, and the log of what operators did.

import { randomBytes } from 'node:crypto';
import { type Command, Option } from 'commander';
import { ADMIN_ROLES, hashToken, LISTS } from '../admin/index.ts';
import { addAccountOptions, addPageOptions, pick, runList } from './account-command.ts';
import { type CliIo, UsageError } from './io.ts';

const DESCRIPTION = `Operators: their tokens and roles, and the log of admin acts. A viewer reads; an operator also runs accounts, keys and
servers; an owner also moves money.`;

const EXAMPLE = `
For example
  headrace admins token anna --role operator
  headrace admins log --subject key_469685ca31e8562c3b`;

const TOKEN_BYTES = 32;

/** As in `adminTokens.name`. */
const NAME = /^[\x21-\x7e]{1,128}$/;

export function configureAdmins(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  const token = command
    .command('token')
    .description('makes a token, and the lines of the configuration that accept it');
  token
    .argument('<name>', 'who holds it, as the log names them')
    .addOption(new Option('--role <role>', 'what it allows').choices(ADMIN_ROLES).default('viewer'))
    .action((name: string, { role }: { role: string }) => {
      if (!NAME.test(name)) throw new UsageError('a name is 1 to 128 visible ASCII characters without spaces');
      const made = `hra_${randomBytes(TOKEN_BYTES).toString('base64url')}`;
      const sha256 = hashToken(made).toString('hex');
      io.stdout.write(`${made}\n`);
      io.stderr.write(
        [
          'The token is shown this once only. In the configuration:',
          'adminTokens:',
          `  - name: ${JSON.stringify(name)}`,
          `    role: ${role}`,
          `    sha256: ${sha256}`,
          '',
        ].join('\n'),
      );
    });
  const log = command.command('log').description('lists acts of operators, the newest first');
  log
    .option('--actor <name>', 'only acts of this operator')
    .option('--action <name>', 'only acts of this kind, such as key.disable')
    .option('--subject <id>', 'only acts on this account, key or server')
    .option('--from <date>', 'first day in UTC (2030-01-01), or a time (2030-01-01T12:00:00Z)')
    .option('--to <date>', 'last day, included; or a time, not included')
    .action(async () => {
      const fields = pick(log, 'actor', 'action', 'subject', 'from', 'to', 'limit', 'cursor');
      await runList(log, io, LISTS.acts, fields, (adminService, asked) => adminService.acts(asked));
    });
  addPageOptions(log);
  addAccountOptions(log);
}
