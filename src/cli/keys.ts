// `headrace keys`: makes, lists, stops and replaces the keys of accounts. A key is printed when it is made and never again.

import { type Column, KEY_COLUMNS, type NewKeyView, type RotationView } from '../admin/index.ts';
import { UsageError } from './args.ts';
import { type Action, type Answer, answer, pick, runAction } from './account-command.ts';

const NEW_KEY_COLUMNS: readonly Column<NewKeyView>[] = [
  { head: 'key', cell: ({ key }) => key, isNumber: false, csvOnly: false },
  ...KEY_COLUMNS,
];

const ACTIONS: Readonly<Record<string, Action>> = {
  create: {
    flags: ['account', 'label', 'expires', 'rpm', 'tpm', 'monthly', 'quiet'],
    async run(adminService, call) {
      const made = await adminService.createKey(pick(call, 'account', 'label', 'expires', 'rpm', 'tpm', 'monthly'));
      return handedOut(made, call.fields['quiet'] !== undefined, '');
    },
  },
  list: {
    flags: ['account'],
    run: async (adminService, call) => answer(await adminService.listKeys(pick(call, 'account')), KEY_COLUMNS),
  },
  disable: {
    flags: [],
    words: ['ID'],
    async run(adminService, { words: [id = ''] }) {
      const key = await adminService.disableKey(id);
      return answer([key], KEY_COLUMNS, { value: key, text: `${key.id} (${key.prefix}…) is disabled\n` });
    },
  },
  rotate: {
    flags: ['grace', 'expires', 'quiet'],
    words: ['ID'],
    async run(adminService, call) {
      const made = await adminService.rotateKey(call.words[0] ?? '', pick(call, 'grace', 'expires'));
      return handedOut(made, call.fields['quiet'] !== undefined, replaced(made));
    },
  },
};

export async function keys(flags: Readonly<Record<string, string>>, words: readonly string[]): Promise<number> {
  const [name = '', ...rest] = words;
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name] : undefined;
  if (action === undefined) throw new UsageError(`headrace keys does one of: ${Object.keys(ACTIONS).join(', ')}`);
  return runAction(`keys ${name}`, action, flags, rest);
}

/** The key alone on the first line, or on the only one. */
function handedOut(made: NewKeyView, isQuiet: boolean, note: string): Answer {
  const limits = [
    made.rpm === null ? '' : `, ${made.rpm} requests a minute`,
    made.tpm === null ? '' : `, ${made.tpm} tokens a minute`,
    made.monthly_usd === null ? '' : `, ${made.monthly_usd} USD a month`,
  ].join('');
  const end = made.expires_at === null ? 'does not expire' : `until ${made.expires_at}`;
  const about = `${made.id} of account ${made.account}, ${end}${limits}\n${note}The key is shown this once only.\n`;
  return answer([made], NEW_KEY_COLUMNS, { value: made, text: isQuiet ? `${made.key}\n` : `${made.key}\n${about}` });
}

function replaced({ replaces, replaced_until: until }: RotationView): string {
  return `${replaces} goes on until ${until ?? 'it is disabled'}\n`;
}
