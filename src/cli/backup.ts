// `headrace backup`: copies a store in a SQLite file while gateways use it.

import type { Command } from 'commander';
import { counted } from '../config/units.ts';
import { runOnLedger } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Copies the ledger into a new file while gateways use it, by the online backup of SQLite, and audits the copy. A
store on PostgreSQL is backed up by its own tools: see docs/operations.md.`;

export function configureBackup(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .argument('<file>', 'the new file')
    .option('--store <url>', 'sqlite:FILE; default HEADRACE_STORE')
    .option('-c, --config <file>', 'a configuration, of which only `store` is read; default sqlite:./headrace.db')
    .addHelpText(
      'after',
      '\nExit code 0: the copy is complete and sound, 1: it is not, with a sentence on standard error.',
    )
    .action(async (file: string) => {
      await runOnLedger(command, io, (ledger) => ledger.backUp(file));
      if (io.exitCode !== 0) return;
      await runOnLedger(
        command,
        io,
        async (copy) => {
          const { movements, problems, sound } = await copy.audit({ full: true });
          io.stdout.write(`${file}: ${counted(movements, 'movement')}, ${sound ? 'sound' : 'NOT SOUND'}\n`);
          for (const problem of problems) io.stderr.write(`  ${problem}\n`);
          io.exitCode = sound ? 0 : 1;
        },
        `sqlite:${file}`,
      );
    });
}
