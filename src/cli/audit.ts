// `headrace audit`: proves that the books add up to zero; exit code 1 when they do not.

import { AUDIT_COLUMNS } from '../admin/index.ts';
import { type Action, answer, runAction } from './account-command.ts';

const AUDIT: Action = {
  flags: [],
  async run(adminService) {
    const report = await adminService.audit();
    const counts = `${report.movements} movements, ${report.accounts} accounts, ${report.open_holds} open holds`;
    const verdict = report.sound ? 'sound' : 'NOT SOUND';
    const text = `${verdict}: all entries add up to ${report.sum_usd} USD; ${counts}\n`;
    return answer([report], AUDIT_COLUMNS, {
      value: report,
      text: text + report.problems.map((problem) => `  ${problem}\n`).join(''),
      exitCode: report.sound ? 0 : 1,
    });
  },
};

export async function audit(flags: Readonly<Record<string, string>>, words: readonly string[]): Promise<number> {
  return runAction('audit', AUDIT, flags, words);
}
