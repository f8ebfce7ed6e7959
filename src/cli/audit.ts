// `headrace audit`: verifies that the ledger adds up to zero; exit code 1 when it does not.

import type { Command } from 'commander';
import { AUDIT_COLUMNS } from '../admin/index.ts';
import { counted } from '../config/units.ts';
import { addAccountOptions, answer, runAction } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Verifies the ledger: all accounts add up to zero; each has what its movements gave and its usage took; open holds
are the amounts on hold; the charges of every day are its usage; settled payments are posted once. Days that were
found sound are not read again unless their usage has changed. Exit code 1 when something does not add up, with a
line for each.`;

export function configureAudit(command: Command, io: CliIo): void {
  command
    .description(DESCRIPTION)
    .option('--full', 'reads the charges of all days again')
    .action(async () =>
      runAction(command, io, async (adminService) => {
        const { full = false } = command.opts<{ full?: boolean }>();
        const report = await adminService.audit(full ? { full: 'true' } : {});
        const counts = [
          counted(report.movements, 'movement'),
          counted(report.accounts, 'account'),
          counted(report.open_holds, 'open hold'),
        ].join(', ');
        const verdict = report.sound ? 'sound' : 'NOT SOUND';
        const text = `${verdict}: all accounts add up to ${report.sum_usd} USD; ${counts}\n`;
        return answer([report], AUDIT_COLUMNS, {
          value: report,
          text: text + report.problems.map((problem) => `  ${problem}\n`).join(''),
          exitCode: report.sound ? 0 : 1,
        });
      }),
    );
  addAccountOptions(command);
}
