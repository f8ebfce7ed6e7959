// Formats generated files as `npm run format` would.

import { readFileSync } from 'node:fs';
import { format } from 'oxfmt';

const { ignorePatterns: _, ...STYLE } = JSON.parse(readFileSync(new URL('../.oxfmtrc.json', import.meta.url), 'utf8'));

/** `text` in the style of this repository; the ending of `file` says in which language it is. Throws when it cannot be parsed. */
export async function formatted(file, text) {
  const { code, errors } = await format(file, text, STYLE);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0].message}`);
  return code;
}
