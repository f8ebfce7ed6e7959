// `headrace credits`: grants credit, shows balances and what moved them. Amounts are USD, shown in credits too.

import { ACCOUNT_COLUMNS, GRANT_COLUMNS, MOVEMENT_COLUMNS } from '../admin/index.ts';
import { UsageError } from './args.ts';
import { type Action, answer, pick, runAction } from './account-command.ts';

const ACTIONS: Readonly<Record<string, Action>> = {
  grant: {
    flags: ['id', 'memo'],
    words: ['ACCOUNT', 'AMOUNT_USD'],
    async run(adminService, call) {
      const [account = '', amount = ''] = call.words;
      const grant = await adminService.grant(account, { ...pick(call, 'id', 'memo'), amount });
      const money = `${grant.amount_usd} USD (${grant.amount_credits} credits)`;
      const text = [
        grant.repeated ? `grant ${grant.id} had been made before: nothing moved\n` : `granted ${money} to ${account}\n`,
        `balance ${grant.balance_usd} USD (${grant.balance_credits} credits), grant id ${grant.id}\n`,
      ].join('');
      return answer([grant], GRANT_COLUMNS, { value: grant, text });
    },
  },
  balance: {
    flags: [],
    optionalWords: ['ACCOUNT'],
    async run(adminService, { words: [id] }) {
      if (id === undefined) return answer(await adminService.listAccounts(), ACCOUNT_COLUMNS);
      const account = await adminService.account(id);
      return answer([account], ACCOUNT_COLUMNS, { value: account });
    },
  },
  history: {
    flags: ['limit', 'before'],
    words: ['ACCOUNT'],
    async run(adminService, call) {
      const [account = ''] = call.words;
      const movements = await adminService.history(account, pick(call, 'limit', 'before'));
      const oldest = movements.at(-1);
      const mayHaveMore = movements.length >= Number(call.fields['limit'] ?? 50);
      const note = mayHaveMore && oldest !== undefined ? `\nolder ones: --before ${oldest.seq}\n` : '';
      return answer(movements, MOVEMENT_COLUMNS, { note });
    },
  },
};

export async function credits(flags: Readonly<Record<string, string>>, words: readonly string[]): Promise<number> {
  const [name = '', ...rest] = words;
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  if (action === undefined) throw new UsageError(`headrace credits does one of: ${Object.keys(ACTIONS).join(', ')}`);
  return runAction(`credits ${name}`, action, flags, rest);
}
