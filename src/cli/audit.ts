// `headrace audit`: verifies that the ledger adds up to zero; exit code 1 when it does not.

import type { Command } from 'commander';
import { AUDIT_COLUMNS } from '../admin/index.ts';
import { addAccountOptions, answer, runAction } from './account-command.ts';
import type { CliIo } from './io.ts';

const DESCRIPTION = `Verifies the ledger: all entries add up to zero, as do those of each movement; balances equal their entries, open
holds the amounts on hold, usage the income; settled payments are booked once. Reads one moment and changes nothing.
Exit code 1 when something does not add up, with a line for each.`;

export function configureAudit(command: Command, io: CliIo): void {
  command.description(DESCRIPTION).action(async () =>
    runAction(command, io, async (adminService) => {
      const report = await adminService.audit();
      const counts = `${report.movements} movements, ${report.accounts} accounts, ${report.open_holds} open holds`;
      const verdict = report.sound ? 'sound' : 'NOT SOUND';
      const text = `${verdict}: all entries add up to ${report.sum_usd} USD; ${counts}\n`;
      return answer([report], AUDIT_COLUMNS, {
        value: report,
        text: text + report.problems.map((problem) => `  ${problem}\n`).join(''),
        exitCode: report.sound ? 0 : 1,
      });
    }),
  );
  addAccountOptions(command);
}
