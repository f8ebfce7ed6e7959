// `headrace keys`: creates, lists, edits, disables and rotates the API keys of accounts. A key is printed once, when it is created.

import type { Command } from 'commander';
import { type Column, KEY_COLUMNS, LISTS, type NewKeyView, type RotationView, textColumn } from '../admin/index.ts';
import { counted } from '../config/units.ts';
import { addAccountOptions, addPageOptions, type Answer, answer, pick, runAction, runList } from './account-command.ts';
import type { CliIo } from './io.ts';

const NEW_KEY_COLUMNS: readonly Column<NewKeyView>[] = [textColumn('key', ({ key }) => key), ...KEY_COLUMNS];

const DESCRIPTION = `API keys of accounts. A key is shown once, when it is created; the store keeps its SHA-256 and its first
characters. Running gateways apply a change within about a second.`;

const EXAMPLE = `
For example
  KEY=$(headrace keys create --account acme --expires 90d --monthly 25.00 --quiet)`;

export function configureKeys(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).addHelpText('after', EXAMPLE);
  addAccountOptions(command);
  const create = command.command('create').description('creates a key, and the account if it is new');
  create
    .option('--account <name>', 'who pays')
    .option('--label <text>', 'for people')
    .option('--expires <when>', 'from now (30d, 12h) or a date (2030-01-31, in UTC, or with a time); default never')
    .option('--running <n>', 'most requests at the same time')
    .option('--rpm <n>', 'most requests a minute')
    .option('--tpm <n>', 'most tokens a minute')
    .option('--monthly <usd>', 'most money in a calendar month (UTC), such as 25.00')
    .option('--quiet', 'prints the key and nothing else')
    .action(async ({ quiet = false }: { quiet?: boolean }) =>
      runAction(create, io, async (adminService) => {
        const fields = pick(create, 'account', 'label', 'expires', 'running', 'rpm', 'tpm', 'monthly');
        return answerOf(await adminService.createKey(fields), quiet, '');
      }),
    );
  const list = command.command('list').description('lists keys');
  list
    .option('--account <name>', 'only the keys of this account')
    .action(async () =>
      runList(list, io, LISTS.keys, pick(list, 'account', 'limit', 'cursor'), (adminService, asked) =>
        adminService.listKeys(asked),
      ),
    );
  addPageOptions(list);
  const edit = command.command('edit').description('changes a key in place; what is not named stays');
  edit
    .argument('<id>', 'id of the key')
    .option('--label <text>', 'for people')
    .option('--expires <when>', 'from now (30d, 12h), a date, or never')
    .option('--running <n>', 'most requests at the same time, or none for no limit')
    .option('--rpm <n>', 'most requests a minute, or none')
    .option('--tpm <n>', 'most tokens a minute, or none')
    .option('--monthly <usd>', 'most money in a calendar month (UTC), or none')
    .action(async (id: string) =>
      runAction(edit, io, async (adminService) => {
        const fields = pick(edit, 'label', 'expires', 'running', 'rpm', 'tpm', 'monthly');
        const key = await adminService.editKey(id, fields);
        return answer([key], KEY_COLUMNS, { value: key });
      }),
    );
  const disable = command.command('disable').description('disables a key for good');
  disable.argument('<id>', 'id of the key').action(async (id: string) =>
    runAction(disable, io, async (adminService) => {
      const key = await adminService.disableKey(id);
      return answer([key], KEY_COLUMNS, { value: key, text: `${key.id} (${key.prefix}…) is disabled\n` });
    }),
  );
  const rotate = command.command('rotate');
  rotate
    .description('creates a key with the account, label and limits of an old one, which stays valid for a while')
    .argument('<id>', 'id of the old key')
    .option('--grace <time>', 'how long the old key stays valid, default 24h; 0s disables it now')
    .option('--expires <when>', 'end of the new key; default: when the old one would have ended')
    .option('--quiet', 'prints the key and nothing else')
    .action(async (id: string, { quiet = false }: { quiet?: boolean }) =>
      runAction(rotate, io, async (adminService) => {
        const created = await adminService.rotateKey(id, pick(rotate, 'grace', 'expires'));
        return answerOf(created, quiet, replaced(created));
      }),
    );
}

/** A new key, alone on the first line. */
function answerOf(created: NewKeyView, isQuiet: boolean, note: string): Answer {
  const limits = [
    created.running === null ? '' : `, ${counted(created.running, 'request')} at the same time`,
    created.rpm === null ? '' : `, ${counted(created.rpm, 'request')} a minute`,
    created.tpm === null ? '' : `, ${counted(created.tpm, 'token')} a minute`,
    created.monthly_usd === null ? '' : `, ${created.monthly_usd} USD a month`,
  ].join('');
  const end = created.expires_at === null ? 'does not expire' : `until ${created.expires_at}`;
  const about = `${created.id} of account ${created.account}, ${end}${limits}\n${note}The key is shown this once only.\n`;
  const text = isQuiet ? `${created.key}\n` : `${created.key}\n${about}`;
  return answer([created], NEW_KEY_COLUMNS, { value: created, text });
}

function replaced({ replaces, replaced_until: until }: RotationView): string {
  return `${replaces} goes on until ${until ?? 'it is disabled'}\n`;
}
