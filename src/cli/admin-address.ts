// Where the admin listener of a running gateway is, and who asks it, for the commands that do.

import { Option } from 'commander';
import { httpUrl } from '../config/units.ts';
import { type CliIo, UsageError } from './io.ts';

/** The address that a gateway listens on by default. */
const DEFAULT_ADMIN = 'http://127.0.0.1:9090';

/** Environment variable of the admin token. */
export const TOKEN_VARIABLE = 'HEADRACE_ADMIN_TOKEN';

/** Which gateway a command asks. */
export function adminOption(): Option {
  return new Option('--admin <url>', 'the admin listener of the gateway').default(DEFAULT_ADMIN);
}

/** Who asks, where the command needs no more than to read. */
export function tokenOption(): Option {
  const description = `a token with the role viewer; better in ${TOKEN_VARIABLE}, which no list of processes shows`;
  return new Option('--token <token>', description);
}

/** The token of the option, else of the environment; '' for none. Throws a UsageError for what no header can hold. */
export function tokenOf(option: string | undefined, { env }: Pick<CliIo, 'env'>): string {
  const token = option ?? env[TOKEN_VARIABLE] ?? '';
  if (/^[\x21-\x7e]*$/.test(token)) return token;
  throw new UsageError('the admin token has spaces or characters that no token has: copy all of it again');
}

/** The URL of a path of the listener at `address`. Throws a UsageError for what is no URL without a query. */
export function adminUrl(address: string, path: string): string {
  const admin = /[?#]/.test(address) ? null : httpUrl(address);
  if (admin === null) throw new UsageError(`--admin takes the URL of an admin listener, such as ${DEFAULT_ADMIN}`);
  return admin.href.replace(/\/+$/, '') + path;
}
